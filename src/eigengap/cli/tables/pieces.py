"""A table from its first row to its last: numbers for the model, along with all columns.

Numbers of CSV are read as `sources.files.csv.reader` reads them; the same bytes are parsed once
more as text, piece by piece, so that what was observed is written unchanged.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import compute as pc
from pyarrow import csv, parquet

from eigengap import sources
from eigengap.cli.tables.kinds import level_of
from eigengap.exceptions import UnreadableError

if TYPE_CHECKING:
    from eigengap.cli.tables.table import Table

CHUNK = 8 << 20  # bytes of CSV that are parsed together
BATCH = 8 << 20  # bytes of float64 that are read from Parquet together


@dataclass(frozen=True, eq=False)
class Piece:
    """Consecutive rows."""

    # (c, d) features; NaN marks a missing value, 0 stands for a level, a limit for itself
    values: NDArray[Any]
    columns: Any  # Arrow table of all columns of the file: bytes of CSV, types of Parquet
    start: int  # index of the first row
    texts: Mapping[int, Any]  # Arrow arrays of the features that are levels, by their number
    # Arrow arrays, as text, of the features of numbers among which are limits.
    limited: Mapping[int, Any] = field(default_factory=dict)

    @property
    def n_rows(self) -> int:
        return len(self.values)

    def is_limit(self, k: int) -> NDArray[np.bool_]:
        """Which cells of feature k are limits, and no values."""
        if k not in self.limited:
            return np.zeros(self.n_rows, dtype=bool)
        found = pc.match_substring_regex(self.limited[k], "^[<>]")
        return np.asarray(pc.fill_null(found, False))


def pieces(table: Table) -> Iterator[Piece]:
    """One pass over the table, some megabytes at a time."""
    start, place = 0, {j: k for k, j in enumerate(table.features)}
    names = table.feature_names
    for where, numbers, columns in _read(table):
        if table.codes:
            numbers = sources.with_missing_for(numbers, table.codes)
        texts = {place[j]: _levels(table, j, columns.column(j)) for j in table.levels}
        limited = {place[j]: _limits(table, j, columns.column(j), start) for j in table.limited}
        values = numbers
        if texts or limited:
            values = np.empty((len(numbers), len(table.features)))
            values[:, [place[j] for j in table.numbers]] = numbers
            for k, cells in texts.items():
                values[:, k] = np.where(cells.is_null(), np.nan, 0.0)
            for k, cells in limited.items():
                bare = pc.replace_substring_regex(cells, "^[<>]", "").cast(pa.float64())
                values[:, k] = pc.fill_null(bare, np.nan)
        try:
            sources.count_missing(values, names, start)
        except ValueError as error:
            raise UnreadableError(where, str(error)) from None
        yield Piece(values, columns, start, texts, limited)
        start += len(values)
    if start == 0:
        raise UnreadableError(table.given, "it has no rows")


def frame_of(table: Table, piece: Piece, names: Sequence[str] | None) -> Any:
    """The features as a model of columns of every kind takes them, under its names.

    An Arrow table of float64, truth values, dictionaries of texts, and text where numbers have
    limits; objects where columns have no names.
    """
    columns = []
    for k, j in enumerate(table.features):
        if k in piece.texts:
            text = piece.texts[k]
            is_plain = names is None or j in table.truths or pa.types.is_dictionary(text.type)
            columns.append(text if is_plain else text.dictionary_encode())
        elif k in piece.limited:
            columns.append(piece.limited[k])
        else:
            columns.append(pa.array(np.ascontiguousarray(piece.values[:, k]), from_pandas=True))
    if names is None:
        cells = [np.array(column.to_pylist(), dtype=object) for column in columns]
        return np.column_stack(cells)
    return pa.Table.from_arrays(columns, list(names))


def whole_frame(table: Table, names: Sequence[str] | None) -> tuple[Any, NDArray[Any]]:
    """All rows as `frame_of`, and the values (n, d) of their pieces."""
    found = list(pieces(table))
    values = np.concatenate([piece.values for piece in found])
    texts = {k: _joined([piece.texts[k] for piece in found]) for k in found[0].texts}
    limited = {k: _joined([piece.limited[k] for piece in found]) for k in found[0].limited}
    return frame_of(table, Piece(values, None, 0, texts, limited), names), values


def _joined(arrays: Sequence[Any]) -> Any:
    joined = pa.chunked_array(arrays)
    if pa.types.is_dictionary(joined.type):
        joined = joined.unify_dictionaries()
    return joined.combine_chunks() if joined.num_chunks != 1 else joined.chunk(0)


def _levels(table: Table, j: int, column: Any) -> Any:
    """A column of text as an Arrow array of levels; null is a missing value."""
    if isinstance(column, pa.ChunkedArray):
        column = _joined(column.chunks)
    if table.kind == "csv":
        cells, coded = table.readers[0].dialect.cells, column.dictionary_encode()
        found, is_truth = coded.dictionary.to_pylist(), j in table.truths
        texts: list[Any] = [level_of(raw, cells, among_truths=is_truth) for raw in found]
        if is_truth:
            texts = [None if text is None else _truth(table, j, text) for text in texts]
        kind = pa.bool_() if j in table.truths else pa.string()
        return pa.array(texts, type=kind).take(coded.indices)
    if table.na and not pa.types.is_boolean(column.type):
        is_code = pc.is_in(column.cast(pa.string()), pa.array(list(table.na)))
        column = pc.if_else(is_code, pa.scalar(None, column.type), column)
    return column


def _limits(table: Table, j: int, column: Any, start: int) -> Any:
    """A column of numbers and limits as text with decimal points; null is a missing value."""
    if isinstance(column, pa.ChunkedArray):
        column = _joined(column.chunks)
    is_coded = pa.types.is_dictionary(column.type)
    coded = column if is_coded else column.dictionary_encode()
    found: list[str | None] = []
    for k, cell in enumerate(coded.dictionary.to_pylist()):
        is_known, text = _limit(table, cell)
        if not is_known:
            row = start + int(np.argmax(coded.indices.fill_null(-1).to_numpy() == k)) + 1
            code = sources.quote(text)
            raise UnreadableError(
                table.given,
                f"column {sources.quote(table.name(j))} holds numbers and limits, and text in row "
                f"{row} ({code}). Treat it as missing: --na {code}",
                in_cells=True,
            )
        found.append(text)
    return pa.array(found, type=pa.string()).take(coded.indices)


def _limit(table: Table, cell: Any) -> tuple[bool, Any]:
    """Whether a cell is a number, a limit or missing, and its text; None for a missing one."""
    cells = table.readers[0].dialect.cells if table.kind == "csv" else sources.Cells()
    text = level_of(cell, cells) if isinstance(cell, bytes) else cell
    if text is None or (isinstance(text, str) and text.strip() in table.na):
        return True, None
    if (limits := sources.limits_of(text, cells.number)) is not None:
        lower, upper = limits
        return True, f"<{upper!r}" if lower != lower else f">{lower!r}"
    number = cells.number(text)
    if number is None:
        return False, text
    return True, None if number != number or number in table.codes else repr(number)


def _truth(table: Table, j: int, text: str) -> bool:
    found = sources.TRUTH_VALUES.get(text.lower())
    if found is None:
        raise UnreadableError(
            table.given,
            f"column {sources.quote(table.name(j))} held true and false in the fit, and holds "
            f"{sources.quote(text)} here",
            in_cells=True,
        )
    return bool(found)


def _read(table: Table) -> Iterator[tuple[str, NDArray[Any], Any]]:
    """Where rows come from, their numbers (c, d), all their columns as Arrow's."""
    if table.kind == "csv":
        for reader in table.readers:
            for values, columns in reader.with_text(table.numbers):
                yield reader.where, values, columns
    elif table.kind == "parquet":
        for path in table.paths:
            yield from _of_parquet(path, table.numbers)
    else:
        names = [str(j) for j in range(table.n_columns)]
        for block in table.source(range(table.n_columns))._blocks():
            rows = np.asarray(block.values, dtype=np.float64)
            arrays = [pa.array(np.ascontiguousarray(column)) for column in rows.T]
            features = np.ascontiguousarray(rows[:, list(table.features)])
            yield table.given, features, pa.Table.from_arrays(arrays, names)


# Parquet -------------------------------------------------------------------------------------


def _of_parquet(path: str, features: Sequence[int]) -> Iterator[tuple[str, NDArray[Any], Any]]:
    with _opened(path) as file:
        width = max(1, len(file.schema_arrow.names))
        try:
            for batch in file.iter_batches(batch_size=max(1024, BATCH // (8 * width))):
                columns = [sources.arrow_to_float(batch.column(j)) for j in features]
                if batch.num_rows:
                    values = np.column_stack([np.empty((batch.num_rows, 0)), *columns])
                    yield (
                        path,
                        values.astype(np.float64, copy=False),
                        pa.Table.from_batches([batch]),
                    )
        except (pa.ArrowException, OSError) as error:
            raise UnreadableError(path, f"it cannot be read to its end ({error})") from error


def columns_of_parquet(table: Table, columns: Sequence[int]) -> Iterator[list[Any]]:
    """These columns, as their types have them, some rows at a time."""
    for path in table.paths if columns else ():
        with _opened(path) as file:
            names = file.schema_arrow.names  # each time the whole schema is converted
            for batch in file.iter_batches(columns=[names[j] for j in columns]):
                yield [batch.column(k) for k in range(len(columns))]


def first_column(table: Table, j: int) -> NDArray[Any]:
    """The first numbers of a column of Parquet."""
    first = next(columns_of_parquet(table, [j]), None)
    if first is None or sources.foreign_kind(first[0].type) is not None:
        return np.empty(0)
    return np.asarray(sources.arrow_to_float(first[0]), dtype=np.float64)


def schema_of(path: str) -> Any:
    with _opened(path) as file:
        return file.schema_arrow


def without_nulls(path: str, names: Sequence[str]) -> set[str]:
    """Columns without nulls by the file's own statistics."""
    with _opened(path) as file:
        groups = [file.metadata.row_group(g) for g in range(file.metadata.num_row_groups)]
        parts = [group.column(j) for group in groups for j in range(group.num_columns)]
        facts = [(part.path_in_schema, part.statistics) for part in parts]
    return set(names) - {
        name
        for name, found in facts
        if found is None or not found.has_null_count or found.null_count
    }


def _opened(path: str) -> Any:
    try:
        return parquet.ParquetFile(sources.arrow_path(path), page_checksum_verification=True)
    except (pa.ArrowException, OSError) as error:
        said = str(error).strip().partition("\n")[0][:200]
        raise UnreadableError(path, f"it is not a whole Parquet file ({said})") from error


# CSV -----------------------------------------------------------------------------------------


class CsvText(sources.CsvReader):
    """One file, looked at before its columns are chosen."""

    def __init__(
        self, path: Path, texts: frozenset[str], compression: str | None, skipped: Any
    ) -> None:
        # Not CsvReader's, which wants to know the columns at once.
        sources.FileReader.__init__(self, path)
        self._compression, self._skipped = compression, skipped
        as_bytes = {text.encode().decode("latin-1") for text in texts}  # a letter for each byte
        head, is_whole = self._head()
        self.has_mark = head.startswith(sources.BOM)
        table = head.removeprefix(sources.BOM)
        self._declares_separator = sources.SEPARATOR_LINE.match(table) is not None
        self.line_end = "\r\n" if b"\r\n" in head else sources.newline_of(head).decode()
        self._dialect = sources.find_dialect(
            self.where, head, frozenset(as_bytes), is_whole=is_whole
        )
        sources.require_even(self.where, self._dialect)
        self.names = self._dialect.names
        self.n_rows, self.dtype = None, sources.F8
        self._chosen, self.n_features = [], self._dialect.n_columns
        self.n_lost = 0  # comments between rows, where a pass has counted them

    def decide_mark(self, columns: Sequence[int]) -> None:
        """Read numbers with the decimal mark of these columns."""
        self._dialect = self._dialect.with_mark_of(self.where, columns)

    def above(self) -> bytes:
        """The lines above the table, as they are: those skipped, and sep=;"""
        count, newline, found = self._dialect.first - 1, self._dialect.newline, b""
        if not (self._skipped or self._declares_separator) or count == 0:
            return b""
        with self._raw() as stream:
            while found.count(newline) < count and (data := bytes(stream.read(sources.HEAD_BYTES))):
                found += data
        below = found.split(newline, count)[-1]
        return found[: len(found) - len(below)]

    def has_any(self, signs: Sequence[bytes]) -> bool:
        """Whether one of the signs is anywhere in the file."""
        longest, tail = max(map(len, signs)), b""
        with self._raw() as stream:
            while data := bytes(stream.read(CHUNK)):
                tail += data
                if any(sign in tail for sign in signs):
                    return True
                tail = tail[1 - longest :]
        return False

    def with_text(self, chosen: Sequence[int]) -> Iterator[tuple[NDArray[Any], Any]]:
        """The chosen columns as numbers (c, d), and all columns as an Arrow table of bytes."""
        self._chosen, self.n_features = list(chosen), len(chosen)
        self.require_unchanged()
        dialect, slow = self._dialect, set[int]()
        with self._opened() as stream:
            stream.read(dialect.start)
            for chunk, line in sources.row_chunks(
                stream.read, CHUNK, dialect.newline, self.where, dialect.line
            ):
                parts = list(self._numbers(chunk, line, slow)) if chosen else []
                text = self._text(chunk)
                n_rows = sum(len(part[0]) for part in parts) if chosen else text.num_rows
                numbers = np.empty((n_rows, len(chosen)))
                start = 0
                for part in parts:
                    sources.write_columns(numbers[start : start + len(part[0])], part)
                    start += len(part[0])
                if len(numbers) != text.num_rows:
                    raise UnreadableError(self.where, f"lines from {line} on cannot be read")
                if len(numbers):
                    yield numbers, text
            self.n_lost = sum(at > dialect.first for at in stream.comments) if self._skipped else 0
        self.require_unchanged()

    def as_text(self) -> Iterator[Any]:
        """All columns as Arrow tables of bytes."""
        return (text for _, text in self.with_text(()))

    def _text(self, chunk: bytes) -> Any:
        names = [str(j) for j in range(self._dialect.n_columns)]
        try:
            return csv.read_csv(
                pa.BufferReader(chunk),
                read_options=csv.ReadOptions(
                    column_names=names,
                    block_size=len(chunk) + 1,
                    use_threads=len(chunk) >= sources.THREADED,
                ),
                parse_options=csv.ParseOptions(
                    delimiter=self._dialect.separator, newlines_in_values=b'"' in chunk
                ),
                convert_options=csv.ConvertOptions(
                    column_types=dict.fromkeys(names, pa.binary()),
                    strings_can_be_null=False,
                    check_utf8=False,
                ),
            ).combine_chunks()
        except pa.ArrowException as error:
            raise UnreadableError(self.where, f"it cannot be read as text ({error})") from error
