"""What sources share that stand before another one: it reads, counts passes and knows the rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from eigengap.linalg import Array
from eigengap.sources.base import ObservedCells, Rows, Source


class SourceOver(Source):
    """A source over `_parent`, with its facts."""

    _parent: Any

    def __init__(self, parent: Any) -> None:
        self._parent = parent
        self.n_features, self.names = parent.n_features, parent.names
        self.dtype, self.n_rows = parent.dtype, parent.n_rows
        self.is_sparse, self.has_missing = parent.is_sparse, parent.has_missing
        self.has_cell_sd, self.is_dear = parent.has_cell_sd, parent.is_dear

    @property
    def passes(self) -> int:
        return int(self._parent.passes)

    @passes.setter
    def passes(self, count: int) -> None:
        self._parent.passes = count

    @property
    def weight(self) -> Array | None:  # type: ignore[override]
        weight: Array | None = self._parent.weight  # only now: on a cluster it takes a pass
        return weight

    @property
    def fits_in_memory(self) -> bool:
        return bool(self._parent.fits_in_memory)

    def sample(self, k: int, rng: np.random.Generator) -> Array:
        rows: Array = self._parent.sample(k, rng)
        return rows

    def collect(self) -> Rows:
        return self._parent.collect()

    def observed(self) -> ObservedCells:
        observed: ObservedCells = self._parent.observed()
        return observed
