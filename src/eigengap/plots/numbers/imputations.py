"""Imputed values with their intervals, and the coverage of such intervals.

Observed values are held out, imputed from the rest of their rows, and compared. The model was
fitted to them, so that this is optimistic, a little where rows are many; a table that was not in
the fit, or `truth` where it is known, is not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

from eigengap.estimators.shared.display import public_name
from eigengap.linalg import Array
from eigengap.plots.numbers.rows import all_rows, bare
from eigengap.registry import names_with


@dataclass(frozen=True, eq=False)
class Imputations:
    """Imputed values; low and high are the ends of their intervals."""

    row: NDArray[np.intp]  # (c,) among the rows that were given
    column: NDArray[np.intp]  # (c,)
    value: Array
    std: Array
    low: Array
    high: Array
    level: float


@dataclass(frozen=True, eq=False)
class Calibration:
    """Imputations of cells whose truth is known."""

    imputations: Imputations
    truth: Array  # (c,)

    @property
    def coverage(self) -> float:
        """Share of the cells that lie in their intervals."""
        inside = (self.imputations.low <= self.truth) & (self.truth <= self.imputations.high)
        return float(np.mean(inside)) if len(inside) else float("nan")

    def coverage_at(self, levels: Array) -> Array:
        """Share of the cells within normal intervals of each level: (len(levels),)."""
        std = np.where(self.imputations.std > 0.0, self.imputations.std, np.finfo(np.float64).tiny)
        deviation = np.abs(self.truth - self.imputations.value) / std
        return np.array([np.mean(deviation <= special.ndtri(0.5 + p / 2.0)) for p in levels])


def imputations(estimator: Any, X: Any, level: float = 0.95) -> Imputations:
    """Every missing value of X (m, d) with its interval."""
    if not hasattr(estimator, "impute"):
        raise AttributeError(
            f"{public_name(estimator)} imputes no values. {names_with('imputation')} do"
        )
    if not 0.0 < level < 1.0:
        raise ValueError(f"level must lie between 0 and 1, got {level!r}")
    X, model = all_rows(X, estimator).X, bare(estimator)
    row, column = np.nonzero(np.isnan(X))
    value, std = (np.asarray(table, dtype=float) for table in model.impute(X, return_std=True))
    reach = special.ndtri(0.5 + level / 2.0) * std
    low, high = value - reach, value + reach
    if hasattr(model, "intervals"):  # an imputer, which knows bounds
        low, high = (np.asarray(table, dtype=float) for table in model.intervals(X, level))
    at = (row, column)
    return Imputations(row, column, value[at], std[at], low[at], high[at], level)


def calibration(
    estimator: Any,
    X: Any,
    *,
    truth: Array | None = None,
    share: float = 0.1,
    level: float = 0.95,
    seed: int = 0,
) -> Calibration:
    """Imputations and their truth: of missing values where it is given, else of held-out ones."""
    if truth is not None:
        found = imputations(estimator, X, level)
        known = np.asarray(truth, dtype=np.float64)[found.row, found.column]
        return _of_known(found, known)
    if not 0.0 < share < 1.0:
        raise ValueError(
            f"held_out, the share of values to hold out, must lie in (0, 1), got {share!r}"
        )
    X = all_rows(X, estimator).X
    hidden = (np.random.default_rng(seed).random(X.shape) < share) & ~np.isnan(X)
    # A row keeps at least one observed value, from which to predict.
    hidden[~np.any(~np.isnan(X) & ~hidden, axis=1)] = False
    found = imputations(estimator, np.where(hidden, np.nan, X), level)
    known = np.where(hidden, X, np.nan)[found.row, found.column]
    return _of_known(found, known)


def _of_known(found: Imputations, truth: Array) -> Calibration:
    kept = np.flatnonzero(~np.isnan(truth))
    if len(kept) == 0:
        raise ValueError("there is no held-out value whose truth is known")
    some = Imputations(
        found.row[kept],
        found.column[kept],
        found.value[kept],
        found.std[kept],
        found.low[kept],
        found.high[kept],
        found.level,
    )
    return Calibration(some, truth[kept])
