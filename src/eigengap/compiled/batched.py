"""Inverse, solution and log-determinant of many small SPD matrices: the single entry point."""

from __future__ import annotations

import numpy as np

from eigengap.compiled import choice, posterior_numpy
from eigengap.linalg import Array, packed_size

# Columns below which a second thread does not repay waking it, as multiplications of one piece.
GRAIN_WORK = 600_000


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
    if choice.pays(q, c, passes):
        bad = _compiled(P, np.ascontiguousarray(b), z, log_det)
    else:
        bad = posterior_numpy.factorise(P, b, z, log_det)
    if bad >= 0:
        raise np.linalg.LinAlgError(
            f"matrix {bad} of {c} is not positive definite "
            f"(a pivot is zero, negative, infinite or NaN)"
        )
    return z, log_det


def _compiled(P: Array, b: Array, z: Array, log_det: Array) -> int:
    from eigengap.runtime import threads

    kernel = choice.kernel()
    q, c = b.shape
    grain = choice.LANES * max(1, GRAIN_WORK // (choice.LANES * q**3))
    return threads.over_columns(lambda start, stop: kernel(P, b, z, log_det, start, stop), c, grain)


def _check(P: Array, b: Array) -> None:
    if b.ndim != 2 or P.shape != (packed_size(b.shape[0]), b.shape[1]):
        raise ValueError(
            f"P {P.shape} and b {b.shape} do not fit: b is (q, c), P (q (q + 1) / 2, c)"
        )
    if P.dtype != np.float64 or b.dtype != np.float64:
        raise TypeError(f"P and b must be float64, not {P.dtype} and {b.dtype}")
    if not (P.flags.c_contiguous and P.flags.writeable):
        raise ValueError("P is overwritten in place: it must be C-contiguous and writeable")
