"""What a command tells its user, on standard error, so that data can have standard output."""

from collections.abc import Sequence


class Narrator:
    """Writes `Label  sentence` lines; in colour only on a terminal and without NO_COLOR."""

    def __init__(self, quiet: bool = False) -> None:
        from rich.console import Console

        # A sentence is for people and wraps only where their terminal does: never in a file.
        self._console = Console(stderr=True, quiet=quiet, highlight=False, soft_wrap=True)

    def say(self, label: str, sentence: str) -> None:
        """One line: what was done, and what came of it."""
        from rich.text import Text

        self._console.print(Text.assemble((f"{label:<7}", "bold cyan"), sentence))

    def show_rows(self, header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """A small table under the last sentence; the first column is right-aligned."""
        widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
        for row, style in ((header, "dim"), *((row, "") for row in rows)):
            cells = [row[0].rjust(widths[0])]
            cells += [cell.ljust(width) for cell, width in zip(row[1:], widths[1:], strict=True)]
            self._console.print(" " * 7 + "  ".join(cells).rstrip(), style=style, markup=False)


def listing(names: Sequence[str]) -> str:
    """The names as a phrase.

    >>> listing(["id"]), listing(["id", "diagnosis"]), listing(["a", "b", "c"])
    ('id', 'id and diagnosis', 'a, b and c')
    """
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last
