"""Criteria for the number of components that need no more than a spectrum or a likelihood.

`spectrum` holds eigenvalues lam of the covariance at divisor n; each criterion gives the number of
components that it picks and its curve. With missing values the spectrum is `incomplete_spectrum`.

    BIC(q) = -2 ln L(q) + k(q) ln m   (Schwarz 1978)

with k(q) free parameters and m the mean number of rows in which a feature is observed, needs
nothing but maximised likelihoods, so that one rule serves complete data (where all q come from one
spectrum), data with missing values and factor analysis alike.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from math import inf, lgamma, log, pi, sqrt

import numpy as np

from eigengap.fitting.gaussian.factor_covariance import fit_factors
from eigengap.fitting.gaussian.fit import fit_ppca
from eigengap.fitting.gaussian.problem import EMOptions
from eigengap.linalg import Array
from eigengap.models.gaussian.linear_gaussian import LinearGaussian
from eigengap.selection.rank.choice import Curve, DoesNotApplyError
from eigengap.selection.rank.search import first_minimum, most_factors
from eigengap.sources import Block, Source
from eigengap.spectrum import Spectrum
from eigengap.statistics.additive import Additive
from eigengap.statistics.moments import Moments
from eigengap.wording import counted

SIGNIFICANCE = 0.05  # of Bartlett's tests
BIC = "BIC of the observed-data likelihood"
LOOSE = EMOptions(tol=1e-3, max_iter=200)
WIDEST = 2000  # columns of which all pairs are compared


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
    ratio = lam[:last] / np.maximum(lam[1 : last + 1], floor)
    curve = Curve.from_first(ratio, "higher", "eigenvalue over the next one")
    return curve.highest(), curve


def within_tolerance(spectrum: Spectrum, tolerance: float, most: int) -> tuple[int, Curve]:
    """Fewest components that leave less than a share epsilon of the variance (000 section 2.4)."""
    last = min(most, len(spectrum.lam))
    values = {q: spectrum.discarded_variance(q) / spectrum.total for q in range(last + 1)}
    curve = Curve.of(values, "at most tolerance", "share of the variance that is left out")
    reached = [q for q, left in values.items() if left < tolerance]
    if not reached:
        raise DoesNotApplyError(
            f"{counted(last, 'component', 'leave')} {100 * values[last]:.0f} % of the variance, "
            f"more than the tolerance of {100 * tolerance:g} %"
        )
    return reached[0], curve


def bartlett(spectrum: Spectrum, most: int) -> tuple[int, Curve]:
    """Fewest components after which the remaining eigenvalues pass as equal.

    The likelihood-ratio test of sphericity of the remainder,

        c_q (r ln mean(lam_q+1 .. lam_d) - sum ln lam_j),   r = d - q,

    is chi-squared with (r + 2)(r - 1) / 2 degrees of freedom, with c_q = n - 1 - q
    - (2 r^2 + r + 2) / 6 r + sum_k mean^2 / (lam_k - mean)^2 (Bartlett 1954, Lawley 1956).
    The curve holds its p-values.
    """
    import scipy.stats

    d, n = spectrum.d, spectrum.sum_w - 1.0
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
    accepted = [q for q, p in values.items() if p > SIGNIFICANCE]
    return (accepted[0] if accepted else min(most, d - 1)), curve


def factor_test(source: Source, most: int) -> tuple[int, Curve]:
    """Fewest factors that are not rejected (Bartlett 1951; Lawley and Maxwell 1971, Eq. 4.11).

        (n - 1 - (2 d + 5) / 6 - 2 q / 3) (ln |C| - ln |S|)

    is chi-squared with ((d - q)^2 - d - q) / 2 degrees of freedom. The curve holds its p-values.
    """
    import scipy.stats

    if source.has_missing:
        raise DoesNotApplyError("it needs complete data")
    moments = source.reduce(Moments.of)
    S = moments.scatter / moments.sum_w
    d, n = len(S), moments.sum_w
    sign, log_det = np.linalg.slogdet(S)
    if n <= d + 1 or sign <= 0 or np.any(np.diagonal(S) <= 0.0):
        raise DoesNotApplyError("it needs more rows than columns, and no exact dependence")
    values: dict[int, float] = {}
    for q in range(min(most, most_factors(d)) + 1):
        dof = ((d - q) ** 2 - d - q) / 2
        if dof <= 0:
            break
        per_row = fit_factors(S, q, tol=1e-6).log_likelihood_per_row
        gain = -2.0 * per_row - d * log(2 * pi) - d - float(log_det)
        statistic = (n - 1 - (2 * d + 5) / 6 - 2 * q / 3) * gain
        values[q] = float(scipy.stats.chi2.sf(max(statistic, 0.0), dof))
        if values[q] > SIGNIFICANCE:
            break
    if not values:
        raise DoesNotApplyError(f"{d} columns have too few correlations to test one factor")
    curve = Curve.of(values, "above level", "p-value of no more than q factors")
    last = max(values)
    if values[last] <= SIGNIFICANCE:
        raise DoesNotApplyError(f"it rejects every number of factors up to {last}")
    return last, curve


def gavish_donoho(spectrum: Spectrum) -> tuple[int, Curve]:
    """Singular values above the optimal hard threshold for unknown noise (Gavish, Donoho 2014).

    omega(beta) times the median singular value, omega = lambda(beta) / sqrt(median of the
    Marchenko-Pastur law), lambda(beta)^2 = 2 (beta + 1) + 8 beta / (beta + 1 + sqrt(beta^2 + 14
    beta + 1)), beta the shorter side over the longer. The curve holds each singular value over the
    threshold.
    """
    n = spectrum.sum_w - 1.0
    short = int(min(n, spectrum.d))
    if not spectrum.complete or len(spectrum.lam) < short or short < 2:
        raise DoesNotApplyError("it needs the whole spectrum")
    s = np.sqrt(spectrum.lam[:short])
    median = float(np.median(s))
    if median <= 1e-9 * s[0]:
        raise DoesNotApplyError("more than half of the eigenvalues are zero: there is no noise")
    ratio = s / (median * omega(short / max(n, spectrum.d)))
    curve = Curve.from_first(ratio, "above 1", "k-th singular value over the optimal threshold")
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


def ppca_parameters(d: int, q: int) -> int:
    """Free parameters of PPCA: W up to rotation, mu, sigma2.

    q = d - 1 is any covariance already, so that q = d has no more.

    >>> [ppca_parameters(4, q) for q in range(5)]
    [5, 9, 12, 14, 14]
    """
    return _parameters(d, q, noise=1)


def factor_parameters(d: int, q: int) -> int:
    """Free parameters of factor analysis: W up to rotation, mu, psi.

    No more than those of any covariance, which it reaches at Ledermann's bound.

    >>> [factor_parameters(4, q) for q in range(4)]
    [8, 12, 14, 14]
    """
    return _parameters(d, q, noise=d)


def _parameters(d: int, q: int, noise: int) -> int:
    loadings = d * q - q * (q - 1) // 2  # which rotations leave
    return d + min(loadings + noise, d * (d + 1) // 2)


def bic_from_spectrum(spectrum: Spectrum, most: int) -> Curve:
    """BIC of PPCA from the spectrum of complete data: every q at once, no fit."""
    # At q = rank there is no noise left and the likelihood is infinite: that is the rank then.
    last = max(min(most, spectrum.rank()), 1)
    values = [
        -2.0 * spectrum.log_likelihood(q) + ppca_parameters(spectrum.d, q) * log(spectrum.sum_w)
        for q in range(1, last + 1)
    ]
    return Curve.from_first(values, "lower", BIC)


def bic_by_fits(
    log_likelihood: Callable[[int], float],
    parameters: Callable[[int, int], int],
    d: int,
    rows_observed: float,
    most: int,
) -> Curve:
    """BIC from one fit per q: upwards from 1 to its first minimum.

    The first, not the least: with missing values the likelihood of a model with about as many
    components as a row has observed values grows without bound, and BIC falls again.
    """

    def bic(q: int) -> float:
        return -2.0 * log_likelihood(q) + parameters(d, q) * log(max(rows_observed, 2.0))

    return Curve.of(first_minimum(bic, 1, most), "lower", BIC)


def minka_rank(spectrum: Spectrum) -> int:
    """Number of components of largest evidence (Minka 2000), as scikit-learn's "mle"."""
    try:
        return minka_evidence(spectrum, len(spectrum.lam) - 1).highest()
    except DoesNotApplyError:
        raise ValueError(
            "n_components='mle' is only supported if n_samples >= n_features: it needs all "
            "eigenvalues. Use 'auto' instead"
        ) from None


def minka_evidence(spectrum: Spectrum, most: int) -> Curve:
    """Laplace's approximation to ln p(data | q), for q from 1 (Minka 2000, Eq. 77)."""
    if not spectrum.complete or spectrum.sum_w < spectrum.d:
        raise DoesNotApplyError("it needs at least as many rows as columns")
    lam = spectrum.explained_variance(len(spectrum.lam))
    if not lam[0] > 0.0:
        raise DoesNotApplyError("all rows are equal")
    # In units in which nothing underflows; that changes the evidence by the same for all q.
    unit, n = float(np.mean(lam)), spectrum.sum_w
    last = min(max(most, 1), len(lam) - 1)
    of_unit = -0.5 * n * len(lam) * log(unit)
    values = [_log_evidence(lam / unit, q, n) + of_unit for q in range(1, last + 1)]
    return Curve.from_first(values or [0.0], "higher", "ln evidence (Minka 2000)")


def _log_evidence(lam: Array, q: int, n: float) -> float:
    d = len(lam)
    if lam[q - 1] < 1e-15:
        return -inf
    volume = -q * log(2.0) + sum(lgamma((d - i) / 2.0) - log(pi) * (d - i) / 2.0 for i in range(q))
    sigma2 = max(float(np.sum(lam[q:])) / (d - q), 1e-15)
    fit = -0.5 * n * (float(np.sum(np.log(lam[:q]))) + log(sigma2) * (d - q))
    m = d * q - q * (q + 1) / 2.0
    constant = log(2.0 * pi) * (m + q) / 2.0
    estimated = np.concatenate([lam[:q], np.full(d - q, sigma2)])
    log_hessian = 0.0
    for i in range(q):
        differences = (lam[i] - lam[i + 1 :]) * (1.0 / estimated[i + 1 :] - 1.0 / estimated[i])
        log_hessian += float(np.sum(np.log(np.maximum(differences, 1e-300)))) + log(n) * (d - i - 1)
    return volume + fit + constant - 0.5 * log_hessian - 0.5 * q * log(n)


# With missing values -----------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class PairScatter(Additive):
    """Sums over rows of w r_j r_k, and of w where both are observed: (d, d) each."""

    scatter: Array
    pairs: Array

    @classmethod
    def of(cls, model: LinearGaussian, block: Block) -> PairScatter:
        values = np.asarray(block.values, dtype=np.float64)
        observed = ~np.isnan(values)
        expected = model.posterior_mean(values) @ model.W.T + model.mu
        r = np.where(observed, values - expected, 0.0)
        w = np.ones((len(values), 1)) if block.weight is None else block.weight[:, None]
        m = observed.astype(np.float64)
        return cls((r * w).T @ r, (m * w).T @ m)


def incomplete_spectrum(source: Source, q: int) -> Spectrum:
    """The spectrum of a table with missing values.

    A fitted PPCA has q eigenvalues and one noise variance. The others are taken from the observed
    residuals: their covariance, pair of columns by pair of columns over the rows that show both,
    within the d - q directions that the components leave, scaled to the model's noise variance. It
    has the sampling error of a covariance of as many rows as show a pair of columns on average, and
    this is the number of rows that criteria of the spectrum are given.
    """
    d = source.n_features
    if d > WIDEST:
        raise DoesNotApplyError(
            f"with missing values and over {WIDEST} columns there is no spectrum"
        )
    model = fit_ppca(source, q, options=LOOSE).model
    sums = source.reduce(partial(PairScatter.of, model))
    rows = float(np.mean(sums.pairs))
    axes, lam = model.principal_axes()
    rest = np.linalg.qr(axes, mode="complete")[0][:, q:]  # (d, d - q)
    C = sums.scatter / np.maximum(sums.pairs, 1.0)
    tail = np.linalg.eigvalsh(rest.T @ C @ rest)[::-1]
    sigma2 = float(model.psi[0])
    if float(np.sum(tail)) > 0.0:
        tail = tail * (sigma2 * (d - q) / float(np.sum(tail)))
    total = float(np.sum(lam)) + sigma2 * (d - q)
    every = np.concatenate([lam, np.maximum(tail, 1e-6 * sigma2)])
    known = min(d, int(rows) - 1)  # beyond, a covariance of so few rows has zeros
    return Spectrum(
        lam=np.sort(every)[::-1][: max(known, q)],
        total=total,
        sum_w=rows,
        d=d,
        complete=known >= d,
    )
