"""Tables on Dask: arrays and data frames, on a cluster or on the threads of this machine.

| file | what |
|---|---|
| `table.py` | a collection as partitions, refused before anything is computed if need be |
| `tasks.py` | what workers run: partitions to blocks to statistics, and the tree of merges |
| `cluster.py` | where tasks run, what is sent, what can go wrong and in which partitions |
| `source.py` | `DaskSource`, and what an iterative fit keeps on the workers |

Importing this module imports no Dask.
"""

from __future__ import annotations

from math import nan
from typing import TYPE_CHECKING, Any

from eigengap.sources.array import is_dask
from eigengap.sources.files.paths import needed

if TYPE_CHECKING:
    from eigengap.sources.dask.source import DaskSource


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
    from eigengap.sources.checks import missing_codes
    from eigengap.sources.dask.source import BLOCK_BYTES, DaskSource
    from eigengap.sources.dask.table import table_of, weight_of

    table = table_of(X, columns)
    return DaskSource(
        table,
        weight=weight_of(sample_weight, table),
        codes=missing_codes(missing_values),
        block_bytes=BLOCK_BYTES if block_bytes is None else block_bytes,
        block_rows=block_rows,
    )
