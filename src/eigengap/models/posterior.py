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
    values, so rows with the same gaps share theirs.

    Attributes
    ----------
    mean : (n, q)
    pattern_cov : (u, q, q) distinct covariances
    pattern : (n,) index into `pattern_cov` of each row
    """

    mean: Array
    pattern_cov: Array
    pattern: NDArray[np.intp]

    @property
    def cov(self) -> Array:
        """(n, q, q) covariance of each row, expanded."""
        return self.pattern_cov[self.pattern]

    @property
    def std(self) -> Array:
        """(n, q) standard deviation of each latent coordinate."""
        variances: Array = np.einsum("uii->ui", self.pattern_cov)
        return np.sqrt(variances)[self.pattern]

    def __len__(self) -> int:
        return len(self.mean)
