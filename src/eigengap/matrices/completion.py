"""A matrix of low rank by its factors, and matrix completion through probabilistic PCA.

Ilin and Raiko (2010), "Practical approaches to principal component analysis in the presence of
missing values", compare it with least squares, which overfits. The fit is `fitting.gaussian.fit`;
here its expected rows W E[z | x] + mu are put into factors, with their errors.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from math import nan
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from eigengap.fitting.gaussian.fit import fit_ppca
from eigengap.fitting.gaussian.problem import EMOptions, GaussianFit, pattern_of
from eigengap.linalg import Array, sign_rule
from eigengap.models.gaussian.linear_gaussian import LinearGaussian
from eigengap.models.gaussian.predictive import Predictive
from eigengap.runtime.warnings import warn
from eigengap.selection.rank import RankChoice, automatic_rank, rank_for_fraction, reaching
from eigengap.sources import Block, Source, as_source, like
from eigengap.statistics.additive import Additive

MANY_LOADINGS = 0.2  # an observed value, of a wide matrix, from which on intervals are too narrow
LOOSE = 1e-3  # tolerance of the fits that only compare ranks

Rank = int | float | Literal["auto"]


@dataclass(frozen=True, eq=False)
class LowRank:
    """The matrix 1 mean' + U diag(s) Vt; np.asarray or to_array() gives it whole.

    Attributes
    ----------
    U : array of shape (n, k)
        Orthonormal columns.
    s : array of shape (k,)
        Descending, positive.
    Vt : array of shape (k, d)
        Orthonormal rows; the entry of largest modulus in each is positive.
    mean : array of shape (d,)
        Zeros unless center=True.
    error : float
        Root mean squared difference to the observed values of X. Of a complete matrix it is
        sqrt(sum of the discarded s^2 / (n d)) (Eckart and Young 1936).
    relative_error : float
        The same, relative to X - 1 mean' itself: its square is the share of the squares that is
        left out.
    gap_error : float
        Expected root mean squared error of the imputed values under the fitted density, its
        uncertainty included; NaN where X had no missing values. It is right if k is, and no means
        to choose k: for that ask `choose_rank` or `LowRankImputer`.
    compression : float
        Numbers in X for each number in the factors.
    n_iter, converged
        Of the fit with missing values.
    rank_choice : RankChoice or None
        Why k="auto" chose its number.
    """

    U: Array
    s: Array
    Vt: Array
    mean: Array
    error: float
    relative_error: float
    gap_error: float = nan
    n_iter: int = 0
    converged: bool = True
    rank_choice: RankChoice | None = None
    predictive: Predictive | None = None  # of the rows; None where X had no missing values
    missing_values: Any = nan  # what marks a missing value, besides NaN

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.U), len(self.mean)

    @property
    def rank(self) -> int:
        """k, the number of triplets."""
        return len(self.s)

    @property
    def compression(self) -> float:
        n, d = self.shape
        means = d if self.mean.any() else 0
        return n * d / (self.rank * (n + d + 1) + means)

    def to_array(self) -> Array:
        """The whole matrix (n, d)."""
        return np.asarray((self.U * self.s) @ self.Vt + self.mean)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        if copy is False:
            raise ValueError("the matrix is made from its factors: it cannot be had without a copy")
        return self.to_array().astype(dtype or np.float64, copy=False)

    def fill(self, X: Any, return_std: bool = False) -> Any:
        """X with its missing values imputed by their expected value given the rest of the row.

        Parameters
        ----------
        X : matrix of shape (m, d)
            The matrix that was approximated, or other rows of the same kind.
        return_std : bool, default=False
            Whether to return the standard deviation of each imputed value too (0 where observed);
            the uncertainty of the parameters is in it.

        Returns
        -------
        table of X's type, or two of them
        """
        source = as_source(X, missing_values=self.missing_values)
        if not source.has_missing:
            rows = source.collect()
            imputed = rows if isinstance(rows, np.ndarray) else rows.toarray()
            zeros = np.zeros(imputed.shape)
            return (like(X, imputed), like(X, zeros)) if return_std else like(X, imputed)
        if self.predictive is None:
            raise ValueError(
                "this approximation is of a matrix without missing values, so that no density was "
                "fitted to impute others from; use eigengap.PPCA(n_components).fit(X).impute"
            )
        if source.n_features != len(self.mean):
            raise ValueError(f"X has {source.n_features} columns, expected {len(self.mean)}")
        predictive, model, dtype = self.predictive, self.predictive.model, source.dtype
        if not return_std:
            imputed = source.map(lambda block: model.conditional_mean(block.values))
            return like(X, imputed.astype(dtype, copy=False))
        both = source.map(lambda block: np.hstack(predictive.conditional(block.values)))
        mean, variance = both[:, : model.d], both[:, model.d :]
        std = np.sqrt(variance)
        return like(X, mean.astype(dtype, copy=False)), like(X, std.astype(dtype, copy=False))

    def __repr__(self) -> str:
        n, d = self.shape
        missing = "" if np.isnan(self.gap_error) else f", gap_error={self.gap_error:.4g}"
        return f"LowRank({n} x {d}, rank={self.rank}, error={self.error:.4g}{missing})"


def require_rank(k: int, n: int, d: int) -> int:
    """k, unless no n x d matrix has that rank."""
    if k > min(n, d):
        raise ValueError(
            f"k = {k} is more than {min(n, d)}, the smaller side of this {n} x {d} matrix"
        )
    return k


def complete_matrix(source: Source, asked: Rank, center: bool, options: EMOptions) -> LowRank:
    """Fit the observed values of a source with missing values; `asked` as `k` of `low_rank`."""
    rows = source.present()
    fit, choice = _fit(rows, asked, center, options)
    _warn(rows, fit, options)
    predictive = Predictive.of(fit.model, pattern_of(rows, fit, "isotropic", center))
    U, s, Vt = _factors(
        source.map(lambda block: fit.model.posterior_mean(block.values)), fit.model.W
    )
    errors = _errors(source, fit.model, predictive)
    return LowRank(
        U=U,
        s=s,
        Vt=Vt,
        mean=fit.model.mu,
        error=float(np.sqrt(errors.left / errors.observed)),
        relative_error=float(np.sqrt(errors.left_out)),
        gap_error=float(np.sqrt(errors.expected / errors.missing)),
        n_iter=fit.n_iter,
        converged=fit.converged,
        rank_choice=choice,
        predictive=predictive,
    )


@dataclass(frozen=True, eq=False)
class CellErrors(Additive):
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
    def of(cls, model: LinearGaussian, predictive: Predictive | None, block: Block) -> CellErrors:
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


def _factors(Z: Array, W: Array) -> tuple[Array, Array, Array]:
    """Z W' = U diag(s) Vt through the triangles of both, never forming the product."""
    Q, R = np.linalg.qr(Z)
    P, T = np.linalg.qr(W)
    left, s, right = np.linalg.svd(R @ T.T)
    V = P @ right.T
    signs = sign_rule(V)
    return (Q @ left) * signs, s, np.ascontiguousarray((V * signs).T)


def _fit(
    source: Source, asked: Rank, center: bool, options: EMOptions
) -> tuple[GaussianFit, RankChoice | None]:
    """The fit of the rank asked for, and why, where it was chosen.

    A share of the squares is looked for with loose fits, which may come out short, and reached with
    the options that were given; warns where it is out of reach.
    """
    observed, d = source.observed(), source.n_features

    def fit(q: int, options: EMOptions = options) -> GaussianFit:
        return fit_ppca(source, q, fit_mean=center, options=options)

    if isinstance(asked, str):
        choice = automatic_rank(source, fit_mean=center)
        return fit(choice.n_components), choice
    if isinstance(asked, int):
        return fit(require_rank(asked, observed.rows, d)), None
    loose, most = replace(options, tol=max(LOOSE, options.tol)), min(observed.rows, d)

    def kept_by(found: GaussianFit) -> float:
        return 1.0 - _errors(source, found.model).left_out

    k = rank_for_fraction(lambda q: kept_by(fit(q, loose)), asked, most)
    found = reaching(fit, kept_by, k, asked, most)
    if (kept := kept_by(found)) < asked:
        warn(
            f"k={asked:g} of the squares is out of reach: rank {found.model.q}, the largest that "
            f"rows and columns allow, keeps {kept:.3g} of them",
            UserWarning,
        )
    return found, None


def _errors(
    source: Source, model: LinearGaussian, predictive: Predictive | None = None
) -> CellErrors:
    return source.reduce(partial(CellErrors.of, model, predictive))


def _warn(source: Source, fit: GaussianFit, options: EMOptions) -> None:
    """Warn of a fit that did not end, and of one that the observed values do not determine."""
    if not fit.converged:
        warn(
            f"low_rank did not converge in {fit.n_iter} steps (last change "
            f"{float(fit.trace.change[-1]):.1e}); raise max_iter={options.max_iter} or tol",
            UserWarning,
        )
    observed, k = source.observed(), fit.model.q
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
