"""Criteria that are functions of the spectrum alone.

`spectrum` holds eigenvalues lam of the covariance at divisor n; each criterion gives the number of
components that it picks and its curve.
"""

from __future__ import annotations

from functools import lru_cache
from math import sqrt

import numpy as np

from eigengap.selection.rank.choice import Curve, DoesNotApplyError
from eigengap.spectrum import Spectrum

SIGNIFICANCE = 0.05  # of Bartlett's test


def largest_eigengap(spectrum: Spectrum, most: int) -> tuple[int, Curve]:
    """The largest drop of the eigenspectrum (000 section 2.4), as the ratio lam_q / lam_q+1.

    The ratio, not the difference, for it does not depend on the size of the first eigenvalues (Ahn
    and Horenstein 2013). q goes to half of the rows and columns: the last eigenvalues of a short
    table fall off by themselves.
    """
    lam = spectrum.lam[: spectrum.rank() + 1]
    last = min(most, max(len(spectrum.lam) // 2, 1), len(lam) - 1)
    if last < 1:
        raise DoesNotApplyError("there is one eigenvalue, so that there is no gap")
    floor = float(lam[0]) * np.finfo(np.float64).eps ** 2
    values = {q: float(lam[q - 1] / max(lam[q], floor)) for q in range(1, last + 1)}
    curve = Curve.of(values, "higher", "eigenvalue over the next one")
    return curve.highest(), curve


def within_tolerance(spectrum: Spectrum, tolerance: float, most: int) -> tuple[int, Curve]:
    """Fewest components that leave less than a share epsilon of the variance (000 section 2.4)."""
    last = min(most, len(spectrum.lam))
    values = {q: spectrum.discarded_variance(q) / spectrum.total for q in range(last + 1)}
    curve = Curve.of(values, "at most tolerance", "share of the variance that is left out")
    reached = [q for q, left in values.items() if left < tolerance]
    if not reached:
        raise DoesNotApplyError(
            f"{last} components leave {100 * values[last]:.0f} % of the variance, more than the "
            f"tolerance of {100 * tolerance:g} %"
        )
    return reached[0], curve


def bartlett(
    spectrum: Spectrum, most: int, level: float = SIGNIFICANCE, *, fit_mean: bool = True
) -> tuple[int, Curve]:
    """Fewest components after which the remaining eigenvalues pass as equal.

    The likelihood-ratio test of sphericity of the remainder,

        c_q (r ln mean(lam_q+1 .. lam_d) - sum ln lam_j),   r = d - q,

    is chi-squared with (r + 2)(r - 1) / 2 degrees of freedom, with c_q = n - 1 - q
    - (2 r^2 + r + 2) / 6 r + sum_k mean^2 / (lam_k - mean)^2 (Bartlett 1954, Lawley 1956).
    The curve holds its p-values.
    """
    import scipy.stats

    d, n = spectrum.d, spectrum.sum_w - (1.0 if fit_mean else 0.0)
    lam = spectrum.lam
    if not spectrum.complete or len(lam) < d or n <= d or spectrum.rank() < d:
        raise DoesNotApplyError("it needs more rows than columns, and no exact dependence")
    values: dict[int, float] = {}
    for q in range(min(most, d - 2) + 1):
        r = d - q
        mean = float(np.mean(lam[q:]))
        c = n - q - (2 * r * r + r + 2) / (6.0 * r)
        c += float(np.sum((mean / np.maximum(lam[:q] - mean, 1e-3 * mean)) ** 2))
        statistic = c * (r * np.log(mean) - float(np.sum(np.log(lam[q:]))))
        values[q] = float(scipy.stats.chi2.sf(max(statistic, 0.0), (r + 2) * (r - 1) / 2))
    curve = Curve.of(values, "above level", "p-value of equal remaining eigenvalues")
    accepted = [q for q, p in values.items() if p > level]
    return (accepted[0] if accepted else min(most, d - 1)), curve


def gavish_donoho(spectrum: Spectrum, *, fit_mean: bool = True) -> tuple[int, Curve]:
    """Singular values above the optimal hard threshold for unknown noise (Gavish, Donoho 2014).

    omega(beta) times the median singular value, omega = lambda(beta) / sqrt(median of the
    Marchenko-Pastur law), lambda(beta)^2 = 2 (beta + 1) + 8 beta / (beta + 1 + sqrt(beta^2 + 14
    beta + 1)), beta the shorter side over the longer. The curve holds each singular value over the
    threshold.
    """
    n = spectrum.sum_w - (1.0 if fit_mean else 0.0)
    short = int(min(n, spectrum.d))
    if not spectrum.complete or len(spectrum.lam) < short or short < 2:
        raise DoesNotApplyError("it needs the whole spectrum")
    s = np.sqrt(spectrum.lam[:short])
    median = float(np.median(s))
    if median <= 1e-9 * s[0]:
        raise DoesNotApplyError("more than half of the eigenvalues are zero: there is no noise")
    ratio = s / (median * omega(short / max(n, spectrum.d)))
    values = {k + 1: float(value) for k, value in enumerate(ratio)}
    curve = Curve.of(values, "above 1", "k-th singular value over the optimal threshold")
    return int(np.sum(ratio > 1.0)), curve


def omega(beta: float) -> float:
    """The threshold in units of the median singular value; omega(1) = 2.858."""
    return threshold(beta) / sqrt(_marchenko_pastur_median(round(beta, 12)))


def threshold(beta: float) -> float:
    """The threshold in units of the noise, sqrt(n) sigma; 4 / sqrt(3) at beta = 1 (Eq. 11)."""
    return sqrt(2 * (beta + 1) + 8 * beta / (beta + 1 + sqrt(beta * beta + 14 * beta + 1)))


@lru_cache(maxsize=256)
def _marchenko_pastur_median(beta: float) -> float:
    """Median of the Marchenko-Pastur law of ratio beta <= 1 and unit variance."""
    import scipy.integrate
    import scipy.optimize

    low, high = (1 - sqrt(beta)) ** 2, (1 + sqrt(beta)) ** 2
    middle, radius = (low + high) / 2, (high - low) / 2

    def mass(angle: float) -> float:  # t = middle - radius cos(angle) takes the roots away
        def density(a: float) -> float:
            t = middle - radius * np.cos(a)
            return float((radius * np.sin(a)) ** 2 / (2 * np.pi * beta * max(t, 1e-300)))

        return float(scipy.integrate.quad(density, 0.0, angle)[0])

    angle = scipy.optimize.brentq(lambda a: mass(a) - 0.5, 0.0, np.pi)
    return float(middle - radius * np.cos(angle))
