"""The M-step: parameters that maximise the expected log-likelihood, under constraints.

Every feature is a regression on z~ = (z, 1) (Expected.A, Expected.B). PPCA pools the residual
variances, factor analysis keeps them apart; the rest is the same code.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Literal

import numpy as np

from eigengap.compiled import factorise
from eigengap.linalg import Array, packed_size, unpack
from eigengap.models.gaussian.row_posterior import times_packed
from eigengap.statistics.expected.expected import Expected


@dataclass(frozen=True, eq=False)
class Parameters:
    """A linear-Gaussian model in the making, its mean measured from the rows' shift."""

    W: Array  # (d, q)
    delta: Array  # (d,) mu - shift
    psi: Array  # (d,)
    nu: float = inf  # degrees of freedom; finite for Student rows


@dataclass(frozen=True, eq=False)
class Constraints:
    """What the M-step may change.

    Attributes
    ----------
    noise : "isotropic" pools the noise variance (PPCA), "diagonal" has one per feature (FA)
    floor : (d,) least noise variance, far below the data's but safe for products
    fixed_noise : the noise variance, where it is given and not learned
    fit_mean : whether mu is learned; if not it stays at the rows' shift
    loading_precision : of the prior W_jk ~ N(0, 1 / precision), one number or one per column (q,);
        0 is maximum likelihood. 003's M-step, which adds sigma2 I to sum E[z z^T], is precision 1.
    fixed_nu : degrees of freedom of Student rows, where they are given and not learned
    least_nu : fewest degrees of freedom that may be learned
    """

    noise: Literal["isotropic", "diagonal"]
    floor: Array
    fixed_noise: float | None = None
    fit_mean: bool = True
    loading_precision: float | Array = 0.0
    fixed_nu: float | None = None
    least_nu: float = 1.0

    @property
    def has_prior(self) -> bool:
        return bool(np.any(self.loading_precision))


def maximise(expected: Expected, current: Parameters, how: Constraints) -> Parameters:
    """One M-step. `current` supplies the noise that weighs the prior against the data."""
    return maximise_together([expected], [current], [how])[0]


def maximise_together(
    expected: Sequence[Expected], current: Sequence[Parameters], how: Sequence[Constraints]
) -> list[Parameters]:
    """The M-step of models that share one noise; they may differ in rank and prior."""
    fits = [regress(*each) for each in zip(expected, current, how, strict=True)]
    psi = noise_variances(
        residual=np.sum([residual for _, _, residual in fits], axis=0),
        cells=float(np.sum([e.cells for e in expected])),
        observed=np.sum([e.observed() for e in expected], axis=0),
        how=how[0],
    )
    updated = []
    for (W, delta, _), e, h in zip(fits, expected, how, strict=True):
        W, delta = (W, delta) if h.has_prior else expand(e, W, delta, h)
        updated.append(Parameters(W=W, delta=delta, psi=psi))
    return updated


def anchored(expected: Expected, current: Parameters, rows: float) -> Expected:
    """The statistics with `rows` more rows, each feature of which is as the current model has it.

    A feature that was hardly ever seen leaves its regression without a solution; with a vanishing
    weight on such rows it keeps its current parameters. The expected log-likelihood of the added
    rows is largest at the current parameters, so that an M-step on the sum still never lowers the
    likelihood, and has the same fixed points.
    """
    share = rows / expected.sum_w
    latent = unpack(expected.latent, expected.q + 1) * share  # of the added rows
    both = np.column_stack([current.W, current.delta])  # (d, q + 1)
    B = latent @ both.T
    signal = np.einsum("kd,dk->d", B, both)
    return replace(
        expected,
        A=expected.A + share * expected.latent[:, None],
        B=expected.B + B,
        squares=expected.squares + signal + rows * current.psi,
        cells=expected.cells + rows * len(both),
    )


def log_prior(parameters: Parameters, how: Constraints) -> float:
    """ln p(W) up to a constant: what MAP adds to the log-likelihood."""
    if not how.has_prior:
        return 0.0
    return -0.5 * float(np.sum(how.loading_precision * parameters.W**2))


def regress(
    expected: Expected, current: Parameters, how: Constraints
) -> tuple[Array, Array, Array]:
    """W (d, q), delta (d,) and the expected sum of squared residuals (d,) that they leave."""
    q = expected.q
    size = q + 1 if how.fit_mean else q
    A = expected.A[: packed_size(size)].copy()  # without the mean: the leading triangle
    B = np.ascontiguousarray(expected.B[:size])
    if how.has_prior:
        diagonal = np.cumsum(np.arange(1, q + 1)) - 1
        A[diagonal] += np.broadcast_to(how.loading_precision, (q,))[:, None] * current.psi
    solution, _ = factorise(A, B, passes=1)  # (size, d)
    W = np.ascontiguousarray(solution[:q].T)
    delta = solution[q].copy() if how.fit_mean else np.zeros(len(W))
    residual = expected.squares - np.einsum("kd,kd->d", solution, B)
    if how.has_prior:
        # (A + prior) w = B, so sum E[(r - w^T z)^2] = squares - w^T B - w^T prior w.
        residual = residual - current.psi * np.sum(how.loading_precision * W**2, axis=1)
    return W, delta, residual


def gradient(
    expected: Expected, current: Parameters, how: Constraints, observed: Array | None = None
) -> Parameters:
    """Derivatives of the observed-data log-likelihood, and of the prior, by each parameter.

    By Fisher's identity they are those of the expected complete-data log-likelihood, which
    `expected` makes under the current parameters. `seen` (d,) counts the cells of each feature
    where the sums are weighted by more than that.
    """
    both = np.vstack([current.W.T, current.delta])  # (q + 1, d)
    left = expected.B - times_packed(expected.A, both)
    squares = expected.squares - np.einsum("kd,kd->d", both, expected.B + left)
    by_W = (left[:-1] / current.psi).T - how.loading_precision * current.W
    cells = expected.observed() if observed is None else observed
    by_psi = 0.5 * (squares / current.psi - cells) / current.psi
    return Parameters(W=by_W, delta=left[-1] / current.psi, psi=by_psi, nu=0.0)


def noise_variances(residual: Array, cells: float, observed: Array, how: Constraints) -> Array:
    """psi (d,): expected squared residuals per seen cell, pooled or by feature."""
    if how.fixed_noise is not None:
        return np.asarray(np.maximum(how.fixed_noise, how.floor))
    if how.noise == "isotropic":
        return np.asarray(np.maximum(float(np.sum(residual)) / cells, how.floor))
    return np.asarray(np.maximum(residual / observed, how.floor))


def expand(expected: Expected, W: Array, delta: Array, how: Constraints) -> tuple[Array, Array]:
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
