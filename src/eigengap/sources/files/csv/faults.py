"""Where in a CSV file the first cell stands that cannot be read, and what to do about it."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterable, Sequence

from eigengap.exceptions import UnreadableError
from eigengap.sources.files.csv.above import way_past
from eigengap.sources.files.csv.cells import Cells
from eigengap.sources.files.csv.dialect import Dialect, Row, rows_of
from eigengap.sources.files.csv.looks import is_followed_by_comment, look_of
from eigengap.sources.files.refusal import choice, refuse_columns
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
    elif (aside := way_past(row, dialect)) is not None:
        way = aside
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


def labels(dialect: Dialect, chosen: Sequence[int]) -> int:
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


def on_labels(dialect: Dialect, chosen: Sequence[int], count: int) -> str:
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
    if count := labels(dialect, chosen):
        raise UnreadableError(where, on_labels(dialect, chosen, count), in_cells=True)
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
            self.alike += look_of(text, self.decimal) is not None

    def __str__(self) -> str:
        assert self.text is not None
        kind = "text among numbers" if self.numbers else "text"
        return f"{kind}, e.g. {quote(self.text)} at line {self.line}"


def _hint(looks: list[_Look]) -> str:
    hints = []
    for look in looks:
        found = look_of(look.text or "", look.decimal)
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
    found = look_of(_shown(row.cells[j]), dialect.cells.decimal)
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
