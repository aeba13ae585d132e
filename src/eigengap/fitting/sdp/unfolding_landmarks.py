"""Unfolding for many rows: points as combinations of some of them, the landmarks.

Weinberger, Packer and Saul (2005), "Nonlinear dimensionality reduction by semidefinite programming
and kernel matrix factorization": each row is nearly an affine combination of its neighbours, with
weights W (n, n) whose rows sum to 1. If the coordinates are to obey the same combinations, those of
p landmarks settle all others: the Y that minimises |Y - W Y|^2 given its landmark rows V is Q V,

    Q_u = -F_uu^-1 F_ul,   F = (I - W)'(I - W),   Q_l = I,

and rows of Q sum to 1. Then K = Q V V' Q' needs V (p, r) alone.

Such points are smooth: they leave out the noise that lengths hold, and cannot keep all of them. So
lengths are kept in least squares (Weinberger, Sha, Zhu and Saul 2006, "Graph Laplacian
regularization for large-scale semidefinite programming"),

    maximise  tr K - nu / 2 sum over edges (D_ij - d_ij^2)^2,

whose multipliers are t = nu (D - d^2), bounded, so that t'd^2 + |t|^2 / (2 nu) bounds the optimum
where L(t) - C is psd, and after division by mu where it is not.
"""

from __future__ import annotations

import time

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from eigengap.fitting.laplacian.factor import cost_of_factor, symmetric_lu
from eigengap.fitting.optimise.loop import Progress, Trace, Watch
from eigengap.fitting.sdp import unfolding
from eigengap.fitting.sdp.certificate import certify
from eigengap.fitting.sdp.descent import descend, usual_multiplier
from eigengap.fitting.sdp.metric import Metrics
from eigengap.fitting.sdp.problem import Penalty
from eigengap.linalg import Array
from eigengap.models.maps.graph import Graph, Ints
from eigengap.runtime.memory import require_memory

RIDGE = 1e-10  # of the mean diagonal of F_uu, for groups that hang on nothing but themselves
PENALTIES = (10.0, 30.0, 100.0)  # nu, in units of a multiplier, one after the other
RELATIVE_SLOPE = 100.0  # of the gradient that ends a subproblem, in tol
EARLY_SLOPE = 0.1  # for all but the last
STEPS = 300  # of a subproblem
STEP = 64  # columns that are solved for at a time
WAY_OUT = "fit a sample of the rows, and give the others to transform"


def unfold_on_landmarks(
    graph: Graph,
    Q: Array,
    constraint: unfolding.Constraint = "equal",
    *,
    columns: int = 4,
    tol: float = 1e-4,
    rng: np.random.Generator | None = None,
    watch: Watch | None = None,
) -> unfolding.Unfolding:
    """Unfold a connected graph of n nodes whose points are Q (n, p) times those of landmarks."""
    rng = np.random.default_rng(0) if rng is None else rng
    if not graph.lengths.any():
        return unfolding.nothing(graph.n)
    ones = np.ones(graph.n)
    graph, unit = unfolding.in_units(graph)
    squares = graph.edges[2] ** 2
    problem = unfolding.unfolding_problem(graph, squares, constraint, ones, Q)
    start = unfolding.geodesic_start(graph, min(columns, Q.shape[1]), ones, rng)
    V = np.asarray(np.linalg.lstsq(Q, start, rcond=None)[0], dtype=np.float64)
    usual = usual_multiplier(problem, V)
    metrics = Metrics.of(problem, V.shape[1])
    gains, rates, seconds, steps = [], [], [], 0
    clock = time.perf_counter()
    for nu in PENALTIES:
        penalty = Penalty(problem, np.zeros(len(squares)), nu * usual)
        slope = max(RELATIVE_SLOPE * tol, 0.0 if nu == PENALTIES[-1] else EARLY_SLOPE)
        found = descend(metrics, penalty, V, slope=slope, max_steps=STEPS)
        V, steps = found.V, steps + found.steps
        gains.append(float(np.vdot(found.Y, problem.gain.apply(found.Y))))
        rates.append(found.slope)
        seconds.append(time.perf_counter() - clock)
        if watch is not None:
            watch(Progress(len(gains), len(PENALTIES), gains[-1], rates[-1], seconds[-1]))
    place = unfolding.merge_coincident(graph)[1]
    # Nodes of one place at their mean: their combinations may differ.
    weights = np.bincount(place)
    mean = scipy.sparse.csr_array((1.0 / weights[place], (place, np.arange(graph.n))))
    Y = np.asarray(mean @ found.Y)[place] if len(weights) < graph.n else found.Y
    # The bound is that of the penalised objective.
    proof, gap = certify(problem, found.t, V.shape[1]), np.inf
    if proof.mu > 0.0:
        cost = float(found.t @ found.t) / (2.0 * penalty.weight)
        bound = proof.bound + cost / proof.mu**2
        gap = abs(bound - (gains[-1] - cost)) / max(abs(bound), gains[-1])
    return unfolding.unfolded(
        Y,
        place,
        unit,
        constraint,
        problem.at(Y) - problem.high,
        gap=gap,
        mu=proof.mu,
        rank=V.shape[1],
        converged=found.finished,
        stalled=False,
        steps=steps,
        trace=Trace(np.array(gains), np.array(rates), np.array(seconds)),
    )


def choose_landmarks(
    labels: NDArray[np.int32], wanted: int, least: int, rng: np.random.Generator
) -> Ints:
    """Nodes (p,), ascending: `wanted` of them, and more where a component has fewer than `least`.

    labels (n,) are the components before they were joined: a row is a combination of landmarks of
    its own component alone, and without any it would have no place.
    """
    n = len(labels)
    order = rng.random(n)
    order[rng.choice(n, wanted, replace=False)] -= 1.0  # those come first
    grouped = np.lexsort((order, labels))
    starts = np.searchsorted(labels[grouped], labels[grouped])
    needed = grouped[np.arange(n) - starts < least]
    return np.union1d(np.flatnonzero(order < 0.0), needed)


def reconstruction_basis(W: scipy.sparse.csr_array, landmarks: Ints) -> Array:
    """Q (n, p) for affine weights W (n, n) of rows upon their neighbours."""
    n, p = W.shape[0], len(landmarks)
    require_memory(16.0 * n * p, f"{n} rows by {p} landmarks", "take fewer landmarks")
    residual = scipy.sparse.csr_array(scipy.sparse.eye_array(n) - W)
    F = scipy.sparse.csc_array(residual.T @ residual)
    others = np.setdiff1d(np.arange(n), landmarks)
    F_u = F[:, others]
    F_uu = scipy.sparse.csc_array(F_u[others])
    F_lu = scipy.sparse.csr_array(F_u[landmarks])
    degrees = F_uu.diagonal()
    cost = cost_of_factor(scipy.sparse.csr_array(scipy.sparse.diags_array(degrees) - F_uu), degrees)
    require_memory(cost.bytes + 16.0 * n * p, f"{n} rows as combinations of landmarks", WAY_OUT)
    ridge = RIDGE * float(np.mean(degrees))
    factor = symmetric_lu(F_uu + ridge * scipy.sparse.eye_array(len(others)))
    Q = np.zeros((n, p))
    Q[landmarks, np.arange(p)] = 1.0
    for start in range(0, p, STEP):
        some = slice(start, min(start + STEP, p))
        Q[others, some] = -factor.solve(F_lu[some].toarray().T)
    # What the ridge took away, so that a shift of all landmarks shifts all rows.
    total = np.sum(Q, axis=1)
    return np.asarray(Q / np.where(np.abs(total) > 0.5, total, 1.0)[:, None])
