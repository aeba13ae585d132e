"""CSV whose cells keep their text beside the numbers, so that what was seen is written unchanged.

Numbers are read as `sources.files.csv.reader` reads them; the same bytes are parsed once more as
text, piece by piece, and the two have the same rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eigengap.exceptions import UnreadableError
from eigengap.sources import (
    BOM,
    F8,
    HEAD_BYTES,
    MISSING_TEXTS,
    SEPARATOR_LINE,
    SKIP_NOTHING,
    Columns,
    CsvReader,
    FileReader,
    SkippedLines,
    find_dialect,
    newline_of,
    require_even,
    row_chunks,
    write_columns,
)

CHUNK = 8 << 20  # bytes that are parsed together


class CsvText(CsvReader):
    """One file, looked at before its columns are chosen."""

    def __init__(
        self,
        path: Path,
        texts: frozenset[str],
        compression: str | None,
        skipped: SkippedLines = SKIP_NOTHING,
    ) -> None:
        FileReader.__init__(self, path)  # not CsvReader's, which wants to know the columns at once
        self._compression, self._skipped = compression, skipped
        as_bytes = {text.encode().decode("latin-1") for text in texts}  # a letter for each byte
        head, is_whole = self._head()
        self.has_mark = head.startswith(BOM)
        self._declares_separator = SEPARATOR_LINE.match(head.removeprefix(BOM)) is not None
        self.line_end = "\r\n" if b"\r\n" in head else newline_of(head).decode()
        self._dialect = find_dialect(self.where, head, MISSING_TEXTS | as_bytes, is_whole=is_whole)
        require_even(self.where, self._dialect)
        self.names = self._dialect.names
        self.n_rows, self.dtype = None, F8
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
            while found.count(newline) < count and (data := bytes(stream.read(HEAD_BYTES))):
                found += data
        below = found.split(newline, count)[-1]
        return found[: len(found) - len(below)]

    def with_text(self, chosen: Sequence[int]) -> Iterator[tuple[NDArray[Any], Any]]:
        """The chosen columns as numbers (c, d), and all columns as an Arrow table of bytes."""
        self._chosen, self.n_features = list(chosen), len(chosen)
        self.require_unchanged()
        dialect, slow = self._dialect, set[int]()
        with self._opened() as stream:
            stream.read(dialect.start)
            for chunk, line in row_chunks(
                stream.read, CHUNK, dialect.newline, self.where, dialect.line
            ):
                numbers = self._block(list(self._numbers(chunk, line, slow)))
                text = self._text(chunk)
                if len(numbers) != text.num_rows:
                    raise UnreadableError(self.where, f"lines from {line} on cannot be read")
                if len(numbers):
                    yield numbers, text
            self.n_lost = sum(at > dialect.first for at in stream.comments) if self._skipped else 0
        self.require_unchanged()

    def _block(self, parts: list[Columns]) -> NDArray[Any]:
        rows = sum(len(columns[0]) for columns in parts)
        block = np.empty((rows, len(self._chosen)))
        start = 0
        for columns in parts:
            stop = start + len(columns[0])
            write_columns(block[start:stop], columns)
            start = stop
        return block

    def _text(self, chunk: bytes) -> Any:
        import pyarrow as pa
        from pyarrow import csv

        names = [str(j) for j in range(self._dialect.n_columns)]
        try:
            return csv.read_csv(
                pa.BufferReader(chunk),
                read_options=csv.ReadOptions(column_names=names, block_size=len(chunk) + 1),
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
