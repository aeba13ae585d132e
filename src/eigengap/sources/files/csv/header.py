"""Whether the first line of a CSV file holds names, or is a row like those below."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

from eigengap.sources.files.csv.cells import Cells

COMPARED = 50  # rows below
_DATE = re.compile(
    r"\d{1,4}([-/.])(?:\d{1,2}|[A-Za-z]{3,9})\1\d{1,4}(?:[T ].*)?|\d{1,2}:\d\d(?::\d\d.*)?",
    re.ASCII,
)


def is_header(rows: Sequence[Sequence[str]], cells: Cells) -> bool:
    """Unless the first of the rows is all numbers and gaps, or looks like the others.

    Whole numbers that count up by one (0, 1, 2, or 2019, 2020, 2021) are names, if the line below
    does not count up too.
    """
    first, *below = rows[: COMPARED + 1]
    if all(cells.number(cell) is not None for cell in first):
        return bool(below) and _counts_up(first) and not _counts_up(below[0])
    return not _is_like(first, below, cells)


def _is_like(first: Sequence[str], below: Sequence[Sequence[str]], cells: Cells) -> bool:
    """Numbers above numbers, no text above numbers, and a date above dates or a text that recurs.

    Numbers alone do not tell, for years and wavelengths are names beside `country` and `sample`.
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
            is_alike |= cell in under or (bool(under) and all(map(_is_date, [cell, *under])))
    return over_numbers and is_alike


def _is_date(cell: str) -> bool:
    return _DATE.fullmatch(cell.strip()) is not None


def _counts_up(cells: Sequence[str]) -> bool:
    """Whether there are three whole numbers or more, each one more than the last.

    So pandas names columns without names (0, 1, 2, ...), and so years follow each other.
    """
    if len(cells) < 3 or not all(cell.strip().isdecimal() for cell in cells):
        return False
    numbers = [int(cell) for cell in cells]
    return all(b == a + 1 for a, b in pairwise(numbers))
