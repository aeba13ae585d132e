"""What neighbours cannot be told from: outliers, gaps, ranges, refits that fail."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from sklearn.base import clone

from eigengap import Isomap, LaplacianEigenmaps
from eigengap.exceptions import DisconnectedError, DisconnectedWarning
from eigengap.fitting.graph.neighbours import Neighbours, Search

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
        with pytest.raises(ValueError, match="squared distances between rows overflow"):
            kind(2, n_neighbors=8).fit(Y)
    with pytest.raises(ValueError, match=r"overflow|no finite distance"):
        kind(2, n_neighbors=8).fit(X).transform(X[:1] * size)
    with pytest.raises(ValueError, match="underflow"):
        kind(2, n_neighbors=8).fit(X * 1e-200)


@BOTH
def test_rows_without_a_known_neighbour_are_named(kind):
    X = np.hstack([normal(60, 3), np.full((60, 1), np.nan)])
    X[3] = np.nan, np.nan, np.nan, 1.0  # observed where only one other row is
    X[20, 3] = 2.0
    with pytest.raises(ValueError, match="row 3 has observed columns in common with fewer than"):
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


def awkward(a, b):
    """No distance between rows of which one is left and the other right of 2 in the first cell."""
    return np.nan if (a[0] > 2.0) != (b[0] > 2.0) else float(np.abs(a - b).sum())


@BOTH
@pytest.mark.parametrize("algorithm", ["auto", "brute", "ball_tree"])
def test_rows_that_a_metric_has_no_value_for_are_named(kind, algorithm):
    X = np.random.default_rng(2).uniform(size=(40, 3))
    model = kind(2, n_neighbors=8, metric=awkward, neighbors_algorithm=algorithm)
    bad = X.copy()
    bad[7, 0] = 5.0
    with pytest.raises(ValueError, match=r"metric=awkward gives NaN for .*row") as told:
        model.fit(bad)
    if algorithm == "brute":
        assert "row 7" in str(told.value)
    model.fit(X)
    with pytest.raises(ValueError, match=r"metric=awkward gives NaN for .*row 1"):
        model.transform(np.vstack([X[:1] + 0.01, bad[7:8]]))
    plain = kind(2, n_neighbors=8, metric="manhattan").fit(X)
    np.testing.assert_allclose(model.embedding_, plain.embedding_, atol=1e-8)


@BOTH
@pytest.mark.parametrize("name", ["manhattan", "cityblock", "l1"])
@pytest.mark.parametrize("algorithm", ["auto", "brute"])
def test_city_block_distances_take_weights(kind, name, algorithm):
    X, w = normal(60, 3), np.array([1.0, 4.0, 0.25])
    options = {"n_neighbors": 8, "neighbors_algorithm": algorithm}
    found = kind(2, metric=name, metric_params={"w": w}, **options).fit(X)
    expected = kind(2, metric=name, **options).fit(X * w)
    np.testing.assert_allclose(found.embedding_, expected.embedding_, atol=1e-9)
    np.testing.assert_allclose(
        found.transform(X[:5] + 0.1), expected.transform((X[:5] + 0.1) * w), atol=1e-9
    )


@BOTH
def test_arguments_that_trees_do_not_take_are_taken_otherwise_or_refused(kind):
    X, w = normal(60, 3), np.array([1.0, 4.0, 0.25])
    options = {"n_neighbors": 8, "metric": "chebyshev", "metric_params": {"w": w}}
    found = kind(2, **options).fit(X)
    D = cdist(X, X, "chebyshev", w=w)
    expected = kind(2, n_neighbors=8, metric="precomputed").fit(D)
    np.testing.assert_allclose(found.embedding_, expected.embedding_, atol=1e-9)
    with pytest.raises(ValueError, match=r'chebyshev.*"brute" takes it'):
        kind(2, neighbors_algorithm="ball_tree", **options).fit(X)
    with pytest.raises(ValueError, match=r'"manhattan" does not take metric_params=.*minkowski'):
        kind(2, n_neighbors=8, metric="manhattan", metric_params={"nonsense": 1}).fit(X)


@pytest.mark.parametrize(
    ("model", "needed"),
    [(Isomap(2, n_neighbors=5), 12), (LaplacianEigenmaps(2, n_neighbors=5), 13)],
    ids=["isomap", "laplacian"],
)
def test_copies_that_make_a_component_are_told_from_others(model, needed):
    X = np.vstack([normal(40, 3), np.tile([[4.0, 4.0, 4.0]], (12, 1))])
    way_out = rf"copies of one row \(row 40 is there 12 times\).* take n_neighbors={needed}\b"
    with pytest.warns(DisconnectedWarning, match=way_out):
        model.fit(X)
    with pytest.raises(DisconnectedError, match=way_out):
        clone(model).set_params(disconnected="error").fit(X)
    with warnings.catch_warnings():
        warnings.simplefilter("error", DisconnectedWarning)
        clone(model).set_params(n_neighbors=needed).fit(X)
        clone(model).set_params(n_neighbors=9).fit(np.unique(X, axis=0))
    apart = np.vstack([X[:20] + 50.0, X[20:40] - 50.0])
    with pytest.warns(DisconnectedWarning) as told:
        clone(model).fit(apart)
    assert not any("copies" in str(one.message) for one in told)


def test_a_radius_wants_no_number_of_neighbours():
    X = normal(60, 3)
    with pytest.raises(ValueError, match=r"radius=2 needs n_neighbors=None, got n_neighbors=5"):
        Isomap(2, radius=2.0).fit(X)
    with pytest.raises(ValueError, match="either n_neighbors or radius, got neither"):
        Isomap(2, n_neighbors=None).fit(X)
    Isomap(2, radius=3.0, n_neighbors=None).fit(X)
