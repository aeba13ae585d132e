"""A table that is read from its first row to its last, as often as asked: a file, or many.

A new format is a new file in `sources/files` that implements `Reader`; cutting into blocks,
validating, counting and reading ahead are `sources.stream`'s.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eigengap.wording import words


class Reader(ABC):
    """Rows in order, in pieces of any size.

    Attributes
    ----------
    where : how messages name the table, mostly its path
    n_features : number of columns that are read
    names : their names, or None where the table has none
    dtype : float32 or float64, what the pieces hold
    n_rows : number of rows, None where only reading tells
    long : whether columns, all or each (d,), are stored as integers of 64 bits
    """

    where: str
    n_features: int
    names: tuple[str, ...] | None
    dtype: np.dtype[Any]
    n_rows: int | None
    long: Any = False

    @abstractmethod
    def pieces(self, rows: int) -> Iterator[NDArray[Any]]:
        """Consecutive rows (c, d), c at most about `rows` where the format allows; NaN is a gap.

        What is yielded is the caller's to keep; it must not be overwritten later. Closing the
        iterator closes the file. A cell that cannot be read raises `UnreadableError` with the row
        (0-based, in this table) and the column's name.
        """

    def require_unchanged(self) -> None:  # noqa: B027, a medium may be unable to change
        """Raise `UnreadableError` where the medium is not what it was when it was opened."""

    def place(self, row: int) -> str:
        """How messages name a row of the table: for many files, the file and the row in it."""
        return f"row {row} of {words().path(self.where)}"

    @property
    def bytes_per_pass(self) -> int | None:
        """Bytes that a pass reads from the medium, None where that is not known."""
        return None
