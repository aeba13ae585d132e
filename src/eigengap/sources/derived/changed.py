"""Sources with other values: columns in other units, or cells hidden from a model."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from eigengap.linalg import Array
from eigengap.runtime.hashing import cell_uniforms
from eigengap.sources.base import Block, ObservedCells, Rows, Source
from eigengap.sources.derived.blocked import DerivedSource


class Rescaled(DerivedSource):
    """The rows of another source, x / unit."""

    def __init__(self, parent: Source, unit: Array) -> None:
        super().__init__(parent, partial(_rescaled, unit=unit))
        self.dtype = np.dtype(np.float64)  # float32 would round what an offset leaves of the digits
        self._unit = unit

    def sample(self, k: int, rng: np.random.Generator) -> Array:
        return np.asarray(self._parent.sample(k, rng) / self._unit)

    def collect(self) -> Rows:
        return _divided(self._parent.collect(), self._unit)

    def collect_cell_sd(self) -> Array | None:
        known = self._parent.collect_cell_sd()
        return None if known is None else known / self._unit


def _rescaled(block: Block, unit: Array) -> Block:
    cell_sd = None if block.cell_sd is None else block.cell_sd / unit
    return replace(block, values=_divided(block.values, unit), cell_sd=cell_sd)


def _divided(values: Rows, unit: Array) -> Rows:
    if isinstance(values, np.ndarray):
        return values / unit
    rows = values.tocsr().astype(np.float64)
    rows.data = rows.data / unit[rows.indices]  # 1 / unit may be out of range
    return rows


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


def hidden_cells(observed: NDArray[np.bool_], share: float, seed: int) -> NDArray[np.bool_]:
    """Which observed values to hold out, about `share` of them; every row keeps one: (n, d)."""
    number = cell_uniforms(np.arange(len(observed)), observed.shape[1], seed)
    hidden = observed & (number < share)
    bare = hidden.any(axis=1) & ~(observed & ~hidden).any(
        axis=1
    )  # nothing would be left to predict from
    kept = np.argmax(np.where(observed[bare], number[bare], -1.0), axis=1)
    hidden[np.flatnonzero(bare), kept] = False
    return hidden
