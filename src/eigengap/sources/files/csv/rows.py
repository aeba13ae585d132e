"""Cutting the bytes of a CSV file where a row ends, which a newline inside quotes is not.

Lines that are no rows, what a logger writes above its table and comments, are read as empty lines,
which are no rows either, so that every row keeps the number of its line.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np

from eigengap.exceptions import UnreadableError
from eigengap.sources.files.csv.cells import MISSING_TEXTS
from eigengap.sources.wording import quote
from eigengap.wording import words

LONGEST_ROW = 256 << 20  # bytes
LEAST = 1 << 16  # bytes that are read together where lines are skipped
QUOTE, SEPARATORS = b'"', b",;\t|"
BOM = b"\xef\xbb\xbf"


def newline_of(head: bytes) -> bytes:
    return b"\r" if b"\r" in head and b"\n" not in head else b"\n"


def row_chunks(
    read: Callable[[int], bytes], size: int, newline: bytes, where: str, line: int = 1
) -> Iterator[tuple[bytes, int]]:
    """Whole rows, some `size` bytes together, each with the number of its first line."""
    rest = b""
    while data := read(max(size, len(rest))):
        buffer = rest + data
        cut = last_row_end(buffer, newline)
        if cut == 0 and len(buffer) > LONGEST_ROW:
            raise UnreadableError(
                where,
                f"line {line} does not end within {LONGEST_ROW >> 20} MB: perhaps a quote that is "
                "never closed, or no CSV file at all",
            )
        if cut:
            yield buffer[:cut], line
            line += buffer.count(newline, 0, cut)
        rest = buffer[cut:]
    if rest:
        if QUOTE in rest and _quoted(rest)[1].max(initial=0) > len(rest):
            raise UnreadableError(
                where, f"a quote that is opened in or after line {line} is never closed"
            )
        yield rest, line


def count_rows(buffer: bytes, newline: bytes) -> int:
    """Rows of a buffer of whole rows without quotes; empty lines are none.

    >>> count_rows(b"1,2\\r\\n\\r\\n3,4", b"\\n")
    2
    """
    lines = buffer.count(newline) + (not buffer.endswith(newline))
    if newline * 2 not in buffer and b"\r" not in buffer and not buffer.startswith(newline):
        return lines
    return len(re.findall(rb"[^\r\n]+", buffer))


def last_row_end(buffer: bytes, newline: bytes) -> int:
    """Length of the whole rows at the beginning of the buffer, which begins with a row."""
    if QUOTE not in buffer:
        return buffer.rfind(newline) + 1
    openings, ends = _quoted(buffer)
    end = len(buffer)
    while (at := buffer.rfind(newline, 0, end)) >= 0:
        k = int(np.searchsorted(openings, at)) - 1  # the last field in quotes that opens before it
        if k < 0 or ends[k] <= at:
            return at + 1
        end = int(openings[k])
    return 0


def outside_quotes(buffer: bytes, places: np.ndarray) -> np.ndarray:
    """Those of the places in a buffer of whole rows that lie outside of fields in quotes."""
    openings, ends = _quoted(buffer)
    before = np.searchsorted(openings, places)  # fields in quotes that open before each place
    return places[np.append(0, ends)[before] <= places]


def _quoted(buffer: bytes) -> tuple[np.ndarray, np.ndarray]:
    """Where fields in quotes open and end; an end beyond the buffer where it does not close."""
    quotes = np.flatnonzero(np.frombuffer(buffer, dtype=np.uint8) == QUOTE[0])
    if _well_formed(buffer, quotes):
        openings, ends = quotes[::2], quotes[1::2]
        if len(ends) < len(openings):
            ends = np.append(ends, len(buffer) + 1)
        return openings, ends
    found = [
        (match.start(1), match.end(1) if match.group(2) else len(buffer) + 1)
        for match in _FIELD.finditer(buffer)
    ]
    pairs = np.array(found, dtype=np.intp).reshape(-1, 2)
    return pairs[:, 0], pairs[:, 1]


# A quote within a field that does not begin with one is a letter like any other.
_FIELD = re.compile(rb'(?:^|(?<=[,;\t|\r\n]))("[^"]*(?:""[^"]*)*("|\Z))')


def _well_formed(buffer: bytes, quotes: np.ndarray) -> bool:
    """Whether every second quote opens a field or follows one that it doubles, and so on."""
    letters = np.frombuffer(buffer, dtype=np.uint8)
    edge = np.zeros(256, dtype=bool)
    edge[list(SEPARATORS + b'\r\n"')] = True
    openings, closings = quotes[::2], quotes[1::2]
    before = letters[openings[openings > 0] - 1]
    after = letters[closings[closings + 1 < len(letters)] + 1]
    return bool(edge[before].all() and edge[after].all())


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
        lines = data.split(self._newline, left)
        below = lines[left] if len(lines) > left else b""
        return re.sub(rb"[^\r\n]+", b"", data[: len(data) - len(below)]) + below

    def _without_comments(self, data: bytes) -> bytes:
        if self._skipped.mark is None or (mark := self._skipped.mark.encode()) not in data:
            return data
        # Lines with the mark behind blanks. Not those whose first cell is a missing value such as
        # #N/A, and where further tabs follow, which may separate cells, not those with a tab before
        # the mark.
        missing = b"|".join(re.escape(text.encode()) for text in sorted(MISSING_TEXTS - {""}))
        begin = rb"(?<![^" + self._newline + rb"])"
        mark = rb"(?!(?:" + missing + rb") *(?:[,;\t|\r\n]|\Z))" + re.escape(mark)
        alone = rb"[ \t]*" + mark + rb"[^\t\r\n]*(?=[\r\n]|\Z)"
        comment = re.compile(begin + rb"(?:" + alone + rb"| *" + mark + rb"[^\r\n]*)")
        line, at = self._line, 0

        def emptied(match: re.Match[bytes]) -> bytes:
            nonlocal line, at
            line += data.count(self._newline, at, match.start())
            at = match.start()
            self.comments.add(line)
            return b""

        return comment.sub(emptied, data)
