"""Neighbours by all distances, each from differences: exact whatever the offset and the outliers.

Searches by matrix products, |x|^2 + |y|^2 - 2 x'y, know squared distances to the rounding of |x|^2
only. Rows for which that is not enough are looked up here, and so are rows with gaps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist
from sklearn.metrics import pairwise_distances

from eigengap.fitting.graph.distances import nan_euclidean
from eigengap.linalg import Array

Ints = NDArray[np.int64]
PIECE = 1 << 22  # distances that are held at a time


@dataclass(frozen=True, eq=False)
class Exhaustive:
    """Distances of rows to all of (n, d)."""

    rows: Array
    distances: Callable[[Array, Array], Array]

    @classmethod
    def euclidean(cls, rows: Array) -> Exhaustive:
        return cls(rows, cdist)

    @classmethod
    def of_incomplete(cls, rows: Array) -> Exhaustive:
        """Over the cells that both rows have; NaN where there are none."""
        return cls(rows, nan_euclidean)

    @classmethod
    def by(cls, rows: Array, metric: str, arguments: dict[str, Any]) -> Exhaustive:
        """By a metric that scikit-learn or SciPy knows, with arguments of its own."""
        return cls(rows, partial(pairwise_distances, metric=metric, **arguments))

    def kneighbors(
        self, X: Array | None = None, n_neighbors: int = 5, at: Ints | None = None
    ) -> tuple[Array, Ints]:
        """Distances and indices (c, k), nearest first; of fitted rows (`at`, default all) if no X.

        A fitted row is not its own neighbour. Pairs without a distance come last.
        """
        own = np.arange(len(self.rows)) if at is None and X is None else at
        lengths, nearest = [], []
        for D in self._pieces(X, own):
            found = np.argpartition(D, n_neighbors - 1, axis=1)[:, :n_neighbors]
            some = np.take_along_axis(D, found, axis=1)
            order = np.argsort(some, axis=1, kind="stable")
            lengths.append(np.take_along_axis(some, order, axis=1))
            nearest.append(np.take_along_axis(found, order, axis=1))
        return np.concatenate(lengths), np.concatenate(nearest)

    def within(
        self, radius: float, X: Array | None = None, at: Ints | None = None
    ) -> Iterator[tuple[Array, Ints]]:
        """Distances and indices of each row's neighbours within the radius."""
        own = np.arange(len(self.rows)) if at is None and X is None else at
        for D in self._pieces(X, own):
            for row in D:
                found = np.flatnonzero(row <= radius)  # False for NaN
                yield row[found], found

    def _pieces(self, X: Array | None, own: Ints | None) -> Iterator[Array]:
        among = self.rows[own] if X is None else X
        step = max(1, PIECE // len(self.rows))
        for start in range(0, len(among), step):
            D = self.distances(among[start : start + step], self.rows)
            if X is None:
                assert own is not None
                some = own[start : start + step]
                D[np.arange(len(some)), some] = np.nan  # within no radius, not even inf
            yield D
