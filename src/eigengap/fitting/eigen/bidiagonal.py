"""Leading singular triplets of a large matrix, with a certificate of their accuracy.

Block Golub-Kahan-Lanczos bidiagonalisation (Golub, Luk and Overton 1981) with full
reorthogonalisation on both sides and thick restart (Baglama and Reichel 2005). The matrix X is two
functions, V -> X V and U -> X'U. X'X is never formed nor applied as one operator, so that small
singular values are not squared into the rounding of the large ones.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from eigengap.fitting.eigen.krylov import ROUNDING_FLOOR, block_width, shortfall
from eigengap.linalg import Array

Product = Callable[[Array], Array]

_BASIS_BYTES = 1 << 29  # of both bases together
_BASIS_BLOCKS = 16
_NOT_CANCELLED = 0.7  # share of a vector that a projection leaves where one is enough (Kahan)
_ORTHONORMAL = 1e-10  # inner products of what is returned; a basis that decays has ghosts
_FIRST_LOOK, _LOOK_EVERY = 4, 2  # passes; a look costs a small SVD


@dataclass(frozen=True, eq=False)
class TopTriplets:
    """The k largest singular values of an operator, their vectors, and how good they are."""

    U: Array  # (n, k) orthonormal
    s: Array  # (k,) descending
    V: Array  # (d, k) orthonormal
    residual: Array  # (k,) ||X'u - s v||; X v = s u holds to rounding
    passes: int  # applications of X and of X' to a block
    certified: bool  # whether every residual was small enough when the iteration ended


def top_triplets(
    times: Product,
    adjoint: Product,
    shape: tuple[int, int],
    k: int,
    *,
    tol: float = 1e-10,
    seed: int = 0,
    max_passes: int = 150,
) -> TopTriplets:
    """The k leading singular triplets of X (n, d), d <= n.

    They are certified when every residual is at most tol s_1, and small relative to the gap
    to the neighbouring singular values, so that the vectors are separated (`krylov.shortfall`).
    """
    n, d = shape
    width = min(block_width(k), d)
    affordable = min(_BASIS_BLOCKS * width, _BASIS_BYTES // (8 * (n + d)))
    longest = min(d, max(affordable, 4 * width))
    space = _Space.empty(n, d, longest)
    V = np.linalg.qr(np.random.default_rng(seed).standard_normal((d, width)))[0]
    for passes in range(1, max_passes + 1):
        space.extend_right(V, times(V))
        V, border = space.next_right(adjoint)
        full = space.size + width > longest
        last = passes == max_passes
        if full or last or (passes >= _FIRST_LOOK and passes % _LOOK_EVERY == 0):
            Y, s, Zt = np.linalg.svd(space.inner())
            residual = np.linalg.norm(border @ Y[-border.shape[1] :], axis=0)
            short = -np.inf if space.size == d else _shortfall(s, residual, k, tol)
            if short <= 0.0 or last:
                break
            if full:
                space.restart(Y, s, Zt, keep=max(longest // 2, k + 1))
        V = V[:, : longest - space.size]
    U, W = space.left(Y[:, :k]), space.right(Zt[:k].T)
    certified = bool(short <= 0.0) and _is_orthonormal(U) and _is_orthonormal(W)
    return TopTriplets(U, s[:k], W, residual[:k], passes, certified)


def _shortfall(s: Array, residual: Array, k: int, tol: float) -> float:
    """Decades by which the worst of the first k triplets misses what is asked; <= 0 is enough.

    Singular triplets are eigenpairs of [[0, X], [X', 0]], to which the bounds of `krylov` apply.
    """
    if s[0] <= 0.0:
        return -np.inf
    allowed = max(tol, ROUNDING_FLOOR) * float(s[0])
    plain = float(np.log10(max(float(np.max(residual[:k])), 1e-300) / allowed))
    return max(plain, shortfall(s, residual, k))


def _is_orthonormal(U: Array) -> bool:
    return bool(np.max(np.abs(U.T @ U - np.eye(U.shape[1]))) <= _ORTHONORMAL)


@dataclass(eq=False)
class _Space:
    """Orthonormal bases P (n, m) and Q (d, m) with X Q = P B; X'P = Q B' up to the last block."""

    P: Array
    Q: Array
    B: Array
    size: int = 0
    last: int = 0  # columns before the last block

    @classmethod
    def empty(cls, n: int, d: int, longest: int) -> _Space:
        P, Q = np.empty((n, longest), order="F"), np.empty((d, longest), order="F")
        return cls(P, Q, np.zeros((longest, longest)))

    def inner(self) -> Array:
        """B (m, m)."""
        return self.B[: self.size, : self.size]

    def left(self, Y: Array) -> Array:
        return np.asarray(self.P[:, : self.size] @ Y)

    def right(self, Z: Array) -> Array:
        return np.asarray(self.Q[:, : self.size] @ Z)

    def extend_right(self, V: Array, image: Array) -> None:
        """Take V (d, w) into Q, and what is new of its image X V into P."""
        before, after = self.size, self.size + V.shape[1]
        coupling, updated, border = _orthogonalised(image, self.P[:, :before])
        self.Q[:, before:after], self.P[:, before:after] = V, updated
        self.B[:before, before:after], self.B[before:after, before:after] = coupling, border
        self.last, self.size = before, after

    def next_right(self, adjoint: Product) -> tuple[Array, Array]:
        """What X'P_last adds to Q: X'P_last = Q B'_last + V border."""
        image = adjoint(np.ascontiguousarray(self.P[:, self.last : self.size]))
        _, updated, border = _orthogonalised(image, self.Q[:, : self.size])
        return updated, border

    def restart(self, Y: Array, s: Array, Zt: Array, keep: int) -> None:
        """Make the leading singular vectors of B the bases."""
        left, right = self.left(Y[:, :keep]), self.right(Zt[:keep].T)
        self.P[:, :keep], self.Q[:, :keep] = left, right
        self.B[:] = 0.0
        self.B[np.arange(keep), np.arange(keep)] = s[:keep]
        self.size = keep


def _orthogonalised(image: Array, Q: Array) -> tuple[Array, Array, Array]:
    """image = Q coupling + following border, with `following` orthonormal and orthogonal to Q.

    Projected again until nothing cancels: columns that Q holds already leave only rounding, and
    QR gives them directions at random.
    """
    coupling = Q.T @ image
    updated, border = np.linalg.qr(image - Q @ coupling)
    kept = np.abs(np.diag(border)) / np.maximum(np.linalg.norm(image, axis=0), 1e-300)
    for _ in range(3):
        if np.min(kept, initial=1.0) > _NOT_CANCELLED:
            break
        updated, R = np.linalg.qr(updated - Q @ (Q.T @ updated))
        border = R @ border
        kept = np.abs(np.diag(R))
    return coupling, updated, border
