"""Missing values: their patterns, imputations with intervals, and the coverage of these.

Observed values are held out, imputed from the rest of their rows, and compared. The model was
fitted to them, so that this is optimistic, a little where rows are many; a table that was not in
the fit, or `truth` where it is known, is not.

For the report a tenth of the observed values is hidden from a fit with the same parameters and
number of components, on the rows that are shown, and predicted. Where a fit is expensive (networks,
Gaussian processes) the given model predicts values that it was fitted to; `refitted` is False then.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import reduce
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy import special
from scipy.stats import binomtest

from eigengap.estimators.shared.display import public_name
from eigengap.inference.intervals import require_level
from eigengap.linalg import Array
from eigengap.plots.numbers.names import clean, distinct
from eigengap.plots.numbers.rows import (
    MOST_READ,
    Look,
    all_rows,
    bare,
    coded_table,
    inner,
    table_of,
)
from eigengap.plots.numbers.subject import Subject
from eigengap.registry import names_with
from eigengap.runtime.warnings import silence
from eigengap.selection.imputation import HiddenError, rounds

MOST_CELLS = 300_000  # of the table that is fitted anew
LEVEL = 0.95
REACH = float(special.ndtri(0.5 + LEVEL / 2))  # standard deviations to the end of an interval
LONGEST = 240  # characters of an error that are shown
LEVELS = np.append(np.arange(0.05, 0.96, 0.05), 0.99)  # whose intervals a calibration looks at
FEWEST = 20  # held-out values from which anything is reported
TOO_FEW = "Too few values could be held out to assess imputations."
Found = TypeVar("Found")


@dataclass(frozen=True, eq=False)
class Missingness:
    """Missing values of a table by column and by pattern, the most frequent patterns first."""

    n: int  # rows in all
    per_column: NDArray[np.intp]  # (d,) missing values, of all rows
    patterns: NDArray[np.bool_]  # (p, d) True where missing
    rows: NDArray[np.intp]  # (p,) rows of each pattern, among those that were read
    read: int  # rows that were read
    together: Array  # (d,) share of missing values in the rows of all patterns that are not listed
    others: int  # patterns that are not listed
    other_rows: int  # their rows

    @property
    def share(self) -> Array:
        """(d,) of the cells of each column that are missing."""
        return self.per_column / max(self.n, 1)

    @property
    def cells(self) -> int:
        """Missing values in all."""
        return int(np.sum(self.per_column))


def missingness_summary(X: Any, most: int = 20) -> Missingness:
    """Count the patterns of missing values in a table; no more than `most` of them are listed."""
    table = table_of(X, most=MOST_READ)
    missing = np.isnan(table.X)
    packed = np.packbits(missing, axis=1)
    _, first, which = np.unique(packed, axis=0, return_index=True, return_inverse=True)
    count = np.bincount(which.ravel(), minlength=len(first))
    order = np.argsort(-count, kind="stable")
    listed, left = order[:most], order[most:]
    among = np.isin(which.ravel(), left)
    return Missingness(
        n=table.n,
        per_column=table.missing,
        patterns=missing[first[listed]],
        rows=count[listed],
        read=len(missing),
        together=missing[among].mean(axis=0) if among.any() else np.zeros(missing.shape[1]),
        others=len(left),
        other_rows=int(np.sum(count[left])),
    )


# Imputed values --------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Imputations:
    """Imputed values; low and high are the ends of their intervals."""

    row: NDArray[np.intp]  # (c,) among the rows that were given
    column: NDArray[np.intp]  # (c,)
    value: Array
    std: Array
    low: Array
    high: Array
    level: float

    def some(self, kept: NDArray[np.intp]) -> Imputations:
        """Those at these positions."""
        names = [field.name for field in fields(self) if field.name != "level"]
        return replace(self, **{name: getattr(self, name)[kept] for name in names})


@dataclass(frozen=True, eq=False)
class Calibration:
    """Imputations of cells whose truth is known."""

    imputations: Imputations
    truth: Array  # (c,)
    # (c,) level of the narrowest interval that holds the truth, of columns of several kinds
    reached: Array | None = None

    @property
    def coverage(self) -> float:
        """Share of the cells that lie in their intervals."""
        inside = (self.imputations.low <= self.truth) & (self.truth <= self.imputations.high)
        return float(np.mean(inside)) if len(inside) else float("nan")

    def coverage_at(self, levels: Array) -> Array:
        """Share of the cells within intervals of each level, normal ones of numbers: (levels,)."""
        if self.reached is not None:
            return np.array([np.mean(self.reached <= p) for p in levels])
        std = np.where(self.imputations.std > 0.0, self.imputations.std, np.finfo(np.float64).tiny)
        deviation = np.abs(self.truth - self.imputations.value) / std
        return np.array([np.mean(deviation <= special.ndtri(0.5 + p / 2.0)) for p in levels])


def imputations(estimator: Any, X: Any, level: float = 0.95) -> Imputations:
    """Every missing value of X (m, d) with its interval."""
    if not hasattr(estimator, "impute"):
        raise AttributeError(
            f"{public_name(estimator)} imputes no values. {names_with('imputation')} do"
        )
    require_level(level)
    X, model = all_rows(X, estimator).X, bare(estimator)
    row, column = np.nonzero(np.isnan(X))
    value, std = (np.asarray(each, dtype=float) for each in model.impute(X, return_std=True))
    reach = special.ndtri(0.5 + level / 2.0) * std
    low, high = value - reach, value + reach
    if hasattr(model, "intervals"):  # which are as skewed as the columns, and within bounds
        low, high = (np.asarray(each, dtype=float) for each in model.intervals(X, level))
    at = (row, column)
    return Imputations(row, column, value[at], std[at], low[at], high[at], level)


@dataclass(frozen=True, eq=False)
class LevelImputations:
    """What is predicted of the missing cells of a column with levels."""

    column: int
    levels: tuple[str, ...]
    has_order: bool
    observed: Array  # (K,) cells of each level
    row: NDArray[np.intp]  # (c,) among the rows that were given
    probabilities: Array  # (c, K)


def level_imputations(estimator: Any, X: Any) -> dict[int, LevelImputations]:
    """Of every column whose levels are no numbers, where a cell is missing; by its position."""
    coded = coded_table(estimator)
    if coded is None:
        return {}
    X = all_rows(X, estimator).X
    known = bare(inner(estimator)).level_probabilities(X)
    found = {}
    for k, j in enumerate(coded.used):
        row = np.flatnonzero(np.isnan(X[:, k]))
        key, own = coded.key(j), coded.schema.columns[j]
        if key not in known or not own.levels or not len(row):
            continue
        fitted = coded.columns.kinds[k]
        observed = X[~np.isnan(X[:, k]), k]
        found[k] = LevelImputations(
            column=k,
            levels=distinct(coded.levels()[key]),
            has_order=coded.kinds[j].word == "ordinal",
            observed=np.bincount(fitted.code(observed), minlength=len(fitted.levels)).astype(float),
            row=row,
            probabilities=np.asarray(known[key])[row],
        )
    return found


def calibration(
    estimator: Any,
    X: Any,
    *,
    truth: Array | None = None,
    share: float = 0.1,
    level: float = 0.95,
    seed: int = 0,
) -> Calibration:
    """Imputations and their truth: of missing values where it is given, else of held-out ones."""
    if truth is None:
        if not 0.0 < share < 1.0:
            raise ValueError(
                f"held_out, the share of values to hold out, must lie in (0, 1), got {share!r}"
            )
        table = all_rows(X, estimator)
        X = table.X
        hidden = (np.random.default_rng(seed).random(X.shape) < share) & ~np.isnan(X)
        # A row keeps at least one observed value, from which to predict.
        hidden[~np.any(~np.isnan(X) & ~hidden, axis=1)] = False
        truth, X = np.where(hidden, X, np.nan), replace(table, X=np.where(hidden, np.nan, X))
    found = imputations(estimator, X, level)
    known = np.asarray(truth, dtype=np.float64)[found.row, found.column]
    kept = np.flatnonzero(~(np.isnan(known) | np.isnan(found.std)))
    if len(kept) == 0:
        raise ValueError("there is no held-out value whose truth is known")
    found, known = found.some(kept), known[kept]
    if coded_table(estimator) is None:
        return Calibration(found, known)
    return Calibration(found, known, _reached(estimator, all_rows(X, estimator).X, found, known))


def _reached(estimator: Any, X: Array, found: Imputations, truth: Array) -> Array:
    """(c,) the least of some levels whose intervals cover the truth; infinity where none does."""
    model, reached = bare(estimator), np.full(len(truth), np.inf)
    for level in LEVELS[::-1]:
        low, high = (np.asarray(ends, dtype=float) for ends in model.intervals(X, float(level)))
        at = (found.row, found.column)
        reached[(low[at] <= truth) & (truth <= high[at])] = level
    return reached


# Held-out values of the report -----------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Held-out values and their predictions."""

    refitted: bool
    rows: int  # of the table from which values were held out
    column: NDArray[np.intp]  # (k,)
    truth: Array  # (k,)
    imputed: Array  # (k,)
    std: Array  # (k,)
    error: Array  # (d,) root mean squared error over the column's sd; NaN where none was hidden
    mean_error: Array  # (d,) of the column's mean
    overall: float  # mean of `error` over the columns
    mean_overall: float

    @property
    def n_hidden(self) -> int:
        return len(self.truth)

    @property
    def covered(self) -> NDArray[np.bool_]:
        """(k,) whether the 95 % interval holds the truth."""
        return np.abs(self.imputed - self.truth) <= REACH * self.std

    @property
    def coverage(self) -> float:
        return float(np.mean(self.covered))

    @property
    def coverage_p(self) -> float:
        """Of the exact binomial test that intervals cover 95 %, cells taken as independent."""
        return float(binomtest(int(self.covered.sum()), self.n_hidden, LEVEL).pvalue)

    @property
    def is_few(self) -> bool:
        """Whether a standard error of the coverage is more than 2 %."""
        return bool(LEVEL * (1 - LEVEL) / max(self.n_hidden, 1) > 0.02**2)

    @property
    def has_std(self) -> bool:
        return bool(np.isfinite(self.std).all() and np.all(self.std > 0))

    @property
    def gain(self) -> float:
        """Relative reduction of the error compared with the column means; may be negative."""
        return 1.0 - self.overall / self.mean_overall


def held_out(subject: Subject, look: Look, seed: int) -> HeldOut | str:
    """How held-out values are predicted; or, in a sentence, why that is not known."""
    found = assessed(_held_out, subject, look, seed)
    if isinstance(found, str) or np.isfinite([found.overall, found.mean_overall]).all():
        return found
    return TOO_FEW


def assessed(find: Callable[..., Found | None], *given: Any) -> Found | str:
    """What is found of held-out values; or, in a sentence, why that is not known."""
    try:
        return find(*given) or TOO_FEW
    except (ValueError, ArithmeticError, RuntimeError) as error:
        return (
            "The accuracy of imputations is not known: the model could not be fitted without some "
            f"of the observed values: {clean(error, LONGEST)}"
        )


def _held_out(subject: Subject, look: Look, seed: int) -> HeldOut | None:
    if not subject.imputes or look.n_columns < 2:
        return None
    X = look.X[: max(MOST_CELLS // look.n_columns, 50)]
    observed = ~np.isnan(X)
    centred = np.where(observed, X - _means(X), 0.0)
    sd = np.sqrt((centred**2).sum(axis=0) / np.maximum(observed.sum(axis=0), 1))
    masks = rounds(observed, seed)
    if sum(int(mask.sum()) for mask in masks) < FEWEST:
        return None
    anew = subject.entry.is_refitted
    made, plain, cells = [], [], []
    with silence():
        for mask in masks:
            left, model = np.where(mask, np.nan, X), subject.bare
            if anew:
                try:
                    model = subject.refitted(left, seed)
                except (TypeError, ValueError):  # a closed form, which needs complete rows
                    anew = False
            imputed, std = (np.asarray(part, float) for part in model.impute(left, return_std=True))
            made.append(HiddenError.of(X, imputed, mask, None))
            plain.append(HiddenError.of(X, _means(left), mask, None))
            cells.append((np.nonzero(mask)[1], X[mask], imputed[mask], std[mask]))
    error, mean_error = (reduce(HiddenError.merge, parts) for parts in (made, plain))
    column, truth, imputed, std = (np.concatenate(parts) for parts in zip(*cells, strict=True))
    return HeldOut(
        refitted=anew,
        rows=len(X),
        column=column,
        truth=truth,
        imputed=imputed,
        std=std,
        error=_by_column(error, sd),
        mean_error=_by_column(mean_error, sd),
        overall=error.relative_to(sd),
        mean_overall=mean_error.relative_to(sd),
    )


def _means(X: Array) -> Array:
    observed = ~np.isnan(X)
    counts = np.maximum(observed.sum(axis=0), 1)
    return np.broadcast_to(np.where(observed, X, 0.0).sum(axis=0) / counts, X.shape)


def _by_column(found: HiddenError, sd: Array) -> Array:
    asked = (found.counts > 0) & (sd > 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(asked, np.sqrt(found.squares / found.counts) / sd, np.nan)
