"""A source in other units: every column divided by its own."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np

from eigengap.linalg import Array
from eigengap.sources.base import Block, Rows, Source
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
