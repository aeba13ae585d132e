"""PPCA and factor analysis by maximum likelihood: without iterating over rows, or by EM.

`needs_em` decides. Of complete rows with Gaussian noise all that the likelihood needs is their mean
and covariance. With lam and U the eigenpairs of the covariance at divisor n, PPCA has the closed
form of Tipping and Bishop (1999), "Probabilistic principal component analysis", Eqs. 7 and 8,

    W = U_q (Lam_q - sigma2 I)^1/2,   sigma2 = mean of the d - q discarded eigenvalues.

Factor analysis is fitted to the covariance (`factor_covariance`). Everything else, missing values
above all, takes EM (`noise`).
"""

from __future__ import annotations

from math import inf, log, pi
from typing import Literal

import numpy as np

from eigengap.fitting.eigen.krylov import ANGLE_TOLERANCE
from eigengap.fitting.gaussian.factor_covariance import fit_factors
from eigengap.fitting.gaussian.noise import MultivariateT, fit_by_em
from eigengap.fitting.gaussian.pca import PCAFit, fit_pca
from eigengap.fitting.gaussian.plan import LARGEST_DENSE
from eigengap.fitting.gaussian.problem import (
    DEFAULT,
    FLOOR,
    EMOptions,
    GaussianFit,
    Noise,
    spectrum_of,
)
from eigengap.fitting.optimise.loop import Trace
from eigengap.linalg import Array
from eigengap.models.gaussian.linear_gaussian import LinearGaussian
from eigengap.sources.base import Source
from eigengap.spectrum import Spectrum
from eigengap.statistics.moments import Moments, refuse_out_of_range, refuse_tiny_columns

Solver = Literal["auto", "closed_form", "em"]

# Beyond this many features the d x d covariance costs factor analysis more than EM, which never
# forms it.
LARGEST_COVARIANCE = 2000

# Discarded variance relative to the largest eigenvalue that a squared matrix cannot resolve: it is
# computed again from the data themselves.
LOST_BY_SQUARING = 1e-9


def has_closed_form(source: Source, *, is_gaussian: bool = True, has_prior: bool = False) -> bool:
    """Whether the spectrum of the data determines the maximum: PPCA, T&B 1999, Eqs. 7 and 8.

    Factor analysis has no closed form, but there its likelihood is one of the covariance alone.
    """
    is_plain = is_gaussian and not has_prior
    return is_plain and not source.has_missing and not source.has_cell_sd


def needs_em(
    source: Source,
    noise: Noise,
    *,
    solver: Solver = "auto",
    is_gaussian: bool = True,
    has_prior: bool = False,
    has_start: bool = False,
) -> bool:
    """Whether PPCA (isotropic noise) or factor analysis (diagonal) has to iterate over rows."""
    closed = has_closed_form(source, is_gaussian=is_gaussian, has_prior=has_prior)
    if noise == "diagonal":
        return not closed or has_start or source.n_features > LARGEST_COVARIANCE
    return solver == "em" or not closed


# PPCA -----------------------------------------------------------------------------------------


def fit_ppca(
    source: Source,
    q: int,
    *,
    solver: Solver = "auto",
    noise_variance: float | None = None,
    fit_mean: bool = True,
    loading_precision: float = 0.0,
    student: MultivariateT | None = None,
    options: EMOptions = DEFAULT,
) -> GaussianFit:
    """Maximum likelihood of PPCA with q components; MAP where loading_precision is positive."""
    if needs_em(
        source,
        "isotropic",
        solver=solver,
        is_gaussian=student is None,
        has_prior=loading_precision > 0,
    ):
        return fit_by_em(
            source,
            q,
            "isotropic",
            noise_variance=noise_variance,
            fit_mean=fit_mean,
            loading_precision=loading_precision,
            student=student,
            options=options,
        )
    return closed_form(fit_exact_spectrum(source, q, fit_mean=fit_mean), q, noise_variance)


def fit_exact_spectrum(
    source: Source,
    q: int | float | None,
    *,
    solver: str = "auto",
    fit_mean: bool = True,
    angle: float = ANGLE_TOLERANCE,
) -> PCAFit:
    """PCA whose noise variance is right even where it is tiny relative to the signal."""
    pca = fit_pca(source, q, solver=solver, fit_mean=fit_mean, angle=angle)
    kept, lam = pca.U.shape[1], pca.spectrum.lam
    if pca.route not in ("covariance", "gram", "krylov"):
        return pca  # as accurate as can be
    if pca.spectrum.complete and kept >= min(pca.n_rows - 1, len(lam)):
        return pca  # nothing is left over
    if min(pca.n_rows, pca.spectrum.d) > LARGEST_DENSE:
        return pca
    if pca.spectrum.discarded_variance(kept) < LOST_BY_SQUARING * lam[0]:
        return fit_pca(source, q, solver="full", fit_mean=fit_mean)
    return pca


def closed_form(pca: PCAFit, q: int, noise_variance: float | None = None) -> GaussianFit:
    """T&B 1999, Eqs. 7 and 8; with sigma2 given, W for that sigma2."""
    spectrum = pca.spectrum
    sigma2 = learned_noise(spectrum, q) if noise_variance is None else noise_variance
    lam = spectrum.lam[:q]
    W = pca.U[:, :q] * np.sqrt(np.maximum(lam - sigma2, 0.0))
    model = LinearGaussian(W=W, mu=pca.mean, psi=np.full(spectrum.d, sigma2))
    return GaussianFit(
        model=model,
        axes=pca.U[:, :q],
        spectrum=spectrum,
        log_likelihood=_log_likelihood(spectrum, q, sigma2),
        observed_w=np.full(spectrum.d, spectrum.sum_w),
        sum_w=spectrum.sum_w,
    )


def learned_noise(spectrum: Spectrum, q: int) -> float:
    """sigma2 (Eq. 8); exactly 0 where what is left is the rounding of the singular values."""
    sigma2 = spectrum.noise_variance(q)
    return sigma2 if sigma2 > spectrum.rounding else 0.0


def _log_likelihood(spectrum: Spectrum, q: int, sigma2: float) -> float:
    """-sum_w / 2 (d ln 2 pi + ln|C| + tr C^-1 S), through the spectrum.

    Where C is singular that is the limit: -inf if the rows leave its range, inf if they do not.
    """
    lam = spectrum.lam[:q]
    along: Array = np.maximum(lam, sigma2)  # variance of C along the retained axes
    left = spectrum.d - q
    if left and sigma2 <= 0.0 and learned_noise(spectrum, q) > 0.0:
        return -inf
    if np.any(along <= 0.0) or (left and sigma2 <= 0.0):
        return inf
    log_det = float(np.sum(np.log(along))) + (left * log(sigma2) if left else 0.0)
    trace = float(np.sum(lam / along)) + (spectrum.discarded_variance(q) / sigma2 if left else 0.0)
    return -0.5 * spectrum.sum_w * (spectrum.d * log(2 * pi) + log_det + trace)


# Factor analysis ------------------------------------------------------------------------------


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
    psi = np.full(len(S), FLOOR * float(np.mean(variance)))
    W = np.zeros((len(S), q))
    possible = min(q, int(np.sum(varies)) - 1)
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
