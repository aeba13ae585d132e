"""Where in a CSV file the first cell stands that cannot be read, and what to do about it."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence

from eigengap.sources.files.csv_cells import Cells
from eigengap.sources.files.csv_dialect import Dialect, Row, rows_of
from eigengap.sources.files.csv_looks import look_of
from eigengap.sources.files.refusal import choice, refuse_columns
from eigengap.sources.reader import UnreadableError
from eigengap.sources.wording import column, quote

MOST_UNITS = 4  # that a message shows
MARKS = ("#", "%", "//", "!", "*")  # with which comments begin


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
    elif (aside := _aside(row, dialect)) is not None:
        way = aside
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


def _aside(row: Row, dialect: Dialect) -> str | None:
    """The way out where a ragged row belongs to lines above the table; None where it does not.

    The table begins where all further rows that were looked at are equally long. A single line
    above is its header, though it is too short or too long, unless another one follows.
    """
    if dialect.names is None:
        return None
    header = Row(list(dialect.names), dialect.first, 0)
    rows = [header, *dialect.head]
    width, k = len(rows[-1].cells), len(rows)
    while k > 0 and len(rows[k - 1].cells) == width:
        k -= 1
    if not 0 < k < len(rows) - 1 or width < 2 or row.line > rows[k].line:
        return None
    if dialect.n_columns == width:  # the header is the table's, and the row alone is ragged
        return None
    if k == 1 and any(dialect.cells.number(cell) is not None for cell in rows[1].cells):
        return None
    mark = next((mark for mark in MARKS if header.cells[0].startswith(mark)), None)
    if mark is not None and all(r.cells[0].startswith(mark) for r in rows[1:k]):
        return f"If lines that begin with {quote(mark)} are comments, pass comment={quote(mark)}"
    begins = rows[k].line
    return f"If the table begins in line {begins}, pass skip_rows={begins - 1}"


def units(dialect: Dialect, chosen: Sequence[int]) -> list[int]:
    """Columns of numbers that hold text in the first row alone; empty unless most of them do.

    So a line of units looks, which some write below the header.
    """
    if dialect.names is None or len(dialect.head) < 2:
        return []
    first, *rows = (row.cells for row in dialect.head)
    number = dialect.cells.number
    found = [
        j
        for j in chosen
        if number(first[j]) is None and all(number(row[j]) is not None for row in rows)
    ]
    return found if len(found) > 1 and 2 * len(found) >= len(chosen) else []


def on_units(dialect: Dialect, found: Sequence[int]) -> str:
    """What is said of a line of units."""
    row = dialect.head[0]
    told = ", ".join(quote(_shown(row.cells[j])) for j in found[:MOST_UNITS])
    more = ", ..." if len(found) > MOST_UNITS else ""
    return (
        f"line {row.line} holds text in {len(found)} columns of numbers ({told}{more}), as a line "
        "of units does. Take it out"
    )


def refuse_text_columns(
    where: str, rows: Iterable[Row], dialect: Dialect, chosen: Sequence[int]
) -> None:
    """Refuse columns whose first rows hold text, all of them in one message."""
    looks = {j: _Look(dialect.cells) for j in chosen}
    for row in rows:
        if len(row.cells) != dialect.n_columns:
            raise ragged(where, row, dialect)
        for j, look in looks.items():
            look.at(row.cells[j], row.line)
    refused = {j: look for j, look in looks.items() if look.text is not None}
    if not refused:
        return
    if in_units := units(dialect, chosen):
        raise UnreadableError(where, on_units(dialect, in_units))
    told = [f"{column(dialect.names, j)} ({look})" for j, look in refused.items()]
    numeric = [_label(dialect, j) for j in chosen if j not in refused]
    raise refuse_columns(where, told, numeric, _hint(list(refused.values())))


class _Look:
    """What a column was seen to hold."""

    def __init__(self, cells: Cells) -> None:
        self._cells, self.decimal = cells, cells.decimal
        self.text: str | None = None  # the first that is no number
        self.line = self.numbers = 0
        self.same = True  # all text is the same

    def at(self, cell: str, line: int) -> None:
        if self._cells.number(cell) is not None:
            self.numbers += not self._cells.is_gap(cell)
        elif self.text is None:
            self.text, self.line = _shown(cell), line
        else:
            self.same = self.same and _shown(cell) == self.text

    def __str__(self) -> str:
        assert self.text is not None
        kind = "text among numbers" if self.numbers else "text"
        return f"{kind}, e.g. {quote(self.text)} at line {self.line}"


def _hint(looks: list[_Look]) -> str:
    hints = []
    for look in looks:
        found = look_of(look.text or "", look.decimal)
        if found is not None and (found.is_sure or look.numbers):
            hints.append(f". {quote(look.text or '')} {found}")
    codes = [look.text for look in looks if look.text and look.numbers and look.same]
    if codes:
        after = " after all" if hints else ""
        hints.append(
            f". If {quote(codes[0])} stands for a missing cell{after}, pass "
            f"missing_values={quote(codes[0])}"
        )
    return "".join(dict.fromkeys(hints))


def _text(where: str, row: Row, j: int, dialect: Dialect, chosen: Sequence[int]) -> UnreadableError:
    shown = quote(_shown(row.cells[j]))
    others = [_label(dialect, k) for k in chosen if k != j]
    leave = f"; or leave the column out: columns={choice(others)}" if others else ""
    found = look_of(_shown(row.cells[j]), dialect.cells.decimal)
    told = "" if found is None else f"It {found}. "
    after = "" if found is None else " after all"
    way = f"{told}If that stands for a missing cell{after}, pass missing_values={shown}{leave}"
    return UnreadableError(
        where, f"line {row.line}, column {column(dialect.names, j)} holds text, {shown}. {way}"
    )


def _label(dialect: Dialect, j: int) -> str | int:
    """A column as `columns=` takes it: by name where that is its alone."""
    names = dialect.names
    return names[j] if names is not None and names[j] and names.count(names[j]) == 1 else j


def _shown(cell: str) -> str:
    return cell.strip().encode("latin-1").decode("utf-8", "replace")


def _cells(count: int) -> str:
    return "1 cell" if count == 1 else f"{count} cells"
