"""What holds of ClassicalMDS whatever the data: routes agree, weights repeat, offsets vanish."""

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from scipy.spatial.distance import cdist
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import eigengap as eg
from eigengap.estimators.classical_mds import ClassicalMDS
from eigengap.exceptions import NegativeEigenvaluesWarning

quiet = pytest.mark.filterwarnings("ignore:negative eigenvalues hold")


def table(n=60, d=5, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, d)) * np.arange(1, d + 1) + 3.0


def test_three_ways_to_the_same_coordinates():
    X, new = table(), table(7, seed=1)
    rows = ClassicalMDS(3).fit(X)
    pairs = ClassicalMDS(3, metric="precomputed").fit(cdist(X, X))
    gram = ClassicalMDS(3, metric="gram").fit(X @ X.T)
    for other in (pairs, gram):
        np.testing.assert_allclose(other.embedding_, rows.embedding_, atol=1e-8)
        np.testing.assert_allclose(other.eigenvalues_, rows.eigenvalues_, rtol=1e-10)
        np.testing.assert_allclose(other.goodness_of_fit_, rows.goodness_of_fit_, rtol=1e-10)
        assert other.n_significant_ == rows.n_significant_ == 5
    np.testing.assert_allclose(pairs.transform(cdist(new, X)), rows.transform(new), atol=1e-8)
    np.testing.assert_allclose(gram.transform(new @ X.T), rows.transform(new), atol=1e-8)


def test_coordinates_are_principal_component_scores():
    X = table()
    pca = eg.PCA(3).fit(X)
    mds = ClassicalMDS(3).fit(X)
    scores = pca.transform(X)
    signs = np.sign(np.sum(scores * mds.embedding_, axis=0))
    np.testing.assert_allclose(mds.embedding_, scores * signs, atol=1e-8)
    np.testing.assert_allclose(mds.eigenvalues_, pca.explained_variance_ * (len(X) - 1))
    np.testing.assert_allclose(
        mds.inverse_transform(mds.embedding_), pca.inverse_transform(scores), atol=1e-8
    )


@quiet
@pytest.mark.parametrize("metric", ["euclidean", "manhattan", "cosine", "mahalanobis"])
@pytest.mark.parametrize("correction", [None, "cailliez", "lingoes"])
def test_transform_of_the_fitted_rows_is_the_embedding(metric, correction):
    X = table()
    mds = ClassicalMDS(3, metric=metric, correction=correction)
    Z = mds.fit_transform(X)
    np.testing.assert_array_equal(Z, mds.embedding_)
    np.testing.assert_allclose(mds.transform(X), Z, atol=1e-8)


@quiet
@pytest.mark.parametrize("metric", ["euclidean", "manhattan", "seuclidean"])
@pytest.mark.parametrize("correction", [None, "cailliez"])
def test_a_weight_is_a_repetition(metric, correction):
    X, new = table(25), table(4, seed=1)
    w = np.random.default_rng(0).integers(0, 4, 25)  # some rows are absent
    weighted = ClassicalMDS(2, metric=metric, correction=correction).fit(X, sample_weight=w)
    repeated = ClassicalMDS(2, metric=metric, correction=correction).fit(np.repeat(X, w, axis=0))
    np.testing.assert_allclose(np.repeat(weighted.embedding_, w, 0), repeated.embedding_, atol=1e-8)
    np.testing.assert_allclose(weighted.eigenvalues_, repeated.eigenvalues_, rtol=1e-9)
    np.testing.assert_allclose(weighted.transform(new), repeated.transform(new), atol=1e-8)
    np.testing.assert_allclose(weighted.goodness_of_fit_, repeated.goodness_of_fit_, rtol=1e-9)


def test_mahalanobis_is_of_the_fitted_rows():
    """In their own units all directions have the same eigenvalue, n - 1; new rows use them too."""
    X, new = table(25), table(4, seed=1) * 3.0
    w = np.random.default_rng(0).integers(1, 4, 25)
    VI = np.linalg.inv(np.cov(np.repeat(X, w, axis=0).T))
    mds = ClassicalMDS(5, metric="mahalanobis").fit(X, sample_weight=w)
    np.testing.assert_allclose(mds.eigenvalues_, w.sum() - 1.0)
    far = cdist(new, X, "mahalanobis", VI=VI)
    np.testing.assert_allclose(cdist(mds.transform(new), mds.embedding_), far, atol=1e-9)


@pytest.mark.parametrize("metric", ["precomputed", "gram"])
def test_an_absent_point_is_added_and_its_missing_with_it(metric):
    X = table(12)
    G = cdist(X, X) if metric == "precomputed" else X @ X.T
    w = np.ones(12)
    w[[3, 7]] = 0.0
    without = ClassicalMDS(2, metric=metric).fit(np.delete(np.delete(G, [3, 7], 0), [3, 7], 1))
    holed = G.copy()
    holed[3, 3:6] = holed[7, 7] = np.nan
    mds = ClassicalMDS(2, metric=metric).fit(holed, sample_weight=w)
    kept = np.flatnonzero(w)
    np.testing.assert_allclose(mds.embedding_[kept], without.embedding_, atol=1e-10)
    assert np.isnan(mds.embedding_[3]).all()
    np.testing.assert_allclose(mds.embedding_[7], without.transform(G[[7]][:, kept])[0], atol=1e-10)


@quiet
@pytest.mark.parametrize(
    "metric", ["euclidean", "manhattan", "chebyshev", "sqeuclidean", "nan_euclidean"]
)
@pytest.mark.parametrize("offset", [1e6, 1e8])
def test_an_offset_changes_nothing(metric, offset):
    """Scorecard T1, on a grid that the offset does not round."""
    X = np.round(table(200) * 64) / 64
    near, far = (ClassicalMDS(3, metric=metric).fit(X + shift) for shift in (0.0, offset))
    np.testing.assert_allclose(far.eigenvalues_, near.eigenvalues_, rtol=1e-6)
    np.testing.assert_allclose(far.embedding_, near.embedding_, atol=1e-6 * 50)
    new = np.round(table(5, seed=1) * 64) / 64
    np.testing.assert_allclose(far.transform(new + offset), near.transform(new), atol=1e-4)


@quiet
@pytest.mark.parametrize("metric", ["euclidean", "manhattan"])
def test_float32_is_summed_in_float64(metric):
    X = (table(300) + 1e4).astype(np.float32)
    single = ClassicalMDS(2, metric=metric)
    Z = single.fit_transform(X)
    double = ClassicalMDS(2, metric=metric).fit(X.astype(np.float64))
    assert Z.dtype == single.transform(X).dtype == np.float32
    np.testing.assert_allclose(single.eigenvalues_, double.eigenvalues_, rtol=1e-3)
    np.testing.assert_allclose(Z, double.embedding_, atol=1e-2)


def test_float32_distances_are_rounded_and_not_asymmetric():
    X = table(100)
    D = cdist(X, X).astype(np.float32)
    D[3, 4] = np.nextafter(D[3, 4], np.float32(0))
    mds = ClassicalMDS(2, metric="precomputed").fit(D)
    np.testing.assert_allclose(mds.embedding_, ClassicalMDS(2).fit(X).embedding_, atol=1e-4)
    assert mds.negative_share_ < 1e-4


@pytest.mark.parametrize("factor", [1e-60, 1e60])
def test_units_change_nothing_but_the_scale(factor):
    X = table()
    D = cdist(X, X)
    one, other = (ClassicalMDS(2, metric="precomputed").fit(D * s) for s in (1.0, factor))
    np.testing.assert_allclose(other.embedding_ / factor, one.embedding_, rtol=1e-9)
    np.testing.assert_allclose(other.goodness_of_fit_, one.goodness_of_fit_, rtol=1e-12)
    assert other.n_significant_ == one.n_significant_


def test_missing_go_through_the_model():
    """MDS of rows with gaps is PCA of them: U'(E[x | seen] - mu)."""
    X = table(80) @ np.random.default_rng(3).normal(size=(5, 6))
    X[np.random.default_rng(0).random(X.shape) < 0.15] = np.nan
    pca = eg.PCA(2).fit(X)
    mds = ClassicalMDS(2).fit(X)
    scores = pca.transform(X)
    signs = np.sign(np.sum(scores * mds.embedding_, axis=0))
    np.testing.assert_allclose(mds.embedding_, scores * signs, atol=1e-8)
    np.testing.assert_allclose(mds.transform(X), mds.embedding_, atol=1e-12)
    assert mds.converged_
    assert ClassicalMDS("auto").fit(X).n_components_ == eg.PCA("auto").fit(X).n_components_


def test_a_new_row_may_have_missing_where_the_fitted_had_none():
    X = table(80) @ np.random.default_rng(3).normal(size=(5, 6))
    mds, pca = ClassicalMDS(2).fit(X), eg.PCA(2).fit(X)
    new = X[:5].copy()
    new[0, 1] = new[3, 2] = np.nan
    scores = pca.transform(new)
    signs = np.sign(np.sum(pca.transform(X) * mds.embedding_, axis=0))
    np.testing.assert_allclose(mds.transform(new), scores * signs, atol=1e-8)


@quiet
def test_nan_euclidean_takes_the_cells_that_both_have():
    from sklearn.metrics.pairwise import nan_euclidean_distances

    X = table(30)
    X[np.random.default_rng(0).random(X.shape) < 0.1] = np.nan
    mds = ClassicalMDS(2, metric="nan_euclidean").fit(X)
    other = ClassicalMDS(2, metric="precomputed").fit(nan_euclidean_distances(X))
    np.testing.assert_allclose(mds.embedding_, other.embedding_, atol=1e-6)
    np.testing.assert_allclose(mds.transform(X), mds.embedding_, atol=1e-8)


# The number of coordinates -------------------------------------------------------------------


@pytest.mark.parametrize("n", [40, 600])
def test_auto_finds_the_dimension_of_the_points(n):
    X = np.random.default_rng(0).normal(size=(n, 3)) @ np.random.default_rng(1).normal(size=(3, 9))
    for mds in (
        ClassicalMDS("auto").fit(X),
        ClassicalMDS("auto", metric="precomputed").fit(cdist(X, X)),
        ClassicalMDS("auto", metric="gram").fit(X @ X.T),
    ):
        assert mds.n_components_ == mds.n_significant_ == 3
    assert ClassicalMDS(2, metric="precomputed").fit(cdist(X, X)).n_significant_ == 3


def test_auto_leaves_out_what_the_negative_eigenvalues_cast_doubt_on():
    steps = np.abs(np.arange(9)[:, None] - np.arange(9))
    cycle = np.minimum(steps, 9 - steps)
    with pytest.warns(NegativeEigenvaluesWarning, match=r"negative eigenvalues hold 18\.9 %"):
        mds = ClassicalMDS("auto", metric="precomputed").fit(cycle)
    assert mds.n_components_ == 2
    radius = np.linalg.norm(mds.embedding_, axis=1)
    np.testing.assert_allclose(radius, radius[0])  # the cycle comes back as a circle


@pytest.mark.parametrize("metric", ["euclidean", "precomputed"])
def test_a_share_of_the_eigenvalues(metric):
    X = table()
    G = X if metric == "euclidean" else cdist(X, X)
    gof = [ClassicalMDS(q, metric=metric).fit(G).goodness_of_fit_[1] for q in (1, 2, 3, 4, 5)]
    for share in (0.3, 0.6, 0.9, 0.99):
        expected = 1 + int(np.searchsorted(gof, share))
        assert ClassicalMDS(share, metric=metric).fit(G).n_components_ == expected


def test_more_coordinates_than_dimensions_are_zero():
    X = table(20, 2)
    for G, metric in ((X, "euclidean"), (cdist(X, X), "precomputed"), (X @ X.T, "gram")):
        with pytest.warns(UserWarning, match="only 2 of the 4 leading eigenvalues are positive"):
            mds = ClassicalMDS(4, metric=metric).fit(G)
        assert mds.embedding_.shape == (20, 4)
        np.testing.assert_array_equal(mds.embedding_[:, 2:], 0.0)
        np.testing.assert_array_equal(mds.transform(G)[:, 2:], 0.0)
        np.testing.assert_allclose(mds.eigenvalues_[2:], 0.0, atol=1e-10)


def test_stress_falls_to_nothing():
    X = table(50)
    by_hand = []
    for q in (1, 3, 5):
        mds = ClassicalMDS(q).fit(X)
        d, fitted = cdist(X, X), cdist(mds.embedding_, mds.embedding_)
        by_hand.append(np.sqrt(np.sum((d - fitted) ** 2) / np.sum(d**2)))
        assert mds.stress(X) == pytest.approx(by_hand[-1], abs=1e-12)
        pairs = ClassicalMDS(q, metric="precomputed").fit(d)
        assert pairs.stress(d) == pytest.approx(by_hand[-1], abs=1e-9)
        gram = ClassicalMDS(q, metric="gram").fit(X @ X.T)
        assert gram.stress(X @ X.T) == pytest.approx(by_hand[-1], abs=1e-7)
    assert by_hand == sorted(by_hand, reverse=True)
    assert by_hand[-1] < 1e-12


@quiet
@pytest.mark.parametrize("correction", ["cailliez", "lingoes"])
def test_all_coordinates_of_corrected_distances_have_no_stress(correction):
    X = table(30)
    mds = ClassicalMDS("auto", metric="manhattan", correction=correction).fit(X)
    assert mds.stress(X) < 1e-6
    assert mds.additive_constant_ > 0.0


# Tables of every kind ------------------------------------------------------------------------


@quiet
@pytest.mark.parametrize("metric", ["euclidean", "manhattan", "cosine"])
@pytest.mark.parametrize(
    "kind", [np.asarray, pd.DataFrame, sp.csr_array, lambda X: pl.DataFrame(np.asarray(X))]
)
def test_kinds_of_tables(metric, kind):
    X = np.maximum(table(), 0.0)
    mds = ClassicalMDS(2, metric=metric).fit(kind(X))
    plain = ClassicalMDS(2, metric=metric).fit(X)
    np.testing.assert_allclose(mds.embedding_, plain.embedding_, atol=1e-9)
    np.testing.assert_allclose(mds.transform(kind(X)), plain.embedding_, atol=1e-9)


@quiet
def test_the_given_table_is_neither_changed_nor_kept():
    X = table()
    for mds, G in (
        (ClassicalMDS(2), X.copy()),
        (ClassicalMDS(2, metric="chebyshev"), X.copy()),
        (ClassicalMDS(2, metric="precomputed"), cdist(X, X)),
        (ClassicalMDS(2, metric="gram"), X @ X.T),
    ):
        before = G.copy()
        mds.fit(G)
        np.testing.assert_array_equal(G, before)
        expected = mds.transform(before)
        G[:] = 0.0
        np.testing.assert_array_equal(mds.transform(before), expected)


@quiet
def test_frames_out_clones_and_pickles():
    X = pd.DataFrame(table(), columns=list("abcde"))
    mds = ClassicalMDS(2, metric="manhattan").set_output(transform="pandas")
    Z = mds.fit_transform(X)
    assert list(Z.columns) == ["classicalmds0", "classicalmds1"]
    assert list(mds.feature_names_in_) == list("abcde")
    again = pickle.loads(pickle.dumps(mds))
    pd.testing.assert_frame_equal(again.transform(X), mds.transform(X))
    assert clone(mds).get_params() == mds.get_params()
    assert make_pipeline(StandardScaler(), ClassicalMDS(2)).fit_transform(X).shape == (60, 2)


@quiet
def test_a_refit_by_another_metric_forgets_the_first():
    X = table()
    mds = ClassicalMDS(2).fit(X)
    assert hasattr(mds, "inverse_transform")
    mds.set_params(metric="manhattan").fit(X)
    assert not hasattr(mds, "density_")
    assert not hasattr(mds, "inverse_transform")
    fresh = ClassicalMDS(2, metric="manhattan").fit(X)
    np.testing.assert_array_equal(mds.embedding_, fresh.embedding_)


def test_a_refit_that_fails_leaves_the_first_as_it_was():
    X = table(10)
    D = cdist(X, X)
    mds = ClassicalMDS(2, metric="precomputed").fit(D)
    expected = mds.transform(D)
    with pytest.raises(ValueError, match="not symmetric"):
        mds.fit(np.triu(D), sample_weight=np.arange(10))
    np.testing.assert_array_equal(mds.transform(D), expected)


@quiet
def test_many_new_rows_come_in_parts(monkeypatch):
    from eigengap.fitting.graph import distances as _distances

    X, new = table(), table(500, seed=1)
    mds = ClassicalMDS(2, metric="manhattan", correction="cailliez").fit(X)
    whole, stress = mds.transform(new), mds.stress(X)
    monkeypatch.setattr(_distances, "BLOCK_BYTES", 8 * 60 * 7)
    np.testing.assert_allclose(mds.transform(new), whole, atol=1e-12)
    assert mds.stress(X) == pytest.approx(stress)
