"""Semidefinite programs over squared distances, by a low-rank factor of the Gram matrix.

    maximise  <C, K>   subject to   low <= B D(K) <= high,   K = Y Y' psd, centred,

where D(K)_e = K_ii - 2 K_ij + K_jj = |y_i - y_j|^2 over a list of pairs e = {i, j}. Maximum
variance unfolding is of this form (B = I), structure preserving embedding too (rows of B compare
two pairs). Burer and Monteiro (2003): with Y (n, r) in place of K, positive semidefiniteness is
free of charge, no n x n matrix is formed, and every derivative is a Laplacian of the pairs times
Y. What is lost is convexity; `fitting.sdp.certificate` gives it back by a bound from the
multipliers, and says which direction to add to Y where the rank was too low.

Constraints enter by an augmented Lagrangian (Hestenes 1969, Powell 1969; for ranges Rockafellar
1973). A constraint may be soft, at a price of `cap` for each unit by which it is missed: its
multiplier then ends at the cap. Each subproblem goes to `fitting.sdp.descent`.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from eigengap.fitting.optimise.loop import State, Step, Trace, Watch, iterate
from eigengap.fitting.sdp.descent import descend
from eigengap.fitting.sdp.metric import Metrics
from eigengap.fitting.sdp.problem import Penalty, Problem
from eigengap.linalg import Array

START = 10.0  # penalty, in units of the mean multiplier that is to be expected
GROWTH = 4.0  # of the penalty where a step did not bring constraints nearer
NEARER = 0.3  # what the violation has to fall to, relative to the last one
STEEPEST = 1e7  # penalty, in the same units, that is not exceeded
STALL, HARDLY = 5, 0.7  # subproblems over which the violation has to fall to this share
KEPT = 30  # subproblems whose multipliers are kept
SLOPE = 10.0  # of the gradient's tolerance to that of the constraints
FIRST_SLOPE, SLOPE_FALL = 0.1, 0.3  # gradient, relative to that of the gain, that ends a subproblem


@dataclass(frozen=True, eq=False)
class Solution:
    """Where the augmented Lagrangian ended."""

    V: Array  # (p, r)
    Y: Array  # (n, r) = Q V, centred
    multipliers: Array  # (c,)
    weight: float
    violation: float  # root mean square, in the constraints' own units, complementarity included
    trace: Trace = field(repr=False)  # objective: <C, K>; change: violation
    converged: bool
    stalled: bool  # constraints did not come nearer although the penalty grew
    steps: int  # of the descent, in all
    unbounded: bool  # the price of missing constraints is below what can be gained without end
    history: tuple[Array, ...] = field(repr=False, default=())  # multipliers of the subproblems


def solve(
    problem: Problem,
    V: Array,
    *,
    multipliers: Array | None = None,
    weight: float | None = None,
    tol: float = 1e-4,
    max_iter: int = 50,
    max_steps: int = 300,
    patient: bool = True,
    watch: Watch | None = None,
) -> Solution:
    """Maximise from V (p, r), until constraints are missed by no more than tol, in the mean.

    And until the gradient is SLOPE times tol of that of the gain. max_iter bounds the number of
    subproblems, max_steps that of the steps in each. A patient solution raises the penalty only
    when a subproblem is solved, so that multipliers are those of an optimum; an impatient one
    follows the path of penalties, and also ends when the gain no longer changes: for constraints
    that leave no interior, whose multipliers are unbounded.
    """
    usual = usual_multiplier(problem, V)
    metrics = Metrics.of(problem, V.shape[1])
    if multipliers is None:
        multipliers = np.zeros(len(problem.bounds[0]))
    start: State = {
        "V": np.array(V, dtype=np.float64),
        "t": multipliers,
        "weight": np.array(START * usual if weight is None else weight),
        "violation": np.array(np.inf),
        "slope": np.array(FIRST_SLOPE),
        "steps": np.array(0),
        "gain": np.array(np.inf),
        "unbounded": np.array(False),
    }

    kept: deque[Array] = deque(maxlen=KEPT)
    recent: deque[float] = deque(maxlen=STALL)

    def step(state: State) -> Step:
        V, t = _float(state["V"]), _float(state["t"])
        weight = float(state["weight"])
        slope = float(state["slope"])
        found = descend(metrics, Penalty(problem, t, weight), V, slope=slope, max_steps=max_steps)
        kept.append(found.t)
        missed = np.abs(found.t - t) / weight
        violation = float(np.sqrt(np.mean(missed**2)))
        gain = float(np.vdot(found.Y, problem.gain.apply(found.Y)))
        before = float(state["gain"])
        small = SLOPE * tol
        still = found.slope <= small or (not patient and abs(gain - before) <= small * abs(gain))
        recent.append(violation)
        stalled = not patient and len(recent) == STALL and violation > HARDLY * recent[0]
        done = (violation <= tol and still) or stalled or found.unbounded
        stuck = violation > NEARER * float(state["violation"])
        if stuck and (found.finished or not patient) and weight < STEEPEST * usual:
            weight *= GROWTH
        slope = max(slope * SLOPE_FALL, 0.5 * small)
        after: State = {
            "V": found.V,
            "t": found.t,
            "weight": np.array(weight),
            "violation": np.array(violation),
            "slope": np.array(slope),
            "steps": np.array(int(state["steps"]) + found.steps),
            "gain": np.array(gain),
            "unbounded": np.array(found.unbounded),
        }
        return Step(after, gain, violation, done)

    state, trace, ended = iterate(step, start, max_iter=max_iter, watch=watch)
    last = _float(state["V"])
    unbounded = bool(state["unbounded"])
    met = float(state["violation"]) <= tol
    return Solution(
        last,
        problem.points(last),
        _float(state["t"]),
        float(state["weight"]),
        float(state["violation"]),
        trace,
        ended and met and not unbounded,
        ended and not met and not unbounded,
        int(state["steps"]),
        unbounded,
        tuple(kept),
    )


def usual_multiplier(problem: Problem, V: Array) -> float:
    """What a multiplier is like: by duality <C, K> = sum of multipliers times bounds."""
    Y = problem.points(V)
    gain = abs(float(np.vdot(Y, problem.gain.apply(Y))))
    low, high, _ = problem.bounds
    size = np.where(np.isfinite(high), np.abs(high), np.where(np.isfinite(low), np.abs(low), 0.0))
    return max(gain, np.finfo(np.float64).tiny) / max(float(np.sum(size)), 1.0)


def _float(values: NDArray[np.generic]) -> Array:
    return np.asarray(values, dtype=np.float64)
