"""Parquet with all its columns, a batch of rows at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eigengap.exceptions import UnreadableError
from eigengap.sources import arrow_path, arrow_to_float

BATCH = 8 << 20  # bytes of float64


def schema_of(path: str) -> Any:
    file = _opened(path)
    try:
        return file.schema_arrow
    finally:
        file.close()


def without_nulls(path: str, names: Sequence[str]) -> set[str]:
    """Columns of which the file itself says that no cell is null."""
    file = _opened(path)
    try:
        facts = file.metadata
        counts: dict[str, int | None] = dict.fromkeys(names, 0)
        for g in range(facts.num_row_groups):
            for j in range(facts.num_columns):
                part = facts.row_group(g).column(j)
                name = part.path_in_schema
                if name in counts:
                    known = part.is_stats_set and part.statistics.has_null_count
                    counts[name] = (
                        (counts[name] or 0) + part.statistics.null_count
                        if known and counts[name] is not None
                        else None
                    )
        return {name for name, count in counts.items() if count == 0}
    finally:
        file.close()


def rows_of(path: str, features: Sequence[int]) -> Iterator[tuple[NDArray[Any], Any]]:
    """Features as numbers (c, d), and all columns as an Arrow table."""
    import pyarrow as pa

    file = _opened(path)
    try:
        width = max(1, len(file.schema_arrow.names))
        for batch in file.iter_batches(batch_size=max(1024, BATCH // (8 * width))):
            columns = [arrow_to_float(batch.column(j)) for j in features]
            if batch.num_rows:
                values = np.column_stack(columns).astype(np.float64, copy=False)
                yield values, pa.Table.from_batches([batch])
    except (pa.ArrowException, OSError) as error:
        raise UnreadableError(path, f"it cannot be read to its end ({error})") from error
    finally:
        file.close()


def _opened(path: str) -> Any:
    try:
        import pyarrow as pa
        from pyarrow import parquet
    except ImportError as error:
        from eigengap.exceptions import MissingExtraError

        raise MissingExtraError("reading Parquet", "pyarrow", "cli") from error
    try:
        return parquet.ParquetFile(arrow_path(path), page_checksum_verification=True)
    except (pa.ArrowException, OSError) as error:
        said = str(error).strip().partition("\n")[0][:200]
        raise UnreadableError(path, f"it is not a whole Parquet file ({said})") from error
