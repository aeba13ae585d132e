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
from scipy.special import betainc, gammaincc, ndtri

from eigengap.linalg import Array
from eigengap.models.columns.column import TINY, Cells, Column, missing

# Nodes for an average over u, Gauss and Hermite's rule.
NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(40)
WEIGHTS = WEIGHTS / WEIGHTS.sum()
# An average over nodes is a staircase where the variance of u exceeds that of ln y given u, which
# is 1 / mean + dispersion, by more than a few times. For means from LARGE on ln y is then taken for
# Gaussian: quantiles have their probability to 0.005.
LARGE, SMOOTH, WIDE = 50.0, 4.0, 0.01
LARGEST = 2.0**53  # counts beyond it are not whole numbers any more
LARGEST_LOG = 36.7  # its logarithm


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
        """The least count whose cumulative probability reaches the share."""
        m, v = np.minimum(mean[:, 0], LARGEST_LOG), cov[:, 0, 0]
        log_sd = np.sqrt(v + np.exp(-m) + self.dispersion)
        found = np.asarray(
            np.exp(np.minimum(m + ndtri(share) * log_sd, LARGEST_LOG)), dtype=np.float64
        )
        found = np.round(found)
        few = (m < np.log(LARGE)) | (v < SMOOTH * np.exp(-m)) | (self.dispersion > WIDE)
        found[few] = self._by_bisection(share, m[few], v[few])
        return np.asarray(found, dtype=np.float64)

    def _by_bisection(self, share: float, mean: Array, variance: Array) -> Array:
        rate = self._rates(mean, variance)
        low = np.full(len(mean), -1.0)  # its cumulative probability is below the share
        high = 100.0 * (1.0 + np.max(rate, axis=1, initial=0.0)) * (1.0 + self.dispersion)
        high = np.asarray(np.floor(np.minimum(high, LARGEST)), dtype=np.float64)
        while np.any(high - low > 1.0):
            middle = np.floor((low + high) / 2.0)
            reached = self._cumulative(middle[:, None], rate) @ WEIGHTS >= share
            high, low = np.where(reached, middle, high), np.where(reached, low, middle)
        return np.asarray(high, dtype=np.float64)

    def log_score(self, x: Array, mean: Array, cov: Array) -> Array:
        rate = self._rates(mean[:, 0], cov[:, 0, 0])
        at = self._cumulative(x[:, None], rate)
        before = np.where(x[:, None] > 0, self._cumulative(np.maximum(x[:, None] - 1, 0), rate), 0)
        return np.asarray(np.log(np.maximum((at - before) @ WEIGHTS, TINY)))

    @staticmethod
    def _rates(mean: Array, variance: Array) -> Array:
        """(c, nodes) of exp(u)."""
        u = mean[:, None] + np.sqrt(variance)[:, None] * NODES
        return np.exp(np.minimum(u, LARGEST_LOG))

    def from_u(self, u: Array, rng: np.random.Generator) -> Array:
        rate = np.exp(np.minimum(u[:, 0], LARGEST_LOG))
        if self.dispersion > 0.0:
            rate = rate * rng.gamma(self.shape, self.dispersion, len(rate))
        return rng.poisson(np.minimum(rate, LARGEST)).astype(np.float64)

    def _cumulative(self, y: Array, rate: Array) -> Array:
        """P(count <= y), by the incomplete beta or gamma function."""
        if self.dispersion > 0.0:
            return np.asarray(betainc(self.shape, y + 1.0, self.shape / (self.shape + rate)))
        return np.asarray(gammaincc(y + 1.0, rate))
