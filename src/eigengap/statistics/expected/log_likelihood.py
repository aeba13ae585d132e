"""The log-likelihood of a model that was not the last one of an EM step."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

import numpy as np

from eigengap.models.gaussian.linear_gaussian import LinearGaussian
from eigengap.sources.base import Block

DENSE_CELLS = 1 << 22  # of a block that are held together


@dataclass(frozen=True)
class LogLikelihood:
    """Of all rows, by weight, in the limit where the model has no density.

    A row off the model's plane outweighs all others: what it loses grows as the inverse of the
    noise, what those on the plane gain as its logarithm.
    """

    value: float

    @classmethod
    def of(cls, block: Block, model: LinearGaussian) -> LogLikelihood:
        total = cls(0.0)
        step = max(1, DENSE_CELLS // max(model.d, 1))
        for start in range(0, block.n_rows, step):
            rows = slice(start, start + step)
            values = block.values[rows]
            X = values if isinstance(values, np.ndarray) else values.toarray()
            known = None if block.cell_sd is None else block.cell_sd[rows]
            w = np.ones(len(X)) if block.weight is None else block.weight[rows]
            per_row = model.log_likelihood_limit(X, known)[w > 0]
            if np.isneginf(per_row).any():
                return cls(-inf)
            total = total.merge(cls(float(w[w > 0] @ per_row)))
        return total

    def merge(self, other: LogLikelihood) -> LogLikelihood:
        off = -inf in (self.value, other.value)
        return LogLikelihood(-inf if off else self.value + other.value)
