"""Sharing columns among threads of this process without oversubscribing the machine.

Compiled kernels release the interpreter's lock and run in ordinary Python threads, not in numba's
own threading layer: numba's `workqueue` layer aborts the process when two Python threads enter it
at once, and OpenMP pools do not survive a fork.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from eigengap.runtime.blas import cores, threads
from eigengap.runtime.threads import threads_for

_lock = threading.Lock()
_pool: ThreadPoolExecutor | None = None
_callers = 0  # Python threads that are inside `over_columns`


def allowed() -> int:
    """As many threads as BLAS may use now: one limit rules both."""
    asked = os.environ.get("NUMBA_NUM_THREADS", "")
    return max(1, min(threads(), int(asked))) if asked.isdigit() else threads()


def workers_for(n_jobs: int | None) -> int:
    """As many threads as are asked for; by default as many as BLAS may use."""
    return allowed() if n_jobs is None else threads_for(n_jobs)


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
            workers = max(1, cores() - 1)
            _pool = ThreadPoolExecutor(workers, thread_name_prefix="eigengap")
        return _pool


def _forget() -> None:
    """In a forked child: the parent's threads are not there, and its lock may have been held."""
    global _lock, _pool, _callers
    _lock, _pool, _callers = threading.Lock(), None, 0


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
