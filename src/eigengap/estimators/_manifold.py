"""What the methods of neighbourhood graphs share as scikit-learn estimators: no mathematics here.

Rows are held in memory, in float64, their gaps filled by a PPCA density that is kept for new rows.
Where filling is less sure than neighbours are near, that is told.
"""

from __future__ import annotations

from math import nan
from numbers import Integral, Real
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin, _fit_context
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import (
    _check_feature_names_in,
    check_is_fitted,
)

from eigengap.estimators._distances import METRICS
from eigengap.estimators._features import check_features, keep_features, require_names
from eigengap.estimators._neighbours import Neighbours, Search
from eigengap.estimators._notebook import Shown
from eigengap.estimators._whole import whole_table
from eigengap.estimators.ppca import PPCA
from eigengap.fitting.neighbourhood import (
    DisconnectedError,
    Symmetry,
    bridged,
    copies_in_words,
    in_words,
    undirected,
)
from eigengap.fitting.pairs import (
    LARGEST,
    Labels,
    distance_matrix,
    new_distances,
    refuse_gaps,
    refuse_range,
)
from eigengap.linalg import Array
from eigengap.memory import require_memory
from eigengap.models.graph import Graph
from eigengap.sources import as_source
from eigengap.sources.array import ArraySource
from eigengap.sources.base import Source
from eigengap.sources.sentinels import warn_of_codes
from eigengap.warn import warn

Disconnected = Literal["bridge", "error"]

FEW = 0.01  # share of rows that may be guesses without a word
ROWS_WAY_OUT = "select fewer columns first (PCA)"

# Constraints on the parameters that the graph methods share, for scikit-learn's validation.
GRAPH_CONSTRAINTS: dict[str, list[Any]] = {
    "n_components": [Interval(Integral, 1, None, closed="left")],
    "n_neighbors": [Interval(Integral, 1, None, closed="left"), None],
    "radius": [Interval(Real, 0, None, closed="neither"), None],
    "metric": [StrOptions(set(METRICS) | {"minkowski", "precomputed"}), callable],
    "p": [Interval(Real, 1, None, closed="left")],
    "metric_params": [dict, None],
    "neighbors_algorithm": [StrOptions({"auto", "brute", "kd_tree", "ball_tree", "approximate"})],
    "n_jobs": [Integral, None],
    "missing_values": [Real, "array-like"],
    "random_state": ["random_state"],
}


class DisconnectedWarning(UserWarning):
    """The neighbourhood graph fell apart, and was joined."""


class UncertainNeighboursWarning(UserWarning):
    """Gaps were filled less surely than neighbours are near."""


class GraphEstimator(Shown, TransformerMixin, BaseEstimator):
    """Base class; subclasses give `_fit_rows(rows) -> (n, q)`, `_of_new(rows)` and `_prefix`.

    `_fit_rows` leaves the fitted attributes behind and returns the coordinates of the rows.
    """

    _prefix = "Z"

    embedding_: Array  # (n, q) coordinates of the fitted rows
    _filler: PPCA | None
    _filled_sd: Array | None  # (n,) root of the sum of the variances of a row's filled cells

    # Fitting -------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any = None) -> Self:
        """Find coordinates of the rows of X.

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
            Array, masked array, pandas, polars or pyarrow; NaN marks a gap. Where the metric is
            "precomputed" the square matrix of distances.
        y : ignored

        Returns
        -------
        self
        """
        self.fit_transform(X, y)
        return self

    @_fit_context(prefer_skip_nested_validation=True)
    def fit_transform(self, X: Any, y: Any = None) -> Array:
        """Fit, and the coordinates of the rows of X: (n_samples, n_components).

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
        y : ignored

        Returns
        -------
        array of shape (n_samples, n_components)
            `embedding_`, in float32 where X is.
        """
        require_names(X)
        source = whole_table(X, type(self).__name__, missing_values=self._missing)
        before = dict(self.__dict__)
        try:
            self._filler, self._filled_sd = None, None
            rows = self._pairs(source) if self._is_pairwise else self._rows(source)
            found = self._fit_rows(rows)
            keep_features(self, X, source)
        except BaseException:  # an earlier fit stays whole
            self.__dict__.clear()
            self.__dict__.update(before)
            raise
        self.embedding_ = found
        return found.astype(np.float32 if source.dtype == np.float32 else np.float64)

    def _fit_rows(self, rows: Array) -> Array:
        raise NotImplementedError

    def _of_new(self, rows: Array) -> Array:
        raise NotImplementedError

    # Input ---------------------------------------------------------------------------------

    @property
    def _missing(self) -> Any:
        return getattr(self, "missing_values", nan)

    @property
    def _is_pairwise(self) -> bool:
        """Whether X holds distances between points and not rows."""
        return isinstance(self.metric, str) and self.metric == "precomputed"

    @property
    def _skips_gaps(self) -> bool:
        """Whether the metric itself leaves out cells that were not seen."""
        return isinstance(self.metric, str) and self.metric == "nan_euclidean"

    def _rows(self, source: Source) -> Array:
        source.require_fit(min_rows=2)
        warn_of_codes(source)
        rows = self._dense(source)
        with np.errstate(over="ignore"):
            refuse_range(float(np.max(np.nanmax(rows, axis=0) - np.nanmin(rows, axis=0))))
        if not source.has_gaps or self._skips_gaps:
            return rows
        self._filler = PPCA("auto", scale=True).fit(rows)
        rows, sd = self._filler.impute(rows, return_std=True)
        self._filled_sd = np.sqrt(np.einsum("ij,ij->i", sd, sd))
        return np.asarray(rows)

    def _dense(self, source: Source) -> Array:
        """All rows in float64, of our own."""
        values = source.collect()
        if not isinstance(values, np.ndarray):
            n, d = values.shape
            require_memory(8.0 * n * d, f"a dense copy of {n} sparse rows", ROWS_WAY_OUT)
            values = values.toarray()
        return np.array(values, dtype=np.float64)

    def _pairs(self, source: Source) -> Array:
        values = self._dense(source)
        return distance_matrix(values, Labels(source.names))

    def _new_rows(self, source: Source) -> Array:
        """New rows as `_of_new` takes them, gaps filled."""
        rows = self._dense(source)
        if self._is_pairwise:
            return new_distances(rows)
        largest = float(np.max(np.abs(rows), initial=0.0, where=~np.isnan(rows)))
        if largest > LARGEST:
            refuse_range(largest)
        if not source.has_gaps or self._skips_gaps:
            return rows
        filler = self._filler or PPCA("auto", scale=True).fit(self._neighbours.rows)
        return np.asarray(filler.impute(rows))

    # The graph -----------------------------------------------------------------------------

    def _search(self) -> Search:
        """The search that the parameters ask for."""
        k, radius = self.n_neighbors, self.radius
        if (k is None) == (radius is None):
            raise ValueError(
                "Give either n_neighbors or radius, got neither"
                if k is None
                else f"radius={radius:g} needs n_neighbors=None, got n_neighbors={k} too: give "
                "either, and None for the other"
            )
        return Search(
            n_neighbors=None if k is None else int(k),
            radius=None if radius is None else float(radius),
            metric=self.metric,
            p=getattr(self, "p", 2),
            metric_params=self.metric_params,
            algorithm=self.neighbors_algorithm,
            n_jobs=self.n_jobs,
            seed=self._seed(),
        )

    def _seed(self) -> int:
        if getattr(self, "random_state", None) is None:
            return 0
        return int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))

    def _neighbour_graph(self, rows: Array, symmetry: Symmetry = "union") -> Graph:
        """The graph as asked for, in one piece or not; `_neighbours` is left behind."""
        self._neighbours = Neighbours.of(self._search(), rows)
        nearest = self._neighbours.among()
        self._tell_of_gaps(nearest)
        return undirected(nearest, symmetry)

    def _connected(self, graph: Graph, disconnected: Disconnected) -> Graph:
        """The graph in one piece, bridged with a warning where it is not, or an error."""
        self.n_connected_components_ = graph.components[0]
        if self.n_connected_components_ == 1:
            return graph
        ways = "a larger n_neighbors" if self.n_neighbors is not None else "a larger radius"
        falls = f"the neighbourhood graph falls into {in_words(graph)}"
        if self.n_neighbors is not None:
            copies = copies_in_words(graph.components[1], graph.csr(), self._neighbours.pairs)
            falls += f" ({copies})" if copies else ""
        if disconnected == "error":
            raise DisconnectedError(
                f"{falls}, and distances between them are unknown: take {ways}, fit each by "
                'itself, or let disconnected="bridge" join them by their nearest rows'
            )
        warn(
            f"{falls}; each two were joined by their nearest rows, so that distances across are "
            f"guesses: {ways} may join them by more, or fit each by itself",
            DisconnectedWarning,
        )
        return bridged(graph, self._neighbours.pairs)

    def _tell_of_gaps(self, nearest: Any) -> None:
        """Warn of rows whose filled cells are less sure than their neighbours are near."""
        if self._filled_sd is None:
            return
        near = _typical(nearest)
        unsure = self._filled_sd > near
        if np.mean(unsure) > FEW:
            count, gappy = int(np.sum(unsure)), int(np.sum(self._filled_sd > 0.0))
            warn(
                f"{count} of {gappy} rows with gaps were filled with a standard deviation larger "
                "than the distance to their neighbours, so that their neighbours, and their "
                "coordinates, are guesses (row "
                f"{int(np.argmax(unsure))} first)",
                UncertainNeighboursWarning,
            )

    # Output --------------------------------------------------------------------------------

    def transform(self, X: Any) -> Array:
        """Coordinates of new rows beside the fitted ones.

        Parameters
        ----------
        X : table of shape (n_new, n_features)
            NaN marks a gap. Where the metric is "precomputed", distances (n_new, n_samples) to the
            fitted points.

        Returns
        -------
        array of shape (n_new, n_components)
        """
        check_is_fitted(self, "embedding_")
        source = as_source(X, missing_values=self._missing)
        if self._is_pairwise and source.has_gaps:
            refuse_gaps(source.collect(), Labels(source.names), "distance")
        check_features(self, X, source)
        found = self._of_source(source)
        return found.astype(np.float32) if source.dtype == np.float32 else found

    def _of_source(self, source: Source) -> Array:
        if isinstance(source, ArraySource):
            return self._of_new(self._new_rows(source))
        return source.map(lambda block: self._of_source(ArraySource(block.values)))

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Names of the coordinates."""
        check_is_fitted(self, "embedding_")
        _check_feature_names_in(self, input_features, generate_names=False)
        return np.array([f"{self._prefix}{k + 1}" for k in range(self.n_components_)], dtype=object)

    @property
    def n_components_(self) -> int:
        return int(self.embedding_.shape[1])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = not self._is_pairwise
        tags.input_tags.sparse = False
        tags.input_tags.pairwise = self._is_pairwise
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def _typical(nearest: Any) -> Array:
    """(n,) distance to the furthest neighbour; the median of all where a row has none."""
    n = nearest.shape[0]
    far = np.full(n, np.nan)
    counts = np.diff(nearest.indptr)
    some = counts > 0
    far[some] = np.maximum.reduceat(nearest.data, nearest.indptr[:-1][some])
    return np.where(np.isnan(far), np.nanmedian(far) if some.any() else np.inf, far)
