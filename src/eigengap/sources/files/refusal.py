"""The error for columns of a file that hold no numbers, with the columns that do as the way out."""

from __future__ import annotations

from collections.abc import Sequence

from eigengap.exceptions import UnreadableError
from eigengap.sources.cells import OFFERED
from eigengap.sources.wording import quote

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
    )


def ways_out(numeric: Sequence[str | int]) -> str:
    if not numeric:
        return "It has no numeric column"
    return f"Choose the numeric ones: columns={choice(numeric)}"


def choice(columns: Sequence[str | int]) -> str:
    """Columns as the argument `columns` takes them; the first few where there are many."""
    shown = [quote(c) if isinstance(c, str) else str(c) for c in columns[:OFFERED]]
    return f"[{', '.join(shown)}{', ...' * (len(columns) > OFFERED)}]"
