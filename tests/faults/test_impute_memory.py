"""What imputing takes on top of the table: the result, and a few blocks."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

import eigengap as eg
from eigengap.sources.array import ArraySource
from eigengap.sources.blocked import stacked

N, D, Q = 120_000, 50, 3  # 48 MB


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, Q)) @ rng.normal(size=(Q, D)) + 0.3 * rng.normal(size=(N, D))
    X[rng.random(X.shape) < 0.1] = np.nan
    return X


ESTIMATORS = {
    "PPCA": lambda: eg.PPCA(Q, max_iter=2, tol=1.0),
    "PCA": lambda: eg.PCA(Q),
    "FactorAnalysis": lambda: eg.FactorAnalysis(Q, max_iter=2, tol=1.0),
    "Student": lambda: eg.PPCA(Q, distribution="student", max_iter=2, tol=1.0),
    "MixturePPCA": lambda: eg.MixturePPCA(2, Q, max_iter=2, tol=1.0, n_init=1),
    "LowRankImputer": lambda: eg.LowRankImputer(eg.PPCA(Q, max_iter=2, tol=1.0)),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dtype", [np.float64, pytest.param(np.float32, marks=pytest.mark.slow)])
@pytest.mark.parametrize(("return_std", "most"), [(False, 1.3), (True, 2.5)])
@pytest.mark.parametrize("name", ESTIMATORS)
def test_imputing_takes_the_result_and_little_more(table, name, return_std, most, dtype):
    X = table.astype(dtype)
    model = ESTIMATORS[name]().fit(X[:1000])
    model.impute(X[:100], return_std=return_std)  # what is computed once
    with threadpool_limits(1):  # each further thread has blocks of its own
        tracemalloc.start()
        try:
            found = model.impute(X, return_std=return_std)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    filled = found[0] if return_std else found
    assert filled.dtype == dtype
    # Blocks are cut by their size in float64, in which they are computed with.
    result = (2 if return_std else 1) * X.nbytes
    assert peak <= result + (most - result / X.nbytes) * table.nbytes
    np.testing.assert_array_equal(filled[~np.isnan(X)], X[~np.isnan(X)])
    assert not np.isnan(filled).any()


def parts_of(*shapes, dtype=np.float64):
    rng = np.random.default_rng(0)
    return [rng.normal(size=shape).astype(dtype) for shape in shapes]


@pytest.mark.parametrize("rows", [None, 9, 12, 5])
@pytest.mark.parametrize("shapes", [[(4, 2), (4, 2), (1, 2)], [(9, 2)], [(4,), (5,)]])
def test_parts_are_stacked_whatever_was_expected(shapes, rows):
    parts = parts_of(*shapes)
    np.testing.assert_array_equal(stacked(iter(parts), rows), np.concatenate(parts))


def test_parts_of_several_types_keep_their_digits():
    parts = [*parts_of((3, 2), dtype=np.float32), *parts_of((4, 2))]
    found = stacked(iter(parts), 7)
    assert found.dtype == np.float64
    np.testing.assert_array_equal(found, np.concatenate(parts))


def test_rows_are_mapped_in_small_blocks_and_in_order(table):
    source, starts = ArraySource(table), []

    def look(block):
        starts.append(block.start)
        return block.values[:, :2]

    np.testing.assert_array_equal(source.map(look), table[:, :2])
    assert len(starts) > 10
