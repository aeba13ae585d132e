"""Maximum variance unfolding as a scikit-learn estimator."""

from __future__ import annotations

from math import nan
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from eigengap.estimators.shared.base import keep_parameters, progress_of
from eigengap.estimators.shared.manifold import GRAPH_CONSTRAINTS, Disconnected, GraphEstimator
from eigengap.estimators.shared.sklearn_compat import Interval, StrOptions
from eigengap.fitting.graph.local_weights import local_weights
from eigengap.fitting.sdp import unfolding
from eigengap.fitting.sdp import unfolding_landmarks as on_landmarks
from eigengap.linalg import Array
from eigengap.models.maps.graph import Graph
from eigengap.runtime.warnings import warn

EXACT_ROWS = 20_000  # up to which landmarks="auto" places every row by itself
AUTO_LANDMARKS = 300


class MaximumVarianceUnfolding(GraphEstimator):
    """Maximum variance unfolding: rows pulled apart, neighbours keeping their distances.

    The Gram matrix K of largest trace in which neighbours are as far apart as they were
    (Weinberger and Saul 2006), and its principal coordinates. The semidefinite program is solved
    for a low-rank factor, without any n x n matrix, and a bound from its multipliers limits
    the distance of the result from the optimum.

    Parameters
    ----------
    n_components : int, default=2
        Coordinates that are kept of K. Those without variance (less than 1e-4 of the median
        distance of neighbours, root mean square) are 0, with a warning.
    n_neighbors : int or None, default=6
        Neighbours whose distances are kept; an edge stands where either is the other's neighbour.
        None where radius is given.
    radius : float or None, default=None
        Rows within it are neighbours.
    constraint : {"equal", "at_most"}, default="equal"
        Whether distances of neighbours stay as they are, or may shrink. "at_most" is the easier
        program, with a bound that closes; it lets a strip narrow where that makes it longer.
    preserve_angles : bool, default=False
        Whether distances among the neighbours of a row are kept as well, as in the original: more
        rigid, and slower. Use fewer neighbours then.
    landmarks : int, "auto" or None, default="auto"
        None places every row by itself. A number places so many rows, and the others as the
        affine combinations of their neighbours that they are (Weinberger, Packer and Saul 2005);
        distances are then kept in least squares. "auto" does so with 300 where there are more than
        20 000 rows. Each part of a graph that falls apart has landmarks of its own, which may be
        more in all.
    metric : str or callable, default="minkowski"
        "precomputed" takes a matrix of distances.
    p : float, default=2
        Of the Minkowski metric.
    metric_params : dict, default=None
    neighbors_algorithm : {"auto", "brute", "kd_tree", "ball_tree", "approximate"}, \
default="auto"
    disconnected : {"bridge", "error"}, default="bridge"
        Parts of a graph that falls apart are joined by their nearest rows, with a warning, or
        refused.
    tol : float, default=1e-4
        What squared distances of neighbours may be off at the end, root mean square, relative to
        themselves, or to the squared median of all such distances where these are longer; a tenth
        of the relative change of variance that ends the fit.
    max_iter : int, default=50
        Subproblems, of at most 50 (equal) or 300 (at_most) steps each. With landmarks there are
        always three, of 300.
    random_state : int, RandomState or None, default=None
        Of the start, of landmarks, and of the approximate search. None is a seed of 0: the result
        hardly depends on it.
    n_jobs : int, default=None
        Threads of the search for neighbours.

    Attributes
    ----------
    embedding_ : array of shape (n_samples, n_components)
    eigenvalues_ : array of shape (rank_,)
        Of K, descending: what they leave beyond n_components is variance that the embedding hides.
    constraint_violation_ : float
        The largest that the squared distance of two neighbours is off, relative to itself, or to
        the squared median of all such distances where it is shorter.
    constraint_violation_rms_ : float
        Root mean square of the same.
    duality_gap_ : float
        |bound - tr K| / bound, with the bound that the multipliers prove. inf where they prove
        nothing, as for equal distances that leave K no freedom (see Notes), or prove that no K
        keeps them; nan where the eigenvalue for it was too costly, in graphs of many rows that are
        not flat. On landmarks that of the penalised program.
    converged_ : bool
        Whether `constraint_violation_rms_` is at most `tol` and variance grows no more; on
        landmarks, whether the penalised program was solved. False with a warning that gives
        the error of the distances.
    rank_ : int
        Columns of the factor in which K was looked for.
    n_iter_ : int
        Steps of descent.
    trace_ : Trace
        tr K in squared units of the median edge, and violation, at each subproblem.
    graph_ : Graph
    landmarks_ : array of shape (n_landmarks,)
        Rows that were placed. Only with landmarks.
    n_connected_components_ : int
        Before they were joined.
    n_components_, n_features_in_, feature_names_in_

    Notes
    -----
    New rows are placed by the affine combination of their neighbours among the fitted rows that
    comes nearest to them (locally linear weights). A fitted row keeps its coordinates exactly. A
    new row near a surface that neighbours sample at distances h is off by the order of h^2 times
    its curvature, and by its own distance from the surface.

    Missing values are imputed under a PPCA density first.

    As soon as d + 2 neighbours are each other's in d columns, equal distances hold them rigid, K
    has no positive definite choice, and no finite multipliers are optimal: `duality_gap_` is then
    large or inf however good K is, and `constraint_violation_` is what to look at.

    Memory grows with n times the rank, and with the edges; what does not fit is refused before it
    is allocated.

    Examples
    --------
    A quarter of a circle is unrolled to its length:

    >>> import numpy as np
    >>> from eigengap import MaximumVarianceUnfolding
    >>> angle = np.linspace(0, np.pi / 2, 50)
    >>> X = np.column_stack([np.cos(angle), np.sin(angle)])
    >>> Z = MaximumVarianceUnfolding(1, n_neighbors=2).fit_transform(X)
    >>> round(float(np.ptp(Z)), 2)
    1.57
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **GRAPH_CONSTRAINTS,
        "constraint": [StrOptions({"equal", "at_most"})],
        "preserve_angles": ["boolean"],
        "landmarks": [Interval(Integral, 3, None, closed="left"), StrOptions({"auto"}), None],
        "disconnected": [StrOptions({"bridge", "error"})],
        "tol": [Interval(Real, 0, None, closed="neither")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "verbose": ["verbose"],
    }

    _prefix = "MVU"

    def __init__(
        self,
        n_components: int = 2,
        *,
        n_neighbors: int | None = 6,
        radius: float | None = None,
        constraint: unfolding.Constraint = "equal",
        preserve_angles: bool = False,
        landmarks: int | str | None = "auto",
        metric: Any = "minkowski",
        p: float = 2,
        metric_params: dict[str, Any] | None = None,
        neighbors_algorithm: str = "auto",
        disconnected: Disconnected = "bridge",
        tol: float = 1e-4,
        max_iter: int = 50,
        random_state: Any = None,
        n_jobs: int | None = None,
        missing_values: Any = nan,
        verbose: bool | int = False,
    ) -> None:
        keep_parameters(self, locals())

    # Fitting -------------------------------------------------------------------------------

    def _fit_rows(self, rows: Array) -> Array:
        q, d = int(self.n_components), None if self._is_pairwise else rows.shape[1]
        parts = self._neighbour_graph(rows)
        nearest = self._neighbours.among()
        parts = unfolding.with_equal_rows(parts, nearest, rows)
        if self.preserve_angles:
            parts = unfolding.with_angles(parts, self._neighbours, nearest)
        columns = unfolding.first_columns(q, d, self.constraint)
        rng = np.random.default_rng(self._seed())
        chosen = self._chosen(parts, columns, rng)
        graph = self._connected(parts)
        self._forget("landmarks_")
        unfolding.require_unfolding(graph.n, graph.m, columns)
        how: dict[str, Any] = {"columns": columns, "tol": float(self.tol), "rng": rng}
        if chosen is not None:
            self.landmarks_ = chosen
            weights = local_weights(self._neighbours, nearest, False)
            basis = on_landmarks.reconstruction_basis(weights, chosen)
        with progress_of(self) as watch:
            if chosen is not None:
                found = on_landmarks.unfold_on_landmarks(
                    graph, basis, self.constraint, watch=watch, **how
                )
            else:
                most = int(self.max_iter)
                found = unfolding.unfold(graph, self.constraint, max_iter=most, watch=watch, **how)
        self.graph_, self.eigenvalues_, self.trace_ = graph, found.lam, found.trace
        self.constraint_violation_, self.constraint_violation_rms_ = found.worst, found.rms
        self.duality_gap_, self.rank_ = found.gap, found.rank
        self.converged_, self.n_iter_ = found.converged, found.steps
        if not found.converged:
            warn(self.not_converged(found), ConvergenceWarning)
        embedding = np.zeros((len(found.Z), q))
        kept = min(q, found.dimensions)
        embedding[:, :kept] = found.Z[:, :kept]
        if kept == 0:
            warn("all rows coincide, so that their coordinates are 0", UserWarning)
        elif kept < q:
            warn(f"only {kept} of the {q} coordinates have variance: the others are 0", UserWarning)
        return embedding

    def _chosen(self, parts: Graph, columns: int, rng: np.random.Generator) -> Any:
        """Landmarks, in order; None where every row is placed by itself."""
        n = parts.n
        wanted = self.landmarks
        if wanted == "auto":
            wanted = AUTO_LANDMARKS if n > EXACT_ROWS else None
        if wanted is None or wanted >= n:
            return None
        labels = parts.components[1]
        chosen = on_landmarks.choose_landmarks(labels, int(wanted), columns + 1, rng)
        return chosen if len(chosen) < n else None

    def not_converged(self, found: unfolding.Unfolding) -> str:
        off = (
            f"squared distances of neighbours are off by up to {100 * found.worst:.2g} % "
            f"(root mean square {100 * found.rms:.2g} %)"
        )
        if hasattr(self, "landmarks_"):
            return f"unfolding on landmarks took all its steps: {off}. Raise tol={self.tol:g}"
        if found.stalled:
            return (
                f"no points keep all these distances to tol={self.tol:g}: {off}. Take fewer "
                'neighbours, or constraint="at_most"'
            )
        return (
            f"unfolding did not converge in max_iter={self.max_iter} subproblems: {off}. Raise "
            f"max_iter, or tol={self.tol:g}"
        )

    # New rows ------------------------------------------------------------------------------

    def _of_new(self, rows: Array) -> Array:
        return self._locally_linear(rows, "radius or n_neighbors")

    @property
    def _accepts_sparse(self) -> bool:
        return not self._is_pairwise
