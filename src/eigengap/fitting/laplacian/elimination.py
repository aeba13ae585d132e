"""All eigenpairs of a small graph Laplacian, however much its weights differ in size.

LAPACK's eigenvalues have errors of rounding times the largest: where parts of a graph hang together
by 1e-20 of their degrees, all that it says of the smallest is that it is small. But weights are not
negative, and what is not subtracted loses no digits. Elimination of node p from L = D - W leaves
the Laplacian of the other nodes with the weights

    W_ij + W_ip W_pj / s_p,     s_p = sum_j W_pj

(Grassmann, Taksar and Heyman 1985): sums of products alone. Node by node, largest s_p / m_p first,

    m^-1/2 L m^-1/2 = G G',     G = m^-1/2 [sqrt(s_p) (e_p - W_.p / s_p)]_p,

a matrix of well-conditioned columns of any length. One-sided Jacobi has its singular values, the
square roots of the eigenvalues, each to its own relative accuracy (Demmel, Gu, Eisenstat,
Slapnicar, Veselic and Drmac 1999; LAPACK's dgejsv, Drmac and Veselic 2008).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dgejsv

from eigengap.linalg import Array

MOST = 1500  # nodes, of which it takes some seconds
COLUMN_SCALED, WITH_VECTORS, NONE, WHOLE_RANGE = 0, 0, 3, 0  # options of dgejsv


def eigenpairs_by_elimination(W: Array, mass: Array) -> tuple[Array, Array]:
    """Eigenvalues above 0 of m^-1/2 (D - W) m^-1/2, ascending, and orthonormal vectors (n, r).

    W (n, n) is symmetric, not negative and 0 on the diagonal; mass (n,) is positive.
    """
    return by_jacobi(_factor(W, mass))


def by_jacobi(G: Array) -> tuple[Array, Array]:
    """Eigenvalues of G G', ascending, and orthonormal vectors (n, r); G (n, r) is of full rank."""
    if not G.shape[1]:
        return np.zeros(0), G
    sigma, U, _, work, _, info = dgejsv(
        G, joba=COLUMN_SCALED, jobu=WITH_VECTORS, jobv=NONE, jobr=WHOLE_RANGE
    )
    if info > 0:
        raise np.linalg.LinAlgError("the one-sided Jacobi iteration did not converge")
    order = np.argsort(sigma, kind="stable")
    return (sigma[order] * (work[0] / work[1])) ** 2, np.asarray(U[:, order])


def _factor(W: Array, mass: Array) -> Array:
    """G (n, r), r = n less the number of components."""
    n = len(W)
    A, nodes, root = np.array(W, dtype=np.float64), np.arange(n), np.sqrt(mass)
    G = np.zeros((n, n), order="F")
    for k in range(n - 1):
        s = np.sum(A, axis=1)
        p, last = int(np.argmax(s / mass[nodes])), n - 1 - k
        if s[p] <= 0.0:  # every component has come down to one node
            return G[:, :k]
        _swap(A, nodes, p, last)
        pivot, to_others = s[p], A[:last, last] / s[p]
        G[nodes[last], k] = np.sqrt(pivot) / root[nodes[last]]
        G[nodes[:last], k] = -np.sqrt(pivot) * to_others / root[nodes[:last]]
        row = A[last, :last].copy()
        A, nodes = A[:last, :last], nodes[:last]
        near = np.flatnonzero(row)
        if len(near) < last // 4:  # sparse rows stay so for a while
            A[np.ix_(near, near)] += np.outer(to_others[near], row[near])
        else:
            A += np.outer(to_others, row)
        A[np.arange(last), np.arange(last)] = 0.0
    return G[:, : n - 1]


def _swap(A: Array, nodes: NDArray[Any], p: int, last: int) -> None:
    if p != last:
        A[[p, last]] = A[[last, p]]
        A[:, [p, last]] = A[:, [last, p]]
        nodes[[p, last]] = nodes[[last, p]]
