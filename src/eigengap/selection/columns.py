"""How many components lie behind columns of every kind: held-out cells decide.

A share of the observed cells is held out, models of growing rank are fitted to the rest, and each
is charged by what it had predicted of the held-out cells: the logarithm of the probability of a
level, or of the density of a value. That is a proper score (Gneiting and Raftery 2007), the same
unit for every kind of column, and counts wrong uncertainty as well as wrong values.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from eigengap.fitting.columns.fit import fit_columns
from eigengap.fitting.gaussian.problem import EMOptions
from eigengap.linalg import Array
from eigengap.models.columns.model import ColumnModel
from eigengap.models.columns.table import Columns
from eigengap.sources import ArraySource

SHARE = 0.1  # of the observed cells that are held out
LOOSE = EMOptions(tol=1e-3, max_iter=100)
PATIENCE = 2  # ranks that do worse than the best before the search ends


@dataclass(frozen=True)
class ColumnRanks:
    """Mean log score of the held-out cells for each rank that was tried."""

    scores: tuple[float, ...]  # of 0, 1, ... components
    chosen: int


def rank_of_columns(
    values: Array, columns: Columns, weight: Array | None = None, seed: int = 0
) -> ColumnRanks:
    """The rank, from 0 on, that predicts held-out cells best."""
    hidden = _held_out(values, seed)
    kept = np.where(hidden, np.nan, values)
    truth = np.where(hidden, values, np.nan)
    source = ArraySource(kept, weight=weight)
    scores: list[float] = []
    most = max(min(values.shape[0] // 4, columns.width // 2), 0)
    for q in range(most + 1):
        model = ColumnModel(columns, fit_columns(source, columns, q, LOOSE).model)
        scores.append(float(np.nanmean(model.log_scores(kept, truth))))
        best = int(np.argmax(scores))
        if q - best >= PATIENCE:
            break
    return ColumnRanks(tuple(scores), best)


def _held_out(values: Array, seed: int) -> NDArray[np.bool_]:
    """Cells (n, d) to hold out; every row and column keeps some."""
    rng = np.random.default_rng(seed)
    observed = ~np.isnan(values)
    hidden = observed & (rng.random(values.shape) < SHARE)
    lonely = observed.sum(axis=1) - hidden.sum(axis=1) < 1
    hidden[lonely] = False
    return hidden
