"""The twin of `subsets_numba`, row by row through LAPACK: its oracle."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from eigengap.linalg import Array

Ints = NDArray[np.int32]


def forms(
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


def solutions(
    A: Array, B: Array, index: Ints, count: Ints, weight: Array, solution: Array, spread: Array,
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
            spread[n] = np.einsum("oj,op,pj->j", A[o], K, A[o])
        spread[n, o] = np.diag(K)
    return -1
