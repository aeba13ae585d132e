"""Solving with a sparse graph Laplacian, and what that would cost, before it is paid.

L = D - W is singular: 1 on a component solves L x = 0. With one node of every component grounded
(its x set to 0) the rest is positive definite, and gives x up to a constant on each component.
Elimination in order of minimum degree fills in little on graphs of one or two dimensions, and
nearly everything on neighbours in many.

The size of a factor is extrapolated from small ones: those of connected pieces of the graph, one
twice as large as the other, and the power law through them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray
from scipy.sparse.csgraph import breadth_first_order
from scipy.sparse.linalg import SuperLU, splu

from eigengap.linalg import Array

PIECE = 32  # the larger piece is twice one part in so many
DOUBT = 8.0  # times by which the estimate may be off where parts of a graph differ
LEAST_PIECE = 300  # nodes below which a piece is uninformative
ENTRY_BYTES = 42.0  # of an entry of the factor: both triangles, indices, work space, pivots
TINY = 1e-13  # of a degree, added where weights so differ in size that elimination breaks down


@dataclass(frozen=True)
class Cost:
    """What a factorisation would take, by extrapolation."""

    entries: float  # of one triangle
    multiplications: float

    @property
    def bytes(self) -> float:
        return ENTRY_BYTES * self.entries


def cost_of_factor(W: scipy.sparse.csr_array, degrees: Array, limit: float = 0.0) -> Cost:
    """An estimate for the graph W (n, n), looked at twice as closely where it is near the limit.

    `limit` is the number of multiplications that would be too many.
    """
    n = W.shape[0]
    small = max(n // PIECE, LEAST_PIECE)
    cost = _extrapolated(W, degrees, small)
    if limit / DOUBT < cost.multiplications < limit * DOUBT:
        return _extrapolated(W, degrees, 2 * small)
    return cost


def _extrapolated(W: scipy.sparse.csr_array, degrees: Array, small: int) -> Cost:
    """The geometric mean of the estimates at two places of the graph."""
    n = W.shape[0]
    if 2 * small >= n:
        return _cost_of_piece(W, degrees, np.arange(n))
    by_degree = np.argsort(degrees, kind="stable")
    places = [_cost_around(W, degrees, int(by_degree[at]), small) for at in (n // 3, 2 * n // 3)]
    return Cost(
        float(np.prod([cost.entries for cost in places]) ** 0.5),
        float(np.prod([cost.multiplications for cost in places]) ** 0.5),
    )


def _cost_around(W: Any, degrees: Array, start: int, small: int) -> Cost:
    """By the power law through pieces of `small` and twice as many nodes that are nearest."""
    n = W.shape[0]
    order = breadth_first_order(W, start, directed=False, return_predecessors=False)
    if len(order) < 2 * small:  # a component of its own: the other nodes in their order
        order = np.concatenate([order, np.setdiff1d(np.arange(n), order)])
    near = _cost_of_piece(W, degrees, order[:small])
    far = _cost_of_piece(W, degrees, order[: 2 * small])
    times = n / (2 * small)
    return Cost(
        far.entries * times ** _exponent(near.entries, far.entries, 2.0),
        far.multiplications * times ** _exponent(near.multiplications, far.multiplications, 3.0),
    )


def grounded_solver(
    W: scipy.sparse.csr_array, degrees: Array, labels: NDArray[Any], mass: Array
) -> Callable[[Array], Array]:
    """b (n, c) -> x with L x = b and x = 0 at one node of every component, b summing to 0 on each.

    labels (n,) is the component of each node. Where rounding leaves a pivot that is not positive,
    a little of mass (n,) is added to L, which moves its small eigenvalues and no eigenvector of
    L y = lam mass y.
    """
    n = W.shape[0]
    # The node of largest degree: taking away the densest row leaves the least to fill.
    first = np.lexsort((-degrees, labels))
    grounded = first[np.r_[True, np.diff(labels[first]) > 0]]
    kept = np.ones(n, dtype=bool)
    kept[grounded] = False
    nodes = np.flatnonzero(kept)
    try:
        factor = _superlu(W[nodes][:, nodes], degrees[nodes])
        positive = is_positive(factor)
    except RuntimeError:  # exactly singular
        positive = False
    if not positive:
        nodes = np.arange(n)
        more = TINY * float(np.max(degrees / mass)) * mass
        factor = _superlu(W, degrees + more)

    def solve(B: Array) -> Array:
        X = np.zeros(B.shape)
        X[nodes] = factor.solve(np.ascontiguousarray(B[nodes]))
        return X

    return solve


def _superlu(W: Any, diagonal: Array) -> SuperLU:
    return symmetric_lu(scipy.sparse.diags_array(diagonal) - W)


def symmetric_lu(M: Any) -> SuperLU:
    """SuperLU of a sparse symmetric matrix in order of minimum degree, without pivoting."""
    return splu(
        scipy.sparse.csc_array(M),
        permc_spec="MMD_AT_PLUS_A",
        diag_pivot_thresh=0.0,
        options={"SymmetricMode": True},
    )


def is_positive(factor: SuperLU) -> bool:
    """Whether all pivots are positive, and stand on the diagonal."""
    in_place = np.array_equal(factor.perm_r, factor.perm_c)
    return in_place and float(np.min(factor.U.diagonal(), initial=1.0)) > 0.0


def _cost_of_piece(W: Any, degrees: Array, nodes: NDArray[Any]) -> Cost:
    # Edges that leave the piece stay in the degrees: it is positive definite without a ground.
    diagonal = np.where(degrees[nodes] > 0.0, degrees[nodes], 1.0) * (1.0 + 1e-3)
    factor = _superlu(W[nodes][:, nodes], diagonal)
    columns = np.diff(factor.L.indptr).astype(np.float64)
    return Cost(float(np.sum(columns)), float(np.sum(columns**2)))


def _exponent(near: float, far: float, largest: float) -> float:
    """Of the power law through the two, at least 1 and at most that of a dense matrix."""
    return float(np.clip(np.log2(far / max(near, 1.0)), 1.0, largest))
