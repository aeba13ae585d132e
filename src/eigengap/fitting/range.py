"""Tables whose squares leave the range of floating point are refused, never silently wrong."""

from __future__ import annotations

from math import inf, isfinite

import numpy as np

from eigengap.linalg import Array
from eigengap.sources.base import Source
from eigengap.sources.wording import column
from eigengap.statistics.moments import ColumnRange

SMALLEST_VARIANCE = 1e-290  # a total below this has lost digits to underflow


def refuse_overflow(total: float, source: Source | None = None) -> None:
    """An infinite sum of squares of finite cells: the data are too large."""
    if isfinite(total):
        return
    if source is not None:
        _refuse_large_column(source)
    raise ValueError(
        "sums of squares overflow: the table holds infinities or values beyond about 1e150, whose "
        "squares overflow; rescale the data, for instance X / 1e300"
    )


def _refuse_large_column(source: Source) -> None:
    """Name the column of the largest cell, and by what to divide it."""
    seen = source.reduce(ColumnRange.of)
    size = np.nan_to_num(np.maximum(np.abs(seen.low), np.abs(seen.high)), posinf=inf)
    j = int(np.argmax(size))
    if 1e100 < size[j] < inf:  # else it is the weights, or cells are infinite
        raise ValueError(
            f"sums of squares overflow: column {column(source.names, j)} holds values up to "
            f"{size[j]:.1e} in size, whose squares overflow; rescale the data, for instance divide "
            f"that column by 1e{int(np.floor(np.log10(size[j])))}"
        )


def refuse_out_of_range(source: Source, total: float, fit_mean: bool) -> None:
    """Overflow is an error, and so is underflow, which a constant table is not."""
    if SMALLEST_VARIANCE <= total < inf:
        return
    refuse_overflow(total, source)
    seen = source.reduce(ColumnRange.of)
    if np.any(seen.high != (seen.low if fit_mean else 0.0)):
        raise ValueError(
            "the variances underflow: the columns vary by less than about 1e-145, whose square is "
            "not a normal number; rescale the data, for instance X * 1e300"
        )


def refuse_tiny_columns(source: Source, variance: Array) -> None:
    """Where columns are divided by their own size, one whose square underflows is an error too."""
    tiny = np.flatnonzero(variance < SMALLEST_VARIANCE)
    if len(tiny) == 0:
        return
    seen = source.reduce(ColumnRange.of)
    varies = tiny[seen.high[tiny] > seen.low[tiny]]
    if len(varies):
        raise ValueError(
            f"the variance underflows in column {column(source.names, int(varies[0]))}: it varies "
            "by less than about 1e-145, whose square is not a normal number; rescale it"
        )
