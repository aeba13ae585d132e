"""Leading eigenpairs of a symmetric matrix of all pairs of rows: of Gram, kernel and distance.

The few largest of many come from block Lanczos with its certificate (`fitting.eigen.krylov`), all
of them or those of a small matrix from LAPACK. Largest means algebraically: where distances are not
Euclidean or a kernel is not positive, the matrix has negative eigenvalues too, and no coordinates
belong to those.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from eigengap.fitting.eigen.krylov import ANGLE_TOLERANCE, Product, block_width, top_eigenpairs
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
    """The k algebraically largest eigenpairs of the symmetric matrix G (n, n); None is all."""
    return leading_of(lambda V: G @ V, lambda: G, len(G), k, angle)[0]


def leading_of(
    apply: Product, formed: Callable[[], Array], n: int, k: int | None, angle: float
) -> tuple[Eigenpairs, int]:
    """The same of V -> G V, of which `formed` makes G where it has to; and products with a block.

    `angle` bounds the sine of the angle between an eigenvector and the exact one, as far as
    rounding allows.
    """
    passes = 1
    if k is not None and are_few(k, n):
        top = top_eigenpairs(apply, n, k, angle=angle)
        passes = top.passes
        if top.certified:
            return Eigenpairs(top.lam, top.U * sign_rule(top.U), complete=False), passes
    lam, V = np.linalg.eigh(formed())
    k = n if k is None else min(k, n)
    lam, V = lam[::-1][:k], V[:, ::-1][:, :k]
    return Eigenpairs(lam.copy(), V * sign_rule(V), complete=k == n), passes


def are_few(k: int, n: int) -> bool:
    """Whether Lanczos finds k of n eigenpairs in a small part of the space."""
    return n > SMALL and FEW * block_width(k) <= n


def scaled_axes(lam: Array, V: Array, floor: float) -> tuple[Array, Array, int]:
    """V lam^1/2 and V lam^-1/2, 0 where an eigenvalue is not above `floor`; how many are."""
    length = np.sqrt(np.where(lam > floor, lam, 0.0))
    inverse = np.divide(1.0, length, out=np.zeros_like(length), where=length > 0.0)
    return V * length, V * inverse, int(np.count_nonzero(length))


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
