"""The triangular factor of the centred rows: singular values without squaring the data.

TSQR (Demmel, Grigori, Hoemmen and Langou 2012): the factor of stacked rows is the factor of the
stacked factors, so it merges. R'R is the scatter, but the small singular values of R keep the
digits that R'R has lost. A first column of ones, sqrt(w) once the rows are weighted, takes the
last digits off that `mean` was wrong by: what the other columns have along it is the first row of
their factor, and is left out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from eigengap.linalg import Array
from eigengap.sources.base import Block

_PIECE_BYTES = 1 << 24


@dataclass(frozen=True, eq=False)
class Triangle:
    """R of the QR factorisation of sqrt(w) (x - mean) over rows, with a column sqrt(w) or not."""

    factor: Array  # (min(n, d + 1), d + 1), or without the column (min(n, d), d)
    centred: bool

    @classmethod
    def of(cls, block: Block, mean: Array, centre: bool) -> Self:
        """Of a block; `centre` is whether the rows are centred for good, `mean` being rounded."""
        c, d = block.values.shape
        step = max(4 * d, _PIECE_BYTES // (8 * d))
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
