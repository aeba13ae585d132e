"""`svd`: the singular value decomposition, rank-revealing, truncated where asked, certified."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import isfinite
from numbers import Integral, Real
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from eigengap.fitting.eigen.singular import Matrix, numerical_rank, singular_triplets
from eigengap.linalg import Array
from eigengap.runtime.memory import require_memory
from eigengap.sources import as_source, column


@dataclass(frozen=True, eq=False)
class SVD:
    """X = U diag(s) Vt; unpacks as (U, s, Vt).

    Attributes
    ----------
    U : array of shape (n, k)
        Left singular vectors, orthonormal columns.
    s : array of shape (k,)
        Singular values, descending.
    Vt : array of shape (k, d)
        Right singular vectors, orthonormal rows; the entry of largest modulus in each is positive.
    rank : int
        Singular values above rank_tol s[0]. The rank of X where `rank_is_exact`, else X has at
        least this rank.
    rank_is_exact : bool
        Whether no further singular value can lie above the tolerance.
    rank_tol : float
        Relative to s[0].
    residual : array of shape (k,)
        X has a singular value within residual[i] of s[i].
    norm : float
        Frobenius norm of X.
    route : str
        How it was computed: "lapack", "gram" or "bidiagonal".
    """

    U: Array
    s: Array
    Vt: Array
    rank: int
    rank_is_exact: bool
    rank_tol: float
    residual: Array
    norm: float
    route: str

    def __iter__(self) -> Iterator[Array]:
        return iter((self.U, self.s, self.Vt))

    def __len__(self) -> int:
        return 3

    def __repr__(self) -> str:
        n, d = len(self.U), self.Vt.shape[1]
        exact = "" if self.rank_is_exact else " or more"
        return f"SVD({n} x {d}, {len(self.s)} triplets, rank {self.rank}{exact}, {self.route})"

    def __getitem__(self, i: int) -> Array:
        return (self.U, self.s, self.Vt)[i]

    def pinv(self, ridge: float = 0.0) -> Array:
        """The pseudo-inverse (d, n) of the part of rank `rank`: see `eigengap.pinv`."""
        inverse = inverse_values(self.s[: self.rank], ridge)
        return np.asarray((self.Vt[: self.rank].T * inverse) @ self.U[:, : self.rank].T)

    def solve(self, y: ArrayLike, ridge: float = 0.0) -> Array:
        """pinv(ridge) @ y without forming the pseudo-inverse: many ridges from one decomposition.

        The w of least length among those that minimise ||y - X w||^2 + ridge ||w||^2; of fewer
        triplets than X has, X is the part of it that they hold (principal component regression).
        """
        right = np.asarray(y, dtype=np.float64)
        if np.isnan(right).any():
            row = int(np.argmax(np.isnan(right).reshape(len(right), -1).any(axis=1)))
            raise ValueError(f"y contains NaN at row {row}; leave such rows out of X and y")
        if right.ndim not in (1, 2) or len(right) != len(self.U):
            raise ValueError(
                f"y has shape {right.shape}; it needs {len(self.U)} rows, as many as X has"
            )
        inverse = inverse_values(self.s[: self.rank], ridge)
        scores = self.U[:, : self.rank].T @ right
        return np.asarray(self.Vt[: self.rank].T @ (inverse * scores.T).T)


def svd(
    X: Any,
    k: int | Literal["rank"] | None = None,
    *,
    rank_tol: float | Literal["auto"] = "auto",
) -> SVD:
    """Singular value decomposition X = U diag(s) Vt of a complete matrix, nothing centred.

    Parameters
    ----------
    X : matrix of shape (n, d)
        Array, scipy.sparse matrix or frame, without NaN.
    k : int, "rank" or None, default=None
        Number of triplets, the largest first. None gives all min(n, d), as
        `numpy.linalg.svd(X, full_matrices=False)`; "rank" those above the tolerance. Few of a large
        or sparse matrix are found without the others.
    rank_tol : float or "auto", default="auto"
        Singular values at or below rank_tol s[0] count as zero. "auto" is max(n, d) eps, eps that
        of X's type (float32 or float64), as in `numpy.linalg.matrix_rank`.

    Returns
    -------
    SVD
        Unpacks as (U, s, Vt), in float64; also `rank`, `residual`, `norm`, `solve`, `pinv`.

    Notes
    -----
    Residuals are at most 1e-10 s[0], most often 1e-15 s[0]; singular values are then accurate to
    the square of that over their gap, or to rounding. Small singular values keep their digits: a
    route that squares X is left where the residuals show that it lost them.

    Examples
    --------
    >>> import numpy as np
    >>> from eigengap import svd
    >>> X = np.outer([1.0, 2.0, 2.0], [3.0, 4.0])
    >>> U, s, Vt = svd(X, k=1)
    >>> s.round(12)
    array([15.])
    >>> Vt
    array([[0.6, 0.8]])
    >>> svd(X).rank
    1
    """
    source = as_source(X)
    if source.has_missing:
        missing = np.isnan(source.collect())
        row = int(np.argmax(missing.any(axis=1)))
        j = int(np.argmax(missing[row]))
        raise ValueError(
            f"Input X contains NaN (row {row}, column {column(source.names, j)}): `svd` needs "
            "every cell. eigengap.low_rank(X, k) accepts missing values and gives the factors of "
            "the completed matrix"
        )
    rows = source.collect()
    n, d = (int(rows.shape[0]), int(rows.shape[1]))
    whole = k is None or (isinstance(k, str) and k == "rank")
    if not whole and (
        not isinstance(k, Integral) or isinstance(k, bool) or not 1 <= k <= min(n, d)
    ):
        raise ValueError(
            f'k is {k!r}; it has to be "rank", None, or a whole number from 1 to {min(n, d)}, the '
            f"smaller side of this {n} x {d} matrix"
        )
    is_auto = isinstance(rank_tol, str) and rank_tol == "auto"
    if not is_auto and not (isinstance(rank_tol, Real) and 0.0 <= rank_tol < 1.0):
        raise ValueError(
            f'rank_tol is {rank_tol!r}; it has to be "auto" or a number from 0 up to 1, relative '
            "to the largest singular value"
        )
    found = singular_triplets(Matrix.of(rows), None if whole else int(k))
    relative = None if is_auto else float(rank_tol)
    rank = numerical_rank(found.s, (n, d), source.dtype, relative)
    kept = rank if k == "rank" else len(found.s)
    return SVD(
        U=found.U[:, :kept],
        s=found.s[:kept],
        Vt=np.ascontiguousarray(found.V[:, :kept].T),
        rank=rank,
        rank_is_exact=rank < len(found.s) or len(found.s) == min(n, d),
        rank_tol=max(n, d) * float(np.finfo(source.dtype).eps) if relative is None else relative,
        residual=found.residual[:kept],
        norm=found.norm,
        route=found.route,
    )


def inverse_values(s: Array, ridge: float = 0.0) -> Array:
    """1 / (s + ridge / s) of positive s (k,), which neither over- nor underflows in the middle."""
    if not isinstance(ridge, Real) or not (isfinite(ridge) and ridge >= 0.0):
        raise ValueError(f"ridge is {ridge!r}; it has to be a number, 0 or larger")
    with np.errstate(over="ignore", divide="ignore"):
        inverse = 1.0 / (s + ridge / s)
    if not np.all(np.isfinite(inverse)):
        raise ValueError(
            f"the pseudo-inverse overflows: a singular value is {s[-1]:.3g}; rescale the matrix, "
            "for instance X * 1e20, whose pseudo-inverse is 1e20 times smaller"
        )
    return np.asarray(inverse)


def pinv(
    X: Any,
    k: int | None = None,
    *,
    ridge: float = 0.0,
    rank_tol: float | Literal["auto"] = "auto",
) -> Array:
    """Pseudo-inverse V diag(1 / s) U' of a complete matrix.

    pinv(X) @ y solves the normal equations X'X w = X'y of maximum likelihood: the shortest w of
    least squared error, whatever the rank of X. With a ridge it is V diag(s / (s^2 + ridge)) U' =
    (X'X + ridge I)^-1 X', and pinv(X, ridge=sigma2 / tau2) @ y is the MAP estimate of w under
    y ~ N(X w, sigma2 I) and w ~ N(0, tau2 I).

    Parameters
    ----------
    X : matrix of shape (n, d)
        Array, scipy.sparse matrix or frame, without NaN.
    k : int or None, default=None
        Invert the best approximation of rank k only (principal component regression).
    ridge : float, default=0.0
        Precision of the prior relative to that of the noise. For many ridges take `svd(X).solve(y,
        ridge)`, which decomposes X once.
    rank_tol : float or "auto", default="auto"
        Singular values at or below rank_tol times the largest count as zero: see `svd`.

    Returns
    -------
    array of shape (d, n)

    Examples
    --------
    >>> import numpy as np
    >>> from eigengap import pinv
    >>> X = np.array([[1.0, 1.0], [1.0, 1.0], [1.0, 1.0]])  # rank 1
    >>> pinv(X) @ np.array([1.0, 2.0, 3.0])
    array([1., 1.])
    >>> pinv(X, ridge=6.0) @ np.array([1.0, 2.0, 3.0])
    array([0.5, 0.5])
    """
    found = svd(X, k, rank_tol=rank_tol)
    n, d = len(found.U), found.Vt.shape[1]
    require_memory(8.0 * n * d, f"the pseudo-inverse ({d} x {n})", "use svd(X, k).solve(y)")
    return found.pinv(ridge)
