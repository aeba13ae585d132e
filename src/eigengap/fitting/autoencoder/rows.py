"""Rows that a network is trained on, in its units, and rows that monitor its loss.

Units first, whatever those of the table: 1e-200 or 1e200. Sums of squares leave the range of
floating point long before the numbers themselves do. Where they do, columns are shifted and divided
by a power of two near their range first, which rounds nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eigengap.linalg import Array
from eigengap.models.network.autoencoder import Network
from eigengap.runtime.hashing import cell_uniforms
from eigengap.runtime.memory import free_memory
from eigengap.sources.base import Block, S, Source
from eigengap.sources.wording import column
from eigengap.statistics.moments import SMALLEST_VARIANCE, ColumnMoments, ColumnRange
from eigengap.wording import words

NARROWEST, WIDEST = 1e-290, 1e300  # ranges of columns whose numbers have all their digits
KEPT = 0.4  # share of free memory that standardised rows may take
MOST_MONITORED = 10_000  # rows that are looked at after every pass
FEWEST_HELD_OUT = 5  # rows; fewer are uninformative
FEWEST_TRAINED = 15  # rows that must remain
HIDDEN_SHARE = (0.1, 0.5)  # least and most of the cells that are hidden to measure the noise
PRIOR_ROWS = 2.0  # that the mean over all columns counts for, in addition to the rows of each
_ROWS, _CELLS = 0x5EED, 0xCE11  # which choice a seed is used for


@dataclass(frozen=True, eq=False)
class Standard:
    """How columns are standardised: (x - mean) / unit."""

    mean: Array  # (d,)
    unit: Array  # (d,) standard deviations, or one number for all; 1 where there is none
    varies: NDArray[np.bool_]  # (d,)
    has_missing: bool

    @classmethod
    def of(cls, source: Source, scale: bool) -> Standard:
        """By the observed values: one pass, and two more where squares are out of range."""
        moments = source.reduce(ColumnMoments.of)
        mean, variance = moments.mean, moments.variance
        sd = np.sqrt(variance)
        doubtful = ~((variance >= SMALLEST_VARIANCE) & np.isfinite(variance) & np.isfinite(mean))
        if doubtful.any():
            extent = source.reduce(ColumnRange.of)
            if np.any(extent.high[doubtful] > extent.low[doubtful]):
                mean, sd = _by_range(source, extent)
        unit, largest = sd, float(np.max(sd))
        if not scale and largest > 0.0:  # the root mean square, of squares that do not overflow
            unit = np.full(len(sd), largest * float(np.sqrt(np.mean((sd / largest) ** 2))))
        observed = source.observed()
        missing = bool(np.any(observed.per_column < observed.rows))
        return cls(mean, np.where(unit > 0.0, unit, 1.0), sd > 0.0, missing)


def _by_range(source: Source, extent: ColumnRange) -> tuple[Array, Array]:
    """Means and standard deviations (d,) of columns brought to a range of about 1."""
    half = extent.high / 2.0 - extent.low / 2.0
    bad = np.flatnonzero((half > WIDEST / 2.0) | ((half > 0.0) & (half < NARROWEST / 2.0)))
    if len(bad):  # differences overflow, or have lost digits to underflow
        j = int(bad[0])
        large = half[j] > 1.0
        raise ValueError(
            f"column {column(source.names, j)} varies by {'more' if large else 'less'} than "
            f"{WIDEST if large else NARROWEST:g}, at the end of the range of floating point; "
            + words().either(
                f"rescale the data, for instance X {'/' if large else '*'} 1e200",
                f"{'divide' if large else 'multiply'} them by 1e200 first",
            )
        )
    span = np.where(extent.high > extent.low, extent.high - extent.low, 1.0)
    step = np.exp2(np.floor(np.log2(span)))

    def of(block: Block) -> ColumnMoments:
        values = (np.asarray(block.values, dtype=np.float64) - extent.low) / step
        return ColumnMoments.of(replace(block, values=values))

    moments = source.reduce(of)
    return extent.low + step * moments.mean, step * np.sqrt(moments.variance)


# Rows ------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class StandardBlock:
    """Standardised rows to train on."""

    x: Array  # (c, d), 0 where missing
    observed: Array  # (c, d) 1 where observed, else 0
    weight: Array  # (c,)
    start: int  # first row of the block it comes from

    @property
    def n_rows(self) -> int:
        return len(self.x)


@dataclass(frozen=True)
class HeldOut:
    """Which rows are kept from training, by their numbers alone."""

    bar: float  # rows whose number in [0, 1) is below are held out
    seed: int
    count: int

    @classmethod
    def of(cls, n: int, share: float, seed: int) -> HeldOut:
        """About that share of n rows; none where too few would be held out or remain."""
        count = min(max(round(share * n), FEWEST_HELD_OUT), MOST_MONITORED)
        if share == 0.0 or n - count < FEWEST_TRAINED:
            return cls(0.0, seed, 0)
        numbers = cell_uniforms(np.arange(n), 1, seed + _ROWS)[:, 0]
        return cls(float(np.partition(numbers, count)[count]), seed, count)

    def among(self, block: Block) -> NDArray[np.bool_]:
        """(c,) whether each row of a block is held out."""
        rows = np.arange(block.start, block.start + block.n_rows)
        return np.asarray(cell_uniforms(rows, 1, self.seed + _ROWS)[:, 0] < self.bar)


@dataclass(frozen=True, eq=False)
class TrainingBlocks:
    """Standardised rows to pass over, block by block in their order."""

    source: Source
    prepare: Callable[[Block], StandardBlock] | None  # at every pass; None where they are kept

    @classmethod
    def of(cls, source: Source, standard: Standard, held_out: HeldOut) -> TrainingBlocks:
        """Kept in memory from pass to pass where they take a small part of what is free."""
        prepare = partial(_standardised, standard=standard, held_out=held_out)
        needed = 16.0 * source.observed().rows * source.n_features
        if needed <= KEPT * free_memory():
            return cls(source.prepared(prepare), None)
        return cls(source, prepare)

    @property
    def are_kept(self) -> bool:
        return self.prepare is None

    def reduce(self, of: Callable[[StandardBlock], S]) -> S:
        """Merge of(block) over all blocks: one pass."""
        prepare = self.prepare
        if prepare is None:
            return self.source.reduce(of)
        return self.source.reduce(lambda block: of(prepare(block)))


def shuffled_batches(
    block: StandardBlock, size: int, seed: tuple[int, ...]
) -> Iterator[tuple[NDArray[np.intp], Array]]:
    """Positions (size,) of the rows of each batch, in random order, and their weights (size,).

    The last batch is padded with rows of weight 0, so that all have one shape.
    """
    rng = np.random.default_rng((*seed, block.start))
    order = rng.permutation(block.n_rows)
    for start in range(0, block.n_rows, size):
        at = order[start : start + size]
        lacking = size - len(at)
        weight = np.concatenate([block.weight[at], np.zeros(lacking)])
        yield np.concatenate([at, np.zeros(lacking, dtype=at.dtype)]), weight


def padded(block: StandardBlock, rows: slice, size: int) -> tuple[Array, Array, Array]:
    """Some rows and as many of weight 0 as make `size`."""
    x, observed, weight = block.x[rows], block.observed[rows], block.weight[rows]
    lacking = size - len(x)
    if lacking == 0:
        return x, observed, weight
    wide = ((0, lacking), (0, 0))
    return np.pad(x, wide), np.pad(observed, wide), np.pad(weight, (0, lacking))


def _standardised(block: Block, standard: Standard, held_out: HeldOut) -> StandardBlock:
    train = ~held_out.among(block)
    x = (np.asarray(block.values, dtype=np.float64)[train] - standard.mean) / standard.unit
    observed = ~np.isnan(x)
    x = np.where(observed, x, 0.0)
    return StandardBlock(x, observed.astype(np.float64), _weight(block)[train], block.start)


def _weight(block: Block) -> Array:
    return np.ones(block.n_rows) if block.weight is None else block.weight


class Sums(list[Any]):
    """Numbers and arrays that add up over rows."""

    def merge(self, other: Sums) -> Sums:
        return Sums(a + b for a, b in zip(self, other, strict=True))


# Monitored rows --------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Monitored:
    """Rows that are looked at after every pass: those held out, or some of the others."""

    values: Array  # (m, d) in data units, NaN where missing
    weight: Array  # (m,)

    @classmethod
    def of(cls, block: Block, which: HeldOut) -> Monitored:
        picked = which.among(block)
        return cls(np.asarray(block.values[picked], dtype=np.float64), _weight(block)[picked])

    def merge(self, other: Monitored) -> Monitored:
        return Monitored(
            np.concatenate([self.values, other.values]),
            np.concatenate([self.weight, other.weight]),
        )


def monitored_rows(source: Source, held_out: HeldOut) -> Monitored:
    """The rows held out; where there are none, all rows or some ten thousand: one pass."""
    if not held_out.count:
        held_out = replace(held_out, bar=min(1.0, MOST_MONITORED / source.observed().rows))
    return source.reduce(partial(Monitored.of, which=held_out))


@dataclass(frozen=True, eq=False)
class Monitor:
    """Loss and noise of a network on monitored rows, by NumPy, from the cells that it is given.

    Where training hides cells, some are hidden here too, always the same ones, so that losses can
    be compared from pass to pass.
    """

    rows: Monitored
    given: Array  # (m, d) in data units, NaN where missing or hidden
    seed: int

    @classmethod
    def of(cls, rows: Monitored, share: float, seed: int) -> Monitor:
        hidden = _hiding_numbers(rows.values, seed) < share
        return cls(rows, np.where(hidden, np.nan, rows.values), seed)

    def loss(self, network: Network) -> float:
        """Mean squared error of the observed values, in standardised units."""
        values = self.rows.values
        with np.errstate(over="ignore", invalid="ignore"):
            apart = (network.reconstruct(self.given) - values) / network.unit
            observed = self.rows.weight[:, None] * ~np.isnan(values)
            total = float(np.sum(np.where(observed > 0.0, observed * apart**2, 0.0)))
        return total / max(float(np.sum(observed)), 1e-300)

    def noise(self, network: Network) -> Array:
        """(d,) standard deviation of cells hidden from the network, in data units.

        Every observed value is hidden once, with as many others as are missing anyway, within
        bounds. With s^2 the mean squared error of a column over m rows, and p its expectation if
        the share of the variance that is missed were the same in all columns, a new cell's error
        has the variance (m s^2 + 2 p) / m: that of its Student distribution where two rows more of
        the size p stand for what is known beforehand. For many rows it is s^2.
        """
        values, weight = self.rows.values, self.rows.weight
        x, observed = network.standardised(values)
        total = np.zeros(network.d)
        for hidden in self._folds():
            again, _ = network.standardised(network.reconstruct(np.where(hidden, np.nan, values)))
            total += weight @ np.where(hidden, again - x, 0.0) ** 2
        count, squares = weight @ observed, weight @ x**2
        missed = float(np.sum(total)) / max(float(np.sum(squares)), 1e-300)
        some = np.maximum(count, 1.0)  # of a column that these rows do not show, 2 p stands alone
        own = np.where(count > 0.0, squares / some, 1.0)
        return np.asarray(np.sqrt((total + PRIOR_ROWS * missed * own) / some) * network.unit)

    def _folds(self) -> Iterator[NDArray[np.bool_]]:
        """Cells (m, d) to hide together; each observed value in one of them."""
        values = self.rows.values
        share = float(np.clip(np.mean(np.isnan(values)), *HIDDEN_SHARE))
        folds = round(1.0 / share)
        numbers = _hiding_numbers(values, self.seed + 1)
        for k in range(folds):
            yield ~np.isnan(values) & (np.floor(numbers * folds) == k)


def _hiding_numbers(values: Array, seed: int) -> Array:
    """Numbers (m, d) in [0, 1) that choose cells to hide."""
    return np.asarray(cell_uniforms(np.arange(len(values)), values.shape[1], seed + _CELLS))
