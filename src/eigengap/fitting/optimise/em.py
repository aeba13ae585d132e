"""Expectation-maximisation with a guard, accelerated.

An EM map theta -> G(theta) never lowers its objective. Anderson's method (1965; Walker and Ni
2011) extrapolates from the last few (theta, G(theta)) pairs to the fixed point; a proposal that
lowers the objective is dropped for the plain EM point, so the sequence stays monotone (Henderson
and Varadhan 2019). A fall of the objective after a plain EM step beyond rounding is a mistake in
the map, not a reason to stop: it raises.

Converged means a small gradient, where the map supplies one, and not only small steps: EM's step
shrinks with the noise variance, so that near a noise of zero a small step does not mean that a
maximum is near. Where EM's steps are small but the gradient is not, where it takes many steps, and
where rounding makes a step a fall, a quasi-Newton climb takes over. The gradient comes from the
statistics of the same pass (Fisher's identity: it is that of the expected complete-data
log-likelihood at the current point). The direction is that of L-BFGS (Nocedal 1980) on the
coordinates that no bound holds (Bertsekas 1982), its first metric by `Slope.scale`. Every
evaluation is one step of the loop, so that progress and checkpoints are those of EM.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import inf, isfinite
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from eigengap.exceptions import ObjectiveFellError
from eigengap.fitting.optimise.loop import LoopState, State, Step, Trace, Watch, iterate
from eigengap.linalg import Array

WINDOW = 8  # pairs that Anderson's method remembers
# Largest fall of the objective that is rounding, relative to its size or the number of cells.
ROUNDING = 1e-9
FIRST_JUMP = 10  # steps before a boundary step is tried
IDLE = 60  # steps without a gain beyond rounding after which none is to be expected
PATIENCE = 100  # steps of EM after which the climb takes over

PLAIN, ANDERSON, BOUNDARY = 0, 1, 2  # how a point came about

# Of the climb: pairs of steps and changes of the gradient that are remembered. Many help at the
# noise floor, where tables are small, as long as their memory is small relative to the rows.
MEMORY = (8, 100)
MEMORY_ENTRIES = 1 << 20
ARMIJO = 1e-4  # share of the gain promised by the gradient with which a step is accepted
CURVATURE = 0.9  # share of the gradient along a step that may be left after it (Wolfe's condition)
STRETCH = 4.0  # how much farther the next step goes where more than that is left
SHORTEST = 1e-10  # step, as a share of the direction, below which no gain is possible
FARTHEST = 2.0  # step in any coordinate: they are of size 1, or logarithms


# The problem --------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Slope:
    """Gradient of the objective per observed cell, and the natural unit of each coordinate.

    `gradient * scale` does not depend on the coordinates. The scale is 1 / sqrt(information per
    cell).
    """

    gradient: Array  # (p,)
    scale: Array  # (p,)


@dataclass(frozen=True, eq=False)
class Bounds:
    """Lower and upper bounds of the coordinates."""

    lower: Array  # (p,)
    upper: Array  # (p,)

    @classmethod
    def none(cls, p: int) -> Bounds:
        return cls(np.full(p, -inf), np.full(p, inf))

    def clip(self, theta: Array) -> Array:
        return np.clip(theta, self.lower, self.upper)

    def free(self, theta: Array, gradient: Array) -> NDArray[np.bool_]:
        """(p,) coordinates that may follow the gradient: those at no bound, or leaving it."""
        near = 1e-9
        held = (theta <= self.lower + near) & (gradient <= 0)
        held |= (theta >= self.upper - near) & (gradient >= 0)
        return ~held

    def steepness(self, theta: Array, slope: Slope) -> float:
        """Largest entry of the projected gradient, in natural units."""
        free = self.free(theta, slope.gradient)
        return float(np.max(np.abs(slope.gradient * slope.scale)[free], initial=0.0))


class Mapped(NamedTuple):
    """What a map makes of theta (p,)."""

    image: Array  # (p,) G(theta)
    objective: float  # at theta
    slope: Callable[[], Slope] | None = None  # of the objective at theta, where there is one
    moved: float = 0.0  # size of the step in natural units, where those of theta are not


Map = Callable[[Array], tuple[Array, float] | Mapped]
BoundaryStep = Callable[[Array, Array], Array | None]  # theta, G(theta) -> a point to try, or None


# Where an ascent stands ---------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class LineSearch(LoopState):
    """Along which direction the climb searches, from the best point, and how far it tries."""

    gradient: Array  # (p,) at the best point
    scale: Array  # (p,) there
    steepness: float  # there
    direction: Array  # (p,)
    length: float  # of the step that is tried, as a share of the direction
    promised: float  # gain of that step by the gradient


@dataclass(frozen=True, eq=False)
class Ascent(LoopState):
    """Where an ascent stands, whether EM or the climb is at work."""

    theta: Array  # (p,) the next point to evaluate
    best: Array  # (p,) last accepted point
    image: Array  # (p,) EM step from there
    points: Array  # (k, p) of EM: accepted points; of the climb: steps
    images: Array  # (k, p) of EM: their images; of the climb: minus the changes of the gradient
    top: Array  # (p,) the best of all accepted points
    cells: float
    until_jump: int  # steps until a boundary step is tried
    jump_wait: int  # how long the next one waits
    origin: int = 0  # how theta came about
    value: float = -inf  # objective at `best`
    top_value: float = -inf
    idle: int = 0  # steps since the top was raised by more than rounding
    given_up: bool = False
    taken: int = 0  # steps of EM
    climbs: bool = False  # whether the climb has taken over
    search: LineSearch | None = None  # of the climb, once it knows the gradient

    def restored(self, arrays: State) -> Self:
        state = super().restored(arrays)
        if "direction" not in arrays:
            return state
        empty = np.empty(0)
        search = LineSearch(empty, empty, 0.0, empty, 0.0, 0.0).restored(arrays)
        return replace(state, search=search)


# What is needed of the last state of a run.
OUTCOME = ("best", "value", "top", "top_value", "idle", "given_up")


# The loop -----------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class EMResult:
    theta: Array  # (p,) where it ended, or the best point if it did not converge
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

    `is_degenerate` is True of a point where rounding may be larger there than the guard allows
    (a noise of almost zero): after a fall at or from such a point the climb continues from the
    best point so far; without a slope the fit ends there, unconverged. A fall anywhere else raises.
    """
    start = Ascent(
        theta=theta,
        best=theta,
        image=theta,
        **_forgotten(theta),
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


def _not_finite(mapped: Mapped) -> ObjectiveFellError:
    """The error of a step in which the objective or its image is not finite."""
    if not np.isfinite(mapped.objective):
        return ObjectiveFellError(f"the objective is {mapped.objective} in an EM step")
    bad = int(np.count_nonzero(~np.isfinite(mapped.image)))
    return ObjectiveFellError(f"{bad} parameters are not finite after an EM step")


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
                return self._after_failure(state, _not_finite(mapped))
            mapped = nowhere
        return self._climb(state, mapped) if state.climbs else self._em(state, mapped)

    def _em(self, state: Ascent, mapped: Mapped) -> Step:
        """Accept a point of EM, and extrapolate to the next."""
        theta, value, tol = state.theta, state.value, self.tol
        image, objective, slope_of, moved = mapped
        if state.origin == BOUNDARY:
            at_boundary = theta != state.image
            if not np.all(np.abs(image - theta)[at_boundary] <= 1e-12):  # EM takes it back
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
            target = self.boundary_step(theta, image)
            updated = replace(updated, until_jump=state.jump_wait)
            if target is not None:
                updated = replace(updated, theta=target, origin=BOUNDARY)
        return Step(updated, objective, change, done)

    def _checked(self, state: Ascent, slope: Slope, change: float) -> Step:
        """The end of a run whose steps have become small, if the gradient has; else a climb."""
        steepness = self.bounds.steepness(state.best, slope)
        if steepness <= self.tol:
            return Step(state, state.value, max(change, steepness), done=True)
        best = self.bounds.clip(state.best)
        begun = replace(state, idle=0, climbs=True, best=best, **_forgotten(best))
        return Step(self._aimed(begun, slope), state.value, steepness, done=False)

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

    # The climb ------------------------------------------------------------------------------

    def _climb(self, state: Ascent, mapped: Mapped) -> Step:
        """Accept a point of the climb, or try a shorter step."""
        objective, search = mapped.objective, state.search
        given_up = Step(replace(state, given_up=True), state.value, np.inf, done=True)
        slope = None if mapped.slope is None else mapped.slope()
        if search is None:
            if slope is None:
                return given_up
            return self._checked(replace(state, best=state.theta, value=objective), slope, 0.0)
        if slope is not None:
            steepness = self.bounds.steepness(state.theta, slope)
            slack = rounding_of(state.value, self.cells)
            gain = ARMIJO * search.promised
            is_gain = objective >= state.value + gain and objective > state.value
            # Within the objective's rounding, the gradient decides.
            is_rounding = search.promised <= slack and objective >= state.value - slack
            if is_gain or (is_rounding and steepness < search.steepness):
                after = self._accepted(
                    _with_top(state, state.theta, objective, slack), search, objective, slope
                )
                # What the quasi-Newton step promises estimates what is left to gain.
                left = inf if after.search is None else after.search.promised
                done = steepness <= self.tol and left <= self.tol * self.cells
                after = replace(after, given_up=not done and after.idle >= IDLE)
                return Step(after, objective, steepness, done or after.given_up)
        shortened = self._shortened(state, search, objective)
        if shortened is None:
            return given_up
        return Step(shortened, state.value, search.steepness, done=False)

    def _accepted(self, state: Ascent, before: LineSearch, value: float, slope: Slope) -> Ascent:
        """The state after a step that is a gain.

        Where the gradient along the step has hardly fallen, which the direction could not know, the
        next step has the same direction and is STRETCH times as long.
        """
        theta, steps, changes = state.theta, state.points, state.images
        s, y = theta - state.best, before.gradient - slope.gradient
        size = np.linalg.norm(s / slope.scale) * np.linalg.norm(y * slope.scale)
        if float(s @ y) > 1e-10 * float(size):
            kept = slice(1 - int(np.clip(MEMORY_ENTRIES // len(s), *MEMORY)), None)
            steps, changes = np.vstack([steps[kept], s]), np.vstack([changes[kept], y])
        at = replace(state, best=theta, value=value, points=steps, images=changes)
        has_far_to_go = float(slope.gradient @ s) > CURVATURE * float(before.gradient @ s)
        return self._aimed(at, slope, STRETCH * s if has_far_to_go else None)

    def _shortened(self, state: Ascent, search: LineSearch, value: float) -> Ascent | None:
        """The state after a step that is no gain; None where no gain is possible.

        The step is shortened to the maximum of the parabola through both values.
        """
        promised, fell = search.promised, state.value - value
        by = 0.5 * promised / (promised + fell) if isfinite(fell) and promised + fell > 0 else 0.1
        length = search.length * float(np.clip(by, 0.1, 0.5))
        if length >= SHORTEST:
            return self._tried(state, replace(search, length=length))
        if len(state.points) == 0:
            return None
        restarted = replace(state, **_forgotten(state.best))
        return self._aimed(restarted, Slope(search.gradient, search.scale))

    def _aimed(self, state: Ascent, slope: Slope, stretched: Array | None = None) -> Ascent:
        """The state with a direction from its best point, and the first point along it."""
        theta, g = state.best, slope.gradient
        free = self.bounds.free(theta, g)
        if stretched is None:
            direction = _direction(g, slope.scale, state.points, state.images, free)
        else:
            direction = np.where(free, stretched, 0.0)
        if not float(direction @ g) > 0.0:
            direction = np.where(free, slope.scale**2 * g, 0.0)
        longest = _largest(direction)
        search = LineSearch(
            gradient=g,
            scale=slope.scale,
            steepness=self.bounds.steepness(theta, slope),
            direction=direction,
            length=min(1.0, FARTHEST / longest) if longest > 0 else 1.0,
            promised=0.0,
        )
        return self._tried(state, search)

    def _tried(self, state: Ascent, search: LineSearch) -> Ascent:
        """The state with the next point to evaluate: a share of the direction from the best."""
        theta = self.bounds.clip(state.best + search.length * search.direction)
        promised = float(search.gradient @ (theta - state.best)) * state.cells
        return replace(state, theta=theta, search=replace(search, promised=promised))


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
    return replace(back, **_forgotten(state.theta))


def _forgotten(theta: Array) -> dict[str, Any]:
    """The memory of an ascent, empty."""
    nothing = np.empty((0, len(theta)))
    return {"points": nothing, "images": nothing}


def _largest(step: Array) -> float:
    return float(np.max(np.abs(step), initial=0.0))


def _anderson(points: Array, images: Array) -> Array:
    """Extrapolation (p,) from pairs (k, p), newest last: Anderson mixing, type II."""
    residuals = images - points
    if len(points) == 1:
        return np.asarray(images[-1])
    unit = _largest(residuals) or 1.0  # of values near the range of float64, squares overflow
    dF = np.diff(residuals / unit, axis=0)  # (k - 1, p)
    dG = np.diff(images, axis=0)
    gram = dF @ dF.T
    # Tikhonov: the differences become collinear near the fixed point.
    gram[np.diag_indices_from(gram)] += 1e-12 * np.trace(gram)
    gamma = np.linalg.lstsq(gram, dF @ (residuals[-1] / unit), rcond=None)[0]
    return np.asarray(images[-1] - gamma @ dG)


def _direction(
    g: Array, scale: Array, steps: Array, changes: Array, free: NDArray[np.bool_]
) -> Array:
    """L-BFGS on the free coordinates (Nocedal 1980): metric times gradient, (p,)."""
    metric = np.where(free, scale**2, 0.0)
    steps, changes = steps * free, changes * free
    pairs = [(s, y, 1.0 / sy) for s, y in zip(steps, changes, strict=True) if (sy := s @ y) > 0.0]
    q = np.where(free, g, 0.0)
    alphas = []
    for s, y, rho in reversed(pairs):
        alpha = rho * (s @ q)
        q = q - alpha * y
        alphas.append(alpha)
    r = metric * q
    if pairs:
        _, y, rho = pairs[-1]
        r = r / (rho * float(y @ (metric * y)))
    for (s, y, rho), alpha in zip(pairs, reversed(alphas), strict=True):
        r = r + s * (alpha - rho * float(y @ r))
    return np.asarray(r)
