"""Row posteriors where the noise is (almost) zero, by orthogonal factorisation.

P = I + sum_j w_j w_j^T / psi_j loses digits in proportion to the largest w_j^T w_j / psi_j, and
does not exist at psi_j = 0. The same posterior is the least-squares problem

    min_z  |z|^2 + sum_{j observed} (r_j - w_j^T z)^2 / psi_j,

whose rows carry very different weights. Householder QR with column pivoting and rows sorted by
size is backward stable row by row however much the weights differ (Cox and Higham 1998). Slower
than the products of `posterior` (one factorisation per pattern), and used only where needed.

psi_j = 0 is the limit of psi_j = epsilon u_j^2, epsilon -> 0, with one epsilon for all such
features and u_j their units. Let E be the observed cells without noise. In the limit z minimises
sum_E (r_j - w_j^T z)^2 / u_j^2 first, and the sum over the others only in the directions that E
leaves open:

    z = A r_E + F y,   A the pseudo-inverse of W_E in units of u,   W_E F = 0,   F^T F = I,

where y has the posterior of a model with loadings W F given the residuals r - W A r_E. There is
no number that stands for zero. Without any noise and with u = 1, W z is the orthogonal projection.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from math import inf, log, pi
from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from eigengap.linalg import Array, pack
from eigengap.models.gaussian.posterior import NEARLY_EXACT, RowPosteriors

# Noise below this share of w^T w is taken for none where that changes nothing by more than this
# share, so that squares of rounding errors (1e-32) divided by the noise stay below 1e-12.
VANISHING = 1e-20
NEGLIGIBLE = 1e-12  # share of a distance or a variance

# A few units of rounding for each of the operations behind a number (Higham 2002, Lemma 19.3).
ROUNDING = 8 * np.finfo(np.float64).eps


@dataclass(frozen=True, eq=False)
class Constraints:
    """z as far as m cells without noise determine it: z = inverse @ r + free @ y, for any y."""

    inverse: Array  # (q, m) pseudo-inverse of their loadings
    free: Array  # (q, q - rank) orthonormal
    log_det: float  # ln |W W^T|; -inf where the loadings depend on each other


def noiseless_posteriors(
    X: Array,  # (n, d)
    W: Array,
    mu: Array,
    psi: Array,
    unit: Array,
    known: Array | None = None,
) -> Iterator[RowPosteriors]:
    """Posteriors of the rows of X, one pattern of observed cells at a time.

    `unit` (d,) are the units u in which zero noise is approached. `known` (n, d) are variances of
    values in addition to psi; with them every row has its own pattern. Where C_oo is singular
    `log_norm` is -inf, and `distance` inf for rows off the model's plane.
    """
    observed = ~np.isnan(X)
    if known is not None:
        for row, o in enumerate(observed):
            cells = Cells(W[o], psi[o] + known[row, o], unit[o])
            yield _posterior(np.array([row]), X[row : row + 1, o], mu[o], cells)
        return
    all_cells = Cells(W, psi, unit, is_alike=bool(np.all(psi <= 0.0)))
    patterns, pattern_of = np.unique(observed, axis=0, return_inverse=True)
    order = np.argsort(pattern_of, kind="stable")
    ends = np.cumsum(np.bincount(pattern_of.ravel(), minlength=len(patterns)))
    for k, o in enumerate(patterns):
        rows = order[ends[k - 1] if k else 0 : ends[k]]
        yield _posterior(rows, X[np.ix_(rows, o)], mu[o], all_cells.some(o))


@dataclass(frozen=True, eq=False)
class Cells:
    """The observed cells of a pattern."""

    W: Array  # (k, q)
    psi: Array  # (k,)
    unit: Array  # (k,)
    is_alike: bool = False  # whether no feature of the model has noise, as in PCA

    def some(self, at: NDArray[np.bool_]) -> Cells:
        return Cells(self.W[at], self.psi[at], self.unit[at], self.is_alike)

    def gain(self) -> Array:
        """K (q, k) of the posterior means z = K r."""
        return self.posterior(np.eye(len(self.W)))[0].T

    def nearest(self, R: Array) -> Array:
        """W z (c, k) for z of least sum_j (r_j - w_j^T z)^2 / psi_j: the posterior, no prior."""
        exact, fixed = self.constraints
        noise = np.sqrt(self.psi[~exact])
        # In units of their noise the others are alike: least squares again.
        size = np.max(np.linalg.norm(self.W[~exact], axis=1) / noise, initial=0.0)
        rest = constraints(self._left(~exact, fixed), noise, np.full(len(noise), size))
        inverse = np.empty(self.W.T.shape)  # z = inverse @ r
        inverse[:, ~exact] = fixed.free @ rest.inverse
        left = inverse[:, ~exact] @ self.W[~exact] @ fixed.inverse
        inverse[:, exact] = fixed.inverse - left
        return np.asarray(R @ inverse.T @ self.W.T)

    def posterior(self, R: Array) -> tuple[Array, Array, float]:
        """Means (c, q), covariance (q, q) and ln |C_oo| of rows with residuals R (c, k)."""
        exact, fixed = self.constraints
        n, (q, free) = len(R), fixed.free.shape
        vanishing = exact & (self.psi > 0.0)
        R = np.vstack([R, np.diag(np.sqrt(self.psi))[vanishing]])  # their errors move z, hence S
        start = R[:, exact] @ fixed.inverse.T
        root = np.sqrt(self.psi[~exact])
        log_det = fixed.log_det + 2.0 * float(np.sum(np.log(root)))
        if free == 0:  # the exact cells determine z
            Z, S = start, np.zeros((q, q))
        else:
            A = np.vstack([self._left(~exact, fixed) / root[:, None], np.eye(free)])
            B = ((R - start @ self.W.T)[:, ~exact] / root).T
            B = np.vstack([B, np.zeros((free, len(R)))])
            by_size = np.argsort(-np.abs(A).max(axis=1, initial=0.0), kind="stable")
            Q, T, pivot = scipy.linalg.qr(A[by_size], mode="economic", pivoting=True)
            root_S = fixed.free[:, pivot] @ scipy.linalg.solve_triangular(T, np.eye(free))
            Z, S = start + (root_S @ (Q.T @ B[by_size])).T, root_S @ root_S.T
            log_det += 2.0 * float(np.sum(np.log(np.abs(np.diag(T)))))
        return Z[:n], S + Z[n:].T @ Z[n:], log_det

    @cached_property
    def constraints(self) -> tuple[NDArray[np.bool_], Constraints]:
        """Which cells count as exact, and what they determine of z.

        Those without noise; and those of vanishing noise, unless they and others of little noise
        contradict each other or nearly do, when it is their noise that decides between them.
        """
        exact, little = self.psi <= 0.0, NEARLY_EXACT * self.psi <= self.signal
        if np.any(self.is_vanishing & ~exact) and np.count_nonzero(little) <= self.W.shape[1]:
            exact = self.is_vanishing if self._are_clear_of_noise(little) else exact
        return exact, self._constraints(exact)

    def _are_clear_of_noise(self, little: NDArray[np.bool_]) -> bool:
        """Whether what sets cells of little noise apart is far above the vanishing noise."""
        if self._constraints(little).log_det == -inf:
            return False
        directions = self.W[little] / np.sqrt(self.signal[little])[:, None]
        least = np.linalg.svd(directions, compute_uv=False)[-1]
        noise = np.max(self.psi[self.is_vanishing] / self.signal[self.is_vanishing])
        return bool(noise <= NEGLIGIBLE * least**2)

    @cached_property
    def signal(self) -> Array:
        """(k,) w^T w."""
        return np.asarray(np.einsum("jq,jq->j", self.W, self.W))

    @property
    def is_vanishing(self) -> NDArray[np.bool_]:
        """(k,) whether the noise is none, or next to none."""
        return self.psi <= VANISHING * self.signal

    def _constraints(self, exact: NDArray[np.bool_]) -> Constraints:
        return constraints(self.W[exact], self.unit[exact], self._size(exact))

    def _size(self, exact: NDArray[np.bool_]) -> Array:
        """(m,) size by which the rounding of the exact cells' loadings is judged, in their units.

        Features of a factor analysis may be in units that differ by many orders: each has its own.
        """
        size = np.linalg.norm(self.W[exact], axis=1) / self.unit[exact]
        return np.full(len(size), np.max(size, initial=0.0)) if self.is_alike else size

    def _left(self, noisy: NDArray[np.bool_], fixed: Constraints) -> Array:
        """(k - m, q - rank) loadings of the noisy cells on what is free, without rounding."""
        W = self.W[noisy]
        if fixed.inverse.shape[1] == 0:
            return W
        size = np.linalg.norm(W, axis=1, keepdims=True)
        left = W @ fixed.free
        return np.where(np.abs(left) > ROUNDING * len(fixed.free) * size, left, 0.0)


def constraints(W: Array, unit: Array, size: Array) -> Constraints:
    """Equations in z of cells without noise: complete orthogonal decomposition of W / unit (m, q).

    `size` (m,) is that of the numbers which each row comes from, by which rounding is judged.
    """
    m, q = W.shape
    if not np.any(W):
        return Constraints(np.zeros((q, m)), np.eye(q), 0.0 if m == 0 else -inf)
    A = W / unit[:, None]
    by_size = np.argsort(-np.abs(A).max(axis=1), kind="stable")
    Q, T, pivot = scipy.linalg.qr(A[by_size], mode="economic", pivoting=True)
    rank = max(_rank(Q, T, size[by_size], ROUNDING * max(m, q)), 1)
    across = np.empty((q, rank))
    across[pivot] = T[:rank].T
    V, L = np.linalg.qr(across, mode="complete")  # A = Q L^T V^T
    solved = scipy.linalg.solve_triangular(L[:rank], Q[:, :rank].T, trans=1)
    inverse = np.empty((q, m))
    inverse[:, by_size] = V[:, :rank] @ solved
    log_det = -inf
    if rank == m:
        log_det = 2.0 * float(np.sum(np.log(np.abs(np.diag(L)))) + np.sum(np.log(unit)))
    return Constraints(inverse / unit, V[:, rank:], log_det)


def _rank(Q: NDArray[Any], T: NDArray[Any], size: Array, rounding: float) -> int:
    """Rank of Q T: a step counts while it leaves more than rounding in some row."""
    terms = Q * np.linalg.norm(T, axis=1) / np.where(size > 0, size, inf)[:, None]  # (m, k)
    left = np.cumsum(terms[:, ::-1] ** 2, axis=1)  # what the last steps, 1 to k of them, add
    return int(np.count_nonzero((left > rounding**2).any(axis=0)))


def _posterior(rows: NDArray[np.intp], X: Array, mu: Array, cells: Cells) -> RowPosteriors:
    R = X - mu
    Z, S, log_det = cells.posterior(R)
    misfit = R - Z @ cells.W.T
    exact, fixed = cells.constraints
    if fixed.log_det == -inf or np.any(cells.is_vanishing & ~exact):
        # Where noise is below the rounding of the row, so are misfits that it explains.
        size = np.abs(X) + np.abs(mu) + np.abs(Z) @ np.abs(cells.W.T)
        is_rounding = np.abs(misfit) <= ROUNDING * max(cells.W.shape) * size
        misfit[is_rounding & cells.is_vanishing] = 0.0
    noise = misfit[:, ~exact] / np.sqrt(cells.psi[~exact])
    distance = np.einsum("iq,iq->i", Z, Z) + np.einsum("ij,ij->i", noise, noise)
    if fixed.log_det == -inf:
        distance[np.any(misfit[:, exact] != 0.0, axis=1)] = inf
    return RowPosteriors(
        at=rows,
        Z=Z.T,
        S=pack(S)[:, None],
        log_norm=np.array([len(mu) * log(2 * pi) + log_det]),
        distance=distance,
        row_cells=np.full(len(rows), len(mu)),
    )
