"""Variables against components: correlations, contributions, quality of representation.

As in FactoMineR (Le, Josse and Husson 2008). With t_k the scores, u_k the axes in units of the fit:

    correlation   r_jk = corr(x_j, t_k)
    contribution  100 u_jk^2 (of a component; sums to 100 over the variables), and 100 t_ik^2 /
                  sum_i t_ik^2 of the rows
    cos2          r_jk^2 of a variable: the share of its variance along the component; and
                  t_ik^2 / |y_i|^2 of a row: the share of its squared distance from the mean

On complete rows correlations are those of the sample. With missing values covariances with the
scores are those of the model, which was fitted to all observed values, and the variance of a column
is the mean of E[(x_j - mu_j)^2 | observed]. A missing value counts in a row's distance with its
conditional variance: what is not known of a row is not represented.

A biplot shows rows and columns in one chart (Gabriel 1971). The part of the table that two
components show is a product, G H^T: every cell, in units of the fit and about the mean, is about
the inner product of the point of its row with the arrow of its column. With t the scores along unit
axes u, and s their standard deviations, the three common ways to share the size between the two are

    rows       G = t,          H = u           distances between points are those between rows
    columns    G = t / s,      H = u s         arrows are as long as columns vary, their cosines
                                               are correlations
    symmetric  G = t / sqrt s, H = u sqrt s    neither, and both as large
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np

from eigengap.estimators.shared.display import public_name
from eigengap.linalg import Array
from eigengap.plots.numbers.associations import Associations, associations
from eigengap.plots.numbers.names import names_of
from eigengap.plots.numbers.rows import (
    MOST_READ,
    Look,
    Table,
    all_rows,
    coded_table,
    inner,
    table_of,
)
from eigengap.plots.numbers.scores import (
    LinearView,
    linear_view,
    orthonormal_axes,
    require_linear,
    scores_of,
)
from eigengap.plots.numbers.subject import Subject

Scaling = Literal["rows", "columns", "symmetric"]
FORMULA: dict[str, str] = {
    "rows": "points t, arrows u: distances between points are those between rows",
    "columns": "points t / s, arrows u·s: cosines between arrows are correlations",
    "symmetric": "points t / √s, arrows u·√s: a compromise between rows and columns",
}
PAIRS = 16  # of rows, whose midpoints show whether a map is linear
LINEAR = 1e-6  # relative to the largest coordinate, which rounding does not reach


def correlations(estimator: Any, X: Any = None) -> Array:
    """Correlation of every column with every component: (d, q); 0 for a constant column.

    Of a fit to columns of several kinds as `associations` has them: NaN for levels without an
    order.
    """
    if coded_table(estimator) is not None:
        return _associated(estimator, X).r
    table = None if X is None else table_of(X, estimator, most=MOST_READ)
    view = linear_view(estimator)
    if table is not None and table.is_complete:
        return _sample_correlations(table.X, scores_of(estimator, table))
    if view is not None and view.density is not None:
        return _model_correlations(estimator, view, table)
    if table is None:
        if view is None:
            require_linear(estimator, "correlation circle without X")
        raise ValueError(
            f"{public_name(estimator)} has kept no covariances: give the table, X, that the "
            "correlations are to be computed from"
        )
    return _pairwise_correlations(table.X, scores_of(estimator, table))


def _associated(estimator: Any, X: Any) -> Associations:
    if X is None:
        raise ValueError(
            f"this {public_name(estimator)} was fitted to columns of several kinds: give the "
            "table, X, that their associations with the components are to be computed from"
        )
    return associations(estimator, X)


def variable_contributions(estimator: Any, X: Any = None) -> Array:
    """Share of every column in every component, in per cent: (d, q), columns sum to 100.

    X is needed of a fit to columns of several kinds (`associations`).
    """
    if coded_table(estimator) is not None:
        return _associated(estimator, X).contributions
    U = orthonormal_axes(estimator)
    if U is None:
        U = require_linear(estimator, "contributions").L
    squares = np.asarray(U, dtype=np.float64) ** 2
    total = squares.sum(axis=0)
    return 100.0 * squares / np.where(total > 0.0, total, 1.0)


def row_contributions(estimator: Any, X: Any) -> Array:
    """Share of every row in every component, in per cent: (m, q), columns sum to 100."""
    T = _orthogonal_scores(estimator, X, "contributions of rows")[0]
    total = np.sum(T**2, axis=0)
    return np.asarray(100.0 * T**2 / np.where(total > 0.0, total, 1.0))


def variable_cos2(estimator: Any, X: Any = None) -> Array:
    """Share of every column's variance along every component: (d, q).

    Of levels it is the correlation ratio, the share of the variance of the scores between them.
    """
    if coded_table(estimator) is not None:
        return _associated(estimator, X).r2
    return correlations(estimator, X) ** 2


def row_cos2(estimator: Any, X: Any) -> Array:
    """Share of every row's squared distance from the mean along every component: (m, q)."""
    T, distance = _orthogonal_scores(estimator, X, "cos2 of rows")
    return np.asarray(T**2 / np.where(distance > 0.0, distance, 1.0)[:, None])


def _orthogonal_scores(estimator: Any, X: Any, what: str) -> tuple[Array, Array]:
    """Projections on orthonormal axes (m, q), and expected squared distances (m,)."""
    U, view = orthonormal_axes(estimator), linear_view(estimator)
    if U is None or view is None or view.density is None:
        raise AttributeError(
            f"{public_name(estimator)} has no {what}: that needs components which are "
            "orthogonal directions. PCA, PPCA and BayesianPCA have them"
        )
    Y, unknown = _imputed(view, all_rows(X, estimator).X)
    return Y @ U, np.sum(Y**2 + unknown, axis=1)


def _imputed(view: LinearView, X: Array) -> tuple[Array, Array]:
    """Rows in units of the fit, missing values at their mean, and variances there: (m, d)."""
    assert view.density is not None
    Y = (X - view.mean) / view.unit
    if not np.isnan(Y).any():
        return Y, np.zeros(Y.shape)
    return view.density.conditional(Y)


def _sample_correlations(X: Array, T: Array) -> Array:
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        R, Z = X - X.mean(axis=0), T - T.mean(axis=0)
        x, z = np.sqrt(np.sum(R**2, axis=0)), np.sqrt(np.sum(Z**2, axis=0))
        # Divided first: products of large columns may leave float64.
        found = (R / np.where(x > 0, x, 1.0)).T @ (Z / np.where(z > 0, z, 1.0))
    return np.clip(np.nan_to_num(found), -1.0, 1.0)


def _pairwise_correlations(X: Array, T: Array) -> Array:
    """Each column with the scores, over the rows in which both are known.

    Centring and standardising alone leave missing values missing in the scores.
    """
    found = np.zeros((X.shape[1], T.shape[1]))
    partly = np.isnan(T).any(axis=0)  # (q,)
    for j in range(X.shape[1]):
        observed = ~np.isnan(X[:, j])
        if np.count_nonzero(observed) > 1:
            found[j] = _sample_correlations(X[observed, j : j + 1], T[observed])[0]
        for k in np.flatnonzero(partly):
            both = observed & ~np.isnan(T[:, k])
            if np.count_nonzero(both) > 1:
                found[j, k] = _sample_correlations(X[both, j : j + 1], T[both, k : k + 1])[0, 0]
    return found


def _model_correlations(estimator: Any, view: LinearView, table: Table | None) -> Array:
    assert view.density is not None
    model = inner(estimator)
    is_scaled = getattr(model, "scale_", None) is not None
    if table is not None:
        Y, unknown = _imputed(view, table.X)
        variance = np.mean(Y**2 + unknown, axis=0)  # of the columns, in units of the fit
    elif is_scaled and getattr(model, "distribution", "") != "student":
        variance = np.ones(len(view.unit))  # they were divided by their standard deviations
    else:
        variance = view.density.variances()
    with_scores, of_scores = view.covariances()
    # What the scores explain of a column cannot be more than its variance.
    explained = np.einsum("jk,kl,jl->j", with_scores, np.linalg.pinv(of_scores), with_scores)
    x = np.sqrt(np.maximum(variance, explained))
    scale = np.outer(x, np.sqrt(np.diagonal(of_scores)))
    return np.clip(with_scores / np.where(scale > 0.0, scale, 1.0), -1.0, 1.0)


# The biplot ------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Biplot:
    """Points and arrows whose inner products are the cells that the components show."""

    points: Array  # (m, k)
    arrows: Array  # (a, k)
    scaling: Scaling
    factor: Array  # (k,) points are so many times the scores
    names: tuple[str, ...]  # (a,) of the columns that have arrows
    levels: Levels | None = None  # of columns that have points


@dataclass(frozen=True, eq=False)
class Levels:
    """Levels of columns among the points of a biplot."""

    points: Array  # (L, k) barycentres
    labels: tuple[str, ...]
    columns: tuple[str, ...]  # (L,) the column of each
    names: tuple[str, ...]  # (L,) the level alone
    weight: Array  # (L,)
    cov: Array  # (L, k, k) of the rows of the level
    cov_barycentre: Array  # (L, k, k)


def biplot_numbers(
    estimator: Any,
    X: Any,
    axes: tuple[int, ...] = (0, 1),
    scaling: Scaling = "rows",
    categories: bool | Sequence[str] = True,
) -> Biplot:
    """Points of rows and arrows of columns along some components (positions).

    Of columns of several kinds the levels of those without an order have points, and others arrows,
    for the Gaussian variable behind them; `categories` names the columns whose levels have points.
    """
    if scaling not in get_args(Scaling):
        raise ValueError(f'scaling must be "rows", "columns" or "symmetric", got {scaling!r}')
    view = require_linear(estimator, "biplot")
    table = all_rows(X, estimator)
    T = scores_of(estimator, table)[:, axes]
    L, names, found = view.L[:, axes], tuple(names_of(estimator)), None
    if (coded := coded_table(estimator)) is not None:
        found = associations(estimator, table)
        with_points = _with_points(found, categories)
        with_arrow = [
            k
            for k, kind in enumerate(coded.columns.kinds)
            if kind.width == 1 and found.columns[k] not in with_points
        ]
        first = np.cumsum([0, *coded.columns.widths])[with_arrow]
        L, names = L[first], tuple(found.columns[k] for k in with_arrow)
    length = np.sqrt(np.sum(view.L[:, axes] ** 2, axis=0))
    length = np.where(length > 0.0, length, 1.0)
    t, u = T * length, L / length
    if view.density is not None and coded is None:
        s = np.sqrt(np.diagonal(view.covariances()[1]))[list(axes)] * length
    else:
        s = np.std(t, axis=0, ddof=1) if len(t) > 1 else np.ones(t.shape[1])
    s = np.where(s > 0.0, s, 1.0)
    power = {"rows": 0.0, "columns": 1.0, "symmetric": 0.5}[scaling]
    factor = length / s**power
    levels = None if found is None else _levels_of(found, with_points, axes, factor)
    return Biplot(t / s**power, u * s**power, scaling, factor, names, levels)


def _with_points(found: Associations, categories: bool | Sequence[str]) -> list[str]:
    """The columns whose levels have points."""
    if isinstance(categories, bool):
        kinds = zip(found.columns, found.kinds, strict=True)
        return [name for name, kind in kinds if categories and kind in ("binary", "nominal")]
    asked = [categories] if isinstance(categories, str) else list(categories)
    for name in asked:
        if name not in found.categories.column:
            raise ValueError(f"categories={asked!r}: {name!r} is no column with levels of the fit")
    return asked


def _levels_of(
    found: Associations, columns: list[str], axes: tuple[int, ...], factor: Array
) -> Levels | None:
    own = found.categories
    at = [
        i
        for i, name in enumerate(own.column)
        if name in columns and np.isfinite(own.coordinates[i]).all()
    ]
    if not at:
        return None
    pair, labels, square = list(axes), own.labels, np.outer(factor, factor)
    return Levels(
        points=own.coordinates[at][:, pair] * factor,
        labels=tuple(labels[i] for i in at),
        columns=tuple(own.column[i] for i in at),
        names=tuple(own.level[i] for i in at),
        weight=own.weight[at],
        cov=own.cov[at][:, pair][:, :, pair] * square,
        cov_barycentre=own.cov_barycentre[at][:, pair][:, :, pair] * square,
    )


# Columns of the report -------------------------------------------------------------------------


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
    table = Table(look.X, look.at, look.n_rows, look.missing.per_column)
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
        cov = view.covariances()[1]
        sd = np.sqrt(np.diagonal(cov))
        scale = np.outer(sd, sd)
        return np.asarray(cov / np.where(scale > 0, scale, 1.0))
    T = scores_of(subject.bare, table)
    if table.is_complete:
        return _correlation(T)
    return np.array([_correlation(T[rows]) for rows in ~np.isnan(table.X).T])


def _correlation(T: Array) -> Array:
    """Of rows whose scores are all known: centring alone leaves missing values missing."""
    T = T[~np.isnan(T).any(axis=1)]
    return np.eye(T.shape[1]) if len(T) < 2 else _sample_correlations(T, T)
