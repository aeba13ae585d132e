"""The first cell or line of a CSV file that cannot be read, and what to do about it."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Sequence
from math import isnan
from operator import itemgetter

from eigengap.exceptions import UnreadableError
from eigengap.sources.files.columns import choice, not_numeric
from eigengap.sources.files.csv.cells import WHITE, Cells, is_followed_by_comment, likeness_of
from eigengap.sources.files.csv.dialect import Dialect, Row, is_header, nul_fault, rows_of
from eigengap.sources.files.csv.rows import SKIP_NOTHING, SkippedLines
from eigengap.sources.wording import column, quote
from eigengap.wording import words

MOST_UNITS = 4  # texts that a message shows
MOST_LABELS = 4  # lines between names and numbers
MOST_TEXTS = 100  # cells of a column that are compared with numbers
MARKS = ("#", ";", "%", "//", "!", "*")  # with which comments begin
WITHIN = 50  # rows, in one of which a table begins


def first_fault(
    where: str, chunk: bytes, line: int, dialect: Dialect, chosen: Sequence[int]
) -> UnreadableError | None:
    """The error for the first row of the chunk that is ragged or holds text; None if none is."""
    try:
        for row in rows_of(chunk.decode("latin-1"), dialect.separator, line):
            if fault := nul_fault(where, row, dialect.names):
                return fault
            if len(row.cells) != dialect.n_columns:
                return ragged(where, row, dialect)
            for j in chosen:
                if dialect.cells.number(row.cells[j]) is None:
                    return _text_cell(where, row, j, dialect, chosen)
    except csv.Error as error:
        return UnreadableError(where, f"at or after line {line}: {error}", line=line)
    return None


def require_even(where: str, dialect: Dialect) -> None:
    """Refuse a file with a ragged row among its first ones."""
    for row in dialect.head:
        if len(row.cells) != dialect.n_columns:
            raise ragged(where, row, dialect)


# Ragged rows -----------------------------------------------------------------------------------


def ragged(where: str, row: Row, dialect: Dialect) -> UnreadableError:
    """The error for a row with more or fewer cells than the table has columns."""
    have, want = len(row.cells), dialect.n_columns
    first = "the header has" if dialect.names is not None else "the first line has"
    cells = "1 cell" if have == 1 else f"{have} cells"
    shown = quote(dialect.separator.join(row.cells).encode("latin-1").decode("utf-8", "replace"))
    if way := _separators_at_end(row, dialect) or _way_past(row, dialect):
        pass
    elif have > want and is_followed_by_comment(row.cells[want - 1]):
        way = "Comments stand on lines of their own"
    elif have == want + 1 and row.line == dialect.line and dialect.names is not None:
        way = "Names of rows, as R writes them? Give their column a name in the header"
    elif have > want:
        way = "Put cells that hold the separator in quotes"
    else:
        way = "Complete the line, or take it out"
    return UnreadableError(
        where,
        f"line {row.line} has {cells}, and {first} {want}: {shown}. {way}",
        line=row.line,
    )


def _separators_at_end(row: Row, dialect: Dialect) -> str:
    """What to do about separators behind the last cell or the last name; nothing elsewhere."""
    have, want = len(row.cells), dialect.n_columns
    extra = have - want
    if extra > 0 and not any(map(str.strip, row.cells[want:])):
        mark = "a tab" if dialect.separator == "\t" else quote(dialect.separator)
        many, one, it = (f"{extra} times ", "as many", "them") if extra > 1 else ("", "one", "it")
        return (
            f"It ends with {many}{mark}. If all lines do so, add {one} at the end of line "
            f"{dialect.first}; if this one alone does, take {it} off"
        )
    if extra < 0 and dialect.names is not None and not any(dialect.names[have:]):
        return (
            f"Behind its last name line {dialect.first} has separators that name nothing: take "
            "them off"
        )
    return ""


def _way_past(row: Row, dialect: Dialect) -> str:
    """Lines to skip where a ragged row is a comment or stands above the table; else nothing."""
    names = [] if dialect.names is None else [Row(list(dialect.names), dialect.first, 0)]
    rows = [*names, *dialect.head]
    if row.line > rows[-1].line:
        rows.append(row)
    marks = [mark for mark in MARKS if any(_begins(one, mark) for one in rows)]
    guesses = [_guess(rows, mark, dialect.cells) for mark in (*marks, None)]
    possible = [guess for guess in guesses if guess is not None]
    _, best = min(possible, key=itemgetter(0), default=((), SKIP_NOTHING))
    if not best:
        return ""
    reasons = []
    if best.first:
        reasons.append(f"the table begins in line {best.first + 1}")
    if best.mark is not None:
        reasons.append(f"lines that begin with {quote(best.mark)} are comments")
    return f"If {' and '.join(reasons)}, pass {best}"


def _guess(
    rows: Sequence[Row], mark: str | None, cells: Cells
) -> tuple[tuple[int, bool, bool], SkippedLines] | None:
    """Where the table begins if rows with this mark are comments; None where that cannot be.

    First comes its cost: rows of the table that still would be ragged, whether there is no header,
    and whether both kinds of lines would have to be skipped.
    """
    kept = [row for row in rows if mark is None or not _begins(row, mark)]
    start, stop = _longest_run(kept)
    if stop - start < 2:
        return None
    width = len(kept[start].cells)
    marked = [len(row.cells) == width for row in rows if mark is not None and _begins(row, mark)]
    if width < 2 or (marked and (all(marked) or sum(marked) >= stop - start)):
        return None  # the mark is part of what rows hold
    has_header = is_header([row.cells for row in kept[start:stop]], cells)
    # The first row may be a header after all, of the right width or a little off.
    if start == 1:
        is_ragged_alone = any(cells.number(cell) is not None for cell in kept[1].cells)
    else:
        is_ragged_alone = len(kept[0].cells) == width
    if start and (not has_header or is_ragged_alone):
        return None
    first = kept[start].line - 1 if start else 0
    ragged = sum(len(row.cells) != width for row in kept[start:])
    return (ragged, not has_header, first > 0 and mark is not None), SkippedLines(first, mark)


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


# Labels ----------------------------------------------------------------------------------------


def label_rows(dialect: Dialect, chosen: Sequence[int]) -> int:
    """How many of the first rows are labels, such as units, between the names and the numbers.

    Such a row holds no number, and in most numeric columns a text that does not occur again.
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
    numeric = set()
    for j in chosen:
        column = [row.cells[j] for row in below if not cells.is_missing(row.cells[j])]
        if 2 * sum(cells.number(cell) is not None for cell in column) > len(column):
            numeric.add(j)
    observed = [j for j in numeric if not cells.is_missing(first[j])]
    new = [j for j in texts if j in numeric and all(row.cells[j] != first[j] for row in below)]
    return len(new) == len(observed) > 1 and 2 * len(new) >= len(numeric)


def describe_label_rows(dialect: Dialect, chosen: Sequence[int], count: int) -> str:
    """The message about rows that are labels."""
    rows = dialect.head[:count]
    texts = [_shown(row.cells[j]) for row in rows for j in chosen if row.cells[j].strip(WHITE)]
    shown = ", ".join(map(quote, texts[:MOST_UNITS])) + ", ..." * (len(texts) > MOST_UNITS)
    *first, last = (str(row.line) for row in rows)
    hold, do = f"line {last} holds", "a line of units does. Take it out"
    if first:
        hold = f"lines {', '.join(first)} and {last} hold"
        do = "lines of units and labels do. Take them out"
    return f"{hold} text where others hold numbers ({shown}), as {do}"


# Text ------------------------------------------------------------------------------------------


def refuse_text_columns(where: str, dialect: Dialect, chosen: Sequence[int]) -> None:
    """Refuse columns whose first rows hold text, all of them in one message."""
    refused: dict[int, str] = {}
    hints, codes = [], []
    for j in chosen:
        values = [dialect.cells.number(row.cells[j]) for row in dialect.head]
        rows = [row for row, value in zip(dialect.head, values, strict=True) if value is None]
        if not rows:
            continue
        texts = [_shown(row.cells[j]) for row in rows]
        among_numbers = any(value is not None and not isnan(value) for value in values)
        kind = "text among numbers" if among_numbers else "text"
        refused[j] = f"{kind}, e.g. {quote(texts[0])} at line {rows[0].line}"
        # What the text resembles, unless it is one code among names.
        looks = [likeness_of(text, dialect.cells.decimal) for text in texts[:MOST_TEXTS]]
        first = looks[0]
        alike = sum(look is not None for look in looks)
        if first and (first.is_sure or among_numbers) and 2 * alike >= len(looks):
            hints.append(f"{quote(texts[0])} {first}")
        if texts[0] and among_numbers and len(set(texts)) == 1:
            codes.append(texts[0])
    if not refused:
        return
    if count := label_rows(dialect, chosen):
        raise UnreadableError(where, describe_label_rows(dialect, chosen, count), in_cells=True)
    raise not_numeric(
        where,
        [(j if dialect.names is None else dialect.names[j], kind) for j, kind in refused.items()],
        _choosable(dialect, [j for j in chosen if j not in refused]),
        ". ".join(dict.fromkeys(hints)),
        codes[0] if codes else None,
    )


def _text_cell(
    where: str, row: Row, j: int, dialect: Dialect, chosen: Sequence[int]
) -> UnreadableError:
    text = _shown(row.cells[j])
    others = _choosable(dialect, [k for k in chosen if k != j])
    label = column(dialect.names, j)
    leave = f"; or {words().without(label, choice(others))}" if others else ""
    found = likeness_of(text, dialect.cells.decimal)
    like, after = ("", "") if found is None else (f"It {found}. ", " after all")
    code = words().parameter("missing_values", quote(text))
    return UnreadableError(
        where,
        f"line {row.line}, column {label} holds text, {quote(text)}. {like}If that stands for a "
        f"missing cell{after}, pass {code}{leave}",
        in_cells=True,
        line=row.line,
        column=j,
        name=None if dialect.names is None else dialect.names[j],
        value=text,
    )


def _choosable(dialect: Dialect, positions: Sequence[int]) -> list[str | int]:
    """Columns as `columns=` takes them: each by its name where no other has it."""
    names = dialect.names
    if names is None:
        return list(positions)
    count = Counter(names)
    return [names[j] if names[j] and count[names[j]] == 1 else j for j in positions]


def _shown(cell: str) -> str:
    return cell.strip(WHITE).encode("latin-1").decode("utf-8", "replace")
