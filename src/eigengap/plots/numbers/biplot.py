"""Rows and columns of a table in one chart (Gabriel 1971).

The part of the table that two components show is a product, G H^T: every cell, in units of the fit
and about the mean, is about the inner product of the point of its row with the arrow of its column.
With t the scores along unit axes u, and s their standard deviations, the three common ways to share
the size between the two are

    rows       G = t,          H = u           distances between points are those between rows
    columns    G = t / s,      H = u s         arrows are as long as columns vary, their cosines
                                               are correlations
    symmetric  G = t / sqrt s, H = u sqrt s    neither, and both as large
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np

from eigengap.linalg import Array
from eigengap.plots.numbers.linear import require_linear
from eigengap.plots.numbers.scores import scores_of

Scaling = Literal["rows", "columns", "symmetric"]

FORMULA: dict[str, str] = {
    "rows": "points t, arrows u: distances between points are those between rows",
    "columns": "points t / s, arrows u·s: cosines between arrows are correlations",
    "symmetric": "points t / √s, arrows u·√s: a compromise between rows and columns",
}


@dataclass(frozen=True, eq=False)
class Biplot:
    """Points and arrows whose inner products are the cells that the components show."""

    points: Array  # (m, k)
    arrows: Array  # (d, k)
    scaling: Scaling
    factor: Array  # (k,) points are so many times the scores


def biplot_numbers(
    estimator: Any, X: Any, axes: tuple[int, ...] = (0, 1), scaling: Scaling = "rows"
) -> Biplot:
    """Points of rows and arrows of columns along some components (positions)."""
    if scaling not in get_args(Scaling):
        raise ValueError(f'scaling must be "rows", "columns" or "symmetric", got {scaling!r}')
    view = require_linear(estimator, "biplot")
    T = scores_of(estimator, X)[:, axes]
    L = view.L[:, axes]
    length = np.sqrt(np.sum(L**2, axis=0))
    length = np.where(length > 0.0, length, 1.0)
    t, u = T * length, L / length
    s = _spread(t) if view.density is None else _model_spread(view.covariances()[1], axes) * length
    s = np.where(s > 0.0, s, 1.0)
    power = {"rows": 0.0, "columns": 1.0, "symmetric": 0.5}[scaling]
    return Biplot(t / s**power, u * s**power, scaling, length / s**power)


def _spread(t: Array) -> Array:
    return np.std(t, axis=0, ddof=1) if len(t) > 1 else np.ones(t.shape[1])


def _model_spread(of_scores: Array, axes: tuple[int, ...]) -> Array:
    return np.sqrt(np.diagonal(of_scores))[list(axes)]
