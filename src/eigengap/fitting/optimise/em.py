"""Expectation-maximisation with a guard, accelerated.

An EM map theta -> G(theta) never lowers its objective. Anderson's method (1965; Walker and Ni
2011) extrapolates from the last few (theta, G(theta)) pairs to the fixed point; a proposal that
lowers the objective is dropped for the plain EM point, so the sequence stays monotone (Henderson
and Varadhan 2019). A fall of the objective after a plain EM step beyond rounding is a mistake in
the map, not a reason to stop: it raises.

Converged means a small gradient, where the map supplies one, and not only small steps: where EM's
steps are small but the gradient is not, where it takes many steps, and where rounding makes a step
a fall, `fitting.optimise.climb` goes on by the gradient.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from eigengap.exceptions import ObjectiveFellError
from eigengap.fitting.optimise import climb
from eigengap.fitting.optimise.climb import Bounds, Slope
from eigengap.fitting.optimise.loop import State, Step, Trace, Watch, iterate
from eigengap.linalg import Array

WINDOW = 8  # pairs that Anderson's method remembers
# Largest fall of the objective that is rounding, relative to its size or the number of seen cells.
ROUNDING = 1e-9
FIRST_JUMP = 10  # steps before a jump is tried
IDLE = 60  # steps without a gain beyond rounding after which there is none to be had
PATIENCE = 100  # steps of EM after which the climb takes over

PLAIN, ANDERSON, JUMP = 0, 1, 2  # how a point came about


class Mapped(NamedTuple):
    """What a map makes of theta (p,)."""

    image: Array  # (p,) G(theta)
    objective: float  # at theta
    slope: Callable[[], Slope] | None = None  # of the objective at theta, where it can be had
    moved: float = 0.0  # size of the step in natural units, where those of theta are not


Map = Callable[[Array], tuple[Array, float] | Mapped]
Jump = Callable[[Array, Array], Array | None]  # theta, G(theta) -> a point to try, or None


# What is needed of the last state of a run.
OUTCOME = ("best", "value", "top", "top_value", "idle", "given_up")


@dataclass(frozen=True, eq=False)
class EMResult:
    theta: Array  # (p,) where the objective was last evaluated
    objective: float
    converged: bool
    trace: Trace

    @property
    def n_iter(self) -> int:
        return len(self.trace)


def em(
    apply: Map,
    theta: Array,  # (p,) start, in coordinates of comparable size
    *,
    tol: float,
    max_iter: int,
    cells: float,
    bounds: Bounds | None = None,
    jump: Jump | None = None,
    is_degenerate: Callable[[Array], bool] | None = None,
    watch: Watch | None = None,
) -> EMResult:
    """Iterate the EM map until nothing moves and the gradient is small.

    Stops when the EM step and the accelerated step are both below `tol` in every coordinate, the
    objective changed by less than `tol` per observed cell and, where the map supplies a slope, no
    entry of the gradient that is free to be followed (`bounds`) exceeds `tol` in natural units. If
    only the gradient is left, after PATIENCE steps, and when the objective has not risen by more
    than rounding for IDLE steps, the climb takes over from the best point. A map without a slope
    ends after IDLE such steps. `jump` may now and then propose a point far along a direction in
    which the map converges slowly.

    `is_degenerate` tells of a point whether rounding may be larger there than the guard allows
    (a noise of almost nothing): after a fall at or from such a point the climb goes on from the
    best point so far; without a slope the fit ends there, unconverged. A fall anywhere else raises.
    """

    box = Bounds.none(len(theta)) if bounds is None else bounds

    def step(state: State) -> Step:
        if bool(state["climbs"]):
            return _climb(apply, state, tol=tol, cells=cells, bounds=box)
        try:
            return _step(apply, state, tol=tol, cells=cells, bounds=box, jump=jump)
        except (ObjectiveFellError, np.linalg.LinAlgError) as error:
            if isinstance(error, ObjectiveFellError):
                error.top = np.asarray(state["top"], dtype=np.float64)
                error.top_value = float(state["top_value"])
            began = np.isfinite(float(state["top_value"]))
            here, before = (np.asarray(state[k], dtype=np.float64) for k in ("theta", "best"))
            if is_degenerate is None or not began:
                raise
            if not (is_degenerate(here) or is_degenerate(before)):
                raise
            return Step(_from_top(state), float(state["value"]), change=np.inf, done=False)

    forgotten = np.empty((0, len(theta)))
    start: State = {
        "theta": theta,
        "origin": np.array(PLAIN),  # how theta came about
        "best": theta,  # last accepted point
        "value": np.array(-np.inf),  # objective there
        "image": theta,  # EM step from there
        "points": forgotten,
        "images": forgotten,
        "top": theta,  # the best of all accepted points
        "top_value": np.array(-np.inf),
        "idle": np.array(0),  # steps since the top was raised by more than rounding
        "until_jump": np.array(FIRST_JUMP),  # steps
        "jump_wait": np.array(FIRST_JUMP),
        "given_up": np.array(False),
        "taken": np.array(0),  # steps of EM
        "climbs": np.array(False),  # whether the climb has taken over
        "cells": np.array(cells),
    }
    state, trace, converged = iterate(
        step, start, max_iter=max_iter, watch=watch, tol=tol, outcome=OUTCOME
    )
    # A fit that ended by its steps is where they ended; one that did not has its best point.
    converged = converged and not bool(state["given_up"])
    arrived = converged and int(state["idle"]) < IDLE
    return EMResult(
        theta=np.asarray(state["best" if arrived else "top"], dtype=np.float64),
        objective=float(state["value" if arrived else "top_value"]),
        converged=converged,
        trace=trace,
    )


def _step(
    apply: Map, state: State, *, tol: float, cells: float, bounds: Bounds, jump: Jump | None
) -> Step:
    theta = np.asarray(state["theta"], dtype=np.float64)
    value = float(state["value"])
    origin = int(state["origin"])
    image, objective, slope_of, moved = _attempt(apply, theta, is_plain=origin == PLAIN)
    if origin == JUMP and not _holds(theta, image, np.asarray(state["image"])):
        objective = -np.inf
    slack = _slack(value, cells)
    if not objective >= value - slack:
        if origin != PLAIN:
            return Step(_taken_back(state), value, change=np.inf, done=False)
        raise ObjectiveFellError(
            f"the objective fell from {value!r} to {objective!r} in an EM step; rounding "
            f"explains at most {slack:.3g}"
        )
    memory = slice(0, 0) if origin == JUMP else slice(-WINDOW, None)
    points = np.vstack([state["points"][memory], theta])
    images = np.vstack([state["images"][memory], image])
    proposal = _anderson(points, images)
    change = max(_largest(image - theta), _largest(proposal - theta), moved)
    gained = abs(objective - value) / max(cells, 1.0)
    top, idle = _top(state, theta, objective, slack)
    rests = change <= tol and gained <= tol
    taken = int(state["taken"]) + 1
    updated: State = {
        **state,
        **top,
        "idle": np.array(idle),
        "taken": np.array(taken),
        "theta": proposal,
        "origin": np.array(PLAIN if len(points) == 1 else ANDERSON),
        "best": theta,
        "value": np.array(objective),
        "image": image,
        "points": points,
        "images": images,
        "until_jump": np.array(int(state["until_jump"]) - 1),
    }
    done = rests or idle >= IDLE
    if slope_of is not None and rests:
        return _checked(updated, slope_of(), change, tol, bounds)
    if slope_of is not None and (done or taken >= PATIENCE):
        return Step(_from_top(updated), objective, change, done=False)
    if jump is not None and not done and int(updated["until_jump"]) <= 0:
        updated = _with_jump(updated, jump(theta, image))
    return Step(updated, objective, change, done)


def _checked(state: State, slope: Slope, change: float, tol: float, bounds: Bounds) -> Step:
    """The end of a run whose steps have become small, if the gradient has; else a climb."""
    theta, value = np.asarray(state["best"], dtype=np.float64), float(state["value"])
    steepness = bounds.steepness(theta, slope)
    if steepness <= tol:
        return Step(state, value, max(change, steepness), done=True)
    climbing = climb.begun({**state, "idle": np.array(0)}, theta, value, slope, bounds)
    return Step(climbing, value, steepness, done=False)


def _from_top(state: State) -> State:
    """A climb from the best point so far, where the gradient is still to be found."""
    return {
        **state,
        "climbs": np.array(True),
        "theta": state["top"],
        "idle": np.array(0),
        "origin": np.array(PLAIN),
    }


def _climb(apply: Map, state: State, *, tol: float, cells: float, bounds: Bounds) -> Step:
    """One evaluation of the climb."""
    theta, value = np.asarray(state["theta"], dtype=np.float64), float(state["value"])
    begins = "direction" not in state
    _, objective, slope_of, _ = _attempt(apply, theta, is_plain=False)
    if begins and slope_of is not None:
        state = {**state, "best": theta, "value": np.array(objective)}
        return _checked(state, slope_of(), 0.0, tol, bounds)
    if slope_of is not None:
        slope = slope_of()
        steepness = bounds.steepness(theta, slope)
        slack = _slack(value, cells)
        if climb.is_gain(state, objective, steepness, slack):
            top, idle = _top(state, theta, objective, slack)
            state = {**state, **top, "idle": np.array(idle)}
            state = climb.accepted(state, theta, objective, slope, bounds)
            # What the quasi-Newton step promises estimates what is left to gain.
            done = steepness <= tol and float(state["promised"]) <= tol * cells
            given_up = not done and idle >= IDLE
            state = {**state, "given_up": np.array(given_up)}
            return Step(state, objective, steepness, done or given_up)
    shortened = None if begins else climb.refused(state, objective, bounds)
    if shortened is None:
        return Step({**state, "given_up": np.array(True)}, value, np.inf, done=True)
    return Step(shortened, value, float(state["steepness"]), done=False)


def _slack(value: float, cells: float) -> float:
    return ROUNDING * max(abs(value), cells) if np.isfinite(value) else 0.0


def _top(state: State, theta: Array, objective: float, slack: float) -> tuple[State, int]:
    """The best point so far, and for how many steps it has not risen by more than rounding."""
    top_value = float(state["top_value"])
    idle = 0 if objective > top_value + slack else int(state["idle"]) + 1
    if objective <= top_value:
        return {}, idle
    return {"top": theta, "top_value": np.array(objective)}, idle


def _taken_back(state: State) -> State:
    """Back to the plain EM step from the last accepted point.

    A failed extrapolation discredits the memory it came from; a failed jump does not, but the next
    one waits twice as long.
    """
    back: State = {**state, "theta": state["image"], "origin": np.array(PLAIN)}
    if int(state["origin"]) == JUMP:
        wait = 2 * int(state["jump_wait"])
        return {**back, "jump_wait": np.array(wait), "until_jump": np.array(wait)}
    forgotten = np.empty((0, len(np.asarray(state["theta"]))))
    return {**back, "points": forgotten, "images": forgotten}


def _with_jump(state: State, target: Array | None) -> State:
    """The jump as the next point to try, if there is one."""
    state = {**state, "until_jump": state["jump_wait"]}
    if target is None:
        return state
    return {**state, "theta": target, "origin": np.array(JUMP)}


def _holds(theta: Array, image: Array, before: Array) -> bool:
    """Whether EM leaves what a jump from `before` to theta has moved where the jump put it."""
    moved = theta != before
    return bool(np.all(np.abs(image - theta)[moved] <= 1e-12))


def _largest(step: Array) -> float:
    return float(np.max(np.abs(step), initial=0.0))


def _attempt(apply: Map, theta: Array, is_plain: bool) -> Mapped:
    """The map at theta; an extrapolated point may lie where the model does not exist."""
    try:
        mapped = Mapped(*apply(theta))
    except (np.linalg.LinAlgError, FloatingPointError):
        if is_plain:
            raise
        return Mapped(theta, -np.inf)
    if not (np.isfinite(mapped.objective) and np.all(np.isfinite(mapped.image))):
        if is_plain:
            raise ObjectiveFellError(f"the objective is {mapped.objective} after an EM step")
        return Mapped(theta, -np.inf)
    return mapped


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
