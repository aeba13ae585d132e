"""Independent Gamma variables as a value: what variational Bayes knows of a precision."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import digamma, gammaln

from eigengap.linalg import Array


@dataclass(frozen=True, eq=False)
class Gammas:
    """k independent variables with density b^a x^(a - 1) exp(-b x) / Gamma(a)."""

    shape: Array  # (k,) a
    rate: Array  # (k,) b

    def __len__(self) -> int:
        return len(self.rate)

    def mean(self) -> Array:
        return np.asarray(self.shape / self.rate)

    def mean_log(self) -> Array:
        return np.asarray(digamma(self.shape) - np.log(self.rate))

    def divergence(self, shape: float, rate: float) -> float:
        """Sum of the Kullback-Leibler divergences from Gamma(shape, rate)."""
        terms = (
            (self.shape - shape) * digamma(self.shape)
            - gammaln(self.shape)
            + gammaln(shape)
            + shape * (np.log(self.rate) - np.log(rate))
            + (rate - self.rate) * self.mean()
        )
        return float(np.sum(terms))

    def sample_inverse(self, n: int, rng: np.random.Generator) -> Array:
        """Draws of 1 / x, (n, k); 0 for a rate of 0, a precision without bounds."""
        return np.asarray(self.rate / rng.gamma(self.shape, size=(n, len(self))))
