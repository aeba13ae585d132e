"""The scale of each column: what scale=True divides by, and a robust one.

Where there are outliers (multivariate t) or very noisy values (measurement error), means and
variances are dominated by them; medians and median absolute deviations are not. The units and the
start of a fit need no more than a sample of the rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from eigengap.linalg import Array
from eigengap.runtime.hashing import GOLDEN, mixed
from eigengap.sources.base import Block, Source
from eigengap.statistics.medians import medians
from eigengap.statistics.moments import ColumnMoments, refuse_overflow, refuse_tiny_columns

# Unit of a constant column relative to its value: the root of the noise floor of factor analysis.
CONSTANT = 1e-3
RANGE = 1e-140, 1e140  # of it: its square, and products with it, are in the range of float64

SAMPLE_CELLS = 1_000_000
LEAST_ROWS, MOST_ROWS = 500, 20_000
LEAST_CELLS = 8  # of a column, below which its mean and variance stand in
NORMAL = 1.4826  # standard deviation of a Gaussian over its median absolute deviation


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

    A constant column does not show how much it could vary. Its unit is a thousandth of its value,
    because then every result is equivariant: it follows when the column is rescaled. Under a shared
    noise variance that is about the standard deviation of its imputed values, small relative to the
    value. The factor is that of the noise floor of factor analysis, where a constant column has a
    thousandth of the root mean square of the standard deviations; a column of zeros has the same
    here, because its value does not determine the unit. Without a mean in the model, a constant is
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


# Robust location and scale ----------------------------------------------------------------------


def typical_columns(source: Source, columns: ColumnMoments) -> tuple[Array, Array]:
    """Centre (d,) and variance (d,) of each column, without the known noise of its cells."""
    rows = min(max(SAMPLE_CELLS // source.n_features, LEAST_ROWS), MOST_ROWS)
    share = rows / max(columns.n_rows, 1)
    sample = source.reduce(partial(_RowSample.of, share=share))
    X, w, noise = sample.values, sample.weight, np.zeros(source.n_features)
    if sample.cell_sd is not None:
        X, noise = _better_half(X, sample.cell_sd, w)
    centre = medians(X, w)
    variance = (NORMAL * medians(np.abs(X - centre), w)) ** 2
    variance = np.maximum(variance - noise, 0.1 * variance)
    few = np.sum(~np.isnan(X) if w is None else w[:, None] * ~np.isnan(X), axis=0) < LEAST_CELLS
    stand_in = few | ~(variance > 0)
    return (
        np.where(stand_in, columns.mean, centre),
        np.where(stand_in, columns.variance, variance),
    )


def _better_half(X: Array, cell_sd: Array, w: Array | None) -> tuple[Array, Array]:
    """X with the noisier half of each column's cells missing, and the mean variance of the rest."""
    deviations = np.where(np.isnan(X), np.nan, cell_sd)
    kept = deviations <= medians(deviations, w)
    weights = np.ones(len(X)) if w is None else w
    total = weights @ kept
    noise = (weights @ np.where(kept, cell_sd**2, 0.0)) / np.where(total > 0, total, 1.0)
    return np.where(kept, X, np.nan), noise


@dataclass(frozen=True, eq=False)
class _RowSample:
    """Rows picked by a hash of their number: no generator, hence no order of blocks."""

    values: Array  # (k, d), NaN where missing
    cell_sd: Array | None  # (k, d)
    weight: Array | None  # (k,)

    @classmethod
    def of(cls, block: Block, share: float) -> _RowSample:
        """About that share of the rows of a block, those of weight 0 left out."""
        numbers = np.arange(block.start + 1, block.start + block.n_rows + 1, dtype=np.uint64)
        picked = mixed(numbers * GOLDEN) / 2.0**64 < share
        if block.weight is not None:
            picked &= block.weight > 0
        at = np.flatnonzero(picked)
        rows: Any = block.values[at]
        values = rows if isinstance(rows, np.ndarray) else rows.toarray()
        cell_sd = None if block.cell_sd is None else block.cell_sd[at]
        weight = None if block.weight is None else block.weight[at]
        return cls(values.astype(np.float64), cell_sd, weight)

    def merge(self, other: _RowSample) -> _RowSample:
        return _RowSample(
            np.concatenate([self.values, other.values]),
            _joined(self.cell_sd, other.cell_sd),
            _joined(self.weight, other.weight),
        )


def _joined(a: Array | None, b: Array | None) -> Array | None:
    return None if a is None or b is None else np.concatenate([a, b])
