"""Distances to neighbours as users store them."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from eigengap.fitting.laplacian.given import is_sparse


def stored_distances(X: Any) -> scipy.sparse.csr_array:
    """Distances as a CSR array, its stored zeros kept; all cells of a matrix that is not sparse."""
    if is_sparse(X):
        found = scipy.sparse.csr_array(X, dtype=np.float64)
    else:
        n, m = X.shape
        found = scipy.sparse.csr_array(
            (
                np.asarray(X, dtype=np.float64).ravel(),
                np.tile(np.arange(m), n),
                np.arange(0, n * m + 1, m),
            ),
            shape=(n, m),
        )
    require_finite(found, "X")
    bad = found.data < 0.0
    if bad.any():
        at = int(np.argmax(bad))
        row = int(np.searchsorted(found.indptr, at, side="right")) - 1
        raise ValueError(
            f"Negative values in data: a distance is {found.data[at]:.6g} at row {row}, column "
            f"{int(found.indices[at])}"
        )
    return found


def within(X: scipy.sparse.csr_array, radius: float) -> scipy.sparse.csr_array:
    kept = X.data <= radius
    rows = row_of_entries(X)[kept]
    starts = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=X.shape[0]))])
    return scipy.sparse.csr_array((X.data[kept], X.indices[kept], starts), shape=X.shape)


def nearest_stored(distances: scipy.sparse.csr_array, k: int | None) -> scipy.sparse.csr_array:
    """The k shortest stored distances of every row, in order of length; None is all."""
    rows = row_of_entries(distances)
    order = np.lexsort((distances.indices, distances.data, rows))
    counts = np.diff(distances.indptr)
    place = np.arange(distances.nnz) - np.repeat(distances.indptr[:-1], counts)
    kept = order if k is None else order[place < k]
    starts = np.concatenate([[0], np.cumsum(np.minimum(counts, k) if k is not None else counts)])
    return scipy.sparse.csr_array(
        (distances.data[kept].astype(np.float64), distances.indices[kept], starts),
        shape=distances.shape,
    )


def without_diagonal(distances: scipy.sparse.csr_array) -> scipy.sparse.csr_array:
    """Stored entries off the diagonal, zeros among them kept."""
    rows = row_of_entries(distances)
    apart = rows != distances.indices
    counts = np.bincount(rows[apart], minlength=distances.shape[0])
    starts = np.concatenate([[0], np.cumsum(counts)])
    return scipy.sparse.csr_array(
        (distances.data[apart], distances.indices[apart], starts), shape=distances.shape
    )


def row_of_entries(A: scipy.sparse.csr_array) -> NDArray[np.int64]:
    """Row of every stored entry."""
    return np.repeat(np.arange(A.shape[0]), np.diff(A.indptr))


def coinciding(nearest: scipy.sparse.csr_array) -> NDArray[np.int64]:
    """(c,) the first fitted row at distance 0, or -1."""
    rows = row_of_entries(nearest)
    n = nearest.shape[1]
    first = np.full(nearest.shape[0], n, dtype=np.int64)
    near = nearest.data == 0.0
    np.minimum.at(first, rows[near], nearest.indices[near])
    return np.where(first < n, first, -1)


def require_finite(distances: scipy.sparse.csr_array, whose: str) -> None:
    """Refuse a distance that is none, by its row."""
    bad = ~np.isfinite(distances.data)
    if bad.any():
        at = int(np.argmax(bad))
        row = int(np.searchsorted(distances.indptr, at, side="right")) - 1
        shown = "NaN" if np.isnan(distances.data[at]) else f"{distances.data[at]}"
        raise ValueError(
            f"row {row} of {whose} has the distance {shown} to row {int(distances.indices[at])} of "
            "the fitted ones, which makes no edge: leave the row out, fill its gaps, or take "
            "another metric"
        )
