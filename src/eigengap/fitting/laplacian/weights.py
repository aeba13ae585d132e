"""Weights of the edges of a graph: 1, the heat kernel of their lengths, or affinities as given.

Belkin and Niyogi (2003): W_ij = 1 for neighbours, or exp(-|x_i - x_j|^2 / t). Zelnik-Manor and
Perona (2004), "Self-tuning spectral clustering": |x_i - x_j|^2 / (sigma_i sigma_j) with sigma_i the
distance of row i to its seventh neighbour, for data of uneven density.

"Neighbour" is no symmetric relation. With A_ij the weight where j is a neighbour of i and 0
elsewhere, the graph has the weights (A + A') / 2 ("average": half of it where one is the other's
neighbour alone; as in scikit-learn), max(A, A') ("union") or min(A, A') ("mutual").
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import scipy.sparse
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

from eigengap.fitting.graph import stored
from eigengap.fitting.graph.pairs import ROWS, rounding
from eigengap.fitting.kernel.fit import pair_matrix
from eigengap.linalg import Array
from eigengap.models.kernels.functions import RBF
from eigengap.runtime.memory import require_pairs
from eigengap.runtime.warnings import warn

Sharing = Literal["average", "union", "mutual"]
Bandwidth = float | Literal["median", "local"]

SEVENTH = 7
NEIGHBOURS = 'affinity="nearest_neighbors" needs a few neighbours of every row only'
PIECE_BYTES = 64 << 20  # of distances of new rows that are held at a time


@dataclass(frozen=True, eq=False)
class EdgeWeights:
    """How lengths of edges become weights, for fitted rows and for new ones."""

    sharing: Sharing
    t: float | None  # of exp(-length^2 / t); None where every edge weighs 1, or with sigma
    sigma: Array | None  # (n,) of exp(-length^2 / (sigma_i sigma_j))
    reach: Array  # (n,) length of the longest edge that each row has itself; inf within a radius

    @classmethod
    def of(
        cls,
        nearest: scipy.sparse.csr_array,
        sharing: Sharing = "average",
        bandwidth: Bandwidth | None = None,
        within_radius: bool = False,
    ) -> EdgeWeights:
        """From the distances (n, n) stored in `nearest`; bandwidth None is a weight of 1."""
        n = nearest.shape[0]
        reach = np.full(n, np.inf) if within_radius else _kth(nearest, None)
        if bandwidth is None:
            return cls(sharing, None, None, reach)
        if bandwidth == "local":
            return cls(sharing, None, _positive(_kth(nearest, SEVENTH)), reach)
        if bandwidth == "median":
            above = nearest.data[nearest.data > 0.0]
            bandwidth = float(np.median(above) ** 2) if len(above) else 1.0
        return cls(sharing, float(bandwidth), None, reach)

    def among(self, nearest: scipy.sparse.csr_array) -> scipy.sparse.csr_array:
        """W (n, n): symmetric, 0 on the diagonal, no stored zeros."""
        logs = np.zeros(nearest.nnz)
        if self.sigma is not None:
            both = self.sigma[stored.row_of_entries(nearest)] * self.sigma[nearest.indices]
            logs = -(nearest.data**2) / both
        elif self.t is not None:
            logs = -(nearest.data**2) / self.t
        A = _with_data(nearest, np.exp(logs))
        if self.sharing == "average":
            W = 0.5 * (A + A.T)
        elif self.sharing == "union":
            W = A.maximum(A.T)
        else:
            W = A.minimum(A.T)
        W = scipy.sparse.csr_array(W)
        W.eliminate_zeros()  # what has underflowed is no edge
        W.sort_indices()
        return W

    def of_new(self, nearest: scipy.sparse.csr_array) -> tuple[scipy.sparse.csr_array, Array]:
        """Shares (c, n) of the weights of new rows, which sum to 1, and their degrees (c,).

        Shares come from differences of logarithms, so that they are there also where all weights
        of a row underflow: far from all fitted rows the nearest one has the share 1. Rows without
        any neighbour have none.
        """
        c, rows = nearest.shape[0], stored.row_of_entries(nearest)
        relative, least = self._relative_logs(nearest)
        logs = relative + self._log_sharing(nearest)
        highest = np.full(c, -np.inf)
        np.maximum.at(highest, rows, logs)
        with np.errstate(invalid="ignore"):
            weights = np.exp(logs - highest[rows])
        totals = np.bincount(rows, weights=weights, minlength=c)
        shares = _with_data(nearest, weights / totals[rows])
        return shares, np.asarray(totals * np.exp(highest + least), dtype=np.float64)

    def _relative_logs(self, nearest: scipy.sparse.csr_array) -> tuple[Array, Array]:
        """Logarithms of the weights of new rows less one number (c,) for each row, and that.

        For exp(-length^2 / t) it is the largest of the row: -(l - m)(l + m) / t keeps digits, and
        its range, where squares do not.
        """
        c, rows = nearest.shape[0], stored.row_of_entries(nearest)
        if self.sigma is not None:
            own = _positive(_kth(nearest, SEVENTH))[rows]
            with np.errstate(over="ignore"):
                logs = -(nearest.data / own) * (nearest.data / self.sigma[nearest.indices])
            return logs, np.zeros(c)
        if self.t is None:
            return np.zeros(nearest.nnz), np.zeros(c)
        shortest = np.full(c, np.inf)
        np.minimum.at(shortest, rows, nearest.data)
        least = shortest[rows]
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            logs = -(nearest.data - least) * ((nearest.data + least) / self.t)
            return np.where(nearest.data == least, 0.0, logs), -shortest * (shortest / self.t)

    def _log_sharing(self, nearest: scipy.sparse.csr_array) -> Array:
        """What is added for a fitted row that would have, or not have, the new one for neighbour.

        A new row that would be nobody's neighbour keeps its edges: it must have some.
        """
        if self.sharing == "union":
            return np.zeros(nearest.nnz)
        returned = nearest.data <= self.reach[nearest.indices]
        if self.sharing == "average":
            return np.where(returned, 0.0, np.log(0.5))
        some = (
            np.bincount(
                stored.row_of_entries(nearest), weights=returned, minlength=nearest.shape[0]
            )
            > 0
        )
        with np.errstate(divide="ignore"):
            return np.where(returned | ~some[stored.row_of_entries(nearest)], 0.0, -np.inf)


def _with_data(A: scipy.sparse.csr_array, data: Array) -> scipy.sparse.csr_array:
    return scipy.sparse.csr_array((data, A.indices, A.indptr), shape=A.shape)


def _kth(nearest: scipy.sparse.csr_array, k: int | None) -> Array:
    """(n,) distance of each row to its k-th neighbour, or its last; 0 where it has none."""
    ordered = stored.nearest_stored(nearest, k)
    last = np.asarray(ordered.indptr[1:]) - 1
    some = np.diff(ordered.indptr) > 0
    found = np.zeros(nearest.shape[0])
    found[some] = ordered.data[last[some]]
    return found


def _positive(sigma: Array) -> Array:
    """Zeros, of rows that coincide with their neighbours, raised to the smallest other one."""
    above = sigma[sigma > 0.0]
    return np.maximum(sigma, float(np.min(above)) if len(above) else 1.0)


def rbf_affinities(rows: Array, gamma: float, n_jobs: int | None = None) -> Array:
    """exp(-gamma |x - x'|^2) of all pairs (n, n), 0 on the diagonal; refused where it overflows."""
    require_pairs(len(rows), "the rbf affinity", NEIGHBOURS, copies=3.5)
    W = pair_matrix(RBF(gamma, 1.0), rows, n_jobs)
    np.fill_diagonal(W, 0.0)
    if not np.all(np.isfinite(W)):
        i, j = map(int, np.argwhere(~np.isfinite(W))[0])
        raise ValueError(
            f"the rbf affinity of rows {i} and {j} is {W[i, j]}: their squares overflow. Divide "
            "the columns by their scale"
        )
    return W


def rbf_shares(
    X: Array, fitted: Array, gamma: float
) -> Iterator[tuple[slice, tuple[Array, Array]]]:
    """Some of the new rows X (c, d) at a time, their shares of the weights and their degrees."""
    step = max(1, PIECE_BYTES // (8 * len(fitted)))
    for start in range(0, len(X), step):
        some = slice(start, start + step)
        squares = cdist(X[some], fitted, "sqeuclidean")
        least = np.min(squares, axis=1)
        squares -= least[:, None]  # shares do not depend on it, and some weight is 1
        squares *= -gamma
        relative = np.exp(squares, out=squares)
        totals = np.sum(relative, axis=1)
        relative /= totals[:, None]
        yield some, (relative, totals * np.exp(-gamma * least))


# Affinities that are given -------------------------------------------------------------------


def affinity_matrix(X: Any, whose: str) -> tuple[Any, Array]:
    """The affinities X (n, n) as a symmetric float64 matrix without its diagonal, and that (n,).

    CSR stays CSR. Two directions that differ are averaged, with a warning where rounding does not
    explain the difference.
    """
    n, m = X.shape
    if n != m:
        raise ValueError(
            f"Precomputed matrix must be a square matrix of the affinities of all pairs of rows: "
            f"{whose} is of shape {n} x {m}. Rows of data want another affinity, and new rows go "
            "to transform"
        )
    if stored.is_sparse(X):
        W: Any = scipy.sparse.csr_array(X, dtype=np.float64, copy=True)
        W.sum_duplicates()
    else:
        W = np.array(X, dtype=np.float64)
    _refuse_values(W, whose)
    slack = rounding(np.dtype(X.dtype)) * float(W.max()) if n else 0.0
    W = _symmetric(W, slack, whose)
    diagonal = np.array(W.diagonal())
    if stored.is_sparse(W):
        W = stored.without_diagonal(W)
        W.eliminate_zeros()
        W.sort_indices()
    else:
        np.fill_diagonal(W, 0.0)
    return W, diagonal


def new_affinities(X: Any) -> Any:
    """Affinities (c, n) of new rows to the fitted ones, float64, dense or CSR."""
    sparse = stored.is_sparse(X)
    W: Any = (scipy.sparse.csr_array if sparse else np.asarray)(X, dtype=np.float64)
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
    if stored.is_sparse(W):
        W = W.copy()
        W.data = W.data / np.repeat(degrees, np.diff(W.indptr))
        return W, degrees
    return W / degrees[:, None], degrees


def _refuse_values(W: Any, whose: str) -> None:
    data = W.data if stored.is_sparse(W) else W
    bad = ~np.isfinite(data) | (data < 0.0)
    if not bad.any():
        return
    i, j, value = stored.first_entry(W, bad)
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
    if stored.is_sparse(W):
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
