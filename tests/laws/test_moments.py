"""Laws of the merging statistics: partition, order and weights do not matter."""

from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st

from eigengap.sources.base import Block, merge_tree
from eigengap.statistics.covariance import CovarianceProduct, Triangle
from eigengap.statistics.moments import ColumnMoments, ColumnRange, Moments


def block(values, weight=None, start=0):
    return Block(values, weight, None, start)


def cut(values, weight, cuts):
    edges = [0, *sorted(cuts), len(values)]
    return [
        block(values[a:b], None if weight is None else weight[a:b], a)
        for a, b in pairwise(edges)
        if b > a
    ]


def dense_moments(X, w):
    """Mean and scatter in extended precision."""
    X, w = X.astype(np.longdouble), w.astype(np.longdouble)
    mean = (w[:, None] * X).sum(axis=0) / w.sum()
    R = X - mean
    return mean.astype(float), ((w[:, None] * R).T @ R).astype(float)


def assert_same(a, b, scale):
    assert a.n_rows == b.n_rows
    np.testing.assert_allclose(a.sum_w, b.sum_w, rtol=1e-13)
    np.testing.assert_allclose(a.mean, b.mean, rtol=1e-13, atol=1e-13)
    np.testing.assert_allclose(a.scatter, b.scatter, rtol=0, atol=1e-12 * scale)


tables = st.builds(
    lambda seed, n, d, offset: np.random.default_rng(seed).normal(size=(n, d)) + offset,
    st.integers(0, 1000),
    st.integers(3, 30),
    st.integers(1, 5),
    st.sampled_from([0.0, 3.0, 100.0]),
)


@settings(max_examples=25, deadline=None)
@given(tables, st.data(), st.booleans())
def test_any_partition_equals_one_block(X, data, weighted):
    n = len(X)
    w = np.random.default_rng(n).uniform(0, 3, n) if weighted else None
    cuts = data.draw(st.lists(st.integers(1, n - 1), max_size=6))
    whole = Moments.of(block(X, w))
    parts = merge_tree([Moments.of(b) for b in cut(X, w, cuts)])
    mean, scatter = dense_moments(X, np.ones(n) if w is None else w)
    scale = max(np.trace(scatter), 1.0)
    assert_same(whole, parts, scale)
    np.testing.assert_allclose(parts.scatter, scatter, rtol=0, atol=1e-12 * scale)
    np.testing.assert_allclose(parts.mean, mean, rtol=1e-13, atol=1e-13)


@settings(max_examples=25, deadline=None)
@given(tables)
def test_merge_is_commutative_and_associative(X):
    third = len(X) // 3
    a, b, c = (Moments.of(block(X[i])) for i in np.split(np.arange(len(X)), [third, 2 * third]))
    scale = max(len(X), 1.0)
    assert_same(a.merge(b), b.merge(a), scale)
    assert_same(a.merge(b).merge(c), a.merge(b.merge(c)), scale)


@pytest.mark.parametrize("offset", [0.0, 1e5])
@pytest.mark.parametrize("to", [np.asarray, scipy.sparse.csr_array])
def test_integer_weights_repeat_rows(offset, to):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(40, 4)) * (rng.random((40, 4)) < 0.5) + offset
    w = rng.integers(0, 4, 40)
    weighted, repeated = block(to(X), w.astype(float)), block(to(np.repeat(X, w, axis=0)))
    a, b = Moments.of(weighted), Moments.of(repeated)
    np.testing.assert_allclose(a.scatter, b.scatter, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(a.mean, b.mean, rtol=1e-13)
    assert a.sum_w == b.sum_w == b.n_rows
    assert a.n_rows == np.count_nonzero(w)
    c, e = ColumnMoments.of(weighted), ColumnMoments.of(repeated)
    np.testing.assert_allclose(c.m2, e.m2, rtol=1e-9)
    np.testing.assert_allclose(c.mean, e.mean, rtol=1e-13, atol=1e-15)


@pytest.mark.parametrize("n", [50, 5000])
@pytest.mark.parametrize("offset", [0.0, 5.0, 1e3, 1e8])
@pytest.mark.parametrize("weighted", [False, True])
def test_no_cancellation_whatever_the_offset(n, offset, weighted):
    rng = np.random.default_rng(2)
    X = rng.normal(size=(n, 30)) * np.geomspace(1, 1e-3, 30) + offset
    w = rng.uniform(0.5, 2, n) if weighted else np.ones(n)
    mean, scatter = dense_moments(X, w)
    got = Moments.of(block(X, w if weighted else None))
    sd = np.sqrt(np.diag(scatter))
    error = np.abs(got.scatter - scatter) / np.outer(sd, sd)  # relative to each pair of columns
    assert error.max() < 1e-12
    np.testing.assert_allclose(got.mean, mean, rtol=1e-15, atol=1e-13)
    np.testing.assert_allclose(Moments.of(block(X, w), mean).scatter, got.scatter, atol=1e-12 * n)


@pytest.mark.parametrize("offset", [0.0, 1e4])
@pytest.mark.parametrize("scale", [1.0, 1e-25, 1e25])
def test_float32_products_keep_float32_accuracy(offset, scale):
    rng = np.random.default_rng(3)
    X = ((rng.normal(size=(20_000, 10)) * np.linspace(1, 5, 10) + offset) * scale).astype("f4")
    mean, scatter = dense_moments(X, np.ones(len(X)))
    got = Moments.of(block(X))
    sd = np.sqrt(np.diag(scatter))
    assert (np.abs(got.scatter - scatter) / np.outer(sd, sd)).max() < 2e-6
    np.testing.assert_allclose(got.mean, mean, rtol=1e-7, atol=1e-7 * scale)
    exact = Moments.of(block(X), exact=True).scatter
    assert (np.abs(exact - scatter) / np.outer(sd, sd)).max() < 1e-12


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("n", [7, 30_000])
def test_a_constant_column_has_exactly_no_scatter(dtype, n):
    X = np.random.default_rng(4).normal(size=(n, 5)).astype(dtype)
    X[:, 2] = 0.1
    X[:, 3] = 0.0
    parts = [Moments.of(b) for b in cut(X, None, [n // 3, n // 2])]
    assert not merge_tree(parts).scatter[[2, 3]].any()
    assert not ColumnMoments.of(block(X)).m2[[2, 3]].any()


def test_missing_are_counted_and_spread():
    X = np.random.default_rng(5).normal(size=(20, 3))
    complete = Moments.of(block(X))
    X[4, 1] = X[5, 2] = np.nan
    merged = complete.merge(Moments.of(block(X)))
    assert merged.n_missing == 2
    assert not np.isfinite(merged.scatter).any()
    X[4, 1] = X[5, 2] = np.inf
    assert Moments.of(block(X)).n_missing == 0


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 1000), st.sampled_from([0.0, 1e6]), st.lists(st.integers(1, 39), max_size=5))
def test_column_moments_skip_missing_cells(seed, offset, cuts):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(40, 6)) + offset
    X[rng.random(X.shape) < 0.3] = np.nan
    X[:, 5] = np.nan
    X[3, :5] = offset
    got = merge_tree([ColumnMoments.of(b) for b in cut(X, None, cuts)])
    np.testing.assert_array_equal(got.counts, np.sum(~np.isnan(X), axis=0))
    np.testing.assert_array_equal(got.sum_w, got.counts)
    np.testing.assert_allclose(got.mean[:5], np.nanmean(X[:, :5], axis=0), rtol=1e-13, atol=1e-13)
    np.testing.assert_allclose(got.variance[:5], np.nanvar(X[:, :5], axis=0), rtol=1e-9, atol=1e-13)
    assert got.mean[5] == got.variance[5] == 0.0
    low_high = merge_tree([ColumnRange.of(b) for b in cut(X, None, cuts)])
    np.testing.assert_array_equal(low_high.low[:5], np.nanmin(X[:, :5], axis=0))
    np.testing.assert_array_equal(low_high.high[:5], np.nanmax(X[:, :5], axis=0))
    assert np.isnan(low_high.low[5])


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("offset", [0.0, 50.0])
def test_sparse_equals_dense(dtype, offset):
    rng = np.random.default_rng(6)
    X = (rng.normal(size=(60, 5)) * (rng.random((60, 5)) < 0.3)).astype(dtype)
    X[:, 0] += offset
    w = rng.uniform(0, 2, 60)
    sparse, dense = block(scipy.sparse.csr_array(X), w), block(X, w)
    a, b = Moments.of(sparse), Moments.of(dense)
    np.testing.assert_allclose(a.scatter, b.scatter, rtol=1e-10, atol=1e-10)
    c, e = ColumnMoments.of(sparse), ColumnMoments.of(dense)
    np.testing.assert_allclose(c.mean, e.mean, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(c.m2, e.m2, rtol=1e-10)
    np.testing.assert_allclose(np.diag(b.scatter), e.m2, rtol=1e-10)
    f, g = ColumnRange.of(sparse), ColumnRange.of(dense)
    np.testing.assert_array_equal(f.low, g.low)
    np.testing.assert_array_equal(f.high, g.high)


@pytest.mark.parametrize("to", [np.asarray, scipy.sparse.csr_array])
@pytest.mark.parametrize("weighted", [False, True])
def test_covariance_product_is_the_scatter_times_v(to, weighted):
    rng = np.random.default_rng(7)
    X, V = rng.normal(size=(90, 8)) + 1.0, rng.normal(size=(8, 3))
    w = rng.uniform(0, 2, 90) if weighted else None
    mean, scatter = dense_moments(X, np.ones(90) if w is None else w)
    parts = [
        CovarianceProduct.of(block(to(b.values), b.weight), V, mean) for b in cut(X, w, [10, 45])
    ]
    np.testing.assert_allclose(merge_tree(parts).value, scatter @ V, rtol=1e-12, atol=1e-11)
    centred = CovarianceProduct.of(block(to(X - mean), w), V, None)
    np.testing.assert_allclose(centred.value, scatter @ V, rtol=1e-12, atol=1e-11)


@pytest.mark.parametrize("cuts", [[], [3], [1, 2, 3, 50]])
def test_triangle_squared_is_the_scatter(cuts):
    rng = np.random.default_rng(8)
    X, w = rng.normal(size=(80, 5)) + 1.0, rng.uniform(0, 2, 80)
    mean, scatter = dense_moments(X, w)
    R = merge_tree([Triangle.of(b, mean, True) for b in cut(X, w, cuts)]).R
    assert R.shape == (5, 5)
    np.testing.assert_allclose(R.T @ R, scatter, rtol=1e-12, atol=1e-11)
