"""A fingerprint of a table: the same for an array, a file or a cluster, however it is cut."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eigengap.linalg import Array
from eigengap.runtime.hashing import mixed
from eigengap.sources import Block, Source

PIECE_CELLS = 1 << 16  # processed together, so that they stay in the cache
MODULUS = 1 << 64


def fingerprint(source: Source) -> dict[str, Any]:
    """Facts of a table in JSON, to be compared one by one.

    The checksum covers all values, in one pass: a fit that continued with other values would end
    anywhere.
    """
    observed, checksum = source.observed(), source.reduce(_Checksum.of)
    counts = np.asarray(observed.per_column, dtype="<i8")
    names = None
    if source.names is not None:
        names = "\0".join(source.names).encode(errors="backslashreplace")
    return {
        "rows": observed.rows,
        "sum of weights": f"{observed.sum_w:.12g}",  # as sums by block differ
        "columns": source.n_features,
        "column names": None if names is None else hashlib.sha256(names).hexdigest(),
        "seen cells of the columns": hashlib.sha256(counts.tobytes()).hexdigest(),
        "values": f"{checksum.values:064x}",
        "cell_sd": f"{checksum.cell_sd:064x}" if source.has_cell_sd else None,
    }


@dataclass(frozen=True)
class _Checksum:
    """The sum over rows, modulo 2^64, of a hash of each and its number: no cut changes it.

    The hash of a row is linear in the bits of its numbers, with odd factors, and then mixed: one
    number that differs always makes another one of it (Dietzfelbinger et al. 1997).
    """

    values: int  # and weights
    cell_sd: int

    @classmethod
    def of(cls, block: Block) -> _Checksum:
        d = block.values.shape[1]
        step = max(1, PIECE_CELLS // max(d, 1))
        values, cell_sd = 0, 0
        for start in range(0, block.n_rows, step):
            rows = slice(start, start + step)
            part = block.values[rows]
            X = part if isinstance(part, np.ndarray) else part.toarray()
            w = np.ones(len(X)) if block.weight is None else block.weight[rows]
            values += _sum_of_hashes(np.column_stack([X, w]), block.start + start)
            if block.cell_sd is not None:
                cell_sd += _sum_of_hashes(block.cell_sd[rows], block.start + start)
        return cls(values % MODULUS, cell_sd % MODULUS)

    def merge(self, other: _Checksum) -> _Checksum:
        return _Checksum(
            (self.values + other.values) % MODULUS, (self.cell_sd + other.cell_sd) % MODULUS
        )


def _sum_of_hashes(rows: NDArray[Any], start: int) -> int:
    """Of rows (c, k) that begin at row `start` of the table."""
    factors = mixed(np.arange(1, rows.shape[1] + 1, dtype=np.uint64)) | np.uint64(1)
    number = np.arange(start, start + len(rows), dtype=np.uint64)
    with np.errstate(over="ignore"):  # arithmetic modulo 2^64 is the point
        return int(np.sum(mixed(mixed(number) + _bits(rows) @ factors), dtype=np.uint64))


def _bits(values: NDArray[Any]) -> NDArray[np.uint64]:
    """The bits of numbers as float64: all NaN are alike, and so are 0 and -0."""
    same: Array = np.array(values, dtype=np.float64, order="C") + 0.0
    same[np.isnan(same)] = np.nan
    return same.view(np.uint64)
