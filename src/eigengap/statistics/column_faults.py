"""Columns that make the results of a fit mean less than they seem to, as positions."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from eigengap.linalg import Array
from eigengap.sources.base import Block, Source
from eigengap.statistics.observed_together import Linked

FEW_ROWS = 200  # a sample that shows the size of the columns, and whether they are linked
FEWEST_VALUES = 10  # observed in a sample of a column that is judged by it
BELOW_NOISE = 10.0  # noise variance over a column's own that chance does not explain
SKEWNESS_ROWS = 1000  # sample that skewness is judged by: its quantiles need more rows
# Of the distance between the 10 % and the 90 % quantile, by how much more of it lies above the
# median than below: 0 for symmetric columns, 0.5 for lognormal ones whose logarithm has a standard
# deviation of 0.85.
SKEWED = 0.5

Columns = NDArray[np.intp]


def observed_too_seldom(source: Source, q: int) -> Columns:
    """Columns observed in so few rows that q loadings, a mean and a noise fit them exactly."""
    observed = source.observed()
    w = observed.per_column * (observed.sum_w / max(observed.rows, 1))  # of frequencies, about
    return np.flatnonzero(w < q + 2)


def far_below_noise(source: Source, psi: Array) -> Columns:
    """Columns that vary far less than the noise variances psi (d,) that a model gives them."""
    rows = _sample(source, FEW_ROWS)
    judged = np.count_nonzero(~np.isnan(rows), axis=0) >= FEWEST_VALUES
    judged[judged] = np.nanmax(rows[:, judged], axis=0) > np.nanmin(rows[:, judged], axis=0)
    variance = np.zeros(len(psi))
    variance[judged] = np.nanvar(rows[:, judged], axis=0)
    return np.flatnonzero((variance > 0) & (psi > BELOW_NOISE * variance))


def unlinked_groups(source: Source) -> list[Columns]:
    """Groups of columns that no row, nor a chain of rows, shows together; one where all are linked.

    A sample of the rows nearly always links all columns; only where it does not are all read.
    """
    if source.has_missing:
        sample = Linked.of_block(Block(_sample(source, FEW_ROWS), None, None, 0))
        if len(np.unique(sample.labels)) > 1:
            labels = source.reduce(Linked.of_block).labels
            return [np.flatnonzero(labels == label) for label in np.unique(labels)]
    return [np.arange(source.n_features)]


def constant_columns(source: Source, variance: Array) -> Columns:
    """Constant columns, by variance (d,), in a table where others vary.

    One observed value is no constant, and weighs little in the noise of all.
    """
    constant = np.flatnonzero((variance == 0.0) & (source.observed().per_column > 1))
    return constant if len(constant) < len(variance) else constant[:0]


def skewed_columns(source: Source) -> list[int]:
    """Columns of positive values, most of whose range lies above the median."""
    skewed = []
    for j, values in enumerate(_sample(source, SKEWNESS_ROWS).T):
        values = values[~np.isnan(values)]
        if len(values) < FEWEST_VALUES or np.min(values) <= 0.0:
            continue
        low, middle, high = np.quantile(values, [0.1, 0.5, 0.9])
        if low + high - 2.0 * middle > SKEWED * (high - low):
            skewed.append(j)
    return skewed


def _sample(source: Source, rows: int) -> Array:
    return source.sample(min(rows, source.observed().rows), np.random.default_rng(0))
