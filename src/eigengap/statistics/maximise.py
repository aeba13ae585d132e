"""The M-step: parameters that maximise the expected log-likelihood, under constraints.

Every feature is a regression on z~ = (z, 1) (Expected.A, Expected.B). PPCA pools the residual
variances, factor analysis keeps them apart; the rest is the same code.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from eigengap.compiled import factorise
from eigengap.linalg import Array, packed_size
from eigengap.statistics.expected import Expected


@dataclass(frozen=True, eq=False)
class Parameters:
    """A linear-Gaussian model in the making, its mean measured from the rows' shift."""

    W: Array  # (d, q)
    delta: Array  # (d,) mu - shift
    psi: Array  # (d,)


@dataclass(frozen=True, eq=False)
class Constraints:
    """What the M-step may change.

    Attributes
    ----------
    noise : "isotropic" pools the noise variance (PPCA), "diagonal" has one per feature (FA)
    floor : (d,) least noise variance, far below the data's but safe for products
    fixed_noise : the noise variance, where it is given and not learned
    fit_mean : whether mu is learned; if not it stays at the rows' shift
    loading_precision : of the prior W_jk ~ N(0, 1 / precision); 0 is maximum likelihood. 003's
        M-step, which adds sigma2 I to sum E[z z^T], is precision 1.
    """

    noise: Literal["isotropic", "diagonal"]
    floor: Array
    fixed_noise: float | None = None
    fit_mean: bool = True
    loading_precision: float = 0.0


def maximise(expected: Expected, current: Parameters, how: Constraints) -> Parameters:
    """One M-step. `current` supplies the noise that weighs the prior against the data."""
    W, delta, explained = _regress(expected, current, how)
    psi = _noise(expected, current, explained, W, how)
    if how.loading_precision == 0.0:
        W, delta = _expand(expected, W, delta, how)
    return Parameters(W=W, delta=delta, psi=psi)


def log_prior(parameters: Parameters, how: Constraints) -> float:
    """ln p(W) up to a constant: what MAP adds to the log-likelihood."""
    if how.loading_precision == 0.0:
        return 0.0
    return -0.5 * how.loading_precision * float(np.sum(parameters.W**2))


def _regress(
    expected: Expected, current: Parameters, how: Constraints
) -> tuple[Array, Array, Array]:
    """W (d, q), delta (d,) and the sum of squares (d,) that they explain."""
    q = expected.q
    size = q + 1 if how.fit_mean else q
    A = expected.A[: packed_size(size)].copy()  # without the mean: the leading triangle
    B = np.ascontiguousarray(expected.B[:size])
    if how.loading_precision:
        diagonal = np.cumsum(np.arange(1, q + 1)) - 1
        A[diagonal] += how.loading_precision * current.psi
    solution, _ = factorise(A, B, passes=1)  # (size, d)
    W = np.ascontiguousarray(solution[:q].T)
    delta = solution[q].copy() if how.fit_mean else np.zeros(len(W))
    return W, delta, np.einsum("kd,kd->d", solution, B)


def _noise(
    expected: Expected, current: Parameters, explained: Array, W: Array, how: Constraints
) -> Array:
    """psi (d,): expected squared residuals per seen cell, pooled or by feature."""
    if how.fixed_noise is not None:
        return np.asarray(np.maximum(how.fixed_noise, how.floor))
    # (A + prior) w = B, so sum E[(r - w^T z)^2] = squares - w^T B - w^T prior w.
    residual = expected.squares - explained
    if how.loading_precision:
        shrinkage = how.loading_precision * current.psi
        residual = residual - shrinkage * np.einsum("dq,dq->d", W, W)
    if how.noise == "isotropic":
        pooled = float(np.sum(residual)) / expected.cells
        return np.asarray(np.maximum(pooled, how.floor))
    return np.asarray(np.maximum(residual / expected.seen(), how.floor))


def _expand(expected: Expected, W: Array, delta: Array, how: Constraints) -> tuple[Array, Array]:
    """Parameter-expanded EM (Liu, Rubin and Wu 1998): free the mean and covariance of z, fold back.

    The larger model z ~ N(zbar, V) has the same observed-data likelihood after mu += W zbar and
    W <- W chol(V); fitting it corrects, in one step, what plain EM corrects over many.
    """
    mean, V = expected.latent_moments()
    if how.fit_mean:
        delta = delta + W @ mean
    else:
        V = V + np.outer(mean, mean)
    return W @ np.linalg.cholesky(V), delta
