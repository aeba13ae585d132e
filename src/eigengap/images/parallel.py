"""Pieces of work side by side, each with one thread of BLAS.

Matrices of a few hundred rows are too small for BLAS to share among threads, and its threads wait
for each other at great cost; whole components and whole tiles of patches are shared instead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

from eigengap.blas import one_blas_thread
from eigengap.compiled.threads import allowed
from eigengap.threads import in_threads

T = TypeVar("T")
R = TypeVar("R")


def in_parallel(fn: Callable[[T], R], items: Iterable[T]) -> list[R]:
    """fn of every item, in order, on as many threads as BLAS is allowed."""
    workers = allowed()
    with one_blas_thread():
        return in_threads(fn, items, workers)


def few_at_a_time(fn: Callable[[T], R], items: Sequence[T]) -> Iterator[R]:
    """The same, one after the other, with no more results in memory than there are threads."""
    step = allowed()
    for start in range(0, len(items), step):
        yield from in_parallel(fn, items[start : start + step])
