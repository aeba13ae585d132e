"""Minimising a function of named parameters by L-BFGS."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from eigengap.fitting.optimise.lbfgs import Function, Minimum, minimise
from eigengap.fitting.optimise.loop import Progress, Watch
from eigengap.linalg import Array

Parameters = Mapping[str, Array]  # by name, of any shapes
Both = Callable[[dict[str, Array]], tuple[object, Parameters]]  # -> value, slopes by name

MEMORY = 50  # pairs of steps and slopes: latents and kernel pull on each other in many directions
WINDOW = 20  # steps whose gain is looked at
SLOPE = 1e-3  # largest slope of what has converged, in units in which the function bends by about 1


def minimise_named(
    both: Both,
    start: Parameters,
    weights: Mapping[str, float] | None = None,
    *,
    tol: float,
    max_iter: int,
    watch: Watch | None = None,
) -> tuple[dict[str, Array], Minimum]:
    """The parameters that minimise a function, by name, from those of `start`.

    weights by name, 1 where there is none: how much more strongly the function bends along a
    parameter than along the others. A kernel's parameters are moved by all rows, a latent by one;
    in units of the root of the weight it bends alike, which L-BFGS takes for granted at the start.
    """
    units = {name: (weights or {}).get(name, 1.0) ** -0.5 for name in start}
    shapes = {name: np.shape(value) for name, value in start.items()}

    def named(flat: Array) -> dict[str, Array]:
        parts, at = {}, 0
        for name, shape in shapes.items():
            size = int(np.prod(shape, dtype=np.intp))
            parts[name] = units[name] * flat[at : at + size].reshape(shape)
            at += size
        return parts

    def function(flat: Array) -> tuple[float, Array]:
        value, slopes = both(named(flat))
        slope = np.concatenate([units[name] * np.ravel(slopes[name]) for name in shapes])
        return float(np.asarray(value)), slope

    x = np.concatenate(
        [np.ravel(np.asarray(start[name], np.float64)) / units[name] for name in shapes]
    )
    found = _persistent(function, x, tol, max_iter, watch)
    return named(found.x), found


def _persistent(
    function: Function, x: Array, tol: float, max_iter: int, watch: Watch | None
) -> Minimum:
    """L-BFGS until WINDOW steps together gain less than tol and no slope exceeds SLOPE.

    One step alone may gain little and the next ones much: the search turns. It is begun again
    where a line search fails, for rounding had spoilt what it remembered: covariances of smooth
    kernels are nearly singular, and the values are known to fewer digits than elsewhere. Where a
    new beginning leads no further, what is left is rounding.
    """
    settled = _Settled(tol, watch)

    def descend(x: Array, steps: int) -> Minimum:
        return minimise(
            function, x, gradient=0.01 * tol, change=0.0, max_iter=steps, memory=MEMORY,
            watch=settled,
        )  # fmt: skip

    found = descend(x, max_iter)
    while not (found.converged or settled.so or found.n_iter >= max_iter):
        again = descend(found.x, max_iter - found.n_iter)
        gain = found.value - again.value
        found = replace(again, trace=found.trace.then(again.trace))
        if not gain > tol:  # nor where the start is not finite
            flat = float(np.max(np.abs(found.gradient), initial=0.0)) <= SLOPE
            return replace(found, converged=found.n_iter > 0 and flat)
    return replace(found, converged=found.converged or settled.so)


class _Settled:
    """Watches the steps, and ends the search where they lead nowhere any more."""

    def __init__(self, tol: float, watch: Watch | None) -> None:
        self.tol, self.watch = tol, watch
        self.values: list[float] = []
        self.so = False

    def __call__(self, step: Progress) -> None:
        if self.watch is not None:
            self.watch(step)
        self.values.append(step.objective)
        if len(self.values) > WINDOW and step.change <= SLOPE:
            self.so = self.values[-1 - WINDOW] - self.values[-1] <= self.tol
        if self.so:
            raise StopIteration
