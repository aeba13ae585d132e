"""A table that is read from its first row to its last, as often as asked: a file, or many.

A new format is a new file in `sources/files` that implements `Reader`; cutting into blocks,
validating, counting and reading ahead are `sources.stream`'s.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from stat import S_ISDIR
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eigengap.exceptions import UnreadableError
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


@dataclass(frozen=True)
class Stamp:
    """What changes when a file is written to."""

    size: int  # bytes
    written: int  # nanoseconds
    number: int  # of the file itself: another one may have come under the same name
    parts: int = 1  # files, where it is a folder

    @classmethod
    def of(cls, path: Path) -> Stamp:
        status = path.stat()
        if S_ISDIR(status.st_mode):
            return cls._of_folder(path, status.st_ino)
        return cls(status.st_size, status.st_mtime_ns, status.st_ino)

    @classmethod
    def _of_folder(cls, path: Path, number: int) -> Stamp:
        """Of a store of chunks: all files in it together."""
        found = [part.stat() for part in path.rglob("*") if part.is_file()]
        written = max((status.st_mtime_ns for status in found), default=0)
        return cls(sum(status.st_size for status in found), written, number, len(found))


def require_stamp(path: Path, stamp: Stamp, where: str) -> None:
    """Refuse a file, or a folder, that is not what it was when it had this stamp."""
    try:
        now = Stamp.of(path)
    except FileNotFoundError:
        raise UnreadableError(where, "it has gone since it was opened") from None
    if now == stamp:
        return
    if now.size == stamp.size:
        change = "was written to"
    else:
        change = f"went from {stamp.size} to {now.size} bytes"
    raise UnreadableError(
        where,
        f"it {change} since it was opened, and every pass must see the same rows. Let nothing "
        "write to it, or work on a copy",
    )


class FileReader(Reader):
    """A table in one file. Nothing is held open between passes."""

    def __init__(self, path: Path) -> None:
        self.where = str(path)
        self._path = path
        self._stamp = Stamp.of(path)

    @abstractmethod
    def _pieces(self, rows: int) -> Iterator[NDArray[Any]]:
        """What `pieces` yields, of a file that is known to be unchanged."""

    def pieces(self, rows: int) -> Iterator[NDArray[Any]]:
        self.require_unchanged()
        yield from self._pieces(rows)
        self.require_unchanged()

    @property
    def bytes_per_pass(self) -> int | None:
        return self._stamp.size

    def require_unchanged(self) -> None:
        require_stamp(self._path, self._stamp, self.where)
