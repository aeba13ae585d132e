"""A table from its first row to its last: numbers for the model, and all columns beside them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eigengap.cli.tables.table import Table
from eigengap.exceptions import UnreadableError
from eigengap.sources import count_missing, missing_codes, with_missing_for


@dataclass(frozen=True, eq=False)
class Piece:
    """Consecutive rows."""

    values: NDArray[Any]  # (c, d) features; NaN marks a missing value
    columns: Any  # Arrow table of all columns of the file: bytes of CSV, types of Parquet
    start: int  # index of the first row

    @property
    def n_rows(self) -> int:
        return len(self.values)

    def table(self, names: tuple[str, ...] | None) -> Any:
        """The features as what an estimator takes."""
        from eigengap.sources import ArraySource

        return ArraySource(self.values, names=names)


def pieces(table: Table) -> Iterator[Piece]:
    """One pass over the table, some megabytes at a time."""
    codes = missing_codes([code for code in table.missing_values if isinstance(code, float)])
    start = 0
    for where, values, columns in _read(table):
        if codes:
            values = with_missing_for(values, codes)
        try:
            count_missing(values, table.feature_names, start)
        except ValueError as error:
            raise UnreadableError(where, str(error)) from None
        yield Piece(values, columns, start)
        start += len(values)
    if start == 0:
        raise UnreadableError(table.given, "it has no rows")


def _read(table: Table) -> Iterator[tuple[str, NDArray[Any], Any]]:
    if table.kind == "csv":
        for reader in table.readers:
            for values, columns in reader.with_text(table.features):
                yield reader.where, values, columns
    elif table.kind == "parquet":
        from eigengap.cli.tables.parquet_rows import rows_of

        for path in table.paths:
            for values, columns in rows_of(path, table.features):
                yield path, values, columns
    else:
        yield from _numbers(table)


def _numbers(table: Table) -> Iterator[tuple[str, NDArray[Any], Any]]:
    import pyarrow as pa

    source = table.source(range(table.n_columns))
    names = [str(j) for j in range(table.n_columns)]
    for block in source._blocks():
        rows = np.asarray(block.values, dtype=np.float64)
        columns = pa.Table.from_arrays(
            [pa.array(np.ascontiguousarray(rows[:, j])) for j in range(rows.shape[1])], names
        )
        yield table.given, np.ascontiguousarray(rows[:, list(table.features)]), columns
