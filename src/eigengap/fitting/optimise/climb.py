"""Quasi-Newton ascent where EM converges slowly: limited-memory BFGS under bounds.

EM's step shrinks with the noise variance, so that near a noise of nothing a small step does not say
that a maximum is near; the gradient does. It comes from the statistics of the same pass (Fisher's
identity: the gradient of the expected complete-data log-likelihood at the current point). The
direction is that of L-BFGS (Nocedal 1980) on the coordinates that no bound holds (Bertsekas 1982),
its first metric by `Slope.scale`. Every evaluation is one
step of the loop, so that progress and checkpoints are those of EM.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

import numpy as np
from numpy.typing import NDArray

from eigengap.fitting.optimise.loop import State
from eigengap.linalg import Array

# Pairs of steps and changes of the gradient that are remembered: many help at the noise floor,
# where tables are small, as long as they stay small beside the rows.
MEMORY = (8, 100)
MEMORY_ENTRIES = 1 << 20
ARMIJO = 1e-4  # share of the gain that the gradient promises with which a step is content
CURVATURE = 0.9  # share of the gradient along a step that may be left after it (Wolfe's condition)
STRETCH = 4.0
SHORTEST = 1e-10  # step, as a share of the direction, below which there is none to be had
FARTHEST = 2.0  # in any coordinate that a step may go: they are of size 1, or logarithms


@dataclass(frozen=True, eq=False)
class Slope:
    """Gradient of the objective per observed cell, and the natural unit of each coordinate.

    `gradient * scale` does not depend on the coordinates. The scale is 1 / sqrt(information per
    cell). That of a loading lies between the complete data's, n / psi, and what is left of it
    where the latent variables are hardly known, n / (w^T w + psi): `loading_scale` takes the
    geometric mean of the two, for near a noise of nothing the former is no guide to what a step
    gains.
    """

    gradient: Array  # (p,)
    scale: Array  # (p,)


def loading_scale(W: Array, psi: Array, share: Array) -> Array:
    """(d,) scale of the loadings and of the mean of each column, which has a share of the cells."""
    total = np.einsum("jq,jq->j", W, W) + psi
    return np.asarray(np.sqrt(np.sqrt(psi * total) / share))


@dataclass(frozen=True, eq=False)
class Bounds:
    """Between which the coordinates are to stay."""

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


def begun(state: State, theta: Array, value: float, slope: Slope, bounds: Bounds) -> State:
    """The state of a climb that begins at theta."""
    forgotten = np.empty((0, len(theta)))
    at: State = {
        **state,
        "climbs": np.array(True),
        "best": bounds.clip(theta),
        "value": np.array(value),
        "points": forgotten,  # steps
        "images": forgotten,  # minus the changes of the gradient
    }
    return _aimed(at, slope, bounds)


def accepted(state: State, theta: Array, value: float, slope: Slope, bounds: Bounds) -> State:
    """The state after a step to theta that is a gain.

    Where the gradient along the step has hardly fallen, which the direction could not know, the
    next one goes on the same way, STRETCH times as far.
    """
    s = theta - _floats(state, "best")
    y = _floats(state, "gradient") - slope.gradient
    steps, changes = state["points"], state["images"]
    size = np.linalg.norm(s / slope.scale) * np.linalg.norm(y * slope.scale)
    if float(s @ y) > 1e-10 * float(size):
        kept = slice(1 - int(np.clip(MEMORY_ENTRIES // len(s), *MEMORY)), None)
        steps, changes = np.vstack([steps[kept], s]), np.vstack([changes[kept], y])
    at: State = {
        **state,
        "best": theta,
        "value": np.array(value),
        "points": steps,
        "images": changes,
    }
    before, after = float(_floats(state, "gradient") @ s), float(slope.gradient @ s)
    return _aimed(at, slope, bounds, STRETCH * s if after > CURVATURE * before else None)


def refused(state: State, value: float, bounds: Bounds) -> State | None:
    """The state after a step that is no gain; None where there is none to be had.

    The step is shortened to where the parabola through both values has its top.
    """
    length, promised = float(state["length"]), float(state["promised"])
    fell = float(state["value"]) - value
    by = 0.5 * promised / (promised + fell) if np.isfinite(fell) and promised + fell > 0 else 0.1
    length *= float(np.clip(by, 0.1, 0.5))
    if length >= SHORTEST:
        return _tried(state, length, bounds)
    if len(state["points"]) == 0:
        return None
    forgotten = np.empty((0, len(state["best"])))
    slope = Slope(_floats(state, "gradient"), _floats(state, "scale"))
    return _aimed({**state, "points": forgotten, "images": forgotten}, slope, bounds)


def is_gain(state: State, value: float, steepness: float, slack: float) -> bool:
    """Whether a step is worth taking; in the objective's rounding, the gradient decides."""
    before, promised = float(state["value"]), float(state["promised"])
    if value >= before + ARMIJO * promised and value > before:
        return True
    return promised <= slack and value >= before - slack and steepness < float(state["steepness"])


def _aimed(state: State, slope: Slope, bounds: Bounds, stretched: Array | None = None) -> State:
    """The state with a direction from its best point, and the first point along it."""
    theta, g = _floats(state, "best"), slope.gradient
    free = bounds.free(theta, g)
    if stretched is None:
        direction = _direction(
            g, slope.scale, _floats(state, "points"), _floats(state, "images"), free
        )
    else:
        direction = np.where(free, stretched, 0.0)
    if not float(direction @ g) > 0.0:
        direction = np.where(free, slope.scale**2 * g, 0.0)
    longest = float(np.max(np.abs(direction), initial=0.0))
    aimed: State = {
        **state,
        "gradient": g,
        "scale": slope.scale,
        "steepness": np.array(bounds.steepness(theta, slope)),
        "direction": direction,
    }
    return _tried(aimed, min(1.0, FARTHEST / longest) if longest > 0 else 1.0, bounds)


def _tried(state: State, length: float, bounds: Bounds) -> State:
    best = _floats(state, "best")
    theta = bounds.clip(best + length * _floats(state, "direction"))
    promised = float(_floats(state, "gradient") @ (theta - best)) * float(state["cells"])
    return {
        **state,
        "theta": theta,
        "length": np.array(length),
        "promised": np.array(promised),
    }


def _floats(state: State, name: str) -> Array:
    return np.asarray(state[name], dtype=np.float64)


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
