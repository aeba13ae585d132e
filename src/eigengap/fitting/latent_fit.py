"""Where the fit of a Gaussian process latent variable model begins, and what comes of it."""

from __future__ import annotations

from dataclasses import dataclass

from eigengap.fitting.back_constraint import Back, BackMap
from eigengap.fitting.loop import Trace
from eigengap.linalg import Array
from eigengap.models.gaussian_process import GaussianProcesses
from eigengap.models.gp_kernels import LatentKernel

NOISE = 0.01  # variance at the start, in units of the variance of the data
FLOOR = 1e-8  # of the noise variance, in the same


@dataclass(frozen=True, eq=False)
class Start:
    """Where a fit begins."""

    Z: Array  # (n, q) of unit variance
    spread: Array  # (q,) share of the data's variance along each
    kernel: LatentKernel  # what it leaves open is chosen
    noise_variance: float = NOISE
    back: Back | None = None


@dataclass(frozen=True, eq=False)
class LatentFit:
    """A fitted model, in standardised units."""

    model: GaussianProcesses
    Z: Array  # (n, q) latents, or their means
    s: Array | None  # (n, q) their variances, where they are uncertain
    objective: float  # log-likelihood ln p(Y | Z), or the bound on ln p(Y)
    trace: Trace  # objective: of the same, rising
    converged: bool
    at_floor: bool  # whether the noise variance fell to the least that is allowed
    back: BackMap | None = None
