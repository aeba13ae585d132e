"""The likelihood-ratio test of q factors against an unrestricted covariance."""

from __future__ import annotations

from math import log, pi

import numpy as np

from eigengap.fitting.gaussian.factor_covariance import fit_factors
from eigengap.selection.rank.choice import Curve, DoesNotApplyError
from eigengap.selection.rank.information import most_factors
from eigengap.selection.rank.spectral import SIGNIFICANCE
from eigengap.sources import Source
from eigengap.statistics.moments import Moments


def factor_test(source: Source, most: int, level: float = SIGNIFICANCE) -> tuple[int, Curve]:
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
    last = min(most, most_factors(d))
    for q in range(last + 1):
        dof = ((d - q) ** 2 - d - q) / 2
        if dof <= 0:
            break
        per_row = fit_factors(S, q, tol=1e-6).log_likelihood_per_row
        gain = -2.0 * per_row - d * log(2 * pi) - d - float(log_det)
        statistic = (n - 1 - (2 * d + 5) / 6 - 2 * q / 3) * gain
        values[q] = float(scipy.stats.chi2.sf(max(statistic, 0.0), dof))
        if values[q] > level:
            break
    if not values:
        raise DoesNotApplyError(f"{d} columns have too few correlations to test one factor")
    curve = Curve.of(values, "above level", "p-value of no more than q factors")
    accepted = [q for q, p in values.items() if p > level]
    if not accepted:
        raise DoesNotApplyError(f"it rejects every number of factors up to {max(values)}")
    return accepted[0], curve
