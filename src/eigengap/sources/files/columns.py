"""From columns, as Arrow has them, to blocks of rows, as fits want them: written once, in place."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

TILE = 1 << 20  # bytes of the block that are written together, so that they stay in cache
LEAST_ROWS = 512  # of a tile, or calls would cost more than the copying


def in_blocks(
    parts: Iterable[Sequence[NDArray[Any]]], rows: int, d: int, dtype: np.dtype[Any]
) -> Iterator[NDArray[Any]]:
    """Parts, each of d columns of equal length, as blocks of `rows` rows, the last one excepted."""
    block: NDArray[Any] | None = None
    filled = 0
    for columns in parts:
        length, taken = len(columns[0]), 0
        while taken < length:
            if block is None:
                block, filled = np.empty((rows, d), dtype=dtype), 0
            count = min(length - taken, rows - filled)
            write_columns(
                block[filled : filled + count], [c[taken : taken + count] for c in columns]
            )
            filled, taken = filled + count, taken + count
            if filled == rows:
                yield block
                block = None
    if block is not None:
        yield block[:filled] if 2 * filled > rows else block[:filled].copy()


def write_columns(block: NDArray[Any], columns: Sequence[NDArray[Any]]) -> None:
    """The columns (m,) into block (m, d), which is in C order, a few rows of all columns a time."""
    step = max(LEAST_ROWS, TILE // max(1, block.itemsize * block.shape[1]))
    for start in range(0, len(block), step):
        tile = block[start : start + step]
        for j, column in enumerate(columns):
            tile[:, j] = column[start : start + step]


def arrow_to_float(column: Any) -> NDArray[Any]:
    """A pyarrow array of numbers or truth values, null as NaN; float32 stays, the rest is float64.

    The type has been looked at by `numeric_kind`.
    """
    import pyarrow as pa

    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pa.types.is_null(column.type):
        return np.full(len(column), np.nan)
    if not pa.types.is_floating(column.type):
        # Not checked: integers beyond 2^53 are rounded, as everywhere.
        column = column.cast(pa.float64(), safe=False)
    return column.to_numpy(zero_copy_only=False)  # type: ignore[no-any-return]


def foreign_kind(kind: Any) -> str | None:
    """What a column of this Arrow type holds instead of numbers; None where it holds numbers."""
    import pyarrow as pa

    types = pa.types
    if types.is_dictionary(kind):
        inner = foreign_kind(kind.value_type)
        return None if inner is None else "categorical"
    if (
        types.is_integer(kind)
        or types.is_floating(kind)
        or types.is_boolean(kind)
        or types.is_decimal(kind)
        or types.is_null(kind)
    ):
        return None
    if types.is_string(kind) or types.is_large_string(kind) or str(kind) == "string_view":
        return "text"
    if types.is_temporal(kind):
        return "date or time"
    if types.is_nested(kind):
        return f"nested values, {kind}"
    return str(kind)
