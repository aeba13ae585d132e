"""Isomap as a scikit-learn estimator."""

from __future__ import annotations

from math import nan
from numbers import Integral, Real
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.neighbors import NearestNeighbors
from sklearn.utils.validation import check_is_fitted

from eigengap.estimators.shared.base import as_fitted, keep_parameters
from eigengap.estimators.shared.manifold import GRAPH_CONSTRAINTS, Disconnected, GraphEstimator
from eigengap.estimators.shared.sklearn_compat import Interval, StrOptions
from eigengap.exceptions import DisconnectedError, DisconnectedWarning
from eigengap.fitting.graph import isomap, stored
from eigengap.fitting.graph.distances import Metric
from eigengap.fitting.graph.duplicate_rows import found_among, row_hashes
from eigengap.fitting.graph.neighbours import scikit_learn_search
from eigengap.fitting.graph.pairs import refuse_range
from eigengap.linalg import Array
from eigengap.models.maps.geodesic import GeodesicMap
from eigengap.models.maps.graph import Graph
from eigengap.runtime.warnings import warn
from eigengap.sources import Source

MANY = 5_000  # rows beyond which landmarks="auto" takes landmarks: all pairs take a minute
AUTO, FOR_EACH = 100, 20  # landmarks, and for each component at least


class Isomap(GraphEstimator):
    """Isomap: coordinates whose distances are those along the surface that the rows lie on.

    Distances are measured along a graph that joins near neighbours, and are then scaled by
    classical multidimensional scaling (Tenenbaum, de Silva and Langford 2000). With landmarks the
    distances to some rows are enough (de Silva and Tenenbaum 2003), for any number of rows. New
    rows are joined to the graph by their nearest fitted rows; a fitted row gets its own
    coordinates back. Missing values are imputed by a PPCA density first.

    Parameters
    ----------
    n_components : int, default=2
        Number of coordinates.
    n_neighbors : int or None, default=5
        Neighbours of each row; None where `radius` is given. An edge joins two rows of which either
        is the other's neighbour.
    radius : float or None, default=None
        Distance up to which rows are neighbours; inf makes all of them neighbours.
    eigen_solver : {"auto", "arpack", "dense"}, default="auto"
        "dense" is LAPACK; by the others the few largest eigenvalues come from block Lanczos with a
        certificate and many from LAPACK.
    tol, max_iter
        Kept for scikit-learn's signature; the iteration stops by its certificate.
    path_method : {"auto", "D", "FW"}, default="auto"
        "FW" is SciPy's Floyd-Warshall algorithm. The others relax edges until none shortens a
        path: compiled where that pays, by SciPy's Dijkstra where not, with the same result.
    neighbors_algorithm : {"auto", "brute", "kd_tree", "ball_tree", "approximate"}, default="auto"
        "approximate" is pynndescent, for very many rows of many columns.
    n_jobs : int, default=None
        Threads; None is as many as BLAS may use.
    metric : str or callable, default="minkowski"
        A metric of scikit-learn's, or a function of two rows; "precomputed" where X is the square
        matrix of distances, or, sparse, a graph that stores those to neighbours
        (KNeighborsTransformer(mode="distance")); "nan_euclidean" leaves missing
        values out instead of imputing them.
    p : float, default=2
        Of the Minkowski metric.
    metric_params : dict, default=None
        Further arguments of the metric.
    landmarks : int, "auto" or None, default=None
        None takes the geodesic distances between all pairs of rows, and refuses where memory does
        not hold them. A number takes those to so many rows, spread over the graph; "auto" does
        with 100, and at least 20 a component, where there are more than 5 000 rows.
    disconnected : {"bridge", "error"}, default="bridge"
        What to do where the graph falls into components: join each two by their nearest rows, with
        a warning, or raise DisconnectedError.
    random_state : int, RandomState or None, default=None
        Of landmarks and of the approximate search; None is always the same.

    Attributes
    ----------
    embedding_ : array of shape (n_samples, n_components)
        Coordinates of the rows, centred; the entry of largest modulus in each column is positive.
    eigenvalues_ : array of shape (n_components,)
        Of the centred inner products that belong to the geodesic distances: the sums of squares of
        the coordinates. Where one is not positive, its coordinate is 0. On landmarks the sums of
        squares themselves.
    residual_variance_ : float
        1 - r^2 between geodesic distances and those of the embedding (Tenenbaum et al. 2000).
        Beyond about two million pairs over those of some rows with all; on landmarks over pairs of
        a row and a landmark.
    dist_matrix_ : array of shape (n_samples, n_samples)
        Geodesic distances. Not on landmarks, which have `landmark_distances_` instead.
    landmark_distances_ : array of shape (n_samples, n_landmarks)
    landmarks_ : array of shape (n_landmarks,) or None
        Rows that are landmarks.
    graph_ : Graph
        The neighbourhood graph, in one piece.
    nbrs_ : sklearn.neighbors.NearestNeighbors
        scikit-learn's search over the fitted rows, made when it is asked for.
    n_connected_components_ : int
        Components before they were joined.
    model_ : GeodesicMap
        The map from distances to neighbours.
    n_components_, n_iter_ : int

    Notes
    -----
    scikit-learn's class of this name has the same parameters but the last four, the same geodesic
    distances, and the same coordinates up to sign.

    Examples
    --------
    Points on half a circle come back as their position along it:

    >>> import numpy as np
    >>> from eigengap import Isomap
    >>> angle = np.linspace(0.0, np.pi, 200)
    >>> circle = np.column_stack([np.cos(angle), np.sin(angle)])
    >>> isomap = Isomap(1, n_neighbors=2).fit(circle)
    >>> isomap.embedding_[[0, 50, 199], 0].round(3)
    array([ 1.571,  0.781, -1.571])
    >>> isomap.transform([[0.0, 1.0]]).round(3)
    array([[0.]])
    >>> bool(isomap.residual_variance_ < 1e-10)
    True
    """

    _prefix = "ISO"
    _model_has_coordinates = True

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **GRAPH_CONSTRAINTS,
        "eigen_solver": [StrOptions({"auto", "arpack", "dense"})],
        "tol": [Interval(Real, 0, None, closed="left")],
        "max_iter": [Interval(Integral, 1, None, closed="left"), None],
        "path_method": [StrOptions({"auto", "D", "FW"})],
        "landmarks": [Interval(Integral, 2, None, closed="left"), StrOptions({"auto"}), None],
        "disconnected": [StrOptions({"bridge", "error"})],
    }

    model_: GeodesicMap
    graph_: Graph
    landmarks_: NDArray[np.int64] | None

    def __init__(
        self,
        n_components: int = 2,
        *,
        n_neighbors: int | None = 5,
        radius: float | None = None,
        eigen_solver: str = "auto",
        tol: float = 0,
        max_iter: int | None = None,
        path_method: isomap.Method = "auto",
        neighbors_algorithm: str = "auto",
        n_jobs: int | None = None,
        metric: Metric = "minkowski",
        p: float = 2,
        metric_params: dict[str, Any] | None = None,
        landmarks: int | Literal["auto"] | None = None,
        disconnected: Disconnected = "bridge",
        missing_values: Any = nan,
        random_state: Any = None,
    ) -> None:
        keep_parameters(self, locals())

    # Fitting -------------------------------------------------------------------------------

    def _fit_rows(self, rows: Any) -> Array:
        n, q = rows.shape[0], int(self.n_components)
        if q > n:
            raise ValueError(
                f"n_components={q} must be at most {n}, the number of rows (n_samples={n})"
            )
        m = self._n_landmarks(n, q)
        isomap.require_geodesics(n, m)
        graph = self._connected(self._neighbour_graph(rows))
        fit = isomap.fit_isomap(
            graph,
            q,
            m,
            method=self.path_method,
            dense=self.eigen_solver == "dense",
            n_jobs=self.n_jobs,
            seed=self._seed(),
        )
        self.graph_, self.model_, self.landmarks_ = graph, fit.map, fit.landmarks
        self.eigenvalues_, self._error, self._passes = fit.lam, fit.error, fit.passes
        if fit.dimensions == 0:
            warn("all rows coincide, so that their coordinates are 0", UserWarning)
        elif fit.dimensions < q:
            warn(
                f"only {fit.dimensions} of the {q} leading eigenvalues are positive: the other "
                "coordinates are 0",
                UserWarning,
            )
        return fit.Z.copy()  # the map keeps its own

    def _n_landmarks(self, n: int, q: int) -> int | None:
        """How many, None where all pairs are taken."""
        asked = self.landmarks
        if asked is None:
            return None
        if asked == "auto":
            return max(AUTO, FOR_EACH * q) if n > MANY else None
        if asked <= q:
            raise ValueError(
                f"landmarks={asked} must be more than n_components={q}: a row is found by its "
                "distances to them"
            )
        return min(int(asked), n)

    def _pairs(self, source: Source) -> Any:
        if not source.is_sparse:
            return super()._pairs(source)
        X = stored.stored_distances(stored.square_distances(source.collect()))
        refuse_range(float(np.max(X.data, initial=0.0)))
        return X

    # New rows ------------------------------------------------------------------------------

    def _new_rows(self, source: Source) -> Any:
        if self._is_pairwise and source.is_sparse:
            return stored.stored_distances(source.collect())
        return super()._new_rows(source)

    def _of_new(self, rows: Any) -> Array:
        nearest = self._neighbours.of_new(rows)
        alone = np.flatnonzero(np.diff(nearest.indptr) == 0)
        if len(alone):
            many = f"{len(alone)} of {rows.shape[0]} new rows have no fitted row within radius="
            many += f"{self.radius:g} (row {int(alone[0])} first)"
            if stored.is_sparse(rows):
                raise DisconnectedError(f"{many}, and of pairs that X leaves out nothing is known")
            if self.disconnected == "error":
                raise DisconnectedError(
                    f'{many}; disconnected="bridge" joins them to their nearest'
                )
            warn(f"{many}, and were joined to their nearest", DisconnectedWarning)
            found = self._neighbours.nearest_of_new(rows[alone])
            nearest = stored.with_entries(nearest, alone, *found)
        if not np.all(np.isfinite(nearest.data)):
            row = int(stored.row_of_entries(nearest)[np.argmax(~np.isfinite(nearest.data))])
            raise ValueError(f"row {row} has no finite distance to some of its neighbours")
        with np.errstate(over="ignore", invalid="ignore"):  # an error below
            Z = self.model_.forward(nearest)
        far = np.flatnonzero(~np.all(np.isfinite(Z), axis=1))
        if len(far):
            raise ValueError(
                f"row {int(far[0])} is so far from all fitted rows that its coordinates overflow"
            )
        if not self._neighbours.finds_equal_rows:
            fitted = found_among(row_hashes(rows), row_hashes(self._neighbours.rows))
            Z[fitted >= 0] = self.model_.Z[fitted[fitted >= 0]]
        return Z

    # How good it is ------------------------------------------------------------------------

    @property
    def residual_variance_(self) -> float:
        check_is_fitted(self, "embedding_")
        return float(self._residual_variances(self.model_.Z)[-1])

    def residual_variances(self, max_components: int = 10) -> Array:
        """Residual variance of embeddings of 1, 2, ..., max_components coordinates.

        It falls until the number of coordinates is that of the surface, and hardly beyond: look
        for the elbow (Tenenbaum et al. 2000).

        Parameters
        ----------
        max_components : int, default=10

        Returns
        -------
        array of shape (max_components,)
            `residual_variance_` of each number of coordinates.
        """
        check_is_fitted(self, "embedding_")
        most = self.model_.m if self.landmarks_ is None else self.model_.m - 1
        if not 1 <= max_components <= most:
            raise ValueError(f"max_components={max_components} must be between 1 and {most}")
        if self.landmarks_ is None:
            fit = isomap.fit_pairs(self.model_.paths, max_components, n_jobs=self.n_jobs)
        else:
            fit = isomap.fit_on_landmarks(self.model_.paths, self.landmarks_, max_components)
        return self._residual_variances(fit.Z)

    def _residual_variances(self, Z: Array) -> Array:
        return isomap.residual_variances(self.model_.paths, self.landmarks_, Z)

    def reconstruction_error(self) -> float:
        """Frobenius norm of the centred inner products less those of the embedding, over n_samples.

        Inner products that belong to the geodesic distances, as in scikit-learn. On landmarks of
        those between the landmarks, over their number.

        Returns
        -------
        float
        """
        check_is_fitted(self, "embedding_")
        return self._error

    @property
    def dist_matrix_(self) -> Array:
        if self.landmarks_ is not None:
            raise AttributeError(
                "on landmarks the distances between all pairs are not known; "
                "landmark_distances_ has those to the landmarks"
            )
        return as_fitted(self.model_.paths, self.embedding_.dtype == np.float32)

    @property
    def nbrs_(self) -> NearestNeighbors:
        check_is_fitted(self, "embedding_")
        return scikit_learn_search(self._neighbours.search, self._neighbours.rows)

    @property
    def landmark_distances_(self) -> Array:
        if self.landmarks_ is None:
            raise AttributeError("there are no landmarks: dist_matrix_ has all distances")
        return self.model_.paths

    @property
    def n_iter_(self) -> int:
        """Products with the matrix of squared distances; 1 where LAPACK took it as a whole."""
        return self._passes

    @property
    def _is_positive(self) -> bool:
        return self._is_pairwise
