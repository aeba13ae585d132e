"""The law of a new row's distances when the parameters were estimated.

With known parameters D2, T2 and SPE are chi-squared (`novelty`). Estimates make the model fit its
own rows too well and new rows too badly: on 50 x 20 with 5 components 22 to 26 % of new rows that
follow the model have a chi-squared p-value below 5 %. The classical answer is an F law:

    T2  ~ rank (n + 1) / (n - q) F(rank, n - q)                           Hotelling 1931
    SPE ~ k c F(k, nu_k),   c = (1 + h) / (1 - h),   k = p - rank

from n rows. Column j was observed in n_j of them, and its 1 + q parameters are those of a
regression on latents that have to be inferred from the other columns, with residual variance rho_j
psi_j, where rho_j = Var(x_j | the others) / psi_j: they take up h_j = (1 + q) rho_j / n_j of what
is known of its noise. h is the mean of h_j; 1 + h is what errors of the parameters add to a new
residual, 1 - h what fitting them took away from the estimated noise. nu_1 = mean n_j (1 - h_j)
degrees of freedom determine one column's noise. A variance common to all columns has nu_k = (d - q)
nu_1; a sum of k terms F(1, nu_1), one variance each, has the variance of k F(k, nu_k) with nu_k =
(k + 2) nu_1 / 3.

The mean of T2 + SPE is no larger than that of D2 for the unrestricted Gaussian, which has more
parameters than any model here: p (n + 1) / (n - p - 2). D2 follows the F law that has the mean and
variance of the sum of the two. As n grows all of it is chi-squared again. An approximation: its
constants were checked by simulation, not derived beyond first order in 1 / n. Of new rows 4 to 6 %
lie below 5 %, from 30 rows on and with 30 % of the cells missing too (`benchmarks/novelty.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special

from eigengap.linalg import Array
from eigengap.models.gaussian.linear_gaussian import LinearGaussian
from eigengap.models.gaussian.novelty import Distances

LEAST_DOF = 5.0  # below a line; its variance, which is matched, needs more than 4
MOST_FITTED = 0.9  # of what is known of a column's noise, taken up by parameters

Counts = NDArray[np.intp] | Array  # degrees of freedom, whole or not


@dataclass(frozen=True)
class Reference:
    """What the statistics of a new row are compared with.

    The defaults are known parameters: chi-squared, exactly.
    """

    n: float = np.inf  # rows, by weight
    n_observed: float = np.inf  # mean of n_j
    h: float = 0.0
    nu_1: float = np.inf
    q: int = 0
    pooled: int = 0  # d - q where all columns share a noise variance, 0 where each has its own

    @classmethod
    def of(cls, model: LinearGaussian, n: float, observed: Array, rho: Array) -> Reference:
        """After a fit to n rows with `observed` (d,) values per column and ratios rho (d,)."""
        h = np.minimum((1 + model.q) * rho / np.maximum(observed, 1.0), MOST_FITTED)
        return cls(
            n=n,
            n_observed=float(np.mean(observed)),
            h=float(np.mean(h)),
            nu_1=max(float(np.mean(observed * (1.0 - h))), LEAST_DOF),
            q=model.q,
            pooled=max(model.d - model.q, 1) if model.is_isotropic else 0,
        )

    @property
    def is_exact(self) -> bool:
        return not np.isfinite(self.n)

    def log_p_T2(self, found: Distances) -> Array:
        """ln P(a new row's T2 is larger): (n,)."""
        return _log_p(found.T2, found.rank, *self._latent())

    def log_p_SPE(self, found: Distances) -> Array:
        """ln P(a new row's SPE is larger): (n,)."""
        law = self._residual(found.observed, found.rank)
        return _log_p(found.SPE, found.observed - found.rank, *law)

    def log_p_D2(self, D2: Array, observed: Counts) -> Array:
        """ln P(a new row's D2 is larger): (n,), the rank taken to be min(p, q)."""
        if self.is_exact:
            return _log_p(D2, observed, 1.0, np.inf)
        rank = np.minimum(observed, self.q)
        mean_T2, variance_T2 = _moments(rank, *self._latent())
        mean, variance = _moments(observed - rank, *self._residual(observed, rank))
        return _log_p(D2, observed, *_matched(observed, mean_T2 + mean, variance_T2 + variance))

    # ---------------------------------------------------------------------------------------

    def _latent(self) -> tuple[float, float]:
        """Scale and second degrees of freedom of T2 / rank."""
        if self.is_exact:
            return 1.0, np.inf
        dof2 = max(self.n - self.q, LEAST_DOF)
        return (self.n + 1.0) / dof2, dof2

    def _residual(self, observed: Counts, rank: Counts) -> tuple[Array | float, Array | float]:
        """Scale and second degrees of freedom of SPE / k."""
        if self.is_exact:
            return 1.0, np.inf
        k = observed - rank
        each = (k + 2) / 3.0 if not self.pooled else np.full(len(k), float(self.pooled))
        dof2 = np.maximum(each * self.nu_1, LEAST_DOF)
        c = (1.0 + self.h) / (1.0 - self.h)
        left = self.n_observed - observed - 2.0
        most = (
            observed * (self.n_observed + 1.0) / np.maximum(left, 1e-9)
            - _moments(rank, *self._latent())[0]
        )
        bound = most / np.maximum(_moments(k, 1.0, dof2)[0], 1e-9)
        return np.where((left > 0) & (bound > 1.0), np.minimum(c, bound), c), dof2


def _log_p(value: Array, dof: Counts, scale: Array | float, dof2: Array | float) -> Array:
    return log_tail(value / scale, np.asarray(dof, float), np.asarray(dof2, float))


def _moments(dof: Counts, scale: Array | float, dof2: Array | float) -> tuple[Array, Array]:
    """Mean and variance of dof scale F(dof, dof2); 0 where dof is 0."""
    a, b = np.asarray(dof, float), np.asarray(dof2, float)
    mean = a * scale * b / (b - 2.0)
    variance = mean**2 * 2.0 * (a + b - 2.0) / (np.maximum(a, 1.0) * (b - 4.0))
    return np.asarray(mean), np.asarray(variance)


def _matched(dof: Counts, mean: Array, variance: Array) -> tuple[Array, Array]:
    """Scale and dof2 such that dof scale F(dof, dof2) has this mean and variance."""
    a = np.maximum(np.asarray(dof, float), 1.0)
    mean = np.where(mean > 0, mean, a)  # no observed value, nothing to match
    # For chi-squared variance = 2 mean^2 / a; F has more, by (a + b - 2) / (b - 4).
    excess = np.maximum(variance * a / (2.0 * mean**2), 1.0 + 1e-9)
    dof2 = np.maximum((a - 2.0 + 4.0 * excess) / (excess - 1.0), LEAST_DOF)
    return mean / a * (dof2 - 2.0) / dof2, dof2


# Tail probabilities -----------------------------------------------------------------------------
#
# Of chi-squared and F variables, also where the probabilities underflow. SciPy's `logsf` of both is
# the logarithm of `sf`, -inf from about 1 500 on. An outlier of D2 = 5 000 and one of 50 000 must
# still differ, so beyond 1e-280 the tail comes from the continued fraction of the incomplete gamma
# and beta functions (Lentz's method; DLMF 8.9.2 and 8.17.22), which converges fastest there.

UNDERFLOW = 1e-280
TERMS = 500  # at most; far out in a tail a few dozen do
TINY = 1e-290
NEARLY_INFINITE = 1e8  # degrees of freedom below the line from which F is taken for chi-squared

# k -> (numerators, denominators) of the k-th fraction
Fractions = Callable[[int], tuple[Array, Array]]


def log_tail(x: Array, dof: Array, dof2: Array) -> Array:
    """ln P(dof F > x), F of dof and dof2 degrees of freedom; dof2 = inf is chi-squared of dof.

    0 where there is no degree of freedom: nothing was observed that could be unusual.
    """
    x, dof, dof2 = (np.array(a, dtype=np.float64) for a in np.broadcast_arrays(x, dof, dof2))
    result = np.zeros(x.shape)
    certain = (dof > 0) & (dof2 >= NEARLY_INFINITE)
    result[certain] = _log_chi2_tail(x[certain], dof[certain])
    estimated = (dof > 0) & (dof2 < NEARLY_INFINITE)
    result[estimated] = _log_f_tail(x[estimated], dof[estimated], dof2[estimated])
    return result


def _log_chi2_tail(x: Array, dof: Array) -> Array:
    """ln Q(a, t) with a = dof / 2, t = x / 2."""
    tail = special.chdtrc(dof, x)
    far = tail < UNDERFLOW
    result = np.log(np.where(far, 1.0, tail))
    a, t = dof[far] / 2, x[far] / 2

    def fractions(k: int) -> tuple[Array, Array]:
        return k * (a - k), t - a + 1 + 2 * k

    fraction = _lentz(fractions, t - a + 1)
    result[far] = a * np.log(t) - t - special.gammaln(a) - np.log(fraction)
    return np.asarray(result)


def _log_f_tail(x: Array, dof: Array, dof2: Array) -> Array:
    """ln I_y(a, b) with a = dof2 / 2, b = dof / 2, y = dof2 / (dof2 + x)."""
    tail = special.betainc(dof2 / 2, dof / 2, dof2 / (dof2 + x))
    far = tail < UNDERFLOW
    result = np.log(np.where(far, 1.0, tail))
    a, b = dof2[far] / 2, dof[far] / 2
    y = dof2[far] / (dof2[far] + x[far])

    def fractions(k: int) -> tuple[Array, Array]:
        m = k // 2
        if k % 2 == 0:
            numerator = m * (b - m) * y / ((a + 2 * m - 1) * (a + 2 * m))
        else:
            numerator = -(a + m) * (a + b + m) * y / ((a + 2 * m) * (a + 2 * m + 1))
        return numerator, np.ones_like(y)

    fraction = _lentz(fractions, np.ones_like(y))
    log_front = a * np.log(y) + b * np.log1p(-y) - np.log(a) - special.betaln(a, b)
    result[far] = log_front - np.log(fraction)
    return np.asarray(result)


def _lentz(fractions: Fractions, start: Array) -> Array:
    """start + n_1 / (d_1 + n_2 / (d_2 + ...)) by the modified method of Lentz."""
    value = np.where(np.abs(start) < TINY, TINY, start)
    C, D = value, np.zeros_like(value)
    for k in range(1, TERMS):
        numerator, denominator = fractions(k)
        D = denominator + numerator * D
        D = 1.0 / np.where(np.abs(D) < TINY, TINY, D)
        C = denominator + numerator / C
        C = np.where(np.abs(C) < TINY, TINY, C)
        value = value * C * D
        if np.all(np.abs(C * D - 1.0) < 1e-14):
            break
    return np.asarray(value)
