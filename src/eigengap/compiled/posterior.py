"""Inverse, solution and log-determinant of many small SPD matrices: the single entry point.

Compiled where that pays (`posterior_numba`), otherwise in NumPy: for small q by the sweep operator
(Beaton 1964; Goodnight 1979), vectorised over the matrices, whose pivots are those of the Cholesky
factorisation, so that their logarithms sum to ln det P; for larger q by LAPACK, matrix by matrix.
This twin is the kernel's oracle, and shares no step with it.
"""

from __future__ import annotations

import numpy as np

from eigengap.compiled.choice import Kernels
from eigengap.linalg import Array, packed_indices, packed_size, unpack
from eigengap.runtime.threads import over_columns

KERNELS = Kernels("posterior_numba", compiling=8.0)
LANES = 128  # columns that the kernel takes at a time; `posterior_numba` reads it from here

# Columns below which a second thread does not repay waking it, as multiplications of one piece.
GRAIN_WORK = 600_000

# Measured: the sweep is faster up to here.
LARGEST_SWEEP = 16
# Bytes of scratch for the sweep: the matrices and one product of the same size stay in L2.
SCRATCH = 1 << 18


def factorise(P: Array, b: Array, *, passes: int = 1) -> tuple[Array, Array]:
    """Factorise c posterior precisions at once: P <- P^-1, z = P^-1 b, ln det P.

    These are the E-step's moments (Tipping and Bishop 1999, eq. 25, one precision a row): P^-1 the
    posterior covariances, z the posterior means.

    Parameters
    ----------
    P : (K, c) float64, C-contiguous, writeable
        Packed lower triangles, K = q (q + 1) / 2, entry (i, j), j <= i, at i (i + 1) / 2 + j; one
        column a matrix. **Overwritten** by the packed inverses.
    b : (q, c) float64
        Right-hand sides, left as they are.
    passes : int
        How many such calls the caller expects, which decides whether compiling pays.

    Returns
    -------
    z : (q, c)
        P^-1 b.
    log_det : (c,)
        ln det P, a sum of logarithms: it neither overflows nor underflows.

    Raises
    ------
    numpy.linalg.LinAlgError
        A matrix is not positive definite; the message names the first such column. P is spoilt.
    """
    _check(P, b)
    q, c = b.shape
    z, log_det = np.empty((q, c)), np.zeros(c)
    if q == 0 or c == 0:
        return z, log_det
    if KERNELS.pay(saved_seconds(q, c) * passes):
        kernel, right = KERNELS.load().factorise_columns, np.ascontiguousarray(b)
        grain = LANES * max(1, GRAIN_WORK // (LANES * q**3))
        bad = over_columns(
            lambda start, stop: int(kernel(P, right, z, log_det, start, stop)), c, grain
        )
    else:
        bad = _factorise(P, b, z, log_det)
    if bad >= 0:
        raise np.linalg.LinAlgError(
            f"matrix {bad} of {c} is not positive definite "
            f"(a pivot is zero, negative, infinite or NaN)"
        )
    return z, log_det


def saved_seconds(q: int, c: int) -> float:
    """What the loaded kernel saves on c matrices q x q, on one core.

    Both costs are fitted to measurements (q 1 .. 80, c 1 .. 4096); the kernel works on whole blocks
    of lanes.
    """
    if q <= LARGEST_SWEEP:
        twin = 6.6e-5 + 9.4e-6 * q + c * (9.6e-9 + 4.6e-9 * q + 1.93e-9 * q**3)
    else:
        twin = 1.3e-4 + 2.3e-6 * q + c * (3.4e-7 * q + 3.9e-8 * q**2)
    columns = -(-c // LANES) * LANES
    return twin - (2e-5 + columns * (1.7e-8 + 1.7e-9 * q**2 + 9e-11 * q**3))


def _check(P: Array, b: Array) -> None:
    if b.ndim != 2 or P.shape != (packed_size(b.shape[0]), b.shape[1]):
        raise ValueError(
            f"P {P.shape} and b {b.shape} do not fit: b is (q, c), P (q (q + 1) / 2, c)"
        )
    if P.dtype != np.float64 or b.dtype != np.float64:
        raise TypeError(f"P and b must be float64, not {P.dtype} and {b.dtype}")
    if not (P.flags.c_contiguous and P.flags.writeable):
        raise ValueError("P is overwritten in place: it must be C-contiguous and writeable")


# The twin -----------------------------------------------------------------------------------


def _factorise(P: Array, b: Array, z: Array, log_det: Array) -> int:
    """P (K, c) <- inverses; writes z (q, c) and log_det (c,); the first bad column, or -1."""
    q, c = b.shape
    step = max(16, SCRATCH // (8 * max(q * q, 1)))
    kernel = _sweep if q <= LARGEST_SWEEP else _lapack
    for start in range(0, c, step):
        part = slice(start, min(start + step, c))
        pivots = kernel(P[:, part], b[:, part], z[:, part], log_det[part])  # (q, columns)
        bad = np.flatnonzero(~((pivots > 0) & (pivots < np.inf)).all(axis=0))
        if bad.size:
            return start + int(bad[0])
    return -1


def _sweep(P: Array, b: Array, z: Array, log_det: Array) -> Array:
    """The pivots (q, c), which are positive and finite where P is positive definite."""
    q, c = b.shape
    i, j = packed_indices(q)
    A = np.empty((q, q, c))
    A[i, j] = P
    A[j, i] = P
    product = np.empty_like(A)
    pivots = np.empty((q, c))
    with np.errstate(all="ignore"):  # bad pivots are looked for afterwards, all at once
        for k in range(q):
            pivots[k] = A[k, k]
            row = A[k] / pivots[k]  # (q, c)
            np.multiply(A[:, k, None, :], row, out=product)
            np.subtract(A, product, out=A)
            A[k] = row
            A[:, k] = row
            A[k, k] = -1.0 / pivots[k]
        np.negative(A, out=A)
        P[...] = A[i, j]
        np.einsum("ijc,jc->ic", A, b, out=z)
        np.log(pivots).sum(axis=0, out=log_det)
    return pivots


def _lapack(P: Array, b: Array, z: Array, log_det: Array) -> Array:
    """The diagonals (q, c) of the Cholesky factors, NaN from the first that there is not."""
    q, c = b.shape
    i, j = packed_indices(q)
    A = unpack(P.T, q)  # (c, q, q)
    try:
        diagonals: Array = np.diagonal(np.linalg.cholesky(A), axis1=1, axis2=2).T
    except np.linalg.LinAlgError:  # which one is not known: one by one
        diagonals = np.full((q, c), np.nan)
        for column, matrix in enumerate(A):
            try:
                diagonals[:, column] = np.diagonal(np.linalg.cholesky(matrix))
            except np.linalg.LinAlgError:
                break
        return diagonals
    if not np.isfinite(diagonals).all():
        return diagonals
    inverse = np.linalg.inv(A)
    P[...] = inverse[:, i, j].T
    z[...] = np.matmul(inverse, b.T[:, :, None])[:, :, 0].T
    log_det[...] = 2.0 * np.log(diagonals).sum(axis=0)
    return diagonals
