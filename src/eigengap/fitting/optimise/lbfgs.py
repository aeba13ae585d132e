"""Minimising a smooth function by L-BFGS (Byrd, Lu, Nocedal and Zhu 1995), as SciPy has it.

With the trace, the progress and the stopping of every other iterative fit. A trial point at which
the function is not finite is too far out, and the line search comes back.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.optimize import OptimizeResult, minimize

from eigengap.fitting.optimise.loop import Progress, Trace, Watch
from eigengap.linalg import Array
from eigengap.runtime.threads import one_blas_thread

Function = Callable[[Array], tuple[float, Array]]  # x -> value, gradient

MEMORY = 20  # pairs of steps and gradients
SEARCH = 40  # evaluations along one direction
BACK = 0.1  # of a step that led too far: what is tried next


@dataclass(frozen=True, eq=False)
class Minimum:
    """Where a minimisation ended."""

    x: Array
    value: float
    gradient: Array  # of x's shape
    trace: Trace  # objective: the values; change: the largest entries of the gradients
    converged: bool  # whether the gradient, or the last change of the value, is as small as asked
    message: str  # the solver's own

    @property
    def n_iter(self) -> int:
        return len(self.trace)


def minimise(
    function: Function,
    x: Array,
    *,
    gradient: float = 1e-6,
    change: float = 1e-12,
    max_iter: int = 1000,
    memory: int = MEMORY,
    watch: Watch | None = None,
) -> Minimum:
    """Minimise from x until no entry of the gradient exceeds `gradient`.

    Or until the value changes by less than `change` relative to max(1, its size). Where the
    function is not finite at x itself, that is where it ends, not converged.
    """
    start = time.perf_counter()
    values: list[float] = []
    slopes: list[float] = []
    seconds: list[float] = []
    last = [0.0]  # largest entry of the gradient that was computed last: SciPy does not report it

    guarded = _Guarded(function)

    def noted(at: Array) -> tuple[float, Array]:
        value, slope = guarded(at)
        last[0] = float(np.max(np.abs(slope), initial=0.0))
        return value, slope

    def look(intermediate_result: OptimizeResult) -> None:
        values.append(float(intermediate_result.fun))
        slopes.append(last[0])
        seconds.append(time.perf_counter() - start)
        if watch is not None:
            watch(Progress(len(values), max_iter, values[-1], slopes[-1], seconds[-1]))

    with one_blas_thread():  # SciPy's step multiplies matrices of `memory` rows: a second waits
        found = minimize(
            noted,
            x,
            jac=True,
            method="L-BFGS-B",
            callback=look,
            options={
                "maxcor": memory,
                "ftol": change,
                "gtol": gradient,
                "maxiter": max_iter,
                "maxfun": 20 * max_iter,
                "maxls": SEARCH,
            },
        )
    trace = Trace(np.array(values), np.array(slopes), np.array(seconds))
    value, slope, end = float(found.fun), np.asarray(found.jac), np.asarray(found.x)
    if not np.isfinite(value) and guarded.lowest is not None:  # slopes too steep to be squared
        value, slope, end = guarded.lowest
    return Minimum(
        end,
        value,
        slope,
        trace,
        bool(found.success),
        str(found.message),
    )


class _Guarded:
    """A function whose line searches come back from where it is not finite.

    SciPy's search ends at the first NaN, wherever it is. In its place stands the quadratic function
    that agrees in value and slope with the lowest point so far, along the way from there, and whose
    least value is BACK of the way to the trial point: a step that interpolation then takes.
    """

    def __init__(self, function: Function) -> None:
        self._function = function
        self.lowest: tuple[float, Array, Array] | None = None  # value, slope, x

    def __call__(self, x: Array) -> tuple[float, Array]:
        value, slope = self._function(x)
        if np.isfinite(value) and np.isfinite(slope).all():
            if self.lowest is None or value <= self.lowest[0]:
                self.lowest = value, np.array(slope), np.array(x)
            return value, slope
        return (value, slope) if self.lowest is None else self._beyond(x)

    def _beyond(self, x: Array) -> tuple[float, Array]:
        assert self.lowest is not None
        value, slope, start = self.lowest
        way = x - start
        across = max(float(way @ way), float(np.finfo(np.float64).tiny))
        fall = max(abs(float(slope @ way)), float(np.finfo(np.float64).eps) * max(1.0, abs(value)))
        # value - fall t + fall t^2 / (2 BACK), and its derivative, at t = 1
        return value + fall * (0.5 / BACK - 1.0), (fall * (1.0 / BACK - 1.0) / across) * way
