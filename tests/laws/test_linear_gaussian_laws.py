"""Laws of the linear-Gaussian value."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from eigengap import LinearGaussian
from eigengap.linalg import principal_angles

seeds = st.integers(0, 2**32 - 1)


def some_model(rng, d=None, q=None, isotropic=False):
    d = int(rng.integers(2, 9)) if d is None else d
    q = int(rng.integers(1, d)) if q is None else q
    psi = np.full(d, rng.uniform(0.1, 2)) if isotropic else rng.uniform(0.1, 2, d)
    return LinearGaussian(W=rng.normal(size=(d, q)), mu=rng.normal(size=d), psi=psi)


@given(seeds)
@settings(max_examples=40, deadline=None)
def test_canonical_form_keeps_the_density(seed):
    rng = np.random.default_rng(seed)
    model = some_model(rng)
    canonical = model.canonical()
    np.testing.assert_allclose(canonical.covariance(), model.covariance(), atol=1e-12)
    G = canonical.W.T @ (canonical.W / canonical.psi[:, None])
    np.testing.assert_allclose(G, np.diag(np.diag(G)), atol=1e-10 * np.abs(G).max())
    assert np.all(np.diff(np.diag(G)) <= 1e-10)
    np.testing.assert_allclose(canonical.canonical().W, canonical.W, atol=1e-9)


@given(seeds)
@settings(max_examples=40, deadline=None)
def test_rotating_the_latents_changes_nothing_but_the_latents(seed):
    rng = np.random.default_rng(seed)
    model = some_model(rng)
    R = np.linalg.qr(rng.normal(size=(model.q, model.q)))[0]
    rotated = LinearGaussian(W=model.W @ R, mu=model.mu, psi=model.psi)
    X = model.sample(10, rng)
    X[rng.random(X.shape) < 0.3] = np.nan
    np.testing.assert_allclose(rotated.log_likelihood(X), model.log_likelihood(X), atol=1e-10)
    np.testing.assert_allclose(rotated.conditional(X)[0], model.conditional(X)[0], atol=1e-10)
    np.testing.assert_allclose(rotated.posterior_mean(X), model.posterior_mean(X) @ R, atol=1e-10)


@given(seeds)
@settings(max_examples=40, deadline=None)
def test_marginal_of_marginal_and_missing_are_marginals(seed):
    rng = np.random.default_rng(seed)
    model = some_model(rng, d=6, q=2)
    np.testing.assert_array_equal(
        model.marginal([5, 1, 0, 3]).marginal([2, 3]).W, model.marginal([0, 3]).W
    )
    X = model.sample(5, rng)
    X[:, [2, 4]] = np.nan
    np.testing.assert_allclose(
        model.log_likelihood(X),
        model.marginal([0, 1, 3, 5]).log_likelihood(X[:, [0, 1, 3, 5]]),
        atol=1e-10,
    )


@given(seeds)
@settings(max_examples=40, deadline=None)
def test_rescaling_is_a_change_of_variables(seed):
    rng = np.random.default_rng(seed)
    model = some_model(rng)
    scale, shift = np.exp(rng.normal(size=model.d)), rng.normal(size=model.d)
    X = model.sample(8, rng)
    X[rng.random(X.shape) < 0.3] = np.nan
    other = model.rescaled(scale, shift)
    jacobian = np.where(np.isnan(X), 0.0, np.log(scale)).sum(axis=1)
    np.testing.assert_allclose(
        other.log_likelihood(X * scale + shift) + jacobian, model.log_likelihood(X), atol=1e-9
    )


@given(seeds)
@settings(max_examples=40, deadline=None)
def test_chain_rule_of_densities(seed):
    """ln p(x_a, x_b) = ln p(x_a) + ln p(x_b | x_a): marginal and conditional fit together."""
    rng = np.random.default_rng(seed)
    model = some_model(rng, d=5, q=2)
    x = model.sample(1, rng)[0]
    part = x.copy()
    part[[1, 4]] = np.nan
    conditional = model.given(part)
    total = model.log_likelihood(part[None]) + conditional.log_likelihood(x[None, [1, 4]])
    np.testing.assert_allclose(total, model.log_likelihood(x[None]), atol=1e-9)


@given(seeds)
@settings(max_examples=40, deadline=None)
def test_variance_along_axes(seed):
    """001: lam along the retained axes, sigma2 in every orthogonal direction."""
    rng = np.random.default_rng(seed)
    model = some_model(rng, isotropic=True)
    U, lam = model.principal_axes()
    C = model.covariance()
    np.testing.assert_allclose(np.einsum("dq,de,eq->q", U, C, U), lam, rtol=1e-10)
    complement = np.linalg.svd(U, full_matrices=True)[0][:, model.q :]
    np.testing.assert_allclose(
        np.einsum("dk,de,ek->k", complement, C, complement), model.psi[0], rtol=1e-9
    )


@given(seeds)
@settings(max_examples=40, deadline=None)
def test_both_reconstructions(seed):
    """002 section 3.4: W (W^T W)^-1 M E[z | x] is the orthogonal projection."""
    rng = np.random.default_rng(seed)
    model = some_model(rng, isotropic=True)
    X = model.sample(6, rng)
    M = model.W.T @ model.W + model.psi[0] * np.eye(model.q)
    optimal = model.posterior_mean(X) @ M @ np.linalg.pinv(model.W) + model.mu
    np.testing.assert_allclose(model.project(X), optimal, atol=1e-9)
    shrunk = model.posterior_mean(X) @ model.W.T + model.mu
    error = lambda Y: np.sum((X - Y) ** 2)  # noqa: E731
    assert error(optimal) <= error(shrunk) + 1e-12


def test_encoder_is_the_posterior_mean_of_complete_rows():
    rng = np.random.default_rng(0)
    for psi_scale in (1.0, 0.0):
        model = some_model(rng, d=5, q=3)
        model = LinearGaussian(W=model.W, mu=model.mu + 1e6, psi=model.psi * psi_scale)
        X = model.sample(7, rng)
        np.testing.assert_allclose(model.encoder().forward(X), model.posterior_mean(X), atol=1e-6)
        np.testing.assert_allclose(
            model.encoder().backward(model.posterior_mean(X)),
            model.posterior_mean(X) @ model.W.T + model.mu,
        )


def test_principal_angles_see_small_angles():
    a = np.array([[1.0], [0.0]])
    b = np.array([[1.0], [1e-12]])
    np.testing.assert_allclose(principal_angles(a, b), 1e-12, rtol=1e-6)
