"""Laplacian eigenmaps as a scikit-learn estimator."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from math import nan
from numbers import Integral, Real
from operator import attrgetter
from typing import Any, ClassVar

import numpy as np
import scipy.sparse
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from eigengap.estimators.shared.base import keep_parameters
from eigengap.estimators.shared.manifold import GRAPH_CONSTRAINTS, GraphEstimator
from eigengap.estimators.shared.sklearn_compat import Interval, StrOptions
from eigengap.exceptions import DisconnectedError, DisconnectedWarning
from eigengap.fitting.eigen.smallest import ANGLE
from eigengap.fitting.graph import stored
from eigengap.fitting.graph.duplicate_rows import as_imputed_before, found_among, row_hashes
from eigengap.fitting.graph.neighbourhood import as_graph, copies_in_words, in_words, joined
from eigengap.fitting.graph.neighbours import Neighbours
from eigengap.fitting.graph.pairs import new_distances
from eigengap.fitting.laplacian import weights as edge_weights
from eigengap.fitting.laplacian.fit import LaplacianFit, Solver, fit_laplacian
from eigengap.fitting.laplacian.graph import Laplacian
from eigengap.linalg import Array
from eigengap.models.maps.eigenmap import Eigenmap
from eigengap.runtime.memory import require_memory
from eigengap.runtime.warnings import warn
from eigengap.sources import ArraySource, Source
from eigengap.statistics.moments import rows_are_equal

GIVEN = ("precomputed", "precomputed_nearest_neighbors")
OF_NEIGHBOURS = ("nearest_neighbors", "precomputed_nearest_neighbors")
SOLVERS: dict[str | None, Solver] = {
    None: "auto",
    "amg": "auto",
    "arpack": "factorised",
    "lobpcg": "filtered",
    "dense": "dense",
}
WITHOUT_PARAMS = ("euclidean", "l2", "precomputed")
FEWEST = 5  # neighbours, the row itself among them, that a small table takes by default
EDGE_BYTES = 80.0  # of an edge while the graph is built


class LaplacianEigenmaps(GraphEstimator):
    """Laplacian eigenmaps (spectral embedding), with coordinates for new rows.

    Coordinates are the smoothest functions on a graph of neighbours (Belkin and Niyogi 2003): the
    eigenvectors of L y = lam D y with the smallest eigenvalues above 0. Takes the parameters of
    scikit-learn's SpectralEmbedding under their names, and by default gives its embedding.

    Parameters
    ----------
    n_components : int, default=2
        Number of coordinates.
    affinity : {"nearest_neighbors", "rbf", "precomputed", "precomputed_nearest_neighbors"} or \
callable, default="nearest_neighbors"
        Where the weights of the graph come from: neighbours of the rows; the kernel
        exp(-gamma |x - x'|^2) of all pairs; X itself, square; the `n_neighbors` shortest of the
        distances stored in X, sparse and square; or a function of the rows that returns the matrix
        (of two tables, where new rows are to have coordinates).
    gamma : float, default=None
        Of "rbf"; None is 1 / n_features.
    random_state : int, RandomState or None, default=None
        Of the block of vectors that the iteration starts from, and of the approximate search. The
        result does not depend on it but by rounding.
    eigen_solver : {"arpack", "lobpcg", "amg", "dense"} or None, default=None
        None chooses by what a factorisation would cost. "arpack" factorises; "lobpcg" takes
        products with the matrix only (Chebyshev filter); "amg" chooses as None does; "dense" is
        LAPACK.
    eigen_tol : float or "auto", default="auto"
        Largest sine of the angle between an eigenvector and the exact one; "auto" is 1e-9, as far
        as rounding allows.
    n_neighbors : int, default=None
        Neighbours of a row, itself counted as in scikit-learn: 10 are 9 others. None is a tenth of
        the rows, but at least 5. Not with `radius`.
    n_jobs : int, default=None
        Threads of the search for neighbours; None is as many as BLAS may use.
    radius : float, default=None
        Rows nearer than this are neighbours, instead of a number of them.
    symmetrize : {"average", "union", "mutual"}, default="average"
        What becomes of neighbours that are so in one direction only: an edge of half the weight, as
        in scikit-learn; a whole edge; none.
    weights : {"connectivity", "heat"}, default="connectivity"
        1 for every edge, or exp(-|x - x'|^2 / t).
    bandwidth : float, "median" or "local", default="median"
        t of "heat"; "median" is the square of the median distance of rows to their
        neighbours; "local" scales each edge by the distances of its two rows to their seventh
        neighbours (Zelnik-Manor and Perona 2004).
    normalized : bool, default=True
        L y = lam D y, or L y = lam y.
    drop_first : bool, default=True
        Whether the constant function, of eigenvalue 0, is left out.
    metric : str or callable, default="euclidean"
        Of the search for neighbours; "precomputed" takes distances between all pairs for X.
    metric_params : dict, default=None
    neighbors_algorithm : {"auto", "brute", "kd_tree", "ball_tree", "approximate"}, default="auto"
        "approximate" is pynndescent, an extra.
    disconnected : {"keep", "bridge", "error"}, default="keep"
        What is done with a graph in several components. Its eigenvalue 0 has as many functions,
        constant on each: "keep" puts those first, as contrasts of components in order of size;
        "bridge" joins them by edges between their nearest rows, as few as will do. Both warn.

    Attributes
    ----------
    embedding_ : array of shape (n_samples, n_components)
        Scaled to y' D y = 1, or y' y = 1.
    eigenvalues_ : array of shape (n_components,)
        Ascending; between 0 and 2 where normalized.
    residuals_ : array of shape (n_components,)
        Norms of (I - D^-1/2 W D^-1/2) x - lam x, or of L x - lam x, of the unit vectors x.
    n_connected_components_ : int
        Of the graph, before any bridge.
    affinity_matrix_ : array or CSR array of shape (n_samples, n_samples)
    n_neighbors_ : int
        Only of neighbours by number.
    gamma_ : float
        Only of "rbf".
    solver_ : str
        What was used: "dense", "factorised", "filtered"; "elimination" for a small graph whose
        parts hang together by little, "... in parts" for a large one; or "null space" where
        components alone made all coordinates.
    model_ : Eigenmap
    n_components_, n_features_in_, feature_names_in_

    Notes
    -----
    `transform` gives new rows (Nystroem) the weighted mean of their neighbours' coordinates over
    1 - lam. A row that coincides with a fitted one is that row, and has its coordinates: its own
    edges count, not those of a row near it (the first of several that are equal). With
    affinity="precomputed" new rows are given by their affinities to the fitted ones, (n_new,
    n_samples), and a row of X itself is recognised by its cells.

    Weights of a heat kernel count relative to their sum, so that a row far from all others has
    coordinates too: in the limit those of its nearest row over 1 - lam. They show which row that
    is, not how far away it is.

    Missing values (NaN) are imputed by their expected values under PPCA before the search.

    Examples
    --------
    A closed curve in space comes back as a circle:

    >>> import numpy as np
    >>> from eigengap import LaplacianEigenmaps
    >>> angle = np.linspace(0, 2 * np.pi, 60, endpoint=False)
    >>> X = np.column_stack([np.cos(angle), np.sin(angle), 0.3 * np.cos(3 * angle)])
    >>> model = LaplacianEigenmaps(2, n_neighbors=5).fit(X)
    >>> radius = np.linalg.norm(model.embedding_, axis=1)
    >>> bool(radius.std() < 1e-2 * radius.mean())
    True
    >>> bool(np.allclose(model.transform(X[:3]), model.embedding_[:3]))
    True
    """

    _prefix = "LE"
    _model_has_coordinates = True

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **{name: kinds for name, kinds in GRAPH_CONSTRAINTS.items() if name != "p"},
        "affinity": [StrOptions({"rbf", *GIVEN, *OF_NEIGHBOURS}), callable],
        "gamma": [Interval(Real, 0, None, closed="left"), None],
        "eigen_solver": [StrOptions({"arpack", "lobpcg", "amg", "dense"}), None],
        "eigen_tol": [Interval(Real, 0, None, closed="left"), StrOptions({"auto"})],
        "n_neighbors": [Interval(Integral, 2, None, closed="left"), None],
        "symmetrize": [StrOptions({"average", "union", "mutual"})],
        "weights": [StrOptions({"connectivity", "heat"})],
        "bandwidth": [Interval(Real, 0, None, closed="neither"), StrOptions({"median", "local"})],
        "normalized": ["boolean"],
        "drop_first": ["boolean"],
        "disconnected": [StrOptions({"keep", "bridge", "error"})],
    }

    model_: Eigenmap
    _fit_: LaplacianFit
    _nearest: scipy.sparse.csr_array | None

    def __init__(
        self,
        n_components: int = 2,
        *,
        affinity: Any = "nearest_neighbors",
        gamma: float | None = None,
        random_state: Any = None,
        eigen_solver: str | None = None,
        eigen_tol: float | str = "auto",
        n_neighbors: int | None = None,
        n_jobs: int | None = None,
        radius: float | None = None,
        symmetrize: edge_weights.Sharing = "average",
        weights: str = "connectivity",
        bandwidth: edge_weights.Bandwidth = "median",
        normalized: bool = True,
        drop_first: bool = True,
        metric: Any = "euclidean",
        metric_params: dict[str, Any] | None = None,
        neighbors_algorithm: str = "auto",
        disconnected: str = "keep",
        missing_values: Any = nan,
    ) -> None:
        keep_parameters(self, locals())

    # Input ---------------------------------------------------------------------------------

    @property
    def _is_pairwise(self) -> bool:
        return self._is_given or self._has_distances

    @property
    def _is_given(self) -> bool:
        """Whether X is the graph."""
        return isinstance(self.affinity, str) and self.affinity in GIVEN

    @property
    def _has_distances(self) -> bool:
        return isinstance(self.metric, str) and self.metric == "precomputed"

    @property
    def _places_empty(self) -> bool:
        return super()._places_empty and (
            isinstance(self.affinity, str) or _takes_two(self.affinity)
        )

    def _pairs(self, source: Source) -> Any:
        """X where it holds affinities, or distances."""
        if not self._is_given:
            return super()._pairs(source)
        if source.has_missing:
            _refuse_missing(source)
        source.require_fit(min_rows=2)
        return source.collect()

    def _new_rows(self, source: Source) -> Any:
        if not self._is_pairwise:
            return super()._new_rows(source)
        if source.has_missing:
            _refuse_missing(source)
        values = source.collect()
        return new_distances(values) if self.affinity == "nearest_neighbors" else values

    def _imputed(self, rows: Array) -> Array:
        return as_imputed_before(super()._imputed(rows), np.isnan(rows), self._known_rows)

    @property
    def _known_rows(self) -> Array:
        return self._rows_

    def _refuse_contradictions(self) -> None:
        of_neighbours = isinstance(self.affinity, str) and self.affinity in OF_NEIGHBOURS
        named = repr(self.affinity) if isinstance(self.affinity, str) else "a function"
        if self.n_neighbors is not None and self.radius is not None:
            raise ValueError(
                f"give either n_neighbors={self.n_neighbors} or radius={self.radius:g}, not both"
            )
        if not of_neighbours:
            self._refuse_others(named, radius=None, weights="connectivity", symmetrize="average")
            if self._has_distances:
                raise ValueError(
                    "metric='precomputed' belongs to affinity='nearest_neighbors'; affinities "
                    "between all pairs are affinity='precomputed'"
                )
        if self.affinity != "nearest_neighbors":
            self._refuse_others(
                named, metric="euclidean", metric_params=None, neighbors_algorithm="auto"
            )
        if self.weights != "heat" and self.bandwidth != "median":
            raise ValueError(
                f"bandwidth={self.bandwidth!r} belongs to weights='heat': edges of "
                f"weights={self.weights!r} all weigh the same"
            )
        if self.metric_params and isinstance(self.metric, str) and self.metric in WITHOUT_PARAMS:
            raise ValueError(
                f"metric_params={self.metric_params!r}: metric={self.metric!r} takes none"
            )
        if self.disconnected == "bridge" and self.affinity != "nearest_neighbors":
            raise ValueError(
                f"disconnected='bridge' looks for the nearest rows, which affinity={named} does "
                "not know: use 'keep' or 'error'"
            )

    def _refuse_others(self, named: str, **plain: Any) -> None:
        """Refuse parameters of the search for neighbours that differ from their defaults."""
        for name, default in plain.items():
            value = getattr(self, name)
            if value != default and not (default is None and value == {}):
                raise ValueError(
                    f"{name}={value!r} belongs to affinity='nearest_neighbors', not to {named}"
                )

    # Fitting -------------------------------------------------------------------------------

    def _fit_rows(self, rows: Any) -> Array:
        self._refuse_contradictions()
        self._forget("n_neighbors_", "gamma_", "_neighbours", "_weights", "_rows_")
        W, diagonal = self._affinities(rows)
        laplacian = Laplacian(W, bool(self.normalized))
        self.n_connected_components_ = laplacian.components[0]
        if self.n_connected_components_ > 1:
            laplacian = self._of_components(laplacian)
        self._nearest = None  # no longer needed
        fit = fit_laplacian(
            laplacian,
            int(self.n_components),
            drop_first=bool(self.drop_first),
            solver=SOLVERS[self.eigen_solver],
            angle=ANGLE if self.eigen_tol == "auto" else float(self.eigen_tol),
            seed=self._seed(),
        )
        self._W, self._diagonal, self._fit_ = laplacian.W, diagonal, fit
        self._prints = row_hashes(_canonical(rows, self.affinity))
        self.model_ = Eigenmap(fit.Y, fit.lam, bool(self.normalized))
        if hasattr(self, "_rows_") and rows_are_equal(ArraySource(rows)):
            warn(
                "all rows coincide, so that their graph is arbitrary: any coordinates are as good",
                UserWarning,
            )
        if not fit.certified:
            warn(
                "the eigenvectors are not as accurate as eigen_tol asks for; residuals are up to "
                f"{np.max(fit.residuals):.2g} (residuals_). eigen_solver=None may do better; where "
                "weights differ by many decades, parts of the graph hang together by less than "
                "rounding: leave the weakest edges out, and fit parts by themselves",
                ConvergenceWarning,
            )
        return fit.Y.copy()  # the model keeps its own

    def _affinities(self, rows: Any) -> tuple[Any, Array]:
        """W (n, n) without its diagonal, and that."""
        n = rows.shape[0]
        self._nearest = None
        if not isinstance(self.affinity, str):
            self._rows_ = rows
            return edge_weights.affinity_matrix(
                _as_matrix(self.affinity(rows), n), "what affinity returns"
            )
        if self.affinity == "precomputed":
            return edge_weights.affinity_matrix(rows, "X")
        if self.affinity == "rbf":
            self._rows_ = rows
            self.gamma_ = 1.0 / rows.shape[1] if self.gamma is None else float(self.gamma)
            return edge_weights.rbf_affinities(rows, self.gamma_, self.n_jobs), np.ones(n)
        self._nearest = self._stored(rows) if self._is_given else self._found(rows)
        self._weights = edge_weights.EdgeWeights.of(
            self._nearest,
            self.symmetrize,
            self.bandwidth if self.weights == "heat" else None,
            within_radius=self.radius is not None,
        )
        return self._weights.among(self._nearest), np.ones(n)

    def _found(self, rows: Array) -> scipy.sparse.csr_array:
        """Distances to the neighbours that a search over the rows finds."""
        others = None
        if self.radius is None:
            n, asked = rows.shape[0], self.n_neighbors
            if asked is not None and asked > n:
                raise ValueError(
                    f"n_neighbors={asked} must be at most the number of rows (n_samples={n}): it "
                    "counts the row itself"
                )
            count = min(max(n // 10, FEWEST), n) if asked is None else int(asked)
            what = f"a graph of {count} neighbours of {n} rows"
            require_memory(EDGE_BYTES * n * (count - 1), what, "take n_neighbors=10")
            self.n_neighbors_, others = count, count - 1
        self._neighbours = Neighbours.of(self._search_for(others, self.radius), rows)
        self._rows_ = rows
        nearest = self._neighbours.among()
        stored.require_finite(nearest, "X")
        self._warn_of_uncertain(nearest)
        return nearest

    def _stored(self, X: Any) -> scipy.sparse.csr_array:
        """The shortest distances stored in X, as scikit-learn takes them, and not of a row itself.

        A matrix that is not sparse stores all of them.
        """
        count = None if self.n_neighbors is None else int(self.n_neighbors)
        if self.radius is None and count is not None:
            self.n_neighbors_ = count
        nearest = self._within_reach(stored.stored_distances(stored.square_distances(X)), count)
        nearest = stored.without_diagonal(nearest)
        self._others = int(np.max(np.diff(nearest.indptr)))  # itself need not be stored
        return nearest

    def _within_reach(self, X: scipy.sparse.csr_array, count: int | None) -> scipy.sparse.csr_array:
        if self.radius is not None:
            return stored.selected(X, X.data <= float(self.radius))
        return stored.nearest_stored(X, count)

    def _of_components(self, laplacian: Laplacian) -> Laplacian:
        """The graph as `disconnected` wants it, with a warning, or an error."""
        W = scipy.sparse.csr_array(laplacian.W)
        graph = as_graph(W)
        falls = f"the graph falls into {in_words(graph)}"
        if self._nearest is not None and self.radius is None:
            pairs = None if self._is_given else self._neighbours.pairs
            copies = copies_in_words(graph.components[1], self._nearest, pairs, itself=1)
            falls += f" ({copies})" if copies else ""
        larger = "a larger n_neighbors" if self.radius is None else "a larger radius"
        ways = {"nearest_neighbors": larger, "rbf": "a smaller gamma"}.get(
            str(self.affinity), "more edges"
        )
        if self.disconnected == "error":
            raise DisconnectedError(
                f"{falls}: take {ways}, fit each by itself, or use disconnected='keep', which "
                "separates them"
            )
        if self.disconnected == "bridge":
            warn(
                f"{falls}; they were joined by their nearest rows, with the weight of the weakest "
                f"edge at the least: {ways} may join them by more, or fit each by itself",
                DisconnectedWarning,
            )
            whole = joined(W, self._neighbours.pairs, self._weights.t)
            return Laplacian(whole, laplacian.normalized)
        count = self.n_connected_components_ - bool(self.drop_first)
        taken = min(count, int(self.n_components))
        which = "all coordinates" if taken == self.n_components else f"the first {taken}"
        warn(
            f"{falls}: {which} of {self.n_components} only separate them, and are constant on "
            f"each. {ways.capitalize()} may join them; or fit each by itself"
            + (
                "; or disconnected='bridge' joins them by their nearest rows"
                if self.affinity == "nearest_neighbors"
                else ""
            ),
            DisconnectedWarning,
        )
        return laplacian

    # New rows ------------------------------------------------------------------------------

    def _of_new(self, rows: Any) -> Array:
        fitted = found_among(row_hashes(_canonical(rows, self.affinity)), self._prints)
        if not isinstance(self.affinity, str):
            rows = self._compared(rows)
        if self.affinity == "precomputed" or not isinstance(self.affinity, str):
            return self._placed(
                *edge_weights.shares_of(edge_weights.new_affinities(rows), fitted), fitted
            )
        if self.affinity == "rbf":
            pieces = edge_weights.rbf_shares(rows, self._rows_, self.gamma_)
            return np.concatenate([self._placed(*share, fitted[at]) for at, share in pieces])
        if self._is_given:
            known = stored.stored_distances(rows)
            fitted = np.where(fitted < 0, stored.coinciding(known), fitted)
            of_row = None if self.n_neighbors is None else self._others
            nearest = self._within_reach(known, of_row)
        else:
            nearest = self._neighbours.of_new(rows)
            stored.require_finite(nearest, "X")
            if self._has_distances:
                fitted = np.where(fitted < 0, stored.coinciding(nearest), fitted)
        alone = np.flatnonzero(np.diff(nearest.indptr) == 0)
        if len(alone):
            raise ValueError(
                f"row {int(alone[0])} has no fitted row for neighbour"
                f"{'' if self.radius is None else f' within radius={self.radius:g}'}, so that "
                "nothing is known of its coordinates: leave it out, or fit with n_neighbors"
            )
        return self._placed(*self._weights.of_new(nearest), fitted)

    def _placed(self, shares: Any, degrees: Array, fitted: NDArray[np.int64]) -> Array:
        """Coordinates by shares of the weights; `fitted` (c,) is the same fitted row, or -1."""
        Z = self.model_.extend(shares, degrees)
        new = fitted < 0
        Z[~new] = self.model_.Y[fitted[~new]]
        short = np.any(self.model_.left_out(degrees)[new], axis=0)
        if short.any():
            warn(
                f"coordinates {', '.join(str(k + 1) for k in np.flatnonzero(short))} vary too fast "
                "over the graph for the Nystroem formula (eigenvalues near or above the degrees of "
                "new rows): new rows get the mean of their neighbours'",
                UserWarning,
            )
        return Z

    def _compared(self, rows: Array) -> Any:
        """What the function that affinity is returns for new rows and the fitted ones."""
        if not _takes_two(self.affinity):
            raise ValueError(
                "affinity takes one table, and does not compare new rows with fitted ones: for "
                "transform it has to take two, affinity(X_new, X_fitted) -> (n_new, n_samples)"
            )
        W = _as_matrix(self.affinity(rows, self._rows_), len(rows))
        if W.shape[1] != len(self._rows_):
            raise ValueError(
                f"affinity(X_new, X_fitted) returned {W.shape[1]} columns for {len(self._rows_)} "
                "fitted rows"
            )
        return W

    # Fitted attributes ---------------------------------------------------------------------

    @property
    def affinity_matrix_(self) -> Any:
        kind = self.embedding_.dtype
        if stored.is_sparse(self._W):
            W = self._W + scipy.sparse.diags_array(self._diagonal)
            return scipy.sparse.csr_array(W).astype(kind, copy=False)
        W = self._W.astype(kind)
        np.fill_diagonal(W, self._diagonal)
        return W

    eigenvalues_ = property(attrgetter("_fit_.lam"))
    residuals_ = property(attrgetter("_fit_.residuals"))
    solver_ = property(attrgetter("_fit_.solver"))


def _canonical(rows: Any, affinity: Any) -> Any:
    """Rows, or rows of a sparse graph, in the one form by which fitted rows are recognised."""
    if not stored.is_sparse(rows):
        return rows
    found = scipy.sparse.csr_array(rows, dtype=np.float64, copy=True)
    found.sum_duplicates()
    if affinity == "precomputed":  # a stored 0 is no edge; a distance of 0 is one
        found.eliminate_zeros()
    return found


def _as_matrix(found: Any, rows: int) -> Any:
    """What a function of rows returned, as a matrix."""
    W = found if stored.is_sparse(found) else np.asarray(found)
    if W.ndim != 2 or W.shape[0] != rows:
        raise ValueError(f"affinity returned shape {W.shape} for {rows} rows")
    return W


def _takes_two(function: Callable[..., Any]) -> bool:
    try:
        inspect.signature(function).bind(None, None)
    except TypeError:
        return False
    except ValueError:  # written in C, without a signature
        return True
    return True


def _refuse_missing(source: Source) -> None:
    missing = int(np.sum(source.missing_per_column()))
    raise ValueError(
        f"Input X contains NaN ({missing} cells), and a graph takes no missing values: leave an "
        "unknown affinity 0, and an unknown distance out of the sparse matrix"
    )
