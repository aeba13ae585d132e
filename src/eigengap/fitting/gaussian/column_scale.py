"""The unit of each column that scale=True divides by."""

from __future__ import annotations

import numpy as np

from eigengap.fitting.eigen.range import refuse_overflow, refuse_tiny_columns
from eigengap.fitting.gaussian.robust_scale import typical_columns
from eigengap.linalg import Array
from eigengap.sources.base import Source
from eigengap.statistics.moments import ColumnMoments

# Unit of a constant column relative to its value: the root of the noise floor of factor analysis.
CONSTANT = 1e-3
RANGE = 1e-140, 1e140  # of it: its square, and products with it, are in the range of float64


def column_scale(
    source: Source, *, robust: bool = False, origin: Array | float = 0.0, fit_mean: bool = True
) -> Array:
    """(d,) standard deviations of the observed values, or robust ones where outliers are expected.

    A constant column has the unit of `own_scale`. The values of `source` are measured from
    `origin`.
    """
    columns = source.reduce(ColumnMoments.of)
    refuse_overflow(float(np.sum(columns.variance)), source)
    refuse_tiny_columns(source, columns.variance)
    sd = own_scale(columns.variance, columns.mean + origin, fit_mean=fit_mean)
    if not robust:
        return sd
    _, variance = typical_columns(source, columns)
    return np.where(variance > 0, np.sqrt(variance), sd)


def own_scale(variance: Array, location: Array, *, fit_mean: bool) -> Array:
    """(d,) standard deviations, and for constant columns a unit that follows from their value.

    A constant column does not say how much it could vary. Its unit is a thousandth of its value,
    because then every result is equivariant: it follows when the column is rescaled. Under a shared
    noise variance that is about the standard deviation of its imputed values, small relative to the
    value. The factor is that of the noise floor of factor analysis, where a constant column has a
    thousandth of the root mean square of the standard deviations; a column of zeros has the same
    here, because its value does not tell the unit. Without a mean in the model, a constant is
    variation about 0, and the unit is the value itself.
    """
    varies = variance > 0
    size = np.abs(location)
    if varies.any():
        typical = float(np.sqrt(np.mean(variance[varies])))
    else:
        typical = float(np.max(size)) or 1.0
    unit = (CONSTANT if fit_mean else 1.0) * np.where(size > 0, size, typical)
    return np.where(varies, np.sqrt(variance), np.clip(unit, *RANGE))
