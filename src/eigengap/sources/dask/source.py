"""Tables on Dask: partitions are reduced where they lie, and only the merged statistic comes back.

A pass is one graph: a task for every partition (small neighbours together), joined by the fixed
tree of `tasks.Forest`. Iterative fits prepare their rows once, and these stay on the workers:
neighbouring units on the same one, in a few bundles for each of its threads. A step sends the
parameters to the bundles, and what comes back is one merged statistic: its price does not depend on
the number of partitions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import accumulate
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from dask.delayed import Delayed
from numpy.typing import NDArray

from eigengap.linalg import Array
from eigengap.sources.base import Block, S, Source
from eigengap.sources.blocked import MemoisedSource, SourceOver, stacked
from eigengap.sources.checks import check_not_empty
from eigengap.sources.dask import Table, cluster, tasks
from eigengap.sources.dask.cluster import Labels, in_words
from eigengap.sources.dask.tasks import Cut, Place, Statistics
from eigengap.sources.levels import Schema

if TYPE_CHECKING:
    from eigengap.sources.dask import Weight

BLOCK_BYTES = 32 << 20  # of float64 values: as elsewhere
UNITS = 64  # small partitions are taken together, but into no fewer units than this
PREPARED = 2.0  # bytes of prepared rows for each byte of theirs: values and mask
BUNDLES_PER_THREAD = 2  # so that the next one is there when one ends


class Unit(NamedTuple):
    """Consecutive partitions that one task takes together."""

    partitions: range
    place: Place
    args: tuple[Any, ...]  # the partitions, and their weights where there are any
    n: int | None  # rows, None while unknown


class DaskSource(MemoisedSource):
    """The rows of a Dask array or data frame.

    Row numbers, `Block.start` among them, need the lengths of the partitions: where these are not
    known the first pass counts them.
    """

    where = "on Dask"

    def __init__(
        self,
        table: Table,
        *,
        weight: Weight = None,
        codes: tuple[float, ...] = (),
        block_bytes: int = BLOCK_BYTES,
        block_rows: int | None = None,
        schema: Schema | None = None,
    ) -> None:
        self.n_features, self.names, self.dtype = table.n_features, table.names, table.dtype
        self.is_sparse = False
        self.passes = 0
        self._known = {}
        self._table = table
        self._given = weight  # as it was given; `weight` is that of the rows that count
        self._weight: Array | None = None
        self._rows = table.rows
        self._kept: tuple[int, ...] | None = None
        self._row_bytes = 8 * self.n_features
        # Partitions are joined up to this size; never where the size of blocks is asked for.
        self._joined_bytes = 0 if block_rows else block_bytes
        self._cut = Cut(
            n_features=self.n_features,
            names=self.names,
            dtype=self.dtype,
            codes=codes,
            rows_per_block=block_rows or max(1, block_bytes // self._row_bytes),
            schema=schema,
        )
        self.n_rows = None
        if self._rows is not None:
            self._placed(self._rows, None)

    def present(self) -> Source:
        other = super().present()
        if other is not self:
            assert isinstance(other, DaskSource)
            other._weight, other._kept = None, None
            other._cut = replace(self._cut, skips_empty=True)
        return other

    # Passes ----------------------------------------------------------------------------------

    def _take(self, ofs: Sequence[Callable[[Any], Any]]) -> Sequence[Any]:
        self._place_weights()
        found = self._pass(ofs)
        late = [i for i, part in enumerate(found) if part is None]  # they ask where a block starts
        if late:
            found = list(found)
            for i, part in zip(late, self._pass([ofs[i] for i in late]), strict=True):
                found[i] = part
        return found

    def _pass(self, ofs: Sequence[Callable[[Any], Any]]) -> Sequence[Any]:
        self.passes += 1
        forests, labels = self._tasks(tasks.statistics_of, Statistics(tuple(ofs)), "statistic")
        (forest,) = cluster.compute([cluster.joined(forests)], labels)
        found = forest.root()
        self._learn(found.counts)
        parts: Sequence[Any] = found.parts
        return parts

    def map(self, fn: Callable[[Any], NDArray[Any]]) -> NDArray[Any]:
        n = None if self._kept is None else sum(self._kept)
        return self._stacked(self.pieces(fn), n)

    def pieces(self, fn: Callable[[Any], NDArray[Any]]) -> Iterator[NDArray[Any]]:
        """The rows fn(block), in order, a bounded number of them at a time: one pass."""
        self._place_weights()
        if self._kept is not None:
            yield from self._pieces(fn)
            return
        given = 0
        try:
            for rows in self._pieces(fn):
                given += 1
                yield rows
        except tasks.NotPlaced:
            if given:
                raise
            self.count()
            yield from self._pieces(fn)

    def _pieces(self, fn: Callable[[Any], NDArray[Any]]) -> Iterator[NDArray[Any]]:
        self.passes += 1
        made, labels = self._tasks(tasks.applied, partial(tasks.mapped, fn), "rows")
        sizes = [(u.n or self._cut.rows_per_block) * self._row_bytes for u in self.units()]
        counts: tasks.Counts = {}
        for batch in cluster.stream(cluster.batches(made, sizes), labels):
            for ready in batch:
                counts |= ready.counts
                yield from (rows for rows in ready.units.values() if rows is not None)
        self._learn(counts)

    def count(self) -> None:
        """Count the rows of every partition: one pass, or none where they are known."""
        if self._kept is None:
            self._pass([])

    def prepared(self, prepare: Callable[[Any], Any]) -> Source:
        return PreparedOnDask(self, prepare)

    def keep(self, prepare: Callable[[Any], Any]) -> tuple[list[Delayed], Labels]:
        """The units prepared, on the workers; and the partitions that their keys stand for."""
        self._place_weights()
        self.count()
        made, labels = self._tasks(tasks.applied, partial(tasks.prepared, prepare), "prepared")
        held = cluster.places([self._table.parts[u.partitions.start] for u in self.units()])
        return kept(made, held, self.nbytes, labels), labels

    @property
    def nbytes(self) -> float:
        """Bytes of the values, 0 while the rows are not counted."""
        return float(self.n_rows or 0) * self.n_features * self.dtype.itemsize

    def _tasks(self, run: Callable[..., Any], of: Any, name: str) -> tuple[list[Delayed], Labels]:
        """run(of, ...) of every unit, and the partitions that each key stands for."""
        units = self.units()
        sent = cluster.send((run, of, self._cut), len(units))
        make = cluster.task(cluster.run_here, name)
        weighted = self._given is not None
        made = []
        labels = Labels(self._table.parts)
        for leaf, unit in enumerate(units):
            where = (unit.place, weighted, leaf, len(units))
            made.append(make(sent, tasks.on_partitions, *where, *unit.args))
            labels[made[-1].key] = in_words(unit.partitions)
        return made, labels

    @property
    def weight(self) -> Array | None:  # type: ignore[override]
        """Weights of the rows that `collect` gives: one pass where there are any."""
        if self._given is not None and self._weight is None:
            self._weight = self.map(_weight_of)
        return self._weight

    # Partitions ------------------------------------------------------------------------------

    def units(self) -> list[Unit]:
        """The partitions as they are taken together."""
        rows, kept = self._rows, self._kept
        row_at = None if rows is None else [0, *accumulate(rows)]
        kept_at = None if kept is None else [0, *accumulate(kept)]
        units = []
        for group in self._groups():
            first, stop = group.start, group.stop
            place = Place(
                partition=first,
                row=None if row_at is None else row_at[first],
                kept=None if kept_at is None else kept_at[first],
            )
            n = None if row_at is None else row_at[stop] - row_at[first]
            args = self._table.parts[first:stop] + self._weights(group, row_at)
            units.append(Unit(group, place, args, n))
        return units

    def _groups(self) -> list[range]:
        """Consecutive partitions, joined while they are small."""
        count = len(self._table.parts)
        if self._rows is None:
            return [range(p, p + 1) for p in range(count)]
        sizes = [n * self._row_bytes for n in self._rows]
        most = min(self._joined_bytes, sum(sizes) / UNITS)
        groups, size = [range(0, 1)], sizes[0]
        for p in range(1, count):
            size += sizes[p]
            if size <= most:
                groups[-1] = range(groups[-1].start, p + 1)
            else:
                groups.append(range(p, p + 1))
                size = sizes[p]
        return groups

    def _weights(self, group: range, row_at: list[int] | None) -> tuple[Any, ...]:
        w = self._given
        if w is None or isinstance(w, tuple):
            return () if w is None else w[group.start : group.stop]
        if isinstance(w, float):
            return (w,) * len(group)
        assert row_at is not None  # `_place_weights` has counted them
        return tuple(w[row_at[p] : row_at[p + 1]] for p in group)

    def _place_weights(self) -> None:
        """Weights in one array can be dealt out once the rows are counted: one pass."""
        if isinstance(self._given, np.ndarray) and self._rows is None:
            weight, self._given = self._given, None
            try:
                self._pass([])
                assert self._rows is not None
                rows = self._rows
            finally:
                self._given = weight
            self._placed(rows, None)

    def _learn(self, counts: tasks.Counts) -> None:
        """Remember how many rows there are; they must not change."""
        ordered = [counts[p] for p in range(len(self._table.parts))]
        rows, kept = tuple(n for n, _ in ordered), tuple(k for _, k in ordered)
        if self._rows is not None and rows != self._rows:
            p = next(p for p, n in enumerate(rows) if n != self._rows[p])
            raise tasks.PartitionError(
                f"partition {p} of the Dask table had {self._rows[p]} rows and now has {rows[p]}: "
                "it gives other rows whenever it is computed. Keep what it gives, X = X.persist()"
            )
        if self._kept is None:
            self._placed(rows, kept)
        if not any(kept):
            check_not_empty((sum(rows), self.n_features))
            raise ValueError("sample_weight is zero in every row: no row is left to learn from")

    def _placed(self, rows: tuple[int, ...], kept: tuple[int, ...] | None) -> None:
        self._rows, self.n_rows = rows, sum(rows)
        check_not_empty((self.n_rows, self.n_features))
        w = self._given
        if isinstance(w, np.ndarray) and len(w) != self.n_rows:
            raise ValueError(f"sample_weight has {len(w)} entries but X has {self.n_rows} rows")
        if isinstance(w, tuple) or self._cut.skips_empty:
            self._kept = kept
        elif isinstance(w, np.ndarray):
            parts = np.split(w, list(accumulate(rows))[:-1])
            self._kept = tuple(int(np.count_nonzero(part)) for part in parts)
        else:
            self._kept = rows


def _weight_of(block: Block) -> NDArray[Any]:
    return np.ones(block.n_rows) if block.weight is None else block.weight


class PreparedOnDask(SourceOver):
    """Blocks prepared once, on first use, that stay on the workers."""

    _parent: DaskSource | PreparedOnDask

    def __init__(self, parent: DaskSource | PreparedOnDask, prepare: Callable[[Any], Any]) -> None:
        super().__init__(parent)
        self.where: str = parent.where
        self._prepare = prepare
        self._bundles: list[Delayed] = []  # each the prepared blocks of some units
        self._labels = Labels(())

    def reduce(self, of: Callable[[Any], S]) -> S:
        self._keep()
        self.passes += 1
        forests, labels = self._applied(tasks.statistics_of, Statistics((of,)), "step")
        (forest,) = cluster.compute([cluster.joined(forests)], labels)
        merged: S = forest.root().parts[0]
        return merged

    def map(self, fn: Callable[[Any], NDArray[Any]]) -> NDArray[Any]:
        self._keep()
        self.passes += 1
        made, labels = self._applied(tasks.applied, partial(tasks.mapped, fn), "rows")
        found: dict[int, Any] = {}
        sizes = [self.nbytes / len(made)] * len(made)
        for batch in cluster.stream(cluster.batches(made, sizes), labels):
            for ready in batch:
                found |= ready.units
        ordered = (found[i] for i in sorted(found))
        return stacked((rows for rows in ordered if rows is not None), None)

    def prepared(self, prepare: Callable[[Any], Any]) -> Source:
        return PreparedOnDask(self, prepare)

    def keep(self, prepare: Callable[[Any], Any]) -> tuple[list[Delayed], Labels]:
        """Prepare once more what was prepared, and keep both."""
        self._keep()
        made, labels = self._applied(tasks.applied, partial(tasks.prepared, prepare), "prepared")
        return cluster.persist(made, labels), labels

    @property
    def nbytes(self) -> float:
        return self._parent.nbytes

    def _keep(self) -> None:
        if not self._bundles:
            self._bundles, self._labels = self._parent.keep(self._prepare)

    def _applied(
        self, run: Callable[..., Any], work: Any, name: str
    ) -> tuple[list[Delayed], Labels]:
        """run(work, bundle) of every bundle, and the partitions that each key stands for."""
        sent = cluster.send(work, len(self._bundles))
        make = cluster.task(cluster.run_here, name)
        made = [make(sent, run, bundle) for bundle in self._bundles]
        labels = self._labels.copy()
        for one, bundle in zip(made, self._bundles, strict=True):
            labels[one.key] = labels[bundle.key]
        return made, labels


def kept(
    units: Sequence[Delayed], places: Sequence[str | None], nbytes: float, labels: Labels
) -> list[Delayed]:
    """Prepared units in bundles that stay on the workers; as they are where they do not fit.

    `places` are the workers that hold their rows already, None where none does.
    """
    if PREPARED * nbytes > cluster.most_kept():
        return list(units)
    client = cluster.current_client()
    if client is None:
        return cluster.persist(units, labels)
    threads = cluster.workers(client)
    if not all(place in threads for place in places):
        places = _dealt(len(units), threads)
    make = cluster.task(tasks.bundled, "bundle")
    bundles: list[Delayed] = []
    for members in _by_place(places, threads):
        bundle = make(*(units[i] for i in members))
        labels[bundle.key] = ", ".join(labels[units[i].key] for i in members)
        bundles.append(bundle)
    return cluster.persist(bundles, labels)


def _dealt(n: int, threads: dict[str, int]) -> list[str | None]:
    """Neighbours to the same worker, to each by its threads."""
    slots = [address for address, k in sorted(threads.items()) for _ in range(k)]
    return [slots[i * len(slots) // n] if slots else None for i in range(n)]


def _by_place(places: Sequence[str | None], threads: dict[str, int]) -> list[list[int]]:
    """Units of the same worker in a few bundles of neighbours."""
    bundles: list[list[int]] = []
    for place in dict.fromkeys(places):
        own = np.array([i for i, other in enumerate(places) if other == place])
        count = min(len(own), BUNDLES_PER_THREAD * threads.get(place or "", 8))
        bundles += [part.tolist() for part in np.array_split(own, count)]
    return bundles
