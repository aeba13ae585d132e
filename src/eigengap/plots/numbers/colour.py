"""What rows are coloured by: a column of any kind, or values given with the table.

A column of few different values is a category; one of many numbers, or of dates, is a scale. In the
report one in which nearly every value is different names the rows: it is listed with them and
colours nothing.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from math import isfinite
from numbers import Real
from typing import Any, Literal

import numpy as np

from eigengap.plots.numbers.columns import one_column
from eigengap.plots.numbers.names import clean, distinct, label, labels
from eigengap.plots.numbers.rows import Table
from eigengap.sources import Schema, eager_frame, library_of, quote, selected

MOST_CATEGORIES = 8  # colours and shapes that can be distinguished, by the colour-blind too
NAMING = 0.5  # share of different values from which a text names rows
EPOCH = date(1970, 1, 1).toordinal()
ISO_DATE = re.compile(r"\s*\d{4}-\d{2}-\d{2}(?!\d)")
# Where dates are written with points the day is first; 05/06/2024 has two meanings, and is text.
POINTED = re.compile(r"(\d{1,2})\.(\d{1,2})\.(\d{4})(?:[ T]+(\d{1,2})(:\d{2}(?::\d{2})?))?")


@dataclass(frozen=True)
class Colour:
    """A column, as categories or as a scale."""

    name: str
    levels: tuple[str, ...] = ()  # of a category, in the order of the legend; empty for a scale
    codes: tuple[int, ...] = ()  # (m,) positions in levels
    values: tuple[float | None, ...] = ()  # (m,) of a scale
    note: str = ""
    dates: bool = False  # whether values are days since 1970-01-01
    missing: int = -1  # position in levels of rows without a value; -1 where all have one

    @property
    def is_category(self) -> bool:
        return bool(self.levels)

    @property
    def of_rows(self) -> list[Any]:
        """(m,) the category of every row, or its number."""
        return [self.levels[k] for k in self.codes] if self.is_category else list(self.values)


# In a chart ------------------------------------------------------------------------------------


def chart_colour(color: Any, X: Any, table: Table) -> Colour | None:
    """The colours of the rows of a table; `color` is a column of X, or one value for each row."""
    if color is None:
        return None
    if isinstance(color, str):
        title, values = label(color), one_column(X, color)
    else:
        title = "" if getattr(color, "name", None) is None else label(color.name)
        values = _listed(color)
    if len(values) != table.n:
        raise ValueError(
            f"color has {len(values)} values for {table.n} rows; give one for each row of X, or "
            "the name of a column"
        )
    kind, every = _read(values)
    found = [every[i] for i in table.at]
    if kind in ("codes", "texts"):
        own = {level: k for k, level in enumerate(_own_order(X, color))}

        def order(key: str) -> tuple[int, int, float, str]:
            return own.get(key, len(own)), *_natural(key)

        return _category(title, found, order, labels, ("others", "missing"), _on_rarer)
    unknown = found.count(None)
    rows = "a row" if unknown == 1 else f"{unknown} rows"
    note = f"{rows} without {title or 'a value'} in grey" if unknown else ""
    named = title or ("date" if kind == "days" else "")
    return Colour(named, values=tuple(found), note=note, dates=kind == "days")


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


def _own_order(X: Any, color: Any) -> list[str]:
    """The levels of an ordered categorical in their order; of any other column none."""
    if isinstance(color, str) and library_of(X) is not None:
        one = selected(eager_frame(X), [color])
    elif hasattr(color, "to_frame"):
        one = color.to_frame()
    else:
        return []
    own = Schema.of(one).columns[0]
    return [in_words(level) for level in own.levels] if own.holds == "ordered" else []


def _on_rarer(rarer: list[str]) -> str:
    more = f" and {len(rarer) - 3} more" if len(rarer) > 3 else ""
    return f"{len(rarer)} rarer categories together: {', '.join(map(label, rarer[:3]))}{more}"


def _natural(key: str) -> tuple[int, float, str]:
    try:
        return 0, float(key), key
    except ValueError:
        return 1, 0.0, key


# In the report ---------------------------------------------------------------------------------


def colour_of(name: str, values: Sequence[Any], *, asked: bool = False) -> Colour | None:
    """A column as a colour; None where it only names the rows, or carries no information.

    Numbers of rows are a scale where they are asked for by name.
    """
    kind, found = _read(values)
    known = [value for value in found if value is not None]
    if not known:
        return None
    if kind in ("numbers", "days"):
        names_rows = len(set(known)) > 0.8 * len(known) and len(known) > 20
        if kind == "numbers" and names_rows and not asked and all(v == int(v) for v in known):
            return None
        return Colour(name, values=tuple(found), dates=kind == "days")
    texts = [None if text is None else clean(text) for text in found]
    different = len(set(texts) - {None})
    if different > NAMING * len(known) and different > MOST_CATEGORIES:
        return None
    order: Callable[[str], Any] = _natural if kind == "codes" else str

    def note(rarer: list[str]) -> str:
        return f"{len(rarer)} rarer values of {name} are together as “other”."

    return _category(name, texts, order, distinct, ("(other)", "(missing)"), note)


def asked_colour(name: str, values: Sequence[Any]) -> Colour:
    """A column that the caller wants to see as a colour; ValueError where it cannot be one."""
    found = colour_of(clean(name), values, asked=True)
    if found is not None:
        return found
    observed = [str(value) for value in values if not is_none(value)]
    if not observed:
        raise ValueError(f"color={quote(name)} holds no value in the rows that are shown")
    raise ValueError(
        f"color={quote(name)} has {len(set(observed))} different texts in {len(observed)} rows: it "
        "names rows, and so many colours cannot be distinguished. Give a column of fewer "
        "categories, of numbers or of dates"
    )


# In both ---------------------------------------------------------------------------------------


def _read(
    values: Sequence[Any],
) -> tuple[Literal["numbers", "codes", "days", "texts"], Sequence[Any]]:
    """What a column holds, and its values as that, None where missing.

    Codes are a few whole numbers, which are categories, as texts.
    """
    known = [value for value in values if not is_none(value)]
    if known and all(isinstance(v, Real | Decimal) and not isinstance(v, bool) for v in known):
        numbers = [None if is_none(v) else float(v) for v in values]
        found = {v for v in numbers if v is not None}
        if len(found) > MOST_CATEGORIES or any(v != int(v) for v in found):
            return "numbers", numbers
        return "codes", [None if v is None else f"{int(v)}" for v in numbers]
    days = days_of(values)
    if days is not None and len(set(days) - {None}) > MOST_CATEGORIES:
        return "days", days
    return "texts", [None if is_none(v) else in_words(v) for v in values]


def _category(
    name: str,
    keys: Sequence[str | None],
    order: Callable[[str], Any],
    labelled: Callable[[Iterable[str]], Iterable[str]],
    extra: tuple[str, str],
    note: Callable[[list[str]], str],
) -> Colour:
    """Categories; the rarest of very many are together as extra[0], missing ones are extra[1]."""
    counts = Counter(key for key in keys if key is not None)
    levels, rarer = sorted(counts, key=order), list[str]()
    if len(levels) > MOST_CATEGORIES:
        # Of equally frequent ones a chart keeps those of the first rows, the report by name.
        ties = levels if order is str else list(counts)
        kept = set(sorted(ties, key=lambda key: -counts[key])[: MOST_CATEGORIES - 1])
        rarer = [key for key in levels if key not in kept]
        levels = [key for key in levels if key in kept]
    code = dict.fromkeys(rarer, len(levels)) | {key: k for k, key in enumerate(levels)}
    levels += extra[:1] if rarer else ()
    missing = len(levels) if None in keys else -1
    levels += extra[1:] if missing >= 0 else ()
    codes = tuple(missing if key is None else code[key] for key in keys)
    said = note(rarer) if rarer else ""
    return Colour(name, tuple(labelled(levels)), codes, note=said, missing=missing)


# Dates as numbers of days, and cells that hold nothing -----------------------------------------


def days_of(values: Sequence[Any]) -> tuple[float | None, ...] | None:
    """Dates, also written as 2024-05-31 or 31.05.2024, as days since 1970-01-01.

    None where not all are dates. A period of pandas is the day on which it begins.
    """
    found = [None if is_none(value) else _day(value) for value in values]
    right = all(day is not None or is_none(v) for day, v in zip(found, values, strict=True))
    return tuple(found) if right else None


def _day(value: Any) -> float | None:
    if isinstance(value, str):
        value = _written(value)
    elif isinstance(value, np.datetime64):
        return float((value - np.datetime64(0, "s")) / np.timedelta64(1, "D"))
    elif type(value).__name__ == "Period":
        value = value.start_time
    if not isinstance(value, date):  # a datetime is one, and so is a Timestamp of pandas
        return None
    whole = float(value.toordinal() - EPOCH)
    if not isinstance(value, datetime):
        return whole
    # The time of its own zone, as it is written: midnight there is no evening before.
    late = timedelta(hours=value.hour, minutes=value.minute, seconds=value.second)
    return whole + late / timedelta(days=1)


def _written(text: str) -> datetime | None:
    """A date that is written out, None where it is none."""
    pointed = POINTED.fullmatch(text.strip())
    if pointed is not None:
        day, month, year, hour, minutes = pointed.groups("")
        text = f"{year}-{month:>02}-{day:>02}" + (f" {hour:>02}{minutes}" if hour else "")
    if not ISO_DATE.match(text):
        return None
    try:
        return datetime.fromisoformat(text.strip())
    except ValueError:
        return None


def as_date(day: float) -> str:
    """A number of days since 1970-01-01 as a date, with its time where it has one.

    >>> as_date(19874.0), as_date(19874.5), as_date(-719162.0)
    ('2024-05-31', '2024-05-31 12:00', '0001-01-01')
    """
    when = datetime(1970, 1, 1) + timedelta(days=day)
    return when.strftime("%Y-%m-%d" if day == int(day) else "%Y-%m-%d %H:%M").zfill(10)


def is_none(value: Any) -> bool:
    """Whether a cell of a column of any kind holds nothing: null, NaN, NaT or infinite."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    if isinstance(value, np.datetime64):
        return bool(np.isnat(value))
    return isinstance(value, Real | Decimal) and not isfinite(float(value))


def in_words(value: Any) -> str:
    """A value of any kind; a date without its midnight."""
    text = str(value)
    return text.removesuffix(" 00:00:00") if isinstance(value, datetime) else text
