"""The GPLVM with a linear kernel, in closed form: dual probabilistic PCA (Lawrence 2005).

With k(z, u) = sum_k a_k z_k u_k every column of a complete, centred table Y (n, d) is
N(0, Z diag(a) Z' + sigma2 I): probabilistic PCA with columns for rows, of mean 0. By Tipping and
Bishop (1999), with lam the eigenvalues of Y Y'/d in descending order and V their eigenvectors,

    Z = sqrt(n) V_q,   a_k = (lam_k - sigma2) / n,   sigma2 = mean of lam_{q+1} .. lam_n

maximises the likelihood, Z in the scale in which its coordinates have unit mean square.
"""

from __future__ import annotations

import numpy as np

from eigengap.fitting.gp.start import FLOOR, LatentFit, ObservedColumns
from eigengap.fitting.optimise.loop import Trace
from eigengap.linalg import Array, sign_rule
from eigengap.models.gp.gaussian_process import GaussianProcesses
from eigengap.models.gp.kernels import Linear


def fit_linear(columns: ObservedColumns, q: int) -> LatentFit:
    """Of a complete, standardised table; dimensions beyond its rank are 0 and have no slope."""
    Y = columns.table
    n, d = Y.shape
    V, values, _ = np.linalg.svd(Y, full_matrices=False)
    lam = np.zeros(n)
    lam[: len(values)] = values**2 / d
    sigma2 = max(float(np.mean(lam[q:])), FLOOR)
    kept = min(q, int(np.count_nonzero(lam > sigma2)))
    Z, slopes = np.zeros((n, q)), np.zeros(q)
    Z[:, :kept] = np.sqrt(n) * V[:, :kept] * sign_rule(V[:, :kept])
    slopes[:kept] = (lam[:kept] - sigma2) / n
    # -d/2 (n ln 2 pi + ln |C| + tr C^-1 Y Y'/d) with C of eigenvalues lam_1..lam_q, sigma2, ...
    log_det = float(np.sum(np.log(lam[:kept]))) + (n - kept) * np.log(sigma2)
    apart = kept + float(np.sum(lam[kept:])) / sigma2
    likelihood = float(-0.5 * d * (n * np.log(2.0 * np.pi) + log_det + apart))
    model = _functions(Z[:, :kept], slopes, sigma2, Y)
    trace = Trace(np.array([likelihood]), np.zeros(1), np.zeros(1))
    return LatentFit(model, Z, None, likelihood, trace, True, sigma2 <= FLOOR)


def _functions(Z: Array, slopes: Array, sigma2: float, Y: Array) -> GaussianProcesses:
    """What was learned of the functions z'b_j, b_j ~ N(0, diag(a)), at the q unit vectors.

    The kernel has rank q, so that as many points hold all of it. As Z'Z = n I the posterior of
    b_j has variances s = 1 / (n / sigma2 + 1 / a) and means s Z'y_j / sigma2.
    """
    (n, kept), q, d = Z.shape, len(slopes), Y.shape[1]
    a = slopes[:kept]
    s = 1.0 / (n / sigma2 + 1.0 / a)
    weights, reduction = np.zeros((q, d)), np.zeros((q, q))
    weights[:kept] = (s / (a * sigma2))[:, None] * (Z.T @ Y)
    reduction[range(kept), range(kept)] = (a - s) / a**2
    return GaussianProcesses(
        Linear(slopes),
        sigma2,
        np.eye(q),
        weights,
        reduction[None],
        np.zeros(d, dtype=np.intp),
        np.zeros(d),
        np.ones(d),
    )
