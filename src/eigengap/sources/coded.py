"""Tables with columns of any kind, wherever they lie, as sources of coded values.

A `MixedTable` is learned from in one pass, its `schema`, and becomes a `Source` whose blocks are
coded values (c, d): numbers, codes of levels, NaN where missing (`Schema.code`). What a fit does
with them does not depend on where the table lies.

| where | how |
|---|---|
| frames and arrays in memory | coded at once |
| CSV and Parquet, one file or many | tables of Arrow, some rows at a time, coded as they are read |
| frames of Dask | partitions are coded where they lie |
| all others hold numbers | as `as_source` reads them |
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Sequence
from importlib.util import find_spec
from math import nan
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eigengap.exceptions import DataError
from eigengap.linalg import Array
from eigengap.runtime.memory import require_memory
from eigengap.sources.array import (
    F8,
    ArraySource,
    is_dask,
    is_field,
    library_of,
)
from eigengap.sources.base import Block, Source
from eigengap.sources.checks import as_weight, check_not_empty, count_missing, missing_codes
from eigengap.sources.conversion import as_source, lies_elsewhere
from eigengap.sources.dask import kind_of
from eigengap.sources.fields.places import is_field_path
from eigengap.sources.files.csv.mixed import MixedCsvReader
from eigengap.sources.files.csv.rows import SKIP_NOTHING
from eigengap.sources.files.parquet import MixedParquetReader
from eigengap.sources.files.paths import find_files, format_of
from eigengap.sources.frames import eager_frame, series_to_float
from eigengap.sources.levels import ColumnType, Contents, Schema, first_texts, names_of, rows_with
from eigengap.sources.opening import ManyReader, codes_of, parquet_parts
from eigengap.sources.reader import Reader, StreamSource, unreadable
from eigengap.sources.wording import column

ROWS = 1 << 16  # of a table of Arrow, about


def open_table(X: Any, *, sample_weight: Any = None, missing_values: Any = nan) -> MixedTable:
    """The table X, whatever its columns hold; parameters are those of `as_source`."""
    if kind_of(X) == "frame":
        from eigengap.sources.dask.coded import DaskTable

        return DaskTable(X, sample_weight, missing_values)
    if lies_elsewhere(X) and not (is_field(X) or is_field_path(X) or is_dask(X)):
        found = _files(X, missing_values)
        if found is not None:
            return FileTable(*found, sample_weight, missing_values)
    if isinstance(X, Source) or lies_elsewhere(X):
        return NumericTable(X, sample_weight, missing_values)
    return MemoryTable(X, sample_weight, missing_values)


def holds_numbers(X: Any, missing_values: Any = nan) -> bool:
    """Whether columns of a table elsewhere hold numbers alone, by their types or first rows."""
    if is_dask(X):
        from eigengap.sources.dask import holds_numbers as of_dask

        return of_dask(X)
    if isinstance(X, Source) or is_field(X) or is_field_path(X):
        return True
    found = _files(X, missing_values)
    return found is None or all(reader.holds_numbers for reader in found[0])


class MixedTable(ABC):
    """A table with columns of any kind."""

    names: tuple[str, ...] | None  # None unless all columns have names that are text
    n_columns: int  # of a table elsewhere; one in memory says so by its schema

    @abstractmethod
    def schema(self) -> Schema:
        """What its columns hold, in the rows of positive weight."""

    @abstractmethod
    def source(self, schema: Schema, used: Sequence[int]) -> Source:
        """Coded values (n, d) of some of the columns, with limits (`Schema.code_with_limits`).

        A level that the schema does not have is refused by row and column.
        """

    def columns_of(self, source: Source, schema: Schema, used: Sequence[int]) -> Source:
        """Some columns of `source(schema, range(n_columns))`, without reading them again."""
        return self.source(schema, used)

    @abstractmethod
    def frames(self, schema: Schema) -> Iterator[Any]:
        """Consecutive rows as frames, or arrays: what the caller's table holds."""

    def whole(self, schema: Schema) -> Any:
        """All rows as one table in memory."""
        raise NotImplementedError

    def rows_with(
        self, schema: Schema, j: int, texts: Collection[str]
    ) -> tuple[list[int], list[str]]:
        """Rows of which column j holds one of some texts, and these texts: one pass."""
        rows: list[int] = []
        found: list[str] = []
        start = 0
        for frame in self.frames(schema):
            own, cells = rows_with(frame, j, texts)
            rows += [start + i for i in own]
            found += cells
            start += len(frame)
        return rows, found

    def first_texts(self, schema: Schema, j: int, most: int) -> list[str]:
        """Different texts of column j in the first rows."""
        return next((first_texts(frame, j, most) for frame in self.frames(schema)), [])


class MemoryTable(MixedTable):
    """A frame, or a two-dimensional array of numbers or objects."""

    def __init__(self, X: Any, sample_weight: Any, missing_values: Any) -> None:
        if library_of(X) is not None:
            X = eager_frame(X)
        self._X: Any = X if hasattr(X, "__len__") else np.asarray(X)
        self.names = names_of(self._X) if library_of(X) is not None else None
        self._codes, self._weight = missing_codes(missing_values), sample_weight
        if library_of(sample_weight) is not None:
            self._weight = series_to_float(sample_weight)

    def _weights(self, n: int) -> Array | None:
        return as_weight(self._weight, n)

    def _present(self) -> NDArray[np.bool_] | None:
        if self._weight is None:
            return None
        weight = self._weights(len(self._X))
        return None if weight is None or weight.all() else weight > 0

    def schema(self) -> Schema:
        return Schema.of(self._X, self._codes, self._present())

    def source(self, schema: Schema, used: Sequence[int]) -> ArraySource:
        unused = set(range(len(schema.columns))) - set(used)
        own = schema.ignoring(unused)
        values = own.code_with_limits(self._X, self._present())
        own.warn_of_rounded(self._X, values)
        count_missing(values, own.coded_names)
        weight, names = self._weights(len(values)), own.coded_names
        at = [*used, *range(len(own.columns), values.shape[1])]
        names = None if names is None else tuple(names[j] for j in at)
        values = values[:, at]
        if library_of(self._X) is None and getattr(self._X, "dtype", None) == np.float32:
            values = values.astype(np.float32)
        return ArraySource(values, weight=weight, names=names)

    def frames(self, schema: Schema) -> Iterator[Any]:
        for start in range(0, len(self._X), ROWS):
            rows = slice(start, start + ROWS)
            if hasattr(self._X, "iloc"):
                yield self._X.iloc[rows]
            elif library_of(self._X) == "pyarrow":
                yield self._X.slice(start, ROWS)
            else:
                yield self._X[rows]

    def whole(self, schema: Schema) -> Any:
        return self._X


class NumericTable(MixedTable):
    """A table that holds numbers only, by its nature."""

    def __init__(self, X: Any, sample_weight: Any, missing_values: Any) -> None:
        if isinstance(X, Source):
            self._how = {}
        else:
            self._how = {"sample_weight": sample_weight, "missing_values": missing_values}
        self._X, self._source = X, as_source(X, **self._how)
        if self._source.is_sparse:
            raise ValueError("columns of several kinds need a dense table; X.toarray() makes one")
        self.names, self.n_columns = self._source.names, self._source.n_features

    def schema(self) -> Schema:
        names = [None] * self.n_columns if self.names is None else self.names
        return Schema(tuple(ColumnType(name, "numbers") for name in names))

    def source(self, schema: Schema, used: Sequence[int]) -> Source:
        if list(used) == list(range(self.n_columns)):
            return self._source
        if isinstance(self._X, Source):
            raise ValueError(
                "X is a source already, and some of its columns are ignored; give columns to "
                "open_source, which makes it"
            )
        return as_source(self._X, **self._how, columns=list(used))

    def frames(self, schema: Schema) -> Iterator[Any]:
        yield self.whole(schema)

    def whole(self, schema: Schema) -> NDArray[Any]:
        return np.asarray(self._source.collect())


Readers = list[MixedCsvReader] | list[MixedParquetReader]


def _files(X: Any, missing_values: Any) -> tuple[Readers, str] | None:
    """Readers of the files, and how messages name them; None where they hold numbers only."""
    addresses = [
        part
        for found in find_files(X)
        for part in (parquet_parts(found) if format_of(found.path).name == "folder" else [found])
    ]
    kinds = [format_of(address.path) for address in addresses]
    names = {kind.name for kind in kinds}
    if names not in ({"csv"}, {"parquet"}) or any(one.member is not None for one in addresses):
        return None
    readers: Any = []
    for address, kind in zip(addresses, kinds, strict=True):
        with unreadable(str(address.path), (ValueError,), "{}"):
            if kind.name == "csv":
                texts, _ = codes_of(missing_values)
                how = (None, texts, kind.compression, SKIP_NOTHING)
                readers.append(MixedCsvReader(address.path, *how))
            else:
                readers.append(MixedParquetReader(address.path))
    where = readers[0].where
    if len(readers) > 1:
        several = isinstance(X, list | tuple)
        where = f"{where} and {len(readers) - 1} more files" if several else str(X)
        ManyReader(readers, where)  # refuses files with other columns or decimal marks
    return readers, where


class FileTable(MixedTable):
    """CSV or Parquet, one file or many with the same columns."""

    def __init__(
        self, readers: Readers, where: str, sample_weight: Any, missing_values: Any
    ) -> None:
        self._readers: list[Any] = list(readers)
        self.where = where
        self.names, self.n_columns = readers[0].names, readers[0].n_features
        texts, codes = codes_of(missing_values)
        self._codes, self._texts = codes, tuple(sorted(texts))
        self._given = sample_weight
        self.n_rows: int | None = None

    def _weight(self) -> Array | None:
        """Weights, of as many rows as there are weights while the rows are not counted."""
        if self._given is None:
            return None
        given = self._given
        if library_of(given) is not None:
            given = series_to_float(given)
        if np.ndim(given) == 0 and self.n_rows is None:
            self.n_rows = sum(len(table) for table in self._tables(self._readers))
        return as_weight(given, len(given) if self.n_rows is None else self.n_rows)

    def schema(self) -> Schema:
        """One pass; one more where a column turns out to hold text below its first rows."""
        weight = self._weight()
        found = self._contents(range(self.n_columns), weight)
        late = [j for j, each in enumerate(found) if each.is_late]
        if late:
            self._readers = [reader.with_text(late) for reader in self._readers]
            for j, each in zip(late, self._contents(late, weight), strict=True):
                found[j] = each
        names = self.names or (None,) * self.n_columns
        columns = (each.column(name) for each, name in zip(found, names, strict=True))
        return Schema(tuple(columns), self._codes, self._texts)

    def _contents(self, columns: Sequence[int], weight: Array | None) -> list[Contents]:
        """What some of the columns hold: one pass. Text of too many values is not read further."""
        found = dict.fromkeys(columns, Contents(None))
        row = 0
        for reader in self._readers:
            open_ = [j for j in columns if not found[j].is_settled]
            settled: set[int] = set()
            part = reader.only(open_)
            for table in part.tables(ROWS, settled):
                n = len(table)
                if weight is not None:
                    table = table.filter(weight[row : row + n] > 0)
                row += n
                for k, (j, each) in enumerate(zip(open_, part.contents_of(table), strict=True)):
                    try:
                        found[j] = found[j].merge(each)
                        if found[j].is_settled:
                            settled.add(k)
                    except ValueError as error:
                        name = column(self.names, j)
                        raise DataError(f"column {name}: {error}", column=j) from None
        check_not_empty((row, self.n_columns))
        if weight is not None and len(weight) != row:
            raise DataError(f"sample_weight has {len(weight)} entries but X has {row} rows")
        self.n_rows = row
        return [found[j] for j in columns]

    def source(self, schema: Schema, used: Sequence[int]) -> CodedSource:
        weight = self._weight()
        reader = CodedReader(self._readers, self.where, schema, used, self.n_rows, weight)
        return CodedSource(reader, weight=weight)

    def columns_of(self, source: Source, schema: Schema, used: Sequence[int]) -> Source:
        if isinstance(source, CodedSource) and source.is_kept:
            weight = None if source.weight is None else source.weight[source.weight > 0]
            return StreamSource(_KeptReader(source, used), weight=weight)
        return super().columns_of(source, schema, used)

    def frames(self, schema: Schema) -> Iterator[Any]:
        """Tables of Arrow: numbers, truth values, strings."""
        columns = range(self.n_columns)
        for table in self._tables([reader.only(columns, schema) for reader in self._readers]):
            yield _as_strings(table)

    @staticmethod
    def _tables(readers: Sequence[Any]) -> Iterator[Any]:
        for reader in readers:
            yield from reader.tables(ROWS)

    def whole(self, schema: Schema) -> Any:
        import pyarrow as pa

        frames = []
        for frame in self.frames(schema):
            require_memory(frame.nbytes, f"the table {self.where}", "write it with eigengap.stream")
            frames.append(frame)
        table = pa.concat_tables(frames, promote_options="permissive")
        if find_spec("pandas") is not None:
            return table.to_pandas()
        if find_spec("polars") is not None:
            import polars

            return polars.from_arrow(table)
        return table


def _as_strings(table: Any) -> Any:
    """Dictionaries of strings as strings."""
    import pyarrow as pa

    for j, field in enumerate(table.schema):
        if pa.types.is_dictionary(field.type) and not field.type.ordered:
            table = table.set_column(j, field.name, table.column(j).cast(field.type.value_type))
    return table


class CodedReader(Reader):
    """Coded values of some columns of files."""

    def __init__(
        self,
        readers: Sequence[Any],
        where: str,
        schema: Schema,
        used: Sequence[int],
        n_rows: int | None,
        weight: Array | None,
    ) -> None:
        self.where, self.n_rows, self.dtype = where, n_rows, F8
        self._readers = [reader.only(used, schema) for reader in readers]
        self._schema = schema.only(used)
        # What is not looked at need not be read.
        self._skipped = {k for k, own in enumerate(self._schema.columns) if own.holds == "other"}
        self._present = None if weight is None or weight.all() else weight > 0
        self.names = self._schema.coded_names
        self.n_features = len(used) + 2 * len(self._schema.limited)
        self.long = np.zeros(self.n_features, dtype=bool)
        for reader in self._readers:
            self.long[: len(used)] |= reader.long
        self.long[[k for k, own in enumerate(self._schema.columns) if own.levels]] = False

    def pieces(self, rows: int) -> Iterator[NDArray[Any]]:
        row = 0
        for reader in self._readers:
            for table in reader.tables(min(rows, ROWS), self._skipped):
                n, present = len(table), None
                if self._present is not None:
                    present = np.zeros(n, dtype=bool)
                    own = self._present[row : row + n]
                    present[: len(own)] = own
                if n:
                    yield self._schema.code_with_limits(table, present, row)
                row += n

    def require_unchanged(self) -> None:
        for reader in self._readers:
            reader.require_unchanged()

    @property
    def bytes_per_pass(self) -> int | None:
        return int(sum(reader.bytes_per_pass for reader in self._readers))


class CodedSource(StreamSource):
    """Coded values of files, kept after the first pass where they are small enough."""

    _coded: list[Block] | None = None  # all blocks

    @property
    def is_kept(self) -> bool:
        return self._coded is not None

    def present(self) -> Source:
        other = super().present()
        if isinstance(other, CodedSource) and other is not self:
            other._coded = None
        return other

    def _blocks(self) -> Iterator[Block]:
        if self._coded is not None:
            self._require_unchanged()
            yield from self._coded
            return
        kept: list[Block] | None = []
        size = 0
        for block in super()._blocks():
            if kept is not None:
                size += block.values.nbytes
                kept.append(block)
                kept = kept if size <= self._most_kept else None
            yield block
        self._coded = kept


class _KeptReader(Reader):
    """Some columns of a source whose blocks are in memory."""

    def __init__(self, source: CodedSource, used: Sequence[int]) -> None:
        self._source, self._used = source, list(used)
        self.where, self.n_rows = source.where, source.n_rows
        if source.weight is not None:
            self.n_rows = int(np.count_nonzero(source.weight))
        self.dtype, self.n_features = source.dtype, len(self._used)
        self.names = None if source.names is None else tuple(source.names[j] for j in self._used)

    def pieces(self, rows: int) -> Iterator[NDArray[Any]]:
        for block in self._source._blocks():
            yield block.values[:, self._used]

    def require_unchanged(self) -> None:
        self._source.reader.require_unchanged()
