"""The rows that a chart shows: read in one pass from wherever they lie, never more than are drawn.

The rows are drawn by hashes of their positions (`eigengap.sources.base`), so that the same
ones are drawn however the table is cut, and a smaller chart shows some of the rows of a larger
one.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
from functools import partial
from math import nan
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eigengap.estimators.shared.display import public_name
from eigengap.linalg import Array
from eigengap.plots.numbers.counts import count_of
from eigengap.sources import (
    Block,
    Drawn,
    ObservedCells,
    Source,
    as_source,
    dense_rows,
    in_memory_table,
    least_keys,
    library_of,
)

MOST_ROWS = 5_000  # that a chart shows
MOST_READ = 100_000  # that a statistic behind a chart is computed from
SEED = 0


@dataclass(frozen=True, eq=False)
class Table:
    """Rows of a table, and what is known of all of them."""

    X: Array  # (m, d) float64, NaN where missing
    at: NDArray[np.intp]  # (m,) positions in the table, ascending
    n: int  # rows in all
    missing: NDArray[np.intp]  # (d,) missing values of each column, in all rows
    names: tuple[str, ...] | None

    @property
    def is_sampled(self) -> bool:
        return len(self.at) < self.n

    @property
    def is_complete(self) -> bool:
        """Whether every row that was read is."""
        return not bool(np.isnan(self.X).any())

    def sampling(self) -> str:
        """Words on how many of the rows are shown; empty where all are."""
        return f"{len(self.at):,} of {self.n:,} rows, drawn at random" if self.is_sampled else ""


@dataclass(frozen=True, eq=False)
class _Pass:
    observed: ObservedCells
    drawn: Drawn  # rows (m, 1 + d): the position, then the cells

    def merge(self, other: _Pass) -> _Pass:
        return _Pass(self.observed.merge(other.observed), self.drawn.merge(other.drawn))


def table_of(X: Any, estimator: Any = None, *, most: int = MOST_ROWS, **how: Any) -> Table:
    """The table X as arrays, no more than `most` of its rows.

    Of a frame or a file the columns of the fit are taken, whatever others there are.
    """
    if isinstance(X, Table):
        return X
    k = count_of("max_rows, the rows to be shown,", most)
    source = source_for(estimator, X, **how)
    found = source.reduce(partial(_of, k=k))
    positions = found.drawn.rows[:, 0].astype(np.intp)
    order = np.argsort(positions)
    return Table(
        X=np.ascontiguousarray(found.drawn.rows[order, 1:]),
        at=positions[order],
        n=found.observed.rows,
        missing=found.observed.rows - found.observed.per_column,
        names=source.names,
    )


def all_rows(X: Any, estimator: Any = None) -> Table:
    """Every row of X, for the numbers of rows; a table that was read already is taken as it is."""
    return table_of(X, estimator, most=np.iinfo(np.intp).max)


def source_for(estimator: Any, X: Any, **how: Any) -> Source:
    """X as a source with the columns of the fit."""
    if isinstance(X, Source):
        source = X
    else:
        names = getattr(estimator, "feature_names_in_", None)
        by_name = library_of(X) is not None or not in_memory_table(X)
        if names is not None and by_name and "columns" not in how:
            how["columns"] = list(names)
        if estimator is not None:
            how.setdefault("missing_values", _codes(estimator))
        source = as_source(X, **how)
    d = getattr(estimator, "n_features_in_", source.n_features)
    if source.n_features != d:
        raise ValueError(
            f"X has {source.n_features} columns, and {public_name(estimator)} was fitted to {d}: "
            "give the table that it was fitted to, or new rows of the same columns"
        )
    return source


def bare(estimator: Any) -> Any:
    """The estimator without the names of its columns: it takes plain arrays and says nothing."""
    if not hasattr(estimator, "feature_names_in_"):
        return estimator
    twin = copy(estimator)
    del twin.feature_names_in_
    return twin


def inner(estimator: Any) -> Any:
    """The model inside a detector, an imputer or a regressor; any other estimator itself."""
    found = getattr(estimator, "estimator_", None)
    return estimator if found is None else inner(found)


def _codes(estimator: Any) -> Any:
    codes = getattr(estimator, "missing_values", nan)
    if hasattr(estimator, "estimator_") and np.all(np.isnan(np.asarray(codes, dtype=float))):
        return _codes(estimator.estimator_)
    return codes


def _of(block: Block, k: int) -> _Pass:
    at, keys = least_keys(k, SEED, block.start, block.n_rows, None)
    positions: Array = (at + block.start).astype(np.float64)
    rows = np.column_stack([positions, dense_rows(block.values, at)])
    return _Pass(ObservedCells.of(block), Drawn(k, keys, rows))
