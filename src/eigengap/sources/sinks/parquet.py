"""Writing Parquet: gaps as null, every page with a checksum."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from eigengap.exceptions import MissingExtraError
from eigengap.sources.sinks.base import FileSink

GROUP = 64 << 20  # bytes of a row group, as float64


class ParquetSink(FileSink):
    """Columns of float32 or float64; positions are the names where there are none."""

    _writer: Any = None

    def _begin(self) -> None:
        try:
            import pyarrow as pa
            from pyarrow import parquet
        except ImportError as error:
            raise MissingExtraError("writing Parquet", "pyarrow", "files") from error
        assert self.n_features is not None
        names = self.names or tuple(map(str, range(self.n_features)))
        kind = pa.from_numpy_dtype(self.dtype)
        self._schema = pa.schema([pa.field(name, kind) for name in names])
        self._tables: list[Any] = []
        self._writer = parquet.ParquetWriter(
            self._create(), self._schema, write_page_checksum=True, use_dictionary=False
        )

    def _write(self, rows: NDArray[Any]) -> None:
        import pyarrow as pa

        columns = [
            pa.array(np.ascontiguousarray(rows[:, j]), from_pandas=True)
            for j in range(rows.shape[1])
        ]
        self._tables.append(pa.Table.from_arrays(columns, schema=self._schema))
        if sum(table.nbytes for table in self._tables) >= GROUP:
            self._write_group()

    def _write_group(self) -> None:
        import pyarrow as pa

        tables, self._tables = self._tables, []
        if tables:
            table = pa.concat_tables(tables)
            self._writer.write_table(table, row_group_size=len(table))

    def _end(self) -> None:
        self._write_group()
        self._writer.close()
        self._close()

    def _abandon(self) -> None:
        if self._writer is not None:
            self._writer.is_open = False  # closing it would write the footer
        super()._abandon()
