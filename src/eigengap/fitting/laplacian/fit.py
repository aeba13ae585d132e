"""Laplacian eigenmaps: the smoothest functions on a graph, as coordinates of its nodes.

Belkin and Niyogi (2003), "Laplacian eigenmaps for dimensionality reduction and data
representation". With weights W_ij >= 0, degrees d_i = sum over j != i of W_ij, D = diag(d) and
L = D - W,

    L y = lam D y,   y' D y = 1     (normalised)        L y = lam y,   y' y = 1     (not)

minimise sum_ij W_ij (y_i - y_j)^2 / 2 = y' L y = lam. The normalised problem is that of the
symmetric matrix I - D^-1/2 W D^-1/2 with x = D^1/2 y, whose eigenvalues lie in [0, 2]; x are also
the leading eigenvectors of D^-1/2 W D^-1/2, a kernel matrix without centring: the constant y,
which centring would take away, is the first of them and is left out.

lam = 0 has as many eigenvectors as the graph has components: those that are constant on each. They
are known without any solver and kept out of it, so that rounding cannot mix them with others.

Which solver finds the others: a factorisation where it is cheap, a filter of products where it
would fill in, LAPACK for small graphs and those of all pairs. What rounding would hide from any of
them is found another way: of a small graph by elimination without subtraction, of a large one in
parts that are held apart.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import scipy.linalg
import scipy.sparse
from numpy.typing import NDArray
from scipy.sparse.csgraph import reverse_cuthill_mckee

from eigengap.fitting.eigen.smallest import (
    ANGLE,
    LONGEST,
    Smallest,
    are_fine,
    by_filter,
    by_inverse,
    conjugate_gradients,
)
from eigengap.fitting.eigen.symmetric import SMALL, are_few, leading_eigenpairs
from eigengap.fitting.graph.stored import is_sparse
from eigengap.fitting.laplacian import parts
from eigengap.fitting.laplacian.factor import cost_of_factor, grounded_solver
from eigengap.fitting.laplacian.graph import Laplacian, in_range
from eigengap.fitting.laplacian.weights import NEIGHBOURS
from eigengap.linalg import Array, sign_rule
from eigengap.runtime.memory import SHARE, free_memory, require_pairs
from eigengap.runtime.threads import one_blas_thread
from eigengap.wording import words

Solver = Literal["auto", "dense", "factorised", "filtered"]

TRUE = 1e-12, 1e-5  # residuals that are accepted: of the largest eigenvalue, or of the own
FEW_PRODUCTS, BLOCK = 2500, 6  # with a block of columns, as many as a cheap factorisation is worth
RESCUED = 3000  # nodes up to which LAPACK takes over from an iteration that gets nowhere
EXTRA = 3  # functions more than are wanted, which the wanted ones may mix with
OVERHEAD = 100_000  # multiplications that a product costs at least


@dataclass(frozen=True, eq=False)
class LaplacianFit:
    """Coordinates on the nodes of a graph."""

    Y: Array  # (n, q) y' D y = 1, or y' y = 1
    lam: Array  # (q,) ascending
    residuals: Array  # (q,) |M x - lam x| of the unit vectors x = D^1/2 y
    n_components: int  # of the graph
    solver: str  # "null space", "dense", "factorised", "filtered", "elimination", "... in parts"
    certified: bool  # whether Y is as accurate as was asked for, or as rounding allows


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
            f"{words().parameter('n_components', q)} is too many for {n} rows (n_samples={n}): "
            f"their graph has {n - drop_first} eigenvectors"
            f"{' besides the constant one' if drop_first else ''}"
        )
    graph, power = in_range(graph)
    null = null_vectors(graph, drop_first, q)
    more = q - null.shape[1]
    used, certified = "null space", True
    Y, lam = null, np.zeros(null.shape[1])
    if more:
        with one_blas_thread():  # a second one only waits, on matrices as thin as these
            found, used = beyond_null(graph, more, _How(solver, angle, seed))
        order = np.argsort(found.lam, kind="stable")
        Y = np.concatenate([null, found.V[:, order] / graph.root], axis=1)
        lam, certified = np.concatenate([lam, found.lam[order]]), found.certified
    residuals = graph.residuals(Y, lam)
    certified &= bool(np.all(residuals <= np.maximum(TRUE[0] * graph.bound, TRUE[1] * lam)))
    if graph.normalized:
        Y = np.ldexp(Y, -power // 2)
    else:
        lam, residuals = np.ldexp(lam, power), np.ldexp(residuals, power)
    return LaplacianFit(Y * sign_rule(Y), lam, residuals, count, used, certified)


def null_vectors(graph: Laplacian, drop_first: bool, most: int) -> Array:
    """Functions that are constant on every component, orthonormal in D: (n, c), or (n, c - 1).

    With the constant: an indicator of every component, the largest first. Without it, contrasts:
    the largest component against all others, the second against those that are left, and so on.
    The first `most` of them.
    """
    count, labels = graph.components
    volume = np.bincount(labels, weights=graph.mass, minlength=count)
    by_size = np.lexsort((np.arange(count), -np.bincount(labels, minlength=count)))
    rank = np.empty(count, dtype=np.int64)
    rank[by_size] = np.arange(count)
    place, volume = rank[labels], volume[by_size]
    wanted = min(count - drop_first, most)
    Y = np.zeros((graph.n, wanted))
    if not drop_first:
        some = place < wanted
        Y[np.flatnonzero(some), place[some]] = 1.0 / np.sqrt(volume)[place[some]]
        return Y
    rest = np.cumsum(volume[::-1])[::-1]  # of this component and those after it
    for c in range(wanted):
        v, after = volume[c], rest[c + 1]
        Y[place == c, c] = np.sqrt(after / (v * (v + after)))
        Y[place > c, c] = -np.sqrt(v / (after * (v + after)))
    return Y


# Choice of a solver -------------------------------------------------------------------------


@dataclass(frozen=True)
class _How:
    solver: Solver
    angle: float
    seed: int


def beyond_null(graph: Laplacian, k: int, how: _How) -> tuple[Smallest, str]:
    """The k smallest eigenpairs above the null space, and the name of the solver."""
    joins = parts.merges(graph.W, graph.mass, graph.bound)
    if joins is not None and joins.weakest < parts.WEAK and graph.n <= SMALL:
        return _by_elimination(graph, k), "elimination"
    if joins is not None and joins.weakest < parts.BELOW_ROUNDING:
        found, used = _in_parts(graph, joins.parts(), k, how)
    else:
        found, used = _directly(graph, k, how)
    if not found.certified and graph.n <= parts.MOST:
        return _by_elimination(graph, k), "elimination"
    return found, used


def _directly(graph: Laplacian, k: int, how: _How) -> tuple[Smallest, str]:
    """By the solver asked for; small graphs that it fails on by others.

    The matrix of all pairs is formed of a small graph, or for many eigenvectors.
    """
    if how.solver == "dense" or not is_sparse(graph.W) or not are_few(k, graph.n):
        found, used = _dense(graph, k, how.angle), "dense"
    else:
        found, used = _sparse(graph, k, how)
        if not found.certified and graph.n <= RESCUED:
            found, used = _dense(graph, k, how.angle), "dense"
    return replace(found, lam=graph.quotients(found.V / graph.root)), used


def _sparse(graph: Laplacian, k: int, how: _How) -> tuple[Smallest, str]:
    ordered, back = _in_order(graph)
    most = graph.beyond
    chosen, budget = how.solver, LONGEST
    product = float(BLOCK * ordered.W.nnz + OVERHEAD)  # multiplications of one, of the filter
    can_factor = False
    if how.solver == "auto":
        limit = FEW_PRODUCTS * float(max(BLOCK * ordered.W.nnz, 1))
        cost = cost_of_factor(ordered.W, ordered.degrees, limit)
        can_factor = cost.bytes <= SHARE * free_memory()
        worth = cost.multiplications * FEW_PRODUCTS / limit
        chosen = "factorised" if can_factor and worth <= FEW_PRODUCTS else "filtered"
        budget = min(budget, int(worth)) if can_factor else budget
    if graph.n <= RESCUED:
        budget = min(budget, int(2.0 * graph.n**3 / product) + 1)
    if chosen == "filtered":
        found = by_filter(ordered, k, how.angle, how.seed, most, longest=budget)
        if not found.certified and can_factor:  # as expensive already, and not converging
            chosen = "factorised"
    if chosen == "factorised":
        found = by_inverse(ordered, _inverse(ordered), k, how.angle, how.seed, most)
    return replace(found, V=found.V[back]), chosen


def _dense(graph: Laplacian, k: int, angle: float) -> Smallest:
    """From the largest eigenvalues of bound - M, its null space moved below all others."""
    most = graph.beyond
    bound, G = _all_pairs(graph)
    G *= -1.0
    G[np.diag_indices(graph.n)] += bound
    pairs = leading_eigenpairs(G, min(k + 1, most), angle)  # one more, for the gap of the last
    V = graph.deflated(pairs.V.copy())
    V /= np.linalg.norm(V, axis=0)
    lam = graph.quotients(V / graph.root)
    order = np.argsort(lam, kind="stable")
    lam, V = lam[order], V[:, order]
    residual = graph.residuals(V / graph.root, lam)
    # LAPACK's own rounding is of ten times the size of a product's.
    fine = are_fine(lam, residual / 10.0, angle, bound, complete=len(lam) == most)
    return Smallest(lam[:k], V[:, :k], bool(np.all(fine[:k])))


def _all_pairs(graph: Laplacian) -> tuple[float, Array]:
    """The bound of M, and M (n, n) with its null space at 3/2 of that."""
    require_pairs(graph.n, "the Laplacian of all pairs", NEIGHBOURS, copies=3.0)
    bound = max(graph.bound, np.finfo(np.float64).tiny)
    G = -(graph.symmetric.toarray() if is_sparse(graph.W) else graph.symmetric)
    G[np.diag_indices(graph.n)] += graph.degrees / graph.mass
    members = graph.members
    for c in range(members.shape[0]):
        part = slice(members.indptr[c], members.indptr[c + 1])
        at, values = members.indices[part], members.data[part]
        G[np.ix_(at, at)] += 1.5 * bound * np.outer(values, values)
    if graph.known is not None:
        G += (1.5 * bound * graph.known) @ graph.known.T
    return bound, G


def _by_elimination(graph: Laplacian, k: int) -> Smallest:
    W = graph.W.toarray() if is_sparse(graph.W) else graph.W
    lam, V = parts.eigenpairs_by_elimination(W, graph.mass)
    return Smallest(lam[:k], V[:, :k], certified=True)


# Parts that are held apart ------------------------------------------------------------------


def _in_parts(graph: Laplacian, labels: NDArray[Any], k: int, how: _How) -> tuple[Smallest, str]:
    """First the functions that are nearly constant on parts, then those within, without these."""
    within, across = parts.within_and_across(graph.W, labels)
    inner = Laplacian(within, graph.normalized, graph.mass)
    first = _between(graph, inner, across, labels, k, how)
    few = len(first.lam)
    if few == k:
        return first, "elimination in parts"
    rest = Laplacian(graph.W, graph.normalized, graph.mass, first.V)
    second, used = _directly(rest, k - few, how)
    lam = np.concatenate([first.lam, second.lam])
    V = np.concatenate([first.V, second.V], axis=1)
    return Smallest(lam, V, first.certified and second.certified), f"{used} in parts"


def _between(
    graph: Laplacian, inner: Laplacian, across: Any, labels: NDArray[Any], k: int, how: _How
) -> Smallest:
    """Up to k functions that are nearly constant on parts.

    With X those of the graph of the parts, lam its eigenvalues and R = M X - X lam, which lies
    within parts, they span X - Z, M Z = R + Z lam within parts. The quotients of these are
    (diag(lam) - R' Z) / (I + Z' Z).
    """
    count = int(np.max(labels)) + 1
    mass = np.bincount(labels, weights=graph.mass, minlength=count).astype(np.float64)
    outer = Laplacian(parts.between_parts(across, labels, count), graph.normalized, mass)
    scale = float(2.0 ** np.frexp(outer.bound)[1])
    scaled = Laplacian(outer.W, graph.normalized, mass * scale)  # its eigenvalues are of order 1
    most = count - graph.components[0]
    more = min(k + EXTRA, most)
    found, _ = beyond_null(scaled, more, replace(how, solver="auto"))
    X, lam = graph.root * (found.V / outer.root)[labels], found.lam * scale
    R = Laplacian(across, graph.normalized, graph.mass).apply(X) - X * lam
    Z, R = np.zeros_like(X), inner.deflated(R)
    solve = _within(inner, how.solver)
    for _ in range(2):  # what the second adds is more than what the first has left out
        before, (Z, solved) = Z, solve(R + Z * lam)
    error = float(np.linalg.norm(Z - before)) if solved else np.inf
    if more < most:
        # How much of functions that were not computed, beyond the last one, the first k may have.
        relative = float(np.max(np.diag(R.T @ Z) / lam))
        last, wanted = lam[-1], lam[:k]
        with np.errstate(divide="ignore", over="ignore"):
            apart = np.sqrt(wanted * last) / np.maximum(last - wanted, 0.0)
            error += relative * float(np.max(apart))
    lam, Q = _graded(lam, R.T @ Z, Z.T @ Z)
    # The orthonormal columns nearest to these, which nearly are (Loewdin 1950).
    X = (X - Z) @ Q[:, :k]
    size, V = np.linalg.eigh(X.T @ X)
    X = X @ ((V / np.sqrt(size)) @ V.T)
    certified = found.certified and error <= max(how.angle, ANGLE)
    return Smallest(lam[:k], X, certified)


def _graded(lam: Array, shift: Array, more: Array) -> tuple[Array, Array]:
    """Of q' (diag(lam) - shift) q / q' (I + more) q, each to its own size: lam may differ much.

    By one-sided Jacobi of a factor. A shift that is as large as lam has no meaning, and is left
    out: what is found is then not certified.
    """
    root = np.sqrt(lam)
    relative = np.eye(len(lam)) - shift / np.outer(root, root)
    relative = 0.5 * (relative + relative.T)
    if np.min(np.linalg.eigvalsh(relative)) < 0.5:
        return lam, np.eye(len(lam))
    size, U = np.linalg.eigh(np.eye(len(lam)) + more)
    inverse = (U / np.sqrt(size)) @ U.T
    values, Q = parts.by_jacobi(inverse @ (root[:, None] * np.linalg.cholesky(relative)))
    return values, inverse @ Q


def _within(inner: Laplacian, solver: Solver) -> Callable[[Array], tuple[Array, bool]]:
    """R -> M^+ R of the graph within parts, and whether it was reached."""
    if not is_sparse(inner.W) or inner.n <= SMALL:
        factor = scipy.linalg.cho_factor(_all_pairs(inner)[1], overwrite_a=True)
        return lambda R: (inner.deflated(scipy.linalg.cho_solve(factor, R)), True)
    cost = cost_of_factor(inner.W, inner.degrees)
    cheap = cost.multiplications <= FEW_PRODUCTS * float(max(BLOCK * inner.W.nnz, 1))
    if solver != "filtered" and cheap and cost.bytes <= SHARE * free_memory():
        solve = _inverse(inner)
        return lambda R: (inner.deflated(solve(R)), True)
    return lambda R: conjugate_gradients(inner, R)


# Order and inverse --------------------------------------------------------------------------


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
    masses = None if graph.masses is None else graph.masses[order]
    known = None if graph.known is None else graph.known[order]
    return Laplacian(permuted, graph.normalized, masses, known), back


def _inverse(graph: Laplacian) -> Callable[[Array], Array]:
    """V -> M^+ V up to the null space: D^1/2 L^-1 D^1/2 with grounded nodes."""
    solve = grounded_solver(graph.W, graph.degrees, graph.components[1], graph.mass)
    return lambda V: graph.root * solve(graph.root * V)
