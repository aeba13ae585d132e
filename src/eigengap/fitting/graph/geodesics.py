"""Geodesic distances along a neighbourhood graph, and landmarks that are spread over it.

The length of the shortest path stands for the distance along the surface that the rows lie on
(Tenenbaum, de Silva and Langford 2000; Bernstein et al. 2000 for when it converges to it).
"""

from __future__ import annotations

from math import isfinite
from typing import Literal

import numpy as np
import scipy.sparse
from numpy.typing import NDArray
from scipy.sparse.csgraph import dijkstra, floyd_warshall

from eigengap.compiled import geodesics as compiled
from eigengap.fitting.graph.pairs import LARGEST, refuse_range
from eigengap.linalg import Array
from eigengap.models.maps.graph import Graph
from eigengap.runtime.memory import require_memory, require_pairs

Method = Literal["auto", "D", "FW"]

WAY_OUT = (
    'landmarks=200 keeps the distances to so many rows only, landmarks="auto" chooses their number'
)


def require_geodesics(n: int) -> None:
    """Refuse all pairs of n rows where memory does not hold them."""
    require_pairs(n, "a matrix of geodesic distances between all pairs", WAY_OUT, copies=1.1)


def require_paths(n: int, m: int) -> None:
    """Refuse distances of n rows to m landmarks that memory does not hold, twice."""
    what = f"the geodesic distances of {n} rows to {m} landmarks"
    require_memory(2 * 8.0 * n * m, what, "take fewer landmarks")


def require_lengths(graph: Graph) -> None:
    """Refuse lengths that a metric has no value for, and those whose sums or squares overflow."""
    largest = float(np.max(graph.lengths, initial=0.0))
    if largest <= LARGEST:
        return
    if isfinite(largest):
        refuse_range(largest, "distances to neighbours")
    low, high, lengths = graph.edges
    at = int(np.argmax(~np.isfinite(lengths)))
    raise ValueError(
        f"the distance of rows {int(low[at])} and {int(high[at])} is {lengths[at]}: the metric has "
        "no value there. Leave out one of the two, or use another metric"
    )


def geodesics(graph: Graph, method: Method = "auto", n_jobs: int | None = None) -> Array:
    """Lengths (n, n) of the shortest paths between all nodes; inf where there is none.

    "FW" is SciPy's Floyd-Warshall algorithm, n^3 steps whatever the graph.
    """
    if method == "FW":
        return np.asarray(floyd_warshall(_csr(graph), directed=True))
    return compiled.all_pairs(graph.indptr, graph.indices, graph.lengths, n_jobs)


def paths_to(graph: Graph, landmarks: NDArray[np.int64], n_jobs: int | None = None) -> Array:
    """Lengths (n, m) of the shortest paths of all nodes to m of them."""
    found = compiled.from_sources(graph.indptr, graph.indices, graph.lengths, landmarks, n_jobs)
    return np.ascontiguousarray(found.T)  # a new row gathers whole rows of its neighbours


def spread_out(graph: Graph, m: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """m nodes far from each other along the graph, ascending; fewer where fewer are apart.

    Drawn by the square of their distance to the nearest that was drawn before, as by k-means++
    (Arthur and Vassilvitskii 2007), but as many at a time as there are already (k-means||, Bahmani
    et al. 2012): each round is a single run of Dijkstra's algorithm.
    """
    lengths = _csr(graph)
    chosen = rng.integers(graph.n, size=1)
    while len(chosen) < m:
        nearest = dijkstra(lengths, directed=True, indices=chosen, min_only=True)
        farthest = float(np.max(nearest))
        if farthest == 0.0:
            break
        weight = (nearest / farthest) ** 2
        apart = int(np.count_nonzero(weight))
        count = min(len(chosen), m - len(chosen), apart)
        drawn = rng.choice(graph.n, count, replace=False, p=weight / np.sum(weight))
        chosen = np.concatenate([chosen, drawn])
    return np.sort(chosen)


def _csr(graph: Graph) -> scipy.sparse.csr_array:
    """As SciPy's graph routines want it: indices of 32 bits."""
    lengths = graph.csr()
    lengths.indices = lengths.indices.astype(np.int32)
    lengths.indptr = lengths.indptr.astype(np.int32)
    return lengths
