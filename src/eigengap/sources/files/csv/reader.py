"""CSV, plain or compressed, parsed by pyarrow some megabytes at a time.

The file is cut here and not by pyarrow, so that memory is bounded and an error can name the line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eigengap.exceptions import MissingExtraError, UnreadableError
from eigengap.sources.array import F8
from eigengap.sources.checks import EXACT, resolve_columns, tell_of_rounded
from eigengap.sources.files.arrow_paths import native
from eigengap.sources.files.columns import Columns, in_blocks
from eigengap.sources.files.csv.aside import NOTHING, Aside, Beside
from eigengap.sources.files.csv.cells import MISSING
from eigengap.sources.files.csv.dialect import Dialect, look_at, newline_of
from eigengap.sources.files.csv.faults import first_fault, refuse_text_columns, require_even
from eigengap.sources.files.csv.rows import QUOTE, chunks, count_rows
from eigengap.sources.files.csv.wide import wide_rows
from eigengap.sources.files.file import FileReader
from eigengap.sources.files.refusal import choice
from eigengap.sources.wording import column, first_repeated, quote

HEAD = 1 << 18  # bytes that are looked at first
LONG = re.compile(rb"(?<![\d.eE])-?\d{16,309}(?![\d.eE])")  # whole numbers that may be rounded
LEAST_CHUNK, MOST_CHUNK = 1 << 16, 4 << 20  # bytes that are parsed together
PARSED = 1 << 20  # bytes of them that one thread parses
WIDE = 512  # columns from which on one long column is faster to parse than many short ones


class CsvReader(FileReader):
    """A table of numbers in text; the number of rows is known when they have been read."""

    _told_of_rounded = False

    def __init__(
        self,
        path: Path,
        columns: Any = None,
        texts: frozenset[str] = frozenset(),
        compression: str | None = None,
        aside: Aside = NOTHING,
    ) -> None:
        super().__init__(path)
        self._compression, self._aside = compression, aside
        as_bytes = {text.encode().decode("latin-1") for text in texts}  # a letter for each byte
        head, is_whole = self._head()
        self._dialect = look_at(self.where, head, MISSING | as_bytes, is_whole=is_whole)
        require_even(self.where, self._dialect)
        names, d = self._dialect.names, self._dialect.n_columns
        self._chosen = list(range(d)) if columns is None else resolve_columns(columns, names, d)
        self._require_names(columns)
        refuse_text_columns(self.where, self._dialect, self._chosen)
        self.names = None if names is None else tuple(names[j] for j in self._chosen)
        self.n_rows = (
            None if self._dialect.head else 0
        )  # which reading will tell, or a header alone
        self.n_features, self.dtype = len(self._chosen), F8

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
            yield Beside(stream, self._aside) if self._aside else stream

    @contextmanager
    def _raw(self) -> Iterator[Any]:
        """The bytes of the file, lines aside included."""
        try:
            import pyarrow as pa
        except ImportError as error:
            raise MissingExtraError("reading CSV", "pyarrow", "files") from error
        try:
            with pa.input_stream(native(self._path), compression=self._compression) as stream:
                yield stream
        except (pa.ArrowException, OSError) as error:
            raise UnreadableError(self.where, f"it cannot be read to its end ({error})") from error

    def _head(self) -> tuple[bytes, bool]:
        """The first rows, whole: three of them at least, where the file has so many.

        And whether they are all.
        """
        head, is_whole = b"", True
        with self._opened() as stream:
            first = bytes(stream.read(HEAD))
            newline = newline_of(first)
            for chunk, _ in chunks(_after(first, stream.read), HEAD, newline, self.where):
                head += chunk
                if len(first) == HEAD and head.lstrip().count(newline) >= 3:
                    is_whole = False
                    break
        if self._aside and not head.strip():
            raise UnreadableError(self.where, f"no line is left besides those of {self._aside}")
        return head, is_whole

    def _require_names(self, columns: Any) -> None:
        names = self._dialect.names
        if names is None:
            return
        chosen = [names[j] for j in self._chosen]
        if columns is None and "" in chosen:
            others = [j for j in self._chosen if names[j]]
            raise UnreadableError(self.where, self._nameless(names.index(""), choice(others)))
        twice = first_repeated(chosen)
        if twice is not None:
            at = [j for j in self._chosen if names[j] == twice]
            others = [j for j in self._chosen if j not in at[1:]]
            raise UnreadableError(
                self.where,
                f"line {self._dialect.first} names {len(at)} columns {quote(twice)} (positions "
                f"{', '.join(map(str, at))}), and names must be unique. Rename them there, or "
                f"choose by position: {choice(others)}",
            )

    def _nameless(self, j: int, others: str) -> str:
        """What column j, the first without a name, probably is."""
        bare = self._dialect.bare
        if j in bare:
            several = len(bare) > 1
            return (
                f"lines end with {f'{len(bare)} separators' if several else 'a separator'}, and "
                f"behind {'them' if several else 'it'} stands neither a name nor a cell. Leave the "
                f"empty column{'s' if several else ''} out: {others}"
            )
        may = "Leave it"
        if j == 0:
            may = "It may be the row numbers that pandas and R write along; leave them"
        return (
            f"column {j} has no name in line {self._dialect.first}. {may} out by position, "
            f"{others}, or give the column a name"
        )

    def _pieces(self, rows: int) -> Iterator[NDArray[Any]]:
        size = min(MOST_CHUNK, max(LEAST_CHUNK, 8 * rows * self._dialect.n_columns))
        return in_blocks(self._parts(size), rows, self.n_features, self.dtype)

    def _parts(self, size: int) -> Iterator[Columns]:
        dialect = self._dialect
        slow: set[int] = set()  # columns with cells that pyarrow does not read as numbers
        with self._opened() as stream:
            stream.read(dialect.start)
            found = chunks(stream.read, size, dialect.newline, self.where, dialect.line)
            blank: int | None = None  # line, of a table of one column, on which nothing stands
            for chunk, line in found:
                if dialect.n_columns == 1:
                    aside = stream.comments if self._aside else set()
                    blank = self._refuse_blank(chunk, line, blank, aside)
                yield from self._numbers(chunk, line, slow)

    def _refuse_blank(
        self, chunk: bytes, line: int, blank: int | None, aside: set[int]
    ) -> int | None:
        """An empty line before others; the last one that is still followed by nothing."""
        for number, text in enumerate(chunk.split(self._dialect.newline)[:-1], line):
            if text.strip():
                if blank is not None:
                    raise UnreadableError(
                        self.where,
                        f"line {blank} is empty, and in a table of one column that may be a "
                        "missing cell or nothing at all. Write NA there, or leave the line out",
                    )
            elif blank is None and number > self._aside.first and number not in aside:
                blank = number
        return blank

    def _numbers(self, chunk: bytes, line: int, slow: set[int]) -> Iterator[Columns]:
        import pyarrow as pa

        if self._dialect.n_columns >= WIDE and not slow:
            rows = wide_rows(chunk, self._dialect, self._chosen, PARSED)
            if rows is not None:
                self._tell_of_rounded(chunk, rows.T)
                yield rows.T
                return
        try:
            table = self._parsed(chunk, slow)
        except pa.ArrowException as error:
            try:
                table = self._parsed(chunk, set(self._chosen))
            except pa.ArrowException:
                raise self._fault(chunk, line, error) from None
            slow.update(j for j in self._chosen if self._is_odd(table.column(str(j))))
        if QUOTE not in chunk and table.num_rows != count_rows(chunk, self._dialect.newline):
            # Of pyarrow's threads: once, pieces of a chunk were gone without a word.
            table = self._parsed(chunk, slow, in_one=True)
            if table.num_rows != count_rows(chunk, self._dialect.newline):
                raise self._fault(chunk, line, RuntimeError("rows were lost"))
        for batch in table.to_batches():
            columns = [self._column(batch.column(k)) for k in range(batch.num_columns)]
            if any(column is None for column in columns):
                raise self._fault(chunk, line)
            self._tell_of_rounded(chunk, columns)  # type: ignore[arg-type]
            yield columns  # type: ignore[misc]

    def _tell_of_rounded(self, chunk: bytes, columns: Columns) -> None:
        """Warn once of whole numbers, written out, that float64 does not have."""
        if self._told_of_rounded:
            return
        if isinstance(columns, np.ndarray) and np.fmax.reduce(np.abs(columns), axis=None) < EXACT:
            return
        for j, cells in zip(self._chosen, columns, strict=True):
            if np.fmax.reduce(np.abs(cells), initial=0.0) < EXACT:
                continue
            for text in LONG.findall(chunk):
                value = float(text)
                if int(text) != int(value) and np.any(cells == value):
                    tell_of_rounded(column(self._dialect.names, j), quote(text.decode())[1:-1])
                    self._told_of_rounded = True
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
                use_threads=not in_one,
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

    def _is_odd(self, column: Any) -> bool:
        return any(self._dialect.cells.is_odd(_text(cell)) for cell in column.unique().to_pylist())

    def _fault(self, chunk: bytes, line: int, error: Exception | None = None) -> UnreadableError:
        found = first_fault(self.where, chunk, line, self._dialect, self._chosen)
        stop = line + chunk.count(self._dialect.newline)
        return found or UnreadableError(
            self.where, f"lines {line} to {stop} cannot be read ({error})"
        )


def _text(cell: bytes | None) -> str:
    return "" if cell is None else cell.decode("latin-1")


def _after(first: bytes, read: Any) -> Any:
    """Reading that begins with what was read already."""
    waiting = [first]

    def next_bytes(size: int) -> bytes:
        return waiting.pop() if waiting else bytes(read(size))

    return next_bytes
