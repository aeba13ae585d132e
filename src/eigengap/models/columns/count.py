"""Counts: y is Poisson, or negative binomial, with mean size exp(u); the size of its row may vary.

PCA of counts in the manner of Townes, Hicks, Aryee and Irizarry (2019), "Feature selection and
dimension reduction for single-cell RNA-seq based on a multinomial model" (GLM-PCA), as a latent
Gaussian model: the noise of u makes a Poisson count Poisson-log-normal.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import inf
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import betainc, gammainc, gammaincc, ndtr, ndtri

from eigengap.linalg import Array
from eigengap.models.columns.column import TINY, Cells, Column, central_moments, missing
from eigengap.models.gaussian.evidence import Counts

# Nodes for an average over u, Gauss and Hermite's rule.
NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(40)
WEIGHTS = WEIGHTS / WEIGHTS.sum()
# From means of LARGE on ln y is taken for Gaussian where the variance of u is SMOOTH times that of
# ln y given u, 1 / mean + dispersion, or more: quantiles have their probability to 0.005.
LARGE, SMOOTH, WIDE = 50.0, 4.0, 0.01
LARGEST = 2.0**53  # beyond it float64 skips whole numbers
LARGEST_LOG = 36.7  # its logarithm
GRID, REACH = 64, 6.0  # counts in a sum over all of them, and standard deviations that they span
LATTICE = np.array([0.25, 0.5])  # of mean and ln variance of u, between which moments are smooth


@dataclass(frozen=True, eq=False)
class CountColumn(Column):
    """A count; `dispersion` is 1 / shape of the negative binomial, 0 for Poisson."""

    is_count: ClassVar[bool] = True

    dispersion: float = 0.0
    learns: bool = False  # whether a fit may find another dispersion
    has_size: bool = False  # whether rows have sizes; ln of it is the detail of a cell
    log_size: Array | float = 0.0  # of the cells that questions are about (`given`)

    @property
    def n_details(self) -> int:
        return int(self.has_size)

    @property
    def shape(self) -> float:
        return 1.0 / self.dispersion if self.dispersion > 0.0 else inf

    @property
    def whole_values(self) -> Array | None:
        return np.array([0.0, inf])

    def holds(self, x: Array) -> NDArray[np.bool_]:
        return np.asarray((x >= 0) & (x == np.round(x)) & (x <= LARGEST))

    def encode(self, x: Array, details: Array | None = None) -> Cells:
        log_size = np.zeros(len(x)) if details is None or not self.has_size else details[:, 0]
        known = ~(np.isnan(x) | np.isnan(log_size))
        first, second = (np.where(known, part, np.nan)[:, None] for part in (x, log_size))
        return Cells(missing(len(x)), first, second)

    def given(self, details: Array) -> Self:
        """A row whose size is not known is predicted as one of size 1."""
        return replace(self, log_size=np.nan_to_num(details[:, 0])) if self.has_size else self

    def quantile(self, share: float, mean: Array, cov: Array) -> Array:
        """The least count whose cumulative probability reaches the share."""
        m, v = self._log_mean(mean), cov[:, 0, 0]
        log_sd = np.sqrt(v + np.exp(-m) + self.dispersion)
        found = np.round(np.exp(np.minimum(m + ndtri(share) * log_sd, LARGEST_LOG)))
        few = self._is_few(m, v)
        found[few] = self._by_bisection(share, m[few], v[few])
        return np.asarray(found, dtype=np.float64)

    def _log_mean(self, mean: Array) -> Array:
        return np.asarray(np.minimum(mean[:, 0] + self.log_size, LARGEST_LOG))

    def _is_few(self, mean: Array, variance: Array) -> NDArray[np.bool_]:
        """(c,) where ln y is not taken for Gaussian."""
        smooth = (mean < np.log(LARGE)) | (variance < SMOOTH * np.exp(-mean))
        return np.asarray(smooth | (self.dispersion > WIDE))

    def _by_bisection(self, share: float, mean: Array, variance: Array) -> Array:
        low = np.full(len(mean), -1.0)  # its cumulative probability is below the share
        largest = np.max(self._rates(mean, variance), axis=1, initial=0.0)
        high = 100.0 * (1.0 + largest) * (1.0 + self.dispersion)
        high = np.floor(np.minimum(high, LARGEST))
        return _least(lambda x: self._at_most(x, mean, variance) >= share, low, high)

    def mixed_quantile(self, share: float, resp: Array, mean: Array, cov: Array) -> Array:
        """The least count that the mixture's cumulative probability of the share reaches."""
        pairs = list(zip(mean, cov, strict=True))
        ends = np.stack([self.quantile(share, *pair) for pair in pairs])

        def reached(x: Array) -> NDArray[np.bool_]:
            below = np.stack([self.cumulative(x, *pair) for pair in pairs], axis=1)
            return np.asarray(np.sum(resp * below, axis=1) >= share)

        return _least(reached, ends.min(axis=0) - 1.0, ends.max(axis=0))

    def cumulative(self, x: Array, mean: Array, cov: Array) -> Array:
        """(c,) P(count <= x)."""
        m, v = self._log_mean(mean), cov[:, 0, 0]
        log_sd = np.sqrt(v + np.exp(-m) + self.dispersion)
        found = ndtr((np.log(np.maximum(x + 0.5, 1e-300)) - m) / log_sd)
        few = self._is_few(m, v)
        found[few] = self._at_most(np.maximum(x[few], 0.0), m[few], v[few])
        return np.where(x < 0.0, 0.0, found)

    def log_score(self, x: Array, mean: Array, cov: Array) -> Array:
        """As expectation propagation has it: fixed nodes miss large counts, which are narrow."""
        log_size = np.broadcast_to(self.log_size, x.shape)
        cells = Counts(x, log_size, np.full(len(x), self.shape))
        return np.maximum(cells.tilted(mean[:, 0], cov[:, 0, 0]).log_mass, np.log(TINY))

    def tails(self, x: Array, mean: Array, cov: Array) -> tuple[Array, Array]:
        m, v = np.minimum(mean[:, 0] + self.log_size, LARGEST_LOG), cov[:, 0, 0]
        return self._at_most(x, m, v), self._at_least(x, m, v)

    def deviance_moments(self, mean: Array, cov: Array) -> tuple[Array, Array, Array]:
        """Interpolated, by cubics, between the points of a lattice of mean and ln of the variance.

        The moments are smooth, and a sum over counts costs as much as hundreds of cells.
        """
        m = self._log_mean(mean)
        at = np.stack([m, np.log(cov[:, 0, 0])]) / LATTICE[:, None]
        first = np.floor(at) - 1.0  # of four points along each axis
        weights = _cubic(at - first - 1.0)  # (4, 2, c)
        points = first[:, None, None] + np.stack(np.meshgrid(range(4), range(4)))[..., None]
        needed, which = np.unique(points.reshape(2, -1), axis=1, return_inverse=True)
        points_m, log_v = needed * LATTICE[:, None]
        found = np.stack(self._moments(points_m, np.exp(log_v)))[:, which].reshape(3, 4, 4, -1)
        moments = np.einsum("kabc,bc,ac->kc", found, weights[:, 0], weights[:, 1])
        return moments[0], np.maximum(moments[1], 0.0), moments[2]

    def _moments(self, m: Array, v: Array) -> tuple[Array, Array, Array]:
        """By a sum over counts, of which one amidst its neighbours stands for them."""
        log_sd = np.sqrt(v + np.exp(-np.maximum(m, 0.0)) + self.dispersion)
        reach = np.linspace(-REACH, REACH, GRID)
        last = np.exp(np.minimum(m[:, None] + log_sd[:, None] * reach, LARGEST_LOG))
        last = np.maximum(np.floor(last), np.arange(GRID))  # the first ones one by one
        last = np.maximum.accumulate(last, axis=1)
        stands_for = np.diff(last, axis=1, prepend=-1.0)
        y = last - np.maximum(stands_for - 1.0, 0.0) / 2.0
        cells = Counts(*self._cells(y.ravel()))
        log_mass = cells.tilted(np.repeat(m, GRID), np.repeat(v, GRID)).log_mass.reshape(y.shape)
        weight = stands_for * np.exp(log_mass)
        return central_moments(weight / np.sum(weight, axis=1, keepdims=True), -2.0 * log_mass)

    @staticmethod
    def _rates(mean: Array, variance: Array) -> Array:
        """(c, nodes) of exp(u)."""
        u = mean[:, None] + np.sqrt(variance)[:, None] * NODES
        return np.exp(np.minimum(u, LARGEST_LOG))

    def from_u(self, u: Array, rng: np.random.Generator) -> Array:
        rate = np.exp(np.minimum(u[:, 0] + self.log_size, LARGEST_LOG))
        if self.dispersion > 0.0:
            rate = rate * rng.gamma(self.shape, self.dispersion, len(rate))
        return rng.poisson(np.minimum(rate, LARGEST)).astype(np.float64)

    def _at_most(self, y: Array, mean: Array, variance: Array) -> Array:
        """(c,) P(count <= y) for y >= -1."""
        return self._tail(y + 1.0, mean, variance, -1.0)

    def _at_least(self, y: Array, mean: Array, variance: Array) -> Array:
        """(c,) P(count >= y)."""
        some = self._tail(np.maximum(y, 1.0), mean, variance, 1.0)
        return np.where(y > 0.0, some, 1.0)

    def _tail(self, y: Array, mean: Array, variance: Array, side: float) -> Array:
        """(c,) P(count >= y), of side 1, for y > 0; or P(count < y), of side -1, for y >= 0.

        It is the probability that u exceeds what y says of it alone, independently. The average is
        over the narrower of the two: over the other one it would be that of a step.
        """
        found = np.empty(len(y))
        wide = variance * y > 1.0 + self.dispersion * y
        said, weight = Counts(*self._cells(y[wide])).alone()
        off = side * (mean[wide] - said) / np.sqrt(variance[wide])
        found[wide] = np.sum(weight * ndtr(off), axis=0)
        narrow, y = self._rates(mean[~wide], variance[~wide]), y[~wide, None]
        if self.dispersion > 0.0 and side > 0.0:
            of_rate = betainc(y, self.shape, narrow / (self.shape + narrow))
        elif self.dispersion > 0.0:
            of_rate = betainc(self.shape, y, self.shape / (self.shape + narrow))
        else:
            of_rate = gammainc(y, narrow) if side > 0.0 else gammaincc(y, narrow)
        found[~wide] = of_rate @ WEIGHTS
        return found

    def _cells(self, y: Array) -> tuple[Array, Array, Array]:
        """Of size 1."""
        return y, np.zeros(len(y)), np.full(len(y), self.shape)


def _least(reached: Callable[[Array], NDArray[np.bool_]], low: Array, high: Array) -> Array:
    """(c,) the least counts that have reached what is looked for, above low and up to high."""
    while np.any(high - low > 1.0):
        middle = np.floor((low + high) / 2.0)
        at = reached(middle)
        low, high = np.where(at, low, middle), np.where(at, middle, high)
    return np.asarray(high, dtype=np.float64)


def _cubic(t: Array) -> Array:
    """(4, ...) Lagrange's weights of the values at -1, 0, 1, 2 for one at t in [0, 1)."""
    a, b, c = t + 1.0, t - 1.0, t - 2.0
    return np.stack([-t * b * c / 6.0, a * b * c / 2.0, -a * t * c / 2.0, a * t * b / 6.0])
