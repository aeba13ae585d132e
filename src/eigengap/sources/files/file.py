"""What all readers of a file share: the file must stay what it was when it was opened.

A fit reads a file many times. One that is written to meanwhile would give every pass another
table, so size and time of writing are compared before and after each pass.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from eigengap.sources.reader import Reader, UnreadableError


@dataclass(frozen=True)
class Stamp:
    """What changes when a file is written to."""

    size: int  # bytes
    written: int  # nanoseconds

    @classmethod
    def of(cls, path: Path) -> Stamp:
        status = path.stat()
        return cls(status.st_size, status.st_mtime_ns)


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
        self._require_unchanged()
        yield from self._pieces(rows)
        self._require_unchanged()

    @property
    def bytes_per_pass(self) -> int | None:
        return self._stamp.size

    def _require_unchanged(self) -> None:
        try:
            now = Stamp.of(self._path)
        except FileNotFoundError:
            raise UnreadableError(self.where, "it has gone since it was opened") from None
        if now == self._stamp:
            return
        if now.size == self._stamp.size:
            change = "was written to"
        else:
            change = f"went from {self._stamp.size} to {now.size} bytes"
        raise UnreadableError(
            self.where,
            f"it {change} since it was opened, and every pass must see the same rows. Let nothing "
            "write to it, or work on a copy",
        )
