"""The covariance applied to a few vectors, without ever being formed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from eigengap.linalg import Array
from eigengap.sources.base import Block
from eigengap.statistics.additive import Additive

_PIECE_BYTES = 1 << 23  # read twice from the cache instead of from memory


@dataclass(frozen=True, eq=False)
class CovarianceProduct(Additive):
    """Sum of w (x - mean)(x - mean)' V over rows: one pass of a Krylov method."""

    value: Array  # (d, k)

    @classmethod
    def of(cls, block: Block, V: Array, mean: Array | None) -> Self:
        """The product for a block, V (d, k); `mean` None means rows that are centred already.

        The rows are centred implicitly, (X - 1 mean') V = X V - 1 (mean' V), so that sparse rows
        stay sparse. This loses the digits of |mean| / sd: rows far from zero are to be centred
        beforehand.
        """
        values, w = block.values, block.weight
        c, d = values.shape
        offset = None if mean is None else mean @ V  # (k,)
        value = np.zeros((d, V.shape[1]))
        sums = np.zeros(V.shape[1])
        step = max(64, _PIECE_BYTES // (8 * d)) if isinstance(values, np.ndarray) else max(c, 1)
        for i in range(0, c, step):
            piece = values[i : i + step].astype(np.float64, copy=False)
            scores = piece @ V  # (step, k)
            if offset is not None:
                scores -= offset
            if w is not None:
                scores *= w[i : i + step, None]
            value += piece.T @ scores
            sums += scores.sum(axis=0)
        if mean is not None:
            value -= mean[:, None] * sums
        return cls(value)
