"""Semidefinite programs over squared distances, by a low-rank factor of the Gram matrix.

    maximise  <C, K>   subject to   low <= B D(K) <= high,   K = Y Y' psd, centred.

Maximum variance unfolding is of this form (B = I), structure preserving embedding too (rows of B
compare two pairs). Burer and Monteiro (2003): with Y (n, r) in place of K, positive
semidefiniteness is free of charge. What is lost is convexity; `fitting.sdp.certificate` gives it
back by a bound from the multipliers, and finds the direction to add to Y where the rank was too
low. Constraints enter by an augmented Lagrangian (Hestenes 1969, Powell 1969; for ranges
Rockafellar 1973). A constraint may be soft, at a price of `cap` for each unit by which it is
missed: its multiplier then ends at the cap. Each subproblem

    f(V) = -<C, K> + penalty(B D(K)),   K = Y Y',  Y = Q V

is minimised by L-BFGS in the metric of its stiffness matrix. Stretched pairs are stiff and bent
ones are not, by a factor that grows with the penalty, so that plain L-BFGS takes thousands of
steps. Its first guess of the inverse Hessian is therefore the inverse of the convex part of the
Hessian,

    M = 2 L(t+) (x) I + 4 weight sum_e curved_e (e e'),   e the difference of the pair's points,

as in the simulation of elastic bodies (Liu, Bouaziz and Kavan 2017), factorised where the graph
allows it (`fitting.sdp.metric`). Along a line every distance is a quadratic function of the
step: the line search looks at pairs alone, and is exact.

Where every constraint that grows along a line has a finite price, f may fall without end. Such a
line ends the descent: no point along it is better than one further out.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field, replace
from math import isfinite

import numpy as np

from eigengap.fitting.optimise.loop import LoopState, Step, Trace, Watch, iterate
from eigengap.fitting.sdp.metric import Metric, Metrics
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

MEMORY = 15  # pairs of steps and gradients
RENEW = 15  # steps after which the metric is made anew
LINE_TOLERANCE = 0.05  # slope along the line that ends its search, relative to that at its start
LINE_STEPS = 25
EPS = float(np.finfo(np.float64).eps)


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


@dataclass(frozen=True, eq=False)
class _Subproblem(LoopState):
    """What the next subproblem starts from."""

    V: Array  # (p, r)
    t: Array  # (c,) multipliers
    weight: float
    violation: float = np.inf
    slope: float = FIRST_SLOPE
    steps: int = 0
    gain: float = np.inf
    unbounded: bool = False


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
    start = _Subproblem(np.array(V, dtype=np.float64), multipliers, START * usual)
    if weight is not None:
        start = replace(start, weight=weight)
    small = SLOPE * tol
    kept: deque[Array] = deque(maxlen=KEPT)
    recent: deque[float] = deque(maxlen=STALL)

    def step(at: _Subproblem) -> Step:
        penalty = Penalty(problem, at.t, at.weight)
        found = descend(metrics, penalty, at.V, slope=at.slope, max_steps=max_steps)
        kept.append(found.t)
        violation = float(np.sqrt(np.mean((np.abs(found.t - at.t) / at.weight) ** 2)))
        gain = float(np.vdot(found.Y, problem.gain.apply(found.Y)))
        still = found.slope <= small or (not patient and abs(gain - at.gain) <= small * abs(gain))
        recent.append(violation)
        stalled = not patient and len(recent) == STALL and violation > HARDLY * recent[0]
        done = (violation <= tol and still) or stalled or found.unbounded
        stuck = violation > NEARER * at.violation
        grows = stuck and (found.finished or not patient) and at.weight < STEEPEST * usual
        after = _Subproblem(
            found.V,
            found.t,
            at.weight * GROWTH if grows else at.weight,
            violation,
            max(at.slope * SLOPE_FALL, 0.5 * small),
            at.steps + found.steps,
            gain,
            found.unbounded,
        )
        return Step(after, gain, violation, done)

    end, trace, ended = iterate(step, start, max_iter=max_iter, watch=watch)
    met = end.violation <= tol
    return Solution(
        end.V,
        problem.points(end.V),
        end.t,
        end.weight,
        end.violation,
        trace,
        ended and met and not end.unbounded,
        ended and not met and not end.unbounded,
        end.steps,
        end.unbounded,
        tuple(kept),
    )


def usual_multiplier(problem: Problem, V: Array) -> float:
    """What a multiplier is like: by duality <C, K> = sum of multipliers times bounds."""
    Y = problem.points(V)
    gain = abs(float(np.vdot(Y, problem.gain.apply(Y))))
    low, high, _ = problem.bounds
    size = np.where(np.isfinite(high), np.abs(high), np.where(np.isfinite(low), np.abs(low), 0.0))
    return max(gain, np.finfo(np.float64).tiny) / max(float(np.sum(size)), 1.0)


# One subproblem ------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Descent:
    """Where a descent ended."""

    V: Array  # (p, r)
    Y: Array  # (n, r)
    t: Array  # (c,) the multipliers that the penalty's derivative suggests
    slope: float  # norm of the gradient relative to that of the gain
    finished: bool  # whether slope is as small as asked, or nothing more was to be gained
    steps: int
    unbounded: bool = False  # whether a line was met along which the objective falls without end


@dataclass(frozen=True, eq=False)
class _Point:
    """All that is known of one V."""

    V: Array  # (p, r)
    Y: Array  # (n, r)
    E: Array  # (m, r) differences along pairs
    CY: Array  # (n, r)
    s: Array  # (c,) constrained values
    t: Array  # (c,)
    gradient: Array  # (p, r)
    slope: float  # norm of the gradient relative to that of the gain


def _point(problem: Problem, penalty: Penalty, V: Array) -> _Point:
    Y = problem.points(V)
    E = np.asarray(problem.incidence @ Y)
    CY = problem.gain.apply(Y)
    s = problem.values(E, E, Y, Y)
    t = penalty.at(s)[1]
    gradient = 2.0 * problem.back(problem.pull(t, E, Y) - CY)
    size = 2.0 * float(np.linalg.norm(problem.back(CY)))
    rounding = 2.0 * EPS * problem.gain.largest * float(np.linalg.norm(Y))  # what C Y may be off by
    length = float(np.linalg.norm(gradient))
    slope = length / size if length > rounding and size > 0.0 else 0.0
    return _Point(V, Y, E, CY, s, t, gradient, slope)


def descend(
    metrics: Metrics, penalty: Penalty, V: Array, *, slope: float, max_steps: int
) -> Descent:
    """Minimise from V until the gradient is `slope` of that of the gain."""
    problem = metrics.problem
    at = _point(problem, penalty, V)
    memory = _Memory(metrics.at(penalty, at.E, at.t))
    age, steps = 0, 0
    while at.slope > slope and steps < max_steps:
        if age == RENEW:
            memory, age = _Memory(metrics.at(penalty, at.E, at.t)), 0
        direction = -memory.times_inverse(at.gradient)
        taken = _line_search(problem, penalty, at, direction)
        if taken == np.inf:
            return Descent(at.V, at.Y, at.t, at.slope, False, steps, unbounded=True)
        if taken == 0.0:
            if age == 0:  # nothing to be gained along the metric's own direction
                return Descent(at.V, at.Y, at.t, at.slope, True, steps)
            age = RENEW
            continue
        after = _point(problem, penalty, at.V + taken * direction)
        memory.learn(taken * direction, after.gradient - at.gradient)
        at = after
        age, steps = age + 1, steps + 1
    return Descent(at.V, at.Y, at.t, at.slope, at.slope <= slope, steps)


class _Memory:
    """The inverse Hessian of L-BFGS (Nocedal 1980), upon a metric."""

    def __init__(self, metric: Metric) -> None:
        self._metric = metric
        self._pairs: list[tuple[Array, Array, float]] = []

    def learn(self, step: Array, change: Array) -> None:
        """Take the curvature along a step, in units of its length: it may be very short or long."""
        length = float(np.max(np.abs(step), initial=0.0))
        if not np.finfo(np.float64).tiny < length < np.inf:
            return
        step, change = step / length, change / length
        curvature = float(np.vdot(step, change))
        if curvature > 1e-12 * float(np.linalg.norm(step)) * float(np.linalg.norm(change)):
            self._pairs = [*self._pairs[-(MEMORY - 1) :], (step, change, 1.0 / curvature)]

    def times_inverse(self, gradient: Array) -> Array:
        q = gradient.copy()
        shares = []
        for step, change, rho in reversed(self._pairs):
            share = rho * float(np.vdot(step, q))
            shares.append(share)
            q -= share * change
        q = self._metric.solve(q)
        for (step, change, rho), share in zip(self._pairs, reversed(shares), strict=True):
            q += (share - rho * float(np.vdot(change, q))) * step
        return q


@np.errstate(over="ignore", invalid="ignore")  # a step that overflows is too long
def _line_search(problem: Problem, penalty: Penalty, at: _Point, direction: Array) -> float:
    """The step at which the slope along the line is 0, to LINE_TOLERANCE.

    0 if none descends, inf if the objective falls without end.
    """
    P = problem.points(direction)
    F = np.asarray(problem.incidence @ P)
    once = 2.0 * problem.values(at.E, F, at.Y, P)  # s(x) = s + x once + x^2 twice
    twice = problem.values(F, F, P, P)
    gain_once = 2.0 * float(np.vdot(at.CY, P))
    gain_twice = float(np.vdot(P, problem.gain.apply(P)))

    def along(x: float) -> tuple[float, float, float]:
        """Value, slope and curvature at the step x."""
        value, t = penalty.at(at.s + x * (once + x * twice))
        rate = once + 2.0 * x * twice
        curved = penalty.curved(t)
        return (
            value - x * (gain_once + x * gain_twice),
            float(t @ rate) - gain_once - 2.0 * x * gain_twice,
            penalty.weight * float(curved @ (rate * rate)) + 2.0 * float(t @ twice - gain_twice),
        )

    first, slope, _ = along(0.0)
    if not slope < 0.0:
        return 0.0
    x, low, high = 1.0, 0.0, np.inf
    for _ in range(LINE_STEPS):
        value, rate, curvature = along(x)
        if not (value < first and isfinite(value + rate + curvature)):
            high = x
            x = 0.5 * low + 0.5 * high if low > 0.0 else 0.2 * high
            continue
        if abs(rate) <= LINE_TOLERANCE * abs(slope):
            return x
        low, high = (x, high) if rate < 0.0 else (low, x)
        newton = x - rate / curvature if curvature > 0.0 else np.inf
        if low < newton < min(high, 10.0 * x):
            x = newton
        else:
            x = 3.0 * x if high == np.inf else 0.5 * (low + high)
    if high < np.inf:
        return low
    # Far along the line the gain is x^2 gain_twice, and the price that of s = x^2 twice.
    lowest, highest, cap = problem.bounds
    missed = ((twice > 0.0) & np.isfinite(highest)) | ((twice < 0.0) & np.isfinite(lowest))
    return np.inf if float(cap[missed] @ np.abs(twice[missed])) < gain_twice else low
