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
ROUNDING = 1e-9  # relative to the objective or the number of seen cells, whichever is larger

Map = Callable[[Array], tuple[Array, float]]  # theta (p,) -> G(theta) (p,), objective at theta


class ObjectiveFellError(ArithmeticError):
    """An EM step lowered its objective by more than rounding can."""


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
    watch: Watch | None = None,
) -> EMResult:
    """Iterate the EM map until neither the parameters nor the objective move.

    Stops when the EM step and the accelerated step are both below `tol` in every coordinate and
    the objective changed by less than `tol` per seen cell. The accelerated step is part of the
    test because a slow EM takes small steps far from the optimum.
    """

    def step(state: State) -> Step:
        return _step(apply, state, tol=tol, cells=cells)

    start: State = {
        "theta": theta,
        "fallback": theta,
        "last": np.array(-np.inf),  # objective of the last accepted point
        "plain": np.array(True),  # whether theta came from a plain EM step
        "points": np.empty((0, len(theta))),
        "images": np.empty((0, len(theta))),
        "best": theta,
        "value": np.array(-np.inf),  # objective at best
    }
    state, trace, converged = iterate(step, start, max_iter=max_iter, watch=watch)
    return EMResult(
        theta=np.asarray(state["best"], dtype=np.float64),
        objective=float(state["value"]),
        converged=converged,
        trace=trace,
    )


def _step(apply: Map, state: State, *, tol: float, cells: float) -> Step:
    theta = np.asarray(state["theta"], dtype=np.float64)
    last = float(state["last"])
    image, objective = _attempt(apply, theta, bool(state["plain"]))
    slack = ROUNDING * max(abs(last), cells) if np.isfinite(last) else 0.0
    if not objective >= last - slack:
        if state["plain"]:
            raise ObjectiveFellError(
                f"the objective fell from {last!r} to {objective!r} in an EM step; rounding "
                f"explains at most {slack:.3g}"
            )
        restart = {**state, "theta": state["fallback"], "plain": np.array(True)}
        restart["points"] = restart["images"] = np.empty((0, len(theta)))
        return Step(state=restart, objective=last, change=np.inf, done=False)
    points = np.vstack([state["points"], theta])[-WINDOW - 1 :]
    images = np.vstack([state["images"], image])[-WINDOW - 1 :]
    proposal = _anderson(points, images)
    em_step = float(np.max(np.abs(image - theta), initial=0.0))
    change = max(em_step, float(np.max(np.abs(proposal - theta), initial=0.0)))
    gained = abs(objective - last) / max(cells, 1.0)
    following: State = {
        "theta": proposal,
        "fallback": image,
        "last": np.array(max(objective, last)),
        "plain": np.array(len(points) == 1),
        "points": points,
        "images": images,
        "best": theta,
        "value": np.array(objective),
    }
    return Step(following, objective, change, done=change <= tol and gained <= tol)


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
