"""What a stream of rows leaves behind, and models from it.

Complete rows leave their moments (`statistics.moments`, Chan's merge), which is all that a fit asks
of them (`fitting.online.rows`): the model is that of all rows together, whatever the batches.

Incomplete rows are kept as they are until there are `most_kept` of them. Until then a fit is that
of all rows, too. Then they are settled: replaced by the expected statistics of an E-step, which
depend on the parameters at that time. This is online EM (Cappe and Moulines 2009, "On-line EM
algorithm for latent data models"): after the t-th such chunk the statistics are

    s_t = (1 - gamma_t) s_{t-1} + gamma_t E[chunk | parameters],  gamma_t = (1 + a) / (t + a),

and the parameters those that maximise s_t and the statistics of complete rows, which are computed
anew at each step. a = 0 would count all rows alike; with a > 0 early chunks, whose statistics owe
something to poorer parameters, count less. Chunks are cut by the number of incomplete rows, not by
batches, so that only the order of the rows matters, never the size of the batches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from eigengap.fitting.gaussian.problem import GaussianFit
from eigengap.fitting.online.em import (
    Present,
    Settled,
    StreamSpec,
    StreamUnits,
    fit_settled,
    settled_first,
    settled_next,
)
from eigengap.fitting.online.rows import Kept, StreamedRows
from eigengap.linalg import Array
from eigengap.models.gaussian.information import Noise, ObservationPattern
from eigengap.models.gaussian.linear_gaussian import LinearGaussian
from eigengap.runtime.memory import require_memory
from eigengap.sources.base import Block, Draw, Drawn, ObservedCells, Rows
from eigengap.sources.wording import column
from eigengap.statistics.moments import ColumnMoments, ColumnRange, Moments, refuse_overflow

KEPT_ROWS = 2000  # incomplete, at most, or as many as there are columns
PATIENCE = 10  # times that many rows are kept while a column has had no value at all
WAITING = 256  # rows of small batches that are taken in together
LARGEST = 1e140  # of a cell that may wait: its square, many times, is no overflow
PATTERNS = 500  # of missing values, a sample: they determine the uncertainty of the parameters
MATRICES = 6  # of d x d numbers at a time: two moments that merge, their sum, an eigensolver

# (rows, origin) -> their fit, measured from the origin too, in units of the data
FirstFit = Callable[[StreamedRows, Array], GaussianFit]


@dataclass(frozen=True, eq=False)
class Stream:
    """All that is known of the rows so far, measured from `origin`.

    A mean that is far from zero has few digits left for what the next row changes in it.
    """

    names: tuple[str, ...] | None
    origin: Array  # (d,) the first value of each column, 0 before it
    moments: Moments  # of complete rows
    columns: ColumnMoments  # of the observed cells of all rows
    extent: ColumnRange  # of the same
    kept: Kept  # incomplete rows that are not settled
    patterns: Drawn  # of missing values, and the weight of the row, of a sample
    n_incomplete: int = 0  # incomplete rows, settled or not
    incomplete_w: float = 0.0  # their weight
    settled: Settled | None = None
    waiting: tuple[Block, ...] = ()  # small batches that are not yet in all of the above
    n_waiting: int = 0  # rows in them

    @classmethod
    def empty(cls, d: int, names: tuple[str, ...] | None) -> Stream:
        """Before the first row; refuses more columns than memory has room for, squared."""
        require_memory(
            8.0 * MATRICES * d * d,
            f"partial_fit of {d} columns, which keeps their covariance,",
            "fit on the whole table or a file of it, which need not form a covariance, or take "
            "fewer columns",
        )
        zero, missing = np.zeros(d), np.full(d, np.nan)
        return cls(
            names=names,
            origin=zero,
            moments=Moments(0.0, zero, np.zeros((d, d)), 0),
            columns=ColumnMoments(np.zeros(d, np.int64), zero, zero, zero, 0),
            extent=ColumnRange(missing, missing),
            kept=Kept.none(d),
            patterns=Drawn(PATTERNS, np.empty(0), np.empty((0, d + 1))),
        )

    @classmethod
    def of_model(
        cls, model: LinearGaussian, n_rows: int, sum_w: float, names: tuple[str, ...] | None
    ) -> Stream:
        """A stream that begins with complete rows of which only their model is known.

        They are taken to have the model's mean and covariance.
        """
        empty = cls.empty(model.d, names)
        C = model.covariance()
        zero, ones = np.zeros(model.d), np.ones(model.d)
        sd = np.sqrt(np.diag(C))
        return replace(
            empty,
            origin=model.mu,
            moments=Moments(sum_w, zero, C * sum_w, n_rows),
            columns=ColumnMoments(
                np.full(model.d, n_rows), sum_w * ones, zero, sum_w * np.diag(C), n_rows
            ),
            extent=ColumnRange(-sd, sd),
        )

    @property
    def d(self) -> int:
        return len(self.columns.mean)

    @property
    def n_rows(self) -> int:
        return self.moments.n_rows + self.n_incomplete + self.n_waiting

    @property
    def sum_w(self) -> float:
        return self.moments.sum_w + self.incomplete_w

    def units(self, spec: StreamSpec) -> StreamUnits:
        """Those of online EM."""
        zero = self.columns.mean if spec.model.fit_mean else -self.origin
        return StreamUnits.of(self.columns, self.origin, zero, spec)

    def present(self, spec: StreamSpec) -> Present:
        """The rows that are not settled, for online EM."""
        return Present(self.units(spec), self.columns.sum_w, self.moments, self.kept)

    def fit_settled(self, spec: StreamSpec) -> GaussianFit:
        """The model of all rows so far, from the origin, in units of scaled columns."""
        assert self.settled is not None
        return fit_settled(self.settled, self.present(spec), spec)

    def rows(self) -> StreamedRows:
        """The rows before a fit."""
        observed = ObservedCells(self.n_rows, self.sum_w, self.columns.counts.astype(np.intp))
        return StreamedRows(
            self.moments, self.columns, self.extent, self.kept, observed, self.names
        )

    def evidence(self, noise: Noise, fits_mean: bool) -> ObservationPattern:
        """Which cells were observed, of complete rows once and of a sample of the others."""
        observed_w = self.columns.sum_w
        if self.n_incomplete == 0:
            return ObservationPattern(
                np.ones((1, self.d), dtype=bool), observed_w, noise, fits_mean
            )
        drawn = self.patterns.rows
        count = drawn[:, -1]  # all of them are there
        if self.n_incomplete > len(drawn):
            count = np.full(
                len(drawn), self.incomplete_w / len(drawn)
            )  # heavy rows come more often
        observed = drawn[:, :-1] > 0.0
        if self.moments.sum_w > 0.0:
            observed = np.concatenate([np.ones((1, self.d), dtype=bool), observed])
            count = np.concatenate([[self.moments.sum_w], count])
        return ObservationPattern(observed, observed_w, noise, fits_mean, 0.0, count)


def most_kept(d: int) -> int:
    """Incomplete rows that are kept: no more memory than the covariance takes, or little."""
    return max(KEPT_ROWS, d)


def taken_in(stream: Stream, block: Block, spec: StreamSpec, first_fit: FirstFit) -> Stream:
    """The stream with the rows of a block, all of positive weight.

    Small blocks wait for each other, because each that is taken in costs d^2 operations.
    """
    if block.n_rows == 0:
        return stream
    harmless = False  # whether no square overflows, so that taking the rows in later cannot fail
    if block.n_rows < WAITING and isinstance(block.values, np.ndarray):
        size = np.abs(block.values)
        harmless = float(np.max(size, initial=0.0, where=~np.isnan(size))) <= LARGEST
    if harmless:
        values = np.array(block.values, dtype=np.float64)  # a copy: the caller may change them
        stream = replace(
            stream,
            waiting=(*stream.waiting, replace(block, values=values)),
            n_waiting=stream.n_waiting + block.n_rows,
        )
        return stream if stream.n_waiting < WAITING else complete(stream, spec, first_fit)
    return _taken_in(complete(stream, spec, first_fit), block, spec, first_fit)


def complete(stream: Stream, spec: StreamSpec, first_fit: FirstFit) -> Stream:
    """The stream with no rows waiting."""
    if not stream.waiting:
        return stream
    block = together(stream.waiting)
    return _taken_in(replace(stream, waiting=(), n_waiting=0), block, spec, first_fit)


def together(blocks: Sequence[Block]) -> Block:
    """Dense blocks as one."""
    weights = [np.ones(b.n_rows) if b.weight is None else b.weight for b in blocks]
    weight = None if all(b.weight is None for b in blocks) else np.concatenate(weights)
    return Block(np.concatenate([b.values for b in blocks]), weight, None, 0)


def _taken_in(stream: Stream, block: Block, spec: StreamSpec, first_fit: FirstFit) -> Stream:
    stream = _with_origin(stream, block.values)
    for piece in _pieces(stream, block):
        stream = _with_piece(stream, piece)
        if len(stream.kept.values) >= most_kept(stream.d):
            stream = _settled(stream, spec, first_fit)
    return stream


def _with_origin(stream: Stream, values: Rows) -> Stream:
    """The stream with an origin for columns that have had no value so far.

    Nothing was counted of them yet, so that nothing has to be moved.
    """
    new = stream.columns.counts == 0
    if not new.any() or not isinstance(values, np.ndarray):
        return stream
    observed = ~np.isnan(values)
    first = values[np.argmax(observed, axis=0), np.arange(stream.d)]
    return replace(stream, origin=np.where(new & observed.any(axis=0), first, stream.origin))


def _pieces(stream: Stream, block: Block) -> Iterator[Block]:
    """The block, cut where as many incomplete rows are kept as may be."""
    most = most_kept(stream.d)
    incomplete = np.flatnonzero(_has_missing(block.values))
    room = most - len(stream.kept.values)
    ends = incomplete[max(room, 1) - 1 :: most] + 1
    start = 0
    for end in [*ends.tolist(), block.n_rows]:
        if end > start:
            weight = None if block.weight is None else block.weight[start:end]
            yield Block(block.values[start:end], weight, None, start)
        start = end


def _with_piece(stream: Stream, piece: Block) -> Stream:
    missing = _has_missing(piece.values)
    moments, columns, left = stream.moments, stream.columns, stream.origin
    if isinstance(piece.values, np.ndarray):  # sparse rows stay so: their sums are moved instead
        values = np.asarray(piece.values, dtype=np.float64)
        piece, left = replace(piece, values=values - left), np.zeros(stream.d)
    with np.errstate(over="ignore", invalid="ignore"):  # what overflows is refused
        found_range = ColumnRange.of(piece)
        extent = stream.extent.merge(ColumnRange(found_range.low - left, found_range.high - left))
        if not missing.all():
            found = Moments.of(piece if not missing.any() else _some(piece, ~missing))
            found = replace(found, mean=found.mean - left)
            refuse_overflow(float(np.sum(found.scatter)))
            moments, columns = moments.merge(found), columns.merge(found.columns)
        if missing.any():
            some = _some(piece, missing)
            columns = columns.merge(ColumnMoments.of(some))
            refuse_overflow(float(np.sum(columns.m2)))
    stream = replace(stream, moments=moments, columns=columns, extent=extent)
    return _with_incomplete(stream, some) if missing.any() else stream


def _with_incomplete(stream: Stream, some: Block) -> Stream:
    weight = np.ones(some.n_rows) if some.weight is None else some.weight
    shown = Block(
        np.column_stack([~np.isnan(some.values), weight]), weight, None, stream.n_incomplete
    )
    return replace(
        stream,
        kept=stream.kept.and_more(some.values, weight),
        patterns=stream.patterns.merge(Draw(PATTERNS, 0)(shown)),
        n_incomplete=stream.n_incomplete + some.n_rows,
        incomplete_w=stream.incomplete_w + float(np.sum(weight)),
    )


def _settled(stream: Stream, spec: StreamSpec, first_fit: FirstFit) -> Stream:
    """The stream with the kept rows in the expected statistics."""
    missing = np.flatnonzero(stream.columns.counts == 0)
    if len(missing):
        if len(stream.kept.values) < PATIENCE * most_kept(stream.d):
            return stream
        raise ValueError(
            f"column {column(stream.names, int(missing[0]))} had no value in the first "
            f"{stream.n_rows} rows; leave it out"
        )
    if stream.settled is None:
        first = first_fit(stream.rows(), stream.origin)
        settled = settled_first(stream.units(spec), stream.kept, first, spec)
    else:
        settled = settled_next(stream.settled, stream.present(spec), spec)
    return replace(stream, settled=settled, kept=Kept.none(stream.d))


def _has_missing(values: Rows) -> Any:
    """(c,) whether a value of the row is missing."""
    if not isinstance(values, np.ndarray):
        return np.zeros(values.shape[0], dtype=bool)  # the zeros of a sparse table are zeros
    return np.isnan(values).any(axis=1)


def _some(block: Block, which: Any) -> Block:
    weight = None if block.weight is None else block.weight[which]
    return Block(block.values[which], weight, None, block.start)
