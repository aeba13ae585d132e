"""A few rows of a table, the same ones however it is cut into blocks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from eigengap.linalg import Array
from eigengap.runtime.hashing import GOLDEN, mixed
from eigengap.sources.base import Block


@dataclass(frozen=True, eq=False)
class RowSample:
    """Rows picked by a hash of their number: no generator, hence no order of blocks."""

    values: Array  # (k, d), NaN where missing
    cell_sd: Array | None  # (k, d)
    weight: Array | None  # (k,)

    @classmethod
    def of(cls, block: Block, share: float) -> RowSample:
        """About that share of the rows of a block, those of weight 0 left out."""
        numbers = np.arange(block.start + 1, block.start + block.n_rows + 1, dtype=np.uint64)
        picked = mixed(numbers * GOLDEN) / 2.0**64 < share
        if block.weight is not None:
            picked &= block.weight > 0
        at = np.flatnonzero(picked)
        rows: Any = block.values[at]
        values = rows if isinstance(rows, np.ndarray) else rows.toarray()
        cell_sd = None if block.cell_sd is None else block.cell_sd[at]
        weight = None if block.weight is None else block.weight[at]
        return cls(values.astype(np.float64), cell_sd, weight)

    def merge(self, other: RowSample) -> RowSample:
        return RowSample(
            np.concatenate([self.values, other.values]),
            _joined(self.cell_sd, other.cell_sd),
            _joined(self.weight, other.weight),
        )


def _joined(a: Array | None, b: Array | None) -> Array | None:
    return None if a is None or b is None else np.concatenate([a, b])
