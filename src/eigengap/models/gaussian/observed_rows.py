"""Rows with gaps, arranged so that sums over what was seen become matrix products.

Each row i has its own posterior precision P_i = I + sum_{j seen} w_j w_j^T / psi_j. With the 0/1
mask M (n, d) all of them are one product, M @ [w_j w_j^T / psi_j], and the sums of an M-step are
its transpose. What does not depend on the parameters is prepared here, once per fit:

- columns seen in every row of the block leave the mask: their share is the same for all rows;
- rows that share a pattern of gaps (complete rows above all) share one mask row, hence one
  factorisation; the other, lone, rows come first;
- where few cells are seen the values and the mask are kept as sparse matrices.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from eigengap.linalg import Array, packed_size

# Below this share of seen cells a sparse product beats BLAS on the zeros. A step on two cores at
# 4 000 x 1 500, q 10: 19 ms against 42 at 4 % seen, 40 against 51 at 10 %; at 3 000 x 1 000, q 30:
# 68 against 124 at 4 %, 128 against 103 at 10 %.
SPARSE_BELOW = 0.06

# Bytes of one chunk's packed precisions: small enough to stay in cache, large enough for BLAS.
CHUNK_BYTES = 4 << 20


@dataclass(frozen=True, eq=False)
class ObservedRows:
    """A block of rows prepared for the products of an E-step."""

    R: Any  # (c, d) values - shift, 0 where unseen; rows in the order `order`; dense or CSR
    M: Any  # (u, g) 1 where seen: one row per lone row, then one per shared pattern
    incomplete: NDArray[np.intp]  # (g,) columns that M speaks of; all others are seen in every row
    n_lone: int  # rows 0..n_lone of R have a mask row each
    bounds: NDArray[np.intp]  # (G + 1,) rows bounds[k]..bounds[k + 1] of R share pattern k
    order: NDArray[np.intp]  # (c,) position in the block of each row of R
    weight: Array | None  # (c,) in the order of R
    row_squares: Array  # (c,) sums of R^2 over each row
    squares: Array  # (d,) weighted column sums of R^2
    row_cells: NDArray[np.intp]  # (c,) seen cells of each row
    observed: Array  # (d,) weighted number of rows in which each column was seen
    cells: float  # weighted number of seen cells

    @property
    def d(self) -> int:
        return int(self.R.shape[1])

    def everywhere(self) -> NDArray[np.bool_]:
        """(d,) columns without a gap in this block."""
        observed = np.ones(self.d, dtype=bool)
        observed[self.incomplete] = False
        return observed

    def chunks(self, q: int) -> Iterator[tuple[slice, slice]]:
        """Slices (rows of R, rows of M) that the E-step treats at a time.

        Lone rows come in chunks of CHUNK_BYTES of packed precisions; then each shared pattern.
        """
        step = max(128, CHUNK_BYTES // (8 * max(packed_size(q), 1)))
        for start in range(0, self.n_lone, step):
            rows = slice(start, min(start + step, self.n_lone))
            yield rows, rows
        for k in range(len(self.bounds) - 1):
            mask_row = self.n_lone + k
            yield slice(self.bounds[k], self.bounds[k + 1]), slice(mask_row, mask_row + 1)


def prepare_rows(
    values: NDArray[Any],  # (c, d), NaN where unseen
    weight: Array | None,
    shift: Array,  # (d,)
    scale: Array | None,  # (d,) unit of each column, or None for 1
    q: int,  # size of the model to come: decides when sharing a pattern pays
) -> ObservedRows:
    """Arrange the rows of one block."""
    if weight is not None and not np.all(weight > 0):
        kept = np.flatnonzero(weight > 0)
        rows = prepare_rows(values[kept], weight[kept], shift, scale, q)
        return _renumbered(rows, kept)
    observed = ~np.isnan(values)
    order, n_lone, bounds = _shared_patterns(observed, q)
    moved = order is not None
    if order is None:
        order = np.arange(len(values))
    incomplete = (
        np.flatnonzero(~observed.all(axis=0)) if len(values) else np.arange(values.shape[1])
    )
    R = values[order] - shift if moved else values - shift
    if scale is not None:
        R /= scale
    R = R.astype(values.dtype, copy=False)
    observed = observed[order] if moved else observed
    np.copyto(R, 0, where=~observed)
    w = None if weight is None else weight[order]
    counts = observed.sum(axis=1)
    M = np.concatenate([observed[:n_lone], observed[bounds[:-1]]]) if len(bounds) > 1 else observed
    M = (M if len(incomplete) == len(shift) else M[:, incomplete]).astype(values.dtype)
    rows = ObservedRows(
        R=R,
        M=M,
        incomplete=incomplete,
        n_lone=n_lone,
        bounds=bounds,
        order=order,
        weight=w,
        row_squares=np.einsum("ij,ij->i", R, R, dtype=np.float64),
        squares=_column_squares(R, w),
        row_cells=counts,
        observed=np.asarray(observed.sum(axis=0) if w is None else w @ observed, dtype=np.float64),
        cells=float(counts.sum() if w is None else counts @ w),
    )
    return _sparsified(rows) if counts.sum() < SPARSE_BELOW * observed.size else rows


def _column_squares(R: NDArray[Any], w: Array | None) -> Array:
    if w is None:
        return np.asarray(np.einsum("ij,ij->j", R, R, dtype=np.float64))
    return np.asarray(np.einsum("i,ij,ij->j", w, R, R, dtype=np.float64))


def _renumbered(rows: ObservedRows, kept: NDArray[np.intp]) -> ObservedRows:
    return ObservedRows(**{**vars(rows), "order": kept[rows.order]})


def _sparsified(rows: ObservedRows) -> ObservedRows:
    return ObservedRows(
        **{**vars(rows), "R": scipy.sparse.csr_array(rows.R), "M": scipy.sparse.csr_array(rows.M)}
    )


def _shared_patterns(
    observed: NDArray[np.bool_], q: int
) -> tuple[NDArray[np.intp] | None, int, NDArray[np.intp]]:
    """Order that puts lone rows first, how many they are, and the bounds of the shared groups.

    A group costs about 25 us of Python, a lone row the products and the factorisation of its own
    precision; only patterns with enough rows to repay the former are treated as shared.
    """
    n, d = observed.shape
    seconds_a_row = (4.0 * d * packed_size(q + 1) + q**3) / 3e10 + 2e-8
    worth_sharing = max(2.0, 25e-6 / seconds_a_row)
    none = None, n, np.array([n], dtype=np.intp)
    if n < worth_sharing:
        return none
    key = _pattern_keys(observed)
    _, first, pattern, count = np.unique(
        key, return_index=True, return_inverse=True, return_counts=True
    )
    shared = count >= worth_sharing
    in_shared = np.flatnonzero(shared[pattern])
    if len(in_shared) == 0 or not np.array_equal(
        observed[in_shared], observed[first[pattern[in_shared]]]
    ):
        return none  # the second: two patterns met in one key; treating all as lone is right too
    # Shared patterns get ranks 1.., lone rows rank 0; a stable sort keeps the rows' order within.
    rank = np.where(shared, np.cumsum(shared), 0)[pattern]
    order = np.argsort(rank, kind="stable")
    n_lone = int(np.sum(rank == 0))
    bounds = np.concatenate([[n_lone], n_lone + np.cumsum(count[shared])]).astype(np.intp)
    return order, n_lone, bounds


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
