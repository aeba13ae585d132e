"""What kinds of columns and their maps are learned from: exact facts, and some of the rows.

Facts (`statistics.column_facts`) hold for the whole table. Rows are all of them up to MOST_ROWS, or
a sample of so many that is the same one however the table is cut (`sources.base.Draw`), in the
order of the table. So a frame, a file and a collection of Dask give the same columns, bit for bit.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy.optimize import brentq

from eigengap.linalg import Array
from eigengap.sources.base import Block, Draw, Drawn, Source, dense_rows, least_keys
from eigengap.statistics.column_facts import ColumnFacts, TableFacts

# Rows of a sample. The share of the values below a quantile of the sample has a standard error of
# sqrt(p (1 - p) / k), 0.0011 at most: a fortieth of the distance of two knots of a map, of which
# there are 40 at most. Wide tables have fewer, 160 MB of cells, but not fewer than the last number,
# where it is 0.0035.
MOST_ROWS, MOST_CELLS, LEAST_ROWS = 200_000, 20_000_000, 20_000
SEED = 0
LARGEST_DENOMINATOR = 12  # of the ratios of weights that are frequencies
ALIKE = 1e-9  # relative difference of numbers that rounding alone makes different


@dataclass(frozen=True, eq=False)
class ColumnCells:
    """What a column is learned from."""

    facts: ColumnFacts  # of all of its values, weights as frequencies
    values: Array  # (m,) observed values, all or those of a sample
    frequency: Array | None = None  # (m,) how often each counts; None for once

    @classmethod
    def of(cls, values: Array, frequency: Array | None = None) -> ColumnCells:
        """All of the observed values of a column."""
        return cls(ColumnFacts.of(values, frequency), values, frequency)


@dataclass(frozen=True, eq=False)
class Survey:
    """Facts of all columns of a table, and rows of it."""

    n_rows: int  # of positive weight
    facts: tuple[ColumnFacts, ...]  # weights as frequencies
    rows: Array  # (m, d)
    frequency: Array | None  # (m,)
    is_whole: bool  # whether these are all rows

    @classmethod
    def of(cls, source: Source) -> Survey:
        """One pass, or two where the rows are few or their number is not known."""
        k = int(np.clip(MOST_CELLS // max(source.n_features, 1), LEAST_ROWS, MOST_ROWS))
        weight = source.weight
        if source.n_rows is not None and source.n_rows <= k:
            facts = source.reduce(TableFacts.of)
            rows, own = rows_and_weight(source)
            w = np.ones(len(rows)) if own is None else own
            return cls._of(len(rows), facts, np.asfortranarray(rows), w, weight)
        draw = Draw(k, SEED) if weight is not None else Draw.among(source.n_rows, k, SEED)
        found = source.reduce(partial(_Look.of, draw=draw))
        if len(found.drawn.rows) < min(k, found.n):  # too tight a bound, which is rare
            found = source.reduce(partial(_Look.of, draw=Draw(k, SEED)))
        rows = found.drawn.rows
        rows = rows[np.argsort(rows[:, -1], kind="stable")]
        return cls._of(found.n, found.facts, np.asfortranarray(rows[:, :-2]), rows[:, -2], weight)

    @classmethod
    def _of(
        cls, n: int, facts: TableFacts, values: Array, w: Array, weight: Array | None
    ) -> Survey:
        """Of rows in the order of the table, with their weights and those of all rows."""
        is_whole = len(values) == n
        unit, frequency = 1.0, None
        if weight is not None:
            unit = unit_of(w if is_whole else weight[weight > 0])
            frequency = w / unit if is_whole else _corrected(w, float(np.sum(weight)))
            if np.ptp(frequency) <= ALIKE * np.max(frequency):
                frequency = None
        columns = tuple(column.in_units(unit) for column in facts.columns)
        return cls(n, columns, values, frequency, is_whole)

    def cells(self, j: int) -> ColumnCells:
        """What column j is learned from: all values where they are known, else those drawn."""
        facts = self.facts[j]
        if not self.is_whole and facts.values is not None:
            return ColumnCells(facts, facts.values, facts.weights)
        x = self.rows[:, j]
        observed = ~np.isnan(x)
        f = self.frequency
        return ColumnCells(facts, x[observed], None if f is None else f[observed])


def unit_of(w: Array) -> float:
    """The weight that stands for one row, of positive weights (n,).

    Weights that are whole multiples of a common unit are frequencies, as if rows were repeated. All
    others count as many rows in all as equal weights of the same precision would (Kish 1965,
    "Survey sampling"). So do those whose unit is a small part of a row, for one weight of 0.001
    among ones would make a thousand rows of every other.
    """
    ratio = w / np.min(w)
    for denominator in range(1, LARGEST_DENOMINATOR + 1):
        multiple = ratio * denominator
        unit = float(np.min(w)) / denominator
        is_whole = np.abs(multiple - np.round(multiple)) <= ALIKE * multiple
        if unit * LARGEST_DENOMINATOR >= 1.0 - ALIKE and np.all(is_whole):
            return unit
    share = w / np.max(w)
    return float(np.max(w)) * float(np.sum(share**2) / np.sum(share))


def _corrected(w: Array, total: float) -> Array:
    """Frequencies of drawn rows that stand for all: w / P(drawn), scaled to effective rows.

    Rows whose key -ln(1 - u) / w is below a threshold t have P = 1 - exp(-w t) (Cohen and Kaplan
    2007, "Summarizing data using bottom-k sketches"); t is the one by which they stand for the
    total. Most rows count alike; more, one that is heavier than a drawn row should be.
    """
    ratio, total = w / np.max(w), total / float(np.max(w))

    def stands_for(log_t: float) -> Array:
        drawn = -np.expm1(-ratio * np.exp(log_t))
        return np.asarray(ratio / np.maximum(drawn, np.finfo(np.float64).tiny))

    t = brentq(lambda log_t: float(np.sum(stands_for(log_t))) - total, -100.0, 100.0)
    found = stands_for(t)
    return np.asarray(found * (np.sum(found) / np.sum(found**2)))


@dataclass(frozen=True, eq=False)
class _Look:
    """Facts, and the rows that are drawn, each with its weight and its number behind it."""

    n: int  # rows of positive weight
    facts: TableFacts
    drawn: Drawn

    @classmethod
    def of(cls, block: Block, draw: Draw) -> _Look:
        w = block.weight
        at, keys = least_keys(draw.k, draw.seed, block.start, block.n_rows, w, draw.below)
        ones = np.ones(len(at)) if w is None else w[at]
        rows = np.column_stack([dense_rows(block.values, at), ones, block.start + at])
        n = block.n_rows if w is None else int(np.count_nonzero(w > 0))
        return cls(n, TableFacts.of(block), Drawn(draw.k, keys, rows))

    def merge(self, other: _Look) -> _Look:
        facts, drawn = self.facts.merge(other.facts), self.drawn.merge(other.drawn)
        return _Look(self.n + other.n, facts, drawn)


def rows_and_weight(source: Source) -> tuple[Array, Array | None]:
    """All rows of a source (n, d), and their weights (n,)."""
    if source.weight is None:
        return source.map(_values), None
    both = source.map(_with_weight)
    return both[:, :-1], np.ascontiguousarray(both[:, -1])


def _values(block: Block) -> Array:
    return np.asarray(block.values, dtype=np.float64)


def _with_weight(block: Block) -> Array:
    w = np.ones(block.n_rows) if block.weight is None else block.weight
    return np.column_stack([block.values, w])
