"""Dates as numbers of days, and cells that hold nothing, in columns of any kind."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import date, datetime, timedelta
from math import isfinite
from numbers import Real
from typing import Any

import numpy as np

EPOCH = date(1970, 1, 1).toordinal()
ISO_DATE = re.compile(r"\s*\d{4}-\d{2}-\d{2}(?!\d)")
# Where dates are written with points the day is first; 05/06/2024 has two meanings, and is text.
POINTED = re.compile(r"(\d{1,2})\.(\d{1,2})\.(\d{4})(?:[ T]+(\d{1,2})(:\d{2}(?::\d{2})?))?")


def days_of(values: Sequence[Any]) -> tuple[float | None, ...] | None:
    """Dates, also written as 2024-05-31 or 31.05.2024, as days since 1970-01-01.

    None where not all are dates. A period of pandas is the day on which it begins.
    """
    found = [None if is_none(value) else _day(value) for value in values]
    right = all(day is not None or is_none(v) for day, v in zip(found, values, strict=True))
    return tuple(found) if right else None


def _day(value: Any) -> float | None:
    if isinstance(value, str):
        value = _read(value)
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


def _read(text: str) -> datetime | None:
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
    return isinstance(value, Real) and not isfinite(float(value))


def in_words(value: Any) -> str:
    """A value of any kind; a date without its midnight."""
    text = str(value)
    return text.removesuffix(" 00:00:00") if isinstance(value, datetime) else text
