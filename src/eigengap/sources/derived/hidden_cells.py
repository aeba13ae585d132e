"""Cells to hide from a model and ask it for: chosen by position alone.

A counter-based generator: the number of cell (row, column) is a hash of (seed, row, column), so
that the choice does not depend on how the table is cut into folds or blocks.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from eigengap.linalg import Array

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def cell_uniforms(rows: NDArray[np.intp], d: int, seed: int) -> Array:
    """Numbers in [0, 1), one a cell: (len(rows), d).

    SplitMix64 (Steele, Lea and Flood 2014), its output step applied to a counter made of seed, row
    and column.
    """
    columns = np.arange(d, dtype=np.uint64)
    with np.errstate(over="ignore"):  # arithmetic modulo 2^64 is the point
        key = mixed(np.array([seed], dtype=np.uint64) + _GOLDEN)
        key = mixed(key + (rows.astype(np.uint64) + np.uint64(1)) * _GOLDEN)  # (n,)
        key = mixed(key[:, None] + (columns + np.uint64(1)) * _GOLDEN)
    return np.asarray((key >> np.uint64(11)).astype(np.float64) * 2.0**-53)


def row_hashes(start: int, n: int, seed: int) -> NDArray[np.uint64]:
    """64 random bits for each of the rows start .. start + n - 1."""
    with np.errstate(over="ignore"):
        key = mixed(np.array([seed], dtype=np.uint64) + _GOLDEN)
        rows = np.arange(start + 1, start + n + 1, dtype=np.uint64)
        rows *= _GOLDEN
        rows += key
        return mixed(rows)


def hidden_cells(observed: NDArray[np.bool_], share: float, seed: int) -> NDArray[np.bool_]:
    """Which seen cells to hide, about `share` of them; every row keeps at least one: (n, d)."""
    number = cell_uniforms(np.arange(len(observed)), observed.shape[1], seed)
    hidden = observed & (number < share)
    bare = hidden.any(axis=1) & ~(observed & ~hidden).any(axis=1)  # nothing would be left to go by
    kept = np.argmax(np.where(observed[bare], number[bare], -1.0), axis=1)
    hidden[np.flatnonzero(bare), kept] = False
    return hidden


def mixed(x: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The output step of SplitMix64: every bit of x sways every bit of what comes out."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(x ^ (x >> np.uint64(31)))
