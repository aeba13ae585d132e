"""Continuous columns: x = f(u), f increasing, so that a value gives u and a quantile gives x.

Many cells that share the least (or the largest) value, zero rainfall for instance, are an atom: u
is below the atom's threshold, which is all that such a cell says (Tobin 1958, where the threshold
is known). A censored cell, "< 0.1", says as much about a value of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, pi
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from eigengap.linalg import Array
from eigengap.models.columns.column import TINY, Cells, Column, missing, quantile_of_u
from eigengap.models.columns.maps import Margin

# u of a value at the open end of a range, 0 of a logarithm for instance, where the map is infinite:
# as far out as one of 1e9 values of a Gaussian.
FARTHEST = 6.0


@dataclass(frozen=True, eq=False)
class ContinuousColumn(Column):
    """x = margin^-1(u) between the atoms at `least` and `largest`, where there are any."""

    is_exact: ClassVar[bool] = True

    margin: Margin
    least: float = -inf  # value of the lower atom
    below: float = -inf  # u at or below which x is that
    largest: float = inf
    above: float = inf  # u above which x is `largest`
    step: float = 0.0  # values are whole multiples of it; 0 for any
    floor: float = -inf  # nothing is imputed below

    @property
    def has_evidence(self) -> bool:  # type: ignore[override]
        return self.below > -inf or self.above < inf

    def holds(self, x: Array) -> NDArray[np.bool_]:
        low, high = self.margin.family.range
        inside = (x >= low) & (x <= high)
        return np.asarray(inside | (x <= self.least) | (x >= self.largest))

    def encode(self, x: Array) -> Cells:
        exact, first, second = (missing(len(x)) for _ in range(3))
        low, high = x <= self.least, x >= self.largest
        inner = ~(low | high | np.isnan(x))
        with np.errstate(divide="ignore"):
            u = self.margin.forward(x[inner])
        exact[inner, 0] = np.where(np.isinf(u), np.copysign(FARTHEST, u), u)
        first[low], second[low] = -inf, self.below
        first[high], second[high] = self.above, inf
        return Cells(exact, first, second)

    def log_slope(self, x: Array) -> Array:
        slope = np.zeros(len(x))
        inner = (x > self.least) & (x < self.largest)
        slope[inner] = self.margin.log_slope(x[inner])
        return slope

    def value(self, mean: Array, cov: Array) -> Array:
        return self._of_u(mean[:, 0])

    def quantile(self, share: float, mean: Array, cov: Array) -> Array:
        return self._of_u(quantile_of_u(share, mean, cov))

    def log_score(self, x: Array, mean: Array, cov: Array) -> Array:
        exact, first, second = self.encode(x)
        sd = np.sqrt(cov[:, 0, 0])
        below = [ndtr((end[:, 0] - mean[:, 0]) / sd) for end in (first, second)]
        at_atom = np.log(np.maximum(below[1] - below[0], TINY))
        score = -0.5 * ((exact[:, 0] - mean[:, 0]) / sd) ** 2 - np.log(sd * np.sqrt(2.0 * pi))
        return np.where(np.isnan(exact[:, 0]), at_atom, np.maximum(score, np.log(TINY)))

    def from_u(self, u: Array, rng: np.random.Generator) -> Array:
        return self._of_u(u[:, 0])

    def _of_u(self, u: Array) -> Array:
        x = self.margin.inverse(u)
        if self.step:
            x = np.round(x / self.step) * self.step
        x = np.maximum(x, self.floor)
        x = np.clip(x, self.least, self.largest)
        return np.where(u <= self.below, self.least, np.where(u > self.above, self.largest, x))
