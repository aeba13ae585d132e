"""What rows are coloured by: a column of their table, or labels or numbers beside it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from eigengap.plots.numbers.dates import days_of, in_words
from eigengap.plots.numbers.names import label, labels, listed
from eigengap.plots.numbers.one_column import one_column
from eigengap.plots.numbers.rows import Table

MOST_CATEGORIES = 8  # colours and shapes that can be distinguished
UNKNOWN = "missing"
NO_NUMBERS = (str, bytes, bool, np.bool_, np.datetime64, np.timedelta64)


@dataclass(frozen=True, eq=False)
class Colour:
    """A value for every row that is shown."""

    values: list[Any]  # (m,) labels, or numbers with None where missing
    title: str
    categories: list[str] | None  # in the order of the legend; None for numbers
    note: str = ""  # what was put together
    are_days: bool = False  # numbers are days since 1970-01-01


def colour_of(color: Any, X: Any, table: Table) -> Colour | None:
    """The colours of the rows of a table; `color` is a column of X, or one value for each row."""
    if color is None:
        return None
    title = ""
    if isinstance(color, str):
        title, values = label(color), one_column(X, color)
    else:
        values = _listed(color)
        named = getattr(color, "name", None)
        title = "" if named is None else label(named)
    if len(values) != table.n:
        raise ValueError(
            f"color has {len(values)} values for {table.n} rows; give one for each row of X, or "
            "the name of a column"
        )
    numbers = _numbers(values)
    shown = [values[i] for i in table.at]
    if numbers is not None and not _few(numbers):
        found = [None if np.isnan(v) else float(v) for v in numbers[table.at]]
        return Colour(found, title, None, _grey(found, title))
    days = days_of(values) if numbers is None else None
    if days is not None and len({day for day in days if day is not None}) > MOST_CATEGORIES:
        of_rows = [days[i] for i in table.at]
        return Colour(of_rows, title or "date", None, _grey(of_rows, title), are_days=True)
    if numbers is not None:
        shown = [None if np.isnan(v) else f"{v:g}" for v in numbers[table.at]]
    return _categories(shown, title)


def _grey(values: Sequence[float | None], title: str) -> str:
    """What is said of rows whose number is not known."""
    count = sum(value is None for value in values)
    if count == 0:
        return ""
    rows = "a row" if count == 1 else f"{count} rows"
    return f"{rows} without {title or 'a value'} in grey"


def _categories(values: Sequence[Any], title: str) -> Colour:
    keys = [None if _is_unknown(value) else in_words(value) for value in values]
    count = Counter(key for key in keys if key is not None)
    order = sorted(count, key=_natural)
    note = ""
    if len(order) > MOST_CATEGORIES:
        kept = {key for key, _ in count.most_common(MOST_CATEGORIES - 1)}
        others = [key for key in order if key not in kept]
        order = [key for key in order if key in kept]
        note = f"{len(others)} rarer categories together: {listed([label(k) for k in others], 3)}"
    named = dict(zip(order, labels(order), strict=True))
    others_label = labels([*named.values(), "others"])[-1]
    unknown = labels([*named.values(), others_label, UNKNOWN])[-1]
    shown = [unknown if key is None else named.get(key, others_label) for key in keys]
    legend = [*named.values()]
    legend += [extra for extra in (others_label, unknown) if extra in set(shown)]
    return Colour(shown, title, legend, note)


def _listed(color: Any) -> list[Any]:
    if getattr(getattr(color, "dtype", None), "kind", "") == "M" and isinstance(color, np.ndarray):
        return list(color)  # tolist would make numbers of them
    for method in ("to_list", "to_pylist", "tolist"):  # polars and pandas, pyarrow, NumPy
        if hasattr(color, method):
            color = getattr(color, method)()
            break
    if not isinstance(color, list | tuple | range):
        raise ValueError(
            f"color must be the name of a column or one value for each row, got {type(color)}"
        )
    return list(color)


def _numbers(values: Sequence[Any]) -> Any:
    """As float64 where all are numbers, else None."""
    known = [value for value in values if not _is_unknown(value)]
    if not known or any(isinstance(v, NO_NUMBERS) for v in known):
        return None
    try:
        found = np.array([np.nan if _is_unknown(v) else float(v) for v in values])
    except (TypeError, ValueError):
        return None
    return np.where(np.isfinite(found), found, np.nan)


def _few(numbers: Any) -> bool:
    """Whether the numbers are codes of a few classes."""
    observed = np.unique(numbers[~np.isnan(numbers)])
    return len(observed) <= MOST_CATEGORIES and bool(np.all(observed == np.round(observed)))


def _is_unknown(value: Any) -> bool:
    return value is None or value != value or type(value).__name__ in ("NAType", "NaTType")


def _natural(key: str) -> tuple[int, float, str]:
    try:
        return 0, float(key), key
    except ValueError:
        return 1, 0.0, key
