"""The smallest eigenpairs of a graph Laplacian beyond its null space, with a certificate.

The wanted end of the spectrum is the crowded one: on a path of n nodes the first eigenvalues are
(pi k / n)^2, of a matrix whose largest is 4. Two operators turn it round; both leave the null
space, which is known exactly, to itself:

- the pseudo-inverse. One node of every component is grounded, what is left is factorised
  (SuperLU, minimum degree), and its solutions are projected. The smallest eigenvalues become the
  largest and stand apart.
- a Chebyshev polynomial p(M) that stays within [-1, 1] on the unwanted part [a, b] of the spectrum
  and grows like cosh below a (Zhou and Saad 2007, "A Chebyshev-Davidson algorithm for large
  symmetric eigenproblems"). It needs products with the matrix only, where a factor would fill in:
  neighbours in many dimensions.

Block Lanczos runs on either. A block finds as many copies of a repeated eigenvalue as it has
columns, so that the two of a cycle, or the n - 2 of a star, are not missed one by one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from eigengap.fitting.eigen.krylov import tall_qr, top_eigenpairs
from eigengap.linalg import Array

ANGLE = 1e-9  # sine of the angle between an eigenvector and the exact one
FLOOR = 2e-14  # residual, relative to the largest eigenvalue, that rounding leaves
KNOWN = 1e-3  # residual, relative to an eigenvalue, up to which that exceeds rounding
SMOOTH = 1e-5  # the same, up to which a certificate of the inverse is believed
ENOUGH = 1e-8  # residual of linear equations, relative to their right side
ROUNDS = 6  # of Lanczos on the inverse, each without what was found before
LOG_GAIN = 5.0  # log of how much of 0 the polynomial lets pass, for 1 of the unwanted part
EARLIEST = 3  # polynomials that the budget has to last for, at least
PASSES = 14  # of Lanczos on one polynomial, before its interval is chosen anew
LONGEST = 20_000  # degrees in all after which the filtered iteration gives up
INVERSE_PASSES = 60  # with the pseudo-inverse, where it has four or five to do as a rule

Apply = Callable[[Array], Array]


class Operator(Protocol):
    """A symmetric positive semi-definite matrix M whose null space is known."""

    @property
    def n(self) -> int: ...

    @property
    def bound(self) -> float:
        """No eigenvalue is larger."""
        ...

    def apply(self, V: Array) -> Array:
        """M V."""
        ...

    def deflated(self, V: Array) -> Array:
        """V (n, b) without its part in the null space, in place."""
        ...


@dataclass(frozen=True, eq=False)
class Smallest:
    """The smallest eigenvalues above 0, and what is known of their accuracy."""

    lam: Array  # (k,) ascending
    V: Array  # (n, k) orthonormal
    certified: bool  # whether every vector is within ANGLE, or rounding, of an eigenvector


def by_inverse(
    M: Operator, solve: Apply, k: int, angle: float = ANGLE, seed: int = 0, most: int | None = None
) -> Smallest:
    """k eigenpairs from the largest of the pseudo-inverse; `solve` gives M x = v up to null space.

    `most` is the number of eigenvalues above 0.
    """
    most = M.n if most is None else most
    locked = np.empty((M.n, 0))

    def project(V: Array) -> Array:
        """V without its part in the null space, and along what is found already."""
        M.deflated(V)
        V -= locked @ (locked.T @ V)
        return V

    for _ in range(ROUNDS):
        had = locked.shape[1]
        wanted, left = k - had, most - had
        b = width(wanted, left)
        start = np.random.default_rng(seed).standard_normal((M.n, b))
        top = top_eigenpairs(
            lambda V: project(solve(project(V))),
            left,
            wanted,
            start=tall_qr(project(start))[0],
            project=project,
            also=b - wanted,
            max_passes=INVERSE_PASSES,
            angle=angle,
        )
        lam, U, residual = _rayleigh_ritz(M, np.concatenate([locked, top.U], axis=1))
        fine = are_fine(lam, residual, angle, M.bound, complete=len(lam) == most)
        fine |= top.certified & (residual <= SMOOTH * lam)
        if np.all(fine[:k]):
            return Smallest(lam[:k], U[:, :k], certified=True)
        # Next to a very large eigenvalue of the inverse the others drown in its rounding.
        first = int(np.argmin(fine))
        if first <= had:
            break
        locked = U[:, :first]
    return Smallest(lam[:k], U[:, :k], certified=False)


def by_filter(
    M: Operator,
    k: int,
    angle: float = ANGLE,
    seed: int = 0,
    most: int | None = None,
    longest: int = LONGEST,
) -> Smallest:
    """k eigenpairs from polynomials of M, whose interval is chosen anew as eigenvalues are known.

    Ritz values are never below the eigenvalues that they stand for, so that the largest of a block
    that is wider than k bounds the wanted part from above.
    """
    most = M.n if most is None else most
    b = width(k, most)
    start = np.random.default_rng(seed).standard_normal((M.n, b))
    U, spent, degree = tall_qr(M.deflated(start))[0], 0, 1
    # First bound - M, whose largest eigenvalues belong to the smallest of M.
    apply: Apply = lambda V: M.deflated(M.bound * V - M.apply(V))  # noqa: E731
    while True:
        top = top_eigenpairs(
            apply,
            most,
            k,
            start=U,
            project=M.deflated,
            also=2 * b - k,
            max_passes=min(PASSES, -(-(longest - spent) // degree)),
            angle=angle,
        )
        spent += degree * top.passes
        lam, U, residual = _rayleigh_ritz(M, top.U)
        fine = are_fine(lam, residual, angle, M.bound, complete=len(lam) == most)
        certified = len(lam) >= k and bool(np.all(fine[:k]))
        if certified or spent >= longest:
            return Smallest(lam[:k], U[:, :k], certified)
        above = float(lam[min(b, len(lam)) - 1])
        # At this degree T_m((c - x) / e) is cosh(LOG_GAIN) at x = 0, [above, bound] being damped.
        share = above / M.bound
        grows = float(np.arccosh((1.0 + share) / max(1.0 - share, 1e-3)))
        degree = int(np.clip(np.ceil(LOG_GAIN / max(grows, 1e-12)), 4, 2000))
        degree = min(degree, max(longest // EARLIEST, 4))
        apply, U = _chebyshev(M, above, degree), U[:, :b]


def width(k: int, most: int) -> int:
    """Columns of a block: the wanted ones, and some that widen the gap behind them."""
    return min(k + max(3, k // 3), most)


def are_fine(lam: Array, residual: Array, angle: float, bound: float, complete: bool) -> Any:
    """(m,) whether each Ritz pair of M, ascending, is within the angle of an eigenvector, or as
    near as rounding lets it come, and its eigenvalue exceeds rounding.

    sin(angle) <= residual / gap (Parlett 1998, theorem 11.7.1). Nothing is known of what lies above
    the last one, unless they are all there are.
    """
    apart = np.diff(lam)
    above = np.append(apart - residual[1:], np.inf if complete else 0.0)
    below = np.append(np.inf, apart - residual[:-1])
    within = residual <= angle * np.maximum(np.minimum(above, below), 0.0)
    return within | ((residual <= FLOOR * bound) & (residual <= KNOWN * lam))


def _rayleigh_ritz(M: Operator, U: Array) -> tuple[Array, Array, Array]:
    """Eigenvalues (ascending), vectors and residuals of M in the span of U (n, b)."""
    image = M.apply(U)
    lam, Y = np.linalg.eigh(U.T @ image)
    U, image = U @ Y, image @ Y
    return lam, U, np.asarray(np.linalg.norm(image - U * lam, axis=0))


def conjugate_gradients(M: Operator, B: Array) -> tuple[Array, bool]:
    """M^+ B of B (n, c) without part in the null space, and whether it was reached."""
    X, R = np.zeros_like(B), B.copy()
    P, squares = R.copy(), np.sum(R**2, axis=0)
    enough = ENOUGH**2 * squares
    for _ in range(LONGEST):
        if np.all(squares <= enough):
            return M.deflated(X), True
        image = M.deflated(M.apply(P))
        energy = np.sum(P * image, axis=0)
        step = np.divide(squares, energy, out=np.zeros_like(squares), where=energy > 0.0)
        X += step * P
        R -= step * image
        before, squares = squares, np.sum(R**2, axis=0)
        P = R + P * np.divide(squares, before, out=np.zeros_like(before), where=before > 0.0)
    return M.deflated(X), False


# Polynomials --------------------------------------------------------------------------------


def _chebyshev(M: Operator, above: float, degree: int) -> Apply:
    """V -> (T_m((c - M) / e) + 1) V / cosh(LOG_GAIN) by its recurrence; [above, bound] is damped.

    The sum with 1 keeps it positive semi-definite.
    """
    c, e = (M.bound + above) / 2.0, (M.bound - above) / 2.0
    scale = np.cosh(degree * np.arccosh(c / e))

    def apply(V: Array) -> Array:
        before = V
        now = (c * V - M.apply(V)) / e
        for _ in range(degree - 1):
            after = M.apply(now)
            after *= -2.0 / e
            after += (2.0 * c / e) * now
            after -= before
            before, now = now, after
        return M.deflated((now + V) / scale)

    return apply
