"""Structure preserving embedding: coordinates from which a graph can be read back.

Shaw and Jebara (2009), "Structure preserving embedding": points such that the k nearest of each
node (k its own degree) are its neighbours in the graph,

    D_ij + margin <= D_im   for neighbours j and others m of every i,

or such that pairs within a threshold are the edges, D_ij <= 1, D_im >= 1 + margin. Among those, of
a bare graph the K that maximises tr(K A) at tr K = n is taken, which draws neighbours together; of
rows, and of threshold graphs, the one of largest variance whose edges are no longer than they were
(maximum variance unfolding with structure). Each unit by which a constraint is missed costs `cap`,
so that a graph which q dimensions cannot hold is met as nearly as they can.

There are n^2 k constraints; those that are missed are added round after round (cutting planes), and
`fitting.sdp.descent` solves for Y (n, q) itself. At so low a rank there are local optima: several
starts are tried, and the one that recovers most is kept.

The variance of points whose edges lengthen by x grows as x^2, and so does the price: a `cap` below
1 / lambda_2 of the graph's Laplacian buys variance without end, and is raised where that shows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import scipy.sparse

from eigengap.exceptions import DoesNotFitError
from eigengap.fitting.optimise.loop import Progress, Watch
from eigengap.fitting.sdp.descent import solve
from eigengap.fitting.sdp.problem import Gain, Problem
from eigengap.linalg import Array
from eigengap.models.maps.graph import Ints
from eigengap.runtime.memory import require_memory

Kind = Literal["nearest_neighbors", "threshold"]

IMPOSTORS = 6  # others for each node that are added in a round, the nearest first
RIVALS = 3  # neighbours for each of them, the furthest first
QUICK, CAREFUL = (3, 30), (20, 100)  # subproblems of a round, steps of each
START = 10.0  # penalty, in units of what a constraint is usually worth
ROOM = 0.5  # of the margin that a constraint may be missed by and still be read back
PATIENCE, BETTER = 6, 0.005  # rounds without so much of a better graph end the search
BLOCK = 1 << 20  # distances that are looked at at a time
CONSTRAINT_BYTES = 300.0
MOST_NODES = 20_000
WAY_OUT = "Fit a sample of the rows, and give the others to transform"
DEARER = 4.0  # factor of a price that was too low to bound the gain
TIE = 1e-3  # of the margin: what is no nearer than this is not nearer


@dataclass(frozen=True, eq=False)
class Structure:
    """A graph to be read back, and what else is known of its edges."""

    n: int
    kind: Kind
    neighbours: scipy.sparse.csr_array  # (n, n) bool; row i: the neighbours of i
    edges: tuple[Ints, Ints]  # (m,), (m,) every pair of neighbours once
    longest: Array | None  # (m,) what squared distances of these may be at most; None: anything
    margin: float  # in squared units of the coordinates
    cap: float = np.inf

    @property
    def degrees(self) -> Ints:
        return np.diff(self.neighbours.indptr).astype(np.int64)


@dataclass(frozen=True, eq=False)
class Embedding:
    """Coordinates, and the graph that they give back."""

    Y: Array  # (n, q)
    recovered: scipy.sparse.csr_array  # (n, n) bool, as `neighbours`
    found: float  # share of the neighbours that came back
    false: float  # share of those that came back and are none
    gain: float
    constraints: int  # in the working set at the end
    rounds: int

    @property
    def quality(self) -> float:
        return self.found - self.false


# Reading the graph back ----------------------------------------------------------------------


def read_back(structure: Structure, Y: Array) -> scipy.sparse.csr_array:
    """The graph of the coordinates Y (n, q): (n, n) bool. Ties count against neighbours."""
    rows, columns = [], []
    degrees = structure.degrees
    for start, D in _distances(Y):
        D += TIE * structure.margin * structure.neighbours[start : start + len(D)].toarray()
        if structure.kind == "threshold":
            i, j = np.nonzero(1.0 + ROOM * structure.margin >= D)
        else:
            order = np.argsort(D, axis=1, kind="stable")
            kept = np.arange(structure.n) < degrees[start : start + len(D), None]
            i, at = np.nonzero(kept)
            j = order[i, at]
        rows.append(i + start)
        columns.append(j)
    i, j = np.concatenate(rows), np.concatenate(columns)
    found = scipy.sparse.coo_array((np.ones(len(i), dtype=bool), (i, j)), (structure.n,) * 2)
    return scipy.sparse.csr_array(found.tocsr())


def shares(aim: scipy.sparse.csr_array, got: scipy.sparse.csr_array) -> tuple[float, float]:
    """Share of the edges of `aim` that `got` has, and of those of `got` that `aim` has not."""
    both = int(aim.multiply(got).nnz)
    return both / max(aim.nnz, 1), (got.nnz - both) / max(got.nnz, 1)


def _distances(Y: Array) -> Iterator[tuple[int, Array]]:
    """Squared distances of some nodes to all, inf to themselves."""
    n = len(Y)
    step = max(1, BLOCK // n)
    for start in range(0, n, step):
        some = Y[start : start + step]
        D = np.zeros((len(some), n))
        for column in range(Y.shape[1]):
            D += (some[:, column, None] - Y[None, :, column]) ** 2
        D[np.arange(len(some)), np.arange(start, start + len(some))] = np.inf
        yield start, D


# Cutting planes ------------------------------------------------------------------------------


def missed(structure: Structure, Y: Array) -> tuple[Ints, Ints, Ints]:
    """Constraints that Y misses: nodes i, neighbours j, others m; j = -1 for thresholds."""
    parts: list[tuple[Ints, Ints, Ints]] = []
    A = structure.neighbours
    for start, D in _distances(Y):
        near = A[start : start + len(D)].toarray()
        others = np.where(near, np.inf, D)
        if structure.kind == "threshold":
            i, m = _lowest(others, np.full(len(D), 1.0 + structure.margin))
            parts.append((i + start, np.full(len(i), -1), m))
            continue
        furthest = np.max(np.where(near, D, -np.inf), axis=1)
        i, m = _lowest(others, furthest + structure.margin)
        own = np.where(near[i], D[i], -np.inf)  # (found, n)
        rivals = np.argsort(-own, axis=1, kind="stable")[:, :RIVALS]
        at = own[np.arange(len(i))[:, None], rivals]
        wrong = at + structure.margin > D[i, m][:, None]
        pair, which = np.nonzero(wrong)
        parts.append((i[pair] + start, rivals[pair, which], m[pair]))
    i, j, m = (np.concatenate(part).astype(np.int64) for part in zip(*parts, strict=True))
    return i, j, m


def _lowest(D: Array, below: Array) -> tuple[Ints, Ints]:
    """For every row its few smallest entries below a limit: rows, columns."""
    count = min(IMPOSTORS, D.shape[1])
    at = np.argpartition(D, count - 1, axis=1)[:, :count]
    values = np.take_along_axis(D, at, axis=1)
    i, which = np.nonzero(values < below[:, None])
    return i.astype(np.int64), at[i, which].astype(np.int64)


@dataclass(frozen=True, eq=False)
class WorkingSet:
    """Constraints that are in force: triples (i, j, m), and all multipliers."""

    triples: Ints  # (c, 3)
    multipliers: Array  # (c,)
    rest: Array  # of the lengths of edges, and of the trace

    def with_more(self, i: Ints, j: Ints, m: Ints) -> WorkingSet:
        new = np.column_stack([i, j, m])
        both = np.concatenate([self.triples, new])
        _, first = np.unique(both, axis=0, return_index=True)
        kept = np.sort(first)  # those that were there come first
        values = np.concatenate([self.multipliers, np.zeros(len(new))])
        return WorkingSet(both[kept], values[kept], self.rest)


def problem_of(structure: Structure, gain: Gain, total: float | None, work: WorkingSet) -> Problem:
    """The program of the edges' lengths and of the working set."""
    n = structure.n
    i, j, m = work.triples.T
    triple = structure.kind == "nearest_neighbors"
    first, second = structure.edges
    codes = [_codes(n, first, second), _codes(n, i, m)]
    if triple:
        codes.append(_codes(n, i, j))
    pairs, place = np.unique(np.concatenate(codes), return_inverse=True)
    ends = np.cumsum([len(code) for code in codes])
    place_edges, place_far, *place_near = np.split(place, ends[:-1])
    rows = np.arange(len(i))
    ones = np.ones(len(i))
    parts = [(rows, place_far, -ones)]
    high = np.full(len(i), -structure.margin if triple else -1.0 - structure.margin)
    if triple:
        parts.append((rows, place_near[0], ones))
    if structure.longest is not None:
        parts.append((len(i) + np.arange(len(first)), place_edges, np.ones(len(first))))
        high = np.concatenate([high, structure.longest])
    down, across, values = (np.concatenate(part) for part in zip(*parts, strict=True))
    combine = scipy.sparse.coo_array((values, (down, across)), shape=(len(high), len(pairs)))
    return Problem(
        n,
        (pairs // n).astype(np.int64),
        (pairs % n).astype(np.int64),
        gain,
        np.full(len(high), -np.inf),
        high,
        scipy.sparse.csr_array(combine.tocsr()),
        cap=structure.cap,
        total=total,
    )


def _codes(n: int, i: Ints, j: Ints) -> Ints:
    """One number for each pair, whatever its order."""
    return np.asarray(np.minimum(i, j) * n + np.maximum(i, j))


def require_structure(n: int, constraints: int, pairs: int, q: int) -> None:
    """Refuse what memory does not hold, and what would take days."""
    what = f"the structure of {n} nodes with {constraints} constraints"
    needed = CONSTRAINT_BYTES * constraints + 8.0 * pairs * (6 * q + 3 * q * q + 12)
    require_memory(needed, what, WAY_OUT)
    if n > MOST_NODES:
        raise DoesNotFitError(
            f"the structure of {n} nodes is that of {float(n) ** 2:.1e} pairs, which are all "
            f"compared in every round: more than {MOST_NODES} nodes would take days. {WAY_OUT}"
        )


def embed(
    structure: Structure,
    gain: Gain,
    start: Array,
    *,
    total: float | None = None,
    tol: float = 1e-3,
    max_rounds: int = 40,
    watch: Watch | None = None,
) -> Embedding:
    """Coordinates of as many columns as the start (n, q) has.

    Rounds are quick until no constraint is missed that is not in force; if the graph is whole by
    then, careful ones follow, for the gain.
    """
    Y = start - np.mean(start, axis=0)
    if total is not None:
        Y = Y * np.sqrt(total * structure.n / max(float(np.sum(Y**2)), np.finfo(np.float64).tiny))
    edges = 0 if structure.longest is None else len(structure.longest)
    nothing = np.empty((0, 3), dtype=np.int64), np.empty(0)
    work = WorkingSet(*nothing, rest=np.zeros(edges + (total is not None)))
    weight = START * usual_price(structure, gain, Y)
    best = _judged(structure, gain, Y, work, 0)
    careful = False
    last, reached = 0, best.quality  # the round that found more of the graph, and how much
    for count in range(1, max_rounds + 1):
        before = len(work.triples)
        work = work.with_more(*missed(structure, Y))
        pairs = len(structure.edges[0]) + 2 * len(work.triples)
        require_structure(structure.n, len(work.triples), pairs, Y.shape[1])
        subproblems, steps = CAREFUL if careful else QUICK
        found = solve(
            problem_of(structure, gain, total, work),
            Y,
            multipliers=np.concatenate([work.multipliers, work.rest]),
            weight=weight,
            tol=tol * structure.margin,
            max_iter=subproblems,
            max_steps=steps,
            patient=careful,
        )
        if found.unbounded:
            structure = replace(structure, cap=DEARER * structure.cap)
            continue
        own, rest = np.split(found.multipliers, [len(work.triples)])
        work = WorkingSet(work.triples, own, rest)
        moved = float(np.linalg.norm(found.Y - Y) / max(float(np.linalg.norm(found.Y)), 1e-300))
        Y = found.Y
        now = _judged(structure, gain, Y, work, count)
        if watch is not None:
            watch(Progress(count, max_rounds, now.found, moved, float(found.trace.seconds[-1])))
        if now.quality > reached + BETTER:
            last, reached = count, now.quality
        if now.quality >= best.quality:
            best = now
        whole = best.quality >= 1.0
        settled = len(work.triples) == before and (whole or moved < 10 * tol)
        if settled and (careful or not whole):
            break
        if not whole and count - last >= PATIENCE:
            break
        careful = careful or settled
    return best


def _judged(structure: Structure, gain: Gain, Y: Array, work: WorkingSet, rounds: int) -> Embedding:
    got = read_back(structure, Y)
    found, false = shares(structure.neighbours, got)
    value = float(np.vdot(Y, gain.apply(Y)))
    return Embedding(Y, got, found, false, value, len(work.triples), rounds)


def usual_price(structure: Structure, gain: Gain, Y: Array) -> float:
    """What a multiplier is like: the gain over the sum of squared lengths of edges.

    By its size and not its value, which may be 0 at a start.
    """
    i, j = structure.edges
    lengths = float(np.sum((Y[i] - Y[j]) ** 2))
    size = float(np.linalg.norm(Y)) * float(np.linalg.norm(gain.apply(Y)))
    return size / lengths if lengths > 0.0 and size > 0.0 else 1.0
