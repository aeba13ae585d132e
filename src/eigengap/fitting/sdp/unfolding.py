"""Maximum variance unfolding: a neighbourhood graph pulled apart, its edges keeping their length.

Weinberger, Sha and Saul (2004), Weinberger and Saul (2006), "Unsupervised learning of image
manifolds by semidefinite programming":

    maximise  tr K   subject to   K psd,  sum K = 0,  K_ii - 2 K_ij + K_jj = d_ij^2 on edges,

or <= ("at_most"; Sun, Boyd, Xiao and Diaconis 2006). The coordinates are the principal ones of K.

The semidefinite program is solved for a low-rank factor (`fitting.sdp.descent`) from a start by
geodesic distances to some nodes. Points that coincide are one node of larger weight. The rank is
raised where the certificate finds a direction in which variance is still to be gained, and where
too few columns cannot keep the lengths.

Of noisy or curved data equal lengths leave hardly a K to choose from, and none that is positive
definite, as soon as d + 2 neighbours are each other's, in d dimensions. Then no multipliers are
optimal: they grow without bound, and prove nothing. What is found is still within tol of the
constraints, on a path of growing penalties.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import scipy.sparse
from scipy.sparse.csgraph import connected_components, dijkstra

from eigengap.fitting.graph.local_weights import around
from eigengap.fitting.graph.neighbours import Neighbours
from eigengap.fitting.optimise.loop import Trace, Watch
from eigengap.fitting.sdp.certificate import Certificate, certify
from eigengap.fitting.sdp.descent import MEMORY, Solution, solve, usual_multiplier
from eigengap.fitting.sdp.problem import Problem, Variance
from eigengap.linalg import Array, sign_rule
from eigengap.models.maps.graph import Graph, Ints
from eigengap.runtime.memory import require_memory
from eigengap.runtime.threads import one_blas_thread

Constraint = Literal["equal", "at_most"]

SMALL = 64  # nodes up to which the rank is one at which no local optimum is feared (Pataki 1998)
SPARE = 2  # columns beyond those that are asked for
MOST_COLUMNS = 10  # to start with
RAISES = 4  # times that the rank is raised
NEW_COLUMN = 0.1  # size of what is added, in median lengths of edges
FEW = 500  # nodes up to which the multipliers of all subproblems are looked at
UNUSED = 1e-4  # root mean square of a column, in the same units, that is as good as none
SOFTER = {"equal": 100.0, "at_most": 1.0}  # by which the penalty is eased to leave a saddle
GAP = 1e-3  # relative, above which the rank is raised
LANDMARKS = 200  # nodes whose geodesic distances give the start
PAIR_BYTES = 150.0  # of an edge while edges are sorted
STEPS = {"equal": 50, "at_most": 300}  # of a subproblem
ANGLES_OUT = "take fewer neighbours, or preserve_angles=False"
WAY_OUT = "landmarks=300 needs the coordinates of these alone; or fit a sample of the rows"


@dataclass(frozen=True, eq=False)
class Unfolding:
    """K = Y Y' of the rows, and how good it is."""

    Z: Array  # (n, r) principal coordinates, in order of their variance
    lam: Array  # (r,) eigenvalues of K, descending
    dimensions: int  # columns of Z that have variance
    worst: float  # largest violation of a constraint, relative as in `unfolded`
    rms: float  # root mean square of the same
    gap: float  # (bound - variance) / bound; inf where multipliers prove nothing, nan: unknown
    mu: float  # smallest eigenvalue of the dual's Laplacian: 1 at the optimum
    rank: int  # columns of the factor
    converged: bool
    stalled: bool  # lengths came no nearer although their price grew
    steps: int
    trace: Trace = field(repr=False)


def unfold(
    graph: Graph,
    constraint: Constraint = "equal",
    *,
    columns: int = 4,
    tol: float = 1e-4,
    max_iter: int = 50,
    rng: np.random.Generator | None = None,
    watch: Watch | None = None,
) -> Unfolding:
    """Unfold a connected graph. `columns` is the rank to start with."""
    rng = np.random.default_rng(0) if rng is None else rng
    merged, place, weights = merge_coincident(graph)
    if merged.n == 1:
        return nothing(graph.n)
    merged, unit = in_units(merged)
    squares = merged.edges[2] ** 2
    problem = unfolding_problem(merged, squares, constraint, weights)
    most = merged.n - 1
    r = min(most, max(columns, _pataki(problem)) if most <= SMALL else columns)
    require_unfolding(merged.n, merged.m, r)
    start = geodesic_start(merged, r, weights, rng)
    if start.shape[1] < r:
        start = np.hstack([start, NEW_COLUMN * rng.normal(size=(merged.n, r - start.shape[1]))])
    # Factors of flat graphs are small: a second thread of BLAS only waits.
    with one_blas_thread():
        best, proof, steps = _climb(problem, start, constraint, tol, max_iter, rng, watch)
    # Relative to the bound; of upper bounds, after Y was shrunk until it keeps all of them.
    lengths, gap = problem.at(best.Y), np.nan
    if not np.isnan(proof.bound):
        gap = np.inf  # below 0 there is no K at all that keeps these lengths
    if 0.0 < proof.bound < np.inf:
        stretch = max(1.0, float(np.max(lengths / problem.high)))
        value = float(best.trace.objective[-1]) / (stretch if constraint == "at_most" else 1.0)
        gap = abs(proof.bound - value) / proof.bound
    return unfolded(
        best.Y[place],
        place,
        unit,
        constraint,
        lengths - problem.high,
        gap=gap,
        mu=proof.mu,
        rank=best.V.shape[1],
        converged=best.converged,
        stalled=best.stalled,
        steps=steps,
        trace=best.trace,
    )


def unfolded(
    Y: Array, place: Ints, unit: float, constraint: Constraint, over: Array, **rest: Any
) -> Unfolding:
    """The points Y (n, r) of rows at these places (n,), in their units.

    Squared lengths are off by `over` (m,), relative to them, or to the squared unit where these are
    shorter.
    """
    missed = np.abs(over) if constraint == "equal" else np.maximum(over, 0.0)
    Z, lam = principal(Y)
    first = np.unique(place, return_index=True)[1]
    return Unfolding(
        Z=unit * Z[first[place]],  # rounding could separate rows of one place
        lam=unit**2 * lam,
        dimensions=int(np.sum(lam > len(place) * UNUSED**2)),
        worst=float(np.max(missed)),
        rms=float(np.sqrt(np.mean(missed**2))),
        **rest,
    )


def with_equal_rows(graph: Graph, nearest: Any, rows: Array) -> Graph:
    """The graph with edges of length 0 among rows that have only equal rows for neighbours."""
    counts = np.diff(nearest.indptr)
    own = np.repeat(np.arange(graph.n), counts)
    apart = np.bincount(own, weights=nearest.data > 0.0, minlength=graph.n)
    crowded = np.flatnonzero((apart == 0) & (counts > 0))
    if len(crowded) == 0:
        return graph
    place = np.unique(rows[crowded], axis=0, return_inverse=True)[1].ravel()
    first = crowded[np.unique(place, return_index=True)[1]]
    return graph.with_edges(crowded, first[place], np.zeros(len(crowded)))


def with_angles(graph: Graph, neighbours: Neighbours, nearest: Any) -> Graph:
    """The graph with edges among the neighbours of each row, which keep its angles."""
    counts = np.diff(nearest.indptr).astype(np.float64)
    pairs = float(np.sum(counts * (counts - 1.0)) / 2.0)
    require_memory(PAIR_BYTES * pairs, f"{pairs:.3g} pairs of neighbours of a row", ANGLES_OUT)
    parts = [graph.edges]
    for _, nodes, _, among in around(neighbours, nearest):
        a, b = np.triu_indices(nodes.shape[1], 1)
        parts.append((nodes[:, a].ravel(), nodes[:, b].ravel(), among[:, a, b].ravel()))
    i, j, lengths = (np.concatenate(part) for part in zip(*parts, strict=True))
    return Graph.of_edges(graph.n, i, j, lengths)


def first_columns(q: int, d: int | None, constraint: Constraint) -> int:
    """Columns of the factor to start with: as many as keep all lengths of d columns, if few."""
    own = MOST_COLUMNS if d is None else min(d + 1, MOST_COLUMNS)
    return max(q + SPARE, own) if constraint == "equal" else q + SPARE


def require_unfolding(n: int, m: int, r: int) -> None:
    """Refuse what memory does not hold: L-BFGS keeps some forty factors, no n x n matrix."""
    needed = 8.0 * (n * r * (2 * MEMORY + 12) + m * (6 * r + 3 * r * r + 12))
    require_memory(needed, f"unfolding {n} rows with {m} edges at rank {r}", WAY_OUT)


def unfolding_problem(
    graph: Graph,
    squares: Array,
    constraint: Constraint,
    weights: Array,
    basis: Array | None = None,
) -> Problem:
    """Edges whose squared lengths are these (m,), or at most.

    Short edges count by what they are off, long ones relative to their length: a bridge a hundred
    times as long as an edge would otherwise be all that is kept.
    """
    i, j, _ = graph.edges
    scale = 1.0 / np.maximum(squares, 1.0)
    high = scale * squares
    low = high if constraint == "equal" else np.full(len(i), -np.inf)
    own = scipy.sparse.csr_array(scipy.sparse.diags_array(scale))
    return Problem(graph.n, i, j, Variance(weights), low, high, own, basis=basis)


def _pataki(problem: Problem) -> int:
    """Rank r with r (r + 1) / 2 > constraints: there is an optimum of lower rank."""
    return int(np.ceil(np.sqrt(2.0 * len(problem.low)))) + 1


# Climbing ------------------------------------------------------------------------------------


def _climb(
    problem: Problem,
    V: Array,
    constraint: Constraint,
    tol: float,
    max_iter: int,
    rng: np.random.Generator,
    watch: Watch | None,
) -> tuple[Solution, Certificate, int]:
    """Solve, look at the certificate, add columns, and again."""
    most = min(problem.n - 1, _pataki(problem))
    multipliers = np.full(len(problem.low), usual_multiplier(problem, V))
    weight, steps, gap = None, 0, min(GAP, tol)
    for last in (*[False] * RAISES, True):
        found = solve(
            problem,
            V,
            multipliers=multipliers,
            weight=weight,
            tol=tol,
            max_iter=max_iter,
            max_steps=STEPS[constraint],
            patient=constraint == "at_most",
            watch=watch,
        )
        steps += found.steps
        proof = certify(problem, found.multipliers, found.V.shape[1])
        # Rotated to its principal axes, without those along which all points coincide.
        _, s, Wt = np.linalg.svd(found.V - np.mean(found.V, axis=0), full_matrices=False)
        V = found.V @ Wt[s > UNUSED * np.sqrt(len(found.V))].T
        room = min(most - V.shape[1], max(V.shape[1], SPARE))
        if constraint == "equal":
            wanting = found.violation > tol and found.stalled  # more columns may keep lengths
        else:
            wanting = proof.upward.shape[1] > 0 and 1.0 - proof.mu > gap  # or gain variance
        if last or room <= 0 or not wanting:
            break
        if constraint == "at_most" or V.shape[1] < found.V.shape[1]:
            # A saddle: it has multipliers, and the way out is along their eigenvectors.
            new = proof.upward[:, :room]
            multipliers, weight = found.multipliers, found.weight / SOFTER[constraint]
        else:
            new = rng.normal(size=(problem.p, room))  # too few columns: multipliers are none
        if new.shape[1] == 0:
            break
        size = np.sqrt(np.mean(problem.points(new) ** 2, axis=0))
        V = np.hstack([V, NEW_COLUMN * new / size])
    return found, _best_proof(problem, found, proof, tol), steps


def _best_proof(problem: Problem, found: Solution, best: Certificate, tol: float) -> Certificate:
    """By the last multipliers, or, where those prove little, by earlier ones.

    Those of any subproblem that was solved are feasible: L(B't) - C is psd at its optimum.
    """
    rank = found.V.shape[1]
    gain = float(found.trace.objective[-1])
    if problem.p > FEW or best.bound <= (1.0 + tol) * gain:
        return best
    for earlier in found.history[:-1]:
        other = certify(problem, earlier, rank)
        if other.bound < best.bound and other.bound > (1.0 - tol) * gain:
            best = other
    return best


# Start and end -------------------------------------------------------------------------------


def merge_coincident(graph: Graph) -> tuple[Graph, Ints, Array]:
    """The graph with nodes at distance 0 made one, the node (n,) of each, and their weights."""
    i, j, lengths = graph.edges
    same = lengths == 0.0
    if not same.any():
        return graph, np.arange(graph.n), np.ones(graph.n)
    pattern = scipy.sparse.coo_array(
        (np.ones(int(same.sum())), (i[same], j[same])), shape=(graph.n, graph.n)
    )
    count, found = connected_components(pattern, directed=False)
    place: Ints = found.astype(np.int64)
    kept = ~same
    merged = Graph.of_edges(int(count), place[i[kept]], place[j[kept]], lengths[kept])
    return merged, place, np.bincount(place).astype(np.float64)


def in_units(graph: Graph) -> tuple[Graph, float]:
    """The graph in units of its median edge, and the unit."""
    unit = float(np.median(graph.lengths[graph.lengths > 0.0]))
    return Graph(graph.indptr, graph.indices, graph.lengths / unit), unit


def geodesic_start(graph: Graph, r: int, weights: Array, rng: np.random.Generator) -> Array:
    """(n, at most r) by scaling of shortest paths to some nodes (de Silva and Tenenbaum 2004).

    Only a start: its distances are too long where the graph is sparse, as variance wants them.
    """
    landmarks = np.sort(rng.choice(graph.n, min(graph.n, LANDMARKS), replace=False))
    D = dijkstra(graph.csr(), directed=False, indices=landmarks) ** 2
    Y = landmark_scaling(D, landmarks, r)
    return np.asarray(Y - (weights @ Y) / np.sum(weights))


def landmark_scaling(D: Array, landmarks: Ints, r: int) -> Array:
    """(n, at most r) coordinates from squared distances D (a, n) to the nodes `landmarks` (a,).

    Columns of eigenvalues that are not positive are left out.
    """
    among = D[:, landmarks]
    means = np.mean(among, axis=0)
    lam, V = np.linalg.eigh(-0.5 * (among - means - means[:, None] + np.mean(means)))
    lam, V = lam[::-1][:r], V[:, ::-1][:, :r]
    kept = lam > 1e-9 * max(float(lam[0]), np.finfo(np.float64).tiny)
    return np.asarray(-0.5 * (D.T - means) @ (V[:, kept] / np.sqrt(lam[kept])))


def principal(Y: Array) -> tuple[Array, Array]:
    """Principal coordinates (n, r) of points, and the eigenvalues (r,) of their Gram matrix."""
    U, s, _ = np.linalg.svd(Y - np.mean(Y, axis=0), full_matrices=False)
    return np.asarray(U * (sign_rule(U) * s)), s**2


def nothing(n: int) -> Unfolding:
    """All points coincide."""
    Z, lam = np.zeros((n, 1)), np.zeros(1)
    return Unfolding(Z, lam, 0, 0.0, 0.0, 0.0, 1.0, 1, True, False, 0, Trace())
