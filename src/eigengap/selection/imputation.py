"""Which model imputes best: observed values are held out, and each model is asked for them.

The error of a model is the root mean squared error of the held-out values of a column, in units of
the column's standard deviation, averaged over the columns: 1 is imputing the mean. What is compared
is prediction, not fit, so that one number ranks models of any kind.

Models are estimators with `fit`, `impute` and `set_params`; `clone` makes an unfitted copy of one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial, reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from eigengap.compiled.posterior import KERNELS, saved_seconds
from eigengap.linalg import Array
from eigengap.runtime.warnings import silence
from eigengap.selection.inner_fits import Names, fit_rows
from eigengap.selection.rank import largest_rank, most_factors, search_ranks
from eigengap.sources import hidden_cells
from eigengap.statistics.additive import Additive
from eigengap.wording import counted

SHARE = 0.1  # of the observed values held out at a time
ENOUGH_VALUES = 600  # held out in all; small tables hold out several times to reach it
MOST_ROUNDS = 2
FEWEST_LEFT = 3  # observed values that a column keeps; one that has no more is not asked for
TIE = 0.005  # relative difference of errors that is none; the smaller model is taken
FEW_HELD_OUT = 100  # values below which the summary calls the result uncertain
LEVEL = 0.95  # of the intervals that held-out values calibrate
PRIOR_VALUES = 100.0  # held-out values that a factor of 1 counts for
STEPS = 60  # EM steps of a whole search at the larger ranks, about
LARGEST_SEARCH = 1_000_000  # values; a larger table is searched on a sample of its rows

FIRST_CAP = 16  # components offered to Bayesian PCA; doubled for as long as that helps
LIKE_SIZE = 5.0  # ratio of standard deviations up to which columns are of like size
# Rows for each factor of a fit by maximum likelihood: with fewer it may still impute well, stopped
# early, but the uncertainty of its parameters is no longer small.
ROWS_A_FACTOR = 8
LARGEST_MIXTURE = 16
ROWS_A_CLUSTER = 30  # and two for each column: fewer do not determine a cluster's plane
MIXTURE_RANKS = (2, 8)  # components of a cluster
WORTH_IT = 0.01  # relative gain without which the search for larger models ends

STANDARDISED = {True: " of standardised columns", False: ""}


@dataclass(frozen=True)
class Trial:
    """A model that was tried."""

    model: str  # how it reads in a report, without its rank
    n_components: int | None  # None where it has none or chooses its own
    # Of held-out values; 1 is imputing the mean. Where columns hold more than numbers, by what
    # factor they are less probable than by their columns alone (the geometric mean).
    error: float

    def __str__(self) -> str:
        if self.n_components is None:
            return self.model
        # Bayesian models keep as many of those that they are offered as the data determine.
        most = "up to " if self.model.startswith("Bayesian") else ""
        return f"{self.model}, {most}{counted(self.n_components, 'component')}"


@dataclass(frozen=True)
class ImputationChoice:
    """What was tried, what was chosen, and why."""

    trials: tuple[Trial, ...]  # in the order in which they were tried
    chosen: Trial
    mean_error: float  # of imputing the same values by their columns' means
    n_hidden: int  # values that each model was asked for
    summary: str
    # Loss of predicted quantiles, relative to that of the columns' own, of the best Gaussian of the
    # numbers and of the model behind maps of them; empty where only one kind was tried
    losses: tuple[float, ...] = ()


def _in_words(trials: Sequence[Trial], chosen: Trial, mean_error: float, n_hidden: int) -> str:
    if not np.isfinite(chosen.error):
        return f"{chosen}: there are too few observed values to hold any out; no model was tested"
    gain = 100.0 * (1.0 - chosen.error / mean_error)
    words = f"{chosen}: {gain:.0f} % less error on held-out values than the column means"
    if n_hidden < FEW_HELD_OUT:
        words += f"; with {n_hidden} held-out values, this is uncertain"
    if gain < 0.5:
        words = f"{chosen}: no model predicts held-out values better than the column means"
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
class HiddenError(Additive):
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
        centred = np.where(observed, X - _means(X, weight), 0.0)
        sd = np.sqrt(w @ centred**2 / (w @ observed))
        hidden = rounds(observed, seed, care)
        rows = min(float(np.mean(w @ (observed & ~mask))) for mask in hidden)
        return cls(X, weight, hidden, sd, rows, names)

    @property
    def most(self) -> int:
        """Components that the table bears."""
        return largest_rank(self.X.shape[1], self.rows_observed)

    @property
    def n_hidden(self) -> int:
        return sum(int(np.count_nonzero(mask)) for mask in self.hidden)

    def remaining(self) -> Iterator[Array]:
        """The table (n, d) without the values held out, one for each round."""
        return (np.where(mask, np.nan, self.X) for mask in self.hidden)

    def error(self, imputed: Sequence[Array]) -> float:
        """Of imputed tables (n, d), one for each round."""
        rounds = zip(imputed, self.hidden, strict=True)
        errors = (HiddenError.of(self.X, table, mask, self.weight) for table, mask in rounds)
        return reduce(HiddenError.merge, errors).relative_to(self.sd)

    def mean_error(self) -> float:
        """Of imputing the mean of what is left of each column."""
        return self.error([_means(rows, self.weight) for rows in self.remaining()])

    def std_factors(self, fits: list[Any]) -> Array:
        """What the standard deviations of a model must be multiplied by: (d,)."""
        z, columns = [], []
        for mask, rows, fitted in zip(self.hidden, self.remaining(), fits, strict=True):
            imputed, std = fitted.impute(rows, return_std=True)
            with np.errstate(divide="ignore", invalid="ignore"):
                z.append(((np.asarray(imputed) - self.X) / np.asarray(std))[mask])
            columns.append(np.nonzero(mask)[1])
        return std_factors(np.concatenate(z), np.concatenate(columns), self.X.shape[1])


def _means(X: Array, weight: Array | None) -> Array:
    """(d,) weighted means of the observed values; 0 for a column without any.

    About the first observed value of each, so that a constant has itself for its mean.
    """
    w, observed = np.ones(len(X)) if weight is None else weight, ~np.isnan(X)
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


# Trials -------------------------------------------------------------------------------------------


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
        """Try an estimator, with q components and other parameters where given: its error."""
        held_out, estimator = self.held_out, self.clone(estimator)
        if q is not None:
            parameters["n_components"] = q
        if parameters:
            estimator.set_params(**parameters)
        fits, imputed = [], []
        with silence():  # the final fit of the model that is chosen gives its warnings
            for rows in held_out.remaining():
                fresh = self.clone(estimator)
                fits.append(fit_rows(fresh, rows, held_out.names, weight=held_out.weight))
                imputed.append(np.asarray(fits[-1].impute(rows)))
        trial = Trial(label, q, held_out.error(imputed))
        self.tried.append(Tried(trial, estimator, fits))
        self.report(trial)
        return trial.error

    def ranks(self, label: str, estimator: Any) -> None:
        """Try numbers of components from 1 upwards."""
        search_ranks(partial(self.once, label, estimator), self.held_out.most)

    def best(self) -> Tried:
        """The fewest components among those within TIE of the least error.

        A model that has no number of components is taken only where its error is the least.
        """
        best = min(self.tried, key=lambda one: one.trial.error)
        if best.trial.n_components is None:
            return best
        bound = best.trial.error * (1.0 + TIE)
        tied = [t for t in self.tried if t.trial.n_components and t.trial.error <= bound]
        return min(tied, key=lambda t: (t.trial.n_components or 0, t.trial.error), default=best)

    def chosen(self, best: Tried) -> ImputationChoice:
        """What was found."""
        trials, mean_error = tuple(t.trial for t in self.tried), self.held_out.mean_error()
        found = (trials, best.trial, mean_error, self.held_out.n_hidden)
        return ImputationChoice(*found, _in_words(*found))


# What LowRankImputer tries by itself, in an order in which each guides the next -------------------


@dataclass(frozen=True)
class Candidates:
    """Unfitted estimators; the search sets their ranks, scales, kinds of noise and clusters."""

    ppca: Any
    bayesian: Any
    factors: Any
    column_means: Any
    mixture: Any = None  # None where mixtures are not tried


def try_all(
    search: Search, candidates: Candidates, scale: bool | str, n_components: int | None
) -> None:
    """Try all candidates, with n_components where given; scale "auto" tries both where both fit.

    Bayesian PCA finds its number of components in one fit and does not overfit: it gives the order
    of magnitude. With noise of its own for each column it is Bayesian factor analysis. Maximum
    likelihood wins where most directions carry signal, which automatic relevance determination
    gives up too early; mixtures win where the rows form clusters; and where columns do not predict
    each other their means are the best there is.
    """
    held_out = search.held_out
    scales = [scale] if isinstance(scale, bool) else _scales(held_out.sd)
    if n_components is not None:
        for scaled in scales:
            label = f"PPCA{STANDARDISED[scaled]}"
            search.once(label, candidates.ppca, n_components, scale=scaled)
        search.once("factor analysis", candidates.factors, n_components)
    else:
        for scaled in scales:
            _try_bayesian(search, candidates.bayesian, scaled)
        best = search.best()
        rank, cap = max(int(best.kept), 1), best.trial.n_components
        search.once("Bayesian factor analysis", candidates.bayesian, cap, noise="diagonal")
        most = max(int(held_out.rows_observed / ROWS_A_FACTOR), 1)
        most = min(most, most_factors(held_out.X.shape[1]), held_out.most)
        search_ranks(partial(search.once, "factor analysis", candidates.factors), most, start=rank)
        if candidates.mixture is not None:
            _try_mixtures(search, candidates.mixture, rank, scales[-1])
    search.once("column means", candidates.column_means)


def _try_bayesian(search: Search, estimator: Any, scale: bool) -> None:
    """More components for as long as they are all kept and help."""
    label = f"Bayesian PCA{STANDARDISED[scale]}"
    most = search.held_out.most
    cap, last = min(FIRST_CAP, most), np.inf
    while True:
        error = search.once(label, estimator, cap, scale=scale)
        all_kept = search.tried[-1].kept >= cap
        if cap == most or not all_kept or error > (1.0 - WORTH_IT) * last:
            break
        cap, last = min(2 * cap, most), error


def _try_mixtures(search: Search, estimator: Any, rank: int, scale: bool) -> None:
    """Few and more components for each of two clusters, then twice as many clusters.

    In one unit where there is one: clusters of standardised columns are clusters of rare values,
    whose weight standardising raises.
    """
    n, d = search.held_out.X.shape
    rows = max(ROWS_A_CLUSTER, 2 * d)

    def error(K: int, q: int) -> float:
        label = f"mixture of {K} PPCA{STANDARDISED[scale]}"
        return search.once(label, estimator, q, n_mixture=K, scale=scale)

    if n < 2 * rows:
        return
    last, q = min((error(2, q), q) for q in sorted({min(rank, q) for q in MIXTURE_RANKS}))
    K = 4
    while K <= LARGEST_MIXTURE and n >= K * rows:
        found = error(K, q)
        if found > (1.0 - WORTH_IT) * last:
            break
        K, last = 2 * K, found


def _scales(sd: Array) -> list[bool]:
    """Whether to standardise: both are tried where columns of one unit differ in size.

    Most are of like size, so that they have a unit in common, but some vary little: rare values
    such as the pixels at an edge, which standardising would weigh like the others.
    """
    sd = sd[sd > 0]
    if len(sd) == 0:
        return [True]
    lower, upper = np.quantile(sd, [0.25, 0.75])
    is_a_choice = upper <= LIKE_SIZE * lower and sd.max() > LIKE_SIZE * sd.min()
    return [True, False] if is_a_choice else [True]
