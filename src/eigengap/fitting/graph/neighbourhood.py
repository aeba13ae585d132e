"""Neighbourhood graphs from the neighbours of every row, and how their components are joined.

Isomap, Laplacian eigenmaps and maximum variance unfolding start from these. "Nearest neighbour" is
not symmetric: an edge joins two rows of which either is the other's neighbour (union), or both are
(mutual; Brito et al. 1997), which leaves outliers alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np
import scipy.sparse
from numpy.typing import NDArray
from scipy.sparse.csgraph import minimum_spanning_tree

from eigengap.exceptions import DisconnectedError
from eigengap.linalg import Array
from eigengap.models.maps.graph import Graph, Ints

Symmetry = Literal["union", "mutual"]
Pairs = Callable[[Ints, Ints], Array]  # distances (a, b) between the rows i (a,) and j (b,)

MOST_BRIDGES = 2_000_000  # edges between components
PIECE = 1 << 22  # distances between components that are computed at a time


def undirected(nearest: scipy.sparse.csr_array, how: Symmetry = "union") -> Graph:
    """The graph of directed neighbours: row i of `nearest` (n, n) stores the distances to its.

    Stored zeros are neighbours at distance 0. Where the two directions differ in length (a metric
    that is not symmetric to the last digit) the shorter one counts.
    """
    n = nearest.shape[0]
    rows = np.repeat(np.arange(n), np.diff(nearest.indptr))
    columns = nearest.indices.astype(np.int64)
    lengths = np.asarray(nearest.data, dtype=np.float64)
    if how == "mutual":
        both = np.isin(rows * n + columns, columns * n + rows)
        rows, columns, lengths = rows[both], columns[both], lengths[both]
    return Graph.of_edges(n, rows, columns, lengths)


def in_words(graph: Graph) -> str:
    """How the graph falls apart: '3 components of 50, 30 and 2 rows'."""
    found = np.sort(np.bincount(graph.components[1]))[::-1]
    shown = [str(size) for size in found[:5]]
    if len(found) > 5:
        listed = ", ".join(shown) + ", ..."
    else:
        listed = ", ".join(shown[:-1]) + " and " + shown[-1]
    return f"{len(found)} components of {listed} rows"


def copies_in_words(
    labels: NDArray[Any],
    nearest: scipy.sparse.csr_array,
    distances: Pairs | None = None,
    itself: int = 0,
) -> str:
    """Which components (n,) are copies of one row, and the way out; empty where none is.

    `nearest` (n, n) stores the distances of rows to their neighbours; `distances` counts copies
    that are not in one component; `itself` is 1 where a number of neighbours counts the row itself.
    """
    rows = np.repeat(np.arange(len(labels)), np.diff(nearest.indptr))
    size = np.bincount(labels)
    furthest = np.zeros(len(size))
    np.maximum.at(furthest, labels[rows], nearest.data)
    alike = np.where((furthest == 0.0) & (size > 1), size, 0)
    if not alike.any():
        return ""
    largest, count = int(alike.max()), int(np.count_nonzero(alike))
    first = int(np.argmax(labels == np.argmax(alike)))
    if distances is not None:
        same = distances(np.array([first]), np.arange(len(labels))) == 0.0
        largest = int(np.count_nonzero(same))
    return (
        f"{count} of them {'is' if count == 1 else 'are'} copies of one row (row {first} is there "
        f"{largest} times), with no neighbours but each other: fit the distinct rows "
        f"(np.unique(X, axis=0)), or take n_neighbors={largest + itself}"
    )


def furthest_neighbour(nearest: scipy.sparse.csr_array) -> Array:
    """(n,) distance of each row to its furthest neighbour; the median of all where it has none."""
    far = np.full(nearest.shape[0], np.nan)
    some = np.diff(nearest.indptr) > 0
    far[some] = np.maximum.reduceat(nearest.data, nearest.indptr[:-1][some])
    return np.where(np.isnan(far), np.nanmedian(far) if some.any() else np.inf, far)


def bridged(graph: Graph, distances: Pairs) -> Graph:
    """The graph with an edge between the nearest two nodes of every pair of components.

    As scikit-learn joins them, so that the way from one component to another is not longer than it
    has to be.
    """
    count, labels = graph.components
    if count == 1:
        return graph
    if count * (count - 1) // 2 > MOST_BRIDGES:
        raise DisconnectedError(
            f"the neighbourhood graph falls into {in_words(graph)}, too many to join each two: "
            "take more neighbours or a larger radius"
        )
    order = np.argsort(np.bincount(labels), kind="stable")  # the largest is never on the near side
    rank = np.empty(count, dtype=np.int64)
    rank[order] = np.arange(count)
    place = rank[labels]  # (n,) of the node's component, by size
    nodes = np.argsort(place, kind="stable")
    starts = np.searchsorted(place[nodes], np.arange(count + 1))
    parts = [
        _nearest_pairs(nodes[starts[c] : starts[c + 1]], nodes[starts[c + 1] :], place, distances)
        for c in range(count - 1)
    ]
    i, j, lengths = (np.concatenate(part) for part in zip(*parts, strict=True))
    return graph.with_edges(i, j, lengths)


def _nearest_pairs(
    near: Ints, far: Ints, place: Ints, distances: Pairs
) -> tuple[Ints, Ints, Array]:
    """The shortest edge from the nodes `near` to each component among the nodes `far`."""
    groups = np.flatnonzero(np.r_[True, np.diff(place[far]) > 0])  # far is in order of components
    best = np.full(len(groups), np.inf)
    i, j = np.empty(len(groups), dtype=np.int64), np.empty(len(groups), dtype=np.int64)
    group_of = np.repeat(np.arange(len(groups)), np.diff(np.r_[groups, len(far)]))
    step = max(1, PIECE // len(far))
    for start in range(0, len(near), step):
        some = near[start : start + step]
        D = distances(some, far)  # (a, b)
        D = np.where(np.isnan(D), np.inf, D)  # no cell in common
        row = np.argmin(D, axis=0)
        least = D[row, np.arange(len(far))]
        order = np.lexsort((least, group_of))
        at = order[groups]  # the nearest of each group
        shorter = least[at] < best
        best[shorter] = least[at][shorter]
        i[shorter], j[shorter] = some[row[at]][shorter], far[at][shorter]
    if not np.isfinite(best).all():
        raise DisconnectedError(
            f"no distance is known between row {int(near[0])} and those that belong with row "
            f"{int(far[groups[int(np.argmax(np.isinf(best)))]])}, so that they cannot be joined: "
            "fit each by itself"
        )
    return i, j, best


# Weighted graphs ----------------------------------------------------------------------------


def as_graph(W: scipy.sparse.csr_array) -> Graph:
    """The graph of the stored entries of W (n, n), its weights for lengths."""
    return Graph(W.indptr.astype(np.int64), W.indices.astype(np.int64), np.asarray(W.data))


def joined(
    W: scipy.sparse.csr_array, distances: Pairs, t: float | None = None
) -> scipy.sparse.csr_array:
    """The weighted graph W (n, n) with its components joined by a minimum spanning tree.

    More of the shortest edges between components would make short cuts that no row supports:
    diffusion follows every edge, where a shortest path follows the best. A new edge weighs as much
    as the weakest of the others, or its heat kernel exp(-length^2 / t) where that is more.
    """
    graph = as_graph(W)
    count, labels = graph.components
    low, high, lengths = bridged(graph, distances).edges
    across = np.flatnonzero(labels[low] != labels[high])
    # By ranks of the lengths, from 1 on: scipy takes a length of 0 for no edge.
    rank = np.empty(len(across))
    rank[np.argsort(lengths[across], kind="stable")] = np.arange(1, len(across) + 1)
    ends = labels[low[across]], labels[high[across]]
    between = scipy.sparse.coo_array((rank, ends), shape=(count, count)).tocsr()
    kept = across[np.isin(rank, minimum_spanning_tree(between).data)]
    i, j = low[kept], high[kept]
    weight = np.full(len(i), float(np.min(W.data)) if W.nnz else 1.0)
    if t is not None:
        weight = np.maximum(weight, np.exp(-(lengths[kept] ** 2) / t))
    more = scipy.sparse.coo_array((weight, (i, j)), shape=W.shape).tocsr()
    found = scipy.sparse.csr_array(W + more + more.T)
    found.sort_indices()
    return found
