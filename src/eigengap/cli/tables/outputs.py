"""Tables with numbers and text on their way out: CSV, Parquet, or numbers alone.

As every sink: under another name until complete, or not there at all. Standard output has no name
to be given at the end, and is written as rows come. CSV has bytes as they are, and numbers so that
they read back the same.
"""

from __future__ import annotations

import csv
import errno
import io
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import pyarrow as pa
from pyarrow import compute, parquet
from pyarrow import csv as arrow_csv

from eigengap.cli.errors import FileTrouble
from eigengap.cli.files import COLUMNS, DASH, TEXT, form_of, write_to_stdout
from eigengap.sources import BOM, FileSink, TextSink, csv_header, open_sink


@dataclass(frozen=True)
class Manner:
    """How CSV is written."""

    separator: str = ","
    decimal: str = "."
    newline: str = "\n"
    has_mark: bool = False  # of byte order, in front of all
    above: bytes = b""  # lines above the table, with that mark


def open_output(
    path: str, names: Sequence[str] | None, force: bool, manner: Manner | None = None
) -> AbstractContextManager[Any]:
    """Where rows go: an Arrow table at a time, with columns in the order of `names`."""
    form = form_of(path)
    lines = Lines(names, manner or Manner("\t" if path.lower().endswith(".tsv") else ","))
    if path == DASH:
        return StandardOutput(lines)
    target = Path(os.path.expanduser(path))
    if form == TEXT:
        return CsvOutput(target, names, force, lines)
    if form == COLUMNS:
        return ParquetOutput(target, names, force)
    return NumbersOutput(target, names, force)


class Lines:
    """Makes lines; the first that it makes is the header, where there are names."""

    def __init__(self, names: Sequence[str] | None, how: Manner) -> None:
        self._how = how
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
        if pa.types.is_binary(column.type):
            return column
        if pa.types.is_floating(column.type):
            column = compute.if_else(compute.is_nan(column), None, column)
        is_number = pa.types.is_floating(column.type) or pa.types.is_decimal(column.type)
        text = column.cast(pa.string())
        if is_number:
            text = with_mark(text, self._how.decimal)
        return compute.fill_null(text, "").cast(pa.binary())

    def _plainly(self, columns: Sequence[Any]) -> bytes | None:
        """The lines by pyarrow; None where a cell has to be in quotes."""
        if len(columns) == 1:  # an empty cell would be an empty line, which is no row
            return None
        table = pa.Table.from_arrays(list(columns), [str(k) for k in range(len(columns))])
        text = pa.BufferOutputStream()
        options = arrow_csv.WriteOptions(
            include_header=False, delimiter=self._how.separator, quoting_style="none"
        )
        try:
            arrow_csv.write_csv(table, text, options)
        except pa.ArrowInvalid:
            return None
        lines, newline = text.getvalue().to_pybytes(), self._how.newline
        return lines if newline == "\n" else lines.replace(b"\n", newline.encode())

    def _in_quotes(self, columns: Sequence[Any]) -> bytes:
        written, how = io.StringIO(newline=""), self._how
        # A letter for each byte, so that any bytes come out as they went in.
        cells = [[cell.decode("latin-1") for cell in column.to_pylist()] for column in columns]
        writer = csv.writer(written, delimiter=how.separator, lineterminator=how.newline)
        writer.writerows(zip(*cells, strict=True))
        return written.getvalue().encode("latin-1")


def with_mark(text: Any, decimal: str) -> Any:
    """Numbers as Arrow's text, with a decimal mark of one's own."""
    return text if decimal == "." else compute.replace_substring(text, ".", decimal)


class StandardOutput:
    """CSV on standard output."""

    def __init__(self, lines: Lines) -> None:
        self._lines, self.n_rows = lines, 0

    def write(self, table: Any) -> None:
        with _telling_of_stdout():
            write_to_stdout(self._lines.of(table))
        self.n_rows += table.num_rows

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: Any, *_: Any) -> None:
        if kind is None:
            with _telling_of_stdout():
                sys.stdout.buffer.flush()


@contextmanager
def _telling_of_stdout() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise stdout_trouble(error) from error


def stdout_trouble(error: OSError) -> FileTrouble:
    """What the system says of standard output; whatever waits to be written is given up."""
    with suppress(OSError, ValueError):  # it may be no file
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    why = error.strerror or os.strerror(error.errno or errno.EIO)
    return FileTrouble(f"standard output cannot be written to: {why}")


class _TableSink(FileSink):
    """A sink that takes Arrow tables."""

    def write(self, table: Any) -> None:
        with self._named_errors():
            if self.dtype is None:
                self.dtype = np.dtype(np.float64)  # something has been appended
                self._first = table
                self._begin()
            self._write(table)
        self.n_rows += table.num_rows


class CsvOutput(_TableSink, TextSink):
    """Text as it was, numbers in the fewest digits that read back as the same number."""

    def __init__(self, path: Path, names: Sequence[str] | None, force: bool, lines: Lines) -> None:
        super().__init__(path, names, force)
        self._lines = lines

    def _write(self, table: Any) -> None:
        self._text.write(self._lines.of(table))


class ParquetOutput(_TableSink):
    """Columns in their types; the bytes of CSV cells become text."""

    _writer: Any = None

    def _begin(self) -> None:
        kinds = [pa.string() if pa.types.is_binary(f.type) else f.type for f in self._first.schema]
        names = self.names or tuple(map(str, range(len(kinds))))
        self._schema = pa.schema(list(zip(names, kinds, strict=True)))
        self._writer = parquet.ParquetWriter(self._create(), self._schema, write_page_checksum=True)

    def _write(self, table: Any) -> None:
        columns = []
        for k, field in enumerate(self._schema):
            try:
                columns.append(table.column(k).cast(field.type))
            except pa.ArrowInvalid as error:
                raise FileTrouble(
                    f"column {field.name!r} cannot be written as {field.type} ({error}); write CSV"
                ) from error
        self._writer.write_table(pa.Table.from_arrays(columns, schema=self._schema))

    def _end(self) -> None:
        self._writer.close()
        self._close()

    def _abandon(self) -> None:
        if self._writer is not None:
            self._writer.is_open = False  # closing it would write the footer
        super()._abandon()


class NumbersOutput:
    """.npy, .h5 and .zarr by the library's sinks."""

    def __init__(self, path: Path, names: Sequence[str] | None, force: bool) -> None:
        self._sink = open_sink(path, names, force=force)

    @property
    def n_rows(self) -> int:
        return self._sink.n_rows

    def write(self, table: Any) -> None:
        columns = [table.column(k).to_numpy() for k in range(table.num_columns)]
        self._sink.append(np.column_stack(columns).astype(np.float64, copy=False))

    def __enter__(self) -> Self:
        self._sink.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._sink.__exit__(*error)
