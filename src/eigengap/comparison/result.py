"""What `compare` returns: figures of every model, and differences paired by row.

Rows are the independent unit: cells of one row are not. Each row i brings a sum a_i over c_i items
(its log-likelihood, c_i = 1; its squared errors over c_i held-out cells) and counts w_i times. The
mean is the ratio sum w a / sum w c, and what row i contributes to it is (a_i - mean c_i) / sum w c,
so that standard errors of means, and of differences of functions of two means, follow from sums of
squares of contributions (Cochran 1977, section 6.4, without the finite-population factor).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import nan, sqrt
from typing import Any

import numpy as np

from eigengap.linalg import Array
from eigengap.sources import new_frame

FIGURES = (
    "log_likelihood", "log_likelihood_difference", "log_likelihood_se",
    "rmse", "rmse_difference", "rmse_se", "coverage",
    "log_score", "log_score_difference", "log_score_se", "fit_seconds",
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class RowMean:
    """A mean over rows and what each row contributes to its error; NaN where there is none."""

    value: float
    influence: Array  # (n,) per copy of the row; its weighted sum is 0
    weight: Array  # (n,) 0 for a row without items

    @classmethod
    def of(cls, sums: Array, counts: Array, weight: Array) -> RowMean:
        weight = np.where(counts > 0, weight, 0.0)
        total = float(weight @ counts) or nan
        value = float(weight @ sums) / total
        return cls(value, (sums - value * counts) / total, weight)

    def root(self) -> RowMean:
        """The mean's square root, by the delta method."""
        value = sqrt(self.value)
        return RowMean(value, self.influence / (2 * value or 1.0), self.weight)

    def minus(self, other: RowMean) -> RowMean:
        return RowMean(self.value - other.value, self.influence - other.influence, self.weight)

    @property
    def se(self) -> float:
        n = float(np.sum(self.weight))
        if n <= 1.0:
            return nan
        return sqrt(float(self.weight @ self.influence**2) * n / (n - 1.0))


@dataclass(eq=False)
class Measured:
    """One model's figures by row: sums over the folds that tested the row."""

    name: str
    log_likelihood: Array  # (n,) sum over tests; NaN throughout where there is no density
    squared_error: Array  # (n,) sum over held-out cells, in units of their columns' variance
    inside: Array  # (n,) held-out cells within their 95 % interval; NaN without intervals
    log_score: Array  # (n,) sum over held-out cells, levels too; NaN without distributions
    tests: Array  # (n,) how often the row was tested
    cells: Array  # (n,) held-out cells it had in all its tests, of columns of numbers
    scored: Array  # (n,) and of columns of every kind
    fold_log_likelihood: list[float] = field(default_factory=list)
    fit_seconds: list[float] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)
    levels: set[str] = field(default_factory=set)  # columns of levels or counts for this model
    used: set[str] = field(default_factory=set)  # columns of several kinds that it describes
    notes: list[str] = field(default_factory=list)  # on how figures compare

    @classmethod
    def empty(cls, name: str, n: int) -> Measured:
        return cls(name, *np.zeros((7, n)))

    def no_density(self, reason: str) -> None:
        self.log_likelihood[:] = nan
        self.reasons.append(reason)

    def no_imputation(self, reason: str) -> None:
        self.squared_error[:] = self.inside[:] = self.log_score[:] = nan
        self.reasons.append(reason)

    def not_at_all(self, reason: str) -> None:
        self.log_likelihood[:] = self.squared_error[:] = nan
        self.inside[:] = self.log_score[:] = nan
        self.reasons = [reason]


@dataclass(frozen=True, eq=False)
class Comparison:
    """Models side by side on held-out rows and cells.

    Attributes
    ----------
    names : tuple of str
    log_likelihood : array (m,)
        Mean held-out log-likelihood per row; NaN where a model is no density.
    log_likelihood_difference, log_likelihood_se : arrays (m,)
        From the best, and its standard error, paired over rows.
    rmse : array (m,)
        Root mean squared error of held-out cells, in standard deviations of their columns: imputing
        the column mean gives about 1. Of columns of numbers.
    rmse_difference, rmse_se : arrays (m,)
        From the best, and its standard error, paired over rows.
    coverage : array (m,)
        Share of held-out cells of columns of numbers in their 95 % interval.
    log_score : array (m,)
        Mean logarithm of the density of held-out values, and of the probability of held-out levels;
        NaN where a model predicts no distribution.
    log_score_difference, log_score_se : arrays (m,)
        From the best, and its standard error, paired over rows.
    fit_seconds : array (m,), mean over the folds
    fold_log_likelihood : array (folds, m)
    reasons : dict of name -> why a figure is missing
    notes : dict of name -> what to mind where its figures are compared with others'
    best : name of the model of largest log-likelihood; of least rmse where none is a density
    """

    measured: tuple[Measured, ...]
    weight: Array  # (n,)
    n_folds: int
    names: tuple[str, ...]
    log_likelihood: Array
    log_likelihood_difference: Array
    log_likelihood_se: Array
    rmse: Array
    rmse_difference: Array
    rmse_se: Array
    log_score: Array
    log_score_difference: Array
    log_score_se: Array
    coverage: Array
    fit_seconds: Array
    fold_log_likelihood: Array
    reasons: dict[str, str]
    notes: dict[str, str]
    constant_columns: str

    @classmethod
    def of(
        cls, measured: Sequence[Measured], weight: Array, n_folds: int, constant_columns: str
    ) -> Comparison:
        scores = [RowMean.of(one.log_likelihood, one.tests, weight) for one in measured]
        errors = [RowMean.of(one.squared_error, one.cells, weight).root() for one in measured]
        cells = [RowMean.of(one.log_score, one.scored, weight) for one in measured]
        inside = [RowMean.of(one.inside, one.cells, weight).value for one in measured]
        folds = [one.fold_log_likelihood for one in measured]
        return cls(
            tuple(measured),
            weight,
            n_folds,
            tuple(one.name for one in measured),
            *_from_best(scores, np.nanargmax),
            *_from_best(errors, np.nanargmin),
            *_from_best(cells, np.nanargmax),
            coverage=np.array(inside),
            fit_seconds=np.array([np.mean(one.fit_seconds or [nan]) for one in measured]),
            fold_log_likelihood=np.array(
                [found if len(found) == n_folds else [nan] * n_folds for found in folds]
            ).T,
            reasons={one.name: "; ".join(one.reasons) for one in measured if one.reasons},
            notes={one.name: "; ".join(one.notes) for one in measured if one.notes},
            constant_columns=constant_columns,
        )

    @property
    def best(self) -> str:
        for values, pick in ((self.log_likelihood, np.nanargmax), (self.rmse, np.nanargmin)):
            if not np.all(np.isnan(values)):
                return self.names[int(pick(values))]
        raise ValueError("no model could be measured: " + _listed(self.reasons))

    @property
    def summary(self) -> str:
        """The comparison in words."""
        parts = [
            self._in_words("Held-out log-likelihood per row", "log_likelihood"),
            self._in_words("Error of held-out cells (rmse in standard deviations)", "rmse"),
            self._in_words("Log score of a held-out cell", "log_score"),
        ]
        if self.notes:
            parts.append("Note: " + _listed(self.notes))
        if self.reasons:
            parts.append("Not measured: " + _listed(self.reasons))
        rows = max(int(np.sum(one.tests > 0)) for one in self.measured)
        cells = max(int(max(np.sum(one.cells), np.sum(one.scored))) for one in self.measured)
        parts.append(
            f"Over {self.n_folds} folds, {rows} test rows and {cells} held-out values; standard "
            "errors are paired over rows and do not hold the variability of the training rows"
        )
        return ". ".join(part for part in parts if part) + "." + self.constant_columns

    def _in_words(self, what: str, figure: str) -> str:
        values = getattr(self, figure)
        apart, se = getattr(self, f"{figure}_difference"), getattr(self, f"{figure}_se")
        if np.all(np.isnan(values)):
            return ""
        best = int(np.flatnonzero(apart == 0.0)[0])
        others = [
            f"{self.names[k]} is worse by {abs(apart[k]):.3g} (se {se[k]:.2g})"
            for k in np.argsort(np.abs(apart))
            if k != best and not np.isnan(values[k])
        ]
        return "; ".join([f"{what}: {self.names[best]} is best ({values[best]:.4g})", *others])

    def to_frame(self) -> Any:
        """One line a model, as a pandas (or polars) frame."""
        return new_frame(self._columns())

    def __repr__(self) -> str:
        columns = [
            ("model", self.names),
            ("log-lik/row", _shown(self.log_likelihood, "{:.4g}".format)),
            ("from best", _with_error(self.log_likelihood_difference, self.log_likelihood_se)),
            ("rmse", _shown(self.rmse, "{:.4g}".format)),
            ("from best", _with_error(self.rmse_difference, self.rmse_se)),
            ("coverage", _shown(100 * self.coverage, "{:.1f} %".format)),
            ("log score/cell", _shown(self.log_score, "{:.4g}".format)),
            ("from best", _with_error(self.log_score_difference, self.log_score_se)),
            ("fit", _shown(self.fit_seconds, _duration)),
            ("note", self._remarks()),
        ]
        widths = [max(map(len, [head, *cells])) for head, cells in columns]
        heads, rules = [head for head, _ in columns], ["-" * width for width in widths]
        lines = [heads, rules, *zip(*(cells for _, cells in columns), strict=True)]
        return "\n".join(
            "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
            for line in lines
        )

    def _remarks(self) -> list[str]:
        both = [(self.reasons.get(name), self.notes.get(name)) for name in self.names]
        return ["; ".join(filter(None, each)) for each in both]

    def _columns(self) -> dict[str, Any]:
        notes = self._remarks()
        figures = {name: getattr(self, name) for name in FIGURES}
        return {"model": list(self.names), **figures, "note": notes}


def _from_best(means: Sequence[RowMean], pick: Any) -> tuple[Array, Array, Array]:
    """Means (m,), each less the best one, and its standard error: 0, 0 for the best itself."""
    values = np.array([mean.value for mean in means])
    if np.all(np.isnan(values)):
        return values, values, values
    apart = [mean.minus(means[int(pick(values))]) for mean in means]
    return values, np.array([one.value for one in apart]), np.array([one.se for one in apart])


def _listed(reasons: Mapping[str, str]) -> str:
    return "; ".join(f"{name}: {reason}" for name, reason in reasons.items())


def _shown(values: Iterable[float], show: Callable[[float], str]) -> list[str]:
    return ["—" if np.isnan(value) else show(value) for value in values]


def _with_error(values: Array, se: Array) -> list[str]:
    return [
        "—" if np.isnan(value) else "best" if value == 0.0 else f"{value:+.3g} ± {error:.2g}"
        for value, error in zip(values, se, strict=True)
    ]


def _duration(seconds: float) -> str:
    return f"{1e3 * seconds:.3g} ms" if seconds < 1 else f"{seconds:.3g} s"
