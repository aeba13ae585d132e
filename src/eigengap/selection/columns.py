"""How many components lie behind columns of every kind: held-out cells decide.

A share of the observed cells is held out, models of growing rank are fitted to the rest, and each
is charged by what it had predicted of the held-out cells: the logarithm of the probability of a
level, or of the density of a value. That is a proper score (Gneiting and Raftery 2007), the same
unit for every kind of column, and counts wrong uncertainty as well as wrong values.

Ranks are doubled until the score falls, and then narrowed down between the neighbours of the best.
A fit starts from that of the next smaller rank, with further axes from the spectral start.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from eigengap.fitting.columns.bayesian import fit_bayesian_columns
from eigengap.fitting.columns.fit import FACTOR_ANALYSIS, SiteProblem
from eigengap.fitting.columns.survey import rows_and_weight
from eigengap.fitting.gaussian.noise import Specification
from eigengap.fitting.gaussian.problem import MOST_PASSES, EMOptions
from eigengap.linalg import Array
from eigengap.models.columns.model import ColumnModel
from eigengap.models.columns.table import Columns
from eigengap.models.gaussian.linear_gaussian import LinearGaussian
from eigengap.selection.imputation import rounds
from eigengap.selection.rank import search_ranks
from eigengap.selection.rank.choice import Curve, RankChoice, in_words
from eigengap.sources import ArraySource, Source
from eigengap.statistics.expected.gaussian import Parameters

STEPS, LOOSE = 40, 0.02  # most steps of a fit, and the step at which it ends
SMALL = 2  # rank up to which a worse score does not end the search for larger ones
TIE = 1e-3  # nats per cell that are no difference; the smaller rank is taken
# Cells, in rows that have another one to predict them from, below which too few can be held out.
FEWEST_CELLS = 30
LARGEST_SEARCH = 500_000  # cells; a larger table is searched on a sample of its rows
METHOD = "cross_validation"  # what `RankChoice` calls this
SMALL_TABLE = 50_000  # cells; of larger ones the prior of a Bayesian fit changes little
MOST_COMPONENTS = 16  # that Bayesian factor analysis is offered
ROWS_A_COMPONENT = 4  # fewer rows do not determine a component, nor fewer than two u


@dataclass(frozen=True)
class ColumnRanks:
    """Mean log score of the held-out cells for each rank that was tried."""

    tried: tuple[int, ...]  # ascending
    scores: tuple[float, ...]  # of each
    chosen: int

    def choice(self) -> RankChoice:
        """In the form of other choices of rank."""
        if not self.tried:
            why = "too few values to hold some out"
            return RankChoice(self.chosen, {}, {}, f"k = {self.chosen}: {why}", {METHOD: why})
        scores = dict(zip(self.tried, self.scores, strict=True))
        curve = Curve.of(scores, "higher", "mean log score of held-out values")
        picks = {METHOD: self.chosen}
        return RankChoice(self.chosen, picks, {METHOD: curve}, in_words(self.chosen, picks, {}), {})


def rank_of_source(
    source: Source,
    columns: Columns,
    seed: int = 0,
    spec: Specification = FACTOR_ANALYSIS,
    most: int | None = None,
) -> ColumnRanks:
    """The rank, from 0 on and at most `most`, that predicts held-out coded values best."""
    return ColumnSearch.of(source, columns, seed, spec=spec).ranks(most)


class ColumnSearch:
    """Fits of several ranks to a table without its held-out cells."""

    def __init__(self, parts: list[_HeldOut], most: int) -> None:
        self.parts, self.most = parts, most

    @classmethod
    def of(
        cls,
        source: Source,
        columns: Columns,
        seed: int = 0,
        care: int = 1,
        spec: Specification = FACTOR_ANALYSIS,
    ) -> ColumnSearch:
        """With cells held out as `rounds` does; without any where there are too few.

        No more rows are held in memory than are searched.
        """
        d = source.n_features
        if source.observed().rows * d > LARGEST_SEARCH:  # heavy rows are drawn more often
            k = max(LARGEST_SEARCH // d, 1)
            values, weight = source.sample(k, np.random.default_rng(seed)), None
        else:
            values, weight = rows_and_weight(source)
        # What is known by limits only is never held out.
        known = ~np.isnan(values[:, : len(columns.kinds)])
        observed = np.count_nonzero(known, axis=1)
        if np.sum(observed[observed > 1]) < FEWEST_CELLS:
            return cls([], 0)
        values = np.ascontiguousarray(values)
        return cls.holding_out(values, rounds(known, seed, care), columns, weight, spec)

    @classmethod
    def holding_out(
        cls,
        values: Array,
        masks: Sequence[NDArray[np.bool_]],
        columns: Columns,
        weight: Array | None = None,
        spec: Specification = FACTOR_ANALYSIS,
    ) -> ColumnSearch:
        """With the cells (n, d) held out that each mask marks, one mask a round."""
        parts = [_HeldOut(values, mask, weight, columns, spec) for mask in masks if mask.any()]
        return cls(parts, min(len(values) // ROWS_A_COMPONENT, columns.width // 2))

    @property
    def n_hidden(self) -> int:
        return sum(int(np.count_nonzero(~np.isnan(part.truth))) for part in self.parts)

    def ranks(self, most: int | None = None) -> ColumnRanks:
        """The best of the ranks from 0 on, and at most `most`."""
        most = self.most if most is None else min(self.most, most)
        if not self.parts or most == 0:
            return ColumnRanks((), (), 0)
        return _searched(self.score, most)

    def ranks_near(self, start: int) -> ColumnRanks:
        """The best of the ranks about that of a similar model."""
        curve = search_ranks(lambda q: -self.score(q), max(self.most, 1), start=max(start, 1))
        tried = sorted(curve)
        least = min(curve.values())
        chosen = next(q for q in tried if curve[q] <= least + TIE)
        return ColumnRanks(tuple(tried), tuple(-curve[q] for q in tried), chosen)

    def score(self, q: int) -> float:
        """Mean logarithm of what rank q predicts of the held-out cells."""
        return float(np.mean([part.score(q) for part in self.parts]))

    def models(self, q: int) -> list[ColumnModel]:
        """The fits of a rank that was tried, one for each round."""
        return [part.model(q) for part in self.parts]

    @property
    def is_small(self) -> bool:
        """Whether shrunken loadings may be worth a fit."""
        return bool(self.parts) and self.most > 0 and self.parts[0].kept.size <= SMALL_TABLE

    def bayesian(self, options: EMOptions) -> tuple[float, list[ColumnModel]]:
        """Score and fits of Bayesian factor analysis with at most `components` components.

        Its prior shrinks loadings, and switches components off that the cells do not determine. It
        is judged by its expected parameters alone, as the others are by theirs.
        """
        models = [part.bayesian(self.components, options) for part in self.parts]
        scores = [part.score_of(one) for part, one in zip(self.parts, models, strict=True)]
        return float(np.mean(scores)), models

    @property
    def components(self) -> int:
        """Offered to Bayesian factor analysis."""
        width = self.parts[0].columns.width
        return max(min(MOST_COMPONENTS, width - 1, len(self.parts[0].kept) - 1), 1)


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

    def __init__(
        self,
        values: Array,
        mask: NDArray[np.bool_],
        weight: Array | None,
        columns: Columns,
        spec: Specification,
    ) -> None:
        d = mask.shape[1]
        self.kept, self.columns, self.spec = values.copy(), columns, spec
        self.kept[:, :d][mask] = np.nan
        self.truth = np.where(mask, values[:, :d], np.nan)
        self.weight = np.ones(len(values)) if weight is None else weight
        self.source = ArraySource(self.kept, weight=weight)
        self.fits: dict[int, Parameters] = {}

    def score(self, q: int) -> float:
        problem = SiteProblem.of_columns(self.source, self.columns, q, self.spec)
        start = self._start(problem.starts().first)
        self.fits[q] = problem.rough(start, STEPS, LOOSE, MOST_PASSES)
        return self.score_of(self.model(q))

    def score_of(self, model: ColumnModel) -> float:
        """Mean logarithm of what a model predicts of the held-out cells."""
        scores = model.log_scores(self.kept, self.truth)
        w = np.where(np.isnan(scores), 0.0, self.weight[:, None])
        return float(np.sum(w * np.nan_to_num(scores)) / np.sum(w))

    def model(self, q: int) -> ColumnModel:
        fit = self.fits[q]
        return ColumnModel(self.columns, LinearGaussian(W=fit.W, mu=fit.delta, psi=fit.psi))

    def bayesian(self, q: int, options: EMOptions) -> ColumnModel:
        fitted, _ = fit_bayesian_columns(
            self.source, self.columns, q, noise="diagonal", options=options
        )
        return replace(fitted, uncertain=None)

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
