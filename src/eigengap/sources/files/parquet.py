"""Parquet: columns are read that are wanted, row group by row group, a batch of rows at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from eigengap.extras import MissingExtraError
from eigengap.sources.array import F4, F8
from eigengap.sources.checks import resolve_columns
from eigengap.sources.files.columns import arrow_to_float, foreign_kind, in_blocks
from eigengap.sources.files.file import FileReader
from eigengap.sources.files.refusal import choice, refuse_columns
from eigengap.sources.reader import UnreadableError
from eigengap.sources.wording import first_repeated, quote

# Bytes that are decoded together, and that are buffered between file and decoder for all columns:
# a quarter and half of a block, within bounds.
BATCH = (1 << 20, 8 << 20)
BUFFERED = (2 << 20, 16 << 20)
LEAST_BATCH = 1024  # rows
LEAST_BUFFER = 1 << 14  # bytes of one column


class ParquetReader(FileReader):
    """One Parquet file. Each column has a buffer, so that no row group is ever read as a whole."""

    _bytes: int | None = None

    def __init__(self, path: Path, columns: Any = None) -> None:
        super().__init__(path)
        file = self._opened(0)
        try:
            schema, facts = file.schema_arrow, file.metadata
            self._chosen = self._numeric(schema, columns)
            fields = [schema.field(j) for j in self._chosen]
            self.names = self._unique([field.name for field in fields])
            self.n_features = len(fields)
            self.n_rows = facts.num_rows
            self.dtype = F4 if fields and all(_is_single(f.type) for f in fields) else F8
            self._kinds = [field.type for field in fields]
        finally:
            file.close()

    def _opened(self, buffer: int) -> Any:
        try:
            import pyarrow as pa
            from pyarrow import parquet
        except ImportError as error:
            raise MissingExtraError("reading Parquet", "pyarrow", "files") from error
        try:
            return parquet.ParquetFile(
                self._path,
                buffer_size=buffer,
                pre_buffer=False,  # or the whole row group would be read before its first row
                page_checksum_verification=True,
            )
        except (pa.ArrowException, OSError) as error:
            raise UnreadableError(
                self.where, f"it is not a whole Parquet file ({_first_line(error)}); copy it anew"
            ) from error

    def _numeric(self, schema: Any, columns: Any) -> list[int]:
        labels = list(schema.names)
        chosen = (
            list(range(len(labels)))
            if columns is None
            else resolve_columns(columns, labels, len(labels))
        )
        foreign = {j: foreign_kind(schema.field(j).type) for j in range(len(labels))}
        told = [f"{quote(labels[j])} ({foreign[j]})" for j in chosen if foreign[j]]
        if told:
            numeric = [labels[j] for j in chosen if not foreign[j]]
            raise refuse_columns(self.where, told, numeric)
        return chosen

    def _unique(self, names: Sequence[str]) -> tuple[str, ...]:
        twice = first_repeated(names)
        if twice is not None:
            others = [name for name in dict.fromkeys(names) if names.count(name) == 1]
            raise UnreadableError(
                self.where,
                f"it has {names.count(twice)} columns named {quote(twice)}, and Parquet chooses "
                f"by name. Rename them, or choose others: columns={choice(others)}",
            )
        return tuple(names)

    def _pieces(self, rows: int) -> Iterator[NDArray[Any]]:
        block = 8 * rows * self.n_features
        buffer = _within(block // 2, BUFFERED) // self.n_features
        batch = _within(block // 4, BATCH) // (8 * self.n_features)
        file = self._opened(max(LEAST_BUFFER, buffer))
        try:
            batches = self._batches(file, max(LEAST_BATCH, batch))
            yield from in_blocks(batches, rows, self.n_features, self.dtype)
        finally:
            file.close()

    def _batches(self, file: Any, rows: int) -> Iterator[list[NDArray[Any]]]:
        import pyarrow as pa

        assert self.names is not None
        first = 0
        for group in range(file.metadata.num_row_groups):
            stop = first + file.metadata.row_group(group).num_rows
            batches = file.iter_batches(
                batch_size=rows, row_groups=[group], columns=list(self.names)
            )
            try:
                for batch in batches:
                    yield self._columns(batch)
            except (pa.ArrowException, OSError, ValueError) as error:
                if isinstance(error, UnreadableError):
                    raise
                raise UnreadableError(
                    self.where,
                    f"row group {group} (rows {first} to {stop - 1}) cannot be read "
                    f"({_first_line(error)}); write the file anew, or leave those rows out",
                ) from error
            first = stop

    def _columns(self, batch: Any) -> list[NDArray[Any]]:
        assert self.names is not None
        schema = batch.schema  # a name with a dot in it may bring others along
        return [arrow_to_float(batch.column(schema.get_field_index(name))) for name in self.names]

    @property
    def bytes_per_pass(self) -> int:
        # Asked for when a pass has gone well: of damaged metadata pyarrow would make an end of the
        # process here, and an error while it reads.
        if self._bytes is None:
            file = self._opened(0)
            try:
                self._bytes = _bytes_of(file.metadata, set(self.names or ()))
            except UnicodeDecodeError as error:
                raise UnreadableError(self.where, f"it is damaged ({error})") from error
            finally:
                file.close()
        return self._bytes


def _within(size: int, bounds: tuple[int, int]) -> int:
    low, high = bounds
    return min(high, max(low, size))


def _is_single(kind: Any) -> bool:
    return str(kind) == "float"


def _bytes_of(facts: Any, names: set[str]) -> int:
    """Compressed bytes of the columns that are read."""
    total = 0
    for g in range(facts.num_row_groups):
        group = facts.row_group(g)
        for j in range(group.num_columns):
            part = group.column(j)
            if part.path_in_schema.partition(".list")[0] in names:
                total += part.total_compressed_size
    return total


def _first_line(error: BaseException) -> str:
    return str(error).strip().partition("\n")[0][:200]
