"""Numbers as they are, or each behind a map of its own: which predicts held-out values better.

A Gaussian of the numbers and one of the u behind them (`models.columns`) claim unlike things: a
mean and a standard deviation, or quantiles of any shape, of whole numbers for instance. Both are
charged by the loss that quantiles minimise,

    L(x, r) = sum_s max(s (x - r_s), (s - 1) (x - r_s))

over the probabilities s of SHARES, where r_s is what is predicted of the s-quantile of x: a proper
score in the units of the column (Gneiting and Raftery 2007, section 6), near the continuous ranked
probability score. In units of the loss of the column's own quantiles it is averaged over columns: 1
is knowing the column and nothing of the row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from math import inf, nan
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from eigengap.fitting.gaussian.problem import EMOptions
from eigengap.linalg import Array
from eigengap.models.columns.continuous import ContinuousColumn
from eigengap.models.columns.maps import Identity
from eigengap.models.columns.model import ColumnModel
from eigengap.models.columns.table import Columns
from eigengap.selection.columns import TIE, ColumnRanks, ColumnSearch
from eigengap.selection.imputation import FEW_HELD_OUT, HeldOut, ImputationChoice, Trial, Tried
from eigengap.statistics.additive import Additive

# Relative gain that a map has to bring: where there is hardly any, means of a Gaussian have less
# squared error than medians behind maps.
WORTH_A_MAP = 0.05
SHARES = (0.025, 0.1, 0.25, 0.5, 0.75, 0.9, 0.975)
MODEL = "factor analysis behind columns of several kinds"
BAYESIAN = f"Bayesian {MODEL}"


@dataclass(frozen=True, eq=False)
class QuantileLoss(Additive):
    """Sums over the held-out values of each column."""

    predicted: Array  # (d,)
    by_column: Array  # (d,) of the quantiles of what is left of the column

    @classmethod
    def of(
        cls,
        truth: Array,  # (n, d)
        quantiles: Sequence[Array],  # (n, d) for each of SHARES
        hidden: NDArray[np.bool_],
        weight: Array | None,
    ) -> QuantileLoss:
        d = truth.shape[1]
        w = np.ones(len(truth)) if weight is None else weight
        predicted, by_column = np.zeros(d), np.zeros(d)
        for j in range(d):
            at = hidden[:, j]
            left = truth[~at & ~np.isnan(truth[:, j]), j]
            if not at.any() or not len(left):
                continue
            x, own = truth[at, j], np.quantile(left, SHARES)
            for k, share in enumerate(SHARES):
                predicted[j] += w[at] @ _loss(share, x - quantiles[k][at, j])
                by_column[j] += w[at] @ _loss(share, x - own[k])
        return cls(predicted, by_column)

    def relative(self) -> float:
        asked = self.by_column > 0
        if not asked.any():
            return np.inf
        return float(np.mean(self.predicted[asked] / self.by_column[asked]))


def _loss(share: float, beyond: Array) -> Array:
    return np.maximum(share * beyond, (share - 1.0) * beyond)


def are_plain(columns: Columns) -> bool:
    """Whether no column has a map, so that there is nothing to choose."""
    return all(
        isinstance(kind, ContinuousColumn)
        and isinstance(kind.margin.family, Identity)
        and kind.margin.knots is None
        and not kind.has_evidence
        for kind in columns.kinds
    )


@dataclass(frozen=True)
class Contest:
    """The best Gaussian of the numbers, and that of the u behind them."""

    gaussian: float  # loss
    mapped: float
    trial: Trial  # of the latter
    n_components: int  # of its model; the most of a Bayesian one

    @property
    def is_mapped(self) -> bool:
        return self.mapped < (1.0 - WORTH_A_MAP) * self.gaussian

    def added_to(self, choice: ImputationChoice) -> ImputationChoice:
        """The choice among Gaussians, with what came of the comparison."""
        trials, losses = (*choice.trials, self.trial), (self.gaussian, self.mapped)
        gain = [_in_percent(1.0 - loss) for loss in losses]
        if not self.is_mapped:
            words = (
                f"{choice.summary}; quantiles of held-out values are predicted with {gain[0]} loss "
                f"than by those of each column, and by {self.trial} with {gain[1]}"
            )
            return replace(choice, trials=trials, losses=losses, summary=words)
        words = (
            f"{self.trial}: {gain[1]} loss of predicted quantiles of held-out values than by "
            f"the quantiles of each column; {choice.chosen} of the numbers as they are: {gain[0]}"
        )
        return replace(choice, trials=trials, chosen=self.trial, losses=losses, summary=words)


def choice_alone() -> ImputationChoice:
    """For a table of one column, which no other can predict."""
    chosen = Trial(MODEL, 0, inf)
    summary = f"{chosen}: one column alone, by the distribution of its values"
    return ImputationChoice((), chosen, 1.0, 0, summary)


def _more_probable(ratio: float) -> str:
    """In words: 1.03 times is 3 % more, and not 1 times.

    >>> _more_probable(2.14)
    '2.1 times as probable (geometric mean) as by their columns'
    >>> _more_probable(1.0312)
    '3 % more probable (geometric mean) than by their columns'
    """
    if ratio >= 1.095:
        return f"{ratio:.2g} times as probable (geometric mean) as by their columns"
    if ratio <= 1.0:
        return "no more probable (geometric mean) than by their columns"
    return f"{100.0 * (ratio - 1.0):.1g} % more probable (geometric mean) than by their columns"


def _in_percent(gain: float) -> str:
    return f"{100.0 * abs(gain):.0f} % {'less' if gain >= 0.0 else 'more'}"


@dataclass(frozen=True)
class Behind:
    """The model behind the columns that predicts held-out values best."""

    label: str
    n_components: int  # of factor analysis; the most of the Bayesian one
    models: list[ColumnModel]  # its fits, one for each round
    ranks: ColumnRanks  # of factor analysis
    score: float | None = None  # of Bayesian factor analysis, where it was tried

    @property
    def rank(self) -> int | None:
        """None of Bayesian factor analysis, whose fit to the whole table finds its own."""
        return None if self.label == BAYESIAN else self.n_components

    @classmethod
    def of(cls, search: ColumnSearch, ranks: ColumnRanks, options: EMOptions) -> Behind:
        """Bayesian factor analysis is tried where the table is small."""
        if not ranks.tried:
            return cls(MODEL, ranks.chosen, [], ranks)
        q, score = ranks.chosen, None
        if search.is_small:
            score, models = search.bayesian(options)
            if score > ranks.scores[ranks.tried.index(q)] + TIE:
                return cls(BAYESIAN, search.components, models, ranks, score)
        return cls(MODEL, q, search.models(q), ranks, score)

    def choice(self, n_hidden: int) -> ImputationChoice:
        """What was found where columns hold more than numbers."""
        ranks = self.ranks
        first = ranks.scores[0] if ranks.scores else nan

        def trial(label: str, q: int | None, score: float) -> Trial:
            return Trial(label, q, float(np.exp(np.clip(first - score, -700.0, 700.0))))

        trials = [trial(MODEL, *each) for each in zip(ranks.tried, ranks.scores, strict=True)]
        if self.score is not None:
            trials.append(trial(BAYESIAN, None, self.score))
        mine = (self.label, self.rank)
        chosen = next((t for t in trials if (t.model, t.n_components) == mine), None)
        if chosen is None:
            chosen = Trial(MODEL, self.n_components, inf)
            words = f"{chosen}: there are too few observed values to hold any out; "
            words += "no model was tested"
        elif self.n_components == 0:
            words = f"{chosen}: the columns do not predict each other's held-out values"
        else:
            words = f"{chosen}: held-out values are {_more_probable(1.0 / chosen.error)} alone"
        if chosen.error < inf and n_hidden < FEW_HELD_OUT:
            words += f"; with {n_hidden} held-out values, this is uncertain"
        return ImputationChoice(tuple(trials), chosen, 1.0, n_hidden, words)


def compare(
    held_out: HeldOut,
    best: Tried,
    std_factors: Array,
    columns: Columns,
    n_components: int | None,
    options: EMOptions,
    report: Callable[[Trial], None],
) -> Contest:
    """Search for a rank behind the columns, near that of the best Gaussian where none is asked."""
    search = ColumnSearch.holding_out(held_out.X, held_out.hidden, columns, held_out.weight)
    if n_components is not None:
        q = min(n_components, columns.width)
        behind = Behind(MODEL, q, [], ColumnRanks((q,), (search.score(q),), q))
        behind = replace(behind, models=search.models(q))
    else:
        near = int(np.max(best.kept)) if best.kept is not None else 1
        behind = Behind.of(search, search.ranks_near(near), options)
    rows, masks = list(held_out.remaining()), held_out.hidden
    kept_rounds = [k for k, mask in enumerate(masks) if mask.any()]

    def loss(predicted: Iterable[Sequence[Array]]) -> float:
        each = [
            QuantileLoss.of(held_out.X, quantiles, masks[k], held_out.weight)
            for k, quantiles in zip(kept_rounds, predicted, strict=True)
        ]
        return reduce(QuantileLoss.merge, each).relative()

    gaussian = loss(_gaussian(best.fits[k], rows[k], std_factors) for k in kept_rounds)
    mapped: list[list[Array]] = [
        model.quantiles(rows[k], SHARES)
        for k, model in zip(kept_rounds, behind.models, strict=True)
    ]
    at_median = iter(mapped)
    medians = [next(at_median)[SHARES.index(0.5)] if mask.any() else held_out.X for mask in masks]
    trial = Trial(behind.label, behind.rank, held_out.error(medians))
    report(trial)
    return Contest(gaussian, loss(mapped), trial, behind.n_components)


def _gaussian(fitted: Any, rows: Array, std_factors: Array) -> list[Array]:
    imputed, std = map(np.asarray, fitted.impute(rows, return_std=True))
    return [imputed + float(ndtri(share)) * std * std_factors for share in SHARES]
