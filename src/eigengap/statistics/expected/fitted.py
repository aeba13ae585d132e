"""Statistics of the data under a fitted model: log-likelihood, how well the noise is known."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import inf
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eigengap.linalg import Array
from eigengap.models.gaussian.linear_gaussian import LinearGaussian
from eigengap.models.gaussian.novelty import noise_ratios
from eigengap.sources.base import Block
from eigengap.statistics.additive import Additive

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
        for X, cell_sd, w in _pieces(block):
            per_row = model.log_likelihood_limit(X, cell_sd)[w > 0]
            if np.isneginf(per_row).any():
                return cls(-inf)
            total = total.merge(cls(float(w[w > 0] @ per_row)))
        return total

    def merge(self, other: LogLikelihood) -> LogLikelihood:
        off = -inf in (self.value, other.value)
        return LogLikelihood(-inf if off else self.value + other.value)


@dataclass(frozen=True, eq=False)
class NoiseRatio(Additive):
    """How well the noise of each column is determined: sums over its observed values.

    The law of the distances of new rows (`models.gaussian.reference`) needs it.
    """

    observed_w: Array  # (d,) weights
    total: Array  # (d,) weighted Var(x_j | the others) / psi_j

    @classmethod
    def of(cls, model: LinearGaussian, block: Block) -> NoiseRatio:
        sums = np.zeros((2, model.d))
        for X, _, w in _pieces(block):
            ratios = noise_ratios(model, X)  # NaN where missing
            sums += w @ ~np.isnan(ratios), w @ np.nan_to_num(ratios)
        return cls(*sums)

    @property
    def mean(self) -> Array:
        """(d,) at least 1."""
        return np.asarray(self.total / np.maximum(self.observed_w, 1e-300))


def _pieces(block: Block) -> Iterator[tuple[NDArray[Any], Array | None, Array]]:
    """Dense rows of a block with their measurement errors and weights, a few at a time."""
    n, d = block.values.shape
    step = max(1, DENSE_CELLS // max(d, 1))
    for start in range(0, n, step):
        rows = slice(start, start + step)
        values = block.values[rows]
        X = values if isinstance(values, np.ndarray) else values.toarray()
        cell_sd = None if block.cell_sd is None else block.cell_sd[rows]
        yield X, cell_sd, np.ones(len(X)) if block.weight is None else block.weight[rows]
