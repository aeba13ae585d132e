"""Threads of BLAS: they are the process's, so all who would have fewer keep one account.

OpenBLAS, called from k threads at once with a thread a core for each, spends its time waiting for
itself: eight fits side by side take several times as long as one after another. So passes over
rows are counted, and share the cores; work on small matrices, and Dask's tasks, ask for fewer
besides. The least that anybody asks for holds while he is there, whatever the order in which
threads come and go, and when the last has left there is again what the first has found. Two
accounts would not do: where they overlap, one restores what the other had set.

Where BLAS is built upon OpenMP a limit holds for the Python thread that sets it, and each keeps its
own.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from typing import Any

from threadpoolctl import ThreadpoolController

from eigengap.runtime.control_groups import cpu_quota


class _Asked:
    """That somebody is inside; forgotten, however he left, when nobody holds it any more."""

    def __init__(self, threads: int | None) -> None:
        self.threads = threads  # that he would have at most; None for an equal share


class _Account:
    """Who is inside, and what he asks for."""

    def __init__(self, found: list[int], held: bool) -> None:
        self._lock = threading.RLock()  # what is forgotten may be so while it is held
        self._inside: dict[int, tuple[weakref.ref[_Asked], int | None]] = {}
        self._found = found  # threads of each library before any were taken away
        self._held = held  # whether some are taken away now
        self._leaving: set[int] = set()
        self.own = threading.local()  # .inside: this Python thread shares already

    def enter(self, asked: _Asked) -> int:
        """How many share now."""
        key = id(asked)
        with self._lock:
            if not self._held:
                self._found = [library.num_threads or 1 for library in _of_process()]
            self._leaving.discard(key)  # of one before, whose leaving was interrupted
            self._inside[key] = weakref.ref(asked, lambda _: self._leave(key)), asked.threads
            self._set()
            return sum(threads is None for _, threads in self._inside.copy().values())

    def leave(self, asked: _Asked) -> None:
        self._leave(id(asked))

    def _leave(self, key: int) -> None:
        with self._lock:
            if key in self._inside:
                self._leaving.add(key)
                self._set()
                del self._inside[key]  # only now: an interrupt before leaves it to be forgotten
                self._leaving.discard(key)

    def _set(self) -> None:
        """Give to each library what is its own, or less where somebody asks for it."""
        all_ = max(self._found, default=1)
        most = self._most(all_)
        while self._held or most < all_:
            self._held = True  # until it is known to be otherwise
            for library, threads in zip(_of_process(), self._found, strict=True):
                _give(library, min(threads, most))
            given, most = most, self._most(all_)
            if given == most:  # else somebody was forgotten meanwhile
                self._held = most < all_
                return

    def _most(self, all_: int) -> int:
        asked = [
            threads for key, (_, threads) in self._inside.copy().items() if key not in self._leaving
        ]
        wishes = [threads for threads in asked if threads is not None]
        # BLAS knows of affinity, but not of what the container grants.
        granted = min(all_, cpu_quota()) if asked else all_
        return max(1, min([*wishes, int(granted) // max(1, len(asked) - len(wishes))]))

    def after_fork(self) -> _Account:
        """In a child, where nobody is inside: the first who comes and goes gives all back."""
        return _Account(self._found, self._held)


_account = _Account([], held=False)


def one_blas_thread() -> AbstractContextManager[None]:
    """Hold BLAS to one thread: on matrices of a hundred columns a second one only waits."""
    return at_most(1)


@contextmanager
def at_most(threads: int) -> Iterator[None]:
    """Hold BLAS to so many threads; a limit that is lower already stays."""
    account, asked = _account, _Asked(threads)
    try:
        account.enter(asked)
        with _own_at_most(threads):
            yield
    finally:
        account.leave(asked)


@contextmanager
def sharing() -> Iterator[None]:
    """Be counted as one of the Python threads that use BLAS now: each has an equal share."""
    account = _account
    if getattr(account.own, "inside", False):
        yield
        return
    asked = _Asked(None)
    try:
        sharers = account.enter(asked)
        account.own.inside = True
        with _own_at_most(cores() // sharers):
            yield
    finally:
        account.own.inside = False
        account.leave(asked)


@contextmanager
def _own_at_most(threads: int) -> Iterator[None]:
    """The same for libraries whose limits are each Python thread's own."""
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

    Recent threadpoolctl lets the Python thread that sets them first be the only one that may,
    until it says that it is done. The last of ours to leave may be another.
    """
    library.set_num_threads(threads)
    done = getattr(library, "clear_controlling_thread", None)
    if done is not None:
        done()


def threads() -> int:
    """Threads that BLAS may use now: one limit (threadpoolctl, joblib, OMP_*) rules all."""
    return max(1, min([cores(), *(library.num_threads or 1 for library in libraries())]))


def cores() -> int:
    """Cores that this process may use: by its affinity, and by the quota of its container."""
    if hasattr(os, "sched_getaffinity"):
        count = len(os.sched_getaffinity(0))
    else:
        count = os.cpu_count() or 1
    return int(min(count, cpu_quota()))


@cache
def libraries() -> list[Any]:
    """The BLAS libraries of this process, as threadpoolctl controls them."""
    import scipy.linalg  # noqa: F401 - brings a BLAS of its own, which must be there to be held

    return list(ThreadpoolController().select(user_api="blas").lib_controllers)


@cache
def _of_process() -> list[Any]:
    return [library for library in libraries() if not _is_each_threads_own(library)]


@cache
def _of_thread() -> list[Any]:
    return [library for library in libraries() if _is_each_threads_own(library)]


def _is_each_threads_own(library: Any) -> bool:
    return getattr(library, "threading_layer", None) == "openmp"


def _forget() -> None:
    """In a forked child: the parent's threads are not there, and its lock may have been held."""
    global _account
    _account = _account.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
