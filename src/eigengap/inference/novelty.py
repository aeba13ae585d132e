"""How improbable a row is: the reference distributions of its statistics, and its explanation.

The statistics D2 = T2 + SPE themselves are in `models.gaussian.novelty`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from math import isnan, nan
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

from eigengap.linalg import Array
from eigengap.models.gaussian import novelty
from eigengap.models.gaussian.linear_gaussian import LinearGaussian
from eigengap.models.gaussian.novelty import Distances
from eigengap.models.gaussian.reference import Reference
from eigengap.sources import Source, show
from eigengap.statistics.expected.fitted import NoiseRatio

TINY = 1e-300  # probability below which surprises do not differ


@dataclass(frozen=True, eq=False)
class Statistic:
    """One statistic of every row, with its reference distribution."""

    value: Array  # (n,)
    dof: NDArray[np.intp] | Array  # (n,) degrees of freedom; 0 where it cannot be computed
    log_p: Array  # (n,) natural logarithm of the p-value: it does not underflow

    @property
    def p_value(self) -> Array:
        """(n,) probability of a larger value in a new row that follows the model."""
        return np.exp(self.log_p)


@dataclass(frozen=True, eq=False)
class NoveltyStatistics:
    """D2 = T2 + SPE of every row: how far, along the components, and away from them."""

    D2: Statistic  # squared Mahalanobis distance
    T2: Statistic  # Hotelling's statistic of the latent variables
    SPE: Statistic  # squared prediction error, in units of the noise

    @classmethod
    def of(cls, found: Distances, law: Reference) -> NoveltyStatistics:
        return cls(
            D2=Statistic(found.D2, found.observed, law.log_p_D2(found.D2, found.observed)),
            T2=Statistic(found.T2, found.rank, law.log_p_T2(found)),
            SPE=Statistic(found.SPE, found.observed - found.rank, law.log_p_SPE(found)),
        )


@dataclass(frozen=True)
class OddCell:
    """A value that deviates from what the rest of its row leads one to expect."""

    column: str
    value: Any  # a number, or a level
    expected: Any
    std: float = nan  # of what is expected; NaN where another kind of column has none
    kind: str = "continuous"
    p: float = nan  # how improbable the value is, given the rest of the row

    @property
    def deviation(self) -> float:
        """value - expected, in standard deviations."""
        return float((self.value - self.expected) / self.std)

    def __str__(self) -> str:
        if isnan(self.std):
            value, expected = (
                f"{cell:.4g}" if isinstance(cell, float) else show(cell)
                for cell in (self.value, self.expected)
            )
            return f"{self.column} = {value}, expected {expected} (p = {self.p:.2g})"
        side = "above" if self.deviation > 0 else "below"
        return (
            f"{self.column} = {self.value:.4g}, expected {self.expected:.4g} ± {self.std:.2g} "
            f"({abs(self.deviation):.1f} sd {side})"
        )


@dataclass(frozen=True, eq=False)
class Surprises:
    """How improbable each observed value is given the other observed values of its row.

    Attributes
    ----------
    p : table of X's columns
        For numbers, counts and ordered levels the two-sided tail probability of the value, small
        for values far from what is expected; for two levels, and levels without an order, the
        probability of the level. NaN for a missing value and in columns that are ignored.
    expected : table of X's type
        What would be imputed had the value been missing; a missing value is imputed.
    kinds : mapping of columns to kinds
    """

    p: Any
    expected: Any
    kinds: Mapping[Any, str]
    # Of the columns that are used, d of them:
    _names: tuple[Any, ...] = field(repr=False)
    _p: Array = field(repr=False)  # (n, d)
    _values: Array = field(repr=False)  # (n, d) numbers, and codes of levels
    _expected: Array = field(repr=False)
    _table: Any = field(repr=False)  # the CodedTable that knows the levels; None for numbers

    @property
    def surprise(self) -> Array:
        """-ln p of each value, (n, d) of the columns that are used: 0 for what had to be so."""
        return np.asarray(-np.log(np.maximum(self._p, TINY)))

    def worst(self, k: int = 3) -> list[tuple[OddCell, ...]]:
        """Of each row the k values of least p, the least first."""
        order = np.argsort(self._p, axis=1, kind="stable")[:, :k]  # NaN comes last
        return [
            tuple(self._cell(i, j) for j in some if not isnan(self._p[i, j]))
            for i, some in enumerate(order.tolist())
        ]

    def _cell(self, i: int, j: int) -> OddCell:
        both = float(self._values[i, j]), float(self._expected[i, j])
        value, expected = both if self._table is None else (self._table.cell(j, x) for x in both)
        name, p = self._names[j], float(self._p[i, j])
        return OddCell(str(name), value, expected, kind=self.kinds[name], p=p)


@dataclass(frozen=True)
class Explanation:
    """Why a row is an outlier: its worst values, each found after those before it were removed."""

    row: int  # position in the table
    label: Any  # of the frame's index; the position where there is none
    p_value: float
    cells: tuple[OddCell, ...]
    p_value_without: float  # of what is left of the row

    def __str__(self) -> str:
        same = isinstance(self.label, Integral) and self.label == self.row
        named = str(self.row) if same else f"{self.row} ({show(self.label)})"
        if not self.cells:
            return f"row {named}: no value was observed"
        worst = "; ".join(str(cell) for cell in self.cells)
        many = "them" if len(self.cells) > 1 else "it"
        return (
            f"row {named}: p = {self.p_value:.2g}; {worst}; "
            f"without {many} p = {self.p_value_without:.2g}"
        )


def log_p(X: Array, model: LinearGaussian, law: Reference) -> Array:
    """ln p of D2 of every row: (n,)."""
    D2, observed = distances_of(X, model).T
    return law.log_p_D2(D2, observed.astype(np.intp))


def parts_of(X: Array, model: LinearGaussian) -> Array:
    """(n, 4) what `statistics_of` makes the statistics of."""
    found = novelty.distances(model, X)
    return np.column_stack([found.T2, found.SPE, found.observed, found.rank])


def statistics_of(parts: Array, law: Reference) -> NoveltyStatistics:
    T2, SPE, observed, rank = parts.T
    return NoveltyStatistics.of(
        Distances(T2, SPE, observed.astype(np.intp), rank.astype(np.intp)), law
    )


def reference_of(model: LinearGaussian, source: Source) -> Reference:
    """The reference distributions, from the rows of the fit."""
    ratio = source.reduce(partial(NoiseRatio.of, model))
    return Reference.of(model, source.observed().sum_w, ratio.observed_w, ratio.mean)


def explain(
    X: Array, k: int, names: list[str], labels: list[Any], model: LinearGaussian, law: Reference
) -> list[Explanation]:
    """The k values of each row that make it improbable.

    Of each row the value is removed that deviates most from what the others lead one to expect
    (which lowers D2 most), then the same of what is left.
    """
    values = np.array(X, dtype=np.float64)
    before = np.exp(log_p(values, model, law))
    found: list[list[OddCell]] = [[] for _ in values]
    for _ in range(min(k, values.shape[1])):
        mean, sd = novelty.given_the_others(model, values)
        deviation = np.where(np.isnan(values), -1.0, np.abs(values - mean) / sd)
        worst = np.argmax(deviation, axis=1)
        for i in np.flatnonzero(deviation.max(axis=1) >= 0.0):
            j = worst[i]
            value, expected, std = (float(table[i, j]) for table in (values, mean, sd))
            found[i].append(OddCell(names[j], value, expected, std))
            values[i, j] = np.nan
    after = np.exp(log_p(values, model, law))
    return [
        Explanation(i, labels[i], float(before[i]), tuple(cells), float(after[i]))
        for i, cells in enumerate(found)
    ]


def distances_of(X: Array, model: LinearGaussian) -> Array:
    """(n, 2) D2 and the number of observed values of every row."""
    observed = np.count_nonzero(~np.isnan(X), axis=1)
    return np.column_stack([novelty.squared_distance(model, X), observed])


def scaled_to_median(
    model: LinearGaussian, distances: Array, weight: Array | None
) -> LinearGaussian:
    """The Gaussian that the bulk of heavy-tailed rows follows.

    Under heavy tails no row is improbable. The scatter `model` is the covariance of the bulk up to
    a factor, which the median of D2 gives (as for the minimum covariance determinant: Rousseeuw and
    Van Driessen 1999). `distances` are those of `distances_of`.
    """
    some = distances[:, 1] > 0
    D2, p = distances[some].T
    w = None if weight is None else weight[some]
    factor = weighted_quantile(D2 / special.chdtri(p, 0.5), w, 0.5)  # over chi-squared's median
    return replace(model, W=model.W * np.sqrt(factor), psi=model.psi * factor)


def weighted_quantile(values: Array, weight: Array | None, share: float) -> float:
    """As np.quantile of the values, each repeated by its weight.

    Weights that are parts of rows are counted in the smallest of them.
    """
    order = np.argsort(values, kind="stable")
    ordered = values[order]
    ends = np.cumsum(np.ones(len(values)) if weight is None else weight[order])
    if weight is not None:
        least = float(np.min(weight[weight > 0.0]))
        ends = ends / max(min(least, 1.0), ends[-1] * np.finfo(np.float64).eps)
    position = share * (ends[-1] - 1.0)
    below, above = np.floor(position), np.ceil(position)
    low, high = (
        ordered[min(int(np.searchsorted(ends, at + 0.5)), len(ordered) - 1)]
        for at in (below, above)
    )
    return float(low + (position - below) * (high - low))
