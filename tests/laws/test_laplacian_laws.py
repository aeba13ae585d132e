"""Laws of Laplacian eigenmaps: spectra, orthonormal coordinates, invariances, new rows."""

import warnings
from decimal import Decimal, localcontext

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import make_swiss_roll

from eigengap.estimators.laplacian_eigenmaps import LaplacianEigenmaps
from eigengap.exceptions import DisconnectedWarning, UncertainNeighboursWarning
from eigengap.fitting.laplacian.fit import fit_laplacian
from eigengap.fitting.laplacian.graph import Laplacian
from eigengap.fitting.laplacian.weights import EdgeWeights
from eigengap.models.maps.eigenmap import Eigenmap

pytestmark = pytest.mark.filterwarnings("ignore::eigengap.exceptions.DisconnectedWarning")


@pytest.fixture
def roll():
    return make_swiss_roll(400, noise=0.1, random_state=0)[0]


@st.composite
def graphs(draw):
    """Weighted graphs of up to 40 nodes, in any number of pieces, weights over ten decades."""
    n = draw(st.integers(3, 40))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    present = np.triu(rng.random((n, n)) < draw(st.floats(0.02, 0.9)), 1)
    W = np.where(present, 10.0 ** rng.uniform(-draw(st.integers(0, 10)), 0, size=(n, n)), 0.0)
    return W + W.T


@settings(deadline=None, max_examples=60)
@given(W=graphs(), normalized=st.booleans(), drop_first=st.booleans(), sparse=st.booleans())
def test_spectrum_and_coordinates(W, normalized, drop_first, sparse):
    n = len(W)
    graph = Laplacian(sp.csr_array(W) if sparse else W, normalized)
    fit = fit_laplacian(graph, n - drop_first, drop_first=drop_first)
    assert np.all(np.diff(fit.lam) >= 0.0)
    assert np.all(fit.lam >= 0.0)
    assert np.all(fit.lam <= graph.bound * (1 + 1e-12))
    assert np.sum(fit.lam == 0.0) == fit.n_components - drop_first
    mass = graph.mass
    np.testing.assert_allclose(fit.Y.T @ (mass[:, None] * fit.Y), np.eye(fit.Y.shape[1]), atol=1e-8)
    assert np.all(fit.residuals <= 1e-9 * max(graph.bound, 1e-300))
    # The trace: the sum of all eigenvalues, the null ones being 0.
    trace = np.sum(graph.degrees / mass)
    np.testing.assert_allclose(np.sum(fit.lam), trace, rtol=1e-8, atol=1e-300)
    largest = np.argmax(np.abs(fit.Y), axis=0)
    assert np.all(fit.Y[largest, np.arange(fit.Y.shape[1])] > 0.0)


@settings(deadline=None, max_examples=8)
@given(seed=st.integers(0, 2**32 - 1), normalized=st.booleans(), d=st.integers(1, 6))
def test_both_sparse_solvers_give_the_same(seed, normalized, d):
    """Factorised and filtered share no step but Lanczos, and LAPACK none."""
    rng = np.random.default_rng(seed)
    n = 600
    X = rng.normal(size=(n, d))
    near = np.argsort(np.linalg.norm(X[:, None] - X, axis=2), axis=1)[:, 1:8]
    A = sp.csr_array((np.ones(7 * n), (np.repeat(np.arange(n), 7), near.ravel())), shape=(n, n))
    graph = Laplacian(sp.csr_array(A.maximum(A.T)), normalized)
    fits = [fit_laplacian(graph, 4, solver=how) for how in ("factorised", "filtered", "dense")]
    for fit in fits:
        assert fit.certified
        np.testing.assert_allclose(fit.lam, fits[2].lam, rtol=1e-7, atol=1e-12)
        assert np.all(fit.residuals <= 1e-7 * graph.bound)


@settings(deadline=None, max_examples=25)
@given(W=graphs(), normalized=st.booleans(), sparse=st.booleans())
def test_fitted_nodes_keep_their_coordinates_by_the_formula_itself(W, normalized, sparse):
    """The Nystroem formula at a fitted node's own edges gives its own coordinates."""
    graph = Laplacian(W, normalized)
    fit = fit_laplacian(graph, len(W) - 1)
    some = graph.degrees > 0.0
    shares = W[some] / graph.degrees[some, None]
    shares = sp.csr_array(shares) if sparse else shares
    model = Eigenmap(fit.Y, fit.lam, normalized)
    Z = model.extend(shares, graph.degrees[some])
    # Rounding of W / d grows by one over the distance from the pole, of at least 0.1.
    kept = ~model.left_out(graph.degrees[some])
    np.testing.assert_allclose(Z[kept], fit.Y[some][kept], atol=1e-6 * np.abs(fit.Y).max())


# Invariances --------------------------------------------------------------------------------


def aligned(a, b):
    return a * np.sign(np.sum(a * b, axis=0))


@pytest.mark.parametrize("options", [{}, {"affinity": "rbf", "gamma": 0.1}], ids=["knn", "rbf"])
def test_order_of_rows_does_not_matter(roll, options):
    order = np.random.default_rng(1).permutation(len(roll))
    Y = LaplacianEigenmaps(2, **options).fit_transform(roll)
    Z = LaplacianEigenmaps(2, **options).fit_transform(roll[order])
    np.testing.assert_allclose(aligned(Z, Y[order]), Y[order], atol=1e-8)


@pytest.mark.parametrize("weights", ["connectivity", "heat"])
def test_rotation_shift_and_scale_do_not_matter(roll, weights):
    """The bandwidth follows the scale; connectivity has none."""
    rng = np.random.default_rng(2)
    R = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    model = LaplacianEigenmaps(2, n_neighbors=10, weights=weights)
    Y = model.fit_transform(roll)
    for changed in (roll @ R, roll + 7.0, 3.5 * roll):
        np.testing.assert_allclose(aligned(model.fit_transform(changed), Y), Y, atol=1e-7)


def test_a_large_offset_does_not_matter(roll):
    steps = np.round(roll, 3)  # exact with the offset but for what it takes of the digits
    for options in ({"n_neighbors": 10}, {"affinity": "rbf", "gamma": 0.1}):
        Y = LaplacianEigenmaps(2, **options).fit_transform(steps)
        model = LaplacianEigenmaps(2, **options)
        Z = model.fit_transform(steps + 1e8)
        np.testing.assert_allclose(aligned(Z, Y), Y, atol=1e-5)
        np.testing.assert_array_equal(model.transform(steps + 1e8), Z)


def test_the_seed_changes_nothing_but_rounding(roll):
    for solver in ("arpack", "lobpcg"):
        found = [
            LaplacianEigenmaps(3, n_neighbors=8, eigen_solver=solver, random_state=seed)
            .fit(roll)
            .embedding_
            for seed in (0, 1)
        ]
        np.testing.assert_allclose(found[0], found[1], atol=1e-8)
    again = LaplacianEigenmaps(3, n_neighbors=8, eigen_solver=solver, random_state=1)
    np.testing.assert_array_equal(again.fit_transform(roll), found[1])


def test_scale_of_affinities_does_not_matter(roll):
    W = np.exp(-0.1 * np.sum((roll[:, None] - roll) ** 2, axis=2))
    for scale in (1e-200, 1e-3, 1e200):
        model = LaplacianEigenmaps(2, affinity="precomputed").fit(scale * W)
        plain = LaplacianEigenmaps(2, affinity="precomputed").fit(W)
        np.testing.assert_allclose(model.eigenvalues_, plain.eigenvalues_, rtol=1e-8)
        np.testing.assert_allclose(model.embedding_ * np.sqrt(scale), plain.embedding_, atol=1e-7)


# New rows -----------------------------------------------------------------------------------

WAYS = {
    "default": {},
    "neighbours": {"n_neighbors": 8},
    "mutual heat": {"n_neighbors": 12, "symmetrize": "mutual", "weights": "heat"},
    "union local": {
        "n_neighbors": 9,
        "symmetrize": "union",
        "weights": "heat",
        "bandwidth": "local",
    },
    "radius": {"radius": 4.0},
    "not normalised": {"n_neighbors": 8, "normalized": False},
    "rbf": {"affinity": "rbf", "gamma": 0.1},
    "cosine": {"n_neighbors": 12, "metric": "cosine"},
    "manhattan": {"n_neighbors": 12, "metric": "manhattan"},
    "with the constant": {"n_neighbors": 8, "drop_first": False},
    "many": {"n_components": 60, "n_neighbors": 8},
}


@pytest.mark.parametrize("way", WAYS)
def test_fitted_rows_keep_their_coordinates(roll, way):
    model = LaplacianEigenmaps(**WAYS[way])
    Z = model.fit_transform(roll)
    np.testing.assert_array_equal(model.transform(roll[::-1]), Z[::-1])
    np.testing.assert_array_equal(model.embedding_, Z)


@pytest.mark.parametrize("way", ["neighbours", "mutual heat", "union local", "rbf"])
def test_new_rows_stay_where_their_neighbours_are(roll, way):
    model = LaplacianEigenmaps(2, **{k: v for k, v in WAYS[way].items() if k != "n_components"})
    Z = model.fit_transform(roll[:350])
    new = model.transform(roll[350:])
    gap = np.linalg.norm(roll[350:, None] - roll[:350], axis=2)
    nearest = np.argmin(gap, axis=1)
    apart = np.linalg.norm(new - Z[nearest], axis=1)
    assert np.median(apart) < 0.1 * np.linalg.norm(np.ptp(Z, axis=0))


def test_float32_in_float32_out(roll):
    model = LaplacianEigenmaps(2, n_neighbors=8)
    Z = model.fit_transform(roll)
    small = model.fit_transform(roll.astype(np.float32))
    assert small.dtype == np.float32
    np.testing.assert_allclose(aligned(small, Z), Z, atol=1e-4)
    assert model.transform(roll.astype(np.float32)[:5]).dtype == np.float32


# Gaps and duplicates ------------------------------------------------------------------------


def test_a_few_missing_move_little():
    rng = np.random.default_rng(0)
    t = np.sort(rng.uniform(0, 1, size=300))
    X = np.column_stack([np.cos(3 * t), np.sin(3 * t), t, 2 * t, 1 - t, t - 1])
    X += 0.005 * rng.normal(size=X.shape)
    holes = X.copy()
    hidden = rng.random(X.shape) < 0.03
    holes[hidden] = np.nan
    complete = LaplacianEigenmaps(1, n_neighbors=12).fit_transform(X)
    model = LaplacianEigenmaps(1, n_neighbors=12)
    with pytest.warns(UncertainNeighboursWarning):  # some rows lie nearer than gaps are sure
        filled = model.fit_transform(holes)
    assert abs(np.corrcoef(complete[:, 0], filled[:, 0])[0, 1]) > 0.98
    assert np.all(np.isfinite(model.transform(holes[:50])))
    np.testing.assert_allclose(model.transform(holes), filled, atol=1e-8)


def test_new_rows_may_have_missing_where_fitted_ones_had_none(roll):
    new = roll[:5].copy()
    new[0, 1] = np.nan
    for options in ({"n_neighbors": 8}, {"affinity": "rbf"}):
        model = LaplacianEigenmaps(2, **options).fit(roll)
        Z = model.transform(new)
        assert np.all(np.isfinite(Z))
        np.testing.assert_array_equal(Z[1:], model.embedding_[1:5])


def test_rows_that_coincide():
    """Every row three times: no zero divided by, and the curve still comes out in order."""
    t = np.repeat(np.linspace(0, 1, 50), 3)
    X = np.column_stack([np.cos(2 * t), np.sin(2 * t)])
    for options in ({}, {"weights": "heat"}, {"weights": "heat", "bandwidth": "local"}):
        model = LaplacianEigenmaps(1, n_neighbors=10, **options)
        y = model.fit_transform(X)[:, 0]
        assert model.n_connected_components_ == 1
        assert abs(np.corrcoef(np.argsort(np.argsort(y)), t)[0, 1]) > 0.99
        assert np.all(np.isfinite(model.transform(X + 1e-3)))


def test_all_rows_the_same():
    model = LaplacianEigenmaps(2, n_neighbors=5, weights="heat")
    Z = model.fit_transform(np.ones((30, 3)))
    assert np.all(np.isfinite(Z))


def test_components_are_told_and_new_rows_join_theirs():
    rng = np.random.default_rng(0)
    X = np.vstack([rng.normal(size=(30, 2)), rng.normal(size=(40, 2)) + 100.0])
    model = LaplacianEigenmaps(1, n_neighbors=6)
    with pytest.warns(DisconnectedWarning, match="2 components of 40 and 30 rows: all coordinates"):
        Z = model.fit_transform(X)
    near_first, near_second = model.transform(np.array([[0.1, 0.2], [100.3, 99.9]]))[:, 0]
    np.testing.assert_allclose([near_first, near_second], [Z[0, 0], Z[-1, 0]])


@pytest.mark.parametrize(
    "options",
    [
        {"weights": "heat"},
        {"weights": "heat", "symmetrize": "union"},
        {"weights": "heat", "symmetrize": "mutual"},
        {"weights": "heat", "bandwidth": 1e-3},
        {"affinity": "rbf", "gamma": 2.0},
    ],
    ids=["average", "union", "mutual", "narrow", "rbf"],
)
@pytest.mark.parametrize("far", [1e4, 1e6, 1e8])
def test_a_row_far_from_all_has_the_coordinates_of_its_nearest(options, far):
    """The limit of a heat kernel's shares: all of its weights underflow."""
    X = np.random.default_rng(5).normal(size=(80, 3))
    model = LaplacianEigenmaps(2, n_neighbors=40, disconnected="bridge", **options)
    if "affinity" in options:
        model.set_params(n_neighbors=None, disconnected="keep")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X)
    along = np.eye(3)[[0, 1]] * [[1.0], [-1.0]]
    nearest = [int(np.argmax(X[:, 0])), int(np.argmin(X[:, 1]))]
    expected = model.embedding_[nearest] / (1.0 - model.eigenvalues_)
    np.testing.assert_allclose(model.transform(far * along), expected, rtol=1e-9)


@pytest.mark.parametrize("far", [0.5, 30.0, 3e3])
def test_shares_of_underflowing_weights_by_many_digits(far):
    nearest = sp.csr_array(
        (far + np.array([0.0, 1e-4, 2e-4, 0.3]), [0, 2, 1, 3], [0, 4]), shape=(1, 4)
    )
    among = sp.csr_array(np.ones((4, 4)) - np.eye(4))
    shares, degrees = EdgeWeights.of(among, "union", 0.75).of_new(nearest)
    with localcontext() as context:
        context.prec = 60
        context.Emin = -(10**8)
        weights = [(-(Decimal(x) ** 2) / Decimal("0.75")).exp() for x in nearest.data.tolist()]
        total = sum(weights)
        expected = [float(w / total) for w in weights]
        degree = float(total)
    np.testing.assert_allclose(shares.data, expected, rtol=1e-9)
    np.testing.assert_allclose(degrees, [degree], rtol=1e-9, atol=0.0 if degree else 1e-300)


@pytest.mark.parametrize("bandwidth", ["local", "median"])
def test_a_row_further_than_digits_tell_is_a_mean_of_rows(bandwidth):
    X = np.random.default_rng(6).normal(size=(80, 3))
    model = LaplacianEigenmaps(2, n_neighbors=12, weights="heat", bandwidth=bandwidth).fit(X)
    for far in (1e3, 1e80, 1e149):
        Z = model.transform(np.array([[far, 0.0, 0.0]]))
        assert np.isfinite(Z).all()
        low, high = model.embedding_.min(axis=0), model.embedding_.max(axis=0)
        mean = Z * (1.0 - model.eigenvalues_)
        assert np.all((low <= mean) & (mean <= high))
