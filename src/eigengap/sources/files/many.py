"""Many files with the same columns, one after the other, as one table."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eigengap.exceptions import UnreadableError
from eigengap.sources.array import F4, F8
from eigengap.sources.files.csv.reader import CsvReader
from eigengap.sources.reader import Reader
from eigengap.sources.wording import quote
from eigengap.wording import words


class ManyReader(Reader):
    """The rows of several readers; their columns must agree in name and order."""

    def __init__(self, readers: Sequence[Reader], where: str) -> None:
        first = readers[0]
        for other in readers[1:]:
            _require_same_columns(first, other)
        agree_on_decimals([reader for reader in readers if isinstance(reader, CsvReader)])
        self.where = where
        self._readers = readers
        self.n_features, self.names = first.n_features, first.names
        self.dtype = F4 if all(r.dtype == F4 for r in readers) else F8
        self.long = np.any([np.broadcast_to(r.long, first.n_features) for r in readers], axis=0)
        counts = [reader.n_rows for reader in readers]
        known = [count for count in counts if count is not None]
        self.n_rows = sum(known) if len(known) == len(counts) else None
        self._starts: list[int] = []  # first row of each file, as far as it is known

    def pieces(self, rows: int) -> Iterator[NDArray[Any]]:
        row, starts = 0, []
        for reader in self._readers:
            starts.append(row)
            self._starts = max(self._starts, starts, key=len)
            for piece in reader.pieces(rows):
                row += len(piece)
                yield piece.astype(self.dtype, copy=False)

    def require_unchanged(self) -> None:
        for reader in self._readers:
            reader.require_unchanged()

    def place(self, row: int) -> str:
        starts = self._known_starts()
        index = bisect_right(starts, row) - 1
        if index < 0:
            return super().place(row)
        return self._readers[index].place(row - starts[index])

    def _known_starts(self) -> list[int]:
        starts, row = [], 0
        for reader in self._readers:
            starts.append(row)
            if reader.n_rows is None:
                break
            row += reader.n_rows
        return max(starts, self._starts, key=len)

    @property
    def bytes_per_pass(self) -> int | None:
        counts = [reader.bytes_per_pass for reader in self._readers]
        known = [count for count in counts if count is not None]
        return sum(known) if len(known) == len(counts) else None


def _require_same_columns(first: Reader, other: Reader) -> None:
    if first.names == other.names and first.n_features == other.n_features:
        return
    raise UnreadableError(
        other.where,
        f"its columns are not those of {words().path(first.where)}: "
        f"{_difference(first, other)}. Files "
        "that are read as one table have the same columns in the same order; "
        f"{words().parameter('columns')} chooses those that all of them have",
    )


def _difference(first: Reader, other: Reader) -> str:
    if (first.names is None) != (other.names is None):
        return "only one of them has column names"
    if first.n_features != other.n_features and (first.names is None or other.names is None):
        return f"{other.n_features} instead of {first.n_features}"
    assert first.names is not None
    assert other.names is not None
    for j, (ours, theirs) in enumerate(zip(first.names, other.names, strict=False)):
        if ours != theirs:
            return f"column {j} is {quote(theirs)} instead of {quote(ours)}"
    return f"{other.n_features} instead of {first.n_features}"


def agree_on_decimals(readers: Sequence[CsvReader]) -> None:
    """Refuse files whose decimal marks differ: next to 1,5 the text 1.500 is a thousand and a half.

    A file whose first rows show no mark, because all numbers are whole, follows the others.
    """
    marked = [reader for reader in readers if reader.dialect.mark is not None]
    if not marked:
        return
    first, mark = marked[0], marked[0].dialect.mark
    assert mark is not None
    for other in marked[1:]:
        if other.dialect.mark is not None and other.dialect.mark.decimal != mark.decimal:
            raise UnreadableError(
                other.where,
                f"{other.dialect.mark}, and in {words().path(first.where)} {mark}. Files that are "
                "read as one table have one decimal mark: write the numbers of all files in one "
                "way, or read the files apart",
            )
    for reader in readers:
        if reader.dialect.mark is None:
            reader.follow(mark.decimal)
