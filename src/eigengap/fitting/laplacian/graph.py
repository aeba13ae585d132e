"""The Laplacian of a weighted graph: products, null space, Rayleigh quotients and residuals."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components

from eigengap.fitting.graph.stored import is_sparse
from eigengap.linalg import Array

IN_RANGE = 60  # powers of 2 by which the largest weight may be off 1


@dataclass(frozen=True, eq=False)
class Laplacian:
    """The Laplacian of a weighted graph, and the symmetric matrix M whose eigenvectors are wanted.

    M = I - D^-1/2 W D^-1/2, or D - W where it is not normalised. A node without edges has degree 1
    in D, so that it counts as one more component. Other masses m than these, of nodes that are
    whole parts of a graph, make it m^-1/2 (D - W) m^-1/2.
    """

    W: Any  # (n, n) CSR or dense, symmetric, not negative, 0 on the diagonal
    normalized: bool = True
    masses: Array | None = None  # (n,)
    known: Array | None = None  # (n, l) orthonormal eigenvectors of M to be left out as well

    @property
    def n(self) -> int:
        return int(self.W.shape[0])

    @cached_property
    def degrees(self) -> Array:
        """(n,) sums of the weights."""
        return np.asarray(self.W.sum(axis=1), dtype=np.float64).ravel()

    @cached_property
    def mass(self) -> Array:
        """(n,) diagonal of D in L y = lam D y."""
        if self.masses is not None:
            return self.masses
        if not self.normalized:
            return np.ones(self.n)
        return np.where(self.degrees > 0.0, self.degrees, 1.0)

    @cached_property
    def root(self) -> Array:
        """(n, 1) D^1/2."""
        return np.sqrt(self.mass)[:, None]

    @cached_property
    def bound(self) -> float:
        """No eigenvalue is larger."""
        if self.normalized and self.masses is None:
            return 2.0
        return 2.0 * float(np.max(self.degrees / self.mass, initial=0.0))

    @cached_property
    def components(self) -> tuple[int, NDArray[np.int32]]:
        """Number of connected components, and the component (n,) of each node."""
        pattern = self.W if is_sparse(self.W) else scipy.sparse.csr_array(self.W > 0.0)
        count, labels = connected_components(pattern, directed=False)
        return int(count), labels

    @cached_property
    def members(self) -> scipy.sparse.csr_array:
        """(components, n) orthonormal rows that span the null space of M."""
        count, labels = self.components
        volume = np.bincount(labels, weights=self.mass, minlength=count)
        values = self.root[:, 0] / np.sqrt(volume)[labels]
        nodes = np.arange(self.n)
        return scipy.sparse.csr_array((values, (labels, nodes)), shape=(count, self.n))

    @property
    def beyond(self) -> int:
        """Number of eigenvalues above 0 that are not known."""
        return self.n - self.components[0] - (0 if self.known is None else self.known.shape[1])

    @cached_property
    def symmetric(self) -> Any:
        """D^-1/2 W D^-1/2."""
        if not self.normalized and self.masses is None:
            return self.W
        inverse = 1.0 / self.root[:, 0]
        if not is_sparse(self.W):
            return self.W * inverse * inverse[:, None]
        scaled = self.W.copy()
        scaled.data *= inverse[scaled.indices]
        scaled.data *= np.repeat(inverse, np.diff(scaled.indptr))
        return scaled

    def apply(self, V: Array) -> Array:
        """M V of V (n, b)."""
        diagonal = self.degrees / self.mass  # 1, and 0 for a node without edges
        return np.asarray(diagonal[:, None] * V - self.symmetric @ V)

    def deflated(self, V: Array) -> Array:
        """V (n, b) without its part in the null space, and the known eigenvectors, in place."""
        V -= self.members.T @ (self.members @ V)
        if self.known is not None:
            V -= self.known @ (self.known.T @ V)
        return V

    def quotients(self, Y: Array) -> Array:
        """(q,) Rayleigh quotients y' L y / y' D y, as sums over edges of W_ij (y_i - y_j)^2.

        Sums of squares: they lose no digits where y' D y and y' W y would cancel.
        """
        energy = np.empty(Y.shape[1])
        if is_sparse(self.W):
            rows = np.repeat(np.arange(self.n), np.diff(self.W.indptr))
            for k, y in enumerate(Y.T):
                energy[k] = 0.5 * float(self.W.data @ (y[rows] - y[self.W.indices]) ** 2)
        else:
            for k, y in enumerate(Y.T):
                energy[k] = 0.5 * sum(float(self.W[i] @ (y[i] - y) ** 2) for i in range(self.n))
        return np.asarray(energy / (self.mass @ Y**2))

    def residuals(self, Y: Array, lam: Array) -> Array:
        """(q,) norms |M x - lam x| / |x| of x = D^1/2 y."""
        X = self.root * Y
        R = self.apply(X) - X * lam
        return np.asarray(np.linalg.norm(R, axis=0) / np.linalg.norm(X, axis=0))


def in_range(graph: Laplacian) -> tuple[Laplacian, int]:
    """The graph with weights over 2^p, and p, even: 0 unless they are very large or small."""
    largest = float(graph.W.max()) if graph.n else 0.0
    power = int(np.frexp(largest)[1])
    if largest <= 0.0 or abs(power) <= IN_RANGE:
        return graph, 0
    power += power % 2
    if not is_sparse(graph.W):
        return replace(graph, W=np.ldexp(graph.W, -power)), power
    W = graph.W.copy()
    W.data = np.ldexp(W.data, -power)
    W.eliminate_zeros()
    return replace(graph, W=W), power
