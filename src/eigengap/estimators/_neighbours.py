"""Who is near whom: scikit-learn's and SciPy's exact searches, pynndescent's approximate one.

Distances come as sparse matrices of stored neighbours, zeros included, and never of a row to
itself among the fitted rows.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse
from scipy.spatial import cKDTree
from sklearn.metrics import pairwise_distances
from sklearn.neighbors import NearestNeighbors

from eigengap.compiled.threads import allowed
from eigengap.extras import MissingExtraError
from eigengap.linalg import Array

TREE_DIMENSIONS = 12  # up to which SciPy's tree is faster than all distances
WIDE = 30  # neighbours that the approximate search keeps while it improves them
MOST_STORED = 1 << 27  # neighbours within a radius that are kept, 2 GB of them


@dataclass(frozen=True)
class Search:
    """What counts as near, and how it is looked for."""

    n_neighbors: int | None = 5  # exactly one of this
    radius: float | None = None  # and this
    metric: Any = "minkowski"
    p: float = 2
    metric_params: dict[str, Any] | None = None
    algorithm: str = "auto"  # scikit-learn's, or "approximate"
    n_jobs: int | None = None
    seed: int = 0  # of the approximate search

    @property
    def is_euclidean(self) -> bool:
        if self.metric == "minkowski":
            return self.p == 2 and not self.metric_params
        return self.metric in ("euclidean", "l2")

    def has_tree(self, rows: Any) -> bool:
        """Whether SciPy's tree serves."""
        small = isinstance(rows, np.ndarray) and rows.shape[1] <= TREE_DIMENSIONS
        return self.is_euclidean and small and self.algorithm in ("auto", "kd_tree")

    def require_rows(self, n: int) -> None:
        """Refuse more neighbours than there are other rows."""
        if self.n_neighbors is not None and self.n_neighbors >= n:
            raise ValueError(
                f"n_neighbors={self.n_neighbors} must be smaller than the number of rows "
                f"(n_samples={n}): a row is not its own neighbour"
            )


@dataclass(frozen=True, eq=False)
class Neighbours:
    """A search over fitted rows."""

    search: Search
    rows: Any  # (n, d) float64; (n, n) distances where the metric is precomputed
    index: Any = field(repr=False)  # cKDTree, NearestNeighbors or NNDescent
    centre: Array | None = None  # (d,) about which the index has its rows; None is 0

    @classmethod
    def of(cls, search: Search, rows: Any) -> Neighbours:
        search.require_rows(rows.shape[0])
        if search.has_tree(rows):
            return cls(search, rows, cKDTree(rows))
        # |x|^2 + |y|^2 - 2 x'y, and float32, lose the digits of an offset.
        centre = np.mean(rows, axis=0) if search.is_euclidean else None
        return cls(search, rows, _index(search, _about(rows, centre)), centre)

    @property
    def n(self) -> int:
        return int(self.rows.shape[0])

    def among(self) -> scipy.sparse.csr_array:
        """Row i stores the distances (n, n) to the neighbours of row i, itself left out."""
        if self.search.radius is not None:
            return self._within(None)
        k = self.search.n_neighbors
        assert k is not None
        if isinstance(self.index, NearestNeighbors):
            lengths, nearest = self.index.kneighbors(n_neighbors=k)
            lengths = self._exact(self.rows, nearest, lengths)
        elif isinstance(self.index, cKDTree):
            found = self.index.query(self.rows, k + 1, workers=self._workers)
            lengths, nearest = _without_self(*found)
        else:
            nearest, lengths = self.index.neighbor_graph
            lengths, nearest = _without_self(lengths[:, : k + 1], nearest[:, : k + 1])
            lengths = self._exact(self.rows, nearest, lengths)
        return _stored(lengths, nearest, self.n)

    def of_new(self, X: Any) -> scipy.sparse.csr_array:
        """Row i stores the distances (c, n) of the new row i to its neighbours among the fitted."""
        if self.search.radius is not None:
            return self._within(X)
        k = self.search.n_neighbors
        assert k is not None
        if isinstance(self.index, NearestNeighbors):
            lengths, nearest = self.index.kneighbors(_about(X, self.centre), n_neighbors=k)
            lengths = self._exact(X, nearest, lengths)
        elif isinstance(self.index, cKDTree):
            lengths, nearest = self.index.query(X, range(1, k + 1), workers=self._workers)
        else:
            nearest, lengths = self.index.query(_about(X, self.centre).astype(np.float32), k)
            lengths = self._exact(X, nearest, lengths)
        return _stored(lengths, nearest, self.n)

    def pairs(self, i: Any, j: Any) -> Array:
        """Distances (a, b) between the fitted rows i (a,) and j (b,)."""
        if self.search.metric == "precomputed":
            return np.asarray(self.rows[np.ix_(i, j)])
        given = {**(self.search.metric_params or {})}
        if self.search.metric == "minkowski":
            given.setdefault("p", self.search.p)
        metric = "euclidean" if self.search.is_euclidean else self.search.metric
        given = {} if metric == "euclidean" else given
        return np.asarray(pairwise_distances(self.rows[i], self.rows[j], metric=metric, **given))

    def _exact(self, X: Any, nearest: Any, lengths: Any) -> Array:
        """Euclidean lengths anew from differences, for searches by products or in float32."""
        if not self.search.is_euclidean:
            return np.asarray(lengths, dtype=np.float64)
        squares = np.zeros(nearest.shape)
        for j in range(X.shape[1]):
            squares += (X[:, j, None] - self.rows[nearest, j]) ** 2
        return np.sqrt(squares)

    @property
    def _workers(self) -> int:
        """As many threads as are asked for, and otherwise as BLAS may use."""
        asked = self.search.n_jobs
        return allowed() if asked is None else asked

    def _within(self, X: Any) -> scipy.sparse.csr_array:
        radius = self.search.radius
        assert radius is not None
        if isinstance(self.index, cKDTree):
            among = self.rows if X is None else X
            count = self.index.query_ball_point(
                among, radius, workers=self._workers, return_length=True
            )
            _require_stored(int(np.sum(count)), radius)
            return self._in_ball(X, radius)
        new = None if X is None else _about(X, self.centre)
        graph = self.index.radius_neighbors_graph(new, radius, mode="distance")
        _require_stored(graph.nnz, radius)
        return scipy.sparse.csr_array(graph)

    def _in_ball(self, X: Any, radius: float) -> scipy.sparse.csr_array:
        among = self.rows if X is None else np.asarray(X, dtype=np.float64)
        near = self.index.query_ball_point(among, radius, workers=self._workers, return_sorted=True)
        counts = np.array([len(some) for some in near])
        columns = np.concatenate([np.asarray(some, dtype=np.int64) for some in near])
        rows = np.repeat(np.arange(len(among)), counts)
        if X is None:
            other = rows != columns
            rows, columns = rows[other], columns[other]
            counts -= 1
        lengths = np.zeros(len(rows))
        for j in range(among.shape[1]):
            lengths += (among[rows, j] - self.rows[columns, j]) ** 2
        starts = np.concatenate([[0], np.cumsum(counts)])
        return scipy.sparse.csr_array(
            (np.sqrt(lengths), columns, starts), shape=(len(among), self.n)
        )


def _index(search: Search, rows: Any) -> Any:
    if search.algorithm == "approximate":
        return _approximate(search, rows)
    return NearestNeighbors(
        n_neighbors=search.n_neighbors or 5,
        radius=search.radius or 1.0,
        algorithm=search.algorithm,
        metric=search.metric,
        p=search.p,
        metric_params=search.metric_params,
        n_jobs=search.n_jobs,
    ).fit(rows)


def _approximate(search: Search, rows: Any) -> Any:
    if search.radius is not None:
        raise ValueError("the approximate search finds n_neighbors, not those within a radius")
    if search.metric == "precomputed":
        raise ValueError("precomputed distances hold all pairs: nothing is left to approximate")
    try:
        from pynndescent import NNDescent
    except ImportError as error:
        raise MissingExtraError(
            "the approximate search for neighbours", "pynndescent", "approximate"
        ) from error
    params = dict(search.metric_params or {})
    if search.metric == "minkowski":
        params.setdefault("p", search.p)
    metric = "euclidean" if search.is_euclidean else search.metric
    assert search.n_neighbors is not None
    return NNDescent(
        rows.astype(np.float32),
        metric=metric,
        metric_kwds={} if metric == "euclidean" else params,
        n_neighbors=max(search.n_neighbors + 1, WIDE),
        random_state=search.seed,
        n_jobs=search.n_jobs or allowed(),
    )


def _about(X: Any, centre: Array | None) -> Any:
    return X if centre is None else X - centre


def _without_self(lengths: Any, nearest: Any) -> tuple[Array, Any]:
    """(n, k + 1) neighbours less the row itself: it need not be the first among rows like it."""
    n, k1 = nearest.shape
    itself = nearest == np.arange(n)[:, None]
    itself[~itself.any(axis=1), -1] = True  # more than k rows like it
    return lengths[~itself].reshape(n, k1 - 1), nearest[~itself].reshape(n, k1 - 1)


def _stored(lengths: Any, nearest: Any, n: int) -> scipy.sparse.csr_array:
    c, k = nearest.shape
    return scipy.sparse.csr_array(
        (
            np.asarray(lengths, dtype=np.float64).ravel(),
            nearest.ravel().astype(np.int64),
            np.arange(0, c * k + 1, k),
        ),
        shape=(c, n),
    )


def _require_stored(count: int, radius: float) -> None:
    if count > MOST_STORED:
        raise ValueError(
            f"radius={radius:g} makes {count} pairs of rows neighbours, more than a graph should "
            "have; take a smaller one, or n_neighbors"
        )
