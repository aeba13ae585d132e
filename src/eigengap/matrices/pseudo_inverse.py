"""`pinv`: the Moore-Penrose inverse, and the ridge inverse that MAP estimates need."""

from __future__ import annotations

from typing import Any, Literal

from eigengap.linalg import Array
from eigengap.matrices.decomposition import svd
from eigengap.runtime.memory import require_memory


def pinv(
    X: Any,
    k: int | None = None,
    *,
    ridge: float = 0.0,
    rank_tol: float | Literal["auto"] = "auto",
) -> Array:
    """Pseudo-inverse V diag(1 / s) U' of a complete matrix (000 section 3.1, use U1).

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
        Precision of the prior beside that of the noise. For many ridges take `svd(X).solve(y,
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
