"""Independent pieces of work, spread over threads: NumPy and the kernels release the GIL."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import TypeVar

from eigengap.runtime.blas import cores

T = TypeVar("T")
R = TypeVar("R")


def threads_for(n_jobs: int) -> int:
    """How many threads n_jobs asks for, in joblib's sense: -1 is one a core, -2 one less, ..."""
    if n_jobs == 0:
        raise ValueError("n_jobs=0 has no meaning; 1 is no threads, -1 is one a core")
    return n_jobs if n_jobs > 0 else max(cores() + 1 + n_jobs, 1)


def in_threads(fn: Callable[[T], R], items: Iterable[T], n_jobs: int | None) -> list[R]:
    """fn of every item, in order, in the context (`warn.listening`, np.errstate) of the caller.

    n_jobs as in `threads_for`; None is no threads.
    """
    workers = 1 if n_jobs is None else threads_for(n_jobs)
    if workers == 1:
        return [fn(item) for item in items]
    with ThreadPoolExecutor(max_workers=workers) as pool:
        running = [pool.submit(copy_context().run, fn, item) for item in items]
        return [one.result() for one in running]
