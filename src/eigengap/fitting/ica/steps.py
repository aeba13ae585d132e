"""One step of ICA under whitening: pure functions of the moments of the rotated scores.

The components y = R z of white scores maximise sum_i |E F(y_i) - E F(nu)|, nu Gaussian. With
kappa_i = E[g'(y_i)] - E[g(y_i) y_i], which is 0 for a Gaussian by Stein's identity, and s_i its
sign (super-Gaussian +1, sub-Gaussian -1 under log cosh), the function to be minimised is
L = sum_i s_i E F(y_i) over rotations R, and along R -> exp(E) R with E skew

    gradient   Gamma_ij = (s_i E[g(y_i) y_j] - s_j E[g(y_j) y_i]) / 2,
    curvature  h_ij = (s_i (E[g'(y_i) y_j^2] - E[g(y_i) y_i]) + the same of j, i) / 2.

Where components are independent the curvature is (|kappa_i| + |kappa_j|) / 2, and the step
E = -Gamma / h is, to first order, FastICA's symmetric fixed point (Hyvarinen 1999) with the signs
of Ablin, Cardoso and Gramfort (2018), "Faster ICA under orthogonal constraint". On real signals
components are not independent: there h as it is measured preconditions L-BFGS.

Noise of covariance N in the scores, y = s + e, shifts E[g(y_i) y_j] by E[g'(y_i)] N_ij (Stein once
more, for any g; Hyvarinen 1999, "Gaussian moments for noisy independent component analysis", has
the same correction): `corrected` takes it off, so that the gradient vanishes at the true mixing.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from eigengap.linalg import Array
from eigengap.statistics.score_moments import ScoreMoments

LEAST_CURVATURE = 1e-2  # of a pair; below it steps would be larger than what they rest on
SHARE_OF_INDEPENDENT = 0.1  # of the curvature under independence that a measured one is held at
LARGEST_ANGLE = 0.5  # radians of any pair in one step of L-BFGS
MEMORY = 10  # steps that L-BFGS remembers


@dataclass(frozen=True, eq=False)
class Slope:
    """Where a rotation stands: gradient and curvature of every pair."""

    gradient: Array  # (q, q) skew
    curvature: Array  # (q, q) symmetric, bounded away from 0
    measured: Array | None  # (q, q) curvature as it is, of either sign
    kappa: Array  # (q,) Stein's discrepancy
    sign: Array  # (q,)
    newton: Array  # (q, q) whose polar factor is FastICA's next rotation

    @property
    def norm(self) -> float:
        """Largest entry of the relative gradient: what tolerances are of."""
        return float(np.max(np.abs(self.gradient), initial=0.0))

    @property
    def discrepancy(self) -> float:
        """sum_i |kappa_i|: how far from Gaussian the components are, in all."""
        return float(np.sum(np.abs(self.kappa)))


def corrected(moments: ScoreMoments, noise: Array | None) -> ScoreMoments:
    """Moments as they were without noise of covariance `noise` (q, q) in the rotated scores.

    The spread has no such simple form, and is left out.
    """
    if noise is None:
        return moments
    cross = moments.cross - moments.slope[:, None] * noise
    return ScoreMoments(moments.sum_w, cross, moments.slope, None)


def slope_at(moments: ScoreMoments) -> Slope:
    """Gradient, curvature and fixed-point step from mean moments."""
    own = np.diag(moments.cross)
    kappa = moments.slope - own
    sign = np.where(kappa < 0.0, -1.0, 1.0)
    signed = sign[:, None] * moments.cross
    size = np.abs(kappa)
    independent = np.maximum((size[:, None] + size) / 2.0, LEAST_CURVATURE)
    curvature, measured = independent, None
    if moments.spread is not None:
        half = sign[:, None] * (moments.spread - own[:, None])
        measured = (half + half.T) / 2.0
        curvature = np.maximum(measured, SHARE_OF_INDEPENDENT * independent)
        np.fill_diagonal(curvature, 1.0)
    newton = sign[:, None] * (np.diag(moments.slope) - moments.cross)
    return Slope((signed - signed.T) / 2.0, curvature, measured, kappa, sign, newton)


def fixed_point(R: Array, at: Slope) -> Array:
    """FastICA's symmetric step with signs that adapt: the polar factor of `newton`, times R."""
    return polar(at.newton) @ R


def polar(A: Array) -> Array:
    """The orthogonal matrix nearest to A (q, q): (A A')^-1/2 A."""
    U, _, Vt = np.linalg.svd(A)
    return np.asarray(U @ Vt)


def cayley(p: Array, q: int) -> Array:
    """The rotation (I - E/2)^-1 (I + E/2) of the skew E with p above its diagonal."""
    E = np.zeros((q, q))
    E[np.triu_indices(q, 1)] = p
    E -= E.T
    return np.asarray(np.linalg.solve(np.eye(q) - E / 2.0, np.eye(q) + E / 2.0))


def above_diagonal(A: Array) -> Array:
    """The q (q - 1) / 2 entries of A (q, q) above its diagonal."""
    return A[np.triu_indices(len(A), 1)]


def descent(at: Slope, steps: Array, changes: Array) -> Array:
    """Direction of L-BFGS (Nocedal 1980) for the angles of all pairs, preconditioned by curvature.

    steps, changes : (k, p) latest angles and the changes of the gradient along them, oldest first.
    """
    gradient = above_diagonal(at.gradient)
    curvature = above_diagonal(at.curvature)
    p = gradient.copy()
    rho = 1.0 / np.einsum("kp,kp->k", steps, changes)
    taken = np.empty(len(steps))
    for k in reversed(range(len(steps))):
        taken[k] = rho[k] * (steps[k] @ p)
        p -= taken[k] * changes[k]
    p /= curvature
    for k in range(len(steps)):
        p += steps[k] * (taken[k] - rho[k] * (changes[k] @ p))
    if p @ gradient <= 0.0:  # no descent: forget what is remembered
        p = gradient / curvature
    return -p


def remembered(steps: Array, changes: Array, step: Array, change: Array) -> tuple[Array, Array]:
    """The memory with one more pair, if its curvature is positive; the oldest falls out."""
    if step @ change <= 1e-10 * np.sqrt((step @ step) * (change @ change)):
        return steps, changes
    return (
        np.concatenate([steps, step[None]])[-MEMORY:],
        np.concatenate([changes, change[None]])[-MEMORY:],
    )
