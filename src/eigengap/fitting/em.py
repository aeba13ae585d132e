"""Expectation-maximisation with a guard, accelerated.

An EM map theta -> G(theta) never lowers its objective. Anderson's method (1965; Walker and Ni
2011) extrapolates from the last few (theta, G(theta)) pairs to the fixed point; a proposal that
lowers the objective is dropped for the plain EM point, so the sequence stays monotone (Henderson
and Varadhan 2019). A fall of the objective after a plain EM step beyond rounding is a mistake in
the map, not a reason to stop: it raises.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from eigengap.fitting.loop import State, Step, Trace, Watch, iterate
from eigengap.linalg import Array

WINDOW = 8  # pairs that Anderson's method remembers
# Largest fall of the objective that is rounding, relative to its size or the number of seen cells.
ROUNDING = 1e-9
FIRST_JUMP = 10  # steps before a jump is tried
IDLE = 60  # steps without a gain beyond rounding after which there is none to be had

PLAIN, ANDERSON, JUMP = 0, 1, 2  # how a point came about

Map = Callable[[Array], tuple[Array, float]]  # theta (p,) -> G(theta) (p,), objective at theta
Jump = Callable[[Array, Array], Array | None]  # theta, G(theta) -> a point to try, or None


# What is needed of the last state of a run.
OUTCOME = ("best", "value", "top", "top_value", "idle", "given_up")


class ObjectiveFellError(ArithmeticError):
    """An EM step lowered its objective by more than rounding can.

    Raised by `em` it knows the best point before, and the objective there.
    """

    top: Array | None = None
    top_value: float = -np.inf


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
    jump: Jump | None = None,
    is_degenerate: Callable[[Array], bool] | None = None,
    watch: Watch | None = None,
) -> EMResult:
    """Iterate the EM map until neither the parameters nor the objective move.

    Stops when the EM step and the accelerated step are both below `tol` in every coordinate and
    the objective changed by less than `tol` per seen cell. The accelerated step is part of the
    test because a slow EM takes small steps far from the optimum. Stops too when the objective has
    not risen by more than rounding for IDLE steps: the rest is a ridge, flat to rounding. `jump`
    may now and then propose a point far along a direction in which the map crawls.

    `is_degenerate` tells of a point whether rounding may be larger there than the guard allows
    (a noise of almost nothing): a fall at or from such a point ends the fit, unconverged, at its
    best point so far. A fall anywhere else raises.
    """

    def step(state: State) -> Step:
        try:
            return _step(apply, state, tol=tol, cells=cells, jump=jump)
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
            given_up = {**state, "given_up": np.array(True)}
            return Step(given_up, float(state["value"]), change=np.inf, done=True)

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


def _step(apply: Map, state: State, *, tol: float, cells: float, jump: Jump | None) -> Step:
    theta = np.asarray(state["theta"], dtype=np.float64)
    value = float(state["value"])
    origin = int(state["origin"])
    image, objective = _attempt(apply, theta, is_plain=origin == PLAIN)
    if origin == JUMP and not _holds(theta, image, np.asarray(state["image"])):
        objective = -np.inf
    slack = ROUNDING * max(abs(value), cells) if np.isfinite(value) else 0.0
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
    change = max(_largest(image - theta), _largest(proposal - theta))
    gained = abs(objective - value) / max(cells, 1.0)
    top, idle = _top(state, theta, objective, slack)
    done = (change <= tol and gained <= tol) or idle >= IDLE
    following: State = {
        **state,
        **top,
        "idle": np.array(idle),
        "theta": proposal,
        "origin": np.array(PLAIN if len(points) == 1 else ANDERSON),
        "best": theta,
        "value": np.array(objective),
        "image": image,
        "points": points,
        "images": images,
        "until_jump": np.array(int(state["until_jump"]) - 1),
    }
    if jump is not None and not done and int(following["until_jump"]) <= 0:
        following = _with_jump(following, jump(theta, image))
    return Step(following, objective, change, done)


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


def _attempt(apply: Map, theta: Array, is_plain: bool) -> tuple[Array, float]:
    """The map at theta; an extrapolated point may lie where the model does not exist."""
    try:
        image, objective = apply(theta)
    except (np.linalg.LinAlgError, FloatingPointError):
        if is_plain:
            raise
        return theta, -np.inf
    if not (np.isfinite(objective) and np.all(np.isfinite(image))):
        if is_plain:
            raise ObjectiveFellError(f"the objective is {objective} after an EM step")
        return theta, -np.inf
    return image, objective


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
