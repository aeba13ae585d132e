"""Isomap against closed forms, dense linear algebra and scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse.csgraph
import sklearn.manifold
from scipy.spatial.distance import cdist
from sklearn.datasets import load_digits, load_iris, make_swiss_roll

from eigengap.compiled import choice
from eigengap.estimators.isomap import Isomap
from eigengap.exceptions import DisconnectedWarning
from eigengap.fitting.graph.isomap import fit_on_landmarks, fit_pairs, residual_variances
from eigengap.linalg import procrustes


def rows_of(n, d, seed=0):
    return np.random.default_rng(seed).normal(size=(n, d))


def roll(n, noise=0.0, seed=0):
    """Rows of a swiss roll, and their place on it: arc length and height."""
    X, t = make_swiss_roll(n, noise=noise, random_state=seed)
    flat = make_swiss_roll(n, noise=0.0, random_state=seed)[0][:, 1]
    arc = 0.5 * (t * np.sqrt(1.0 + t * t) + np.arcsinh(t))  # of the spiral (t cos t, t sin t)
    return X, np.column_stack([arc, flat])


def signed(Z, like):
    return Z * np.sign(np.sum(Z * like, axis=0))


def fitted_upon(Z, truth):
    """Correlation of each true coordinate with the embedding turned to it."""
    truth = truth - truth.mean(axis=0)
    Y = Z @ procrustes(Z, truth)
    return np.array([np.corrcoef(Y[:, j], truth[:, j])[0, 1] for j in range(truth.shape[1])])


# Closed forms -------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [40, 510])
def test_complete_graph_is_principal_components(n):
    """Straight lines are the geodesics of a flat space: by LAPACK and by Lanczos."""
    X = rows_of(n, 5) * np.array([3.0, 2.0, 1.5, 1.0, 0.5]) + 7.0
    R = X - X.mean(axis=0)
    V, s, _ = np.linalg.svd(R, full_matrices=False)
    isomap = Isomap(3, n_neighbors=n - 1).fit(X)
    np.testing.assert_allclose(isomap.dist_matrix_, cdist(X, X), rtol=1e-10)
    scores = signed(V[:, :3] * s[:3], isomap.embedding_)
    np.testing.assert_allclose(isomap.embedding_, scores, atol=1e-8)
    np.testing.assert_allclose(isomap.eigenvalues_, s[:3] ** 2, rtol=1e-9)
    # New rows are joined to all others too where all lie within the radius.
    isomap = Isomap(3, n_neighbors=None, radius=1e3).fit(X)
    np.testing.assert_allclose(isomap.embedding_, scores, atol=1e-8)
    new = rows_of(9, 5, 1) + 7.0
    U = R.T @ (V[:, :3] / s[:3])
    expected = signed((new - X.mean(axis=0)) @ U, isomap.transform(new))
    np.testing.assert_allclose(isomap.transform(new), expected, atol=1e-7)


def test_complete_graph_on_landmarks_is_principal_components():
    """Distances in the span of the landmarks triangulate exactly: de Silva and Tenenbaum (2003)."""
    X = rows_of(200, 3) * np.array([3.0, 2.0, 1.0])
    isomap = Isomap(3, n_neighbors=199, landmarks=20).fit(X)
    R = X - X.mean(axis=0)
    V, s, _ = np.linalg.svd(R, full_matrices=False)
    scores = signed(V * s, isomap.embedding_)
    np.testing.assert_allclose(isomap.embedding_, scores, atol=1e-8)
    np.testing.assert_allclose(isomap.eigenvalues_, s**2, rtol=1e-9)
    assert isomap.residual_variance_ < 1e-10


@pytest.mark.parametrize("landmarks", [None, 10])
def test_points_on_a_curve_come_back_as_arc_length(landmarks):
    """A helix, at uneven steps: neighbours' chords add up, and new points fall between them."""
    t = np.cumsum(np.random.default_rng(0).uniform(0.01, 0.0167, 900))
    helix = lambda t: np.column_stack([np.cos(t), np.sin(t), 0.5 * t])  # noqa: E731
    isomap = Isomap(1, n_neighbors=4, landmarks=landmarks).fit(helix(t))
    arc = np.sqrt(1.25) * (t - t.mean())
    np.testing.assert_allclose(np.abs(isomap.embedding_[:, 0]), np.abs(arc), atol=5e-3)
    between = np.linspace(0.5, 11.5, 50)
    sign = np.sign(isomap.embedding_[-1, 0])
    found = sign * isomap.transform(helix(between))[:, 0]
    np.testing.assert_allclose(found, np.sqrt(1.25) * (between - t.mean()), atol=2e-2)
    assert isomap.residual_variance_ < 1e-7


def test_a_line_comes_back_as_the_line():
    x = np.cumsum(np.random.default_rng(0).uniform(0.6, 1.0, 60))
    isomap = Isomap(1, n_neighbors=2).fit(x[:, None] * np.array([[0.6, 0.8]]))
    np.testing.assert_allclose(np.abs(isomap.embedding_[:, 0]), np.abs(x - x.mean()), atol=1e-10)


def test_a_ring_has_the_eigenvalues_of_its_circulant_matrix():
    n = 64
    angle = 2 * np.pi * np.arange(n) / n
    ring = np.column_stack([np.cos(angle), np.sin(angle)])
    isomap = Isomap(5, n_neighbors=2).fit(ring)
    step = 2 * np.sin(np.pi / n)
    steps = np.minimum(np.arange(n), n - np.arange(n)) * step
    lam = np.sort(np.fft.fft(-0.5 * steps**2).real[1:])[::-1]
    np.testing.assert_allclose(isomap.eigenvalues_, lam[:5], rtol=1e-9)
    assert lam[-1] < -1.0  # no points in a flat space have these distances


# Dense linear algebra -----------------------------------------------------------------------


def brute(D, q):
    """Coordinates, eigenvalues and reconstruction error from the matrix itself."""
    n = len(D)
    H = np.eye(n) - 1.0 / n
    B = H @ (-0.5 * D * D) @ H
    lam, V = np.linalg.eigh(B)
    lam, V = lam[::-1][:q], V[:, ::-1][:, :q]
    return V * np.sqrt(np.maximum(lam, 0.0)), lam, np.linalg.norm(B - (V * lam) @ V.T) / n


@pytest.mark.parametrize("n", [60, 800])
@pytest.mark.parametrize("dense", [False, True])
def test_products_from_distances_are_those_with_the_centred_matrix(n, dense):
    X, _ = roll(n)
    D = Isomap(n_neighbors=12).fit(X).dist_matrix_
    fit = fit_pairs(D, 3, dense)
    Z, lam, error = brute(D, 3)
    scale = np.abs(Z).max()
    np.testing.assert_allclose(fit.lam, lam, rtol=1e-9)
    np.testing.assert_allclose(fit.Z, signed(Z, fit.Z), atol=1e-7 * scale)
    np.testing.assert_allclose(fit.error, error, rtol=1e-6)
    assert (fit.passes > 1) == (n == 800 and not dense)


def test_all_rows_as_landmarks_are_all_pairs():
    X, _ = roll(300)
    D = Isomap(n_neighbors=10).fit(X).dist_matrix_
    exact, on = fit_pairs(D, 2), fit_on_landmarks(D, np.arange(300), 2)
    np.testing.assert_allclose(on.Z, exact.Z, atol=1e-8 * np.abs(exact.Z).max())
    np.testing.assert_allclose(on.lam, exact.lam, rtol=1e-9)
    np.testing.assert_allclose(on.error, exact.error, rtol=1e-8)


def test_residual_variance_is_one_less_squared_correlation():
    X, _ = roll(150)
    isomap = Isomap(3, n_neighbors=10).fit(X)
    i, j = np.triu_indices(150, 1)
    for q, found in enumerate(isomap.residual_variances(5)[:3], start=1):
        Z = isomap.embedding_[:, :q]
        r = np.corrcoef(isomap.dist_matrix_[i, j], cdist(Z, Z)[i, j])[0, 1]
        np.testing.assert_allclose(found, 1.0 - r * r, rtol=1e-6)
    np.testing.assert_allclose(
        isomap.residual_variance_, isomap.residual_variances(3)[-1], rtol=1e-5
    )


def test_a_sample_of_pairs_is_near_all(monkeypatch):
    X, _ = roll(500)
    isomap = Isomap(2, n_neighbors=10).fit(X)
    whole = isomap.residual_variances(3)
    monkeypatch.setattr("eigengap.fitting.graph.isomap.PAIRS", 50_000)
    np.testing.assert_allclose(isomap.residual_variances(3), whole, rtol=0.3)
    assert not np.array_equal(isomap.residual_variances(3), whole)


def test_the_elbow_is_at_two_on_the_roll():
    curve = Isomap(2, n_neighbors=10).fit(roll(800)[0]).residual_variances(5)
    assert curve[0] > 10 * curve[1]
    assert np.all(curve[2:] > 0.5 * curve[1])


# scikit-learn -------------------------------------------------------------------------------


def two_clusters():
    return np.concatenate([rows_of(60, 3), rows_of(40, 3, 1) + 30.0])


def untied(X):
    """Whole numbers have neighbours at equal distances, of which either may be the k-th."""
    return X + 1e-3 * rows_of(*X.shape)


CASES = {
    "roll": (lambda: roll(700)[0], {"n_neighbors": 8}),
    "roll, radius": (lambda: roll(400)[0], {"n_neighbors": None, "radius": 6.0}),
    "iris": (lambda: untied(load_iris().data), {"n_neighbors": 10}),  # in two components
    "digits": (lambda: untied(load_digits().data[:500]), {"n_neighbors": 6}),
    "city blocks": (lambda: rows_of(200, 4), {"n_neighbors": 7, "metric": "manhattan"}),
    "p = 3": (lambda: rows_of(200, 4), {"n_neighbors": 7, "p": 3}),
    "two clusters": (two_clusters, {"n_neighbors": 5}),
    "brute": (lambda: rows_of(200, 20), {"n_neighbors": 7, "neighbors_algorithm": "brute"}),
    "dense": (lambda: rows_of(200, 3), {"n_neighbors": 7, "eigen_solver": "dense"}),
    "Floyd-Warshall": (lambda: rows_of(120, 3), {"n_neighbors": 7, "path_method": "FW"}),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", CASES)
def test_scikit_learn_agrees(name):
    make, options = CASES[name]
    X = make()
    ours = Isomap(2, **options).fit(X)
    theirs = sklearn.manifold.Isomap(n_components=2, **options).fit(X)
    np.testing.assert_allclose(ours.dist_matrix_, theirs.dist_matrix_, rtol=1e-12, atol=1e-12)
    scale = np.abs(theirs.embedding_).max()
    Z = signed(theirs.embedding_, ours.embedding_)
    np.testing.assert_allclose(ours.embedding_, Z, atol=1e-7 * scale)
    np.testing.assert_allclose(
        ours.reconstruction_error(), theirs.reconstruction_error(), rtol=1e-7
    )
    new = X[:20] + 0.01 * rows_of(20, X.shape[1], 3)
    if options.get("radius") is None:
        flips = np.sign(np.sum(Z * theirs.embedding_, axis=0))
        np.testing.assert_allclose(
            ours.transform(new), theirs.transform(new) * flips, atol=1e-7 * scale
        )


@pytest.mark.filterwarnings("ignore::eigengap.exceptions.DisconnectedWarning")
def test_given_distances_are_those_of_rows():
    X = two_clusters()
    D = cdist(X, X)
    given = Isomap(metric="precomputed").fit(D)
    plain = Isomap().fit(X)
    np.testing.assert_allclose(given.dist_matrix_, plain.dist_matrix_, rtol=1e-12)
    scale = np.abs(plain.embedding_).max()
    np.testing.assert_allclose(given.embedding_, plain.embedding_, atol=1e-8 * scale)
    new = X[:5] + 0.1
    np.testing.assert_allclose(
        given.transform(cdist(new, X)), plain.transform(new), atol=1e-8 * scale
    )
    np.testing.assert_array_equal(given.transform(D), given.embedding_)


def test_compiled_and_scipy_give_the_same_embedding(monkeypatch):
    X, _ = roll(600)
    found = []
    for mode in ("never", "always"):
        monkeypatch.setenv(choice.VARIABLE, mode)
        found.append([Isomap(n_neighbors=8, landmarks=m).fit(X).embedding_ for m in (None, 30)])
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one, other)


# The roll -----------------------------------------------------------------------------------


@pytest.mark.parametrize("landmarks", [None, 100])
def test_the_roll_of_3000_rows_is_unrolled(landmarks):
    X, truth = roll(3000, noise=0.2)
    isomap = Isomap(2, n_neighbors=12, landmarks=landmarks).fit(X)
    assert np.all(fitted_upon(isomap.embedding_, truth) > 0.99)
    new, place = roll(300, noise=0.2, seed=5)
    centre = truth.mean(axis=0)
    Y = isomap.transform(new) @ procrustes(isomap.embedding_, truth - centre)
    assert all(np.corrcoef(Y[:, j], place[:, j])[0, 1] > 0.99 for j in range(2))


def test_neighbours_are_kept_as_by_scikit_learn():
    """Trustworthiness no worse than scikit-learn's, on landmarks neither."""
    X, _ = roll(1000, noise=0.2)
    trust = lambda Z: sklearn.manifold.trustworthiness(X, Z, n_neighbors=10)  # noqa: E731
    theirs = trust(sklearn.manifold.Isomap(n_components=2, n_neighbors=12).fit_transform(X))
    assert trust(Isomap(2, n_neighbors=12).fit_transform(X)) >= theirs - 1e-6
    assert trust(Isomap(2, n_neighbors=12, landmarks=100).fit_transform(X)) >= theirs - 2e-3


@pytest.mark.parametrize("n", [1500])
def test_landmarks_leave_as_much_as_all_pairs(n):
    """Residual variance over the exact distances, within 0.01: here within 0.0005."""
    X, _ = roll(n, noise=0.2)
    exact = Isomap(2, n_neighbors=10).fit(X)
    for seed in range(3):
        near = Isomap(2, n_neighbors=10, landmarks=100, random_state=seed).fit(X)
        left = residual_variances(exact.dist_matrix_, None, near.embedding_)[-1]
        assert abs(left - exact.residual_variance_) < 5e-4
        np.testing.assert_allclose(near.eigenvalues_, exact.eigenvalues_, rtol=0.05)


def test_components_and_bridges_are_those_of_the_graph():
    X = two_clusters()
    with pytest.warns(DisconnectedWarning, match="2 components of 60 and 40 rows"):
        isomap = Isomap(n_neighbors=5).fit(X)
    assert isomap.n_connected_components_ == 2
    assert isomap.graph_.components[0] == 1
    D = scipy.sparse.csgraph.dijkstra(isomap.graph_.csr(), directed=False)
    np.testing.assert_array_equal(isomap.dist_matrix_, D)
    shortest = cdist(X[:60], X[60:]).min()
    low, high, lengths = isomap.graph_.edges
    across = (low < 60) & (high >= 60)
    np.testing.assert_allclose(lengths[across], [shortest], rtol=1e-12)


@pytest.mark.slow  # half a minute in which pynndescent is compiled
def test_approximate_neighbours():
    X = np.concatenate([roll(1500)[0], 0.1 * rows_of(1500, 15)], axis=1)
    exact = Isomap(2, n_neighbors=10).fit(X)
    near = Isomap(2, n_neighbors=10, neighbors_algorithm="approximate").fit(X)
    assert np.all(fitted_upon(near.embedding_, exact.embedding_) > 0.999)
    np.testing.assert_array_equal(near.transform(X), near.embedding_)
