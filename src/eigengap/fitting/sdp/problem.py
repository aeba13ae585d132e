"""Semidefinite programs over squared distances, as a value.

    maximise  <C, K>   subject to   low <= B D(K) <= high,   K = Y Y' psd, centred,

where D(K)_e = K_ii - 2 K_ij + K_jj = |y_i - y_j|^2 over a list of pairs e = {i, j}. Every
derivative is a Laplacian of the pairs times Y: no n x n matrix is formed. It is solved in
`fitting.sdp.descent`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse

from eigengap.linalg import Array
from eigengap.models.maps.graph import Ints


@dataclass(frozen=True, eq=False)
class Variance:
    """C = diag(w) - w w' / sum w, block by block: the sum of squares about the mean.

    With groups, about the mean of the own group. `largest` bounds C's eigenvalues by size.
    """

    weights: Array  # (n,) positive
    groups: Ints | None = None  # (n,)

    @cached_property
    def largest(self) -> float:
        return float(np.max(self.weights))

    def apply(self, Y: Array) -> Array:
        """C Y (n, r)."""
        w = self.weights[:, None]
        if self.groups is None:
            return w * (Y - (self.weights @ Y) / np.sum(self.weights))
        return np.asarray(w * (Y - (self._averages @ Y)[self.groups]))

    @cached_property
    def _averages(self) -> scipy.sparse.csr_array:
        """(groups, n) that takes rows to the means of groups."""
        assert self.groups is not None
        n, count = len(self.weights), int(self.groups.max()) + 1
        total = np.bincount(self.groups, weights=self.weights, minlength=count)
        share = self.weights / total[self.groups]
        return scipy.sparse.csr_array((share, (self.groups, np.arange(n))), shape=(count, n))


@dataclass(frozen=True, eq=False)
class Affinity:
    """C = H A H with H = I - 1 1' / n: <C, K> = tr(K A) of a centred K."""

    A: scipy.sparse.csr_array  # (n, n) symmetric

    @cached_property
    def largest(self) -> float:
        return float(np.max(abs(self.A).sum(axis=1), initial=0.0))

    def apply(self, Y: Array) -> Array:
        found = self.A @ (Y - np.mean(Y, axis=0))
        return np.asarray(found - np.mean(found, axis=0))


Gain = Variance | Affinity  # the matrix C of the objective, symmetric, with C 1 = 0


@dataclass(frozen=True, eq=False)
class Problem:
    """n points, m pairs of them, c constraints on the pairs' squared distances."""

    n: int
    i: Ints  # (m,)
    j: Ints  # (m,)
    gain: Gain
    low: Array  # (c,) may be -inf
    high: Array  # (c,) may be inf
    combine: scipy.sparse.csr_array  # (c, m) B
    cap: float = np.inf  # price of a unit by which a constraint is missed; inf: none may be
    total: float | None = None  # what tr K / n has to be, if anything
    basis: Array | None = None  # (n, p) Q of points Y = Q V that are to be found by V; None: Q = I

    @cached_property
    def incidence(self) -> scipy.sparse.csr_array:
        """(m, n) that takes points to their differences along pairs."""
        m = len(self.i)
        starts = np.arange(0, 2 * m + 1, 2)
        columns = np.column_stack([self.i, self.j]).ravel()
        signs = np.tile([1.0, -1.0], m)
        return scipy.sparse.csr_array((signs, columns, starts), shape=(m, self.n))

    @cached_property
    def _gather(self) -> scipy.sparse.csr_array:
        return scipy.sparse.csr_array(self.incidence.T)

    @cached_property
    def _combine_back(self) -> scipy.sparse.csr_array:
        return scipy.sparse.csr_array(self.combine.T)

    @property
    def p(self) -> int:
        """Rows of what is to be found."""
        return self.n if self.basis is None else int(self.basis.shape[1])

    def points(self, V: Array) -> Array:
        """Y (n, r), centred, of V (p, r)."""
        Y = V if self.basis is None else self.basis @ V
        return np.asarray(Y - np.mean(Y, axis=0))

    def back(self, G: Array) -> Array:
        """Q' G: derivatives by V from those by Y, which have mean 0."""
        return G if self.basis is None else self.basis.T @ G

    def values(self, E: Array, F: Array, Y: Array, Z: Array) -> Array:
        """The bilinear form behind the constrained values (c,), and behind tr K / n as the last.

        E, F (m, r) are differences of the points Y, Z (n, r). With F = E, Z = Y the values.
        """
        found = self.combine @ np.einsum("ij,ij->i", E, F)
        return found if self.total is None else np.append(found, np.vdot(Y, Z) / self.n)

    def at(self, Y: Array) -> Array:
        """The constrained values of the points Y."""
        E = np.asarray(self.incidence @ Y)
        return self.values(E, E, Y, Y)

    def pull(self, t: Array, E: Array, Y: Array) -> Array:
        """Half the gradient (n, r) of t'values: L(B't) Y."""
        w = self.pair_weights(t)
        found = self._gather @ (w[:, None] * E)
        return np.asarray(found if self.total is None else found + (t[-1] / self.n) * Y)

    def pair_weights(self, t: Array) -> Array:
        """B't (m,): the weight that multipliers (c,) put on each pair."""
        return np.asarray(self._combine_back @ (t if self.total is None else t[:-1]))

    @cached_property
    def bounds(self) -> tuple[Array, Array, Array]:
        """low, high, cap of every constraint, that on tr K included, which is never soft."""
        caps = np.full(len(self.low), self.cap)
        if self.total is None:
            return self.low, self.high, caps
        return (
            np.append(self.low, self.total),
            np.append(self.high, self.total),
            np.append(caps, np.inf),
        )

    def laplacian(self, w: Array) -> scipy.sparse.csr_array:
        """L(w) (n, n) of weights (m,) of the pairs."""
        W = scipy.sparse.coo_array(
            (np.concatenate([w, w]), (np.concatenate([self.i, self.j]),
                                      np.concatenate([self.j, self.i]))),
            shape=(self.n, self.n),
        ).tocsr()  # fmt: skip
        return scipy.sparse.csr_array(scipy.sparse.diags_array(W.sum(axis=1)) - W)


@dataclass(frozen=True, eq=False)
class Penalty:
    """What constraints add to the objective, given multipliers and the weight of a violation."""

    problem: Problem
    multipliers: Array  # (c,)
    weight: float  # sigma

    def at(self, s: Array) -> tuple[float, Array]:
        """Value, and its derivative t (c,) by the constrained values s (c,)."""
        low, high, cap = self.problem.bounds
        z = s + self.multipliers / self.weight
        over = z - np.clip(z, low, high)
        t = np.clip(self.weight * over, -cap, cap)
        return float(t @ over - t @ t / (2.0 * self.weight)), t

    def curved(self, t: Array) -> Array:
        """(c,) whether the second derivative is `weight` there, and not 0."""
        cap = self.problem.bounds[2]
        return np.asarray((t != 0.0) & (np.abs(t) < cap))
