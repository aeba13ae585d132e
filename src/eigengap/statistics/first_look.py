"""What nearly every fit asks first, in one pass over a table that is expensive to read.

Which values are observed, a sample of the rows, and the moments: of complete rows with their
scatter, else of each column by itself. Where a part of the rows is complete its column moments are
the diagonal of its moments, so that nothing is computed twice.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from eigengap.sources.base import Block, Draw, ObservedCells, Source, seed_of
from eigengap.statistics.moments import ColumnMoments, Moments

SAMPLED_CELLS = 2_000_000
FEWEST, MOST = 200, 2000  # rows


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
        if self.rows is None:
            assert self.incomplete is not None  # one of the two is there
            return self.incomplete
        rows, d = self.rows, len(self.rows.mean)
        return ColumnMoments(
            counts=np.full(d, rows.n_rows),
            sum_w=np.full(d, rows.sum_w),
            mean=rows.mean,
            m2=np.maximum(np.diagonal(rows.scatter), 0.0),
            n_rows=rows.n_rows,
            tail=rows.tail,
        )
