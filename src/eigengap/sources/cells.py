"""From Python objects and text to numbers, and the message where there is no number."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from numbers import Complex, Integral, Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eigengap.linalg import Array
from eigengap.sources.checks import EXACT, warn_rounded
from eigengap.sources.wording import show
from eigengap.wording import words

NUMBERS = (Real, Decimal, np.bool_, type(None))  # None becomes NaN when NumPy converts it
NULLS = ("NAType", "NaTType", "MaskedConstant")  # by name: pandas is not imported for them
PROBE = 1000  # values read before a column counts as plain text
OFFERED = 8  # numeric columns that a message lists

WRITTEN = "numbers written as text"
MIXED = "text among numbers"


@dataclass(frozen=True)
class Refused:
    """A column that holds no numbers."""

    label: str  # as messages show it
    kind: str  # what it holds instead
    example: str  # one value, as messages show it
    row: int  # where that value stands
    is_object: bool = False  # neither text nor anything else that a column type names

    def __str__(self) -> str:
        return f"{self.label} ({self.kind}, e.g. {self.example} at row {words().number(self.row)})"


def refusal(
    refused: Sequence[Refused], numeric: Sequence[str], to_numeric: dict[str, str]
) -> ValueError:
    """The error that names every column that is not numeric and the ways out.

    `numeric` are the other columns as messages show them; `to_numeric` is how the caller's library
    turns WRITTEN and MIXED columns into numbers, with {} where the column goes.
    """
    choice = ", ".join(numeric) if 0 < len(numeric) <= OFFERED else "..."
    by_name = any('"' in name for name in numeric)
    several = len(refused) > 1
    lines = [
        f"{words().table} has {'columns that are' if several else 'a column that is'} not numeric: "
        f"{', '.join(map(str, refused))}. Choose the numeric ones, "
        f"{'X[[' + choice + ']]' if by_name else 'X[:, [' + choice + ']]'}, or drop "
        f"{'these' if several else 'this one'}."
        + words().either(' Estimators with a parameter columns use levels: columns="auto".')
    ]
    for kind, effect in ((WRITTEN, "Convert"), (MIXED, "To make NaN of the text, convert")):
        first = next((r.label for r in refused if r.kind == kind), None)
        if first is not None and kind in to_numeric:
            lines.append(f"{effect} {kind} with e.g. {to_numeric[kind].format(first)}.")
    return ValueError(" ".join(lines))


def objects_to_float(cells: NDArray[Any], label: str) -> Array | Refused:
    """Python objects (n,) as float64, nulls of any kind as NaN; or why that cannot be."""
    kinds = set(map(type, cells))
    if not all(issubclass(kind, NUMBERS) for kind in kinds):
        cells = cells.copy()
        nulls = [i for i, cell in enumerate(cells) if type(cell).__name__ in NULLS]
        cells[nulls] = None
        problem = _problem(cells, label)
        if problem is not None:
            return problem
    try:
        floats = np.asarray(cells.astype(np.float64))
    except OverflowError:
        row = next(i for i, cell in enumerate(cells) if _overflows(cell))
        raise ValueError(
            f"{words().table} contains a value too large for float64 at row "
            f"{words().number(row)}, column {label}"
        ) from None
    if any(issubclass(kind, Integral) for kind in kinds):
        with np.errstate(invalid="ignore"):
            beyond = np.flatnonzero((np.abs(floats) >= EXACT) & np.isfinite(floats))
        lost = next((i for i in beyond if cells[i] != int(floats[i])), None)
        if lost is not None:
            warn_rounded(label, str(cells[lost]), int(lost))
    return floats


def describe_text(texts: Sequence[str | bytes | None], label: str) -> Refused | None:
    """What a text column (n,) holds; None where every cell is null."""
    rows = [i for i, text in enumerate(texts) if text is not None]
    if not rows:
        return None
    head = [is_number(texts[i]) for i in rows[:PROBE]]
    if not any(head):
        return Refused(label, "text", show(texts[rows[0]]), rows[0])
    foreign = next((i for i in rows if not is_number(texts[i])), None)
    if foreign is None:
        return Refused(label, WRITTEN, show(texts[rows[0]]), rows[0])
    return Refused(label, MIXED, show(texts[foreign]), foreign)


def is_number(text: str | bytes | None) -> bool:
    """Whether Python reads the text as a number."""
    try:
        float(text)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return False
    return True


def _problem(cells: NDArray[Any], label: str) -> Refused | None:
    strange = [(i, cell) for i, cell in enumerate(cells) if not isinstance(cell, NUMBERS)]
    if not strange:
        return None
    row, cell = strange[0]
    if any(isinstance(other, Complex) for _, other in strange):
        raise ValueError(f"Complex data not supported: column {label}")
    if all(isinstance(other, str | bytes) for _, other in strange):
        if len(strange) == sum(other is not None for other in cells):
            return describe_text(cells.tolist(), label)
        foreign = next(((i, c) for i, c in strange if not is_number(c)), None)
        row, cell = foreign or (row, cell)
        return Refused(label, MIXED if foreign else WRITTEN, show(cell), row)
    row, cell = next((i, c) for i, c in strange if not isinstance(c, str | bytes))
    kind = f"objects of type {type(cell).__name__!r}"
    return Refused(label, kind, show(cell), row, is_object=True)


def _overflows(cell: Any) -> bool:
    try:
        float(cell)
    except OverflowError:
        return True
    except TypeError:  # None
        return False
    return False
