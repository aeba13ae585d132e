"""Tables whose squares leave the range of floating point are refused, never silently wrong."""

from __future__ import annotations

from math import inf, isfinite

import numpy as np

from eigengap.linalg import Array
from eigengap.sources.base import Source
from eigengap.sources.wording import column
from eigengap.statistics.moments import ColumnRange
from eigengap.wording import words

SMALLEST_VARIANCE = 1e-290  # a total below this has lost digits to underflow


def refuse_overflow(total: float, source: Source | None = None) -> None:
    """An infinite sum of squares of finite cells: the data are too large."""
    if isfinite(total):
        return
    if source is not None:  # name the column of the largest cell, and by what to divide it
        observed = source.reduce(ColumnRange.of)
        size = np.nan_to_num(np.maximum(np.abs(observed.low), np.abs(observed.high)), posinf=inf)
        j = int(np.argmax(size))
        if size[j] <= 1e100:
            raise ValueError(
                f"sums of squares overflow: sample_weight sums to {source.observed().sum_w:.1e}; "
                "rescale the weights, e.g. sample_weight * len(sample_weight) / sample_weight.sum()"
            )
        if size[j] < inf:
            raise ValueError(
                f"sums of squares overflow: column {column(source.names, j)} holds values up to "
                f"{size[j]:.1e} in size, whose squares overflow; "
                + words().either(
                    "rescale the data, for instance divide that column", "beforehand divide it"
                )
                + f" by {power_of_ten(size[j])}"
            )
    raise ValueError(
        "sums of squares overflow: the table holds infinities, or values so large that sums of "
        "their squares are; "
        + words().either("rescale the data, for instance X / 1e200", "divide them by 1e200 first")
    )


def refuse_out_of_range(source: Source, total: float, fit_mean: bool) -> None:
    """Overflow is an error, and so is underflow, which a constant table is not."""
    if SMALLEST_VARIANCE <= total < inf:
        return
    refuse_overflow(total, source)
    observed = source.reduce(ColumnRange.of)
    size = np.maximum(np.abs(observed.low), np.abs(observed.high))
    spread = float(np.max(observed.high - observed.low if fit_mean else size))
    if spread > 0.0:
        # A far column must not overflow: then what varies has to be multiplied by itself.
        far = float(np.max(size)) / spread > 1e100
        table = "(X - numpy.nanmean(X, axis=0))" if far else "X"
        scale = power_of_ten(spread)
        raise ValueError(
            f"the variances underflow: the columns vary by {spread:.1e} at most, and products of "
            "such squares lose digits; "
            + words().either(
                f"rescale the data, for instance {table} / {scale}", f"divide them by {scale} first"
            )
        )


def power_of_ten(size: float) -> str:
    """The power of ten at or below a positive number, up to 1e300, as Python reads it."""
    return f"1e{int(np.floor(np.log10(min(size, 1e300))))}"


def refuse_tiny_columns(source: Source, variance: Array) -> None:
    """Where columns are divided by their own size, one whose square underflows is an error too."""
    tiny = np.flatnonzero(variance < SMALLEST_VARIANCE)
    if len(tiny) == 0:
        return
    observed = source.reduce(ColumnRange.of)
    varies = tiny[observed.high[tiny] > observed.low[tiny]]
    if len(varies):
        raise ValueError(
            f"the variance underflows in column {column(source.names, int(varies[0]))}: it varies "
            "by less than about 1e-145, and products of such squares lose digits; rescale it"
        )
