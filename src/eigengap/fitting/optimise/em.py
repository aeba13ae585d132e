"""Expectation-maximisation with a guard, accelerated.

An EM map theta -> G(theta) never lowers its objective. Anderson's method (1965; Walker and Ni
2011) extrapolates from the last few (theta, G(theta)) pairs to the fixed point; a proposal that
lowers the objective is dropped for the plain EM point, so the sequence stays monotone (Henderson
and Varadhan 2019). A fall of the objective after a plain EM step beyond rounding is a mistake in
the map, not a reason to stop: it raises.

Converged means a small gradient, where the map supplies one, and not only small steps: where EM's
steps are small but the gradient is not, where it takes many steps, and where rounding makes a step
a fall, `fitting.optimise.climb` continues by the gradient.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from eigengap.exceptions import ObjectiveFellError
from eigengap.fitting.optimise import climb
from eigengap.fitting.optimise.climb import Ascent, Bounds, Slope
from eigengap.fitting.optimise.loop import Step, Trace, Watch, iterate
from eigengap.linalg import Array

WINDOW = 8  # pairs that Anderson's method remembers
# Largest fall of the objective that is rounding, relative to its size or the number of cells.
ROUNDING = 1e-9
FIRST_JUMP = 10  # steps before a boundary step is tried
IDLE = 60  # steps without a gain beyond rounding after which none is to be expected
PATIENCE = 100  # steps of EM after which the climb takes over

PLAIN, ANDERSON, BOUNDARY = 0, 1, 2  # how a point came about


class Mapped(NamedTuple):
    """What a map makes of theta (p,)."""

    image: Array  # (p,) G(theta)
    objective: float  # at theta
    slope: Callable[[], Slope] | None = None  # of the objective at theta, where there is one
    moved: float = 0.0  # size of the step in natural units, where those of theta are not


Map = Callable[[Array], tuple[Array, float] | Mapped]
BoundaryStep = Callable[[Array, Array], Array | None]  # theta, G(theta) -> a point to try, or None


# What is needed of the last state of a run.
OUTCOME = ("best", "value", "top", "top_value", "idle", "given_up")


@dataclass(frozen=True, eq=False)
class EMResult:
    theta: Array  # (p,) where the objective was last evaluated
    objective: float
    converged: bool
    trace: Trace


def em(
    apply: Map,
    theta: Array,  # (p,) start, in coordinates of comparable size
    *,
    tol: float,
    max_iter: int,
    cells: float,
    bounds: Bounds | None = None,
    boundary_step: BoundaryStep | None = None,
    is_degenerate: Callable[[Array], bool] | None = None,
    watch: Watch | None = None,
) -> EMResult:
    """Iterate the EM map until nothing moves and the gradient is small.

    Stops when the EM step and the accelerated step are both below `tol` in every coordinate, the
    objective changed by less than `tol` per observed cell and, where the map supplies a slope, no
    entry of the gradient that is free to be followed (`bounds`) exceeds `tol` in natural units. If
    only the gradient is left, after PATIENCE steps, and when the objective has not risen by more
    than rounding for IDLE steps, the climb takes over from the best point. A map without a slope
    ends after IDLE such steps. `boundary_step` may now and then propose a point at the boundary, in
    a direction in which the map converges slowly.

    `is_degenerate` says of a point whether rounding may be larger there than the guard allows
    (a noise of almost zero): after a fall at or from such a point the climb continues from the
    best point so far; without a slope the fit ends there, unconverged. A fall anywhere else raises.
    """
    forgotten = np.empty((0, len(theta)))
    start = Ascent(
        theta=theta,
        best=theta,
        image=theta,
        points=forgotten,
        images=forgotten,
        top=theta,
        cells=cells,
        until_jump=FIRST_JUMP,
        jump_wait=FIRST_JUMP,
    )
    box = Bounds.none(len(theta)) if bounds is None else bounds
    rules = _Rules(apply, tol, cells, box, boundary_step, is_degenerate)
    state, trace, converged = iterate(
        rules.step, start, max_iter=max_iter, watch=watch, tol=tol, outcome=OUTCOME
    )
    # A fit that ended by its steps is where they ended; one that did not has its best point.
    converged = converged and not state.given_up
    arrived = converged and state.idle < IDLE
    return EMResult(
        theta=state.best if arrived else state.top,
        objective=state.value if arrived else state.top_value,
        converged=converged,
        trace=trace,
    )


def rounding_of(value: float, cells: float) -> float:
    """Largest fall from this value of an objective that rounding explains."""
    return ROUNDING * max(abs(value), cells) if np.isfinite(value) else 0.0


def fall(before: float, after: float, cells: float) -> ObjectiveFellError:
    """The error of a step that lowered the objective by more than rounding."""
    return ObjectiveFellError(
        f"the objective fell from {before!r} to {after!r} in an EM step; rounding explains at "
        f"most {rounding_of(before, cells):.3g}"
    )


@dataclass(frozen=True, eq=False)
class _Rules:
    """How one state leads to the next."""

    apply: Map
    tol: float
    cells: float
    bounds: Bounds
    boundary_step: BoundaryStep | None
    is_degenerate: Callable[[Array], bool] | None

    def step(self, state: Ascent) -> Step:
        """Evaluate the map at the next point, and accept that point or not."""
        is_plain = state.origin == PLAIN and not state.climbs
        nowhere = Mapped(state.theta, -np.inf)
        try:
            mapped = Mapped(*self.apply(state.theta))
        except (np.linalg.LinAlgError, FloatingPointError) as error:
            if is_plain:
                return self._after_failure(state, error)
            mapped = nowhere  # an extrapolated point may lie where the model does not exist
        if not (np.isfinite(mapped.objective) and np.all(np.isfinite(mapped.image))):
            if is_plain:
                fell = ObjectiveFellError(f"the objective is {mapped.objective} after an EM step")
                return self._after_failure(state, fell)
            mapped = nowhere
        return self._climb(state, mapped) if state.climbs else self._em(state, mapped)

    def _em(self, state: Ascent, mapped: Mapped) -> Step:
        """Accept a point of EM, and extrapolate to the next."""
        theta, value, tol = state.theta, state.value, self.tol
        image, objective, slope_of, moved = mapped
        if state.origin == BOUNDARY and not _holds(theta, image, state.image):
            objective = -np.inf
        slack = rounding_of(value, self.cells)
        if not objective >= value - slack:
            if state.origin != PLAIN:
                return Step(_taken_back(state), value, change=np.inf, done=False)
            return self._after_failure(state, fall(value, objective, self.cells))
        memory = slice(0, 0) if state.origin == BOUNDARY else slice(-WINDOW, None)
        points = np.vstack([state.points[memory], theta])
        images = np.vstack([state.images[memory], image])
        proposal = _anderson(points, images)
        change = max(_largest(image - theta), _largest(proposal - theta), moved)
        rests = change <= tol and abs(objective - value) / max(self.cells, 1.0) <= tol
        updated = replace(
            _with_top(state, theta, objective, slack),
            taken=state.taken + 1,
            theta=proposal,
            origin=PLAIN if len(points) == 1 else ANDERSON,
            best=theta,
            value=objective,
            image=image,
            points=points,
            images=images,
            until_jump=state.until_jump - 1,
        )
        done = rests or updated.idle >= IDLE
        if slope_of is not None and rests:
            return self._checked(updated, slope_of(), change)
        if slope_of is not None and (done or updated.taken >= PATIENCE):
            return Step(_from_top(updated), objective, change, done=False)
        if self.boundary_step is not None and not done and updated.until_jump <= 0:
            updated = _with_boundary_step(updated, self.boundary_step(theta, image))
        return Step(updated, objective, change, done)

    def _checked(self, state: Ascent, slope: Slope, change: float) -> Step:
        """The end of a run whose steps have become small, if the gradient has; else a climb."""
        steepness = self.bounds.steepness(state.best, slope)
        if steepness <= self.tol:
            return Step(state, state.value, max(change, steepness), done=True)
        fresh = replace(state, idle=0)
        climbing = climb.begun(fresh, state.best, state.value, slope, self.bounds)
        return Step(climbing, state.value, steepness, done=False)

    def _climb(self, state: Ascent, mapped: Mapped) -> Step:
        """Accept a point of the climb, or try a shorter step."""
        objective, slope_of = mapped.objective, mapped.slope
        if state.search is None and slope_of is not None:
            first = replace(state, best=state.theta, value=objective)
            return self._checked(first, slope_of(), 0.0)
        if slope_of is not None:
            slope = slope_of()
            steepness = self.bounds.steepness(state.theta, slope)
            slack = rounding_of(state.value, self.cells)
            if climb.is_gain(state, objective, steepness, slack):
                gained = _with_top(state, state.theta, objective, slack)
                after = climb.accepted(gained, state.theta, objective, slope, self.bounds)
                assert after.search is not None
                # What the quasi-Newton step promises estimates what is left to gain.
                done = steepness <= self.tol and after.search.promised <= self.tol * self.cells
                after = replace(after, given_up=not done and after.idle >= IDLE)
                return Step(after, objective, steepness, done or after.given_up)
        shortened = None if state.search is None else climb.refused(state, objective, self.bounds)
        if shortened is None or state.search is None:
            return Step(replace(state, given_up=True), state.value, np.inf, done=True)
        return Step(shortened, state.value, state.search.steepness, done=False)

    def _after_failure(self, state: Ascent, error: Exception) -> Step:
        """A climb from the best point where rounding made a plain step fail; else it raises."""
        if isinstance(error, ObjectiveFellError):
            error.top, error.top_value = state.top, state.top_value
        if (
            isinstance(error, FloatingPointError)
            or self.is_degenerate is None
            or not np.isfinite(state.top_value)
            or not (self.is_degenerate(state.theta) or self.is_degenerate(state.best))
        ):
            raise error
        return Step(_from_top(state), state.value, change=np.inf, done=False)


def _with_top(state: Ascent, theta: Array, objective: float, slack: float) -> Ascent:
    """The state with its best point so far, and for how many steps that has hardly risen."""
    idle = 0 if objective > state.top_value + slack else state.idle + 1
    if objective <= state.top_value:
        return replace(state, idle=idle)
    return replace(state, idle=idle, top=theta, top_value=objective)


def _from_top(state: Ascent) -> Ascent:
    """A climb from the best point so far, where the gradient is still to be computed."""
    return replace(state, climbs=True, theta=state.top, idle=0, origin=PLAIN)


def _taken_back(state: Ascent) -> Ascent:
    """Back to the plain EM step from the last accepted point.

    A failed extrapolation discredits the memory it came from; a failed boundary step does not, but
    the next one waits twice as long.
    """
    back = replace(state, theta=state.image, origin=PLAIN)
    if state.origin == BOUNDARY:
        wait = 2 * state.jump_wait
        return replace(back, jump_wait=wait, until_jump=wait)
    forgotten = np.empty((0, len(state.theta)))
    return replace(back, points=forgotten, images=forgotten)


def _with_boundary_step(state: Ascent, target: Array | None) -> Ascent:
    """The boundary step as the next point to try, if there is one."""
    state = replace(state, until_jump=state.jump_wait)
    return state if target is None else replace(state, theta=target, origin=BOUNDARY)


def _holds(theta: Array, image: Array, before: Array) -> bool:
    """Whether EM leaves what a boundary step from `before` to theta has moved where it is."""
    moved = theta != before
    return bool(np.all(np.abs(image - theta)[moved] <= 1e-12))


def _largest(step: Array) -> float:
    return float(np.max(np.abs(step), initial=0.0))


def _anderson(points: Array, images: Array) -> Array:
    """Extrapolation (p,) from pairs (k, p), newest last: Anderson mixing, type II."""
    residuals = images - points
    if len(points) == 1:
        return np.asarray(images[-1])
    dF = np.diff(residuals, axis=0)  # (k - 1, p)
    dG = np.diff(images, axis=0)
    gram = dF @ dF.T
    # Tikhonov: the differences become collinear near the fixed point.
    gram[np.diag_indices_from(gram)] += 1e-12 * np.trace(gram)
    gamma = np.linalg.lstsq(gram, dF @ residuals[-1], rcond=None)[0]
    return np.asarray(images[-1] - gamma @ dG)
