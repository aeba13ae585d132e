"""Batched inverse, solution and log-determinant of small SPD matrices in NumPy alone.

Small q: the sweep operator (Beaton 1964; Goodnight 1979), vectorised over the matrices; its pivots
are those of the Cholesky factorisation, so that their logarithms sum to ln det P. Larger q: LAPACK,
matrix by matrix. This is the twin and the oracle of `posterior_numba`, and shares no step with it.
"""

from __future__ import annotations

import numpy as np

from eigengap.linalg import Array, packed_indices, unpack

# Measured: the sweep is faster up to here.
LARGEST_SWEEP = 16
# Bytes of scratch for the sweep: the matrices and one product of the same size stay in L2.
SCRATCH = 1 << 18


def factorise(P: Array, b: Array, z: Array, log_det: Array) -> int:
    """P (K, c) <- inverses; writes z (q, c) and log_det (c,); the first bad column, or -1."""
    q, c = b.shape
    step = max(16, SCRATCH // (8 * max(q * q, 1)))
    kernel = _sweep if q <= LARGEST_SWEEP else _lapack
    for start in range(0, c, step):
        part = slice(start, min(start + step, c))
        bad = kernel(P[:, part], b[:, part], z[:, part], log_det[part])
        if bad >= 0:
            return start + bad
    return -1


def _sweep(P: Array, b: Array, z: Array, log_det: Array) -> int:
    q, c = b.shape
    i, j = packed_indices(q)
    A = np.empty((q, q, c))
    A[i, j] = P
    A[j, i] = P
    product = np.empty_like(A)
    pivots = np.empty((q, c))
    with np.errstate(all="ignore"):  # bad pivots are looked for below, all at once
        for k in range(q):
            pivots[k] = A[k, k]
            row = A[k] / pivots[k]  # (q, c)
            np.multiply(A[:, k, None, :], row, out=product)
            np.subtract(A, product, out=A)
            A[k] = row
            A[:, k] = row
            A[k, k] = -1.0 / pivots[k]
    bad = _first_bad(pivots)
    if bad >= 0:
        return bad
    np.negative(A, out=A)
    P[...] = A[i, j]
    np.einsum("ijc,jc->ic", A, b, out=z)
    np.log(pivots).sum(axis=0, out=log_det)
    return -1


def _lapack(P: Array, b: Array, z: Array, log_det: Array) -> int:
    q = b.shape[0]
    i, j = packed_indices(q)
    A = unpack(P.T, q)  # (c, q, q)
    diagonals = _cholesky_diagonals(A)  # (q, c)
    bad = _first_bad(diagonals)
    if bad >= 0:
        return bad
    inverse = np.linalg.inv(A)
    P[...] = inverse[:, i, j].T
    z[...] = np.matmul(inverse, b.T[:, :, None])[:, :, 0].T
    log_det[...] = 2.0 * np.log(diagonals).sum(axis=0)
    return -1


def _cholesky_diagonals(A: Array) -> Array:
    """Diagonals (q, c) of the factors of A (c, q, q), NaN where there is none."""
    try:
        return np.diagonal(np.linalg.cholesky(A), axis1=1, axis2=2).T
    except np.linalg.LinAlgError:  # which one is not known: one by one
        diagonals = np.full((A.shape[1], A.shape[0]), np.nan)
        for column, matrix in enumerate(A):
            try:
                diagonals[:, column] = np.diagonal(np.linalg.cholesky(matrix))
            except np.linalg.LinAlgError:
                break
        return diagonals


def _first_bad(pivots: Array) -> int:
    """First column of pivots (q, c) with one that is not a positive finite number, or -1."""
    bad = np.flatnonzero(~((pivots > 0) & (pivots < np.inf)).all(axis=0))
    return int(bad[0]) if bad.size else -1
