"""One look at a table: what is counted over all its rows, and the rows that are shown.

Everything comes from a single pass, whatever X is: an array, a frame, files, a Dask collection. The
rows are drawn by hashes of their positions, so that the same ones are drawn however the table is
cut.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eigengap.linalg import Array
from eigengap.sources import Block, Drawn, Source, dense_rows, least_keys
from eigengap.statistics.moments import ColumnMoments


@dataclass(frozen=True, eq=False)
class Missing:
    """Unseen cells."""

    rows: int
    per_column: NDArray[np.intp]  # (d,)
    incomplete_rows: int  # with at least one
    empty_rows: int  # with nothing else

    @classmethod
    def of(cls, block: Block) -> Missing:
        n, d = block.values.shape
        if not isinstance(block.values, np.ndarray):  # CSR: every cell is seen
            return cls(n, np.zeros(d, dtype=np.intp), 0, 0)
        missing = np.isnan(block.values)
        per_row = np.count_nonzero(missing, axis=1)
        return cls(
            n,
            np.count_nonzero(missing, axis=0),
            int(np.count_nonzero(per_row)),
            int(np.count_nonzero(per_row == d)),
        )

    def merge(self, other: Missing) -> Missing:
        return Missing(
            self.rows + other.rows,
            self.per_column + other.per_column,
            self.incomplete_rows + other.incomplete_rows,
            self.empty_rows + other.empty_rows,
        )

    @property
    def cells(self) -> int:
        return int(self.per_column.sum())

    @property
    def share(self) -> float:
        return self.cells / max(self.rows * len(self.per_column), 1)


@dataclass(frozen=True, eq=False)
class _Pass:
    missing: Missing
    drawn: Drawn  # rows (m, 1 + d): the position, then the cells
    moments: ColumnMoments

    def merge(self, other: _Pass) -> _Pass:
        return _Pass(
            self.missing.merge(other.missing),
            self.drawn.merge(other.drawn),
            self.moments.merge(other.moments),
        )


@dataclass(frozen=True, eq=False)
class Look:
    """All that the report knows of the table."""

    X: Array  # (m, d) float64, NaN where missing: the rows that are shown
    at: NDArray[np.intp]  # (m,) their positions, ascending
    missing: Missing  # of all rows
    mean: Array  # (d,) of the observed values of all rows
    sd: Array  # (d,) likewise
    first_row: int = 0  # what the first row of the table is called

    @property
    def numbers(self) -> NDArray[np.intp]:
        """(m,) by which the rows that are shown go."""
        return self.at + self.first_row

    @property
    def n_rows(self) -> int:
        return self.missing.rows

    @property
    def n_columns(self) -> int:
        return self.X.shape[1]

    @property
    def is_sampled(self) -> bool:
        return len(self.at) < self.n_rows


def look_at(source: Source, k: int, seed: int) -> Look:
    """The statistics of all rows of a source, and k of the rows."""
    found = source.reduce(partial(_of, k=k, seed=seed))
    positions = found.drawn.rows[:, 0].astype(np.intp)
    order = np.argsort(positions)
    return Look(
        X=np.ascontiguousarray(found.drawn.rows[order, 1:]),
        at=positions[order],
        missing=found.missing,
        mean=np.asarray(found.moments.mean),
        sd=np.sqrt(found.moments.variance),
    )


def of_pairs(n: int, k: int, seed: int) -> Look:
    """Of a table of distances or of a graph, which has points and no columns."""
    at, _ = least_keys(k, seed, 0, n, None)
    none: Array = np.empty(0)
    missing = Missing(n, np.empty(0, dtype=np.intp), 0, 0)
    return Look(np.empty((len(at), 0)), np.sort(at), missing, none, none)


def _of(block: Block, k: int, seed: int) -> _Pass:
    at, keys = least_keys(k, seed, block.start, block.n_rows, None)
    positions: Any = (at + block.start).astype(np.float64)
    rows = np.column_stack([positions, dense_rows(block.values, at)])
    return _Pass(Missing.of(block), Drawn(k, keys, rows), ColumnMoments.of(block))
