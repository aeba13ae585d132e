"""The stiffness matrix of points that are joined by springs, factorised as far as it pays.

Each pair e has an (r, r) block, and the matrix is the Laplacian with these blocks for weights. Of
graphs that are flat (neighbours on a surface) a sparse factorisation hardly fills, and blocks are
kept. Where it would fill, the blocks are replaced by their mean eigenvalue, so that all r columns
share one (n, n) factor; and where even that fills, by its diagonal.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import scipy.linalg
import scipy.sparse

from eigengap.fitting.laplacian.factor import Cost, cost_of_factor, symmetric_lu
from eigengap.fitting.sdp.problem import Penalty, Problem, Variance
from eigengap.linalg import Array

MOST_OPERATIONS = 3e9  # multiplications of a factorisation
MOST_ENTRIES = 5e7  # of a factor
MOST_REDUCED = 2000  # unknowns of points that are combinations of others: a dense matrix
SAMPLED = 4  # pairs for each of those, to estimate the stiffness
ROUNDING = 1e-12  # of the stiffest entry, added where elimination breaks down
DAMPING = 2.0  # in place of the gain's own curvature of -2, which is left out

Kind = Literal["blocks", "shared", "diagonal"]
Solver = Callable[[Array], Array]


@dataclass(frozen=True)
class Metric:
    """The matrix M of a step, by its inverse."""

    solve: Solver  # G (p, r) -> M^-1 G


def kind_for(problem: Problem, r: int) -> Kind:
    """How much of the matrix is factorised."""
    if problem.basis is not None:
        return "blocks" if problem.p * r <= MOST_REDUCED else "shared"
    cost = factor_cost(problem)
    if cost.multiplications * r**3 <= MOST_OPERATIONS and cost.entries * r**2 <= MOST_ENTRIES:
        return "blocks"
    if cost.multiplications <= MOST_OPERATIONS and cost.entries <= MOST_ENTRIES:
        return "shared"
    return "diagonal"


def factor_cost(problem: Problem) -> Cost:
    """Of one factor of the pairs' Laplacian."""
    L = problem.laplacian(np.ones(len(problem.i)))
    degrees = L.diagonal()
    return cost_of_factor(scipy.sparse.csr_array(scipy.sparse.diags_array(degrees) - L), degrees)


@dataclass(frozen=True, eq=False)
class Metrics:
    """How matrices for points of r columns are made: what does not change from step to step."""

    problem: Problem
    kind: Kind
    rows: Any = None  # where the entries of blocks stand, pairs in both directions, then points
    columns: Any = None

    @classmethod
    def of(cls, problem: Problem, r: int) -> Metrics:
        kind = kind_for(problem, r)
        if kind != "blocks" or problem.basis is not None:
            return cls(problem, kind)
        i, j, own = problem.i, problem.j, np.arange(problem.n)
        down, across = np.repeat(np.arange(r), r), np.tile(np.arange(r), r)
        rows = (np.concatenate([i, j, own])[:, None] * r + down).ravel()
        columns = (np.concatenate([j, i, own])[:, None] * r + across).ravel()
        return cls(problem, kind, rows.astype(np.int32), columns.astype(np.int32))

    def at(self, penalty: Penalty, E: Array, t: Array) -> Metric:
        """M at points with differences E (m, r) and penalty derivatives t (c,)."""
        problem = self.problem
        w = np.maximum(problem.pair_weights(t), 0.0)
        # The diagonal of B' diag(curved) B: stiffness of each pair by itself.
        B = problem.combine
        curved = np.repeat(penalty.curved(t)[: B.shape[0]], np.diff(B.indptr))
        own = np.bincount(B.indices, weights=B.data**2 * curved, minlength=B.shape[1])
        stiff = np.asarray(4.0 * penalty.weight * own, dtype=np.float64)
        gain = problem.gain
        damping = DAMPING * (gain.weights if isinstance(gain, Variance) else np.ones(problem.n))
        if self.kind == "blocks":
            made = self._blocks if problem.basis is None else self._reduced
            solve = made(2.0 * w, stiff, E, damping)
            return Metric(lambda G: solve(G.ravel()).reshape(G.shape))
        lam = np.linalg.eigvalsh(E.T @ E)  # in how many directions the differences lie:
        directions = float(np.sum(lam) ** 2 / max(np.sum(lam**2), np.finfo(np.float64).tiny))
        shared = 2.0 * w + stiff * np.einsum("ij,ij->i", E, E) / max(1.0, directions)
        if self.kind == "diagonal":
            degree = np.bincount(problem.i, shared, problem.n)
            degree += np.bincount(problem.j, shared, problem.n)
            inverse = 1.0 / (degree + damping)[:, None]
            return Metric(lambda G: np.asarray(inverse * G))
        M = problem.laplacian(shared) + scipy.sparse.diags_array(damping)
        if problem.basis is None:
            return Metric(_sparse_solver(M))
        return Metric(_dense_solver(problem.basis.T @ (M @ problem.basis)))

    def _blocks(self, w: Array, stiff: Array, E: Array, damping: Array) -> Solver:
        """Every pair with its own (r, r) block: w_e I + stiff_e e e'."""
        n, r = self.problem.n, E.shape[1]
        blocks = stiff[:, None, None] * E[:, :, None] * E[:, None, :]  # (m, r, r)
        blocks[:, np.arange(r), np.arange(r)] += w[:, None]
        sums = abs(self.problem.incidence).T @ blocks.reshape(len(E), r * r)
        diagonal = sums.reshape(n, r, r)
        diagonal[:, np.arange(r), np.arange(r)] += damping[:, None]
        entries = np.concatenate([-blocks.ravel(), -blocks.ravel(), diagonal.ravel()])
        M = scipy.sparse.coo_array((entries, (self.rows, self.columns)), shape=(n * r, n * r))
        return _sparse_solver(M)

    def _reduced(self, w: Array, stiff: Array, E: Array, damping: Array) -> Solver:
        """Blocks, for V where points are Q V: dense, from pairs evenly spaced in their list."""
        problem, Q = self.problem, self.problem.basis
        assert Q is not None
        (m, r), p = E.shape, problem.p
        some = np.unique(np.linspace(0, m - 1, min(m, SAMPLED * p * r)).astype(np.int64))
        share = np.sqrt(stiff[some] * (m / len(some)))
        along = (Q[problem.i[some]] - Q[problem.j[some]]) * share[:, None]  # (s, p)
        J = (along[:, :, None] * E[some][:, None, :]).reshape(len(some), p * r)
        flat = problem.laplacian(w) + scipy.sparse.diags_array(damping)
        return _dense_solver(J.T @ J + np.kron(Q.T @ (flat @ Q), np.eye(r)))


def _sparse_solver(M: Any) -> Solver:
    """SuperLU without pivoting, as a positive definite matrix allows."""
    M = scipy.sparse.csc_array(M).astype(np.float64)
    try:
        factor = symmetric_lu(M)
    except RuntimeError:  # springs so differ in stiffness that rounding leaves a pivot of 0
        more = ROUNDING * float(np.max(M.diagonal()))
        factor = symmetric_lu(M + more * scipy.sparse.eye_array(M.shape[0]))
    return lambda G: np.asarray(factor.solve(G))


def _dense_solver(M: Array) -> Solver:
    """Cholesky's, of a matrix that may be indefinite by rounding, for the same reason."""
    try:
        factor = scipy.linalg.cho_factor(M)
    except np.linalg.LinAlgError:
        more = len(M) * ROUNDING * float(np.max(M.diagonal()))
        factor = scipy.linalg.cho_factor(M + more * np.eye(len(M)))
    return lambda G: np.asarray(scipy.linalg.cho_solve(factor, G))
