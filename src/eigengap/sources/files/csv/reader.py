"""CSV, plain or compressed, parsed by pyarrow some megabytes at a time.

The file is cut here and not by pyarrow, so that memory is bounded and an error can name the line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eigengap.exceptions import UnreadableError
from eigengap.sources.array import F8
from eigengap.sources.checks import EXACT, resolve_columns, warn_rounded
from eigengap.sources.files.columns import Columns, arrow_path, choice, in_blocks
from eigengap.sources.files.csv.dialect import Dialect, find_dialect
from eigengap.sources.files.csv.faults import first_fault, refuse_text_columns, require_even
from eigengap.sources.files.csv.rows import (
    QUOTE,
    SKIP_NOTHING,
    SkippedLines,
    SkippingStream,
    count_rows,
    newline_of,
    outside_quotes,
    row_chunks,
)
from eigengap.sources.files.paths import needed
from eigengap.sources.reader import FileReader, unreadable
from eigengap.sources.wording import column, first_repeated, quote

HEAD_BYTES = 1 << 18  # bytes that are looked at first
LONG = re.compile(rb"(?<![\d.eE])-?\d{16,309}(?![\d.eE])")  # whole numbers that may be rounded
LEAST_CHUNK, MOST_CHUNK = 1 << 16, 4 << 20  # bytes that are parsed together
PARSED = 1 << 20  # bytes of them that one thread parses
# Bytes from which Arrow's threads repay. A process that ends while they are being started aborts.
THREADED = 1 << 20
WIDE = 512  # columns from which on one long column is faster to parse than many short ones


class CsvReader(FileReader):
    """A table of numbers in text; the number of rows is known when they have been read."""

    _warned_of_rounding = False

    def __init__(
        self,
        path: Path,
        columns: Any = None,
        texts: frozenset[str] = frozenset(),
        compression: str | None = None,
        skipped: SkippedLines = SKIP_NOTHING,
    ) -> None:
        super().__init__(path)
        self._compression, self._skipped = compression, skipped
        as_bytes = {text.encode().decode("latin-1") for text in texts}  # a letter for each byte
        head, is_whole = self._head()
        self._dialect = find_dialect(self.where, head, frozenset(as_bytes), is_whole=is_whole)
        require_even(self.where, self._dialect)
        names, d = self._dialect.names, self._dialect.n_columns
        self._chosen = list(range(d)) if columns is None else resolve_columns(columns, names, d)
        self._require_names(columns)
        self._look_at_head()
        self.names = None if names is None else tuple(names[j] for j in self._chosen)
        self.n_rows = None if self._dialect.head else 0  # unknown, or a header alone
        self.n_features, self.dtype = len(self._chosen), F8

    def _look_at_head(self) -> None:
        """What the first rows say about the columns that are read."""
        self._dialect = self._dialect.with_mark_of(self.where, self._chosen)
        refuse_text_columns(self.where, self._dialect, self._chosen)

    @property
    def dialect(self) -> Dialect:
        return self._dialect

    def follow(self, decimal: str) -> None:
        """Read numbers with this decimal mark, where the first rows show none."""
        cells = replace(self._dialect.cells, decimal=decimal)
        self._dialect = replace(self._dialect, cells=cells)

    @contextmanager
    def _opened(self) -> Iterator[Any]:
        with self._raw() as stream:
            yield SkippingStream(stream, self._skipped) if self._skipped else stream

    @contextmanager
    def _raw(self) -> Iterator[Any]:
        """The bytes of the file, lines aside included."""
        pa = needed("reading CSV", "pyarrow")
        what = "it cannot be read to its end ({})"
        with (
            unreadable(self.where, (pa.ArrowException, OSError), what),
            pa.input_stream(arrow_path(self._path), compression=self._compression) as stream,
        ):
            yield stream

    def _head(self) -> tuple[bytes, bool]:
        """The first rows, whole: three of them at least, where the file has so many.

        And whether they are all.
        """
        head, is_whole = b"", True
        with self._opened() as stream:
            first = bytes(stream.read(HEAD_BYTES))
            newline = newline_of(first)
            waiting = [first]

            def read(size: int) -> bytes:
                return waiting.pop() if waiting else bytes(stream.read(size))

            for chunk, _ in row_chunks(read, HEAD_BYTES, newline, self.where):
                head += chunk
                if len(first) == HEAD_BYTES and head.lstrip().count(newline) >= 3:
                    is_whole = False
                    break
        if self._skipped and not head.strip():
            raise UnreadableError(self.where, f"no line is left besides those of {self._skipped}")
        return head, is_whole

    def _require_names(self, columns: Any) -> None:
        names = self._dialect.names
        if names is None:
            return
        chosen = [names[j] for j in self._chosen]
        if columns is None and "" in chosen:
            raise self._nameless(names.index(""), choice([j for j in self._chosen if names[j]]))
        twice = first_repeated(chosen)
        if twice is not None:
            at = [j for j in self._chosen if names[j] == twice]
            others = [j for j in self._chosen if j not in at[1:]]
            raise UnreadableError(
                self.where,
                f"line {self._dialect.first} names {len(at)} columns {quote(twice)} (positions "
                f"{', '.join(map(str, at))}), and names must be unique. Rename them there, or "
                f"choose by position: {choice(others)}",
                line=self._dialect.first,
                name=twice,
            )

    def _nameless(self, j: int, others: str) -> UnreadableError:
        """The error for column j, the first without a name."""
        line, count = self._dialect.first, len(self._dialect.bare)
        if j in self._dialect.bare:
            end, it, s = "a separator", "it", ""
            if count > 1:
                end, it, s = f"{count} separators", "them", "s"
            message = (
                f"lines end with {end}, and behind {it} stands neither a name nor a cell. Leave "
                f"the empty column{s} out: {others}"
            )
        else:
            rows = "It may be the row numbers that pandas and R write along; leave them"
            message = (
                f"column {j} has no name in line {line}. {'Leave it' if j else rows} out by "
                f"position, {others}, or give the column a name"
            )
        return UnreadableError(self.where, message, line=line, column=j)

    def _pieces(self, rows: int) -> Iterator[NDArray[Any]]:
        size = min(MOST_CHUNK, max(LEAST_CHUNK, 8 * rows * self._dialect.n_columns))
        return in_blocks(self._parts(size), rows, self.n_features, self.dtype)

    def _parts(self, size: int) -> Iterator[Columns]:
        slow: set[int] = set()  # columns with cells that pyarrow does not read as numbers
        for chunk, line in self._chunks(size):
            yield from self._numbers(chunk, line, slow)

    def _chunks(self, size: int) -> Iterator[tuple[bytes, int]]:
        """Whole rows, each chunk with the number of its first line."""
        dialect = self._dialect
        with self._opened() as stream:
            stream.read(dialect.start)
            found = row_chunks(stream.read, size, dialect.newline, self.where, dialect.line)
            blank: int | None = None  # line, of a table of one column, on which nothing stands
            for chunk, line in found:
                if dialect.n_columns == 1:
                    skipped = stream.comments if self._skipped else set()
                    blank = self._refuse_blank(chunk, line, blank, skipped)
                yield chunk, line

    def _refuse_blank(
        self, chunk: bytes, line: int, blank: int | None, skipped: set[int]
    ) -> int | None:
        """An empty line before others; the last one that is still followed by nothing."""
        for number, text in enumerate(chunk.split(self._dialect.newline)[:-1], line):
            if text.strip():
                if blank is not None:
                    raise UnreadableError(
                        self.where,
                        f"line {blank} is empty, and in a table of one column that may be a "
                        "missing value or nothing at all. Write NA there, or leave the line out",
                        line=blank,
                    )
            elif blank is None and number > self._skipped.first and number not in skipped:
                blank = number
        return blank

    def _numbers(self, chunk: bytes, line: int, slow: set[int]) -> Iterator[Columns]:
        if self._dialect.n_columns >= WIDE and not slow:
            rows = wide_rows(chunk, self._dialect, self._chosen, PARSED)
            if rows is not None:
                self._warn_rounded(chunk, rows.T)
                yield rows.T
                return
        table = self._table(chunk, line, slow)
        for batch in table.to_batches():
            found = [self._column(column) for column in batch.columns]
            columns = [column for column in found if column is not None]
            if len(columns) < len(found):
                raise self._fault(chunk, line)
            self._warn_rounded(chunk, columns)
            yield columns

    def _table(self, chunk: bytes, line: int, slow: set[int]) -> Any:
        """The rows of a chunk; columns that pyarrow does not read are added to `slow`."""
        import pyarrow as pa

        try:
            table = self._parsed(chunk, slow)
        except pa.ArrowException as error:
            try:
                table = self._parsed(chunk, set(self._chosen))
            except pa.ArrowException:
                raise self._fault(chunk, line, error) from None
            for j in self._chosen:
                texts = map(_text, table.column(str(j)).unique().to_pylist())
                if any(map(self._is_slow, texts)):
                    slow.add(j)
        if QUOTE not in chunk and table.num_rows != count_rows(chunk, self._dialect.newline):
            # Of pyarrow's threads: once, pieces of a chunk were lost without an error.
            table = self._parsed(chunk, slow, in_one=True)
            if table.num_rows != count_rows(chunk, self._dialect.newline):
                raise self._fault(chunk, line, RuntimeError("rows were lost"))
        return table

    def _is_slow(self, text: str) -> bool:
        """Whether a column with this cell is not for pyarrow to read as numbers."""
        return self._dialect.cells.needs_python(text)

    def _warn_rounded(self, chunk: bytes, columns: Columns) -> None:
        """Warn once of whole numbers, written out, that float64 does not have."""
        if self._warned_of_rounding:
            return
        if isinstance(columns, np.ndarray) and np.fmax.reduce(np.abs(columns), axis=None) < EXACT:
            return
        for j, cells in zip(self._chosen, columns, strict=True):
            if np.fmax.reduce(np.abs(cells), initial=0.0) < EXACT:
                continue
            for text in LONG.findall(chunk):
                value = float(text)
                if isfinite(value) and int(text) != int(value) and np.any(cells == value):
                    warn_rounded(column(self._dialect.names, j), quote(text.decode())[1:-1])
                    self._warned_of_rounding = True
                    return

    def _parsed(self, chunk: bytes, as_text: set[int], in_one: bool = False) -> Any:
        """The chosen columns as float64, or as bytes where cells have to be looked at singly."""
        import pyarrow as pa
        from pyarrow import csv

        single = in_one or as_text or QUOTE in chunk or len(chunk) < 2 * PARSED
        kinds = {str(j): pa.binary() if j in as_text else pa.float64() for j in self._chosen}
        return csv.read_csv(
            pa.BufferReader(chunk),
            read_options=csv.ReadOptions(
                column_names=[str(j) for j in range(self._dialect.n_columns)],
                block_size=len(chunk) + 1 if single else PARSED,
                use_threads=not in_one and len(chunk) >= THREADED,
            ),
            parse_options=csv.ParseOptions(
                delimiter=self._dialect.separator, newlines_in_values=QUOTE in chunk
            ),
            convert_options=self._dialect.cells.to_arrow(kinds),
        )

    def _column(self, column: Any) -> NDArray[Any] | None:
        """A column as float64, null as NaN; None where a cell is text."""
        if str(column.type) != "binary":
            return np.asarray(column.to_numpy(zero_copy_only=False))
        coded = column.dictionary_encode()
        values = [self._dialect.cells.number(_text(cell)) for cell in coded.dictionary.to_pylist()]
        if any(value is None for value in values):
            return None
        numbers: NDArray[Any] = np.array(values, dtype=F8)
        return np.take(numbers, np.asarray(coded.indices))

    def _fault(self, chunk: bytes, line: int, error: Exception | None = None) -> UnreadableError:
        found = first_fault(self.where, chunk, line, self._dialect, self._chosen)
        stop = line + chunk.count(self._dialect.newline)
        return found or UnreadableError(
            self.where, f"lines {line} to {stop} cannot be read ({error})"
        )


def _text(cell: bytes | None) -> str:
    return "" if cell is None else cell.decode("latin-1")


NEWLINE = 10


def wide_rows(
    chunk: bytes, dialect: Dialect, chosen: Sequence[int], block_size: int
) -> NDArray[Any] | None:
    """The chosen columns of whole rows; None where a cell or a row is none that all rows share."""
    import pyarrow as pa
    from pyarrow import csv

    lines = _plain_lines(chunk, dialect.newline)
    if lines is None:
        return None
    letters = np.frombuffer(bytearray(lines), dtype=np.uint8)
    ends = _cell_ends(letters, lines, dialect)
    if ends is None:
        return None
    _blank_out(letters, ends, chosen)
    letters[ends] = NEWLINE
    quoted = QUOTE in lines
    try:
        table = csv.read_csv(
            pa.py_buffer(letters),
            read_options=csv.ReadOptions(
                column_names=["cell"],
                block_size=len(letters) + 1 if quoted else block_size,
                use_threads=len(letters) >= THREADED,
            ),
            parse_options=csv.ParseOptions(
                delimiter=dialect.separator, newlines_in_values=quoted, ignore_empty_lines=False
            ),
            convert_options=dialect.cells.to_arrow({"cell": pa.float64()}),
        )
    except pa.ArrowException:
        return None
    if table.num_rows != ends.size:
        return None
    cells: NDArray[Any] = table.column(0).to_numpy().reshape(ends.shape)
    return cells if list(chosen) == list(range(ends.shape[1])) else cells[:, list(chosen)]


def _plain_lines(chunk: bytes, newline: bytes) -> bytes | None:
    """Lines that all end with one newline, and none of them empty."""
    lines = chunk.replace(b"\r\n", b"\n") if newline == b"\n" else chunk.replace(b"\r", b"\n")
    if b"\r" in lines:
        return None
    if b"\n\n" in lines or lines.startswith(b"\n"):
        if QUOTE in lines:
            return None
        lines = re.sub(rb"\n+", b"\n", lines).lstrip(b"\n")
    return lines if lines.endswith(b"\n") or not lines else lines + b"\n"


def _cell_ends(letters: NDArray[Any], lines: bytes, dialect: Dialect) -> NDArray[Any] | None:
    """Where the cells end, (rows, columns); None where a row has more of them or fewer."""
    separator = ord(dialect.separator)
    ends: NDArray[Any] = np.flatnonzero((letters == separator) | (letters == NEWLINE))
    if QUOTE in lines:
        ends = outside_quotes(lines, ends)
    if len(ends) % dialect.n_columns:
        return None
    ends = ends.reshape(-1, dialect.n_columns)
    even = (letters[ends[:, :-1]] == separator).all() and (letters[ends[:, -1]] == NEWLINE).all()
    return ends if even else None


def _blank_out(letters: NDArray[Any], ends: NDArray[Any], chosen: Sequence[int]) -> None:
    """Zeros over the cells of the other columns, which may hold text."""
    other = np.setdiff1d(np.arange(ends.shape[1]), chosen)
    if not len(other):
        return
    starts = np.append(0, ends.ravel()[:-1] + 1).reshape(ends.shape)
    inside = np.zeros(len(letters), dtype=np.int8)  # +1 where such a cell begins, -1 at its end
    inside[starts[:, other]] += 1
    inside[ends[:, other]] -= 1  # an empty cell ends where it begins
    letters[np.cumsum(inside, dtype=np.int8).view(bool)] = ord("0")
