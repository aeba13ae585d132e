"""Rows as affine combinations of their neighbours: the weights of locally linear embedding.

Roweis and Saul (2000): the weights w with sum w = 1 that minimise |x - sum_j w_j x_j|^2 follow from
the inner products of the neighbours about x, and these from distances:

    G_jk = (d(x, j)^2 + d(x, k)^2 - d(j, k)^2) / 2,   (G + ridge tr(G) I) w ~ 1.

This holds for any metric. If the metric is not Euclidean, G may have negative eigenvalues; then its
positive part is used. The same weights, applied to the coordinates of the neighbours in an
embedding, place x in it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse

from eigengap.fitting.graph.neighbours import Neighbours
from eigengap.linalg import Array

BLOCK_BYTES = 32 << 20  # of distances among neighbours at a time
SAME = 1e-12  # of the distances among neighbours: the rounding of some metrics at a fitted row
RIDGE = 1e-3  # of the trace, as in locally linear embedding: neighbours may be too many, or flat


def around(neighbours: Neighbours, nearest: Any) -> Iterator[tuple[Any, Any, Array, Array]]:
    """Rows (c,) with k neighbours each: their nodes, distances to them (c, k), among (c, k, k)."""
    counts = np.diff(nearest.indptr)
    width = neighbours.rows.shape[1] if neighbours.search.is_euclidean else 1
    for k in np.unique(counts[counts > 0]):
        rows = np.flatnonzero(counts == k)
        step = max(1, BLOCK_BYTES // (8 * int(k) ** 2 * int(width)))
        for start in range(0, len(rows), step):
            some = rows[start : start + step]
            at = nearest.indptr[some][:, None] + np.arange(k)
            nodes = nearest.indices[at]
            yield some, nodes, nearest.data[at], _among(neighbours, nodes)


def local_weights(neighbours: Neighbours, nearest: Any, exact: bool) -> scipy.sparse.csr_array:
    """Affine weights (c, n) of rows on the neighbours that `nearest` (c, n) stores.

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


def inner_products_about(to: Array, among: Array) -> Array:
    """G (c, k, k) from distances (c, k) of rows to their neighbours, (c, k, k) among these."""
    squares = to**2
    return 0.5 * (squares[:, :, None] + squares[:, None, :] - among**2)


def positive_part(G: Array) -> Array:
    """G (c, k, k) without its negative eigenvalues."""
    lam, V = np.linalg.eigh(G)
    return np.asarray((V * np.maximum(lam, 0.0)[:, None, :]) @ V.transpose(0, 2, 1))


def affine_weights(G: Array, ridge: float = RIDGE) -> Array:
    """w (c, k), each row summing to 1, from inner products (c, k, k) about the rows."""
    c, k, _ = G.shape
    trace = np.einsum("ijj->i", G)
    A = G / np.where(trace > 0.0, trace, 1.0)[:, None, None]
    A[:, np.arange(k), np.arange(k)] += ridge
    w = np.linalg.solve(A, np.ones((c, k, 1)))[:, :, 0]
    return np.asarray(w / np.sum(w, axis=1, keepdims=True))


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
