"""Lines of a CSV file that are no rows: what a logger writes above its table, and comments.

They are read as empty lines, which are no rows either, so that every row keeps the number of its
line.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from numbers import Integral
from typing import Any

from eigengap.sources.files.csv.cells import MISSING_TEXTS
from eigengap.sources.files.csv.dialect import BOM, newline_of
from eigengap.sources.files.csv.rows import LONGEST_ROW
from eigengap.sources.wording import quote
from eigengap.wording import words

LEAST = 1 << 16  # bytes that are read together


@dataclass(frozen=True)
class SkippedLines:
    """Which lines are no rows: so many at the top, and all with a mark behind blanks at most."""

    first: int = 0
    mark: str | None = None

    @classmethod
    def of(cls, skip_rows: Any, comment: Any) -> SkippedLines:
        """From what a caller gives."""
        whole = isinstance(skip_rows, Integral) and not isinstance(skip_rows, bool)
        if not whole or skip_rows < 0:
            raise ValueError(
                f"skip_rows, the lines above the table, must be a whole number of at least 0, got "
                f"{skip_rows!r}"
            )
        if comment is not None and (not isinstance(comment, str) or not comment.strip()):
            raise ValueError(
                f'comment must be the text with which comments begin, such as "#", got {comment!r}'
            )
        return cls(int(skip_rows), comment)

    def __str__(self) -> str:
        parts = [words().parameter("skip_rows", self.first)] if self.first else []
        if self.mark is not None:
            parts.append(words().parameter("comment", quote(self.mark)))
        return " and ".join(parts)

    def __bool__(self) -> bool:
        return self.first > 0 or self.mark is not None


SKIP_NOTHING = SkippedLines()


class SkippingStream:
    """A stream of bytes in which skipped lines are empty."""

    def __init__(self, stream: Any, skipped: SkippedLines) -> None:
        self._stream, self._skipped = stream, skipped
        self._newline = b""
        self._ready, self._rest = b"", b""  # to be given out; a line that has not ended yet
        self._line = 1  # number of the line that comes next
        self.comments: set[int] = set()  # numbers of lines

    def read(self, size: int) -> bytes:
        """The next `size` bytes; fewer only at the end."""
        parts, count = [self._ready], len(self._ready)
        while count < size and (data := bytes(self._stream.read(max(size, LEAST)))):
            parts.append(self._whole_lines(data))
            count += len(parts[-1])
        if count < size:
            parts.append(self._emptied(self._rest))
            self._rest = b""
        found = b"".join(parts)
        self._ready = found[size:]
        return found[:size]

    def _whole_lines(self, data: bytes) -> bytes:
        if not self._newline:
            self._newline = newline_of(data)
        data = self._rest + data
        cut = len(data) if len(data) > LONGEST_ROW else data.rfind(self._newline) + 1
        self._rest = data[cut:]
        return self._emptied(data[:cut])

    def _emptied(self, data: bytes) -> bytes:
        """Whole lines, skipped ones without their contents."""
        mark = BOM if self._line == 1 and data.startswith(BOM) else b""
        found = self._without_comments(self._without_first(data[len(mark) :]))
        self._line += data.count(self._newline)
        return mark + found

    def _without_first(self, data: bytes) -> bytes:
        left = self._skipped.first - self._line + 1
        if left <= 0 or not data:
            return data
        stop = 0
        while left > 0 and stop < len(data):
            end = data.find(self._newline, stop)
            stop = len(data) if end < 0 else end + 1
            left -= 1
        return re.sub(rb"[^\r\n]+", b"", data[:stop]) + data[stop:]

    def _without_comments(self, data: bytes) -> bytes:
        if self._skipped.mark is None or (mark := self._skipped.mark.encode()) not in data:
            return data
        comment = _comment(mark, self._newline)
        line, at = self._line, 0

        def emptied(match: re.Match[bytes]) -> bytes:
            nonlocal line, at
            line += data.count(self._newline, at, match.start())
            at = match.start()
            self.comments.add(line)
            return b""

        return comment.sub(emptied, data)


def _comment(mark: bytes, newline: bytes) -> re.Pattern[bytes]:
    """Lines with the mark behind blanks.

    Not those whose first cell is a missing value such as #N/A, and where further tabs follow, which
    may separate cells, not those with a tab before the mark.
    """
    missing = b"|".join(re.escape(text.encode()) for text in sorted(MISSING_TEXTS - {""}))
    begin = rb"(?<![^" + newline + rb"])"
    mark = rb"(?!(?:" + missing + rb") *(?:[,;\t|\r\n]|\Z))" + re.escape(mark)
    alone = rb"[ \t]*" + mark + rb"[^\t\r\n]*(?=[\r\n]|\Z)"
    return re.compile(begin + rb"(?:" + alone + rb"| *" + mark + rb"[^\r\n]*)")
