"""Medians of columns whose rows count by weight."""

from __future__ import annotations

import numpy as np

from eigengap.linalg import Array


def medians(X: Array, w: Array | None = None) -> Array:
    """(d,) medians of the observed cells, rows counted w times; 0 where there are none.

    Where the cells part into two halves of one weight, the median is the mean of the two between
    them. Weights are summed with rounding, which decides on no half: w / 10 has the medians of w.
    """
    if not len(X):
        return np.zeros(X.shape[1])
    observed = ~np.isnan(X)
    at = np.arange(X.shape[1])
    if w is None:
        ordered, count = np.sort(X, axis=0), np.count_nonzero(observed, axis=0)  # NaN last
        low, high = np.maximum(count - 1, 0) // 2, np.minimum(count // 2, len(X) - 1)
    else:
        order = np.argsort(X, axis=0)
        ordered = np.take_along_axis(X, order, axis=0)
        below = np.cumsum(np.take_along_axis(observed * w[:, None], order, axis=0), axis=0)
        half = below[-1] / 2
        rounding = len(X) * np.finfo(np.float64).eps * half
        low = np.argmax(below >= half - rounding, axis=0)
        high = np.argmax(below > half + rounding, axis=0)
    first, last = ordered[low, at], ordered[high, at]
    return np.where(observed.any(axis=0), first + (last - first) / 2, 0.0)
