"""The smallest constant that makes distances Euclidean.

Distances D of n points are Euclidean if and only if B1 = H (-D^2 / 2) H is positive semi-definite,
H = I - 1 1' / n (Schoenberg 1935; Young and Householder 1938). If they are not,

* Lingoes (1971) adds to their squares: sqrt(d^2 + 2 c) has B1 + c H, so c is -lam_min(B1);
* Cailliez (1983) adds to the distances: d + c has, with B2 = H (-D / 2) H,

      B(c) = B1 + 2 c B2 + c^2 / 2 H,

  and c is the largest eigenvalue of the 2n x 2n matrix [[0, 2 B1], [-I, -4 B2]].

That matrix is never formed. B(c) is positive semi-definite if the parabola v'B1 v + 2 c v'B2 v +
c^2 / 2 of every unit v orthogonal to 1 is not negative, and if so at one c then at every larger
one; so c is the largest root of all these parabolas. From any c below it, the eigenvector of the
smallest eigenvalue of B(c) has a parabola that is negative there, and its larger root is a better
lower bound: Newton's method, monotone, quadratic at the end.
"""

from __future__ import annotations

from math import sqrt

import numpy as np
import scipy.linalg
from numpy.typing import NDArray
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh

from eigengap.fitting.eigen.symmetric import SMALL, double_centred
from eigengap.linalg import Array
from eigengap.models.maps.distances import AdditiveConstant, Kind, inner_products

ENOUGH = 1e-13  # relative growth of c below which it has converged
MOST_STEPS = 60
NEAR = 0.01  # relative growth below which eigenvectors are found to TIGHT
LOOSE, TIGHT = 1e-4, 1e-9  # residuals of eigenvectors, relative to their matrix
KRYLOV, MOST_RESTARTS = 40, 200  # vectors of a Lanczos basis
COINCIDENT = 1e-12  # distance, relative to the largest, of points that are one
DECIMALS = 11  # of their distances to the others, relative to the largest, in which they agree


def additive_constant(D: Array, kind: Kind) -> AdditiveConstant:
    """The smallest constant for the distances D (n, n); 0 where they are Euclidean."""
    zero = COINCIDENT * float(np.max(D))
    points = np.unique(coincident(D, zero))
    distinct = D if len(points) == len(D) else D[np.ix_(points, points)]
    unit = float(np.max(distinct)) or 1.0  # squares of squares are taken on the way
    if kind == "cailliez":
        return AdditiveConstant(kind, _cailliez(distinct / unit) * unit, zero)
    return AdditiveConstant(kind, _lingoes(distinct / unit) * unit**2, zero)


def correct(D: Array, constant: AdditiveConstant) -> tuple[Array, int]:
    """D with the constant added to the distances of points that differ.

    Points that coincide are one point, however often it was given. That two are at distance 0 does
    not make them one, if a third is nearer to this than to that: the number of such pairs comes
    second.
    """
    same = coincident(D, constant.zero)
    added = AdditiveConstant(constant.kind, constant.c, zero=-1.0).corrected(D)
    np.fill_diagonal(added, 0.0)
    order = np.argsort(same, kind="stable")
    split = int(np.count_nonzero(constant.zero >= D))
    for group in np.split(order, np.flatnonzero(np.diff(same[order])) + 1):
        split -= len(group) ** 2
        if len(group) > 1:
            added[np.ix_(group, group)] = 0.0
    return added, split // 2


def coincident(D: Array, zero: float) -> NDArray[np.intp]:
    """(n,) for each point the first that coincides with it: itself where none before does.

    Points coincide that are at distance 0 and equally far from every other one.
    """
    first = np.arange(len(D))
    near = np.flatnonzero(np.count_nonzero(zero >= D, axis=1) > 1)
    if len(near) == 0:
        return first
    profiles = np.round(D[near] / (float(np.max(D)) or 1.0), DECIMALS)
    _, at, group = np.unique(profiles, axis=0, return_index=True, return_inverse=True)
    first[near] = near[at[group.ravel()]]
    return first


def _lingoes(D: Array) -> float:
    B1 = double_centred(inner_products(D))[0]
    lam, _ = _smallest(B1, None, TIGHT)
    return -lam if lam < -_slack(B1) else 0.0


def _cailliez(D: Array) -> float:
    B1 = double_centred(inner_products(D))[0]
    B2 = double_centred(-0.5 * D)[0]
    slack = _slack(B1)
    c, v, tol = 0.0, None, LOOSE
    for _ in range(MOST_STEPS):
        lam, v = _smallest(B1 + (2.0 * c) * B2, v, tol)
        constant, slope = float(v @ (B1 @ v)), float(v @ (B2 @ v))
        root = -2.0 * slope + sqrt(max(4.0 * slope**2 - 2.0 * constant, 0.0))
        # B(c) is positive if lam, to which H adds c^2 / 2, is.
        done = lam + 0.5 * c * c >= -slack or root <= c * (1.0 + ENOUGH)
        if done and tol == TIGHT:
            break
        if done or root < c * (1.0 + NEAR):
            tol = TIGHT
        c = c if done else root
    return c


def _slack(B: Array) -> float:
    """A negative eigenvalue that rounding explains."""
    return len(B) * float(np.finfo(np.float64).eps) * float(np.linalg.norm(B))


def _smallest(B: Array, v: Array | None, tol: float) -> tuple[float, Array]:
    """The smallest eigenvalue of B, never below it, and its eigenvector; from v where there is one.

    By Lanczos where B is large: a residual of tol |B| leaves the square of that, over the gap, in
    the eigenvalue. Shifted by |B|, so that an eigenvalue that is nothing but rounding converges.
    """
    n = len(B)
    if n <= SMALL:
        lam, V = np.linalg.eigh(B)
        return float(lam[0]), np.asarray(V[:, 0])
    size = float(np.linalg.norm(B))
    start = np.random.default_rng(0).standard_normal(n) if v is None else v
    shifted = LinearOperator((n, n), matvec=lambda x: B @ x - size * x, dtype=np.float64)
    try:
        _, V = eigsh(shifted, k=1, which="SA", v0=start, ncv=KRYLOV, tol=tol, maxiter=MOST_RESTARTS)
    except ArpackNoConvergence:
        _, V = scipy.linalg.eigh(B, subset_by_index=[0, 0])
    v = np.asarray(V[:, 0])
    return float(v @ (B @ v)), v
