"""How cells and columns are named in messages: quoted, escaped, never longer than a line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from eigengap.printable import quoted

LONGEST = 60  # characters of a name or value that a message shows
MOST_NAMED = 5  # columns in one message


def quote(text: str) -> str:
    """A foreign string in double quotes on one line; what is not printable is escaped."""
    return quoted(short(text))


def short(text: str) -> str:
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"


def show(value: object) -> str:
    """A cell's value for a message."""
    if isinstance(value, str):
        return quote(value)
    text = repr(value) if isinstance(value, bytes) else str(value)
    return quote(text)[1:-1]


def column(names: Sequence[str] | None, j: int) -> str:
    """Column j by its quoted name, or by its 0-based position where it has none."""
    return str(j) if names is None else quote(names[j])


def named_columns(
    names: Sequence[str] | None,
    which: Sequence[int] | NDArray[np.intp],
    counts: NDArray[np.intp] | None = None,
) -> str:
    """ "column a", or "columns a, b and 3 more"; each with its count where `counts` has one."""
    named = [
        column(names, int(j)) + (f" ({counts[j]})" if counts is not None else "")
        for j in which[:MOST_NAMED]
    ]
    more = f" and {len(which) - MOST_NAMED} more" if len(which) > MOST_NAMED else ""
    return f"column{'s' if len(which) > 1 else ''} {', '.join(named)}{more}"


def first_repeated(names: Sequence[str]) -> str | None:
    """The first name that occurs again, None where each is the only one."""
    return next((name for name, count in Counter(names).items() if count > 1), None)
