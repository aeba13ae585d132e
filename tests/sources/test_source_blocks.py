"""Laws of a source: however the rows are cut, the verbs see the same table."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from eigengap.runtime.threads import in_turn
from eigengap.sources.array import ArraySource
from eigengap.sources.base import Block, merge_tree
from eigengap.sources.blocked import merge_stream
from eigengap.sources.conversion import as_source

N, D = 211, 4


@dataclass(frozen=True)
class Tree:
    """A statistic that remembers how it was merged."""

    shape: object

    def merge(self, other: Tree) -> Tree:
        return Tree((self.shape, other.shape))


@dataclass(frozen=True)
class Sums:
    rows: int
    total: np.ndarray

    @classmethod
    def of(cls, block: Block) -> Sums:
        return cls(block.n_rows, np.asarray(block.values.sum(axis=0)))

    def merge(self, other: Sums) -> Sums:
        return Sums(self.rows + other.rows, self.total + other.total)


@pytest.fixture
def X() -> np.ndarray:
    # Small integers: sums are exact, so equality does not hide a lost row.
    return np.random.default_rng(0).integers(-9, 9, size=(N, D)).astype(float)


LAYOUTS = {
    "C": np.ascontiguousarray,
    "F": np.asfortranarray,
    "strided": lambda X: np.repeat(np.repeat(X, 2, axis=0), 3, axis=1)[::2, ::3],
    "reversed": lambda X: X[::-1, ::-1].copy()[::-1, ::-1],
    "csr": sp.csr_array,
    "csc": sp.csc_matrix,
    "coo": sp.coo_array,
}


@pytest.mark.parametrize("block_rows", [1, 7, 100, N, 10 * N])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_blocks_partition_the_table_in_order(X, layout, block_rows):
    source = as_source(LAYOUTS[layout](X), block_rows=block_rows)
    starts: list[int] = []

    def dense(block: Block) -> np.ndarray:
        starts.append(block.start)
        assert block.n_rows <= block_rows
        return block.values.toarray() if source.is_sparse else block.values

    np.testing.assert_array_equal(source.map(dense), X)
    assert starts == list(range(0, N, block_rows))
    sums = source.reduce(Sums.of)
    assert sums.rows == N
    np.testing.assert_array_equal(sums.total, X.sum(axis=0))
    assert source.passes == 2


@given(st.integers(1, 200))
@settings(max_examples=40)
def test_stream_follows_the_tree(count):
    parts = [Tree(i) for i in range(count)]
    assert merge_stream(iter(parts)) == merge_tree(parts)


@given(st.integers(1, 500), st.integers(1, 5000))
@settings(max_examples=40)
def test_block_bytes_bound_blocks_and_blocks_are_even(n, block_bytes):
    sizes: list[int] = []
    source = as_source(np.zeros((n, 3)), block_bytes=block_bytes)
    source.map(lambda block: sizes.append(block.n_rows) or block.values)
    assert sum(sizes) == n
    assert max(sizes) <= max(1, -(-block_bytes // 24))
    assert len(set(sizes[:-1])) <= 1
    assert sizes[-1] <= sizes[0]


@pytest.mark.parametrize("layout", ["C", "F", "strided", "reversed"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_nothing_dense_is_copied(X, layout, dtype):
    X = LAYOUTS[layout](X.astype(dtype))
    source = as_source(X, block_rows=50)
    assert source.collect() is X
    assert source.dtype == dtype
    assert source.map(
        lambda block: np.full((block.n_rows, 1), np.shares_memory(block.values, X))
    ).all()


def test_csr_blocks_are_views_and_canonical(X):
    csr = sp.csr_array(X)
    source = as_source(csr, block_rows=50)

    def shares(block: Block) -> np.ndarray:
        assert block.values.has_canonical_format
        return np.full(block.n_rows, np.shares_memory(block.values.data, csr.data))

    assert source.map(shares).all()


def test_weights_travel_with_their_rows(X):
    w = np.arange(N, dtype=float)
    source = as_source(X, sample_weight=w, block_rows=13)
    np.testing.assert_array_equal(source.map(lambda block: block.weight), w)
    assert as_source(X).map(lambda block: np.array([block.weight is None])).all()


def test_prepared_blocks_are_computed_once_and_passes_are_shared(X):
    source = as_source(X, block_rows=50)
    observed: list[int] = []

    def prepare(block: Block) -> Sums:
        observed.append(block.start)
        return Sums.of(block)

    ready = source.prepared(prepare)
    assert observed == []
    assert source.passes == 0
    for _ in range(3):
        np.testing.assert_array_equal(ready.reduce(lambda sums: sums).total, X.sum(axis=0))
    assert observed == [0, 50, 100, 150, 200]
    assert source.passes == ready.passes == 3
    assert ready.collect() is X
    twice = ready.prepared(lambda sums: Sums(sums.rows, 2 * sums.total))
    np.testing.assert_array_equal(twice.reduce(lambda sums: sums).total, 2 * X.sum(axis=0))
    assert observed == [0, 50, 100, 150, 200]
    assert source.passes == 4


def test_an_interrupted_preparation_goes_on_where_it_stopped(X):
    source = as_source(X, block_rows=50)
    prepared: list[int] = []
    ready = source.prepared(lambda block: prepared.append(block.start) or block)

    def stops(block: Block) -> Sums:
        if block.start == 100:
            raise KeyboardInterrupt
        return Sums.of(block)

    with in_turn():  # else some that were under way are made again
        with pytest.raises(KeyboardInterrupt):
            ready.reduce(stops)
        assert ready.reduce(Sums.of).rows == N
    assert prepared == [0, 50, 100, 150, 200]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_sample_draws_distinct_rows_whatever_the_blocks(layout):
    X = np.arange(60.0).reshape(20, 3) + 1
    drawn = as_source(LAYOUTS[layout](X)).sample(8, np.random.default_rng(1))
    again = as_source(LAYOUTS[layout](X), block_rows=3).sample(8, np.random.default_rng(1))
    np.testing.assert_array_equal(drawn, again)
    assert drawn.dtype == np.float64
    assert len({tuple(row) for row in drawn}) == 8
    assert {tuple(row) for row in drawn} <= {tuple(row) for row in X}


def test_sample_never_draws_a_row_of_weight_zero():
    X = np.arange(20.0).reshape(10, 2)
    w = np.array([0, 1, 0, 2, 0, 3, 0, 1, 0, 5.0])
    source = as_source(X, sample_weight=w)
    drawn = source.sample(5, np.random.default_rng(0))
    assert {tuple(row) for row in drawn} == {tuple(row) for row in X[1::2]}
    with pytest.raises(ValueError, match="cannot draw 6 distinct rows from 5"):
        source.sample(6, np.random.default_rng(0))


def test_sample_of_float32_is_float64():
    assert as_source(np.ones((5, 2), dtype="f4")).sample(2, np.random.default_rng(0)).dtype == "f8"


@pytest.mark.parametrize("block_rows", [1, 7, N])
def test_missing_per_column_counts_without_a_pass(X, block_rows):
    X[np.random.default_rng(1).random(X.shape) < 0.2] = np.nan
    source = as_source(X, block_rows=block_rows)
    assert source.has_missing is True
    np.testing.assert_array_equal(source.missing_per_column(), np.isnan(X).sum(axis=0))
    assert source.passes == 0
    ready = source.prepared(lambda block: None)
    np.testing.assert_array_equal(ready.missing_per_column(), np.isnan(X).sum(axis=0))


def test_missing_per_column_without_missing_and_for_the_rows_that_count(X):
    assert as_source(X).has_missing is False
    assert not as_source(X).missing_per_column().any()
    assert not as_source(sp.csr_array(X)).missing_per_column().any()
    X[3, 1] = X[5, 1] = np.nan
    w = np.ones(N)
    w[3] = 0
    np.testing.assert_array_equal(as_source(X, sample_weight=w).missing_per_column(), [0, 1, 0, 0])


def test_observed_of_a_source_that_only_reduces(X):
    """The base class counts by a pass; the source in memory must agree with it."""
    X[X > 6] = np.nan
    w = np.random.default_rng(0).integers(0, 3, N).astype(float)
    source = as_source(X, sample_weight=w, block_rows=10)
    by_pass = super(ArraySource, source).observed()
    assert source.passes == 1
    assert (by_pass.rows, by_pass.sum_w) == (source.observed().rows, source.observed().sum_w)
    np.testing.assert_array_equal(by_pass.per_column, source.observed().per_column)


def test_a_source_passes_through():
    source = as_source(np.ones((3, 2)))
    assert as_source(source) is source
    with pytest.raises(ValueError, match="source already"):
        as_source(source, sample_weight=[1, 1, 1])


def test_block_rows_must_be_positive():
    with pytest.raises(ValueError, match="block_rows must be at least 1, got 0"):
        as_source(np.ones((3, 2)), block_rows=0)
