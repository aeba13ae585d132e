"""Foreign names as text that a chart can show: printable, short, each one only once.

Names of columns and categories come from users' files. Charts never use them as names of fields,
only as values, and only in this form.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

from eigengap.printable import bare

LONGEST = 32  # characters of a name in a chart
NAMELESS = "(no name)"

# What every object of JavaScript has: Vega looks values up in objects, and would find these there.
# A mark of no width behind such a name makes it another one that looks the same.
OF_EVERY_OBJECT = frozenset(
    {
        "__defineGetter__",
        "__defineSetter__",
        "__lookupGetter__",
        "__lookupSetter__",
        "__proto__",
        "constructor",
        "hasOwnProperty",
        "isPrototypeOf",
        "propertyIsEnumerable",
        "toLocaleString",
        "toString",
        "valueOf",
    }
)
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
    return text + NO_WIDTH if text in OF_EVERY_OBJECT else text


def not_markup(text: str) -> str:
    r"""A text that no parser of HTML takes for a tag: a mark of no width goes behind the "<".

    >>> not_markup("</script>") == "<\u2060/script>", not_markup("x <5")
    (True, 'x <5')
    """
    return MARKUP.sub(f"<{NO_WIDTH}", text)


def labels(names: Iterable[Any], longest: int = LONGEST) -> list[str]:
    """Labels that differ from each other.

    >>> labels(["a", "a", ""])
    ['a', 'a (2)', '(no name)']
    """
    taken: set[str] = set()
    found = []
    for name in names:
        shown = plain = label(name, longest)
        count = 1
        while shown in taken:
            count += 1
            shown = f"{plain} ({count})"
        taken.add(shown)
        found.append(shown)
    return found


def names_of(estimator: Any, d: int | None = None) -> list[str]:
    """Labels of the columns that an estimator was fitted to: x0, x1, ... where it knows none."""
    names: Sequence[Any] | None = getattr(estimator, "feature_names_in_", None)
    d = int(estimator.n_features_in_) if d is None else d
    if names is None or len(names) != d:
        return [f"x{j}" for j in range(d)]
    return labels(names)


def listed(items: Sequence[str], most: int = 5) -> str:
    """A few of the items in words.

    >>> listed(["a", "b", "c"], most=2)
    'a, b and 1 more'
    """
    shown = ", ".join(items[:most])
    return shown if len(items) <= most else f"{shown} and {len(items) - most} more"
