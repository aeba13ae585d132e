"""Joining the components of a weighted graph by as few new edges as will do.

Of the shortest edges between each two components those of a minimum spanning tree are taken. More
would make short cuts that no row of the data speaks for: diffusion follows every edge, where a
shortest path would follow the best.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray
from scipy.sparse.csgraph import minimum_spanning_tree

from eigengap.fitting.graph.neighbourhood import Pairs, bridged
from eigengap.linalg import Array
from eigengap.models.maps.graph import Graph


def as_graph(W: scipy.sparse.csr_array) -> Graph:
    """The graph of the stored entries of W (n, n), its weights for lengths."""
    return Graph(W.indptr.astype(np.int64), W.indices.astype(np.int64), np.asarray(W.data))


def joined(
    W: scipy.sparse.csr_array, distances: Pairs, t: float | None = None
) -> scipy.sparse.csr_array:
    """W (n, n) in one piece. An edge that is new weighs as much as the weakest of the others.

    With a heat kernel exp(-length^2 / t) it weighs that, where it is more.
    """
    graph = as_graph(W)
    count, labels = graph.components
    low, high, lengths = bridged(graph, distances).edges
    across = np.flatnonzero(labels[low] != labels[high])
    ends = labels[low[across]], labels[high[across]]
    kept = across[_of_spanning_tree(*ends, lengths[across], count)]
    i, j = low[kept], high[kept]
    weight = np.full(len(i), float(np.min(W.data)) if W.nnz else 1.0)
    if t is not None:
        weight = np.maximum(weight, np.exp(-(lengths[kept] ** 2) / t))
    more = scipy.sparse.coo_array((weight, (i, j)), shape=W.shape).tocsr()
    found = scipy.sparse.csr_array(W + more + more.T)
    found.sort_indices()
    return found


def _of_spanning_tree(
    a: NDArray[Any], b: NDArray[Any], lengths: Array, count: int
) -> NDArray[np.bool_]:
    """Which of the edges between components a and b are in the minimum spanning tree.

    By ranks of the lengths, from 1 on: scipy takes a length of 0 for no edge.
    """
    rank = np.empty(len(lengths))
    rank[np.argsort(lengths, kind="stable")] = np.arange(1, len(lengths) + 1)
    tree = minimum_spanning_tree(
        scipy.sparse.coo_array((rank, (a, b)), shape=(count, count)).tocsr()
    )
    return np.isin(rank, tree.data)
