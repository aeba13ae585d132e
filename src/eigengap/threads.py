"""Independent pieces of work, spread over threads: NumPy and the kernels release the GIL."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")


def in_threads(fn: Callable[[T], R], items: Iterable[T], n_jobs: int | None) -> list[R]:
    """fn of every item, in order, in the context (`warn.listening`, np.errstate) of the caller.

    n_jobs is joblib's: None or 1 for no threads, -1 for one a core, -2 for one less, ...
    """
    if n_jobs == 0:
        raise ValueError("n_jobs=0 has no meaning; 1 is no threads, -1 is one a core")
    if n_jobs in (None, 1):
        return [fn(item) for item in items]
    workers = n_jobs if n_jobs > 0 else max((os.cpu_count() or 1) + 1 + n_jobs, 1)
    with ThreadPoolExecutor(max_workers=workers) as pool:
        running = [pool.submit(copy_context().run, fn, item) for item in items]
        return [one.result() for one in running]
