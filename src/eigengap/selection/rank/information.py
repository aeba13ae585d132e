"""Information criteria: BIC of the observed-data likelihood, and Minka's evidence.

    BIC(q) = -2 ln L(q) + k(q) ln m   (Schwarz 1978)

with k(q) free parameters and m the mean number of rows in which a feature is observed. It needs
nothing but maximised likelihoods, so that one rule serves complete data (where all q come from one
spectrum), data with missing values and factor analysis alike.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf, lgamma, log, pi

import numpy as np

from eigengap.linalg import Array
from eigengap.selection.rank.choice import Curve, DoesNotApplyError
from eigengap.selection.rank.search import first_minimum
from eigengap.spectrum import Spectrum

BIC = "BIC of the observed-data likelihood"


def ppca_parameters(d: int, q: int) -> int:
    """Free parameters of PPCA: W up to rotation, mu, sigma2.

    q = d - 1 is any covariance already, so that q = d has no more.

    >>> [ppca_parameters(4, q) for q in range(5)]
    [5, 9, 12, 14, 14]
    """
    return d + min(_loadings(d, q) + 1, d * (d + 1) // 2)


def factor_parameters(d: int, q: int) -> int:
    """Free parameters of factor analysis: W up to rotation, mu, psi.

    No more than those of any covariance, which it reaches at Ledermann's bound.

    >>> [factor_parameters(4, q) for q in range(4)]
    [8, 12, 14, 14]
    """
    return d + min(_loadings(d, q) + d, d * (d + 1) // 2)


def _loadings(d: int, q: int) -> int:
    """Free parameters of W, which rotations leave."""
    return d * q - q * (q - 1) // 2


def largest_rank(d: int, rows_observed: float) -> int:
    """Most components considered: q < d, and two rows for each.

    Beyond half of the rows the likelihood of a d x d covariance degenerates.
    """
    return max(min(d - 1, int(rows_observed) // 2), 1)


def most_factors(d: int) -> int:
    """Most factors that d columns identify (Ledermann 1937): (d - q)^2 >= d + q."""
    return max(int((2 * d + 1 - (8 * d + 1) ** 0.5) / 2), 1)


def bic_from_spectrum(spectrum: Spectrum, most: int) -> Curve:
    """BIC of PPCA from the spectrum of complete data: every q at once, no fit."""
    # At q = rank there is no noise left and the likelihood is infinite: that is the rank then.
    last = max(min(most, spectrum.rank()), 1)
    values = {
        q: -2.0 * spectrum.log_likelihood(q) + ppca_parameters(spectrum.d, q) * log(spectrum.sum_w)
        for q in range(1, last + 1)
    }
    return Curve.of(values, "lower", BIC)


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
    values = {q: _log_evidence(lam / unit, q, n) + of_unit for q in range(1, last + 1)}
    values = values or {1: 0.0}
    return Curve.of(values, "higher", "ln evidence (Minka 2000)")


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
