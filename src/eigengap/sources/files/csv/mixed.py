"""CSV with columns of text: the same chunks and dialect, as Arrow's tables.

A column holds text where one of its cells is neither a number nor a missing value. That may be the
last cell of the file, so that a column is read as numbers until then; whoever asks what the columns
hold (`contents`) reads those again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from copy import copy
from typing import Any, Self

import numpy as np

from eigengap.exceptions import UnreadableError
from eigengap.sources.files.csv.cells import TRUTH_VALUES, WHITE
from eigengap.sources.files.csv.faults import describe_label_rows, first_fault, label_rows
from eigengap.sources.files.csv.reader import LEAST_CHUNK, MOST_CHUNK, CsvReader, _text
from eigengap.sources.levels import Contents, Schema, are_codes
from eigengap.sources.wording import column


class MixedCsvReader(CsvReader):
    """A table of numbers, truth values and text."""

    _as_text: frozenset[int] = frozenset()  # columns of the file whose cells stay text
    _as_truth: frozenset[int] = frozenset()
    _as_limits: frozenset[int] = frozenset()  # of those with text: numbers and limits
    _is_decided = False  # whether all others must hold numbers

    def _look_at_head(self) -> None:
        chosen, head = self._chosen, self._dialect.head
        if count := label_rows(self._dialect, chosen):
            message = describe_label_rows(self._dialect, chosen, count)
            raise UnreadableError(self.where, message, in_cells=True)
        either = self._dialect.cells
        numeric = [
            j for j in chosen if all(either.number(row.cells[j]) is not None for row in head)
        ]
        self._dialect = self._dialect.with_mark_of(self.where, numeric)
        self._as_text = frozenset(
            j for j in chosen if self._holds_text([row.cells[j] for row in head])
        )

    def _holds_text(self, cells: Sequence[str]) -> bool:
        how = self._dialect.cells
        are_truth = any(cell.strip(WHITE).lower() in TRUTH_VALUES for cell in cells)
        if are_truth or any(how.number(cell) is None for cell in cells):
            return True
        return are_codes([cell for cell in cells if not how.is_missing(cell)])

    @property
    def holds_numbers(self) -> bool:
        """Whether the first rows hold numbers alone."""
        return not self._as_text

    def _is_slow(self, text: str) -> bool:
        return super()._is_slow(text) or self._dialect.cells.number(text) is None

    def only(self, columns: Sequence[int], schema: Schema | None = None) -> Self:
        """Some of the columns, by position among those of this reader, as the schema has them."""
        other = copy(self)
        other._chosen = [self._chosen[j] for j in columns]
        other.names = None if self.names is None else tuple(self.names[j] for j in columns)
        other.n_features = len(columns)
        if schema is not None:
            types = {self._chosen[j]: schema.columns[j] for j in columns}
            other._as_text = frozenset(
                j
                for j, own in types.items()
                if own.has_limits or own.holds not in ("numbers", "truth")
            )
            other._as_truth = frozenset(j for j, own in types.items() if own.holds == "truth")
            other._as_limits = frozenset(j for j, own in types.items() if own.has_limits)
            other._is_decided = True
        return other

    def with_text(self, columns: Collection[int]) -> Self:
        """With some more columns, by position, whose cells stay text."""
        other = copy(self)
        other._as_text = self._as_text | {self._chosen[j] for j in columns}
        return other

    def tables(self, rows: int, skipped: Collection[int] = ()) -> Iterator[Any]:
        """Consecutive rows as pyarrow's tables: float64, bool, and dictionaries of strings.

        Columns of text that are skipped, by position, are null; they may become more on the way.
        """
        import pyarrow as pa

        self.require_unchanged()
        size = min(MOST_CHUNK, max(LEAST_CHUNK, 8 * rows * self._dialect.n_columns))
        slow = set(self._as_text)
        names = [str(k) for k in range(self.n_features)] if self.names is None else self.names
        count = 0
        for chunk, line in self._chunks(size):
            table = self._table(chunk, line, slow)
            columns = [
                pa.nulls(table.num_rows)
                if k in skipped
                else self._typed(j, table.column(k).combine_chunks(), chunk, line)
                for k, j in enumerate(self._chosen)
            ]
            floats = [each.to_numpy(zero_copy_only=False) for each in columns if _is_float(each)]
            at = [j for j, each in zip(self._chosen, columns, strict=True) if _is_float(each)]
            self._warn_rounded_among(at, chunk, floats)
            count += table.num_rows
            yield pa.Table.from_arrays(columns, names=list(names))
        self.require_unchanged()
        self.n_rows = count

    def _warn_rounded_among(self, at: Sequence[int], chunk: bytes, floats: Sequence[Any]) -> None:
        chosen, self._chosen = self._chosen, list(at)
        try:
            self._warn_rounded(chunk, floats)
        finally:
            self._chosen = chosen

    def _typed(self, j: int, cells: Any, chunk: bytes, line: int) -> Any:
        """The cells of a column as it is read."""
        import pyarrow as pa

        if str(cells.type) != "binary":
            return cells
        if j not in self._as_text:
            numbers = self._column(cells)
            if numbers is not None and j in self._as_truth:
                missing = np.isnan(numbers)
                if np.all(missing | np.isin(numbers, (0, 1))):
                    return pa.array(numbers == 1, mask=missing)
            if self._is_decided and numbers is None:
                raise self._fault(chunk, line)
            if self._is_decided:
                return pa.array(numbers, from_pandas=True)
        return self._texts(j, cells)

    def _texts(self, j: int, cells: Any) -> Any:
        """A dictionary of strings; missing values are null."""
        import pyarrow as pa

        how = self._dialect.cells
        is_missing = how.is_missing if j in self._as_limits else how.is_missing_text
        coded = cells.dictionary_encode()
        number = np.full(len(coded.dictionary), -1, dtype=np.int32)
        texts: list[str] = []
        for k, cell in enumerate(coded.dictionary.to_pylist()):
            if is_missing(_text(cell)):
                continue
            number[k] = len(texts)
            try:
                texts.append(cell.decode("utf-8"))
            except UnicodeDecodeError as error:
                raise UnreadableError(
                    self.where,
                    f"column {column(self._dialect.names, j)} is not UTF-8 ({error.reason}). "
                    "Convert it, e.g. with iconv -f latin1 -t UTF-8",
                ) from None
        if j in self._as_limits and self._dialect.cells.decimal == ",":
            texts = [text.replace(",", ".") for text in texts]
        at = number[np.asarray(coded.indices)] if len(number) else np.empty(0, np.int32)
        indices = pa.array(at, mask=at < 0)
        return pa.DictionaryArray.from_arrays(indices, pa.array(texts, pa.string()))

    def contents_of(self, table: Any) -> list[Contents]:
        """What the columns of one of the tables hold."""
        return [self._contents(table.column(k).combine_chunks()) for k in range(self.n_features)]

    def _contents(self, cells: Any) -> Contents:
        if _is_float(cells):
            return Contents.of_numbers(are_null=cells.null_count == len(cells))
        if cells.null_count == len(cells):
            return Contents(None)
        used = cells.indices.unique().drop_null()
        return Contents.of_texts(
            cells.dictionary.take(used).to_pylist(), self._dialect.cells.number
        )

    def _fault(self, chunk: bytes, line: int, error: Exception | None = None) -> UnreadableError:
        numeric = [j for j in self._chosen if j not in self._as_text]
        found = first_fault(self.where, chunk, line, self._dialect, numeric)
        return found or super()._fault(chunk, line, error)


def _is_float(cells: Any) -> bool:
    return str(cells.type) == "double"
