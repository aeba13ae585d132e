"""Shortest paths in a graph from many sources, compiled by numba.

Two kernels, both exact: they lower d(v) to d(u) + length(u, v) until no edge lowers any, which
leaves the least sum over all paths, summed from the source on in float64, as Dijkstra's algorithm
does whatever its queue.

* `one_by_one`: near and far piles (delta-stepping for one thread; Meyer and Sanders 2003). Nodes
  nearer than a bar are worked off in any order, then the bar is raised by a step. No heap: a branch
  that the processor guesses wrong costs more than the few nodes that are taken twice.
* `in_groups`: sources that lie close together see the rest of the graph in nearly the same order.
  The order from one of them is found by the first kernel; in that order an edge is relaxed for all
  of the group at once, which is one SIMD loop over adjacent lanes. Where a node is lowered after it
  was passed, the walk goes back to it at the end of its window, before the error spreads: nodes are
  passed 1.1 times on average where the rows lie on a surface.

Importing this module imports numba and compiles: only `eigengap.compiled.geodesics` does so.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numba
import numpy as np
from numpy.typing import NDArray

from eigengap.compiled.cache import OPTIONS, compile_cached

Array = NDArray[np.float64]
Ints = NDArray[np.int32]
Bytes = NDArray[np.int8]
F = TypeVar("F", bound=Callable[..., Any])

U = np.uint64  # LLVM vectorises the lane loops only if indices are unsigned
NOWHERE, NEAR, FAR, PASSED = 0, 1, 2, 3  # where a node stands, in `at`


def _part(function: F) -> F:
    # Inlined, LLVM knows which arrays do not overlap: called, near and far take twice as long.
    compiled: F = numba.njit(forceinline=True, **OPTIONS)(function)
    return compiled


@_part
def _near_far(
    indptr: Ints, nodes: Ints, lengths: Array, source: int, step: float,
    dist: Array, order: Ints, near: Ints, far: Ints, at: Bytes,
) -> int:  # fmt: skip
    """dist (n,) from the source; the nodes that it reaches in `order`, which step blurs; how many.

    `near` holds a node once, and so does `far`: one that left it for `near` is below the bar and
    cannot be lowered to above it.
    """
    n = len(indptr) - 1
    for v in range(n):
        dist[v] = np.inf
        at[v] = NOWHERE
    dist[source] = 0.0
    near[0] = source
    at[source] = NEAR
    count, waiting, passed = 1, 0, 0
    bar = step
    while True:
        while count > 0:
            count -= 1
            v = near[count]
            if at[v] == NEAR:
                order[passed] = v
                passed += 1
            at[v] = PASSED
            d = dist[v]
            for e in range(indptr[v], indptr[v + 1]):
                u = nodes[e]
                x = d + lengths[e]
                if x < dist[u]:
                    dist[u] = x
                    if x <= bar:
                        if at[u] != NEAR and at[u] != -NEAR:
                            # one that was passed in this phase already keeps its place in the order
                            at[u] = -NEAR if at[u] == PASSED else NEAR
                            near[count] = u
                            count += 1
                    elif at[u] == NOWHERE:
                        at[u] = FAR
                        far[waiting] = u
                        waiting += 1
        low = np.inf
        for i in range(waiting):
            if at[far[i]] == FAR:
                low = min(low, dist[far[i]])
        if low == np.inf:
            return passed
        bar = low + step  # low itself is not above it, however small the step: it goes on
        kept = 0
        for i in range(waiting):
            v = far[i]
            if at[v] == FAR:
                if dist[v] <= bar:
                    at[v] = NEAR
                    near[count] = v
                    count += 1
                else:
                    far[kept] = v
                    kept += 1
        waiting = kept


@_part
def _sort_phases(dist: Array, order: Ints, passed: int) -> None:
    """Nodes in order of distance: an insertion sort, for they are out of place by a phase at most.

    Within a phase the last in is the first out, so that whole phases may be upside down.
    """
    for i in range(1, passed):
        v = order[i]
        k = i
        while k > 0 and dist[order[k - 1]] > dist[v]:
            order[k] = order[k - 1]
            k -= 1
        order[k] = v


@_part
def _relax(
    indptr: Ints, nodes: Ints, lengths: Array, sources: Ints, order: Ints, rank: Ints, reached: int,
    window: int, D: Array, own: Array, dirty: Bytes,
) -> int:  # fmt: skip
    """D (n, lanes) flat: distances from the sources, one a lane; how often nodes were passed."""
    lanes = U(len(sources))
    for k in range(U(len(rank)) * lanes):
        D[k] = np.inf
    for i in range(reached):
        dirty[i] = 0
    for b in range(len(sources)):
        D[U(sources[b]) * lanes + U(b)] = 0.0
        dirty[rank[sources[b]]] = 1
    passes = 0
    i, back, end = 0, reached, window
    while i < reached:
        if dirty[i] != 0:
            dirty[i] = 0
            passes += 1
            v = order[i]
            start = U(v) * lanes
            for r in range(lanes):
                own[r] = D[start + r]
            for e in range(indptr[v], indptr[v + 1]):
                u, length = nodes[e], lengths[e]
                to = U(u) * lanes
                lower = False
                for r in range(lanes):
                    lower |= own[r] + length < D[to + r]
                if lower:
                    for r in range(lanes):
                        D[to + r] = min(own[r] + length, D[to + r])
                    dirty[rank[u]] = 1
                    back = min(back, rank[u])
        i += 1
        if i == min(end, reached):
            i = min(i, back)
            back = reached
            end = i + window
    return passes


def _grouped(indptr: Ints, nodes: Ints, lanes: int, members: Ints, starts: Ints) -> int:
    """Nodes in groups of at most `lanes` near each other: group g is members[starts[g] : ...].

    Breadth first from the first node that is in none; that in an order of small bandwidth, so that
    those left over stay together. How many groups there are.
    """
    n = len(indptr) - 1
    taken, seen = np.zeros(n, np.int8), np.full(n, -1, np.int32)
    queue = np.empty(n, np.int32)
    groups, filled = 0, 0
    starts[0] = 0
    for seed in range(n):
        if taken[seed] != 0:
            continue
        queue[0] = seed
        seen[seed] = groups
        head, tail, count = 0, 1, 0
        while head < tail and count < lanes:
            v = queue[head]
            head += 1
            if taken[v] == 0:
                taken[v] = 1
                members[filled] = v
                filled += 1
                count += 1
            for e in range(indptr[v], indptr[v + 1]):
                u = nodes[e]
                if seen[u] != groups:
                    seen[u] = groups
                    queue[tail] = u
                    tail += 1
        groups += 1
        starts[groups] = filled
    return groups


def _in_groups(
    indptr: Ints, nodes: Ints, lengths: Array, members: Ints, starts: Ints, first: int, last: int,
    step: float, window: int, place: Ints, name: Ints, out: Array,
) -> int:  # fmt: skip
    """Rows of `out` (n, n) from the sources of the groups first .. last - 1; nodes passed.

    The user's node j stands at place[j] here, and the node v here is the user's name[v].
    """
    n = len(indptr) - 1
    widest = 0
    for g in range(first, last):
        widest = max(widest, starts[g + 1] - starts[g])
    dist, D, own = np.empty(n), np.empty(n * widest), np.empty(widest)
    order, rank = np.empty(n, np.int32), np.empty(n, np.int32)
    near, far = np.empty(n, np.int32), np.empty(n, np.int32)
    at = np.empty(n, np.int8)
    passes = 0
    for g in range(first, last):
        sources = members[starts[g] : starts[g + 1]]
        lanes = len(sources)
        reached = _near_far(indptr, nodes, lengths, sources[0], step, dist, order, near, far, at)
        _sort_phases(dist, order, reached)
        for i in range(reached):
            rank[order[i]] = i
        passes += _relax(indptr, nodes, lengths, sources, order, rank, reached, window, D, own, at)
        for b in range(lanes):
            row = out[name[sources[b]]]
            for j in range(n):
                row[j] = D[place[j] * lanes + b]
    return passes


def _one_by_one(
    indptr: Ints, nodes: Ints, lengths: Array, sources: Ints, first: int, last: int, step: float,
    place: Ints, out: Array,
) -> None:  # fmt: skip
    """Rows first .. last - 1 of `out` (m, n), each from one source."""
    n = len(indptr) - 1
    dist, order = np.empty(n), np.empty(n, np.int32)
    near, far = np.empty(n, np.int32), np.empty(n, np.int32)
    at = np.empty(n, np.int8)
    for i in range(first, last):
        _near_far(indptr, nodes, lengths, sources[i], step, dist, order, near, far, at)
        for j in range(n):
            out[i, j] = dist[place[j]]


_int, _float = numba.int64, numba.float64
_ints, _floats, _matrix = numba.int32[::1], numba.float64[::1], numba.float64[:, ::1]
_graph = (_ints, _ints, _floats)

grouped, _ = compile_cached(_grouped, (_ints, _ints, _int, _ints, _ints))
in_groups, _ = compile_cached(
    _in_groups, (*_graph, _ints, _ints, _int, _int, _float, _int, _ints, _ints, _matrix)
)
one_by_one, cache_index = compile_cached(
    _one_by_one, (*_graph, _ints, _int, _int, _float, _ints, _matrix)
)
