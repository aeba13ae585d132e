"""Laws of Whitener, complete and with gaps."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.pipeline import make_pipeline

from eigengap import PPCA
from eigengap.estimators.whitener import Whitener

seeds = st.integers(0, 2**32 - 1)
MIXING = ["pca", "zca", "cholesky", "pca-cor", "zca-cor"]
ALL = [*MIXING, "normalise", "centre"]

mixing = pytest.mark.parametrize("method", MIXING)
every = pytest.mark.parametrize("method", ALL)


def table(rng, n=120, d=5, missing=0.0):
    X = rng.normal(size=(n, 2)) @ rng.normal(size=(2, d)) + rng.normal(size=(n, d))
    X = X * np.geomspace(0.1, 30, d) + rng.normal(size=d) * 10
    X[rng.random(X.shape) < missing] = np.nan
    return X


@mixing
@pytest.mark.parametrize("ddof", [0, 1])
@given(seed=seeds)
@settings(max_examples=5, deadline=None)
def test_whitened_data_have_identity_covariance(method, ddof, seed):
    X = table(np.random.default_rng(seed))
    Z = Whitener(method=method, ddof=ddof).fit_transform(X)
    assert_allclose(np.cov(Z, rowvar=False, ddof=ddof), np.eye(5), atol=1e-9)
    assert_allclose(Z.mean(axis=0), 0.0, atol=1e-11)


@every
@given(seed=seeds)
@settings(max_examples=5, deadline=None)
def test_there_and_back(method, seed):
    rng = np.random.default_rng(seed)
    X = table(rng)
    whitener = Whitener(method=method).fit(X)
    back = whitener.inverse_transform(whitener.transform(X))
    assert_allclose(back, X, rtol=1e-10, atol=1e-10)
    new = table(rng, n=7)
    assert_allclose(whitener.inverse_transform(whitener.transform(new)), new, atol=1e-9)
    assert_allclose(whitener.whitening_ @ whitener.coloring_, np.eye(5), atol=1e-9)
    assert_allclose(
        whitener.transform(new), (new - whitener.mean_) @ whitener.whitening_.T, atol=1e-9
    )


@mixing
def test_all_whiten_the_same_density(method):
    """A'A is the precision, whatever the rotation."""
    X = table(np.random.default_rng(0))
    A = Whitener(method=method).fit(X).whitening_
    assert_allclose(A.T @ A, np.linalg.inv(np.cov(X, rowvar=False)), rtol=1e-7)


def test_each_method_has_its_own_rotation():
    X = table(np.random.default_rng(1))
    S = np.cov(X, rowvar=False)
    sd = np.sqrt(np.diag(S))
    fits = {m: Whitener(method=m).fit(X) for m in ALL}
    zca = fits["zca"].whitening_
    assert_allclose(zca, zca.T, rtol=1e-7)  # symmetric: the nearest to the centred columns
    chol = fits["cholesky"].whitening_
    assert_allclose(chol, np.tril(chol), atol=0)
    assert (np.diag(chol) > 0).all()
    assert_allclose(fits["cholesky"].coloring_, np.linalg.cholesky(S), rtol=1e-9)
    zca_cor = fits["zca-cor"].whitening_ * sd  # A D
    assert_allclose(zca_cor, zca_cor.T, rtol=1e-9)
    pca = fits["pca"].whitening_
    assert_allclose(pca @ pca.T, np.diag(1 / fits["pca"].explained_variance_), atol=1e-9)
    assert_allclose(fits["normalise"].transform(X).std(axis=0, ddof=1), 1.0, rtol=1e-12)
    assert_allclose(fits["centre"].transform(X), X - X.mean(axis=0), atol=1e-12)


@pytest.mark.parametrize("method", ["cholesky", "pca-cor", "zca-cor", "normalise"])
@pytest.mark.parametrize("missing", [0.0, 0.1])
def test_units_do_not_matter(method, missing):
    X = table(np.random.default_rng(2), missing=missing)
    units = np.array([1e6, 1e-5, 1.0, 60.0, 1e3])
    a = Whitener(method=method, tol=1e-9).fit_transform(X)
    b = Whitener(method=method, tol=1e-9).fit_transform(X * units)
    assert_allclose(a, b, atol=1e-6)


@every
@pytest.mark.parametrize("missing", [0.0, 0.1])
def test_an_integer_weight_repeats_the_row(method, missing):
    rng = np.random.default_rng(3)
    X = table(rng, n=60, missing=missing)
    w = rng.integers(0, 4, 60)
    a = Whitener(method=method, tol=1e-10).fit(X, sample_weight=w)
    b = Whitener(method=method, tol=1e-10).fit(np.repeat(X, w, axis=0))
    assert_allclose(a.whitening_, b.whitening_, rtol=1e-6, atol=1e-8)
    assert_allclose(a.mean_, b.mean_, rtol=1e-7)


@every
def test_shift_and_order_of_rows(method):
    rng = np.random.default_rng(4)
    X = table(rng)
    a = Whitener(method=method).fit(X)
    b = Whitener(method=method).fit(X[rng.permutation(len(X))] + 100.0)
    assert_allclose(a.whitening_, b.whitening_, rtol=1e-8, atol=1e-9)
    assert_allclose(a.mean_ + 100.0, b.mean_, rtol=1e-12)


@pytest.mark.parametrize("method", ["pca", "pca-cor", "zca", "zca-cor"])
def test_some_of_the_axes(method):
    X = table(np.random.default_rng(5))
    Z = Whitener(2, method=method).fit(X).transform(X)
    lam = np.linalg.eigvalsh(np.cov(Z, rowvar=False))
    assert Z.shape[1] == (2 if method.startswith("pca") else 5)
    assert_allclose(lam[-2:], 1.0, rtol=1e-9)
    assert_allclose(lam[:-2], 0.0, atol=1e-10)


def test_a_share_of_the_variance_and_auto():
    X = table(np.random.default_rng(6), n=300)
    lam = np.linalg.eigvalsh(np.cov(X, rowvar=False))[::-1]
    k = Whitener(0.9).fit(X).n_components_
    assert lam[:k].sum() >= 0.9 * lam.sum() > lam[: k - 1].sum()
    assert Whitener("auto", method="pca-cor").fit(X).n_components_ == 2


# Gaps --------------------------------------------------------------------------------------


@mixing
def test_with_missing_the_likeliest_covariance_is_whitened(method):
    X = table(np.random.default_rng(7), n=200, missing=0.15)
    whitener = Whitener(method=method, tol=1e-10).fit(X)
    peer = PPCA(4, scale=True, tol=1e-10, max_iter=5000).fit(X)  # q = d - 1 is unrestricted
    C = peer.get_covariance() * 200 / 199
    A = whitener.whitening_
    assert_allclose(A @ C @ A.T, np.eye(5), atol=1e-4)
    assert_allclose(whitener.mean_, peer.mean_, rtol=1e-5)
    assert whitener.n_iter_ > 1
    assert whitener.converged_


@mixing
def test_a_row_with_missing_is_whitened_by_expectation(method):
    rng = np.random.default_rng(8)
    X = table(rng, n=200)
    whitener = Whitener(method=method).fit(X)
    row = X[:1].copy()
    row[0, [1, 3]] = np.nan
    S, mu = np.cov(X, rowvar=False, ddof=0), X.mean(axis=0)
    o, u = [0, 2, 4], [1, 3]
    gain = np.linalg.solve(S[np.ix_(o, o)], S[np.ix_(o, u)])
    filled = X[:1].copy()
    filled[0, u] = mu[u] + (X[0, o] - mu[o]) @ gain
    assert_allclose(whitener.transform(row), whitener.transform(filled), atol=1e-8)
    nothing = np.full((1, 5), np.nan)
    assert_allclose(whitener.transform(nothing), 0.0, atol=1e-12)


@pytest.mark.parametrize("method", ["normalise", "centre"])
def test_by_column_a_gap_stays_a_gap(method):
    X = table(np.random.default_rng(9), missing=0.2)
    whitener = Whitener(method=method).fit(X)
    Z = whitener.transform(X)
    assert_array_equal(np.isnan(Z), np.isnan(X))
    assert_allclose(np.nanmean(Z, axis=0), 0.0, atol=1e-12)
    if method == "normalise":
        assert_allclose(np.nanstd(Z, axis=0, ddof=1), 1.0, rtol=1e-12)
    assert_allclose(whitener.inverse_transform(Z), X, rtol=1e-12)


def test_without_missing_both_ways_agree():
    """One gap in many rows changes little: the gappy fit tends to the complete one."""
    X = table(np.random.default_rng(10), n=2000)
    Y = X.copy()
    Y[0, 0] = np.nan
    for method in MIXING:
        a, b = Whitener(method=method).fit(X), Whitener(method=method, tol=1e-9).fit(Y)
        assert_allclose(a.whitening_, b.whitening_, rtol=0.02, atol=0.02 * a.whitening_.max())


def test_missing_whitened_coordinates_count_as_zero():
    X = table(np.random.default_rng(11))
    whitener = Whitener().fit(X)
    Z = whitener.transform(X[:2])
    Z[0, 1] = np.nan
    zeroed = np.nan_to_num(Z, nan=0.0)
    assert_allclose(whitener.inverse_transform(Z), whitener.inverse_transform(zeroed))


# Tables of every kind ----------------------------------------------------------------------


@every
def test_kinds_of_tables_agree(method):
    X = table(np.random.default_rng(12))
    names = list("abcde")
    expected = Whitener(method=method).fit_transform(X)
    for other in (
        pd.DataFrame(X, columns=names),
        pl.DataFrame(X, schema=names),
        scipy.sparse.csr_array(X),
        X.tolist(),
        np.ma.masked_invalid(X),
    ):
        assert_allclose(Whitener(method=method).fit_transform(other), expected, atol=1e-7)
    half = Whitener(method=method).fit_transform(X.astype(np.float32))
    assert half.dtype == np.float32
    assert_allclose(half, expected, atol=2e-3)


@every
def test_names(method):
    X = pd.DataFrame(table(np.random.default_rng(13)), columns=list("abcde"))
    whitener = Whitener(method=method).set_output(transform="pandas").fit(X)
    out = whitener.transform(X)
    mixed = method.startswith("pca")
    assert list(out.columns) == ([f"whitener{k}" for k in range(5)] if mixed else list("abcde"))


def test_in_a_pipeline_and_cloned():
    X = table(np.random.default_rng(14), missing=0.1)
    both = make_pipeline(Whitener(method="normalise"), PPCA(2)).fit(X)
    assert np.isfinite(both.transform(X)).all()
    whitener = Whitener(2, method="zca", ddof=0, rank_tol=1e-3)
    assert clone(whitener).get_params() == whitener.get_params()
