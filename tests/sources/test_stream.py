"""Laws of a table that is read in blocks: what is counted, kept, refused."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eigengap.exceptions import DoesNotFitError, UnreadableError
from eigengap.sources import reader as streamed
from eigengap.sources.base import ObservedCells
from eigengap.sources.conversion import as_source
from eigengap.sources.reader import Reader, StreamSource, ahead, recut
from eigengap.statistics.first_look import look_first
from eigengap.statistics.moments import ColumnMoments, Moments


class Rows(Reader):
    """A table that counts how often it is read, in pieces of a given length."""

    where = "table"

    def __init__(self, X, piece=10, known=True):
        self.X, self.piece = X, piece
        self.n_features, self.names, self.dtype = X.shape[1], None, X.dtype
        self.n_rows = len(X) if known else None
        self.reads = 0

    def pieces(self, rows):
        self.reads += 1
        for start in range(0, len(self.X), self.piece):
            yield self.X[start : start + self.piece].copy()


@pytest.fixture
def X():
    rng = np.random.default_rng(0)
    return rng.normal([0, 1, -5, 100], size=(103, 4))


@given(
    lengths=st.lists(st.integers(0, 20), max_size=12),
    rows=st.integers(1, 25),
)
def test_recut_keeps_every_row_in_order(lengths, rows):
    X = np.arange(float(sum(lengths)))[:, None]
    pieces = iter(np.split(X, np.cumsum(lengths)[:-1])) if lengths else iter(())
    cut = list(recut(pieces, rows))
    assert all(len(piece) == rows for piece in cut[:-1])
    assert all(0 < len(piece) <= rows for piece in cut)
    np.testing.assert_array_equal(np.concatenate([X[:0], *cut]), X)


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("block_rows", [1, 7, 103, 1000])
def test_it_is_the_table_in_memory(X, block_rows, known):
    X[5, 2] = X[50, 0] = np.nan
    reader = Rows(X, known=known)
    there, here = StreamSource(reader, block_rows=block_rows), as_source(X)
    observed = there.observed()
    assert (observed.rows, observed.sum_w) == (103, 103.0)
    assert there.n_rows == 103
    assert there.has_missing is True
    np.testing.assert_array_equal(observed.per_column, here.observed().per_column)
    np.testing.assert_array_equal(there.collect(), X)
    mean = there.reduce(ColumnMoments.of).mean
    np.testing.assert_allclose(mean, here.reduce(ColumnMoments.of).mean, rtol=1e-13)
    drawn = (source.sample(9, np.random.default_rng(4)) for source in (there, here))
    np.testing.assert_array_equal(*drawn)


def test_a_first_look_is_one_pass_and_answers_what_is_asked_next(X):
    reader = Rows(X)
    source = StreamSource(reader, block_rows=10)
    look_first(source, scatter=True)
    moments, columns = source.reduce(Moments.of), source.reduce(ColumnMoments.of)
    source.observed(), source.sample(50, np.random.default_rng(0)), source.has_missing
    assert reader.reads == source.passes == 1
    np.testing.assert_allclose(moments.scatter, as_source(X).reduce(Moments.of).scatter)
    np.testing.assert_allclose(columns.variance, X.var(axis=0))


def test_a_first_look_at_missing_has_no_scatter(X):
    X[70, 1] = np.nan
    reader = Rows(X)
    source = StreamSource(reader, block_rows=10)
    look_first(source, scatter=True)
    np.testing.assert_allclose(source.reduce(ColumnMoments.of).variance, np.nanvar(X, axis=0))
    assert reader.reads == 1
    assert source.reduce(Moments.of).n_missing == 1  # by a pass of its own
    assert reader.reads == 2


def test_prepared_blocks_are_kept_while_they_are_small(X, monkeypatch):
    for share, reads in ((1.0, 1), (0.0, 4)):
        monkeypatch.setattr(streamed, "KEPT_SHARE", share)
        reader = Rows(X)
        source = StreamSource(reader, block_rows=10)
        ready = source.prepared(lambda block: block)
        for _ in range(4):
            assert ready.reduce(ObservedCells.of).rows == 103
        assert (reader.reads, source.passes) == (reads, 4)


def test_rows_of_weight_zero_are_as_if_absent(X):
    w = np.tile([0.0, 1.0, 2.0], 35)[:103]
    X[0] = np.inf  # told all the same: it is in the file
    with pytest.raises(UnreadableError, match="infinity"):
        StreamSource(Rows(X), weight=w).observed()
    X[0] = np.nan
    source = StreamSource(Rows(X), weight=w, block_rows=10)
    assert source.observed().rows == np.count_nonzero(w)
    assert source.has_missing is False
    kept = as_source(X[w > 0], sample_weight=w[w > 0])
    np.testing.assert_allclose(source.reduce(Moments.of).scatter, kept.reduce(Moments.of).scatter)


@pytest.mark.parametrize("known", [True, False])
def test_weights_of_another_length_are_refused(X, known):
    words = r"sample_weight has 5 entries but X has (at least )?103 rows"
    with pytest.raises(ValueError, match=words):
        StreamSource(Rows(X, known=known), weight=np.ones(5)).observed()


def test_infinity_is_located_in_the_file(X):
    X[77, 3] = -np.inf
    with pytest.raises(UnreadableError, match=r'"table".*-inf at row 77, column 3'):
        StreamSource(Rows(X), block_rows=10).observed()


@pytest.mark.parametrize("change", [-1, 1])
def test_a_table_that_changes_between_passes_is_told(X, change):
    reader = Rows(X, known=False)
    source = StreamSource(reader, block_rows=10)
    source.observed()
    reader.X = X[:change] if change < 0 else np.vstack([X, X[:change]])
    with pytest.raises(UnreadableError, match=r"longer|ends after row 101"):
        source.reduce(Moments.of)


def test_an_empty_table_is_told():
    with pytest.raises(ValueError, match=r"0 sample\(s\)"):
        StreamSource(Rows(np.empty((0, 3)), known=False)).observed()


def test_what_does_not_fit_is_not_collected(X, monkeypatch):
    monkeypatch.setattr("eigengap.runtime.memory.free_memory", lambda: 1000)
    source = StreamSource(Rows(X))
    with pytest.raises(DoesNotFitError, match=r"103 rows and 4 columns.*sample"):
        source.collect()
    with pytest.raises(DoesNotFitError, match=r"eigengap\.stream"):
        source.map(lambda block: block.values)


def test_reading_ahead_overlaps_and_ends_with_its_reader():
    closed = threading.Event()

    def parts():
        try:
            yield from range(1000)
        finally:
            closed.set()

    taken = ahead(parts(), depth=2)
    assert [next(taken) for _ in range(3)] == [0, 1, 2]
    assert not closed.is_set()
    taken.close()
    assert closed.wait(5)
    assert not any(thread.name.startswith("eigengap-ahead") for thread in threading.enumerate())


def test_what_reading_raises_arrives_in_its_place():
    def parts():
        yield 1
        raise UnreadableError("file", "broken")

    taken = ahead(parts())
    assert next(taken) == 1
    with pytest.raises(UnreadableError, match="broken"):
        next(taken)


def test_no_more_than_the_depth_is_read_before_it_is_asked_for():
    read = []

    def parts():
        for i in range(100):
            read.append(i)
            yield i

    taken = ahead(parts(), depth=1)
    next(taken)
    time.sleep(0.3)
    assert len(read) <= 3  # one taken, one waiting, one in the reader's hand
    taken.close()
