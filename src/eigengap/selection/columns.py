"""How many components lie behind columns of every kind: held-out cells decide.

A share of the observed cells is held out, models of growing rank are fitted to the rest, and each
is charged by what it had predicted of the held-out cells: the logarithm of the probability of a
level, or of the density of a value. That is a proper score (Gneiting and Raftery 2007), the same
unit for every kind of column, and counts wrong uncertainty as well as wrong values.

Ranks are doubled until the score falls, and then narrowed down between the neighbours of the best.
A fit starts from that of the next smaller rank, with further axes from the spectral start.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from eigengap.fitting.columns.fit import SiteProblem
from eigengap.fitting.gaussian.problem import MOST_PASSES, data_model
from eigengap.linalg import Array
from eigengap.models.columns.model import ColumnModel
from eigengap.models.columns.table import Columns
from eigengap.selection.imputation import rounds
from eigengap.sources import ArraySource
from eigengap.statistics.expected.gaussian import Parameters

STEPS, LOOSE = 40, 0.02  # most steps of a fit, and the step at which it ends
SMALL = 2  # rank up to which a worse score does not end the search for larger ones
TIE = 1e-3  # nats per cell that are no difference; the smaller rank is taken
# Cells, in rows that have another one to predict them from, below which too few can be held out.
FEWEST_CELLS = 30
LARGEST_SEARCH = 500_000  # cells; a larger table is searched on a sample of its rows
ROWS_A_COMPONENT = 4  # fewer rows do not determine a component, nor fewer than two u


@dataclass(frozen=True)
class ColumnRanks:
    """Mean log score of the held-out cells for each rank that was tried."""

    tried: tuple[int, ...]  # ascending
    scores: tuple[float, ...]  # of each
    chosen: int


def rank_of_columns(
    values: Array, columns: Columns, weight: Array | None = None, seed: int = 0
) -> ColumnRanks:
    """The rank, from 0 on, that predicts held-out cells best."""
    if values.size > LARGEST_SEARCH:  # heavy rows are drawn more often
        source = ArraySource(values, weight=weight)
        k = max(LARGEST_SEARCH // values.shape[1], 1)
        values, weight = source.sample(k, np.random.default_rng(seed)), None
    observed = np.count_nonzero(~np.isnan(values), axis=1)
    if np.sum(observed[observed > 1]) < FEWEST_CELLS:
        return ColumnRanks((), (), 0)
    masks = [mask for mask in rounds(~np.isnan(values), seed) if mask.any()]
    most = min(len(values) // ROWS_A_COMPONENT, columns.width // 2)
    if not masks or most == 0:
        return ColumnRanks((), (), 0)
    parts = [
        _HeldOut(np.where(mask, np.nan, values), np.where(mask, values, np.nan), weight, columns)
        for mask in masks
    ]
    return _searched(lambda q: float(np.mean([part.score(q) for part in parts])), most)


def _searched(score_of: Callable[[int], float], most: int) -> ColumnRanks:
    scores: dict[int, float] = {}

    def best() -> int:
        top = max(scores.values())
        return min(q for q, score in scores.items() if score >= top - TIE)

    q = 0
    while True:
        scores[q] = score_of(q)
        if q == most or (best() < q and q > SMALL):
            break
        q = min(max(2 * q, q + 1), most)
    while True:
        at, tried = best(), sorted(scores)
        below = max((q for q in tried if q < at), default=at)
        above = min((q for q in tried if q > at), default=at)
        left = [(low + high) // 2 for low, high in ((below, at), (at, above)) if high - low > 1]
        if not left:
            return ColumnRanks(tuple(tried), tuple(scores[q] for q in tried), at)
        scores[left[0]] = score_of(left[0])


class _HeldOut:
    """A table without some of its cells, the cells, and the fits so far."""

    def __init__(self, kept: Array, truth: Array, weight: Array | None, columns: Columns) -> None:
        self.kept, self.truth, self.columns = kept, truth, columns
        self.weight = np.ones(len(kept)) if weight is None else weight
        self.source = ArraySource(kept, weight=weight)
        self.fits: dict[int, Parameters] = {}

    def score(self, q: int) -> float:
        problem = SiteProblem.of_columns(self.source, self.columns, q)
        start = self._start(problem.starts().first)
        fit = self.fits[q] = problem.rough(start, STEPS, LOOSE, MOST_PASSES)
        model = ColumnModel(self.columns, data_model(fit, problem.units, problem.constraints)[0])
        scores = model.log_scores(self.kept, self.truth)
        w = np.where(np.isnan(scores), 0.0, self.weight[:, None])
        return float(np.sum(w * np.nan_to_num(scores)) / np.sum(w))

    def _start(self, spectral: Parameters) -> Parameters:
        """The fit of the next smaller rank, with what its axes leave of the spectral start's."""
        q = spectral.W.shape[1]
        smaller = max((k for k in self.fits if k < q), default=0)
        if smaller == 0:
            return spectral
        fit = self.fits[smaller]
        axes = np.linalg.qr(fit.W)[0]
        rest = spectral.W - axes @ (axes.T @ spectral.W)
        left, size, _ = np.linalg.svd(rest, full_matrices=False)
        further = (left * size)[:, : q - smaller]
        return replace(fit, W=np.hstack([fit.W, further]))
