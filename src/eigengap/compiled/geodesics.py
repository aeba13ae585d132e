"""Lengths of the shortest paths in an undirected graph: the single entry point.

A graph comes as (indptr, nodes, lengths): the neighbours of i are nodes[indptr[i]:indptr[i + 1]],
both directions of an edge stored, lengths not negative and finite. Compiled where that pays,
otherwise SciPy's Dijkstra: the numbers are the same to the last digit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray
from scipy.sparse.csgraph import dijkstra, reverse_cuthill_mckee

from eigengap.compiled.choice import Kernels
from eigengap.linalg import Array
from eigengap.runtime.threads import in_threads, workers_for

Ints = NDArray[np.int32]

KERNELS = Kernels("geodesics_numba", compiling=8.0)
# Sources of a group, and how often edges may be relaxed for it on average before narrower groups
# pay, and after those no groups at all.
WIDTHS = ((32, 2.5), (16, 3.5))
OFTEN = 4.0  # after which one group is given up: about half of what its sources cost one by one
WINDOW = 128  # nodes after which a group goes back to those that were lowered behind it
LARGEST = np.iinfo(np.int32).max  # entries of a graph that the kernel can number


def all_pairs(
    indptr: NDArray[Any], nodes: NDArray[Any], lengths: Array, n_jobs: int | None = None
) -> Array:
    """Distances (n, n): row i from node i; inf where there is no path."""
    n = len(indptr) - 1
    out = np.empty((n, n))
    if _pays(n, len(nodes), n, grouped=True):
        _in_groups(_Numbered.of(indptr, nodes, lengths), out, n_jobs)
    else:
        _by_scipy(indptr, nodes, lengths, np.arange(n), out)
    return out


def from_sources(
    indptr: NDArray[Any],
    nodes: NDArray[Any],
    lengths: Array,
    sources: NDArray[Any],
    n_jobs: int | None = None,
) -> Array:
    """Distances (m, n) from each of the m sources; inf where there is no path."""
    n = len(indptr) - 1
    out = np.empty((len(sources), n))
    if _pays(n, len(nodes), len(sources), grouped=False):
        _one_by_one(_Numbered.of(indptr, nodes, lengths), sources, out, n_jobs)
    else:
        _by_scipy(indptr, nodes, lengths, sources, out)
    return out


def _by_scipy(
    indptr: NDArray[Any], nodes: NDArray[Any], lengths: Array, sources: NDArray[Any], out: Array
) -> None:
    """Rows of `out` (m, n) by SciPy's Dijkstra: the twin of the kernels, and their oracle.

    "directed" spares SciPy looking at the transpose, which is the same graph.
    """
    n = len(indptr) - 1
    graph = scipy.sparse.csr_array(
        (lengths, nodes.astype(np.int32, copy=False), indptr.astype(np.int32, copy=False)),
        shape=(n, n),
    )
    step = max(1, (1 << 24) // (8 * n))  # some rows at a time, for SciPy has an array of its own
    for start in range(0, len(sources), step):
        rows = slice(start, start + step)
        out[rows] = dijkstra(graph, directed=True, indices=sources[rows])


# The choice ---------------------------------------------------------------------------------


def _pays(n: int, entries: int, sources: int, grouped: bool) -> bool:
    """Whether paths from so many sources should go to the compiled kernel."""
    gain = sources * (twin_seconds(n, entries) - kernel_seconds(n, entries, grouped))
    return entries <= LARGEST and KERNELS.pay(gain)


def twin_seconds(n: int, entries: int) -> float:
    """Cost of SciPy's Dijkstra from one source, fitted to measurements (one core)."""
    return 6e-8 * n + 1.1e-8 * entries


def kernel_seconds(n: int, entries: int, grouped: bool) -> float:
    """Cost of the loaded kernel from one source, fitted likewise."""
    return 5e-9 * n + 1.2e-9 * entries if grouped else 3.5e-8 * n + 7e-9 * entries


# The kernels --------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Numbered:
    """The graph with its nodes numbered anew, neighbours close together (Cuthill-McKee 1969).

    What a wave through the graph touches is then in the processor's cache.
    """

    indptr: Ints
    nodes: Ints
    lengths: Array
    place: Ints  # (n,) where the user's node stands
    name: Ints  # (n,) the user's number of the node that stands here

    @classmethod
    def of(cls, indptr: NDArray[Any], nodes: NDArray[Any], lengths: Array) -> _Numbered:
        n = len(indptr) - 1
        graph = scipy.sparse.csr_array(
            (lengths, nodes.astype(np.int32), indptr.astype(np.int32)), shape=(n, n)
        )
        name = reverse_cuthill_mckee(graph, symmetric_mode=True).astype(np.int32)
        place = np.empty(n, dtype=np.int32)
        place[name] = np.arange(n, dtype=np.int32)
        counts = np.diff(indptr)[name]
        starts = np.zeros(n + 1, dtype=np.int64)
        np.cumsum(counts, out=starts[1:])
        # entry e of the new graph is entry at[e] of the old one
        at = np.arange(len(nodes)) + np.repeat(indptr[:-1][name] - starts[:-1], counts)
        return cls(
            starts.astype(np.int32),
            place[nodes[at]],
            np.ascontiguousarray(lengths[at], dtype=np.float64),
            place,
            name,
        )

    @property
    def graph(self) -> tuple[Ints, Ints, Array]:
        return self.indptr, self.nodes, self.lengths


def _in_groups(at: _Numbered, out: Array, n_jobs: int | None) -> None:
    """All rows, in groups of the width that is fastest for some of them."""
    kernels = KERNELS.load()
    n = len(out)
    members, starts = np.empty(n, dtype=np.int32), np.empty(n + 1, dtype=np.int32)

    def rows(first: int, last: int) -> float:
        return float(
            kernels.in_groups(
                *at.graph, members, starts, first, last, WINDOW, OFTEN, at.place, at.name, out
            )
        )

    for lanes, bearable in WIDTHS:
        count = int(kernels.grouped(at.indptr, at.nodes, lanes, members, starts))
        some = {count // 3, 2 * count // 3}
        if sum(rows(first, first + 1) for first in some) <= bearable * len(some):
            break
    else:
        _one_by_one(at, np.arange(n), out, n_jobs)
        return
    size = max(1, min(8, count // 16))
    in_threads(
        lambda first: rows(first, min(first + size, count)),
        range(0, count, size),
        workers_for(n_jobs),
    )


def _one_by_one(at: _Numbered, sources: NDArray[Any], out: Array, n_jobs: int | None) -> None:
    kernels = KERNELS.load()
    places = at.place[sources]
    count = len(sources)
    size = max(1, min(8, count // 16))
    in_threads(
        lambda first: kernels.one_by_one(
            *at.graph, places, first, min(first + size, count), at.place, out
        ),
        range(0, count, size),
        workers_for(n_jobs),
    )
