"""Rows of an iterative fit, prepared once and kept on the workers.

Neighbouring units go to the same worker, in a few bundles for each of its threads. A step sends the
parameters to the bundles, and what comes back is one merged statistic: its price does not depend on
the number of partitions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from dask.delayed import Delayed
from numpy.typing import NDArray

from eigengap.sources.base import S, Source
from eigengap.sources.dask import cluster, tasks
from eigengap.sources.dask.labels import Labels
from eigengap.sources.dask.tasks import MappedRows, Preparation, Statistics
from eigengap.sources.derived.blocked import SourceOver, stacked

if TYPE_CHECKING:
    from eigengap.sources.dask.source import DaskSource

PREPARED = 2.0  # bytes of prepared rows for each byte of theirs: values and mask
BUNDLES_PER_THREAD = 2  # so that the next one is there when one ends


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
        merged: S = forest.root().several.parts[0]
        return merged

    def map(self, fn: Callable[[Any], NDArray[Any]]) -> NDArray[Any]:
        self._keep()
        self.passes += 1
        made, labels = self._applied(tasks.applied, MappedRows(fn), "rows")
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
        made, labels = self._applied(tasks.applied, Preparation(prepare), "prepared")
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

    `places` are the workers that hold their rows already, None where nobody does.
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
