"""Gaussian conditioning of many rows that share one matrix, each on a set of its own.

Given x_o - mu_o = b the rest of a Gaussian row has mean C[:, o] C[o, o]^-1 b and covariance
C - C[:, o] C[o, o]^-1 C[o, :]; in the precision matrix L = C^-1 the missing part u has covariance
L[u, u]^-1 and mean -L[u, u]^-1 (L r)_u. Both are solutions with submatrices of one matrix: this is
the single entry point, compiled where that pays.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eigengap.compiled.choice import Kernels
from eigengap.linalg import Array
from eigengap.runtime.threads import over_columns

Bools = NDArray[np.bool_]
Ints = NDArray[np.int32]

KERNELS = Kernels("subsets_numba", compiling=5.0)
SECONDS_A_ROW = 1e-4  # of the twin, about
CALLS = 50  # that follow each other in a fit
GRAIN = 256  # rows of a piece: threads never change the pieces, hence never the sums


def forms(A: Array, B: Array, sets: Bools) -> tuple[Array, Array]:
    """b_o^T A[o, o]^-1 b_o and ln det A[o, o] for every row: (n,), (n,).

    Parameters
    ----------
    A : (d, d) positive definite
    B : (n, d) right-hand sides; only b_o is looked at
    sets : (n, d) True in o
    """
    kernels, (index, count) = _load(len(B)), _listed(sets)
    quadratic, log_det = np.zeros(len(B)), np.zeros(len(B))
    A, B = _plain(A), _plain(B)
    bad = over_columns(
        lambda a, b: int(kernels.forms(A, B, index, count, quadratic, log_det, a, b)),
        len(B),
        GRAIN,
    )
    _refuse(bad)
    return quadratic, log_det


def solutions(
    A: Array, B: Array, sets: Bools, weight: Array | None = None, *, explained: bool = False
) -> tuple[Array, Array, Array]:
    """A[o, o]^-1 b_o for every row, and the variances that follow from it.

    Parameters
    ----------
    A, B, sets : as in `forms`
    weight : (n,) of each row in the sum, by default 1
    explained : whether to look at the entries outside o too

    Returns
    -------
    solution : (n, d), 0 outside o
    diagonal : (n, d), in o the diagonal of A[o, o]^-1; outside o 0 or, where `explained`, the
        diagonal of A[:, o] A[o, o]^-1 A[o, :]
    inverses : (d, d), the weighted sum of A[o, o]^-1, each in its place
    """
    kernels, (index, count) = _load(len(B)), _listed(sets)
    n, d = B.shape
    w = np.ones(n) if weight is None else np.ascontiguousarray(weight, dtype=np.float64)
    solution, diagonal = np.zeros((n, d)), np.zeros((n, d))
    A, B = _plain(A), _plain(B)
    sums: dict[int, Array] = {}

    def piece(start: int, stop: int) -> int:
        total = np.zeros((d, d))
        arguments = (A, B, index, count, w, solution, diagonal, explained, total, start, stop)
        bad = int(kernels.solutions(*arguments))
        sums[start] = total
        return bad

    _refuse(_in_pieces(piece, n))
    lower = np.zeros((d, d))
    for start in sorted(sums):  # in one order, whichever thread was first
        lower += sums[start]
    return solution, diagonal, lower + lower.T - np.diag(np.diag(lower))


def _in_pieces(piece: Any, n: int) -> int:
    """piece(start, stop) over grains, so that the sums do not depend on the number of threads."""
    grain = max(GRAIN, -(-n // 64))

    def each(start: int, stop: int) -> int:
        results = [piece(a, min(a + grain, stop)) for a in range(start, stop, grain)]
        return min((bad for bad in results if bad >= 0), default=-1)

    return over_columns(each, n, grain)


def _listed(sets: Bools) -> tuple[Ints, Ints]:
    """Members of each set first, in order: index (n, m), and how many there are: (n,)."""
    count = sets.sum(axis=1).astype(np.int32)
    most = max(int(count.max(initial=0)), 1)
    index = np.zeros((len(sets), most), dtype=np.int32)
    row, column = np.nonzero(sets)
    first = np.concatenate([[0], np.cumsum(count)[:-1]]).astype(np.intp)
    index[row, np.arange(len(row)) - first[row]] = column
    return index, count


def _load(n: int) -> Any:
    return KERNELS.load() if KERNELS.pay(SECONDS_A_ROW * n * CALLS) else TWIN


def _plain(values: Array) -> Array:
    return np.ascontiguousarray(values, dtype=np.float64)


def _refuse(bad: int) -> None:
    if bad >= 0:
        raise np.linalg.LinAlgError(f"the submatrix of row {bad} is not positive definite")


# The twin, row by row through LAPACK: the oracle of the kernels ---------------------------------


def _forms(
    A: Array, B: Array, index: Ints, count: Ints, quadratic: Array, log_det: Array,
    start: int, stop: int,
) -> int:  # fmt: skip
    for n in range(start, stop):
        o = index[n, : count[n]]
        sign, log_det[n] = np.linalg.slogdet(A[np.ix_(o, o)])
        if sign <= 0:
            return n
        quadratic[n] = B[n, o] @ np.linalg.solve(A[np.ix_(o, o)], B[n, o])
    return -1


def _solutions(
    A: Array, B: Array, index: Ints, count: Ints, weight: Array, solution: Array, diagonal: Array,
    explained: bool, inverses: Array, start: int, stop: int,
) -> int:  # fmt: skip
    for n in range(start, stop):
        o = index[n, : count[n]]
        try:
            np.linalg.cholesky(A[np.ix_(o, o)])
        except np.linalg.LinAlgError:
            return n
        K = np.linalg.inv(A[np.ix_(o, o)])
        solution[n, o] = K @ B[n, o]
        inverses[np.ix_(o, o)] += weight[n] * np.tril(K)
        if explained:
            diagonal[n] = np.einsum("oj,op,pj->j", A[o], K, A[o])
        diagonal[n, o] = np.diag(K)
    return -1


TWIN = SimpleNamespace(forms=_forms, solutions=_solutions)
