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

Tichavsky, Koldovsky and Oja (2006), "Performance analysis of the FastICA algorithm and Cramer-Rao
bounds", section V: where a search ends short of independence, it is mostly because two sources lie
mixed half and half in two components, and rotating these by 45 degrees shows it. `rotated_pairs`
tries all pairs, on a sample of the rows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from eigengap.linalg import Array
from eigengap.statistics.nonlinearity import Nonlinearity, gaussian_reference
from eigengap.statistics.score_moments import ScoreBlock, ScoreMoments

LEAST_CURVATURE = 1e-2  # of a pair; below it steps would be larger than what they rest on
SHARE_OF_INDEPENDENT = 0.1  # of the curvature under independence that a measured one is held at
LARGEST_ANGLE = 0.5  # radians of any pair in one step of L-BFGS
MEMORY = 10  # steps that L-BFGS remembers
ROWS = 2048  # on which pairs are judged
ERRORS = 3.0  # standard errors by which a rotation of a pair must improve
HALF = np.sqrt(0.5)


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

    `spread` has no such simple form, and is left out.
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


# Leaving saddles -----------------------------------------------------------------------------


def rotated_pairs(block: ScoreBlock, R: Array, fun: Nonlinearity) -> Array | None:
    """R with its improvable pairs rotated, or None where there are none.

    A component takes part in one rotation at most, the most promising ones first.
    """
    Y = np.asarray(block.Z @ R.T, dtype=np.float32)
    w = np.ones(len(Y)) if block.weight is None else block.weight
    share = (w / np.sum(w)).astype(np.float32)
    centre = gaussian_reference(fun, 1.0).potential
    before, found = _distance(Y, share, fun, centre), []
    for i in range(Y.shape[1] - 1):
        one, others = Y[:, i : i + 1], Y[:, i + 1 :]
        rotated = _distance((one + others) * np.float32(HALF), share, fun, centre)
        rotated += _distance((one - others) * np.float32(HALF), share, fun, centre)
        for j in (i + 1 + np.flatnonzero(rotated > before[i] + before[i + 1 :])).tolist():
            gain, error = _gain(Y[:, [i, j]], w, fun, centre)
            if gain > ERRORS * error:
                found.append((gain, i, j))
    if not found:
        return None
    rotation, free = np.eye(len(R)), np.ones(len(R), dtype=bool)
    for _, i, j in sorted(found, key=lambda pair: (-pair[0], pair[1:])):
        if free[i] and free[j]:
            free[i] = free[j] = False
            rotation[np.ix_([i, j], [i, j])] = HALF * np.array([[1.0, 1.0], [1.0, -1.0]])
    return rotation @ R


def _distance(
    Y: NDArray[np.float32], share: NDArray[np.float32], fun: Nonlinearity, centre: float
) -> Array:
    """|E F(y) - E F(nu)| of each column."""
    F = fun.potential(Y)
    assert F is not None
    return np.abs(np.asarray(share @ F, dtype=np.float64) - centre)


def _gain(
    pair: NDArray[np.float32], w: Array, fun: Nonlinearity, centre: float
) -> tuple[float, float]:
    """What rotating a pair (k, 2) gains, and its standard error.

    Over all rows the pair is white. So what the gain has in common with squares and product of
    the pair is no chance of the sample: it is regressed out.
    """
    y = pair.astype(np.float64)
    rotated = y @ (HALF * np.array([[1.0, 1.0], [1.0, -1.0]]))
    terms = np.zeros(len(y))
    for Y, side in ((rotated, 1.0), (y, -1.0)):
        F = fun.potential(Y)
        assert F is not None
        mean = w @ F / np.sum(w)
        terms += side * ((F - centre) @ np.where(mean > centre, 1.0, -1.0))
    squares = np.column_stack([np.ones(len(y)), y**2 - 1.0, y[:, 0] * y[:, 1]])
    root = np.sqrt(w)
    fitted = np.linalg.lstsq(squares * root[:, None], terms * root, rcond=None)[0]
    rest = terms - squares @ fitted
    return float(fitted[0]), float(np.sqrt(w @ rest**2) / np.sum(w))
