"""Distances to neighbours as sparse matrices: every stored entry counts, zeros included."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray


def is_sparse(X: Any) -> bool:
    """`scipy.sparse.issparse`, which would narrow the type of X."""
    return bool(scipy.sparse.issparse(X))


def csr_of(data: Any, columns: Any, counts: Any, n: int) -> scipy.sparse.csr_array:
    """A CSR array of n columns from its entries in order and the number (c,) in each row."""
    starts = np.concatenate([[0], np.cumsum(counts)])
    return scipy.sparse.csr_array((data, columns, starts), shape=(len(counts), n))


def row_of_entries(A: scipy.sparse.csr_array) -> NDArray[np.int64]:
    """Row of every stored entry."""
    return np.repeat(np.arange(A.shape[0]), np.diff(A.indptr))


def selected(A: scipy.sparse.csr_array, which: NDArray[np.bool_]) -> scipy.sparse.csr_array:
    """A with some of its stored entries alone."""
    counts = np.bincount(row_of_entries(A)[which], minlength=A.shape[0])
    return csr_of(A.data[which], A.indices[which], counts, A.shape[1])


def with_entries(
    A: scipy.sparse.csr_array, rows: Any, data: Any, columns: Any
) -> scipy.sparse.csr_array:
    """A with one entry in each of some empty rows; a sum would lose stored zeros."""
    at, counts = A.indptr[rows], np.diff(A.indptr)
    counts[rows] = 1
    merged = np.insert(A.data, at, data), np.insert(A.indices, at, columns)
    return csr_of(*merged, counts, A.shape[1])


def without_diagonal(A: scipy.sparse.csr_array) -> scipy.sparse.csr_array:
    return selected(A, row_of_entries(A) != A.indices)


def stored_distances(X: Any) -> scipy.sparse.csr_array:
    """Distances as a CSR array; of a dense matrix every cell is stored."""
    if is_sparse(X):
        found = scipy.sparse.csr_array(X, dtype=np.float64)
    else:
        n, m = X.shape
        values = np.asarray(X, dtype=np.float64).ravel()
        found = csr_of(values, np.tile(np.arange(m), n), np.full(n, m), m)
    require_finite(found, "X")
    bad = found.data < 0.0
    if bad.any():
        row, column, value = first_entry(found, bad)
        raise ValueError(
            f"Negative values in data: a distance is {value:.6g} at row {row}, column {column}"
        )
    return found


def square_distances(X: Any) -> Any:
    """X, refused where it is not square."""
    n, m = X.shape
    if n != m:
        raise ValueError(
            "Precomputed matrix must be a square matrix of distances to neighbours, got shape "
            f"{n} x {m}"
        )
    return X


def nearest_stored(distances: scipy.sparse.csr_array, k: int | None) -> scipy.sparse.csr_array:
    """The k shortest stored distances of every row, in order of length; all of them for None."""
    rows = row_of_entries(distances)
    order = np.lexsort((distances.indices, distances.data, rows))
    counts = np.diff(distances.indptr)
    if k is not None:
        place = np.arange(distances.nnz) - np.repeat(distances.indptr[:-1], counts)
        order, counts = order[place < k], np.minimum(counts, k)
    data = distances.data[order].astype(np.float64)
    return csr_of(data, distances.indices[order], counts, distances.shape[1])


def coinciding(nearest: scipy.sparse.csr_array) -> NDArray[np.int64]:
    """(c,) the first fitted row at distance 0, or -1."""
    n = nearest.shape[1]
    first = np.full(nearest.shape[0], n, dtype=np.int64)
    same = nearest.data == 0.0
    np.minimum.at(first, row_of_entries(nearest)[same], nearest.indices[same])
    return np.where(first < n, first, -1)


def require_finite(distances: scipy.sparse.csr_array, whose: str) -> None:
    bad = ~np.isfinite(distances.data)
    if bad.any():
        row, column, value = first_entry(distances, bad)
        raise ValueError(
            f"row {row} of {whose} has the distance {'NaN' if np.isnan(value) else value} to row "
            f"{column} of the fitted ones, which makes no edge: leave the row out, impute its "
            "missing values, or use another metric"
        )


def first_entry(A: Any, which: NDArray[np.bool_]) -> tuple[int, int, float]:
    """Row, column and value of the first of some cells, or of some stored entries of CSR."""
    at = int(np.argmax(which))
    if not is_sparse(A):
        return at // A.shape[1], at % A.shape[1], float(A.flat[at])
    row = int(np.searchsorted(A.indptr, at, side="right")) - 1
    return row, int(A.indices[at]), float(A.data[at])
