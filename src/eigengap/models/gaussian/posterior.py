"""The posterior of the latent variables of every row, as a value."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from eigengap.linalg import Array


@dataclass(frozen=True, eq=False)
class Posterior:
    """z_i | x_i ~ N(mean_i, cov_i), covariances stored once per pattern of seen cells.

    Under a linear-Gaussian model the covariance depends on which cells were seen, not on their
    values, so rows with the same gaps share theirs. Under Student noise z_i | x_i is a
    multivariate t, and the covariance is that of the pattern times a factor of the row.

    Attributes
    ----------
    mean : (n, q)
    pattern_cov : (u, q, q) distinct covariances
    pattern : (n,) index into `pattern_cov` of each row
    factor : (n,) by which each row's covariance differs from its pattern's, or None for 1
    """

    mean: Array
    pattern_cov: Array
    pattern: NDArray[np.intp]
    factor: Array | None = None

    @property
    def cov(self) -> Array:
        """(n, q, q) covariance of each row, expanded."""
        cov = self.pattern_cov[self.pattern]
        return cov if self.factor is None else cov * self.factor[:, None, None]

    @property
    def std(self) -> Array:
        """(n, q) standard deviation of each latent coordinate."""
        variances: Array = np.einsum("uii->ui", self.pattern_cov)
        std = np.sqrt(variances)[self.pattern]
        return std if self.factor is None else std * np.sqrt(self.factor)[:, None]

    def __len__(self) -> int:
        return len(self.mean)
