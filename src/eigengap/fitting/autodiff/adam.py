"""Adam (Kingma and Ba 2015, Algorithm 1): steps of a size that each parameter's gradients set.

m <- b1 m + (1 - b1) g,  v <- b2 v + (1 - b2) g^2,
x <- x - rate (m / (1 - b1^t)) / (sqrt(v / (1 - b2^t)) + eps)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from eigengap.linalg import Array

BETA1, BETA2, EPS = 0.9, 0.999, 1e-8


@dataclass(frozen=True, eq=False)
class Adam:
    """Parameters and what Adam remembers of their gradients."""

    x: Array
    first: Array  # m, of x's shape
    second: Array  # v
    count: int  # t, steps taken

    @classmethod
    def at(cls, x: Array) -> Adam:
        return cls(x, np.zeros_like(x), np.zeros_like(x), 0)

    def step(self, gradient: Array, rate: float) -> Adam:
        t = self.count + 1
        first = BETA1 * self.first + (1 - BETA1) * gradient
        second = BETA2 * self.second + (1 - BETA2) * (gradient * gradient)
        size = rate / (1 - BETA1**t)
        x = self.x - size * first / (np.sqrt(second / (1 - BETA2**t)) + EPS)
        return Adam(x, first, second, t)
