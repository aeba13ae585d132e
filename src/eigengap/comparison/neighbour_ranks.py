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

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from eigengap.comparison.pairwise import Blur, EuclideanPairs, Ints, Pairs
from eigengap.linalg import Array

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


def kept(near: Nearest, D: Array, blur: Blur, ks: Sequence[int]) -> Kept:
    """What the distances D (b, n) of another space make of neighbours, ties left as they came."""
    found = ranks(D, blur, near.columns)
    cost = [np.sum(np.maximum(found[:, :k] - k, 0), axis=1) for k in ks]
    hits = [np.sum(found[:, :k] <= k, axis=1) for k in ks]
    return Kept(np.column_stack(cost).astype(float), np.column_stack(hits).astype(float))


def average_ties(
    out: Kept, tied: NDArray[np.bool_], here: tuple[Array, Blur], there: tuple[Array, Blur],
    ks: Sequence[int],
) -> None:  # fmt: skip
    """Put the means over all choices among points at equal distance into the rows that have any.

    `here` and `there` are the distances of those rows alone, one for each row of `tied` with a
    True, in both spaces.
    """
    (E, blur_e), (D, blur_d) = here, there
    for place, i in enumerate(np.flatnonzero(tied.any(axis=1))):
        for m, k in enumerate(ks):
            if not tied[i, m]:
                continue
            inside, group, share = _choices(E[place], blur_e.at(place), k)
            columns = np.concatenate([inside, group])[None, :]
            found = ranks(D[place : place + 1], blur_d.at(place), columns)[0]
            weight = np.repeat([1.0, share], [len(inside), len(group)])
            out.cost[i, m] = weight @ np.maximum(found - k, 0)
            out.hits[i, m] = weight @ (found <= k)


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
