"""Sharing columns among threads of this process without oversubscribing the machine.

Compiled kernels release the interpreter's lock and run in ordinary Python threads, not in numba's
own threading layer: numba's `workqueue` layer aborts the process when two Python threads enter it
at once, and OpenMP pools do not survive a fork.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

from threadpoolctl import ThreadpoolController

_lock = threading.Lock()
_pool: ThreadPoolExecutor | None = None
_blas: ThreadpoolController | None = None
_callers = 0  # Python threads that are inside `over_columns`
_holding = 0  # Python threads that are inside `one_blas_thread`
_released: list[int] = []  # threads of each BLAS before the first of them came


def allowed() -> int:
    """As many threads as BLAS may use now: one limit (threadpoolctl, joblib, OMP_*) rules both."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    limits = [cores or 1, *(library.num_threads or 1 for library in _controllers())]
    asked = os.environ.get("NUMBA_NUM_THREADS", "")
    return max(1, min([*limits, int(asked)] if asked.isdigit() else limits))


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Hold BLAS to one thread: on matrices of a hundred columns a second one only waits.

    The limit is the process's, so it is counted: the first to enter sets it, the last to leave
    restores it, whatever the order in which Python threads come and go.
    """
    global _holding, _released
    blas = _controllers()
    with _lock:
        _holding += 1
        if _holding == 1:
            _released = [library.num_threads or 1 for library in blas]
            for library in blas:
                library.set_num_threads(1)
    try:
        yield
    finally:
        with _lock:
            _holding -= 1
            if _holding == 0:
                for library, threads in zip(blas, _released, strict=True):
                    library.set_num_threads(threads)


def _controllers() -> list[Any]:
    global _blas
    with _lock:
        if _blas is None:
            _blas = ThreadpoolController().select(user_api="blas")
    return list(_blas.lib_controllers)


def over_columns(work: Callable[[int, int], int], c: int, grain: int) -> int:
    """Run work(start, stop) over 0 .. c in pieces of whole grains; the smallest result >= 0, or -1.

    A piece never depends on the number of threads, and the caller works too, so that nothing waits
    for a thread that others keep busy.
    """
    global _callers
    with _lock:
        _callers += 1
        sharers = _callers
    try:
        threads = min(max(1, allowed() // sharers), -(-c // grain))
        if threads == 1:
            return work(0, c)
        size = grain * max(1, c // (grain * threads * 4))
        pieces = deque((start, min(start + size, c)) for start in range(0, c, size))
        helpers = [_executor().submit(_drain, work, pieces) for _ in range(threads - 1)]
        found = _drain(work, pieces)
        found += [bad for helper in helpers if not helper.cancel() for bad in helper.result()]
        return min(found, default=-1)
    finally:
        with _lock:
            _callers -= 1


def _drain(work: Callable[[int, int], int], pieces: deque[tuple[int, int]]) -> list[int]:
    found: list[int] = []
    while True:
        try:
            start, stop = pieces.popleft()  # atomic
        except IndexError:
            return found
        bad = work(start, stop)
        if bad >= 0:
            found.append(bad)


def _executor() -> ThreadPoolExecutor:
    global _pool
    with _lock:
        if _pool is None:
            workers = max(1, (os.cpu_count() or 2) - 1)
            _pool = ThreadPoolExecutor(workers, thread_name_prefix="eigengap")
        return _pool


def _forget() -> None:
    """In a forked child: the parent's threads are not there, and its lock may have been held."""
    global _lock, _pool, _callers, _holding
    _lock, _pool, _callers, _holding = threading.Lock(), None, 0, 0


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
