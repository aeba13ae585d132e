"""How an iterative fit came to its end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from eigengap.estimators.shared.display import has_stopped_early, objective_of, public_name
from eigengap.linalg import Array
from eigengap.plots.numbers.rows import inner
from eigengap.registry import ESTIMATORS, entry_of


@dataclass(frozen=True, eq=False)
class Steps:
    """The trace of a fit."""

    step: Array  # (k,) from 1
    objective: Array  # (k,) of the data in their own units
    distance: Array  # (k,) |objective - that of the last step|
    change: Array  # (k,) size of each step, in the unit of tol
    tol: float | None  # at which the fit ends
    converged: bool | None  # None where it was stopped early on purpose
    seconds: float
    what: str


def trace_numbers(estimator: Any) -> Steps:
    """The steps of a fitted estimator; AttributeError where it has none."""
    model = inner(estimator)
    trace = getattr(model, "trace_", None)
    name = public_name(estimator)
    if trace is None:
        *others, last = (entry.name for entry in ESTIMATORS if entry.objective)
        raise AttributeError(
            f"{name} has no trace, for it is not fitted step by step. "
            f"{', '.join(others)} and {last} have one"
        )
    if len(trace) == 0:
        raise ValueError(
            f"{name} was fitted at once, without any steps (complete data have a closed form): "
            "there is no trace to draw"
        )
    objective = objective_of(model)
    tol = getattr(model, "tol", None)
    return Steps(
        step=np.arange(1, len(objective) + 1, dtype=np.float64),
        objective=objective,
        distance=np.abs(objective - objective[-1]),
        change=np.asarray(trace.change, dtype=np.float64),
        tol=float(tol) if tol else None,
        converged=None if has_stopped_early(estimator) else getattr(model, "converged_", None),
        seconds=float(trace.seconds[-1]),
        what=entry_of(model).objective or "objective",
    )
