"""The units that a network sees its columns in, whatever those of the table: 1e-200 or 1e200.

Sums of squares leave the range of floating point long before the numbers themselves do. Where they
do, columns are shifted and divided by a power of two near their range first, which rounds nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from eigengap.fitting.eigen.range import SMALLEST_VARIANCE
from eigengap.linalg import Array
from eigengap.sources.base import Block, Source
from eigengap.sources.wording import column
from eigengap.statistics.moments import ColumnMoments, ColumnRange
from eigengap.wording import words

NARROWEST, WIDEST = 1e-290, 1e300  # ranges of columns whose numbers have all their digits


@dataclass(frozen=True, eq=False)
class Standard:
    """How columns are standardised: (x - mean) / unit."""

    mean: Array  # (d,)
    unit: Array  # (d,) standard deviations, or one number for all; 1 where there is none
    varies: NDArray[np.bool_]  # (d,)
    has_missing: bool

    @classmethod
    def of(cls, source: Source, scale: bool) -> Standard:
        """By the seen cells of all rows: one pass, and two more where squares are out of range."""
        moments = source.reduce(ColumnMoments.of)
        mean, variance = moments.mean, moments.variance
        sd = np.sqrt(variance)
        doubtful = ~((variance >= SMALLEST_VARIANCE) & np.isfinite(variance) & np.isfinite(mean))
        if doubtful.any():
            extent = source.reduce(ColumnRange.of)
            if np.any(extent.high[doubtful] > extent.low[doubtful]):
                mean, sd = _by_range(source, extent)
        unit = sd if scale else np.full(len(sd), _root_mean_square(sd))
        observed = source.observed()
        missing = bool(np.any(observed.per_column < observed.rows))
        return cls(mean, np.where(unit > 0.0, unit, 1.0), sd > 0.0, missing)


def _by_range(source: Source, extent: ColumnRange) -> tuple[Array, Array]:
    """Means and standard deviations (d,) of columns brought to a range of about 1."""
    _refuse_range(source, extent)
    span = np.where(extent.high > extent.low, extent.high - extent.low, 1.0)
    step = np.exp2(np.floor(np.log2(span)))

    def of(block: Block) -> ColumnMoments:
        values = (np.asarray(block.values, dtype=np.float64) - extent.low) / step
        return ColumnMoments.of(replace(block, values=values))

    moments = source.reduce(of)
    return extent.low + step * moments.mean, step * np.sqrt(moments.variance)


def _refuse_range(source: Source, extent: ColumnRange) -> None:
    """Refuse columns whose differences overflow, or have lost digits to underflow."""
    half = extent.high / 2.0 - extent.low / 2.0
    bad = np.flatnonzero((half > WIDEST / 2.0) | ((half > 0.0) & (half < NARROWEST / 2.0)))
    if len(bad):
        j = int(bad[0])
        large = half[j] > 1.0
        raise ValueError(
            f"column {column(source.names, j)} varies by {'more' if large else 'less'} than "
            f"{WIDEST if large else NARROWEST:g}, at the end of the range of floating point; "
            + words().either(
                f"rescale the data, for instance X {'/' if large else '*'} 1e200",
                f"{'divide' if large else 'multiply'} them by 1e200 first",
            )
        )


def _root_mean_square(sd: Array) -> float:
    largest = float(np.max(sd))
    return largest * float(np.sqrt(np.mean((sd / largest) ** 2))) if largest > 0.0 else 0.0
