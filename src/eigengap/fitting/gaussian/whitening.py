"""Whitening: an affine map after which the columns have variance 1 and no correlation.

Any A with A'A = C^-1 whitens, and they differ by a rotation; the family is that of Kessy, Lewin and
Strimmer (2018), "Optimal whitening and decorrelation". With C = U diag(lam) U' the covariance,
D = diag(standard deviations), C = D P D, P = G diag(theta) G' the correlations and P = L L':

    pca       lam^-1/2 U'            zca       U lam^-1/2 U'          cholesky  L^-1 D^-1
    pca-cor   theta^-1/2 G' D^-1     zca-cor   G theta^-1/2 G' D^-1

"normalise" is D^-1 and "centre" the identity: they act on each column by itself. Covariances have
the divisor sum_w - ddof.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from eigengap.exceptions import RankError
from eigengap.fitting.gaussian.fit import closed_form, fit_ppca
from eigengap.fitting.gaussian.pca import fit_pca
from eigengap.fitting.gaussian.problem import DEFAULT, EMOptions
from eigengap.fitting.gaussian.unrestricted import fit_unrestricted
from eigengap.linalg import Array, sign_rule
from eigengap.models.gaussian.linear_gaussian import LinearGaussian
from eigengap.models.maps.affine import AffineMap, ColumnMap
from eigengap.runtime.memory import require_memory
from eigengap.sources.base import Source
from eigengap.sources.wording import column
from eigengap.spectrum import Spectrum
from eigengap.statistics.moments import ColumnMoments, refuse_overflow, refuse_tiny_columns

ColumnMethod = Literal["centre", "normalise"]
MixingMethod = Literal["pca", "zca", "cholesky", "pca-cor", "zca-cor"]
Method = ColumnMethod | MixingMethod

BY_COLUMN: tuple[str, ...] = get_args(ColumnMethod)
METHODS: tuple[str, ...] = (*BY_COLUMN, *get_args(MixingMethod))
ROTATED = ("pca", "pca-cor")  # whose outputs are components, not columns
BY_CORRELATION = ("cholesky", "pca-cor", "zca-cor")  # which do not depend on units
TRUNCATED = ("pca", "pca-cor", "zca", "zca-cor")  # that can do with some of the axes

WIDEST = 200  # columns whose covariance is estimated from incomplete rows: each costs d^3 a step
ROUNDING = 16.0 * float(np.finfo(np.float64).eps)  # of an eigenvector's entry
NAMED = 5  # columns that a message names
LARGEST_NAMED = 2000  # columns among which dependent ones are looked for


@dataclass(frozen=True, eq=False)
class Whitening:
    """A fitted map and what is known of it."""

    map: AffineMap | ColumnMap
    model: LinearGaussian | None  # density, which imputes missing values; None by column
    variance: Array  # (k,) along the whitened axes at divisor sum_w - ddof, in units of `unit`
    unit: Array  # (d,) by which columns are divided first; ones where they are not
    rank: int  # directions in which the rows vary, as far as they were looked at
    full_rank: bool
    dependent: tuple[int, ...]  # columns that are constant or follow from the others
    n_iter: int = 0
    converged: bool = True


def fit_columns(source: Source, method: ColumnMethod, ddof: int) -> Whitening:
    """Centring or normalising, each column by its observed cells."""
    columns = source.reduce(ColumnMoments.of)
    refuse_overflow(float(np.sum(columns.m2)), source)
    if method == "normalise":
        refuse_tiny_columns(source, columns.variance)
    counted = np.maximum(columns.sum_w - ddof, np.finfo(np.float64).tiny)
    variance = np.where(columns.m2 > 0.0, columns.m2 / counted, 0.0)
    varies = variance > 0.0
    scale = np.where(varies, np.sqrt(variance), 1.0)
    if method == "centre":
        scale = np.ones(len(scale))
    return Whitening(
        map=ColumnMap(columns.mean, scale),
        model=None,
        variance=variance,
        unit=scale,
        rank=int(np.count_nonzero(varies)),
        full_rank=bool(np.all(varies)),
        dependent=tuple(int(j) for j in np.flatnonzero(~varies)),
    )


def column_units(source: Source, method: MixingMethod) -> Array | None:
    """(d,) by which columns are to be divided before `fit_whitening`; None where they are not."""
    if method not in BY_CORRELATION:
        return None
    variance = source.reduce(ColumnMoments.of).variance
    refuse_overflow(float(np.sum(variance)), source)
    refuse_tiny_columns(source, variance)
    return np.where(variance > 0.0, np.sqrt(variance), 1.0)


def fit_whitening(
    source: Source,
    method: MixingMethod,
    q: int | float | None = None,
    *,
    unit: Array | None = None,
    stored: Any = np.float64,
    ddof: int = 1,
    rank_tol: float | None = None,
    options: EMOptions = DEFAULT,
) -> Whitening:
    """Whiten by the q leading axes, a share of the variance, or all that vary (None).

    `unit` (d,) is what the columns of `source` have been divided by (`column_units`): the map takes
    rows before that. `stored` is the type that the cells came in, which bounds their precision.
    Missing values are allowed, up to WIDEST columns unless method is "pca" or "pca-cor" and q a
    number. Raises `RankError` where the rows do not vary in enough directions.
    """
    axes = _axes(source, method, q, rank_tol, stored, options)
    if unit is not None:
        axes = axes.rescaled(unit)
    if axes.rank == 0:
        raise RankError(
            "all rows are equal in what was observed, or vary by no more than the rounding of "
            "their cells: there is no variance to whiten"
        )
    k = _kept(axes, method, q, source)
    sum_w = axes.spectrum.sum_w
    variance = axes.spectrum.lam[:k] * (sum_w / (sum_w - ddof))
    d = source.n_features
    if method not in ROTATED:
        require_memory(16.0 * d * d, f'"{method}" of {d} columns', 'use method="pca"')
    A, B = _matrices(method, axes.U[:, :k], variance)
    full_rank = axes.rank >= d or (isinstance(q, int) and q < d)
    return Whitening(
        map=AffineMap(A=A / axes.unit, B=axes.unit[:, None] * B, mean=axes.mean),
        model=axes.model,
        variance=variance,
        unit=axes.unit,
        rank=axes.rank,
        full_rank=full_rank,
        dependent=() if full_rank else _dependent(axes),
        n_iter=axes.n_iter,
        converged=axes.converged,
    )


def _matrices(method: MixingMethod, U: Array, variance: Array) -> tuple[Array, Array]:
    """A (k or d, d) and B, its inverse on the span of U, for U (d, k) and its variances."""
    root = np.sqrt(variance)
    if method in ROTATED:
        return (U / root).T, U * root
    if method == "cholesky":  # P = R'R from its eigenpairs without forming it
        triangle = np.asarray(np.linalg.qr(root[:, None] * U.T, mode="r"))
        R = triangle * np.where(np.diag(triangle) < 0.0, -1.0, 1.0)[:, None]
        inverse = scipy.linalg.solve_triangular(R, np.eye(len(R)), trans="T")
        return np.asarray(inverse), np.asarray(R.T)
    return np.asarray((U / root) @ U.T), np.asarray((U * root) @ U.T)


@dataclass(frozen=True, eq=False)
class _Axes:
    """Eigenpairs of the covariance of (x - mean) / unit, the rows' density, and their rank."""

    mean: Array  # (d,)
    unit: Array  # (d,)
    U: Array  # (d, r)
    spectrum: Spectrum
    model: LinearGaussian
    rank: int  # eigenvalues that are not rounding (of incomplete rows: not at the floor of the fit)
    n_iter: int = 0
    converged: bool = True

    def rescaled(self, unit: Array) -> _Axes:
        """The same of rows that were divided by `unit` beforehand."""
        return replace(
            self, mean=self.mean * unit, unit=self.unit * unit, model=self.model.rescaled(unit)
        )


def _axes(
    source: Source,
    method: MixingMethod,
    q: int | float | None,
    rank_tol: float | None,
    stored: Any,
    options: EMOptions,
) -> _Axes:
    number = q if isinstance(q, int) and method in ROTATED else None
    if not source.has_missing:
        return _of_complete(source, number, rank_tol, stored)
    if number is not None:
        return _of_ppca(source, number, options)
    if source.n_features > WIDEST:
        raise ValueError(
            f'X has {source.n_features} columns and missing values; "{method}" needs their whole '
            f"covariance, which is estimated from incomplete rows for up to {WIDEST} columns. "
            'Impute the missing values first (LowRankImputer), or use method="pca" with '
            "n_components given as a number"
        )
    axes = _of_gaussian(source, method in BY_CORRELATION, rank_tol, options)
    if axes.converged or axes.rank >= source.n_features:
        return axes
    # Where columns are nearly collinear EM stops early, far from the optimum; PPCA of the
    # directions that it found takes the others for noise, and does not. The rank stays in doubt.
    return replace(_of_ppca(source, axes.rank, options), converged=False)


def _of_complete(source: Source, number: int | None, rank_tol: float | None, stored: Any) -> _Axes:
    d = source.n_features
    pca = fit_pca(source, number)
    s = np.sqrt(pca.spectrum.lam[: pca.U.shape[1]])
    if rank_tol is None:
        rank = pca.rank(stored)
    else:
        rank = int(np.count_nonzero(s > rank_tol * s[0])) if len(s) else 0
    # Missing values of later rows are imputed from all components, unless a number was asked for.
    latent = min(rank, pca.U.shape[1], d - 1 if number is None else number)
    return _Axes(
        mean=pca.mean,
        unit=np.ones(d),
        U=pca.U,
        spectrum=pca.spectrum,
        model=closed_form(pca, latent).model,
        rank=rank,
    )


def _of_ppca(source: Source, q: int, options: EMOptions) -> _Axes:
    """The axes of a PPCA density of rank q, as `PCA` has them for incomplete rows."""
    fit = fit_ppca(source, q, options=options)
    lam = fit.spectrum.lam
    return _Axes(
        mean=fit.model.mu,
        unit=np.ones(source.n_features),
        U=fit.axes,
        spectrum=fit.spectrum,
        model=fit.model,
        rank=int(np.count_nonzero(lam > 1e-12 * lam[0])),
        n_iter=fit.n_iter,
        converged=fit.converged,
    )


def _of_gaussian(
    source: Source, by_correlation: bool, rank_tol: float | None, options: EMOptions
) -> _Axes:
    """The axes of the unrestricted Gaussian of the observed cells."""
    fit = fit_unrestricted(source, options)
    d = source.n_features
    unit = fit.unit if by_correlation else np.ones(d)
    U, s, _ = np.linalg.svd(fit.root() / unit[:, None])
    # Directions so much shorter than the longest are the rounding of their entries.
    shortest = d * ROUNDING if rank_tol is None else rank_tol
    rank = int(np.count_nonzero(s > shortest * s[0]))
    spectrum = Spectrum(s**2, float(np.sum(s**2)), fit.sum_w, d, complete=True)
    return _Axes(
        mean=fit.mu,
        unit=unit,
        U=U * sign_rule(U),
        spectrum=spectrum,
        model=fit.model(),
        rank=min(rank, fit.rank, max(source.observed().rows - 1, 1)),
        n_iter=fit.n_iter,
        converged=fit.converged,
    )


def _kept(axes: _Axes, method: MixingMethod, q: int | float | None, source: Source) -> int:
    """How many axes are whitened."""
    d, rank = source.n_features, axes.rank
    if method == "cholesky" and rank < d:
        raise RankError(
            f'method="cholesky" needs columns of full rank, and the {d} columns of X have rank '
            f"{rank}{_named(axes, source)}. Drop columns, or use "
            'method="pca" or "zca", which whiten the directions that vary'
        )
    if q is None:
        return rank
    if isinstance(q, int):
        if q > rank:
            raise RankError(
                f"n_components={q} axes are to be whitened, and X varies in {rank} directions "
                f"only{_named(axes, source)}: the others would be rounding errors scaled to "
                f"variance 1. Use n_components={rank} or None"
            )
        return q
    known = replace(axes.spectrum, lam=axes.spectrum.lam[: axes.U.shape[1]])
    return min(known.rank_for_fraction(float(q)), rank)


def _dependent(axes: _Axes) -> tuple[int, ...]:
    """Columns that follow from the others: the last pivots of a QR factorisation with pivoting."""
    d, r = axes.U.shape
    if d > LARGEST_NAMED:
        return ()
    k = min(axes.rank, r)
    root = np.sqrt(axes.spectrum.lam[:k])[:, None] * axes.U[:, :k].T  # (k, d)
    size = np.linalg.norm(root, axis=0)
    # Rounding in the row of a constant column must not be scaled up to look like a direction.
    varies = size > ROUNDING * d * float(np.max(size, initial=0.0))
    scaled = np.where(varies, root / np.where(varies, size, 1.0), 0.0)
    order: NDArray[Any] = scipy.linalg.qr(scaled, mode="r", pivoting=True)[1]
    return tuple(sorted(int(j) for j in order[k:]))


def _named(axes: _Axes, source: Source) -> str:
    return describe_dependent(_dependent(axes), source.names, source.observed().rows)


def describe_dependent(
    dependent: tuple[int, ...], names: tuple[str, ...] | None, n_rows: int
) -> str:
    """Which columns follow from the others, for a message."""
    if not dependent or len(dependent) > n_rows:
        return f" ({n_rows} rows)"
    listed = ", ".join(column(names, j) for j in dependent[:NAMED])
    more = f" and {len(dependent) - NAMED} more" if len(dependent) > NAMED else ""
    one = len(dependent) == 1
    verbs = "follows from the others, or does" if one else "follow from the others, or do"
    return f" (column{'' if one else 's'} {listed}{more} {verbs} not vary)"
