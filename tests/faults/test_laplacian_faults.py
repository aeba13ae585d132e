"""What Laplacian eigenmaps refuse, where they say so, and what they warn of."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

from eigengap.estimators._manifold import DisconnectedWarning
from eigengap.estimators.laplacian_eigenmaps import LaplacianEigenmaps
from eigengap.fitting.laplacian import Laplacian, fit_laplacian
from eigengap.fitting.memory import DoesNotFitError
from eigengap.fitting.neighbourhood import DisconnectedError
from eigengap.fitting.smallest import by_filter


@pytest.fixture
def X():
    return np.random.default_rng(0).normal(size=(60, 3))


# Size ---------------------------------------------------------------------------------------


@pytest.fixture
def large():
    """100 000 rows of a table that takes no memory of its own."""
    return np.broadcast_to(np.arange(100_000.0)[:, None] % 97, (100_000, 2))


def test_all_pairs_of_many_rows_are_refused_before_they_are_allocated(large):
    with pytest.raises(DoesNotFitError, match=r"needs 2\d\d\.\d GB .*nearest_neighbors"):
        LaplacianEigenmaps(affinity="rbf").fit(large)


def test_a_tenth_of_many_rows_is_too_many_neighbours(large):
    """The default of scikit-learn: 10 000 neighbours each."""
    with pytest.raises(DoesNotFitError, match=r"10000 neighbours .* GB .*n_neighbors=10"):
        LaplacianEigenmaps().fit(large)


def test_dense_solver_of_a_large_graph_is_refused():
    ends = np.arange(99_999)
    W = sp.coo_array((np.ones(99_999), (ends, ends + 1)), shape=(100_000, 100_000))
    with pytest.raises(DoesNotFitError, match="GB"):
        LaplacianEigenmaps(affinity="precomputed", eigen_solver="dense").fit(sp.csr_array(W + W.T))


# Parameters that contradict each other ------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_neighbors": 5, "radius": 1.0}, "not both"),
        ({"affinity": "rbf", "radius": 1.0}, "radius=1.0 belongs to"),
        ({"affinity": "rbf", "weights": "heat"}, "weights='heat' belongs to"),
        ({"affinity": "rbf", "graph": "mutual"}, "graph='mutual' belongs to"),
        ({"affinity": "rbf", "disconnected": "bridge"}, "'keep' or 'error'"),
        ({"n_neighbors": 61}, "counts the row itself"),
        ({"n_components": 60}, "59 eigenvectors beside the constant one"),
        ({"n_components": 61, "drop_first": False}, "60 eigenvectors"),
    ],
    ids=["both", "radius", "heat", "mutual", "bridge", "neighbours", "components", "all"],
)
def test_contradictions(X, options, message):
    with pytest.raises(ValueError, match=message):
        LaplacianEigenmaps(**options).fit(X)


def test_metric_precomputed_is_of_neighbours():
    with pytest.raises(ValueError, match="affinity='precomputed'"):
        LaplacianEigenmaps(affinity="rbf", metric="precomputed").fit(np.zeros((9, 9)))


# Given graphs -------------------------------------------------------------------------------


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
def test_affinities_that_are_none(form):
    W = np.ones((6, 6))
    bad = W.copy()
    bad[1, 4] = -2.0
    with pytest.raises(ValueError, match="-2 at row 1, column 4"):
        LaplacianEigenmaps(affinity="precomputed").fit(form(bad))
    with pytest.raises(ValueError, match="square"):
        LaplacianEigenmaps(affinity="precomputed").fit(form(W[:4]))
    model = LaplacianEigenmaps(affinity="precomputed").fit(form(W))
    nothing = np.array([[1.0] * 6, [0.0] * 6])
    with pytest.raises(ValueError, match="row 1 has no affinity"):
        model.transform(form(nothing))
    with pytest.raises(ValueError, match="5 features"):
        model.transform(form(W[:2, :5]))


def test_gaps_in_given_graphs():
    W = np.ones((6, 6))
    W[2, 3] = np.nan
    with pytest.raises(ValueError, match="contains NaN"):
        LaplacianEigenmaps(affinity="precomputed").fit(W)
    model = LaplacianEigenmaps(affinity="precomputed").fit(np.ones((6, 6)))
    with pytest.raises(ValueError, match="contains NaN"):
        model.transform(W)


def test_two_directions_that_differ_are_averaged_with_a_warning():
    rng = np.random.default_rng(0)
    W = rng.random((8, 8))
    with pytest.warns(UserWarning, match="not symmetric"):
        found = LaplacianEigenmaps(affinity="precomputed").fit(W)
    plain = LaplacianEigenmaps(affinity="precomputed").fit((W + W.T) / 2)
    np.testing.assert_allclose(found.embedding_, plain.embedding_, atol=1e-12)


def test_rows_without_edges_are_known_again():
    W = np.zeros((6, 6))
    W[:5, :5] = 1.0
    model = LaplacianEigenmaps(2, affinity="precomputed")
    with pytest.warns(DisconnectedWarning):
        model.fit(W)
    np.testing.assert_array_equal(model.transform(W[[5]]), model.embedding_[[5]])


def test_negative_distances():
    D = sp.csr_array(np.array([[0.0, 1.0, 2.0], [1.0, 0.0, -1.0], [2.0, 1.0, 0.0]]))
    with pytest.raises(ValueError, match="-1 at row 1, column 2"):
        LaplacianEigenmaps(1, affinity="precomputed_nearest_neighbors", n_neighbors=2).fit(D)


def test_functions_that_return_something_else(X):
    with pytest.raises(ValueError, match=r"shape \(60,\) for 60 rows"):
        LaplacianEigenmaps(affinity=lambda X: X[:, 0]).fit(X)
    model = LaplacianEigenmaps(affinity=lambda X: np.exp(-((X[:, [0]] - X[:, 0]) ** 2))).fit(X)
    with pytest.raises(ValueError, match="has to take two"):
        model.transform(X)


# New rows -----------------------------------------------------------------------------------


def test_a_row_beyond_the_radius():
    X = np.linspace(0, 1, 30)[:, None]
    model = LaplacianEigenmaps(1, radius=0.1).fit(X)
    with pytest.raises(ValueError, match=r"row 1 has no fitted row .* within radius=0.1"):
        model.transform(np.array([[0.5], [9.0]]))


def test_functions_near_the_pole_are_told():
    """A complete graph has no slow functions: all its eigenvalues are n / (n - 1)."""
    model = LaplacianEigenmaps(1, affinity="precomputed").fit(np.ones((40, 40)))
    with pytest.warns(UserWarning, match="coordinates 1 vary too fast"):
        Z = model.transform(np.eye(40)[:2] + 0.5)
    means = (np.eye(40)[:2] + 0.5) @ model.embedding_ / 21.0
    np.testing.assert_allclose(Z, means, atol=1e-15)


# Components ---------------------------------------------------------------------------------


@pytest.fixture
def two_clusters():
    rng = np.random.default_rng(0)
    return np.vstack([rng.normal(size=(20, 2)), rng.normal(size=(30, 2)) + 50.0])


def test_components_may_be_an_error(two_clusters):
    with pytest.raises(DisconnectedError, match="2 components of 30 and 20 rows: take a larger n_"):
        LaplacianEigenmaps(n_neighbors=5, disconnected="error").fit(two_clusters)


@pytest.mark.parametrize("how", ["keep", "bridge"])
def test_components_are_counted_in_a_warning(two_clusters, how):
    model = LaplacianEigenmaps(n_neighbors=5, disconnected=how)
    with pytest.warns(DisconnectedWarning, match="2 components of 30 and 20 rows"):
        model.fit(two_clusters)
    assert model.n_connected_components_ == 2


def test_more_components_than_coordinates():
    X = np.repeat(np.arange(6.0) * 100, 10)[:, None] + np.tile(np.arange(10.0), 6)[:, None]
    model = LaplacianEigenmaps(2, n_neighbors=4)
    with pytest.warns(DisconnectedWarning, match="all coordinates of 2 only tell them apart"):
        model.fit(X)
    assert model.solver_ == "null space"
    assert np.all(model.eigenvalues_ == 0.0)


@pytest.mark.filterwarnings("ignore::eigengap.estimators._manifold.DisconnectedWarning")
def test_a_graph_without_any_edge():
    for options in ({"radius": 0.1}, {"affinity": "precomputed"}):
        X = np.zeros((5, 5)) if "affinity" in options else np.arange(5.0)[:, None]
        Z = LaplacianEigenmaps(2, **options).fit_transform(X)
        assert np.all(np.isfinite(Z))


# Convergence --------------------------------------------------------------------------------


def path(n):
    ends = np.arange(n - 1)
    W = sp.coo_array((np.ones(n - 1), (ends, ends + 1)), shape=(n, n))
    return sp.csr_array(W + W.T)


def test_an_iteration_that_does_not_get_there_says_so():
    """A filter with a budget of two polynomials on a long path: residuals show what is left."""
    found = by_filter(Laplacian(path(3000)), 2, longest=40)
    assert not found.certified
    exact = fit_laplacian(Laplacian(path(3000)), 2)
    assert np.all(found.lam > 2 * exact.lam)


def test_the_warning_of_it(monkeypatch):
    from eigengap.fitting import laplacian

    def short(M, k, angle, seed, most, longest):
        return by_filter(M, k, angle, seed, most, longest=40)

    monkeypatch.setattr(laplacian, "by_filter", short)
    model = LaplacianEigenmaps(2, affinity="precomputed", eigen_solver="lobpcg")
    with pytest.warns(ConvergenceWarning, match="residuals_"):
        model.fit(path(3000))
    assert np.max(model.residuals_) > 1e-6
    model.set_params(eigen_solver=None)  # which would factorise in the end
    model.fit(path(3000))
    assert np.max(model.residuals_) < 1e-10


def test_a_failed_fit_leaves_a_new_estimator_unfitted(X):
    model = LaplacianEigenmaps(2, n_neighbors=500)
    with pytest.raises(ValueError, match="n_neighbors=500"):
        model.fit(X)
    assert not hasattr(model, "embedding_")
    assert not hasattr(model, "n_features_in_")
