"""Parts of a graph that hang together by less than rounding, and the graph of these parts.

Edges join parts in order of weight, the heaviest first (Kruskal 1956). Where an edge w joins A and
B, a function that is 1 on A and 0 on B has a Rayleigh quotient of about w / min(mass A, mass B): a
ratio to the largest eigenvalue below rounding says that no sum over all nodes will show it. Within
such parts the smallest functions are constant, and between them they are those of the graph whose
nodes are the parts, its weights the sums of weights across, its masses the sums of masses: a
problem of its own, in which the small weights are the large ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components, minimum_spanning_tree

from eigengap.fitting.laplacian.given import is_sparse
from eigengap.linalg import Array

WEAK = 1e-10  # ratio below which rounding leaves too few digits of an eigenvalue
BELOW_ROUNDING = 1e-12  # ratio below which parts are held apart
RANGE = (1e-13, 1e-10)  # within which the place is chosen that holds them apart


@dataclass(frozen=True, eq=False)
class Merges:
    """Edges of the maximum spanning forest and how strongly they join."""

    n: int
    low: NDArray[Any]
    high: NDArray[Any]
    ratio: Array  # w / (min(mass A, mass B) bound)

    @property
    def weakest(self) -> float:
        return float(np.min(self.ratio, initial=np.inf))

    def parts(self) -> NDArray[np.int32]:
        """(n,) labels of parts, held apart where weak joins differ most from strong ones."""
        ordered = np.append(np.sort(self.ratio), np.inf)
        logs = np.log(np.clip(ordered, RANGE[0] * 1e-9, RANGE[1] * 1e9))
        may = (ordered[:-1] < RANGE[1]) & (ordered[1:] > RANGE[0])
        widest = int(np.argmax(np.where(may, np.diff(logs), -1.0)))
        kept = self.ratio > ordered[widest]
        forest = scipy.sparse.coo_array(
            (np.ones(int(np.sum(kept))), (self.low[kept], self.high[kept])), shape=(self.n, self.n)
        )
        return np.asarray(connected_components(forest.tocsr(), directed=False)[1])


def merges(W: Any, mass: Array, bound: float) -> Merges | None:
    """How the graph W (n, n) comes together; None where even all its mass makes no join weak."""
    n = W.shape[0]
    data = W.data if is_sparse(W) else W
    least = float(np.min(data, where=data > 0.0, initial=np.inf))
    if not np.isfinite(least) or least >= WEAK * bound * 0.5 * float(np.sum(mass)):
        return None
    low, high, w = _spanning_forest(W)
    order = np.argsort(-w, kind="stable")
    low, high, w = low[order], high[order], w[order]
    least_mass = _smaller_sides(n, low, high, mass)
    return Merges(n, low, high, w / least_mass / bound)


def _spanning_forest(W: Any) -> tuple[NDArray[Any], NDArray[Any], Array]:
    """Ends and weights of the edges of a maximum spanning forest."""
    if not is_sparse(W):
        return _grown(W)
    rank = np.empty(W.nnz)  # 1 for the heaviest: scipy takes 0 for no edge
    rank[np.argsort(-W.data, kind="stable")] = np.arange(1, W.nnz + 1)
    # SciPy before 1.17 takes indices of 32 bits alone.
    short = scipy.sparse.get_index_dtype((W.indices, W.indptr), check_contents=True)
    parts = rank, W.indices.astype(short), W.indptr.astype(short)
    ranks = scipy.sparse.csr_array(parts, shape=W.shape)
    tree = minimum_spanning_tree(ranks).tocoo()
    heaviest_first = np.sort(W.data)[::-1]
    return tree.row, tree.col, heaviest_first[tree.data.astype(np.int64) - 1]


def _grown(W: Array) -> tuple[NDArray[Any], NDArray[Any], Array]:
    """The same of all pairs, node by node (Prim 1957): no list of all edges is made."""
    n = len(W)
    inside, best = np.zeros(n, dtype=bool), np.zeros(n)
    origin = np.full(n, -1)  # stays so for the first node of a component
    for _ in range(n):
        at = int(np.argmax(np.where(inside, -1.0, best)))
        inside[at] = True
        nearer = (W[at] > best) & ~inside
        best[nearer], origin[nearer] = W[at][nearer], at
    joined = origin >= 0
    return origin[joined], np.flatnonzero(joined), best[joined]


def _smaller_sides(n: int, low: NDArray[Any], high: NDArray[Any], mass: Array) -> Array:
    """(m,) mass of the lighter of the two parts that each edge joins, in order."""
    parent, total = list(range(n)), mass.tolist()
    smaller = np.empty(len(low))

    def root(i: int) -> int:
        while parent[i] != i:
            parent[i] = parent[parent[i]]
            i = parent[i]
        return i

    for k, (i, j) in enumerate(zip(low.tolist(), high.tolist(), strict=True)):
        a, b = root(i), root(j)
        if total[a] < total[b]:
            a, b = b, a
        smaller[k] = total[b]
        parent[b] = a
        total[a] += total[b]
    return smaller


def within_and_across(W: Any, labels: NDArray[Any]) -> tuple[Any, Any]:
    """Weights within parts, and between them."""
    if not is_sparse(W):
        same = labels[:, None] == labels
        return np.where(same, W, 0.0), np.where(same, 0.0, W)
    rows = np.repeat(np.arange(W.shape[0]), np.diff(W.indptr))
    same = labels[rows] == labels[W.indices]
    return _chosen(W, rows, same), _chosen(W, rows, ~same)


def _chosen(W: Any, rows: NDArray[Any], which: NDArray[np.bool_]) -> scipy.sparse.csr_array:
    starts = np.concatenate([[0], np.cumsum(np.bincount(rows[which], minlength=W.shape[0]))])
    return scipy.sparse.csr_array((W.data[which], W.indices[which], starts), shape=W.shape)


def between_parts(across: Any, labels: NDArray[Any], count: int) -> scipy.sparse.csr_array:
    """(count, count) sums of the weights between parts."""
    n = len(labels)
    sums = scipy.sparse.csr_array((np.ones(n), (labels, np.arange(n))), shape=(count, n))
    found = scipy.sparse.csr_array(sums @ scipy.sparse.csr_array(across) @ sums.T)
    found = scipy.sparse.csr_array(0.5 * (found + found.T))
    found.eliminate_zeros()
    found.sort_indices()
    return found
