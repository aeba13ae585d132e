"""Weights of the edges of a neighbourhood graph: 1, or the heat kernel of their lengths.

Belkin and Niyogi (2003): W_ij = 1 for neighbours, or exp(-|x_i - x_j|^2 / t). Zelnik-Manor and
Perona (2004), "Self-tuning spectral clustering": |x_i - x_j|^2 / (sigma_i sigma_j) with sigma_i the
distance of row i to its seventh neighbour, for data of uneven density.

"Neighbour" is no symmetric relation. With A_ij the weight where j is a neighbour of i and 0
elsewhere, the graph has the weights (A + A') / 2 ("average": half of it where one is the other's
neighbour alone; as in scikit-learn), max(A, A') ("union") or min(A, A') ("mutual").
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import scipy.sparse
from scipy.spatial.distance import cdist

from eigengap.fitting.laplacian.stored import nearest_stored, row_of_entries
from eigengap.linalg import Array

Sharing = Literal["average", "union", "mutual"]
Bandwidth = float | Literal["median", "local"]

SEVENTH = 7


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
        t = _median_square(nearest.data) if bandwidth == "median" else float(bandwidth)
        return cls(sharing, t, None, reach)

    def among(self, nearest: scipy.sparse.csr_array) -> scipy.sparse.csr_array:
        """W (n, n): symmetric, 0 on the diagonal, no stored zeros."""
        A = _with_data(nearest, np.exp(self._logs(nearest)))
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
        c, rows = nearest.shape[0], row_of_entries(nearest)
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
        c, rows = nearest.shape[0], row_of_entries(nearest)
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

    def _logs(self, nearest: scipy.sparse.csr_array) -> Array:
        """Logarithms of the weights of the edges among fitted rows."""
        squares = nearest.data**2
        if self.sigma is not None:
            return -squares / (self.sigma[row_of_entries(nearest)] * self.sigma[nearest.indices])
        return -squares / self.t if self.t is not None else np.zeros(len(squares))

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
            np.bincount(row_of_entries(nearest), weights=returned, minlength=nearest.shape[0]) > 0
        )
        with np.errstate(divide="ignore"):
            return np.where(returned | ~some[row_of_entries(nearest)], 0.0, -np.inf)


def _with_data(A: scipy.sparse.csr_array, data: Array) -> scipy.sparse.csr_array:
    return scipy.sparse.csr_array((data, A.indices, A.indptr), shape=A.shape)


def _kth(nearest: scipy.sparse.csr_array, k: int | None) -> Array:
    """(n,) distance of each row to its k-th neighbour, or its last; 0 where it has none."""
    ordered = nearest_stored(nearest, k)
    last = np.asarray(ordered.indptr[1:]) - 1
    some = np.diff(ordered.indptr) > 0
    found = np.zeros(nearest.shape[0])
    found[some] = ordered.data[last[some]]
    return found


def _positive(sigma: Array) -> Array:
    """Zeros, of rows that coincide with their neighbours, raised to the smallest other one."""
    above = sigma[sigma > 0.0]
    return np.maximum(sigma, float(np.min(above)) if len(above) else 1.0)


def _median_square(lengths: Array) -> float:
    above = lengths[lengths > 0.0]
    return float(np.median(above) ** 2) if len(above) else 1.0


def kernel_shares(X: Array, fitted: Array, gamma: float) -> tuple[Array, Array]:
    """Shares (c, n) of exp(-gamma |x - x'|^2) of new rows X (c, d), and their degrees (c,)."""
    squares = cdist(X, fitted, "sqeuclidean")
    least = np.min(squares, axis=1)
    squares -= least[:, None]  # shares do not depend on it, and some weight is 1
    squares *= -gamma
    relative = np.exp(squares, out=squares)
    totals = np.sum(relative, axis=1)
    relative /= totals[:, None]
    return relative, totals * np.exp(-gamma * least)
