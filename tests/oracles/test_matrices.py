"""svd, pinv and low_rank against NumPy, SciPy, scikit-learn, R and closed forms."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg
import scipy.sparse
import scipy.sparse.linalg
from numpy.testing import assert_allclose
from sklearn.decomposition import PCA as PeerPCA
from sklearn.linear_model import Ridge

from eigengap.fitting.eigen.krylov import top_triplets
from eigengap.fitting.eigen.singular import Matrix, singular_triplets
from eigengap.matrices.approximation import low_rank
from eigengap.matrices.decomposition import pinv, svd

SHAPES = [(5, 3), (3, 5), (80, 70), (400, 40), (40, 400), (700, 650), (650, 700)]


def graded(n, d, s, seed=0):
    """A matrix of singular values s, known because they are put there."""
    rng = np.random.default_rng(seed)
    U = np.linalg.qr(rng.normal(size=(n, len(s))))[0]
    V = np.linalg.qr(rng.normal(size=(d, len(s))))[0]
    return (U * s) @ V.T


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("k", [None, 1, 3])
@pytest.mark.parametrize("order", ["C", "F"])
def test_numpy(shape, k, order):
    X = np.asarray(np.random.default_rng(1).normal(size=shape), order=order)
    U, s, Vt = svd(X, k)
    U0, s0, Vt0 = np.linalg.svd(X, full_matrices=False)
    assert_allclose(s, s0[:k], rtol=1e-12)
    cos = np.abs(np.sum(Vt * Vt0[:k], axis=1))
    assert (1 - cos).max() < 1e-8
    assert (1 - np.abs(np.sum(U * U0[:, :k], axis=0))).max() < 1e-8


@pytest.mark.parametrize("route", ["lapack", "gram", "bidiagonal"])
def test_every_route_is_taken_and_agrees(route):
    shape = {"lapack": (60, 50), "gram": (3000, 90), "bidiagonal": (800, 700)}[route]
    X = np.random.default_rng(2).normal(size=shape)
    found = svd(X, 4)
    assert found.route == route
    assert_allclose(found.s, np.linalg.svd(X, compute_uv=False)[:4], rtol=1e-12)


@pytest.mark.parametrize("shape", [(3000, 90), (90, 3000), (900, 800)])
def test_small_singular_values_keep_their_digits(shape):
    """Squared, 1e-9 would be 1e-18 of the largest: below rounding."""
    s = np.array([1.0, 0.5, 1e-3, 1e-6, 1e-9])
    X = graded(*shape, s)
    found = svd(X, 5)
    assert_allclose(found.s[:4], s[:4], rtol=1e-9)
    assert_allclose(found.s[4], s[4], rtol=1e-5)
    assert_allclose(found.Vt @ found.Vt.T, np.eye(5), atol=1e-12)


def test_equal_singular_values_are_all_found():
    s = np.concatenate([[5.0] * 4, np.linspace(1, 0.5, 200)])
    found = svd(graded(900, 800, s), 6)
    assert found.route.startswith("bidiagonal")
    assert_allclose(found.s[:4], 5.0, rtol=1e-12)
    assert_allclose(found.s[4:], s[4:6], rtol=1e-9)


def test_bidiagonal_restarts_and_still_finds_them():
    """A flat spectrum needs more vectors than the basis holds."""
    s = np.concatenate([[1.03, 1.015], np.linspace(1, 0.9, 400)])
    X = graded(700, 600, s)
    top = top_triplets(lambda V: X @ V, lambda U: X.T @ U, X.shape, 2)
    assert top.certified
    assert top.passes > 16
    assert_allclose(top.s, [1.03, 1.015], rtol=1e-10)
    assert_allclose(X @ top.V, top.U * top.s, atol=1e-12)


def test_bidiagonal_beyond_the_rank():
    X = graded(400, 300, np.array([3.0, 2.0]))
    top = top_triplets(lambda V: X @ V, lambda U: X.T @ U, X.shape, 5)
    assert_allclose(top.s, [3, 2, 0, 0, 0], atol=1e-13)
    assert_allclose(top.U.T @ top.U, np.eye(5), atol=1e-12)
    assert_allclose(top.V.T @ top.V, np.eye(5), atol=1e-12)


@pytest.mark.parametrize("shape", [(1500, 1200), (1200, 1500), (3000, 100)])
def test_sparse_against_arpack(shape):
    X = scipy.sparse.random(*shape, density=0.01, random_state=3, format="csr")
    found = svd(X, 5)
    s = np.sort(scipy.sparse.linalg.svds(X, 5, return_singular_vectors=False))[::-1]
    assert_allclose(found.s, s, rtol=1e-10)


def test_centred_sparse_rows_stay_sparse_and_agree():
    rng = np.random.default_rng(4)
    S = scipy.sparse.csr_array(rng.normal(size=(900, 700)) * (rng.random((900, 700)) < 0.05) + 0.0)
    mean = np.asarray(S.mean(axis=0)).ravel()
    M = Matrix.of(S, mean)
    assert M.is_sparse
    dense = S.toarray() - mean
    assert M.norm() == pytest.approx(np.linalg.norm(dense), rel=1e-12)
    assert_allclose(M.gram(), dense.T @ dense, atol=1e-10)
    assert_allclose(Matrix.of(S.T.tocsr()[:200], None).gram().shape, (200, 200))
    found = singular_triplets(M, 3)
    assert_allclose(found.s, np.linalg.svd(dense, compute_uv=False)[:3], rtol=1e-10)


def test_centred_low_rank_is_the_reconstruction_of_pca():
    X = np.random.default_rng(5).normal(size=(150, 12)) @ np.diag(np.arange(1.0, 13)) + 7.0
    peer = PeerPCA(4).fit(X)
    found = low_rank(X, 4, center=True)
    assert_allclose(np.asarray(found), peer.inverse_transform(peer.transform(X)), atol=1e-10)
    assert_allclose(found.s, peer.singular_values_, rtol=1e-12)
    assert_allclose(found.mean, peer.mean_, atol=1e-12)
    assert 1 - found.relative_error**2 == pytest.approx(peer.explained_variance_ratio_.sum())


@pytest.mark.parametrize("shape", SHAPES[:5])
@pytest.mark.parametrize("rank", [None, 2])
def test_pinv_against_numpy_and_scipy(shape, rank):
    s = np.linspace(1, 0.1, min(shape) if rank is None else rank)
    X = graded(*shape, s)
    expected = np.linalg.pinv(X, rcond=1e-12)
    assert_allclose(pinv(X), expected, atol=1e-11)
    assert_allclose(pinv(X), scipy.linalg.pinv(X, rtol=1e-12), atol=1e-11)
    assert_allclose(pinv(scipy.sparse.csr_array(X)), expected, atol=1e-11)


def test_pinv_against_r():
    """H <- 1 / outer(1:5, 1:3, function(i, j) i + j - 1); H[, 3] <- H[, 1] - 2 * H[, 2];
    MASS::ginv(H)"""
    i, j = np.arange(1, 6)[:, None], np.arange(1, 4)
    H = 1.0 / (i + j - 1)
    H[:, 2] = H[:, 0] - 2 * H[:, 1]
    expected = [
        [1.148160730036, -0.121236298584, -0.312596420257, -0.338744814733, -0.326621184874],
        [-0.360903942829, 0.526707826754, 0.586858483892, 0.546217832644, 0.493547049969],
        [1.869968615693, -1.174651952091, -1.486313388040, -1.431180480021, -1.313715284812],
    ]
    assert svd(H).rank == 2
    assert_allclose(pinv(H), expected, rtol=1e-10)


def test_000_u1_solves_the_normal_equations():
    """000 has points in columns: w = (XX')^-1 X y is pinv(X') y, and U Lam^-1 U' = (XX')^-1."""
    rng = np.random.default_rng(6)
    X, y = rng.normal(size=(4, 50)), rng.normal(size=50)  # features in rows, as in 000
    ml = np.linalg.inv(X @ X.T) @ X @ y
    assert_allclose(pinv(X.T) @ y, ml, rtol=1e-10)
    U, d, _ = svd(X)
    assert_allclose((U / d**2) @ U.T, np.linalg.inv(X @ X.T), rtol=1e-9, atol=1e-12)


def test_ridge_against_scikit_learn():
    rng = np.random.default_rng(7)
    X, y = rng.normal(size=(40, 6)), rng.normal(size=40)
    peer = Ridge(alpha=2.5, fit_intercept=False).fit(X, y)
    assert_allclose(pinv(X, ridge=2.5) @ y, peer.coef_, rtol=1e-9)


def test_truncated_pinv_is_principal_component_regression():
    rng = np.random.default_rng(8)
    X, y = graded(300, 90, np.geomspace(1, 0.01, 90)), rng.normal(size=300)
    U, s, Vt = np.linalg.svd(X, full_matrices=False)
    expected = Vt[:5].T @ (U[:, :5].T @ y / s[:5])
    assert_allclose(pinv(X, 5) @ y, expected, rtol=1e-8)


def test_completion_beats_mean_filling_and_overfitting_least_squares():
    """On noise that hard alternating least squares would fit: gaps by the true low-rank part."""
    rng = np.random.default_rng(9)
    truth = rng.normal(size=(150, 4)) @ rng.normal(size=(4, 30))
    X = truth + rng.normal(size=truth.shape)
    missing = rng.random(X.shape) < 0.5
    X[missing] = np.nan

    def rmse(filled):
        return float(np.sqrt(np.mean((filled - truth)[missing] ** 2)))

    ours = rmse(np.asarray(low_rank(X, 4)))
    L = np.where(missing, 0.0, X)
    for _ in range(300):  # iterated hard-thresholded SVD: least squares of rank 4 over seen cells
        U, s, Vt = np.linalg.svd(np.where(missing, L, X), full_matrices=False)
        L = (U[:, :4] * s[:4]) @ Vt[:4]
    means = np.broadcast_to(np.nanmean(X, axis=0), X.shape)
    assert ours < 0.95 * rmse(L)
    assert ours < 0.5 * rmse(means)


def test_004_section_2_2_has_u_where_d_is_printed():
    """X'X = V S'U'U S V' = V S^2 V'; with D = S^2 in the middle it would be V S^6 V'."""
    X = np.random.default_rng(10).normal(size=(20, 4))
    U, s, Vt = svd(X)
    assert_allclose((Vt.T * s) @ U.T @ U @ (Vt.T * s).T, X.T @ X, rtol=1e-10)
    printed = (Vt.T * s) @ np.diag(s**2) @ np.diag(s**2) @ (Vt.T * s).T
    assert not np.allclose(printed, X.T @ X, rtol=0.1)
