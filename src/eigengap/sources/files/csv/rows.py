"""Cutting the bytes of a CSV file where a row ends, which a newline inside quotes is not."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import numpy as np

from eigengap.exceptions import UnreadableError

LONGEST_ROW = 256 << 20  # bytes
QUOTE, SEPARATORS = b'"', b",;\t|"


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
        if _open_quote(rest) is not None:
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


def _open_quote(buffer: bytes) -> int | None:
    """Where a quote opens that is not closed, if there is one."""
    if QUOTE not in buffer:
        return None
    openings, ends = _quoted(buffer)
    return int(openings[-1]) if len(ends) and ends[-1] > len(buffer) else None


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
