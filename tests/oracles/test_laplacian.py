"""Laplacian eigenmaps against closed-form spectra, LAPACK, scikit-learn and written-out sums."""

import numpy as np
import pytest
import scipy.linalg
import scipy.sparse as sp
import scipy.sparse.linalg
from sklearn.cluster import KMeans
from sklearn.datasets import make_circles, make_moons, make_swiss_roll
from sklearn.manifold import SpectralEmbedding
from sklearn.metrics import adjusted_rand_score
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.neighbors import kneighbors_graph

from eigengap.estimators.laplacian_eigenmaps import LaplacianEigenmaps
from eigengap.exceptions import DisconnectedWarning
from eigengap.fitting.laplacian.factor import cost_of_factor
from eigengap.fitting.laplacian.fit import fit_laplacian
from eigengap.fitting.laplacian.graph import Laplacian
from eigengap.fitting.laplacian.weights import EdgeWeights

SPARSE_SOLVERS = ["factorised", "filtered"]


def path(n, *, closed=False):
    ends = np.arange(n if closed else n - 1)
    one_way = sp.coo_array((np.ones(len(ends)), (ends, (ends + 1) % n)), shape=(n, n))
    return sp.csr_array(one_way + one_way.T)


def same_up_to_sign(a, b, **tolerance):
    np.testing.assert_allclose(a * np.sign(np.sum(a * b, axis=0)), b, **tolerance)


def of_lapack(W, *, normalized=True):
    """All eigenpairs of L y = lam D y by the generalised solver, another way than ours."""
    W = W.toarray() if sp.issparse(W) else np.array(W)
    np.fill_diagonal(W, 0.0)
    D = np.diag(W.sum(axis=1))
    return scipy.linalg.eigh(D - W, D if normalized else None)


@pytest.fixture
def roll():
    return make_swiss_roll(700, random_state=0)[0]


# Closed forms -------------------------------------------------------------------------------


@pytest.mark.parametrize("solver", ["arpack", "dense"])
@pytest.mark.parametrize("n", [7, 300])
def test_path(n, solver):
    model = LaplacianEigenmaps(4, affinity="precomputed", normalized=False, eigen_solver=solver)
    model.fit(path(n))
    k = np.arange(1, 5)
    np.testing.assert_allclose(model.eigenvalues_, 2 - 2 * np.cos(np.pi * k / n), rtol=1e-8)
    exact = np.cos(np.pi * (np.arange(n)[:, None] + 0.5) * k / n)
    same_up_to_sign(model.embedding_, exact / np.linalg.norm(exact, axis=0), atol=1e-8)


@pytest.mark.parametrize("solver", [None, "arpack"])
def test_long_path_and_cycle(solver):
    """The smallest eigenvalue is 1e-7 of the largest; those of the cycle come in pairs."""
    n, k = 5000, np.arange(1, 6)
    model = LaplacianEigenmaps(5, affinity="precomputed", normalized=False, eigen_solver=solver)
    model.fit(path(n))
    np.testing.assert_allclose(model.eigenvalues_, 4 * np.sin(np.pi * k / (2 * n)) ** 2, rtol=1e-8)
    exact = np.cos(np.pi * (np.arange(n)[:, None] + 0.5) * k / n)
    same_up_to_sign(model.embedding_, exact / np.linalg.norm(exact, axis=0), atol=1e-8)
    model.fit(path(n, closed=True))
    exact = 4 * np.sin(np.pi * np.array([1, 1, 2, 2, 3]) / n) ** 2
    np.testing.assert_allclose(model.eigenvalues_, exact, rtol=1e-8)
    assert np.all(model.residuals_ < 1e-10)


def test_very_long_path_keeps_relative_accuracy():
    """The wanted eigenvalues are 1e-9 of the largest, near what rounding leaves of a matrix."""
    n, k = 50_000, np.arange(1, 3)
    fit = fit_laplacian(Laplacian(path(n), normalized=False), 2)
    np.testing.assert_allclose(fit.lam, 4 * np.sin(np.pi * k / (2 * n)) ** 2, rtol=1e-10)
    exact = np.cos(np.pi * (np.arange(n)[:, None] + 0.5) * k / n)
    same_up_to_sign(fit.Y, exact / np.linalg.norm(exact, axis=0), atol=1e-8)


@pytest.mark.parametrize("n", [9, 801])
def test_cycle_normalised_is_half_of_it_without(n):
    k = np.array([1, 1, 2, 2])
    model = LaplacianEigenmaps(4, affinity="precomputed").fit(path(n, closed=True))
    np.testing.assert_allclose(model.eigenvalues_, 1 - np.cos(2 * np.pi * k / n), rtol=1e-8)


@pytest.mark.parametrize("solver", SPARSE_SOLVERS)
def test_star_has_a_repeated_eigenvalue(solver):
    """0, 1 (n - 2 times) and n without, and 0, 1 (n - 2 times) and 2 with normalising."""
    n = 900
    ends = np.arange(1, n)
    W = sp.coo_array((np.ones(n - 1), (np.zeros(n - 1, int), ends)), shape=(n, n))
    W = sp.csr_array(W + W.T)
    for normalized in (True, False):
        fit = fit_laplacian(Laplacian(W, normalized), 4, solver=solver)
        np.testing.assert_allclose(fit.lam, 1.0, rtol=1e-8)
        X = fit.Y * np.sqrt(W.sum(axis=1) if normalized else np.ones(n))[:, None]
        np.testing.assert_allclose(X.T @ X, np.eye(4), atol=1e-8)
        assert fit.certified


def test_complete_and_complete_bipartite_graphs():
    n = 12
    complete = LaplacianEigenmaps(3, affinity="precomputed", normalized=False)
    np.testing.assert_allclose(complete.fit(np.ones((n, n))).eigenvalues_, n, rtol=1e-10)
    two_sides = np.kron([[0.0, 1.0], [1.0, 0.0]], np.ones((6, 6)))
    model = LaplacianEigenmaps(11, affinity="precomputed").fit(two_sides)
    np.testing.assert_allclose(model.eigenvalues_, [*[1.0] * 10, 2.0], rtol=1e-10)
    sides = np.sign(model.embedding_[:, -1])  # the fastest function tells the two sides apart
    assert abs(np.sum(sides[:6])) == 6
    assert np.all(sides[:6] == -sides[6:])


def test_grid_is_the_sum_of_two_paths():
    a, b = 40, 25
    one = path(a), path(b)
    W = sp.kron(one[0], sp.eye_array(b)) + sp.kron(sp.eye_array(a), one[1])
    lines = [2 - 2 * np.cos(np.pi * np.arange(m) / m) for m in (a, b)]
    exact = np.sort(np.add.outer(*lines).ravel())[1:7]
    for solver in SPARSE_SOLVERS:
        fit = fit_laplacian(Laplacian(sp.csr_array(W), normalized=False), 6, solver=solver)
        np.testing.assert_allclose(fit.lam, exact, rtol=1e-9)


# Dense truth --------------------------------------------------------------------------------


@pytest.mark.parametrize("normalized", [True, False])
@pytest.mark.parametrize("solver", ["arpack", "lobpcg", "dense", None])
def test_equals_dense_eigenvectors(roll, solver, normalized):
    model = LaplacianEigenmaps(5, n_neighbors=8, eigen_solver=solver, normalized=normalized)
    Y = model.fit_transform(roll)
    lam, V = of_lapack(model.affinity_matrix_, normalized=normalized)
    np.testing.assert_allclose(model.eigenvalues_, lam[1:6], rtol=1e-8)
    same_up_to_sign(Y, V[:, 1:6], atol=1e-7 * np.abs(V[:, 1:6]).max())
    assert np.all(model.residuals_ < 1e-8)


def test_filter_where_a_factor_would_fill_in():
    """Neighbours in eight dimensions: chosen by cost, and the same as ARPACK without inverse."""
    n = 7000
    X = np.random.default_rng(0).normal(size=(n, 8))
    model = LaplacianEigenmaps(3, n_neighbors=10).fit(X)
    assert model.solver_ == "filtered"
    W = model.affinity_matrix_ - sp.eye_array(n)
    root = np.sqrt(W.sum(axis=1))
    A = sp.diags_array(1 / root) @ W @ sp.diags_array(1 / root)
    mu, V = scipy.sparse.linalg.eigsh(A, 4, which="LA", tol=1e-12)
    np.testing.assert_allclose(model.eigenvalues_, 1 - mu[::-1][1:], rtol=1e-8)
    exact = V[:, ::-1][:, 1:] / root[:, None]
    same_up_to_sign(model.embedding_, exact, atol=1e-7 * np.abs(exact).max())
    assert np.all(model.residuals_ < 1e-10)


def test_residuals_are_what_they_say(roll):
    model = LaplacianEigenmaps(3, n_neighbors=8).fit(roll)
    W = model.affinity_matrix_.toarray()
    np.fill_diagonal(W, 0.0)
    d = W.sum(axis=1)
    M = np.eye(len(W)) - W / np.sqrt(np.outer(d, d))
    # An embedding that is off: its residuals as M itself gives them.
    wrong = model.embedding_ + 1e-3 * np.random.default_rng(0).normal(size=(len(W), 3))
    X = np.sqrt(d)[:, None] * wrong
    X /= np.linalg.norm(X, axis=0)
    graph = Laplacian(sp.csr_array(W))
    lam = graph.quotients(wrong)
    np.testing.assert_allclose(lam, np.diag(X.T @ M @ X), rtol=1e-10)
    expected = np.linalg.norm(M @ X - X * lam, axis=0)
    np.testing.assert_allclose(graph.residuals(wrong, lam), expected, rtol=1e-10)


def test_the_probe_tells_thin_graphs_from_thick_ones():
    """Neighbours on a curve fill in hardly anything, in ten dimensions nearly everything."""
    rng = np.random.default_rng(0)
    n, costs = 3000, []
    for d in (1, 10):
        A = kneighbors_graph(rng.normal(size=(n, d)), 8)
        W = sp.csr_array(A.maximum(A.T))
        costs.append(cost_of_factor(W, np.asarray(W.sum(axis=1)).ravel()))
    assert costs[0].entries < 30 * n
    assert costs[1].entries > 0.02 * n**2
    assert costs[1].multiplications > 100 * costs[0].multiplications


# scikit-learn -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"n_neighbors": 9},
        {"affinity": "rbf", "gamma": 0.05},
        {"affinity": "rbf"},
    ],
    ids=["default", "9 neighbours", "rbf", "rbf default"],
)
def test_is_the_embedding_of_scikit_learn(roll, options):
    ours = LaplacianEigenmaps(3, **options).fit(roll)
    theirs = SpectralEmbedding(3, random_state=0, **options).fit(roll)
    np.testing.assert_allclose(
        _dense(ours.affinity_matrix_), _dense(theirs.affinity_matrix_), atol=1e-12
    )
    same_up_to_sign(ours.embedding_, theirs.embedding_, atol=1e-6 * np.abs(ours.embedding_).max())
    if "affinity" not in options:
        assert ours.n_neighbors_ == theirs.n_neighbors_
    elif options.get("gamma") is None:
        assert ours.gamma_ == theirs.gamma_


def test_given_graphs_as_in_scikit_learn(roll):
    affinities = rbf_kernel(roll, gamma=0.05)
    distances = kneighbors_graph(roll, 12, mode="distance", include_self=True)
    for X, options in (
        (affinities, {"affinity": "precomputed"}),
        (sp.csr_array(np.where(affinities > 0.2, affinities, 0.0)), {"affinity": "precomputed"}),
        (distances, {"affinity": "precomputed_nearest_neighbors", "n_neighbors": 10}),
    ):
        ours = LaplacianEigenmaps(2, **options).fit(X)
        theirs = SpectralEmbedding(2, random_state=0, **options).fit(X)
        scale = np.abs(ours.embedding_).max()
        same_up_to_sign(ours.embedding_, theirs.embedding_, atol=1e-6 * scale)
    rows = LaplacianEigenmaps(2, n_neighbors=10).fit(roll)
    np.testing.assert_allclose(ours.embedding_, rows.embedding_, atol=1e-9)


def test_groups_that_hardly_hang_together():
    """exp(-gamma |x - y|^2) of two groups is 1e-30 at the most: the graph is in one piece, and its
    second eigenvector tells the groups apart. scikit-learn's default solver mixes it with the
    constant one, which has the same eigenvalue to rounding."""
    rng = np.random.default_rng(0)
    X = np.vstack([rng.normal(size=(100, 2)), rng.normal((20.0, 0.0), size=(150, 2))])
    model = LaplacianEigenmaps(1, affinity="rbf", gamma=1.0).fit(X)
    assert model.n_connected_components_ == 1
    y, W = model.embedding_[:, 0], rbf_kernel(X, gamma=1.0)
    np.fill_diagonal(W, 0.0)
    d = W.sum(axis=1)
    assert np.ptp(y[:100]) < 1e-6 * np.ptp(y)
    assert np.ptp(y[100:]) < 1e-6 * np.ptp(y)
    assert abs(d @ y) < 1e-10 * np.sqrt(d.sum())  # orthogonal to the constant
    np.testing.assert_allclose(d @ y**2, 1.0, rtol=1e-10)
    theirs = SpectralEmbedding(1, affinity="rbf", gamma=1.0, random_state=0).fit_transform(X)[:, 0]
    assert abs(d @ theirs) > 0.01 * np.sqrt(d.sum())


@pytest.mark.parametrize("solver", SPARSE_SOLVERS)
def test_a_weak_link_between_sparse_parts(solver):
    rng = np.random.default_rng(0)
    A = sp.random_array((700, 700), density=0.02, rng=rng)
    W = sp.lil_array(sp.block_diag([A + A.T, A + A.T]))
    W.setdiag(0.0)
    W[0, 700] = W[700, 0] = 1e-18
    W = sp.csr_array(W)
    fit = fit_laplacian(Laplacian(W), 2, solver=solver)
    assert fit.n_components == 1
    y = fit.Y[:, 0]
    assert max(np.ptp(y[:700]), np.ptp(y[700:])) < 1e-6 * np.ptp(y)
    volume = W.sum() / 2
    np.testing.assert_allclose(fit.lam[0], 2e-18 / volume, rtol=1e-6)  # cut (1 / vol + 1 / vol)


# Weights ------------------------------------------------------------------------------------


def nearest_by_brute_force(X, others):
    D = np.linalg.norm(X[:, None] - X, axis=2)
    np.fill_diagonal(D, np.inf)
    near = np.argsort(D, axis=1, kind="stable")[:, :others]
    A = np.zeros(D.shape, dtype=bool)
    np.put_along_axis(A, near, True, axis=1)
    np.fill_diagonal(D, 0.0)
    return D, A


@pytest.mark.parametrize("bandwidth", [None, 0.7, "median", "local"])
@pytest.mark.parametrize("graph", ["average", "union", "mutual"])
def test_weights_written_out(graph, bandwidth):
    X = np.random.default_rng(3).normal(size=(60, 3))
    D, A = nearest_by_brute_force(X, 9)
    if bandwidth is None:
        heat = np.ones(D.shape)
    elif bandwidth == "local":
        sigma = np.sort(D, axis=1)[:, 7]  # the seventh, the row itself not counted
        heat = np.exp(-(D**2) / np.outer(sigma, sigma))
    else:
        t = np.median(D[A]) ** 2 if bandwidth == "median" else bandwidth
        heat = np.exp(-(D**2) / t)
    share = {"average": (A * 1.0 + A.T) / 2, "union": A | A.T, "mutual": A & A.T}[graph]
    options = {} if bandwidth is None else {"weights": "heat", "bandwidth": bandwidth}
    model = LaplacianEigenmaps(1, n_neighbors=10, symmetrize=graph, **options)
    if graph == "mutual":
        with pytest.warns(DisconnectedWarning, match="59 and 1 rows"):
            model.fit(X)
    else:
        model.fit(X)
    np.testing.assert_allclose(
        model.affinity_matrix_.toarray(), heat * share + np.eye(60), atol=1e-12
    )


def test_radius_graph(roll):
    model = LaplacianEigenmaps(2, radius=5.0, weights="heat", bandwidth=4.0).fit(roll)
    D = np.linalg.norm(roll[:, None] - roll, axis=2)
    W = np.where(D <= 5.0, np.exp(-(D**2) / 4.0), 0.0)
    np.testing.assert_allclose(model.affinity_matrix_.toarray(), W, atol=1e-12)
    assert not hasattr(model, "n_neighbors_")


@pytest.mark.slow
def test_approximate_neighbours_give_nearly_the_same():
    X = make_swiss_roll(3000, noise=0.2, random_state=0)[0]
    exact = LaplacianEigenmaps(2, n_neighbors=10).fit(X)
    near = LaplacianEigenmaps(2, n_neighbors=10, neighbors_algorithm="approximate", random_state=0)
    near.fit(X)
    np.testing.assert_allclose(near.eigenvalues_, exact.eigenvalues_, rtol=0.05)
    same_up_to_sign(near.embedding_, exact.embedding_, atol=0.05 * np.abs(exact.embedding_).max())
    np.testing.assert_array_equal(near.transform(X[:50]), near.embedding_[:50])


def test_metric_precomputed_is_the_same_search(roll):
    D = np.linalg.norm(roll[:, None] - roll, axis=2)
    rows = LaplacianEigenmaps(2, n_neighbors=8).fit(roll[:300])
    pairs = LaplacianEigenmaps(2, n_neighbors=8, metric="precomputed").fit(D[:300, :300])
    np.testing.assert_allclose(pairs.embedding_, rows.embedding_, atol=1e-9)
    np.testing.assert_allclose(
        pairs.transform(D[300:, :300]), rows.transform(roll[300:]), atol=1e-8
    )


# Components ---------------------------------------------------------------------------------


def three_parts(rng):
    sizes, at = (40, 70, 20), ([0.0, 0.0], [60.0, 0.0], [0.0, 60.0])
    X = np.vstack([rng.normal(size=(m, 2)) + c for m, c in zip(sizes, at, strict=True)])
    return X, np.repeat([0, 1, 2], sizes)


def test_zero_eigenvalues_count_components():
    X, part = three_parts(np.random.default_rng(1))
    model = LaplacianEigenmaps(5, n_neighbors=6, drop_first=False)
    with pytest.warns(DisconnectedWarning, match="3 components of 70, 40 and 20 rows"):
        Y = model.fit_transform(X)
    assert model.n_connected_components_ == 3
    np.testing.assert_array_equal(model.eigenvalues_ == 0.0, [True] * 3 + [False] * 2)
    for k, which in enumerate([1, 0, 2]):  # indicators, the largest component first
        assert np.ptp(Y[part == which, k]) == 0.0
        assert np.all(Y[part != which, k] == 0.0)
    lam, _ = of_lapack(model.affinity_matrix_)
    np.testing.assert_allclose(model.eigenvalues_[3:], lam[3:5], rtol=1e-8)


@pytest.mark.filterwarnings("ignore::eigengap.exceptions.DisconnectedWarning")
@pytest.mark.parametrize("normalized", [True, False])
def test_contrasts_of_components_are_orthonormal_and_not_constant(normalized):
    X, part = three_parts(np.random.default_rng(1))
    model = LaplacianEigenmaps(4, n_neighbors=6, normalized=normalized).fit(X)
    Y = model.embedding_
    assert np.all(model.eigenvalues_[:2] == 0.0)
    assert model.eigenvalues_[2] > 1e-4
    W = model.affinity_matrix_.toarray() - np.eye(len(X))
    d = W.sum(axis=1) if normalized else np.ones(len(X))
    np.testing.assert_allclose(Y.T @ (d[:, None] * Y), np.eye(4), atol=1e-10)
    np.testing.assert_allclose(d @ Y, 0.0, atol=1e-9)
    for which in range(3):
        assert np.all(np.ptp(Y[part == which, :2], axis=0) == 0.0)
    assert len(np.unique(Y[:, 0])) == 2  # the largest against the others
    assert len(np.unique(Y[:, 1])) == 3


def test_a_node_without_edges_is_a_component():
    W = np.zeros((8, 8))
    W[:7, :7] = path(7).toarray()
    model = LaplacianEigenmaps(2, affinity="precomputed")
    with pytest.warns(DisconnectedWarning, match="2 components"):
        model.fit(W)
    np.testing.assert_allclose(model.eigenvalues_, [0.0, 1 - np.cos(np.pi / 6)], atol=1e-12)


def test_bridges_are_the_shortest_that_join_all():
    """Three parts are joined by two edges: the shorter two of the three between nearest rows."""
    X, part = three_parts(np.random.default_rng(1))
    model = LaplacianEigenmaps(2, n_neighbors=6, disconnected="bridge")
    with pytest.warns(DisconnectedWarning, match="3 components .* joined by their nearest"):
        model.fit(X)
    assert model.n_connected_components_ == 3
    assert np.all(model.eigenvalues_ > 0.0)
    W = model.affinity_matrix_.toarray()
    D = np.linalg.norm(X[:, None] - X, axis=2)
    between = {
        pair: D[np.ix_(part == pair[0], part == pair[1])] for pair in ((0, 1), (0, 2), (1, 2))
    }
    longest = max(between, key=lambda pair: between[pair].min())
    for pair, lengths in between.items():
        block = W[np.ix_(part == pair[0], part == pair[1])]
        assert np.count_nonzero(block) == (pair != longest)
        if pair != longest:
            assert np.argmax(block) == np.argmin(lengths)
            assert np.max(block) == 0.5  # as much as an edge in one direction


# New rows -----------------------------------------------------------------------------------


@pytest.mark.parametrize("normalized", [True, False])
def test_nystroem_written_out(roll, normalized):
    fitted, new = roll[:500], roll[500:520]
    model = LaplacianEigenmaps(2, affinity="rbf", gamma=0.05, normalized=normalized).fit(fitted)
    w = rbf_kernel(new, fitted, gamma=0.05)
    d = w.sum(axis=1, keepdims=True)
    factor = d * (1 - model.eigenvalues_) if normalized else d - model.eigenvalues_
    assert np.all(factor > 0.2 * d)
    np.testing.assert_allclose(model.transform(new), w @ model.embedding_ / factor, rtol=1e-8)


def test_new_rows_of_neighbours_written_out(roll):
    fitted, new = roll[:500], roll[500:520]
    model = LaplacianEigenmaps(2, n_neighbors=8, weights="heat", bandwidth=3.0).fit(fitted)
    D, A = nearest_by_brute_force(fitted, 7)
    reach = np.max(np.where(A, D, 0.0), axis=1)
    far = np.linalg.norm(new[:, None] - fitted, axis=2)
    expected = []
    for row in far:
        near = np.argsort(row)[:7]
        w = np.exp(-(row[near] ** 2) / 3.0) * np.where(row[near] <= reach[near], 1.0, 0.5)
        expected.append(w @ model.embedding_[near] / (w.sum() * (1 - model.eigenvalues_)))
    np.testing.assert_allclose(model.transform(new), expected, rtol=1e-8, atol=1e-12)


def test_affinities_of_new_rows(roll):
    W = rbf_kernel(roll, gamma=0.05)
    rows = LaplacianEigenmaps(2, affinity="rbf", gamma=0.05).fit(roll[:500])
    for form in (np.asarray, sp.csr_array):
        given = LaplacianEigenmaps(2, affinity="precomputed").fit(form(W[:500, :500]))
        np.testing.assert_allclose(
            given.transform(form(W[500:, :500])), rows.transform(roll[500:]), atol=1e-8
        )
        np.testing.assert_allclose(
            given.transform(form(W[:500, :500])), given.embedding_, atol=1e-12
        )

    def kernel(X, Y=None):
        return rbf_kernel(X, Y, gamma=0.05)

    function = LaplacianEigenmaps(2, affinity=kernel).fit(roll[:500])
    np.testing.assert_allclose(function.transform(roll), rows.transform(roll), atol=1e-8)


def test_new_rows_of_a_curve_come_to_lie_between():
    """A spiral's first coordinate is monotone along it, for rows that were not fitted too."""
    s = np.linspace(0.0, 1.0, 801)
    turn = 3 * np.pi * np.sqrt(s + 0.1)
    X = np.column_stack([turn * np.cos(turn), turn * np.sin(turn)])
    model = LaplacianEigenmaps(1, n_neighbors=7).fit(X[::2])
    between = model.transform(X[1::2])[:, 0]
    line = np.corrcoef(np.argsort(np.argsort(between)), s[1::2])[0, 1]
    assert abs(line) > 0.999


# Kernel PCA and spectral clustering ---------------------------------------------------------


def test_is_kernel_pca_of_the_normalised_kernel_without_centring(roll):
    """x = D^1/2 y are the leading eigenvectors of D^-1/2 W D^-1/2 and 1 - lam its eigenvalues: the
    first, D^1/2 1, is what drop_first leaves out."""
    from eigengap.estimators.kernel_pca import KernelPCA

    W = rbf_kernel(roll, gamma=0.05)
    np.fill_diagonal(W, 0.0)
    d = W.sum(axis=1)
    K = W / np.sqrt(np.outer(d, d))
    # Without its diagonal the kernel is not positive; half of the lazy walk is: (I + K) / 2.
    lazy = KernelPCA(4, kernel="precomputed", center=False).fit((np.eye(len(K)) + K) / 2)
    model = LaplacianEigenmaps(3, affinity="precomputed").fit(W)
    np.testing.assert_allclose(2 * lazy.eigenvalues_ - 1, [1.0, *(1 - model.eigenvalues_)])
    X = np.sqrt(d)[:, None] * model.embedding_
    same_up_to_sign(lazy.eigenvectors_[:, 1:], X, atol=1e-6)
    same_up_to_sign(lazy.eigenvectors_[:, :1], np.sqrt(d / d.sum())[:, None], atol=1e-6)


@pytest.mark.parametrize("shape", ["moons", "rings"])
def test_k_means_on_the_embedding_finds_what_it_does_not_find_in_rows(shape):
    if shape == "moons":
        X, y = make_moons(600, noise=0.06, random_state=0)
    else:
        X, y = make_circles(600, factor=0.6, noise=0.05, random_state=0)
    # Heat weights, so that few and long links between the groups hardly count.
    model = LaplacianEigenmaps(1, n_neighbors=40, weights="heat", bandwidth="local")
    Z = model.fit_transform(X)
    assert model.n_connected_components_ == 1
    clusters = KMeans(2, n_init=5, random_state=0)
    assert adjusted_rand_score(y, clusters.fit_predict(Z)) > 0.99
    assert adjusted_rand_score(y, clusters.fit_predict(X)) < 0.6


def test_swiss_roll_along_its_length():
    """The first function runs along the roll: its rank follows the arc length."""
    X, t = make_swiss_roll(1500, noise=0.2, random_state=0)
    y = LaplacianEigenmaps(1, n_neighbors=10).fit_transform(X)[:, 0]
    ranks = np.argsort(np.argsort(y))
    assert abs(np.corrcoef(ranks, np.argsort(np.argsort(t)))[0, 1]) > 0.99


def test_shares_survive_underflow():
    """Weights of a far row are exp(-1e6): their ratios, and so its coordinates, are still there."""
    nearest = sp.csr_array(np.array([[0.0, 1.0, 2.0], [1.0, 0.0, 1.0], [2.0, 1.0, 0.0]]))
    weights = EdgeWeights.of(nearest, "union", 1.0)
    far = sp.csr_array(np.array([[1000.0, 1000.001, 1001.0]]))
    shares, degrees = weights.of_new(far)
    ratio = np.exp(-(1000.001**2 - 1000.0**2))
    np.testing.assert_allclose(
        shares.toarray()[0], [1 / (1 + ratio), ratio / (1 + ratio), 0.0], rtol=1e-8, atol=1e-300
    )
    assert degrees[0] == 0.0


def _dense(W):
    return W.toarray() if sp.issparse(W) else W
