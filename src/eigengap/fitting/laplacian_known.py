"""Which new rows are fitted ones: those that are equal to them, cell by cell.

A fitted row has edges of its own, which are not those of a row beside it, however near. Nothing
but equality tells it: rows differ by less than any tolerance on columns with an offset, and what
other new rows are like must not matter. NaN equals NaN and 0 equals -0.
"""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

from eigengap.fitting.laplacian_given import is_sparse
from eigengap.linalg import Array

SIZE = 16  # bytes of a print: two of 10^12 rows are alike with probability 1e-15
FILLED = 1e-9  # of a column's spread, by which what was filled in two passes may differ
PIECE = 1 << 23  # distances at a time


def prints(rows: Any) -> NDArray[np.uint8]:
    """(n, 16) a print of each row of an array or CSR array, which only equal rows share."""
    digests = b"".join(blake2b(cells, digest_size=SIZE).digest() for cells in _cells(rows))
    return np.frombuffer(digests, dtype=np.uint8).reshape(-1, SIZE)


def found_among(new: NDArray[np.uint8], fitted: NDArray[np.uint8]) -> NDArray[np.int64]:
    """(c,) the first fitted row with the same print, or -1."""
    first: dict[bytes, int] = {}
    for i, mark in enumerate(fitted):
        first.setdefault(mark.tobytes(), i)
    return np.array([first.get(mark.tobytes(), -1) for mark in new], dtype=np.int64)


def _cells(rows: Any) -> Iterator[bytes]:
    """Of every row what tells it from others: cells, or where they are stored and their values."""
    if is_sparse(rows):
        rows = rows.copy()
        rows.sort_indices()
        where, values = rows.indices.astype(np.int64), _plain(rows.data)
        for a, b in zip(rows.indptr[:-1], rows.indptr[1:], strict=True):
            yield where[a:b].tobytes() + values[a:b].tobytes()
        return
    for row in rows:
        yield _plain(row).tobytes()


def _plain(values: Any) -> Array:
    """In float64, with one 0 and one NaN."""
    plain = np.array(values, dtype=np.float64) + 0.0
    plain[np.isnan(plain)] = np.nan
    return plain


def as_filled_before(rows: Array, gaps: NDArray[np.bool_], fitted: Array) -> Array:
    """Filled rows (c, d), those that are fitted ones but for rounding of what was filled as these.

    gaps (c, d) tells which cells were filled. Cells that were seen have to be equal.
    """
    rows = rows.copy()
    spread = FILLED * np.ptp(fitted, axis=0)
    filled = np.flatnonzero(gaps.any(axis=1))
    step = max(1, PIECE // max(len(fitted), 1))
    for start in range(0, len(filled), step):
        some = filled[start : start + step]
        near = fitted[np.argmin(cdist(rows[some], fitted, "sqeuclidean"), axis=1)]
        apart = np.abs(rows[some] - near) <= np.where(gaps[some], spread, 0.0)
        same = apart.all(axis=1)
        rows[some[same]] = near[same]
    return rows
