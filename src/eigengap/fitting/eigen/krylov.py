"""Leading eigenpairs of a large symmetric operator, with a certificate of their accuracy.

Block Lanczos with full reorthogonalisation (Golub and Underwood 1977) and thick restart (Wu and
Simon 2000). The operator is a function V -> A V, one pass over the data a call.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from eigengap.linalg import Array

VALUE_TOLERANCE = 1e-10  # of an eigenvalue, relative to the largest
ANGLE_TOLERANCE = 1e-7  # sine of the angle of an eigenvector; it costs a fifth more than 1e-4
ROUNDING_FLOOR = 1e-13  # residual, relative to lam_1, that an exact solver leaves as well

_BASIS_BYTES = 1 << 29
_BASIS_BLOCKS = 16  # half of these kept at a restart, it costs hardly a pass more than no restart


@dataclass(frozen=True, eq=False)
class TopEigenpairs:
    """The k largest eigenvalues of an operator and what is known of their accuracy."""

    lam: Array  # (k,) descending
    U: Array  # (d, k) orthonormal
    residual: Array  # (k,) ||A u - lam u||
    passes: int  # applications of the operator to a block
    certified: bool  # whether `shortfall` was <= 0 when the iteration ended


def top_eigenpairs(
    apply: Callable[[Array], Array],
    d: int,
    k: int,
    *,
    seed: int = 0,
    max_passes: int = 200,
    max_basis: int | None = None,
    angle: float = ANGLE_TOLERANCE,
) -> TopEigenpairs:
    """The k leading eigenpairs of the positive semi-definite operator V -> A V on R^d.

    `angle` is the sine of the largest angle to an exact eigenvector; 0 is as an exact solver.

    The block is wider than k: a Krylov space holds at most as many copies of a repeated
    eigenvalue as its block has columns, so that a narrower block would miss some unnoticed.
    """
    width = min(block_width(k), d)
    affordable = min(_BASIS_BLOCKS * width, _BASIS_BYTES // (8 * d))
    longest = min(d, max(max_basis or affordable, 4 * width))
    basis = np.empty((d, longest), order="F")  # orthonormal columns Q
    T = np.zeros((longest, longest))  # Q' A Q
    basis[:, :width] = np.linalg.qr(np.random.default_rng(seed).standard_normal((d, width)))[0]
    done, size = 0, width  # columns to which A has been applied; columns in all
    schedule = _Schedule()
    for passes in range(1, max_passes + 1):
        image = apply(np.ascontiguousarray(basis[:, done:size]))  # (d, width)
        coupling, updated, border = _orthogonalised(image, basis[:, :size])
        T[:size, done:size] = coupling
        T[done:size, :size] = coupling.T
        done = size
        full = done + width > longest
        if full or passes >= schedule.next_check or passes == max_passes:
            theta, Y = np.linalg.eigh(T[:done, :done])
            theta, Y = theta[::-1], Y[:, ::-1]
            # Only the last block couples to the outside.
            residual = np.linalg.norm(border @ Y[-border.shape[1] :], axis=0)
            short = -np.inf if done == d else shortfall(theta, residual, k, angle)
            if short <= 0.0 or passes == max_passes:
                break
            schedule.update(passes, short)
            if full:
                done = _thick_restart(basis, T, theta, Y, keep=max(longest // 2, k + 1))
        size = min(done + width, longest)
        basis[:, done:size] = updated[:, : size - done]
    U = basis[:, :done] @ Y[:, :k]
    return TopEigenpairs(theta[:k], U, residual[:k], passes, bool(short <= 0.0))


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


class _Schedule:
    """When to look at the Ritz values next: a look at a long basis costs as much as a pass."""

    def __init__(self) -> None:
        self.next_check = 4
        self._last: tuple[int, float] | None = None

    def update(self, passes: int, short: float) -> None:
        """Two thirds of the way that the last rate of convergence predicts."""
        wait = max(1.0, passes / 3)
        if self._last is not None:
            rate = (self._last[1] - short) / (passes - self._last[0])
            if rate > 0.0:
                wait = min(max(1.0, 0.67 * short / rate), wait)
        self.next_check = passes + int(wait)
        self._last = (passes, short)


def _orthogonalised(image: Array, Q: Array) -> tuple[Array, Array, Array]:
    """Q' A Q_last, the next block of the basis, and the border that couples it to the last.

    Projected at least twice: once leaves a part along Q as large as the cancellation made it.
    """
    coupling = Q.T @ image
    updated, border = np.linalg.qr(image - Q @ coupling)
    for _ in range(3):
        updated, R = np.linalg.qr(updated - Q @ (Q.T @ updated))
        border = R @ border
        if np.min(np.abs(np.diag(R))) > 0.5:  # nothing was cancelled
            break
    return coupling, updated, border


def _thick_restart(basis: Array, T: Array, theta: Array, Y: Array, keep: int) -> int:
    """Make the leading Ritz vectors the basis; returns how many there are."""
    basis[:, :keep] = basis[:, : len(theta)] @ Y[:, :keep]
    T[:] = 0.0
    T[np.arange(keep), np.arange(keep)] = theta[:keep]
    return keep
