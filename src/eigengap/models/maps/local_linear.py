"""Rows as affine combinations of their neighbours: the weights of locally linear embedding.

Roweis and Saul (2000): the w with sum w = 1 that minimises |x - sum_j w_j x_j|^2 is known from the
inner products of the neighbours about x alone, and those from distances:

    G_jk = (d(x, j)^2 + d(x, k)^2 - d(j, k)^2) / 2,   (G + ridge tr(G) I) w ~ 1.

So that it serves for any metric. Distances that no points have (other metrics than the Euclidean
one) give a G with negative eigenvalues, for which there is no nearest combination: `positive_part`
takes the nearest G that points have. What was found for the neighbours (their coordinates in an
embedding) is then given to x by the same weights.
"""

from __future__ import annotations

import numpy as np

from eigengap.linalg import Array

RIDGE = 1e-3  # of the trace, as in locally linear embedding: neighbours may be too many, or flat


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
    size = np.where(trace > 0.0, trace, 1.0)
    A = G / size[:, None, None]
    A[:, np.arange(k), np.arange(k)] += ridge
    w = np.linalg.solve(A, np.ones((c, k, 1)))[:, :, 0]
    return np.asarray(w / np.sum(w, axis=1, keepdims=True))
