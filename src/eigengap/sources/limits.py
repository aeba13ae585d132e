"""Text that is a limit and not a value: "<0.1", "> 50", "<=3", "< 0,5".

Only forms that mean one thing are read. 0.2-0.5 may be an interval, a difference or a code, and
1,000 a thousand or one.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from math import isfinite, nan

from eigengap.sources.files.csv.cells import Cells

_LIMIT = re.compile(r"\s*(<=|>=|=<|=>|[<>≤≥])\s*([+-]?[\d.,]*\d[\d.,]*(?:[eE][+-]?\d+)?)\s*")
_THOUSAND = re.compile(r"[+-]?[1-9]\d{0,2},\d{3}")
_plain = Cells().number


def limits_of(
    text: str, number: Callable[[str], float | None] = _plain
) -> tuple[float, float] | None:
    """Lower and upper limit, NaN where there is none; None for text that is no limit.

    >>> limits_of("<0.1"), limits_of(">= 50"), limits_of("< 0,5")
    ((nan, 0.1), (50.0, nan), (nan, 0.5))
    >>> limits_of("<1,000") is limits_of("0.2-0.5") is limits_of("< 20 years") is None
    True
    """
    found = _LIMIT.fullmatch(text)
    if found is None:
        return None
    value = number(found[2])
    if value is None and not _THOUSAND.fullmatch(found[2]):
        value = number(found[2].replace(",", "."))
    if value is None or not isfinite(value):
        return None
    return (nan, value) if set(found[1]) & set("<≤") else (value, nan)
