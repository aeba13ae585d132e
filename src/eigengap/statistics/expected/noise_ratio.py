"""How well the noise of each column is determined: what the law of new rows' distances needs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from eigengap.linalg import Array
from eigengap.models.gaussian.linear_gaussian import LinearGaussian
from eigengap.models.gaussian.novelty import noise_ratios
from eigengap.sources.base import Block

DENSE_CELLS = 1 << 22  # of a block that are looked at together


@dataclass(frozen=True, eq=False)
class NoiseRatio:
    """Sums over the seen cells of each column."""

    observed_w: Array  # (d,) weights
    total: Array  # (d,) weighted Var(x_j | the others) / psi_j

    @classmethod
    def of(cls, model: LinearGaussian, block: Block) -> NoiseRatio:
        sums = np.zeros((2, model.d))
        step = max(1, DENSE_CELLS // max(model.d, 1))
        for start in range(0, block.n_rows, step):
            rows = slice(start, start + step)
            values = block.values[rows]
            X = values if isinstance(values, np.ndarray) else values.toarray()
            w = np.ones(len(X)) if block.weight is None else block.weight[rows]
            sums += w @ ~np.isnan(X), w @ np.nan_to_num(noise_ratios(model, X))
        return cls(*sums)

    def merge(self, other: NoiseRatio) -> NoiseRatio:
        return NoiseRatio(self.observed_w + other.observed_w, self.total + other.total)

    @property
    def mean(self) -> Array:
        """(d,) at least 1."""
        return np.asarray(self.total / np.maximum(self.observed_w, 1e-300))
