"""Where in a CSV file the first cell stands that cannot be read, and what to do about it."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from eigengap.exceptions import UnreadableError
from eigengap.sources.files.columns import choice, refuse_columns
from eigengap.sources.files.csv.cells import Cells
from eigengap.sources.files.csv.dialect import Dialect, Row, is_header, rows_of
from eigengap.sources.files.csv.likeness import is_followed_by_comment, likeness_of
from eigengap.sources.files.csv.skipped import SkippedLines
from eigengap.sources.wording import column, quote
from eigengap.wording import words

MOST_UNITS = 4  # that a message shows
MOST_LABELS = 4  # lines between names and numbers
MOST_TEXTS = 100  # cells of a column that are looked at


def first_fault(
    where: str, chunk: bytes, line: int, dialect: Dialect, chosen: Sequence[int]
) -> UnreadableError | None:
    """The error for the first row of the chunk that is ragged or holds text; None if none is."""
    try:
        for row in rows_of(chunk.decode("latin-1"), dialect.separator, line):
            if len(row.cells) != dialect.n_columns:
                return ragged(where, row, dialect)
            for j in chosen:
                if dialect.cells.number(row.cells[j]) is None:
                    return _text(where, row, j, dialect, chosen)
    except csv.Error as error:
        return UnreadableError(where, f"at or after line {line}: {error}")
    return None


def require_even(where: str, dialect: Dialect) -> None:
    """Refuse a file among whose first rows one is ragged."""
    for row in dialect.head:
        if len(row.cells) != dialect.n_columns:
            raise ragged(where, row, dialect)


def ragged(where: str, row: Row, dialect: Dialect) -> UnreadableError:
    have, want = len(row.cells), dialect.n_columns
    told = "the header has" if dialect.names is not None else "the first line has"
    extra = have - want
    if extra > 0 and not any(map(str.strip, row.cells[want:])):
        mark = "a tab" if dialect.separator == "\t" else quote(dialect.separator)
        many, one, it = (f"{extra} times ", "as many", "them") if extra > 1 else ("", "one", "it")
        way = (
            f"It ends with {many}{mark}. If all lines do so, add {one} at the end of line "
            f"{dialect.first}; if this one alone does, take {it} off"
        )
    elif extra < 0 and dialect.names is not None and not any(dialect.names[have:]):
        way = (
            f"Behind its last name line {dialect.first} has separators that name nothing: take "
            "them off"
        )
    elif (skipped := way_past(row, dialect)) is not None:
        way = skipped
    elif extra > 0 and is_followed_by_comment(row.cells[want - 1]):
        way = "Comments stand on lines of their own"
    elif extra == 1 and row.line == dialect.line and dialect.names is not None:
        way = "Names of rows, as R writes them? Give their column a name in the header"
    elif extra > 0:
        way = "Put cells that hold the separator in quotes"
    else:
        way = "Complete the line, or take it out"
    shown = quote(dialect.separator.join(row.cells).encode("latin-1").decode("utf-8", "replace"))
    return UnreadableError(
        where, f"line {row.line} has {_cells(have)}, and {told} {want}: {shown}. {way}"
    )


def label_rows(dialect: Dialect, chosen: Sequence[int]) -> int:
    """How many of the first rows are none: units and the like, between the names and the numbers.

    Such a row holds no number, and in most columns of numbers a text that does not occur again.
    """
    rows, count = dialect.head, 0
    while dialect.names is not None and count < min(MOST_LABELS, len(rows) - 1):
        if not _is_label(rows[count].cells, rows[count + 1 :], dialect.cells, chosen):
            break
        count += 1
    return count


def _is_label(
    first: Sequence[str], below: Sequence[Row], cells: Cells, chosen: Sequence[int]
) -> bool:
    texts = [j for j in chosen if cells.number(first[j]) is None]
    if len(texts) < 2:
        return False
    numeric = {j for j in chosen if _most_are_numbers((row.cells[j] for row in below), cells)}
    observed = [j for j in numeric if not cells.is_missing(first[j])]
    new = [j for j in texts if j in numeric and all(row.cells[j] != first[j] for row in below)]
    return len(new) == len(observed) > 1 and 2 * len(new) >= len(numeric)


def _most_are_numbers(column: Iterable[str], cells: Cells) -> bool:
    found = [cells.number(cell) is not None for cell in column if not cells.is_missing(cell)]
    return 2 * sum(found) > len(found)


def describe_label_rows(dialect: Dialect, chosen: Sequence[int], count: int) -> str:
    """What is said of rows that are labels."""
    rows = dialect.head[:count]
    texts = [_shown(row.cells[j]) for row in rows for j in chosen if row.cells[j].strip()]
    told = ", ".join(map(quote, texts[:MOST_UNITS])) + ", ..." * (len(texts) > MOST_UNITS)
    if count == 1:
        return (
            f"line {rows[0].line} holds text where others hold numbers ({told}), as a line of "
            "units does. Take it out"
        )
    *first, last = (str(row.line) for row in rows)
    return (
        f"lines {', '.join(first)} and {last} hold text where others hold numbers ({told}), as "
        "lines of units and labels do. Take them out"
    )


def refuse_text_columns(where: str, dialect: Dialect, chosen: Sequence[int]) -> None:
    """Refuse columns whose first rows hold text, all of them in one message."""
    looks = {j: _Look(dialect.cells) for j in chosen}
    for row in dialect.head:
        for j, look in looks.items():
            look.at(row.cells[j], row.line)
    refused = {j: look for j, look in looks.items() if look.text is not None}
    if not refused:
        return
    if count := label_rows(dialect, chosen):
        raise UnreadableError(where, describe_label_rows(dialect, chosen, count), in_cells=True)
    told = [f"{column(dialect.names, j)} ({look})" for j, look in refused.items()]
    numeric = _labels(dialect, [j for j in chosen if j not in refused])
    raise refuse_columns(where, told, numeric, _hint(list(refused.values())))


class _Look:
    """What a column was seen to hold."""

    def __init__(self, cells: Cells) -> None:
        self._cells, self.decimal = cells, cells.decimal
        self.text: str | None = None  # the first that is no number
        self.line = self.numbers = 0
        self.texts = self.alike = 0  # cells with text, up to MOST_TEXTS, and those like numbers
        self.same = True  # all text is the same

    def at(self, cell: str, line: int) -> None:
        if self._cells.number(cell) is not None:
            self.numbers += not self._cells.is_missing(cell)
            return
        text = _shown(cell)
        if self.text is None:
            self.text, self.line = text, line
        self.same = self.same and text == self.text
        if self.texts < MOST_TEXTS:
            self.texts += 1
            self.alike += likeness_of(text, self.decimal) is not None

    def __str__(self) -> str:
        assert self.text is not None
        kind = "text among numbers" if self.numbers else "text"
        return f"{kind}, e.g. {quote(self.text)} at line {self.line}"


def _hint(looks: list[_Look]) -> str:
    hints = []
    for look in looks:
        found = likeness_of(look.text or "", look.decimal)
        alike = 2 * look.alike >= look.texts  # and not one code among names
        if found is not None and alike and (found.is_sure or look.numbers):
            hints.append(f". {quote(look.text or '')} {found}")
    codes = [look.text for look in looks if look.text and look.numbers and look.same]
    if codes:
        after = " after all" if hints else ""
        hints.append(
            f". If {quote(codes[0])} stands for a missing cell{after}, pass "
            f"{words().parameter('missing_values', quote(codes[0]))}"
        )
    return "".join(dict.fromkeys(hints))


def _text(where: str, row: Row, j: int, dialect: Dialect, chosen: Sequence[int]) -> UnreadableError:
    shown = quote(_shown(row.cells[j]))
    others = _labels(dialect, [k for k in chosen if k != j])
    label = column(dialect.names, j)
    leave = f"; or {words().without(label, choice(others))}" if others else ""
    found = likeness_of(_shown(row.cells[j]), dialect.cells.decimal)
    told = "" if found is None else f"It {found}. "
    after = "" if found is None else " after all"
    code = words().parameter("missing_values", shown)
    way = f"{told}If that stands for a missing cell{after}, pass {code}{leave}"
    return UnreadableError(
        where, f"line {row.line}, column {label} holds text, {shown}. {way}", in_cells=True
    )


def _labels(dialect: Dialect, positions: Sequence[int]) -> list[str | int]:
    """Columns as `columns=` takes them: each by name where that is its alone."""
    names = dialect.names
    if names is None:
        return list(positions)
    count = Counter(names)
    return [names[j] if names[j] and count[names[j]] == 1 else j for j in positions]


def _shown(cell: str) -> str:
    return cell.strip().encode("latin-1").decode("utf-8", "replace")


def _cells(count: int) -> str:
    return "1 cell" if count == 1 else f"{count} cells"


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
    if best is None or not best.skipped:
        return None
    skipped, told = best.skipped, []
    if skipped.first:
        told.append(f"the table begins in line {skipped.first + 1}")
    if skipped.mark is not None:
        told.append(f"lines that begin with {quote(skipped.mark)} are comments")
    return f"If {' and '.join(told)}, pass {skipped}"


@dataclass(frozen=True)
class _Guess:
    skipped: SkippedLines
    ragged: int  # rows of the table that still would be
    has_header: bool

    def merit(self) -> tuple[int, bool, bool]:
        """The less the better."""
        both = self.skipped.first > 0 and self.skipped.mark is not None
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
    return _Guess(SkippedLines(first, mark), ragged, has_header)


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
