"""Which model fills gaps best: cells that were seen are hidden, and each model is asked for them.

The error of a model is the root mean squared error of the hidden cells of a column, in units of
the column's standard deviation, averaged over the columns: 1 is filling with the mean. What is
compared here is prediction, not fit, so that one number ranks models of any kind.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from eigengap.linalg import Array
from eigengap.sources import hidden_cells

SHARE = 0.1  # of the seen cells hidden at a time
ENOUGH_CELLS = 600  # hidden in all; small tables hide several times to reach it
MOST_ROUNDS = 2
FEWEST_LEFT = 3  # seen cells that a column keeps; one that has no more is not asked for
TIE = 0.005  # relative difference of errors that is none; the smaller model is taken
FEW_HIDDEN = 100  # cells below which the choice is told to rest on little
LEVEL = 0.95  # of the intervals that hidden cells put right
PRIOR_CELLS = 100.0  # that a factor of 1 counts for beside hidden cells
PATIENCE = 2  # doublings of the rank that may be worse in a row before the search turns back
PROBES = 3  # ranks tried between the best and its neighbours
FLAT = 0.02  # relative difference to a neighbour below which it is not worth looking between


@dataclass(frozen=True)
class Trial:
    """A model that was tried."""

    model: str  # how it reads in a report, without its rank
    n_components: int | None  # None where it has none or chooses its own
    error: float  # of hidden cells; 1 is filling with the mean

    def __str__(self) -> str:
        rank = "" if self.n_components is None else f", {self.n_components} components"
        return f"{self.model}{rank}"


@dataclass(frozen=True)
class ImputationChoice:
    """What was tried, what was chosen, and why."""

    trials: tuple[Trial, ...]  # in the order in which they were tried
    chosen: Trial
    mean_error: float  # of filling the same cells with their columns' means
    n_hidden: int  # cells that each model was asked for
    summary: str

    @classmethod
    def of(
        cls, trials: Sequence[Trial], chosen: Trial, mean_error: float, n_hidden: int
    ) -> ImputationChoice:
        summary = _in_words(trials, chosen, mean_error, n_hidden)
        return cls(tuple(trials), chosen, mean_error, n_hidden, summary)


def rounds(observed: NDArray[np.bool_], seed: int, care: int = 1) -> list[NDArray[np.bool_]]:
    """Masks (n, d) of cells to hide, one for each round; `care` times as many where asked."""
    per_round = max(SHARE * float(np.count_nonzero(observed)), 1.0)
    count = int(np.clip(np.round(care * ENOUGH_CELLS / per_round), 1, care * MOST_ROUNDS))
    return [_hidden(observed, seed + k) for k in range(count)]


def _hidden(observed: NDArray[np.bool_], seed: int) -> NDArray[np.bool_]:
    hidden = hidden_cells(observed, SHARE, seed)
    hidden[:, (observed & ~hidden).sum(axis=0) < FEWEST_LEFT] = False
    return hidden


def std_factors(z: Array, columns: NDArray[np.intp], d: int) -> Array:
    """What standard deviations must be multiplied by so that 95 % intervals cover 95 %: (d,).

    z (k,) are errors of hidden cells in units of the standard deviations claimed for them, in
    `columns` (k,). One factor for all columns, then one for each, both drawn towards 1 by
    PRIOR_CELLS, for a few cells say little of a 95 % quantile.
    """
    size = np.abs(z[np.isfinite(z)])
    columns = columns[np.isfinite(z)]
    if len(size) == 0:
        return np.ones(d)
    common = _quantile_factor(size)
    factors = np.full(d, common)
    for j in np.unique(columns):
        factors[j] *= _quantile_factor(size[columns == j] / common)
    return factors


def _quantile_factor(size: Array) -> float:
    # Of k hidden cells and the next one, k + 1 in all, 95 % have to lie inside.
    level = min(LEVEL * (len(size) + 1) / len(size), 1.0)
    found = float(np.quantile(size, level)) / float(norm.ppf(0.5 + LEVEL / 2.0))
    weight = len(size) / (len(size) + PRIOR_CELLS)
    return float(np.exp(weight * np.log(max(found, 1e-3))))


@dataclass(frozen=True, eq=False)
class HiddenError:
    """Squared errors of hidden cells, column by column; rounds merge by addition."""

    squares: Array  # (d,)
    counts: Array  # (d,) by weight

    @classmethod
    def of(
        cls, truth: Array, filled: Array, hidden: NDArray[np.bool_], weight: Array | None
    ) -> HiddenError:
        w = np.ones(len(truth)) if weight is None else weight
        error = np.where(hidden, filled - np.where(hidden, truth, 0.0), 0.0)
        with np.errstate(over="ignore"):  # rounding of a huge constant, which is not asked for
            squares = w @ error**2
        return cls(squares=squares, counts=w @ hidden)

    def merge(self, other: HiddenError) -> HiddenError:
        return HiddenError(self.squares + other.squares, self.counts + other.counts)

    def relative_to(self, sd: Array) -> float:
        """Root mean squared error of each column over its standard deviation, averaged."""
        asked = (self.counts > 0) & (sd > 0)
        if not asked.any():
            return np.inf
        rmse = np.sqrt(self.squares[asked] / self.counts[asked])
        return float(np.mean(rmse / sd[asked]))


def search_ranks(
    error: Callable[[int], float], most: int, start: int | None = None
) -> dict[int, float]:
    """Errors of the ranks that a search for the best looks at.

    Doubling from 1 to `most` until the error has risen PATIENCE times in a row; or, where a good
    rank is known of a similar model, halving and doubling from that `start` for as long as it
    helps. Then PROBES ranks between the best and its neighbours, unless the curve is flat there.
    """
    curve: dict[int, float] = {}

    def is_better(q: int) -> bool:
        before = min(curve.values(), default=np.inf)
        if q not in curve:
            curve[q] = error(q)
        return curve[q] < before

    if start is None:
        _double(is_better, 1, most, PATIENCE)
    else:
        first = min(start, most)
        is_better(first)
        if not _double(is_better, first, most, 1, skip_first=True):
            _halve(is_better, first)
    for _ in range(PROBES):
        between = _next_probe(curve)
        if between is None:
            break
        is_better(between)
    return dict(sorted(curve.items()))


def _double(
    is_better: Callable[[int], bool], q: int, most: int, patience: int, skip_first: bool = False
) -> bool:
    """Upwards until it was worse `patience` times in a row; whether it ever was better."""
    helped, risen = False, 0
    if skip_first:
        if q == most:
            return False
        q = min(2 * q, most)
    while True:
        better = is_better(q)
        helped, risen = helped or better, 0 if better else risen + 1
        if q == most or risen >= patience:
            return helped
        q = min(2 * q, most)


def _halve(is_better: Callable[[int], bool], q: int) -> None:
    while q > 1:
        q //= 2
        if not is_better(q):
            break


def _next_probe(curve: dict[int, float]) -> int | None:
    """The middle of the wider gap beside the best rank; None where all is near enough."""
    best = min(curve, key=lambda q: (curve[q], q))
    below = max((q for q in curve if q < best), default=best)
    above = min((q for q in curve if q > best), default=best)
    # A side is worth a look where ranks were passed over and the error changes across them.
    sides = [
        (high / low, (low + high) // 2)  # ranks differ by ratios
        for low, high, other in ((below, best, below), (best, above, above))
        if high - low > 1 and curve[other] > curve[best] * (1.0 + FLAT)
    ]
    return max(sides)[1] if sides else None


def best_trial(trials: Sequence[Trial]) -> Trial:
    """The fewest components among those within TIE of the least error.

    A model that has no number of components is taken only where its error is the least.
    """
    best = min(trials, key=lambda trial: trial.error)
    if best.n_components is None:
        return best
    tied = [t for t in trials if t.n_components and t.error <= best.error * (1.0 + TIE)]
    return min(tied, key=lambda trial: (trial.n_components or 0, trial.error), default=best)


def _in_words(trials: Sequence[Trial], chosen: Trial, mean_error: float, n_hidden: int) -> str:
    if not np.isfinite(chosen.error):
        return f"{chosen}: there were too few cells to hide any, so this is a guess"
    gain = 100.0 * (1.0 - chosen.error / mean_error)
    words = f"{chosen}: hidden cells are missed by {gain:.0f} % less than by their column's mean"
    if n_hidden < FEW_HIDDEN:
        words += f", by {n_hidden} hidden cells, which say little"
    if gain < 0.5:
        words = f"{chosen}: no model fills hidden cells better than their column's mean"
    others = {trial.model: trial for trial in sorted(trials, key=lambda t: -t.error)}
    others.pop(chosen.model, None)
    listed = [
        f"{trial} {100.0 * (1.0 - trial.error / mean_error):.0f} %"
        for trial in sorted(others.values(), key=lambda t: t.error)
    ]
    return words + (f"; next best: {', '.join(listed)}" if listed else "")
