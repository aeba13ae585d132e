"""Maximum variance unfolding against cvxpy + Clarabel, PCA, curves of known length, finite
differences."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse
from scipy.sparse.linalg import ArpackNoConvergence
from sklearn.datasets import make_swiss_roll
from sklearn.manifold import Isomap, trustworthiness
from sklearn.neighbors import kneighbors_graph

from eigengap.estimators.unfolding import MaximumVarianceUnfolding
from eigengap.fitting.sdp import certificate as low_rank_certificate
from eigengap.fitting.sdp import metric as low_rank_metric
from eigengap.fitting.sdp.certificate import certify
from eigengap.fitting.sdp.descent import _point
from eigengap.fitting.sdp.problem import Affinity, Penalty, Problem, Variance
from eigengap.fitting.sdp.unfolding import geodesic_start, unfold
from eigengap.linalg import procrustes
from eigengap.models.maps.graph import Graph

NORMAL = np.random.default_rng(0).normal(size=(30, 5))


def graph_of(X, k):
    near = kneighbors_graph(X, k, mode="distance").tocoo()
    return Graph.of_edges(len(X), near.row.astype(np.int64), near.col.astype(np.int64), near.data)


def by_clarabel(graph, constraint):
    import cvxpy as cp

    i, j, lengths = graph.edges
    K = cp.Variable((graph.n, graph.n), PSD=True)
    D = cp.hstack([K[a, a] + K[b, b] - 2 * K[a, b] for a, b in zip(i, j, strict=True)])
    keeps = lengths**2 == D if constraint == "equal" else lengths**2 >= D
    program = cp.Problem(cp.Maximize(cp.trace(K)), [cp.sum(K) == 0, keeps])
    program.solve(solver=cp.CLARABEL)
    return program.value, K.value


# The semidefinite program ---------------------------------------------------------------------


@pytest.mark.parametrize("constraint", ["equal", "at_most"])
@pytest.mark.parametrize("k", [3, 4])
def test_it_is_what_an_interior_point_method_finds(constraint, k):
    graph = graph_of(NORMAL, k)
    value, K = by_clarabel(graph, constraint)
    found = unfold(graph, constraint, tol=1e-6, max_iter=100)
    assert found.converged
    assert found.worst < 1e-4
    assert np.sum(found.lam) == pytest.approx(value, rel=1e-5)
    assert found.gap < 1e-4
    apart = np.linalg.norm(found.Z @ found.Z.T - K) / np.linalg.norm(K)
    # Equal lengths of few neighbours leave K some freedom: flat optima are found to less.
    assert apart < (1e-4 if constraint == "at_most" else 2e-2)


@pytest.mark.parametrize("constraint", ["equal", "at_most"])
@pytest.mark.parametrize("tol", [1e-2, 1e-4], ids=["rough", "fine"])
def test_the_gap_is_no_smaller_than_that_to_the_true_optimum(constraint, tol):
    graph = graph_of(NORMAL[:20], 4)
    value, _ = by_clarabel(graph, constraint)
    found = unfold(graph, constraint, tol=tol)
    assert found.gap >= (value - np.sum(found.lam)) / value - 1e-7


@pytest.mark.slow
@pytest.mark.parametrize("constraint", ["equal", "at_most"])
def test_sixty_rows_of_a_roll_are_what_an_interior_point_method_finds(constraint):
    graph = graph_of(make_swiss_roll(60, random_state=0)[0], 3)
    value, _ = by_clarabel(graph, constraint)
    found = unfold(graph, constraint, tol=1e-6, max_iter=100)
    assert np.sum(found.lam) == pytest.approx(value, rel=2e-5)


def test_bounds_from_above_leave_more_variance_than_equal_lengths():
    graph = graph_of(NORMAL, 4)
    equal, at_most = (np.sum(unfold(graph, how, tol=1e-6).lam) for how in ("equal", "at_most"))
    assert at_most > equal * 1.01


def test_a_complete_graph_gives_principal_components():
    X = np.random.default_rng(1).normal(size=(14, 3)) * [3.0, 2.0, 1.0]
    scores = np.linalg.svd(X - X.mean(axis=0), full_matrices=False)
    aim = scores[0] * scores[1]
    for how in ("equal", "at_most"):
        Z = MaximumVarianceUnfolding(3, n_neighbors=13, constraint=how, tol=1e-7).fit_transform(X)
        assert np.allclose(np.abs(Z), np.abs(aim), atol=1e-5)


@pytest.mark.parametrize("constraint", ["equal", "at_most"])
def test_points_on_a_line_come_back(constraint):
    t = np.cumsum(np.random.default_rng(2).uniform(0.9, 1.1, size=30)) / 30
    X = np.outer(t, [3.0, 4.0])
    model = MaximumVarianceUnfolding(1, n_neighbors=2, constraint=constraint, tol=1e-7).fit(X)
    Z = model.embedding_[:, 0]
    Z = Z * np.sign(Z[-1] - Z[0])
    assert np.allclose(Z, 5 * (t - t.mean()), atol=1e-4)
    assert model.eigenvalues_[1] < 1e-4 * model.eigenvalues_[0]


@pytest.mark.parametrize("constraint", ["equal", "at_most"])
def test_a_curve_is_unrolled_to_its_length(constraint):
    t = np.linspace(0.0, 4.0, 60)
    X = np.column_stack([np.cos(t), np.sin(t), t])
    Z = MaximumVarianceUnfolding(1, n_neighbors=2, constraint=constraint).fit_transform(X)
    assert np.ptp(Z) == pytest.approx(4.0 * np.sqrt(2.0), rel=2e-3)


# The bound -------------------------------------------------------------------------------------


def test_any_multipliers_bound_what_is_feasible():
    graph = graph_of(NORMAL, 4)
    i, j, lengths = graph.edges
    ones = scipy.sparse.csr_array(scipy.sparse.eye_array(len(i)))
    problem = Problem(graph.n, i, j, Variance(np.ones(graph.n)), lengths**2, lengths**2, ones)
    own = np.sum((NORMAL - NORMAL.mean(axis=0)) ** 2)  # the rows themselves are feasible
    rng = np.random.default_rng(3)
    for _ in range(20):
        proof = certify(problem, rng.uniform(0.1, 3.0, size=len(i)), 5)
        assert proof.bound >= own


def test_the_bound_is_that_of_a_dense_eigenvalue(monkeypatch):
    graph = graph_of(np.random.default_rng(4).normal(size=(200, 2)), 6)
    i, j, lengths = graph.edges
    ones = scipy.sparse.csr_array(scipy.sparse.eye_array(len(i)))
    low = np.full(len(i), -np.inf)
    weights = np.random.default_rng(5).uniform(1.0, 3.0, size=200)
    problem = Problem(graph.n, i, j, Variance(weights), low, lengths**2, ones)
    t = np.random.default_rng(6).uniform(size=len(i))
    dense = certify(problem, t, 3)
    monkeypatch.setattr("eigengap.fitting.sdp.certificate.DENSE", 50)
    sparse = certify(problem, t, 3)
    L = problem.laplacian(t).toarray() / np.sqrt(np.outer(weights, weights))
    assert dense.mu == pytest.approx(np.linalg.eigvalsh(L)[1], rel=1e-9)
    assert sparse.mu == pytest.approx(dense.mu, rel=1e-6)
    assert sparse.bound == pytest.approx(dense.bound, rel=1e-6)


def test_an_eigenvalue_that_the_first_search_overlooks_is_found(monkeypatch):
    graph = graph_of(np.random.default_rng(4).uniform(size=(200, 2)), 6)
    i, j, lengths = graph.edges
    ones = scipy.sparse.csr_array(scipy.sparse.eye_array(len(i)))
    problem = Problem(graph.n, i, j, Variance(np.ones(200)), lengths**2, lengths**2, ones)
    t = np.full(len(i), 5.0)
    t[(i == 17) | (j == 17)] = -0.3  # one node is pushed away by its neighbours
    aim = np.linalg.eigvalsh(problem.laplacian(t).toarray())[0]
    monkeypatch.setattr("eigengap.fitting.sdp.certificate.DENSE", 50)
    search = low_rank_certificate.eigsh

    def overlooks(*args, **options):
        if options.get("maxiter"):
            raise ArpackNoConvergence("not found", [], [])
        return search(*args, **options)

    monkeypatch.setattr(low_rank_certificate, "eigsh", overlooks)
    proof = certify(problem, t, 3)
    assert aim < -low_rank_certificate.NEGATIVE
    assert proof.mu == pytest.approx(aim, rel=1e-2)
    assert proof.bound == np.inf
    assert proof.upward.shape == (200, 1)


def test_a_price_on_what_is_not_bounded_proves_nothing():
    graph = graph_of(NORMAL, 4)
    i, j, lengths = graph.edges
    ones = scipy.sparse.csr_array(scipy.sparse.eye_array(len(i)))
    low = np.full(len(i), -np.inf)
    problem = Problem(graph.n, i, j, Variance(np.ones(graph.n)), low, lengths**2, ones)
    t = np.ones(len(i))
    assert np.isfinite(certify(problem, t, 3).bound)
    t[0] = -1e-3
    assert certify(problem, t, 3).bound == np.inf


# The solver ------------------------------------------------------------------------------------


@pytest.mark.parametrize("gain", ["variance", "groups", "affinity"])
@pytest.mark.parametrize("basis", [False, True], ids=["points", "combinations"])
def test_gradients_are_those_of_finite_differences(gain, basis):
    rng = np.random.default_rng(7)
    n, m, c = 9, 14, 6
    i, j = rng.integers(0, 4, size=m), rng.integers(4, 9, size=m)
    A = rng.uniform(size=(n, n)) < 0.4
    gains = {
        "variance": Variance(rng.uniform(1.0, 2.0, size=n)),
        "groups": Variance(np.ones(n), np.arange(n) // 5),
        "affinity": Affinity(scipy.sparse.csr_array((A | A.T).astype(float))),
    }
    problem = Problem(
        n,
        i,
        j,
        gains[gain],
        np.full(c, -np.inf),
        rng.uniform(size=c),
        scipy.sparse.csr_array(rng.normal(size=(c, m)) * (rng.uniform(size=(c, m)) < 0.5)),
        cap=3.0,
        total=1.0,
        basis=rng.normal(size=(n, 5)) if basis else None,
    )
    penalty = Penalty(problem, rng.normal(size=c + 1), 2.0)

    def value(V):
        Y = problem.points(V)
        E = Y[i] - Y[j]
        s = np.append(problem.combine @ np.sum(E**2, axis=1), np.sum(Y**2) / n)
        return penalty.at(s)[0] - np.sum(Y * problem.gain.apply(Y))

    V = rng.normal(size=(problem.p, 2))
    found = _point(problem, penalty, V).gradient
    step = 1e-6
    for a in range(problem.p):
        for b in range(2):
            change = np.zeros_like(V)
            change[a, b] = step
            slope = (value(V + change) - value(V - change)) / (2 * step)
            assert found[a, b] == pytest.approx(slope, rel=1e-5, abs=1e-5)


@pytest.mark.parametrize("kind", ["blocks", "shared", "diagonal"])
def test_every_metric_leads_to_the_same_optimum(monkeypatch, kind):
    graph = graph_of(NORMAL[:15], 3)
    aim = np.sum(unfold(graph, "at_most", tol=1e-5, max_iter=200).lam)
    monkeypatch.setattr(low_rank_metric, "kind_for", lambda problem, r: kind)
    found = unfold(graph, "at_most", tol=1e-3, max_iter=200)
    assert np.sum(found.lam) == pytest.approx(aim, rel=1e-2)


def test_a_rank_that_is_too_low_is_raised(monkeypatch):
    monkeypatch.setattr("eigengap.fitting.sdp.unfolding.SMALL", 0)
    X = np.random.default_rng(8).normal(size=(30, 6))
    graph = graph_of(X, 29)  # rigid in six dimensions
    found = unfold(graph, "equal", columns=2, max_iter=100)
    assert found.rank >= 6
    assert found.rms < 1e-3


def test_the_start_is_the_geodesic_line():
    t = np.array([0.0, 1.0, 3.0, 4.0])
    graph = Graph.of_edges(4, np.arange(3), np.arange(1, 4), np.diff(t))
    Y = geodesic_start(graph, 2, np.ones(4), np.random.default_rng(0))
    assert np.allclose(np.abs(Y[:, 0]), np.abs(t - t.mean()))


# A surface -------------------------------------------------------------------------------------


def roll(n, noise):
    X, t = make_swiss_roll(n, noise=noise, random_state=0)
    length = 0.5 * (t * np.sqrt(1 + t**2) + np.arcsinh(t))
    clean = make_swiss_roll(n, noise=0.0, random_state=0)[0]
    T = np.column_stack([length, clean[:, 1]])
    return X, T - T.mean(axis=0)


def correlations(Z, T):
    Z = Z @ procrustes(Z, T)
    return [np.corrcoef(Z[:, k], T[:, k])[0, 1] for k in range(2)]


@pytest.mark.slow
def test_a_roll_is_unrolled():
    X, T = roll(1000, 0.2)
    model = MaximumVarianceUnfolding().fit(X)
    assert min(correlations(model.embedding_, T)) > 0.99
    assert model.constraint_violation_rms_ < 5e-3


@pytest.mark.slow
def test_the_noisy_roll_of_three_thousand_rows():
    X, T = roll(3000, 0.2)
    model = MaximumVarianceUnfolding(n_neighbors=6).fit(X)
    assert min(correlations(model.embedding_, T)) > 0.99
    theirs = Isomap(n_neighbors=6).fit_transform(X)
    ours = trustworthiness(X, model.embedding_, n_neighbors=10)
    assert ours >= trustworthiness(X, theirs, n_neighbors=10) - 1e-4


@pytest.mark.slow
def test_landmarks_unroll_it_too():
    X, T = roll(4000, 0.2)
    model = MaximumVarianceUnfolding(n_neighbors=12, landmarks=150, random_state=0).fit(X)
    assert len(model.landmarks_) == 150
    assert min(correlations(model.embedding_, T)) > 0.99
