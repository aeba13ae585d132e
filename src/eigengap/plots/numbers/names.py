"""Foreign names as text that a chart or a page can show: short, on one line, each only once.

Names of columns and categories come from users' files. Charts never use them as names of fields,
only as values, and only in this form. In a chart (`label`) what is not printable is escaped; in the
report (`clean`) it is left out, and markup is not touched: the page escapes everything it shows.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Any

from eigengap.estimators.shared.display import inner
from eigengap.printable import bare

LONGEST = 32  # characters of a name in a chart
LONGEST_CLEAN = 60  # and in the report
NAMELESS = "(no name)"

# What every object of JavaScript has: Vega looks values up in objects, and would find these there.
# A mark of no width behind such a name makes it another one that looks the same.
OF_EVERY_OBJECT = re.compile(
    "__(define|lookup)[GS]etter__|__proto__|constructor|hasOwnProperty|isPrototypeOf|"
    "propertyIsEnumerable|to(Locale)?String|valueOf"
)
# Cc: controls; Cf: formats, among them marks of direction; Cs: halves of letters; Zl, Zp: new lines
UNSHOWN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
NO_WIDTH = "\u2060"
# What a parser of HTML takes for the beginning or the end of an element, or for a comment. Altair
# writes the specification into a script as it is, so that a name could end that script.
MARKUP = re.compile(r"<(?=[A-Za-z/!?])")


def label(name: Any, longest: int = LONGEST) -> str:
    r"""A name on one line; what is not printable is escaped, what is too long is cut.

    >>> label("depth\n[m]")
    'depth\\n[m]'
    >>> label("x" * 50)
    'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx…'
    """
    text = name if isinstance(name, str) else str(name)
    cut = text[: longest + 1]  # before escaping: it may be very long
    shown = bare(cut).strip()
    if len(text) > longest or len(shown) > longest:
        shown = shown[: longest - 1] + "…"
    return not_markup(safe_value(shown)) or NAMELESS


def safe_value(text: str) -> str:
    """A text that Vega can look up among others."""
    return text + NO_WIDTH if OF_EVERY_OBJECT.fullmatch(text) else text


def not_markup(text: str) -> str:
    r"""A text that no parser of HTML takes for a tag: a mark of no width goes behind the "<".

    >>> not_markup("</script>") == "<\u2060/script>", not_markup("x <5")
    (True, 'x <5')
    """
    return MARKUP.sub(f"<{NO_WIDTH}", text)


def clean(text: object, longest: int = LONGEST_CLEAN) -> str:
    """A foreign text on one line, shortened, without control characters.

    >>> clean("a\\nb"), clean("  "), clean("x" * 100, 5)
    ('a b', '(empty)', 'xxxx…')
    """
    letters = str(text)[: 4 * longest]
    shown = "".join(" " if unicodedata.category(c) in UNSHOWN else c for c in letters)
    shown = " ".join(shown.split())
    if not shown:
        return "(empty)"
    cut = len(shown) > longest or len(str(text)) > 4 * longest
    return shown[: longest - 1] + "…" if cut else safe_value(shown)


def labels(names: Iterable[Any], longest: int = LONGEST) -> list[str]:
    """Labels that differ from each other.

    >>> labels(["a", "a", ""])
    ['a', 'a (2)', '(no name)']
    """
    return _numbered(label(name, longest) for name in names)


def distinct(texts: Iterable[object]) -> tuple[str, ...]:
    """Every text made clean, and numbered where two would look alike.

    >>> distinct(["a", "b", "a"])
    ('a', 'b', 'a (2)')
    """
    return tuple(_numbered(map(clean, texts)))


def _numbered(names: Iterable[str]) -> list[str]:
    taken: dict[str, None] = {}
    for name in names:
        shown, k = name, 1
        while shown in taken:
            k += 1
            shown = f"{name} ({k})"
        taken[shown] = None
    return list(taken)


def names_of(estimator: Any, d: int | None = None) -> list[str]:
    """Labels of the columns that an estimator was fitted to: x0, x1, ... where it knows none."""
    names: Sequence[Any] | None = getattr(estimator, "feature_names_in_", None)
    if (coded := getattr(inner(estimator), "table_", None)) is not None:  # those that it uses
        known = coded.names if names is None or len(names) != coded.n_features else names
        return labels(f"x{j}" if known is None else known[j] for j in coded.used)
    d = int(estimator.n_features_in_) if d is None else d
    if names is None or len(names) != d:
        return [f"x{j}" for j in range(d)]
    return labels(names)


def component_names(estimator: Any) -> list[str]:
    """PC1, PC2, ... of an estimator of ours; what scikit-learn's and others call their columns."""
    names = getattr(estimator, "component_names_", None)
    return [str(name) for name in (estimator.get_feature_names_out() if names is None else names)]


def in_columns(lines: Sequence[Sequence[str]]) -> list[str]:
    """Lines of a printed table, the last cell of each as long as it is."""
    wide = [max(map(len, column)) for column in zip(*lines, strict=True)]
    wide[-1] = 0
    each = ("  ".join(map(str.ljust, line, wide)) for line in lines)
    return [f"  {text}".rstrip() for text in each]
