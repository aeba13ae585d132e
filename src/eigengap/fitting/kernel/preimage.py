"""Pre-images: rows of data whose image in feature space is near a point given by its coordinates.

Two ways. The fixed point of Mika, Schoelkopf, Smola, Mueller, Scholz and Raetsch (1998), "Kernel
PCA and de-noising in feature spaces": for a Gaussian kernel the distance between sum_i c_i phi(l_i)
and phi(x) is least where

    x = sum_i c_i k(x, l_i) l_i / sum_i c_i k(x, l_i),

which is iterated; for the linear kernel it is reached at once. And kernel ridge regression of the
rows on their coordinates (Bakir, Weston and Schoelkopf 2004), the way of scikit-learn, here about
the mean of the rows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Self

import numpy as np
import scipy.linalg
import scipy.spatial
from numpy.typing import NDArray

from eigengap.exceptions import KernelOverflowError
from eigengap.linalg import Array
from eigengap.models.kernels.expected import ExpectedKernel
from eigengap.models.kernels.functions import RBF, Kernel, Linear, dense
from eigengap.models.maps.landmark import LandmarkMap, row_pieces
from eigengap.runtime.memory import require_pairs
from eigengap.sources.base import Block, Source
from eigengap.statistics.additive import Additive

MOST_STEPS = 500
TOLERANCE = 1e-7  # of a step, in units of the kernel's own length 1 / sqrt(gamma)
NEIGHBOURS = 10  # landmarks nearest in coordinates, whose mean is where a fixed point starts


def has_fixed_point(kernel: Kernel) -> bool:
    """Whether `fixed_points` applies to this kernel."""
    return isinstance(kernel, RBF | Linear)


def complete_map(at: LandmarkMap) -> LandmarkMap:
    """The map with landmarks at their expected values, and the kernel itself."""
    if not isinstance(at.kernel, ExpectedKernel):
        return at
    landmarks = at.kernel.model.conditional_mean(at.landmarks)
    return replace(at, landmarks=landmarks, kernel=at.kernel.kernel)


def fixed_points(at: LandmarkMap, Z: Array, tolerance: float = TOLERANCE) -> Array:
    """Pre-images (n, d) of the points at coordinates Z (n, q), iterated to a step of tolerance."""
    landmarks = dense(at.landmarks)
    if isinstance(at.kernel, Linear):
        origin = 0.0 if at.kernel.origin is None else at.kernel.origin
        return np.asarray(origin + at.weights(Z) @ (landmarks - origin))
    if not isinstance(at.kernel, RBF):
        raise TypeError(f"{type(at.kernel).__name__} has no fixed point")
    centre = np.mean(landmarks, axis=0)
    near = scipy.spatial.KDTree(at.forward(landmarks))
    k = min(NEIGHBOURS, near.n)
    rows = []
    for piece in row_pieces(len(Z), 4 * at.m):
        nearest = np.asarray(near.query(Z[piece], k=k)[1], dtype=np.intp).reshape(-1, k)
        C, L = at.weights(Z[piece]), landmarks - centre
        rows.append(_iterated(at.kernel, C, L, nearest, tolerance))
    return np.concatenate(rows) + centre if rows else np.empty((0, landmarks.shape[1]))


def _iterated(
    kernel: RBF, C: Array, L: Array, nearest: NDArray[np.intp], tolerance: float
) -> Array:
    """The fixed point of each row of weights C (n, m) for landmarks L (m, d).

    A step is kept only where it comes nearer, which raises sum_i c_i k(x, l_i); else half of it is
    tried. Weights of both signs can make a step overshoot.
    """
    x: Array = np.mean(L[nearest], axis=1)  # (n, d)
    target, height = _step(kernel, C, L, x)
    moving = np.arange(len(x))
    for _ in range(MOST_STEPS):
        proposed = target[moving]
        tried, reached = _step(kernel, C[moving], L, proposed)
        better = reached > height[moving]
        size = np.sqrt(kernel.gamma) * np.linalg.norm(proposed - x[moving], axis=1)
        at = moving[better]
        x[at], target[at], height[at] = proposed[better], tried[better], reached[better]
        back = moving[~better]
        target[back] = (x[back] + proposed[~better]) / 2
        moving = moving[size > tolerance]
        if len(moving) == 0:
            break
    return x


def _step(kernel: RBF, C: Array, L: Array, x: Array) -> tuple[Array, Array]:
    """Where the fixed-point equation sends each x, and sum_i c_i k(x, l_i) at x."""
    share = C * kernel.matrix(x, L)
    height = np.sum(share, axis=1)
    # Far from all landmarks, or between weights that cancel, the equation is uninformative: stay.
    usable = height > 1e-12 * np.sum(np.abs(share), axis=1)
    to = (share @ L) / np.where(usable, height, 1.0)[:, None]
    return np.where(usable[:, None], to, x), height


# Regression ---------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class RidgePreimage:
    """z -> mean + k(z, points) dual."""

    points: Array  # (m, q) coordinates
    kernel: Kernel  # of coordinates
    dual: Array  # (m, d)
    mean: Array  # (d,)

    def backward(self, Z: Array) -> Array:
        """Rows (n, d) at the coordinates Z (n, q)."""
        parts = [
            self.mean + self.kernel.matrix(Z[piece], self.points) @ self.dual
            for piece in row_pieces(len(Z), len(self.points))
        ]
        return np.concatenate(parts) if parts else np.empty((0, len(self.mean)))


def fit_ridge(
    X: Array, Z: Array, kernel: Kernel, alpha: float, w: Array | None = None
) -> RidgePreimage:
    """Regression of the rows X (n, d) with weights w on their coordinates Z (n, q).

    Least sum of w |x - f(z)|^2 + alpha |f|^2: (K + alpha diag(1 / w)) dual = X - mean.
    """
    require_pairs(
        len(Z), "the inverse transform by ridge regression", "use landmarks, or the fixed point"
    )
    mean = np.average(X, axis=0, weights=w)
    K = kernel.matrix(Z, Z)
    K[np.diag_indices(len(K))] += alpha if w is None else alpha / w
    return RidgePreimage(Z, kernel, _solved(K, X - mean), mean)


def fit_ridge_on_landmarks(
    source: Source, at: LandmarkMap, kernel: Kernel, alpha: float
) -> RidgePreimage:
    """The same with f in the span of the landmarks' coordinates, in one pass over the rows."""
    points, origin = at.forward(at.landmarks), np.median(dense(at.landmarks), axis=0)
    of = partial(_Sums.of, at=at, kernel=kernel, points=points, origin=origin)
    sums = source.reduce(of)
    cross = sums.cross - np.outer(sums.k, sums.x / sums.sum_w)
    K = kernel.matrix(points, points)
    dual = _solved(sums.square + alpha * K, cross)
    return RidgePreimage(points, kernel, dual, origin + sums.x / sums.sum_w)


@dataclass(frozen=True, eq=False)
class _Sums(Additive):
    """Sums over rows of k k', k (x - origin)', k and x - origin, k = k(z, points)."""

    square: Array  # (m, m)
    cross: Array  # (m, d)
    k: Array  # (m,)
    x: Array  # (d,)
    sum_w: float

    @classmethod
    def of(
        cls, block: Block, at: LandmarkMap, kernel: Kernel, points: Array, origin: Array
    ) -> Self:
        """`origin` (d,) is near the rows, the same in all parts."""
        total: Self | None = None
        for piece in row_pieces(block.n_rows, at.m):
            X = dense(block.values[piece])
            w = np.ones(len(X)) if block.weight is None else block.weight[piece]
            K = kernel.matrix(at.forward(X), points)
            R, weighted = X - origin, K.T * w
            with np.errstate(over="ignore", invalid="ignore"):  # `_solved` refuses what overflows
                square, cross, k = weighted @ K, weighted @ R, weighted.sum(axis=1)
            part = cls(square, cross, k, w @ R, float(w.sum()))
            total = part if total is None else total.merge(part)
        assert total is not None  # a block has rows
        return total


def _solved(K: Array, B: Array) -> Array:
    """K^-1 B for a positive matrix; least squares where it is singular (alpha = 0)."""
    if not np.all(np.isfinite(K)):
        raise KernelOverflowError
    try:
        return np.asarray(scipy.linalg.cho_solve(scipy.linalg.cho_factor(K), B))
    except np.linalg.LinAlgError:
        return np.asarray(np.linalg.pinv(K, rcond=1e-12, hermitian=True) @ B)
