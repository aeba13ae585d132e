"""What a command reports, on standard error, so that data can have standard output."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from math import isfinite
from typing import Any

from eigengap.cli.errors import shown

INDENT = 8
MOST_NOTES = 8
MOST_DECIMALS = 12


class Narrator:
    """Writes `Label  sentence` lines; in colour only on a terminal and without NO_COLOR.

    `facts` are the contents of the sentences, for --json.
    """

    def __init__(self, quiet: bool = False, as_json: bool = False, verbose: bool = False) -> None:
        from rich.console import Console

        # A sentence is for people and wraps only where their terminal does: never in a file.
        self.console = Console(stderr=True, quiet=quiet, highlight=False, soft_wrap=True)
        self.verbose = verbose
        self.facts: dict[str, Any] = {}
        self.as_json = as_json
        self._kinds: set[type[Warning]] = set()  # of warnings that became notes

    @property
    def shows_progress(self) -> bool:
        """On a terminal that somebody looks at."""
        return bool(self.console.is_terminal) and not self.console.quiet

    def say(self, label: str, sentence: str, **facts: Any) -> None:
        """One line: what was done, and what came of it."""
        self.facts.update(facts)
        self._print(label, "bold cyan", sentence)

    def note(self, sentence: str) -> None:
        """Something to mind, once."""
        notes = self.facts.setdefault("notes", [])
        if sentence not in notes:
            notes.append(sentence)
            if len(notes) <= MOST_NOTES:
                self._print("Note", "bold yellow", sentence)

    @property
    def n_notes(self) -> int:
        return len(self.facts.get("notes", ()))

    def _print(self, label: str, style: str, sentence: str) -> None:
        from rich.text import Text

        self.console.print(Text.assemble((f"{label:<{INDENT}}", style), sentence))

    def wrote(
        self, path: str, count: int | None, what: str = "", after: str = "", **facts: Any
    ) -> None:
        """Where so many bytes went; `what` stands before standard output, which has no name."""
        where = f"{what}standard output" if path == "-" else shown(path)
        bytes_of = "" if count is None else f" ({size(count)})"
        self.say("Wrote", f"{where}{bytes_of}{after}", **facts)

    def show_rows(self, header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """A small table under the last sentence; the first column is right-aligned."""
        for k, line in enumerate(aligned(header, rows)):
            self.console.print(" " * INDENT + line, style="" if k else "dim", markup=False)

    @contextmanager
    def hearing(self) -> Iterator[None]:
        """Warnings of what runs inside become notes, each kind of eigengap's own once.

        Of what columns seem to hold there is a note for each column.
        """
        from eigengap.exceptions import ConstantColumnWarning, RoundedWarning, SentinelWarning
        from eigengap.runtime.warnings import captured

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # those of other packages speak of code, not of data
            try:
                with captured() as heard:
                    yield
            finally:
                # `report_constant` has named constant columns, with the option; a later pass over
                # the same table may name another rounded cell.
                known = {ConstantColumnWarning, *({RoundedWarning} & self._kinds)}
                for kind, warning in {one.category: one for one in reversed(heard)}.items():
                    if kind not in known:
                        self._kinds.add(kind)
                        self.note(warning.message)
                for warning in heard:
                    if warning.category is SentinelWarning:
                        self.note(warning.message)


def aligned(header: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Lines of a small table."""
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    for row in (header, *rows):
        cells = [row[0].rjust(widths[0])]
        cells += [cell.ljust(width) for cell, width in zip(row[1:], widths[1:], strict=True)]
        yield "  ".join(cells).rstrip()


def plain(value: Any) -> Any:
    """Numbers, texts, lists and objects that JSON has; NaN and infinity are null.

    >>> plain({"a": (1, float("nan")), "b": None})
    {'a': [1, None], 'b': None}
    """
    if isinstance(value, dict):
        return {str(key): plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(one) for one in value]
    if hasattr(value, "tolist"):  # an array, or a number of NumPy's
        return plain(value.tolist())
    if isinstance(value, float) and not isfinite(value):
        return None
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return str(value)


def listing(names: Sequence[str], most: int = 5) -> str:
    """The names as a phrase; foreign ones are escaped, and many are counted.

    >>> listing(["id"]), listing(["id", "diagnosis"]), listing(["a", "b", "c"])
    ('id', 'id and diagnosis', 'a, b and c')
    >>> listing(list("abcdefg"), most=3)
    'a, b, c and 4 more'
    """
    phrases = [named(name) for name in names]
    if len(phrases) > most:
        return f"{', '.join(phrases[:most])} and {len(phrases) - most} more"
    *first, last = phrases
    return f"{', '.join(first)} and {last}" if first else last


def named(name: str) -> str:
    """A column's name as a sentence has it: bare where it is plain.

    >>> named("age"), named("a b"), named("x\\ny")
    ('age', '"a b"', '"x\\\\ny"')
    """
    from eigengap.sources import quote

    plain_name = name.isprintable() and name and len(name) <= 60 and not set(name) & set(" ,;\"'")
    return name if plain_name else quote(name)


def signed(number: float, digits: int = 2) -> str:
    """A number with a true minus sign, where the terminal has one.

    >>> signed(-14.118) in ("−14.12", "-14.12")
    True
    """
    text = f"{number:.{digits}f}"
    try:
        "−".encode(getattr(sys.stderr, "encoding", None) or "utf-8")
    except (UnicodeEncodeError, LookupError):
        return text
    return text.replace("-", "−")


def figure(number: float, digits: int = 4) -> str:
    """A number to so many digits, as people write it; all digits before the point are shown.

    >>> figure(1367.2), figure(-0.012345), figure(9999.6), figure(2.5e-9), figure(3.0)
    ('1367', '−0.01235', '10000', '2.5e-09', '3')
    """
    if number and not 1e-4 <= abs(number) < 1e9:
        text = f"{number:.{digits}g}"
    else:
        text = f"{number:.0f}" if abs(number) >= 10 ** (digits - 1) else f"{number:.{digits}g}"
    return text.replace("-", "−", 1) if text.startswith("-") else text


def sd_text(sd: float) -> str:
    """A standard deviation to two digits.

    >>> sd_text(512.3), sd_text(0.0234), sd_text(1.0), sd_text(2.4e12)
    ('510', '0.023', '1.0', '2.4e+12')
    """
    rounded = float(f"{sd:.2g}")
    return f"{rounded:.{_decimals(sd)}f}" if 1e-4 <= abs(rounded) < 1e9 else f"{sd:.2g}"


def rounded_by(value: float, sd: float) -> str:
    """A number as far as the two digits of its standard deviation go.

    >>> rounded_by(1018.468, 0.412), rounded_by(1367.2, 512.3)
    ('1018.47', '1367')
    >>> rounded_by(-0.001, 1.9), rounded_by(2.684, 0.0)
    ('0.0', '2.684')
    """
    if not (isfinite(value) and isfinite(sd) and sd > 0.0):
        return figure(value)
    decimals = min(MOST_DECIMALS, _decimals(sd))
    rounded = round(value, decimals)
    if rounded and not 1e-4 <= abs(rounded) < 1e9:
        return figure(value, min(15, max(1, _power(value) - _power(sd) + 2)))
    return f"{rounded or 0.0:.{decimals}f}".replace("-", "−", 1)


def _decimals(sd: float) -> int:
    """Places behind the point that two digits take."""
    return max(0, 1 - _power(sd)) if sd and isfinite(sd) else 0


def _power(number: float) -> int:
    """Of ten, in a number rounded to two digits."""
    return int(f"{number:.1e}".partition("e")[2])


def with_sd(value: float, sd: float) -> str:
    """
    >>> with_sd(1367.2, 512.3), with_sd(1018.468, 0.412)
    ('1367 ± 510', '1018.47 ± 0.41')
    """
    return f"{rounded_by(value, sd)} ± {sd_text(sd)}"


def many(count: int, what: str) -> str:
    """
    >>> many(1, "row"), many(12000, "row")
    ('1 row', '12 000 rows')
    """
    return f"{count:,} {what}{'' if count == 1 else 's'}".replace(",", " ")


def size(count: int) -> str:
    """
    >>> size(3900), size(12_345_678)
    ('4 kB', '12.3 MB')
    """
    if count < 1_000_000:
        return f"{max(1, round(count / 1000))} kB"
    return f"{count / 1e6:.1f} MB" if count < 1e9 else f"{count / 1e9:.1f} GB"
