"""What a fitted mixture predicts once the uncertainty of its components' parameters is counted in.

Given the responsibilities, each component is a linear-Gaussian model that was fitted to its own
share of the rows, so that `Predictive` tells what is not known of it. The weights are drawn from
their posterior under a flat prior, a Dirichlet distribution; of the responsibilities themselves the
estimate is taken.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from eigengap.linalg import Array
from eigengap.models.gaussian.information import ObservationPattern
from eigengap.models.gaussian.mixture import MixtureOfLinearGaussians
from eigengap.models.gaussian.predictive import Predictive


@dataclass(frozen=True, eq=False)
class MixturePredictive:
    """A mixture and how uncertain the parameters of its components are."""

    model: MixtureOfLinearGaussians
    components: tuple[Predictive, ...]  # (K,)
    sum_w: Array  # (K,) rows of each component, by weight and responsibility

    @classmethod
    def of(
        cls, model: MixtureOfLinearGaussians, evidence: Sequence[ObservationPattern], sum_w: Array
    ) -> MixturePredictive:
        """The uncertainty of a maximum likelihood fit, component by component."""
        components = map(Predictive.of, model.models, evidence)
        return cls(model=model, components=tuple(components), sum_w=sum_w)

    def conditional(self, X: ArrayLike) -> tuple[Array, Array]:
        """Mean and variance of every cell given the seen cells of its row: (n, d), (n, d).

        By the law of total variance over the components. Seen cells are returned as they are,
        with variance 0.
        """
        resp = self.model.responsibilities(X).T[:, :, None]  # (K, n, 1)
        parts = [component.conditional(X) for component in self.components]
        mean = sum(r * m for r, (m, _) in zip(resp, parts, strict=True))
        variance = sum(r * (v + (m - mean) ** 2) for r, (m, v) in zip(resp, parts, strict=True))
        observed = ~np.isnan(np.asarray(X))
        return np.where(observed, X, mean), np.where(observed, 0.0, variance)

    def draw(self, rng: np.random.Generator) -> MixtureOfLinearGaussians:
        """A mixture whose parameters are drawn from their distribution around the estimate."""
        weights = rng.dirichlet(self.sum_w + 1.0)
        models = [component.draw(rng) for component in self.components]
        return MixtureOfLinearGaussians(np.log(np.maximum(weights, 1e-300)), models)
