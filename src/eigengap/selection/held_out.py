"""Estimators tried on cells hidden from them: the search behind LowRankImputer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from eigengap.compiled.posterior import KERNELS, saved_seconds
from eigengap.linalg import Array
from eigengap.runtime.warnings import silence
from eigengap.selection.imputation import (
    HiddenError,
    ImputationChoice,
    Trial,
    best_trial,
    rounds,
    search_ranks,
    std_factors,
)
from eigengap.selection.inner_fits import Names, fit_rows
from eigengap.selection.rank import largest_rank

STEPS = 60  # EM steps of a whole search at the larger ranks, about

LARGEST_SEARCH = 1_000_000  # cells; a larger table is searched on a sample of its rows


@dataclass(frozen=True, eq=False)
class HeldOut:
    """A table (n, d) with cells to hide from it."""

    X: Array
    weight: Array | None  # (n,)
    hidden: list[NDArray[np.bool_]]  # (n, d), one mask a round
    sd: Array  # (d,) of the seen cells
    rows_observed: float  # in which a column is seen, on average, when cells are hidden
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
        fewest = min(float(np.mean(w @ (observed & ~mask))) for mask in hidden)
        return cls(
            X=X,
            weight=weight,
            hidden=hidden,
            sd=np.sqrt(w @ centred**2 / (w @ observed)),
            rows_observed=fewest,
            names=names,
        )

    @property
    def most(self) -> int:
        """Components that the table bears."""
        return largest_rank(self.X.shape[1], self.rows_observed)

    def mean_error(self) -> float:
        """Of filling with the mean of what is left of each column."""
        w = np.ones(len(self.X)) if self.weight is None else self.weight
        return self._error(lambda rows: np.broadcast_to(_means(rows, w), rows.shape))

    def error(self, estimator: Any) -> tuple[float, list[Any]]:
        """Of an unfitted estimator, and its fits, one for each round.

        It is fitted to what is left, and asked for what was hidden.
        """
        fits = []

        def fill(rows: Array) -> Array:
            fits.append(fit_rows(clone(estimator), rows, self.names, weight=self.weight))
            return np.asarray(fits[-1].impute(rows))

        with silence():  # of the one that is chosen they are heard once, not of all
            return self._error(fill), fits

    def _error(self, fill: Callable[[Array], Array]) -> float:
        made = []
        for mask in self.hidden:
            filled = fill(np.where(mask, np.nan, self.X))
            made.append(HiddenError.of(self.X, filled, mask, self.weight))
        total = made[0]
        for one in made[1:]:
            total = total.merge(one)
        return total.relative_to(self.sd)

    def std_factors(self, fits: list[Any]) -> Array:
        """What the standard deviations of a model must be multiplied by: (d,)."""
        z, columns = [], []
        for mask, fitted in zip(self.hidden, fits, strict=True):
            filled, std = fitted.impute(np.where(mask, np.nan, self.X), return_std=True)
            with np.errstate(divide="ignore", invalid="ignore"):
                z.append(((np.asarray(filled) - self.X) / np.asarray(std))[mask])
            columns.append(np.nonzero(mask)[1])
        return std_factors(np.concatenate(z), np.concatenate(columns), self.X.shape[1])

    @property
    def n_hidden(self) -> int:
        return sum(int(np.count_nonzero(mask)) for mask in self.hidden)


@dataclass(frozen=True)
class Tried:
    """A trial, with the means to repeat it."""

    trial: Trial
    estimator: Any  # unfitted
    fits: list[Any]  # to what hiding cells left, one for each round

    @property
    def kept(self) -> Any:
        """Components of a fit."""
        return getattr(self.fits[-1], "n_components_", self.trial.n_components)


@dataclass
class Search:
    """The trials on one table."""

    held_out: HeldOut
    say: Callable[[Trial], None]
    tried: list[Tried] = field(default_factory=list)

    def __post_init__(self) -> None:
        # One of its short fits never would, but the whole search may repay the compiled kernel.
        if KERNELS.pay(STEPS * saved_seconds(self.held_out.most, len(self.held_out.X))):
            KERNELS.load()

    def once(self, label: str, estimator: Any, q: int | None = None) -> float:
        """Try an estimator, with q components where given."""
        estimator = clone(estimator)
        if q is not None:
            estimator.set_params(n_components=q)
        error, fits = self.held_out.error(estimator)
        tried = Tried(Trial(label, q, error), estimator, fits)
        self.tried.append(tried)
        self.say(tried.trial)
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


def _means(X: Array, w: Array) -> Array:
    """(d,) weighted means of the seen cells; 0 for a column without any.

    About the first seen cell of each, so that a constant has itself for its mean.
    """
    observed = ~np.isnan(X)
    count = w @ observed
    first = np.nan_to_num(X[np.argmax(observed, axis=0), np.arange(X.shape[1])])
    rest = w @ np.where(observed, X - first, 0.0)
    return np.asarray(first + rest / np.where(count > 0, count, 1.0))


def _sampled(X: Array, weight: Array | None, seed: int) -> tuple[Array, Array | None]:
    """Rows at random, in their order, as many as make LARGEST_SEARCH cells."""
    n, d = X.shape
    rows = max(LARGEST_SEARCH // d, 1000)
    if n <= rows:
        return X, weight
    kept = np.random.default_rng(seed).choice(n, size=rows, replace=False)
    kept = np.union1d(kept, _rare(X))
    return X[kept], None if weight is None else weight[kept]


def _rare(X: Array) -> NDArray[np.intp]:
    """Rows that hold the first few cells of each column: no column may be left without any."""
    observed = ~np.isnan(X)
    return np.unique(np.concatenate([np.flatnonzero(column)[:10] for column in observed.T]))
