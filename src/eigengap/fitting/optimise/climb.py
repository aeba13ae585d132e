"""Quasi-Newton ascent where EM converges slowly: limited-memory BFGS under bounds.

EM's step shrinks with the noise variance, so that near a noise of zero a small step does not mean
that a maximum is near; a small gradient does. The gradient comes from the statistics of the same
pass (Fisher's identity: it is that of the expected complete-data log-likelihood at the current
point). The direction is that of L-BFGS (Nocedal 1980) on the coordinates that no bound holds
(Bertsekas 1982), its first metric by `Slope.scale`. Every evaluation is one step of the loop, so
that progress and checkpoints are those of EM.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf
from typing import Self

import numpy as np
from numpy.typing import NDArray

from eigengap.fitting.optimise.loop import LoopState, State
from eigengap.linalg import Array

# Pairs of steps and changes of the gradient that are remembered: many help at the noise floor,
# where tables are small, as long as their memory stays small relative to the rows.
MEMORY = (8, 100)
MEMORY_ENTRIES = 1 << 20
ARMIJO = 1e-4  # share of the gain promised by the gradient with which a step is accepted
CURVATURE = 0.9  # share of the gradient along a step that may be left after it (Wolfe's condition)
STRETCH = 4.0  # how much farther the next step goes where more than that is left
SHORTEST = 1e-10  # step, as a share of the direction, below which no gain is possible
FARTHEST = 2.0  # step in any coordinate: they are of size 1, or logarithms


@dataclass(frozen=True, eq=False)
class Slope:
    """Gradient of the objective per observed cell, and the natural unit of each coordinate.

    `gradient * scale` does not depend on the coordinates. The scale is 1 / sqrt(information per
    cell).
    """

    gradient: Array  # (p,)
    scale: Array  # (p,)


def loading_scale(W: Array, psi: Array, share: Array) -> Array:
    """(d,) scale of the loadings and of the mean of each column, which has a share of the cells.

    The information of a loading lies between the complete data's, n / psi, and what is left of it
    where the latent variables are hardly known, n / (w^T w + psi). The scale is by their geometric
    mean, for near a noise of zero the former is no guide to what a step gains.
    """
    total = np.einsum("jq,jq->j", W, W) + psi
    return np.asarray(np.sqrt(np.sqrt(psi * total) / share))


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


def begun(state: Ascent, theta: Array, value: float, slope: Slope, bounds: Bounds) -> Ascent:
    """The state of a climb that begins at theta."""
    forgotten = np.empty((0, len(theta)))
    at = replace(
        state,
        climbs=True,
        best=bounds.clip(theta),
        value=value,
        points=forgotten,
        images=forgotten,
    )
    return _aimed(at, slope, bounds)


def accepted(state: Ascent, theta: Array, value: float, slope: Slope, bounds: Bounds) -> Ascent:
    """The state after a step to theta that is a gain.

    Where the gradient along the step has hardly fallen, which the direction could not know, the
    next step has the same direction and is STRETCH times as long.
    """
    before = _search(state)
    s, y = theta - state.best, before.gradient - slope.gradient
    steps, changes = state.points, state.images
    size = np.linalg.norm(s / slope.scale) * np.linalg.norm(y * slope.scale)
    if float(s @ y) > 1e-10 * float(size):
        kept = slice(1 - int(np.clip(MEMORY_ENTRIES // len(s), *MEMORY)), None)
        steps, changes = np.vstack([steps[kept], s]), np.vstack([changes[kept], y])
    at = replace(state, best=theta, value=value, points=steps, images=changes)
    has_far_to_go = float(slope.gradient @ s) > CURVATURE * float(before.gradient @ s)
    return _aimed(at, slope, bounds, STRETCH * s if has_far_to_go else None)


def refused(state: Ascent, value: float, bounds: Bounds) -> Ascent | None:
    """The state after a step that is no gain; None where no gain is possible.

    The step is shortened to the maximum of the parabola through both values.
    """
    search = _search(state)
    promised, fell = search.promised, state.value - value
    by = 0.5 * promised / (promised + fell) if np.isfinite(fell) and promised + fell > 0 else 0.1
    length = search.length * float(np.clip(by, 0.1, 0.5))
    if length >= SHORTEST:
        return _tried(state, replace(search, length=length), bounds)
    if len(state.points) == 0:
        return None
    forgotten = np.empty((0, len(state.best)))
    restarted = replace(state, points=forgotten, images=forgotten)
    return _aimed(restarted, Slope(search.gradient, search.scale), bounds)


def is_gain(state: Ascent, value: float, steepness: float, slack: float) -> bool:
    """Whether to accept a step; within the objective's rounding, the gradient decides."""
    search = _search(state)
    if value >= state.value + ARMIJO * search.promised and value > state.value:
        return True
    is_rounding = search.promised <= slack and value >= state.value - slack
    return is_rounding and steepness < search.steepness


def _search(state: Ascent) -> LineSearch:
    assert state.search is not None
    return state.search


def _aimed(state: Ascent, slope: Slope, bounds: Bounds, stretched: Array | None = None) -> Ascent:
    """The state with a direction from its best point, and the first point along it."""
    theta, g = state.best, slope.gradient
    free = bounds.free(theta, g)
    if stretched is None:
        direction = _direction(g, slope.scale, state.points, state.images, free)
    else:
        direction = np.where(free, stretched, 0.0)
    if not float(direction @ g) > 0.0:
        direction = np.where(free, slope.scale**2 * g, 0.0)
    longest = float(np.max(np.abs(direction), initial=0.0))
    search = LineSearch(
        gradient=g,
        scale=slope.scale,
        steepness=bounds.steepness(theta, slope),
        direction=direction,
        length=min(1.0, FARTHEST / longest) if longest > 0 else 1.0,
        promised=0.0,
    )
    return _tried(state, search, bounds)


def _tried(state: Ascent, search: LineSearch, bounds: Bounds) -> Ascent:
    """The state with the next point to evaluate: a share of the direction from the best point."""
    theta = bounds.clip(state.best + search.length * search.direction)
    promised = float(search.gradient @ (theta - state.best)) * state.cells
    return replace(state, theta=theta, search=replace(search, promised=promised))


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
