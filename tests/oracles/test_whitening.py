"""Whitener against PCA, scikit-learn, R, and a dense Gaussian."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.datasets import load_iris
from sklearn.decomposition import PCA as PeerPCA
from sklearn.preprocessing import StandardScaler
from tests import dense

from eigengap import PCA
from eigengap.estimators.whitener import Whitener
from eigengap.fitting.gaussian.problem import EMOptions
from eigengap.fitting.gaussian.unrestricted import fit_unrestricted
from eigengap.sources.conversion import as_source

IRIS = load_iris().data.copy()
IRIS[34] = [4.9, 3.1, 1.5, 0.2]  # R's iris, Fisher's own; scikit-learn's has two misprints
IRIS[37] = [4.9, 3.6, 1.4, 0.1]

# S <- cov(iris[, 1:4]); solve(t(chol(S)))
R_CHOLESKY = [
    [1.207633021341, 0.0, 0.0, 0.0],
    [0.142972723339, 2.31030443731, 0.0, 0.0],
    [-2.765173218549, 2.08467042458, 1.55732418681, 0.0],
    [1.090732371903, -1.17262946978, -2.75797388590, 5.26247423001],
]
# e <- eigen(S); e$vectors %*% diag(1 / sqrt(e$values)) %*% t(e$vectors)
R_ZCA = [
    [2.794675875089, -0.939380309990, -1.219733942820, 0.366468613506],
    [-0.939380309990, 3.026182692350, 0.864517471964, -0.520393823907],
    [-1.219733942820, 0.864517471964, 1.930060983457, -2.017771500362],
    [0.366468613506, -0.520393823907, -2.017771500362, 4.818415114657],
]
# g <- eigen(cov2cor(S))
# g$vectors %*% diag(1 / sqrt(g$values)) %*% t(g$vectors) %*% diag(1 / sqrt(diag(S)))
R_ZCA_COR = [
    [2.5769046266516, -0.919815317771, -0.869667758834, -0.0552502295265],
    [-0.4841599865503, 2.743999194691, 0.402519382379, -0.0906702297316],
    [-1.8539859394328, 1.630240234502, 2.670025176136, -3.2623561820354],
    [-0.0508580229778, -0.158562997284, -1.408651934649, 4.1278800230365],
]


@pytest.mark.parametrize(
    ("method", "expected"), [("cholesky", R_CHOLESKY), ("zca", R_ZCA), ("zca-cor", R_ZCA_COR)]
)
def test_r(method, expected):
    assert_allclose(Whitener(method=method).fit(IRIS).whitening_, expected, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("k", [None, 2])
def test_pca_whitening_is_that_of_pca_and_of_scikit_learn(k):
    Z = Whitener(k).fit_transform(IRIS)
    assert_allclose(Z, PCA(k, whiten=True).fit_transform(IRIS), atol=1e-10)
    peer = PeerPCA(k, whiten=True).fit_transform(IRIS)
    assert_allclose(np.abs(Z), np.abs(peer), atol=1e-9)
    cor = Whitener(k, method="pca-cor").fit_transform(IRIS)
    assert_allclose(cor, PCA(k, scale=True, whiten=True).fit_transform(IRIS), atol=1e-9)


def test_with_missing_and_a_number_of_axes_it_is_pca_too():
    X = IRIS.copy()
    X[np.random.default_rng(0).random(X.shape) < 0.1] = np.nan
    ours = Whitener(2, tol=1e-9).fit(X)
    peer = PCA(2, whiten=True, tol=1e-9).fit(X)
    assert_allclose(ours.transform(X), peer.transform(X), atol=1e-6)


def test_normalising_at_divisor_n_is_standard_scaler():
    X = IRIS.copy()
    X[np.random.default_rng(1).random(X.shape) < 0.1] = np.nan
    ours = Whitener(method="normalise", ddof=0).fit_transform(X)
    assert_allclose(ours, StandardScaler().fit_transform(X), rtol=1e-10, atol=1e-12)


def test_000_eq_13_lacks_the_root_of_n():
    """As printed the covariance is I / n; ours at ddof=0 is sqrt(n) times that."""
    R = (IRIS - IRIS.mean(axis=0)).T  # features in rows, as in 000
    U, s, _ = np.linalg.svd(R, full_matrices=False)
    printed = (np.diag(1 / s) @ U.T @ R).T
    Z = Whitener(ddof=0).fit_transform(IRIS)
    assert_allclose(np.abs(Z), np.sqrt(150) * np.abs(printed), atol=1e-9)


# The covariance under gaps -----------------------------------------------------------------


def test_a_monotone_pattern_has_a_closed_form():
    """Anderson (1957): regression of the column with gaps on the complete one. Scorecard T20."""
    y = [2.1, 3.9, 6.2, 7.8, np.nan, np.nan]
    X = np.column_stack([np.arange(1.0, 7.0), y])
    fit = fit_unrestricted(as_source(X), EMOptions(tol=1e-12))
    assert_allclose(fit.mu, [3.5, 6.94], rtol=1e-9)
    C = [[2.916667, 5.658333], [5.658333, 10.997667]]
    assert_allclose(fit.root() @ fit.root().T, C, rtol=1e-6)
    assert fit.log_likelihood == pytest.approx(-9.6260487815, rel=1e-9)


@pytest.mark.parametrize("weighted", [False, True])
def test_the_gradient_of_the_dense_likelihood_is_zero(weighted):
    rng = np.random.default_rng(2)
    X = rng.normal(size=(90, 2)) @ rng.normal(size=(2, 5)) + rng.normal(size=(90, 5)) + 4.0
    X[rng.random(X.shape) < 0.25] = np.nan
    X[:5] = np.nan_to_num(X[:5], nan=1.0)  # rows that share a pattern
    X[5] = np.nan
    w = rng.integers(1, 4, 90) if weighted else np.ones(90, dtype=int)
    fit = fit_unrestricted(as_source(X, sample_weight=w), EMOptions(tol=1e-11))
    rows = np.repeat(X, w, axis=0)
    model = fit.model()
    C = model.covariance()
    assert_allclose(C, fit.root() @ fit.root().T, rtol=1e-10, atol=1e-12)
    total = dense.log_likelihood(rows, fit.mu, C).sum()
    assert fit.log_likelihood == pytest.approx(total, rel=1e-10)
    by_W, by_mu, by_psi = dense.gradient(rows, model.W, model.mu, model.psi)
    for slope in (by_W, by_mu, by_psi):
        assert np.abs(slope).max() < 1e-4


def test_every_step_of_the_fit_climbs():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(60, 6)) @ rng.normal(size=(6, 6))
    X[rng.random(X.shape) < 0.3] = np.nan
    observed = []
    options = EMOptions(tol=1e-8, watch=lambda progress: observed.append(progress.objective))
    fit_unrestricted(as_source(X), options)
    assert len(observed) > 5
    size = max(abs(observed[-1]), np.count_nonzero(~np.isnan(X)))  # T25 of the scorecard
    assert (np.diff(observed) >= -1e-9 * size).all()


@pytest.mark.parametrize("rank", [1, 3, 5])
def test_rows_in_a_plane_are_found_out_under_missing(rank):
    rng = np.random.default_rng(4)
    X = rng.normal(size=(200, rank)) @ rng.normal(size=(rank, 6)) * np.geomspace(1, 100, 6)
    X[rng.random(X.shape) < 0.1] = np.nan
    assert fit_unrestricted(as_source(X)).rank == rank
