"""What neighbours cannot be told from: outliers, gaps, ranges, refits that fail."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from eigengap import DisconnectedError, Isomap, LaplacianEigenmaps
from eigengap.estimators._neighbours import Neighbours, Search

BOTH = pytest.mark.parametrize("kind", [Isomap, LaplacianEigenmaps], ids=["isomap", "laplacian"])


def normal(*shape, seed=1):
    return np.random.default_rng(seed).standard_normal(shape)


def exact(X, k):
    D = cdist(X, X)
    np.fill_diagonal(D, np.inf)
    return np.sort(D, axis=1)[:, :k]


@pytest.mark.parametrize("far", [1e6, 1e9, 1e11])
@pytest.mark.parametrize("groups", [1, 2])
def test_far_rows_do_not_cost_the_others_their_neighbours(far, groups):
    X = normal(200, 20)
    X = np.vstack([X, np.full((1, 20), far)]) if groups == 1 else np.vstack([X, X + far])
    found = Neighbours.of(Search(n_neighbors=5), X)
    lengths = found.among().data.reshape(len(X), 5)
    np.testing.assert_allclose(lengths[:200], exact(X, 5)[:200], rtol=1e-12)
    new = found.of_new(X[:30] + 0.1)
    expected = np.sort(cdist(X[:30] + 0.1, X), axis=1)[:, :5]
    np.testing.assert_allclose(new.data.reshape(30, 5), expected, rtol=1e-12)
    radius = float(np.median(exact(X, 5)[:, -1]))
    within = Neighbours.of(Search(None, radius), X)
    D = cdist(X, X)
    np.fill_diagonal(D, np.inf)
    assert within.among().nnz == np.sum(radius >= D)
    assert within.of_new(X[:30]).nnz == np.sum(D[:30] <= radius) + 30


@BOTH
def test_partial_distances_survive_an_offset(kind):
    X = np.round(normal(60, 3), 3)
    near = Neighbours.of(Search(n_neighbors=6, metric="nan_euclidean"), X + 2.0**26).among()
    np.testing.assert_allclose(near.data.reshape(60, 6), exact(X + 2.0**26, 6), rtol=1e-12)
    model = kind(2, n_neighbors=6, metric="nan_euclidean").fit(X + 2.0**26)
    assert np.ptp(model.embedding_) > 0.0


@BOTH
@pytest.mark.parametrize("size", [1e160, 1e300])
def test_squares_that_overflow_are_refused(kind, size):
    X = normal(300, 3)
    for Y in (X * size, np.vstack([X, X[:1] * size])):
        with pytest.raises(ValueError, match="squares of these distances overflow"):
            kind(2, n_neighbors=8).fit(Y)
    with pytest.raises(ValueError, match=r"overflow|no finite distance"):
        kind(2, n_neighbors=8).fit(X).transform(X[:1] * size)
    with pytest.raises(ValueError, match="underflow"):
        kind(2, n_neighbors=8).fit(X * 1e-200)


@BOTH
def test_rows_without_a_known_neighbour_are_named(kind):
    X = normal(60, 3)
    X[3] = np.nan
    with pytest.raises(ValueError, match="row 3 has cells in common with fewer than"):
        kind(2, n_neighbors=6, metric="nan_euclidean").fit(X)
    model = kind(2, n_neighbors=6, metric="nan_euclidean").fit(X[4:])
    with pytest.raises(ValueError, match="row 1"):
        model.transform(np.vstack([X[:1], X[3:4]]))


def test_components_without_a_distance_cannot_be_joined():
    X = np.full((20, 2), np.nan)
    X[:10, 0], X[10:, 1] = normal(10), normal(10)
    for kind in (Isomap, LaplacianEigenmaps):
        with pytest.raises(DisconnectedError, match="no distance is known between row"):
            kind(1, n_neighbors=3, metric="nan_euclidean", disconnected="bridge").fit(X)


def test_more_components_than_can_be_joined_are_refused():
    X = normal(4000, 3)
    with pytest.raises(DisconnectedError, match=r"4000 components .* too many to join"):
        Isomap(2, n_neighbors=None, radius=1e-9, landmarks=20).fit(X)


@BOTH
def test_a_fit_that_fails_leaves_the_earlier_one_whole(kind):
    X = normal(60, 3)
    apart = np.vstack([X[:30] + 50.0, X[30:] - 50.0])
    model = kind(2, n_neighbors=8, disconnected="error").fit(X)
    before = model.transform(X)
    with pytest.raises(DisconnectedError):
        model.fit(apart)
    np.testing.assert_array_equal(model.transform(X), before)
    np.testing.assert_array_equal(model.embedding_, before)


@BOTH
@pytest.mark.parametrize("n_jobs", [-1, -2, -100])
def test_threads_in_the_sense_of_joblib(kind, n_jobs):
    X = normal(60, 3)
    found = kind(2, n_neighbors=8, n_jobs=n_jobs).fit_transform(X)
    np.testing.assert_allclose(found, kind(2, n_neighbors=8).fit_transform(X))
    with pytest.raises(ValueError, match="n_jobs=0 has no meaning"):
        kind(2, n_neighbors=8, n_jobs=0).fit(X)


@BOTH
@pytest.mark.parametrize("metric", ["seuclidean", "mahalanobis"])
def test_metrics_that_learn_from_the_rows(kind, metric):
    X = normal(80, 3) * [1.0, 10.0, 100.0]
    model = kind(2, n_neighbors=8, metric=metric).fit(X)
    np.testing.assert_allclose(model.transform(X), model.embedding_, atol=1e-12)
    unit = normal(80, 3) / normal(80, 3).std(axis=0, ddof=1)
    if metric == "seuclidean":
        expected = kind(2, n_neighbors=8).fit(unit).embedding_
        np.testing.assert_allclose(model.embedding_, expected, atol=1e-8 * np.ptp(expected))


@BOTH
def test_arguments_that_a_metric_does_not_take(kind):
    with pytest.raises(ValueError, match=r"takes no(ne| metric_params)"):
        kind(2, n_neighbors=8, metric="euclidean", metric_params={"nonsense": 1}).fit(normal(60, 3))


@BOTH
def test_the_caller_may_change_what_is_returned(kind):
    X = normal(60, 3)
    model = kind(2, n_neighbors=8)
    Z = model.fit_transform(X)
    before = Z.copy()
    Z *= 2.0
    np.testing.assert_array_equal(model.embedding_, before)
    np.testing.assert_allclose(model.transform(X), before)
