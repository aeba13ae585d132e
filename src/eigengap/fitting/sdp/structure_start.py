"""Where the search for a structure preserving embedding starts.

Hop counts to some nodes, scaled (Isomap of the bare graph); eigenvectors of the normalised
Laplacian (spectral embedding); and random points. The first two have the symmetries of the graph,
at which a descent may stand still: all are shaken a little.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import scipy.sparse
from scipy.sparse.csgraph import dijkstra
from scipy.sparse.linalg import ArpackNoConvergence, eigsh

from eigengap.linalg import Array

ANCHORS = 200  # nodes from which hops are counted
SHAKEN = 0.1  # of the root mean square of the coordinates
DENSE = 500  # nodes up to which all eigenvectors are computed


def starts(
    graph: scipy.sparse.csr_array,
    q: int,
    rng: np.random.Generator,
    size: float = 1.0,
    given: tuple[Array, ...] = (),
) -> Iterator[Array]:
    """Coordinates (n, q) without end, the given ones first; of others `size` is the spread."""
    yield from given
    yield size * _shaken(_hops(graph, q, rng), rng)
    yield size * _shaken(_spectral(graph, q, rng), rng)
    while True:
        yield size * _unit(rng.normal(size=(graph.shape[0], q)))


def _unit(Y: Array) -> Array:
    Y = Y - np.mean(Y, axis=0)
    size = float(np.sqrt(np.mean(np.sum(Y**2, axis=1))))
    return Y / size if size > 0.0 else Y


def _shaken(Y: Array, rng: np.random.Generator) -> Array:
    return _unit(_unit(Y) + SHAKEN * rng.normal(size=Y.shape) / np.sqrt(Y.shape[1]))


def _hops(graph: scipy.sparse.csr_array, q: int, rng: np.random.Generator) -> Array:
    n = graph.shape[0]
    anchors = np.sort(rng.choice(n, min(n, ANCHORS), replace=False))
    D = dijkstra(graph.astype(np.float64), directed=False, indices=anchors, unweighted=True)
    far = np.max(D[np.isfinite(D)], initial=0.0) + 1.0
    D = np.where(np.isfinite(D), D, far) ** 2
    among = D[:, anchors]
    means = np.mean(among, axis=0)
    lam, V = np.linalg.eigh(-0.5 * (among - means - means[:, None] + np.mean(means)))
    lam, V = lam[::-1][:q], V[:, ::-1][:, :q]
    kept = lam > 1e-9 * max(float(lam[0]), np.finfo(np.float64).tiny)
    Y = np.zeros((n, q))
    Y[:, : len(lam)][:, kept] = -0.5 * (D.T - means) @ (V[:, kept] / np.sqrt(lam[kept]))
    return Y


def _spectral(graph: scipy.sparse.csr_array, q: int, rng: np.random.Generator) -> Array:
    n = graph.shape[0]
    A = graph.astype(np.float64)
    root = np.sqrt(np.maximum(np.asarray(A.sum(axis=1)), 1.0))
    scale = scipy.sparse.diags_array(1.0 / root)
    M = scipy.sparse.csr_array(scale @ A @ scale)
    k = min(q + 1, n)
    if n <= DENSE or k >= n - 1:
        V = np.linalg.eigh(M.toarray())[1][:, ::-1][:, :k]
    else:
        try:
            V = eigsh(M, k, which="LA", v0=rng.normal(size=n), tol=1e-4)[1][:, ::-1]
        except ArpackNoConvergence:
            V = rng.normal(size=(n, k))
    Y = np.zeros((n, q))
    Y[:, : k - 1] = V[:, 1:] / root[:, None]
    return Y
