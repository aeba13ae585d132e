"""How far from the optimum variance is at most: a bound from multipliers, and the way up.

For maximising <C, K> subject to constraints on squared distances the dual is

    minimise  t'b   subject to   L(B't) - C psd,

b the upper bounds where t > 0 and the lower ones where t < 0. L(B't) is linear in t, so that any t
is made feasible by dividing it by mu, the smallest eigenvalue of L(B't) relative to C apart from
the constant vector: t'b / mu bounds the variance of every feasible K from above. At the optimum mu
= 1, with the columns of Y for eigenvectors. mu < 1 has eigenvectors along which variance is still
to be gained, outside the columns of Y (Journee, Bach, Absil and Sepulchre 2010): the rank was too
low. (Of unfolding with upper bounds only, the dual looks for the fastest mixing Markov process on
the graph: Sun, Boyd, Xiao and Diaconis 2006.)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg
import scipy.sparse
from scipy.sparse.linalg import ArpackNoConvergence, eigsh

from eigengap.fitting.laplacian.factor import is_positive, symmetric_lu
from eigengap.fitting.sdp.metric import MOST_ENTRIES, MOST_OPERATIONS, factor_cost
from eigengap.fitting.sdp.problem import Problem, Variance
from eigengap.linalg import Array

DENSE = 1200  # points up to which all eigenvalues are computed
WANTED = 8  # eigenvectors that are looked at, beyond those of Y
NEGATIVE = 0.2  # below 0: eigenvalues further down are looked for without a factor


@dataclass(frozen=True, eq=False)
class Certificate:
    """What multipliers prove."""

    bound: float  # on <C, K>; inf where they prove nothing, nan where mu could not be computed
    mu: float
    upward: Array  # (p, k) directions in which the gain is not yet balanced, k may be 0


def certify(problem: Problem, multipliers: Array, rank: int) -> Certificate:
    """The bound that multipliers (c,) give, and the eigenvectors below 1."""
    low, high, _ = problem.bounds
    active = np.where(multipliers > 0.0, high, low)
    used = multipliers != 0.0  # a bound of inf that is priced proves nothing: the value is inf
    value = float(multipliers[used] @ active[used])
    found = _smallest(problem, problem.pair_weights(multipliers), rank + WANTED)
    if found is None:
        return Certificate(np.nan, np.nan, np.empty((problem.p, 0)))
    lam, V = found
    mu = float(lam[0])
    bound = value / mu if mu > 0.0 else np.inf
    return Certificate(bound, mu, V[:, lam < 1.0])


def _smallest(problem: Problem, w: Array, k: int) -> tuple[Array, Array] | None:
    """The k smallest eigenvalues of L(w) relative to C, ascending, and vectors (p, k)."""
    assert isinstance(problem.gain, Variance)
    L = problem.laplacian(w)
    weights = problem.gain.weights
    if problem.basis is not None:
        Q = problem.basis
        centred = Q - (weights @ Q) / np.sum(weights)
        return _relative(Q.T @ (L @ Q), centred.T @ (weights[:, None] * centred), k)
    root = np.sqrt(weights)
    M = scipy.sparse.diags_array(1.0 / root) @ L @ scipy.sparse.diags_array(1.0 / root)
    null = root / np.linalg.norm(root)
    found: tuple[Array, Array] | None
    if problem.n <= DENSE:
        G = M.toarray()
        G += float(np.max(np.abs(G).sum(axis=1))) * np.outer(null, null)  # to the far end
        found = scipy.linalg.eigh(G, subset_by_index=[0, min(k, len(G)) - 1])
    elif (found := _of_sparse(problem, M, k)) is None:
        return None
    lam, V = found
    rest = V - np.outer(null, null @ V)
    kept = np.linalg.norm(rest, axis=0) > 0.5  # all but the constant vector
    return lam[kept], rest[:, kept] / root[:, None]


def _relative(L: Array, C: Array, k: int) -> tuple[Array, Array]:
    """Smallest eigenpairs of L v = lam C v where C > 0."""
    size, U = np.linalg.eigh(C)
    kept = size > 1e-10 * size[-1]
    T = U[:, kept] / np.sqrt(size[kept])
    lam, V = np.linalg.eigh(T.T @ L @ T)
    return lam[:k], T @ V[:, :k]


def _of_sparse(problem: Problem, M: scipy.sparse.csr_array, k: int) -> tuple[Array, Array] | None:
    """By the inverse about a point below 0; None where no factor is to be had.

    Signs of pivots are those of eigenvalues (Sylvester): that none lies below the point is proved,
    and not left to an iteration that may have overlooked one.
    """
    cost = factor_cost(problem)
    if cost.multiplications > 10 * MOST_OPERATIONS or cost.entries > MOST_ENTRIES:
        return None
    start = np.random.default_rng(0).normal(size=problem.n)
    try:
        lam, V = eigsh(M, 1, which="SA", tol=1e-2, v0=start, maxiter=200)
        if lam[0] < -NEGATIVE:  # far below: nothing is proved, and the way up is plain
            return lam, V
    except ArpackNoConvergence:
        pass  # no separate eigenvalue at the lower end
    try:
        factor = symmetric_lu(M + NEGATIVE * scipy.sparse.eye_array(problem.n))
    except RuntimeError:  # -NEGATIVE is an eigenvalue
        return None
    inverse = scipy.sparse.linalg.LinearOperator(M.shape, matvec=factor.solve, dtype=np.float64)
    try:
        if not is_positive(factor):
            nu, V = eigsh(inverse, 1, which="SA", v0=start, tol=1e-3)
            return (1.0 / nu - NEGATIVE, V) if nu[0] < 0.0 else None
        lam, V = eigsh(M, k, sigma=-NEGATIVE, OPinv=inverse, v0=start, tol=1e-9)
    except ArpackNoConvergence:
        return None
    order = np.argsort(lam)
    return lam[order], V[:, order]
