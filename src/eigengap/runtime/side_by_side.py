"""Several pieces of work at a time, each by a thread of its own with one thread of BLAS.

Products with a block of a table, or with a patch of a picture, are thin, and two threads of BLAS in
one of them wait for each other; in two of them they do not. What is made of the pieces comes out in
their order, whoever is done first, so that nothing depends on the number of threads. What learns
from one block to the next is asked for `in_turn`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from itertools import chain
from typing import Any, TypeVar

from eigengap.runtime.blas import one_blas_thread, threads

B = TypeVar("B")
T = TypeVar("T")

MOST = 8  # blocks, and what is made of them, that are held at a time
WIDE = 1024  # columns from which on products are thick enough for several threads of BLAS


_in_turn: ContextVar[bool] = ContextVar("in_turn", default=False)


@contextmanager
def in_turn() -> Iterator[None]:
    """One block after another here, for functions that remember the blocks before."""
    token = _in_turn.set(True)
    try:
        yield
    finally:
        _in_turn.reset(token)


def in_order(fn: Callable[[B], T], blocks: Iterator[B], d: int = 0) -> Generator[T, None, None]:
    """fn(block) of every block of d columns; a lone or wide one has all threads of BLAS."""
    several = 1 if _in_turn.get() else min(MOST, threads())  # before `blocks` take threads
    with closed_at_end(blocks):
        first = next(blocks, None)
        second = None if first is None else next(blocks, None)
        every = chain(_present(first, second), blocks)
        del first
        if second is None or several == 1 or d >= WIDE:
            yield from map(fn, every)
            return
        del second
        with one_blas_thread(), ThreadPoolExecutor(several, "eigengap-block") as pool:
            yield from _spread(fn, every, several, pool)


@contextmanager
def closed_at_end(blocks: Iterator[Any]) -> Iterator[None]:
    """Close the blocks in the end: whoever keeps an exception would keep their threads too."""
    try:
        yield
    finally:
        close = getattr(blocks, "close", None)
        if close is not None:
            close()


def _present(*blocks: Any) -> Iterator[Any]:
    return (block for block in blocks if block is not None)


def _spread(
    fn: Callable[[B], T], blocks: Iterator[B], several: int, pool: ThreadPoolExecutor
) -> Iterator[T]:
    running: deque[Future[T]] = deque()
    try:
        for block in blocks:
            running.append(pool.submit(copy_context().run, fn, block))
            del block  # or it would be held while the next one is waited for
            if len(running) == several:
                yield running.popleft().result()
        while running:
            yield running.popleft().result()
    finally:  # on an error, or where nobody wants the rest
        for one in running:
            one.cancel()
