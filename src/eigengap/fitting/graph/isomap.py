"""Isomap: classical scaling of geodesic distances, of all pairs or of landmarks.

Tenenbaum, de Silva and Langford (2000), "A global geometric framework for nonlinear dimensionality
reduction": with D the geodesic distances, H = I - 1 1' / n and

    B = -1/2 H D^2 H = V diag(lam) V',   Z = V_q diag(lam_q)^1/2.

B is never formed for many rows: its products with a block of vectors are taken from D itself, whose
rows are squared while they are in the cache, so that D is the only n x n matrix.

De Silva and Tenenbaum (2003), "Global versus local methods in nonlinear dimensionality reduction":
m landmarks are scaled, and every row is triangulated from its distances to them; then all are
rotated to the principal axes of the whole, about their mean.

All is done in units of a power of two near the largest distance, which costs no digit: squares of
squares of distances would leave float64 long before the distances do, and what counts as zero is
then a share of them.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from math import frexp, isfinite, sqrt

import numpy as np
from numpy.typing import NDArray

from eigengap.fitting.eigen.krylov import block_width, top_eigenpairs
from eigengap.fitting.eigen.symmetric import (
    FEW,
    SMALL,
    Eigenpairs,
    double_centred,
    leading_eigenpairs,
)
from eigengap.fitting.graph.mds import fit_distances
from eigengap.linalg import Array, sign_rule
from eigengap.models.maps.distances import GowerMap, inner_products
from eigengap.models.maps.geodesic import PIECE_BYTES, GeodesicMap
from eigengap.runtime.memory import require_pairs
from eigengap.runtime.threads import in_threads, one_blas_thread, workers_for
from eigengap.statistics.moments import power_of_ten

ANGLE = 1e-9  # of eigenvectors
SQUARED_BYTES = 1 << 20  # of rows that are squared at a time, to stay in the cache
PAIRS = 1 << 21  # of rows whose distances are compared, about so many at most
SAME = 1e-8  # as a share of the largest, up to which two distances are the same
FARTHEST = 1000  # exponent of a unit, whose inverse is then finite too
EPS = float(np.finfo(np.float64).eps)


@dataclass(frozen=True, eq=False)
class IsomapFit:
    """Coordinates of n rows and the map that adds another."""

    Z: Array  # (n, q) centred, the entry of largest modulus in each column positive
    map: GeodesicMap
    lam: Array  # (q,) of B, of either sign; on landmarks the sums of squares of the coordinates
    dimensions: int  # columns of Z that are not 0 throughout: those of positive eigenvalues
    error: float  # Frobenius norm of B less its fitted part, over its side (of landmarks: theirs)
    landmarks: NDArray[np.int64] | None = None  # (m,) rows, None where all pairs were used
    passes: int = 1  # products with B; 1 where LAPACK took it as a whole


# Units --------------------------------------------------------------------------------------


def unit_of(paths: Array) -> float:
    """A power of two near the largest of the distances (n, m); 1 where all are 0.

    None is longer than the way through the first landmark, twice the longest distance to it.
    """
    largest = float(np.max(paths[:, 0]))
    if largest == 0.0:
        return 1.0
    return 2.0 ** min(max(frexp(largest)[1], -FARTHEST), FARTHEST)


def _require_finite(square: float, unit: float, n: int) -> None:
    """Refuse distances, the largest with this square in units, n squares of which overflow."""
    largest = sqrt(square) * unit
    if isfinite(n * largest * largest):
        return
    raise ValueError(
        f"geodesic distances, the largest of which is {largest:.3g}, overflow when they are "
        f"squared. Rescale the rows, for instance X / {power_of_ten(largest)}"
    )


# All pairs ----------------------------------------------------------------------------------


def fit_pairs(D: Array, q: int, dense: bool = False, n_jobs: int | None = None) -> IsomapFit:
    """Scaling of the geodesic distances D (n, n), which are kept and not changed."""
    n = len(D)
    unit = unit_of(D)
    squares = _Squares(D, unit, n_jobs)
    found, passes = _eigenpairs(squares, q, dense)
    floor = n * EPS * max(0.5 * squares.largest, abs(float(found.lam[0])))
    Z, A, dimensions = _scaled(found, floor)
    model = GeodesicMap(D, GowerMap(A, squares.means), np.zeros(q), Z * unit, unit)
    lam, error = found.lam * unit * unit, _error(squares.size, found.lam, n) * unit * unit
    return IsomapFit(model.Z, model, lam, dimensions, error, passes=passes)


def _scaled(found: Eigenpairs, floor: float) -> tuple[Array, Array, int]:
    """Z = V lam^1/2 and A = V lam^-1/2, 0 where an eigenvalue is not above `floor`; how many are.

    Signs are those of V.
    """
    length = np.sqrt(np.where(found.lam > floor, found.lam, 0.0))
    inverse = np.divide(1.0, length, out=np.zeros_like(length), where=length > 0.0)
    return found.V * length, found.V * inverse, int(np.count_nonzero(length))


def _error(size: float, lam: Array, n: int) -> float:
    return sqrt(max(size - float(np.sum(lam * lam)), 0.0)) / n


class _Squares:
    """The operator B, from D: -1/2 of its squares in units, centred on both sides."""

    def __init__(self, D: Array, unit: float, n_jobs: int | None) -> None:
        self.D, self.unit, self.n_jobs = D, unit, n_jobs
        n = len(D)
        total, fourth = np.empty(n), np.empty(n)
        most = np.empty(n)

        def sums(rows: slice, square: Array) -> None:
            np.sum(square, axis=1, out=total[rows])
            np.max(square, axis=1, out=most[rows])
            np.einsum("ij,ij->i", square, square, out=fourth[rows])

        self._over_rows(sums)
        self.largest = float(np.max(most))  # of d^2
        _require_finite(self.largest, unit, n)
        self.means = total / (-2.0 * n)  # (n,) of -d^2 / 2
        grand = float(np.mean(self.means))
        # |B|^2 = sum g^2 - 2 n sum m_i^2 + n^2 grand^2, about the mean to keep digits
        off = self.means - grand
        variation = 0.25 * float(np.sum(fourth)) - (n * grand) ** 2
        self.size = max(variation - 2.0 * n * float(off @ off), 0.0)

    def apply(self, V: Array) -> Array:
        """B V for a block of vectors V (n, k)."""
        V = V - np.mean(V, axis=0)
        out = np.empty_like(V)

        def product(rows: slice, square: Array) -> None:
            out[rows] = square @ V

        self._over_rows(product)
        out *= -0.5
        out -= np.mean(out, axis=0)
        return out

    def formed(self) -> Array:
        """B itself."""
        require_pairs(len(self.D), "a dense eigensolver", 'eigen_solver="auto" needs less')
        G = self.D / self.unit
        G *= G
        G *= -0.5
        return double_centred(G)[0]

    def _over_rows(self, work: Callable[[slice, Array], None]) -> None:
        n = len(self.D)
        step = max(1, SQUARED_BYTES // (8 * n))

        def piece(start: int) -> None:
            some = self.D[start : start + step] / self.unit
            some *= some
            work(slice(start, start + step), some)

        with one_blas_thread():
            in_threads(piece, range(0, n, step), workers_for(self.n_jobs))


def _eigenpairs(squares: _Squares, q: int, dense: bool) -> tuple[Eigenpairs, int]:
    """The leading ones, and how many products with a block they took."""
    n = len(squares.D)
    if dense or n <= SMALL or FEW * block_width(q) > n:
        found = leading_eigenpairs(squares.formed(), None if dense else q)
        return Eigenpairs(found.lam[:q], found.V[:, :q], complete=q == n), 1
    top = top_eigenpairs(squares.apply, n, q, angle=ANGLE)
    if not top.certified:
        return leading_eigenpairs(squares.formed(), q), top.passes
    return Eigenpairs(top.lam, top.U * sign_rule(top.U), complete=False), top.passes


# Landmarks ----------------------------------------------------------------------------------


def fit_on_landmarks(paths: Array, landmarks: NDArray[np.int64], q: int) -> IsomapFit:
    """Scaling of m landmarks, all n rows triangulated by their distances paths (n, m) to them."""
    with one_blas_thread() if len(landmarks) <= SMALL else nullcontext():
        return _fit_on_landmarks(paths, landmarks, q)


def _fit_on_landmarks(paths: Array, landmarks: NDArray[np.int64], q: int) -> IsomapFit:
    unit = unit_of(paths)
    _require_finite((float(np.max(paths)) / unit) ** 2, unit, len(paths))
    between = paths[landmarks] / unit
    between = 0.5 * (between + between.T)  # equal but for rounding
    scaling = fit_distances(between, q)
    assert isinstance(scaling.model, GowerMap)
    plain = _triangulated(paths, unit, scaling.model)
    Z, rotation, shift, lam = _principal_axes(plain, scaling.dimensions)
    gower = GowerMap(scaling.model.A @ rotation, scaling.model.means)
    model = GeodesicMap(paths, gower, shift * unit, Z * unit, unit)
    B = double_centred(inner_products(between))[0]
    error = _error(float(np.sum(B * B)), scaling.spectrum.lam[:q], len(B)) * unit * unit
    return IsomapFit(model.Z, model, lam * unit * unit, scaling.dimensions, error, landmarks)


def _triangulated(paths: Array, unit: float, gower: GowerMap) -> Array:
    n, m = paths.shape
    Z = np.empty((n, gower.q))
    step = max(1, PIECE_BYTES // (8 * m))
    for start in range(0, n, step):
        rows = slice(start, start + step)
        Z[rows] = gower.forward(inner_products(paths[rows] / unit))
    return Z


def _principal_axes(Z: Array, dimensions: int) -> tuple[Array, Array, Array, Array]:
    """Z about its mean and rotated so that its columns are uncorrelated, largest first.

    Axes of eigenvalues that are not positive stay 0. Also the rotation (q, q), what is added after
    it (q,), and the sums of squares of the columns (q,).
    """
    q = Z.shape[1]
    mean = np.mean(Z, axis=0)
    Z = Z - mean
    kept = slice(0, dimensions)
    lam, R = np.linalg.eigh(Z[:, kept].T @ Z[:, kept])
    lam, R = lam[::-1], R[:, ::-1]
    rotation = np.zeros((q, q))
    rotation[kept, kept] = R
    Z = Z @ rotation
    signs = sign_rule(Z)
    Z, rotation = Z * signs, rotation * signs
    return (
        Z,
        rotation,
        -(mean @ rotation),
        np.concatenate([np.maximum(lam, 0.0), np.zeros(q - dimensions)]),
    )


# How good it is -----------------------------------------------------------------------------


def residual_variances(paths: Array, landmarks: NDArray[np.int64] | None, Z: Array) -> Array:
    """(q,) 1 - r^2 of geodesic distances and those of the first 1, 2, ..., q columns of Z (n, q).

    Over all pairs of rows and landmarks where they are few, otherwise over those of some rows,
    always the same. Tenenbaum, de Silva and Langford (2000) look for the elbow of this curve.
    """
    at = np.arange(len(paths)) if landmarks is None else landmarks
    count = max(2, PAIRS // paths.shape[1])
    rows = np.arange(len(paths))
    if len(rows) > count:
        rows = np.sort(np.random.default_rng(0).choice(rows, count, replace=False))
    other = rows[:, None] != at  # (c, m) a row with itself says nothing
    unit = unit_of(paths)
    delta = paths[rows][other] / unit
    square = np.zeros(len(delta))
    found = np.empty(Z.shape[1])
    for k in range(Z.shape[1]):
        apart = (Z[rows, k, None] - Z[at, k])[other] / unit
        square += apart * apart
        found[k] = _residual_variance(delta, np.sqrt(square))
    return found


def _residual_variance(d: Array, fitted: Array) -> float:
    """1 - r^2 of distances in units of the largest.

    Where either does not vary, 0 if they are the same and 1 if they are not.
    """
    d, fitted = d - np.mean(d), fitted - np.mean(fitted)
    size = float(d @ d) * float(fitted @ fitted)
    rounding = (len(d) * EPS) ** 2
    if size <= rounding * float(d @ d + fitted @ fitted) ** 2:
        return 0.0 if np.allclose(d, fitted, atol=SAME) else 1.0
    return max(1.0 - float(d @ fitted) ** 2 / size, 0.0)
