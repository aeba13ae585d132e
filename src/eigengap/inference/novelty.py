"""How improbable a row is: the reference distributions of its statistics, and its explanation.

The statistics D2 = T2 + SPE themselves are in `models.gaussian.novelty`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
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


@dataclass(frozen=True, eq=False)
class Statistic:
    """One statistic of every row, with its reference distribution."""

    value: Array  # (n,)
    dof: NDArray[np.intp]  # (n,) degrees of freedom; 0 where it cannot be computed
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
    value: float
    expected: float
    std: float

    @property
    def deviation(self) -> float:
        """value - expected, in standard deviations."""
        return (self.value - self.expected) / self.std

    def __str__(self) -> str:
        side = "above" if self.deviation > 0 else "below"
        return (
            f"{self.column} = {self.value:.4g}, expected {self.expected:.4g} ± {self.std:.2g} "
            f"({abs(self.deviation):.1f} sd {side})"
        )


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
            cell = (float(table[i, j]) for table in (values, mean, sd))
            found[i].append(OddCell(names[j], *cell))
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
    """As np.quantile of the values, each repeated by its weight."""
    order = np.argsort(values, kind="stable")
    ordered = values[order]
    ends = np.cumsum(np.ones(len(values)) if weight is None else weight[order])
    position = share * (ends[-1] - 1.0)
    below, above = np.floor(position), np.ceil(position)
    low, high = (
        ordered[min(int(np.searchsorted(ends, at, side="right")), len(ordered) - 1)]
        for at in (below, above)
    )
    return float(low + (position - below) * (high - low))
