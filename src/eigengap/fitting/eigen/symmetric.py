"""Leading eigenpairs of a symmetric matrix of all pairs of rows: of Gram, kernel and distance.

The few largest of many come from block Lanczos with its certificate (`fitting.eigen.krylov`), all
of them or those of a small matrix from LAPACK. Largest means algebraically: where distances are not
Euclidean or a kernel is not positive, the matrix has negative eigenvalues too, and no coordinates
belong to those.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from eigengap.fitting.eigen.krylov import ANGLE_TOLERANCE, block_width, top_eigenpairs
from eigengap.linalg import Array, sign_rule

SMALL = 500  # side up to which LAPACK is as fast
FEW = 8  # blocks of Krylov vectors that must fit well within the space, or LAPACK does it


@dataclass(frozen=True, eq=False)
class Eigenpairs:
    """The largest eigenvalues of a symmetric matrix and their eigenvectors."""

    lam: Array  # (k,) descending, of either sign
    V: Array  # (n, k) orthonormal, signs by `sign_rule`
    complete: bool  # whether these are all


def leading_eigenpairs(G: Array, k: int | None, angle: float = ANGLE_TOLERANCE) -> Eigenpairs:
    """The k algebraically largest eigenpairs of the symmetric matrix G (n, n); None is all.

    `angle` bounds the sine of the angle between an eigenvector and the exact one, as far as
    rounding allows.
    """
    n = len(G)
    if k is None or k >= n or n <= SMALL or FEW * block_width(k) > n:
        return _of_all(G, n if k is None else min(k, n))
    top = top_eigenpairs(lambda V: G @ V, n, k, angle=angle)
    if not top.certified:
        return _of_all(G, k)
    return Eigenpairs(top.lam, top.U * sign_rule(top.U), complete=False)


def double_centred(G: Array, w: Array | None = None) -> tuple[Array, Array, float]:
    """G about the mean of its rows, H G H with H = I - 1 w' / sum w, in place.

    Returns the centred matrix, its means (n,) over columns before, and the mean of those: what a
    new row is centred with.
    """
    share = np.full(len(G), 1.0 / len(G)) if w is None else w / np.sum(w)
    means = G @ share
    grand = float(share @ means)
    G -= means[:, None]
    G -= means
    G += grand
    return G, means, grand


def _of_all(G: Array, k: int) -> Eigenpairs:
    lam, V = np.linalg.eigh(G)
    lam, V = lam[::-1][:k], V[:, ::-1][:, :k]
    return Eigenpairs(lam.copy(), V * sign_rule(V), complete=k == len(G))
