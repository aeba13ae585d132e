"""Rows of raw numbers from a stream of bytes in C order, without a map of the file.

A mapped file that somebody cuts short kills the process that reads it; a read only comes short.
"""

from __future__ import annotations

from collections.abc import Iterator
from tokenize import TokenError
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from eigengap.exceptions import UnreadableError

# What NumPy raises where the header of an array is damaged: it is a line of Python.
DAMAGED = (ValueError, EOFError, SyntaxError, TypeError, KeyError, OverflowError, TokenError)
TILE = 1 << 20  # bytes that are converted together


class RawRows:
    """n rows of d numbers of one type, some columns of which become float."""

    def __init__(
        self,
        where: str,
        shape: tuple[int, ...],
        stored: np.dtype[Any],
        dtype: np.dtype[Any],
        chosen: list[int] | None,
    ) -> None:
        self.where, self.stored, self.dtype, self.chosen = where, stored, dtype, chosen
        self.n, self.d = shape
        self.n_features = self.d if chosen is None else len(chosen)

    def read(self, stream: BinaryIO, rows: int) -> Iterator[NDArray[Any]]:
        """The rows from where the stream stands, in blocks of `rows`."""
        direct = self.chosen is None and self.stored == self.dtype
        for start in range(0, self.n, rows):
            block = np.empty((min(rows, self.n - start), self.n_features), dtype=self.dtype)
            if direct:
                self._fill(stream, block, start)
            else:
                self._convert(stream, block, start)
            yield block

    def _convert(self, stream: BinaryIO, block: NDArray[Any], start: int) -> None:
        step = max(1, TILE // max(1, self.d * self.stored.itemsize))
        for at in range(0, len(block), step):
            part = block[at : at + step]
            raw = np.empty((len(part), self.d), dtype=self.stored)
            self._fill(stream, raw, start + at)
            with np.errstate(over="ignore"):  # what is too large becomes inf, refused later
                part[...] = raw if self.chosen is None else raw[:, self.chosen]

    def _fill(self, stream: BinaryIO, target: NDArray[Any], start: int) -> None:
        view = target.data.cast("B") if target.size else memoryview(b"")
        got = 0
        while got < len(view):
            count = stream.readinto(view[got : got + TILE])  # type: ignore[attr-defined]
            if not count:
                row = start + got // max(1, self.d * self.stored.itemsize)
                raise UnreadableError(
                    self.where, f"it ends at row {row}, and {self.n} rows were expected: cut short"
                )
            got += count
