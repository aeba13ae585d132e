"""What Laplacian eigenmaps refuse, where they say so, and what they warn of."""

import tracemalloc
from decimal import Decimal, localcontext

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

from eigengap.estimators.laplacian_eigenmaps import LaplacianEigenmaps
from eigengap.exceptions import DisconnectedError, DisconnectedWarning, DoesNotFitError
from eigengap.fitting.eigen.smallest import by_filter
from eigengap.fitting.laplacian.fit import fit_laplacian
from eigengap.fitting.laplacian.graph import Laplacian
from eigengap.fitting.laplacian.parts import eigenpairs_by_elimination


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
        ({"affinity": "rbf", "symmetrize": "mutual"}, "symmetrize='mutual' belongs to"),
        ({"affinity": "rbf", "disconnected": "bridge"}, "'keep' or 'error'"),
        ({"affinity": "rbf", "metric": "cosine"}, "metric='cosine' belongs to"),
        ({"affinity": "rbf", "metric_params": {"p": 3}}, "metric_params=.* belongs to"),
        ({"affinity": "rbf", "neighbors_algorithm": "brute"}, "neighbors_algorithm='brute'"),
        ({"affinity": "rbf", "bandwidth": 2.0}, "bandwidth=2.0 belongs to weights='heat'"),
        ({"bandwidth": "local"}, "bandwidth='local' belongs to weights='heat'"),
        ({"metric_params": {"nonsense": 1}}, "metric='euclidean' takes none"),
        ({"n_neighbors": 61}, "counts the row itself"),
        ({"n_components": 60}, "59 eigenvectors besides the constant one"),
        ({"n_components": 61, "drop_first": False}, "60 eigenvectors"),
    ],
    ids=[
        "both",
        "radius",
        "heat",
        "mutual",
        "bridge",
        "metric",
        "metric_params",
        "algorithm",
        "bandwidth of rbf",
        "bandwidth of 1",
        "nonsense",
        "neighbours",
        "components",
        "all",
    ],
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


def test_missing_in_given_graphs():
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


def offset_columns():
    return np.column_stack([np.full(200, 1.7e9), np.linspace(0.0, 1e-3, 200)])


def with_an_outlier():
    X = np.random.default_rng(0).normal(size=(200, 3))
    X[7] = 1e12
    return X


def with_missing():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(150, 4))
    X[rng.random(X.shape) < 0.15] = np.nan
    X[np.isnan(X).all(axis=1)] = 0.0
    return X


def binary():
    return np.unique(np.random.default_rng(0).random((150, 12)) < 0.4, axis=0)


@pytest.mark.filterwarnings("ignore::eigengap.exceptions.DisconnectedWarning")
@pytest.mark.filterwarnings("ignore::eigengap.exceptions.UncertainNeighboursWarning")
@pytest.mark.parametrize(
    ("rows", "options"),
    [
        (offset_columns, {}),
        (offset_columns, {"affinity": "rbf", "n_neighbors": None}),
        (with_an_outlier, {}),
        (lambda: 1e8 + 1e-5 * np.random.default_rng(0).normal(size=(200, 3)), {}),
        (with_missing, {}),
        (with_missing, {"metric": "nan_euclidean"}),
        (binary, {"metric": "jaccard"}),
        (lambda: np.random.default_rng(0).random((150, 12)), {"metric": "cosine"}),
    ],
    ids=["offset", "rbf", "outlier", "1e8", "gaps", "nan_euclidean", "jaccard", "cosine"],
)
def test_fitted_rows_are_known_again(rows, options):
    X = rows()
    model = LaplacianEigenmaps(2, **{"n_neighbors": 8, **options}).fit(X)
    np.testing.assert_array_equal(model.transform(X), model.embedding_)
    np.testing.assert_array_equal(model.transform(X[5:6]), model.embedding_[5:6])


@pytest.mark.filterwarnings("ignore::eigengap.exceptions.DisconnectedWarning")
@pytest.mark.parametrize("form", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
def test_fitted_nodes_are_known_again_beside_a_heavy_edge(form):
    W = np.triu(np.random.default_rng(0).random((100, 100)) < 0.1, 1) * 1.0
    W[0, 1] = 1e9
    W = W + W.T
    model = LaplacianEigenmaps(2, affinity="precomputed").fit(form(W))
    np.testing.assert_array_equal(model.transform(form(W)), model.embedding_)


def test_a_new_row_does_not_depend_on_others(X):
    for options in ({"n_neighbors": 6}, {"affinity": "rbf", "gamma": 0.5}):
        model = LaplacianEigenmaps(2, **options).fit(X)
        new = X[:1] + 1e-4
        far = np.vstack([new, np.full((1, 3), 1e6)])
        np.testing.assert_allclose(model.transform(far)[:1], model.transform(new), rtol=1e-12)


def test_a_row_of_which_nothing_is_observed():
    X = with_missing()
    model = LaplacianEigenmaps(2, n_neighbors=8, metric="nan_euclidean").fit(X)
    with pytest.raises(ValueError, match="row 2 "):
        model.transform(np.vstack([X[:2], np.full((1, 4), np.nan)]))


def test_distances_that_are_none():
    D = sp.csr_array(np.array([[0.0, 1.0, 2.0], [1.0, 0.0, np.inf], [2.0, np.inf, 0.0]]))
    with pytest.raises(ValueError, match="inf"):
        LaplacianEigenmaps(1, affinity="precomputed_nearest_neighbors", n_neighbors=3).fit(D)


def test_what_is_done_to_the_result_does_not_reach_the_model(X):
    model = LaplacianEigenmaps(2, n_neighbors=6)
    Z = model.fit_transform(X)
    before = Z.copy()
    Z[:] = 0.0
    np.testing.assert_array_equal(model.transform(X), before)


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
    with pytest.warns(DisconnectedWarning, match="all coordinates of 2 only separate them"):
        model.fit(X)
    assert model.solver_ == "null space"
    assert np.all(model.eigenvalues_ == 0.0)


@pytest.mark.filterwarnings("ignore::eigengap.exceptions.DisconnectedWarning")
def test_a_graph_without_any_edge():
    for options in ({"radius": 0.1}, {"affinity": "precomputed"}):
        X = np.zeros((5, 5)) if "affinity" in options else np.arange(5.0)[:, None]
        Z = LaplacianEigenmaps(2, **options).fit_transform(X)
        assert np.all(np.isfinite(Z))


def test_very_many_components_take_no_more_memory_than_coordinates():
    """Of 20 000 rows without any edge: all 19 999 contrasts would be 3.2 GB."""
    X = np.arange(20_000.0)[:, None]
    for drop_first in (True, False):
        tracemalloc.start()
        model = LaplacianEigenmaps(2, radius=1e-9, drop_first=drop_first)
        with pytest.warns(DisconnectedWarning, match="20000 components"):
            model.fit(X)
        assert tracemalloc.get_traced_memory()[1] < 100e6
        tracemalloc.stop()
        Y = model.embedding_
        np.testing.assert_allclose(Y.T @ Y, np.eye(2), atol=1e-12)


# Parts that hang together by little -----------------------------------------------------------


def weighted_path(w):
    return sp.csr_array(sp.diags_array([w, w], offsets=[1, -1]))


def of_sturm(w, q, normalized=True):
    """The q smallest eigenvalues above 0 of a path, by bisection in 60 digits (Sturm)."""
    with localcontext() as context:
        context.prec = 60
        w = [Decimal(float(x)) for x in w]
        d = [a + b for a, b in zip([Decimal(0), *w], [*w, Decimal(0)], strict=True)]
        main = [Decimal(1)] * len(d) if normalized else d
        off = [
            x * x / (a * b) if normalized else x * x
            for x, a, b in zip(w, d[:-1], d[1:], strict=True)
        ]

        def below(x):
            count, pivot = 0, main[0] - x
            for a, b in zip([*main[1:], None], [*off, None], strict=True):
                count += pivot < 0
                if a is not None:
                    pivot = a - x - b / (pivot or Decimal("1e-50"))
            return count

        found = []
        for k in range(1, q + 1):
            low, high = Decimal("1e-45"), 4 * max(d)
            while high > low * Decimal("1.0000001"):
                middle = (low * high).sqrt()
                low, high = (low, middle) if below(middle) > k else (middle, high)
            found.append(float(high))
        return np.array(found)


def one_link(seed):
    rng = np.random.default_rng(seed)
    w = rng.random(599) + 0.1
    w[rng.integers(100, 500)] = 1e-18
    return w


def links(*weights):
    """Paths of 700, 600, 700, ... nodes joined by the weights."""
    parts = [np.ones(699)]
    for k, weight in enumerate(weights):
        parts += [[weight], np.ones(699 if k % 2 else 599)]
    return np.concatenate(parts)


@pytest.mark.parametrize(
    ("w", "q"),
    [
        (one_link(1), 2),
        (one_link(5), 2),
        (links(1e-14), 4),
        (links(1e-9, 1e-15), 4),
        (links(1e-10, 2e-10), 3),
        (links(1e-8, 2e-8), 3),
        (10.0 ** np.random.default_rng(2).uniform(-12, 12, 199), 3),
        (10.0 ** np.random.default_rng(2).uniform(-4, 0, 599), 3),
    ],
    ids=["1e-18", "another", "1e-14", "two", "1e-10", "1e-8", "24 decades", "4 decades"],
)
@pytest.mark.parametrize("normalized", [True, False])
def test_eigenvalues_below_rounding(w, q, normalized):
    model = LaplacianEigenmaps(q, affinity="precomputed", normalized=normalized)
    model.fit(weighted_path(w))
    np.testing.assert_allclose(model.eigenvalues_, of_sturm(w, q, normalized), rtol=1e-6)
    largest = 2.0 if normalized else 4.0 * np.max(w)
    assert np.all(model.residuals_ <= 1e-5 * model.eigenvalues_ + 1e-14 * largest)


@pytest.mark.parametrize("seed", [1, 5])
@pytest.mark.parametrize("normalized", [True, False])
def test_vectors_are_within_the_angle_promised(seed, normalized):
    """Against elimination, whose eigenvalues those of the bisection are: another way throughout."""
    W = weighted_path(one_link(seed))
    graph = Laplacian(W, normalized)
    fit = fit_laplacian(graph, 2)
    assert fit.certified
    lam, V = eigenpairs_by_elimination(W.toarray(), graph.mass)
    np.testing.assert_allclose(fit.lam, lam[:2], rtol=1e-9)
    np.testing.assert_allclose(lam[:2], of_sturm(one_link(seed), 2, normalized), rtol=1e-6)
    X = graph.root * fit.Y
    V = V[:, :2]
    assert np.max(np.linalg.norm(X - V * np.sum(V * X, axis=0), axis=0)) <= 1e-9


@pytest.mark.parametrize("solver", ["arpack", "lobpcg", "dense"])
def test_every_solver_sees_the_weak_link(solver):
    w = one_link(1)
    model = LaplacianEigenmaps(2, affinity="precomputed", eigen_solver=solver)
    model.fit(weighted_path(w))
    np.testing.assert_allclose(model.eigenvalues_, of_sturm(w, 2), rtol=1e-6)
    at = int(np.argmin(w)) + 1  # the first function is constant on the two sides
    y = model.embedding_[:, 0]
    assert max(np.ptp(y[:at]), np.ptp(y[at:])) < 1e-9 * np.ptp(y)


def test_right_or_a_warning():
    """Weights over 24 decades on a path that is too long for elimination."""
    w = 10.0 ** np.random.default_rng(2).uniform(-12, 12, 1999)
    model = LaplacianEigenmaps(2, affinity="precomputed")
    with pytest.warns(ConvergenceWarning, match="less than rounding"):
        model.fit(weighted_path(w))


def test_groups_within_a_radius():
    """1 000 rows in two groups whose heat weights across are 1e-15: the second function, within a
    group, was another one."""
    rng = np.random.default_rng(0)
    away = np.array([14.0, 0.0])
    X = np.vstack([rng.standard_normal((500, 2)), rng.standard_normal((500, 2)) + away])
    model = LaplacianEigenmaps(2, radius=11.0, weights="heat").fit(X)
    assert model.n_connected_components_ == 1
    W = model.affinity_matrix_.toarray()
    np.fill_diagonal(W, 0.0)
    d = W.sum(axis=1)
    lam = np.linalg.eigvalsh(np.eye(1000) - W / np.sqrt(np.outer(d, d)))
    np.testing.assert_allclose(model.eigenvalues_[1], lam[2], rtol=1e-9)
    cut = W[:500, 500:].sum()
    expected = cut * (1 / d[:500].sum() + 1 / d[500:].sum())
    np.testing.assert_allclose(model.eigenvalues_[0], expected, rtol=1e-9)


def twelve_blocks(bridge):
    rng = np.random.default_rng(0)
    blocks = [np.triu(rng.random((50, 50)), 1) for _ in range(12)]
    W = sp.lil_array(sp.block_diag([A + A.T for A in blocks]))
    for i in range(11):
        W[50 * i + 49, 50 * i + 50] = W[50 * i + 50, 50 * i + 49] = bridge * (1 + 9 * i)
    return sp.csr_array(W)


def chain_of(W, blocks=12, size=50):
    """Eigenvalues of the chain of blocks itself, scaled so that LAPACK sees them."""
    sums = np.kron(np.eye(blocks), np.ones(size))
    across = W.toarray()
    mass = sums @ across.sum(axis=1)
    for k in range(blocks):
        across[size * k : size * (k + 1), size * k : size * (k + 1)] = 0.0
    A = sums @ across @ sums.T
    scale = A.max()
    root = np.sqrt(mass)
    L = (np.diag(A.sum(axis=1)) - A) / scale
    return np.linalg.eigvalsh(L / np.outer(root, root))[1:] * scale


@pytest.mark.parametrize("bridge", [1e-40, 1e-12, 1e-6])
@pytest.mark.parametrize("solver", [None, "lobpcg", "dense"])
def test_twelve_blocks(bridge, solver):
    W = twelve_blocks(bridge)
    model = LaplacianEigenmaps(3, affinity="precomputed", eigen_solver=solver).fit(W)
    np.testing.assert_allclose(model.eigenvalues_, chain_of(W)[:3], rtol=1e-4)
    within = model.embedding_[:, :3].reshape(12, 50, 3)
    assert np.max(np.ptp(within, axis=1)) < 1e-4 * np.ptp(model.embedding_)


def test_a_filter_that_gets_nowhere_on_a_small_graph_is_given_up():
    fit = fit_laplacian(Laplacian(twelve_blocks(1e-6)), 3, solver="filtered")
    assert fit.solver == "dense"
    assert fit.certified


def test_cliques_joined_by_next_to_nothing():
    """Closed form: the cut over both volumes. LAPACK's error is 1e-31."""
    W = np.kron(np.eye(3), np.ones((20, 20)))
    np.fill_diagonal(W, 0.0)
    W[0, 20] = W[20, 0] = 1e-30
    W[21, 40] = W[40, 21] = 1e-20
    model = LaplacianEigenmaps(2, affinity="precomputed").fit(W)
    v = 20 * 19
    expected = [1e-30 * (1 / v + 1 / (2 * v)), 1e-20 * 2 / v]
    np.testing.assert_allclose(model.eigenvalues_, expected, rtol=1e-9)


@pytest.mark.parametrize("scale", [1e-300, 1e300, 1e-318])
@pytest.mark.parametrize("normalized", [True, False])
def test_very_small_and_large_weights(scale, normalized):
    w = np.random.default_rng(0).random(299) + 0.1
    plain = fit_laplacian(Laplacian(weighted_path(w), normalized), 2)
    found = fit_laplacian(Laplacian(weighted_path(w * scale), normalized), 2)
    rtol = 1e-9 if scale > 1e-310 else 0.05  # of which few digits are left
    expected = plain.lam if normalized else plain.lam * scale
    np.testing.assert_allclose(found.lam, expected, rtol=rtol)
    Y = found.Y * np.sqrt(scale) if normalized else found.Y
    Y = Y * np.sign(np.sum(Y * plain.Y, axis=0))
    np.testing.assert_allclose(Y, plain.Y, atol=100 * rtol * np.abs(plain.Y).max())


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
    from eigengap.fitting.laplacian import fit as laplacian_solver

    def short(M, k, angle, seed, most, longest):
        return by_filter(M, k, angle, seed, most, longest=40)

    monkeypatch.setattr(laplacian_solver, "by_filter", short)
    model = LaplacianEigenmaps(2, affinity="precomputed", eigen_solver="lobpcg")
    with pytest.warns(ConvergenceWarning, match="residuals_"):
        model.fit(path(3500))
    assert np.max(model.residuals_) > 1e-6
    model.set_params(eigen_solver=None)  # which would factorise in the end
    model.fit(path(3500))
    assert np.max(model.residuals_) < 1e-10


def test_a_failed_fit_leaves_a_new_estimator_unfitted(X):
    model = LaplacianEigenmaps(2, n_neighbors=500)
    with pytest.raises(ValueError, match="n_neighbors=500"):
        model.fit(X)
    assert not hasattr(model, "embedding_")
    assert not hasattr(model, "n_features_in_")
