"""Where EM starts: the leading eigenvectors of the mask-corrected, zero-filled covariance."""

from __future__ import annotations

from functools import partial

import numpy as np

from eigengap.fitting.factor_covariance import fit_factors
from eigengap.linalg import Array
from eigengap.sources.base import Source
from eigengap.statistics.maximise import Constraints, Parameters
from eigengap.statistics.zero_filled import ZeroFilledProduct

# Up to here the d x d covariance is formed and solved exactly; beyond, subspace iteration.
DIRECT = 400
OVERSAMPLING = 8
PASSES = 5


def spectral_start(
    rows: Source,  # of SeenRows, in the fit's units
    q: int,
    variance: Array,  # (d,) of each column, over its seen cells
    share_seen: Array,  # (d,) share of the rows in which each column was seen
    sum_w: float,
    constraints: Constraints,
) -> Parameters:
    """Loadings from the top q eigenpairs, noise from the variance that they leave."""
    d = len(variance)
    if d > DIRECT:
        lam, U = _subspace(rows, q, variance, share_seen, sum_w)
        return _from_eigenpairs(lam, U, variance, share_seen, constraints)
    C = _covariance(rows, variance, share_seen, sum_w)
    if constraints.noise == "diagonal" and 0 < q < d and np.all(variance > 0):
        return _from_factors(C, q, variance, share_seen, constraints)
    lam, U = np.linalg.eigh(C)
    return _from_eigenpairs(lam[::-1][:q], U[:, ::-1][:, :q], variance, share_seen, constraints)


def _from_eigenpairs(
    lam: Array, U: Array, variance: Array, share_seen: Array, constraints: Constraints
) -> Parameters:
    """T&B 1999, Eqs. 7 and 8, kept away from W = 0 along any axis: a saddle.

    With many gaps the small eigenvalues are too small, and negative at last: the noise then gets
    a share of the variance that grows with what is missing.
    """
    d, q = U.shape
    left = (float(np.sum(variance)) - float(np.sum(lam))) / max(d - q, 1)
    weakest = float(lam[-1]) if q else 0.0
    unsure = 0.1 * (1.0 - float(np.mean(share_seen))) * float(np.median(variance))
    sigma2 = max(left, 1e-3 * weakest, unsure, float(np.max(constraints.floor)))
    W = U * np.sqrt(np.maximum(lam - sigma2, 0.1 * np.maximum(lam, sigma2)))
    if constraints.noise == "diagonal":
        psi = np.maximum(variance - np.einsum("jq,jq->j", W, W), 0.1 * variance)
    else:
        psi = np.full(d, sigma2)
    return _under(constraints, W, psi)


def _from_factors(
    C: Array, q: int, variance: Array, share_seen: Array, constraints: Constraints
) -> Parameters:
    """Factor analysis of the covariance itself, made positive definite.

    The more is missing the less a small psi of it is worth; EM leaves one only slowly.
    """
    lam, U = np.linalg.eigh(C)
    definite = (U * np.maximum(lam, max(-lam[0], 1e-8 * lam[-1]))) @ U.T
    least = float(np.clip(0.3 * (1.0 - np.mean(share_seen)), 1e-4, 0.1))
    solution = fit_factors(definite, q, tol=1e-3, max_iter=50)
    return _under(constraints, solution.W, np.maximum(solution.psi, least * variance))


def _under(constraints: Constraints, W: Array, psi: Array) -> Parameters:
    if constraints.fixed_noise is not None:
        psi = np.full(len(W), constraints.fixed_noise)
    return Parameters(W=W, delta=np.zeros(len(W)), psi=np.maximum(psi, constraints.floor))


def random_start(
    q: int, variance: Array, constraints: Constraints, rng: np.random.Generator
) -> Parameters:
    """Loadings at random that explain half of each column's variance."""
    d = len(variance)
    W = rng.standard_normal((d, q)) * np.sqrt(0.5 * variance / max(q, 1))[:, None]
    noise = constraints.fixed_noise
    psi = np.full(d, float(np.mean(variance)) / 2) if noise is None else np.full(d, noise)
    if noise is None and constraints.noise == "diagonal":
        psi = variance / 2
    return Parameters(W=W, delta=np.zeros(d), psi=np.maximum(psi, constraints.floor))


def _covariance(rows: Source, variance: Array, share_seen: Array, sum_w: float) -> Array:
    """The mask-corrected covariance (d, d); gaps can make it indefinite."""
    scatter = rows.reduce(ZeroFilledProduct.scatter).value
    C = scatter.astype(np.float64) / sum_w / np.outer(share_seen, share_seen)
    C[np.diag_indices_from(C)] = variance
    return C


def _subspace(
    rows: Source,
    q: int,
    variance: Array,
    share_seen: Array,
    sum_w: float,
) -> tuple[Array, Array]:
    """Randomised subspace iteration (Halko, Martinsson and Tropp 2011): a start needs no more.

    The random block is always the same one: only the further starts of a fit depend on its seed.
    """
    d = len(variance)
    rng = np.random.default_rng(0)
    # diag(scatter) / p^2 overstates the variance by 1 / p: take the excess off the diagonal.
    excess = variance / share_seen - variance
    V = np.linalg.qr(rng.standard_normal((d, min(q + OVERSAMPLING, d))))[0]
    image = V
    for _ in range(PASSES):
        V = np.linalg.qr(image)[0]
        of = partial(ZeroFilledProduct.of, V=V / share_seen[:, None])
        image = rows.reduce(of).value / share_seen[:, None] / sum_w - excess[:, None] * V
    small = V.T @ image
    lam, T = np.linalg.eigh((small + small.T) / 2)
    return lam[::-1][:q], (V @ T)[:, ::-1][:, :q]
