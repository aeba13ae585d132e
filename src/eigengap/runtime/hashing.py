"""Counter-based random numbers: a hash of (seed, row, column).

They depend on the position alone, not on how a table is cut into folds or blocks.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def cell_uniforms(rows: NDArray[np.intp], d: int, seed: int) -> NDArray[np.float64]:
    """Numbers in [0, 1), one a cell: (len(rows), d).

    SplitMix64 (Steele, Lea and Flood 2014), its output step applied to a counter made of seed, row
    and column.
    """
    columns = np.arange(d, dtype=np.uint64)
    with np.errstate(over="ignore"):  # arithmetic modulo 2^64 is the point
        key = mixed(np.array([seed], dtype=np.uint64) + GOLDEN)
        key = mixed(key + (rows.astype(np.uint64) + np.uint64(1)) * GOLDEN)  # (n,)
        key = mixed(key[:, None] + (columns + np.uint64(1)) * GOLDEN)
    return np.asarray((key >> np.uint64(11)).astype(np.float64) * 2.0**-53)


def row_hashes(start: int, n: int, seed: int) -> NDArray[np.uint64]:
    """64 random bits for each of the rows start .. start + n - 1."""
    with np.errstate(over="ignore"):
        key = mixed(np.array([seed], dtype=np.uint64) + GOLDEN)
        rows = np.arange(start + 1, start + n + 1, dtype=np.uint64)
        rows *= GOLDEN
        rows += key
        return mixed(rows)


def mixed(x: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The output step of SplitMix64: every bit of x affects every bit of the result."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(x ^ (x >> np.uint64(31)))
