"""Incomplete rows, arranged so that sums over observed values become matrix products.

Each row i has its own posterior precision P_i = I + sum_{j observed} w_j w_j^T / psi_j. With the
0/1 mask M (n, d) all of them are one product, M @ [w_j w_j^T / psi_j], and the sums of an M-step
are its transpose. What does not depend on the parameters is prepared here, once per fit:

- columns observed in every row of the block leave the mask: they add the same to all rows;
- rows that share a pattern of missing values (complete rows above all) share one row of the mask,
  hence one factorisation; the rows whose pattern is unique come first;
- where few values are observed the values and the mask are kept as sparse matrices.

Where values come with measurement errors of their own no two rows share a precision: every row
keeps its own mask, and the known variances lie next to it.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from eigengap.linalg import Array, packed_size

# Below this share of observed values a sparse product beats BLAS on the zeros. A step on two cores
# at 4 000 x 1 500, q 10: 19 ms against 42 at 4 % observed, 40 against 51 at 10 %; at 3 000 x 1 000,
# q 30: 68 against 124 at 4 %, 128 against 103 at 10 %.
SPARSE_BELOW = 0.06

# Bytes of one chunk's packed precisions: small enough to stay in cache, large enough for BLAS. With
# measurement errors the precisions of the values are as large again.
CHUNK_BYTES = 4 << 20
LANES = 128  # rows that the compiled factorisation takes at a time; chunks are multiples of it


@dataclass(frozen=True, eq=False)
class ObservedRows:
    """A block of rows prepared for the products of an E-step."""

    R: Any  # (c, d) values - shift, 0 where missing; rows in the order `order`; dense or CSR
    M: Any  # (u, g) 1 where observed: one row per unique pattern, then one per shared pattern
    incomplete: NDArray[np.intp]  # (g,) columns of M; all others are observed in every row
    n_unique: int  # the first rows of R, which have a row of M each
    bounds: NDArray[np.intp]  # (G + 1,) rows bounds[k]..bounds[k + 1] of R share pattern k
    order: NDArray[np.intp]  # (c,) position in the block of each row of R
    weight: Array | None  # (c,) in the order of R
    row_squares: Array  # (c,) sums of R^2 over each row
    squares: Array  # (d,) weighted column sums of R^2
    row_cells: NDArray[np.intp]  # (c,) observed values of each row
    observed: Array  # (d,) weighted number of rows in which each column is observed
    cells: float  # weighted number of observed values
    known: Array | None = None  # (c, d) known variances of the values, 1 where missing
    least_known: Array | float = 0.0  # (d,) smallest of each column
    largest_known: float = 0.0

    @property
    def d(self) -> int:
        return int(self.R.shape[1])

    @property
    def sum_w(self) -> float:
        return float(len(self.order) if self.weight is None else np.sum(self.weight))

    def complete_columns(self) -> NDArray[np.bool_]:
        """(d,) columns observed in every row of this block."""
        complete = np.ones(self.d, dtype=bool)
        complete[self.incomplete] = False
        return complete

    def chunks(self, q: int) -> Iterator[Chunk]:
        """The rows in parts that an E-step with q components treats at a time.

        Rows of unique patterns come in chunks of CHUNK_BYTES of packed precisions; then each shared
        pattern is a chunk.
        """
        step = CHUNK_BYTES // (8 * max(packed_size(q), 1))
        if self.known is not None:
            step = CHUNK_BYTES // (16 * max(packed_size(q + 1), self.d))
        step = max(step // LANES, 1) * LANES
        for start in range(0, self.n_unique, step):
            rows = slice(start, min(start + step, self.n_unique))
            yield self._chunk(rows, rows)
        for k in range(len(self.bounds) - 1):
            mask_row = self.n_unique + k
            yield self._chunk(
                slice(self.bounds[k], self.bounds[k + 1]), slice(mask_row, mask_row + 1)
            )

    def _chunk(self, rows: slice, masks: slice) -> Chunk:
        return Chunk(
            rows=rows,
            at=self.order[rows],
            R=self.R[rows],
            M=self.M[masks],
            incomplete=self.incomplete,
            weight=None if self.weight is None else self.weight[rows],
            row_squares=self.row_squares[rows],
            row_cells=self.row_cells[rows],
            known=None if self.known is None else self.known[rows],
        )


@dataclass(frozen=True, eq=False)
class Chunk:
    """Some rows of `ObservedRows`, c of them, with a mask each (u = c) or one for all (u = 1)."""

    rows: slice  # of ObservedRows.R
    at: NDArray[np.intp]  # (c,) positions in the block
    R: Any  # (c, d)
    M: Any  # (u, g)
    incomplete: NDArray[np.intp]  # (g,)
    weight: Array | None  # (c,)
    row_squares: Array  # (c,)
    row_cells: NDArray[np.intp]  # (c,)
    known: Array | None  # (c, d)

    def values(self) -> NDArray[Any]:
        """R as a dense array."""
        return np.asarray(self.R if isinstance(self.R, np.ndarray) else self.R.toarray())

    def mask(self) -> Array:
        """(u, d) 1 where observed."""
        M = self.M if isinstance(self.M, np.ndarray) else self.M.toarray()
        mask = np.ones((len(M), self.R.shape[1]))
        mask[:, self.incomplete] = M
        return mask


def prepare_rows(
    values: NDArray[Any],  # (c, d), NaN where missing
    weight: Array | None,
    shift: Array,  # (d,)
    scale: Array | None,  # (d,) unit of each column, or None for 1
    q: int,  # size of the model to come: decides when sharing a pattern pays
    *,
    cell_sd: Array | None = None,  # (c, d) known standard deviations, 0 where nothing is known
    observed: NDArray[np.bool_] | None = None,  # (c, d) where values are not NaN, if known already
) -> ObservedRows:
    """Arrange the rows of one block; those of weight 0 are left out."""
    if observed is None:
        observed = ~np.isnan(values)
    if weight is not None and not np.all(weight > 0):
        kept = np.flatnonzero(weight > 0)
        s = None if cell_sd is None else cell_sd[kept]
        rows = prepare_rows(
            values[kept], weight[kept], shift, scale, q, cell_sd=s, observed=observed[kept]
        )
        return replace(rows, order=kept[rows.order])
    n, d = values.shape
    order, n_unique, bounds = None, n, np.array([n], dtype=np.intp)
    incomplete = np.arange(d)
    if cell_sd is None:
        order, n_unique, bounds = _shared_patterns(observed, q)
        incomplete = np.flatnonzero(~observed.all(axis=0)) if n else incomplete
    if order is not None:
        values, observed = values[order], observed[order]
        weight = None if weight is None else weight[order]
    R = values - shift
    if scale is not None:
        R /= scale
    if cell_sd is None:
        R = R.astype(values.dtype, copy=False)
    np.copyto(R, 0, where=~observed)
    M = observed
    if len(bounds) > 1:
        M = np.concatenate([observed[:n_unique], observed[bounds[:-1]]])
    counts = observed.sum(axis=1)
    column_squares = "ij,ij->j" if weight is None else "i,ij,ij->j"
    rows = ObservedRows(
        R=R,
        M=(M if len(incomplete) == d else M[:, incomplete]).astype(R.dtype),
        incomplete=incomplete,
        n_unique=n_unique,
        bounds=bounds,
        order=np.arange(n) if order is None else order,
        weight=weight,
        row_squares=np.einsum("ij,ij->i", R, R, dtype=np.float64),
        squares=np.einsum(
            column_squares, *(() if weight is None else (weight,)), R, R, dtype=np.float64
        ),
        row_cells=counts,
        observed=np.asarray(
            observed.sum(axis=0) if weight is None else weight @ observed, dtype=np.float64
        ),
        cells=float(counts.sum() if weight is None else counts @ weight),
    )
    if cell_sd is not None:
        known = np.where(observed, (cell_sd if scale is None else cell_sd / scale) ** 2, 1.0)
        least = np.min(known, axis=0, where=observed, initial=np.inf)
        largest = float(np.max(known, initial=1.0))
        return replace(rows, known=known, least_known=least, largest_known=largest)
    if counts.sum() < SPARSE_BELOW * observed.size:
        return replace(rows, R=scipy.sparse.csr_array(rows.R), M=scipy.sparse.csr_array(rows.M))
    return rows


def _shared_patterns(
    observed: NDArray[np.bool_], q: int
) -> tuple[NDArray[np.intp] | None, int, NDArray[np.intp]]:
    """Order that puts unique patterns first (None: as it is), their number, the groups' bounds.

    A group costs about 25 us of Python, a row of its own the products and the factorisation of its
    precision; only patterns with enough rows to repay the former are treated as shared.
    """
    n, d = observed.shape
    seconds_a_row = (4.0 * d * packed_size(q + 1) + q**3) / 3e10 + 2e-8
    worth_sharing = max(2.0, 25e-6 / seconds_a_row)
    none = None, n, np.array([n], dtype=np.intp)
    if n < worth_sharing:
        return none
    if observed.all():
        return None, 0, np.array([0, n], dtype=np.intp)
    key = _pattern_keys(observed)
    _, first, pattern, count = np.unique(
        key, return_index=True, return_inverse=True, return_counts=True
    )
    shared = count >= worth_sharing
    in_shared = np.flatnonzero(shared[pattern])
    if len(in_shared) == 0 or not np.array_equal(
        observed[in_shared], observed[first[pattern[in_shared]]]
    ):
        return none  # the second: two patterns met in one key; treating all as unique is right too
    # Shared patterns get ranks 1.., others rank 0; a stable sort keeps the rows' order within.
    rank = np.where(shared, np.cumsum(shared), 0)[pattern]
    n_unique = int(np.sum(rank == 0))
    bounds = np.concatenate([[n_unique], n_unique + np.cumsum(count[shared])]).astype(np.intp)
    return np.argsort(rank, kind="stable"), n_unique, bounds


def _pattern_keys(observed: NDArray[np.bool_]) -> NDArray[np.uint64]:
    """(n,) one number per row, the same for equal patterns; up to 64 columns never otherwise."""
    bits = np.packbits(observed, axis=1)
    words = np.zeros((len(bits), -(-bits.shape[1] // 8)), dtype=np.uint64)
    words.view(np.uint8)[:, : bits.shape[1]] = bits
    key = words[:, 0].copy()
    for j in range(1, words.shape[1]):
        key *= np.uint64(0x9E3779B97F4A7C15)  # Knuth's multiplicative hash, odd: no bit is lost
        key ^= words[:, j]
        key ^= key >> np.uint64(29)
    return key


# Memory that is reused ------------------------------------------------------------------------
#
# The system provides fresh memory page by page and clears each page at its first use: for arrays
# that are read once or twice this costs as much as the arithmetic. The allocator avoids it by
# keeping freed memory, but Dask workers return all of it at once (MALLOC_TRIM_THRESHOLD_=65536),
# which made an EM step half as long again.

LARGEST_KEPT = 16 << 20  # bytes of one array


class Scratch(threading.local):
    """Arrays by name, separate for each Python thread, with undefined contents."""

    def __init__(self) -> None:
        self._kept: dict[str, Array] = {}

    def __reduce__(self) -> tuple[type[Scratch], tuple[()]]:
        """Send nothing to a worker, which begins with its own."""
        return Scratch, ()

    def array(self, name: str, shape: tuple[int, ...]) -> Array:
        """Valid until this thread asks for the same name again."""
        size = prod(shape)
        if 8 * size > LARGEST_KEPT:
            return np.empty(shape)
        kept = self._kept.get(name)
        if kept is None or kept.size < size:
            kept = self._kept[name] = np.empty(size)
        return kept[:size].reshape(shape)
