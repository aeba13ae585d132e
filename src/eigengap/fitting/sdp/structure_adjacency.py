"""Reading the adjacency matrix of a graph, or saying what is wrong with it, and where."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse

NO_WEIGHTS = (
    "structure knows no weights: pass (A > 0) where these are weights of edges; distances take "
    'affinity="rows" and metric="precomputed"'
)


def adjacency(values: Any, *, directed: bool = False) -> scipy.sparse.csr_array:
    """The graph (n, n), bool, of a matrix of zeros and ones, dense or sparse."""
    if values.ndim != 2 or values.shape[0] != values.shape[1]:
        raise ValueError(
            f"an adjacency matrix is square, got {values.shape[0]} rows and {values.shape[1]} "
            f"columns; {_instead(values)}"
        )
    A = scipy.sparse.coo_array(values)
    _refuse(A, ~np.isfinite(A.data), "an edge is there or not: set unknown ones to 0 or 1")
    _refuse(A, A.data < 0, "an edge has no negative weight")
    _refuse(A, (A.data != 0) & (A.data != 1), NO_WEIGHTS)
    loops = (A.row == A.col) & (A.data != 0)
    _refuse(A, loops, "no node is its own neighbour: set the diagonal to 0")
    found = scipy.sparse.csr_array(A.astype(bool).tocsr())
    found.eliminate_zeros()
    found.sort_indices()
    if not directed:
        _require_symmetric(found)
    if found.nnz == 0:
        raise ValueError("the graph has no edges: there is no structure to preserve")
    return found


def looks_like_adjacency(values: Any) -> bool:
    """Whether rows of data are rather the adjacency matrix of an undirected graph."""
    n, d = values.shape
    if n != d or n < 3 or not np.isin(values, (0.0, 1.0)).all():
        return False
    return bool(not values.diagonal().any() and values.any() and np.array_equal(values, values.T))


def _instead(values: Any) -> str:
    """What a table that is not square may be."""
    if values.shape[1] == 2:
        return (
            "a list of edges (i, j) becomes one by scipy.sparse.coo_array((np.ones(2 * m), "
            "(np.r_[i, j], np.r_[j, i])), (n, n))"
        )
    return 'rows of data take affinity="rows"'


def _refuse(A: Any, wrong: Any, why: str) -> None:
    if not np.any(wrong):
        return
    at = int(np.argmax(wrong))
    i, j = int(A.row[at]), int(A.col[at])
    raise ValueError(f"the adjacency matrix holds {A.data[at]} at row {i}, column {j}: {why}")


def _require_symmetric(A: scipy.sparse.csr_array) -> None:
    apart = scipy.sparse.coo_array(A.astype(np.int8) - A.T.astype(np.int8))
    apart.eliminate_zeros()
    if apart.nnz:
        i, j = int(apart.row[0]), int(apart.col[0])
        raise ValueError(
            f"the adjacency matrix is not symmetric: row {i}, column {j} and row {j}, column {i} "
            "differ. Pass np.maximum(A, A.T), of a sparse one A.maximum(A.T), or directed=True "
            "where row i names the nearest neighbours of node i"
        )
