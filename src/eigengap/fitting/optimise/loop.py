"""The loop of every iterative fit: trace, progress, checkpoints, stopping.

`iterate` knows nothing of likelihoods; `fitting.optimise.em` builds on it. A state is a frozen
dataclass (`LoopState`), or a dict, that turns into a flat dict of arrays, which a checkpoint writes
to a file and reads back.

A fit is a sequence of runs of this loop (several starts, stages, another run after a component was
removed). What happens between two runs follows from their results alone. So an interrupted fit
needs no memory but that of its runs: it starts from the top, each run that had ended returns its
result at once, and the one that had not continues from its last step. The callback that travels
from the user to every run carries the checkpointer; `fitting` does not know where it writes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, fields, replace
from math import nan
from typing import Any, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from eigengap.linalg import Array

State = dict[str, NDArray[np.generic]]


@dataclass(frozen=True, eq=False)
class LoopState:
    """Base class of states: frozen dataclasses of arrays, numbers, None and other LoopStates.

    Fields have the names of the arrays in checkpoint files; those that are None are left out.
    """

    def arrays(self) -> State:
        """The state as a flat dict of arrays."""
        arrays: State = {}
        for name in (f.name for f in fields(self)):
            value = getattr(self, name)
            if isinstance(value, LoopState):
                arrays |= value.arrays()
            elif value is not None:
                arrays[name] = np.asarray(value)
        return arrays

    def restored(self, arrays: State) -> Self:
        """The state with the fields that a checkpoint has; the others stay."""
        found = {f.name: arrays[f.name] for f in fields(self) if f.name in arrays}
        values = {name: v.item() if v.ndim == 0 else v for name, v in found.items()}
        return replace(self, **values)


S = TypeVar("S", bound=State | LoopState)


@dataclass(frozen=True)
class Progress:
    """One step, as a progress callback receives it."""

    iteration: int
    max_iter: int
    objective: float
    change: float  # size of the step, in the unit of tol
    seconds: float  # since the start
    tol: float = nan  # change at which the loop ends, where it ends by that


Watch = Callable[[Progress], None]  # may carry a checkpointer: see `checkpointer_of`


@dataclass(frozen=True, eq=False)
class Trace:
    """What happened at each step."""

    objective: Array = field(default_factory=lambda: np.empty(0))  # (k,)
    change: Array = field(default_factory=lambda: np.empty(0))  # (k,)
    seconds: Array = field(default_factory=lambda: np.empty(0))  # (k,) since the start

    def __len__(self) -> int:
        return len(self.objective)

    def then(self, later: Trace, delay: float | None = None) -> Trace:
        """Both as one; `later` began `delay` seconds after this one, by default when it ended."""
        if delay is None:
            delay = float(self.seconds[-1]) if len(self) else 0.0
        return Trace(
            np.concatenate([self.objective, later.objective]),
            np.concatenate([self.change, later.change]),
            np.concatenate([self.seconds, later.seconds + delay]),
        )


@dataclass(frozen=True, eq=False)
class Step:
    """What one step did."""

    state: Any  # of the type that the loop began with
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
class ResumeState:
    """The state from which a run of an earlier fit can be resumed."""

    state: State
    trace: Trace
    done: bool  # whether its last step said so


class Checkpointer(Protocol):
    """Remembers the runs of a fit, so that another can resume them."""

    def begin(self, start: State) -> ResumeState | None:
        """The next run begins; where an earlier fit has begun it, the state to resume from."""

    def keep(self, state: State, steps: Steps, *, done: bool) -> None:
        """The run has taken a step, and has arrived here."""


def checkpointer_of(watch: Watch | None) -> Checkpointer | None:
    """The checkpointer that a callback carries, if it does."""
    checkpointer: Checkpointer | None = getattr(watch, "checkpointer", None)
    return checkpointer


@dataclass(frozen=True, eq=False)
class Silent:
    """A callback that does nothing but carry a checkpointer."""

    checkpointer: Checkpointer

    def __call__(self, progress: Progress) -> None:
        del progress


def silenced(watch: Watch | None) -> Watch | None:
    """The callback of a fit that only serves to compare: checkpoints, but no progress."""
    checkpointer = checkpointer_of(watch)
    return None if checkpointer is None else Silent(checkpointer)


def iterate(
    step: Callable[[S], Step],
    state: S,
    *,
    max_iter: int,
    watch: Watch | None = None,
    tol: float = nan,
    outcome: Iterable[str] | None = None,
) -> tuple[S, Trace, bool]:
    """Repeat `step` until it is done or max_iter is reached: (state, trace, converged).

    `tol` is only passed on to the callback. `outcome` names what the caller needs of the last
    state; of a run that is done a checkpoint keeps nothing else.
    """
    steps, done = Steps(), False
    checkpointer = checkpointer_of(watch)
    left = checkpointer.begin(_arrays(state)) if checkpointer is not None else None
    if left is not None:
        state = _restored(state, left.state)
        steps, done = Steps(left.trace), left.done
        # A callback may end a run by its steps: it has to receive all of them.
        for k in range(len(steps) if watch is not None else 0):
            watch(steps.progress(k, max_iter, tol))  # type: ignore[misc]
    start = time.perf_counter() - (steps.seconds[-1] if len(steps) else 0.0)
    while not done and len(steps) < max_iter:
        taken = step(state)
        state, done = taken.state, taken.done
        steps.add(taken, time.perf_counter() - start)
        if checkpointer is not None:
            arrays = _arrays(state)
            if done and outcome is not None:
                arrays = {name: arrays[name] for name in outcome}
            checkpointer.keep(arrays, steps, done=done)
        if watch is not None:
            watch(steps.progress(len(steps) - 1, max_iter, tol))
    return state, steps.trace(), done


def _arrays(state: State | LoopState) -> State:
    return state.arrays() if isinstance(state, LoopState) else dict(state)


def _restored(state: Any, arrays: State) -> Any:
    return state.restored(arrays) if isinstance(state, LoopState) else arrays
