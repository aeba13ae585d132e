"""Structure preserving embedding as a scikit-learn estimator."""

from __future__ import annotations

from math import nan
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
import scipy.sparse
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from eigengap.estimators.shared.base import keep_parameters, progress_of
from eigengap.estimators.shared.manifold import GRAPH_CONSTRAINTS, GraphEstimator
from eigengap.estimators.shared.sklearn_compat import Interval, StrOptions
from eigengap.exceptions import StructureWarning
from eigengap.fitting.graph.neighbours import Search
from eigengap.fitting.sdp import structure_start
from eigengap.fitting.sdp.structure import Kind, read_back, require_structure, shares
from eigengap.fitting.sdp.unfolding import principal
from eigengap.linalg import Array
from eigengap.runtime.warnings import warn
from eigengap.sources import Source


def _of_rows(estimator: StructurePreservingEmbedding) -> bool:
    if estimator.affinity == "rows":
        return True
    raise AttributeError(
        "StructurePreservingEmbedding of a bare graph has no transform: a new node has no place "
        'before its edges are known. Fit rows (affinity="rows"), or the larger graph'
    )


class StructurePreservingEmbedding(GraphEstimator):
    """Coordinates from which a graph can be read back, from the graph or from rows.

    Shaw and Jebara (2009): the nearest neighbours of each node, as many as it has edges, are its
    neighbours in the graph; or the pairs within a threshold are its edges. Spectral embedding and
    maximum variance unfolding promise no such thing.

    Parameters
    ----------
    n_components : int, default=2
    graph : {"nearest_neighbors", "threshold"}, default="nearest_neighbors"
        How the graph is to be read back.
    n_neighbors : int or None, default=5
        Of rows: the graph is that of the nearest neighbours. Of no use with a threshold, or where
        X is a graph.
    radius : float or None, default=None
        Of rows with graph="threshold": the threshold.
    affinity : {"rows", "precomputed"}, default="rows"
        Whether X holds rows, or is the adjacency matrix of a graph, of zeros and ones, dense or
        sparse.
    directed : bool, default=False
        Whether an adjacency matrix may be asymmetric: row i names the neighbours of i. For
        graph="nearest_neighbors" only.
    margin : float, default=0.1
        By which squared distances to others have to exceed those to neighbours, relative to the
        mean squared distance of neighbours at the start; of thresholds, relative to the squared
        threshold.
    C : float, default=10.0
        Price of missing a constraint, relative to what a constraint is usually worth. Where it is
        too low to keep edges from growing without end, it is raised.
    n_init : int, default=4
        Starts that are tried until one gives the whole graph back.
    metric : str or callable, default="minkowski"
    p : float, default=2
    metric_params : dict, default=None
    neighbors_algorithm : {"auto", "brute", "kd_tree", "ball_tree", "approximate"}, \
default="auto"
    tol : float, default=1e-3
        What a constraint may be off at the end, relative to the margin.
    max_iter : int, default=40
        Rounds in which constraints are added, from each start.
    random_state : int, RandomState or None, default=None
        Of the starts; None is a seed of 0.
    n_jobs : int, default=None
        Threads of the search for neighbours.
    missing_values : float or list of float, default=nan
        Of rows: missing values are imputed under a PPCA density first. A graph has none.

    Attributes
    ----------
    embedding_ : array of shape (n_samples, n_components)
        Principal axes first. Of rows in their units; of a bare graph with mean square 1, or with
        the threshold at 1.
    edges_recovered_ : float
        Share of the graph's edges that the coordinates give back.
    false_edges_ : float
        Share of the edges that they give back and that the graph has not.
    graph_ : sparse array of shape (n_samples, n_samples)
        The graph that was to be kept, bool.
    recovered_graph_ : sparse array of shape (n_samples, n_samples)
    threshold_ : float
        Distance up to which two nodes are neighbours. Only if graph="threshold".
    n_constraints_ : int
        In force at the end, of all that there are.
    n_iter_ : int
        Rounds of the start that was kept.
    n_components_, n_features_in_, feature_names_in_

    Notes
    -----
    Not every graph fits q dimensions: a star with seven leaves has no such coordinates in the
    plane. `edges_recovered_` and `false_edges_` give what came back; a warning does where it is not
    all.

    New rows are placed by the affine combination of their neighbours among the fitted rows that
    comes nearest to them; a fitted row keeps its coordinates exactly. Equal rows may have different
    neighbours, since only so many count, and then lie apart: a new row like them has the place of
    one of them. A bare graph has no `transform`.

    All pairs of nodes are compared in each round, some at a time: time grows with n^2, memory
    with the constraints; more than 20 000 nodes are refused. "matching" (b-matching), the third
    rule of the paper, is not offered.

    Examples
    --------
    A ladder that is closed with a twist, which spectral embedding lays upon itself:

    >>> import numpy as np
    >>> from eigengap import StructurePreservingEmbedding
    >>> n = 8
    >>> A = np.zeros((2 * n, 2 * n), dtype=int)
    >>> for i in range(2 * n):
    ...     A[i, (i + 1) % (2 * n)] = A[i, (i + n) % (2 * n)] = 1
    >>> A = np.maximum(A, A.T)
    >>> spe = StructurePreservingEmbedding(3, affinity="precomputed").fit(A)
    >>> spe.edges_recovered_, spe.false_edges_
    (1.0, 0.0)
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **GRAPH_CONSTRAINTS,
        "graph": [StrOptions({"nearest_neighbors", "threshold"})],
        "affinity": [StrOptions({"rows", "precomputed"})],
        "directed": ["boolean"],
        "margin": [Interval(Real, 0, None, closed="neither")],
        "C": [Interval(Real, 0, None, closed="neither")],
        "n_init": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="neither")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "verbose": ["verbose"],
    }

    _prefix = "SPE"

    def __init__(
        self,
        n_components: int = 2,
        *,
        graph: Kind = "nearest_neighbors",
        n_neighbors: int | None = 5,
        radius: float | None = None,
        affinity: str = "rows",
        directed: bool = False,
        margin: float = 0.1,
        C: float = 10.0,
        n_init: int = 4,
        metric: Any = "minkowski",
        p: float = 2,
        metric_params: dict[str, Any] | None = None,
        neighbors_algorithm: str = "auto",
        tol: float = 1e-3,
        max_iter: int = 40,
        random_state: Any = None,
        n_jobs: int | None = None,
        missing_values: Any = nan,
        verbose: bool | int = False,
    ) -> None:
        keep_parameters(self, locals())

    # Input ---------------------------------------------------------------------------------

    @property
    def _is_pairwise(self) -> bool:
        return self.affinity == "rows" and super()._is_pairwise

    @property
    def _has_rows(self) -> bool:
        return self.affinity == "rows" and super()._has_rows

    def _rows(self, source: Source) -> Any:
        if self.affinity == "rows":
            rows = super()._rows(source)
            if structure_start.looks_like_adjacency(rows):
                warn(
                    "X looks like the adjacency matrix of a graph, and is taken for rows of data: "
                    'affinity="precomputed" takes a graph',
                    UserWarning,
                )
            return rows
        if self.directed and self.graph == "threshold":
            raise ValueError(
                "directed=True belongs to graph='nearest_neighbors': pairs within a threshold have "
                "no direction"
            )
        return structure_start.adjacency(source.collect(), directed=bool(self.directed))

    def _search(self) -> Search:
        """By the parameter that the kind of graph asks for; the other one is of no use."""
        by_radius = self.graph == "threshold"
        count, radius = self.n_neighbors, self.radius
        if (radius if by_radius else count) is None:
            wanted = "radius" if by_radius else "n_neighbors"
            raise ValueError(f"graph={self.graph!r} of rows needs {wanted}, got None")
        if radius is not None and not by_radius:
            raise ValueError(
                f"radius={radius:g} belongs to graph='threshold', not to 'nearest_neighbors'"
            )
        return self._search_for(None if by_radius else count, radius if by_radius else None)

    # Fitting -------------------------------------------------------------------------------

    def _fit_rows(self, rows: Any) -> Array:
        rng = np.random.default_rng(self._seed())
        n, q = int(rows.shape[0]), int(self.n_components)
        require_structure(n, n, n, q)  # before neighbours are looked for
        if self.affinity == "rows":
            undirected = self._neighbour_graph(rows)
            nearest = self._neighbours.among()
            scaled = structure_start.rows_gain(
                undirected, nearest, self.graph, self.radius, self.margin, q, rng
            )
            if self._neighbours.search.is_euclidean:
                scaled = scaled.also_from(rows, q)
        else:
            scaled = structure_start.graph_gain(rows, self.graph, self.margin)
        self.n_connected_components_ = scaled.components
        with progress_of(self) as watch:
            best = structure_start.embed_from_starts(
                scaled,
                q,
                n_init=int(self.n_init),
                C=float(self.C),
                tol=float(self.tol),
                max_rounds=int(self.max_iter),
                rng=rng,
                watch=watch,
            )
        self._forget("threshold_")
        self._structure, self._unit = scaled.structure, scaled.unit
        self.graph_ = self._both_ways(scaled.structure.neighbours)
        self.recovered_graph_ = self._both_ways(best.recovered)
        self.edges_recovered_, self.false_edges_ = shares(self.graph_, self.recovered_graph_)
        self.n_constraints_, self.n_iter_ = best.constraints, best.rounds
        if self.graph == "threshold":
            self.threshold_ = self._unit * float(np.sqrt(1.0 + 0.5 * self._structure.margin))
        if self.edges_recovered_ < 1.0 or self.false_edges_ > 0.0:
            warn(
                f"the coordinates give back {100 * self.edges_recovered_:.1f} % of the edges, and "
                f"{100 * self.false_edges_:.1f} % of what they give back are none: "
                f"n_components={self.n_components} may be too few for this graph; or raise n_init "
                "or max_iter",
                StructureWarning,
            )
        found = np.zeros((n, q))
        Z = principal(best.Y)[0]
        found[:, : Z.shape[1]] = Z * scaled.unit
        return found

    def _both_ways(self, pattern: scipy.sparse.csr_array) -> scipy.sparse.csr_array:
        """Edges of either direction, unless directions count."""
        if self.affinity == "precomputed" and self.directed:
            return pattern
        return scipy.sparse.csr_array((pattern + pattern.T).astype(bool))

    # Output --------------------------------------------------------------------------------

    def reconstruct_graph(self) -> scipy.sparse.csr_array:
        """The graph that `embedding_` gives back, read anew: (n_samples, n_samples), bool.

        Returns
        -------
        sparse array of shape (n_samples, n_samples)
        """
        check_is_fitted(self, "embedding_")
        return self._both_ways(read_back(self._structure, self._fitted / self._unit))

    def _of_new(self, rows: Array) -> Array:
        return self._locally_linear(rows, "radius")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        bare = self.affinity == "precomputed"
        tags.input_tags.pairwise = tags.input_tags.pairwise or bare
        tags.input_tags.sparse = not self._is_pairwise
        tags.input_tags.allow_nan = tags.input_tags.allow_nan and not bare
        return tags


# Only now: scikit-learn wraps the `transform` of a class for set_output when the class is made, and
# what it wraps is always there.
StructurePreservingEmbedding.transform = available_if(_of_rows)(  # type: ignore[method-assign]
    GraphEstimator.transform
)
