"""Counts: y is Poisson, or negative binomial, with mean exp(u).

PCA of counts in the manner of Townes, Hicks, Aryee and Irizarry (2019), "Feature selection and
dimension reduction for single-cell RNA-seq based on a multinomial model" (GLM-PCA), as a latent
Gaussian model: the noise of u makes a Poisson count Poisson-log-normal.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import nbdtr, ndtri, pdtr

from eigengap.linalg import Array
from eigengap.models.columns.column import TINY, Cells, Column, missing

# Nodes for an average over u: midpoints of shares of its distribution up to 1e-6 in the tails,
# Gauss and Hermite's rule.
NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(40)
LARGEST = 2.0**53  # counts beyond it are not whole numbers any more


@dataclass(frozen=True, eq=False)
class CountColumn(Column):
    """A count; `dispersion` is 1 / shape of the negative binomial, 0 for Poisson."""

    is_count: ClassVar[bool] = True

    dispersion: float = 0.0

    @property
    def shape(self) -> float:
        return 1.0 / self.dispersion if self.dispersion > 0.0 else inf

    def holds(self, x: Array) -> NDArray[np.bool_]:
        return np.asarray((x >= 0) & (x == np.round(x)))

    def encode(self, x: Array) -> Cells:
        return Cells(missing(len(x)), x[:, None], np.where(np.isnan(x), np.nan, 0.0)[:, None])

    def value(self, mean: Array, cov: Array) -> Array:
        return self.quantile(0.5, mean, cov)

    def quantile(self, share: float, mean: Array, cov: Array) -> Array:
        """The least count whose cumulative probability reaches the share, by bisection."""
        rate = np.exp(mean + np.sqrt(cov[:, :, 0]) * NODES)  # (c, nodes)
        weights = WEIGHTS / WEIGHTS.sum()
        low = np.full(len(mean), -1.0)  # its cumulative probability is below the share
        spread = np.sqrt(cov[:, 0, 0])
        high = np.minimum(np.exp(mean[:, 0] + spread * abs(ndtri(share)) + 8.0) + 50.0, LARGEST)
        while np.any(high - low > 1.0):
            middle = np.floor((low + high) / 2.0)
            reached = self._cumulative(middle[:, None], rate) @ weights >= share
            high, low = np.where(reached, middle, high), np.where(reached, low, middle)
        return high

    def log_score(self, x: Array, mean: Array, cov: Array) -> Array:
        rate = np.exp(mean + np.sqrt(cov[:, :, 0]) * NODES)
        weights = WEIGHTS / WEIGHTS.sum()
        at = self._cumulative(x[:, None], rate)
        before = np.where(x[:, None] > 0, self._cumulative(np.maximum(x[:, None] - 1, 0), rate), 0)
        return np.asarray(np.log(np.maximum((at - before) @ weights, TINY)))

    def from_u(self, u: Array, rng: np.random.Generator) -> Array:
        rate = np.exp(u[:, 0])
        if self.dispersion > 0.0:
            rate = rate * rng.gamma(self.shape, self.dispersion, len(rate))
        return rng.poisson(np.minimum(rate, LARGEST)).astype(np.float64)

    def _cumulative(self, y: Array, rate: Array) -> Array:
        if self.dispersion > 0.0:
            return np.asarray(nbdtr(y, self.shape, self.shape / (self.shape + rate)))
        return np.asarray(pdtr(y, rate))
