"""The same points in two spaces: what one makes of the neighbours in the other, block by block."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import nan, sqrt
from typing import Any, TypeVar

import numpy as np

from eigengap.comparison.embedding_arguments import coordinates, slices, table
from eigengap.comparison.neighbour_ranks import (
    Kept,
    Nearest,
    average_ties,
    kept,
    nearest,
    tree_neighbours,
)
from eigengap.comparison.pairwise import (
    ROUNDING,
    Blur,
    EuclideanPairs,
    Ints,
    Metric,
    Pairs,
    given_pairs,
    pairs_of,
)
from eigengap.linalg import Array
from eigengap.runtime.threads import in_threads, one_blas_thread

T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True, eq=False)
class Spaces:
    """The same n points twice."""

    X: Pairs
    Z: Pairs
    reference: Pairs | None  # whose distances are to be kept, where they are not those of X
    n: int

    @classmethod
    def of(cls, X: Any, Z: Any, metric: Metric, distances: Any) -> Spaces:
        rows, points = table(X, "X"), coordinates(Z, "Z")
        if len(rows) != len(points):
            raise ValueError(
                f"X has {len(rows)} rows but Z has {len(points)}: give the same points"
            )
        n = len(rows)
        reference = None if distances is None else given_pairs(distances, n)
        return cls(pairs_of(rows, metric), EuclideanPairs.of(points), reference, n)


@dataclass(frozen=True, eq=False)
class Measured:
    """Some points: what became of their neighbours, and moments of their distances."""

    trust: Kept  # in X, of the neighbours in Z
    continuity: Kept  # in Z, of the neighbours in X
    distances: DistanceMoments


def measure(spaces: Spaces, rows: Ints, ks: Sequence[int]) -> Measured:
    D, E = spaces.X.block(rows), spaces.Z.block(rows)
    trust, torn = _of_blocks(E, D, ks), _of_blocks(D, E, ks)
    if spaces.reference is not None:
        far = spaces.reference.lengths(spaces.reference.block(rows)[0])
    else:
        far = spaces.X.lengths(D[0])
    return Measured(trust, torn, DistanceMoments.of(far, spaces.Z.lengths(E[0]), rows))


def _of_blocks(here: tuple[Array, Blur], there: tuple[Array, Blur], ks: Sequence[int]) -> Kept:
    """What `there` makes of the neighbours `here`, both distances (b, n) of the same points."""
    near = nearest(*here, ks)
    found = kept(near, *there, ks)
    at = np.flatnonzero(near.tied.any(axis=1))
    if len(at):
        average_ties(found, near.tied, _only(here, at), _only(there, at), ks)
    return found


def across(here: Pairs, there: Pairs, rows: Ints, k: int, n_jobs: int | None) -> Kept:
    """The same for all of some points, where one figure is enough."""
    by_tree = tree_neighbours(here, rows, [k])

    def of(part: slice) -> Kept:
        some, block = rows[part], there.block(rows[part])
        if by_tree is None:
            return _of_blocks(here.block(some), block, [k])
        near = Nearest(by_tree.columns[part], by_tree.tied[part])
        found = kept(near, *block, [k])
        at = np.flatnonzero(near.tied.any(axis=1))
        if len(at):
            average_ties(found, near.tied, here.block(some[at]), _only(block, at), [k])
        return found

    return Kept.together(over(of, slices(len(rows), here.n), n_jobs))


def _only(block: tuple[Array, Blur], at: Ints) -> tuple[Array, Blur]:
    D, blur = block
    return D[at], Blur(blur.added[at], blur.rooted)


def over(fn: Callable[[T], R], parts: Iterable[T], n_jobs: int | None) -> list[R]:
    """fn of every part; products of so few rows gain nothing from further threads of BLAS."""
    with one_blas_thread():
        return in_threads(fn, parts, n_jobs)


# Distances -------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class DistanceMoments:
    """Moments of pairs of distances (d, d'), which merge (Chan, Golub and LeVeque 1983)."""

    count: float
    mean: Array  # (2,)
    scatter: Array  # (2, 2) about the mean

    @classmethod
    def of(cls, far: Array, near: Array, rows: Ints) -> DistanceMoments:
        """far, near (b, n) of the points `rows` (b,) to all; both are used up."""
        count, itself = float(far.size - len(rows)), (np.arange(len(rows)), rows)
        far[itself] = near[itself] = 0.0
        mean = np.array([np.sum(far), np.sum(near)]) / count
        if not np.isfinite(mean[0]):
            raise ValueError(
                "some distances are infinite: points that no path joins have no distance to keep; "
                "measure each component by itself"
            )
        far -= mean[0]
        near -= mean[1]
        far[itself] = near[itself] = 0.0  # a point and itself are no pair
        cross = np.vdot(far, near)
        return cls(
            count, mean, np.array([[np.vdot(far, far), cross], [cross, np.vdot(near, near)]])
        )

    @classmethod
    def merged(cls, parts: Sequence[DistanceMoments]) -> DistanceMoments:
        count = float(sum(part.count for part in parts))
        mean = sum((part.count / count * part.mean for part in parts), np.zeros(2))
        scatter = np.zeros((2, 2))
        for part in parts:
            delta = part.mean - mean
            scatter += part.scatter + part.count * np.outer(delta, delta)
        return cls(count, mean, scatter)

    @property
    def residual_variance(self) -> float:
        """1 - r^2; where either does not vary, 0 if both do not and 1 if the other does."""
        (a, c), (_, b) = self.scatter
        varies = np.array([a, b]) > self.count * (ROUNDING * self.mean) ** 2
        if not np.all(varies):
            return float(np.any(varies))
        return float(max(1.0 - c * c / (a * b), 0.0))

    @property
    def stress(self) -> float:
        """Of 0 where all are 0, of 1 where all distances of the embedding are."""
        (a, c), (_, b) = self._about_zero
        if a <= 0.0 or b <= 0.0:
            return float(a > 0.0)
        return float(sqrt(max(1.0 - c * c / (a * b), 0.0)))

    @property
    def scale(self) -> float:
        (_, c), (_, b) = self._about_zero
        return float(c / b) if b > 0.0 else nan

    @property
    def _about_zero(self) -> Array:
        return self.scatter + self.count * np.outer(self.mean, self.mean)
