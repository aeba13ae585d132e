"""Tables that are read from the first row to the last, as often as needed: a file, or many.

A new format is a new file in `sources/files` that implements `Reader`; `sources.streamed` cuts into
blocks, validates, counts and reads ahead.

A fit reads a file many times, and every pass must find the same table. So size and time of writing
are compared before and after each pass, and before results of an earlier pass are used again.
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
    n_rows : number of rows, None where they have to be read to be counted
    long : whether columns, all or each (d,), are stored as 64-bit integers
    """

    where: str
    n_features: int
    names: tuple[str, ...] | None
    dtype: np.dtype[Any]
    n_rows: int | None
    long: Any = False

    @abstractmethod
    def pieces(self, rows: int) -> Iterator[NDArray[Any]]:
        """Consecutive rows (c, d), c about `rows` at most where the format allows; NaN is missing.

        The caller keeps what is yielded: it must not be overwritten later. Closing the iterator
        closes the file. A cell that cannot be read raises `UnreadableError`.
        """

    def require_unchanged(self) -> None:  # noqa: B027, a medium may be unable to change
        """Raise `UnreadableError` where the medium has changed since it was opened."""

    def place(self, row: int) -> str:
        """How messages name a row of the table: for many files, the file and the row in it."""
        return f"row {words().number(row)} of {words().path(self.where)}"

    @property
    def bytes_per_pass(self) -> int | None:
        """Bytes that a pass reads from the medium, None where that is not known."""
        return None


@dataclass(frozen=True)
class Stamp:
    """Facts that change when a file or folder is written to."""

    size: int  # bytes
    written: int  # nanoseconds
    number: int  # inode: another file may have got the same name
    parts: int = 1  # files in a folder

    @classmethod
    def of(cls, path: Path) -> Stamp:
        status = path.stat()
        if not S_ISDIR(status.st_mode):
            return cls(status.st_size, status.st_mtime_ns, status.st_ino)
        found = [part.stat() for part in path.rglob("*") if part.is_file()]
        written = max((part.st_mtime_ns for part in found), default=0)
        return cls(sum(part.st_size for part in found), written, status.st_ino, len(found))


def require_stamp(path: Path, stamp: Stamp, where: str) -> None:
    """Refuse a file or folder that has changed since it had this stamp."""
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
    """A table in one file, which is closed between passes."""

    def __init__(self, path: Path) -> None:
        self.where = str(path)
        self._path = path
        self._stamp = Stamp.of(path)

    @abstractmethod
    def _pieces(self, rows: int) -> Iterator[NDArray[Any]]:
        """The rows of `pieces`, from a file that is known to be unchanged."""

    def pieces(self, rows: int) -> Iterator[NDArray[Any]]:
        self.require_unchanged()
        yield from self._pieces(rows)
        self.require_unchanged()

    @property
    def bytes_per_pass(self) -> int | None:
        return self._stamp.size

    def require_unchanged(self) -> None:
        require_stamp(self._path, self._stamp, self.where)
