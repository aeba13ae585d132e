"""A source with some of its cells hidden, by a counter-based generator: one fold of many."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from eigengap.sources.base import Block, ObservedCells, Rows, Source
from eigengap.sources.derived.blocked import DerivedSource
from eigengap.sources.derived.hidden_cells import cell_uniforms


def fold_of_cells(start: int, shape: tuple[int, int], folds: int, seed: int) -> NDArray[np.intp]:
    """The fold (0 .. folds - 1) of each cell of the rows from `start` on: (c, d).

    It depends on (seed, row, column) alone, so that blocks cannot change it.
    """
    rows = np.arange(start, start + shape[0])
    return (folds * cell_uniforms(rows, shape[1], seed)).astype(np.intp)


class HeldOut(DerivedSource):
    """The rows of another source without the cells of one fold."""

    def __init__(self, parent: Source, fold: int, folds: int, seed: int) -> None:
        super().__init__(parent, partial(_without, fold=fold, folds=folds, seed=seed))
        self.is_sparse = False
        self.has_missing = True
        self.fold = fold

    def sample(self, k: int, rng: np.random.Generator) -> NDArray[np.float64]:
        raise NotImplementedError("hidden cells belong to rows, and a sample forgets which")

    def collect(self) -> Rows:
        return self.map(_values)

    def observed(self) -> ObservedCells:
        return self.reduce(ObservedCells.of)


def _without(block: Block, fold: int, folds: int, seed: int) -> Block:
    values = block.values
    dense = values if isinstance(values, np.ndarray) else values.toarray()
    hidden = fold_of_cells(block.start, dense.shape, folds, seed) == fold
    return replace(block, values=np.where(hidden, np.nan, dense.astype(np.float64, copy=False)))


def _values(block: Block) -> NDArray[np.float64]:
    return block.values  # type: ignore[no-any-return]
