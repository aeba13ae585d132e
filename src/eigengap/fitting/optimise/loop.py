"""The one loop of every iterative fit: trace, progress, keeping, stopping.

`iterate` knows nothing of likelihoods; `fitting.optimise.em` builds on it. The state is a flat dict
of arrays, so that it can be written to a file and read back.

A fit is a sequence of runs of this loop (several starts, stages, a run again after a component was
removed) with work between them that follows from their results alone. So a fit that was interrupted
needs no memory but that of its runs: it is begun again from the top, each run that had ended gives
its result at once, the one that had not goes on from its last step. The watch that travels from the
user to every run carries the keeper of that memory; `fitting` does not know where it writes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from math import nan
from typing import Protocol

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
    tol: float = nan  # change at which the loop ends, where it ends by that


Watch = Callable[[Progress], None]  # one that has a `keeper` keeps the steps too: see `keeper_of`


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


class Steps:
    """The trace of a run while it grows; what was added is never changed."""

    def __init__(self, trace: Trace | None = None) -> None:
        before = trace or Trace()
        self.objective: list[float] = before.objective.tolist()
        self.change: list[float] = before.change.tolist()
        self.seconds: list[float] = before.seconds.tolist()

    def __len__(self) -> int:
        return len(self.seconds)

    def add(self, step: Step, seconds: float) -> None:
        self.objective.append(step.objective)
        self.change.append(step.change)
        self.seconds.append(seconds)

    def trace(self, count: int | None = None) -> Trace:
        """Of the first `count` steps, or of all."""
        facts = (self.objective, self.change, self.seconds)
        return Trace(*(np.array(fact[:count], dtype=np.float64) for fact in facts))

    def progress(self, k: int, max_iter: int, tol: float) -> Progress:
        return Progress(k + 1, max_iter, self.objective[k], self.change[k], self.seconds[k], tol)


@dataclass(frozen=True, eq=False)
class Left:
    """What an earlier fit has left of a run."""

    state: State
    trace: Trace
    done: bool  # whether its last step said so


class Checkpointer(Protocol):
    """Remembers the runs of a fit, so that another can go on where it ended."""

    def begin(self, start: State) -> Left | None:
        """The next run begins; what is left of it, if a fit before this one began it."""

    def keep(self, state: State, steps: Steps, *, done: bool) -> None:
        """The run has taken a step, and has arrived here."""


def checkpointer_of(watch: Watch | None) -> Checkpointer | None:
    """The keeper that a watch carries, if it does."""
    checkpointer: Checkpointer | None = getattr(watch, "checkpointer", None)
    return checkpointer


@dataclass(frozen=True, eq=False)
class Silent:
    """A watch that says nothing and keeps what is to be kept."""

    checkpointer: Checkpointer

    def __call__(self, progress: Progress) -> None:
        del progress


def silenced(watch: Watch | None) -> Watch | None:
    """The watch of a fit that only serves to compare: it is kept, but shows no progress."""
    checkpointer = checkpointer_of(watch)
    return None if checkpointer is None else Silent(checkpointer)


def iterate(
    step: Callable[[State], Step],
    state: Mapping[str, NDArray[np.generic]],
    *,
    max_iter: int,
    watch: Watch | None = None,
    tol: float = nan,
    outcome: Iterable[str] | None = None,
) -> tuple[State, Trace, bool]:
    """Repeat `step` until it says done or max_iter is reached: (state, trace, converged).

    `tol` is only told to the watch. `outcome` names what the caller needs of the last state; of a
    run that is done nothing else is kept.
    """
    current, steps, done = dict(state), Steps(), False
    checkpointer = checkpointer_of(watch)
    left = checkpointer.begin(current) if checkpointer is not None else None
    if left is not None:
        current, steps, done = left.state, Steps(left.trace), left.done
        # A watch may end a run by what it has seen: it has to see all of it.
        for k in range(len(steps)):
            _tell(watch, steps.progress(k, max_iter, tol))
    start = time.perf_counter() - (steps.seconds[-1] if len(steps) else 0.0)
    while not done and len(steps) < max_iter:
        taken = step(current)
        current, done = taken.state, taken.done
        steps.add(taken, time.perf_counter() - start)
        if checkpointer is not None:
            ended = done and outcome is not None
            kept = {name: current[name] for name in outcome or ()} if ended else current
            checkpointer.keep(kept, steps, done=done)
        _tell(watch, steps.progress(len(steps) - 1, max_iter, tol))
    return current, steps.trace(), done


def _tell(watch: Watch | None, progress: Progress) -> None:
    if watch is not None:
        watch(progress)
