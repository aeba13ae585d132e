"""How many components: the criterion behind n_components="auto".

The Bayesian information criterion of the observed-data likelihood (Schwarz 1978),

    BIC(q) = -2 ln L(q) + k(q) ln m,

with k(q) free parameters and m the mean number of rows in which a feature was seen. It needs
nothing but maximised likelihoods, so that one rule serves complete data (where all q come from one
spectrum), data with gaps and factor analysis alike; it is consistent where m grows, and it does not
depend on the order or the units of the rows. q is kept to half of the rows, beyond which the
likelihood of a d x d covariance from fewer than d rows degenerates.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf, lgamma, log, pi

import numpy as np

from eigengap.linalg import Array
from eigengap.spectrum import Spectrum

PATIENCE = 3  # values of q that may be worse in a row before the search ends


@dataclass(frozen=True)
class RankChoice:
    """A number of components and why."""

    n_components: int
    criterion: str
    curve: dict[int, float]  # criterion at each q that was tried; the smallest wins
    summary: str


def ppca_parameters(d: int, q: int) -> int:
    """Free parameters of PPCA: W up to rotation, mu, sigma2."""
    return d * q - q * (q - 1) // 2 + d + 1


def factor_parameters(d: int, q: int) -> int:
    """Free parameters of factor analysis: W up to rotation, mu, psi."""
    return d * q - q * (q - 1) // 2 + 2 * d


def largest_rank(d: int, rows_seen: float) -> int:
    """Most components considered: q < d, and two rows for each."""
    return max(min(d - 1, int(rows_seen) // 2), 1)


def rank_from_spectrum(spectrum: Spectrum) -> RankChoice:
    """BIC of PPCA from the spectrum of complete data: every q at once, no fit."""
    # At q = rank there is no noise left and the likelihood is infinite: that is the rank then.
    most = min(largest_rank(spectrum.d, spectrum.sum_w), spectrum.rank())
    curve = {
        q: -2.0 * spectrum.log_likelihood(q) + ppca_parameters(spectrum.d, q) * log(spectrum.sum_w)
        for q in range(1, max(most, 1) + 1)
    }
    return _chosen(curve)


def rank_by_fits(
    log_likelihood: Callable[[int], float],
    parameters: Callable[[int, int], int],
    d: int,
    rows_seen: float,
) -> RankChoice:
    """BIC from one fit per q: upwards from 1 to its first minimum.

    The first, not the least: with gaps the likelihood of a model with about as many components as
    a row has seen cells grows without bound, and BIC falls again. Steps grow with q; the q that a
    step passed over beside the minimum are tried at the end.
    """
    most = largest_rank(d, rows_seen)
    curve: dict[int, float] = {}

    def bic(q: int) -> float:
        if q not in curve:
            curve[q] = -2.0 * log_likelihood(q) + parameters(d, q) * log(max(rows_seen, 2.0))
        return curve[q]

    q = best = 1
    risen = 0
    while q <= most and risen < PATIENCE:
        if bic(q) < bic(best) or q == 1:
            best, risen = q, 0
        else:
            risen += 1
        q += max(1, q // 8)
    step = max(1, best // 8)
    for beside in range(max(best - step + 1, 1), min(best + step, most + 1)):
        bic(beside)
    return _chosen(dict(sorted(curve.items())))


def rank_for_fraction(explained: Callable[[int], float], fraction: float, most: int) -> int:
    """Fewest components that explain `fraction` of the variance, where each q needs a fit.

    Takes the share explained to grow with q: doubling, then bisection.
    """
    low, high = 0, 1  # explained(low) < fraction
    while high < most and explained(high) < fraction:
        low, high = high, min(2 * high, most)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if explained(middle) >= fraction else (middle, high)
    return high


def minka_rank(spectrum: Spectrum) -> int:
    """Number of components of largest evidence (Minka 2000), as scikit-learn's "mle"."""
    if not spectrum.complete or spectrum.sum_w < spectrum.d:
        raise ValueError(
            'n_components="mle" needs all eigenvalues, and at least as many rows as '
            'columns; use "auto" instead'
        )
    lam = spectrum.explained_variance(len(spectrum.lam))
    evidence = [_log_evidence(lam, q, spectrum.sum_w) for q in range(1, len(lam))]
    return int(np.argmax(evidence)) + 1 if evidence else 1


def _log_evidence(lam: Array, q: int, n: float) -> float:
    """Minka (2000), Eq. 77: Laplace's approximation to ln p(data | q)."""
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


def _chosen(curve: dict[int, float]) -> RankChoice:
    best = min(curve, key=lambda q: (curve[q], q))
    others = sorted(q for q in curve if abs(q - best) == 1)
    margins = ", ".join(f"k = {q} is worse by {curve[q] - curve[best]:.1f}" for q in others)
    return RankChoice(
        n_components=best,
        criterion="BIC",
        curve=curve,
        summary=f"k = {best}: smallest BIC" + (f"; {margins}" if margins else ""),
    )
