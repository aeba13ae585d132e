"""Held-out values of columns of several kinds, and what a model says of them.

Numbers are predicted by their median and judged by absolute errors, relative to those of the
column's median; their intervals by coverage. Levels are judged by the share that is right and by
the logarithm of the probability of the true level, relative to the shares of the levels in the
column. Probabilities are calibrated where levels imputed with probability p are right in a share p
of the cells: hits less their expected number, over its standard deviation, is then about N(0, 1).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr
from scipy.stats import binomtest

from eigengap.linalg import Array
from eigengap.models.columns.continuous import ContinuousColumn
from eigengap.plots.numbers.missing import FEWEST, LEVEL, MOST_CELLS, assessed
from eigengap.plots.numbers.rows import Look
from eigengap.plots.numbers.subject import Subject
from eigengap.runtime.warnings import silence
from eigengap.selection.imputation import rounds

LEAST = 1e-12  # probability that a prediction is charged for at most
HALF = 0.5  # added to the count of a level, so that one that was not met has a share


@dataclass(frozen=True, eq=False)
class HeldOutNumbers:
    """Of columns of numbers, k cells."""

    column: NDArray[np.intp]  # (k,)
    truth: Array
    imputed: Array
    low: Array  # of the 95 % interval
    high: Array
    median: Array  # of the column without what was held out
    is_exact: NDArray[np.bool_]  # whether the ends of intervals are not rounded

    def __len__(self) -> int:
        return len(self.truth)

    @property
    def covered(self) -> NDArray[np.bool_]:
        return np.asarray((self.low <= self.truth) & (self.truth <= self.high))

    @property
    def coverage(self) -> float:
        return float(np.mean(self.covered))

    @property
    def n_tested(self) -> int:
        return int(np.count_nonzero(self.is_exact))

    @property
    def coverage_p(self) -> float:
        """Of the binomial test that intervals cover 95 %, where ends are not rounded."""
        hits = int(np.count_nonzero(self.covered & self.is_exact))
        return float(binomtest(hits, self.n_tested, LEVEL).pvalue) if self.n_tested else 1.0

    @property
    def tested_coverage(self) -> float:
        return float(np.mean(self.covered[self.is_exact])) if self.n_tested else float("nan")

    def ratio(self, j: int) -> float:
        """Absolute error of a column over that of its median; NaN where that is 0."""
        at = self.column == j
        own = float(np.sum(np.abs(self.imputed[at] - self.truth[at])))
        of_median = float(np.sum(np.abs(self.median[at] - self.truth[at])))
        return own / of_median if of_median > 0.0 else float("nan")


@dataclass(frozen=True, eq=False)
class HeldOutLevels:
    """Of columns of levels, k cells."""

    column: NDArray[np.intp]  # (k,)
    right: NDArray[np.bool_]
    sure: Array  # probability of the imputed level
    of_truth: Array  # probability of the true one
    right_by_mode: NDArray[np.bool_]  # whether the most frequent level is
    share_of_truth: Array  # in the column without what was held out

    def __len__(self) -> int:
        return len(self.right)

    @property
    def accuracy(self) -> float:
        return float(np.mean(self.right))

    @property
    def accuracy_of_mode(self) -> float:
        return float(np.mean(self.right_by_mode))

    @property
    def log_score(self) -> float:
        """Mean logarithm of the probability of the true level."""
        return float(np.mean(np.log(np.maximum(self.of_truth, LEAST))))

    @property
    def log_score_of_shares(self) -> float:
        return float(np.mean(np.log(self.share_of_truth)))

    @property
    def calibration_p(self) -> float:
        """Of the test that what is imputed with probability p is right in a share p of cells."""
        spread = float(np.sqrt(np.sum(self.sure * (1.0 - self.sure))))
        if spread == 0.0:
            return 1.0
        z = (float(np.sum(self.right)) - float(np.sum(self.sure))) / spread
        return float(2.0 * ndtr(-abs(z)))

    def of(self, j: int) -> HeldOutLevels:
        """One column."""
        at = self.column == j
        return HeldOutLevels(*(getattr(self, name)[at] for name in self.__dataclass_fields__))


@dataclass(frozen=True, eq=False)
class HeldOutKinds:
    """Held-out values and their predictions."""

    refitted: bool
    rows: int  # of the table from which values were held out
    numbers: HeldOutNumbers
    levels: HeldOutLevels

    @property
    def n_hidden(self) -> int:
        return len(self.numbers) + len(self.levels)


def held_out_kinds(subject: Subject, look: Look, seed: int) -> HeldOutKinds | str:
    """How held-out values are predicted; or, in a sentence, why that is not known."""
    return assessed(_held_out, subject, look, seed)


def _held_out(subject: Subject, look: Look, seed: int) -> HeldOutKinds | None:
    if look.n_columns < 2:
        return None
    X = look.X[: max(MOST_CELLS // look.n_columns, 50)]
    masks = rounds(~np.isnan(X), seed)
    if sum(int(mask.sum()) for mask in masks) < FEWEST:
        return None
    numbers: list[tuple[Any, ...]] = []
    levels: list[tuple[Any, ...]] = []
    with silence():
        for mask in masks:
            left = np.where(mask, np.nan, X)
            if np.isnan(left).all(axis=0).any():
                return None
            model = subject.refitted(left, seed)
            for is_level, part in _judged(model, X, left, mask):
                (levels if is_level else numbers).append(part)
    of_numbers, of_levels = (
        [np.concatenate(each) for each in zip(*parts, strict=True)] if parts else None
        for parts in (numbers, levels)
    )
    none: Array = np.empty(0)
    no, false = none.astype(np.intp), none.astype(bool)
    return HeldOutKinds(
        refitted=True,
        rows=len(X),
        numbers=HeldOutNumbers(*(of_numbers or (no, none, none, none, none, none, false))),
        levels=HeldOutLevels(*(of_levels or (no, false, none, none, false, none))),
    )


def _judged(
    model: Any, X: Array, left: Array, mask: NDArray[np.bool_]
) -> Iterator[tuple[bool, tuple[Any, ...]]]:
    """Of every column whether it has levels, and what is said of its held-out values."""
    imputed = np.asarray(model.impute(left), dtype=np.float64)
    low, high = (np.asarray(end, dtype=np.float64) for end in model.intervals(left, level=LEVEL))
    known, shares = model.levels_, model.level_probabilities(left)
    for j in range(X.shape[1]):
        at = mask[:, j]
        truth, rest = X[at, j], left[~np.isnan(left[:, j]), j]
        column = np.full(len(truth), j)
        if j in known:
            own = np.asarray(known[j], dtype=np.float64)
            share = shares[j][at]
            of_truth = np.sum(share * (own == truth[:, None]), axis=1)
            counts = np.sum(rest == own[:, None], axis=1)
            apart = truth[:, None] == own
            frequency = (apart @ counts + HALF) / (len(rest) + HALF * len(own))
            mode = own[np.argmax(counts)]
            # Of ordered levels the median is imputed, which need not be the most probable one.
            sure = np.sum(share * (own == imputed[at, j][:, None]), axis=1)
            yield True, (column, imputed[at, j] == truth, sure, of_truth, truth == mode, frequency)
        else:
            fitted = model.table_.columns.kinds[j]
            is_exact = isinstance(fitted, ContinuousColumn) and fitted.step == 0.0
            median = np.full(len(truth), np.median(rest))
            ends = (low[at, j], high[at, j])
            yield (
                False,
                (column, truth, imputed[at, j], *ends, median, np.full(len(truth), is_exact)),
            )
