"""Solutions with submatrices A[o, o] of one matrix, a set o for each row, compiled by numba.

A[o, o] = R^T R by elimination (Golub and Van Loan, Matrix Computations, 4.2), everything that is
asked for eliminated along with it: the right-hand side gives y = R^-T b, the unit matrix E = R^-T,
and the rows A[o, :] give R^-T A[o, :]. Every inner loop adds a multiple of one contiguous row to
another, which SIMD does as it stands.

Importing this module imports numba and compiles: only `eigengap.compiled.subsets` does so.
"""

from __future__ import annotations

import math

import numba
import numpy as np
from numpy.typing import NDArray

from eigengap.compiled.cache import compile_cached, part

Array = NDArray[np.float64]
Ints = NDArray[np.int32]


@part()
def _subtract(target: Array, source: Array, factor: float, start: int, stop: int) -> None:
    for t in range(np.uint64(start), np.uint64(stop)):
        target[t] -= factor * source[t]


@part()
def _gather(A: Array, b: Array, o: Ints, m: int, R: Array) -> None:
    """R (m, m + 1) <- upper triangle of A[o, o] | b[o]."""
    for i in range(m):
        row, target = A[o[i]], R[i]
        for j in range(i, m):
            target[j] = row[o[j]]
        target[m] = b[o[i]]


@part()
def _scale(target: Array, factor: float, start: int, stop: int) -> None:
    for t in range(np.uint64(start), np.uint64(stop)):
        target[t] *= factor


def _forms(
    A: Array, B: Array, index: Ints, count: Ints, quadratic: Array, log_det: Array,
    start: int, stop: int,
) -> int:  # fmt: skip
    """b^T A[o, o]^-1 b and ln det A[o, o] of the rows start .. stop; the first bad one, or -1."""
    R = np.empty((index.shape[1], index.shape[1] + 1))
    for n in range(start, stop):
        m = count[n]
        _gather(A, B[n], index[n], m, R)
        square, logs = 0.0, 0.0
        for p in range(m):
            pivot = R[p, p]
            if not pivot > 0.0:
                return n
            logs += math.log(pivot)
            square += R[p, m] * R[p, m] / pivot
            for i in range(p + 1, m):
                _subtract(R[i], R[p], R[p, i] / pivot, i, m + 1)
        quadratic[n] = square
        log_det[n] = logs
    return -1


def _solutions(
    A: Array, B: Array, index: Ints, count: Ints, weight: Array, solution: Array, diagonal: Array,
    explained: bool, inverses: Array, start: int, stop: int,
) -> int:  # fmt: skip
    """What `subsets.solutions` returns, for the rows start .. stop; the first bad one, or -1.

    inverses (d, d), lower triangles with respect to the order of the sets, is added to.
    """
    most, d = index.shape[1], A.shape[0]
    R = np.empty((most, most + 1))
    E = np.empty((most, most))
    K = np.empty((most, most))
    Y = np.empty((most if explained else 1, d))
    a = np.empty(most)
    for n in range(start, stop):
        m, o = count[n], index[n]
        _gather(A, B[n], o, m, R)
        for i in range(m):
            for j in range(i):
                E[i, j] = 0.0
            E[i, i] = 1.0
            a[i] = 0.0
            for j in range(i + 1):
                K[i, j] = 0.0
            if explained:
                row, target = A[o[i]], Y[i]
                for j in range(d):
                    target[j] = row[j]
        for p in range(m):
            pivot = R[p, p]
            if not pivot > 0.0:
                return n
            root = 1.0 / math.sqrt(pivot)
            _scale(R[p], root, p, m + 1)
            _scale(E[p], root, 0, p + 1)
            if explained:
                _scale(Y[p], root, 0, d)
            for i in range(p + 1, m):
                factor = R[p, i]
                _subtract(R[i], R[p], factor, i, m + 1)
                _subtract(E[i], E[p], factor, 0, p + 1)
                if explained:
                    _subtract(Y[i], Y[p], factor, 0, d)
            _subtract(a, E[p], -R[p, m], 0, p + 1)
            for i in range(p + 1):
                _subtract(K[i], E[p], -E[p, i], 0, i + 1)
        w = weight[n]
        target = solution[n]
        for i in range(m):
            target[o[i]] = a[i]
            row = inverses[o[i]]
            for j in range(i + 1):
                row[o[j]] += w * K[i, j]
        out = diagonal[n]
        if explained:
            for i in range(m):
                source = Y[i]
                for j in range(d):
                    out[j] += source[j] * source[j]
        for i in range(m):
            out[o[i]] = K[i, i]
    return -1


_matrix, _vector = numba.float64[:, ::1], numba.float64[::1]
_sets, _counts = numba.int32[:, ::1], numba.int32[::1]
forms, cache_index = compile_cached(
    _forms,
    (_matrix, _matrix, _sets, _counts, _vector, _vector, numba.int64, numba.int64),
)
solutions, _ = compile_cached(
    _solutions,
    (
        _matrix, _matrix, _sets, _counts, _vector, _matrix, _matrix, numba.boolean, _matrix,
        numba.int64, numba.int64,
    ),
)  # fmt: skip
