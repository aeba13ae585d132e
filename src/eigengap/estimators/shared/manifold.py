"""The base of the methods that start from a neighbourhood graph.

Rows are held in memory, in float64. Missing values are imputed by a PPCA density, which is kept for
new rows. Where imputed rows are less certain than their neighbours are near, there is a warning.
"""

from __future__ import annotations

from copy import deepcopy
from numbers import Integral, Real
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from eigengap.estimators.ppca import PPCA
from eigengap.estimators.shared.base import as_fitted, check_features, keep_features, require_names
from eigengap.estimators.shared.inner import imputing_model
from eigengap.estimators.shared.sklearn_compat import Interval, StrOptions, _fit_context
from eigengap.estimators.shared.transformer import (
    Transformer,
    dense_rows,
    warn_of_empty_rows,
    whole_table,
)
from eigengap.exceptions import DisconnectedError, DisconnectedWarning, UncertainNeighboursWarning
from eigengap.fitting.graph import neighbourhood, pairs
from eigengap.fitting.graph.distances import METRICS
from eigengap.fitting.graph.local_weights import local_weights
from eigengap.fitting.graph.neighbours import Neighbours, Search
from eigengap.linalg import Array
from eigengap.models.maps.graph import Graph
from eigengap.runtime.warnings import warn
from eigengap.sources import ArraySource, Source, as_source, warn_of_codes

Disconnected = Literal["bridge", "error"]

FEW = 0.01  # share of rows whose neighbours may be uncertain without a warning

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


class GraphEstimator(Transformer):
    """Base class; subclasses give `_fit_rows(rows) -> (n, q)`, `_of_new(rows)` and `_prefix`.

    `_fit_rows` sets the fitted attributes and returns the coordinates of the rows. Rows without any
    observed value take no part in the fit and are placed afterwards, like new ones.
    """

    _prefix = "Z"
    _model_has_coordinates = False  # in float64, so that embedding_ may have the type of X

    embedding_: Array  # (n, q) coordinates of the rows of X
    _filler: PPCA | None  # the model that imputes missing values
    _filled_sd: Array | None  # (n,) root of the sum of the variances of a row's imputed cells
    _present: NDArray[np.intp] | None = None  # rows that have an observed value, None for all

    # Fitting -------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any = None) -> Self:
        """Find coordinates of the rows of X.

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
            Array, masked array, pandas, polars or pyarrow; NaN marks a missing value. Where the
            metric is "precomputed" the square matrix of distances. A row without any observed
            value takes no part in the fit; `embedding_` has it where `transform` would put it, or
            NaN where it cannot be placed.
        """
        self.fit_transform(X, y)
        return self

    @_fit_context(prefer_skip_nested_validation=True)
    def fit_transform(self, X: Any, y: Any = None) -> Array:
        """Fit, and `embedding_`, the coordinates of the rows of X, in float32 where X is."""
        require_names(X)
        everything = whole_table(X, type(self).__name__, missing_values=self.missing_values)
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
        except BaseException:  # an earlier fit stays as it was
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
    def _is_pairwise(self) -> bool:
        """Whether X holds distances between points and not rows."""
        return isinstance(self.metric, str) and self.metric == "precomputed"

    @property
    def _has_rows(self) -> bool:
        """Whether X holds rows, of which some may have no observed value."""
        return not self._is_pairwise

    @property
    def _skips_missing(self) -> bool:
        """Whether the metric itself leaves out missing values."""
        return isinstance(self.metric, str) and self.metric == "nan_euclidean"

    @property
    def _accepts_missing(self) -> bool:
        return not self._is_pairwise

    def _rows(self, source: Source) -> Array:
        source.require_fit(min_rows=2)
        warn_of_codes(source)
        rows = dense_rows(source)
        pairs.refuse_column_ranges(rows)
        if not source.has_missing or self._skips_missing:
            return rows
        self._filler = imputing_model(ArraySource(rows, names=source.names))
        rows, sd = self._filler.impute(rows, return_std=True)
        self._filled_sd = np.sqrt(np.einsum("ij,ij->i", sd, sd))
        return np.asarray(rows)

    def _pairs(self, source: Source) -> Any:
        refuse_sparse_pairs(source)
        return pairs.distance_matrix(dense_rows(source), pairs.Labels(source.names))

    def _new_rows(self, source: Source) -> Any:
        """New rows as `_of_new` takes them, missing values imputed."""
        if self._is_pairwise:
            refuse_sparse_pairs(source)
            return pairs.new_distances(dense_rows(source))
        rows = dense_rows(source)
        pairs.refuse_large(rows)
        if not source.has_missing or self._skips_missing:
            return rows
        return self._imputed(rows)

    def _imputed(self, rows: Array) -> Array:
        """New rows with their missing values imputed, by the model of the fitted rows."""
        model = self._filler or imputing_model(self._known_rows, self)
        return np.asarray(model.impute(rows))

    @property
    def _known_rows(self) -> Array:
        return self._neighbours.rows

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
        return self._search_for(k, radius)

    def _search_for(self, n_neighbors: int | None, radius: float | None) -> Search:
        return Search(
            n_neighbors=None if n_neighbors is None else int(n_neighbors),
            radius=None if radius is None else float(radius),
            metric=self.metric,
            p=getattr(self, "p", 2),
            metric_params=deepcopy(self.metric_params),  # kept with the fit
            algorithm=self.neighbors_algorithm,
            n_jobs=self.n_jobs,
            seed=self._seed(),
        )

    def _neighbour_graph(self, rows: Array) -> Graph:
        """The graph as asked for, connected or not; sets `_neighbours`."""
        self._neighbours = Neighbours.of(self._search(), rows)
        nearest = self._neighbours.among()
        self._warn_of_uncertain(nearest)
        return neighbourhood.undirected(nearest)

    def _connected(self, graph: Graph) -> Graph:
        """The connected graph; one that is not is bridged with a warning, or an error."""
        self.n_connected_components_ = graph.components[0]
        if self.n_connected_components_ == 1:
            return graph
        ways = "a larger n_neighbors" if self.n_neighbors is not None else "a larger radius"
        distances = self._neighbours.pairs if self._neighbours.knows_all_pairs else None
        falls = (
            "the number of connected components of the neighbourhood graph is not 1: there are "
            f"{neighbourhood.in_words(graph)}"
        )
        if self.n_neighbors is not None:
            copies = neighbourhood.copies_in_words(graph.components[1], graph.csr(), distances)
            falls += f" ({copies})" if copies else ""
        if distances is None:
            raise DisconnectedError(
                f"{falls}, and of pairs that X leaves out no distance is known: take {ways}, fit "
                "each by itself, or give the distances of all pairs (a dense X), which lets them "
                "be joined"
            )
        if self.disconnected == "error":
            raise DisconnectedError(
                f"{falls}, and distances between them are unknown: take {ways}, fit each by "
                'itself, or let disconnected="bridge" join them by their nearest rows'
            )
        warn(
            f"{falls}; each two were joined by their nearest rows, so that distances across are "
            f"guesses: {ways} may join them by more, or fit each by itself",
            DisconnectedWarning,
        )
        return neighbourhood.bridged(graph, distances)

    def _warn_of_uncertain(self, nearest: Any) -> None:
        """Warn of rows whose imputed cells are less certain than their neighbours are near."""
        if self._filled_sd is None:
            return
        uncertain = self._filled_sd > neighbourhood.furthest_neighbour(nearest)
        if np.mean(uncertain) > FEW:
            count, incomplete = int(np.sum(uncertain)), int(np.sum(self._filled_sd > 0.0))
            first = int(np.argmax(uncertain))
            warn(
                f"{count} of {incomplete} rows with missing values were imputed with a standard "
                "deviation larger than the distance to their neighbours, so that their neighbours, "
                "and their coordinates, are guesses (row "
                f"{first if self._present is None else int(self._present[first])} first)",
                UncertainNeighboursWarning,
            )

    def _locally_linear(self, rows: Any, way_out: str) -> Array:
        """Coordinates of new rows as affine combinations of their neighbours."""
        nearest = self._neighbours.of_new(rows)
        alone = np.flatnonzero(np.diff(nearest.indptr) == 0)
        if len(alone):
            raise ValueError(
                f"row {int(alone[0])} has no fitted row within radius={self.radius:g}: it cannot "
                f"be placed. Leave it out, or fit with a larger {way_out}"
            )
        return np.asarray(local_weights(self._neighbours, nearest, True) @ self._fitted)

    # Output --------------------------------------------------------------------------------

    def transform(self, X: Any) -> Array:
        """Coordinates of new rows in the fitted embedding.

        Parameters
        ----------
        X : table of shape (n_new, n_features)
            NaN marks a missing value. Where the metric is "precomputed", distances
            (n_new, n_samples) to the fitted points.

        Returns
        -------
        array of shape (n_new, n_components)
        """
        check_is_fitted(self, "embedding_")
        source = as_source(X, missing_values=self.missing_values)
        if self._is_pairwise and source.has_missing and not source.is_sparse:
            pairs.refuse_missing(source.collect(), pairs.Labels(source.names), "distance")
        check_features(self, X, source)
        return as_fitted(self._of_source(source), source.dtype == np.float32)

    def _of_source(self, source: Source) -> Array:
        if isinstance(source, ArraySource):
            return self._of_new(self._new_rows(source))
        return source.map(lambda block: self._of_source(ArraySource(block.values)))

    @property
    def n_components_(self) -> int:
        return int(self.embedding_.shape[1])


def refuse_sparse_pairs(source: Source) -> None:
    """Refuse a sparse matrix of distances where all of them are needed."""
    if source.is_sparse:
        raise ValueError(
            "X is sparse, and pairs that it leaves out would be at distance 0; if they are, "
            "densify it with X.toarray(). Isomap, and LaplacianEigenmaps with "
            "affinity='precomputed_nearest_neighbors', take a sparse graph of neighbours"
        )
