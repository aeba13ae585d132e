"""What workers run: partitions become blocks, blocks become statistics, rows, or prepared rows.

A partition is validated where it lies. Nothing here knows Dask.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eigengap.exceptions import UnknownLevelError
from eigengap.linalg import Array
from eigengap.sources.array import dense_to_float, library_of
from eigengap.sources.base import Block, present_rows
from eigengap.sources.blocked import Several, merge_stream
from eigengap.sources.checks import count_missing, with_missing_for
from eigengap.sources.frames import frame_to_float, series_to_float
from eigengap.sources.levels import Contents, Schema, contents_of, names_of
from eigengap.sources.wording import quote

Counts = dict[int, tuple[int, int]]  # rows of each partition, and those that are not skipped


class PartitionError(ValueError):
    """A partition that cannot be used: the message names it, the row, the column, the remedy."""


class NotPlaced(Exception):
    """Where a block starts was asked for before all partitions were counted."""


@dataclass(frozen=True)
class Cut:
    """How partitions become blocks."""

    n_features: int
    names: tuple[str, ...] | None
    dtype: np.dtype[Any]
    codes: tuple[float, ...]
    rows_per_block: int
    skips_empty: bool = False  # whether rows without any observed value are as if absent
    schema: Schema | None = None  # of columns of any kind, whose values are coded


@dataclass(frozen=True)
class Place:
    """Where some consecutive partitions stand in the whole table."""

    partition: int  # the first of them
    row: int | None  # its first row, None while unknown
    kept: int | None  # the same, counting only rows that are not skipped


class Unplaced(Block):
    """A block that does not know where it starts."""

    def __init__(self, values: NDArray[Any], weight: Array | None) -> None:
        for name, value in (("values", values), ("weight", weight), ("cell_sd", None)):
            object.__setattr__(self, name, value)

    def __getattribute__(self, name: str) -> Any:
        if name == "start":
            raise NotPlaced
        return super().__getattribute__(name)


class Opened:
    """The blocks of some consecutive partitions."""

    def __init__(self, cut: Cut, place: Place, weighted: bool, parts: Sequence[Any]) -> None:
        half = len(parts) // 2 if weighted else len(parts)
        self._cut, self._place = cut, place
        self._parts, self._weights = parts[:half], parts[half:] or (None,) * half
        self._counts: list[tuple[int, int]] = []

    def __iter__(self) -> Iterator[Block]:
        both = list(map(self._validated, self._parts, self._weights))
        values = both[0][0] if len(both) == 1 else np.concatenate([values for values, _ in both])
        weights = [w for _, w in both if w is not None]
        w = np.concatenate(weights) if weights else None
        del both, weights
        for rows in _slices(len(values), self._cut.rows_per_block):
            some = np.ascontiguousarray(values[rows])
            yield self._block(some, None if w is None else w[rows], rows.start)

    def counted(self) -> Counts:
        """How many rows there were, once they have been read."""
        return {self._place.partition + i: count for i, count in enumerate(self._counts)}

    def _block(self, values: NDArray[Any], weight: Array | None, offset: int) -> Block:
        if self._place.kept is None:
            return Unplaced(values, weight)
        return Block(values, weight, None, self._place.kept + offset)

    def _validated(self, part: Any, weight: Any) -> tuple[NDArray[Any], Array | None]:
        at = self._place.partition + len(self._counts)
        before = sum(rows for rows, _ in self._counts)
        row = None if self._place.row is None else self._place.row + before
        w = None if weight is None else _to_weight(weight, len(part), at, row)
        present = None if w is None or w.all() else w > 0
        values = _to_float(part, at, row, self._cut, present)
        n = len(values)
        values, w = present_rows(values, w, self._cut.skips_empty)
        self._counts.append((n, len(values)))
        return values, w


def _slices(n: int, most: int) -> Iterator[slice]:
    """Rows 0 .. n in pieces of nearly equal size."""
    if n:
        step = -(-n // -(-n // most))
        yield from (slice(start, min(start + step, n)) for start in range(0, n, step))


def _to_float(
    part: Any, at: int, row: int | None, cut: Cut, present: NDArray[np.bool_] | None
) -> NDArray[Any]:
    found = None
    try:
        if cut.schema is not None:
            values = cut.schema.code_with_limits(part, present, row or 0)
            cut.schema.warn_of_rounded(part, values, row or 0)
            found = names_of(part)
            found = cut.names if found == cut.schema.names else found
        elif library_of(part) is None:
            values = dense_to_float(part)
        else:
            values, found = frame_to_float(part)
    except UnknownLevelError as error:
        raise UnknownLevelError(
            f"{_partition(at)}{_counted_from_0(row)}: {error}",
            row=error.row,
            name=error.name,
            value=error.value,
        ) from None
    except (ValueError, TypeError) as error:
        raise PartitionError(f"{_partition(at)}, its rows counted from 0: {error}") from None
    if values.shape[1] != cut.n_features:
        raise PartitionError(
            f"{_partition(at)} has {values.shape[1]} columns, and the table has {cut.n_features}"
        )
    if found is not None and cut.names is not None and tuple(found) != cut.names:
        at_fault = next(j for j, name in enumerate(found) if name != cut.names[j])
        raise PartitionError(
            f"{_partition(at)} has {quote(found[at_fault])} as column {at_fault} where the table "
            f"has {quote(cut.names[at_fault])}. Give all partitions the columns of the meta"
        )
    values = values.astype(cut.dtype, copy=False)
    if cut.codes:
        values = with_missing_for(values, cut.codes)
    try:
        count_missing(values, cut.names, row or 0)
    except ValueError as error:
        raise PartitionError(f"{_partition(at)}{_counted_from_0(row)}: {error}") from None
    return values


def _counted_from_0(row: int | None) -> str:
    return ", its rows counted from 0" if row is None else ""


def _to_weight(weight: Any, n: int, at: int, row: int | None) -> Array:
    if isinstance(weight, float):
        return np.full(n, weight)
    frame = library_of(weight) is not None
    w = series_to_float(weight) if frame else np.asarray(weight, dtype=np.float64)
    if w.shape != (n,):
        raise PartitionError(
            f"{_partition(at)} has {n} rows, and its sample_weight has {len(w)}: give weights that "
            "are cut into partitions as the table is"
        )
    bad = np.flatnonzero(~(np.isfinite(w) & (w >= 0)))
    if len(bad):
        where = f"row {bad[0]} of it" if row is None else f"row {row + bad[0]}"
        raise PartitionError(
            f"{_partition(at)}: sample_weight must be finite and not negative: "
            f"{float(w[bad[0]])} at {where}"
        )
    return w


def _partition(at: int) -> str:
    return f"partition {at} of the Dask table"


def contents(part: Any, weight: Any, at: int) -> tuple[int, list[Contents]]:
    """Rows of a partition with columns of any kind, and what these hold."""
    w = None if weight is None else _to_weight(weight, len(part), at, None)
    try:
        return len(part), contents_of(part, None if w is None or w.all() else w > 0)[1]
    except ValueError as error:
        raise PartitionError(f"{_partition(at)}: {error}") from None


@dataclass(frozen=True, eq=False)
class Statistics:
    """Blocks to statistics; one that asks for the start of an unplaced block is None."""

    ofs: tuple[Callable[[Any], Any], ...]

    def __call__(self, blocks: Iterable[Any]) -> Several:
        parts = map(self._of, blocks)
        first = next(parts, None)
        if first is None:
            return Several((None,) * len(self.ofs))
        return merge_stream(chain([first], parts))

    def _of(self, block: Any) -> Several:
        return Several(tuple(_unless_unplaced(of, block) for of in self.ofs))


def _unless_unplaced(of: Callable[[Any], Any], block: Any) -> Any:
    try:
        return of(block)
    except NotPlaced:
        return None


def mapped(fn: Callable[[Any], NDArray[Any]], blocks: Iterable[Any]) -> NDArray[Any] | None:
    """Blocks to rows; None where there are none."""
    parts = list(map(fn, blocks))
    if len(parts) < 2:
        return parts[0] if parts else None
    return np.concatenate(parts)


def prepared(prepare: Callable[[Any], Any], blocks: Iterable[Any]) -> list[Any]:
    """Blocks to what an iterative fit keeps of them."""
    return list(map(prepare, blocks))


class Ready:
    """The blocks of some units, or what they have become, by their place in the table."""

    def __init__(self, n: int, units: dict[int, Any], counts: Counts | None = None) -> None:
        self.n = n  # units of the whole table
        self.units = units
        self.counts = counts or {}


def on_partitions(
    work: tuple[Callable[..., Any], Any, Cut],
    place: Place,
    weighted: bool,
    leaf: int,
    n: int,
    *parts: Any,
) -> Any:
    """`statistics_of` or `applied`, for some partitions: the unit `leaf` of n."""
    run, of, cut = work
    return run(of, Ready(n, {leaf: Opened(cut, place, weighted, parts)}))


def statistics_of(of: Statistics, ready: Ready) -> Forest:
    """Statistics of some units, as some of the leaves of the tree."""
    forest = Forest(ready.n, {})
    for leaf, blocks in ready.units.items():
        forest.add((0, leaf), Several(of(blocks).parts, _counted(blocks)))
    return forest


def applied(of: Callable[[Any], Any], ready: Ready) -> Ready:
    """Rows, or what is kept, of some units."""
    units = {leaf: of(blocks) for leaf, blocks in ready.units.items()}
    counts = {p: c for blocks in ready.units.values() for p, c in _counted(blocks).items()}
    return Ready(ready.n, units, counts)


def bundled(*some: Ready) -> Ready:
    """Several units as one."""
    return Ready(some[0].n, {leaf: unit for ready in some for leaf, unit in ready.units.items()})


def _counted(blocks: Any) -> Counts:
    """The rows of partitions that have just been read; nothing of prepared blocks."""
    return blocks.counted() if isinstance(blocks, Opened) else {}


Node = tuple[int, int]  # height above the leaves, position among those of this height


class Forest:
    """The fixed tree of `merge_tree` over `n` leaves, merged in whatever order its parts arrive.

    Node (height, i) is the merge of (height - 1, 2 i) and (height - 1, 2 i + 1); a last one without
    a neighbour goes up alone. So sums are the same, bit for bit, for any number of workers and any
    place of the data.
    """

    def __init__(self, n: int, trees: Mapping[Node, Any]) -> None:
        self.n = n
        self.trees: dict[Node, Any] = {}
        for node, statistic in trees.items():
            self.add(node, statistic)

    @classmethod
    def together(cls, forests: Iterable[Forest]) -> Forest:
        first, *others = forests
        for forest in others:
            for node, statistic in forest.trees.items():
                first.add(node, statistic)
        return first

    def add(self, node: Node, statistic: Any) -> None:
        """Add a tree, and merge it with its neighbours as far as possible."""
        height, at = node
        while (width := -(-self.n >> height)) > 1:  # nodes of this height: n / 2^height, rounded up
            neighbour = (height, at ^ 1)
            if at ^ 1 < width:
                if neighbour not in self.trees:
                    break
                other = self.trees.pop(neighbour)
                left, right = (statistic, other) if at % 2 == 0 else (other, statistic)
                statistic = left.merge(right)
            height, at = height + 1, at // 2
        self.trees[height, at] = statistic

    def root(self) -> Any:
        """The merge of all leaves."""
        (root,) = self.trees.values()
        return root
