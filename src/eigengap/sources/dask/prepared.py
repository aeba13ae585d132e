"""Rows of an iterative fit, prepared once and kept on the workers.

A step sends the parameters to the rows: a few tasks on each worker take its own units together, and
what comes back is one merged statistic.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from dask.delayed import Delayed
from numpy.typing import NDArray

from eigengap.linalg import Array
from eigengap.sources.base import Rows, S, SeenCells, Source
from eigengap.sources.blocked import _take_facts
from eigengap.sources.dask import cluster, tasks
from eigengap.sources.dask.labels import Labels
from eigengap.sources.dask.rows import batches, stacked
from eigengap.sources.dask.tasks import MappedRows, Preparation, Statistics

if TYPE_CHECKING:
    from eigengap.sources.dask.source import DaskSource

PREPARED = 2.0  # bytes of prepared rows for each byte of theirs: values and mask
TASKS_PER_THREAD = 2  # of a step, so that the next one is there when one ends


class PreparedOnDask(Source):
    """Blocks prepared once, on first use, that stay on the workers."""

    def __init__(self, parent: DaskSource | PreparedOnDask, prepare: Callable[[Any], Any]) -> None:
        _take_facts(self, parent)
        self.where: str = parent.where
        self._parent, self._prepare = parent, prepare
        self._units: list[Delayed] = []  # each a list of prepared blocks
        self._labels = Labels(())
        self._is_kept = False
        self._on: dict[str, int] | None = None  # workers and their threads when last looked
        self._bundles: list[list[int]] = []  # units that one task of a step takes

    @property
    def passes(self) -> int:
        return self._parent.passes

    @passes.setter
    def passes(self, count: int) -> None:
        self._parent.passes = count

    @property
    def weight(self) -> Array | None:  # type: ignore[override]
        return self._parent.weight

    def reduce(self, of: Callable[[Any], S]) -> S:
        units, labels = self._ready()
        self.passes += 1
        bundles = self._bundled()
        sent = cluster.send(Statistics((of,)), len(bundles))
        make = cluster.task(cluster.run_here, "step")
        forests = []
        for bundle in bundles:
            ready = [units[i] for i in bundle]
            one = make(sent, tasks.statistics_of, tuple(bundle), len(units), *ready)
            labels[one.key] = " or ".join(self._labels[unit.key] for unit in ready)
            forests.append(one)
        (forest,) = cluster.compute([cluster.joined(forests)], labels)
        merged: S = forest.root().several.parts[0]
        return merged

    def map(self, fn: Callable[[Any], NDArray[Any]]) -> NDArray[Any]:
        self._ready()
        self.passes += 1
        made, labels = self._applied(MappedRows(fn), "rows")
        sizes = [self.nbytes / len(made)] * len(made)
        stream = cluster.stream(batches(made, sizes), labels)
        found = (rows for batch in stream for rows in batch if rows is not None)
        return stacked(found, None, self.where)

    def prepared(self, prepare: Callable[[Any], Any]) -> Source:
        return PreparedOnDask(self, prepare)

    def ready(self, prepare: Callable[[Any], Any]) -> tuple[list[Delayed], Labels]:
        """Tasks that prepare what was prepared once more."""
        self._ready()
        return self._applied(Preparation(prepare), "prepared")

    @property
    def nbytes(self) -> float:
        return self._parent.nbytes

    def _applied(self, work: Any, name: str) -> tuple[list[Delayed], Labels]:
        sent = cluster.send(work, len(self._units))
        make = cluster.task(cluster.run_here, name)
        made = [make(sent, tasks.applied, unit) for unit in self._units]
        labels = self._labels.copy()
        for one, unit in zip(made, self._units, strict=True):
            labels[one.key] = labels[unit.key]
        return made, labels

    def _ready(self) -> tuple[list[Delayed], Labels]:
        if not self._units:
            units, self._labels = self._parent.ready(self._prepare)
            self._is_kept = PREPARED * self._parent.nbytes <= cluster.most_kept()
            if self._is_kept:
                units = cluster.persist(units, self._labels)
            self._units = units
        return self._units, self._labels.copy()

    def _bundled(self) -> list[list[int]]:
        """Units by the worker that holds them, so that a step is a few tasks for each.

        The first step goes unit by unit, while these are being prepared. Workers that have come or
        gone since are looked for before every step.
        """
        client = cluster.current_client()
        single = [[i] for i in range(len(self._units))]
        if client is None or not self._is_kept:
            return single
        on = cluster.workers(client)
        if self._on is None:
            self._on = {}
            return single
        if on != self._on:
            self._bundles = _by_place(cluster.places(client, self._units), on)
            self._on = on
        return self._bundles

    @property
    def fits_in_memory(self) -> bool:
        return self._parent.fits_in_memory

    def sample(self, k: int, rng: np.random.Generator) -> Array:
        return self._parent.sample(k, rng)

    def collect(self) -> Rows:
        return self._parent.collect()

    def seen(self) -> SeenCells:
        return self._parent.seen()


def _by_place(places: Sequence[str | None], threads: dict[str, int]) -> list[list[int]]:
    """Units of the same worker in a few bundles of neighbours; those that nobody holds alone."""
    bundles = [[i] for i, place in enumerate(places) if place not in threads]
    for address, k in threads.items():
        own = [i for i, place in enumerate(places) if place == address]
        parts = np.array_split(np.array(own, dtype=int), min(len(own), TASKS_PER_THREAD * k) or 1)
        bundles += [part.tolist() for part in parts if len(part)]
    return bundles
