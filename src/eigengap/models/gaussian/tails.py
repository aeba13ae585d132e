"""Logarithms of chi-squared and F tail probabilities, also where the probabilities underflow.

SciPy's `logsf` of both is the logarithm of `sf`, -inf from about 1 500 on. An outlier of D2 = 5 000
and one of 50 000 must still differ, so beyond 1e-280 the tail comes from the continued
fraction of the incomplete gamma and beta functions (Lentz's method; DLMF 8.9.2 and 8.17.22), which
converges fastest there.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy import special

from eigengap.linalg import Array

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
