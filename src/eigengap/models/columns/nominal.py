"""Levels without an order, by a chain of yes-or-no questions.

The first question is whether the cell has the first level, u_1 > t_1; if not, the second is whether
it has the second, u_2 > t_2; and so on to K - 1 questions for K levels: the stick-breaking probit
of Khan, Mohamed, Marlin and Murphy (2012), "A stick-breaking likelihood for categorical data
analysis with latent Gaussian models". A cell answers the questions up to its own, and leaves those
after it open, so that every answer is a binary site and an unasked question a missing value. Two
levels are a binary column. Levels are asked for in the order of their frequency: the common ones
are distinguished first.

Of a missing cell the answers are correlated through z. Its probabilities are found question by
question: given "no" so far, the mean and covariance of the remaining u are updated by the moments
of the truncated Gaussian (assumed density filtering).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from eigengap.linalg import Array
from eigengap.models.columns.column import Cells, LevelColumn, missing
from eigengap.models.gaussian.evidence import truncated


@dataclass(frozen=True, eq=False)
class NominalColumn(LevelColumn):
    """K levels; `order` (K,) are their numbers in the order of the questions."""

    order: NDArray[np.intp]
    thresholds: Array  # (K - 1,) t, the normal quantiles of "no" among the cells that are asked

    @classmethod
    def of_counts(cls, counts: Array, levels: Array | None = None) -> NominalColumn:
        """From the (weighted) number of cells of each level (K,)."""
        levels = np.arange(len(counts), dtype=np.float64) if levels is None else levels
        order = np.argsort(-counts, kind="stable")
        yes = counts[order]
        asked = np.cumsum(yes[::-1])[::-1]
        return cls(levels, order, ndtri(asked[1:] / asked[:-1]))

    @property
    def width(self) -> int:
        return len(self.order) - 1

    @property
    def free_scale(self) -> bool:
        return True

    @property
    def origin(self) -> Array:
        return self.thresholds

    def encode(self, x: Array, details: Array | None = None) -> Cells:
        code = self.code(np.where(np.isnan(x), self.levels[0], x))
        place = np.argsort(self.order)[code][:, None]
        question = np.arange(self.width)
        asked = (question <= place) & ~np.isnan(x)[:, None]
        yes = question == place
        first = np.where(asked, np.where(yes, self.thresholds, -np.inf), np.nan)
        second = np.where(asked, np.where(yes, np.inf, self.thresholds), np.nan)
        return Cells(missing(len(x), self.width), first, second)

    def value(self, mean: Array, cov: Array) -> Array:
        return np.asarray(self.levels[np.argmax(self.probabilities(mean, cov), axis=1)])

    def quantile(self, share: float, mean: Array, cov: Array) -> Array:
        """Levels have no order; the most probable one stands for all shares."""
        return self.value(mean, cov)

    def mixed_value(self, resp: Array, mean: Array, cov: Array) -> Array:
        of_level = self.mixed_probabilities(resp, mean, cov)
        return np.asarray(self.levels[np.argmax(of_level, axis=1)])

    def mixed_quantile(self, share: float, resp: Array, mean: Array, cov: Array) -> Array:
        return self.mixed_value(resp, mean, cov)

    def from_u(self, u: Array, rng: np.random.Generator) -> Array:
        yes = np.column_stack([u > self.thresholds, np.ones(len(u), dtype=bool)])
        return np.asarray(self.levels[self.order[np.argmax(yes, axis=1)]])

    @property
    def sides(self) -> int:
        return 1

    def tails(self, x: Array, mean: Array, cov: Array) -> tuple[Array, Array]:
        """There is no order: the level, and all."""
        return self.probability(x, mean, cov), np.ones(len(x))

    def probabilities(self, mean: Array, cov: Array) -> Array:
        mean, cov = mean - self.thresholds, cov.copy()
        found = np.empty((len(mean), len(self.order)))
        log_left = np.zeros(len(mean))  # ln of the probability of "no" so far
        for k in range(self.width):
            sd = np.sqrt(cov[:, k, k])
            found[:, k] = np.exp(log_left) * ndtr(mean[:, k] / sd)
            log_mass, inside, share = truncated(np.full(len(sd), -np.inf), -mean[:, k] / sd)
            log_left = log_left + log_mass
            along = cov[:, :, k] / sd[:, None]  # (c, width) in units of u_k
            mean += along * inside[:, None]
            cov -= along[:, :, None] * along[:, None, :] * (1.0 - share)[:, None, None]
        found[:, -1] = np.exp(log_left)
        in_codes = np.empty_like(found)
        in_codes[:, self.order] = found / found.sum(axis=1, keepdims=True)
        return in_codes
