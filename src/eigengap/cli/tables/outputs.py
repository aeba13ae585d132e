"""Tables with numbers and text on their way out: CSV, Parquet, or numbers alone.

As every sink: under another name until complete, or not there at all. Standard output has no name
to be given at the end, and is written as rows come.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Any, Protocol, Self

import numpy as np

from eigengap.cli.errors import FileTrouble, WrongUsage, shown
from eigengap.cli.files import DASH, write_to_stdout
from eigengap.cli.tables.csv_lines import Lines, Manner
from eigengap.sources import FileSink, TextSink

TEXT, COLUMNS, NUMBERS = "text", "columns", "numbers"
SUFFIXES = {
    ".csv": TEXT, ".csv.gz": TEXT, ".tsv": TEXT, ".parquet": COLUMNS, ".pq": COLUMNS,
    ".npy": NUMBERS, ".h5": NUMBERS, ".hdf5": NUMBERS, ".zarr": NUMBERS,
}  # fmt: skip


class Output(Protocol):
    """Rows in order, appended in a `with` block."""

    n_rows: int

    def write(self, table: Any) -> None: ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *error: Any) -> None: ...


def form_of(path: str) -> str:
    """What an output can hold: text, columns of any type, or numbers alone."""
    name = path.lower()
    if path == DASH:
        return TEXT
    for suffix, form in SUFFIXES.items():
        if name.endswith(suffix):
            return form
    raise WrongUsage(
        f"-o {shown(path)} ends in none of .csv, .csv.gz, .tsv, .parquet, .npy, .h5 and .zarr, "
        "and the suffix gives what to write"
    )


def open_output(
    path: str, names: Sequence[str] | None, force: bool, manner: Manner | None = None
) -> AbstractContextManager[Any]:
    """Where rows go: an Arrow table at a time, with columns in the order of `names`."""
    form = form_of(path)
    manner = manner or Manner("\t" if path.lower().endswith(".tsv") else ",")
    if path == DASH:
        return StandardOutput(names, manner)
    target = Path(os.path.expanduser(path))
    if form == TEXT:
        return CsvOutput(target, names, force, manner)
    if form == COLUMNS:
        return ParquetOutput(target, names, force)
    return NumbersOutput(target, names, force)


class StandardOutput:
    """CSV on standard output."""

    def __init__(self, names: Sequence[str] | None, manner: Manner) -> None:
        self._lines = Lines(names, manner)
        self.n_rows = 0

    def write(self, table: Any) -> None:
        try:
            write_to_stdout(self._lines.of(table))
        except BrokenPipeError:
            raise
        except OSError as error:
            raise stdout_trouble(error) from error
        self.n_rows += table.num_rows

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: Any, *_: Any) -> None:
        if kind is not None:
            return
        try:
            sys.stdout.buffer.flush()
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

    def __init__(self, path: Path, names: Sequence[str] | None, force: bool) -> None:
        super().__init__(path, names, force)

    def write(self, table: Any) -> None:
        if self.dtype is None:
            self.dtype = np.dtype(np.float64)  # something has been appended
            self._first = table
            with self._named_errors():
                self._begin()
        with self._named_errors():
            self._write_table(table)
        self.n_rows += table.num_rows

    def _write_table(self, table: Any) -> None:
        raise NotImplementedError

    def _write(self, rows: Any) -> None:
        raise NotImplementedError


class CsvOutput(_TableSink, TextSink):
    """Text as it was, numbers in the fewest digits that read back as the same number."""

    def __init__(
        self, path: Path, names: Sequence[str] | None, force: bool, manner: Manner
    ) -> None:
        super().__init__(path, names, force)
        self._lines = Lines(names, manner)

    def _write_table(self, table: Any) -> None:
        self._text.write(self._lines.of(table))


class ParquetOutput(_TableSink):
    """Columns in their types; the bytes of CSV cells become text."""

    _writer: Any = None

    def _begin(self) -> None:
        import pyarrow as pa
        from pyarrow import parquet

        kinds = [pa.string() if pa.types.is_binary(f.type) else f.type for f in self._first.schema]
        names = self.names or tuple(map(str, range(len(kinds))))
        self._schema = pa.schema(list(zip(names, kinds, strict=True)))
        self._writer = parquet.ParquetWriter(self._create(), self._schema, write_page_checksum=True)

    def _write_table(self, table: Any) -> None:
        import pyarrow as pa

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
        from eigengap.sources import open_sink

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
