"""Columns against components: what the section on variables is made of."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from eigengap.linalg import Array
from eigengap.plots.numbers.linear import linear_view
from eigengap.plots.numbers.rows import Table
from eigengap.plots.numbers.scores import scores_of
from eigengap.plots.numbers.variables import correlations, variable_contributions
from eigengap.reporting.numbers.look import Look
from eigengap.reporting.numbers.subject import Subject

PAIRS = 16  # of rows, whose midpoints show whether a map is linear
LINEAR = 1e-6  # relative to the largest coordinate, which rounding does not reach


@dataclass(frozen=True, eq=False)
class Variables:
    """Columns against components."""

    r: Array  # (d, q) correlations
    among: Array  # (q, q) or (d, q, q) correlations of the scores, in the rows that r is of
    contributions: Array | None  # (d, q) per cent; None where the model has no loadings
    axes: tuple[str, ...]
    is_linear: bool  # whether the coordinates are linear functions of the columns

    @property
    def cos2(self) -> Array:
        """(d,) share of a column's variance that the components show together, at most 1."""
        return self.shown(self.r.shape[1])

    def shown(self, k: int) -> Array:
        """(d,) that share of the first k components: R2 of the regression on their scores.

        r^T C^-1 r with C the correlations of the scores; where these are uncorrelated it is the sum
        of squared correlations.
        """
        r, C = self.r[:, :k], self.among[..., :k, :k]
        weights = np.linalg.pinv(C, hermitian=True) @ r[:, :, None]  # (d, k, 1)
        return np.clip(np.einsum("dk,dk->d", r, weights[:, :, 0]), 0.0, 1.0)


def variables_of(subject: Subject, look: Look) -> Variables | None:
    """None for a mixture, and where rows have no columns."""
    if subject.mixture is not None or subject.is_pairwise or not look.n_columns:
        return None
    table = Table(look.X, look.at, look.n_rows, look.missing.per_column, None)
    r = correlations(subject.bare, table)
    has_loadings = linear_view(subject.bare) is not None
    parts = variable_contributions(subject.bare) if has_loadings else None
    among = _among_scores(subject, table)
    is_linear = has_loadings or _is_affine(subject, table.X)
    return Variables(r, among, parts, subject.axis_names(r.shape[1]), is_linear)


def _is_affine(subject: Subject, X: Array) -> bool:
    """Whether the midpoint of two rows has the midpoint of their coordinates, for random pairs."""
    observed = ~np.isnan(X)
    mean = np.where(observed, X, 0.0).sum(axis=0) / np.maximum(observed.sum(axis=0), 1)
    rows = np.where(observed, X, mean)
    pairs = np.random.default_rng(0).integers(len(rows), size=(2, PAIRS))
    first, second = rows[pairs[0]], rows[pairs[1]]
    T = scores_of(subject.bare, np.vstack([first, second, first / 2 + second / 2]))
    one, other, middle = np.split(T, 3)
    return bool(np.all(np.abs((one + other) / 2 - middle) <= LINEAR * np.abs(T).max()))


def _among_scores(subject: Subject, table: Table) -> Array:
    """Correlations of the scores with each other: the sample's, the model's, or by column."""
    view = linear_view(subject.bare)
    if not table.is_complete and view is not None and view.density is not None:
        return _scaled(view.covariances()[1])
    T = scores_of(subject.bare, table.X)
    if table.is_complete:
        return _correlation(T)
    observed = ~np.isnan(table.X)
    return np.array([_correlation(T[rows]) for rows in observed.T])


def _correlation(T: Array) -> Array:
    """Of rows whose scores are all known: centring alone leaves missing values missing."""
    T = T[~np.isnan(T).any(axis=1)]
    if len(T) < 2:
        return np.eye(T.shape[1])
    centred = T - T.mean(axis=0)
    size = np.sqrt(np.sum(centred**2, axis=0))
    unit = centred / np.where(size > 0, size, 1.0)  # first, for products of large scores overflow
    return np.asarray(unit.T @ unit)


def _scaled(covariance: Array) -> Array:
    sd = np.sqrt(np.diagonal(covariance))
    scale = np.outer(sd, sd)
    return np.asarray(covariance / np.where(scale > 0, scale, 1.0))
