"""Filled cells with their intervals, and whether such intervals keep what they promise.

Cells that were seen are hidden, filled again from the rest of their rows, and compared. The model
has seen them in its fit, so that this flatters it, a little where rows are many; a table that was
not in the fit, or `truth` where it is known, does not.
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


@dataclass(frozen=True, eq=False)
class Fills:
    """Filled cells; low and high are the ends of their intervals."""

    row: NDArray[np.intp]  # (c,) among the rows that were given
    column: NDArray[np.intp]  # (c,)
    value: Array
    std: Array
    low: Array
    high: Array
    level: float


@dataclass(frozen=True, eq=False)
class Calibration:
    """Fills of cells whose truth is known."""

    fills: Fills
    truth: Array  # (c,)

    @property
    def coverage(self) -> float:
        """Share of the cells that lie in their intervals."""
        inside = (self.fills.low <= self.truth) & (self.truth <= self.fills.high)
        return float(np.mean(inside)) if len(inside) else float("nan")

    def coverage_at(self, levels: Array) -> Array:
        """Share of the cells within normal intervals of each level: (len(levels),)."""
        std = np.where(self.fills.std > 0.0, self.fills.std, np.finfo(np.float64).tiny)
        deviation = np.abs(self.truth - self.fills.value) / std
        return np.array([np.mean(deviation <= special.ndtri(0.5 + p / 2.0)) for p in levels])


def fills(estimator: Any, X: Any, level: float = 0.95) -> Fills:
    """Every unseen cell of X (m, d) with its interval."""
    if not hasattr(estimator, "impute"):
        raise AttributeError(
            f"{public_name(estimator)} fills no cells. PCA, PPCA, FactorAnalysis, BayesianPCA, "
            "MixturePPCA, GPLVM, Autoencoder and LowRankImputer do"
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
    return Fills(row, column, value[at], std[at], low[at], high[at], level)


def calibration(
    estimator: Any,
    X: Any,
    *,
    truth: Array | None = None,
    share: float = 0.1,
    level: float = 0.95,
    seed: int = 0,
) -> Calibration:
    """Fills beside the truth: of the gaps of X where it is given, else of cells hidden here."""
    if truth is not None:
        found = fills(estimator, X, level)
        known = np.asarray(truth, dtype=np.float64)[found.row, found.column]
        return _of_known(found, known)
    if not 0.0 < share < 1.0:
        raise ValueError(f"held_out, the share of cells to hide, must lie in (0, 1), got {share!r}")
    X = all_rows(X, estimator).X
    hidden = (np.random.default_rng(seed).random(X.shape) < share) & ~np.isnan(X)
    # A row keeps at least one of its cells: of nothing nothing is predicted.
    hidden[~np.any(~np.isnan(X) & ~hidden, axis=1)] = False
    found = fills(estimator, np.where(hidden, np.nan, X), level)
    known = np.where(hidden, X, np.nan)[found.row, found.column]
    return _of_known(found, known)


def _of_known(found: Fills, truth: Array) -> Calibration:
    kept = np.flatnonzero(~np.isnan(truth))
    if len(kept) == 0:
        raise ValueError("there is no hidden cell whose true value is known")
    some = Fills(
        found.row[kept],
        found.column[kept],
        found.value[kept],
        found.std[kept],
        found.low[kept],
        found.high[kept],
        found.level,
    )
    return Calibration(some, truth[kept])
