"""The stiffness matrix of points that are joined by springs, factorised as far as it pays.

Each pair e has an (r, r) block, and the matrix is the Laplacian with these blocks for weights. Of
graphs that are flat (neighbours on a surface) a sparse factorisation hardly fills, and blocks are
kept. Where it would fill, the blocks are replaced by their mean eigenvalue, so that all r columns
share one (n, n) factor; and where even that fills, by its diagonal.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, Protocol

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


class Metric(Protocol):
    def solve(self, G: Array) -> Array:
        """M^-1 G (p, r)."""


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
        stiff = 4.0 * penalty.weight * _squared_weights(problem, penalty.curved(t))
        gain = problem.gain
        damping = DAMPING * (gain.weights if isinstance(gain, Variance) else np.ones(problem.n))
        if self.kind == "blocks" and problem.basis is not None:
            return _Reduced(problem, 2.0 * w, stiff, E, damping)
        if self.kind == "blocks":
            return _Blocks(self, 2.0 * w, stiff, E, damping)
        shared = 2.0 * w + stiff * np.einsum("ij,ij->i", E, E) / max(1.0, _participation(E))
        if self.kind == "diagonal":
            return _Diagonal(problem, shared, damping)
        return _Shared(problem, shared, damping)


def _squared_weights(problem: Problem, curved: Array) -> Array:
    """(m,) the diagonal of B' diag(curved) B: stiffness of each pair by itself."""
    B = problem.combine
    rows = np.repeat(np.arange(B.shape[0]), np.diff(B.indptr))
    found = np.bincount(B.indices, weights=B.data**2 * curved[rows], minlength=B.shape[1])
    return np.asarray(found, dtype=np.float64)


def _participation(E: Array) -> float:
    """In how many directions the differences lie."""
    lam = np.linalg.eigvalsh(E.T @ E)
    return float(np.sum(lam) ** 2 / max(np.sum(lam**2), np.finfo(np.float64).tiny))


class _Diagonal:
    def __init__(self, problem: Problem, w: Array, damping: Array) -> None:
        degree = np.bincount(problem.i, w, problem.n) + np.bincount(problem.j, w, problem.n)
        self._inverse = 1.0 / (degree + damping)[:, None]

    def solve(self, G: Array) -> Array:
        return np.asarray(self._inverse * G)


class _Shared:
    """One factor for all columns."""

    def __init__(self, problem: Problem, w: Array, damping: Array) -> None:
        M = problem.laplacian(w) + scipy.sparse.diags_array(damping)
        self._factor: Any
        if problem.basis is None:
            self._dense = False
            self._factor = _sparse_factor(M)
        else:
            Q = problem.basis
            self._dense = True
            self._factor = _dense_factor(Q.T @ (M @ Q))

    def solve(self, G: Array) -> Array:
        if self._dense:
            return np.asarray(scipy.linalg.cho_solve(self._factor, G))
        return np.asarray(self._factor.solve(G))


class _Blocks:
    """Every pair with its own (r, r) block: w_e I + stiff_e e e'."""

    def __init__(self, metrics: Metrics, w: Array, stiff: Array, E: Array, damping: Array) -> None:
        n, r = metrics.problem.n, E.shape[1]
        blocks = stiff[:, None, None] * E[:, :, None] * E[:, None, :]  # (m, r, r)
        blocks[:, np.arange(r), np.arange(r)] += w[:, None]
        sums = abs(metrics.problem.incidence).T @ blocks.reshape(len(E), r * r)
        diagonal = sums.reshape(n, r, r)
        diagonal[:, np.arange(r), np.arange(r)] += damping[:, None]
        entries = np.concatenate([-blocks.ravel(), -blocks.ravel(), diagonal.ravel()])
        M = scipy.sparse.coo_array((entries, (metrics.rows, metrics.columns)), shape=(n * r, n * r))
        self._factor = _sparse_factor(M)

    def solve(self, G: Array) -> Array:
        return np.asarray(self._factor.solve(G.ravel()).reshape(G.shape))


class _Reduced:
    """Blocks, for V where points are Q V: dense, from pairs evenly spaced in their list."""

    def __init__(self, problem: Problem, w: Array, stiff: Array, E: Array, damping: Array) -> None:
        Q = problem.basis
        assert Q is not None
        m, r = E.shape
        p = problem.p
        some = np.unique(np.linspace(0, m - 1, min(m, SAMPLED * p * r)).astype(np.int64))
        share = np.sqrt(stiff[some] * (m / len(some)))
        along = (Q[problem.i[some]] - Q[problem.j[some]]) * share[:, None]  # (s, p)
        J = (along[:, :, None] * E[some][:, None, :]).reshape(len(some), p * r)
        M = J.T @ J
        flat = problem.laplacian(w) + scipy.sparse.diags_array(damping)
        M += np.kron(Q.T @ (flat @ Q), np.eye(r))
        self._factor = _dense_factor(M)

    def solve(self, G: Array) -> Array:
        return np.asarray(scipy.linalg.cho_solve(self._factor, G.ravel()).reshape(G.shape))


def _sparse_factor(M: Any) -> Any:
    """SuperLU without pivoting, as a positive definite matrix allows."""
    M = scipy.sparse.csc_array(M).astype(np.float64)
    try:
        return symmetric_lu(M)
    except RuntimeError:  # springs so differ in stiffness that rounding leaves a pivot of 0
        return symmetric_lu(M + _rounding_of(M) * scipy.sparse.eye_array(M.shape[0]))


def _dense_factor(M: Array) -> Any:
    """Cholesky's, of a matrix that may be indefinite by rounding, for the same reason."""
    try:
        return scipy.linalg.cho_factor(M)
    except np.linalg.LinAlgError:
        return scipy.linalg.cho_factor(M + len(M) * _rounding_of(M) * np.eye(len(M)))


def _rounding_of(M: Any) -> float:
    return ROUNDING * float(np.max(M.diagonal()))
