"""Hostile matrices: svd, pinv, low_rank and Whitener say what is wrong, or get it right."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from numpy.testing import assert_allclose

from eigengap.estimators.whitener import Whitener
from eigengap.exceptions import DoesNotFitError, RankDeficientWarning, RankError
from eigengap.fitting.eigen import singular
from eigengap.fitting.eigen.krylov import TopTriplets
from eigengap.fitting.gaussian.pca import NotCertified
from eigengap.matrices.approximation import low_rank
from eigengap.matrices.decomposition import pinv, svd

METHODS = ["pca", "zca", "cholesky", "pca-cor", "zca-cor", "normalise", "centre"]
rng0 = np.random.default_rng(0)


# svd, pinv, low_rank -----------------------------------------------------------------------


def test_missing_are_refused_with_the_way_out():
    X = pd.DataFrame({"a": [1.0, 2.0], "b": [1.0, np.nan]})
    for f in (svd, pinv):
        with pytest.raises(ValueError, match=r'row 1, column "b".*low_rank'):
            f(X)


@pytest.mark.parametrize("f", [svd, pinv, lambda X: low_rank(X, 1)])
def test_infinity_and_text(f):
    X = np.ones((4, 3))
    X[2, 1] = np.inf
    with pytest.raises(ValueError, match="row 2, column 1"):
        f(X)
    with pytest.raises(ValueError, match='"b"'):
        f(pd.DataFrame({"a": [1.0, 2.0], "b": ["x", "y"]}))
    with pytest.raises(ValueError, match="2D"):
        f(np.ones(3))


@pytest.mark.parametrize("k", [0, 4, 2.5, "all", True, -1])
def test_a_wrong_k_of_svd(k):
    with pytest.raises(ValueError, match=r"k is .* from 1 to 3"):
        svd(np.ones((5, 3)), k)


@pytest.mark.parametrize("k", [0, 1.5, "all", True, -1, None, np.nan])
def test_a_wrong_k_of_low_rank(k):
    with pytest.raises(ValueError, match="k is"):
        low_rank(np.ones((5, 3)), k)


@pytest.mark.parametrize("missing", [False, True])
def test_more_than_the_matrix_can_have(missing):
    X = rng0.normal(size=(5, 3))
    X[0, 0] = np.nan if missing else 1.0
    with pytest.raises(ValueError, match="smaller side of this 5 x 3"):
        low_rank(X, 4)


@pytest.mark.parametrize("option", [{"tol": 0}, {"max_iter": 0}, {"n_init": 1.5}])
def test_wrong_options(option):
    with pytest.raises(ValueError, match=next(iter(option))):
        low_rank(np.ones((4, 3)), 1, **option)


def test_wrong_tolerances_and_ridges():
    X = np.eye(3)
    for bad in (-1e-3, 1.0, "none", np.nan):
        with pytest.raises(ValueError, match="rank_tol"):
            svd(X, rank_tol=bad)
    for bad in (-1.0, np.inf, np.nan, "a"):
        with pytest.raises(ValueError, match="ridge"):
            pinv(X, ridge=bad)
    with pytest.raises(ValueError, match="3 rows"):
        svd(X).solve(np.ones(4))


@pytest.mark.parametrize("factor", [1e300, 1e-300, 1e-320])
@pytest.mark.parametrize("shape", [(30, 8), (400, 90), (700, 650)])
def test_huge_and_tiny_units(factor, shape):
    """T5: the same ratios, or an error; never a silent infinity."""
    X = np.random.default_rng(1).normal(size=shape)
    plain, scaled = svd(X, 4), svd(X * factor, 4)
    digits = 1e-12 if factor != 1e-320 else 1e-2  # such cells have three digits left
    assert_allclose(scaled.s / scaled.s[0], plain.s / plain.s[0], rtol=digits)
    assert_allclose(np.abs(np.sum(plain.Vt * scaled.Vt, axis=1)), 1.0, atol=digits)
    approximation = low_rank(X * factor, 4)
    assert approximation.relative_error == pytest.approx(low_rank(X, 4).relative_error, rel=digits)


def test_overflow_is_an_error():
    X = np.full((60, 50), 1.7e308)
    with pytest.raises(ValueError, match="overflow"):
        svd(X)
    with pytest.raises(ValueError, match="overflows"):
        pinv(np.diag([1e-310, 1e-310]))
    assert pinv(np.diag([1e-300, 1e-300]))[0, 0] == pytest.approx(1e300)


def test_zero_and_constant_matrices():
    zero = np.zeros((6, 4))
    U, s, Vt = found = svd(zero)
    assert (found.rank, found.rank_is_exact) == (0, True)
    assert not s.any()
    assert_allclose(U.T @ U, np.eye(4), atol=1e-14)
    assert_allclose(Vt @ Vt.T, np.eye(4), atol=1e-14)
    assert not pinv(zero).any()
    assert low_rank(zero, 2).error == 0.0
    assert low_rank(zero, 0.9).relative_error == 0.0
    ones = np.ones((6, 4))
    assert svd(ones).rank == 1
    assert low_rank(ones, 1).error < 1e-15
    assert low_rank(ones, 1, center=True).relative_error == 0.0
    assert svd(scipy.sparse.csr_array((300, 200)), 3).rank == 0


@pytest.mark.parametrize("shape", [(1, 1), (1, 7), (7, 1)])
def test_a_single_row_or_column(shape):
    X = rng0.normal(size=shape)
    U, s, Vt = svd(X)
    assert_allclose(U * s @ Vt, X, atol=1e-15)
    assert_allclose(pinv(X) @ X @ pinv(X), pinv(X), atol=1e-12)
    assert_allclose(np.asarray(low_rank(X, 1)), X, atol=1e-14)


@pytest.mark.parametrize("dtype", ["f4", "i4", "u1", "bool", ">f8", "object"])
def test_types_of_numbers(dtype):
    X = rng0.integers(0, 2, size=(12, 5)).astype(dtype)
    assert_allclose(svd(X).s, np.linalg.svd(X.astype(float), compute_uv=False), atol=1e-12)


def test_offsets_do_not_spoil_centred_approximation():
    """T1: the mean is taken out before anything is squared."""
    X = np.random.default_rng(2).normal(size=(1000, 5)) * [5, 4, 3, 2, 1]
    for offset in (1e6, 1e8):
        a, b = low_rank(X, 3, center=True), low_rank(X + offset, 3, center=True)
        assert_allclose(a.s, b.s, rtol=1e-6)
        assert a.error == pytest.approx(b.error, rel=1e-6)


def test_a_column_without_any_cell_is_named():
    X = pd.DataFrame({"a": [1.0, 2.0, 3.0], "b": [np.nan] * 3})
    with pytest.raises(ValueError, match='"b"'):
        low_rank(X, 1)


def test_more_numbers_than_cells_is_told():
    X = rng0.normal(size=(12, 10))
    X[rng0.random(X.shape) < 0.4] = np.nan
    with pytest.warns(UserWarning, match="free numbers"):
        low_rank(X, 8, tol=1e-3)


def test_a_fit_that_did_not_end_is_told():
    X = rng0.normal(size=(50, 8))
    X[rng0.random(X.shape) < 0.3] = np.nan
    with pytest.warns(UserWarning, match="did not converge in 1 steps"):
        found = low_rank(X, 3, max_iter=1)
    assert not found.converged


def test_fill_of_what_it_cannot_fill():
    X = rng0.normal(size=(20, 4))
    incomplete = X.copy()
    incomplete[0, 0] = np.nan
    complete = low_rank(X, 2)
    assert_allclose(complete.fill(X), X)
    with pytest.raises(ValueError, match="PPCA"):
        complete.fill(incomplete)
    with pytest.raises(ValueError, match="expected 4"):
        low_rank(incomplete, 2).fill(incomplete[:, :3])
    with pytest.raises(ValueError, match="copy"):
        np.asarray(complete, copy=False)


def test_codes_for_missing_cells():
    X = rng0.normal(size=(40, 5))
    coded, incomplete = X.copy(), X.copy()
    coded[3, 2], incomplete[3, 2] = -999.0, np.nan
    a, b = low_rank(coded, 2, missing_values=-999), low_rank(incomplete, 2)
    assert_allclose(np.asarray(a), np.asarray(b))
    assert_allclose(a.fill(coded), b.fill(incomplete))


def test_a_sparse_matrix_too_large_to_be_dense():
    X = scipy.sparse.eye_array(300_000, 200_000, format="csr")
    with pytest.raises(DoesNotFitError, match="give k"):
        svd(X)


def test_without_a_certificate_there_is_no_answer(monkeypatch):
    X = np.random.default_rng(3).normal(size=(700, 650))
    exact = np.linalg.svd(X, compute_uv=False)[:3]

    def gives_up(times, adjoint, shape, k, *, tol):
        n, d = shape
        zeros = np.zeros(k)
        return TopTriplets(np.eye(n, k), zeros, np.eye(d, k), zeros, 150, certified=False)

    monkeypatch.setattr(singular, "top_triplets", gives_up)
    found = svd(X, 3)
    assert found.route == "bidiagonal+gram"
    assert_allclose(found.s, exact, rtol=1e-12)
    monkeypatch.setattr(singular, "LARGEST_DENSE", 100)
    with pytest.raises(NotCertified, match="700 x 650"):
        svd(X, 3)


def test_lapack_that_fails_is_asked_otherwise(monkeypatch):
    X = rng0.normal(size=(9, 4))

    def fails(*args, **kwargs):
        raise np.linalg.LinAlgError("SVD did not converge")

    expected = np.linalg.svd(X, compute_uv=False)
    monkeypatch.setattr(np.linalg, "svd", fails)
    assert_allclose(svd(X).s, expected, rtol=1e-12)


# Whitener ----------------------------------------------------------------------------------


def deficient(n=100, offset=0.0, dtype=np.float64):
    """Four columns of rank 3: the last is the sum of the first two."""
    X = np.random.default_rng(4).normal(size=(n, 3)) * [3.0, 2.0, 1.0]
    return (np.column_stack([X, X[:, 0] + X[:, 1]]) + offset).astype(dtype)


@pytest.mark.parametrize("method", ["pca", "zca", "pca-cor", "zca-cor"])
@pytest.mark.parametrize("offset", [0.0, 1e8])
@pytest.mark.parametrize("missing", [False, True])
def test_rank_deficient_tables_are_told_and_bounded(method, offset, missing):
    """T11: rounding is never blown up to variance 1."""
    X = deficient(offset=offset)
    if missing:
        X[::9, 0] = np.nan
    with pytest.warns(RankDeficientWarning, match=r"4 columns of X have rank 3 \(column"):
        whitener = Whitener(method=method).fit(X)
    assert whitener.rank_ == 3
    Z = whitener.transform(X)
    assert np.abs(Z).max() < 6.0
    if not missing:
        lam = np.linalg.eigvalsh(np.cov(Z, rowvar=False))
        assert_allclose(lam[-3:], 1.0, rtol=1e-6)
        assert_allclose(whitener.inverse_transform(Z), X, atol=1e-6 if offset else 1e-8)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("missing", [False, True])
def test_cholesky_of_a_rank_deficient_table_is_an_error(dtype, missing):
    X = deficient(dtype=dtype)
    if missing:
        X[::9, 0] = np.nan
    with pytest.raises(RankError, match=r"rank 3.*pca"):
        Whitener(method="cholesky").fit(X)


def test_more_axes_than_the_rank_is_an_error_with_the_rank():
    with pytest.raises(RankError, match=r"n_components=4 .* varies in 3 directions"):
        Whitener(4).fit(deficient())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert Whitener(3).fit(deficient()).n_components_ == 3


def test_the_dependent_column_is_named():
    X = np.random.default_rng(5).normal(size=(50, 3))
    frame = pd.DataFrame(X, columns=list("abc")).assign(k=7.0)
    with pytest.warns(RankDeficientWarning, match='"k" follows from the others, or does not vary'):
        Whitener().fit(frame)
    with pytest.warns(RankDeficientWarning, match='"k"'):
        Z = Whitener(method="normalise").fit_transform(frame)
    assert_allclose(np.asarray(Z)[:, 3], 0.0)


@pytest.mark.parametrize("method", ["pca", "zca"])
def test_fewer_rows_than_columns(method):
    X = np.random.default_rng(6).normal(size=(5, 40))
    with pytest.warns(RankDeficientWarning, match="rank 4"):
        whitener = Whitener(method=method).fit(X)
    Z = whitener.transform(X)
    assert_allclose(np.linalg.eigvalsh(np.cov(Z, rowvar=False))[-4:], 1.0, rtol=1e-9)
    assert_allclose(whitener.inverse_transform(Z), X, atol=1e-12)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("offset", [1e6, 1e8])
def test_offsets(method, offset):
    """T1. The cells have eight digits less at 1e8, and so has what comes out."""
    X = np.random.default_rng(7).normal(size=(1000, 5)) * [5, 4, 3, 2, 1]
    a, b = (
        Whitener(method=method).fit_transform(X),
        Whitener(method=method).fit_transform(X + offset),
    )
    assert_allclose(a, b, atol=1e-14 * offset)


def test_a_stored_offset_in_float32_hides_small_directions():
    """sd 0.001 at offset 1000 is below what float32 cells can hold."""
    X = np.random.default_rng(8).normal(size=(500, 2)) * [1.0, 1e-5] + 1e3
    assert Whitener().fit(X).rank_ == 2
    with pytest.warns(RankDeficientWarning, match="rank 1"):
        assert Whitener().fit(X.astype(np.float32)).rank_ == 1


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("factor", [1e100, 1e-100])
def test_huge_and_tiny_units_are_whitened(method, factor):
    X = np.random.default_rng(9).normal(size=(60, 4)) @ np.random.default_rng(10).normal(
        size=(4, 4)
    )
    a, b = (
        Whitener(method=method).fit_transform(X),
        Whitener(method=method).fit_transform(X * factor),
    )
    scale = factor if method == "centre" else 1.0
    assert_allclose(b / scale, a, atol=1e-7)


@pytest.mark.parametrize("method", METHODS)
def test_cells_whose_squares_overflow_are_an_error(method):
    X = np.random.default_rng(9).normal(size=(60, 4))
    with pytest.raises(ValueError, match="overflow"):
        Whitener(method=method).fit(X * 1e300)
    if method != "centre":  # which squares nothing to go by
        with pytest.raises(ValueError, match="underflow"):
            Whitener(method=method).fit(X * 1e-300)


@pytest.mark.parametrize("method", METHODS[:5])
def test_a_constant_table_has_nothing_to_whiten(method):
    with pytest.raises(ValueError, match=r"rows are equal|full rank"):
        Whitener(method=method).fit(np.ones((10, 3)))


@pytest.mark.parametrize("method", METHODS)
def test_one_row_infinity_and_empty_columns(method):
    whitener = Whitener(method=method)
    with pytest.raises(ValueError, match="at least 2"):
        whitener.fit(np.ones((1, 3)))
    X = np.random.default_rng(11).normal(size=(20, 3))
    X[4, 1] = np.inf
    with pytest.raises(ValueError, match="row 4, column 1"):
        whitener.fit(X)
    X[:, 1] = np.nan
    with pytest.raises(ValueError, match="column 1: every"):
        whitener.fit(X)


@pytest.mark.parametrize("method", ["cholesky", "normalise", "centre"])
def test_a_number_of_axes_has_no_meaning_there(method):
    with pytest.raises(ValueError, match="keeps every column"):
        Whitener(2, method=method).fit(np.eye(4))


def test_too_wide_a_table_with_missing_says_the_way_out():
    X = np.random.default_rng(12).normal(size=(300, 201))
    X[0, 0] = np.nan
    with pytest.raises(ValueError, match=r"up to 200 columns.*n_components"):
        Whitener(method="zca").fit(X)
    assert Whitener(2).fit(X).transform(X).shape == (300, 2)


def test_weights_that_leave_no_freedom():
    with pytest.raises(ValueError, match="ddof=1"):
        Whitener().fit(np.eye(3), sample_weight=[0.2, 0.3, 0.4])


def test_wrong_shapes():
    whitener = Whitener().fit(np.random.default_rng(13).normal(size=(20, 3)))
    with pytest.raises(ValueError, match="3 features"):
        whitener.transform(np.ones((2, 4)))
    with pytest.raises(ValueError, match="each of the 3 whitened columns"):
        whitener.inverse_transform(np.ones((2, 4)))


def test_a_single_column():
    x = np.random.default_rng(14).normal(size=(30, 1)) * 5 + 2
    for method in METHODS[:6]:
        Z = Whitener(method=method).fit_transform(x)
        assert Z.var(ddof=1) == pytest.approx(1.0)
    x[3] = np.nan
    assert Whitener().fit(x).transform(x)[3, 0] == 0.0
    assert Whitener().fit(np.delete(x, 3, axis=0)).transform(x)[3, 0] == 0.0


def test_duplicate_rows_change_nothing_at_divisor_n():
    """T12."""
    X = np.random.default_rng(15).normal(size=(40, 3)) @ np.random.default_rng(16).normal(
        size=(3, 3)
    )
    a, b = Whitener(ddof=0).fit(X), Whitener(ddof=0).fit(np.repeat(X, 2, axis=0))
    assert_allclose(a.whitening_, b.whitening_, rtol=1e-10)


def test_a_fit_under_missing_that_did_not_end_is_told():
    from sklearn.exceptions import ConvergenceWarning

    X = np.random.default_rng(17).normal(size=(60, 4))
    X[::3, 1] = np.nan
    with pytest.warns(ConvergenceWarning, match="did not converge in 1 steps"):
        assert not Whitener(max_iter=1).fit(X).converged_
