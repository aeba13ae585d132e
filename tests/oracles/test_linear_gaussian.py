"""LinearGaussian from hand-made parameters, against a dense Gaussian by brute force."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests import dense

from eigengap import LinearGaussian
from eigengap.exceptions import SingularModelError


@st.composite
def models_and_rows(draw, largest_d=7):
    d = draw(st.integers(1, largest_d))
    q = draw(st.integers(0, d))
    n = draw(st.integers(1, 60))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    isotropic = draw(st.booleans())
    psi = np.full(d, rng.uniform(0.2, 3)) if isotropic else rng.uniform(0.2, 3, d)
    model = LinearGaussian(W=rng.normal(size=(d, q)), mu=rng.normal(size=d) * 10, psi=psi)
    X = model.sample(n, rng)
    X[rng.random(X.shape) < draw(st.sampled_from([0.0, 0.1, 0.5, 0.9]))] = np.nan
    # Some rows share a pattern, as they do in practice: complete ones, and copies of a gap.
    X[: n // 3] = model.sample(n // 3, rng)
    return model, X


@given(models_and_rows())
@settings(max_examples=60, deadline=None)
def test_log_likelihood_is_the_dense_gaussians(case):
    model, X = case
    expected = dense.log_likelihood(X, model.mu, model.covariance())
    np.testing.assert_allclose(model.log_likelihood(X), expected, rtol=1e-10, atol=1e-10)


@given(models_and_rows())
@settings(max_examples=60, deadline=None)
def test_conditional_is_the_dense_gaussians(case):
    model, X = case
    mean, covs = dense.conditional(X, model.mu, model.covariance())
    got, variance = model.conditional(X)
    np.testing.assert_allclose(got, mean, rtol=1e-10, atol=1e-10)
    missing = np.isnan(X)
    for i, C in enumerate(covs):
        np.testing.assert_allclose(variance[i, missing[i]], np.diag(C), rtol=1e-10, atol=1e-10)
    assert np.all(variance[~missing] == 0)
    np.testing.assert_array_equal(got[~missing], X[~missing])


@given(models_and_rows())
@settings(max_examples=60, deadline=None)
def test_posterior_is_the_joint_gaussians(case):
    model, X = case
    mean, cov = dense.posterior(X, model.W, model.mu, model.psi)
    posterior = model.posterior(X)
    np.testing.assert_allclose(posterior.mean, mean, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(posterior.cov, cov, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(posterior.std**2, np.einsum("nii->ni", cov), atol=1e-10)
    np.testing.assert_allclose(model.posterior_mean(X), posterior.mean, atol=1e-13)


@given(models_and_rows())
@settings(max_examples=30, deadline=None)
def test_precision_inverts_the_covariance(case):
    model, _ = case
    np.testing.assert_allclose(
        model.precision() @ model.covariance(), np.eye(model.d), rtol=0, atol=1e-10
    )


@pytest.mark.parametrize("psi", [1e-2, 1e-4, 1e-6, 1e-8])
def test_precision_keeps_its_digits_where_a_noise_variance_is_small(psi):
    """Woodbury's two terms are 1 / psi large and cancel; the covariance is well conditioned."""
    rng = np.random.default_rng(0)
    noise = rng.uniform(0.5, 1.0, 8)
    noise[1] = psi
    model = LinearGaussian(W=rng.normal(size=(8, 2)), mu=np.zeros(8), psi=noise)
    C = model.covariance()
    rounding = np.linalg.cond(C) * np.finfo(np.float64).eps
    np.testing.assert_allclose(model.precision() @ C, np.eye(8), rtol=0, atol=20 * rounding)


@given(models_and_rows())
@settings(max_examples=30, deadline=None)
def test_given_is_the_conditional_distribution(case):
    model, X = case
    mean, covs = dense.conditional(X, model.mu, model.covariance())
    row = len(X) - 1
    rest = model.given(X[row])
    np.testing.assert_allclose(rest.mu, mean[row, np.isnan(X[row])], atol=1e-10)
    np.testing.assert_allclose(rest.covariance(), covs[row], atol=1e-10)


def test_conditional_draws_have_the_conditional_moments():
    rng = np.random.default_rng(0)
    model = LinearGaussian(W=rng.normal(size=(4, 2)), mu=rng.normal(size=4), psi=[0.5, 1, 2, 0.1])
    x = model.sample(1, rng)[0]
    x[[1, 3]] = np.nan
    draws = model.sample_conditional(np.tile(x, (200_000, 1)), rng)[:, [1, 3]]
    mean, covs = dense.conditional(x[None], model.mu, model.covariance())
    np.testing.assert_allclose(draws.mean(axis=0), mean[0, [1, 3]], atol=0.02)
    np.testing.assert_allclose(np.cov(draws.T), covs[0], atol=0.03)


def test_draws_have_the_models_moments():
    rng = np.random.default_rng(1)
    model = LinearGaussian(W=rng.normal(size=(3, 2)), mu=[1, 2, 3], psi=[0.5, 1, 2])
    X = model.sample(300_000, rng)
    np.testing.assert_allclose(X.mean(axis=0), model.mu, atol=0.02)
    np.testing.assert_allclose(np.cov(X.T), model.covariance(), atol=0.05)


# The limit of no noise ---------------------------------------------------------------------


@pytest.mark.parametrize("noise", [1e-8, 1e-12, 0.0])
def test_small_noise_tends_to_the_limit(noise):
    """A full-rank W keeps its density as psi -> 0; the dense Gaussian is well conditioned there."""
    rng = np.random.default_rng(2)
    W = np.linalg.qr(rng.normal(size=(5, 5)))[0] * [3, 2, 1.5, 1, 0.5]
    model = LinearGaussian(W=W, mu=rng.normal(size=5), psi=np.full(5, noise))
    X = model.sample(50, rng)
    X[rng.random(X.shape) < 0.4] = np.nan
    C = model.covariance()
    np.testing.assert_allclose(
        model.log_likelihood(X), dense.log_likelihood(X, model.mu, C), rtol=1e-10, atol=1e-10
    )
    mean, covs = dense.conditional(X, model.mu, C)
    got, variance = model.conditional(X)
    np.testing.assert_allclose(got, mean, atol=1e-10)
    for i, cov in enumerate(covs):
        np.testing.assert_allclose(variance[i, np.isnan(X[i])], np.diag(cov), atol=1e-10)
    np.testing.assert_allclose(model.precision() @ C, np.eye(5), atol=1e-10)


def test_no_noise_with_fewer_observed_cells_than_components():
    """One exact cell fixes one direction of z and leaves the others at their prior."""
    model = LinearGaussian(W=[[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]], mu=[0, 0, 0], psi=[0, 0, 0])
    posterior = model.posterior(np.array([[2.0, np.nan, np.nan]]))
    np.testing.assert_allclose(posterior.mean, [[2.0, 0.0]], atol=1e-12)
    np.testing.assert_allclose(posterior.cov[0], [[0, 0], [0, 1]], atol=1e-12)


def test_without_noise_the_posterior_mean_is_the_whitened_score():
    """004 has it otherwise: as sigma2 -> 0, E[z | x] -> Lam^-1/2 U^T (x - mu)."""
    rng = np.random.default_rng(3)
    U = np.linalg.qr(rng.normal(size=(6, 2)))[0]
    lam = np.array([4.0, 1.0])
    model = LinearGaussian(W=U * np.sqrt(lam), mu=np.zeros(6), psi=np.zeros(6))
    X = rng.normal(size=(20, 2)) @ (U * np.sqrt(lam)).T
    np.testing.assert_allclose(model.posterior_mean(X), X @ U / np.sqrt(lam), atol=1e-10)


def test_singular_density_is_told():
    model = LinearGaussian(W=[[1.0], [1.0]], mu=[0, 0], psi=[0, 0])
    with pytest.raises(SingularModelError, match="no density"):
        model.log_likelihood(np.array([[1.0, 1.0]]))
    with pytest.raises(SingularModelError, match="singular"):
        model.precision()
    # One cell alone has a density, even though the two together have none.
    np.testing.assert_allclose(
        model.log_likelihood(np.array([[1.0, np.nan]])), -0.5 * (np.log(2 * np.pi) + 1)
    )


def test_one_noiseless_feature_among_noisy_ones():
    rng = np.random.default_rng(4)
    W = rng.normal(size=(5, 2))
    model = LinearGaussian(W=W, mu=np.zeros(5), psi=[0.0, 1.0, 0.5, 2.0, 0.3])
    X = model.sample(30, rng)
    X[rng.random(X.shape) < 0.3] = np.nan
    C = model.covariance()
    np.testing.assert_allclose(
        model.log_likelihood(X), dense.log_likelihood(X, model.mu, C), atol=1e-9
    )
    np.testing.assert_allclose(
        model.conditional(X)[0], dense.conditional(X, model.mu, C)[0], atol=1e-9
    )


def test_values_are_checked_and_immutable():
    with pytest.raises(ValueError, match="shapes"):
        LinearGaussian(W=[[1.0]], mu=[0.0, 0.0], psi=[1.0, 1.0])
    with pytest.raises(ValueError, match="negative at feature 1"):
        LinearGaussian(W=[[1.0], [1.0]], mu=[0.0, 0.0], psi=[1.0, -1.0])
    with pytest.raises(ValueError, match="W holds NaN"):
        LinearGaussian(W=[[np.nan]], mu=[0.0], psi=[1.0])
    model = LinearGaussian(W=[[1.0]], mu=[0.0], psi=[1.0])
    with pytest.raises(ValueError, match="read-only"):
        model.W[0, 0] = 2.0
    with pytest.raises(ValueError, match="rows of 1 features"):
        model.log_likelihood(np.zeros((2, 3)))
