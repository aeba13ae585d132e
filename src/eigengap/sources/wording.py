"""How cells and columns are named in messages: quoted, escaped, never longer than a line."""

from __future__ import annotations

from collections.abc import Sequence

from eigengap.printable import quoted

LONGEST = 60  # characters of a name or value that a message shows


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


def first_repeated(names: Sequence[str]) -> str | None:
    """The first name that occurs again, None where each is the only one."""
    observed: set[str] = set()
    repeated: set[str] = set()
    for name in names:
        (repeated if name in observed else observed).add(name)
    return next((name for name in names if name in repeated), None)
