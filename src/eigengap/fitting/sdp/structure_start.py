"""From a graph or rows to a structure preserving embedding: what is gained, and several starts.

A bare graph that is read back by nearest neighbours has no lengths: tr(K A) is maximised at
tr K = n. With a threshold its edges have length 1 at most, and the variance is maximised. Rows give
their edges lengths; the variance is that about the mean of each connected component, since nothing
holds components together.

The search starts from hop counts to some nodes, scaled (Isomap of the bare graph), from
eigenvectors of the normalised Laplacian (spectral embedding), and from random points. The first two
have the symmetries of the graph, at which a descent may stand still: noise is added to all.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse
from scipy.sparse.csgraph import connected_components, dijkstra
from scipy.sparse.linalg import ArpackNoConvergence, eigsh

from eigengap.fitting.optimise.loop import Watch
from eigengap.fitting.sdp.problem import Affinity, Gain, Variance
from eigengap.fitting.sdp.structure import Embedding, Kind, Structure, embed, usual_price
from eigengap.fitting.sdp.unfolding import geodesic_start, landmark_scaling
from eigengap.linalg import Array
from eigengap.models.maps.graph import Graph
from eigengap.runtime.threads import one_blas_thread

LANDMARKS = 200  # nodes from which hops are counted
NOISE = 0.1  # added to a start, of the root mean square of its coordinates
DENSE = 500  # nodes up to which all eigenvectors are computed
HOPELESS = 0.9  # of the graph: if no start from rows recovers it, others will not


def embed_from_starts(
    scaled: Scaled,
    q: int,
    *,
    n_init: int,
    C: float,
    tol: float,
    max_rounds: int,
    rng: np.random.Generator,
    watch: Watch | None = None,
) -> Embedding:
    """The best embedding of some starts; the first one that recovers the whole graph."""
    best: Embedding | None = None
    choices = starts(scaled.pattern, q, rng, scaled.size, scaled.given)
    with one_blas_thread():
        for count in range(n_init):
            if best is not None and best.quality < HOPELESS and count == len(scaled.given):
                break
            Y = next(choices)
            now = embed(
                scaled.priced(Y, C),
                scaled.gain,
                Y,
                total=scaled.total,
                tol=tol,
                max_rounds=max_rounds,
                watch=watch,
            )
            if best is None or now.quality > best.quality:
                best = now
            if best.quality >= 1.0:
                break
    assert best is not None
    return best


def starts(
    graph: scipy.sparse.csr_array,
    q: int,
    rng: np.random.Generator,
    size: float = 1.0,
    given: tuple[Array, ...] = (),
) -> Iterator[Array]:
    """Coordinates (n, q) without end, the given ones first, others of root mean square `size`."""
    yield from given
    yield size * _perturbed(_hops(graph, q, rng), rng)
    yield size * _perturbed(_spectral(graph, q, rng), rng)
    while True:
        yield size * _unit(rng.normal(size=(graph.shape[0], q)))


def _unit(Y: Array) -> Array:
    Y = Y - np.mean(Y, axis=0)
    size = float(np.sqrt(np.mean(np.sum(Y**2, axis=1))))
    return Y / size if size > 0.0 else Y


def _perturbed(Y: Array, rng: np.random.Generator) -> Array:
    return _unit(_unit(Y) + NOISE * rng.normal(size=Y.shape) / np.sqrt(Y.shape[1]))


def _hops(graph: scipy.sparse.csr_array, q: int, rng: np.random.Generator) -> Array:
    n = graph.shape[0]
    landmarks = np.sort(rng.choice(n, min(n, LANDMARKS), replace=False))
    D = dijkstra(graph.astype(np.float64), directed=False, indices=landmarks, unweighted=True)
    far = np.max(D[np.isfinite(D)], initial=0.0) + 1.0
    D = np.where(np.isfinite(D), D, far) ** 2
    return _columns(landmark_scaling(D, landmarks, q), q)


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


# The program --------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Scaled:
    """A structure in the units in which it is solved."""

    structure: Structure  # margin and cap are set by `priced`
    gain: Gain
    total: float | None  # of tr K / n
    margin: float  # relative
    unit: float  # of the coordinates, in the caller's
    size: float  # root mean square of a start, in units
    components: int
    given: tuple[Array, ...] = ()  # (n, q) starts, in units

    @property
    def pattern(self) -> scipy.sparse.csr_array:
        """The graph without directions (n, n)."""
        A = self.structure.neighbours
        return scipy.sparse.csr_array((A + A.T).astype(bool))

    def also_from(self, X: Array, q: int) -> Scaled:
        """With the principal coordinates of rows X (n, d) for another start."""
        U, s, _ = np.linalg.svd(X - np.mean(X, axis=0), full_matrices=False)
        return replace(self, given=(*self.given, _columns(U * (s / self.unit), q)))

    def priced(self, Y: Array, C: float) -> Structure:
        """The structure with its margin, and the price of missing it, at a start Y."""
        margin = self.margin
        if self.total is not None:  # no length is known but that of the start
            i, j = self.structure.edges
            margin *= max(float(np.mean(np.sum((Y[i] - Y[j]) ** 2, axis=1))), 1e-12)
        return replace(
            self.structure, margin=margin, cap=C * usual_price(self.structure, self.gain, Y)
        )


def graph_gain(A: scipy.sparse.csr_array, kind: Kind, margin: float) -> Scaled:
    """Of a bare graph (n, n), bool, whose row i names the neighbours of i."""
    n = A.shape[0]
    both = scipy.sparse.csr_array((A + A.T).astype(bool))
    count, labels = connected_components(both, directed=False)
    upper = scipy.sparse.coo_array(scipy.sparse.triu(both, 1))
    edges = (upper.row.astype(np.int64), upper.col.astype(np.int64))
    if kind == "nearest_neighbors":
        structure = Structure(n, kind, A, edges, None, margin)
        gain: Gain = Affinity(scipy.sparse.csr_array(both.astype(np.float64)))
        return Scaled(structure, gain, 1.0, margin, 1.0, 1.0, int(count))
    structure = Structure(n, kind, A, edges, np.ones(len(edges[0])), margin)
    gain = Variance(np.ones(n), labels.astype(np.int64))
    size = np.sqrt(n / np.pi) / 2.0  # as far apart as n discs of width 1 in the plane
    return Scaled(structure, gain, None, margin, 1.0, size, int(count))


def rows_gain(
    graph: Graph,
    nearest: scipy.sparse.csr_array,
    kind: Kind,
    radius: float | None,
    margin: float,
    q: int,
    rng: np.random.Generator,
) -> Scaled:
    """Of rows with these neighbours: `nearest` (n, n) stores distances, zeros too."""
    i, j, lengths = graph.edges
    if len(i) == 0:
        raise ValueError(
            f"no two rows are within radius={radius:g}: the graph has no edges; take a larger one"
        )
    unit = float(radius) if kind == "threshold" and radius else float(np.sqrt(np.mean(lengths**2)))
    unit = unit if unit > 0.0 else 1.0
    pattern = scipy.sparse.csr_array(
        (np.ones(len(nearest.data), dtype=bool), nearest.indices, nearest.indptr),
        shape=nearest.shape,
    )
    pattern.sort_indices()
    structure = Structure(graph.n, kind, pattern, (i, j), (lengths / unit) ** 2, margin)
    count, labels = graph.components
    gain = Variance(np.ones(graph.n), labels.astype(np.int64))
    given: tuple[Array, ...] = ()
    size = float(np.sqrt(graph.n / np.pi) / 2.0)
    if count == 1 and lengths.any():
        given = (_columns(geodesic_start(graph, q, np.ones(graph.n), rng) / unit, q),)
        size = float(np.sqrt(np.mean(np.sum(given[0] ** 2, axis=1))))
    return Scaled(structure, gain, None, margin, unit, size, int(count), given)


def _columns(Y: Array, q: int) -> Array:
    """q columns, of zeros where there were fewer."""
    return np.hstack([Y[:, :q], np.zeros((len(Y), max(q - Y.shape[1], 0)))])


# Adjacency matrices -------------------------------------------------------------------------

NO_WEIGHTS = (
    "structure takes no weights: pass (A > 0) where these are weights of edges; distances take "
    'affinity="rows" and metric="precomputed"'
)


def adjacency(values: Any, *, directed: bool = False) -> scipy.sparse.csr_array:
    """The graph (n, n), bool, of a matrix of zeros and ones, dense or sparse."""
    if values.ndim != 2 or values.shape[0] != values.shape[1]:
        instead = 'rows of data take affinity="rows"'
        if values.shape[1] == 2:
            instead = (
                "a list of edges (i, j) becomes one by scipy.sparse.coo_array((np.ones(2 * m), "
                "(np.r_[i, j], np.r_[j, i])), (n, n))"
            )
        raise ValueError(
            f"an adjacency matrix is square, got {values.shape[0]} rows and {values.shape[1]} "
            f"columns; {instead}"
        )
    A = scipy.sparse.coo_array(values)
    _refuse(A, ~np.isfinite(A.data), "an edge is there or not: set unknown ones to 0 or 1")
    _refuse(A, A.data < 0, "an edge has no negative weight")
    _refuse(A, (A.data != 0) & (A.data != 1), NO_WEIGHTS)
    loops = (A.row == A.col) & (A.data != 0)
    _refuse(A, loops, "no node is its own neighbour: set the diagonal to 0")
    found = scipy.sparse.csr_array(A.astype(bool).tocsr())
    found.eliminate_zeros()
    found.sort_indices()
    apart = scipy.sparse.coo_array(found.astype(np.int8) - found.T.astype(np.int8))
    apart.eliminate_zeros()
    if apart.nnz and not directed:
        i, j = int(apart.row[0]), int(apart.col[0])
        raise ValueError(
            f"the adjacency matrix is not symmetric: row {i}, column {j} and row {j}, column {i} "
            "differ. Pass np.maximum(A, A.T), of a sparse one A.maximum(A.T), or directed=True "
            "where row i names the nearest neighbours of node i"
        )
    if found.nnz == 0:
        raise ValueError("the graph has no edges: there is no structure to preserve")
    return found


def looks_like_adjacency(values: Any) -> bool:
    """Whether rows of data are rather the adjacency matrix of an undirected graph."""
    n, d = values.shape
    if n != d or n < 3 or not np.isin(values, (0.0, 1.0)).all():
        return False
    return bool(not values.diagonal().any() and values.any() and np.array_equal(values, values.T))


def _refuse(A: Any, wrong: Any, why: str) -> None:
    if not np.any(wrong):
        return
    at = int(np.argmax(wrong))
    i, j = int(A.row[at]), int(A.col[at])
    raise ValueError(f"the adjacency matrix holds {A.data[at]} at row {i}, column {j}: {why}")
