"""Probabilistic PCA: the closed form on complete data, EM where values are missing.

Tipping and Bishop (1999), "Probabilistic principal component analysis". With lam and U the
eigenpairs of the covariance at divisor n, Eqs. 7 and 8 read

    W = U_q (Lam_q - sigma2 I)^1/2,   sigma2 = mean of the d - q discarded eigenvalues.
"""

from __future__ import annotations

from math import inf, log, pi

import numpy as np

from eigengap.fitting.eigen.krylov import ANGLE_TOLERANCE
from eigengap.fitting.gaussian.noise import MultivariateT, fit_by_em
from eigengap.fitting.gaussian.pca import PCAFit, fit_pca
from eigengap.fitting.gaussian.plan import LARGEST_DENSE, Solver, needs_em
from eigengap.fitting.gaussian.problem import DEFAULT, EMOptions, GaussianFit
from eigengap.fitting.optimise.loop import Trace
from eigengap.linalg import Array
from eigengap.models.gaussian.linear_gaussian import LinearGaussian
from eigengap.sources.base import Source
from eigengap.spectrum import Spectrum

# Discarded variance relative to the largest eigenvalue that a squared matrix cannot resolve: it is
# computed again from the data themselves.
LOST_BY_SQUARING = 1e-9


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
        converged=True,
        trace=Trace(),
        at_floor=(),
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
