"""What nearly every fit asks of a table besides its moments, and which of its columns are faulty.

The first look is one pass over a table that is expensive to read: which values are observed, a
sample of the rows, and the moments; of complete rows with their scatter, else of each column by
itself. Where a part of the rows is complete its column moments are the diagonal of its moments, so
that nothing is computed twice.

Columns that make the results of a fit mean less than they seem to are given as positions. Two
columns that no row shows together leave no trace of their covariance. Columns linked by a chain of
such pairs are one component of the graph of pairs; between components the likelihood does not
depend on the covariance, however large the table.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from eigengap.linalg import Array
from eigengap.models.gaussian.observed_rows import ObservedRows
from eigengap.sources.base import Block, Draw, ObservedCells, Source, seed_of
from eigengap.statistics.moments import ColumnMoments, Moments

SAMPLED_CELLS = 2_000_000
FEWEST, MOST = 200, 2000  # rows

FEW_ROWS = 200  # a sample that shows the size of the columns, and whether they are linked
FEWEST_VALUES = 10  # observed in a sample of a column that is judged by it
BELOW_NOISE = 10.0  # noise variance over a column's own that chance does not explain
SKEWNESS_ROWS = 1000  # sample that skewness is judged by: its quantiles need more rows
# Of the distance between the 10 % and the 90 % quantile, by how much more of it lies above the
# median than below: 0 for symmetric columns, 0.5 for lognormal ones whose logarithm has a standard
# deviation of 0.85.
SKEWED = 0.5

Columns = NDArray[np.intp]  # positions, or labels of all of them


def look_first(source: Source, *, scatter: bool) -> Source:
    """The rows that are present; one pass in a file or on a cluster, and `reduce` has the answers.

    `scatter` is whether the d x d scatter of complete rows will be asked for. Where rows of a file
    or a cluster have no value at all, a second pass reads the others.
    """
    if not source.is_expensive:
        return source.present()
    _gather(source, scatter)
    present = source.present()
    if present is not source:
        _gather(present, scatter)
    return present


def _gather(source: Source, scatter: bool) -> None:
    k = int(np.clip(SAMPLED_CELLS // source.n_features, FEWEST, MOST))
    n_rows = source.n_rows if source.weight is None else None
    draw = Draw.among(n_rows, k, seed_of(np.random.default_rng(0)))
    if not scatter:
        source.gather(ObservedCells.of, draw, ColumnMoments.of)
        return
    source.gather(draw, FirstMoments.of)
    found = source.reduce(FirstMoments.of)
    source.remember(ObservedCells.of, found.observed)
    source.remember(ColumnMoments.of, found.columns)
    if found.rows is not None:
        source.remember(Moments.of, found.rows)


@dataclass(frozen=True, eq=False)
class FirstMoments:
    """Moments of rows that are complete so far, else of their columns."""

    observed: ObservedCells
    rows: Moments | None
    incomplete: ColumnMoments | None

    @classmethod
    def of(cls, block: Block) -> FirstMoments:
        found = Moments.of(block)
        if found.n_missing:
            return cls(ObservedCells.of(block), None, ColumnMoments.of(block))
        # Moments have looked at every cell: counting those that are observed needs no other look.
        counts = np.full(len(found.mean), found.n_rows, dtype=np.intp)
        return cls(ObservedCells(found.n_rows, found.sum_w, counts), found, None)

    def merge(self, other: FirstMoments) -> FirstMoments:
        observed = self.observed.merge(other.observed)
        if self.rows is not None and other.rows is not None:
            return FirstMoments(observed, self.rows.merge(other.rows), None)
        return FirstMoments(observed, None, self.columns.merge(other.columns))

    @property
    def columns(self) -> ColumnMoments:
        if self.rows is not None:
            return self.rows.columns
        assert self.incomplete is not None  # one of the two is there
        return self.incomplete


# Columns that make a fit mean less than it seems to ----------------------------------------------


def observed_too_seldom(source: Source, q: int) -> Columns:
    """Columns observed in so few rows that q loadings, a mean and a noise fit them exactly."""
    observed = source.observed()
    w = observed.per_column * (observed.sum_w / max(observed.rows, 1))  # of frequencies, about
    return np.flatnonzero(w < q + 2)


def far_below_noise(source: Source, psi: Array) -> Columns:
    """Columns that vary far less than the noise variances psi (d,) that a model gives them."""
    rows = _sample(source, FEW_ROWS)
    judged = np.count_nonzero(~np.isnan(rows), axis=0) >= FEWEST_VALUES
    judged[judged] = np.nanmax(rows[:, judged], axis=0) > np.nanmin(rows[:, judged], axis=0)
    variance = np.zeros(len(psi))
    variance[judged] = np.nanvar(rows[:, judged], axis=0)
    return np.flatnonzero((variance > 0) & (psi > BELOW_NOISE * variance))


def unlinked_groups(source: Source) -> list[Columns]:
    """Groups of columns that no row, nor a chain of rows, shows together; one where all are linked.

    A sample of the rows nearly always links all columns; only where it does not are all read.
    """
    if source.has_missing:
        sample = Linked.of_block(Block(_sample(source, FEW_ROWS), None, None, 0))
        if len(np.unique(sample.labels)) > 1:
            labels = source.reduce(Linked.of_block).labels
            return [np.flatnonzero(labels == label) for label in np.unique(labels)]
    return [np.arange(source.n_features)]


def constant_columns(source: Source, variance: Array) -> Columns:
    """Constant columns, by variance (d,), in a table where others vary.

    One observed value is no constant, and weighs little in the noise of all.
    """
    constant = np.flatnonzero((variance == 0.0) & (source.observed().per_column > 1))
    return constant if len(constant) < len(variance) else constant[:0]


def skewed_columns(source: Source) -> list[int]:
    """Columns of positive values, most of whose range lies above the median."""
    skewed = []
    for j, values in enumerate(_sample(source, SKEWNESS_ROWS).T):
        values = values[~np.isnan(values)]
        if len(values) < FEWEST_VALUES or np.min(values) <= 0.0:
            continue
        low, middle, high = np.quantile(values, [0.1, 0.5, 0.9])
        if low + high - 2.0 * middle > SKEWED * (high - low):
            skewed.append(j)
    return skewed


def _sample(source: Source, rows: int) -> Array:
    return source.sample(min(rows, source.observed().rows), np.random.default_rng(0))


# Columns that are observed together --------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Linked:
    """Components of the graph of pairs, without a d x d matrix."""

    labels: Columns  # (d,) the first column of each column's component

    @classmethod
    def of(cls, rows: ObservedRows) -> Linked:
        labels = np.arange(rows.d)
        if len(rows.incomplete) < rows.d:  # a column that every row of the block has
            observed = np.flatnonzero(rows.observed > 0)
            labels[observed] = observed[:1]
            return cls(labels)
        return cls(_linked_by(rows.M))

    @classmethod
    def of_block(cls, block: Block) -> Linked:
        if not isinstance(block.values, np.ndarray):  # sparse rows are complete
            return cls(np.zeros(block.values.shape[1], dtype=np.intp))
        return cls(_linked_by(block.observed.astype(np.float32)))

    def merge(self, other: Linked) -> Linked:
        at = np.tile(np.arange(len(self.labels)), 2)
        return Linked(_components(at, np.concatenate([self.labels, other.labels])))


def _linked_by(M: Any) -> Columns:
    """(d,) labels of columns linked by the rows of a mask (n, d), dense or sparse.

    The component of a column is found by going to the rows that have it and back.
    """
    d = M.shape[1]
    labels, left = np.arange(d), np.asarray(M.sum(axis=0)).reshape(-1) > 0
    while np.any(left):
        first = int(np.argmax(left))
        found = np.arange(d) == first
        while True:
            reached = M @ found.astype(M.dtype) > 0
            more = M.T @ reached.astype(M.dtype) > 0
            if np.array_equal(more, found):
                break
            found = more
        labels[found] = first
        left &= ~found
    return labels


def linked(pairs: NDArray[np.bool_]) -> Columns:
    """(d,) labels of the components of a graph of pairs (d, d)."""
    a, b = np.nonzero(pairs | np.eye(len(pairs), dtype=bool))
    return _components(a, b)


def _components(a: Columns, b: Columns) -> Columns:
    """(d,) the first column of each one's component, where column a[i] is linked to column b[i].

    Each column occurs in a.
    """
    d = int(np.max(a)) + 1
    graph = scipy.sparse.coo_array((np.ones(len(a)), (a, b)), shape=(d, d))
    component = scipy.sparse.csgraph.connected_components(graph, directed=False)[1]
    _, first, which = np.unique(component, return_index=True, return_inverse=True)
    return np.asarray(first[which], dtype=np.intp)
