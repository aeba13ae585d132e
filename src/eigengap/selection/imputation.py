"""Which model imputes best: observed values are held out, and each model is asked for them.

The error of a model is the root mean squared error of the held-out values of a column, in units of
the column's standard deviation, averaged over the columns: 1 is imputing the mean. What is compared
is prediction, not fit, so that one number ranks models of any kind.

Models are estimators with `fit`, `impute` and `set_params`; `clone` makes an unfitted copy of one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from eigengap.compiled.posterior import KERNELS, saved_seconds
from eigengap.linalg import Array
from eigengap.runtime.warnings import silence
from eigengap.selection.inner_fits import Names, fit_rows
from eigengap.selection.rank import largest_rank, search_ranks
from eigengap.sources import hidden_cells

SHARE = 0.1  # of the observed values held out at a time
ENOUGH_VALUES = 600  # held out in all; small tables hold out several times to reach it
MOST_ROUNDS = 2
FEWEST_LEFT = 3  # observed values that a column keeps; one that has no more is not asked for
TIE = 0.005  # relative difference of errors that is none; the smaller model is taken
FEW_HELD_OUT = 100  # values below which the summary says that the choice rests on little
LEVEL = 0.95  # of the intervals that held-out values calibrate
PRIOR_VALUES = 100.0  # held-out values that a factor of 1 counts for
STEPS = 60  # EM steps of a whole search at the larger ranks, about
LARGEST_SEARCH = 1_000_000  # values; a larger table is searched on a sample of its rows


@dataclass(frozen=True)
class Trial:
    """A model that was tried."""

    model: str  # how it reads in a report, without its rank
    n_components: int | None  # None where it has none or chooses its own
    error: float  # of held-out values; 1 is imputing the mean

    def __str__(self) -> str:
        rank = "" if self.n_components is None else f", {self.n_components} components"
        return f"{self.model}{rank}"


@dataclass(frozen=True)
class ImputationChoice:
    """What was tried, what was chosen, and why."""

    trials: tuple[Trial, ...]  # in the order in which they were tried
    chosen: Trial
    mean_error: float  # of imputing the same values by their columns' means
    n_hidden: int  # values that each model was asked for
    summary: str

    @classmethod
    def of(
        cls, trials: Sequence[Trial], chosen: Trial, mean_error: float, n_hidden: int
    ) -> ImputationChoice:
        summary = _in_words(trials, chosen, mean_error, n_hidden)
        return cls(tuple(trials), chosen, mean_error, n_hidden, summary)


def _in_words(trials: Sequence[Trial], chosen: Trial, mean_error: float, n_hidden: int) -> str:
    if not np.isfinite(chosen.error):
        return f"{chosen}: there were too few cells to hide any, so this is a guess"
    gain = 100.0 * (1.0 - chosen.error / mean_error)
    words = f"{chosen}: hidden cells are missed by {gain:.0f} % less than by their column's mean"
    if n_hidden < FEW_HELD_OUT:
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


# Holding out --------------------------------------------------------------------------------------


def rounds(observed: NDArray[np.bool_], seed: int, care: int = 1) -> list[NDArray[np.bool_]]:
    """Masks (n, d) of values to hold out, one for each round; `care` times as many where asked."""
    per_round = max(SHARE * float(np.count_nonzero(observed)), 1.0)
    count = int(np.clip(np.round(care * ENOUGH_VALUES / per_round), 1, care * MOST_ROUNDS))
    masks = []
    for k in range(count):
        hidden = hidden_cells(observed, SHARE, seed + k)
        hidden[:, (observed & ~hidden).sum(axis=0) < FEWEST_LEFT] = False
        masks.append(hidden)
    return masks


@dataclass(frozen=True, eq=False)
class HiddenError:
    """Squared errors of held-out values, column by column; rounds merge by addition."""

    squares: Array  # (d,)
    counts: Array  # (d,) by weight

    @classmethod
    def of(
        cls, truth: Array, imputed: Array, hidden: NDArray[np.bool_], weight: Array | None
    ) -> HiddenError:
        w = np.ones(len(truth)) if weight is None else weight
        error = np.where(hidden, imputed - np.where(hidden, truth, 0.0), 0.0)
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


def std_factors(z: Array, columns: NDArray[np.intp], d: int) -> Array:
    """What standard deviations must be multiplied by so that 95 % intervals cover 95 %: (d,).

    z (k,) are errors of held-out values in units of the standard deviations claimed for them, in
    `columns` (k,). One factor for all columns, then one for each, both shrunk towards 1 by
    PRIOR_VALUES, because a few values determine a 95 % quantile badly.
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
    # Of k held-out values and the next one, k + 1 in all, 95 % have to lie inside.
    level = min(LEVEL * (len(size) + 1) / len(size), 1.0)
    found = float(np.quantile(size, level)) / float(norm.ppf(0.5 + LEVEL / 2.0))
    weight = len(size) / (len(size) + PRIOR_VALUES)
    return float(np.exp(weight * np.log(max(found, 1e-3))))


@dataclass(frozen=True, eq=False)
class HeldOut:
    """A table (n, d) with values to hold out."""

    X: Array
    weight: Array | None  # (n,)
    hidden: list[NDArray[np.bool_]]  # (n, d), one mask a round
    sd: Array  # (d,) of the observed values
    rows_observed: float  # in which a column is observed, on average, when values are held out
    names: Names = None  # of the columns

    @classmethod
    def of(
        cls, X: Array, weight: Array | None, seed: int, care: int = 1, names: Names = None
    ) -> HeldOut:
        X, weight = _sampled(X, weight, seed)
        observed = ~np.isnan(X)
        w = np.ones(len(X)) if weight is None else weight
        centred = np.where(observed, X - _means(X, w), 0.0)
        hidden = rounds(observed, seed, care)
        return cls(
            X=X,
            weight=weight,
            hidden=hidden,
            sd=np.sqrt(w @ centred**2 / (w @ observed)),
            rows_observed=min(float(np.mean(w @ (observed & ~mask))) for mask in hidden),
            names=names,
        )

    @property
    def most(self) -> int:
        """Components that the table bears."""
        return largest_rank(self.X.shape[1], self.rows_observed)

    @property
    def n_hidden(self) -> int:
        return sum(int(np.count_nonzero(mask)) for mask in self.hidden)

    def mean_error(self) -> float:
        """Of imputing the mean of what is left of each column."""
        w = np.ones(len(self.X)) if self.weight is None else self.weight
        return self._error(lambda rows: np.broadcast_to(_means(rows, w), rows.shape))

    def error(self, fresh: Callable[[], Any]) -> tuple[float, list[Any]]:
        """Of an estimator, and its fits, one for each round.

        `fresh` makes one that is unfitted. It is fitted to what is left, and asked for what was
        held out.
        """
        fits = []

        def impute(rows: Array) -> Array:
            fits.append(fit_rows(fresh(), rows, self.names, weight=self.weight))
            return np.asarray(fits[-1].impute(rows))

        with silence():  # the final fit of the model that is chosen gives its warnings
            return self._error(impute), fits

    def _error(self, impute: Callable[[Array], Array]) -> float:
        total = HiddenError(np.zeros(self.X.shape[1]), np.zeros(self.X.shape[1]))
        for mask in self.hidden:
            imputed = impute(np.where(mask, np.nan, self.X))
            total = total.merge(HiddenError.of(self.X, imputed, mask, self.weight))
        return total.relative_to(self.sd)

    def std_factors(self, fits: list[Any]) -> Array:
        """What the standard deviations of a model must be multiplied by: (d,)."""
        z, columns = [], []
        for mask, fitted in zip(self.hidden, fits, strict=True):
            imputed, std = fitted.impute(np.where(mask, np.nan, self.X), return_std=True)
            with np.errstate(divide="ignore", invalid="ignore"):
                z.append(((np.asarray(imputed) - self.X) / np.asarray(std))[mask])
            columns.append(np.nonzero(mask)[1])
        return std_factors(np.concatenate(z), np.concatenate(columns), self.X.shape[1])


def _means(X: Array, w: Array) -> Array:
    """(d,) weighted means of the observed values; 0 for a column without any.

    About the first observed value of each, so that a constant has itself for its mean.
    """
    observed = ~np.isnan(X)
    count = w @ observed
    first = np.nan_to_num(X[np.argmax(observed, axis=0), np.arange(X.shape[1])])
    rest = w @ np.where(observed, X - first, 0.0)
    return np.asarray(first + rest / np.where(count > 0, count, 1.0))


def _sampled(X: Array, weight: Array | None, seed: int) -> tuple[Array, Array | None]:
    """Rows at random, in their order, as many as make LARGEST_SEARCH values.

    The first ten observed values of each column stay, so that no column is left without any.
    """
    n, d = X.shape
    rows = max(LARGEST_SEARCH // d, 1000)
    if n <= rows:
        return X, weight
    kept = np.random.default_rng(seed).choice(n, size=rows, replace=False)
    rare = [np.flatnonzero(column)[:10] for column in ~np.isnan(X).T]
    kept = np.union1d(kept, np.concatenate(rare))
    return X[kept], None if weight is None else weight[kept]


# The search ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Tried:
    """A trial, with the means to repeat it."""

    trial: Trial
    estimator: Any  # unfitted
    fits: list[Any]  # to what holding values out left, one for each round

    @property
    def kept(self) -> Any:
        """Components of a fit."""
        return getattr(self.fits[-1], "n_components_", self.trial.n_components)


@dataclass
class Search:
    """The trials on one table."""

    held_out: HeldOut
    clone: Callable[[Any], Any]  # an unfitted copy of an estimator
    report: Callable[[Trial], None]  # called with every trial
    tried: list[Tried] = field(default_factory=list)

    def __post_init__(self) -> None:
        # One of its short fits never would, but the whole search may repay the compiled kernel.
        if KERNELS.pay(STEPS * saved_seconds(self.held_out.most, len(self.held_out.X))):
            KERNELS.load()

    def once(self, label: str, estimator: Any, q: int | None = None, **parameters: Any) -> float:
        """Try an estimator, with q components and other parameters where given."""
        estimator = self.clone(estimator)
        if q is not None:
            parameters["n_components"] = q
        if parameters:
            estimator.set_params(**parameters)
        error, fits = self.held_out.error(lambda: self.clone(estimator))
        tried = Tried(Trial(label, q, error), estimator, fits)
        self.tried.append(tried)
        self.report(tried.trial)
        return error

    def ranks(
        self, label: str, estimator: Any, start: int | None = None, most: int | None = None
    ) -> None:
        """Try numbers of components, from 1 upwards or around `start`."""
        most = self.held_out.most if most is None else min(most, self.held_out.most)
        search_ranks(lambda q: self.once(label, estimator, q), most, start)

    def best(self) -> Tried:
        chosen = best_trial([t.trial for t in self.tried])
        return next(t for t in self.tried if t.trial is chosen)

    def chosen(self) -> tuple[ImputationChoice, Any, Array]:
        """What was found, the best as an unfitted estimator, and factors for its deviations."""
        best, held_out = self.best(), self.held_out
        trials = [t.trial for t in self.tried]
        choice = ImputationChoice.of(trials, best.trial, held_out.mean_error(), held_out.n_hidden)
        return choice, best.estimator, held_out.std_factors(best.fits)


def best_trial(trials: Sequence[Trial]) -> Trial:
    """The fewest components among those within TIE of the least error.

    A model that has no number of components is taken only where its error is the least.
    """
    best = min(trials, key=lambda trial: trial.error)
    if best.n_components is None:
        return best
    tied = [t for t in trials if t.n_components and t.error <= best.error * (1.0 + TIE)]
    return min(tied, key=lambda trial: (trial.n_components or 0, trial.error), default=best)
