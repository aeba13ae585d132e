"""Parquet: columns are read that are wanted, row group by row group.

A row group lies in the file column after column. Where a whole one has room next to the blocks it
is read so, some columns at a time; a larger one in batches of rows, with a buffer for each column.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from copy import copy
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from eigengap.exceptions import UnreadableError
from eigengap.sources.array import F4, F8
from eigengap.sources.checks import is_long_type, resolve_columns
from eigengap.sources.files.columns import (
    Blocks,
    arrow_path,
    arrow_to_float,
    choice,
    foreign_kind,
    not_numeric,
    write_across,
)
from eigengap.sources.files.paths import needed
from eigengap.sources.levels import Contents, Schema, contents_of
from eigengap.sources.reader import FileReader, unreadable
from eigengap.sources.wording import first_repeated, quote

# Bytes that are decoded together, and that are buffered between file and decoder for all columns:
# a quarter and half of a block, within bounds.
BATCH = (1 << 20, 8 << 20)
BUFFERED = (2 << 20, 16 << 20)
LEAST_BATCH = 1024  # rows
LEAST_BUFFER = 1 << 14  # bytes of one column
WHOLE = 4  # blocks that a row group may take and yet be read as a whole


class ParquetReader(FileReader):
    """One Parquet file."""

    _bytes: int | None = None

    def __init__(self, path: Path, columns: Any = None) -> None:
        super().__init__(path)
        with self._opened(0) as file:
            schema, self.n_rows = file.schema_arrow, file.metadata.num_rows
        fields = [schema.field(j) for j in self._numeric(schema, columns)]
        self.names = self._unique([field.name for field in fields])
        self.n_features = len(fields)
        kinds = [str(field.type) for field in fields]
        self.dtype = F4 if set(kinds) == {"float"} else F8
        self.long = np.array([is_long_type(kind) for kind in kinds], bool)

    def _opened(self, buffer: int) -> Any:
        parquet = needed("reading Parquet", "pyarrow.parquet")
        import pyarrow as pa

        errors, what = (pa.ArrowException, OSError), "it is not a whole Parquet file ({})"
        with unreadable(self.where, errors, what + "; copy it anew"):
            return parquet.ParquetFile(
                arrow_path(self._path),
                buffer_size=buffer,
                pre_buffer=False,  # or the whole row group would be read before its first row
                page_checksum_verification=True,
            )

    def _numeric(self, schema: Any, columns: Any) -> list[int]:
        labels = list(schema.names)
        index = index_columns(schema)
        chosen = (
            [j for j, label in enumerate(labels) if label not in index]
            if columns is None
            else resolve_columns(columns, labels, len(labels))
        )
        foreign = {j: self._refused_kind(schema.field(j).type) for j in range(len(labels))}
        refused = [(labels[j], kind) for j in chosen if (kind := foreign[j])]
        if refused:
            raise not_numeric(self.where, refused, [labels[j] for j in chosen if not foreign[j]])
        return chosen

    def _refused_kind(self, kind: Any) -> str | None:
        """What a column of this type holds, if it is not read."""
        return foreign_kind(kind)

    def _unique(self, names: Sequence[str]) -> tuple[str, ...]:
        twice = first_repeated(names)
        if twice is not None:
            others = [name for name in dict.fromkeys(names) if names.count(name) == 1]
            way_out = f", or choose others: {choice(others)}" if others else ""
            raise UnreadableError(
                self.where,
                f"it has {names.count(twice)} columns named {quote(twice)}, and Parquet chooses "
                f"by name. Rename them{way_out}",
                name=twice,
            )
        return tuple(names)

    def _pieces(self, rows: int) -> Iterator[NDArray[Any]]:
        import pyarrow as pa

        block = 8 * rows * self.n_features
        batch = _within(block // 4, BATCH)
        with self._opened(0) as file:
            groups = _groups(file.metadata)
        buffer, fill = 0, self._as_a_whole
        if any(stop - start > WHOLE * rows for start, stop in groups):
            buffer = max(LEAST_BUFFER, _within(block // 2, BUFFERED) // self.n_features)
            fill = self._in_batches
        with self._opened(buffer) as file:
            blocks = Blocks(rows, self.n_features, self.dtype)
            for group, (start, stop) in enumerate(groups):
                what = f"row group {group} (rows {start} to {stop - 1}) cannot be read ({{}}); "
                what += "write the file anew, or leave those rows out"
                with unreadable(self.where, (pa.ArrowException, OSError, ValueError), what):
                    for _ in fill(file, group, stop - start, blocks, batch):
                        yield from blocks.full()
            yield from blocks.rest()

    def _as_a_whole(
        self, file: Any, group: int, count: int, blocks: Blocks, batch: int
    ) -> Iterator[None]:
        """A row group, as many of its columns at a time as make a batch."""
        assert self.names is not None
        views = blocks.room(count)
        width = max(1, batch // (8 * max(1, count)))
        for first in range(0, self.n_features, width):
            names = self.names[first : first + width]
            columns = self._columns(file.read_row_group(group, columns=list(names)), names)
            write_across([view[:, first : first + width] for view in views], columns)
        yield

    def _in_batches(
        self, file: Any, group: int, count: int, blocks: Blocks, batch: int
    ) -> Iterator[None]:
        """A row group, as many of its rows at a time as make a batch; each with all columns."""
        assert self.names is not None
        rows = max(LEAST_BATCH, batch // (8 * self.n_features))
        for part in file.iter_batches(rows, row_groups=[group], columns=list(self.names)):
            write_across(blocks.room(part.num_rows), self._columns(part, self.names))
            yield

    def _columns(self, part: Any, names: Sequence[str]) -> list[NDArray[Any]]:
        schema = part.schema  # a name with a dot in it may bring others along
        return [arrow_to_float(part.column(schema.get_field_index(name))) for name in names]

    @property
    def bytes_per_pass(self) -> int:
        # Asked for when a pass has succeeded: of damaged metadata pyarrow would make an end of the
        # process here, and an error while it reads.
        if self._bytes is None:
            damaged = unreadable(self.where, (UnicodeDecodeError,), "it is damaged ({})")
            with self._opened(0) as file, damaged:
                self._bytes = _bytes_of(file.metadata, set(self.names or ()))
        return self._bytes


class MixedParquetReader(ParquetReader):
    """One Parquet file with columns of any type."""

    holds_numbers = True  # alone

    def _refused_kind(self, kind: Any) -> str | None:
        return None

    def _numeric(self, schema: Any, columns: Any) -> list[int]:
        import pyarrow as pa

        chosen = super()._numeric(schema, columns)
        kinds = [schema.field(j).type for j in chosen]
        levels = (
            foreign_kind(k) or pa.types.is_boolean(k) or pa.types.is_dictionary(k) for k in kinds
        )
        self.holds_numbers = not any(levels)
        return chosen

    def only(self, columns: Sequence[int], schema: Schema | None = None) -> Self:
        """Some of the columns, by position among those of this reader."""
        assert self.names is not None
        other = copy(self)
        other.names = tuple(self.names[j] for j in columns)
        other.n_features = len(columns)
        other.long = self.long[list(columns)]
        return other

    def tables(self, rows: int, skipped: Collection[int] = ()) -> Iterator[Any]:
        """Consecutive rows as pyarrow's tables, in the types of the file.

        Columns that are skipped, by position, are null.
        """
        import pyarrow as pa

        assert self.names is not None
        left_out = set(skipped)
        read = [name for k, name in enumerate(self.names) if k not in left_out]
        self.require_unchanged()
        what = "it cannot be read to its end ({}); write the file anew"
        errors = (pa.ArrowException, OSError, ValueError)
        with self._opened(LEAST_BUFFER) as file:
            batches = file.iter_batches(max(rows, LEAST_BATCH), columns=read)
            while True:
                with unreadable(self.where, errors, what):
                    part = next(batches, None)
                if part is None:
                    break
                columns = [
                    pa.nulls(part.num_rows)
                    if k in left_out
                    else part.column(part.schema.get_field_index(name))
                    for k, name in enumerate(self.names)
                ]
                yield pa.Table.from_arrays(columns, names=list(self.names))
        self.require_unchanged()

    def contents_of(self, table: Any) -> list[Contents]:
        """What the columns of one of the tables hold."""
        return contents_of(table)[1]


def index_columns(schema: Any) -> frozenset[str]:
    """Columns that hold the index of a pandas frame: row labels, which are no features.

    pandas writes an index other than 0, 1, 2, ... as columns, noted in the metadata; it reads
    them back as the index.
    """
    facts = schema.pandas_metadata or {}
    return frozenset(one for one in facts.get("index_columns", ()) if isinstance(one, str))


def _groups(facts: Any) -> list[tuple[int, int]]:
    """First row and end of each row group."""
    counts = [facts.row_group(group).num_rows for group in range(facts.num_row_groups)]
    return list(pairwise(accumulate(counts, initial=0)))


def _within(size: int, bounds: tuple[int, int]) -> int:
    low, high = bounds
    return min(high, max(low, size))


def _bytes_of(facts: Any, names: set[str]) -> int:
    """Compressed bytes of the columns that are read."""
    groups = map(facts.row_group, range(facts.num_row_groups))
    parts = (group.column(j) for group in groups for j in range(group.num_columns))
    wanted = (part for part in parts if part.path_in_schema.partition(".list")[0] in names)
    return sum(part.total_compressed_size for part in wanted)
