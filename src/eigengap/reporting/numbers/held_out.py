"""How well missing values are imputed, by observed values that are held out.

A tenth of the observed values is hidden from a fit with the same parameters and number of
components, on the rows that are shown, and predicted. Where a fit is expensive (networks, Gaussian
processes) the given model predicts values that it was fitted to, which is optimistic; `refitted`
says which.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri
from scipy.stats import binomtest

from eigengap.linalg import Array
from eigengap.reporting.numbers.look import Look
from eigengap.reporting.numbers.subject import Subject
from eigengap.reporting.words import clean
from eigengap.runtime.warnings import silence
from eigengap.selection.imputation import HiddenError, rounds

MOST_CELLS = 300_000  # of the table that is fitted anew
LEVEL = 0.95
LONGEST = 240  # characters of an error that are shown
FEWEST = 20  # held-out values from which anything is reported


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
        return np.abs(self.imputed - self.truth) <= reach() * self.std

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
        """By how much less the cells are missed than by their column's mean; may be negative."""
        return 1.0 - self.overall / self.mean_overall


def reach() -> float:
    """Standard deviations from the middle to the end of an interval."""
    return float(ndtri(0.5 + LEVEL / 2))


def held_out(subject: Subject, look: Look, seed: int) -> HeldOut | str:
    """How held-out values are predicted; or, in a sentence, why that is not known."""
    try:
        found = _held_out(subject, look, seed)
    except (ValueError, ArithmeticError, RuntimeError) as error:
        return (
            "The accuracy of imputations is not known: the model could not be fitted without some "
            f"of the observed values: {clean(error, LONGEST)}"
        )
    if found is None or not np.isfinite(found.overall) or not np.isfinite(found.mean_overall):
        return "Too few values could be held out to assess imputations."
    return found


def _held_out(subject: Subject, look: Look, seed: int) -> HeldOut | None:
    if not subject.imputes or look.n_columns < 2:
        return None
    X = look.X[: max(MOST_CELLS // look.n_columns, 50)]
    observed = ~np.isnan(X)
    sd = _deviations(X)
    masks = rounds(observed, seed)
    if sum(int(mask.sum()) for mask in masks) < FEWEST:
        return None
    anew = subject.entry.is_refitted
    made, plain, cells = [], [], []
    with silence():
        for mask in masks:
            left = np.where(mask, np.nan, X)
            model, is_new = _model(subject, left, seed) if anew else (subject.bare, False)
            anew = is_new
            imputed, std = _imputed(model, left)
            made.append(HiddenError.of(X, imputed, mask, None))
            plain.append(HiddenError.of(X, _means(left), mask, None))
            columns = np.nonzero(mask)[1]
            cells.append((columns, X[mask], imputed[mask], std[mask]))
    error, mean_error = (_merged(parts) for parts in (made, plain))
    column, truth, imputed, std = (np.concatenate([part[k] for part in cells]) for k in range(4))
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


def _model(subject: Subject, X: Array, seed: int) -> tuple[Any, bool]:
    try:
        return subject.refitted(X, seed), True
    except (TypeError, ValueError):  # such as a closed form, which knows no gaps
        return subject.bare, False


def _imputed(model: Any, X: Array) -> tuple[Array, Array]:
    imputed, std = model.impute(X, return_std=True)
    return np.asarray(imputed, dtype=np.float64), np.asarray(std, dtype=np.float64)


def _means(X: Array) -> Array:
    observed = ~np.isnan(X)
    counts = np.maximum(observed.sum(axis=0), 1)
    means = np.where(observed, X, 0.0).sum(axis=0) / counts
    return np.broadcast_to(means, X.shape)


def _deviations(X: Array) -> Array:
    observed = ~np.isnan(X)
    centred = np.where(observed, X - _means(X), 0.0)
    return np.asarray(np.sqrt((centred**2).sum(axis=0) / np.maximum(observed.sum(axis=0), 1)))


def _merged(parts: list[HiddenError]) -> HiddenError:
    total = parts[0]
    for part in parts[1:]:
        total = total.merge(part)
    return total


def _by_column(found: HiddenError, sd: Array) -> Array:
    asked = (found.counts > 0) & (sd > 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(asked, np.sqrt(found.squares / found.counts) / sd, np.nan)
