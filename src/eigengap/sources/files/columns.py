"""From columns, as Arrow has them, to blocks of rows: written once, in place.

Blocks are in Fortran's order: products with them are as fast, and columns are copied as they are.

Decimals become the nearest float64. Arrow's own cast multiplies by a rounded power of ten, and is
one unit in the last place off: 3.30 becomes 3.3000000000000003. Here an unscaled integer below 2^53
is divided by a power of ten up to 10^22. Both are exact in float64, so the quotient is rounded
once, and correctly (Clinger 1990, How to read floating point numbers accurately). Everything else
is converted by way of its text.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from eigengap.exceptions import UnreadableError
from eigengap.linalg import Array
from eigengap.sources.cells import OFFERED
from eigengap.sources.checks import EXACT
from eigengap.sources.wording import quote, short
from eigengap.wording import words

Columns: TypeAlias = Sequence[NDArray[Any]] | NDArray[Any]  # an array holds them as its rows

TILE = 1 << 20  # bytes of the block that are written together, so that they stay in cache
LEAST_ROWS = 512  # of a tile, or calls would cost more than the copying


class Blocks:
    """Blocks of `rows` rows, written in order, the last one as far as the table goes."""

    def __init__(self, rows: int, d: int, dtype: np.dtype[Any]) -> None:
        self._shape, self._dtype = (rows, d), dtype
        self._made: list[NDArray[Any]] = []
        self._filled = 0  # rows of the last one that are taken

    def room(self, count: int) -> list[NDArray[Any]]:
        """The next `count` rows, empty, to be written to: parts of one block or several."""
        rows, views = self._shape[0], []
        while count:
            if not self._made or self._filled == rows:
                self._made.append(np.empty(self._shape, dtype=self._dtype, order="F"))
                self._filled = 0
            stop = min(rows, self._filled + count)
            views.append(self._made[-1][self._filled : stop])
            count -= stop - self._filled
            self._filled = stop
        return views

    def full(self) -> Iterator[NDArray[Any]]:
        """Blocks whose rows are all taken; they are let go here."""
        while len(self._made) > 1 or (self._made and self._filled == self._shape[0]):
            yield self._made.pop(0)

    def rest(self) -> Iterator[NDArray[Any]]:
        yield from self.full()
        for block in self._made:
            part = block[: self._filled]
            yield part if 2 * self._filled > self._shape[0] else part.copy(order="F")


def in_blocks(
    parts: Iterable[Columns], rows: int, d: int, dtype: np.dtype[Any]
) -> Iterator[NDArray[Any]]:
    """Parts, each of d columns of equal length, as blocks of `rows` rows, the last one excepted."""
    blocks = Blocks(rows, d, dtype)
    for columns in parts:
        write_across(blocks.room(len(columns[0])), columns)
        yield from blocks.full()
    yield from blocks.rest()


def write_across(views: Sequence[NDArray[Any]], columns: Columns) -> None:
    """The columns into parts of blocks that lie one below the other."""
    start = 0
    for view in views:
        stop = start + len(view)
        if isinstance(columns, np.ndarray):
            write_columns(view, columns[:, start:stop])
        else:
            write_columns(view, [column[start:stop] for column in columns])
        start = stop


def write_columns(block: NDArray[Any], columns: Columns) -> None:
    """The columns (m,) into block (m, d); in C order, a few rows of all columns at a time.

    Columns that are the rows of one array (d, m) are written in one step.
    """
    if isinstance(columns, np.ndarray):
        block[...] = columns.T
        return
    if block.strides[0] == block.itemsize:
        step = max(1, len(block))
    else:
        step = max(LEAST_ROWS, TILE // max(1, block.itemsize * block.shape[1]))
    for start in range(0, len(block), step):
        tile = block[start : start + step]
        for j, column in enumerate(columns):
            tile[:, j] = column[start : start + step]


def arrow_to_float(column: Any) -> NDArray[Any]:
    """A pyarrow array of numbers or truth values, null as NaN; float32 stays, the rest is float64.

    The type has been looked at by `foreign_kind`.
    """
    import pyarrow as pa

    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pa.types.is_null(column.type):
        return np.full(len(column), np.nan)
    if pa.types.is_decimal(column.type):
        return decimals_to_float(column)
    if not pa.types.is_floating(column.type):
        # Not checked here: integers beyond 2^53 are rounded, and reported by the source.
        column = column.cast(pa.float64(), safe=False)
    return column.to_numpy(zero_copy_only=False)  # type: ignore[no-any-return]


def foreign_kind(kind: Any) -> str | None:
    """What a column of this Arrow type holds instead of numbers; None where it holds numbers."""
    import pyarrow as pa

    types = pa.types
    if types.is_dictionary(kind):
        return foreign_kind(kind.value_type) and "categorical"
    numeric = ("integer", "floating", "boolean", "decimal", "null")
    if any(getattr(types, f"is_{name}")(kind) for name in numeric):
        return None
    if types.is_string(kind) or types.is_large_string(kind) or str(kind) == "string_view":
        return "text"
    if types.is_temporal(kind):
        return "date or time"
    if types.is_nested(kind):
        return f"nested values, {kind}"
    return str(kind)


PACKED = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd"}


def arrow_path(path: str | os.PathLike[str]) -> Any:
    """The path as text, or the file itself, opened, where its name is no UTF-8."""
    text = os.fspath(path)
    try:
        text.encode()
    except UnicodeEncodeError:
        import pyarrow as pa

        return pa.OSFile(os.fsencode(text))
    return text


def compression_of(path: str) -> str | None:
    """How a file is compressed, by its name."""
    return PACKED.get(Path(path).suffix.lower())


MOST_NAMED = 8  # columns that one message lists


def not_numeric(
    where: str,
    refused: Sequence[tuple[str | int, str]],
    numeric: Sequence[str | int],
    hint: str = "",
    code: str | None = None,
) -> UnreadableError:
    """The error for columns that are not numeric.

    `refused` are these columns with what they hold, `numeric` the others, all by name or position;
    `code` is text that may stand for missing values.
    """
    shown = [f"{quote(c) if isinstance(c, str) else c} ({kind})" for c, kind in refused]
    more = f" and {len(shown) - MOST_NAMED} more" if len(shown) > MOST_NAMED else ""
    several = "columns that are" if len(shown) > 1 else "a column that is"
    parts = [f"it has {several} not numeric: {', '.join(shown[:MOST_NAMED])}{more}"]
    if numeric:
        parts.append(f"Choose the numeric ones: {choice(numeric)}")
    elif len(shown) > 1:
        parts.append("No column that is read is numeric")
    if hint:
        parts.append(hint)
    if code is not None:
        after = " after all" if hint else ""
        way = words().parameter("missing_values", quote(code))
        parts.append(f"If {quote(code)} stands for a missing cell{after}, pass {way}")
    return UnreadableError(where, ". ".join(parts), in_cells=True, value=code)


def choice(columns: Sequence[str | int]) -> str:
    """A choice of these columns; of the first few if there are many."""
    shown = [short(c) if isinstance(c, str) else c for c in columns[:OFFERED]]
    return words().columns(shown, more=len(columns) > OFFERED)


MOST_POWER = 22  # 10^22 = 2^22 5^22, and 5^22 < 2^53


def decimals_to_float(column: Any) -> Array:
    """A pyarrow array of decimals, of any width and scale, as float64; null is NaN.

    >>> import pyarrow as pa
    >>> from decimal import Decimal
    >>> decimals_to_float(pa.array([Decimal("3.30"), None], pa.decimal128(10, 2))).tolist()
    [3.3, nan]
    """
    import pyarrow as pa

    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    kind, buffers, offset = column.type, column.buffers(), column.offset
    integers = getattr(pa, f"decimal{kind.bit_width}")(kind.precision, 0)
    unscaled = pa.Array.from_buffers(integers, len(column), buffers, offset=offset)
    found = np.array(unscaled.cast(pa.float64()).to_numpy(zero_copy_only=False))
    beyond = np.abs(found) >= EXACT
    if abs(kind.scale) > MOST_POWER:
        beyond = ~np.isnan(found)
    elif kind.scale >= 0:
        found /= float(10**kind.scale)
    else:
        found *= float(10**-kind.scale)
    if beyond.any():
        texts = column.take(pa.array(np.flatnonzero(beyond))).cast(pa.string())
        found[beyond] = texts.cast(pa.float64()).to_numpy(zero_copy_only=False)
    return found
