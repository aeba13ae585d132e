"""Affinities as users give them: square, not negative, symmetric; what is wrong is told by cell."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from eigengap.fitting.graph.pairs import ROWS, rounding
from eigengap.linalg import Array
from eigengap.runtime.warnings import warn


def is_sparse(X: Any) -> bool:
    return bool(scipy.sparse.issparse(X))


def affinity_matrix(X: Any, whose: str) -> tuple[Any, Array]:
    """The affinities X (n, n) as a symmetric float64 matrix without its diagonal, and that (n,).

    CSR stays CSR. Two directions that differ are averaged, and told where rounding does not
    explain it.
    """
    n, m = X.shape
    if n != m:
        raise ValueError(
            f"Precomputed matrix must be a square matrix of the affinities of all pairs of rows: "
            f"{whose} is of shape {n} x {m}. Rows of data want another affinity, and new rows go "
            "to transform"
        )
    if is_sparse(X):
        W: Any = scipy.sparse.csr_array(X, dtype=np.float64, copy=True)
        W.sum_duplicates()
    else:
        W = np.array(X, dtype=np.float64)
    _refuse_values(W, whose)
    slack = rounding(np.dtype(X.dtype)) * float(W.max()) if n else 0.0
    W = _symmetric(W, slack, whose)
    diagonal = np.array(W.diagonal())
    return _without_diagonal(W), diagonal


def new_affinities(X: Any) -> Any:
    """Affinities (c, n) of new rows to the fitted ones, float64, dense or CSR."""
    if is_sparse(X):
        W: Any = scipy.sparse.csr_array(X, dtype=np.float64)
    else:
        W = np.asarray(X, dtype=np.float64)
    _refuse_values(W, "X")
    return W


def shares_of(W: Any, fitted: NDArray[np.int64]) -> tuple[Any, Array]:
    """Rows of W (c, n) divided by their sums, and the sums (c,).

    A row without any affinity is refused, if it is not one of the fitted ones: fitted (c,) >= 0.
    """
    degrees = np.asarray(W.sum(axis=1), dtype=np.float64).ravel()
    alone = np.flatnonzero((degrees <= 0.0) & (fitted < 0))
    if len(alone):
        raise ValueError(
            f"row {int(alone[0])} has no affinity to any fitted row, so that nothing is known of "
            "its coordinates: leave it out"
        )
    degrees = np.where(degrees > 0.0, degrees, 1.0)
    if is_sparse(W):
        W = W.copy()
        W.data = W.data / np.repeat(degrees, np.diff(W.indptr))
        return W, degrees
    return W / degrees[:, None], degrees


def _refuse_values(W: Any, whose: str) -> None:
    data = W.data if is_sparse(W) else W
    bad = ~np.isfinite(data) | (data < 0.0)
    if not bad.any():
        return
    if is_sparse(W):
        at = int(np.argmax(bad))
        i, j = int(np.searchsorted(W.indptr, at, side="right")) - 1, int(W.indices[at])
        value = float(data[at])
    else:
        i, j = map(int, np.unravel_index(int(np.argmax(bad)), W.shape))
        value = float(W[i, j])
    if value < 0.0 and np.isfinite(value):
        raise ValueError(
            f"Negative values in data: {whose} has the affinity {value:.6g} at row {i}, column "
            f"{j}. Distances become affinities by exp(-d**2 / t); edges that repel have no place "
            "in a Laplacian"
        )
    shown = "NaN" if np.isnan(value) else f"{value}"
    raise ValueError(
        f"Input contains NaN or infinity: {whose} has {shown} at row {i}, column {j}. An affinity "
        "that is not known is best left 0: no edge"
    )


def _symmetric(W: Any, slack: float, whose: str) -> Any:
    if is_sparse(W):
        apart = float(abs(W - W.T).max()) if W.nnz else 0.0
        found = W if apart == 0.0 else scipy.sparse.csr_array(0.5 * (W + W.T))
    else:
        apart, found = 0.0, W
        for start in range(0, len(W), ROWS):
            across = W[:, start : start + ROWS].T
            apart = max(apart, float(np.max(np.abs(W[start : start + ROWS] - across))))
        if apart > 0.0:
            found = 0.5 * (W + W.T)
    if apart > slack:
        warn(
            f"{whose} is not symmetric (two directions differ by up to {apart:.3g}): their mean is "
            "taken",
            UserWarning,
        )
    return found


def _without_diagonal(W: Any) -> Any:
    if not is_sparse(W):
        np.fill_diagonal(W, 0.0)
        return W
    rows = np.repeat(np.arange(W.shape[0]), np.diff(W.indptr))
    W.data[rows == W.indices] = 0.0
    W.eliminate_zeros()
    W.sort_indices()
    return W
