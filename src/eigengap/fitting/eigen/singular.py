"""Singular triplets of a matrix by the cheapest route that keeps their digits.

X = U diag(s) V' (Golub and Van Loan 2013). Three routes: LAPACK's decomposition of X;
eigenvectors of the smaller of X'X and XX', turned into triplets by a QR of X V (Rayleigh-Ritz), for
a few triplets of a tall or wide matrix; Golub-Kahan-Lanczos (`krylov`) where both sides are
large or X is sparse. Whatever the route, the residuals

    r = sqrt((||X v - s u||^2 + ||X'u - s v||^2) / 2)

are computed at the end from X itself: X has a singular value within r of s (Parlett 1998, theorem
4.5.1, for [[0, X], [X', 0]]). A route that squares X and whose residuals show it gives way to one
that does not.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import frexp, inf
from typing import Any

import numpy as np
import scipy.linalg

from eigengap.fitting.eigen.krylov import top_triplets
from eigengap.fitting.gaussian.pca import NotCertified
from eigengap.fitting.gaussian.plan import LARGEST_DENSE, plan
from eigengap.linalg import Array, sign_rule
from eigengap.runtime.memory import require_memory
from eigengap.sources.base import Rows
from eigengap.statistics.moments import refuse_overflow

TOLERANCE = 1e-10  # residual, relative to s_1, up to which a triplet is taken
DIGITS = 1e-4  # of a singular value itself, which a route that squares X must keep
SAFE = 1e100  # cells between its inverse and it can be squared


@dataclass(frozen=True, eq=False)
class Triplets:
    """Leading singular triplets of a matrix, X ~ U diag(s) V'."""

    U: Array  # (n, k) orthonormal
    s: Array  # (k,) descending
    V: Array  # (d, k) orthonormal, signs by `sign_rule`
    residual: Array  # (k,)
    norm: float  # Frobenius norm of X
    route: str

    def discarded(self, k: int) -> float:
        """Frobenius norm of what the first k triplets leave, where all are known."""
        return float(np.linalg.norm(self.s[k:][::-1]))


@dataclass(frozen=True, eq=False)
class Matrix:
    """X - 1 mean', dense or sparse, as what the routes need of it; a sparse X stays sparse."""

    X: Rows  # (n, d) float64, all cells observed
    mean: Array | None = None  # (d,) of a sparse X; a dense one is centred beforehand

    @classmethod
    def of(cls, X: Rows, mean: Array | None = None) -> Matrix:
        values = X.astype(np.float64, copy=False)
        if mean is not None and isinstance(values, np.ndarray):
            return cls(values - mean)
        return cls(values, mean)

    @property
    def shape(self) -> tuple[int, int]:
        n, d = self.X.shape
        return int(n), int(d)

    @property
    def is_sparse(self) -> bool:
        return not isinstance(self.X, np.ndarray)

    def times(self, V: Array) -> Array:
        """(X - 1 mean') V."""
        image = np.asarray(self.X @ V)
        return image if self.mean is None else image - self.mean @ V

    def adjoint(self, U: Array) -> Array:
        """(X - 1 mean')' U."""
        image = np.asarray(self.X.T @ U)
        return image if self.mean is None else image - self.mean[:, None] * U.sum(axis=0)

    def gram(self) -> Array:
        """The smaller of X'X (d, d) and XX' (n, n)."""
        n, d = self.shape
        G = self.X.T @ self.X if d <= n else self.X @ self.X.T
        G = np.asarray(G.toarray() if self.is_sparse else G, dtype=np.float64)
        if self.mean is None:
            return G
        if d <= n:  # mean is that of the columns, so that 1'X = n mean'
            return np.asarray(G - n * (self.mean[:, None] * self.mean))
        with_mean = np.asarray(self.X @ self.mean)
        return np.asarray(G - with_mean[:, None] - with_mean + self.mean @ self.mean)

    def dense(self) -> Array:
        if not self.is_sparse:
            return np.asarray(self.X)
        n, d = self.shape
        require_memory(24.0 * n * d, f"all singular values of a {n} x {d} matrix", "give k")
        X = np.asarray(self.X.toarray())
        return X if self.mean is None else X - self.mean

    def norm(self) -> float:
        """Frobenius norm."""
        if not self.is_sparse:
            return float(np.linalg.norm(self.X))
        n, _ = self.shape
        if self.mean is None:
            return float(np.linalg.norm(self.X.data))
        stored = np.diff(self.X.tocsc().indptr)
        zeros = float((n - stored) @ self.mean**2)
        rest = self.X.data - self.mean[self.X.indices]
        return float(np.sqrt(rest @ rest + zeros))

    def scaled(self, factor: float) -> Matrix:
        mean = None if self.mean is None else self.mean * factor
        return Matrix(self.X * factor, mean)

    def largest(self) -> float:
        """Largest modulus of a cell of X."""
        cells = self.X.data if self.is_sparse else self.X
        if cells.size == 0:
            return 0.0
        return max(float(cells.max()), -float(cells.min()), 0.0)


def singular_triplets(X: Matrix, k: int | None = None) -> Triplets:
    """The k leading singular triplets of X, all min(n, d) of them where k is None.

    Raises `NotCertified` where a large matrix has no k triplets that can be separated from the
    following ones.
    """
    largest = X.largest()
    if largest > 0.0 and not 1.0 / SAFE < largest < SAFE:
        return _rescaled(X, k, largest)
    n, d = X.shape
    if largest == 0.0 and (X.mean is None or not X.mean.any()):
        k = min(n, d) if k is None else k  # any orthonormal vectors: the first unit vectors
        return Triplets(np.eye(n, k), np.zeros(k), np.eye(d, k), np.zeros(k), 0.0, "lapack")
    route = plan(n, d, k, sparse=X.is_sparse).route
    if k is None or route == "svd" or largest == 0.0:
        return _by_lapack(X, k)
    if route == "krylov":
        return _by_bidiagonal(X, k)
    return _by_gram(X, k) or _by_lapack(X, k)


def _rescaled(X: Matrix, k: int | None, largest: float) -> Triplets:
    """By way of cells of size 1, so that squares neither overflow nor underflow."""
    exponent = frexp(largest)[1]
    # In two steps, for 2^-e itself may be out of range.
    half = exponent // 2
    small = X.scaled(2.0**-half).scaled(2.0 ** -(exponent - half))
    found = singular_triplets(small, k)
    with np.errstate(over="ignore"):
        s, residual, norm = (
            np.ldexp(value, exponent) for value in (found.s, found.residual, found.norm)
        )
    refuse_overflow(float(norm))
    return replace(found, s=s, residual=residual, norm=float(norm))


def _by_lapack(X: Matrix, k: int | None) -> Triplets:
    dense = X.dense()
    try:
        U, s, Vt = np.linalg.svd(dense, full_matrices=False)
    except np.linalg.LinAlgError:  # divide and conquer fails now and then where QR does not
        U, s, Vt = scipy.linalg.svd(dense, full_matrices=False, lapack_driver="gesvd")
    return _certified(Matrix(dense), U[:, :k], s[:k], Vt[:k].T, "lapack")


def _by_gram(X: Matrix, k: int) -> Triplets | None:
    """None where squaring X has lost what is asked for."""
    n, d = X.shape
    basis = np.linalg.eigh(X.gram())[1][:, ::-1][:, :k]  # of the smaller side
    back = X.times(basis) if d <= n else X.adjoint(basis)
    Q, R = np.linalg.qr(back)
    left, s, right = np.linalg.svd(R)
    far, near = Q @ left, basis @ right.T
    U, V = (far, near) if d <= n else (near, far)
    found = _certified(X, U, s, V, "gram")
    # Of values near rounding the residual must be small relative to themselves too.
    rounding = max(X.shape) * float(np.finfo(np.float64).eps) * s[0]
    enough = np.where(s > rounding, np.minimum(TOLERANCE * s[0], DIGITS * s), TOLERANCE * s[0])
    return found if np.all(found.residual <= enough) else None


def _by_bidiagonal(X: Matrix, k: int) -> Triplets:
    n, d = X.shape
    if d <= n:
        top = top_triplets(X.times, X.adjoint, (n, d), k, tol=TOLERANCE)
        U, V = top.U, top.V
    else:
        top = top_triplets(X.adjoint, X.times, (d, n), k, tol=TOLERANCE)
        U, V = top.V, top.U
    if top.certified:
        return _certified(X, U, top.s, V, "bidiagonal")
    if min(n, d) > LARGEST_DENSE:
        raise NotCertified(
            f"the {k} leading singular vectors of this {n} x {d} matrix lie too close to the next "
            "ones to be separated, and its smaller side is too large for an exact solution; ask "
            "for another k"
        )
    exact = _by_gram(X, k) or _by_lapack(X, k)
    return replace(exact, route=f"bidiagonal+{exact.route}")


def _certified(X: Matrix, U: Array, s: Array, V: Array, route: str) -> Triplets:
    signs = sign_rule(V)
    U, V = U * signs, V * signs
    right = X.times(V) - U * s
    left = X.adjoint(U) - V * s
    residual = np.sqrt((np.sum(right**2, axis=0) + np.sum(left**2, axis=0)) / 2.0)
    return Triplets(U, s, V, residual, X.norm(), route)


def numerical_rank(s: Array, shape: tuple[int, int], dtype: Any, rank_tol: float | None) -> int:
    """Number of singular values above rank_tol s_1; None is max(n, d) eps, as in NumPy.

    eps is that of the cells as they were given: float32 cells are known to no more.
    """
    relative = max(shape) * float(np.finfo(dtype).eps) if rank_tol is None else rank_tol
    largest = float(s[0]) if len(s) else 0.0
    return int(np.count_nonzero(s > relative * largest)) if 0.0 < largest < inf else 0
