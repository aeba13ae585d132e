"""The triangular factor of the centred rows: singular values without squaring the data.

TSQR (Demmel, Grigori, Hoemmen and Langou 2012): the factor of stacked rows is the factor of the
stacked factors, so it merges. R'R is the scatter, but the small singular values of R keep the
digits that R'R has lost.
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
    """R of the QR factorisation of sqrt(w) (x - mean) over rows."""

    R: Array  # (min(n, d), d)

    @classmethod
    def of(cls, block: Block, mean: Array) -> Self:
        c, d = block.values.shape
        step = max(4 * d, _PIECE_BYTES // (8 * d))
        R = np.zeros((0, d))
        for i in range(0, c, step):
            piece = block.values[i : i + step]
            piece = (piece if isinstance(piece, np.ndarray) else piece.toarray()) - mean
            if block.weight is not None:
                piece *= np.sqrt(block.weight[i : i + step, None])
            R = _factor(R, piece)
        return cls(R)

    def merge(self, other: Self, /) -> Self:
        return type(self)(_factor(self.R, other.R))


def _factor(above: Array, below: Array) -> Array:
    return np.asarray(np.linalg.qr(np.concatenate([above, below]), mode="r"))
