"""Threads: how many there may be, limits on those of BLAS, and work done by several of them.

OpenBLAS, called from k Python threads at once with a thread per core each, spends its time waiting
for itself: eight concurrent fits take several times as long as one after another. So passes over
rows are counted and share the cores; work on small matrices and Dask's tasks ask for fewer threads
still. Limits of BLAS belong to the process, so one account holds all requests: the smallest request
applies while it lasts, in whatever order threads come and go, and the last to leave restores what
the first one found. With two accounts, one would restore what the other had set. Where BLAS is
built on OpenMP, a limit applies to the Python thread that sets it, and each thread keeps its own.

Compiled kernels release the interpreter's lock and run in ordinary Python threads, not in numba's
threading layer: numba's `workqueue` layer aborts the process when two Python threads enter it at
once, and OpenMP pools do not survive a fork.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar, copy_context
from functools import cache
from itertools import chain
from typing import Any, TypeVar

from threadpoolctl import ThreadpoolController

from eigengap.runtime import memory
from eigengap.runtime.memory import cores

T = TypeVar("T")
R = TypeVar("R")

MAX_BLOCKS = 8  # that are in memory at a time, each with what is computed from it
WIDE = 1024  # columns from which on one product keeps several threads of BLAS busy

# How many --------------------------------------------------------------------------------------


def blas_threads() -> int:
    """Threads that BLAS may use now (limits of threadpoolctl and joblib, OMP_NUM_THREADS)."""
    return max(1, min([cores(), *(library.num_threads or 1 for library in libraries())]))


def allowed_threads() -> int:
    """Threads that compiled kernels may use now: as many as BLAS, or NUMBA_NUM_THREADS."""
    asked = os.environ.get("NUMBA_NUM_THREADS", "")
    return max(1, min(blas_threads(), int(asked))) if asked.isdigit() else blas_threads()


def threads_for(n_jobs: int) -> int:
    """Threads for n_jobs in joblib's sense: -1 is one per core, -2 one less, ..."""
    if n_jobs == 0:
        raise ValueError("n_jobs=0 has no meaning; 1 is no threads, -1 is one a core")
    return n_jobs if n_jobs > 0 else max(cores() + 1 + n_jobs, 1)


def workers_for(n_jobs: int | None) -> int:
    """Threads for n_jobs; by default as many as compiled kernels may use."""
    return allowed_threads() if n_jobs is None else threads_for(n_jobs)


# Limits of BLAS --------------------------------------------------------------------------------


class _Request:
    """A request for at most so many threads, or for an equal share (None).

    It ends when nothing refers to it any more, however its owner was interrupted.
    """

    def __init__(self, threads: int | None) -> None:
        self.threads = threads


class _Account:
    """All requests that hold now."""

    def __init__(self, found: list[int], limited: bool) -> None:
        self._lock = threading.RLock()  # a request may be collected while the lock is held
        self._inside: dict[int, tuple[weakref.ref[_Request], int | None]] = {}
        self._found = found  # threads of each library before any limit
        self._limited = limited
        self._leaving: set[int] = set()
        self.own = threading.local()  # .inside: this Python thread shares already

    def enter(self, request: _Request) -> int:
        """Add a request; return how many share now."""
        key = id(request)
        with self._lock:
            if not self._limited:
                self._found = [library.num_threads or 1 for library in _of_process()]
            self._leaving.discard(key)  # of an earlier request whose end was interrupted
            self._inside[key] = weakref.ref(request, lambda _: self._leave(key)), request.threads
            self._set()
            return sum(threads is None for _, threads in self._inside.copy().values())

    def leave(self, request: _Request) -> None:
        self._leave(id(request))

    def _leave(self, key: int) -> None:
        with self._lock:
            if key in self._inside:
                self._leaving.add(key)
                self._set()
                del self._inside[key]  # last: after an interrupt the weak reference ends it
                self._leaving.discard(key)

    def _set(self) -> None:
        """Give each library its own number of threads, or fewer where requested."""
        all_ = max(self._found, default=1)
        most = self._most(all_)
        while self._limited or most < all_:
            self._limited = True  # until it is known not to be
            for library, threads in zip(_of_process(), self._found, strict=True):
                _give(library, min(threads, most))
            given, most = most, self._most(all_)
            if given == most:  # else a request was collected meanwhile
                self._limited = most < all_
                return

    def _most(self, all_: int) -> int:
        requests = [
            threads for key, (_, threads) in self._inside.copy().items() if key not in self._leaving
        ]
        limits = [threads for threads in requests if threads is not None]
        # BLAS respects affinity, but does not know the quota of a container.
        granted = min(all_, memory.cpu_quota()) if requests else all_
        return max(1, min([*limits, int(granted) // max(1, len(requests) - len(limits))]))

    def after_fork(self) -> _Account:
        """The account of a child, without requests: the first to leave restores all threads."""
        return _Account(self._found, self._limited)


_account = _Account([], limited=False)


def one_blas_thread() -> AbstractContextManager[None]:
    """Limit BLAS to one thread: on matrices of a hundred columns a second one only waits."""
    return at_most(1)


@contextmanager
def at_most(threads: int) -> Iterator[None]:
    """Limit BLAS to so many threads; a lower limit stays."""
    account, request = _account, _Request(threads)
    try:
        account.enter(request)
        with _own_at_most(threads):
            yield
    finally:
        account.leave(request)


@contextmanager
def sharing() -> Iterator[None]:
    """Count the caller among the Python threads that use BLAS now, each with an equal share."""
    account = _account
    if getattr(account.own, "inside", False):
        yield
        return
    request = _Request(None)
    try:
        sharers = account.enter(request)
        account.own.inside = True
        with _own_at_most(cores() // sharers):
            yield
    finally:
        account.own.inside = False
        account.leave(request)


@contextmanager
def _own_at_most(threads: int) -> Iterator[None]:
    """The same for libraries whose limits belong to each Python thread."""
    mine = _of_thread()
    found = [library.num_threads or 1 for library in mine]
    for library, most in zip(mine, found, strict=True):
        library.set_num_threads(max(1, min(most, threads)))
    try:
        yield
    finally:
        for library, most in zip(mine, found, strict=True):
            library.set_num_threads(most)


def _give(library: Any, threads: int) -> None:
    """Set the threads of one library of the process.

    In recent threadpoolctl only the Python thread that set them first may change them, until it
    declares that it is done. The last of ours to leave may be another one.
    """
    library.set_num_threads(threads)
    done = getattr(library, "clear_controlling_thread", None)
    if done is not None:
        done()


@cache
def libraries() -> list[Any]:
    """The BLAS libraries of this process, as threadpoolctl controls them."""
    import scipy.linalg  # noqa: F401 - loads a BLAS of its own, which has to be limited too

    return list(ThreadpoolController().select(user_api="blas").lib_controllers)


@cache
def _of_process() -> list[Any]:
    return [library for library in libraries() if not _is_openmp(library)]


@cache
def _of_thread() -> list[Any]:
    return [library for library in libraries() if _is_openmp(library)]


def _is_openmp(library: Any) -> bool:
    return getattr(library, "threading_layer", None) == "openmp"


# Work done by several threads ------------------------------------------------------------------


def in_threads(fn: Callable[[T], R], items: Iterable[T], n_jobs: int | None) -> list[R]:
    """fn of every item, in order, in the caller's context (captured warnings, np.errstate).

    n_jobs as in `threads_for`; None is no threads.
    """
    workers = 1 if n_jobs is None else threads_for(n_jobs)
    if workers == 1:
        return [fn(item) for item in items]
    with ThreadPoolExecutor(max_workers=workers) as pool:
        running = [pool.submit(copy_context().run, fn, item) for item in items]
        return [one.result() for one in running]


_in_turn: ContextVar[bool] = ContextVar("in_turn", default=False)


@contextmanager
def in_turn() -> Iterator[None]:
    """Have `in_order` take one block after another, for functions that remember earlier blocks."""
    token = _in_turn.set(True)
    try:
        yield
    finally:
        _in_turn.reset(token)


def in_order(fn: Callable[[T], R], blocks: Iterator[T], d: int = 0) -> Generator[R, None, None]:
    """fn(block) of every block of d columns, several at a time, in the order of the blocks.

    Products with a block are thin: two threads of BLAS in one product wait for each other, in two
    products they do not. So each block is computed by one thread, with one thread of BLAS; a single
    block, or wide ones, have all threads of BLAS. Results do not depend on the number of threads.
    """
    workers = 1 if _in_turn.get() else min(MAX_BLOCKS, blas_threads())  # before `blocks` take any
    with closed_at_end(blocks):
        first = next(blocks, None)
        second = None if first is None else next(blocks, None)
        every = chain((block for block in (first, second) if block is not None), blocks)
        is_single = second is None
        del first, second  # nor may this frame keep them in memory
        if is_single or workers == 1 or d >= WIDE:
            yield from map(fn, every)
            return
        with one_blas_thread(), ThreadPoolExecutor(workers, "eigengap-block") as pool:
            yield from _in_pool(fn, every, workers, pool)


@contextmanager
def closed_at_end(blocks: Iterator[Any]) -> Iterator[None]:
    """Close the blocks at the end: whoever keeps an exception would keep their threads too."""
    try:
        yield
    finally:
        close = getattr(blocks, "close", None)
        if close is not None:
            close()


def _in_pool(
    fn: Callable[[T], R], blocks: Iterator[T], workers: int, pool: ThreadPoolExecutor
) -> Iterator[R]:
    running: deque[Future[R]] = deque()
    try:
        for block in blocks:
            running.append(pool.submit(copy_context().run, fn, block))
            del block  # or it would stay in memory while the next one is waited for
            if len(running) == workers:
                yield running.popleft().result()
        while running:
            yield running.popleft().result()
    finally:  # after an error, or where the caller stops early
        for one in running:
            one.cancel()


_lock = threading.Lock()
_pool: ThreadPoolExecutor | None = None
_callers = 0  # Python threads that are inside `over_columns`


def over_columns(work: Callable[[int, int], int], c: int, grain: int) -> int:
    """Run work(start, stop) over 0 .. c in pieces of whole grains; the smallest result >= 0, or -1.

    A piece never depends on the number of threads, and the caller works too, so that nothing waits
    for a busy thread.
    """
    global _callers
    with _lock:
        _callers += 1
        sharers = _callers
    try:
        threads = min(max(1, allowed_threads() // sharers), -(-c // grain))
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
            _pool = ThreadPoolExecutor(max(1, cores() - 1), thread_name_prefix="eigengap")
        return _pool


def _after_fork() -> None:
    """In a child: the parent's threads do not exist there, and its locks may have been held."""
    global _account, _lock, _pool, _callers
    _account = _account.after_fork()
    _lock, _pool, _callers = threading.Lock(), None, 0


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
