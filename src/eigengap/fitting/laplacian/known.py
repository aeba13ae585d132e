"""Which new rows are fitted ones: those that are equal to them, cell by cell.

A fitted row has edges of its own, which are not those of a row beside it, however near. Nothing
but equality tells it: rows differ by less than any tolerance on columns with an offset, and what
other new rows are like must not matter. NaN equals NaN and 0 equals -0.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

from eigengap.fitting.laplacian.given import is_sparse
from eigengap.linalg import Array
from eigengap.runtime.hashing import mixed

FILLED = 1e-9  # of a column's spread, by which what was filled in two passes may differ
PIECE = 1 << 23  # distances at a time


def prints(rows: Any) -> NDArray[np.uint8]:
    """(n, 16) a print of each row of an array or CSR array, which only equal rows share.

    Two sums, modulo 2^64, over the cells: of the bits of each mixed with those of its place.
    """
    with np.errstate(over="ignore"):  # arithmetic modulo 2^64 is the point
        halves = [_sums(rows, np.uint64(seed)) for seed in (1, 2)]
    return np.stack(halves, axis=1).view(np.uint8)


def _sums(rows: Any, seed: np.uint64) -> NDArray[np.uint64]:
    if is_sparse(rows):
        cells = mixed(_bits(rows.data) ^ _places(rows.indices, seed))
        total = np.concatenate([np.zeros(1, np.uint64), np.cumsum(cells, dtype=np.uint64)])
        return np.asarray(total[rows.indptr[1:]] - total[rows.indptr[:-1]])
    n, d = rows.shape
    places = _places(np.arange(d), seed)
    found = np.empty(n, dtype=np.uint64)
    step = max(1, PIECE // (8 * max(d, 1)))
    for start in range(0, n, step):
        some = slice(start, start + step)
        found[some] = np.add.reduce(mixed(_bits(rows[some]) ^ places), axis=1, dtype=np.uint64)
    return found


def _places(columns: NDArray[Any], seed: np.uint64) -> NDArray[np.uint64]:
    return mixed((columns.astype(np.uint64) << np.uint64(8)) + seed)


def _bits(values: Any) -> NDArray[np.uint64]:
    """Those of float64, with one 0 and one NaN."""
    plain = np.array(values, dtype=np.float64, order="C") + 0.0
    plain[np.isnan(plain)] = np.nan
    return plain.view(np.uint64)


def found_among(new: NDArray[np.uint8], fitted: NDArray[np.uint8]) -> NDArray[np.int64]:
    """(c,) the first fitted row with the same print, or -1."""
    first: dict[bytes, int] = {}
    for i, mark in enumerate(fitted):
        first.setdefault(mark.tobytes(), i)
    return np.array([first.get(mark.tobytes(), -1) for mark in new], dtype=np.int64)


def as_filled_before(rows: Array, missing: NDArray[np.bool_], fitted: Array) -> Array:
    """Filled rows (c, d), those that are fitted ones but for rounding of what was filled as these.

    gaps (c, d) tells which cells were filled. Cells that were seen have to be equal.
    """
    rows = rows.copy()
    spread = FILLED * np.ptp(fitted, axis=0)
    filled = np.flatnonzero(missing.any(axis=1))
    step = max(1, PIECE // max(len(fitted), 1))
    for start in range(0, len(filled), step):
        some = filled[start : start + step]
        near = fitted[np.argmin(cdist(rows[some], fitted, "sqeuclidean"), axis=1)]
        apart = np.abs(rows[some] - near) <= np.where(missing[some], spread, 0.0)
        same = apart.all(axis=1)
        rows[some[same]] = near[same]
    return rows
