"""EM for the multivariate t: expected statistics and M-step.

Given u_i the row is Gaussian with all variances divided by u_i, so the M-step is that of
`gaussian` with E[u z~ z~^T], E[u z~] and u r^2 in the sums, u_i = (nu + p_i) / (nu + delta_i)
(Liu and Rubin 1995). Two parameters that the data do not determine are freed and folded back, which
keeps the likelihood from falling and saves many steps (PX-EM; Liu, Rubin and Wu 1998): the moments
of z, as in the Gaussian model, and the mean alpha of u, which makes the divisor of the variances
the sum of the weights instead of the number of rows (Kent, Tyler and Vardi 1994).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.special import digamma

from eigengap.linalg import Array, pack, packed_size
from eigengap.models.gaussian.observed_rows import ObservedRows
from eigengap.models.gaussian.posterior import BlockCoefficients
from eigengap.statistics.additive import Additive
from eigengap.statistics.expected.gaussian import (
    Constraints,
    Expected,
    Parameters,
    Sums,
    expand,
    gradient,
    noise_variances,
    regress,
    scratch,
)

LARGEST_NU = 1e6  # beyond which the density is as good as Gaussian
LEAST_NU = 0.1  # of many rows; of few see `least_degrees`
PIECE_CELLS = 1 << 15  # of R whose squares are formed at a time


@dataclass(frozen=True, eq=False)
class StudentExpected(Additive):
    """Sums over rows; they merge by addition."""

    expected: Expected  # weighted by u; the log-likelihood is that of the t density
    observed: Array  # (d,) weighted number of rows in which each feature was observed
    sum_w: float  # weighted number of rows
    excess: float  # sum of w (u - 1)
    minus_log_u: float  # -sum of w E[ln u]

    @classmethod
    def of(cls, rows: ObservedRows, current: Parameters, passes: int = 1) -> StudentExpected:
        """Statistics of one block under the current parameters: an E-step."""
        sums, block, nu = Sums(rows, current.q), BlockCoefficients.of(rows, current), current.nu
        squares = np.zeros(rows.d)
        excess = minus_log_u = 0.0
        for chunk in rows.chunks(current.q):
            part = replace(block.posteriors(chunk, passes, scratch), nu=nu)
            w = np.ones(len(part.at)) if chunk.weight is None else chunk.weight
            p, u = part.row_cells, part.expected_u
            above = (p - part.distance) / (nu + part.distance)  # u - 1, without its rounding
            excess += float(w @ above)
            # log1p keeps the digits of ordinary rows, log those of rows so far out that u is tiny.
            log_u = np.where(above > -0.5, np.log1p(np.maximum(above, -0.5)), np.log(u))
            minus_log_u += float(w @ (log_less_digamma((nu + p) / 2) - log_u))
            sums.add(chunk, part, chunk.weight, u)
            squares += _weighted_squares(chunk.R, w * u)
        expected = sums.expected(squares, rows.cells)
        return cls(expected, rows.observed, rows.sum_w, excess, minus_log_u)


def maximise_student(
    statistic: StudentExpected, current: Parameters, how: Constraints
) -> Parameters:
    """One M-step: W, delta, psi and nu.

    alpha can be freed only where psi is, for the two are folded together: a noise that is given,
    lies at its floor, or weighs a prior, fixes alpha at 1.
    """
    mean_u = 1.0 + statistic.excess / statistic.sum_w
    W, delta, residual = regress(statistic.expected, current, how)
    learned = how.fixed_noise is None and not how.has_prior
    psi = _noise(statistic, residual, how, mean_u)
    alpha = mean_u if learned and np.all(psi > how.floor) else 1.0
    if alpha == 1.0:
        psi = _noise(statistic, residual, how, 1.0)
    if not how.has_prior:
        W, delta = expand(_latents_under(statistic, alpha, how), W, delta, how)
    nu = (
        how.fixed_nu
        if how.fixed_nu is not None
        else _degrees_of_freedom(statistic, alpha, how.least_nu)
    )
    return Parameters(W=W, delta=delta, psi=psi, nu=nu)


def student_gradient(
    statistic: StudentExpected, current: Parameters, how: Constraints
) -> Parameters:
    """Derivatives of the observed-data log-likelihood by each parameter."""
    expected = gradient(statistic.expected, current, how, statistic.observed)
    by_nu = 0.5 * (
        statistic.sum_w * float(log_less_digamma(current.nu / 2))
        - statistic.minus_log_u
        - statistic.excess
    )
    return replace(expected, nu=by_nu)


def _noise(statistic: StudentExpected, residual: Array, how: Constraints, alpha: float) -> Array:
    cells = alpha * statistic.expected.cells
    return noise_variances(residual, cells, alpha * statistic.observed, how)


def _latents_under(statistic: StudentExpected, alpha: float, how: Constraints) -> Expected:
    """Statistics whose `latent_moments` are the mean of z and its covariance over alpha.

    Sum E[u (z - m)(z - m)^T] / (alpha sum w): at alpha = mean of u that is the sums as they
    are; at alpha = 1 the number of rows divides.
    """
    expected = statistic.expected
    if alpha != 1.0:
        return expected
    q, sum_w = expected.q, statistic.sum_w
    K = packed_size(q)
    sum_u = expected.latent[-1]
    mean = expected.latent[K : K + q] / sum_u if how.fit_mean else np.zeros(q)
    outer = pack(np.outer(mean, mean))
    second = expected.latent[:K] + (sum_w - sum_u if how.fit_mean else 0.0) * outer
    return replace(expected, latent=np.concatenate([second, sum_w * mean, [sum_w]]))


def least_degrees(n: float, d: int, q: int) -> float:
    """Fewest degrees of freedom that are learned from n rows of d values by q components.

    With fewer the likelihood has no maximum. A plane through q + 1 rows has them without noise: as
    psi falls to 0 each gains psi^(-(d - q) / 2), and each of the other rows loses psi^(nu / 2).

    >>> [round(least_degrees(n, 6, 2), 3) for n in (8, 40, 83, 1000)]
    [1.0, 0.324, 0.15, 0.1]
    """
    others = n - q - 1
    bound = (q + 1) * (d - q) / others if others > 0 else 1.0
    return float(np.clip(bound, LEAST_NU, 1.0))


def _degrees_of_freedom(statistic: StudentExpected, alpha: float, least: float) -> float:
    """Root of ln(nu / 2) - digamma(nu / 2) = mean of u / alpha - 1 + ln alpha - mean of E[ln u]."""
    minus_log_u = statistic.minus_log_u / statistic.sum_w
    excess = statistic.excess / statistic.sum_w
    right = minus_log_u + (np.log1p(excess) if alpha != 1.0 else excess)

    def error(log_nu: float) -> float:
        return float(np.log(log_less_digamma(np.exp(log_nu) / 2))) - float(np.log(right))

    low, high = np.log(least), np.log(LARGEST_NU)
    if not right > 0.0 or error(high) >= 0.0:
        return LARGEST_NU
    if error(low) <= 0.0:
        return least
    return float(np.exp(brentq(error, low, high, xtol=1e-13, rtol=1e-14)))


def log_less_digamma(x: Any) -> Any:
    """ln x - psi(x) without cancellation for large x: Abramowitz and Stegun 6.3.18."""
    x = np.asarray(x, dtype=np.float64)
    large = np.maximum(x, 30.0)
    y = (1.0 / large) ** 2  # large**2 may overflow
    series = 0.5 / large + y * (1 / 12 - y * (1 / 120 - y * (1 / 252 - y / 240)))
    return np.where(x >= 30.0, series, np.log(x) - digamma(x))


def _weighted_squares(R: Any, w: Array) -> Array:
    """(d,) sums of w r^2 over the rows of R (c, d), in pieces that stay in the cache."""
    if not isinstance(R, np.ndarray):
        return np.asarray(R.power(2).T @ w)
    total = np.zeros(R.shape[1])
    step = max(16, PIECE_CELLS // max(R.shape[1], 1))
    for start in range(0, len(R), step):
        piece = R[start : start + step].astype(np.float64, copy=False)
        total += w[start : start + step] @ (piece * piece)
    return total
