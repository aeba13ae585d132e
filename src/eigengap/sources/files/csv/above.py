"""Lines that break a table, for they are none of its rows: which option passes over them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from eigengap.sources.files.csv.aside import Aside
from eigengap.sources.files.csv.cells import Cells
from eigengap.sources.files.csv.dialect import Dialect, Row
from eigengap.sources.files.csv.header import is_header
from eigengap.sources.wording import quote

MARKS = ("#", ";", "%", "//", "!", "*")  # with which comments begin
WITHIN = 50  # rows, in one of which a table begins


def way_past(row: Row, dialect: Dialect) -> str | None:
    """The way out where a ragged row is a comment or stands above the table; None elsewhere."""
    names = [] if dialect.names is None else [Row(list(dialect.names), dialect.first, 0)]
    rows = [*names, *dialect.head]
    if row.line > rows[-1].line:
        rows.append(row)
    marks = [mark for mark in MARKS if any(_begins(one, mark) for one in rows)]
    guesses = [_guess(rows, mark, dialect.cells) for mark in (*marks, None)]
    best = min((one for one in guesses if one is not None), key=_Guess.merit, default=None)
    if best is None or not best.aside:
        return None
    aside, told = best.aside, []
    if aside.first:
        told.append(f"the table begins in line {aside.first + 1}")
    if aside.mark is not None:
        told.append(f"lines that begin with {quote(aside.mark)} are comments")
    return f"If {' and '.join(told)}, pass {aside}"


@dataclass(frozen=True)
class _Guess:
    aside: Aside
    ragged: int  # rows of the table that still would be
    has_header: bool

    def merit(self) -> tuple[int, bool, bool]:
        """The less the better."""
        both = self.aside.first > 0 and self.aside.mark is not None
        return self.ragged, not self.has_header, both


def _guess(rows: Sequence[Row], mark: str | None, cells: Cells) -> _Guess | None:
    """Where the table begins if rows with this mark are comments; None where that cannot be."""
    kept = [row for row in rows if mark is None or not _begins(row, mark)]
    start, stop = _longest_run(kept)
    if stop - start < 2:
        return None
    width = len(kept[start].cells)
    marked = [len(row.cells) == width for row in rows if mark is not None and _begins(row, mark)]
    if width < 2 or (marked and (all(marked) or sum(marked) >= stop - start)):
        return None  # the mark is part of what rows hold
    has_header = is_header([row.cells for row in kept[start:stop]], cells)
    if start and (not has_header or _is_ragged_alone(kept, start, cells)):
        return None
    first = kept[start].line - 1 if start else 0
    ragged = sum(len(row.cells) != width for row in kept[start:])
    return _Guess(Aside(first, mark), ragged, has_header)


def _is_ragged_alone(kept: Sequence[Row], start: int, cells: Cells) -> bool:
    """Whether the first row is a header after all, of the right width or a little off."""
    if start == 1:
        return any(cells.number(cell) is not None for cell in kept[1].cells)
    return len(kept[0].cells) == len(kept[start].cells)


def _longest_run(rows: Sequence[Row]) -> tuple[int, int]:
    """The ends of the longest run of equally wide rows that begins near the top."""
    best, start = (0, 0), 0
    while start < min(len(rows), WITHIN):
        stop = start + 1
        while stop < len(rows) and len(rows[stop].cells) == len(rows[start].cells):
            stop += 1
        best = max(best, (start, stop), key=lambda run: run[1] - run[0])
        start = stop
    return best


def _begins(row: Row, mark: str) -> bool:
    return row.cells[0].lstrip().startswith(mark)
