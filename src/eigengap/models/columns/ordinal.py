"""Ordered levels: level k is where u lies between the thresholds t_k and t_(k+1).

The ordered probit model of polychoric correlation and of ordinal factor analysis (Olsson 1979,
"Maximum likelihood estimation of the polychoric correlation coefficient"). Thresholds are the
normal quantiles of the cumulative shares of the levels; three levels or more then fix location and
scale of u. A binary column is the one of two levels: its scale remains free.

A column of numbers in a range, of which too few differ for a map, has levels too. Any other number
of its range may follow, and says what the nearest level says.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from eigengap.linalg import Array
from eigengap.models.columns.column import Cells, LevelColumn, missing, quantile_of_u
from eigengap.models.gaussian.evidence import truncated

# Of the interval of a level whose share is next to nothing, so that its ends differ as seen from u.
LEAST_WIDTH = 1e-9


@dataclass(frozen=True, eq=False)
class OrdinalColumn(LevelColumn):
    """K levels by thresholds (K + 1,), which begin with -inf and end with inf."""

    thresholds: Array
    lower: float = inf  # numbers between these two need not be levels
    upper: float = -inf

    @classmethod
    def of_shares(cls, counts: Array, levels: Array | None = None) -> OrdinalColumn:
        """From the (weighted) number of cells of each level (K,), all positive."""
        below, above = (np.cumsum(c)[:-1] / np.sum(c) for c in (counts, counts[::-1]))
        # The lesser of the two shares: the other one loses digits, and may round to 1.
        above = above[::-1]
        thresholds = np.where(below < above, ndtri(below), -ndtri(above))
        for k in range(1, len(thresholds)):
            thresholds[k] = max(thresholds[k], thresholds[k - 1] + LEAST_WIDTH)
        levels = np.arange(len(counts), dtype=np.float64) if levels is None else levels
        return cls(levels, np.concatenate([[-np.inf], thresholds, [np.inf]]))

    @property
    def free_scale(self) -> bool:
        return len(self.thresholds) <= 3

    @property
    def origin(self) -> Array:
        return self.thresholds[1:2] if len(self.thresholds) == 3 else np.zeros(1)

    @property
    def typical_error(self) -> float:
        _, _, inside = truncated(self.thresholds[:-1], self.thresholds[1:])
        share = np.diff(ndtr(self.thresholds))
        precision = float(share @ (1.0 / inside - 1.0))
        return 1.0 / precision if precision > 0.0 else 0.0  # of a single level

    @property
    def is_range(self) -> bool:
        """Whether other numbers than the levels may follow."""
        return self.lower < self.upper

    def holds(self, x: Array) -> NDArray[np.bool_]:
        return np.asarray(super().holds(x) | ((x >= self.lower) & (x <= self.upper)))

    def code(self, x: Array) -> NDArray[np.intp]:
        if not self.is_range:
            return super().code(x)
        between = (self.levels[:-1] + self.levels[1:]) / 2.0
        return np.asarray(np.searchsorted(between, x))

    def encode(self, x: Array, details: Array | None = None) -> Cells:
        observed = ~np.isnan(x)
        code = self.code(np.where(observed, x, self.levels[0]))
        first = np.where(observed, self.thresholds[code], np.nan)
        second = np.where(observed, self.thresholds[code + 1], np.nan)
        return Cells(missing(len(x)), first[:, None], second[:, None])

    def quantile(self, share: float, mean: Array, cov: Array) -> Array:
        return self._level(quantile_of_u(share, mean, cov))

    def from_u(self, u: Array, rng: np.random.Generator) -> Array:
        return self._level(u[:, 0])

    def probabilities(self, mean: Array, cov: Array) -> Array:
        below = ndtr((self.thresholds - mean) / np.sqrt(cov[:, :, 0]))
        return np.diff(below, axis=1)

    def tails(self, x: Array, mean: Array, cov: Array) -> tuple[Array, Array]:
        code, sd = self.code(x), np.sqrt(cov[:, 0, 0])
        lower, upper = (self.thresholds[code + k] - mean[:, 0] for k in (0, 1))
        return ndtr(upper / sd), ndtr(-lower / sd)

    def _level(self, u: Array) -> Array:
        return np.asarray(self.levels[np.searchsorted(self.thresholds[1:-1], u)])
