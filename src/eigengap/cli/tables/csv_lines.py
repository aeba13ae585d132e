"""Arrow tables as lines of CSV: bytes as they are, numbers so that they read back the same."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from eigengap.sources import BOM, csv_header


@dataclass(frozen=True)
class Manner:
    """How CSV is written."""

    separator: str = ","
    decimal: str = "."
    newline: str = "\n"
    has_mark: bool = False  # of byte order, in front of all
    above: bytes = b""  # lines above the table, with that mark


class Lines:
    """Makes lines; the first that it makes is the header, where there are names."""

    def __init__(self, names: Sequence[str] | None, how: Manner) -> None:
        self._separator, self._decimal, self._newline = how.separator, how.decimal, how.newline
        self._head = how.above or (BOM if how.has_mark else b"")
        if names is not None:
            self._head += csv_header(names, how.separator, how.newline)

    def of(self, table: Any) -> bytes:
        """All rows of the table, after the header if they are the first."""
        head, self._head = self._head, b""
        text = [self._as_text(table.column(k)) for k in range(table.num_columns)]
        return head + (self._plainly(text) or self._in_quotes(text))

    def _as_text(self, column: Any) -> Any:
        """A column as bytes; null and NaN are empty."""
        import pyarrow as pa
        from pyarrow import compute

        if pa.types.is_binary(column.type):
            return column
        if pa.types.is_floating(column.type):
            column = compute.if_else(compute.is_nan(column), None, column)
        number = pa.types.is_floating(column.type) or pa.types.is_decimal(column.type)
        text = column.cast(pa.string())
        if number and self._decimal != ".":
            text = compute.replace_substring(text, ".", self._decimal)
        return compute.fill_null(text, "").cast(pa.binary())

    def _plainly(self, columns: Sequence[Any]) -> bytes | None:
        """The lines by pyarrow; None where a cell has to be in quotes."""
        import pyarrow as pa
        from pyarrow import csv as arrow_csv

        if len(columns) == 1:  # an empty cell would be an empty line, which is no row
            return None
        table = pa.Table.from_arrays(list(columns), [str(k) for k in range(len(columns))])
        text = pa.BufferOutputStream()
        options = arrow_csv.WriteOptions(
            include_header=False, delimiter=self._separator, quoting_style="none"
        )
        try:
            arrow_csv.write_csv(table, text, options)
        except pa.ArrowInvalid:
            return None
        lines = text.getvalue().to_pybytes()
        return lines if self._newline == "\n" else lines.replace(b"\n", self._newline.encode())

    def _in_quotes(self, columns: Sequence[Any]) -> bytes:
        written = io.StringIO(newline="")
        # A letter for each byte, so that any bytes come out as they went in.
        cells = [[cell.decode("latin-1") for cell in column.to_pylist()] for column in columns]
        writer = csv.writer(written, delimiter=self._separator, lineterminator=self._newline)
        writer.writerows(zip(*cells, strict=True))
        return written.getvalue().encode("latin-1")
