"""An undirected graph whose edges have lengths, as a value.

Both directions of an edge are stored, rows in order of their neighbours. Lengths of 0 are edges
too (points that coincide): scipy.sparse loses those in its sums and maxima, hence this class.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components

from eigengap.linalg import Array

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Graph:
    """n nodes; the neighbours of i are indices[indptr[i]:indptr[i + 1]], ascending, never i."""

    indptr: Ints  # (n + 1,)
    indices: Ints  # (2 m,)
    lengths: Array  # (2 m,) not negative; the same in both directions

    @classmethod
    def of_edges(cls, n: int, i: Ints, j: Ints, lengths: Array) -> Graph:
        """From edges {i, j} in any order, each any number of times: the shortest one counts."""
        apart = i != j
        low, high = np.minimum(i, j)[apart], np.maximum(i, j)[apart]
        lengths = lengths[apart]
        order = np.lexsort((lengths, low * n + high))
        low, high, lengths = low[order], high[order], lengths[order]
        first = np.ones(len(low), dtype=bool)
        first[1:] = (low[1:] != low[:-1]) | (high[1:] != high[:-1])
        low, high, lengths = low[first], high[first], lengths[first]
        rows, columns = np.concatenate([low, high]), np.concatenate([high, low])
        order = np.argsort(rows * n + columns)  # no two are equal
        indptr = np.zeros(n + 1, dtype=np.int64)
        np.cumsum(np.bincount(rows, minlength=n), out=indptr[1:])
        return cls(
            indptr,
            columns[order].astype(np.int64, copy=False),
            np.concatenate([lengths, lengths])[order].astype(np.float64, copy=False),
        )

    @property
    def n(self) -> int:
        return len(self.indptr) - 1

    @property
    def m(self) -> int:
        """Number of edges."""
        return len(self.indices) // 2

    @cached_property
    def degrees(self) -> Ints:
        """(n,) neighbours of each node."""
        return np.diff(self.indptr)

    @cached_property
    def edges(self) -> tuple[Ints, Ints, Array]:
        """Every edge once: (m,) lower node, (m,) higher node, (m,) length, in order."""
        rows = np.repeat(np.arange(self.n), self.degrees)
        once = rows < self.indices
        return rows[once], self.indices[once], self.lengths[once]

    @cached_property
    def components(self) -> tuple[int, NDArray[np.int32]]:
        """Number of connected components, and the component (n,) of each node."""
        pattern = self.csr(np.ones(len(self.indices)))
        count, labels = connected_components(pattern, directed=False)
        return int(count), labels

    def csr(self, values: Array | None = None) -> scipy.sparse.csr_array:
        """The (n, n) matrix of lengths, or of other values (2 m,) of the stored entries."""
        data = self.lengths if values is None else values
        return scipy.sparse.csr_array((data, self.indices, self.indptr), shape=(self.n, self.n))

    def with_edges(self, i: Ints, j: Ints, lengths: Array) -> Graph:
        """The graph with more edges."""
        low, high, known = self.edges
        return Graph.of_edges(
            self.n,
            np.concatenate([low, i]),
            np.concatenate([high, j]),
            np.concatenate([known, lengths]),
        )
