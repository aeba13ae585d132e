"""How messages name parameters, rows and files: for a Python program, or for a terminal.

The way out of an error is a parameter in Python, `missing_values="?"`, and an option on the command
line, `--na "?"`. Code that words a message asks `words()`; the command line replaces them by its
own for as long as a command runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from eigengap.printable import quoted


class Words:
    """The words of Python; the command line overrides them."""

    table = "Input X"  # as scikit-learn's own messages begin
    X = "X"

    def parameter(self, name: str, value: object = None) -> str:
        """A parameter, with its value as it is to be shown."""
        return name if value is None else f"{name}={value}"

    def missing_values(self, codes: Sequence[str]) -> str:
        """Several codes for missing values, as they are to be shown."""
        return self.parameter(
            "missing_values", codes[0] if len(codes) == 1 else f"[{', '.join(codes)}]"
        )

    def columns(self, chosen: Sequence[str | int], more: bool = False) -> str:
        """A choice of columns; `more` if there are more than are shown."""
        shown = [quoted(one) if isinstance(one, str) else str(one) for one in chosen]
        return f"columns=[{', '.join(shown)}{', ...' * more}]"

    def without(self, column: str, others: str) -> str:
        """How to leave out a column: `others` is the choice of all others."""
        return f"leave the column out: {others}"

    def more_steps(self, max_iter: int) -> str:
        return f"raise max_iter={max_iter} or tol"

    def model(self, name: str) -> str:
        """A class of estimators."""
        return name

    def number(self, i: int) -> int:
        """Of a row, or of a column of an image: from 0, as Python counts."""
        return i

    def path(self, text: str) -> str:
        return quoted(text)

    def either(self, in_python: str, at_terminal: str = "") -> str:
        """What only one of them can do: change an array, or a file."""
        return in_python


_words = Words()


def words() -> Words:
    return _words


@contextmanager
def worded(by: Words) -> Iterator[None]:
    """Messages of what runs inside, in any thread, have other words."""
    global _words
    before, _words = _words, by
    try:
        yield
    finally:
        _words = before


def counted(n: int, what: str, verb: str = "") -> str:
    """So many of them, and what they do.

    >>> counted(1, "component"), counted(2, "component", "leave"), counted(1, "component", "leave")
    ('1 component', '2 components leave', '1 component leaves')
    """
    words = f"{n} {what}{'s' * (n != 1)}"
    return f"{words} {verb}{'s' * (n == 1)}" if verb else words


def listed(items: Sequence[str], most: int = 5) -> str:
    """A few of the items in words.

    >>> listed(["a", "b", "c"], most=2)
    'a, b and 1 more'
    """
    shown = ", ".join(items[:most])
    return shown if len(items) <= most else f"{shown} and {len(items) - most} more"
