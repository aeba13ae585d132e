"""The rows that a chart or the report shows: read in one pass from wherever they lie.

The rows are drawn by hashes of their positions (`eigengap.sources.base`), so that the same
ones are drawn however the table is cut, and a smaller chart shows some of the rows of a larger
one. What is counted over all rows comes from the same pass.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
from functools import partial
from math import nan
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eigengap import sources
from eigengap.estimators.shared.display import public_name
from eigengap.linalg import Array
from eigengap.selection.coded_table import CodedTable
from eigengap.statistics.additive import Additive
from eigengap.statistics.moments import ColumnMoments

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
    names: tuple[str, ...] | None = None

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


def table_of(X: Any, estimator: Any = None, *, most: int = MOST_ROWS, **how: Any) -> Table:
    """The table X as arrays, no more than `most` of its rows.

    Of a frame or a file the columns of the fit are taken, whatever others there are.
    """
    if isinstance(X, Table):
        return X
    k = count_of("max_rows, the rows to be shown,", most)
    source = source_for(estimator, X, **how)
    rows, at, (observed,) = _drawn(source, k, SEED, sources.ObservedCells)
    return Table(rows, at, observed.rows, observed.rows - observed.per_column, source.names)


def all_rows(X: Any, estimator: Any = None) -> Table:
    """Every row of X, for the numbers of rows; a table that was read already is taken as it is."""
    return table_of(X, estimator, most=np.iinfo(np.intp).max)


def source_for(estimator: Any, X: Any, **how: Any) -> sources.Source:
    """X as a source with the columns of the fit: coded ones where they are of several kinds."""
    if (coded := coded_table(estimator)) is not None:
        names = getattr(estimator, "feature_names_in_", coded.names)
        return _without_limits(coded, coded.source(_of_columns(X, names)))
    if isinstance(X, sources.Source):
        source = X
    else:
        names = getattr(estimator, "feature_names_in_", None)
        by_name = sources.library_of(X) is not None or not sources.in_memory_table(X)
        if names is not None and by_name and "columns" not in how:
            how["columns"] = list(names)
        if estimator is not None:
            how.setdefault("missing_values", _codes(estimator))
        source = sources.as_source(X, **how)
    d = getattr(estimator, "n_features_in_", source.n_features)
    if source.n_features != d:
        raise ValueError(
            f"X has {source.n_features} columns, and {public_name(estimator)} was fitted to {d}: "
            "give the table that it was fitted to, or new rows of the same columns"
        )
    return source


def _without_limits(coded: CodedTable, source: sources.Source) -> sources.Source:
    """The values alone: a cell that is known by its limits is drawn as a missing one."""
    d = len(coded.used)
    if coded.details.n == 0 or coded.details.sizes:
        return source
    values = np.asarray(source.collect())[:, :d]
    names = None if source.names is None else source.names[:d]
    return sources.ArraySource(values, weight=getattr(source, "weight", None), names=names)


def count_of(name: str, value: Any, least: int = 1) -> int:
    """A whole number that a caller gives; True, which Python counts as 1, and 2.5 are none."""
    if not isinstance(value, Integral) or isinstance(value, bool) or value < least:
        raise ValueError(f"{name} must be a whole number of at least {least}, got {value!r}")
    return int(value)


def bare(estimator: Any) -> Any:
    """The estimator without the names of its columns: it takes plain arrays and does not warn.

    Where it was fitted to columns of several kinds it takes and gives coded values.
    """
    twin = copy(estimator)
    twin.__dict__.pop("feature_names_in_", None)
    if (coded := coded_table(estimator)) is not None:
        twin.n_features_in_ = len(coded.used)
        if "estimator_" in twin.__dict__:
            twin.estimator_ = bare(twin.estimator_)
        else:
            twin.table_ = coded if isinstance(coded, _Codes) else _Codes(coded)
    return twin


@dataclass(frozen=True, eq=False)
class _Codes:
    """Reads tables that are coded already, and leaves answers as they are."""

    of: CodedTable

    def source(self, X: Any) -> sources.Source:
        values = np.asarray(X, dtype=np.float64)
        lacks = len(self.of.used) + self.of.details.n - values.shape[1]
        no_limits = np.full((len(values), lacks), np.nan)  # see `_without_limits`
        return sources.ArraySource(np.hstack([values, no_limits]))

    def decode(self, X: Any, values: Array) -> Array:
        del X
        return values

    def deviations(self, X: Array, std: Array) -> Array:
        return np.where(np.isnan(X) & self.of.has_levels, np.nan, std)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.of, name)


def inner(estimator: Any) -> Any:
    """The model inside a detector, an imputer or a regressor; any other estimator itself."""
    found = getattr(estimator, "estimator_", None)
    return estimator if found is None else inner(found)


def coded_table(estimator: Any) -> Any:
    """How a fit to columns of several kinds reads tables; None of a fit to numbers."""
    return None if estimator is None else getattr(inner(estimator), "table_", None)


def _of_columns(X: Any, names: Any) -> Any:
    """A frame without columns that are not those of the fit."""
    if names is None or sources.library_of(X) is None:
        return X  # an array has the columns of the fit, and a file is read by them
    X = sources.eager_frame(X)
    known = sources.labels_of(X)
    if known == list(names) or not set(names) <= set(known):
        return X
    return sources.selected(X, names)


def _codes(estimator: Any) -> Any:
    codes = getattr(estimator, "missing_values", nan)
    if hasattr(estimator, "estimator_") and np.all(np.isnan(np.asarray(codes, dtype=float))):
        return _codes(estimator.estimator_)
    return codes


# The report's table ----------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Missing(Additive):
    """Missing values of all rows."""

    rows: int
    per_column: NDArray[np.intp]  # (d,)
    incomplete_rows: int = 0  # with at least one
    empty_rows: int = 0  # with nothing else

    @classmethod
    def of(cls, block: sources.Block) -> Missing:
        n, d = block.values.shape
        if not isinstance(block.values, np.ndarray):  # CSR: every value is observed
            return cls(n, np.zeros(d, dtype=np.intp))
        missing = np.isnan(block.values)
        per_row = np.count_nonzero(missing, axis=1)
        return cls(
            n,
            np.count_nonzero(missing, axis=0),
            int(np.count_nonzero(per_row)),
            int(np.count_nonzero(per_row == d)),
        )

    @property
    def cells(self) -> int:
        return int(self.per_column.sum())

    @property
    def share(self) -> float:
        return self.cells / max(self.rows * len(self.per_column), 1)


@dataclass(frozen=True, eq=False)
class Look:
    """What the report shows of the table."""

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


def look_at(source: sources.Source, k: int, seed: int) -> Look:
    """The statistics of all rows of a source, and k of the rows."""
    rows, at, (missing, moments) = _drawn(source, k, seed, Missing, ColumnMoments)
    return Look(rows, at, missing, np.asarray(moments.mean), np.sqrt(moments.variance))


def of_pairs(n: int, k: int, seed: int) -> Look:
    """Of a table of distances or of a graph, which has points and no columns."""
    at, _ = sources.least_keys(k, seed, 0, n, None)
    none: Array = np.empty(0)
    return Look(
        np.empty((len(at), 0)), np.sort(at), Missing(n, np.empty(0, dtype=np.intp)), none, none
    )


# One pass --------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Pass(Additive):
    drawn: sources.Drawn  # rows (m, 1 + d): the position, then the cells
    statistics: tuple[Any, ...]  # of all rows


def _drawn(
    source: sources.Source, k: int, seed: int, *statistics: Any
) -> tuple[Array, NDArray[np.intp], tuple[Any, ...]]:
    """k rows in the order of the table, their positions, and statistics of all rows."""
    found = source.reduce(partial(_of, k=k, seed=seed, statistics=statistics))
    positions = found.drawn.rows[:, 0].astype(np.intp)
    order = np.argsort(positions)
    rows = np.ascontiguousarray(found.drawn.rows[order, 1:])
    return rows, positions[order], found.statistics


def _of(block: sources.Block, k: int, seed: int, statistics: tuple[Any, ...]) -> _Pass:
    at, keys = sources.least_keys(k, seed, block.start, block.n_rows, None)
    positions: Array = (at + block.start).astype(np.float64)
    rows = np.column_stack([positions, sources.dense_rows(block.values, at)])
    return _Pass(
        sources.Drawn(k, keys, rows), tuple(statistic.of(block) for statistic in statistics)
    )
