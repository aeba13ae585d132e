"""The units that a network sees its columns in, whatever those of the table: 1e-200 or 1e200.

Sums of squares leave the range of floating point long before the numbers themselves do. Where they
do, columns are shifted and divided by a power of two near their range first, which rounds nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from eigengap.linalg import Array
from eigengap.runtime.hashing import cell_uniforms
from eigengap.runtime.memory import free_memory
from eigengap.sources.base import Block, S, Source
from eigengap.sources.wording import column
from eigengap.statistics.moments import SMALLEST_VARIANCE, ColumnMoments, ColumnRange
from eigengap.wording import words

NARROWEST, WIDEST = 1e-290, 1e300  # ranges of columns whose numbers have all their digits
KEPT = 0.4  # share of free memory that standardised rows may take
MOST_MONITORED = 10_000  # rows that are looked at after every pass
FEWEST_HELD_OUT = 5  # rows; fewer say too little
FEWEST_TRAINED = 15  # rows that must remain
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
        unit = sd if scale else np.full(len(sd), _root_mean_square(sd))
        observed = source.observed()
        missing = bool(np.any(observed.per_column < observed.rows))
        return cls(mean, np.where(unit > 0.0, unit, 1.0), sd > 0.0, missing)


def _by_range(source: Source, extent: ColumnRange) -> tuple[Array, Array]:
    """Means and standard deviations (d,) of columns brought to a range of about 1."""
    _refuse_range(source, extent)
    span = np.where(extent.high > extent.low, extent.high - extent.low, 1.0)
    step = np.exp2(np.floor(np.log2(span)))

    def of(block: Block) -> ColumnMoments:
        values = (np.asarray(block.values, dtype=np.float64) - extent.low) / step
        return ColumnMoments.of(replace(block, values=values))

    moments = source.reduce(of)
    return extent.low + step * moments.mean, step * np.sqrt(moments.variance)


def _refuse_range(source: Source, extent: ColumnRange) -> None:
    """Refuse columns whose differences overflow, or have lost digits to underflow."""
    half = extent.high / 2.0 - extent.low / 2.0
    bad = np.flatnonzero((half > WIDEST / 2.0) | ((half > 0.0) & (half < NARROWEST / 2.0)))
    if len(bad):
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


def _root_mean_square(sd: Array) -> float:
    largest = float(np.max(sd))
    return largest * float(np.sqrt(np.mean((sd / largest) ** 2))) if largest > 0.0 else 0.0


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
        numbers = _numbers(np.arange(n), seed)
        return cls(float(np.partition(numbers, count)[count]), seed, count)

    def among(self, block: Block) -> NDArray[np.bool_]:
        """(c,) whether each row of a block is held out."""
        return _numbers(np.arange(block.start, block.start + block.n_rows), self.seed) < self.bar


@dataclass(frozen=True, eq=False)
class Monitored:
    """Rows that are looked at after every pass: those held out, or some of the others."""

    values: Array  # (m, d) in data units, NaN where missing
    weight: Array  # (m,)

    @classmethod
    def of(cls, block: Block, held_out: HeldOut, bar: float) -> Monitored:
        numbers = _numbers(np.arange(block.start, block.start + block.n_rows), held_out.seed)
        picked = np.flatnonzero(numbers < bar)
        return cls(np.asarray(block.values[picked], dtype=np.float64), _weight(block)[picked])

    def merge(self, other: Monitored) -> Monitored:
        return Monitored(
            np.concatenate([self.values, other.values]),
            np.concatenate([self.weight, other.weight]),
        )


def monitored_rows(source: Source, held_out: HeldOut) -> Monitored:
    """The rows held out; where there are none, all rows or some ten thousand: one pass."""
    n = source.observed().rows
    bar = held_out.bar if held_out.count else min(1.0, MOST_MONITORED / n)
    return source.reduce(partial(Monitored.of, held_out=held_out, bar=bar))


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

    The last batch is filled up with rows of weight 0, so that all have one shape.
    """
    rng = np.random.default_rng((*seed, block.start))
    order = rng.permutation(block.n_rows)
    for start in range(0, block.n_rows, size):
        at = order[start : start + size]
        lacking = size - len(at)
        weight = np.concatenate([block.weight[at], np.zeros(lacking)])
        yield np.concatenate([at, np.zeros(lacking, dtype=at.dtype)]), weight


def padded_size(count: int, unit: int) -> int:
    """The least power of two times `unit` that holds so many rows: few shapes to compile for."""
    size = unit
    while size < count:
        size *= 2
    return size


def filled_up(block: StandardBlock, rows: slice, size: int) -> tuple[Array, Array, Array]:
    """Some rows and as many of weight 0 as make `size`."""
    x, observed, weight = block.x[rows], block.observed[rows], block.weight[rows]
    lacking = size - len(x)
    if lacking == 0:
        return x, observed, weight
    wide = ((0, lacking), (0, 0))
    return np.pad(x, wide), np.pad(observed, wide), np.pad(weight, (0, lacking))


def shown_cells(observed: Array, share: float, rng: np.random.Generator) -> Array:
    """The observed values (c, d) without about that share of them: 1 where the network may look."""
    return observed if share == 0.0 else observed * (rng.random(observed.shape) >= share)


def hidden_for_good(values: Array, share: float, seed: int) -> NDArray[np.bool_]:
    """Observed values (m, d) to hide from monitored rows, the same whenever they are looked at."""
    return ~np.isnan(values) & (hiding_numbers(values, seed) < share)


def hiding_numbers(values: Array, seed: int) -> Array:
    """Numbers (m, d) in [0, 1) that choose cells to hide."""
    return np.asarray(cell_uniforms(np.arange(len(values)), values.shape[1], seed + _CELLS))


def _standardised(block: Block, standard: Standard, held_out: HeldOut) -> StandardBlock:
    train = ~held_out.among(block)
    x = (np.asarray(block.values, dtype=np.float64)[train] - standard.mean) / standard.unit
    observed = ~np.isnan(x)
    x = np.where(observed, x, 0.0)
    return StandardBlock(x, observed.astype(np.float64), _weight(block)[train], block.start)


def _numbers(rows: NDArray[np.intp], seed: int) -> Array:
    """Numbers in [0, 1), one a row, of the row's position and the seed."""
    return np.asarray(cell_uniforms(rows, 1, seed + _ROWS)[:, 0])


def _weight(block: Block) -> Array:
    return np.ones(block.n_rows) if block.weight is None else block.weight
