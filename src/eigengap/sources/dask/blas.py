"""Threads of BLAS while several tasks share a process.

A worker with k threads runs k tasks at a time, and each would let BLAS start a thread on every
core. So each is held to its share of the cores. A limit that is lower already (Dask's own
OMP_NUM_THREADS=1 for workers that a nanny starts) stays.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from threadpoolctl import ThreadpoolController

_lock = threading.Lock()
_inside = 0  # tasks that are at work in this process
_before: list[int] = []  # threads of each BLAS before the first of them came


@contextmanager
def shared_by(tasks: int) -> Iterator[None]:
    """Hold BLAS to the share of one of `tasks` at a time, while any of them is inside.

    The limit is the process's: the first to enter sets it, the last to leave restores it.
    """
    global _inside, _before
    most = max(1, cores() // max(1, tasks))
    libraries = _libraries()
    with _lock:
        _inside += 1
        if _inside == 1:
            _before = [library.num_threads or 1 for library in libraries]
            for library, threads in zip(libraries, _before, strict=True):
                library.set_num_threads(min(threads, most))
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            if _inside == 0:
                for library, threads in zip(libraries, _before, strict=True):
                    library.set_num_threads(threads)


def cores() -> int:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@cache
def _libraries() -> list[Any]:
    import scipy.linalg  # noqa: F401 - brings a BLAS of its own, which must be there to be held

    return list(ThreadpoolController().select(user_api="blas").lib_controllers)
