"""Predictions of a model whose parameters are taken for known, but for columns observed seldom.

The uncertainty of parameters is found at a maximum of the likelihood. Far from one it is beyond all
measure: on WDBC, 30 % missing, 18 factors, standard deviations are 6 times those of the model
itself after 10 steps of EM, 1.1 times at the end. A fit that is stopped early plugs its parameters
in instead, which costs little where there are many rows for each factor.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from eigengap.linalg import Array
from eigengap.models.gaussian.information import ObservationPattern
from eigengap.models.gaussian.linear_gaussian import LinearGaussian
from eigengap.models.gaussian.predictive import Predictive

FEW_ROWS = 30  # in which a column is observed, below which its parameters are not taken for known


@dataclass(frozen=True, eq=False)
class PlugIn:
    """A model, with the uncertainty of the parameters of columns observed in few rows."""

    model: LinearGaussian
    evidence: ObservationPattern | None = None

    def conditional(self, X: Array, cell_sd: Array | None = None) -> tuple[Array, Array]:
        mean, variance = self.model.conditional(X, cell_sd)
        if self._few.any():
            _, wider = self._uncertain.conditional(X, cell_sd)
            variance = np.where(self._few, np.maximum(variance, wider), variance)
        return mean, variance

    def draw(self, rng: np.random.Generator) -> LinearGaussian:
        few = self._few
        if not few.any():
            return self.model
        drawn = self._uncertain.draw(rng)
        return replace(
            self.model,
            W=np.where(few[:, None], drawn.W, self.model.W),
            mu=np.where(few, drawn.mu, self.model.mu),
            psi=np.where(few, drawn.psi, self.model.psi),
        )

    @cached_property
    def _few(self) -> NDArray[np.bool_]:
        """(d,) columns of which too few values can be held out to calibrate their intervals."""
        if self.evidence is None:
            return np.zeros(self.model.d, dtype=bool)
        return self.evidence.observed_w < FEW_ROWS

    @cached_property
    def _uncertain(self) -> Predictive:
        assert self.evidence is not None
        return Predictive.of(self.model, self.evidence)
