"""Robust location and scale of each column: medians and median absolute deviations.

Where there are outliers (multivariate t) or very noisy cells (measurement error), means and
variances are dominated by them. The units and the start of a fit need no more than a sample of the
rows.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from eigengap.linalg import Array
from eigengap.sources.base import Source
from eigengap.statistics.moments import ColumnMoments
from eigengap.statistics.row_sample import RowSample

SAMPLE_CELLS = 1_000_000
LEAST_ROWS, MOST_ROWS = 500, 20_000
LEAST_CELLS = 8  # of a column, below which its mean and variance stand in
NORMAL = 1.4826  # standard deviation of a Gaussian over its median absolute deviation


def typical_columns(source: Source, columns: ColumnMoments) -> tuple[Array, Array]:
    """Centre (d,) and variance (d,) of each column, without the known noise of its cells."""
    rows = min(max(SAMPLE_CELLS // source.n_features, LEAST_ROWS), MOST_ROWS)
    share = rows / max(columns.n_rows, 1)
    sample = source.reduce(partial(RowSample.of, share=share))
    X, w, noise = sample.values, sample.weight, np.zeros(source.n_features)
    if sample.cell_sd is not None:
        X, noise = _better_half(X, sample.cell_sd, w)
    centre = _medians(X, w)
    variance = (NORMAL * _medians(np.abs(X - centre), w)) ** 2
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
    kept = deviations <= _medians(deviations, w)
    weights = np.ones(len(X)) if w is None else w
    total = weights @ kept
    noise = (weights @ np.where(kept, cell_sd**2, 0.0)) / np.where(total > 0, total, 1.0)
    return np.where(kept, X, np.nan), noise


def _medians(X: Array, w: Array | None) -> Array:
    """(d,) medians of the observed cells, rows counted w times; 0 where there are none."""
    if not len(X):
        return np.zeros(X.shape[1])
    observed = ~np.isnan(X)
    at = np.arange(X.shape[1])
    if w is None:
        ordered, count = np.sort(X, axis=0), np.count_nonzero(observed, axis=0)  # NaN last
        low, high = np.maximum(count - 1, 0) // 2, np.minimum(count // 2, len(X) - 1)
    else:
        order = np.argsort(X, axis=0)
        ordered = np.take_along_axis(X, order, axis=0)
        below = np.cumsum(np.take_along_axis(observed * w[:, None], order, axis=0), axis=0)
        half = below[-1] / 2
        low, high = np.argmax(below >= half, axis=0), np.argmax(below > half, axis=0)
    return np.where(observed.any(axis=0), (ordered[low, at] + ordered[high, at]) / 2, 0.0)
