"""Laws of PCA, PPCA and FactorAnalysis as their users see them."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import scipy.linalg
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from tests import dense

from eigengap import PCA, PPCA, FactorAnalysis, LinearGaussian
from eigengap.linalg import principal_angles

ALL = [PCA, PPCA, FactorAnalysis]
ISOTROPIC = [PCA, PPCA]
TIGHT = {"tol": 1e-10, "max_iter": 5000}

every = pytest.mark.parametrize("kind", ALL, ids=lambda kind: kind.__name__)
isotropic = pytest.mark.parametrize("kind", ISOTROPIC, ids=lambda kind: kind.__name__)
complete_or_not = pytest.mark.parametrize("missing", [0.0, 0.15], ids=["complete", "gaps"])
seeds = st.integers(0, 2**32 - 1)


def table(rng, n=150, d=6, q=2, missing=0.0):
    """Rows of a factor model with noise enough that no fit runs into a corner."""
    W = rng.normal(size=(d, q)) + np.sign(rng.normal(size=(d, q)))
    psi = rng.uniform(0.5, 1.5, d)
    X = LinearGaussian(W=W, mu=rng.normal(size=d) * 3, psi=psi).sample(n, rng)
    X[rng.random(X.shape) < missing] = np.nan
    return X


def assert_same_density(got, expected, rtol=1e-6):
    C = expected.get_covariance()
    assert_allclose(got.get_covariance(), C, rtol=rtol, atol=rtol * np.abs(C).max())
    assert_allclose(got.mean_, expected.mean_, rtol=rtol, atol=rtol * np.sqrt(C.max()))


# Imputation --------------------------------------------------------------------------------


@every
@given(seed=seeds)
@settings(max_examples=5, deadline=None)
def test_imputation_leaves_observed_cells_alone(kind, seed):
    rng = np.random.default_rng(seed)
    X = table(rng, missing=0.3)
    observed = ~np.isnan(X)
    model = kind(n_components=2, scale=bool(seed % 2)).fit(X)
    filled, std = model.impute(X, return_std=True)
    for out in (filled, model.impute(X), next(model.sample_imputations(X, 1, random_state=0))):
        assert_array_equal(out[observed].view(np.int64), X[observed].view(np.int64))  # bit for bit
        assert np.isfinite(out).all()
    assert_array_equal(std[observed], 0.0)
    assert np.all(std[~observed] > 0)


@every
def test_imputation_is_the_conditional_gaussian(kind):
    """With the uncertainty of the parameters added to the standard deviations."""
    X = table(np.random.default_rng(0), missing=0.3)
    model = kind(n_components=2, scale=True).fit(X)
    filled, std = model.impute(X, return_std=True)
    _, variance = model.model_.conditional(X)
    mean, covs = dense.conditional(X, model.mean_, model.get_covariance())
    assert_allclose(filled, mean, rtol=1e-9, atol=1e-9)
    for i, cov in enumerate(covs):
        missing = np.isnan(X[i])
        assert_allclose(variance[i, missing], np.diag(cov), rtol=1e-8)
        assert np.all(std[i, missing] > np.sqrt(np.diag(cov)))
        assert np.all(std[i, missing] < 1.3 * np.sqrt(np.diag(cov)))


@every
def test_draws_of_the_missing_have_their_mean_and_spread(kind):
    X = table(np.random.default_rng(1), n=300, missing=0.3)
    model = kind(n_components=2).fit(X)
    filled, std = model.impute(X, return_std=True)
    m = 400
    draws = np.array(list(model.sample_imputations(X, m, random_state=0)))
    missing = np.isnan(X)
    standard = (draws.mean(axis=0) - filled)[missing] / std[missing] * np.sqrt(m)
    assert abs(standard.mean()) < 0.3
    assert 0.8 < standard.std() < 1.2  # were the draws not around the mean, this would be larger
    assert_allclose(draws.std(axis=0)[missing].mean(), std[missing].mean(), rtol=0.02)


# Weights -----------------------------------------------------------------------------------


@complete_or_not
@every
@given(seed=seeds)
@settings(max_examples=4, deadline=None)
def test_an_integer_weight_is_a_repetition(kind, missing, seed):
    rng = np.random.default_rng(seed)
    q = 1 if kind is FactorAnalysis else 2  # two factors need more rows to be determined this well
    X = table(rng, n=200, q=q, missing=missing)
    times = rng.integers(0, 4, len(X))
    weighted = kind(n_components=q, **TIGHT).fit(X, sample_weight=times)
    repeated = kind(n_components=q, **TIGHT).fit(np.repeat(X, times, axis=0))
    assert_same_density(weighted, repeated)
    assert_allclose(weighted.log_likelihood_, repeated.log_likelihood_, rtol=1e-9)
    assert_allclose(weighted.explained_variance_, repeated.explained_variance_, rtol=1e-6)
    assert_allclose(weighted.singular_values_, repeated.singular_values_, rtol=1e-6)
    assert_allclose(weighted.transform(X), repeated.transform(X), atol=1e-5)


# Changes of the data that a model follows --------------------------------------------------


@given(seed=seeds)
@settings(max_examples=8, deadline=None)
def test_ppca_follows_a_rotation(seed):
    """002 section 3.3: rotating complete rows rotates the density and keeps the latents."""
    rng = np.random.default_rng(seed)
    X = table(rng)
    R = np.linalg.qr(rng.normal(size=(6, 6)))[0]
    plain, rotated = PPCA(n_components=2).fit(X), PPCA(n_components=2).fit(X @ R.T)
    C = plain.get_covariance()
    assert_allclose(rotated.get_covariance(), R @ C @ R.T, atol=1e-10 * np.abs(C).max())
    assert_allclose(rotated.mean_, R @ plain.mean_, atol=1e-10)
    assert_allclose(rotated.noise_variance_, plain.noise_variance_, rtol=1e-10)
    assert_allclose(rotated.log_likelihood_, plain.log_likelihood_, rtol=1e-10)
    assert_allclose(np.abs(rotated.transform(X @ R.T)), np.abs(plain.transform(X)), atol=1e-7)


def test_factor_analysis_does_not_follow_a_rotation():
    """The counterpart, without which the law above says nothing about PPCA."""
    rng = np.random.default_rng(2)
    X = table(rng)
    R = np.linalg.qr(rng.normal(size=(6, 6)))[0]
    C = FactorAnalysis(n_components=2).fit(X).get_covariance()
    rotated = FactorAnalysis(n_components=2).fit(X @ R.T).get_covariance()
    assert np.abs(rotated - R @ C @ R.T).max() > 1e-2


@complete_or_not
@given(seed=seeds)
@settings(max_examples=5, deadline=None)
def test_factor_analysis_follows_a_rescaling(missing, seed):
    """002 section 3.3: componentwise rescaling scales the loadings and the noise."""
    rng = np.random.default_rng(seed)
    X = table(rng, n=200, q=1, missing=missing)
    by = np.exp(rng.normal(size=6) * 2)
    plain = FactorAnalysis(n_components=1, **TIGHT).fit(X)
    scaled = FactorAnalysis(n_components=1, **TIGHT).fit(X * by)
    sd = np.sqrt(np.diag(plain.get_covariance()))
    correlation = plain.get_covariance() / np.outer(sd, sd)
    got = scaled.get_covariance() / np.outer(sd * by, sd * by)
    assert_allclose(got, correlation, atol=1e-5)
    assert_allclose(
        scaled.noise_variance_ / by**2 / sd**2, plain.noise_variance_ / sd**2, atol=1e-5
    )
    assert_allclose(np.abs(scaled.transform(X * by)), np.abs(plain.transform(X)), atol=1e-3)


def test_ppca_does_not_follow_a_rescaling():
    X = table(np.random.default_rng(3))
    by = np.array([1.0, 2.0, 4.0, 1.0, 0.5, 3.0])
    C = PPCA(n_components=2).fit(X).get_covariance() * np.outer(by, by)
    assert np.abs(PPCA(n_components=2).fit(X * by).get_covariance() / C - 1).max() > 1e-2


@complete_or_not
@every
def test_the_order_of_columns_does_not_matter(kind, missing):
    rng = np.random.default_rng(4)
    frame = pd.DataFrame(table(rng, missing=missing), columns=list("abcdef"))
    order = rng.permutation(6)
    shuffled = frame.iloc[:, order]
    plain = kind(n_components=2, **TIGHT).fit(frame)
    permuted = kind(n_components=2, **TIGHT).fit(shuffled)
    C = plain.get_covariance()[np.ix_(order, order)]
    assert_allclose(permuted.get_covariance(), C, rtol=1e-6, atol=1e-7)
    assert_allclose(permuted.mean_, plain.mean_[order], rtol=1e-7)
    assert_allclose(permuted.impute(shuffled), plain.impute(frame).iloc[:, order], atol=1e-6)
    assert_allclose(permuted.score_samples(shuffled), plain.score_samples(frame), rtol=1e-6)


# Number of components ----------------------------------------------------------------------


@isotropic
def test_axes_are_nested_in_q(kind):
    """002 section 3.3: the first axes stay as more are asked for."""
    X = table(np.random.default_rng(5), q=3)
    most = kind(n_components=5).fit(X).components_
    for q in range(1, 5):
        assert_allclose(kind(n_components=q).fit(X).components_, most[:q], atol=1e-9)


def test_factors_are_not_nested_in_q():
    """002 section 3.3: the factor of q = 1 need not lie in the plane of q = 2.

    Two groups of columns, one factor each, and a column that belongs to both: with one factor it
    must serve a compromise.
    """
    rng = np.random.default_rng(6)
    W = np.array([[2, 0], [2, 0], [2, 0], [0, 2], [0, 1.9], [1, 1]], dtype=float)
    X = LinearGaussian(W=W, mu=np.zeros(6), psi=np.array([3, 0.3, 1, 0.2, 2, 0.5])).sample(400, rng)
    one = FactorAnalysis(n_components=1, tol=1e-10).fit(X)
    two = FactorAnalysis(n_components=2, tol=1e-10).fit(X)
    assert principal_angles(one.loadings_, two.loadings_)[0] > 0.01
    # PPCA on the same rows is nested.
    nested = [PPCA(n_components=q).fit(X).loadings_ for q in (1, 2)]
    assert principal_angles(*nested)[0] < 1e-7


@complete_or_not
@every
@pytest.mark.filterwarnings("ignore:Heywood case")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_likelihood_grows_with_q(kind, missing):
    X = table(np.random.default_rng(7), missing=missing)
    most = 4 if kind is FactorAnalysis else 6  # q = 1..d - 1; FA has no more degrees of freedom
    found = [kind(n_components=q, tol=1e-8).fit(X).log_likelihood_ for q in range(1, most)]
    assert np.all(np.diff(found) > -1e-6)
    assert found[1] > found[0] + 10  # the second direction is real


# Closed forms ------------------------------------------------------------------------------


@given(seed=seeds)
@settings(max_examples=8, deadline=None)
def test_em_on_complete_rows_is_the_closed_form(seed):
    """T&B 1999, Eqs. 7 and 8, from a dense eigendecomposition."""
    rng = np.random.default_rng(seed)
    X = table(rng, n=300)
    em = PPCA(n_components=2, solver="em", tol=1e-12, max_iter=5000).fit(X)
    lam, U = np.linalg.eigh(np.cov(X.T, bias=True))
    assert principal_angles(em.components_.T, U[:, -2:])[0] < 1e-6
    assert_allclose(em.noise_variance_, lam[:4].mean(), rtol=1e-8)
    assert_allclose(em.log_likelihood_, PPCA(n_components=2).fit(X).log_likelihood_, rtol=1e-10)


def test_eq_10_of_000():
    """Mean squared reconstruction error = sum of the discarded eigenvalues, 1e-10 relative."""
    X = table(np.random.default_rng(8))
    for q in range(1, 6):
        model = PCA(n_components=q).fit(X)
        back = model.inverse_transform(model.transform(X))
        error = np.mean(np.sum((X - back) ** 2, axis=1))
        assert_allclose(model.reconstruction_error(), error, rtol=1e-10)
        assert_allclose(model.reconstruct(X, kind="optimal"), back, atol=1e-10)
        assert_allclose(model.reconstruct(X), back, atol=1e-10)
        shrunk = np.mean(np.sum((X - model.reconstruct(X, kind="posterior")) ** 2, axis=1))
        assert shrunk >= error * (1 - 1e-12)  # the projection is of least error


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("options", [{}, {"scale": True}, {"whiten": True}])
def test_pca_reconstructs_by_its_scores(options, dtype, missing):
    """The default is ordinary PCA's, also along axes of no more variance than the noise."""
    X = table(np.random.default_rng(8)).astype(dtype)
    X = X[:60] if missing else X
    model = PCA(n_components=3, **options).fit(X)
    rows = X.copy()
    if missing:
        rows[np.random.default_rng(9).random(X.shape) < 0.2] = np.nan
    back = model.inverse_transform(model.transform(rows))
    near = 1e-10 if dtype is np.float64 else 1e-4
    assert_allclose(model.reconstruct(rows), back, atol=near)
    assert model.reconstruct(rows).dtype == dtype
    if not missing:
        unit = X.std(axis=0) if model.scale else 1.0
        error = np.mean(np.sum(((X - model.reconstruct(X)) / unit) ** 2, axis=1))
        assert_allclose(error, model.reconstruction_error(), rtol=max(near, 1e-10))


def test_pca_reconstructs_along_axes_that_are_no_stronger_than_the_noise():
    X = np.vstack([np.eye(4), -np.eye(4)])  # all eigenvalues are equal: the density has W = 0
    model = PCA(n_components=2).fit(X)
    assert_allclose(model.reconstruct(X), model.inverse_transform(model.transform(X)), atol=1e-12)
    error = np.mean(np.sum((X - model.reconstruct(X)) ** 2, axis=1))
    assert_allclose(error, model.reconstruction_error(), rtol=1e-12)


@pytest.mark.parametrize("scale", [False, True])
@pytest.mark.parametrize("whiten", [False, True])
def test_inverse_transform_of_transform_is_the_orthogonal_projection(whiten, scale):
    X = table(np.random.default_rng(9)) * [1, 2, 3, 1, 5, 1]
    model = PCA(n_components=2, whiten=whiten, scale=scale).fit(X)
    unit = X.std(axis=0) if scale else np.ones(6)
    U = np.linalg.svd((X - X.mean(axis=0)) / unit, full_matrices=False)[2][:2].T
    expected = ((X - X.mean(axis=0)) / unit @ U @ U.T) * unit + X.mean(axis=0)
    back = model.inverse_transform(model.transform(X))
    assert_allclose(back, expected, atol=1e-9)
    assert_allclose(model.inverse_transform(model.transform(back)), back, atol=1e-9)


@complete_or_not
def test_whitening_is_an_output_option(missing):
    """scikit-learn#13898: it changes neither score nor covariance."""
    X = table(np.random.default_rng(10), missing=missing)
    plain, white = PCA(n_components=2).fit(X), PCA(n_components=2, whiten=True).fit(X)
    assert_array_equal(white.get_covariance(), plain.get_covariance())
    assert_array_equal(white.score_samples(X), plain.score_samples(X))
    assert_array_equal(white.impute(X), plain.impute(X))
    assert white.score(X) == plain.score(X)
    if not missing:
        assert_allclose(np.cov(white.transform(X).T), np.eye(2), atol=1e-10)
        assert_allclose(
            white.transform(X) * np.sqrt(plain.explained_variance_), plain.transform(X), rtol=1e-9
        )


# Units -------------------------------------------------------------------------------------


@complete_or_not
@every
def test_scaling_is_standardising_by_hand(kind, missing):
    rng = np.random.default_rng(11)
    X = table(rng, missing=missing) * [1, 10, 100, 1, 0.1, 3]
    mean, sd = np.nanmean(X, axis=0), np.nanstd(X, axis=0)
    scaled = kind(n_components=2, scale=True, **TIGHT).fit(X)
    by_hand = kind(n_components=2, **TIGHT).fit((X - mean) / sd)
    standard = (X - mean) / sd
    assert_allclose(scaled.impute(X), by_hand.impute(standard) * sd + mean, rtol=1e-6)
    for way in ("posterior", "optimal"):
        undone = by_hand.reconstruct(standard, kind=way) * sd + mean
        assert_allclose((scaled.reconstruct(X, kind=way) - undone) / sd, 0.0, atol=1e-6)
    jacobian = np.where(np.isnan(X), 0.0, np.log(sd)).sum(axis=1)
    expected = by_hand.score_samples(standard) - jacobian
    assert_allclose(scaled.score_samples(X), expected, rtol=1e-6, atol=1e-6)
    assert_allclose(scaled.log_likelihood_, scaled.score_samples(X).sum(), rtol=1e-8)
    drawn, expected = (m.sample(50, random_state=0) for m in (scaled, by_hand))
    # The mean of the seen cells is not the fitted one under gaps, so compare in standard units.
    assert_allclose((drawn - mean) / sd, expected, atol=1e-5)
    assert_allclose(scaled.transform(X), by_hand.transform(standard), atol=1e-5)
    assert_allclose(scaled.noise_variance_, by_hand.noise_variance_, rtol=1e-6)
    assert_allclose(scaled.explained_variance_ratio_, by_hand.explained_variance_ratio_, rtol=1e-6)


# Other ways to write the same table --------------------------------------------------------


@pytest.mark.parametrize("code", [-999, [-999.0, 1e6]])
@every
def test_a_code_for_missing_values_is_nan(kind, code):
    X = table(np.random.default_rng(12), missing=0.2)
    missing = np.isnan(X)
    coded = np.where(missing, -999.0, X)
    if isinstance(code, list):
        coded[np.flatnonzero(missing[:, 0])[::2], 0] = 1e6
    expected = kind(n_components=2).fit(X)
    got = kind(n_components=2, missing_values=code).fit(coded)
    assert_array_equal(got.get_covariance(), expected.get_covariance())
    assert_array_equal(got.transform(coded), expected.transform(X))
    assert_array_equal(got.impute(coded), expected.impute(X))
    assert_array_equal(got.score_samples(coded), expected.score_samples(X))
    assert np.count_nonzero(coded == -999.0) > 0  # the caller's table is as it was


@complete_or_not
@every
def test_float32_stays_float32(kind, missing):
    X = table(np.random.default_rng(13), n=400, missing=missing)
    single, double = kind(n_components=2).fit(X.astype(np.float32)), kind(n_components=2).fit(X)
    small = X.astype(np.float32)
    pairs = [
        (single.transform(small), double.transform(X)),
        (single.impute(small), double.impute(X)),
        (single.impute(small, return_std=True)[1], double.impute(X, return_std=True)[1]),
        (single.reconstruct(small), double.reconstruct(X)),
        (
            single.inverse_transform(single.transform(small)),
            double.inverse_transform(double.transform(X)),
        ),
        (next(single.sample_imputations(small, 1, 0)), next(double.sample_imputations(X, 1, 0))),
    ]
    for got, expected in pairs:
        assert got.dtype == np.float32
        assert_allclose(got, expected, rtol=1e-4, atol=1e-4 * np.abs(expected).max())
    assert_allclose(single.get_covariance(), double.get_covariance(), rtol=1e-4, atol=1e-4)
    assert_allclose(single.score(small), double.score(X), rtol=1e-4)


@pytest.mark.parametrize("form", ["csr_array", "csc_array", "coo_array", "csr_matrix"])
@every
def test_sparse_is_its_dense_copy(kind, form):
    rng = np.random.default_rng(14)
    X = table(rng) * (rng.random((150, 6)) < 0.6)
    S = getattr(scipy.sparse, form)(X)
    for scale in (False, True):
        got = kind(n_components=2, scale=scale, **TIGHT).fit(S)
        expected = kind(n_components=2, scale=scale, **TIGHT).fit(X)
        assert_same_density(got, expected, rtol=1e-7)
        assert_allclose(got.transform(S), expected.transform(X), atol=1e-6)
        assert_allclose(got.score_samples(S), expected.score_samples(X), rtol=1e-7)
        assert_allclose(got.transform(X), got.transform(S), atol=1e-12)
        assert_array_equal(got.impute(S), X)  # the zeros of a sparse table are seen


@complete_or_not
@every
def test_layout_in_memory_does_not_matter(kind, missing):
    X = table(np.random.default_rng(15), missing=missing)
    expected = kind(n_components=2, tol=1e-10, max_iter=5000).fit(X)
    wide = np.zeros((300, 12))
    wide[::2, ::2] = X
    tables = {
        "Fortran": np.asfortranarray(X),
        "strided": wide[::2, ::2],
        "backwards": np.ascontiguousarray(X[::-1])[::-1],
        "masked": np.ma.masked_invalid(X),
        "list": X.tolist(),
    }
    for name, same in tables.items():
        got = kind(n_components=2, tol=1e-10, max_iter=5000).fit(same)
        C = expected.get_covariance()
        assert_allclose(got.get_covariance(), C, rtol=1e-7, atol=1e-7, err_msg=name)
        assert_allclose(got.transform(same), expected.transform(X), atol=1e-7, err_msg=name)
        assert_allclose(got.impute(same), expected.impute(X), rtol=1e-7, atol=1e-7, err_msg=name)


@every
def test_the_callers_table_is_not_changed(kind):
    X = table(np.random.default_rng(16), missing=0.2)
    kept = X.copy()
    X.setflags(write=False)
    model = kind(n_components=2, scale=True).fit(X)
    model.transform(X), model.impute(X), model.reconstruct(X), model.score_samples(X)
    assert_array_equal(X, kept)


# Marginals ---------------------------------------------------------------------------------


@every
@given(seed=seeds)
@settings(max_examples=5, deadline=None)
def test_dropped_columns_are_marginalised(kind, seed):
    """Blanking columns scores the rest by the marginal density; so does `model_.marginal`."""
    rng = np.random.default_rng(seed)
    X = table(rng)
    model = kind(n_components=2).fit(X)
    kept = np.sort(rng.choice(6, size=rng.integers(1, 6), replace=False))
    blanked = np.full_like(X, np.nan)
    blanked[:, kept] = X[:, kept]
    C = model.get_covariance()[np.ix_(kept, kept)]
    expected = dense.log_likelihood(X[:, kept], model.mean_[kept], C)
    assert_allclose(model.score_samples(blanked), expected, rtol=1e-8)
    assert_allclose(model.model_.marginal(kept).log_likelihood(X[:, kept]), expected, rtol=1e-8)


@every
def test_score_is_the_dense_gaussian(kind):
    X = table(np.random.default_rng(17), missing=0.2)
    model = kind(n_components=2).fit(X)
    expected = dense.log_likelihood(X, model.mean_, model.get_covariance())
    assert_allclose(model.score_samples(X), expected, rtol=1e-8)
    assert_allclose(model.score(X), expected.mean(), rtol=1e-10)
    assert_allclose(model.log_likelihood_, expected.sum(), rtol=1e-9)
    inverse = scipy.linalg.inv(model.get_covariance())
    assert_allclose(model.get_precision(), inverse, rtol=1e-7, atol=1e-10)


@pytest.mark.parametrize("rotation", [None, "varimax", "oblimin"])
def test_missing_latents_are_at_their_expected_value(rotation):
    X = table(np.random.default_rng(20), missing=0.0)
    for model in (PCA(2).fit(X), PPCA(2).fit(X), FactorAnalysis(2, rotation=rotation).fit(X)):
        Z = model.transform(X)[:5]
        gap = Z.copy()
        gap[:, 1] = np.nan
        phi = getattr(model, "factor_correlation_", np.eye(2))
        expected = np.column_stack([Z[:, 0], Z[:, 0] * phi[0, 1]])
        assert_allclose(model.inverse_transform(gap), model.inverse_transform(expected), atol=1e-9)
