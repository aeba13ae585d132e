"""Densities of several classes behind columns that they share.

The map f of a continuous column and the thresholds of levels are those of all rows; mu, W and psi
are of each class, so that P(level | class) differs through them. A map must not take the
distance between classes for skewness: it is the one under which the values of each class are most
nearly Gaussian, at a mean and variance of its own (as Box and Cox 1964 choose a power for groups).

A level that a class has never had would have probability 0 in it, and decide alone. So each class
gets one more observation of every column that has no exact u, spread over the values of that column
as they are in all rows: of one column of levels,

    P(level | class) = (n_level + share_level) / (n + 1).
"""

from __future__ import annotations

from dataclasses import replace
from math import inf

import numpy as np
from numpy.typing import NDArray

from eigengap.fitting.columns.learn import (
    QUARTILES,
    ROUNDING,
    Weighted,
    best_of,
    candidates,
    power_family,
)
from eigengap.linalg import Array
from eigengap.models.columns.column import Column
from eigengap.models.columns.continuous import ContinuousColumn
from eigengap.models.columns.maps import Family, Identity, Margin
from eigengap.models.columns.table import Columns

PSEUDO = 1.0  # observations of each column that a class gets besides its own
MOST_VALUES = 20  # of a count, or of a column with atoms, over which they are spread


def shared_columns(
    columns: Columns,
    values: Array,
    weight: Array,
    code: NDArray[np.intp],
    chosen: NDArray[np.bool_],
) -> Columns:
    """The columns, with maps by the coded rows (n, d + m) of each class; code (n,) is the class.

    Maps are chosen anew where `chosen` (d,); elsewhere only their units are.
    """
    d = len(columns.kinds)  # behind them lie m details
    kinds = tuple(
        _by_class(kind, x, weight, code, free)
        for kind, x, free in zip(columns.kinds, values.T[:d], chosen.tolist(), strict=True)
    )
    return Columns(kinds)


def _by_class(kind: Column, x: Array, weight: Array, code: NDArray[np.intp], free: bool) -> Column:
    if not isinstance(kind, ContinuousColumn) or kind.has_evidence:
        return kind
    some = ~np.isnan(x) & (weight > 0.0)
    x, weight, code = x[some], weight[some], code[some]
    family = _family(x, weight, code) if free else kind.margin.family
    y = family.forward(x)
    unit = float(np.sqrt(np.average(_residuals(y, weight, code) ** 2, weights=weight)))
    return replace(kind, margin=Margin(family, float(np.average(y, weights=weight)), unit or 1.0))


def _family(x: Array, weight: Array, code: NDArray[np.intp]) -> Family:
    """The family of the largest likelihood, at a price of ln(n) / 2 for a parameter."""
    order = np.argsort(x, kind="stable")
    below = np.cumsum(weight[order]) / np.sum(weight)
    at = np.searchsorted(below, QUARTILES * (1.0 - ROUNDING))
    quartiles = x[order][at]  # as if a row were there as often as it counts
    varying = _varying(x, code)[code]  # a class of one value has no variance to be judged by
    if not varying.any():
        return Identity()
    some = x[varying], weight[varying], code[varying]

    def log_likelihood(family: Family) -> float:
        return _log_likelihood(family, *some)

    def power() -> Family:
        return power_family(quartiles, Weighted(x, weight).sd, log_likelihood)

    found = candidates(x, "auto", -inf, inf, power)
    return best_of(found, log_likelihood, float(np.sum(weight)))


def _varying(x: Array, code: NDArray[np.intp]) -> NDArray[np.bool_]:
    """(K,) classes with more than one value: variances of one are rounding, or 0."""
    least, largest = np.full(code.max() + 1, inf), np.full(code.max() + 1, -inf)
    np.minimum.at(least, code, x)
    np.maximum.at(largest, code, x)
    return largest > least


def _log_likelihood(family: Family, x: Array, weight: Array, code: NDArray[np.intp]) -> float:
    """Of Gaussian y with a mean and a variance of each class, less constants."""
    rest = _residuals(family.forward(x), weight, code)
    n, squares = (np.bincount(code, weights=w) for w in (weight, weight * rest**2))
    some = squares > 0.0
    if not some.any() or not np.all(np.isfinite(squares)):
        return -inf
    fits = -0.5 * float(n[some] @ np.log(squares[some] / n[some]))
    return float((weight * some[code]) @ family.log_slope(x)) + fits


def _residuals(y: Array, weight: Array, code: NDArray[np.intp]) -> Array:
    """(n,) from the mean of the class."""
    n = np.maximum(np.bincount(code, weights=weight), 1e-300)
    return y - (np.bincount(code, weights=weight * y) / n)[code]


def pseudo_rows(columns: Columns, values: Array, weight: Array) -> tuple[Array, Array]:
    """Rows (m, d) of one observed cell each, and their weights: what each class gets besides."""
    rows, weights = [np.empty((0, values.shape[1]))], [np.empty(0)]
    for j, kind in enumerate(columns.kinds):
        some = np.flatnonzero(~np.isnan(values[:, j]) & (weight > 0.0))
        if not kind.has_evidence or not len(some):
            continue
        at, w = _summary(values[some, j], weight[some])
        row = np.full((len(at), values.shape[1]), np.nan)
        row[:, j] = values[some[at], j]
        columns.details(row, j)[:] = columns.details(values, j)[some[at]]
        rows.append(row)
        weights.append(PSEUDO * w / np.sum(w))
    return np.concatenate(rows), np.concatenate(weights)


def _summary(x: Array, weight: Array) -> tuple[NDArray[np.intp], Array]:
    """Cells that have the values of a column, and weights; of many values, a few quantiles."""
    levels, first, code = np.unique(x, return_index=True, return_inverse=True)
    counts = np.bincount(code, weights=weight).astype(np.float64)
    if len(levels) <= MOST_VALUES:
        return first, counts
    middle = (np.arange(MOST_VALUES) + 0.5) / MOST_VALUES
    below = np.cumsum(counts) / np.sum(counts)
    at = np.searchsorted(below, middle * (1.0 - ROUNDING))
    return first[at], np.full(MOST_VALUES, 1.0 / MOST_VALUES)
