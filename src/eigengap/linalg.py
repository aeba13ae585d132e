"""Small linear algebra shared by every room: packed triangles, signs, angles."""

from __future__ import annotations

from functools import lru_cache
from math import isqrt

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

Array = NDArray[np.float64]


def packed_size(q: int) -> int:
    """Number of entries in the lower triangle of a q x q matrix."""
    return q * (q + 1) // 2


@lru_cache(maxsize=128)
def packed_indices(q: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Row and column of each packed entry: entry (i, j), j <= i, sits at i (i + 1) / 2 + j.

    This order puts the triangle of a leading block first, so that appending a row to the matrix
    appends to the packed vector. Kept from call to call, hence read-only.
    """
    i, j = np.tril_indices(q)
    i.flags.writeable = j.flags.writeable = False
    return i, j


@lru_cache(maxsize=128)
def packed_diagonal(q: int) -> NDArray[np.intp]:
    """Positions (q,) of the diagonal among the packed entries; read-only."""
    diagonal = np.cumsum(np.arange(1, q + 1)) - 1
    diagonal.flags.writeable = False
    return diagonal


def pack(matrices: Array) -> Array:
    """Packed lower triangles (..., q (q + 1) / 2) of symmetric matrices (..., q, q)."""
    i, j = packed_indices(matrices.shape[-1])
    return np.asarray(matrices[..., i, j])


def pack_outer(W: Array) -> Array:
    """Packed lower triangles of the outer products w_j w_j^T, (d, q) -> (d, q (q + 1) / 2)."""
    i, j = packed_indices(W.shape[1])
    return W[:, i] * W[:, j]


def unpack(packed: Array, q: int) -> Array:
    """Symmetric matrices (..., q, q) from packed lower triangles (..., q (q + 1) / 2)."""
    i, j = packed_indices(q)
    full = np.empty((*packed.shape[:-1], q, q))
    full[..., i, j] = packed
    full[..., j, i] = packed
    return full


def twice_off_diagonal(packed: Array) -> Array:
    """Packed matrices (..., K) such that a @ b of packed a and b becomes the trace of A B."""
    doubled = 2.0 * packed
    diagonal = packed_diagonal(isqrt(2 * packed.shape[-1]))  # K = q (q + 1) / 2
    doubled[..., diagonal] = packed[..., diagonal]
    return doubled


def sign_rule(U: Array) -> Array:
    """Signs (q,) that make the entry of largest modulus in each column of U (d, q) positive.

    The first such entry counts where several tie, as in scikit-learn, so that the same data give
    the same signs whatever the solver.
    """
    if U.size == 0:
        return np.ones(U.shape[1])
    largest = U[np.argmax(np.abs(U), axis=0), np.arange(U.shape[1])]
    return np.where(largest < 0, -1.0, 1.0)


def principal_angles(A: Array, B: Array) -> Array:
    """Principal angles in radians, largest first, between the column spaces of A and B.

    Bjorck and Golub (1973): sines for small angles, cosines for large ones, so that angles near
    zero are not lost in the rounding of 1 - cos.
    """
    return np.asarray(scipy.linalg.subspace_angles(A, B))


def procrustes(A: Array, B: Array) -> Array:
    """The orthogonal R (q, q) that brings A R nearest to B, both (d, q), in least squares.

    Schoenemann (1966): R = U V^T from the singular value decomposition A^T B = U S V^T.
    Reflections are allowed, for the prior of z has no orientation.
    """
    U, _, Vt = np.linalg.svd(A.T @ B)
    return np.asarray(U @ Vt)
