"""The law of the eigenvalues of pure noise (Marchenko and Pastur 1967).

The sample covariance of n rows of d independent columns of variance sigma2 has eigenvalues that, as
n and d grow with ratio g = d / n, lie between sigma2 (1 - sqrt g)^2 and sigma2 (1 + sqrt g)^2 with
the density

    f(x) = sqrt((b - x)(x - a)) / (2 pi sigma2 g x);

where d > n, d - n of them are zero besides. An eigenvalue beyond b is not explained by noise; a
component of variance below sigma2 sqrt g above the noise leaves no trace (Baik, Ben Arous and Peche
2005). In a finite table the largest eigenvalue of noise is about half as often beyond b as not; it
follows the law of Tracy and Widom (Johnstone 2001), whose 95 % quantile says what chance explains.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import Any

import numpy as np

from eigengap.estimators.shared.display import public_name
from eigengap.linalg import Array
from eigengap.plots.numbers.rows import inner
from eigengap.spectrum import Spectrum

TRACY_WIDOM = 0.9793  # 95 % quantile of the law for real matrices


@dataclass(frozen=True)
class MarchenkoPastur:
    """The law for n rows (those left when the mean is taken off), d columns, noise sigma2."""

    n: float
    d: int
    sigma2: float

    @property
    def edges(self) -> tuple[float, float]:
        root = sqrt(self.d / self.n)
        return self.sigma2 * (1.0 - root) ** 2, self.sigma2 * (1.0 + root) ** 2

    @property
    def by_chance(self) -> float:
        """What the largest eigenvalue of noise exceeds in 5 % of tables (Johnstone 2001)."""
        a, b = sqrt(max(self.n - 1.0, 1.0)), sqrt(self.d)
        spread = (a + b) * (1.0 / a + 1.0 / b) ** (1.0 / 3.0)
        return self.sigma2 * ((a + b) ** 2 + TRACY_WIDOM * spread) / self.n

    def density(self, x: Array) -> Array:
        """Of the eigenvalues that are not zero by force: integrates to min(1, n / d)."""
        low, high = self.edges
        inside = (x > low) & (x < high)
        at = np.where(inside, x, 1.0)
        value = np.sqrt(np.maximum((high - at) * (at - low), 0.0))
        return np.where(inside, value / (2 * np.pi * self.sigma2 * (self.d / self.n) * at), 0.0)


@dataclass(frozen=True, eq=False)
class AgainstNoise:
    """Eigenvalues beside those of noise."""

    values: Array  # (r,) known eigenvalues at divisor n - 1, descending
    law: MarchenkoPastur
    kept: int  # components of the model whose noise variance this is
    complete: bool  # whether `values` are all that can differ from zero

    @property
    def exceeding(self) -> int:
        """How many eigenvalues lie beyond the edge."""
        return int(np.sum(self.values > self.law.edges[1]))

    @property
    def beyond_chance(self) -> int:
        """How many lie farther out than the largest of noise does in 95 % of tables."""
        return int(np.sum(self.values > self.law.by_chance))


def against_noise(estimator: Any) -> AgainstNoise:
    """The spectrum of a fitted estimator with the law of noise of its own noise variance."""
    model = inner(estimator)
    spectrum = getattr(model, "spectrum_", None)
    if not isinstance(spectrum, Spectrum) or np.ndim(model.noise_variance_) != 0:
        raise AttributeError(
            f"{public_name(estimator)} has no spectrum to hold against noise: that takes a "
            "covariance, and one noise variance for all columns. PCA, PPCA and BayesianPCA (with "
            'noise="isotropic") have them'
        )
    n = spectrum.sum_w - 1.0
    factor = spectrum.sum_w / n
    sigma2 = float(model.noise_variance_) * factor
    if sigma2 <= 0.0:
        raise ValueError(
            f"{public_name(estimator)} keeps every direction, so that nothing is left for noise: "
            "fit fewer components than columns"
        )
    law = MarchenkoPastur(n, spectrum.d, sigma2)
    return AgainstNoise(
        spectrum.lam * factor, law, int(model.n_components_), bool(spectrum.complete)
    )
