"""Minimising a smooth function by L-BFGS (Byrd, Lu, Nocedal and Zhu 1995), as SciPy has it.

With the trace, the progress and the stopping of every other iterative fit.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.optimize import OptimizeResult, minimize

from eigengap.blas import one_blas_thread
from eigengap.fitting.loop import Progress, Trace, Watch
from eigengap.linalg import Array

Function = Callable[[Array], tuple[float, Array]]  # x -> value, gradient

MEMORY = 20  # pairs of steps and gradients
SEARCH = 40  # evaluations along one direction


@dataclass(frozen=True, eq=False)
class Minimum:
    """Where a minimisation ended."""

    x: Array
    value: float
    gradient: Array  # of x's shape
    trace: Trace  # objective: the values; change: the largest entries of the gradients
    converged: bool  # whether the gradient, or the last change of the value, is as small as asked
    message: str  # the solver's own word

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

    Or until the value changes by less than `change` relative to max(1, its size).
    """
    start = time.perf_counter()
    values: list[float] = []
    slopes: list[float] = []
    seconds: list[float] = []
    last = [0.0]  # largest entry of the gradient that was computed last: SciPy does not tell it

    def noted(at: Array) -> tuple[float, Array]:
        value, slope = function(at)
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
    return Minimum(
        np.asarray(found.x),
        float(found.fun),
        np.asarray(found.jac),
        trace,
        bool(found.success),
        str(found.message),
    )
