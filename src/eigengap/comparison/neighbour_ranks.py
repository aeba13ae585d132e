"""Neighbours of a point in one space, and their ranks in another.

What trustworthiness and continuity (Venna and Kaski 2001) are made of. For every point i, its k
nearest neighbours j in one space, and of each the rank in the other,

    r(i, j) = 1 + number of points nearer to i than j.

Only the ranks of these k points are needed, so that nothing is sorted in full: points nearer than
each are counted. Points at equal distance (within rounding) share the best of their ranks: what
the distances do not tell apart is no fault of an embedding.
"""

from __future__ import annotations

import numpy as np
from scipy.spatial import cKDTree

from eigengap.comparison.pairwise import Blur, EuclideanPairs, Ints, Pairs
from eigengap.linalg import Array

TREE_COLUMNS = 6  # up to which a k-d tree finds neighbours faster than all distances
FEW = 12  # neighbours up to which comparing is faster than sorting


def nearest(D: Array, k: int) -> Ints:
    """Columns (b, k) of the k smallest entries of each row of D (b, n), nearest first."""
    found = np.argpartition(D, k - 1, axis=1)[:, :k]
    order = np.argsort(np.take_along_axis(D, found, axis=1), axis=1, kind="stable")
    return np.take_along_axis(found, order, axis=1)


def tree_neighbours(pairs: Pairs, rows: Ints, k: int) -> Ints | None:
    """The same (b, k) by a k-d tree, None where it would not be faster."""
    if not isinstance(pairs, EuclideanPairs) or pairs.X.shape[1] > TREE_COLUMNS:
        return None
    _, found = cKDTree(pairs.X).query(pairs.X[rows], k + 1)
    found = np.asarray(found, dtype=np.intp)
    itself = found == rows[:, None]
    itself[~itself.any(axis=1), -1] = True  # among many duplicates a point need not find itself
    return np.asarray(found[~itself].reshape(len(rows), k))


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
