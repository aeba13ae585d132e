"""Where the fit of a Gaussian process latent variable model begins, and what comes of it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from eigengap.fitting.gp.back_constraint import Back, BackMap
from eigengap.fitting.graph.duplicate_rows import Rows
from eigengap.fitting.optimise.loop import Trace
from eigengap.linalg import Array
from eigengap.models.gp.gaussian_process import GaussianProcesses
from eigengap.models.gp.kernels import LatentKernel

NOISE = 0.01  # variance at the start, in units of the variance of the data
FLOOR = 1e-8  # of the noise variance, in the same


@dataclass(frozen=True, eq=False)
class Start:
    """Where a fit begins."""

    Z: Array  # (n, q) of unit variance
    spread: Array  # (q,) share of the data's variance along each
    kernel: LatentKernel  # what it leaves open is chosen
    of_row: Rows  # (n,) which latent each row has: rows that are equal have one
    noise_variance: float = NOISE
    back: Back | None = None

    @property
    def shared(self) -> Array:
        """(u, q) one for each distinct row, the mean of its latents."""
        total = np.zeros((int(np.max(self.of_row)) + 1, self.Z.shape[1]))
        np.add.at(total, self.of_row, self.Z)
        return np.asarray(total / np.bincount(self.of_row)[:, None])


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
