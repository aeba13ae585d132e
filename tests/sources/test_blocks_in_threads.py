"""Blocks that are worked on by several threads: the same answers, in order, and the same errors."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from threadpoolctl import threadpool_info

import eigengap as eg
from eigengap.runtime import threads
from eigengap.runtime.threads import in_order
from eigengap.sources.conversion import as_source
from eigengap.statistics.moments import Moments

THREADS = 3


@pytest.fixture(autouse=True)
def _several(monkeypatch):
    monkeypatch.setattr(threads, "blas_threads", lambda: THREADS)


@pytest.mark.parametrize("count", [0, 1, 2, 3, 4, 20])
def test_all_blocks_in_order(count):
    late = threading.Event()

    def slow_first(k):
        if k == 0 and count > 2:
            assert late.wait(30)  # until a later one is done
        if k == 2:
            late.set()
        return 10 * k

    assert list(in_order(slow_first, iter(range(count)), 5)) == [10 * k for k in range(count)]


def test_no_more_blocks_are_held_than_threads_have():
    taken = 0
    most = 0

    def blocks():
        nonlocal taken
        for k in range(30):
            taken += 1
            yield k

    for done, _ in enumerate(in_order(lambda k: k, blocks(), 5)):
        most = max(most, taken - done)
    assert most <= THREADS


def test_each_has_one_thread_of_blas_and_a_lone_one_all():
    before = [library.num_threads for library in threads.libraries()]
    for library in threads.libraries():
        threads._give(library, 2)

    def limit(_):
        return max(one["num_threads"] for one in threadpool_info() if one["user_api"] == "blas")

    try:
        assert list(in_order(limit, iter([0]), 5)) == [2]
        assert list(in_order(limit, iter([0, 1, 2]), 5)) == [1, 1, 1]
        assert list(in_order(limit, iter([0, 1]), threads.WIDE)) == [2, 2]
        assert limit(0) == 2
    finally:
        for library, most in zip(threads.libraries(), before, strict=True):
            threads._give(library, most)


def test_in_turn_on_request():
    order = []

    def remembers(k):
        order.append((k, threading.current_thread() is threading.main_thread()))
        return k

    with threads.in_turn():
        assert list(in_order(remembers, iter(range(5)), 5)) == [0, 1, 2, 3, 4]
    assert order == [(k, True) for k in range(5)]


def test_the_first_error_comes_out_and_blas_is_let_go():
    def fails(k):
        if k in (2, 3):
            raise ValueError(f"block {k}")
        return k

    found = in_order(fails, iter(range(10)), 5)
    assert [next(found), next(found)] == [0, 1]
    with pytest.raises(ValueError, match="block 2"):
        next(found)
    assert not threads._account._inside


def test_whoever_stops_half_way_leaves_nothing_behind():
    found = in_order(lambda k: k, iter(range(10)), 5)
    assert next(found) == 0
    found.close()
    assert not threads._account._inside


def test_warnings_and_errstate_are_those_of_the_caller():
    X = np.array([[1.0], [0.0]])
    with np.errstate(divide="raise"), pytest.raises(FloatingPointError):
        as_source(X, block_rows=1).map(lambda block: 1.0 / block.values)


def test_sums_do_not_depend_on_the_number_of_threads(monkeypatch):
    X = np.random.default_rng(0).normal(size=(500, 7)) + 1e3
    several = as_source(X, block_rows=23).reduce(Moments.of)
    monkeypatch.setattr(threads, "blas_threads", lambda: 1)
    alone = as_source(X, block_rows=23).reduce(Moments.of)
    np.testing.assert_array_equal(several.mean, alone.mean)
    np.testing.assert_array_equal(several.scatter, alone.scatter)


@pytest.mark.parametrize(
    "model", [eg.PPCA(2), eg.FactorAnalysis(2), eg.MixturePPCA(2, n_components=1, random_state=0)]
)
def test_fits_do_not_depend_on_the_number_of_threads(model, monkeypatch):
    monkeypatch.setenv("EIGENGAP_COMPILED", "never")  # or the second fit might use other kernels
    rng = np.random.default_rng(1)
    X = rng.normal(size=(400, 2)) @ rng.normal(size=(2, 6)) + 0.3 * rng.normal(size=(400, 6))
    X[rng.random(X.shape) < 0.1] = np.nan
    several = model.fit(as_source(X, block_rows=30)).score_samples(X)
    monkeypatch.setattr(threads, "blas_threads", lambda: 1)
    np.testing.assert_array_equal(model.fit(as_source(X, block_rows=30)).score_samples(X), several)


def _ugly(name):
    rng = np.random.default_rng(2)
    X = rng.normal(size=(60, 2)) @ rng.normal(size=(2, 6)) + 0.3 * rng.normal(size=(60, 6))
    if name == "constant":
        X[:, 4] = 5.0
        return X
    X[rng.random(X.shape) < 0.15] = np.nan
    if name == "one cell":
        X[7], X[7, 2] = np.nan, 1.0
    return {"offset": X + 1e8, "float32": X.astype(np.float32), "wide": X[:5]}.get(name, X)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("rows", [1, 17])
@pytest.mark.parametrize("name", ["offset", "constant", "one cell", "float32", "wide"])
def test_ugly_tables_do_not_depend_on_the_number_of_threads(name, rows, monkeypatch):
    X = _ugly(name)
    several = eg.PPCA(1).fit(as_source(X, block_rows=rows)).score_samples(X)
    monkeypatch.setattr(threads, "blas_threads", lambda: 1)
    alone = eg.PPCA(1).fit(as_source(X, block_rows=rows)).score_samples(X)
    np.testing.assert_array_equal(several, alone)
    assert np.all(np.isfinite(several))
