"""Nearest neighbours: the exact searches of scikit-learn and SciPy, pynndescent's approximate one.

Distances come as sparse matrices that store those to neighbours, zeros included. A fitted row is
not its own neighbour.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray
from scipy.spatial import cKDTree
from scipy.spatial.distance import cdist
from sklearn.metrics import pairwise_distances
from sklearn.neighbors import NearestNeighbors

from eigengap.exceptions import MissingExtraError
from eigengap.fitting.graph import stored
from eigengap.fitting.graph.distances import CheckedMetric, estimated, naming_rows, nan_euclidean
from eigengap.linalg import Array
from eigengap.runtime.threads import workers_for
from eigengap.sources.base import Block
from eigengap.statistics.moments import Moments

TREE_DIMENSIONS = 12  # up to which SciPy's tree is faster than all distances
WIDE = 30  # neighbours that the approximate search keeps while it improves them
CITY_BLOCK = ("manhattan", "cityblock", "l1")
TAKES_NOTHING = ("euclidean", "l2", "nan_euclidean", "precomputed")  # metrics without arguments
RESOLVED = 1e-6  # share of a squared distance that may be rounding
PIECE = 1 << 22  # distances that are held at a time
MOST_STORED = 1 << 27  # neighbours within a radius: 2 GB of them

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Search:
    """What a neighbour is, and how it is searched for."""

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

    def completed(self, rows: Any) -> Search:
        """With the parameters that the metric takes from the rows; invalid arguments are refused.

        A metric that knew only some of the rows would give new ones other distances.
        """
        given = self.metric_params or {}
        if given and self.metric in TAKES_NOTHING:
            raise ValueError(
                f'metric="{self.metric}" takes no metric_params, got {given}; '
                'metric="minkowski" takes "p" and "w"'
            )
        if self.metric in CITY_BLOCK and set(given) == {"w"}:
            return replace(self, metric="minkowski", p=1)  # which has weights
        if self.metric in ("seuclidean", "mahalanobis"):
            found = estimated(
                lambda: Moments.of(Block(rows, None, None, 0)), None, self.metric, given
            )
            return replace(self, metric_params={**given, **found})
        if given and isinstance(self.metric, str) and self.algorithm != "approximate":
            try:  # which arguments it takes shows by a distance of two rows
                pairwise_distances(rows[:2], metric=self.metric, **self.arguments)
            except (TypeError, ValueError) as error:
                raise ValueError(
                    f'metric="{self.metric}" does not take metric_params={self.metric_params} '
                    f'({error}); metric="minkowski" takes "p" and "w"'
                ) from None
        return self

    @property
    def arguments(self) -> dict[str, Any]:
        """Of the metric, p among them."""
        given = dict(self.metric_params or {})
        if self.metric == "minkowski":
            given.setdefault("p", self.p)
        return given


@dataclass(frozen=True, eq=False)
class Neighbours:
    """A search over fitted rows."""

    search: Search
    rows: Any  # (n, d) float64; (n, n) distances, dense or CSR, where the metric is precomputed
    index: Any = field(repr=False)  # cKDTree, NearestNeighbors, Exhaustive, NNDescent; None: CSR
    centre: Array | None = None  # (d,) about which the index has its rows; None is 0

    @classmethod
    def of(cls, search: Search, rows: Any) -> Neighbours:
        if search.n_neighbors is not None and search.n_neighbors >= rows.shape[0]:
            raise ValueError(
                f"n_neighbors={search.n_neighbors} must be smaller than the number of rows "
                f"(n_samples={rows.shape[0]}): a row is not its own neighbour"
            )
        search = search.completed(rows)
        dense = isinstance(rows, np.ndarray)
        if search.metric == "precomputed" and stored.is_sparse(rows):
            return cls(search, rows, None)
        takes_tree = search.is_euclidean and search.algorithm in ("auto", "kd_tree")
        if takes_tree and dense and rows.shape[1] <= TREE_DIMENSIONS:
            return cls(search, rows, cKDTree(rows))
        if search.metric == "nan_euclidean":
            return cls(search, rows, Exhaustive(rows, nan_euclidean))
        # |x|^2 + |y|^2 - 2 x'y, and float32, lose the digits of an offset. Medians: a single row
        # far away must not take those of all others.
        centre = np.median(rows, axis=0) if search.is_euclidean and dense else None
        with naming_rows(rows):
            index = _index(search, rows if centre is None else rows - centre)
        return cls(search, rows, index, centre)

    @property
    def n(self) -> int:
        return int(self.rows.shape[0])

    @property
    def knows_all_pairs(self) -> bool:
        """Whether rows that are no neighbours have a distance too."""
        return self.index is not None

    @property
    def finds_equal_rows(self) -> bool:
        """Whether a new row equal to a fitted one is always found at distance 0."""
        return self.search.metric == "precomputed" or isinstance(self.index, cKDTree)

    def among(self) -> scipy.sparse.csr_array:
        """Row i stores the distances (n, n) to the neighbours of row i, itself left out."""
        if self.index is None:
            return self._of_stored(stored.without_diagonal(stored.stored_distances(self.rows)))
        return self._found(None)

    def of_new(self, X: Any) -> scipy.sparse.csr_array:
        """Row i stores the distances (c, n) of the new row i to its neighbours among the fitted."""
        sparse = self.search.metric == "precomputed" and stored.is_sparse(X)
        if self.index is None or sparse:
            return self._of_stored(stored.stored_distances(X))
        return self._found(X)

    def _of_stored(self, distances: scipy.sparse.csr_array) -> scipy.sparse.csr_array:
        """The neighbours among the rows whose distances (c, n) are stored."""
        if self.search.radius is not None:
            return stored.selected(distances, distances.data <= self.search.radius)
        k = self.search.n_neighbors
        assert k is not None
        counts = np.diff(distances.indptr)
        if np.min(counts) < k:
            row = int(np.argmax(counts < k))
            raise ValueError(
                f"{k} neighbours of each row are required (n_neighbors={k}), but X stores "
                f"{counts[row]} distances of row {row} to others: take a smaller n_neighbors, or "
                "compute the graph with more"
            )
        return stored.nearest_stored(distances, k)

    def _found(self, X: Any) -> scipy.sparse.csr_array:
        """Neighbours of the new rows X, or of the fitted rows where X is None."""
        if self.search.radius is not None:
            return self._within(X, self.search.radius)
        k = self.search.n_neighbors
        assert k is not None
        if isinstance(self.index, Exhaustive):
            lengths, nearest = self.index.kneighbors(X, n_neighbors=k)
        elif isinstance(self.index, NearestNeighbors):
            with naming_rows(self.rows, X):
                lengths, nearest = self.index.kneighbors(self._about(X), n_neighbors=k)
            rows = self.rows if X is None else X
            lengths = self._exact(rows, nearest, lengths)
            blurred = self._blurred(rows, lengths[:, -1]) if self._by_products else None
            if blurred is not None and len(blurred):  # rows that products cannot separate
                lengths[blurred], nearest[blurred] = Exhaustive(self.rows, cdist).kneighbors(
                    None if X is None else X[blurred], k, at=blurred
                )
        elif isinstance(self.index, cKDTree) and X is None:
            found = self.index.query(self.rows, k + 1, workers=workers_for(self.search.n_jobs))
            lengths, nearest = _without_self(*found)
        elif isinstance(self.index, cKDTree):
            found = self.index.query(X, range(1, k + 1), workers=workers_for(self.search.n_jobs))
            lengths, nearest = np.asarray(found[0]), np.asarray(found[1])
        elif X is None:
            nearest, lengths = self.index.neighbor_graph
            lengths, nearest = _without_self(lengths[:, : k + 1], nearest[:, : k + 1])
            lengths = self._exact(self.rows, nearest, lengths)
        else:
            nearest, lengths = self.index.query(self._about(X).astype(np.float32), k)
            lengths = self._exact(X, nearest, lengths)
        return self._stored(lengths, nearest)

    def nearest_of_new(self, X: Any) -> tuple[Array, Any]:
        """Distance (c,) of new rows to the nearest fitted one, however far, and which it is."""
        if isinstance(self.index, cKDTree):
            found = self.index.query(X, [1])
        else:
            with naming_rows(self.rows, X):
                found = self.index.kneighbors(self._about(X), 1)
        return np.asarray(found[0])[:, 0], np.asarray(found[1])[:, 0]

    def pairs(self, i: Any, j: Any) -> Array:
        """Distances (a, b) between the fitted rows i (a,) and j (b,), which must be known."""
        if self.search.metric == "precomputed":
            return np.asarray(self.rows[np.ix_(i, j)])
        if self.search.is_euclidean and isinstance(self.rows, np.ndarray):
            return np.asarray(cdist(self.rows[i], self.rows[j]))
        if self.search.metric == "nan_euclidean":
            return nan_euclidean(self.rows[i], self.rows[j])
        given = self.search.arguments
        found = pairwise_distances(self.rows[i], self.rows[j], metric=self.search.metric, **given)
        return np.asarray(found)

    def _about(self, X: Any) -> Any:
        """Rows as the index has them; None stays None, the fitted rows."""
        return X if X is None or self.centre is None else X - self.centre

    def _stored(self, lengths: Any, nearest: Any) -> scipy.sparse.csr_array:
        """Neighbours (c, k) as a sparse matrix; each has to have a distance."""
        lengths = np.asarray(lengths, dtype=np.float64)
        unknown = ~np.isfinite(lengths)
        if unknown.any():
            row = int(np.argmax(unknown.any(axis=1)))
            if self.search.metric == "nan_euclidean":
                raise ValueError(
                    f"row {row} has observed columns in common with fewer than "
                    f"n_neighbors={self.search.n_neighbors} other rows, so that its neighbours are "
                    "not known: leave it out, or impute the missing values (LowRankImputer)"
                )
            raise ValueError(
                f"row {row} has no finite distance to some of its nearest rows: leave it out, or "
                "use another metric"
            )
        c, k = nearest.shape
        return stored.csr_of(
            lengths.ravel(), nearest.ravel().astype(np.int64), np.full(c, k), self.n
        )

    @property
    def _by_products(self) -> bool:
        """Whether the index compares rows by products of them."""
        brute = isinstance(self.index, NearestNeighbors) and self.index._fit_method == "brute"
        return self.search.is_euclidean and brute and isinstance(self.rows, np.ndarray)

    def _blurred(self, rows: Array, reach: Any) -> Any:
        """Rows whose distances of size `reach` may be rounding of a product."""
        about = self._about(rows)
        rounding = 16.0 * np.finfo(np.float64).eps * np.einsum("ij,ij->i", about, about)
        return np.flatnonzero(rounding > RESOLVED * np.square(reach))

    def _exact(self, X: Any, nearest: Any, lengths: Any) -> Array:
        """Euclidean lengths anew from differences, for searches by products or in float32."""
        if not self.search.is_euclidean or not isinstance(self.rows, np.ndarray):
            return np.asarray(lengths, dtype=np.float64)
        squares = np.zeros(nearest.shape)
        for j in range(X.shape[1]):
            squares += (X[:, j, None] - self.rows[nearest, j]) ** 2
        return np.sqrt(squares)

    # Within a radius -------------------------------------------------------------------------

    def _within(self, X: Any, radius: float) -> scipy.sparse.csr_array:
        if isinstance(self.index, cKDTree):
            return self._in_ball(X, radius)
        if isinstance(self.index, Exhaustive):
            return _stacked(self.index.within(radius, X), self.n)
        if self._by_products:
            return self._within_by_products(X, radius)
        with naming_rows(self.rows, X):
            graph = self.index.radius_neighbors_graph(self._about(X), radius, mode="distance")
        _require_stored(graph.nnz, radius)
        return scipy.sparse.csr_array(graph)

    def _within_by_products(self, X: Any, radius: float) -> scipy.sparse.csr_array:
        """Search a little beyond the radius, compute the lengths anew, and cut."""
        rows = self.rows if X is None else X
        wide = radius * (1.0 + RESOLVED)
        near = self.index.radius_neighbors(self._about(X), wide, return_distance=False)
        _require_stored(sum(map(len, near)), radius)
        blurred = self._blurred(rows, radius)
        found = Exhaustive(self.rows, cdist).within(
            radius, None if X is None else X[blurred], at=blurred
        )
        again = dict(zip(blurred.tolist(), found, strict=True))
        parts = []
        for i, columns in enumerate(near):
            if i in again:
                parts.append(again[i])
                continue
            columns = np.sort(columns)
            lengths = np.sqrt(np.sum((rows[i] - self.rows[columns]) ** 2, axis=1))
            inside = lengths <= radius
            parts.append((lengths[inside], columns[inside]))
        return _stacked(parts, self.n)

    def _in_ball(self, X: Any, radius: float) -> scipy.sparse.csr_array:
        among = self.rows if X is None else np.asarray(X, dtype=np.float64)
        search = partial(
            self.index.query_ball_point, among, radius, workers=workers_for(self.search.n_jobs)
        )
        _require_stored(int(np.sum(search(return_length=True))), radius)
        near = search(return_sorted=True)
        counts = np.array([len(some) for some in near])
        columns = np.concatenate([np.asarray(some, dtype=np.int64) for some in near])
        rows = np.repeat(np.arange(len(among)), counts)
        if X is None:
            other = rows != columns
            rows, columns = rows[other], columns[other]
            counts -= 1
        squares = np.zeros(len(rows))
        for j in range(among.shape[1]):
            squares += (among[rows, j] - self.rows[columns, j]) ** 2
        return stored.csr_of(np.sqrt(squares), columns, counts, self.n)


def _index(search: Search, rows: Any) -> Any:
    if search.algorithm == "approximate":
        return _approximate(search, rows)
    try:
        index = scikit_learn_search(search, rows)
        if search.metric_params and isinstance(search.metric, str):
            index.kneighbors(rows[:1], 1)  # which arguments it takes shows only now
        return index
    except TypeError as error:  # of the metric's arguments: scikit-learn's searches take few
        if search.algorithm not in ("auto", "brute"):
            raise ValueError(
                f'metric="{search.metric}" with metric_params={search.metric_params} is nothing '
                f'for neighbors_algorithm="{search.algorithm}" ({error}); "brute" takes it'
            ) from None
        return Exhaustive(
            rows, partial(pairwise_distances, metric=search.metric, **search.arguments)
        )


def scikit_learn_search(search: Search, rows: Any) -> NearestNeighbors:
    """The search as scikit-learn has it, exact where ours is approximate."""
    return NearestNeighbors(
        n_neighbors=search.n_neighbors or 5,
        radius=search.radius or 1.0,
        algorithm="auto" if search.algorithm == "approximate" else search.algorithm,
        metric=CheckedMetric(search.metric) if callable(search.metric) else search.metric,
        p=search.p,
        metric_params=search.metric_params,
        n_jobs=None if search.n_jobs is None else workers_for(search.n_jobs),
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
    metric = "euclidean" if search.is_euclidean else search.metric
    assert search.n_neighbors is not None
    return NNDescent(
        rows.astype(np.float32),
        metric=metric,
        metric_kwds={} if metric == "euclidean" else search.arguments,
        n_neighbors=max(search.n_neighbors + 1, WIDE),
        random_state=search.seed,
        n_jobs=workers_for(search.n_jobs),
    )


def _without_self(lengths: Any, nearest: Any) -> tuple[Array, Any]:
    """(n, k + 1) neighbours less the row itself: it need not be the first among rows like it."""
    n, k1 = nearest.shape
    itself = nearest == np.arange(n)[:, None]
    itself[~itself.any(axis=1), -1] = True  # more than k rows like it
    return lengths[~itself].reshape(n, k1 - 1), nearest[~itself].reshape(n, k1 - 1)


def _stacked(parts: Iterable[tuple[Array, Any]], n: int) -> scipy.sparse.csr_array:
    """Rows of (lengths, columns) as a sparse matrix with n columns."""
    rows = list(parts)
    lengths = np.concatenate([lengths for lengths, _ in rows])
    columns = np.concatenate([columns for _, columns in rows]).astype(np.int64)
    return stored.csr_of(lengths, columns, [len(columns) for _, columns in rows], n)


def _require_stored(count: int, radius: float) -> None:
    if count > MOST_STORED:
        raise ValueError(
            f"radius={radius:g} makes {count} pairs of rows neighbours, more than a graph should "
            "have; take a smaller one, or n_neighbors"
        )


# All distances ------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Exhaustive:
    """Neighbours by the distances to all of the rows (n, d), each from differences.

    Searches by matrix products, |x|^2 + |y|^2 - 2 x'y, know squared distances to the rounding of
    |x|^2 only. This search is exact whatever the offset and the outliers.
    """

    rows: Array
    distances: Callable[[Array, Array], Array]  # NaN where two rows have none

    def kneighbors(
        self, X: Array | None = None, n_neighbors: int = 5, at: Ints | None = None
    ) -> tuple[Array, Ints]:
        """Distances and indices (c, k), nearest first; of fitted rows (`at`, default all) if no X.

        A fitted row is not its own neighbour. Pairs without a distance come last.
        """
        lengths, nearest = [], []
        for D in self._pieces(X, at):
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
        for D in self._pieces(X, at):
            for row in D:
                found = np.flatnonzero(row <= radius)  # False for NaN
                yield row[found], found

    def _pieces(self, X: Array | None, at: Ints | None) -> Iterator[Array]:
        own = np.arange(len(self.rows)) if at is None else at
        among = self.rows[own] if X is None else X
        step = max(1, PIECE // len(self.rows))
        for start in range(0, len(among), step):
            D = self.distances(among[start : start + step], self.rows)
            if X is None:
                some = own[start : start + step]
                D[np.arange(len(some)), some] = np.nan  # within no radius, not even inf
            yield D
