"""Distances to neighbours as users store them, and which new rows are fitted ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from eigengap.fitting.laplacian_given import is_sparse
from eigengap.linalg import Array

ROUNDING = 64 * float(np.finfo(np.float64).eps)


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


def rounding_of(rows: Array, fitted: Array) -> float:
    """Length of a difference that the rounding of rows explains."""
    largest = max(float(np.nanmax(np.abs(rows))), float(np.nanmax(np.abs(fitted))))
    return float(ROUNDING * largest * np.sqrt(rows.shape[1]))


def median_finite(reach: Array) -> float:
    """Of the finite ones, 0 where there are none."""
    finite = reach[np.isfinite(reach)]
    return float(np.median(finite)) if len(finite) else 0.0


def coinciding(nearest: scipy.sparse.csr_array, tolerance: float) -> NDArray[np.int64]:
    """(c,) the first fitted row within the tolerance, or -1."""
    rows = row_of_entries(nearest)
    n = nearest.shape[1]
    first = np.full(nearest.shape[0], n, dtype=np.int64)
    near = nearest.data <= tolerance
    np.minimum.at(first, rows[near], nearest.indices[near])
    return np.where(first < n, first, -1)


def same_rows(new: Any, fitted: Any, slack: float) -> NDArray[np.int64]:
    """(c,) a row of `fitted` (n, m) that differs from each of `new` (c, m) by no more than `slack`.

    The first of several, or -1. Sums with random signs and sizes tell which may be the same, cell
    by cell differences which are.
    """
    m = fitted.shape[1]
    r = np.random.default_rng(0).standard_normal(m)
    prints, marks = np.asarray(fitted @ r), np.asarray(new @ r)
    wide = (slack + 1e-15 * float(np.max(np.abs(prints)))) * float(np.sum(np.abs(r)))
    order = np.argsort(prints, kind="stable")
    low = np.searchsorted(prints[order], marks - wide)
    high = np.searchsorted(prints[order], marks + wide, side="right")
    found = np.full(new.shape[0], -1, dtype=np.int64)
    tried = 0
    while True:  # all rows at once with their first candidate, then with their second, ...
        open_ = np.flatnonzero((low + tried < high) & (found < 0))
        if not len(open_):
            return found
        candidate = order[low[open_] + tried]
        same = _largest(new[open_] - fitted[candidate]) <= slack
        found[open_[same]] = candidate[same]
        tried += 1


def _largest(difference: Any) -> Array:
    """(c,) the largest modulus of each row."""
    if not is_sparse(difference):
        return np.asarray(np.max(np.abs(difference), axis=1))
    return np.asarray(abs(difference).max(axis=1).toarray()).ravel()
