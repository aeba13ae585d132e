"""PCA of complete rows: the leading eigenvectors of their covariance, by the cheapest exact route.

With X centred (n, d), S = X'X / n = U diag(lam) U' (Jolliffe 2002, section 3.5). Four routes reach
the same numbers: eigenvectors of the scatter X'X (tall), of the Gram matrix XX' (wide), of the
operator V -> X'(X V) (both sides large), and the singular value decomposition of X, which alone
keeps the digits of eigenvalues below rounding times lam_1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from math import isfinite
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eigengap.fitting.eigen.krylov import ANGLE_TOLERANCE, top_eigenpairs
from eigengap.fitting.gaussian.plan import LARGEST_DENSE, plan
from eigengap.linalg import Array, sign_rule
from eigengap.sources.base import Block, Rows, Source
from eigengap.spectrum import Spectrum, rounding_along
from eigengap.statistics.covariance import CovarianceProduct, Triangle
from eigengap.statistics.moments import (
    ColumnMoments,
    Moments,
    column_shift,
    refuse_out_of_range,
    refuse_overflow,
)

SQUARING_LIMIT = 1e-10  # lam / lam_1 below which the squared matrix has lost an eigenvalue's digits
FLOAT32_LIMIT = 1e-3  # the same for products in float32
_GRAM_BYTES = 1 << 23  # columns of a wide table that are centred at a time

Rank = int | float | None


class HasMissing(Exception):
    """The table has missing values: it has to be fitted by EM."""


class NotCertified(ArithmeticError):
    """The Krylov iteration ended without its certificate, and no exact route is possible."""


@dataclass(frozen=True, eq=False)
class PCAFit:
    """Principal axes of a table."""

    mean: Array  # (d,)
    U: Array  # (d, q) orthonormal, signs by `sign_rule`
    spectrum: Spectrum
    route: str
    n_rows: int  # rows of positive weight
    sum_w: float

    def rank(self, stored: Any = np.float64) -> int:
        """Number of axes up to the last along which the rows vary by more than rounding.

        Two kinds of it: that of the solution, and that of the cells as they were `stored`, which
        a large offset makes as large as small directions are.
        """
        lam = self.spectrum.lam[: self.U.shape[1]]
        d, q = self.U.shape
        left = self.spectrum.discarded_variance(q) / d  # of each column, about, beyond these axes
        squares = self.mean**2 + (self.U**2) @ lam + left
        cells = rounding_along(self.U, squares, float(np.finfo(stored).eps))
        above = np.flatnonzero(lam > np.maximum(self.spectrum.rounding, cells))
        return int(above[-1]) + 1 if len(above) else 0


def fit_pca(
    source: Source,
    q: Rank = None,
    *,
    solver: str = "auto",
    fit_mean: bool = True,
    angle: float = ANGLE_TOLERANCE,
) -> PCAFit:
    """The q leading principal axes of the rows of `source`, with the weights of its blocks.

    q is a number of components, a share of the variance in (0, 1), or None for min(n, d). `angle`
    is what axes that are iterated may be off by (see `top_eigenpairs`).
    Raises `HasMissing` where a value is missing.
    """
    if source.has_missing:
        raise HasMissing
    n, d = source.n_rows, source.n_features
    wanted = int(q) if q is not None and q >= 1 else (0 if q == 0 else None)
    if wanted is not None and wanted > d:
        raise ValueError(f"{wanted} components are wanted of {d} columns")
    route = plan(
        n, d, wanted, sparse=source.is_sparse, solver=solver, whole=source.fits_in_memory
    ).route
    if route == "krylov":
        assert wanted is not None  # the plan takes this route for a known q only
        return _by_krylov(source, wanted, fit_mean, angle)
    return _EXACT[route](source, q, fit_mean)


def _by_covariance(source: Source, q: Rank, fit_mean: bool) -> PCAFit:
    moments = source.reduce(Moments.of)
    fit = _of_moments(source, moments, q, fit_mean)
    if source.dtype == np.float32 and _lost(fit, FLOAT32_LIMIT):
        moments = source.reduce(partial(Moments.of, exact=True))
        fit = _of_moments(source, moments, q, fit_mean)
    if _lost(fit, SQUARING_LIMIT):
        return replace(_of_triangle(source, moments, q, fit_mean), route="covariance+svd")
    return fit


def _of_moments(source: Source, moments: Moments, q: Rank, fit_mean: bool) -> PCAFit:
    _refuse_not_finite(source, moments.n_missing, moments.mean)
    scatter = moments.scatter if fit_mean else moments.second_moment
    total = float(scatter.trace()) / moments.sum_w
    refuse_out_of_range(source, total, fit_mean)
    lam, U = np.linalg.eigh(scatter)
    lam = lam[::-1] / moments.sum_w
    return _fit("covariance", moments, lam, U[:, ::-1], total, q, fit_mean)


def _by_svd(source: Source, q: Rank, fit_mean: bool) -> PCAFit:
    columns = _column_moments(source)
    return _of_triangle(source, columns, q, fit_mean)


def _of_triangle(
    source: Source, moments: Moments | ColumnMoments, q: Rank, fit_mean: bool
) -> PCAFit:
    """Right singular vectors of the rows, through their triangular factor."""
    mean = moments.mean if fit_mean else np.zeros_like(moments.mean)
    R = source.reduce(partial(Triangle.of, mean=mean, centre=fit_mean)).R
    sum_w = _sum_w(moments)
    with np.errstate(over="ignore"):  # refused
        total = float(np.sum(R * R)) / sum_w
    refuse_out_of_range(source, total, fit_mean)
    _, s, Vt = np.linalg.svd(R, full_matrices=False)
    return _fit("svd", moments, s * s / sum_w, Vt.T, total, q, fit_mean)


def _by_gram(source: Source, q: Rank, fit_mean: bool) -> PCAFit:
    """Eigenvectors of the n x n matrix of inner products, mapped back: u = X'v / sqrt(n lam)."""
    X = source.collect()
    n, d = X.shape
    w = _row_weights(source)
    sum_w = float(n if w is None else w.sum())
    n_rows = int(n if w is None else np.count_nonzero(w))
    X = X if isinstance(X, np.ndarray) else X.tocsc()
    with np.errstate(over="ignore", invalid="ignore"):
        mean = _wide_shift(X, w, sum_w) if fit_mean else np.zeros(d)
        _refuse_not_finite(source, _count_missing(X, mean), mean)
        shift = mean if _far_from_zero(X, mean) else None
        G, rest = _gram(X, w, shift, sum_w, fit_mean)
        if shift is None and mean @ mean > 1e2 * G.trace() / sum_w:  # the sample did not show it
            shift = mean
            G, rest = _gram(X, w, shift, sum_w, fit_mean)
        _refuse_not_finite(source, _count_missing(X, G), G)
    total = float(G.trace()) / sum_w
    refuse_out_of_range(source, total, fit_mean)
    lam, V = np.linalg.eigh(G)
    lam, V = np.maximum(lam[::-1], 0.0) / sum_w, V[:, ::-1]
    size = min(n_rows, d)
    spectrum = Spectrum(lam[:size], total, sum_w, d, complete=True)
    k = _rank(spectrum, q)
    reachable = min(k, n_rows - 1) if fit_mean else k  # centring takes one from the rank
    if reachable and lam[reachable - 1] < SQUARING_LIMIT * lam[0]:
        return replace(_by_svd(source, q, fit_mean), route="gram+svd")
    mean = mean if shift is None else mean + rest
    back = _projected(X, w, mean, shift, V[:, :reachable])  # (d, reachable) = U sqrt(sum_w lam)
    U, s = _normalised(back, np.sqrt(sum_w * lam[:reachable]))
    rest = lam[reachable:size]
    if fit_mean:
        rest = np.where(np.arange(reachable, size) < n_rows - 1, rest, 0.0)  # centred: rank n - 1
    spectrum = replace(spectrum, lam=np.concatenate([s * s / sum_w, rest]))
    U = _completed(U, k)
    return PCAFit(mean, U * sign_rule(U), spectrum, "gram", n_rows, sum_w)


def _by_krylov(source: Source, q: int, fit_mean: bool, angle: float) -> PCAFit:
    columns = _column_moments(source)
    sum_w = float(columns.sum_w[0])
    d = source.n_features
    total = float(np.sum(columns.m2)) / sum_w
    mean = columns.mean
    rows, shift = source, (mean if fit_mean else None)
    if not fit_mean:
        total += float(np.sum(mean**2))
    elif not source.is_sparse and np.sum(mean**2) > 1e2 * total:
        rows, shift = source.prepared(partial(_centred, mean=mean)), None
    refuse_out_of_range(source, total, fit_mean)

    def covariance(V: Array) -> Array:
        return rows.reduce(partial(CovarianceProduct.of, V=V, mean=shift)).value / sum_w

    top = top_eigenpairs(covariance, d, q, angle=angle)
    if not top.certified:
        return _fallback(source, q, fit_mean, columns.n_rows)
    lam = np.maximum(top.lam, 0.0)
    spectrum = Spectrum(lam, total, sum_w, d, complete=False)
    mean = mean if fit_mean else np.zeros(d)
    return PCAFit(mean, top.U * sign_rule(top.U), spectrum, "krylov", columns.n_rows, sum_w)


def _fallback(source: Source, q: int, fit_mean: bool, n: int) -> PCAFit:
    """The exact route in place of a Krylov iteration that did not reach its certificate."""
    d = source.n_features
    if min(n, d) > LARGEST_DENSE:
        raise NotCertified(
            f"the {q} leading eigenvectors of this {n} x {d} table lie too close together to be "
            f"separated, and its smaller side is too large for an exact solution; ask for "
            f"another n_components, fit a sample of the rows, or leave tol and svd_solver out"
        )
    route = "covariance" if d <= n else "gram"
    return replace(_EXACT[route](source, q, fit_mean), route=f"krylov+{route}")


_EXACT: dict[str, Callable[[Source, Rank, bool], PCAFit]] = {
    "covariance": _by_covariance,
    "gram": _by_gram,
    "svd": _by_svd,
}


def _fit(
    route: str,
    moments: Moments | ColumnMoments,
    lam: Array,
    U: Array,
    total: float,
    q: Rank,
    fit_mean: bool,
) -> PCAFit:
    """The fit from a whole spectrum, descending, and its eigenvectors."""
    d = moments.mean.size
    sum_w = _sum_w(moments)
    lam = np.maximum(lam[: min(moments.n_rows, d)], 0.0)  # rounding can leave -1e-17
    spectrum = Spectrum(lam, total, sum_w, d, complete=True)
    U = U[:, : _rank(spectrum, q)]
    mean = moments.mean if fit_mean else np.zeros(d)
    return PCAFit(mean, U * sign_rule(U), spectrum, route, moments.n_rows, sum_w)


def _sum_w(moments: Moments | ColumnMoments) -> float:
    """Sum of the row weights; of complete rows every column has the same."""
    w = moments.sum_w
    return w if isinstance(w, float) else float(w[0])


def _rank(spectrum: Spectrum, q: Rank) -> int:
    most = len(spectrum.lam)
    if q is None:
        return most
    if 0 < q < 1:
        return spectrum.rank_for_fraction(float(q)) if spectrum.total > 0.0 else 1
    if q > most:
        raise ValueError(f"{q} components are wanted, but rows and columns allow only {most}")
    return int(q)


def _lost(fit: PCAFit, limit: float) -> bool:
    """Whether a wanted eigenvalue lies in the rounding of the matrix it was taken from."""
    q, lam = fit.U.shape[1], fit.spectrum.lam
    return bool(q > 0 and lam[q - 1] < limit * lam[0])


def _column_moments(source: Source) -> ColumnMoments:
    with np.errstate(over="ignore", invalid="ignore"):
        columns = source.reduce(ColumnMoments.of)
    most = int(columns.counts.max(initial=0))
    missing = int(np.sum(most - columns.counts)) or int(most == 0)
    _refuse_not_finite(source, missing, columns.mean)
    _refuse_not_finite(source, 0, columns.m2)
    return columns


def _refuse_not_finite(source: Source, n_missing: int, sums: Array) -> None:
    if n_missing:
        raise HasMissing
    refuse_overflow(float(sums.sum()), source)


def _centred(block: Block, mean: Array) -> Block:
    return replace(block, values=block.values - mean)


def _row_weights(source: Source) -> Array | None:
    """Weights of all rows (n,), None where every one is 1."""

    def of(block: Block) -> NDArray[Any]:
        return np.ones(block.n_rows) if block.weight is None else block.weight

    w = source.map(of)
    return None if np.all(w == 1.0) else w


def _count_missing(X: Rows, sums: Array) -> int:
    """Missing values, looked for only where a sum is not finite."""
    if isfinite(sums.sum()):
        return 0
    return int(np.count_nonzero(np.isnan(X if isinstance(X, np.ndarray) else X.data)))


def _wide_shift(X: Rows, w: Array | None, sum_w: float) -> Array:
    if isinstance(X, np.ndarray):
        return column_shift(X, w, sum_w)
    return np.asarray(X.T @ (np.ones(X.shape[0]) if w is None else w)) / sum_w


def _far_from_zero(X: Rows, mean: Array) -> bool:
    """Whether inner products about zero would lose digits, judged by some columns."""
    some = slice(None, None, max(1, X.shape[1] // 200))
    values = X[:, some] if isinstance(X, np.ndarray) else X[:, some].toarray()
    sample = values.astype(np.float64)
    return bool(np.sum(mean[some] ** 2) > 10.0 * np.sum(sample.var(axis=0)))


def _columns(X: Rows, w: Array | None, shift: Array | None) -> Iterator[tuple[slice, Array]]:
    """Slices of the columns with A = sqrt(w) (x - shift) on them, in float64."""
    n, d = X.shape
    if w is None and shift is None and isinstance(X, np.ndarray) and X.dtype == np.float64:
        yield slice(None), X
        return
    root = None if w is None else np.sqrt(w)[:, None]
    step = max(64, _GRAM_BYTES // (8 * n))
    for i in range(0, d, step):
        cut = slice(i, min(i + step, d))
        values = X[:, cut] if isinstance(X, np.ndarray) else X[:, cut].toarray()
        values = values.astype(np.float64) if shift is None else values - shift[cut]
        yield cut, (values if root is None else values * root)


def _gram(
    X: Rows, w: Array | None, shift: Array | None, sum_w: float, fit_mean: bool
) -> tuple[Array, Array]:
    """Inner products (n, n) of the rows about their mean, and mean - shift (d,) if shifted.

    With A = sqrt(w) (x - shift) and r = A' root / sum_w, root = sqrt(w), the centred rows are
    A - root r', and A r = A A' root / sum_w: G = A A' is centred without reading X again.
    """
    n, d = X.shape
    root = np.ones(n) if w is None else np.sqrt(w)
    G, rest = np.zeros((n, n)), np.zeros(d)
    for cut, A in _columns(X, w, shift):
        G += A @ A.T
        if shift is not None:
            rest[cut] = root @ A / sum_w
    if not fit_mean:
        return G, rest
    g = G @ root / sum_w
    between = g[:, None] * root
    G -= between + between.T
    G += (root @ g / sum_w) * (root[:, None] * root)
    return G, rest


def _projected(X: Rows, w: Array | None, mean: Array, shift: Array | None, V: Array) -> Array:
    """The centred rows applied to V: sum of sqrt(w) (x - mean) v', (d, k)."""
    out = np.empty((X.shape[1], V.shape[1]))
    for cut, A in _columns(X, w, shift):
        out[cut] = A.T @ V
    root = np.ones(len(V)) if w is None else np.sqrt(w)
    return out - (mean if shift is None else mean - shift)[:, None] * (root @ V)


def _normalised(back: Array, s: Array) -> tuple[Array, Array]:
    """Orthonormal U and singular values from A'V = U diag(s).

    Where s spans many decades, columns of A'V are orthogonal only to eps lam_1 / lam: one
    Rayleigh-Ritz step in their span mends that, and makes small s precise.
    """
    if s.size == 0 or s[0] <= 0.0:
        return np.zeros((back.shape[0], 0)), s
    if s[-1] ** 2 > 1e-3 * s[0] ** 2:
        return back / s, s
    Q, R = np.linalg.qr(back)
    left, s, _ = np.linalg.svd(R)
    return Q @ left, s


def _completed(U: Array, k: int) -> Array:
    """U with columns orthogonal to it until there are k: axes along which nothing varies."""
    d, have = U.shape
    if have >= k:
        return U
    extra = np.random.default_rng(0).standard_normal((d, k - have))
    for _ in range(2):
        extra = np.linalg.qr(extra - U @ (U.T @ extra))[0]
    return np.concatenate([U, extra], axis=1)
