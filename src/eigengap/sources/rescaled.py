"""A source in other units: every column divided by its own."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from eigengap.linalg import Array
from eigengap.sources.array import BlockedSource, DerivedSource
from eigengap.sources.base import Block, Rows, Source


class Rescaled(DerivedSource):
    """The rows of another source, x / unit."""

    def __init__(self, parent: Source, unit: Array) -> None:
        if not isinstance(parent, BlockedSource):
            raise TypeError(f"{type(parent).__name__} cannot be read block by block")
        super().__init__(parent)
        self.dtype = np.dtype(np.float64)  # float32 would round what an offset leaves of the digits
        self._unit = unit

    def _blocks(self) -> Iterator[Block]:
        for block in self._parent._blocks():
            cell_sd = None if block.cell_sd is None else block.cell_sd / self._unit
            yield replace(block, values=self._rescale(block.values), cell_sd=cell_sd)

    def sample(self, k: int, rng: np.random.Generator) -> Array:
        return np.asarray(self._parent.sample(k, rng) / self._unit)

    def collect(self) -> Rows:
        return self._rescale(self._parent.collect())

    def _rescale(self, values: Rows) -> Rows:
        if isinstance(values, np.ndarray):
            return values / self._unit
        return (values * (1.0 / self._unit)).tocsr()
