"""What Isomap refuses, and what it tells."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse
from scipy.spatial.distance import cdist
from sklearn.exceptions import NotFittedError

from eigengap.estimators.isomap import Isomap
from eigengap.exceptions import (
    DisconnectedError,
    DisconnectedWarning,
    DoesNotFitError,
    UncertainNeighboursWarning,
)
from eigengap.fitting.graph.isomap import fit_on_landmarks, fit_pairs
from eigengap.models.maps.distances import GowerMap
from eigengap.models.maps.geodesic import GeodesicMap


def rows_of(n, d, seed=0):
    return np.random.default_rng(seed).normal(size=(n, d))


def two_clusters():
    return np.concatenate([rows_of(50, 3), rows_of(30, 3, 1) + 100.0])


# T28 ----------------------------------------------------------------------------------------


def test_two_clusters_are_joined_and_counted():
    with pytest.warns(DisconnectedWarning, match=r"2 components of 50 and 30 rows.*n_neighbors"):
        isomap = Isomap(n_neighbors=5).fit(two_clusters())
    assert isomap.n_connected_components_ == 2
    assert np.all(np.isfinite(isomap.embedding_))


def test_two_clusters_are_an_error_if_so_asked():
    with pytest.raises(DisconnectedError, match=r"2 components of 50 and 30 rows.*bridge"):
        Isomap(n_neighbors=5, disconnected="error").fit(two_clusters())
    isomap = Isomap(n_neighbors=40, disconnected="error").fit(two_clusters())
    assert isomap.n_connected_components_ == 1


def test_a_new_row_beyond_the_radius_is_joined_or_refused():
    X = np.linspace(0.0, 9.0, 40)[:, None]
    isomap = Isomap(1, n_neighbors=None, radius=0.5).fit(X)
    new = np.array([[0.1], [12.0], [9.0], [15.0]])
    with pytest.warns(DisconnectedWarning, match=r"2 of 4 new rows.*radius=0.5 \(row 1 first\)"):
        Z = isomap.transform(new)
    np.testing.assert_allclose(np.abs(np.diff(Z[:, 0])), [11.9, 3.0, 6.0], atol=1e-8)
    np.testing.assert_array_equal(Z[2], isomap.embedding_[-1])
    isomap.disconnected = "error"
    with pytest.raises(DisconnectedError, match="2 of 4 new rows"):
        isomap.transform(new)
    far = Isomap(1, n_neighbors=None, radius=0.5, neighbors_algorithm="brute").fit(X)
    with pytest.warns(DisconnectedWarning):
        np.testing.assert_allclose(far.transform(new), Z, atol=1e-8)


# T29 ----------------------------------------------------------------------------------------


def test_too_many_rows_are_refused_with_the_gigabytes_before_neighbours_are_looked_for(monkeypatch):
    def never(*_):
        raise AssertionError("neighbours were looked for")

    monkeypatch.setattr("eigengap.estimators.shared.manifold.Neighbours.of", never)
    with pytest.raises(DoesNotFitError, match=r"100000 rows needs 88.0 GB.*landmarks"):
        Isomap().fit(rows_of(100_000, 2))


def test_landmarks_that_do_not_fit_are_refused(monkeypatch):
    monkeypatch.setattr("eigengap.runtime.memory.free_memory", lambda: 10**6)
    with pytest.raises(DoesNotFitError, match=r"2000 rows to 500 landmarks.*fewer landmarks"):
        Isomap(landmarks=500).fit(rows_of(2000, 2))


# Parameters ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"radius": 1.0}, "radius=1 needs n_neighbors=None"),
        ({"n_neighbors": None}, "either n_neighbors or radius, got neither"),
        ({"n_neighbors": 30}, "n_neighbors=30 must be smaller than the number of rows"),
        ({"n_components": 31}, "n_components=31 must be at most 30"),
        ({"landmarks": 2}, "landmarks=2 must be more than n_components=2"),
        ({"landmarks": 1}, "landmarks"),
        ({"path_method": "A*"}, "path_method"),
        ({"disconnected": "drop"}, "disconnected"),
        ({"metric": "nonsense"}, "metric"),
        (
            {"neighbors_algorithm": "approximate", "n_neighbors": None, "radius": 1.0},
            "approximate search finds n_neighbors",
        ),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else "",
)
def test_wrong_parameters(options, message):
    with pytest.raises(ValueError, match=message):
        Isomap(**options).fit(rows_of(30, 3))


def test_fewer_landmarks_than_asked_for_where_rows_coincide():
    X = np.repeat(rows_of(2, 3), 20, axis=0)
    with pytest.raises(ValueError, match="rows differ, too few landmarks"):
        Isomap(n_neighbors=25, n_components=5, landmarks=6, random_state=3).fit(
            np.repeat(rows_of(1, 3), 40, axis=0)
        )
    assert len(Isomap(1, n_neighbors=25, landmarks=30).fit(X).landmarks_) < 30


def test_more_landmarks_than_rows_are_all_rows():
    assert len(Isomap(landmarks=1000).fit(rows_of(60, 3)).landmarks_) == 60


# Coordinates that are not there -------------------------------------------------------------


def test_rows_that_all_coincide_have_coordinates_0():
    X = np.full((30, 3), 4.0)
    with pytest.warns(UserWarning, match="all rows coincide"):
        isomap = Isomap().fit(X)
    assert not isomap.embedding_.any()
    assert isomap.residual_variance_ == 0.0
    assert isomap.reconstruction_error() == 0.0
    assert not isomap.transform(X[:3]).any()
    assert not isomap.transform(X[:3] + 1.0).any()


@pytest.mark.parametrize("landmarks", [None, 10])
def test_a_line_has_one_coordinate(landmarks):
    with pytest.warns(UserWarning, match="only 1 of the 3 leading eigenvalues are positive"):
        isomap = Isomap(3, landmarks=landmarks).fit(np.linspace(0.0, 1.0, 50)[:, None])
    assert not isomap.embedding_[:, 1:].any()
    assert not isomap.transform([[0.33]])[:, 1:].any()
    np.testing.assert_allclose(np.ptp(isomap.embedding_[:, 0]), 1.0)


def test_negative_eigenvalues_have_no_coordinates():
    """The four ends of a star and its middle: three positive eigenvalues, and a negative one."""
    D = 2.0 - 2.0 * np.eye(5)
    D[0, 1:] = D[1:, 0] = 1.0
    with pytest.warns(UserWarning, match="only 3 of the 5 leading eigenvalues are positive"):
        isomap = Isomap(5, n_neighbors=4, metric="precomputed").fit(D)
    assert isomap.eigenvalues_[-1] < -0.1
    assert not isomap.embedding_[:, 3:].any()


# Input --------------------------------------------------------------------------------------


def test_uncertain_neighbours_are_told():
    X = rows_of(200, 4)
    X[np.random.default_rng(1).random(X.shape) < 0.1] = np.nan
    with pytest.warns(UncertainNeighboursWarning, match="rows with missing values were imputed"):
        Isomap(n_neighbors=8).fit(X)


def test_infinities_are_named():
    X = rows_of(30, 3)
    X[4, 1] = np.inf
    with pytest.raises(ValueError, match="row 4, column 1"):
        Isomap().fit(X)
    with pytest.raises(ValueError, match="row 4, column 1"):
        Isomap().fit(rows_of(30, 3)).transform(X)


def test_given_distances_are_looked_at():
    D = cdist(rows_of(30, 3), rows_of(30, 3))
    isomap = Isomap(metric="precomputed").fit(D)
    with pytest.raises(ValueError, match="square"):
        Isomap(metric="precomputed").fit(D[:, :20])
    with pytest.raises(ValueError, match="not symmetric"):
        Isomap(metric="precomputed").fit(np.triu(D))
    with pytest.raises(ValueError, match="Negative values"):
        Isomap(metric="precomputed").fit(-D)
    with pytest.raises(ValueError, match="square"):
        Isomap(metric="precomputed").fit(scipy.sparse.csr_array(D[:, :20]))
    incomplete = D.copy()
    incomplete[3, 5] = np.nan
    with pytest.raises(ValueError, match=r"NaN.*row 3"):
        isomap.transform(incomplete)
    with pytest.raises(ValueError, match=r"NaN.*row 3"):
        Isomap(metric="precomputed").fit(incomplete)
    with pytest.raises(ValueError, match="30 features"):
        isomap.transform(D[:, :20])


def test_a_metric_without_a_value_is_told():
    X = np.full((12, 4), np.nan)
    X[:6, :2], X[6:, 2:] = rows_of(6, 2), rows_of(6, 2)  # no cell that both halves have
    with pytest.raises(ValueError, match="has observed columns in common with fewer"):
        Isomap(n_neighbors=8, metric="nan_euclidean").fit(X)


def hop(size):
    """Steps of about `size`, and none longer: paths add up to much more."""
    return lambda a, b: size * min(float(np.abs(a - b).sum()), 1.0)


@pytest.mark.parametrize("landmarks", [None, 10])
@pytest.mark.parametrize("size", [1e152, 1e307])
def test_paths_that_overflow_are_refused(landmarks, size):
    X = np.arange(60.0)[:, None]
    with pytest.raises(ValueError, match=r"squares of .*distances .*overflow.*X / 1e\d+"):
        Isomap(1, n_neighbors=2, metric=hop(size), landmarks=landmarks).fit(X)


def test_squares_of_paths_that_overflow_are_refused():
    D = 1e153 * cdist(rows_of(30, 2), rows_of(30, 2))
    for fit in (lambda: fit_pairs(D, 2), lambda: fit_on_landmarks(D, np.arange(30), 2)):
        with pytest.raises(ValueError, match=r"the largest of which is .*e\+153, overflow"):
            fit()


def test_a_new_row_beyond_all_numbers_is_named():
    X = 1e-30 * rows_of(30, 2)
    isomap = Isomap(metric=lambda a, b: min(float(np.abs(a - b).sum()) * 1e250, 1.0)).fit(X)
    assert np.all(np.isfinite(isomap.transform(X + 1e-31)))
    far = Isomap(metric=lambda a, b: 1e300 if a[0] > 9 or b[0] > 9 else hop(1.0)(a, b)).fit(X)
    with pytest.raises(ValueError, match="row 1 is so far from all fitted rows"):
        far.transform(np.array([[0.0, 0.0], [10.0, 0.0]]))


@pytest.mark.parametrize("metric", ["euclidean", "l2"])
def test_arguments_that_a_metric_does_not_take_are_refused(metric):
    with pytest.raises(ValueError, match=f'metric="{metric}" takes no metric_params'):
        Isomap(metric=metric, metric_params={"w": np.ones(3)}).fit(rows_of(30, 3))


def test_p_is_of_the_minkowski_metric_alone_as_in_scikit_learn():
    X = rows_of(60, 3)
    plain = Isomap(metric="euclidean").fit_transform(X)
    np.testing.assert_array_equal(Isomap(metric="euclidean", p=1).fit_transform(X), plain)
    assert not np.allclose(Isomap(p=1).fit_transform(X), plain)


def test_a_failed_fit_leaves_no_embedding():
    isomap = Isomap(disconnected="error")
    with pytest.raises(DisconnectedError):
        isomap.fit(two_clusters())
    with pytest.raises(NotFittedError):
        isomap.transform(two_clusters())
    with pytest.raises(NotFittedError):
        isomap.residual_variances()
    with pytest.raises(NotFittedError):
        isomap.reconstruction_error()


def test_what_landmarks_do_not_know():
    isomap = Isomap(landmarks=10).fit(rows_of(50, 3))
    with pytest.raises(AttributeError, match="landmark_distances_"):
        isomap.dist_matrix_  # noqa: B018
    with pytest.raises(AttributeError, match="dist_matrix_"):
        Isomap().fit(rows_of(50, 3)).landmark_distances_  # noqa: B018
    with pytest.raises(ValueError, match="max_components=10 must be between 1 and 9"):
        isomap.residual_variances(10)


def test_a_map_whose_parts_do_not_fit():
    gower = GowerMap(np.zeros((4, 2)), np.zeros(4))
    with pytest.raises(ValueError, match="shapes do not fit"):
        GeodesicMap(np.zeros((9, 3)), gower, np.zeros(2), np.zeros((9, 2)))
