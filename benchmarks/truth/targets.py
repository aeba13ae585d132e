"""A figure with its standard error, and the range that it should lie in, as a row of results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks.table import Row, check

Range = tuple[float, float]
COVERAGE: Range = (93.0, 97.0)  # % of 95 % intervals that hold the truth
LEVEL: Range = (4.0, 6.0)  # % of rejections of a test at 5 %, of rows like those of the fit
HELD_OUT_LEVEL: Range = (4.0, 7.0)  # the same of held-out rows of real tables


def figure(
    case: str, measure: str, values: Sequence[float], unit: str, wanted: Range, note: str = ""
) -> Row:
    """The mean of `values`, one for each table, with its standard error.

    It is met where the mean lies in `wanted`; the note says where it lies outside by less than two
    standard errors, so that chance may explain it.
    """
    found = np.asarray(values, dtype=float)
    mean, error = float(found.mean()), standard_error(found)
    low, high = wanted
    met = low <= mean <= high
    away = max(low - mean, mean - high, 0.0)
    words = [note] if note else []
    if not met and away <= 2 * error:
        words.append("within two standard errors of the target")
    return row_of(case, measure, mean, unit, wanted, met, error, len(found), "; ".join(words))


def standard_error(values: np.ndarray) -> float:
    return float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else float("nan")


def row_of(
    case: str,
    measure: str,
    value: float,
    unit: str,
    wanted: Range,
    met: bool,
    error: float,
    tables: int,
    note: str = "",
) -> Row:
    low, high = wanted
    if high == np.inf:
        target = f"at least {low:g} {unit}"
    elif low == -np.inf:
        target = f"at most {high:g} {unit}"
    else:
        target = f"{low:g} to {high:g} {unit}"
    detail: dict[str, Any] = {"error": None if np.isnan(error) else error, "tables": tables}
    spread = "" if np.isnan(error) else f"± {error:.2g}, "
    row = check(case, measure, met, note=f"{spread}{tables} tables" + (f"; {note}" if note else ""))
    return {**row, "ours": value, "unit": unit, "target": target.strip(), "detail": detail}
