"""Row posteriors where the noise is (almost) zero, by orthogonal factorisation.

P = I + sum_j w_j w_j^T / psi_j loses digits in proportion to the largest w_j^T w_j / psi_j, and
does not exist at psi_j = 0. The same posterior is the least-squares problem

    min_z  |z|^2 + sum_{j seen} (r_j - w_j^T z)^2 / psi_j,

whose rows carry very different weights. Householder QR with column pivoting and rows sorted by
size is backward stable row by row however much the weights differ (Cox and Higham 1998), so a
zero noise may be replaced by one far below rounding and the limit psi -> 0 comes out. Slower than
the products of `row_posterior` (one factorisation per pattern), and used only where needed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import log, pi

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from eigengap.linalg import Array

# w^T w / psi beyond which the products lose more than about half of the digits.
NEARLY_EXACT = 1e7

# Zero noise stands for this share of a feature's variance: w^T z then misses x_j by 1e-20, and
# squares of rounding errors (1e-32) divided by it stay at 1e-12.
VANISHING = 1e-20


@dataclass(frozen=True, eq=False)
class PatternPosterior:
    """Posterior of all rows that share a pattern of seen cells."""

    rows: NDArray[np.intp]  # (c,) positions
    S: Array  # (q, q)
    Z: Array  # (c, q)
    log_norm: float  # ln |2 pi C_oo|
    distance: Array  # (c,) r^T C_oo^-1 r
    has_density: bool  # False where the covariance of the seen cells is singular


def is_nearly_exact(W: Array, psi: Array) -> bool:
    """Whether the noise is too small, beside the signal, for products."""
    signal = np.einsum("jq,jq->j", W, W)
    return bool(np.any(signal > NEARLY_EXACT * psi) or np.any(psi <= 0.0))


def pattern_posteriors(
    X: Array, W: Array, mu: Array, psi: Array, known: Array | None = None
) -> Iterator[PatternPosterior]:  # X (n, d)
    """Posteriors of the rows of X, one pattern of seen cells at a time.

    `known` (n, d) are variances of cells beside psi; with them every row has its own pattern.
    """
    seen = ~np.isnan(X)
    if known is not None:
        for row, o in enumerate(seen):
            residual = X[row : row + 1, o] - mu[o]
            yield _posterior(np.array([row]), residual, W[o], psi[o] + known[row, o])
        return
    patterns, pattern_of = np.unique(seen, axis=0, return_inverse=True)
    order = np.argsort(pattern_of, kind="stable")
    ends = np.cumsum(np.bincount(pattern_of.ravel(), minlength=len(patterns)))
    for k, pattern in enumerate(patterns):
        rows = order[ends[k - 1] if k else 0 : ends[k]]
        residual = X[np.ix_(rows, pattern)] - mu[pattern]
        yield _posterior(rows, residual, W[pattern], psi[pattern])


def _posterior(rows: NDArray[np.intp], R: Array, W: Array, psi: Array) -> PatternPosterior:
    k, q = W.shape
    variance = np.einsum("jq,jq->j", W, W) + psi
    # A feature that the model holds constant says nothing about z, whatever its weight.
    stand_in = np.where(variance > 0, np.maximum(psi, VANISHING * variance), 1.0)
    root = np.sqrt(stand_in)
    A = np.vstack([W / root[:, None], np.eye(q)])  # (k + q, q)
    B = np.vstack([R.T / root[:, None], np.zeros((q, len(R)))])  # (k + q, c)
    by_size = np.argsort(-np.abs(A).max(axis=1, initial=0.0), kind="stable")
    Q, T, pivot = scipy.linalg.qr(A[by_size], mode="economic", pivoting=True)
    inverse = scipy.linalg.solve_triangular(T, np.eye(q)) if q else np.zeros((0, 0))
    Z = np.empty((len(R), q))
    Z[:, pivot] = (inverse @ (Q.T @ B[by_size])).T
    S = np.empty((q, q))
    S[np.ix_(pivot, pivot)] = inverse @ inverse.T
    misfit = (R - Z @ W.T) / root
    log_det = np.sum(np.log(stand_in)) + 2.0 * np.sum(np.log(np.abs(np.diag(T))))
    return PatternPosterior(
        rows=rows,
        S=S,
        Z=Z,
        log_norm=k * log(2 * pi) + float(log_det),
        distance=np.einsum("ij,ij->i", misfit, misfit) + np.einsum("iq,iq->i", Z, Z),
        has_density=_has_density(W, psi),
    )


def _has_density(W: Array, psi: Array) -> bool:
    """Cells without noise need independent loadings, or their covariance is singular."""
    exact = W[psi <= 0.0]
    return len(exact) == 0 or int(np.linalg.matrix_rank(exact)) == len(exact)
