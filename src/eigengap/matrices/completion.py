"""Matrix completion through probabilistic PCA: a low-rank matrix from the observed values alone.

Ilin and Raiko (2010), "Practical approaches to principal component analysis in the presence of
missing values", compare it with least squares, which overfits. The fit is `fitting.gaussian.fit`;
here its expected rows W E[z | x] + mu are put into factors, with their errors.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from eigengap.fitting.gaussian.fit import fit_ppca
from eigengap.fitting.gaussian.problem import EMOptions, GaussianFit, pattern_of
from eigengap.linalg import Array, sign_rule
from eigengap.matrices.arguments import require_rank
from eigengap.models.gaussian.linear_gaussian import LinearGaussian
from eigengap.models.gaussian.predictive import Predictive
from eigengap.runtime.warnings import warn
from eigengap.selection.rank import RankChoice, automatic_rank, rank_for_fraction, reaching
from eigengap.sources import Block, Source

MANY_LOADINGS = 0.2  # an observed value, of a wide matrix, from which on intervals are too narrow
LOOSE = 1e-3  # tolerance of the fits that only compare ranks


@dataclass(frozen=True, eq=False)
class Completion:
    """Factors of the completed matrix, L = 1 mu' + U diag(s) Vt, and how good it is."""

    U: Array  # (n, k)
    s: Array  # (k,)
    Vt: Array  # (k, d)
    error: float  # root mean squared, observed values
    relative_error: float  # relative to the observed values about mu
    gap_error: float  # root mean squared, expected of the missing values
    n_iter: int
    converged: bool
    rank_choice: RankChoice | None
    predictive: Predictive


def complete_matrix(
    source: Source, asked: int | float | str, center: bool, options: EMOptions
) -> Completion:
    """Fit the observed values of a source with missing values; `asked` as `k` of `low_rank`."""
    rows = source.present()
    k, choice = _rank(rows, asked, center, options)
    fit = _fit(rows, asked, k, center, options)
    _warn(rows, fit, fit.model.q, options)
    predictive = Predictive.of(fit.model, pattern_of(rows, fit, "isotropic", center))
    U, s, Vt = _factors(_scores(source, fit.model), fit.model.W)
    errors = _errors(source, fit.model, predictive)
    return Completion(
        U=U,
        s=s,
        Vt=Vt,
        error=float(np.sqrt(errors.left / errors.observed)),
        relative_error=float(np.sqrt(errors.left_out)),
        gap_error=float(np.sqrt(errors.expected / errors.missing)),
        n_iter=fit.n_iter,
        converged=fit.converged,
        rank_choice=choice,
        predictive=predictive,
    )


@dataclass(frozen=True)
class CellErrors:
    """Sums of squares over cells."""

    left: float  # x - E[W z + mu | x] over observed values
    size: float  # x - mu over observed values
    observed: int
    expected: float  # variance of the missing values given the observed; 0 if not asked for
    missing: int

    @property
    def left_out(self) -> float:
        """Share of the observed squares, about mu, that the completed matrix leaves."""
        return self.left / self.size if self.size > 0.0 else 0.0

    @classmethod
    def of(cls, block: Block, model: LinearGaussian, predictive: Predictive | None) -> CellErrors:
        values = block.values.astype(np.float64, copy=False)
        centred = values - model.mu
        left = centred - model.posterior_mean(values) @ model.W.T
        missing = int(np.count_nonzero(np.isnan(values)))
        expected = 0.0
        if predictive is not None and missing:
            expected = float(np.sum(predictive.conditional(values)[1]))
        return cls(
            float(np.nansum(left**2)),
            float(np.nansum(centred**2)),
            values.size - missing,
            expected,
            missing,
        )

    def merge(self, other: CellErrors) -> CellErrors:
        return CellErrors(
            self.left + other.left,
            self.size + other.size,
            self.observed + other.observed,
            self.expected + other.expected,
            self.missing + other.missing,
        )


def empty_rows_of_complete(
    source: Source, rows: Source, k: int, center: bool, options: EMOptions
) -> tuple[NDArray[np.bool_], Predictive, float]:
    """Where every row is complete or empty: which rows are not empty, and how to impute the others.

    `rows` are the complete ones. Returns too the root mean squared error expected of the missing
    values.
    """
    fit = fit_ppca(rows, k, fit_mean=center, options=options)
    predictive = Predictive.of(fit.model, pattern_of(rows, fit, "isotropic", center))
    empty = np.full((1, source.n_features), np.nan)
    error = float(np.sqrt(np.mean(predictive.conditional(empty)[1])))
    return source.map(lambda block: ~np.isnan(block.values[:, 0])), predictive, error


def _scores(source: Source, model: LinearGaussian) -> Array:
    return source.map(lambda block: model.posterior_mean(block.values))


def _factors(Z: Array, W: Array) -> tuple[Array, Array, Array]:
    """Z W' = U diag(s) Vt through the triangles of both, never forming the product."""
    Q, R = np.linalg.qr(Z)
    P, T = np.linalg.qr(W)
    left, s, right = np.linalg.svd(R @ T.T)
    V = P @ right.T
    signs = sign_rule(V)
    return (Q @ left) * signs, s, np.ascontiguousarray((V * signs).T)


def _rank(
    source: Source, asked: int | float | str, center: bool, options: EMOptions
) -> tuple[int, RankChoice | None]:
    observed, d = source.observed(), source.n_features
    if isinstance(asked, str):
        choice = automatic_rank(source, fit_mean=center)
        return choice.n_components, choice
    if isinstance(asked, int):
        return require_rank(asked, observed.rows, d), None
    loose = replace(options, tol=max(LOOSE, options.tol))

    def kept(q: int) -> float:
        model = fit_ppca(source, q, fit_mean=center, options=loose).model
        return 1.0 - _errors(source, model).left_out

    return rank_for_fraction(kept, asked, min(observed.rows, d)), None


def _fit(
    source: Source, asked: int | float | str, k: int, center: bool, options: EMOptions
) -> GaussianFit:
    """The fit of rank k, or of the larger one that keeps the share asked for; warns if none does.

    k comes from loose fits, which may come out short.
    """

    def fit(q: int) -> GaussianFit:
        return fit_ppca(source, q, fit_mean=center, options=options)

    if not isinstance(asked, float):
        return fit(k)
    most = min(source.observed().rows, source.n_features)

    def kept_by(found: GaussianFit) -> float:
        return 1.0 - _errors(source, found.model).left_out

    found = reaching(fit, kept_by, k, asked, most)
    if (kept := kept_by(found)) < asked:
        warn(
            f"k={asked:g} of the squares is out of reach: rank {found.model.q}, the largest that "
            f"rows and columns allow, keeps {kept:.3g} of them",
            UserWarning,
        )
    return found


def _errors(
    source: Source, model: LinearGaussian, predictive: Predictive | None = None
) -> CellErrors:
    of: Callable[[Block], CellErrors] = partial(CellErrors.of, model=model, predictive=predictive)
    return source.reduce(of)


def _warn(source: Source, fit: GaussianFit, k: int, options: EMOptions) -> None:
    """Warn of a fit that did not end, and of one that the observed values do not determine."""
    if not fit.converged:
        warn(
            f"low_rank did not converge in {fit.n_iter} steps (last change "
            f"{float(fit.trace.change[-1]):.1e}); raise max_iter={options.max_iter} or tol",
            UserWarning,
        )
    observed = source.observed()
    cells, d = int(np.sum(observed.per_column)), source.n_features
    if d > observed.rows and d * k > MANY_LOADINGS * cells:
        warn(
            f"{d} columns with {k} loadings each are learned from {cells} observed values: "
            "gap_error and the standard deviations of imputed values come out too small. Complete "
            "the transpose, low_rank(X.T, k), or use a smaller k",
            UserWarning,
        )
    free = k * (observed.rows + d - k)  # numbers in a matrix of rank k
    if fit.at_floor and free >= cells:
        warn(
            f"a matrix of rank {k} has {free} free numbers, and only {cells} are observed: they "
            "are fitted without error, and the imputed values mean little. Use a smaller k",
            UserWarning,
        )
