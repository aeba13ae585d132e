"""Neighbours of a point in one space, and what becomes of them in another.

What trustworthiness and continuity (Venna and Kaski 2001) are made of. For every point i, its k
nearest neighbours j in one space, and of each the rank in the other,

    r(i, j) = 1 + number of points nearer to i than j.

Only the ranks of these k points are needed, so that nothing is sorted in full: points nearer than
each are counted.

Points at equal distance (within rounding) share the best of their ranks: what the distances do not
separate is no fault of an embedding. Where the k-th neighbour is one of several at its distance,
which of them are taken would be chance: each counts with the same share, so that figures are means
over all choices, and the order of the points does not matter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from eigengap.comparison.pairwise import Blur, EuclideanPairs, Ints, Pairs
from eigengap.linalg import Array
from eigengap.runtime.threads import in_threads, one_blas_thread

T = TypeVar("T")
R = TypeVar("R")

BLOCK_BYTES = 4 << 20  # of distances that are computed at a time, so that they stay in the cache
TREE_COLUMNS = 6  # up to which a k-d tree finds neighbours faster than all distances
FEW = 12  # neighbours up to which comparing is faster than sorting


@dataclass(frozen=True, eq=False)
class Kept:
    """What another space makes of the neighbours of b points, for each size k of neighbourhood."""

    cost: Array  # (b, sizes) sum over the neighbours of max(0, rank there - k)
    hits: Array  # (b, sizes) how many of them are among the k nearest there

    @classmethod
    def together(cls, parts: Sequence[Kept]) -> Kept:
        return cls(
            np.concatenate([part.cost for part in parts]),
            np.concatenate([part.hits for part in parts]),
        )


@dataclass(frozen=True, eq=False)
class Nearest:
    """The nearest of some points, and where their number cuts through points at equal distance."""

    columns: Ints  # (b, k) nearest first, k the largest size asked for
    tied: NDArray[np.bool_]  # (b, sizes) whether the point after the k-th may be as near


def nearest(D: Array, blur: Blur, ks: Sequence[int]) -> Nearest:
    """By the distances D (b, n) themselves, inf for a point itself."""
    most, others = max(ks), D.shape[1] - 1
    count = min(most + 1, others)
    found = np.argpartition(D, count - 1, axis=1)[:, :count]
    lengths = np.take_along_axis(D, found, axis=1)
    order = np.argsort(lengths, axis=1, kind="stable")
    columns = np.take_along_axis(found, order, axis=1)[:, :most]
    return Nearest(columns, _tied(np.take_along_axis(lengths, order, axis=1), blur, ks))


def tree_neighbours(pairs: Pairs, rows: Ints, ks: Sequence[int]) -> Nearest | None:
    """The same by a k-d tree, None where it would not be faster."""
    if not isinstance(pairs, EuclideanPairs) or pairs.X.shape[1] > TREE_COLUMNS:
        return None
    count = min(max(ks) + 1, pairs.n - 1)
    lengths, nodes = cKDTree(pairs.X).query(pairs.X[rows], count + 1)
    found = np.asarray(nodes, dtype=np.intp)
    itself = found == rows[:, None]
    itself[~itself.any(axis=1), -1] = True  # among many copies a point need not find itself
    squares = np.square(np.asarray(lengths)[~itself].reshape(len(rows), count))
    columns = found[~itself].reshape(len(rows), count)
    return Nearest(columns[:, : max(ks)], _tied(squares, pairs.blur(len(rows)), ks))


def _tied(lengths: Array, blur: Blur, ks: Sequence[int]) -> NDArray[np.bool_]:
    """(b, sizes) from ordered distances; never where k is all points."""
    columns = []
    for k in ks:
        if k < lengths.shape[1]:
            columns.append(blur.below(lengths[:, k : k + 1])[:, 0] <= lengths[:, k - 1])
        else:
            columns.append(np.zeros(len(lengths), dtype=bool))
    return np.column_stack(columns)


def across(here: Pairs, there: Pairs, rows: Ints, k: int, n_jobs: int | None) -> Kept:
    """What `there` makes of the k nearest neighbours `here` of some points."""
    by_tree = tree_neighbours(here, rows, [k])

    def of(part: slice) -> Kept:
        some, block = rows[part], there.block(rows[part])
        if by_tree is None:
            return kept(here.block(some), block, [k])
        near = Nearest(by_tree.columns[part], by_tree.tied[part])
        return _kept(near, lambda at: here.block(some[at]), block, [k])

    return Kept.together(over(of, slices(len(rows), here.n), n_jobs))


def kept(here: tuple[Array, Blur], there: tuple[Array, Blur], ks: Sequence[int]) -> Kept:
    """What `there` makes of the neighbours `here`, both distances (b, n) of the same points."""
    return _kept(nearest(*here, ks), lambda at: _only(here, at), there, ks)


def _kept(
    near: Nearest,
    here: Callable[[Ints], tuple[Array, Blur]],  # distances of some of the points
    there: tuple[Array, Blur],
    ks: Sequence[int],
) -> Kept:
    found = ranks(*there, near.columns)
    cost = [np.sum(np.maximum(found[:, :k] - k, 0), axis=1) for k in ks]
    hits = [np.sum(found[:, :k] <= k, axis=1) for k in ks]
    out = Kept(np.column_stack(cost).astype(float), np.column_stack(hits).astype(float))
    at = np.flatnonzero(near.tied.any(axis=1))
    if len(at) == 0:
        return out
    # Means over all choices among points at equal distance, for the points that have any
    (E, blur_e), (D, blur_d) = here(at), _only(there, at)
    for place, i in enumerate(at):
        for m, k in enumerate(ks):
            if not near.tied[i, m]:
                continue
            inside, group, share = _choices(E[place], blur_e.at(place), k)
            columns = np.concatenate([inside, group])[None, :]
            rank = ranks(D[place : place + 1], blur_d.at(place), columns)[0]
            weight = np.repeat([1.0, share], [len(inside), len(group)])
            out.cost[i, m] = weight @ np.maximum(rank - k, 0)
            out.hits[i, m] = weight @ (rank <= k)
    return out


def _only(block: tuple[Array, Blur], at: Ints) -> tuple[Array, Blur]:
    D, blur = block
    return D[at], Blur(blur.added[at], blur.rooted)


def _choices(E: Array, blur: Blur, k: int) -> tuple[Ints, Ints, float]:
    """Points (n,) certainly among the k nearest, those that may be, and the share that is."""
    last = float(np.partition(E, k - 1)[k - 1])
    low = float(blur.below(np.array([[last]]))[0, 0])
    inside = np.flatnonzero(low > E)
    group = np.flatnonzero((low <= E) & (last + (last - low) >= E))
    return inside, group, (k - len(inside)) / len(group)


def ranks(D: Array, blur: Blur, columns: Ints) -> Ints:
    """Ranks (b, k), from 1, of some columns among each row of D (b, n).

    Entries that differ by less than rounding are equal.
    """
    bar = blur.below(np.take_along_axis(D, columns, axis=1))  # (b, k)
    out = np.empty(columns.shape, dtype=np.intp)
    if columns.shape[1] <= FEW:
        for m in range(columns.shape[1]):
            nearer = bar[:, m, None] > D
            out[:, m] = nearer.view(np.uint8).sum(axis=1, dtype=np.uint32)
    else:
        ordered = np.sort(D, axis=1)
        for i in range(len(D)):
            out[i] = np.searchsorted(ordered[i], bar[i], side="left")
    return out + 1


def over(fn: Callable[[T], R], parts: Iterable[T], n_jobs: int | None) -> list[R]:
    """fn of every part; products of so few rows gain nothing from further threads of BLAS."""
    with one_blas_thread():
        return in_threads(fn, parts, n_jobs)


def slices(m: int, n: int) -> list[slice]:
    """m points in pieces whose distances to all n stay in the cache."""
    step = max(1, BLOCK_BYTES // (8 * n))
    return [slice(start, min(start + step, m)) for start in range(0, m, step)]
