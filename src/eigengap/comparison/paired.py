"""Means over rows with standard errors, and differences paired by row.

Rows are the independent unit: cells of one row are not. Each row i brings a sum a_i over c_i items
(its log-likelihood, c_i = 1; its squared errors over c_i held-out cells) and counts w_i times. The
mean is the ratio sum w a / sum w c, and what row i contributes to it is (a_i - mean c_i) / sum w c,
so that standard errors of means, and of differences of functions of two means, follow from sums of
squares of contributions (Cochran 1977, section 6.4, without the finite-population factor).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

import numpy as np

from eigengap.linalg import Array


@dataclass(frozen=True, eq=False)
class RowMean:
    """A mean over rows and what each row contributes to its error."""

    value: float
    influence: Array  # (n,) per copy of the row; its weighted sum is 0
    weight: Array  # (n,)

    @classmethod
    def of(cls, sums: Array, counts: Array, weight: Array) -> RowMean:
        total = float(weight @ counts)
        value = float(weight @ sums) / total
        return cls(value, (sums - value * counts) / total, weight)

    def root(self) -> RowMean:
        """The mean's square root, by the delta method."""
        value = sqrt(self.value)
        return RowMean(
            value, self.influence / (2 * value) if value else self.influence, self.weight
        )

    def minus(self, other: RowMean) -> RowMean:
        return RowMean(self.value - other.value, self.influence - other.influence, self.weight)

    @property
    def se(self) -> float:
        n = float(np.sum(self.weight))
        if n <= 1.0:
            return float("nan")
        return sqrt(float(self.weight @ self.influence**2) * n / (n - 1.0))
