"""What one step of ICA must know of the data: moments of rotated whitened scores.

With y = R z, g the nonlinearity and the sums over rows weighted,

    cross_ij = E[g(y_i) y_j],   slope_i = E[g'(y_i)],   spread_ij = E[g'(y_i) y_j^2],

from which follow the relative gradient, the fixed-point step and the curvature along the rotation
of every pair of components (`fitting.ica.steps`). They merge by addition. Rows go by in pieces that
stay in the cache, so that scores are read once and nothing of the size of the data is written.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import DTypeLike, NDArray

from eigengap.linalg import Array
from eigengap.runtime.threads import in_threads
from eigengap.statistics.additive import Additive
from eigengap.statistics.nonlinearity import Nonlinearity

PIECE_BYTES = 1 << 18  # of scores at a time: these, g and g' stay in the second-level cache
ROWS_A_THREAD = 8192  # rows that are summed together, whatever the number of threads


@dataclass(frozen=True, eq=False)
class ScoreBlock:
    """Whitened scores of consecutive rows."""

    Z: Array  # (c, q)
    weight: Array | None  # (c,)
    place: Array | None = None  # (c,) in [0, 1), by which rows are drawn; None where all are few

    @property
    def sum_w(self) -> float:
        return float(len(self.Z)) if self.weight is None else float(np.sum(self.weight))


@dataclass(frozen=True)
class Evaluation:
    """How the moments are taken."""

    fun: Nonlinearity
    precision: DTypeLike = np.float64  # of scores and g; sums are float64
    with_spread: bool = False
    threads: int = 1


@dataclass(frozen=True, eq=False)
class ScoreMoments(Additive):
    """Sums over rows; `mean` has expectations in their place."""

    sum_w: float
    cross: Array  # (q, q) of g(y_i) y_j
    slope: Array  # (q,) of g'(y_i)
    spread: Array | None  # (q, q) of g'(y_i) y_j^2

    @classmethod
    def of(cls, block: ScoreBlock, R: Array, how: Evaluation) -> Self:
        """The moments of a block at the rotation R (q, q)."""
        Rt = np.ascontiguousarray(R.T, dtype=how.precision)

        rows = list(_slices(len(block.Z), ROWS_A_THREAD))
        parts = in_threads(partial(cls._of_rows, block, Rt, how), rows, min(how.threads, len(rows)))
        total = parts[0]
        for part in parts[1:]:
            total = total.merge(part)
        return total

    @classmethod
    def _of_rows(cls, block: ScoreBlock, Rt: NDArray[Any], how: Evaluation, rows: slice) -> Self:
        q = len(Rt)
        cross, slope = np.zeros((q, q)), np.zeros(q)
        spread = np.zeros((q, q)) if how.with_spread else None
        Z = block.Z[rows]
        weight = None if block.weight is None else block.weight[rows]
        sum_w = float(len(Z)) if weight is None else float(np.sum(weight))
        for piece in _slices(len(Z), _rows_a_piece(q)):
            Y = Z[piece].astype(Rt.dtype, copy=False) @ Rt
            g, dg = how.fun.derivatives(Y)
            if weight is not None:
                w = weight[piece].astype(Rt.dtype)[:, None]
                g, dg = g * w, dg * w
            cross += g.T @ Y
            slope += dg.sum(axis=0)
            if spread is not None:
                spread += dg.T @ (Y * Y)
        return cls(sum_w, cross, slope, spread)

    def mean(self) -> Self:
        """Expectations over rows; `sum_w` stays."""
        spread = None if self.spread is None else self.spread / self.sum_w
        return type(self)(self.sum_w, self.cross / self.sum_w, self.slope / self.sum_w, spread)


@dataclass(frozen=True, eq=False)
class Potentials(Additive):
    """Sums (q,) of F(y) over rows."""

    sum_w: float
    total: Array

    @classmethod
    def of(cls, block: ScoreBlock, R: Array, fun: Nonlinearity) -> Self:
        total = np.zeros(len(R))
        for piece in _slices(len(block.Z), _rows_a_piece(len(R))):
            F = fun.potential(block.Z[piece] @ R.T)
            if F is None:
                raise ValueError("the potential of this nonlinearity is not known")
            total += F.sum(axis=0) if block.weight is None else block.weight[piece] @ F
        return cls(block.sum_w, total)

    @property
    def mean(self) -> Array:
        return self.total / self.sum_w


@dataclass(frozen=True, eq=False)
class SecondMoment(Additive):
    """Sum of w z z' (q, q): whether scores are white."""

    sum_w: float
    total: Array

    @classmethod
    def of(cls, block: ScoreBlock) -> Self:
        weighted = block.Z if block.weight is None else block.Z * block.weight[:, None]
        return cls(block.sum_w, weighted.T @ block.Z)

    @property
    def mean(self) -> Array:
        return self.total / self.sum_w


@dataclass(frozen=True, eq=False)
class ScoreSample:
    """Rows whose place is below a share, in the order of their places: each prefix is a sample."""

    Z: Array  # (k, q)
    weight: Array | None  # (k,)
    place: Array  # (k,) ascending

    @classmethod
    def of(cls, block: ScoreBlock, share: float) -> Self:
        if block.place is None:  # few rows: all
            return cls(block.Z, block.weight, np.zeros(len(block.Z)))
        at = np.flatnonzero(block.place < share)
        weight = None if block.weight is None else block.weight[at]
        return cls(block.Z[at], weight, block.place[at])._sorted()

    def merge(self, other: Self, /) -> Self:
        weight = None
        if self.weight is not None and other.weight is not None:
            weight = np.concatenate([self.weight, other.weight])
        Z, place = np.concatenate([self.Z, other.Z]), np.concatenate([self.place, other.place])
        return type(self)(Z, weight, place)._sorted()

    def first(self, k: int) -> ScoreBlock:
        """The k rows of lowest place."""
        return ScoreBlock(self.Z[:k], None if self.weight is None else self.weight[:k])

    def _sorted(self) -> Self:
        order = np.argsort(self.place, kind="stable")
        weight = None if self.weight is None else self.weight[order]
        return type(self)(self.Z[order], weight, self.place[order])


def places(values: Any) -> Array:
    """Numbers (c,) in [0, 1) that look random, by what a row holds and not by where it stands.

    Rows in another order, or repeated instead of weighted, are drawn alike.
    """
    if isinstance(values, np.ndarray):
        words = np.ascontiguousarray(values).view(f"u{values.itemsize}")
        key = np.empty(len(words), dtype=np.uint64)
        rng, d = np.random.default_rng(0), words.shape[1]
        factor = rng.integers(0, 1 << 63, size=d, dtype=np.uint64) * np.uint64(2) + np.uint64(1)
        for rows in _slices(len(words), max(64, (1 << 20) // (8 * words.shape[1]))):
            key[rows] = np.einsum("ij,j->i", words[rows].astype(np.uint64, copy=False), factor)
    else:  # sums along a sparse row are taken in the order of its columns
        key = np.asarray(values @ np.sqrt(np.arange(2.0, values.shape[1] + 2.0))).view(np.uint64)
    key = (key ^ (key >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    key = (key ^ (key >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray((key >> np.uint64(11)) / 2.0**53)


def _rows_a_piece(q: int) -> int:
    return max(64, PIECE_BYTES // (8 * q))


def _slices(n: int, step: int) -> Iterator[slice]:
    for start in range(0, max(n, 1), step):
        yield slice(start, min(start + step, n))
