"""Laplacian eigenmaps: the smoothest functions on a graph, as coordinates of its nodes.

Belkin and Niyogi (2003), "Laplacian eigenmaps for dimensionality reduction and data
representation". With weights W_ij >= 0, degrees d_i = sum over j != i of W_ij, D = diag(d) and
L = D - W,

    L y = lam D y,   y' D y = 1     (normalised)        L y = lam y,   y' y = 1     (not)

minimise sum_ij W_ij (y_i - y_j)^2 / 2 = y' L y = lam. The normalised problem is that of the
symmetric matrix I - D^-1/2 W D^-1/2 with x = D^1/2 y, whose eigenvalues lie in [0, 2]; x are also
the leading eigenvectors of D^-1/2 W D^-1/2, a kernel matrix without centring: the constant y,
which centring would take away, is the first of them and is left out (003 names the link).

lam = 0 has as many eigenvectors as the graph has components: those that are constant on each. They
are known without any solver and kept out of it, so that rounding cannot mix them with others.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
import scipy.sparse
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components, reverse_cuthill_mckee

from eigengap.compiled.threads import one_blas_thread
from eigengap.fitting.krylov import block_width
from eigengap.fitting.laplacian_factor import cost_of_factor, grounded_solver
from eigengap.fitting.laplacian_given import is_sparse
from eigengap.fitting.memory import SHARE, free_memory, require_pairs
from eigengap.fitting.smallest import ANGLE, LONGEST, Smallest, by_filter, by_inverse
from eigengap.fitting.symmetric import FEW, SMALL, leading_eigenpairs
from eigengap.linalg import Array, sign_rule

Solver = Literal["auto", "dense", "factorised", "filtered"]

FEW_PRODUCTS, BLOCK = 2500, 6  # with a block of columns, as many as a cheap factorisation is worth
NEIGHBOURS = 'affinity="nearest_neighbors" needs a few neighbours of every row only'


@dataclass(frozen=True, eq=False)
class Laplacian:
    """The Laplacian of a weighted graph, and the symmetric matrix M whose eigenvectors are wanted.

    M = I - D^-1/2 W D^-1/2, or D - W where it is not normalised. A node without edges has degree 1
    in D, so that it counts as one more component.
    """

    W: Any  # (n, n) CSR or dense, symmetric, not negative, 0 on the diagonal
    normalized: bool = True

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
        return 2.0 if self.normalized else 2.0 * float(np.max(self.degrees, initial=0.0))

    @cached_property
    def components(self) -> tuple[int, NDArray[np.int32]]:
        """Number of connected components, and the component (n,) of each node."""
        pattern = self.W if is_sparse(self.W) else scipy.sparse.csr_array(self.W > 0.0)
        count, labels = connected_components(pattern, directed=False)
        return int(count), labels

    @cached_property
    def _members(self) -> scipy.sparse.csr_array:
        """(components, n) orthonormal rows that span the null space of M."""
        count, labels = self.components
        volume = np.bincount(labels, weights=self.mass, minlength=count)
        values = self.root[:, 0] / np.sqrt(volume)[labels]
        nodes = np.arange(self.n)
        return scipy.sparse.csr_array((values, (labels, nodes)), shape=(count, self.n))

    @cached_property
    def _symmetric(self) -> Any:
        """D^-1/2 W D^-1/2."""
        if not self.normalized:
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
        return np.asarray(diagonal[:, None] * V - self._symmetric @ V)

    def deflated(self, V: Array) -> Array:
        """V (n, b) without its part in the null space, in place."""
        V -= self._members.T @ (self._members @ V)
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


@dataclass(frozen=True, eq=False)
class LaplacianFit:
    """Coordinates on the nodes of a graph."""

    Y: Array  # (n, q) y' D y = 1, or y' y = 1
    lam: Array  # (q,) ascending
    residuals: Array  # (q,) |M x - lam x| of the unit vectors x = D^1/2 y
    n_components: int  # of the graph
    solver: str  # which was used: "null space", "dense", "factorised", "filtered"
    certified: bool


def fit_laplacian(
    graph: Laplacian,
    q: int,
    *,
    drop_first: bool = True,
    solver: Solver = "auto",
    angle: float = ANGLE,
    seed: int = 0,
) -> LaplacianFit:
    """The q smoothest functions on the graph, without the constant one if `drop_first`."""
    n, count = graph.n, graph.components[0]
    if q + drop_first > n:
        raise ValueError(
            f"n_components={q} is too many for {n} rows (n_samples={n}): their graph has "
            f"{n - drop_first} eigenvectors{' beside the constant one' if drop_first else ''}"
        )
    null = null_vectors(graph, drop_first)[:, :q]
    more = q - null.shape[1]
    used, certified, parts = "null space", True, [null]
    if more:
        with one_blas_thread():  # a second one only waits, on matrices as thin as these
            found, used = _beyond_null(graph, more, solver, angle, seed)
        certified = found.certified
        parts.append(found.V / graph.root)
    Y = np.concatenate(parts, axis=1)
    Y = Y * sign_rule(Y)
    lam = graph.quotients(Y)
    lam[: null.shape[1]] = 0.0
    order = np.argsort(lam, kind="stable")
    lam, Y = lam[order], Y[:, order]
    return LaplacianFit(Y, lam, graph.residuals(Y, lam), count, used, certified)


def null_vectors(graph: Laplacian, drop_first: bool) -> Array:
    """Functions that are constant on every component, orthonormal in D: (n, c), or (n, c - 1).

    With the constant: an indicator of every component, the largest first. Without it, contrasts:
    the largest component against all others, the second against those that are left, and so on.
    """
    count, labels = graph.components
    volume = np.bincount(labels, weights=graph.mass, minlength=count)
    by_size = np.lexsort((np.arange(count), -np.bincount(labels, minlength=count)))
    rank = np.empty(count, dtype=np.int64)
    rank[by_size] = np.arange(count)
    place, volume = rank[labels], volume[by_size]
    if not drop_first:
        Y = np.zeros((graph.n, count))
        Y[np.arange(graph.n), place] = 1.0 / np.sqrt(volume)[place]
        return Y
    rest = np.cumsum(volume[::-1])[::-1]  # of this component and those after it
    Y = np.zeros((graph.n, count - 1))
    for c in range(count - 1):
        v, after = volume[c], rest[c + 1]
        Y[place == c, c] = np.sqrt(after / (v * (v + after)))
        Y[place > c, c] = -np.sqrt(v / (after * (v + after)))
    return Y


def _beyond_null(
    graph: Laplacian, k: int, solver: Solver, angle: float, seed: int
) -> tuple[Smallest, str]:
    """The k smallest eigenpairs above the null space."""
    if _is_dense(graph, k, solver):
        return _dense(graph, k, angle), "dense"
    ordered, back = _in_order(graph)
    most = graph.n - graph.components[0]
    chosen, budget, can_factor = solver, LONGEST, False
    if solver == "auto":
        product = float(max(BLOCK * ordered.W.nnz, 1))  # multiplications of one, of the filter
        cost = cost_of_factor(ordered.W, ordered.degrees, FEW_PRODUCTS * product)
        can_factor = cost.bytes <= SHARE * free_memory()
        worth = cost.multiplications / product
        chosen = "factorised" if can_factor and worth <= FEW_PRODUCTS else "filtered"
        budget = min(budget, int(worth)) if can_factor else budget
    if chosen == "filtered":
        found = by_filter(ordered, k, angle, seed, most, longest=budget)
        if not found.certified and can_factor:  # as dear already, and no end in sight
            chosen = "factorised"
    if chosen == "factorised":
        found = by_inverse(ordered, _solver(ordered), k, angle, seed, most)
    return Smallest(found.lam, found.V[back], found.products, found.certified), chosen


def _is_dense(graph: Laplacian, k: int, solver: Solver) -> bool:
    """Whether the matrix of all pairs is formed: a small one, or many eigenvectors of it."""
    given = not is_sparse(graph.W)
    return solver == "dense" or given or graph.n <= SMALL or FEW * block_width(k) > graph.n


def _dense(graph: Laplacian, k: int, angle: float) -> Smallest:
    """From the largest eigenvalues of bound - M, its null space moved below all others."""
    require_pairs(graph.n, "the Laplacian of all pairs", NEIGHBOURS, copies=3.0)
    bound = max(graph.bound, np.finfo(np.float64).tiny)
    A = graph._symmetric
    G = A.toarray() if is_sparse(A) else np.array(A)
    G[np.diag_indices(graph.n)] += bound - graph.degrees / graph.mass
    members = graph._members
    for c in range(members.shape[0]):
        row = members[[c]]
        at, values = row.indices, row.data
        G[np.ix_(at, at)] -= 1.5 * bound * np.outer(values, values)
    pairs = leading_eigenpairs(G, k, angle)
    V = graph.deflated(pairs.V.copy())
    return Smallest(bound - pairs.lam, V / np.linalg.norm(V, axis=0), 1, certified=True)


def _in_order(graph: Laplacian) -> tuple[Laplacian, NDArray[Any]]:
    """The graph with neighbours near each other in memory, and where each node went.

    Products with a block run two to three times as fast in this order (Cuthill and McKee 1969).
    """
    W = scipy.sparse.csr_array(graph.W)
    order = reverse_cuthill_mckee(scipy.sparse.csr_matrix(W), symmetric_mode=True)
    back = np.empty(graph.n, dtype=np.int64)
    back[order] = np.arange(graph.n)
    permuted = scipy.sparse.csr_array(W[order][:, order])
    permuted.sort_indices()
    return Laplacian(permuted, graph.normalized), back


def _solver(graph: Laplacian) -> Any:
    """V -> M^+ V up to the null space: D^1/2 L^-1 D^1/2 with grounded nodes."""
    solve = grounded_solver(graph.W, graph.degrees, graph.components[1])
    return lambda V: graph.root * solve(graph.root * V)
