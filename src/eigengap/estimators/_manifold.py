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
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import (
    check_is_fitted,
)

from eigengap.estimators._sklearn_compat import Interval, StrOptions, _fit_context
from eigengap.estimators._whole import warn_of_empty_rows, whole_table
from eigengap.estimators.ppca import PPCA
from eigengap.estimators.shared.base import (
    NamedComponents,
    as_fitted,
    check_features,
    keep_features,
    require_names,
)
from eigengap.estimators.shared.display import Shown
from eigengap.estimators.shared.inner import imputing_model
from eigengap.exceptions import DisconnectedError, DisconnectedWarning, UncertainNeighboursWarning
from eigengap.fitting.graph.distances import METRICS
from eigengap.fitting.graph.neighbourhood import (
    Symmetry,
    bridged,
    copies_in_words,
    in_words,
    undirected,
)
from eigengap.fitting.graph.neighbours import Neighbours, Search
from eigengap.fitting.graph.pairs import (
    Labels,
    distance_matrix,
    new_distances,
    refuse_large,
    refuse_missing,
    refuse_spread,
)
from eigengap.linalg import Array
from eigengap.models.maps.graph import Graph
from eigengap.runtime.memory import require_memory
from eigengap.runtime.warnings import warn
from eigengap.sources import ArraySource, Source, as_source, warn_of_codes

Disconnected = Literal["bridge", "error"]

FEW = 0.01  # share of rows that may be guesses without a word
ROWS_WAY_OUT = "select fewer columns first (PCA)"

# Constraints on the parameters that the graph methods share, for scikit-learn's validation.
GRAPH_CONSTRAINTS: dict[str, list[Any]] = {
    "n_components": [Interval(Integral, 1, None, closed="left")],
    "n_neighbors": [Interval(Integral, 1, None, closed="left"), None],
    "radius": [Interval(Real, 0, None, closed="right"), None],  # inf makes all rows neighbours
    "metric": [StrOptions(set(METRICS) | {"minkowski", "precomputed"}), callable],
    "p": [Interval(Real, 1, None, closed="left")],
    "metric_params": [dict, None],
    "neighbors_algorithm": [StrOptions({"auto", "brute", "kd_tree", "ball_tree", "approximate"})],
    "n_jobs": [Integral, None],
    "missing_values": [Real, "array-like"],
    "random_state": ["random_state"],
}


class GraphEstimator(NamedComponents, Shown, TransformerMixin, BaseEstimator):
    """Base class; subclasses give `_fit_rows(rows) -> (n, q)`, `_of_new(rows)` and `_prefix`.

    `_fit_rows` leaves the fitted attributes behind and returns the coordinates of the rows. Rows
    without any observed value take no part in the fit and are placed afterwards, like new ones.
    """

    _prefix = "Z"
    _model_has_coordinates = False  # in float64, so that embedding_ may have the type of X

    embedding_: Array  # (n, q) coordinates of the rows of X
    _filler: PPCA | None
    _filled_sd: Array | None  # (n,) root of the sum of the variances of a row's filled cells
    _present: NDArray[np.intp] | None = None  # rows that have an observed value, None for all

    # Fitting -------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any = None) -> Self:
        """Find coordinates of the rows of X.

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
            Array, masked array, pandas, polars or pyarrow; NaN marks a gap. Where the metric is
            "precomputed" the square matrix of distances. A row without any observed value takes
            no part in the fit: graphs and distances do not count it, and `embedding_` has it where
            `transform` would put it, or NaN where it cannot be placed.
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
        everything = whole_table(X, type(self).__name__, missing_values=self._missing)
        before = dict(self.__dict__)
        try:
            self._filler, self._filled_sd = None, None
            source = everything.present() if self._has_rows else everything
            self._present = (
                None if source is everything else np.flatnonzero(everything.is_present())
            )
            rows = self._pairs(source) if self._is_pairwise else self._rows(source)
            found = self._fit_rows(rows)
            keep_features(self, X, source)
        except BaseException:  # an earlier fit stays whole
            self.__dict__.clear()
            self.__dict__.update(before)
            raise
        float32 = source.dtype == np.float32
        self.embedding_ = found
        if self._present is not None:
            found = self._place_empty(found, int(everything.n_rows or 0), self._present)
        self.embedding_ = as_fitted(found, float32 and self._model_has_coordinates)
        return found.astype(np.float32 if float32 else np.float64)

    def _fit_rows(self, rows: Array) -> Array:
        raise NotImplementedError

    def _of_new(self, rows: Array) -> Array:
        raise NotImplementedError

    @property
    def _fitted(self) -> Array:
        """Coordinates of the rows that took part in the fit."""
        return self.embedding_ if self._present is None else self.embedding_[self._present]

    def _place_empty(self, found: Array, n: int, present: NDArray[np.intp]) -> Array:
        """Make `embedding_` that of all n rows, from the coordinates of the fitted ones."""
        self.embedding_ = np.full((n, found.shape[1]), np.nan)
        self.embedding_[present] = found
        empty = np.setdiff1d(np.arange(n), present)
        if self._places_empty:
            row = np.full((1, self.n_features_in_), np.nan)
            self.embedding_[empty] = self._of_new(self._new_rows(ArraySource(row)))
        warn_of_empty_rows(empty, self._places_empty, UncertainNeighboursWarning)
        return self.embedding_

    @property
    def _places_empty(self) -> bool:
        """Whether a row that is imputed as a whole has neighbours: a radius may hold none."""
        return not self._skips_missing and self.radius is None

    # Input ---------------------------------------------------------------------------------

    @property
    def _missing(self) -> Any:
        return getattr(self, "missing_values", nan)

    @property
    def _is_pairwise(self) -> bool:
        """Whether X holds distances between points and not rows."""
        return isinstance(self.metric, str) and self.metric == "precomputed"

    @property
    def _has_rows(self) -> bool:
        """Whether X holds rows, of which some may have no observed value."""
        return not self._is_pairwise

    @property
    def _skips_missing(self) -> bool:
        """Whether the metric itself leaves out cells that were not seen."""
        return isinstance(self.metric, str) and self.metric == "nan_euclidean"

    def _rows(self, source: Source) -> Array:
        source.require_fit(min_rows=2)
        warn_of_codes(source)
        rows = self._dense(source)
        refuse_spread(rows)
        if not source.has_missing or self._skips_missing:
            return rows
        self._filler = imputing_model(ArraySource(rows, names=source.names))
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

    def _pairs(self, source: Source) -> Any:
        refuse_sparse_pairs(source)
        values = self._dense(source)
        return distance_matrix(values, Labels(source.names))

    def _new_rows(self, source: Source) -> Any:
        """New rows as `_of_new` takes them, gaps filled."""
        if self._is_pairwise:
            refuse_sparse_pairs(source)
            return new_distances(self._dense(source))
        rows = self._dense(source)
        refuse_large(rows)
        if not source.has_missing or self._skips_missing:
            return rows
        filler = self._filler or imputing_model(self._neighbours.rows, self)
        return np.asarray(filler.impute(rows))

    # The graph -----------------------------------------------------------------------------

    def _search(self) -> Search:
        """The search that the parameters ask for."""
        k, radius = self.n_neighbors, self.radius
        if (k is None) == (radius is None):
            raise ValueError(
                "Give either n_neighbors or radius, got neither"
                if k is None
                else f"Both n_neighbors and radius are provided: radius={radius:g} needs "
                f"n_neighbors=None, got n_neighbors={k}"
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
        self._tell_of_missing(nearest)
        return undirected(nearest, symmetry)

    def _connected(self, graph: Graph, disconnected: Disconnected) -> Graph:
        """The graph in one piece, bridged with a warning where it is not, or an error."""
        self.n_connected_components_ = graph.components[0]
        if self.n_connected_components_ == 1:
            return graph
        ways = "a larger n_neighbors" if self.n_neighbors is not None else "a larger radius"
        pairs = self._neighbours.pairs if self._neighbours.knows_all_pairs else None
        falls = (
            "the number of connected components of the neighbourhood graph is not 1: there are "
            f"{in_words(graph)}"
        )
        if self.n_neighbors is not None:
            copies = copies_in_words(graph.components[1], graph.csr(), pairs)
            falls += f" ({copies})" if copies else ""
        if pairs is None:
            raise DisconnectedError(
                f"{falls}, and of pairs that X leaves out no distance is known: take {ways}, fit "
                "each by itself, or give the distances of all pairs (a dense X), which lets them "
                "be joined"
            )
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
        return bridged(graph, pairs)

    def _tell_of_missing(self, nearest: Any) -> None:
        """Warn of rows whose filled cells are less sure than their neighbours are near."""
        if self._filled_sd is None:
            return
        near = _typical(nearest)
        unsure = self._filled_sd > near
        if np.mean(unsure) > FEW:
            count, incomplete = int(np.sum(unsure)), int(np.sum(self._filled_sd > 0.0))
            warn(
                f"{count} of {incomplete} rows with gaps were filled with a standard deviation "
                "larger than the distance to their neighbours, so that their neighbours, and their "
                "coordinates, are guesses (row "
                f"{self._given_row(int(np.argmax(unsure)))} first)",
                UncertainNeighboursWarning,
            )

    def _given_row(self, row: int) -> int:
        """The number in X of a fitted row."""
        return row if self._present is None else int(self._present[row])

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
        if self._is_pairwise and source.has_missing and not source.is_sparse:
            refuse_missing(source.collect(), Labels(source.names), "distance")
        check_features(self, X, source)
        found = self._of_source(source)
        return found.astype(np.float32) if source.dtype == np.float32 else found

    def _of_source(self, source: Source) -> Array:
        if isinstance(source, ArraySource):
            return self._of_new(self._new_rows(source))
        return source.map(lambda block: self._of_source(ArraySource(block.values)))

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


def refuse_sparse_pairs(source: Source) -> None:
    """Refuse distances of which a sparse matrix leaves some out, where all are needed."""
    if source.is_sparse:
        raise ValueError(
            "X is sparse, and pairs that it leaves out would be at distance 0; if they are, "
            "densify it with X.toarray(). Isomap, and LaplacianEigenmaps with "
            "affinity='precomputed_nearest_neighbors', take a sparse graph of neighbours"
        )


def _typical(nearest: Any) -> Array:
    """(n,) distance to the furthest neighbour; the median of all where a row has none."""
    n = nearest.shape[0]
    far = np.full(n, np.nan)
    counts = np.diff(nearest.indptr)
    some = counts > 0
    far[some] = np.maximum.reduceat(nearest.data, nearest.indptr[:-1][some])
    return np.where(np.isnan(far), np.nanmedian(far) if some.any() else np.inf, far)
