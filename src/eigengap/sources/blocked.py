"""Sources that are read block by block, and sources derived from others.

Derived ones have other values: columns in other units, or cells hidden from a model. Where passes
are expensive statistics are remembered, and several share a pass.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import closing
from copy import copy
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import partial
from itertools import chain, islice
from math import inf
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eigengap.linalg import Array
from eigengap.runtime.hashing import cell_uniforms
from eigengap.runtime.memory import SHARE, free_memory, require_memory
from eigengap.runtime.threads import closed_at_end, in_order, sharing
from eigengap.sources.base import Block, Draw, ObservedCells, Rows, S, Source, seed_of


class BlockedSource(Source):
    """What sources share whose blocks can be walked through in order."""

    _most_kept = inf  # bytes of prepared blocks that may be kept

    def _blocks(self) -> Iterable[Any]:
        raise NotImplementedError

    def reduce(self, of: Callable[[Any], S]) -> S:
        self.passes += 1
        with sharing(), closing(in_order(of, iter(self._blocks()), self.n_features)) as parts:
            return merge_stream(parts)

    def map(self, fn: Callable[[Any], NDArray[Any]]) -> NDArray[Any]:
        self.passes += 1
        with sharing(), closing(in_order(fn, iter(self._row_blocks()), self.n_features)) as made:
            return self._stacked(made, self.n_rows)

    def _stacked(self, parts: Iterator[NDArray[Any]], n: int | None) -> NDArray[Any]:
        """The n rows that `map` gives."""
        return stacked(parts, n)

    def _row_blocks(self) -> Iterable[Any]:
        """Blocks for `map`, whose results are rows and not merged: any cut will do."""
        return self._blocks()

    def prepared(self, prepare: Callable[[Any], Any]) -> Source:
        return PreparedSource(self, prepare)


class SourceOver(Source):
    """A source over `_parent`, with its facts."""

    _parent: Any

    def __init__(self, parent: Any) -> None:
        self._parent = parent
        self.n_features, self.names = parent.n_features, parent.names
        self.dtype, self.n_rows = parent.dtype, parent.n_rows
        self.is_sparse, self.has_missing = parent.is_sparse, parent.has_missing
        self.has_cell_sd, self.is_expensive = parent.has_cell_sd, parent.is_expensive

    @property
    def passes(self) -> int:
        return int(self._parent.passes)

    @passes.setter
    def passes(self, count: int) -> None:
        self._parent.passes = count

    @property
    def weight(self) -> Array | None:  # type: ignore[override]
        weight: Array | None = self._parent.weight  # only now: on a cluster it takes a pass
        return weight

    @property
    def fits_in_memory(self) -> bool:
        return bool(self._parent.fits_in_memory)

    def sample(self, k: int, rng: np.random.Generator) -> Array:
        rows: Array = self._parent.sample(k, rng)
        return rows

    def collect(self) -> Rows:
        return self._parent.collect()

    def collect_cell_sd(self) -> Array | None:
        deviations: Array | None = self._parent.collect_cell_sd()
        return deviations

    def observed(self) -> ObservedCells:
        observed: ObservedCells = self._parent.observed()
        return observed


class PreparedSource(SourceOver, BlockedSource):
    """Blocks prepared once, each on first use, and kept where they are small enough."""

    def __init__(self, parent: BlockedSource, prepare: Callable[[Any], Any]) -> None:
        super().__init__(parent)
        self._prepare = prepare
        self._most_kept = parent._most_kept
        self._kept: list[Any] = []
        self._kept_bytes = 0.0
        self._complete = False

    def _blocks(self) -> Iterator[Any]:
        done = len(self._kept)  # an interrupted pass has left the first ones
        yield from self._kept
        if self._complete:
            return
        blocks = iter(self._parent._blocks())
        rest = islice(blocks, done, None)
        with (
            closed_at_end(blocks),
            closing(in_order(self._prepare, rest, self.n_features)) as made,
        ):
            for ready in made:
                if self._kept_bytes <= self._most_kept:
                    self._kept_bytes += held_bytes(ready)
                    self._kept.append(ready)
                if self._kept_bytes > self._most_kept:  # a part does not save reading the rest
                    self._kept.clear()
                yield ready
        self._complete = self._kept_bytes <= self._most_kept


class DerivedSource(SourceOver):
    """Another source, of any kind, through a function of its blocks.

    The other one reads, counts passes and decides what stays in memory.
    """

    _parent: Source

    def __init__(self, parent: Source, change: Callable[[Any], Any]) -> None:
        super().__init__(parent)
        self._change = change

    def reduce(self, of: Callable[[Any], S]) -> S:
        merged: S = self._parent.reduce(self._after(of))
        return merged

    def gather(self, *ofs: Callable[[Any], Any]) -> None:
        self._parent.gather(*map(self._after, ofs))

    def remember(self, of: Callable[[Any], S], value: S) -> None:
        self._parent.remember(self._after(of), value)

    def map(self, fn: Callable[[Any], NDArray[Any]]) -> NDArray[Any]:
        return self._parent.map(self._after(fn))

    def prepared(self, prepare: Callable[[Any], Any]) -> Source:
        return self._parent.prepared(self._after(prepare))

    def _after(self, fn: Callable[[Any], Any]) -> _After:
        return _After(self._change, fn)


@dataclass(frozen=True, eq=False)
class _After:
    """One function after another; a class, so that it can be sent to another process.

    Two are equal if both functions are the same, so that statistics are found again under them.
    """

    first: Callable[[Any], Any]
    then: Callable[[Any], Any]

    def __eq__(self, other: object) -> bool:
        same = isinstance(other, _After) and self.first is other.first
        return same and bool(self.then is other.then or self.then == other.then)  # type: ignore[attr-defined]

    def __hash__(self) -> int:
        then = self.then if isinstance(self.then, Hashable) else id(self.then)
        return hash((id(self.first), then))

    def __call__(self, block: Any) -> Any:
        return self.then(self.first(block))


def merge_stream(parts: Iterable[S]) -> S:
    """The same tree as `merge_tree`, with only log n statistics alive at a time."""
    waiting: list[tuple[int, S]] = []  # (height, statistic), heights strictly falling
    for part in parts:
        height = 0
        while waiting and waiting[-1][0] == height:
            part = waiting.pop()[1].merge(part)
            height += 1
        waiting.append((height, part))
    merged = waiting.pop()[1]
    while waiting:
        merged = waiting.pop()[1].merge(merged)
    return merged


def stacked(parts: Iterable[NDArray[Any]], rows: int | None) -> NDArray[Any]:
    """The parts one below the other, written as they come where the number of rows is known.

    Parts that are kept until the last one is there take the memory of the result again.
    """
    waiting = iter(parts)
    first = next(waiting)
    second = next(waiting, None)
    if second is None:
        return first
    if rows is None:
        return np.concatenate([first, second, *waiting])
    out = np.empty((rows, *first.shape[1:]), dtype=first.dtype)
    every = chain([first, second], waiting)
    del first, second
    at = 0
    for part in every:
        if part.dtype != out.dtype or at + len(part) > rows:
            return np.concatenate([out[:at], part, *every])
        out[at : at + len(part)] = part
        at += len(part)
        del part  # or it would be held while the next one is made
    return out[:at]


def held_bytes(thing: Any) -> int:
    """Bytes of the arrays in a value made of dataclasses, tuples, lists and dicts."""
    if isinstance(thing, np.ndarray):
        return thing.nbytes
    if is_dataclass(thing):
        return sum(held_bytes(getattr(thing, field.name)) for field in fields(thing))
    if isinstance(thing, dict):
        return sum(map(held_bytes, thing.values()))
    if isinstance(thing, list | tuple):
        return sum(map(held_bytes, thing))
    if hasattr(thing, "indptr"):  # scipy.sparse
        return sum(held_bytes(getattr(thing, name)) for name in ("data", "indices", "indptr"))
    return 0


class Rescaled(DerivedSource):
    """The rows of another source, x / unit."""

    def __init__(self, parent: Source, unit: Array) -> None:
        super().__init__(parent, partial(_rescaled, unit=unit))
        self.dtype = np.dtype(np.float64)  # float32 would round what an offset leaves of the digits
        self._unit = unit

    def sample(self, k: int, rng: np.random.Generator) -> Array:
        return np.asarray(self._parent.sample(k, rng) / self._unit)

    def collect(self) -> Rows:
        return _divided(self._parent.collect(), self._unit)

    def collect_cell_sd(self) -> Array | None:
        known = self._parent.collect_cell_sd()
        return None if known is None else known / self._unit


def _rescaled(block: Block, unit: Array) -> Block:
    cell_sd = None if block.cell_sd is None else block.cell_sd / unit
    return replace(block, values=_divided(block.values, unit), cell_sd=cell_sd)


def _divided(values: Rows, unit: Array) -> Rows:
    if isinstance(values, np.ndarray):
        return values / unit
    rows = values.tocsr().astype(np.float64)
    rows.data = rows.data / unit[rows.indices]  # 1 / unit may be out of range
    return rows


def fold_of_cells(start: int, shape: tuple[int, int], folds: int, seed: int) -> NDArray[np.intp]:
    """The fold (0 .. folds - 1) of each cell of the rows from `start` on: (c, d).

    It depends on (seed, row, column) alone, so that blocks cannot change it.
    """
    rows = np.arange(start, start + shape[0])
    return (folds * cell_uniforms(rows, shape[1], seed)).astype(np.intp)


class HeldOut(DerivedSource):
    """The rows of another source without the cells of one fold."""

    def __init__(self, parent: Source, fold: int, folds: int, seed: int) -> None:
        super().__init__(parent, partial(_without, fold=fold, folds=folds, seed=seed))
        self.is_sparse, self.has_missing = False, True
        self.dtype, self.fold = np.dtype(np.float64), fold

    def sample(self, k: int, rng: np.random.Generator) -> NDArray[np.float64]:
        raise NotImplementedError("held-out cells belong to rows, which a sample does not number")

    def collect(self) -> Rows:
        return self.map(values_of)

    def observed(self) -> ObservedCells:
        return self.reduce(ObservedCells.of)


def _without(block: Block, fold: int, folds: int, seed: int) -> Block:
    values = block.values
    dense = values if isinstance(values, np.ndarray) else values.toarray()
    hidden = fold_of_cells(block.start, dense.shape, folds, seed) == fold
    return replace(block, values=np.where(hidden, np.nan, dense.astype(np.float64, copy=False)))


def values_of(block: Block) -> NDArray[Any]:
    """The rows of a block themselves."""
    values: NDArray[Any] = block.values
    return values


def hidden_cells(observed: NDArray[np.bool_], share: float, seed: int) -> NDArray[np.bool_]:
    """Which observed values to hold out, about `share` of them; every row keeps one: (n, d)."""
    number = cell_uniforms(np.arange(len(observed)), observed.shape[1], seed)
    hidden = observed & (number < share)
    # Rows of which nothing would be left to predict from.
    bare = hidden.any(axis=1) & ~(observed & ~hidden).any(axis=1)
    kept = np.argmax(np.where(observed[bare], number[bare], -1.0), axis=1)
    hidden[np.flatnonzero(bare), kept] = False
    return hidden


class MemoisedSource(Source):
    """A source that reads its table anew in every pass; messages name it by `where`."""

    where: str
    is_expensive = True
    _known: dict[Hashable, Any]  # statistics of the whole table
    _skips_empty = False  # whether rows without any observed value are as if absent

    @abstractmethod
    def _take(self, ofs: Sequence[Callable[[Any], Any]]) -> Sequence[Any]:
        """Several statistics of the whole table in one pass."""

    @property
    def has_missing(self) -> bool | None:  # type: ignore[override]
        """Whether a value is missing; None before the table was read once."""
        observed = self._known.get(ObservedCells.of)
        return None if observed is None else bool(np.any(observed.per_column < observed.rows))

    def _require_unchanged(self) -> None:
        """Refuse to answer from memory for a table that has changed."""

    def present(self) -> Source:
        # Rows of weight 0 are always skipped.
        if self._skips_empty or self.observed().empty in (0, self.observed().rows):
            return self
        other = copy(self)
        other._known, other._skips_empty = {}, True
        return other

    def reduce(self, of: Callable[[Any], S]) -> S:
        if of in self._known:
            self._require_unchanged()
            known: S = self._known[of]
            return known
        found: S = self._take([of])[0]
        return found

    def gather(self, *ofs: Callable[[Any], Any]) -> None:
        wanted = [of for of in dict.fromkeys(ofs) if of not in self._known]
        if wanted:
            self._known.update(zip(wanted, self._take(wanted), strict=True))
        else:
            self._require_unchanged()

    def remember(self, of: Callable[[Any], S], value: S) -> None:
        self._known[of] = value

    def observed(self) -> ObservedCells:
        self.gather(ObservedCells.of)
        found: ObservedCells = self._known[ObservedCells.of]
        return found

    def sample(self, k: int, rng: np.random.Generator) -> Array:
        seed = seed_of(rng)
        known = [of for of in self._known if isinstance(of, Draw) and of.seed == seed]
        # A smaller sample is the beginning of a larger one.
        draw = next((of for of in known if of.k >= k), Draw(k, seed))
        self.gather(draw)
        if len(self._known[draw].rows) < k and draw.below < inf:  # too tight a bound, which is rare
            draw = Draw(k, seed)
            self.gather(draw)
        rows: Array = self._known[draw].rows
        if len(rows) < k:
            raise ValueError(f"cannot draw {k} distinct rows from {len(rows)}")
        return rows[:k]

    def collect(self) -> Rows:
        """The whole table, where it fits into memory."""
        n = self._count_rows()
        require_memory(
            float(n) * self.n_features * self.dtype.itemsize,
            f"the table {self.where} of {n} rows and {self.n_features} columns, as a whole,",
            "fit a sample of its rows (source.sample), or fewer columns",
        )
        return self.map(values_of)

    def _stacked(self, parts: Iterator[NDArray[Any]], n: int | None) -> NDArray[Any]:
        """The n rows that `map` gives, unless the first part shows that memory is too small."""

        def checked() -> Iterator[NDArray[Any]]:
            for k, part in enumerate(parts):
                if k == 0 and n is not None:
                    require_memory(
                        part.nbytes / max(len(part), 1) * n,
                        f"the result for all {n} rows of the table {self.where}",
                        "write it to a file block by block with eigengap.stream(method, X, path)",
                    )
                yield part
                del part  # or it would stay in memory while the next one is computed

        return stacked(checked(), n)

    @property
    def fits_in_memory(self) -> bool:
        """Whether `collect` would be allowed, with room for a copy."""
        return 16.0 * self._count_rows() * self.n_features <= SHARE * free_memory()

    def _count_rows(self) -> int:
        return self.n_rows if self.n_rows is not None else self.observed().rows


class Several:
    """Several statistics of the same rows; None where there are no rows, or no answer.

    `counts` may have been counted on the way, for each part of the table.
    """

    def __init__(self, parts: tuple[Any, ...], counts: dict[int, Any] | None = None) -> None:
        self.parts, self.counts = parts, counts or {}

    def merge(self, other: Several) -> Several:
        merged = tuple(
            (a if b is None else b) if a is None or b is None else a.merge(b)
            for a, b in zip(self.parts, other.parts, strict=True)
        )
        return Several(merged, self.counts | other.counts)
