"""Weighted mean and scatter of rows, as values that merge.

Two statistics: `Moments` of complete rows with the d x d scatter, `ColumnMoments` of each column
by itself, which skips missing values. Both merge by Chan, Golub and LeVeque (1983), "Algorithms for
computing the sample variance", Eqs. 2.1. X'X - n mu mu' loses as many digits as mean^2 / variance
has, so it is used only where that ratio is small; else the rows are shifted first.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, isfinite
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from eigengap.linalg import Array
from eigengap.sources.base import Block, Rows, Source
from eigengap.sources.wording import column
from eigengap.wording import words

# Largest mean^2 / variance of a column at which the raw product may be centred afterwards.
_OFFSET_LIMIT = {np.dtype(np.float64): 1e2, np.dtype(np.float32): 1.0}
_PIECE_BYTES = 1 << 22  # shifted copies of this size stay in the cache
_FLOAT32_ROWS = 1024  # rows that are summed in float32 before float64 takes over
_SMALL = 1 << 17  # cells below which float32 rows are simply taken as float64
SMALLEST_VARIANCE = 1e-290  # a total below this has lost digits to underflow


@dataclass(frozen=True, eq=False)
class Moments:
    """Mean and centred scatter of weighted complete rows.

    Where a value is missing (`n_missing` > 0) or a sum is infinite, `mean` and `scatter` are not
    finite: the table has no scatter then, and the product is not even formed.
    """

    sum_w: float
    mean: Array  # (d,)
    scatter: Array  # (d, d) sum of w (x - mean)(x - mean)'
    n_rows: int  # rows of positive weight
    n_missing: int = 0  # missing values
    tail: Array | None = None  # (d,) what rounding took from `mean`; None is 0

    @classmethod
    def of(cls, block: Block, shift: Array | None = None, *, exact: bool = False) -> Self:
        """Moments of a block; rows are shifted by `shift`, or by what their mean asks for.

        float32 rows are multiplied in float32 and summed in float64, unless `exact` or where that
        would overflow, underflow or cancel.
        """
        values, w = block.values, block.weight
        if not isinstance(values, np.ndarray):
            mean, scatter = _sparse_moments(values, w, shift)
            return cls(block.sum_w, mean, scatter, _rows(w, values))
        if values.dtype == np.float32 and (exact or values.size <= _SMALL):
            values = values.astype(np.float64)
        sum_w = block.sum_w
        if sum_w == 0.0:
            return cls(0.0, *_nothing(values.shape[1]), 0)
        with np.errstate(over="ignore", invalid="ignore"):
            mean, tail, scatter = _dense_moments(values, w, sum_w, shift)
            if values.dtype == np.float32 and not _in_range(values, mean, scatter, sum_w):
                mean, tail, scatter = _dense_moments(values.astype(np.float64), w, sum_w, shift)
        n_missing = 0 if isfinite(mean.sum()) else _missing(values)
        return cls(sum_w, mean, scatter, _rows(w, values), n_missing, tail)

    def merge(self, other: Self, /) -> Self:
        """Moments of the rows of both."""
        mean, tail, between, sum_w = _merged_mean(self, other)
        scatter = self.scatter + other.scatter
        scatter += between[:, None] * between
        n_rows = self.n_rows + other.n_rows
        return type(self)(sum_w, mean, scatter, n_rows, self.n_missing + other.n_missing, tail)

    @property
    def second_moment(self) -> Array:
        """Scatter about zero, (d, d)."""
        return self.scatter + self.sum_w * (self.mean[:, None] * self.mean)

    @property
    def columns(self) -> ColumnMoments:
        """Of each column by itself."""
        d = len(self.mean)
        return ColumnMoments(
            counts=np.full(d, self.n_rows),
            sum_w=np.full(d, self.sum_w),
            mean=self.mean,
            m2=np.maximum(np.diagonal(self.scatter), 0.0),
            n_rows=self.n_rows,
            tail=self.tail,
        )


@dataclass(frozen=True, eq=False)
class ColumnMoments:
    """Mean and sum of squares of the observed values of each column."""

    counts: NDArray[np.int64]  # (d,) observed values
    sum_w: Array  # (d,) their weights
    mean: Array  # (d,) 0 where nothing is observed
    m2: Array  # (d,) sum of w (x - mean)^2
    n_rows: int  # rows of positive weight
    tail: Array | None = None  # (d,) what rounding took from `mean`; None is 0

    @classmethod
    def of(cls, block: Block) -> Self:
        """Column moments of a block, in float64, by the corrected two-pass formula."""
        values = block.values
        if not isinstance(values, np.ndarray):
            return cls._of_sparse(block)
        d = values.shape[1]
        parts = [cls._of_rows(block, rows) for rows in _pieces(values.shape[0], 8 * d)]
        if not parts:
            return cls(np.zeros(d, np.int64), np.zeros(d), np.zeros(d), np.zeros(d), 0)
        total = parts[0]
        for part in parts[1:]:
            total = total.merge(part)
        return total

    @classmethod
    def _of_rows(cls, block: Block, rows: slice) -> Self:
        values = np.asarray(block.values[rows], dtype=np.float64)
        weight = None if block.weight is None else block.weight[rows]
        c, d = values.shape
        w = np.ones(c) if weight is None else weight
        sums = w @ values
        if isfinite(sums.sum()):
            counts = np.full(d, c)
            sum_w = np.full(d, w.sum())
            shift = _near_first(sums / max(sum_w[0], np.finfo(float).tiny), values[0])
            R = values - shift
        else:
            observed = block.observed[rows]
            counts = observed.sum(axis=0)
            sum_w = w @ observed
            zeroed = np.where(observed, values, 0.0)
            first = zeroed[np.argmax(observed, axis=0), np.arange(d)]
            shift = _near_first((w @ zeroed) / np.where(sum_w > 0.0, sum_w, 1.0), first)
            R = np.where(observed, zeroed - shift, 0.0)
        rest = (w @ R) / np.where(sum_w > 0.0, sum_w, 1.0)  # what rounding left of the mean
        with np.errstate(over="ignore", invalid="ignore"):  # the caller refuses what overflows
            np.multiply(R, R, out=R)
            m2 = np.maximum(w @ R - sum_w * rest**2, 0.0)
        mean, tail = _two_sum(np.where(sum_w > 0.0, shift, 0.0), rest)
        return cls(counts, sum_w, mean, m2, _rows(weight, values), tail)

    @classmethod
    def _of_sparse(cls, block: Block) -> Self:
        values = block.values.astype(np.float64)
        c, d = values.shape
        w = np.ones(c) if block.weight is None else block.weight
        sum_w = float(w.sum())
        mean = (values.T @ w) / (sum_w or 1.0)
        cell_w = np.repeat(w, np.diff(values.indptr))
        R = (values.data - mean[values.indices]) ** 2 * cell_w
        stored_w = np.bincount(values.indices, weights=cell_w, minlength=d)
        # Zeros that are not stored; in a full column the difference would be rounding, not 0.
        full = np.bincount(values.indices, minlength=d) == c
        zeros_w = np.where(full, 0.0, np.maximum(sum_w - stored_w, 0.0))
        m2 = np.bincount(values.indices, weights=R, minlength=d) + zeros_w * mean**2
        return cls(np.full(d, c), np.full(d, sum_w), mean, np.maximum(m2, 0.0), _rows(w, values))

    def merge(self, other: Self, /) -> Self:
        """Column moments of the cells of both."""
        mean, tail, between, sum_w = _merged_mean(self, other)
        m2 = self.m2 + other.m2 + between**2
        n_rows = self.n_rows + other.n_rows
        return type(self)(self.counts + other.counts, sum_w, mean, m2, n_rows, tail)

    @property
    def variance(self) -> Array:
        """Variance of each column at divisor sum_w; 0 where nothing is observed."""
        return self.m2 / np.where(self.sum_w > 0.0, self.sum_w, 1.0)


@dataclass(frozen=True, eq=False)
class ColumnRange:
    """Smallest and largest observed value of each column; NaN where nothing is observed."""

    low: Array  # (d,)
    high: Array  # (d,)

    @classmethod
    def of(cls, block: Block) -> Self:
        values = block.values
        if not isinstance(values, np.ndarray):
            low, high = values.min(axis=0).toarray(), values.max(axis=0).toarray()
            return cls(low.ravel().astype(np.float64), high.ravel().astype(np.float64))
        low, high = np.fmin.reduce(values, axis=0), np.fmax.reduce(values, axis=0)
        return cls(low.astype(np.float64), high.astype(np.float64))

    def merge(self, other: Self, /) -> Self:
        return type(self)(np.fmin(self.low, other.low), np.fmax(self.high, other.high))


def rows_are_equal(source: Source) -> bool:
    """Whether no column varies in what was observed of it."""
    observed = source.reduce(ColumnRange.of)
    return not np.any(observed.high > observed.low)


def column_shift(values: NDArray[Any], w: Array | None, sum_w: float) -> Array:
    """The mean (d,) to rounding, and exactly the constant in a constant column."""
    return _near_first(_sums(values, w) / sum_w, values[0])


def _merged_mean(a: Any, b: Any) -> tuple[Array, Array, Array, Any]:
    """Mean of two groups and its tail, the root of the squares between them, and their weight.

    Groups far from zero have means that differ in their last digits only, and what rounding took
    from those is what the squares between them are made of: hence the tails.
    """
    sum_w = a.sum_w + b.sum_w
    share = b.sum_w / np.where(sum_w > 0.0, sum_w, 1.0)
    with np.errstate(invalid="ignore"):
        a_tail = 0.0 if a.tail is None else a.tail
        b_tail = 0.0 if b.tail is None else b.tail
        delta = (b.mean - a.mean) + (b_tail - a_tail)
        mean, tail = _two_sum(a.mean, a_tail + delta * share)
        return mean, tail, delta * np.sqrt(a.sum_w * share), sum_w


def _two_sum(a: Array, b: Array) -> tuple[Array, Array]:
    """a + b, and what rounding took from it, exactly (Knuth 1969)."""
    with np.errstate(over="ignore", invalid="ignore"):
        total = a + b
        of_b = total - a
        return total, (a - (total - of_b)) + (b - of_b)


def _dense_moments(
    values: NDArray[Any], w: Array | None, sum_w: float, shift: Array | None
) -> tuple[Array, Array | None, Array]:
    """Mean (d,), its tail, centred scatter (d, d); NaN scatter where the mean is not finite."""
    limit = _OFFSET_LIMIT[values.dtype]
    if shift is None:
        mean = _sums(values, w) / sum_w
        if not isfinite(mean.sum()):
            return mean, None, np.full((mean.size, mean.size), np.nan)
        if not _looks_offset(values, mean, limit):
            scatter = _products(values, w, None)
            square = sum_w * mean * mean
            diagonal = scatter.diagonal()
            if (square <= limit * (diagonal - square)).all():
                scatter -= (sum_w * mean)[:, None] * mean
                return mean, None, scatter
        shift = _near_first(mean, values[0])
    shift = shift.astype(values.dtype)
    rest = _sums(values, w, shift) / sum_w
    if not isfinite(rest.sum()):
        return shift + rest, None, np.full((rest.size, rest.size), np.nan)
    scatter = _products(values, w, shift)
    scatter -= (sum_w * rest)[:, None] * rest
    return *_two_sum(np.asarray(shift, dtype=np.float64), rest), scatter


def _sums(values: NDArray[Any], w: Array | None, shift: NDArray[Any] | None = None) -> Array:
    """Weighted column sums of values - shift, (d,), pieces added up in float64."""
    c, d = values.shape
    w = np.ones(c, values.dtype) if w is None else w.astype(values.dtype, copy=False)
    longest = c if values.dtype == np.float64 else _FLOAT32_ROWS
    if shift is None and c <= longest:
        return np.asarray(w @ values, dtype=np.float64)
    total = np.zeros(d)
    for rows in _pieces(c, d * values.itemsize, at_most=longest):
        total += w[rows] @ (values[rows] if shift is None else values[rows] - shift)
    return total


def _products(values: NDArray[Any], w: Array | None, shift: NDArray[Any] | None) -> Array:
    """Sum of w (x - shift)(x - shift)', (d, d), pieces added up in float64."""
    c, d = values.shape
    if shift is None and w is None and values.dtype == np.float64:
        return np.asarray(values.T @ values)
    root_w = None if w is None else np.sqrt(w).astype(values.dtype)[:, None]
    total = np.zeros((d, d))
    for rows in _pieces(c, d * values.itemsize, at_least=d):
        piece = values[rows] if shift is None else values[rows] - shift
        if root_w is not None:
            piece = piece * root_w[rows]
        total += piece.T @ piece
    return total


def _pieces(n: int, row_bytes: int, at_least: int = 16, at_most: int = 1 << 60) -> list[slice]:
    """Cuts of the rows into pieces that stay in the cache."""
    step = min(max(at_least, _PIECE_BYTES // row_bytes), at_most)
    return [slice(i, min(i + step, n)) for i in range(0, n, step)]


def _near_first(mean: Array, first: NDArray[Any]) -> Array:
    """The mean, but the value of the first row where the two agree.

    A shift need not be exact, but one that equals a constant column makes its variance exactly 0.
    """
    rounding = 1e-4 if first.dtype == np.float32 else 1e-9
    return np.where(np.abs(first - mean) <= rounding * np.abs(mean), first, mean)


def _looks_offset(values: NDArray[Any], mean: Array, limit: float) -> bool:
    """Whether a few rows already show that the raw product would cancel, so it can be spared."""
    if values.size <= _SMALL:
        return False
    sample = values[:: max(1, values.shape[0] // 200)].astype(np.float64)
    return bool(np.any(mean * mean > limit * sample.var(axis=0)))


def _in_range(values: NDArray[Any], mean: Array, scatter: Array, sum_w: float) -> bool:
    """Whether no square of a float32 cell over- or underflowed."""
    variance = scatter.diagonal() / sum_w
    if not np.isfinite(variance).all():
        return not isfinite(mean.sum())  # missing values, which float64 would not mend
    tiny = variance < 1e-25
    return not tiny.any() or bool(np.all(values[:, tiny] == values[0, tiny]))


def _sparse_moments(values: Rows, w: Array | None, shift: Array | None) -> tuple[Array, Array]:
    values = values.astype(np.float64)
    c, d = values.shape
    w = np.ones(c) if w is None else w
    sum_w = float(w.sum())
    if sum_w == 0.0:
        return _nothing(d)
    mean = np.asarray(values.T @ w) / sum_w
    if shift is None:
        weighted = values.multiply(w[:, None]).tocsr()
        scatter = np.asarray((values.T @ weighted).toarray())
        square = sum_w * mean * mean
        limit = _OFFSET_LIMIT[values.dtype]
        if not (square > limit * (np.diag(scatter) - square)).any():
            scatter -= (sum_w * mean)[:, None] * mean
            return mean, (scatter + scatter.T) / 2
    rest, scatter = np.zeros(d), np.zeros((d, d))
    shift = mean if shift is None else shift
    for rows in _pieces(c, 8 * d, at_least=d):
        piece = (values[rows].toarray() - shift) * np.sqrt(w[rows])[:, None]
        rest += np.sqrt(w[rows]) @ piece
        scatter += piece.T @ piece
    rest /= sum_w
    return shift + rest, scatter - (sum_w * rest)[:, None] * rest


def _missing(values: NDArray[Any]) -> int:
    return int(np.count_nonzero(np.isnan(values)))


def _rows(w: Array | None, values: Rows) -> int:
    """Rows of positive weight; the others are as if absent."""
    return int(values.shape[0] if w is None else np.count_nonzero(w))


def _nothing(d: int) -> tuple[Array, Array]:
    return np.zeros(d), np.zeros((d, d))


# Squares that leave the range of floating point are refused, never silently wrong --------------


def refuse_overflow(total: float, source: Source | None = None) -> None:
    """An infinite sum of squares of finite cells: the data are too large."""
    if isfinite(total):
        return
    if source is not None:
        _refuse_large_column(source)
    raise ValueError(
        "sums of squares overflow: the table holds infinities, or values so large that sums of "
        "their squares are; "
        + words().either("rescale the data, for instance X / 1e200", "divide them by 1e200 first")
    )


def _refuse_large_column(source: Source) -> None:
    """Name the column of the largest value, and by what to divide it."""
    observed = source.reduce(ColumnRange.of)
    size = np.nan_to_num(np.maximum(np.abs(observed.low), np.abs(observed.high)), posinf=inf)
    j = int(np.argmax(size))
    if size[j] <= 1e100:
        raise ValueError(
            f"sums of squares overflow: sample_weight sums to {source.observed().sum_w:.1e}; "
            "rescale the weights, e.g. sample_weight * len(sample_weight) / sample_weight.sum()"
        )
    if size[j] < inf:
        raise ValueError(
            f"sums of squares overflow: column {column(source.names, j)} holds values up to "
            f"{size[j]:.1e} in size, whose squares overflow; "
            + words().either(
                "rescale the data, for instance divide that column", "beforehand divide it"
            )
            + f" by {power_of_ten(size[j])}"
        )


def refuse_out_of_range(source: Source, total: float, fit_mean: bool) -> None:
    """Overflow is an error, and so is underflow, which a constant table is not."""
    if SMALLEST_VARIANCE <= total < inf:
        return
    refuse_overflow(total, source)
    observed = source.reduce(ColumnRange.of)
    size = np.maximum(np.abs(observed.low), np.abs(observed.high))
    largest = float(np.max(observed.high - observed.low if fit_mean else size))
    if largest > 0.0:
        # A far column must not overflow: then what varies has to be multiplied by itself.
        far = float(np.max(size)) / largest > 1e100
        table = "(X - numpy.nanmean(X, axis=0))" if far else "X"
        scale = power_of_ten(largest)
        raise ValueError(
            f"the variances underflow: the columns vary by {largest:.1e} at most, and products of "
            "such squares lose digits; "
            + words().either(
                f"rescale the data, for instance {table} / {scale}", f"divide them by {scale} first"
            )
        )


def power_of_ten(size: float) -> str:
    """The power of ten at or below a positive number, up to 1e300, as Python reads it."""
    return f"1e{int(np.floor(np.log10(min(size, 1e300))))}"


def refuse_tiny_columns(source: Source, variance: Array) -> None:
    """Where columns are divided by their own size, one whose square underflows is an error too."""
    tiny = np.flatnonzero(variance < SMALLEST_VARIANCE)
    if len(tiny) == 0:
        return
    observed = source.reduce(ColumnRange.of)
    varies = tiny[observed.high[tiny] > observed.low[tiny]]
    if len(varies):
        raise ValueError(
            f"the variance underflows in column {column(source.names, int(varies[0]))}: it varies "
            "by less than about 1e-145, and products of such squares lose digits; rescale it"
        )
