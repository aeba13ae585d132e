"""Element-wise cross-validation: how well held-out values are predicted, by number of components.

Cells, not rows, are left out (Wold 1978; Bro et al. 2008): each fold hides its share of the cells,
the model is fitted to the others, and the held-out ones are compared with their
expected value given what is left of their row. Folds are a function of (seed, row, column).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial, reduce

import numpy as np

from eigengap.fitting.gaussian.problem import EMOptions, GaussianFit
from eigengap.linalg import Array
from eigengap.models.gaussian.linear_gaussian import LinearGaussian
from eigengap.selection.rank.choice import Curve, DoesNotApplyError
from eigengap.selection.rank.search import first_minimum
from eigengap.sources import Block, HeldOut, Source, fold_of_cells
from eigengap.statistics.additive import Additive
from eigengap.statistics.moments import ColumnMoments

FOLDS = 5
LOOSE = EMOptions(tol=1e-3, max_iter=100)  # looser fits make neighbouring q equal

Fit = Callable[[Source, int, EMOptions], GaussianFit]


@dataclass(frozen=True, eq=False)
class SquaredErrors(Additive):
    """Weighted sum of squared errors over cells, and the weight of the cells."""

    total: float
    weight: float

    @classmethod
    def of(cls, model: LinearGaussian, fold: int, seed: int, block: Block) -> SquaredErrors:
        """Of the cells of a fold, predicted from the others of their row."""
        values = block.values if isinstance(block.values, np.ndarray) else block.values.toarray()
        tested = fold_of_cells(block.start, values.shape, FOLDS, seed) == fold
        tested &= ~np.isnan(values)
        kept = np.where(tested, np.nan, values)
        guess = model.posterior_mean(kept) @ model.W.T + model.mu if model.q else model.mu
        squares: Array = np.where(tested, values - guess, 0.0) ** 2
        w = np.ones(len(values)) if block.weight is None else block.weight
        return cls(float(w @ squares.sum(axis=1)), float(w @ tested.sum(axis=1)))


def cross_validate(source: Source, fit: Fit, most: int, seed: int) -> tuple[int, Curve]:
    """The number of components, from 0, of least mean squared error on held-out cells."""
    kept = [HeldOut(source, fold, FOLDS, seed) for fold in range(FOLDS)]
    for part in kept:
        if np.any(part.observed().per_column < 2):
            raise DoesNotApplyError("a column has too few values to hide some of them")

    def errors(part: HeldOut, q: int) -> SquaredErrors:
        if q == 0:
            mean = part.reduce(ColumnMoments.of).mean
            model = LinearGaussian(np.zeros((len(mean), 0)), mean, np.ones(len(mean)))
        else:
            model = fit(part, q, LOOSE).model
        return source.reduce(partial(SquaredErrors.of, model, part.fold, seed))

    def error(q: int) -> float:
        sums = reduce(SquaredErrors.merge, (errors(part, q) for part in kept))
        return sums.total / max(sums.weight, 1.0)

    label = f"mean squared error of hidden cells, {FOLDS}-fold"
    curve = Curve.of(first_minimum(error, 0, most), "lower", label)
    return curve.lowest(), curve
