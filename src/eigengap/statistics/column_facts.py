"""What one pass finds of the columns of a table: small, mergeable, and exact.

Numbers and codes of levels alike: how many are observed, the least and the largest with their
weights, and the different values with theirs, up to MOST_VALUES of them. So kinds of columns, atoms
and thresholds do not depend on how the table is cut, nor on where it lies. Sums of whole weights
are exact, others are rounded in their last digits.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf

import numpy as np

from eigengap.linalg import Array
from eigengap.sources.base import Block

# Different values of a column that are kept, with their weights: 160 kB for each column. Levels of
# an ordinal or nominal column are far fewer, and more of them make a column of numbers continuous.
MOST_VALUES = 10_000
STEP = 1 << 14  # cells that are looked at first: of a continuous column no more are
FEW = 3  # least values that are known of every column


@dataclass(frozen=True, eq=False)
class ColumnFacts:
    """Of the observed values of one column, in rows of positive weight."""

    n: int  # observed values
    total: float  # sum of their weights
    low: Array  # the least different values, FEW at most, ascending
    largest: float  # -inf where nothing is observed
    at_least: float  # weight of the cells with the least value
    at_largest: float
    fractional: int  # values that are not whole
    fractional_at_least: int  # of those that have the least value
    fractional_at_largest: int
    values: Array | None  # the different values, ascending; None where more than MOST_VALUES
    weights: Array | None  # of each of them

    @classmethod
    def of(cls, x: Array, w: Array | None = None) -> ColumnFacts:
        """Of values (n,), NaN where missing, in rows of these weights."""
        kept = ~np.isnan(x) if w is None else ~np.isnan(x) & (w > 0)
        if not kept.all():
            x, w = x[kept], None if w is None else w[kept]
        if not len(x):
            none = np.empty(0)
            return cls(0, 0.0, none, -inf, 0.0, 0.0, 0, 0, 0, none, none)
        values, weights = _different(x, w)
        largest = float(np.max(x))
        low = _least_values(x) if values is None else values[:FEW]
        at_least, n_least = _at(x, w, float(low[0]))
        at_largest, n_largest = _at(x, w, largest)
        is_whole = [float(end).is_integer() for end in (low[0], largest)]
        return cls(
            n=len(x),
            total=float(len(x)) if w is None else float(np.sum(w)),
            low=np.array(low),
            largest=largest,
            at_least=at_least,
            at_largest=at_largest,
            fractional=int(np.count_nonzero(x != np.round(x))),
            fractional_at_least=0 if is_whole[0] else n_least,
            fractional_at_largest=0 if is_whole[1] else n_largest,
            values=values,
            weights=weights,
        )

    @property
    def least(self) -> float:
        return float(self.low[0]) if len(self.low) else inf

    @property
    def share_at_least(self) -> float:
        return self.at_least / self.total

    @property
    def share_at_largest(self) -> float:
        return self.at_largest / self.total

    def in_units(self, unit: float) -> ColumnFacts:
        """With weights as multiples of a unit."""
        return replace(
            self,
            total=self.total / unit,
            at_least=self.at_least / unit,
            at_largest=self.at_largest / unit,
            weights=None if self.weights is None else self.weights / unit,
        )

    def merge(self, other: ColumnFacts) -> ColumnFacts:
        if not (self.n and other.n):
            return self if self.n else other
        at_least = fractional_at_least = at_largest = fractional_at_largest = 0.0
        low = np.unique(np.concatenate([self.low, other.low]))[:FEW]
        largest = max(self.largest, other.largest)
        for one in (self, other):
            if one.least == low[0]:
                at_least += one.at_least
                fractional_at_least += one.fractional_at_least
            if one.largest == largest:
                at_largest += one.at_largest
                fractional_at_largest += one.fractional_at_largest
        values, weights = _merged(self, other)
        return ColumnFacts(
            n=self.n + other.n,
            total=self.total + other.total,
            low=low,
            largest=largest,
            at_least=at_least,
            at_largest=at_largest,
            fractional=self.fractional + other.fractional,
            fractional_at_least=int(fractional_at_least),
            fractional_at_largest=int(fractional_at_largest),
            values=values,
            weights=weights,
        )


@dataclass(frozen=True, eq=False)
class TableFacts:
    """Of all columns of a table of numbers and codes."""

    columns: tuple[ColumnFacts, ...]

    @classmethod
    def of(cls, block: Block) -> TableFacts:
        values: Array = np.asarray(block.values, dtype=np.float64)
        return cls(tuple(ColumnFacts.of(x, block.weight) for x in values.T))

    def merge(self, other: TableFacts) -> TableFacts:
        both = zip(self.columns, other.columns, strict=True)
        return TableFacts(tuple(one.merge(two) for one, two in both))


def _at(x: Array, w: Array | None, value: float) -> tuple[float, int]:
    """Weight and number of the cells that hold a value."""
    at = x == value
    n = int(np.count_nonzero(at))
    return (float(n) if w is None else float(np.sum(w[at]))), n


def _least_values(x: Array) -> Array:
    """The FEW least different values."""
    found: list[float] = []
    while len(found) < FEW and len(x):
        found.append(float(np.min(x)))
        x = x[x > found[-1]]
    return np.array(found)


def _different(x: Array, w: Array | None) -> tuple[Array | None, Array | None]:
    """The different values, ascending, and the weight of each; None where there are too many."""
    if len(x) > STEP and len(np.unique(x[:STEP])) > MOST_VALUES:
        return None, None
    values, counts = np.unique(x, return_counts=True)
    if len(values) > MOST_VALUES:
        return None, None
    if w is None:
        return values + 0.0, counts.astype(np.float64)  # no -0.0
    return values + 0.0, np.bincount(np.searchsorted(values, x), w, len(values)).astype(np.float64)


def _merged(one: ColumnFacts, two: ColumnFacts) -> tuple[Array | None, Array | None]:
    if one.values is None or two.values is None or one.weights is None or two.weights is None:
        return None, None
    values = np.union1d(one.values, two.values)
    if len(values) > MOST_VALUES:
        return None, None
    weights = np.zeros(len(values))
    for each, own in ((one.values, one.weights), (two.values, two.weights)):
        weights[np.searchsorted(values, each)] += own
    return values, weights
