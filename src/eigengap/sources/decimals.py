"""Decimal columns of Arrow as the nearest float64.

Arrow's own cast multiplies by a rounded power of ten, and is one unit in the last place off: 3.30
becomes 3.3000000000000003. Here an unscaled integer below 2^53 is divided by a power of ten up to
10^22. Both are exact in float64, so the quotient is rounded once, and correctly (Clinger 1990, How
to read floating point numbers accurately). Everything else is converted by way of its text.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from eigengap.linalg import Array
from eigengap.sources.checks import EXACT

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
    if column.null_count == len(column):
        return np.full(len(column), np.nan)
    scale = column.type.scale
    found, short = _unscaled(column)
    if abs(scale) > MOST_POWER:
        short[:] = False
    elif scale >= 0:
        found /= float(10**scale)
    else:
        found *= float(10**-scale)
    if column.null_count:
        null = np.asarray(column.is_null())
        found[null] = np.nan
        short |= null
    if not short.all():
        long = np.flatnonzero(~short)
        texts = column.take(pa.array(long)).cast(pa.string())
        found[long] = texts.cast(pa.float64()).to_numpy(zero_copy_only=False)
    return found


def _unscaled(column: Any) -> tuple[Array, NDArray[np.bool_]]:
    """The unscaled integers as float64, and which of them float64 holds; under null, anything."""
    width = column.type.bit_width // 8
    word = np.int32 if width == 4 else np.int64
    words = np.frombuffer(
        column.buffers()[1],
        dtype=word,
        count=len(column) * width // word().itemsize,
        offset=column.offset * width,
    ).reshape(len(column), -1)
    low = words[:, 0].astype(np.int64)  # the lowest word comes first
    found = low.astype(np.float64)
    fits: NDArray[np.bool_] = np.abs(found) < EXACT
    if words.shape[1] > 1:
        sign = low >> 63
        for k in range(1, words.shape[1]):  # above it there is the sign alone
            fits &= words[:, k] == sign
    return found, fits
