"""Embedding quality against brute force, scikit-learn and SciPy; its laws and its errors."""

from itertools import combinations

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.spatial
import sklearn.manifold
from numpy.testing import assert_allclose
from scipy.spatial.distance import cdist

from eigengap.comparison.embedding import (
    continuity,
    embedding_quality,
    neighbour_recall,
    residual_variance,
    trustworthiness,
)
from eigengap.comparison.procrustes import align, procrustes_distance

# Brute force --------------------------------------------------------------------------------


def by_hand(D, E, k):
    """Trustworthiness, point by point, from two full matrices of distances without ties."""
    n, total = len(D), 0
    for i in range(n):
        others = [j for j in range(n) if j != i]
        near = sorted(others, key=lambda j: E[i, j])[:k]
        order = sorted(others, key=lambda j: D[i, j])
        total += sum(max(0, order.index(j) + 1 - k) for j in near)
    return 1 - 2 / (n * k * (2 * n - 3 * k - 1)) * total


def shared(D, E, k):
    """Mean share of common neighbours."""
    n, total = len(D), 0.0
    for i in range(n):
        others = [j for j in range(n) if j != i]
        a = set(sorted(others, key=lambda j: D[i, j])[:k])
        b = set(sorted(others, key=lambda j: E[i, j])[:k])
        total += len(a & b) / k
    return total / n


@pytest.fixture
def X():
    return np.random.default_rng(0).normal(size=(60, 5)) @ np.diag([3, 2, 1, 0.5, 0.2])


@pytest.mark.parametrize("k", [1, 4, 15, 29])
@pytest.mark.parametrize("d", [5, 40])
def test_all_figures_by_brute_force(k, d):
    rng = np.random.default_rng(k)
    A = rng.normal(size=(60, d))
    Z = A[:, :2] + 0.1 * rng.normal(size=(60, 2))
    D, E = cdist(A, A), cdist(Z, Z)
    found = embedding_quality(A, Z, n_neighbors=k)
    assert_allclose(found.trustworthiness, by_hand(D, E, k), rtol=1e-13)
    assert_allclose(found.continuity, by_hand(E, D, k), rtol=1e-13)
    assert_allclose(found.neighbour_recall, shared(D, E, k), rtol=1e-13)
    pairs = np.triu_indices(60, 1)
    d1, d2 = D[pairs], E[pairs]
    assert_allclose(found.residual_variance, 1 - np.corrcoef(d1, d2)[0, 1] ** 2, rtol=1e-10)
    scales = np.sum(d1 * d2) / np.sum(d2**2)
    assert_allclose(found.scale, scales, rtol=1e-12)
    best = np.sqrt(np.sum((d1 - scales * d2) ** 2) / np.sum(d1**2))
    assert_allclose(found.stress, best, rtol=1e-10)
    assert_allclose(found.trustworthiness, trustworthiness(A, Z, n_neighbors=k), rtol=1e-14)
    assert_allclose(found.continuity, continuity(A, Z, n_neighbors=k), rtol=1e-14)
    assert_allclose(found.neighbour_recall, neighbour_recall(A, Z, n_neighbors=k), rtol=1e-14)
    assert_allclose(found.residual_variance, residual_variance(A, Z), rtol=1e-10)


@pytest.mark.parametrize("shape", [(700, 3), (700, 64), (300, 200)])
@pytest.mark.parametrize("k", [1, 5, 40])
def test_trustworthiness_is_that_of_scikit_learn(shape, k):
    rng = np.random.default_rng(1)
    A = rng.normal(size=shape) + 100.0
    Z = A[:, :2] ** 2
    theirs = sklearn.manifold.trustworthiness(A, Z, n_neighbors=k)
    assert abs(trustworthiness(A, Z, n_neighbors=k) - theirs) < 1e-12
    assert continuity(A, Z, n_neighbors=k) == pytest.approx(
        sklearn.manifold.trustworthiness(Z, A, n_neighbors=k), abs=1e-12
    )


@pytest.mark.parametrize("metric", ["cityblock", "cosine", "chebyshev", "seuclidean"])
def test_other_metrics(X, metric):
    Z = X[:, :2]
    options = {"V": np.var(X, axis=0, ddof=1)} if metric == "seuclidean" else {}
    D = cdist(X, X, metric, **options)
    expected = by_hand(D, cdist(Z, Z), 5)
    assert_allclose(trustworthiness(X, Z, metric=metric), expected, rtol=1e-13)
    assert_allclose(trustworthiness(D, Z, metric="precomputed"), expected, rtol=1e-13)
    found = embedding_quality(D, Z, metric="precomputed", n_neighbors=5)
    assert_allclose(found.trustworthiness, expected, rtol=1e-13)


@pytest.mark.parametrize(
    ("name", "same"), [("manhattan", "cityblock"), ("l1", "cityblock"), ("l2", "euclidean")]
)
def test_names_of_scikit_learn(X, name, same):
    Z = X[:, :2]
    theirs = sklearn.manifold.trustworthiness(X, Z, metric=name)
    assert_allclose(trustworthiness(X, Z, metric=name), theirs, rtol=1e-12)
    whole = embedding_quality(X, Z, metric=name)
    assert whole.residual_variance == embedding_quality(X, Z, metric=same).residual_variance
    assert f"{name} distances" in repr(whole)
    A = X.copy()
    A[3, 1] = np.nan
    if same == "euclidean":
        assert trustworthiness(A, Z, metric=name) == trustworthiness(A, Z)


def test_a_metric_of_ones_own(X):
    def far(a, b):
        return float(np.sum(np.abs(a - b) ** 3))

    D = cdist(X, X, far)
    assert_allclose(
        trustworthiness(X, X[:, :2], metric=far), by_hand(D, cdist(X[:, :2], X[:, :2]), 5)
    )


def test_other_distances_for_the_global_figures(X):
    """Isomap's own: residual variance against distances along the graph."""
    Z, D = X[:, :2], cdist(X, X, "cityblock")
    given = embedding_quality(X, Z, distances=D)
    plain = embedding_quality(X, Z)
    called = embedding_quality(X, Z, distances=lambda rows: D[rows])
    assert given.trustworthiness == plain.trustworthiness
    assert_allclose(given.residual_variance, residual_variance(D, Z, metric="precomputed"))
    assert given.residual_variance == called.residual_variance
    assert abs(given.residual_variance - plain.residual_variance) > 1e-3


def test_missing_compare_the_cells_that_both_rows_have(X):
    A = X.copy()
    A[:, 1:][np.random.default_rng(2).random((60, 4)) < 0.3] = np.nan  # all share column 0
    n, d = A.shape
    D = np.zeros((n, n))
    for i in range(n):
        for j in range(n):
            both = ~np.isnan(A[i]) & ~np.isnan(A[j])
            D[i, j] = np.sqrt(np.sum((A[i] - A[j])[both] ** 2) * d / np.sum(both))
    Z = X[:, :2]
    assert_allclose(trustworthiness(A, Z), by_hand(D, cdist(Z, Z), 5), rtol=1e-13)
    assert_allclose(
        residual_variance(A, Z), residual_variance(D, Z, metric="precomputed"), rtol=1e-10
    )


def over_all_choices(D, E, k):
    """Trustworthiness and recall as means over all k nearest that ties allow, by enumeration."""
    n, cost, hits = len(D), 0.0, 0.0
    for i in range(n):
        others = [j for j in range(n) if j != i]
        last = sorted(E[i, others])[k - 1]
        sure = [j for j in others if E[i, j] < last]
        tied = [j for j in others if E[i, j] == last]
        rank = {j: 1 + sum(D[i, m] < D[i, j] for m in others) for j in others}
        choices = list(combinations(tied, k - len(sure)))
        for chosen in choices:
            found = [rank[j] for j in (*sure, *chosen)]
            cost += sum(max(0, r - k) for r in found) / len(choices)
            hits += sum(r <= k for r in found) / len(choices)
    return 1 - 2 / (n * k * (2 * n - 3 * k - 1)) * cost, hits / (n * k)


@pytest.mark.parametrize("k", [1, 3, 6])
@pytest.mark.parametrize("d", [2, 8])
def test_ties_by_all_choices(k, d):
    """Whole numbers tie all the time; eight columns are too many for a tree."""
    rng = np.random.default_rng(10)
    A, Z = rng.integers(0, 4, size=(20, 3)).astype(float), rng.integers(0, 3, size=(20, d))
    Z = Z.astype(float)
    D, E = cdist(A, A, "sqeuclidean"), cdist(Z, Z, "sqeuclidean")
    trust, recall = over_all_choices(D, E, k)
    kept, _ = over_all_choices(E, D, k)
    found = embedding_quality(A, Z, n_neighbors=[k, 9])
    assert_allclose(found.trustworthiness[0], trust, rtol=1e-12)
    assert_allclose(found.continuity[0], kept, rtol=1e-12)
    assert_allclose(found.neighbour_recall[0], recall, rtol=1e-12)
    assert_allclose(trustworthiness(A, Z, n_neighbors=k), trust, rtol=1e-12)
    assert_allclose(continuity(A, Z, n_neighbors=k), kept, rtol=1e-12)
    assert_allclose(neighbour_recall(A, Z, n_neighbors=k), recall, rtol=1e-12)


@pytest.mark.parametrize("d", [2, 40])
def test_the_order_of_tied_points_does_not_matter(d):
    """Also of distances that are equal but for rounding, as of a grid that was turned."""
    rng = np.random.default_rng(11)
    grid = np.stack(np.meshgrid(*[np.arange(6.0)] * 3), axis=-1).reshape(-1, 3)
    Z = np.zeros((len(grid), d))
    Z[:, :2] = grid[:, :2]  # six points on each other
    Z = Z @ np.linalg.qr(rng.normal(size=(d, d)))[0] + 3.0
    first = [f(grid, Z) for f in (trustworthiness, continuity, neighbour_recall)]
    assert first[0] < 1.0
    for seed in range(3):
        order = np.random.default_rng(seed).permutation(len(grid))
        again = [f(grid[order], Z[order]) for f in (trustworthiness, continuity, neighbour_recall)]
        assert_allclose(again, first, rtol=1e-12)
        whole = embedding_quality(grid[order], Z[order], n_neighbors=[5, 10])
        assert_allclose(whole.trustworthiness[0], first[0], rtol=1e-12)
        assert_allclose(whole.neighbour_recall[1], first[2], rtol=1e-12)


@pytest.mark.parametrize("k", [29, 30, 45, 59])
def test_recall_of_large_neighbourhoods(X, k):
    Z = X[:, :2]
    expected = shared(cdist(X, X), cdist(Z, Z), k)
    assert_allclose(neighbour_recall(X, Z, n_neighbors=k), expected, rtol=1e-13)


# Laws ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("d", [3, 30])
def test_ties_and_copies_cost_nothing(d):
    """A grid, every point twice, turned: distances tie everywhere, up to rounding."""
    rng = np.random.default_rng(3)
    grid = np.stack(np.meshgrid(*[np.arange(4.0)] * 3), axis=-1).reshape(-1, 3)
    A = np.zeros((2 * len(grid), d))
    A[:, :3] = np.tile(grid, (2, 1))
    turned = A @ np.linalg.qr(rng.normal(size=(d, d)))[0] + 1000.0
    found = embedding_quality(A, turned, n_neighbors=[1, 5, 10])
    assert_allclose(found.trustworthiness, 1.0)
    assert_allclose(found.continuity, 1.0)
    assert_allclose(found.neighbour_recall, 1.0)
    assert found.stress < 1e-7
    assert trustworthiness(A, turned) == 1.0
    assert trustworthiness(np.zeros((20, 2)), np.zeros((20, 2))) == 1.0


def test_the_order_of_points_does_not_matter(X):
    order = np.random.default_rng(4).permutation(len(X))
    a = embedding_quality(X, X[:, :2])
    b = embedding_quality(X[order], X[order][:, :2])
    assert_allclose(a.trustworthiness, b.trustworthiness, rtol=1e-14)
    assert_allclose(a.row_trustworthiness[order], b.row_trustworthiness, rtol=1e-14)
    assert_allclose(a.residual_variance, b.residual_variance, rtol=1e-10)


def test_far_clusters_are_resolved():
    """A matrix product would lose all distances within a cluster: they are computed anew."""
    rng = np.random.default_rng(5)
    A = np.round(rng.normal(size=(80, 30)), 3)
    A[40:] += 1e8
    Z = A[:, :2] - np.where(np.arange(80) < 40, 0.0, 1e8)[:, None] + 1.0
    Z[40:] += 50.0
    assert_allclose(trustworthiness(A, Z), by_hand(cdist(A, A), cdist(Z, Z), 5), rtol=1e-13)


def test_the_mean_over_rows_is_the_figure(X):
    found = embedding_quality(X, X[:, :2], n_neighbors=[3, 8])
    assert found.row_trustworthiness.shape == found.row_recall.shape == (60, 2)
    assert_allclose(found.row_trustworthiness.mean(axis=0), found.trustworthiness)
    assert_allclose(found.row_continuity.mean(axis=0), found.continuity)
    one = embedding_quality(X, X[:, :2], n_neighbors=8)
    assert isinstance(one.trustworthiness, float)
    assert one.row_recall.shape == (60,)
    assert_allclose(one.trustworthiness, found.trustworthiness[1])


def test_a_sample_estimates_the_whole():
    rng = np.random.default_rng(6)
    A = rng.normal(size=(1500, 4))
    Z = A[:, :2]
    whole, part = embedding_quality(A, Z), embedding_quality(A, Z, sample=400)
    assert not whole.is_sampled
    assert part.is_sampled
    assert len(part.rows) == 400
    assert_allclose(part.row_trustworthiness, whole.row_trustworthiness[part.rows], rtol=1e-13)
    se = whole.row_trustworthiness.std() / 20
    assert abs(part.trustworthiness - whole.trustworthiness) < 4 * se
    assert "sample of 400 of 1500" in part.summary
    again = embedding_quality(A, Z, sample=400)
    assert again.trustworthiness == part.trustworthiness
    other = embedding_quality(A, Z, sample=400, random_state=1)
    assert other.trustworthiness != part.trustworthiness


def test_threads_change_nothing():
    A = np.random.default_rng(7).normal(size=(3000, 20))
    a = embedding_quality(A, A[:, :2], sample=300)
    b = embedding_quality(A, A[:, :2], sample=300, n_jobs=2)
    assert a.trustworthiness == b.trustworthiness
    assert a.residual_variance == b.residual_variance


def test_tables_of_any_kind(X):
    expected = trustworthiness(X, X[:, :2])
    names = list("abcde")
    assert trustworthiness(pd.DataFrame(X, columns=names), X[:, :2].tolist()) == expected
    assert trustworthiness(pl.DataFrame(X, schema=names), pd.DataFrame(X[:, :2])) == expected
    frame = embedding_quality(X, X[:, :2], n_neighbors=[5, 7]).to_frame()
    assert list(frame["n_neighbors"]) == [5, 7]
    assert frame["trustworthiness"][0] == expected


def test_the_summary_tells_the_figures(X):
    text = repr(embedding_quality(X, X[:, :2], n_neighbors=[5, 7]))
    assert "all 60 points" in text
    assert "5 neighbours: trustworthiness" in text
    assert "residual variance" in text


# Errors -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"n_neighbors": 30}, "less than half of the 60 points"),
        ({"n_neighbors": 0}, "positive integer"),
        ({"n_neighbors": []}, "at least one"),
        ({"sample": 0}, "sample must be"),
        ({"sample": "some"}, "sample must be"),
        ({"metric": "nonsense"}, "nonsense"),
        ({"distances": np.zeros((3, 3))}, r"square matrix \(60, 60\)"),
        ({"distances": np.where(np.eye(60) > 0, 0.0, np.inf)}, "no path joins"),
        ({"distances": -np.ones((60, 60))}, "negative: -1 at row 0, column 0"),
        ({"distances": lambda rows: np.ones((len(rows), 60))}, "row 0, column 0: if these are"),
        ({"metric": lambda a, b: np.inf}, "gives inf for rows 0 and 1"),
    ],
    ids=[
        "half",
        "zero",
        "empty",
        "sample0",
        "sample-word",
        "metric",
        "distances",
        "infinite",
        "negative",
        "itself",
        "no-distance",
    ],
)
def test_what_is_refused(X, change, message):
    with pytest.raises(ValueError, match=message):
        embedding_quality(X, X[:, :2], **change)


def test_points_must_be_the_same(X):
    with pytest.raises(ValueError, match="X has 60 rows but Z has 59"):
        trustworthiness(X, X[1:, :2])
    Z = X[:, :2].copy()
    Z[7, 1] = np.nan
    with pytest.raises(ValueError, match="no coordinate at row 7, column 1"):
        trustworthiness(X, Z)
    with pytest.raises(ValueError, match=r"square matrix \(60, 60\)"):
        trustworthiness(X, X[:, :2], metric="precomputed")


def test_infinite_coordinates_are_those_of_z(X):
    Z = X[:, :2].copy()
    Z[7, 1] = np.inf
    for points in (Z, pd.DataFrame(Z), Z.tolist()):
        with pytest.raises(ValueError, match=r"Input Z contains infinity: inf at row 7, column 1"):
            trustworthiness(X, points)
    with pytest.raises(ValueError, match="Input truth contains infinity"):
        align(X[:, :2], Z)
    with pytest.raises(ValueError, match="Input X contains infinity"):
        trustworthiness(Z, X)
    with pytest.raises(ValueError, match="Input Z has a column that is not numeric"):
        trustworthiness(X, pd.DataFrame({"a": ["x"] * 60}))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ((3, 5, -0.5), r"negative: -0.5 at row 3, column 5"),
        ((4, 4, 0.25), r"itself is 0.25, not 0, at row 4, column 4"),
        ((2, 9, 77.0), r"not symmetric: 77 at row 2, column 9, but .* at row 9, column 2"),
    ],
    ids=["negative", "itself", "asymmetric"],
)
def test_distances_that_are_none(X, change, message):
    i, j, value = change
    D = cdist(X, X)
    D[i, j] = value
    with pytest.raises(ValueError, match=message):
        trustworthiness(D, X[:, :2], metric="precomputed")
    with pytest.raises(ValueError, match=message):
        embedding_quality(X, X[:, :2], distances=D)


def test_rounding_of_given_distances_is_no_fault(X):
    D = cdist(X, X)
    rough = D + 1e-9 * np.random.default_rng(12).normal(size=D.shape)
    Z = X[:, :2]
    assert trustworthiness(rough, Z, metric="precomputed") == trustworthiness(X, Z)
    single = D.astype(np.float32)
    assert abs(trustworthiness(single, Z, metric="precomputed") - trustworthiness(X, Z)) < 1e-3


def test_metrics_that_cannot_learn_from_the_rows(X):
    A = np.column_stack([X, X[:, 0] + X[:, 1]])
    with pytest.raises(ValueError, match=r"mahalanobis.* singular: .*PCA"):
        trustworthiness(A, X[:, :2], metric="mahalanobis")
    A = np.column_stack([X, np.ones(60)])
    with pytest.raises(ValueError, match="but column 5 of X is constant"):
        trustworthiness(A, X[:, :2], metric="seuclidean")
    whole = trustworthiness(X, X[:, :2], metric="mahalanobis")
    D = cdist(X, X, "mahalanobis", VI=np.linalg.inv(np.cov(X.T)))
    assert_allclose(whole, by_hand(D, cdist(X[:, :2], X[:, :2]), 5), rtol=1e-13)


def test_missing_that_cannot_be_compared(X):
    A = X.copy()
    A[3, :3] = np.nan
    A[9, 3:] = np.nan
    with pytest.raises(ValueError, match="rows 3 and 9 of X have no cell in common"):
        trustworthiness(A, X[:, :2])
    with pytest.raises(ValueError, match=r"row 3, column 0; metric=.cosine. does not accept"):
        trustworthiness(A, X[:, :2], metric="cosine")


def test_equal_points_leave_nothing_unexplained():
    found = embedding_quality(np.zeros((20, 3)), np.zeros((20, 2)), n_neighbors=3)
    assert found.residual_variance == 0.0
    assert found.stress == 0.0


# Procrustes ---------------------------------------------------------------------------------


def test_disparity_is_that_of_scipy():
    rng = np.random.default_rng(8)
    truth = rng.normal(size=(40, 3)) * [3, 1, 0.5]
    Z = truth @ np.linalg.qr(rng.normal(size=(3, 3)))[0] * 7 + 5 + rng.normal(size=(40, 3))
    _, _, expected = scipy.spatial.procrustes(truth, Z)
    assert_allclose(procrustes_distance(Z, truth), expected, rtol=1e-10)
    assert_allclose(procrustes_distance(truth, Z), expected, rtol=1e-10)
    found = align(Z, truth)
    left = np.sum((found.aligned - truth) ** 2) / np.sum((truth - truth.mean(axis=0)) ** 2)
    assert_allclose(found.disparity, left, rtol=1e-10)
    assert_allclose(found.apply(Z), found.aligned, atol=1e-12)
    assert_allclose(found.correlation, np.sqrt(1 - expected), rtol=1e-10)


@pytest.mark.parametrize("scaling", [True, False])
@pytest.mark.parametrize("reflection", [True, False])
def test_what_may_be_undone_is_undone(scaling, reflection):
    rng = np.random.default_rng(9)
    truth = rng.normal(size=(30, 2))
    turn = np.array([[0.6, -0.8], [0.8, 0.6]])
    moved = truth @ turn + [3.0, -1.0]
    options = {"scaling": scaling, "reflection": reflection}
    assert procrustes_distance(moved, truth, **options) < 1e-14
    assert (procrustes_distance(3.0 * moved, truth, **options) < 1e-14) == scaling
    mirrored = moved * [1.0, -1.0]
    assert (procrustes_distance(mirrored, truth, **options) < 1e-14) == reflection
    # What is left is the least that any rotation leaves: try them all.
    Z = 2.0 * mirrored + 0.3 * rng.normal(size=(30, 2))
    A, B = Z - Z.mean(axis=0), truth - truth.mean(axis=0)
    least = np.inf
    for angle in np.linspace(0, 2 * np.pi, 4001):
        c, s = np.cos(angle), np.sin(angle)
        for flip in (1.0, -1.0) if reflection else (1.0,):
            T = A @ np.array([[c, -s * flip], [s, c * flip]])
            scale = np.sum(T * B) / np.sum(T * T) if scaling else 1.0
            if scale > 0 or not scaling:
                least = min(least, np.sum((scale * T - B) ** 2) / np.sum(B**2))
    assert_allclose(procrustes_distance(Z, truth, **options), least, rtol=1e-4)


def test_configurations_of_different_width():
    line = np.linspace(0, 1, 20)[:, None]
    plane = np.hstack([line, np.zeros((20, 1))]) @ np.array([[0.6, 0.8], [-0.8, 0.6]])
    assert procrustes_distance(plane, line) < 1e-14
    assert procrustes_distance(line, plane) < 1e-14
    assert align(line, plane).aligned.shape == align(plane, line).aligned.shape == (20, 2)


def test_what_cannot_be_aligned():
    Z = np.arange(6.0).reshape(3, 2)
    with pytest.raises(ValueError, match="3 points but truth has 2"):
        align(Z, Z[:2])
    with pytest.raises(ValueError, match="all points of truth coincide"):
        align(Z, np.ones((3, 2)))
    with pytest.raises(ValueError, match="no coordinate at row 1, column 0"):
        align(Z, [[0, 1], [np.nan, 2], [1, 1]])
    with pytest.raises(ValueError, match="3 columns"):
        align(Z, Z).apply(np.zeros((2, 3)))
