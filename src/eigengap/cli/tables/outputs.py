"""From every row of a table to one row of an output, in bounded memory: CSV, Parquet, or numbers.

As every sink: under another name until complete, or not there at all. Standard output has no name
to be given at the end, and is written as rows come. CSV has bytes as they are, and numbers so that
they read back the same.
"""

from __future__ import annotations

import csv
import io
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import compute, parquet
from pyarrow import csv as arrow_csv

from eigengap.cli.errors import FileTrouble, WrongUsage, shown
from eigengap.cli.files import DASH, NUMBERS, TEXT, form_of, stdout_trouble, write_to_stdout
from eigengap.cli.narration import Narrator, listing, many
from eigengap.cli.progress import counting_rows
from eigengap.cli.tables.pieces import Piece, frame_of, pieces, whole_frame
from eigengap.cli.tables.table import Table
from eigengap.registry import entry_of
from eigengap.sources import BOM, ArraySource, FileSink, Schema, TextSink, csv_header, open_sink

Of = Callable[[Piece], Sequence[Any]]  # arrays of numbers or of text, one for each name


def coordinates(model: Any, table: Table) -> tuple[list[str], Of]:
    """Names and values of what `transform` writes."""
    entry = entry_of(model)
    if entry.target == "class":

        def classes(piece: Piece) -> Sequence[Any]:
            share = np.asarray(model.predict_proba(given(model, piece, table)))
            return [model.classes_[np.argmax(share, axis=1)], *share.T]

        return ["predicted", *(f"p_{label}" for label in model.classes_)], classes
    if entry.target == "number":
        names = ["predicted", "predicted_sd"]
        return names, lambda piece: model.predict(given(model, piece, table), return_std=True)
    if entry.next_command == "impute":
        raise WrongUsage("this model imputes missing values: eigengap impute DATA --model MODEL")
    if not hasattr(model, "transform"):
        raise WrongUsage(
            f"{type(model).__name__} has no coordinates of rows; eigengap score gives their "
            "likelihood"
        )
    return list(model.component_names_), lambda piece: list(
        np.asarray(model.transform(given(model, piece, table))).T
    )


def given(model: Any, piece: Piece, table: Table) -> Any:
    """A piece as the model wants it: with the names that it was fitted to, if any.

    The columns of a table for a model are in the model's order, whatever they are called there.
    """
    if schema_of(model) is not None:
        return frame_of(table, piece, names_of(model))
    return ArraySource(piece.values, names=names_of(model))


def source_for(model: Any, table: Table) -> Any:
    """All rows as the model wants them."""
    if schema_of(model) is not None:
        return whole_frame(table, names_of(model))[0]
    source, names = table.source(), names_of(model)
    if names is None or source.names is None or tuple(source.names) == names:
        return source
    return ArraySource(source.collect(), names=names)


def schema_of(model: Any) -> Any:
    """What the columns of a model of columns of every kind hold; None where all are numbers."""
    inner = getattr(model, "estimator_", None)
    for one in (getattr(model, "table_", None), getattr(inner, "table_", None), inner):
        schema = getattr(one, "schema", None)
        if isinstance(schema, Schema):
            return schema
    return None


def names_of(model: Any) -> tuple[str, ...] | None:
    names = getattr(model, "feature_names_in_", None)
    return None if names is None else tuple(map(str, names))


def write_rows(
    table: Table, names: Sequence[str], of: Of, output: str | None, force: bool, narrator: Narrator
) -> None:
    """Write ids and `of` of every piece; without an output `of` sees all pieces."""
    ids = [] if output is None else list(table.ids)
    if ids and output is not None and form_of(output) == NUMBERS:
        narrator.note(f"{listing([table.name(j) for j in ids])} cannot stand in {shown(output)}")
        ids = []
    header = unique(
        [*(table.name(j) if table.names is None else table.names[j] for j in ids), *names]
    )
    labels, rows = [str(k) for k in range(len(header))], 0
    with (
        narrator.hearing(),
        nullcontext() if output is None else open_output(output, header, force) as write,
        counting_rows(narrator, "Reading" if output is None else "Writing", None) as done,
    ):
        for piece in pieces(table):
            columns = of(piece)
            if write is not None:
                kept = [piece.columns.column(j) for j in ids]
                arrays = [pa.array(np.asarray(column)) for column in columns]
                write(pa.Table.from_arrays([*kept, *arrays], labels))
            done(piece.n_rows)
            rows += piece.n_rows
    if output is not None:
        report_output(output, rows, len(header), narrator)


def report_output(output: str, rows: int, columns: int, narrator: Narrator) -> None:
    if output == DASH:
        narrator.say("Wrote", f"{many(rows, 'row')} to standard output", rows=rows, wrote=DASH)
        return
    path = os.path.expanduser(output)
    count = os.path.getsize(path) if os.path.isfile(path) else None
    after = f": {many(rows, 'row')} x {many(columns, 'column')}"
    narrator.wrote(output, count, after=after, rows=rows, wrote=output, bytes=count)


def unique(names: Sequence[str]) -> list[str]:
    """The names, later ones changed where they occur twice.

    >>> unique(["PC1", "PC1", "PC2"])
    ['PC1', 'PC1_2', 'PC2']
    """
    found: dict[str, None] = {}
    for name in names:
        new, k = name, 2
        while new in found:
            new, k = f"{name}_{k}", k + 1
        found[new] = None
    return list(found)


# Files -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Manner:
    """How CSV is written."""

    separator: str = ","
    decimal: str = "."
    newline: str = "\n"
    has_mark: bool = False  # of byte order, in front of all
    above: bytes = b""  # lines above the table, with that mark


@contextmanager
def open_output(
    path: str, names: Sequence[str] | None, force: bool, manner: Manner | None = None
) -> Iterator[Callable[[Any], None]]:
    """What writes rows: call it with Arrow tables, with columns in the order of `names`."""
    form, target = form_of(path), Path(os.path.expanduser(path))
    lines = Lines(names, manner or Manner("\t" if path.lower().endswith(".tsv") else ","))
    if path == DASH:

        def write(table: Any) -> None:
            with _of_stdout():
                write_to_stdout(lines.of(table))

        yield write
        with _of_stdout():
            sys.stdout.buffer.flush()
    elif form == NUMBERS:
        with open_sink(target, names, force=force) as sink:
            yield lambda table: sink.append(
                np.column_stack([column.to_numpy() for column in table.columns]).astype(np.float64)
            )
    else:
        how = (target, names, force)
        with CsvOutput(*how, lines) if form == TEXT else ParquetOutput(*how) as output:
            yield output.write


@contextmanager
def _of_stdout() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise stdout_trouble(error) from error


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


class _TableSink(FileSink):
    """A sink that takes Arrow tables."""

    def write(self, table: Any) -> None:
        with self._named_errors():
            if self.dtype is None:
                self.dtype = np.dtype(np.float64)  # something has been appended
                self._first = table
                self._begin()
            self._write(table)


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
