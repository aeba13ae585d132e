"""Independent Gaussian columns: a linear-Gaussian model without components.

A new value of a column observed in n rows follows Student's t with n - 1 degrees of freedom about
the mean, with scale s sqrt(1 + 1 / n), s^2 at divisor n - 1.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.stats import t as student

from eigengap.linalg import Array


@dataclass(frozen=True, eq=False)
class IndependentColumns:
    """The predictive distribution of each column."""

    mean: Array  # (d,)
    degrees: Array  # (d,) of freedom
    scale: Array  # (d,)

    @classmethod
    def of(cls, X: Array, weight: Array | None) -> IndependentColumns:
        observed = ~np.isnan(X)
        w = np.where(observed, 1.0 if weight is None else weight[:, None], 0.0)
        n = w.sum(axis=0)
        mean = np.sum(w * np.where(observed, X, 0.0), axis=0) / n
        squares = np.sum(w * np.where(observed, X - mean, 0.0) ** 2, axis=0)
        degrees = np.maximum(n - 1.0, 1.0)
        return cls(mean, degrees, np.sqrt(squares / degrees * (1.0 + 1.0 / n)))

    def std(self) -> Array:
        """(d,) such that +- 1.96 of them are the 95 % interval of the t distribution."""
        return np.asarray(
            self.scale * student.ppf(0.975, self.degrees) / student.ppf(0.975, np.inf)
        )
