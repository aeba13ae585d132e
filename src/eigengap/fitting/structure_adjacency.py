"""Reading the adjacency matrix of a graph, or saying what is wrong with it, and where."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse


def adjacency(values: Any, *, directed: bool = False) -> scipy.sparse.csr_array:
    """The graph (n, n), bool, of a matrix of zeros and ones, dense or sparse."""
    if values.ndim != 2 or values.shape[0] != values.shape[1]:
        raise ValueError(
            f"an adjacency matrix is square, got {values.shape[0]} rows and {values.shape[1]} "
            'columns; rows of data take affinity="rows"'
        )
    A = scipy.sparse.coo_array(values)
    _refuse(A, ~np.isfinite(A.data), "an edge is there or not: set unknown ones to 0 or 1")
    _refuse(A, A.data < 0, "an edge has no negative weight")
    _refuse(A, (A.data != 0) & (A.data != 1), "structure knows no weights: pass (A > 0)")
    A = scipy.sparse.coo_array(A.astype(bool))
    A.eliminate_zeros()
    _refuse(A, A.row == A.col, "no node is its own neighbour: set the diagonal to 0")
    found = scipy.sparse.csr_array(A.tocsr())
    found.sort_indices()
    if not directed:
        _require_symmetric(found)
    if found.nnz == 0:
        raise ValueError("the graph has no edges: there is no structure to preserve")
    return found


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
            "differ. Pass np.maximum(A, A.T), or directed=True where row i names the nearest "
            "neighbours of node i"
        )
