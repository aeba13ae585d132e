"""Shortest paths in a graph from many sources, compiled by numba.

Two kernels, both exact: they lower d(v) to d(u) + length(u, v) until no edge lowers any, which
leaves the least sum over all paths, summed from the source on in float64.

* `one_by_one`: Dijkstra's algorithm with a heap of four children a node that knows where each node
  stands (Johnson 1975): n log n + edges steps at worst, whatever the lengths.
* `in_groups`: sources that lie close together see the rest of the graph in nearly the same order.
  The order from one of them is found by the first kernel; in that order an edge is relaxed for all
  of the group at once, which is one SIMD loop over adjacent lanes. Where a node is lowered after it
  was passed, the walk goes back to it at the end of its window, before the error spreads: nodes are
  passed 1.1 times on average where the rows lie on a surface. Where lengths are such that it would
  go back for ever, the group is given up after a few times the edges, and its sources go one by
  one.

Importing this module imports numba and compiles: only `eigengap.compiled.geodesics` does so.
"""

from __future__ import annotations

import numba
import numpy as np
from numpy.typing import NDArray

from eigengap.compiled.cache import compile_cached, part

Array = NDArray[np.float64]
Ints = NDArray[np.int32]
Bytes = NDArray[np.int8]

U = np.uint64  # LLVM vectorises the lane loops only if indices are unsigned
NOWHERE = -1  # where a node stands in the heap that has not come to it
SCANNED = 32  # nodes that are looked at in the time that an edge takes to be relaxed for a group


# Inlined, LLVM knows which arrays do not overlap: called, it takes twice as long.
_inlined = part(forceinline=True)
# Inlined before LLVM sees it: otherwise every call counts references to its arrays.
_within = part(inline="always")


@_within
def _sink(v: int, key: float, size: int, keys: Array, heap: Ints, at: Ints) -> None:
    """Put v into the root, which is free, and let it sink below all that are nearer."""
    i, child = 0, 1
    while child < size:
        least, low = child, keys[child]
        for k in range(child + 1, min(child + 4, size)):
            if keys[k] < low:
                least, low = k, keys[k]
        if low >= key:
            break
        u = heap[least]
        heap[i] = u
        keys[i] = low
        at[u] = i
        i = least
        child = 4 * i + 1
    heap[i] = v
    keys[i] = key
    at[v] = i


@_within
def _rise(v: int, key: float, i: int, keys: Array, heap: Ints, at: Ints) -> None:
    """Put v into place i, which is free or its own, and let it rise above all that are farther."""
    while i > 0:
        parent = (i - 1) >> 2
        high = keys[parent]
        if high <= key:
            break
        u = heap[parent]
        heap[i] = u
        keys[i] = high
        at[u] = i
        i = parent
    heap[i] = v
    keys[i] = key
    at[v] = i


@_inlined
def _from_one(
    indptr: Ints, nodes: Ints, lengths: Array, source: int,
    dist: Array, order: Ints, keys: Array, heap: Ints, at: Ints,
) -> int:  # fmt: skip
    """dist (n,) from the source; the nodes that it reaches in `order`, nearest first; how many.

    heap[i] is a node, keys[i] its distance so far, at[heap[i]] = i; the children of i are
    4 i + 1 .. 4 i + 4. A node that has left the heap is never lowered again.
    """
    for v in range(len(dist)):
        dist[v] = np.inf
        at[v] = NOWHERE
    dist[source] = 0.0
    heap[0] = source
    keys[0] = 0.0
    at[source] = 0
    size, passed = 1, 0
    while size > 0:
        v, d = heap[0], keys[0]
        order[passed] = v
        passed += 1
        size -= 1
        _sink(heap[size], keys[size], size, keys, heap, at)
        for e in range(indptr[v], indptr[v + 1]):
            u = nodes[e]
            x = d + lengths[e]
            if x < dist[u]:
                dist[u] = x
                i = at[u]
                if i == NOWHERE:
                    i = size
                    size += 1
                _rise(u, x, i, keys, heap, at)
    return passed


@_inlined
def _relax(
    indptr: Ints, nodes: Ints, lengths: Array, sources: Ints, order: Ints, rank: Ints, reached: int,
    window: int, most: float, D: Array, own: Array, dirty: Bytes,
) -> int:  # fmt: skip
    """D (n, lanes) flat: distances from the sources, one a lane; how many edges were relaxed.

    Given up, D unfinished, where these are more than `most`. Going back counts too, a little.
    """
    lanes = U(len(sources))
    for k in range(U(len(rank)) * lanes):
        D[k] = np.inf
    for i in range(reached):
        dirty[i] = 0
    for b in range(len(sources)):
        D[U(sources[b]) * lanes + U(b)] = 0.0
        dirty[rank[sources[b]]] = 1
    work = 0
    i, back, end = 0, reached, window
    while i < reached and work <= most:
        if dirty[i] != 0:
            dirty[i] = 0
            v = order[i]
            work += indptr[v + 1] - indptr[v]
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
            if back < i:
                work += (i - back) // SCANNED
                i = back
            back = reached
            end = i + window
    return work


def _grouped(indptr: Ints, nodes: Ints, lanes: int, members: Ints, starts: Ints) -> int:
    """Nodes in groups of at most `lanes` near each other: group g is members[starts[g] : ...].

    Breadth first from the first node that is in none; that in an order of small bandwidth, so that
    those left over stay together. How many groups there are.
    """
    n = len(indptr) - 1
    taken, observed = np.zeros(n, np.int8), np.full(n, -1, np.int32)
    queue = np.empty(n, np.int32)
    groups, filled = 0, 0
    starts[0] = 0
    for seed in range(n):
        if taken[seed] != 0:
            continue
        queue[0] = seed
        observed[seed] = groups
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
                if observed[u] != groups:
                    observed[u] = groups
                    queue[tail] = u
                    tail += 1
        groups += 1
        starts[groups] = filled
    return groups


def _in_groups(
    indptr: Ints, nodes: Ints, lengths: Array, members: Ints, starts: Ints, first: int, last: int,
    window: int, often: float, place: Ints, name: Ints, out: Array,
) -> float:  # fmt: skip
    """Rows of `out` (n, n) from the sources of the groups first .. last - 1.

    The user's node j stands at place[j] here, and the node v here is the user's name[v]. A group
    for which edges are relaxed more than `often` times is taken apart, and its sources go one by
    one. Returns how often on average.
    """
    n = len(indptr) - 1
    widest = 0
    for g in range(first, last):
        widest = max(widest, starts[g + 1] - starts[g])
    D, own, dirty = np.empty(n * widest), np.empty(widest), np.empty(n, np.int8)
    dist, order, rank = np.empty(n), np.empty(n, np.int32), np.empty(n, np.int32)
    keys, heap, at = np.empty(n), np.empty(n, np.int32), np.empty(n, np.int32)
    relaxed, edges = 0, 1
    for g in range(first, last):
        sources = members[starts[g] : starts[g + 1]]
        lanes = len(sources)
        reached = _from_one(indptr, nodes, lengths, sources[0], dist, order, keys, heap, at)
        own_edges = 0
        for i in range(reached):
            rank[order[i]] = i
            own_edges += indptr[order[i] + 1] - indptr[order[i]]
        most = often * own_edges
        work = _relax(
            indptr, nodes, lengths, sources, order, rank, reached, window, most, D, own, dirty
        )
        relaxed += work
        edges += own_edges
        for b in range(lanes):
            row = out[name[sources[b]]]
            if work <= most:
                for j in range(n):
                    row[j] = D[place[j] * lanes + b]
            else:
                _from_one(indptr, nodes, lengths, sources[b], dist, order, keys, heap, at)
                for j in range(n):
                    row[j] = dist[place[j]]
    return relaxed / edges


def _one_by_one(
    indptr: Ints, nodes: Ints, lengths: Array, sources: Ints, first: int, last: int,
    place: Ints, out: Array,
) -> None:  # fmt: skip
    """Rows first .. last - 1 of `out` (m, n), each from one source."""
    n = len(indptr) - 1
    dist, order = np.empty(n), np.empty(n, np.int32)
    keys, heap, at = np.empty(n), np.empty(n, np.int32), np.empty(n, np.int32)
    for i in range(first, last):
        _from_one(indptr, nodes, lengths, sources[i], dist, order, keys, heap, at)
        for j in range(n):
            out[i, j] = dist[place[j]]


_int, _float = numba.int64, numba.float64
_ints, _floats, _matrix = numba.int32[::1], numba.float64[::1], numba.float64[:, ::1]
_graph = (_ints, _ints, _floats)

grouped, _ = compile_cached(_grouped, (_ints, _ints, _int, _ints, _ints))
in_groups, _ = compile_cached(
    _in_groups, (*_graph, _ints, _ints, _int, _int, _int, _float, _ints, _ints, _matrix)
)
one_by_one, cache_index = compile_cached(_one_by_one, (*_graph, _ints, _int, _int, _ints, _matrix))
