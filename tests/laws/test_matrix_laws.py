"""Laws of svd, pinv and low_rank."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from tests import tolerance

from eigengap import PPCA
from eigengap.matrices.approximation import low_rank
from eigengap.matrices.decomposition import pinv, svd

seeds = st.integers(0, 2**32 - 1)


def matrix(rng, n, d, rank=None, spread=2.0):
    """n x d of a given rank, singular values over `spread` decades."""
    r = min(n, d) if rank is None else rank
    U = np.linalg.qr(rng.normal(size=(n, r)))[0]
    V = np.linalg.qr(rng.normal(size=(d, r)))[0]
    return (U * np.logspace(0, -spread, r)) @ V.T


def noisy(rng, n=120, d=15, k=3, noise=0.2, missing=0.25):
    truth = rng.normal(size=(n, k)) @ rng.normal(size=(k, d)) + rng.normal(size=d)
    X = truth + noise * rng.normal(size=(n, d))
    X[rng.random(X.shape) < missing] = np.nan
    return X, truth


# svd ---------------------------------------------------------------------------------------


@given(seed=seeds, n=st.integers(1, 90), d=st.integers(1, 90))
@settings(max_examples=25, deadline=None)
def test_svd_factors_are_orthonormal_and_give_the_matrix_back(seed, n, d):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    U, s, Vt = svd(X)
    assert_allclose((U * s) @ Vt, X, atol=1e-12 * s[0])
    assert_allclose(U.T @ U, np.eye(min(n, d)), atol=1e-12)
    assert_allclose(Vt @ Vt.T, np.eye(min(n, d)), atol=1e-12)
    assert (np.diff(s) <= 0).all()
    largest = Vt[np.arange(len(s)), np.argmax(np.abs(Vt), axis=1)]
    assert (largest > 0).all()


@given(seed=seeds, rank=st.integers(1, 12))
@settings(max_examples=15, deadline=None)
def test_the_rank_is_revealed(seed, rank):
    rng = np.random.default_rng(seed)
    X = matrix(rng, 40, 20, rank=rank)
    found = svd(X)
    assert found.rank == rank == np.linalg.matrix_rank(X)
    assert found.rank_is_exact
    compact = svd(X, "rank")
    assert compact.U.shape == (40, rank)
    assert_allclose((compact.U * compact.s) @ compact.Vt, X, atol=1e-13)


def test_a_truncated_rank_is_a_lower_bound_and_says_so():
    X = matrix(np.random.default_rng(0), 100, 80, rank=6)
    few, more = svd(X, 4), svd(X, 9)
    assert (few.rank, few.rank_is_exact) == (4, False)
    assert (more.rank, more.rank_is_exact) == (6, True)


def test_the_tolerance_decides_the_rank():
    X = np.diag([1.0, 1e-4, 1e-9])
    assert [svd(X, rank_tol=t).rank for t in (1e-10, 1e-6, 1e-2, 0.0)] == [3, 2, 1, 3]
    assert pinv(X, rank_tol=1e-6)[2, 2] == 0.0


def test_float32_is_known_to_fewer_digits():
    rng = np.random.default_rng(1)
    X = matrix(rng, 60, 10, rank=4).astype(np.float32)
    assert svd(X).rank == 4  # the rounding of the cells is not rank
    assert svd(X.astype(np.float64)).rank == 10


@pytest.mark.parametrize("shape", [(900, 700), (700, 900), (2000, 60), (60, 2000)])
@pytest.mark.parametrize("sparse", [False, True])
def test_residuals_are_what_they_claim(shape, sparse):
    rng = np.random.default_rng(2)
    X = matrix(rng, *shape, rank=50, spread=3) + 1e-3 * matrix(rng, *shape)
    if sparse:
        X = scipy.sparse.csr_array(X * (rng.random(shape) < 0.05))
    found = svd(X, 5)
    U, s, Vt = found
    left = np.linalg.norm(X.T @ U - Vt.T * s, axis=0)
    right = np.linalg.norm(X @ Vt.T - U * s, axis=0)
    rounding = tolerance.of_sum(max(shape)) * found.norm  # of the sums X'U and XV
    assert_allclose(found.residual, np.sqrt((left**2 + right**2) / 2), atol=rounding)
    assert found.residual.max() <= 1e-10 * s[0]
    exact = np.linalg.svd(X.toarray() if sparse else X, compute_uv=False)
    for value, r in zip(s, found.residual, strict=True):
        assert np.min(np.abs(exact - value)) <= r + 1e-14 * s[0]
    assert_allclose(s, exact[:5], rtol=0, atol=1e-13 * s[0])
    assert found.norm == pytest.approx(np.linalg.norm(exact), rel=1e-12)


def test_the_transpose_has_the_same_decomposition():
    X = matrix(np.random.default_rng(3), 300, 80)
    a, b = svd(X, 4), svd(X.T, 4)
    assert_allclose(a.s, b.s, rtol=1e-12)
    assert_allclose(np.abs(a.U.T @ b.Vt.T), np.eye(4), atol=1e-10)


# pinv --------------------------------------------------------------------------------------


@given(seed=seeds, n=st.integers(1, 30), d=st.integers(1, 30), share=st.floats(0.1, 1.0))
@settings(max_examples=25, deadline=None)
def test_the_four_penrose_conditions(seed, n, d, share):
    rng = np.random.default_rng(seed)
    X = matrix(rng, n, d, rank=max(1, int(share * min(n, d))))
    Y = pinv(X)
    assert_allclose(X @ Y @ X, X, atol=1e-12)
    assert_allclose(Y @ X @ Y, Y, atol=1e-12 * np.abs(Y).max() ** 2)
    assert_allclose((X @ Y).T, X @ Y, atol=1e-11)
    assert_allclose((Y @ X).T, Y @ X, atol=1e-11)


def test_the_inverse_of_the_inverse():
    X = matrix(np.random.default_rng(4), 12, 7, rank=5)
    assert_allclose(pinv(pinv(X)), X, atol=1e-12)


@given(seed=seeds, ridge=st.floats(1e-6, 1e3))
@settings(max_examples=15, deadline=None)
def test_ridge_is_the_map_estimate(seed, ridge):
    """000 U1: (X'X + ridge I)^-1 X'y, and its gradient is zero whatever the rank."""
    rng = np.random.default_rng(seed)
    X, y = matrix(rng, 25, 8, rank=6), rng.normal(size=25)
    w = pinv(X, ridge=ridge) @ y
    closed = np.linalg.solve(X.T @ X + ridge * np.eye(8), X.T @ y)
    assert_allclose(w, closed, rtol=1e-7, atol=1e-9)
    assert_allclose(X.T @ (X @ w - y) + ridge * w, 0.0, atol=1e-12 * (1 + ridge))
    assert_allclose(svd(X).solve(y, ridge), w, atol=1e-13)


def test_a_vanishing_ridge_is_the_pseudo_inverse():
    X = matrix(np.random.default_rng(5), 20, 9, rank=5)
    assert_allclose(pinv(X, ridge=1e-290), pinv(X), rtol=1e-12, atol=1e-12)


def test_least_squares_of_least_length():
    rng = np.random.default_rng(6)
    X, y = matrix(rng, 30, 12, rank=7), rng.normal(size=(30, 2))
    w = svd(X).solve(y)
    other = w + (np.eye(12) - pinv(X) @ X) @ rng.normal(size=(12, 2))
    assert_allclose(X @ other, X @ w, atol=1e-12)
    assert (np.linalg.norm(other, axis=0) > np.linalg.norm(w, axis=0)).all()


# low_rank of complete matrices -------------------------------------------------------------


@given(seed=seeds, k=st.integers(1, 10), center=st.booleans())
@settings(max_examples=20, deadline=None)
def test_eckart_young(seed, k, center):
    """The error is that of the discarded singular values, and no other matrix does better."""
    rng = np.random.default_rng(seed)
    X = matrix(rng, 30, 12) + rng.normal(size=12)
    found = low_rank(X, k, center=center)
    L = np.asarray(found)
    s = np.linalg.svd(X - found.mean, compute_uv=False)
    left = np.linalg.norm(X - L)
    assert left == pytest.approx(np.sqrt(np.sum(s[k:] ** 2)), rel=1e-9)
    assert found.error == pytest.approx(left / np.sqrt(X.size), rel=1e-9)
    assert found.relative_error == pytest.approx(left / np.linalg.norm(X - found.mean), rel=1e-9)
    assert np.linalg.matrix_rank(L - found.mean) == k
    Q = np.linalg.qr(found.Vt.T + 0.01 * rng.normal(size=(12, k)))[0]  # another plane nearby
    R = X - found.mean
    assert np.linalg.norm(R - R @ Q @ Q.T) >= left * (1 - 1e-12)
    if center:
        assert_allclose(found.mean, X.mean(axis=0), atol=1e-14)
    else:
        assert not found.mean.any()


def test_a_share_of_the_squares():
    X = matrix(np.random.default_rng(7), 200, 90, spread=3)
    for share in (0.5, 0.9, 0.999):
        found = low_rank(X, share)
        s2 = np.linalg.svd(X, compute_uv=False) ** 2
        assert s2[: found.rank].sum() >= share * s2.sum()
        assert s2[: found.rank - 1].sum() < share * s2.sum()
        assert found.relative_error**2 <= 1 - share


def test_next_to_nothing_left_over_is_told_right():
    """||X||^2 - sum s^2 would be rounding; it is summed anew."""
    rng = np.random.default_rng(8)
    small = 1e-9 * matrix(rng, 900, 800, spread=0.1)
    X = matrix(rng, 900, 800, rank=3, spread=0.3) + small
    found = low_rank(X, 3)
    exact = np.linalg.norm(X - np.asarray(found))
    assert found.error * np.sqrt(X.size) == pytest.approx(exact, rel=1e-6)
    assert exact == pytest.approx(np.linalg.norm(small), rel=0.01)


@pytest.mark.parametrize("center", [False, True])
@pytest.mark.parametrize("shape", [(400, 90), (90, 400), (900, 800)])
def test_sparse_equals_dense(shape, center):
    rng = np.random.default_rng(9)
    S = scipy.sparse.csr_array((matrix(rng, *shape, spread=1) + 0.02) * (rng.random(shape) < 0.1))
    a = low_rank(S, 4, center=center)
    b = low_rank(S.toarray(), 4, center=center)
    assert_allclose(a.s, b.s, rtol=1e-9)
    assert a.error == pytest.approx(b.error, rel=1e-9)
    assert a.relative_error == pytest.approx(b.relative_error, rel=1e-9)
    assert_allclose(np.asarray(a), np.asarray(b), atol=1e-6 * np.abs(np.asarray(b)).max())


def test_compression_counts_numbers():
    found = low_rank(matrix(np.random.default_rng(10), 100, 50), 4)
    assert found.compression == pytest.approx(100 * 50 / (4 * (100 + 50 + 1)))
    assert np.asarray(found, dtype=np.float32).dtype == np.float32
    assert found.shape == (100, 50)


def test_auto_finds_the_components_that_stand_out():
    rng = np.random.default_rng(11)
    X = rng.normal(size=(200, 3)) @ rng.normal(size=(3, 20)) + 0.3 * rng.normal(size=(200, 20))
    found = low_rank(X)
    assert found.rank == found.rank_choice.n_components == 3


# low_rank with gaps ------------------------------------------------------------------------


def test_missing_hold_the_conditional_mean_of_ppca():
    rng = np.random.default_rng(12)
    X, _ = noisy(rng)
    missing = np.isnan(X)
    found = low_rank(X, 3, center=True, tol=1e-9)
    peer = PPCA(3, tol=1e-9).fit(X)
    filled, std = found.fill(X, return_std=True)
    expected, expected_std = peer.impute(X, return_std=True)
    assert_allclose(filled, expected, atol=1e-6)
    assert_allclose(std, expected_std, atol=1e-6)
    assert_array_equal(filled[~missing], X[~missing])
    assert_allclose(np.asarray(found)[missing], filled[missing], atol=1e-10)
    assert_allclose(np.asarray(found), peer.reconstruct(X), atol=1e-6)
    assert found.gap_error == pytest.approx(np.sqrt(np.mean(std[missing] ** 2)), rel=1e-6)
    observed = ~missing
    left = (np.asarray(found) - X)[observed]
    assert found.error == pytest.approx(np.sqrt(np.mean(left**2)), rel=1e-9)
    size = (X - found.mean)[observed]
    assert found.relative_error == pytest.approx(np.linalg.norm(left) / np.linalg.norm(size))


def test_factors_of_a_completed_matrix_are_orthonormal():
    X, _ = noisy(np.random.default_rng(13))
    found = low_rank(X, 3)
    assert_allclose(found.U.T @ found.U, np.eye(3), atol=1e-12)
    assert_allclose(found.Vt @ found.Vt.T, np.eye(3), atol=1e-12)
    assert not found.mean.any()
    assert np.linalg.matrix_rank(np.asarray(found)) == 3


def test_the_coordinates_minimise_what_the_docstring_says():
    X, _ = noisy(np.random.default_rng(14), missing=0.5)
    found = low_rank(X, 2, center=True)
    model = found.predictive.model
    L = np.asarray(found) - found.mean
    for i in (0, 5, 17):
        o = ~np.isnan(X[i])
        Wo = model.W[o]
        ridge = Wo.T @ Wo + model.psi[0] * np.eye(2)
        z = np.linalg.solve(ridge, Wo.T @ (X[i, o] - found.mean[o]))
        assert_allclose(L[i], model.W @ z, atol=1e-9)


def test_expected_and_true_error_of_the_missing_agree():
    ratio = []
    for seed in range(5):
        X, truth = noisy(np.random.default_rng(seed), n=200, noise=0.5)
        noise_free = low_rank(X, 3, center=True)
        error = (np.asarray(noise_free) - truth)[np.isnan(X)]
        # the expected error is of the cell, which has its own noise too
        ratio.append(np.sqrt(np.mean(error**2) + 0.25) / noise_free.gap_error)
    assert 0.95 < np.mean(ratio) < 1.05


def test_a_matrix_without_noise_is_completed():
    rng = np.random.default_rng(15)
    X, truth = noisy(rng, n=80, d=40, noise=0.0, missing=0.4)
    found = low_rank(X, 4)  # 3 and the means, which are not taken out
    assert_allclose(found.fill(X), truth, atol=1e-3 * np.abs(truth).max())


def test_a_share_under_missing_and_auto():
    X, _ = noisy(np.random.default_rng(16))
    assert low_rank(X, "auto", center=True).rank == 3
    assert low_rank(X, 0.9, center=True).rank <= 3
    assert low_rank(X, 0.999, center=True).rank > 3


def test_frames_in_arrays_out_and_fill_gives_a_frame():
    pd = pytest.importorskip("pandas")
    X, _ = noisy(np.random.default_rng(17))
    frame = pd.DataFrame(X, columns=[f"c{j}" for j in range(X.shape[1])])
    found = low_rank(frame, 3)
    assert type(found.U) is np.ndarray
    filled = found.fill(frame)
    assert list(filled.columns) == list(frame.columns)
    assert_allclose(filled.to_numpy(), low_rank(X, 3).fill(X), atol=1e-12)
    assert type(svd(frame.fillna(0.0)).U) is np.ndarray


def test_the_same_call_gives_the_same_numbers():
    X, _ = noisy(np.random.default_rng(18))
    a, b = (low_rank(X, 3, n_init=3, random_state=7) for _ in range(2))
    assert_array_equal(np.asarray(a), np.asarray(b))


@pytest.mark.parametrize("scale", [1e-310, 1e-200, 1e-140, 1e140, 1e160, 1e300])
@pytest.mark.parametrize("center", [False, True])
@pytest.mark.parametrize("make", [np.asarray, scipy.sparse.csr_array], ids=["dense", "sparse"])
def test_units_change_nothing_but_the_unit(scale, center, make):
    rng = np.random.default_rng(0)
    X = noisy(rng, 60, 12, missing=0.0)[0]
    digits = 1e-10 if scale > 1e-300 else 1e-3  # subnormal cells have few
    for k in (3, 0.95, "auto"):
        plain, found = low_rank(X, k, center=center), low_rank(make(X * scale), k, center=center)
        assert found.rank == plain.rank
        assert_allclose(found.relative_error, plain.relative_error, rtol=digits)
        assert_allclose(found.error / scale, plain.error, rtol=digits)
        assert_allclose(found.s / scale, plain.s, rtol=digits)
        assert_allclose(found.mean / scale, plain.mean, rtol=digits, atol=1e-3 * digits)
