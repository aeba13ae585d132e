"""Tables on Dask: arrays and data frames, on a cluster or on the threads of this machine.

| file | what |
|---|---|
| here | a collection as partitions, refused before anything is computed if need be |
| `tasks.py` | what workers run: partitions to blocks to statistics, and the tree of merges |
| `cluster.py` | where tasks run, what is sent, what can go wrong and in which partitions |
| `coded.py` | frames whose columns hold more than numbers |
| `source.py` | `DaskSource`, and what an iterative fit keeps on the workers |

Importing this module imports no Dask.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isnan, nan
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np

from eigengap.linalg import Array
from eigengap.sources.array import F4, F8, is_dask, is_sparse, library_of
from eigengap.sources.cells import Refused, refusal
from eigengap.sources.checks import (
    as_weight,
    check_not_empty,
    check_two_dimensional,
    missing_codes,
    resolve_columns,
)
from eigengap.sources.files.paths import needed
from eigengap.sources.frames import kind_of_type, series_to_float
from eigengap.sources.wording import column

if TYPE_CHECKING:
    from dask.delayed import Delayed

    from eigengap.sources.dask.source import DaskSource

    Weight = Array | float | tuple[Delayed, ...] | None


def kind_of(X: Any) -> str | None:
    """ "array", "frame" for what has columns, "other" for another Dask collection; else None."""
    if not is_dask(X):
        return None
    if hasattr(type(X), "chunks"):
        return "array"
    return "frame" if hasattr(type(X), "npartitions") and X.ndim == 2 else "other"


def as_dask_source(
    X: Any,
    *,
    sample_weight: Any = None,
    missing_values: Any = nan,
    columns: Any = None,
    block_bytes: int | None = None,
    block_rows: int | None = None,
) -> DaskSource:
    """The Dask array or data frame X (n, d) as a source; parameters are those of `as_source`.

    X is a dask.array of two dimensions, chunked in any way, with row sizes that may be unknown, or
    a dask.dataframe of numeric columns. `sample_weight` may be a Dask array or series that is cut
    into partitions as X is. Partitions are cut into blocks.
    """
    needed("A table on Dask", "dask", "dask")
    from eigengap.sources.dask.source import BLOCK_BYTES, DaskSource

    table = table_of(X, columns)
    return DaskSource(
        table,
        weight=weight_of(sample_weight, table),
        codes=missing_codes(missing_values),
        block_bytes=BLOCK_BYTES if block_bytes is None else block_bytes,
        block_rows=block_rows,
    )


@dataclass(frozen=True, eq=False)
class Table:
    """Consecutive rows in partitions."""

    parts: tuple[Delayed, ...]
    rows: tuple[int, ...] | None  # of each partition, None where they are not known
    n_features: int
    names: tuple[str, ...] | None
    dtype: np.dtype[Any]


def table_of(X: Any, columns: Any = None, of_any_kind: bool = False) -> Table:
    """A two-dimensional dask.array, or a dask.dataframe, as a table; of any kind of columns."""
    kind = kind_of(X)
    if kind == "array":
        return _of_array(X, columns)
    if kind == "frame":
        return _of_frame(X, columns, of_any_kind)
    raise ValueError(
        f"Expected a two-dimensional dask.array or a dask.dataframe but got {type(X)}. Make one of "
        "it, e.g. dask.array.from_delayed, dask.dataframe.from_delayed, or for a single column "
        "X.to_frame()"
    )


def _of_array(X: Any, columns: Any) -> Table:
    if X.ndim != 2:
        check_two_dimensional(X)
    d = X.shape[1]
    if isnan(d):
        raise ValueError(
            "the number of columns of the Dask array is not known; call X.compute_chunk_sizes()"
        )
    if is_sparse(X._meta):
        raise ValueError(
            "the chunks of the Dask array are sparse; densify them with "
            "X.map_blocks(lambda chunk: chunk.toarray())"
        )
    if columns is not None:
        X = X[:, resolve_columns(columns, None, d)]
    if X.dtype.kind == "c":
        raise ValueError(f"Complex data not supported\n{X}\n")
    if X.dtype.kind not in "fiubO":
        raise ValueError(
            f"Input X is not numeric: the Dask array has the type {X.dtype}; convert it first, "
            "e.g. X.astype(float)"
        )
    if X.numblocks[1] > 1:
        X = X.rechunk({1: -1})
    known = not any(isnan(size) for size in X.chunks[0])
    if known or X.shape[1] == 0:
        check_not_empty(X.shape)
    return Table(
        parts=tuple(X.to_delayed().ravel()),
        rows=tuple(map(int, X.chunks[0])) if known else None,
        n_features=int(X.shape[1]),
        names=None,
        dtype=F4 if X.dtype == F4 else F8,
    )


def _of_frame(X: Any, columns: Any, of_any_kind: bool = False) -> Table:
    labels = list(X.columns)
    if columns is not None:
        positions = resolve_columns(columns, labels, len(labels))
        X, labels = X.iloc[:, positions], [labels[j] for j in positions]
    names = tuple(map(str, labels)) if all(isinstance(s, str) for s in labels) else None
    check_not_empty((1, len(labels)))
    types = _types(X._meta)
    if not of_any_kind:
        _refuse_by_type(types, names)
    return Table(
        parts=tuple(X.to_delayed()),
        rows=None,
        n_features=len(labels),
        names=names,
        dtype=F4 if all(str(t) == "Float32" for t in types) and not of_any_kind else F8,
    )


class _RefusedType(Refused):
    """A column refused by its type: no cell was looked at."""

    def __str__(self) -> str:
        return f"{self.label} ({self.kind})"


def _types(meta: Any) -> list[Any]:
    """The type of each column, in narwhals' words; it takes objects without a cell for text."""
    import narwhals as nw

    columns = [meta.iloc[:, j] for j in range(meta.shape[1])]
    return [
        nw.Object() if column.dtype == object else nw.from_native(column, series_only=True).dtype
        for column in columns
    ]


def _refuse_by_type(types: Sequence[Any], names: tuple[str, ...] | None) -> None:
    """Columns that cannot hold numbers; objects may, and are looked at where they lie."""
    import narwhals as nw

    refused, numeric = [], []
    for j, t in enumerate(types):
        if t.is_numeric() or t in (nw.Boolean, nw.Object, nw.Unknown):
            numeric.append(column(names, j))
        else:
            kind = "text" if t == nw.String else kind_of_type(t)
            refused.append(_RefusedType(column(names, j), kind, "", 0))
    if refused:
        raise refusal(refused, numeric, {})


def holds_numbers(X: Any) -> bool:
    """Whether the columns of a Dask collection hold numbers alone, by their types."""
    return kind_of(X) != "frame" or all(kind.is_numeric() for kind in _types(X._meta))


def weight_of(sample_weight: Any, table: Table) -> Weight:
    """Row weights for a table: a number, an array of all rows, or one part for each partition."""
    if sample_weight is None:
        return None
    if kind_of(sample_weight) is not None:
        return _dask_weight(sample_weight, table)
    if library_of(sample_weight) is not None:
        sample_weight = series_to_float(sample_weight)
    if isinstance(sample_weight, Real):
        return float(as_weight(sample_weight, 1)[0])  # type: ignore[index]
    given = np.asarray(sample_weight)
    n = len(given) if table.rows is None and given.ndim == 1 else sum(table.rows or ())
    return as_weight(given, n)


def _dask_weight(weight: Any, table: Table) -> tuple[Delayed, ...]:
    if weight.ndim != 1:
        raise ValueError(
            f"Sample weights must be 1D array or scalar, got a Dask {weight.ndim}D collection"
        )
    if kind_of(weight) == "array":
        known = not any(isnan(size) for size in weight.chunks[0])
        if known and table.rows is not None:
            if sum(table.rows) != weight.shape[0]:
                raise ValueError(
                    f"sample_weight has {weight.shape[0]} entries but X has {sum(table.rows)} rows"
                )
            weight = weight.rechunk((table.rows,))
    parts = tuple(np.ravel(weight.to_delayed()))
    if len(parts) != len(table.parts):
        raise ValueError(
            f"sample_weight has {len(parts)} partitions but X has {len(table.parts)}: give weights "
            "that are cut into partitions as the table is"
        )
    return parts
