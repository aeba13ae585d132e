"""How distances in an embedding agree with those that it should keep, over all pairs.

Sums that merge over blocks of pairs, and what follows from them: residual variance and stress.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import nan, sqrt

import numpy as np

from eigengap.comparison.pairwise import ROUNDING, Ints
from eigengap.linalg import Array


@dataclass(frozen=True, eq=False)
class DistanceMoments:
    """Moments of pairs of distances (d, d'), which merge (Chan, Golub and LeVeque 1983)."""

    count: float
    mean: Array  # (2,)
    scatter: Array  # (2, 2) about the mean

    @classmethod
    def of(cls, far: Array, near: Array, rows: Ints) -> DistanceMoments:
        """far, near (b, n) of the points `rows` (b,) to all; both are used up."""
        count, itself = float(far.size - len(rows)), (np.arange(len(rows)), rows)
        far[itself] = near[itself] = 0.0
        mean = np.array([np.sum(far), np.sum(near)]) / count
        if not np.isfinite(mean[0]):
            raise ValueError(
                "some distances are infinite: points that no path joins have no distance to keep; "
                "measure each component by itself"
            )
        far -= mean[0]
        near -= mean[1]
        far[itself] = near[itself] = 0.0  # a point and itself are no pair
        cross = np.vdot(far, near)
        return cls(
            count, mean, np.array([[np.vdot(far, far), cross], [cross, np.vdot(near, near)]])
        )

    @classmethod
    def merged(cls, parts: Sequence[DistanceMoments]) -> DistanceMoments:
        count = float(sum(part.count for part in parts))
        mean = sum((part.count / count * part.mean for part in parts), np.zeros(2))
        scatter = np.zeros((2, 2))
        for part in parts:
            delta = part.mean - mean
            scatter += part.scatter + part.count * np.outer(delta, delta)
        return cls(count, mean, scatter)

    @property
    def residual_variance(self) -> float:
        """1 - r^2; where either does not vary, 0 if both do not and 1 if the other does."""
        (a, c), (_, b) = self.scatter
        varies = np.array([a, b]) > self.count * (ROUNDING * self.mean) ** 2
        if not np.all(varies):
            return float(np.any(varies))
        return float(max(1.0 - c * c / (a * b), 0.0))

    @property
    def stress(self) -> float:
        """Of 0 where all are 0, of 1 where all distances of the embedding are."""
        (a, c), (_, b) = self._about_zero
        if a <= 0.0 or b <= 0.0:
            return float(a > 0.0)
        return float(sqrt(max(1.0 - c * c / (a * b), 0.0)))

    @property
    def scale(self) -> float:
        (_, c), (_, b) = self._about_zero
        return float(c / b) if b > 0.0 else nan

    @property
    def _about_zero(self) -> Array:
        return self.scatter + self.count * np.outer(self.mean, self.mean)
