"""A source with some of its cells hidden, by a counter-based generator: one fold of many."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from eigengap.sources.array import BlockedSource, DerivedSource
from eigengap.sources.base import Block, Rows, SeenCells, Source
from eigengap.sources.hidden_cells import cell_uniforms


def fold_of_cells(start: int, shape: tuple[int, int], folds: int, seed: int) -> NDArray[np.intp]:
    """The fold (0 .. folds - 1) of each cell of the rows from `start` on: (c, d).

    It depends on (seed, row, column) alone, so that blocks cannot change it.
    """
    rows = np.arange(start, start + shape[0])
    return (folds * cell_uniforms(rows, shape[1], seed)).astype(np.intp)


class HeldOut(DerivedSource):
    """The rows of another source without the cells of one fold."""

    def __init__(self, parent: Source, fold: int, folds: int, seed: int) -> None:
        if not isinstance(parent, BlockedSource):
            raise TypeError(f"{type(parent).__name__} cannot be read block by block")
        super().__init__(parent)
        self.is_sparse = False
        self.has_gaps = True
        self.fold = fold
        self._folds, self._seed = folds, seed

    def _blocks(self) -> Iterator[Block]:
        for block in self._parent._blocks():
            yield replace(block, values=self._without(block.values, block.start))

    def sample(self, k: int, rng: np.random.Generator) -> NDArray[np.float64]:
        raise NotImplementedError("hidden cells belong to rows, and a sample forgets which")

    def collect(self) -> Rows:
        return np.concatenate([block.values for block in self._blocks()])

    def seen(self) -> SeenCells:
        return self.reduce(SeenCells.of)

    def _without(self, values: Rows, start: int) -> NDArray[np.float64]:
        dense = values if isinstance(values, np.ndarray) else values.toarray()
        fold = fold_of_cells(start, dense.shape, self._folds, self._seed)
        return np.where(fold == self.fold, np.nan, dense.astype(np.float64, copy=False))
