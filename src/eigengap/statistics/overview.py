"""What every column of a table holds, as a value that merges: one pass over any source.

Moments to the third merge by Pebay (2008), "Formulas for robust, one-pass parallel computation of
covariances and arbitrary-order statistical moments". Different values are counted by the k least
hashes of a value (Beyer, Haas, Reinwald, Sismanis and Gemulla 2007): a value that is kept was kept
from its first occurrence, so that its count is exact, and so is the number of values up to k.
Columns are equal where the sums of their cells' hashes are, which hold the row.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from eigengap.linalg import Array
from eigengap.runtime.hashing import GOLDEN, mixed, row_hashes
from eigengap.sources.base import Block
from eigengap.statistics.additive import Additive

MOST_VALUES = 2048  # different values of a column that are counted exactly
MOST_ROWS = 1 << 20  # different rows that are
Hashes = NDArray[np.uint64]


@dataclass(frozen=True, eq=False)
class Distinct:
    """The values of least hash, how often each occurs, and how many different ones there are."""

    k: int
    hashes: Hashes  # (m,) m <= k, ascending
    values: Array  # (m,)
    counts: NDArray[np.int64]  # (m,)

    @classmethod
    def of(cls, hashes: Hashes, values: Array, k: int) -> Distinct:
        found, first, counts = np.unique(hashes, return_index=True, return_counts=True)
        return cls(k, found[:k], values[first[:k]], counts[:k].astype(np.int64))

    def merge(self, other: Distinct) -> Distinct:
        hashes = np.concatenate([self.hashes, other.hashes])
        values = np.concatenate([self.values, other.values])
        found, first, at = np.unique(hashes, return_index=True, return_inverse=True)
        counts = np.zeros(len(found), dtype=np.int64)
        np.add.at(counts, at, np.concatenate([self.counts, other.counts]))
        k = self.k
        return Distinct(k, found[:k], values[first[:k]], counts[:k])

    @property
    def is_exact(self) -> bool:
        return len(self.hashes) < self.k

    @property
    def different(self) -> int:
        """How many; estimated, to about k^-1/2, where there are k or more."""
        if self.is_exact:
            return len(self.hashes)
        return round((self.k - 1) / ((float(self.hashes[-1]) + 1.0) * 2.0**-64))

    @property
    def repeated(self) -> float:
        """Share of the cells that repeat the value of an earlier one."""
        return 1.0 - len(self.counts) / max(int(self.counts.sum()), 1)


@dataclass(frozen=True, eq=False)
class ThirdMoments:
    """Mean and central sums of squares and cubes of the observed values of each column."""

    n: NDArray[np.int64]  # (d,)
    mean: Array  # (d,) 0 where nothing is observed
    m2: Array
    m3: Array

    @classmethod
    def of(cls, values: Array) -> Self:
        observed = ~np.isnan(values)
        n = np.count_nonzero(observed, axis=0).astype(np.int64)
        kept = np.where(observed, values, 0.0)
        least = np.where(
            n > 0, np.min(np.where(observed, values, np.inf), axis=0, initial=np.inf), 0
        )
        kept = np.where(observed, kept - least, 0.0)  # exactly 0 in a constant column
        with np.errstate(over="ignore", invalid="ignore"):
            mean = kept.sum(axis=0) / np.maximum(n, 1)
            R = np.where(observed, kept - mean, 0.0)
            m2 = np.sum(R**2, axis=0)
            m3 = np.sum(R**3, axis=0)
        return cls(n, least + mean, m2, m3)

    def merge(self, other: Self, /) -> Self:
        a, b = self.n.astype(np.float64), other.n.astype(np.float64)
        n = np.maximum(a + b, 1.0)
        with np.errstate(over="ignore", invalid="ignore"):
            delta = np.where((a > 0) & (b > 0), other.mean - self.mean, 0.0)
            mean = np.where(a > 0, self.mean + delta * b / n, other.mean)
            m2 = self.m2 + other.m2 + delta**2 * a * b / n
            m3 = self.m3 + other.m3 + delta**3 * a * b * (a - b) / n**2
            m3 = m3 + 3.0 * delta * (a * other.m2 - b * self.m2) / n
        return type(self)(self.n + other.n, mean, m2, m3)

    @property
    def sd(self) -> Array:
        """(d,) at divisor n - 1; NaN of fewer than two values."""
        few = self.n < 2
        return np.where(few, np.nan, np.sqrt(self.m2 / np.maximum(self.n - 1, 1)))

    @property
    def skewness(self) -> Array:
        """(d,) third central moment over the cube of the standard deviation, at divisor n."""
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            variance = self.m2 / self.n
            return np.where(self.m2 > 0, self.m3 / self.n / variance**1.5, np.nan)


@dataclass(frozen=True, eq=False)
class Extremes:
    """Least and largest observed value of each column, and how often each occurs."""

    least: Array  # (d,) NaN where nothing is observed
    at_least: NDArray[np.int64]
    largest: Array
    at_largest: NDArray[np.int64]

    @classmethod
    def of(cls, values: Array) -> Self:
        d = values.shape[1]
        least = np.fmin.reduce(values, axis=0, initial=np.nan) if d else np.empty(0)
        largest = np.fmax.reduce(values, axis=0, initial=np.nan) if d else np.empty(0)
        return cls(
            least,
            np.count_nonzero(values == least, axis=0).astype(np.int64),
            largest,
            np.count_nonzero(values == largest, axis=0).astype(np.int64),
        )

    def merge(self, other: Self, /) -> Self:
        least, largest = np.fmin(self.least, other.least), np.fmax(self.largest, other.largest)
        low = [np.where(each.least == least, each.at_least, 0) for each in (self, other)]
        high = [np.where(each.largest == largest, each.at_largest, 0) for each in (self, other)]
        return type(self)(least, low[0] + low[1], largest, high[0] + high[1])


@dataclass(frozen=True, eq=False)
class TableFacts(Additive):
    """Of all rows of a table of coded values; a row's weight plays no part."""

    rows: int
    incomplete_rows: int
    empty_rows: int
    moments: ThirdMoments
    extremes: Extremes
    values: tuple[Distinct, ...]  # (d,)
    prints: Hashes  # (d,) equal where columns are
    row_prints: Distinct

    @classmethod
    def of(cls, block: Block) -> TableFacts:
        raw = block.values if isinstance(block.values, np.ndarray) else block.values.toarray()
        X = np.asarray(raw, dtype=np.float64) + 0.0  # -0.0 is 0.0
        missing = np.isnan(X)
        hashes = _hashes(X)  # (c, d)
        rows = row_hashes(block.start, len(X), 0)
        with np.errstate(over="ignore"):
            prints = mixed(hashes ^ rows[:, None]).sum(axis=0, dtype=np.uint64)
            places = mixed(np.arange(1, X.shape[1] + 1, dtype=np.uint64) * GOLDEN)
            of_row = mixed(hashes + places).sum(axis=1, dtype=np.uint64)
        per_row = np.count_nonzero(missing, axis=1)
        return cls(
            len(X),
            int(np.count_nonzero(per_row)),
            int(np.count_nonzero(per_row == X.shape[1])),
            ThirdMoments.of(X),
            Extremes.of(X),
            tuple(
                Distinct.of(hashes[~gone, j], X[~gone, j], MOST_VALUES)
                for j, gone in enumerate(missing.T)
            ),
            prints,
            Distinct.of(mixed(of_row), np.zeros(len(X)), MOST_ROWS),
        )

    @property
    def duplicate_rows(self) -> int:
        """Rows that repeat an earlier one, missing values included; about, of very many rows."""
        return round(self.rows * self.row_prints.repeated)


def _hashes(X: Array) -> Hashes:
    """64 random bits of every value; all missing values have the same."""
    bits = np.where(np.isnan(X), np.nan, X).view(np.uint64)
    with np.errstate(over="ignore"):
        return mixed(mixed(bits + GOLDEN))
