"""Distances among the neighbours of a row, for rows of few or many neighbours, by any metric.

What locally linear weights, and the angles that unfolding may keep, are made of.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse

from eigengap.fitting.graph.neighbours import Neighbours
from eigengap.linalg import Array
from eigengap.models.maps.local_linear import affine_weights, inner_products_about, positive_part

BLOCK_BYTES = 32 << 20
SAME = 1e-12  # of the distances among neighbours: the rounding of some metrics at a fitted row


def around(neighbours: Neighbours, nearest: Any) -> Iterator[tuple[Any, Any, Array, Array]]:
    """Rows (c,) with k neighbours each: their nodes, distances to them (c, k), among (c, k, k)."""
    counts = np.diff(nearest.indptr)
    for k in np.unique(counts[counts > 0]):
        rows = np.flatnonzero(counts == k)
        step = max(1, BLOCK_BYTES // (8 * int(k) ** 2 * _width(neighbours)))
        for start in range(0, len(rows), step):
            some = rows[start : start + step]
            at = nearest.indptr[some][:, None] + np.arange(k)
            nodes = nearest.indices[at]
            yield some, nodes, nearest.data[at], _among(neighbours, nodes)


def local_weights(neighbours: Neighbours, nearest: Any, exact: bool) -> scipy.sparse.csr_array:
    """Affine weights (c, n) of rows upon the neighbours that `nearest` (c, n) stores.

    With `exact`, a row at distance 0 from a fitted one has the weight 1 there. Rows without
    neighbours have no weights.
    """
    weights = np.zeros(len(nearest.data))
    for rows, _, to, among in around(neighbours, nearest):
        G = inner_products_about(to, among)
        w = affine_weights(G if neighbours.search.is_euclidean else positive_part(G))
        if exact:
            met = np.min(to, axis=1) <= SAME * np.max(among, axis=(1, 2))
            w[met] = 0.0
            w[met, np.argmin(to[met], axis=1)] = 1.0
        at = nearest.indptr[rows][:, None] + np.arange(w.shape[1])
        weights[at] = w
    return scipy.sparse.csr_array((weights, nearest.indices, nearest.indptr), shape=nearest.shape)


def _width(neighbours: Neighbours) -> int:
    return int(neighbours.rows.shape[1]) if neighbours.search.is_euclidean else 1


def _among(neighbours: Neighbours, nodes: Any) -> Array:
    """(c, k, k) distances among the fitted rows nodes (c, k)."""
    if neighbours.search.metric == "precomputed":
        return np.asarray(neighbours.rows[nodes[:, :, None], nodes[:, None, :]])
    if neighbours.search.is_euclidean:
        X = neighbours.rows[nodes]  # (c, k, d)
        squares = np.zeros((*nodes.shape, nodes.shape[1]))
        for j in range(X.shape[2]):
            squares += (X[:, :, None, j] - X[:, None, :, j]) ** 2
        return np.sqrt(squares)
    return np.stack([neighbours.pairs(some, some) for some in nodes])
