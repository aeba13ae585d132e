"""Leading eigenpairs and singular triplets of a large operator, with a certificate of accuracy.

Block Lanczos with full reorthogonalisation (Golub and Underwood 1977) and thick restart (Wu and
Simon 2000). The operator is a function V -> A V, one pass over the data a call.

For singular triplets block Golub-Kahan-Lanczos bidiagonalisation (Golub, Luk and Overton 1981),
reorthogonalised on both sides, restarted likewise (Baglama and Reichel 2005). The matrix X is two
functions, V -> X V and U -> X'U. X'X is never formed nor applied as one operator, so that small
singular values are not squared into the rounding of the large ones.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from eigengap.linalg import Array

Product = Callable[[Array], Array]

VALUE_TOLERANCE = 1e-10  # of an eigenvalue, relative to the largest
ANGLE_TOLERANCE = 1e-7  # sine of the angle of an eigenvector; it costs a fifth more than 1e-4
ROUNDING_FLOOR = 1e-13  # residual, relative to lam_1, that an exact solver leaves as well

_BASIS_BYTES = 1 << 29  # of a basis, or of both together
_BASIS_BLOCKS = 16  # half of these kept at a restart, it costs hardly a pass more than no restart
_NOT_CANCELLED = 0.7  # share of a vector that a projection leaves where one is enough (Kahan)
_ORTHONORMAL = 1e-10  # inner products of what is returned; a basis that decays has ghosts
_FIRST_LOOK, _LOOK_EVERY = 4, 2  # passes; a look at a long basis costs as much as a pass
_DEPENDENT = 1e-6  # pivot of a column of unit length below which Cholesky's Q loses digits


@dataclass(frozen=True, eq=False)
class TopEigenpairs:
    """The k largest eigenvalues of an operator and what is known of their accuracy."""

    lam: Array  # (k,) descending
    U: Array  # (d, k) orthonormal
    residual: Array  # (k,) ||A u - lam u||
    passes: int  # applications of the operator to a block
    certified: bool  # whether `shortfall` was <= 0 when the iteration ended


def top_eigenpairs(
    apply: Product,
    d: int,
    k: int,
    *,
    seed: int = 0,
    start: Array | None = None,
    project: Product | None = None,
    also: int = 0,
    max_passes: int = 200,
    max_basis: int | None = None,
    angle: float = ANGLE_TOLERANCE,
) -> TopEigenpairs:
    """The k leading eigenpairs of the positive semi-definite operator V -> A V on R^d.

    `angle` is the sine of the largest angle to an exact eigenvector; 0 is as an exact solver.
    `also` so many pairs come after the k, whatever their accuracy. An operator on a subspace of
    dimension d has a `start` (n, b) in it, and `project`, which takes vectors to it in place.

    The block is wider than k: a Krylov space holds at most as many copies of a repeated
    eigenvalue as its block has columns, so that a narrower block would miss some unnoticed.
    """
    if start is None:
        width = min(block_width(k), d)
        start = np.linalg.qr(np.random.default_rng(seed).standard_normal((d, width)))[0]
    n, width = start.shape
    affordable = min(_BASIS_BLOCKS * width, _BASIS_BYTES // (8 * n))
    longest = min(d, max(max_basis or affordable, 4 * width))
    basis = np.empty((n, longest), order="F")  # orthonormal columns Q
    T = np.zeros((longest, longest))  # Q' A Q
    basis[:, :width] = start
    done, size = 0, width  # columns to which A has been applied; columns in all
    look, previous = _FIRST_LOOK, (0, np.inf)  # pass of the next look; of the last, what it found
    for passes in range(1, max_passes + 1):
        image = apply(np.ascontiguousarray(basis[:, done:size]))  # (n, width)
        coupling, updated, border = _orthogonalised(image, basis[:, :size], project)
        T[:size, done:size] = coupling
        T[done:size, :size] = coupling.T
        done = size
        # A basis of the whole space ends with a narrower block: QR has no more directions to give.
        full = done + width > longest if longest < d else done == d
        if full or passes >= look or passes == max_passes:
            theta, Y = np.linalg.eigh(T[:done, :done])
            theta, Y = theta[::-1], Y[:, ::-1]
            # Only the last block couples to the outside.
            residual = np.linalg.norm(border @ Y[-border.shape[1] :], axis=0)
            short = -np.inf if done == d else shortfall(theta, residual, k, angle)
            if short <= 0.0 or passes == max_passes:
                break
            # Two thirds of the way that the last rate of convergence predicts.
            wait, rate = max(1.0, passes / 3), (previous[1] - short) / (passes - previous[0])
            if 0.0 < rate < np.inf:
                wait = min(max(1.0, 0.67 * short / rate), wait)
            look, previous = passes + int(wait), (passes, short)
            if full:  # thick restart: the leading Ritz vectors become the basis
                keep = max(longest // 2, k + 1)
                basis[:, :keep] = basis[:, :done] @ Y[:, :keep]
                T[:] = 0.0
                T[np.arange(keep), np.arange(keep)] = theta[:keep]
                done = keep
        size = min(done + width, longest)
        basis[:, done:size] = updated[:, : size - done]
    found = k + also
    U = basis[:, :done] @ Y[:, :found]
    return TopEigenpairs(theta[:found], U, residual[:found], passes, bool(short <= 0.0))


def block_width(k: int) -> int:
    """Columns of a block: the wanted k, their neighbour below, and some to widen the gap."""
    return k + max(2, k // 5)


def shortfall(theta: Array, residual: Array, k: int, angle: float = ANGLE_TOLERANCE) -> float:
    """Decades by which the worst of the first k Ritz pairs misses the two tolerances.

    |lam - theta| <= r^2 / gap and sin(angle) <= r / gap (Parlett 1998, theorem 11.7.1), where the
    gap is to the neighbouring Ritz values and the one below the k-th is moved up by its own
    residual, because it has not converged yet. A residual at the rounding floor is accepted
    whatever the gap: eigenvectors of a cluster are then as good as an exact solver's.
    """
    if len(theta) <= k:
        return np.inf
    scale = float(theta[0])
    if scale <= 0.0:  # the zero operator: every vector is an eigenvector
        return -np.inf
    below = theta[:k] - (theta[1 : k + 1] + residual[1 : k + 1])
    above = np.concatenate([[np.inf], theta[: k - 1] - residual[: k - 1] - theta[1:k]])
    gap = np.maximum(np.minimum(below, above), 0.0)
    allowed = np.minimum(angle * gap, np.sqrt(VALUE_TOLERANCE * scale * gap))
    allowed = np.maximum(allowed, ROUNDING_FLOOR * scale)
    return float(np.max(np.log10(np.maximum(residual[:k], 1e-300) / allowed)))


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
    to the neighbouring singular values, so that the vectors are separated (`shortfall`, of the
    eigenpairs of [[0, X], [X', 0]]).
    """
    n, d = shape
    width = min(block_width(k), d)
    affordable = min(_BASIS_BLOCKS * width, _BASIS_BYTES // (8 * (n + d)))
    longest = min(d, max(affordable, 4 * width))
    # Orthonormal P, Q and B with X Q = P B, and X'P = Q B' up to the last block.
    P, Q = np.empty((n, longest), order="F"), np.empty((d, longest), order="F")
    B = np.zeros((longest, longest))
    V = np.linalg.qr(np.random.default_rng(seed).standard_normal((d, width)))[0]
    size = 0
    for passes in range(1, max_passes + 1):
        before, size = size, size + V.shape[1]
        Q[:, before:size] = V
        coupling, P[:, before:size], border = _orthogonalised(times(V), P[:, :before])
        B[:before, before:size], B[before:size, before:size] = coupling, border
        image = adjoint(np.ascontiguousarray(P[:, before:size]))
        _, V, border = _orthogonalised(image, Q[:, :size])
        full = size + width > longest if longest < d else size == d
        last = passes == max_passes
        if full or last or (passes >= _FIRST_LOOK and passes % _LOOK_EVERY == 0):
            Y, s, Zt = np.linalg.svd(B[:size, :size])
            residual = np.linalg.norm(border @ Y[-border.shape[1] :], axis=0)
            short = -np.inf
            if size < d and s[0] > 0.0:
                allowed = max(tol, ROUNDING_FLOOR) * float(s[0])
                plain = float(np.log10(max(float(np.max(residual[:k])), 1e-300) / allowed))
                short = max(plain, shortfall(s, residual, k))
            if short <= 0.0 or last:
                break
            if full:
                keep = max(longest // 2, k + 1)
                P[:, :keep], Q[:, :keep] = P[:, :size] @ Y[:, :keep], Q[:, :size] @ Zt[:keep].T
                B[:] = 0.0
                B[np.arange(keep), np.arange(keep)] = s[:keep]
                size = keep
        V = V[:, : longest - size]
    U, W = P[:, :size] @ Y[:, :k], Q[:, :size] @ Zt[:k].T
    off = max(float(np.max(np.abs(A.T @ A - np.eye(k)))) for A in (U, W))
    certified = bool(short <= 0.0) and off <= _ORTHONORMAL
    return TopTriplets(U, s[:k], W, residual[:k], passes, certified)


def _orthogonalised(
    image: Array, Q: Array, project: Product | None = None
) -> tuple[Array, Array, Array]:
    """image = Q coupling + updated border, with `updated` orthonormal and orthogonal to Q.

    Projected again until nothing cancels: columns that Q holds already leave only rounding, and
    QR gives them directions at random.
    """
    coupling = Q.T @ image
    length = np.linalg.norm(image, axis=0)
    rest = image - Q @ coupling
    updated, border = tall_qr(rest if project is None else project(rest))
    kept = np.abs(np.diag(border)) / np.maximum(length, 1e-300)
    for _ in range(3):
        if np.min(kept, initial=1.0) > _NOT_CANCELLED:
            break
        rest = updated - Q @ (Q.T @ updated)
        updated, R = tall_qr(rest if project is None else project(rest))
        border = R @ border
        kept = np.abs(np.diag(R))
    return coupling, updated, border


def tall_qr(V: Array) -> tuple[Array, Array]:
    """Q R of a tall block by Cholesky, twice; by Householder where it is nearly dependent.

    On columns as long as these the products of Cholesky take a tenth of LAPACK's time.
    """
    norms = np.linalg.norm(V, axis=0)
    Q, R = V / np.where(norms > 0.0, norms, 1.0), np.diag(norms)
    for _ in range(2):
        try:
            factor = np.linalg.cholesky(Q.T @ Q).T
        except np.linalg.LinAlgError:
            factor = np.zeros((1, 1))
        if np.min(np.diag(factor), initial=1.0) < _DEPENDENT:
            Q, R = np.linalg.qr(V)
            break
        # The second round makes up for the inverse. SciPy's solver has threads of its own, and the
        # two pools wait for each other: it took three times as long.
        Q = Q @ np.linalg.inv(factor)
        R = factor @ R
    return Q, R
