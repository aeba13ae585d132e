"""The unit of each column that scale=True divides by."""

from __future__ import annotations

import numpy as np

from eigengap.fitting.eigen.range import refuse_overflow, refuse_tiny_columns
from eigengap.fitting.gaussian.robust_scale import typical_columns
from eigengap.linalg import Array
from eigengap.sources.base import Source
from eigengap.statistics.moments import ColumnMoments


def column_scale(source: Source, *, robust: bool = False) -> Array:
    """(d,) standard deviations of the observed values, or robust ones where outliers are expected.

    1 for a constant column, which has no scale to be undone.
    """
    columns = source.reduce(ColumnMoments.of)
    refuse_overflow(float(np.sum(columns.variance)), source)
    refuse_tiny_columns(source, columns.variance)
    sd = np.where(columns.variance > 0, np.sqrt(columns.variance), 1.0)
    if not robust:
        return sd
    _, variance = typical_columns(source, columns)
    return np.where(variance > 0, np.sqrt(variance), sd)
