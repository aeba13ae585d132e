"""How a CSV file is written, by its first rows: separator, decimal mark, header."""

from __future__ import annotations

import csv
import io
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice, pairwise

from eigengap.exceptions import UnreadableError
from eigengap.sources.files.csv.cells import (
    WHITE,
    Cells,
    EitherMark,
    has_decimal_comma,
    has_decimal_point,
)
from eigengap.sources.files.csv.rows import BOM, LONGEST_ROW, newline_of
from eigengap.sources.wording import column, quote
from eigengap.wording import words

LOOKED_AT = 1000  # rows
SEPARATORS = (",", ";", "\t", "|")
SEPARATOR_LINE = re.compile(rb'"?sep=([,;\t|])"?(?:\r\n|\r|\n)', re.I)  # as Excel has it
LETTERS = 200  # bytes of which every second one is 0 in UTF-16
FOREIGN = ((b"\xff\xfe", "UTF-16"), (b"\xfe\xff", "UTF-16"))


@dataclass(frozen=True)
class Row:
    """A row of cells, and the line on which it begins."""

    cells: list[str]
    line: int
    stop: int  # characters up to its end


@dataclass(frozen=True)
class Mark:
    """The first number of a file that shows its decimal mark."""

    decimal: str
    line: int
    text: str

    def __str__(self) -> str:
        name = "comma" if self.decimal == "," else "point"
        return f"line {self.line} has a decimal {name} ({self.text})"


@dataclass(frozen=True)
class Dialect:
    """What has to be known before the first number is read."""

    separator: str
    newline: bytes
    cells: Cells
    names: tuple[str, ...] | None  # of all columns; None where the file has no header
    n_columns: int
    start: int  # bytes before the first row of numbers
    line: int  # number of its line
    head: tuple[Row, ...]  # the first rows of numbers
    first: int = 1  # number of the line on which the header or, without one, the first row stands
    is_whole: bool = False  # whether `head` is known to hold all rows of the file
    mark: Mark | None = None  # None where the first rows show no decimal mark

    def with_mark_of(self, where: str, columns: Sequence[int]) -> Dialect:
        """The dialect with the decimal mark of these columns; the others are not read."""
        comma, point = _marks(self.head, self.separator, self.cells, columns)
        if comma is not None and point is not None:
            raise UnreadableError(
                where,
                f"{comma} and line {point.line} a decimal point ({point.text}); write all numbers "
                "in one way",
            )
        mark = comma or point
        cells = Cells(self.cells.asked, "." if mark is None else mark.decimal)
        return replace(self, cells=cells, mark=mark)

    @property
    def bare(self) -> tuple[int, ...]:
        """The last columns, if they have neither a name nor, as far as was looked, a cell.

        Every line ends with so many separators.
        """
        stop = self.n_columns
        while stop > 1 and self.names is not None and not self.names[stop - 1]:
            if any(len(row.cells) < stop or row.cells[stop - 1].strip(WHITE) for row in self.head):
                break
            stop -= 1
        return tuple(range(stop, self.n_columns))


def find_dialect(
    where: str, head: bytes, asked: frozenset[str], *, is_whole: bool = False
) -> Dialect:
    """The dialect of a file that begins with `head`: whole rows, or all of them.

    `asked` are texts that stand for a missing value besides the usual ones.

    Its decimal mark is not decided before the columns are: see `Dialect.with_mark_of`.
    """
    for first_bytes, name in FOREIGN:
        if head.startswith(first_bytes):
            raise UnreadableError(
                where, f"it is written in {name}. Convert it: iconv -f {name} -t UTF-8"
            )
    for at, name in ((1, "UTF-16LE"), (0, "UTF-16BE")):  # without the mark
        if len(head) > 1 and not any(head[at:LETTERS:2]):
            raise UnreadableError(
                where, f"it is written in {name}. Convert it: iconv -f {name} -t UTF-8"
            )
    skipped = len(BOM) if head.startswith(BOM) else 0
    declared = SEPARATOR_LINE.match(head, skipped)  # above the table
    top = 1 if declared is None else 2
    skipped = skipped if declared is None else declared.end()
    text = head[skipped:].decode("latin-1")  # one letter for each byte
    # The one by which the first rows have equal numbers of cells, most of them numbers.
    likely = max(SEPARATORS, key=partial(_merit, text))
    separator = likely if declared is None else declared[1].decode()
    rows = list(islice(rows_of(text, separator, top), LOOKED_AT + 1))
    if not rows:
        raise UnreadableError(
            where, "it is empty" + words().either(": Found array with 0 sample(s)")
        )
    is_whole = is_whole and len(rows) <= LOOKED_AT
    comma, point = _marks(rows, separator, Cells(asked))
    if comma is not None and point is not None:
        cells: Cells = EitherMark(asked)
    else:
        cells = Cells(asked, "." if comma is None else ",")
    names, start, line = None, 0, top
    first, *below = rows
    if is_header([row.cells for row in rows], cells) or _in_quotes(rows, text):
        try:
            names = tuple(cell.encode("latin-1").decode("utf-8") for cell in first.cells)
        except UnicodeDecodeError as error:
            raise UnreadableError(
                where,
                f"its header is not UTF-8 ({error.reason} at byte {error.start} of a name). "
                "Convert it, e.g. with iconv -f latin1 -t UTF-8",
            ) from None
        start, rows = first.stop, below
        line += text.count("\r" if "\n" not in text else "\n", 0, start)
    faults = (nul_fault(where, row, names) for row in (first, *below))
    if fault := next(filter(None, faults), None):
        raise fault
    return Dialect(
        separator=separator,
        newline=newline_of(head),
        cells=cells,
        names=names,
        n_columns=len(first.cells),
        start=skipped + start,
        line=line,
        head=tuple(rows),
        first=first.line,
        is_whole=is_whole,
    )


def nul_fault(where: str, row: Row, names: Sequence[str] | None) -> UnreadableError | None:
    """The error for a row with a byte of 0: a file that was damaged, or not written to its end."""
    j = next((j for j, cell in enumerate(row.cells) if "\x00" in cell), None)
    if j is None:
        return None
    cell = row.cells[j].encode("latin-1").decode("utf-8", "replace")
    has_name = names is not None and j < len(names) and "\x00" not in names[j]
    return UnreadableError(
        where,
        f"line {row.line}, column {column(names if has_name else None, j)}, holds a NUL byte, "
        f"which no text has: {quote(cell)}. The file is damaged there, or was not written to its "
        "end. Write it anew, or mend the line",
        line=row.line,
        column=j,
    )


def rows_of(text: str, separator: str, line: int = 1) -> Iterator[Row]:
    """The rows of a text, which begins on the given line; empty lines are none."""
    taken = 0

    def lines() -> Iterator[str]:
        nonlocal taken
        for found in io.StringIO(text, newline=""):
            taken += len(found)
            yield found

    reader = csv.reader(lines(), delimiter=separator)
    before = 0
    with _long_fields:
        for cells in reader:
            if cells:
                yield Row(cells, line + before, taken)
            before = reader.line_num


class _LongFields:
    """Fields of any length: by a wrong separator a row of 20 000 columns is one of them.

    The csv module has one limit for the whole process. The first who comes raises it, and the last
    who leaves restores it.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self._found = 0

    def __enter__(self) -> None:
        with self._lock:
            if not self._inside:
                self._found = csv.field_size_limit()
                csv.field_size_limit(max(self._found, LONGEST_ROW))
            self._inside += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._inside -= 1
            if not self._inside:
                csv.field_size_limit(self._found)


_long_fields = _LongFields()


def _merit(text: str, separator: str) -> tuple[bool, bool, float, int]:
    rows = [row.cells for row in islice(rows_of(text, separator), 50)]
    if not rows:
        return False, False, 0.0, 0
    widths = {len(row) for row in rows}
    numbers = [
        Cells().number(cell) is not None or (separator != "," and has_decimal_comma(cell))
        for row in rows[1:] or rows
        for cell in row
    ]
    divides = max(widths) > 1
    share = sum(numbers) / len(numbers)
    return divides, divides and len(widths) == 1, share, len(rows[0])


def _marks(
    rows: Sequence[Row],
    separator: str,
    how: Cells,
    columns: Sequence[int] | None = None,
) -> tuple[Mark | None, Mark | None]:
    """The first decimal comma and the first decimal point in the columns; None for all of them.

    Commas are decimal marks in a file whose cells are parted by semicolons, and only there.
    """

    def first(holds: Callable[[str], bool], decimal: str) -> Mark | None:
        for row in rows:
            cells = row.cells if columns is None else [row.cells[j] for j in columns]
            for cell in cells:
                if holds(cell) and (text := cell.strip(WHITE)) not in how.missing:
                    return Mark(decimal, row.line, text)
        return None

    comma = first(has_decimal_comma, ",") if separator == ";" else None
    return comma, first(has_decimal_point, ".")


def _in_quotes(rows: list[Row], text: str) -> bool:
    """Whether all of the first row is, and not all below: so R and `open_sink` write names."""
    above = text[: rows[0].stop].count('"')
    below = text[rows[0].stop : rows[1].stop].count('"') if len(rows) > 1 else above
    return above == 2 * len(rows[0].cells) and below < above


COMPARED = 50  # rows below
_DATE = re.compile(
    r"\d{1,4}([-/.])(?:\d{1,2}|[A-Za-z]{3,9})\1\d{1,4}(?:[T ].*)?|\d{1,2}:\d\d(?::\d\d.*)?",
    re.ASCII,
)


def is_date(text: str) -> bool:
    """Whether a cell is written as dates, times or both are."""
    return _DATE.fullmatch(text.strip(WHITE)) is not None


def is_header(rows: Sequence[Sequence[str]], cells: Cells) -> bool:
    """Unless the first of the rows is all numbers and missing values, or looks like the others.

    Whole numbers that count up by one (0, 1, 2, or 2019, 2020, 2021) are names, if the line below
    does not count up too.
    """
    first, *below = rows[: COMPARED + 1]
    if all(cells.number(cell) is not None for cell in first):
        return bool(below) and _counts_up(first) and not _counts_up(below[0])
    return not _is_like(first, below, cells)


def _is_like(first: Sequence[str], below: Sequence[Sequence[str]], cells: Cells) -> bool:
    """Numbers above numbers, no text above numbers, and a date above dates or a text that recurs.

    Numbers alone do not decide, for years and wavelengths are names next to `country` and `sample`.
    """
    over_numbers = is_alike = False
    for j, cell in enumerate(first):
        under = [row[j] for row in below if len(row) > j and not cells.is_missing(row[j])]
        numeric = bool(under) and all(cells.number(one) is not None for one in under)
        if cells.number(cell) is not None:
            over_numbers |= numeric and not cells.is_missing(cell)
        elif numeric:
            return False
        else:
            dates = (is_date(one) for one in [cell, *under])
            is_alike |= cell in under or (bool(under) and all(dates))
    return over_numbers and is_alike


def _counts_up(cells: Sequence[str]) -> bool:
    """Whether there are three whole numbers or more, each one more than the last.

    So pandas names columns without names (0, 1, 2, ...), and so years follow each other.
    """
    if len(cells) < 3 or not all(cell.strip(WHITE).isdecimal() for cell in cells):
        return False
    numbers = [int(cell) for cell in cells]
    return all(b == a + 1 for a, b in pairwise(numbers))
