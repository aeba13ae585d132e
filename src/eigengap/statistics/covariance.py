"""The covariance of rows without forming it: its products, and its triangular factor.

`CovarianceProduct` applies it to a few vectors. `Triangle` has the singular values of the rows
without squaring the data. TSQR (Demmel, Grigori, Hoemmen and Langou 2012): the factor of stacked
rows is the factor of the stacked factors, so it merges. R'R is the scatter, but the small singular
values of R keep the digits that R'R has lost. A first column of ones, sqrt(w) once the rows are
weighted, takes the last digits off that `mean` was wrong by: what the other columns have along it
is the first row of their factor, and is left out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from eigengap.linalg import Array
from eigengap.sources.base import Block
from eigengap.statistics.additive import Additive

_READ_BYTES = 1 << 23  # of rows that are multiplied twice, read from the cache the second time
_FACTORED_BYTES = 1 << 24  # of rows that are factorised at a time


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
        step = max(64, _READ_BYTES // (8 * d)) if isinstance(values, np.ndarray) else max(c, 1)
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


@dataclass(frozen=True, eq=False)
class Triangle:
    """R of the QR factorisation of sqrt(w) (x - mean) over rows, with a column sqrt(w) or not."""

    factor: Array  # (min(n, d + 1), d + 1), or without the column (min(n, d), d)
    centred: bool

    @classmethod
    def of(cls, block: Block, mean: Array, centre: bool) -> Self:
        """Of a block; `centre` is whether the rows are centred for good, `mean` being rounded."""
        c, d = block.values.shape
        step = max(4 * d, _FACTORED_BYTES // (8 * d))
        R = np.zeros((0, d + centre))
        for i in range(0, c, step):
            piece = block.values[i : i + step]
            piece = (piece if isinstance(piece, np.ndarray) else piece.toarray()) - mean
            if centre:
                piece = np.column_stack([np.ones(len(piece)), piece])
            if block.weight is not None:
                piece *= np.sqrt(block.weight[i : i + step, None])
            R = _factor(R, piece)
        return cls(R, centre)

    def merge(self, other: Self, /) -> Self:
        return type(self)(_factor(self.factor, other.factor), self.centred)

    @property
    def R(self) -> Array:
        """The factor of the centred rows, (min(n, d), d)."""
        if not self.centred:
            return self.factor
        rows, columns = self.factor.shape
        left = np.zeros((min(rows, columns - 1), columns - 1))
        left[: rows - 1] = self.factor[1:, 1:]
        return left


def _factor(above: Array, below: Array) -> Array:
    return np.asarray(np.linalg.qr(np.concatenate([above, below]), mode="r"))
