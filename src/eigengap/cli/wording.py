"""Messages of the library in the words of the command line: options, files, rows from 1."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from eigengap.printable import bare
from eigengap.registry import BY_NAME
from eigengap.wording import Words

OPTIONS = {
    "missing_values": "--na",
    "n_components": "-k",
    "skip_rows": "--skip-rows",
    "columns": "--columns",
    "force": "--force",
    "sigma": "--sigma",
    "checkpoint": "--checkpoint",
}
STDIN = "standard-input"  # the file that standard input is copied to


class Options(Words):
    """
    >>> Options().parameter("missing_values", '"?"'), Options().parameter("scale", True)
    ('--na "?"', '--scale')
    >>> Options().columns(["a", "b c"]), Options().path("t.csv"), Options().model("FactorAnalysis")
    ("--columns 'a,b c'", 't.csv', '-m fa')
    """

    table = X = "the table"

    def parameter(self, name: str, value: object = None) -> str:
        if name == "scale":
            return "--no-scale" if value is False else "--scale"
        if name == "comment" and isinstance(value, str):
            return f"--comment {shlex.quote(value[1:-1])}"
        if name not in OPTIONS:
            return f"--set {name}={'...' if value is None else value}"
        return OPTIONS[name] if value is None or value is True else f"{OPTIONS[name]} {value}"

    def missing_values(self, codes: Sequence[str]) -> str:
        return " ".join(f"--na {_for_shell(code)}" for code in codes)

    def columns(self, chosen: Sequence[str | int], more: bool = False) -> str:
        items = [f'"{bare(one)}"' if "," in str(one) else bare(one) for one in chosen]
        return "--columns " + shlex.quote(",".join(items) + ",..." * more)

    def without(self, column: str, others: str) -> str:
        return f"leave it out: --ignore {column}"

    def more_steps(self, max_iter: int) -> str:
        return f"allow more: --set max_iter={10 * max(1, max_iter)}, or a larger --set tol=..."

    def model(self, name: str) -> str:
        return f"-m {BY_NAME[name].command}"

    def number(self, i: int) -> int:
        return i + 1

    def path(self, text: str) -> str:
        from eigengap.cli.errors import shown

        is_stdin = Path(text).name == STDIN and Path(text).parent.name.startswith("eigengap-")
        return shown("-" if is_stdin else text)

    def either(self, in_python: str, at_terminal: str = "") -> str:
        return at_terminal


def _for_shell(code: str) -> str:
    """A code in double quotes, or in single ones if it holds what a shell would expand."""
    if not code.startswith('"') or not set("$`\\!") & set(code):
        return code
    return shlex.quote(code[1:-1].replace('\\"', '"').replace("\\\\", "\\"))
