"""Factor analysis: from the covariance on complete data, by EM where values are missing."""

from __future__ import annotations

import numpy as np

from eigengap.fitting.eigen.range import refuse_out_of_range, refuse_tiny_columns
from eigengap.fitting.gaussian.factor_covariance import fit_factors
from eigengap.fitting.gaussian.noise import MultivariateT, fit_by_em
from eigengap.fitting.gaussian.plan import needs_em
from eigengap.fitting.gaussian.problem import DEFAULT, FLOOR, EMOptions, GaussianFit, spectrum_of
from eigengap.fitting.optimise.loop import Trace
from eigengap.models.gaussian.linear_gaussian import LinearGaussian
from eigengap.sources.base import Source
from eigengap.statistics.moments import Moments


def fit_factor_analysis(
    source: Source,
    q: int,
    *,
    student: MultivariateT | None = None,
    options: EMOptions = DEFAULT,
) -> GaussianFit:
    """Maximum likelihood of x = W z + mu + e with one noise variance per feature."""
    has_start = options.start is not None
    if needs_em(source, "diagonal", is_gaussian=student is None, has_start=has_start):
        return fit_by_em(source, q, "diagonal", student=student, options=options)
    moments = source.reduce(Moments.of)
    total = float(np.trace(moments.scatter)) / moments.sum_w
    refuse_out_of_range(source, total, fit_mean=True)
    refuse_tiny_columns(source, np.diag(moments.scatter) / moments.sum_w)
    if total == 0.0:
        return fit_by_em(source, q, "diagonal", options=options)  # which knows a constant table
    return _from_moments(moments, q, options)


def _from_moments(moments: Moments, q: int, options: EMOptions) -> GaussianFit:
    """The fit of complete data: mean and covariance are all that it needs."""
    S = moments.scatter / moments.sum_w
    variance = np.diag(S).copy()
    # A constant column takes part in nothing: no loading, and the noise of the floor.
    varies = variance > 0
    psi = np.full(len(S), FLOOR * (float(np.mean(variance)) or 1.0))
    W = np.zeros((len(S), q))
    possible = max(min(q, int(np.sum(varies)) - 1), 0)
    solution = fit_factors(
        S[np.ix_(varies, varies)], possible, tol=min(options.tol, 1e-6), max_iter=options.max_iter
    )
    W[varies, :possible] = solution.W
    psi[varies] = solution.psi
    model = LinearGaussian(W=W, mu=moments.mean, psi=psi)
    log_likelihood = solution.log_likelihood_per_row * moments.sum_w
    log_likelihood -= 0.5 * moments.sum_w * float(np.sum(np.log(2 * np.pi * psi[~varies])))
    at_floor = [*np.flatnonzero(~varies), *np.flatnonzero(varies)[list(solution.heywood)]]
    return GaussianFit(
        model=model,
        axes=model.principal_axes()[0],
        spectrum=spectrum_of(model, moments.sum_w),
        log_likelihood=log_likelihood,
        observed_w=np.full(len(S), moments.sum_w),
        sum_w=moments.sum_w,
        converged=solution.converged,
        trace=Trace(
            objective=solution.trace * moments.sum_w,
            change=np.full(len(solution.trace), np.nan),
            seconds=np.full(len(solution.trace), np.nan),
        ),
        at_floor=tuple(sorted(int(j) for j in at_floor)),
    )
