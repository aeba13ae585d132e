"""The one loop of every iterative fit: trace, progress, stopping.

`iterate` knows nothing of likelihoods; `fitting.em` builds on it. The state is a flat dict of
arrays, so that it can be written to a file and read back.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from eigengap.linalg import Array

State = dict[str, NDArray[np.generic]]


@dataclass(frozen=True)
class Progress:
    """One step, as a progress callback sees it."""

    iteration: int
    max_iter: int
    objective: float
    change: float  # size of the step, in the unit of tol
    seconds: float  # since the start


Watch = Callable[[Progress], None]


@dataclass(frozen=True, eq=False)
class Trace:
    """What happened at each step."""

    objective: Array = field(default_factory=lambda: np.empty(0))  # (k,)
    change: Array = field(default_factory=lambda: np.empty(0))  # (k,)
    seconds: Array = field(default_factory=lambda: np.empty(0))  # (k,) since the start

    def __len__(self) -> int:
        return len(self.objective)


@dataclass(frozen=True, eq=False)
class Step:
    """What one step did."""

    state: State
    objective: float
    change: float
    done: bool


def iterate(
    step: Callable[[State], Step],
    state: Mapping[str, NDArray[np.generic]],
    *,
    max_iter: int,
    watch: Watch | None = None,
) -> tuple[State, Trace, bool]:
    """Repeat `step` until it says done or max_iter is reached: (state, trace, converged)."""
    current = dict(state)
    objective, change, seconds = [], [], []
    start = time.perf_counter()
    converged = False
    for k in range(max_iter):
        taken = step(current)
        current = taken.state
        objective.append(taken.objective)
        change.append(taken.change)
        seconds.append(time.perf_counter() - start)
        if watch is not None:
            watch(Progress(k + 1, max_iter, taken.objective, taken.change, seconds[-1]))
        if taken.done:
            converged = True
            break
    return current, Trace(np.array(objective), np.array(change), np.array(seconds)), converged
