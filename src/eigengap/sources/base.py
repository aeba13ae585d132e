"""The interface of sources: blocks of rows behind reduce, map and sample.

A fit never sees an array, a frame, a file or a cluster: it sees a `Source`. A new place for data
is a new file in this folder that implements this interface.

Rows drawn at random are the same ones however the table is cut, whatever its length. Row i has the
key -ln(1 - u_i) / w_i with u_i a hash of (seed, i): the k rows of least key are a sample without
replacement in which heavy rows come first more often (Efraimidis and Spirakis 2006). What must be
kept of a part of the table is its k least keys, so that drawing is a statistic like any other: one
pass, mergeable, and a smaller sample is the beginning of a larger one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from math import inf, isfinite, sqrt
from typing import Any, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from eigengap.exceptions import DataError
from eigengap.linalg import Array
from eigengap.runtime.hashing import row_hashes
from eigengap.sources.wording import column, first_repeated, quote
from eigengap.wording import words

Rows = Any  # ndarray (c, d) of float32 or float64, or a scipy.sparse CSR array of the same
LARGEST_SUM = 1e300  # of weights, so that sums of squares do not overflow


@dataclass(frozen=True, eq=False)
class Block:
    """Consecutive rows of a table."""

    values: Rows  # (c, d); NaN marks a missing value; CSR has none, its zeros are zeros
    weight: Array | None  # (c,) frequency of each row; None means 1
    cell_sd: Array | None  # (c, d) known standard deviation of each cell, 0 where unknown
    start: int  # index of the first row in the whole table

    @property
    def n_rows(self) -> int:
        return int(self.values.shape[0])

    @cached_property
    def observed(self) -> NDArray[np.bool_]:
        """(c, d) where values are observed: the mask, computed once for each block.

        A table in memory keeps its blocks, and with them their masks, through a fit.
        """
        if isinstance(self.values, np.ndarray):
            return ~np.isnan(self.values)
        return np.broadcast_to(np.True_, self.values.shape)

    @property
    def sum_w(self) -> float:
        return float(self.n_rows) if self.weight is None else float(np.sum(self.weight))


class Statistic(Protocol):
    """What must be known of the data: small, and the same however the rows were cut."""

    def merge(self, other: Self, /) -> Self: ...


S = TypeVar("S", bound=Statistic)


@dataclass(frozen=True, eq=False)
class ObservedCells:
    """How much there is to learn from; a row of weight zero is as if absent."""

    rows: int  # rows of positive weight
    sum_w: float  # sum of their weights
    per_column: NDArray[np.intp]  # (d,) observed values among them
    empty: int = 0  # those of the rows that have no observed value

    @classmethod
    def of(cls, block: Block) -> ObservedCells:
        present = slice(None) if block.weight is None else block.weight > 0
        values = block.values[present]
        rows, d = values.shape
        if not isinstance(values, np.ndarray):  # CSR: every value is observed
            return cls(rows, block.sum_w, np.full(d, rows, dtype=np.intp))
        with np.errstate(over="ignore", invalid="ignore"):
            complete = isfinite(float(np.add.reduce(values, axis=None)))  # then no cell is NaN
        if complete:
            return cls(rows, block.sum_w, np.full(d, rows, dtype=np.intp))
        counts = np.count_nonzero(block.observed[present], axis=0)
        return cls(rows, block.sum_w, counts, len(empty_rows(values)))

    @property
    def count(self) -> float:
        """Rows as a limit of what can be asked for: integer weights stand for repeated rows, and
        small ones take nothing away from those that there are."""
        return max(self.sum_w, float(self.rows))

    def merge(self, other: ObservedCells) -> ObservedCells:
        return ObservedCells(
            self.rows + other.rows,
            self.sum_w + other.sum_w,
            self.per_column + other.per_column,
            self.empty + other.empty,
        )

    def require_fit(self, names: tuple[str, ...] | None, min_rows: int) -> None:
        # A row of integer weight w stands for w rows.
        if self.rows < min_rows and self.sum_w < min_rows:
            rows = f"the table has {self.rows} row{'' if self.rows == 1 else 's'}"
            found = f"Found array with {self.rows} sample(s) (n_samples={self.rows})"
            least = f"; at least {min_rows} rows are needed to fit"
            raise DataError(words().either(found, rows) + least)
        missing = [int(j) for j in np.flatnonzero(self.per_column == 0)]
        if missing:
            several = len(missing) > 1
            it = "them" if several else "it"
            raise DataError(
                f"{words().table} has no value in column{'s' if several else ''} "
                f"{', '.join(column(names, j) for j in missing)}: "
                + words().either(
                    f"every cell is NaN. Drop {it} before fitting",
                    f"no value is observed. Leave {it} out",
                ),
                column=missing[0],
                name=None if names is None else names[missing[0]],
            )


class Source(ABC):
    """A table of rows that can be read as often as needed.

    Attributes
    ----------
    n_features : number of columns
    names : column names, or None where the table has none
    dtype : float32 or float64, what `Block.values` hold
    n_rows : number of rows, None while unknown
    is_sparse : whether blocks hold CSR arrays
    has_missing : whether a value is missing, None while unknown
    has_cell_sd : whether cells come with standard deviations of their own
    passes : how often the whole table has been read so far; the unit of cost
    weight : (n,) weights of its rows, None where every one is 1
    is_expensive : whether reading costs more than computing, so that `gather` pays
    """

    n_features: int
    names: tuple[str, ...] | None
    dtype: np.dtype[Any]
    n_rows: int | None
    is_sparse: bool
    has_missing: bool | None = None
    has_cell_sd: bool = False
    passes: int
    weight: Array | None = None
    is_expensive: bool = False

    @abstractmethod
    def reduce(self, of: Callable[[Any], S]) -> S:
        """Merge of(block) over all blocks along a fixed tree over the block index: one pass."""

    def gather(self, *ofs: Callable[[Any], Any]) -> None:
        """Compute several statistics in one pass, where passes are expensive, for `reduce`.

        They are identified by equality: a classmethod `Stat.of`, or a callable value.
        """
        del ofs  # a table in memory has nothing to save

    def remember(self, of: Callable[[Any], S], value: S) -> None:
        """Use `value` as the result of `reduce(of)`: it follows from another statistic."""
        del of, value

    @abstractmethod
    def map(self, fn: Callable[[Block], NDArray[Any]]) -> NDArray[Any]:
        """The rows fn(block) of all blocks, in order: one pass."""

    @abstractmethod
    def sample(self, k: int, rng: np.random.Generator) -> Array:
        """k distinct rows drawn at random, float64 (k, d): the same ones however they are stored.

        A heavy row is drawn more often, one of weight 0 never.
        """

    @abstractmethod
    def collect(self) -> Rows:
        """The whole table in memory; without a copy where it is there already."""

    @property
    def fits_in_memory(self) -> bool:
        """Whether `collect` is cheap enough for a method that wants all rows at once."""
        return True

    def collect_cell_sd(self) -> Array | None:
        """The known standard deviations (n, d) of the whole table, None where there are none."""
        return None

    @abstractmethod
    def prepared(self, prepare: Callable[[Block], Any]) -> Source:
        """A source whose blocks are prepare(block), kept where memory allows.

        For iterative fits: what does not change between passes is computed once.
        """

    def observed(self) -> ObservedCells:
        """How many rows there are and how many cells each column shows: one pass."""
        return self.reduce(ObservedCells.of)

    def present(self) -> Source:
        """The source without rows of weight 0 or without observed value, which no fit depends on.

        A table in which no row has a value is returned as it is, for `require_fit` to refuse.
        """
        return self

    def missing_per_column(self) -> NDArray[np.intp]:
        """Number of missing values of each column (d,), in the rows of positive weight."""
        observed = self.observed()
        return observed.rows - observed.per_column

    def require_fit(self, min_rows: int = 2) -> None:
        """Refuse what no model can be fitted to: too few rows, a column without any value.

        Names that occur twice are refused too, because results are reported by name.
        """
        require_unique(self.names)
        self.observed().require_fit(self.names, min_rows)


def empty_rows(values: NDArray[Any]) -> NDArray[np.intp]:
    """Which rows of values (c, d) have no observed value.

    Looks at few columns first: a row that has a value there is not looked at again.
    """
    left = np.flatnonzero(np.isnan(values[:, 0]))
    start, width = 1, 1
    while len(left) and start < values.shape[1]:
        left = left[np.isnan(values[left, start : start + width]).all(axis=1)]
        start, width = start + width, 2 * width
    return left


def present_rows(
    values: NDArray[Any], weight: Array | None, skips_empty: bool
) -> tuple[NDArray[Any], Array | None]:
    """The rows of positive weight, those without any observed value aside if asked for."""
    if weight is not None and not weight.all():  # a row of weight 0 is as if absent
        values, weight = values[weight > 0], weight[weight > 0]
    empty = empty_rows(values) if skips_empty else ()
    if len(empty):
        values = np.delete(values, empty, axis=0)
        weight = None if weight is None else np.delete(weight, empty)
    return values, weight


def require_frequencies(sum_w: float) -> None:
    """Refuse weights of rows that count once or less in all, or more often than can be summed."""
    if sum_w > LARGEST_SUM:
        raise DataError(
            f"sample_weight sums to {sum_w:g}, so that sums of squares overflow. Weights are "
            "frequencies: scale them to sum to the number of rows"
            + words().either(", e.g. sample_weight / sample_weight.mean()"),
            value=sum_w,
        )
    if sum_w <= 1.0:
        raise DataError(
            f"sample_weight sums to {sum_w:g}, but weights are frequencies: rows that count once "
            "or less in all have no variance. Scale the weights to sum to the number of rows"
            + words().either(", e.g. sample_weight * len(sample_weight) / sample_weight.sum()"),
            value=sum_w,
        )


def require_unique(names: tuple[str, ...] | None) -> None:
    """Refuse column names that occur more than once."""
    name = None if names is None else first_repeated(names)
    if names is None or name is None:
        return
    positions = [str(j) for j, other in enumerate(names) if other == name]
    raise DataError(
        f"{words().table} has {len(positions)} columns named {quote(name)} (positions "
        f"{', '.join(positions)}); names must be unique. Rename them"
        + words().either(", or pass the values without names, e.g. X.to_numpy()"),
        name=name,
    )


def merge_tree(parts: list[S]) -> S:
    """Merge neighbours pairwise until one is left: rounding grows with log n, order is fixed."""
    while len(parts) > 1:
        merged = [a.merge(b) for a, b in zip(parts[::2], parts[1::2], strict=False)]
        parts = merged + ([parts[-1]] if len(parts) % 2 else [])
    return parts[0]


CHUNK = 1 << 14  # rows hashed together, so that temporaries stay in cache


@dataclass(frozen=True, eq=False)
class Drawn:
    """The rows of least key, in the order of their keys."""

    k: int  # most rows that are kept
    keys: Array  # (m,) m <= k, ascending
    rows: Array  # (m, d)

    def merge(self, other: Drawn) -> Drawn:
        keys = np.concatenate([self.keys, other.keys])
        first = np.argsort(keys, kind="stable")[: self.k]
        mine = first < len(self.keys)
        rows = np.empty((len(first), self.rows.shape[1]))  # joining all of both first costs thrice
        rows[mine] = self.rows[first[mine]]
        rows[~mine] = other.rows[first[~mine] - len(self.keys)]
        return Drawn(self.k, keys[first], rows)


@dataclass(frozen=True)
class Draw:
    """k rows under a seed: as a statistic of blocks.

    `below` may rule out rows whose key is too large to be drawn, so that few are copied; whoever
    sets it must look whether k rows were found.
    """

    k: int
    seed: int
    below: float = inf

    @classmethod
    def among(cls, n_rows: int | None, k: int, seed: int) -> Draw:
        """k of n_rows rows, all of weight 1.

        The number of keys below the bound is binomial, and less than k with a probability of
        exp(-60) or so (Chernoff).
        """
        expected = k + 12.0 * sqrt(k) + 80.0
        bounded = n_rows is not None and expected < n_rows
        return cls(k, seed, expected / n_rows) if bounded and n_rows else cls(k, seed)

    def __call__(self, block: Block) -> Drawn:
        at, keys = least_keys(
            self.k, self.seed, block.start, block.n_rows, block.weight, self.below
        )
        return Drawn(self.k, keys, dense_rows(block.values, at))


def least_keys(
    k: int, seed: int, start: int, n: int, weight: Array | None, below: float = inf
) -> tuple[NDArray[np.intp], Array]:
    """Which of the rows start .. start + n - 1 have the k least keys, and these, ascending.

    A row of weight 0 is never drawn; without weights, nor is one whose key is not `below`.
    """
    if weight is not None:
        return _least(_keys(seed, start, n, weight), k)
    at, keys = np.empty(0, dtype=np.intp), np.empty(0)
    for first in range(0, n, CHUNK):
        some = _keys(seed, start + first, min(CHUNK, n - first), None)
        most = keys[-1] if len(keys) == k else below  # what can come in is less than that
        if most < inf:
            inside = np.flatnonzero(some < most)
            at, some = np.concatenate([at, inside + first]), np.concatenate([keys, some[inside]])
        else:
            at = np.concatenate([at, np.arange(first, first + len(some))])
            some = np.concatenate([keys, some])
        kept, keys = _least(some, k)
        at = at[kept]
    return at, keys


def dense_rows(values: Rows, at: NDArray[np.intp]) -> Array:
    """Some rows as float64 (m, d)."""
    some = values[at]
    dense = some if isinstance(some, np.ndarray) else some.toarray()
    return np.asarray(dense, dtype=np.float64)


def seed_of(rng: np.random.Generator) -> int:
    """The seed of the next sample that a generator is to decide."""
    return int(rng.integers(2**63))


def _keys(seed: int, start: int, n: int, weight: Array | None) -> Array:
    # In (0, 1): 53 bits and a half, so that no logarithm is infinite.
    u = ((row_hashes(start, n, seed) >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53
    if weight is None:
        return u  # -ln(1 - u) increases with u: the order is the same
    with np.errstate(divide="ignore", over="ignore"):
        keys = -np.log1p(-u) / weight
    # A row whose weight is almost 0 comes last; one of weight 0 never.
    return np.where(weight > 0, np.minimum(keys, np.finfo(np.float64).max), inf)


def _least(keys: Array, k: int) -> tuple[NDArray[np.intp], Array]:
    if 0 < k < len(keys):
        kept = np.argpartition(keys, k - 1)[:k]
        kept = kept[np.argsort(keys[kept], kind="stable")]
    else:
        kept = np.argsort(keys, kind="stable")[:k]
    kept = kept[np.isfinite(keys[kept])]
    return kept, keys[kept]
