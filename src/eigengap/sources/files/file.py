"""What all readers of a file share: the file must stay what it was when it was opened.

A fit reads a file many times. One that is written to meanwhile would give every pass another
table, so size and time of writing are compared before and after each pass, and before what an
earlier pass has found is used again.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from stat import S_ISDIR
from typing import Any

from numpy.typing import NDArray

from eigengap.exceptions import UnreadableError
from eigengap.sources.reader import Reader


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
