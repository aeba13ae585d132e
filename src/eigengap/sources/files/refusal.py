"""The error for columns of a file that hold no numbers, with the columns that do as the way out."""

from __future__ import annotations

from collections.abc import Sequence

from eigengap.exceptions import UnreadableError
from eigengap.sources.cells import OFFERED
from eigengap.sources.wording import short
from eigengap.wording import words

MOST_NAMED = 8  # columns that one message lists


def refuse_columns(
    where: str, told: Sequence[str], numeric: Sequence[str | int], hint: str = ""
) -> UnreadableError:
    """`told` are the columns with what they hold, `numeric` the others by name or position."""
    several = len(told) > 1
    listed = ", ".join(told[:MOST_NAMED])
    more = f" and {len(told) - MOST_NAMED} more" if len(told) > MOST_NAMED else ""
    return UnreadableError(
        where,
        f"it has {'columns that are' if several else 'a column that is'} not numeric: "
        f"{listed}{more}. {ways_out(numeric)}{hint}",
        in_cells=True,
    )


def ways_out(numeric: Sequence[str | int]) -> str:
    if not numeric:
        return "It has no numeric column"
    return f"Choose the numeric ones: {choice(numeric)}"


def choice(columns: Sequence[str | int]) -> str:
    """A choice of these columns; of the first few if there are many."""
    shown = [short(c) if isinstance(c, str) else c for c in columns[:OFFERED]]
    return words().columns(shown, more=len(columns) > OFFERED)
