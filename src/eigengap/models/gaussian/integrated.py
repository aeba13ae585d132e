"""One latent variable and few cells of evidence: the posterior by quadrature, not by sites.

Expectation propagation is exact for a single site and good where many share a latent variable. It
is least exact where two binary cells do: the probabilities that it gives the four cells of a 2 x 2
table sum to 0.975 at a correlation of 0.9, and their maximum is at 0.85. Along one latent variable
the integral itself is cheap: with equidistant nodes z_k about the posterior that expectation
propagation has found,

    p(row) = sum_k w_k prod_exact N(u; t_k, psi) prod_cells P(evidence | t_k, psi),

and the moments of u are averages of those given z_k. With them EM is exact: the likelihood rises.

Cells with a small noise relative to their loadings are steps in z. On the strip |Im z| < a a step
Phi(w z / sqrt(psi)) grows as exp(w^2 a^2 / 2 psi), so that the trapezoidal rule of step h is off by
exp(-(2 pi / h)^2 / 2 R) at most, R = sum w^2 / psi (Trefethen and Weideman 2014): what R asks for
is how many nodes there are. A Poisson count is smooth however small its noise: its probability
grows as exp(w^2 a^2 r / 2) at most where its mean is r, so that r may stand for 1 / psi.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from eigengap.linalg import Array
from eigengap.models.gaussian.evidence import KERNELS, NEGLIGIBLE, Evidence, Moments

if TYPE_CHECKING:
    from eigengap.models.gaussian.posterior import Coefficients
    from eigengap.models.gaussian.sites import CellRows, SitePosteriors

# Columns in all up to which rows are integrated. With sites alone correlations of 0.9 behind 2
# binary columns are off by 0.1, behind 3 by 0.08, behind 4 to 8 by 0.01 (1 500 rows).
FEW = 6
WIDER, REACH = 1.2, 9.0  # posterior sds of either side: tails may be heavier than those of sites
CLOSE = 50.0  # twice the logarithm of the relative error
# 512 nodes serve R up to 440, steps within a twentieth of the standard deviation of z.
FEWEST_NODES, MOST_NODES = 48, 512
ENTRIES = 1 << 18  # of rows x nodes that are held at once


def is_integrable(cells: CellRows, model: Coefficients) -> bool:
    few = len(cells.at) > 1 and len(model.W) <= FEW  # whatever is missing in these rows
    return few and model.q == 1 and model.is_known


def integrated(
    cells: CellRows, model: Coefficients, found: SitePosteriors, passes: int = 1
) -> SitePosteriors:
    """The posteriors of rows, sites of which have settled at `found`; rows alike are one."""
    rows, of = cells.different
    nodes = _nodes(cells, model)
    step = ENTRIES // len(nodes)
    parts = [
        _some(cells, model, found, rows[start : start + step], nodes, passes)
        for start in range(0, len(rows), step)
    ]
    Z, S, log_likelihood, mean, variance, gain = (
        np.concatenate(each, axis=-1)[..., of] for each in zip(*parts, strict=True)
    )
    return replace(
        found, Z=Z, S=S, log_likelihood=log_likelihood, mean=mean, variance=variance, gain=gain
    )


def _nodes(cells: CellRows, model: Coefficients) -> Array:
    """(k,) nodes in standard deviations, close enough for a posterior as wide as the prior."""
    sharp = np.minimum(1.0 / model.psi[cells.at], _rates(cells))
    R = float(np.sum(model.W[cells.at, 0] ** 2 * sharp))
    reach = WIDER * REACH
    wanted = 2.0 * reach * np.sqrt(CLOSE * R) / (2.0 * np.pi)
    k = int(np.clip(wanted, FEWEST_NODES, MOST_NODES)) if np.isfinite(wanted) else MOST_NODES
    return np.linspace(-reach, reach, k)


def _rates(cells: CellRows) -> Array:
    """(m,) the largest mean that a Poisson count of a column leaves possible; else infinite."""
    is_poisson = cells.evidence.is_count & np.isinf(cells.evidence.shape)
    y = np.max(np.where(cells.known, cells.first, 0.0), axis=1, initial=0.0)
    return np.where(is_poisson, y + np.sqrt(NEGLIGIBLE * y) + NEGLIGIBLE / 2.0, np.inf)


def _some(
    cells: CellRows,
    model: Coefficients,
    found: SitePosteriors,
    rows: NDArray[np.intp],
    nodes: Array,
    passes: int,
) -> tuple[Array, ...]:
    sd = np.sqrt(found.S[0, rows])  # (c,)
    z = found.Z[0, rows, None] + sd[:, None] * nodes  # (c, k)
    log_weight = np.log(sd * (nodes[1] - nodes[0])) - 0.5 * np.log(2.0 * np.pi)
    log_p = log_weight[:, None] - 0.5 * z**2
    for j, r, observed in zip(cells.exact, cells.R[rows].T, cells.M[rows].T, strict=True):
        residual = r[:, None] - model.delta[j] - model.W[j, 0] * z
        density = -0.5 * (residual**2 / model.psi[j] + np.log(2.0 * np.pi * model.psi[j]))
        log_p += np.where(observed[:, None] > 0.0, density, 0.0)
    c, k = z.shape
    t = model.delta[cells.at, None, None] + model.W[cells.at][:, :, None] * z  # (m, c, k)
    own = cells.evidence
    said = (np.repeat(part[:, rows], k, axis=1).T for part in (cells.first, cells.second))
    first, second = (np.ascontiguousarray(part) for part in said)  # (c k, m)
    variance = np.broadcast_to(model.psi[cells.at], first.shape)
    evidence = Evidence(own.is_count, first, second, own.shape)
    of_cells = _tilted(evidence, t.reshape(len(t), -1).T, variance, passes)
    mass, u, of_u = (part.T.reshape(len(t), c, k) for part in of_cells)
    log_p += mass.sum(axis=0)
    top = np.max(log_p, axis=1, keepdims=True)
    p = np.exp(log_p - top)
    total = p.sum(axis=1)
    p /= total[:, None]
    Z = np.einsum("ck,ck->c", p, z)
    S = np.einsum("ck,ck->c", p, (z - Z[:, None]) ** 2)
    mean = np.einsum("ck,mck->mc", p, u)
    variance = np.einsum("ck,mck->mc", p, of_u + (u - mean[:, :, None]) ** 2)
    with_z = np.einsum("ck,mck->mc", p * (z - Z[:, None]), u)
    # Statistics take Cov(z, u) as gain S w; a w of zero has no covariance.
    w = model.W[cells.at, 0][:, None]
    gain = with_z / np.where(w == 0.0, 1.0, w * S)
    each = (np.where(cells.known[:, rows], x, 0.0) for x in (mean, variance, gain))
    return Z[None], S[None], top[:, 0] + np.log(total), *each


def _tilted(evidence: Evidence, mean: Array, variance: Array, passes: int) -> Moments:
    if not KERNELS.pay(evidence.saved_seconds(len(mean)) * passes):
        return evidence.tilted(mean, variance)
    found = Moments(*(np.empty(mean.shape) for _ in range(3)))
    cells = evidence.is_count, evidence.first, evidence.second, evidence.shape
    each = np.ascontiguousarray(mean), np.ascontiguousarray(variance)
    KERNELS.load().tilt(*cells, *each, *found, 0, len(mean))
    return found
