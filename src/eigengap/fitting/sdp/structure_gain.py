"""What a structure preserving embedding is to gain, and in which units, for graphs and for rows.

A bare graph read back by nearest neighbours has no lengths: tr(K A) is maximised at tr K = n. With
a threshold its edges are at most 1 long, and variance is. Rows give their edges lengths; variance
is that about the mean of each connected component, since nothing holds components together.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse
from scipy.sparse.csgraph import connected_components

from eigengap.fitting.sdp.problem import Affinity, Gain, Variance
from eigengap.fitting.sdp.structure import Kind, Structure, usual_price
from eigengap.fitting.sdp.unfolding import geodesic_start
from eigengap.linalg import Array
from eigengap.models.maps.graph import Graph


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
