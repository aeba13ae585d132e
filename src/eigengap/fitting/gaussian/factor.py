"""Factor analysis: from the covariance on complete data, by EM where cells are missing."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from eigengap.fitting.eigen.range import refuse_out_of_range, refuse_tiny_columns
from eigengap.fitting.gaussian.factor_covariance import fit_factors
from eigengap.fitting.gaussian.problem import (
    DEFAULT,
    FLOOR,
    EMOptions,
    GaussianFit,
    StudentRows,
    fit_by_em,
    spectrum_of,
)
from eigengap.fitting.optimise.loop import Trace
from eigengap.models.gaussian.linear_gaussian import LinearGaussian
from eigengap.sources.base import Source
from eigengap.statistics.moments import Moments

# Beyond this many features the d x d covariance costs more than EM, which never forms it.
LARGEST_COVARIANCE = 2000


def fit_factor_analysis(
    source: Source,
    q: int,
    *,
    student: StudentRows | None = None,
    options: EMOptions = DEFAULT,
) -> GaussianFit:
    """Maximum likelihood of x = W z + mu + e with one noise variance per feature."""
    from_moments = student is None and not source.has_missing and not source.has_cell_sd
    if not from_moments or source.n_features > LARGEST_COVARIANCE or options.start is not None:
        return fit_by_em(source, q, "diagonal", student=student, options=options)
    moments = source.reduce(Moments.of)
    total = float(np.trace(moments.scatter)) / moments.sum_w
    refuse_out_of_range(source, total, fit_mean=True)
    refuse_tiny_columns(source, np.diag(moments.scatter) / moments.sum_w)
    if total == 0.0:
        return fit_by_em(source, q, "diagonal", options=options)  # which knows a constant table
    return fit_from_moments(moments, q, options)


def fit_from_moments(moments: Moments, q: int, options: EMOptions) -> GaussianFit:
    """The fit of complete data: mean and covariance are all that it needs."""
    S = moments.scatter / moments.sum_w
    variance = np.diag(S).copy()
    # A constant column takes part in nothing: no loading, and the noise of the floor.
    varies = variance > 0
    psi = np.full(len(S), FLOOR["diagonal"] * (float(np.mean(variance)) or 1.0))
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
    at_floor = {*np.flatnonzero(~varies).tolist(), *_positions(varies, solution.heywood)}
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
        at_floor=tuple(sorted(at_floor)),
    )


def _positions(varies: NDArray[np.bool_], among: tuple[int, ...]) -> list[int]:
    """Positions in the table of columns counted among those that vary."""
    return [int(j) for j in np.flatnonzero(varies)[list(among)]]
