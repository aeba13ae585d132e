"""Shortest paths by SciPy's Dijkstra: the twin of the compiled kernels, and their oracle."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray
from scipy.sparse.csgraph import dijkstra

from eigengap.linalg import Array


def from_sources(
    indptr: NDArray[Any], nodes: NDArray[Any], lengths: Array, sources: NDArray[Any], out: Array
) -> None:
    """Rows of `out` (m, n): distances from the sources. Both directions of an edge are stored.

    "directed" spares SciPy looking at the transpose, which is the same graph.
    """
    n = len(indptr) - 1
    graph = scipy.sparse.csr_array(
        (lengths, nodes.astype(np.int32, copy=False), indptr.astype(np.int32, copy=False)),
        shape=(n, n),
    )
    step = max(1, (1 << 24) // (8 * n))  # some rows at a time, for SciPy has an array of its own
    for start in range(0, len(sources), step):
        rows = slice(start, start + step)
        out[rows] = dijkstra(graph, directed=True, indices=sources[rows])
