"""Duplicate rows, and new rows that are fitted ones: equal in every cell, missing ones included.

Only equality counts. On columns with an offset rows may differ by less than any tolerance, and a
row that is near a fitted one does not share its edges. NaN equals NaN and 0 equals -0.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

from eigengap.fitting.graph.stored import is_sparse
from eigengap.linalg import Array
from eigengap.runtime.hashing import mixed

IMPUTED = 1e-9  # of a column's range, by which values imputed in two passes may differ
PIECE = 1 << 23  # numbers that are held at a time

Hashes = NDArray[np.uint8]  # (n, 16)
Rows = NDArray[np.intp]


def row_hashes(rows: Any) -> Hashes:
    """(n, 16) a hash of each row of an array or CSR array, which only equal rows share.

    Two sums, modulo 2^64, over the cells: of the bits of each mixed with those of its column.
    """
    with np.errstate(over="ignore"):  # arithmetic modulo 2^64 is intended
        halves = [_sums(rows, np.uint64(seed)) for seed in (1, 2)]
    return np.stack(halves, axis=1).view(np.uint8)


def _sums(rows: Any, seed: np.uint64) -> NDArray[np.uint64]:
    def columns(at: NDArray[Any]) -> NDArray[np.uint64]:
        return mixed((at.astype(np.uint64) << np.uint64(8)) + seed)

    if is_sparse(rows):
        cells = mixed(_bits(rows.data) ^ columns(rows.indices))
        total = np.concatenate([np.zeros(1, np.uint64), np.cumsum(cells, dtype=np.uint64)])
        return np.asarray(total[rows.indptr[1:]] - total[rows.indptr[:-1]])
    n, d = rows.shape
    found = np.empty(n, dtype=np.uint64)
    step = max(1, PIECE // (8 * max(d, 1)))
    for start in range(0, n, step):
        some = slice(start, start + step)
        cells = mixed(_bits(rows[some]) ^ columns(np.arange(d)))
        found[some] = np.add.reduce(cells, axis=1, dtype=np.uint64)
    return found


def _bits(values: Any) -> NDArray[np.uint64]:
    """Those of float64, with one 0 and one NaN."""
    plain = np.array(values, dtype=np.float64, order="C") + 0.0
    plain[np.isnan(plain)] = np.nan
    return plain.view(np.uint64)


def found_among(new: Hashes, fitted: Hashes) -> Rows:
    """(c,) the first fitted row with the same hash, or -1."""
    first: dict[bytes, int] = {}
    for i, key in enumerate(fitted):
        first.setdefault(key.tobytes(), i)
    return np.array([first.get(key.tobytes(), -1) for key in new], dtype=np.intp)


def distinct(rows: Array) -> Rows:
    """(n,) the number of each row's distinct row, in order of their first occurrence."""
    numbers: dict[bytes, int] = {}
    return np.array(
        [numbers.setdefault(key.tobytes(), len(numbers)) for key in row_hashes(rows)],
        dtype=np.intp,
    )


def as_imputed_before(rows: Array, missing: NDArray[np.bool_], fitted: Array) -> Array:
    """Imputed rows (c, d), replaced by the fitted rows that differ by rounding of the imputation.

    missing (c, d) marks the imputed cells. Observed cells have to be equal.
    """
    rows = rows.copy()
    slack = IMPUTED * np.ptp(fitted, axis=0)
    imputed = np.flatnonzero(missing.any(axis=1))
    step = max(1, PIECE // max(len(fitted), 1))
    for start in range(0, len(imputed), step):
        some = imputed[start : start + step]
        near = fitted[np.argmin(cdist(rows[some], fitted, "sqeuclidean"), axis=1)]
        same = (np.abs(rows[some] - near) <= np.where(missing[some], slack, 0.0)).all(axis=1)
        rows[some[same]] = near[same]
    return rows
