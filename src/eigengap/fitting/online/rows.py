"""Rows of a stream: complete ones by their moments, a few incomplete ones kept as they are.

All that a fit asks of complete rows is at most quadratic in them: a covariance, its product with
some vectors, the expected statistics of an E-step. Such a statistic is the same for any other rows
of the same moments, so that a stream of n rows can stand before a fit as 2 d rows of suitable
weight, and every fit that takes a source takes a stream. Counts, and what depends on single values,
are answered from what was counted on the way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from eigengap.linalg import Array
from eigengap.sources.base import Block, ObservedCells, Rows, S
from eigengap.sources.blocked import BlockedSource
from eigengap.statistics.moments import ColumnMoments, ColumnRange, Moments


class RowsAreGoneError(ValueError):
    """Something is needed that only the rows themselves have."""


@dataclass(frozen=True, eq=False)
class Kept:
    """Rows that are kept as they are."""

    values: Array  # (k, d), NaN where missing
    weight: Array  # (k,)

    @property
    def sum_w(self) -> float:
        return float(np.sum(self.weight))

    def and_more(self, values: Array, weight: Array) -> Kept:
        return Kept(np.concatenate([self.values, values]), np.concatenate([self.weight, weight]))

    @classmethod
    def none(cls, d: int) -> Kept:
        return cls(np.empty((0, d)), np.empty(0))


class StreamedRows(BlockedSource):
    """A source for the fits, measured from `shift`: the mean, so that no digits are lost to it."""

    is_sparse = False
    has_cell_sd = False
    dtype = np.dtype(np.float64)
    n_rows = None  # so that no fit plans to hold them all

    def __init__(
        self,
        moments: Moments,
        columns: ColumnMoments,
        extent: ColumnRange,
        kept: Kept,
        observed: ObservedCells,
        names: tuple[str, ...] | None,
    ) -> None:
        self.names = names
        self.n_features = len(columns.mean)
        self.has_missing = len(kept.values) > 0
        self.passes = 0
        self._moments, self._columns, self._extent, self._kept = moments, columns, extent, kept
        self._observed = observed

    def from_origin(self, shift: Array, unit: Array) -> StreamedRows:
        """(x - shift) / unit in place of x."""
        moments, columns, extent, kept = self._moments, self._columns, self._extent, self._kept
        return StreamedRows(
            rescaled(moments, shift, unit),
            replace(columns, mean=(columns.mean - shift) / unit, m2=columns.m2 / unit**2),
            ColumnRange((extent.low - shift) / unit, (extent.high - shift) / unit),
            replace(kept, values=(kept.values - shift) / unit),
            self._observed,
            self.names,
        )

    def reduce(self, of: Callable[[Any], S]) -> S:
        known = self._known(of)
        return known if known is not None else super().reduce(of)

    def _known(self, of: Callable[[Any], S]) -> Any:
        """Statistics that were taken on the way, None for others."""
        asked = of.func if isinstance(of, partial) else of
        if asked == Moments.of and not self.has_missing:
            return self._moments
        if asked == ColumnMoments.of:
            return self._columns
        if asked == ColumnRange.of:
            return self._extent
        return self.observed() if asked == ObservedCells.of else None

    def _blocks(self) -> Iterator[Block]:
        if self._moments.sum_w > 0.0:
            yield self._equivalent
        if self.has_missing:
            yield Block(self._kept.values, self._kept.weight, None, 0)

    @cached_property
    def _equivalent(self) -> Block:
        return equivalent_rows(self._moments)

    def observed(self) -> ObservedCells:
        return self._observed

    def map(self, fn: Callable[[Any], Any]) -> Any:
        raise _gone("a value for each row")

    def sample(self, k: int, rng: np.random.Generator) -> Array:
        raise _gone("a sample of the rows")

    def collect(self) -> Rows:
        raise _gone("the table itself")


def rescaled(moments: Moments, shift: Array, unit: Array) -> Moments:
    """The moments of (x - shift) / unit."""
    return replace(
        moments,
        mean=(moments.mean - shift) / unit,
        scatter=moments.scatter / unit / unit[:, None],
    )


def equivalent_rows(moments: Moments) -> Block:
    """Rows mean +- c u, two for each rank of the scatter, that have these moments.

    The scatter is divided by the sizes of its columns first, so that a small column keeps its
    digits next to a large one. Eigenvalues in the rounding of what results are taken for 0. Rows at
    the mean are added up to the smaller of the numbers of rows and columns, so that a fit may have
    as many components.
    """
    variance = np.diag(moments.scatter)
    size = np.sqrt(np.where(variance > 0, variance, 1.0))
    lam, U = np.linalg.eigh(moments.scatter / size / size[:, None])
    real = lam > len(lam) * np.finfo(np.float64).eps * max(lam[-1], 0.0)
    r = int(np.count_nonzero(real))
    if r == 0:
        return Block(moments.mean[None, :], np.array([moments.sum_w]), None, 0)
    at_mean = max(min(moments.n_rows, len(lam)) - 2 * r, 0)
    w = moments.sum_w / (2 * r + at_mean)
    arms = (U[:, real] * np.sqrt(lam[real] / (2.0 * w))).T * size  # (r, d)
    mean = np.tile(moments.mean, (at_mean, 1))
    values = np.concatenate([moments.mean + arms, moments.mean - arms, mean])
    return Block(values, np.full(len(values), w), None, 0)


def _gone(what: str) -> RowsAreGoneError:
    return RowsAreGoneError(
        f"this needs {what}, and partial_fit keeps moments, not rows; give n_components as a "
        "number, or call fit on the whole table (a file will do)"
    )
