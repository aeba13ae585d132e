"""What the library says of its parameters, said of the options of the command line.

The library's errors end with a way out, and that is a parameter of Python: `pass
missing_values="?"`. Whoever typed a command is shown the option: `--na "?"`.
"""

from __future__ import annotations

import re
from collections.abc import Callable

Rule = tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]]

_TEXT = r'"(?:[^"\\]|\\.)*"'
_LIST = rf"\[((?:{_TEXT}|[^\]\"])*)\]"


def in_options(message: str) -> str:
    """The message with parameters replaced by options.

    >>> in_options('If "?" stands for a missing cell, pass missing_values="?"')
    'If "?" stands for a missing cell, pass --na "?"'
    >>> in_options('Choose the numeric ones: columns=["a", "b c"]')
    "Choose the numeric ones: --columns 'a,b c'"
    >>> in_options("columns differ too much in size (scale=True helps)")
    'columns differ too much in size (--scale helps)'
    >>> in_options('"t.csv": line 3 is empty'), in_options('"t.cvs" does not exist')
    ('t.csv: line 3 is empty', 't.cvs does not exist')
    """
    for pattern, instead in RULES:
        message = pattern.sub(instead, message)
    return message


def _items(inside: str) -> list[str]:
    found = re.findall(rf"{_TEXT}|[^,\s]+", inside)
    return [item[1:-1] if item.startswith('"') else item for item in found if item != "..."]


def _columns(match: re.Match[str]) -> str:
    import shlex

    items = [f'"{item}"' if "," in item else item for item in _items(match[1])]
    more = ",..." if match[1].rstrip().endswith("...") else ""
    return "--columns " + shlex.quote(",".join(items) + more)


def _comment(match: re.Match[str]) -> str:
    import shlex

    return "--comment " + shlex.quote(match[1][1:-1])


def _paths(match: re.Match[str]) -> str:
    """Files of a message as the command line shows them: bare where their names are plain."""
    from eigengap.cli.errors import shown

    return match[1] + re.sub(
        _TEXT, lambda one: one[0] if "\\" in one[0] else shown(one[0][1:-1]), match[2]
    )


def _codes(match: re.Match[str]) -> str:
    return " ".join(f"--na {item}" for item in _items(match[1]))


def _rows(match: re.Match[str]) -> str:
    return f"the table has {match[1]} row{'' if match[1] == '1' else 's'}"


def _more_steps(match: re.Match[str]) -> str:
    return f"allow more: --set max_iter={10 * max(1, int(match[1]))}, or a larger --set tol=..."


def _components(match: re.Match[str]) -> str:
    """What -k may be, in place of Python's types and ranges."""
    kind, allowed, got = match.groups()
    least = re.search(r"int in the range \[(\d+),", allowed)
    ways = [f"a whole number from {least[1] if least else 1} on (3)"]
    ways += (
        ["a share of the variance between 0 and 1 (0.95)"]
        if "float in the range" in allowed
        else []
    )
    ways += ["auto"] if "'auto'" in allowed else []
    *first, last = ways
    taken = f"{', '.join(first)} or {last}" if first else last
    return f"-k {got.strip(chr(39))}: the number of components of {kind} is {taken}"


def _rescale(match: re.Match[str]) -> str:
    return f"{'divide' if match[1] == '/' else 'multiply'} them by {match[2]} beforehand"


def _rules(*rules: tuple[str, str | Callable[[re.Match[str]], str]]) -> tuple[Rule, ...]:
    return tuple((re.compile(pattern), instead) for pattern, instead in rules)


# Where the library names files: a message begins with one, or speaks of one in these words.
_FILES = (
    r"(^|\bno file matches |\bdid you mean |\bcolumns are not those of |, and in |\brow \d+ of "
    rf"|\bafter the path: )({_TEXT}(?: or {_TEXT})*)"
)

RULES = _rules(
    (
        rf"column ({_TEXT}) holds text(.*); or leave the column out: columns={_LIST}",
        lambda m: f"column {m[1]} holds text{m[2]}; or leave it out: --ignore {m[1]}",
    ),
    (r"every cell is NaN\. Drop (it|them) before fitting", r"no cell is seen. Leave \1 out"),
    # The library counts rows from 0, people from 1.
    (r"(\bat |\bis |\()row (\d+)\b", lambda m: f"{m[1]}row {int(m[2]) + 1}"),
    (rf"missing_values={_LIST}", _codes),
    (rf"missing_values=({_TEXT}|[^\s;,.]+(?:\.\d+)?)", r"--na \1"),
    (r"pass missing_values or set it to NaN", "treat it so: --na VALUE"),
    (r"\bmissing_values\b", "--na"),
    (rf"open_source\(path, columns={_LIST}\)", "--columns"),
    (rf"columns={_LIST}", _columns),
    (r"\bskip_rows=(\d+)", r"--skip-rows \1"),
    (rf"\bcomment=({_TEXT})", _comment),
    (r"columns=(?=\s|$)", "--columns "),
    (r"columns= chooses", "--columns chooses"),
    (r"columns chooses", "--columns names"),
    (r"; pass force=True to replace it", ". Replace it with --force, or name another with -o"),
    (r"\bscale=True\b", "--scale"),
    (r"\bscale=False\b", "--no-scale"),
    (r"raise max_iter=(\d+) or tol", _more_steps),
    (r"raise max_iter\b", "raise --set max_iter=..."),
    (r"The 'n_components' parameter of (\w+) must be (.*?)\. Got (.*?) instead\.?", _components),
    (r"The 'n_components' parameter", "-k"),
    (r"n_components=", "-k "),
    (r"\bn_components\b", "the number of components (-k)"),
    (r"The '(\w+)' parameter of (\w+)", r"--set \1 of \2"),
    (r"sample_weight \* .*$", ""),
    (
        r"give PPCA a noise_variance above 0",
        "give -m ppca one above 0 (--set noise_variance=...)",
    ),
    (r"rescale the data, for instance divide that column by", "beforehand divide it by"),
    (r"rescale the data, for instance X ([*/]) (\S+)", _rescale),
    (r"FactorAnalysis\(noise=\"student\"\)", "-m fa --set noise=student"),
    (r"noise that differs by column \(FactorAnalysis\)", "noise that differs by column (-m fa)"),
    (r", or pass the values without names, e\.g\. X\.to_numpy\(\)", ""),
    (r"give sigma, its standard deviation, or a smaller patch", "give it: --sigma SD"),
    (r"eigengap\.stream\(method, X, path\)", "-o FILE"),
    (r"fit again with the same data, parameters and checkpoint", "run the same command again"),
    (r": explained_variance_ratio_ is zero", ""),
    (r"\"?[^\s\"]*eigengap-\w+/standard-input\"?", "standard input"),
    (r"\bInput X has\b", "the table has"),
    (r"\bInput X contains\b", "the table contains"),
    (r"\bInput X holds\b", "the table holds"),
    (r"^X has\b", "the table has"),
    (r"\bof X\b", "of the table"),
    (r"but X has", "but the table has"),
    (r"Set such cells to NaN to have them treated as missing", "Leave such cells empty"),
    (r": Found array with 0 sample\(s\)(?: \(shape=[^)]*\).*)?", ""),
    (
        r"Found array with (\d+) sample\(s\)(?: \((?:[^()]|\([^)]*\))*\))?(?: while a minimum .*)?",
        _rows,
    ),
    (_FILES, _paths),
)
