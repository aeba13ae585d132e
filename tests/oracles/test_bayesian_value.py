"""BayesianLinearGaussian from parameters made by hand, against draws and quadrature."""

import numpy as np
import pytest
from scipy.stats import norm
from tests import dense

from eigengap.models.gaussian.bayesian import BayesianLinearGaussian, Gammas


def value(d=3, q=2, seed=0, size=0.3, cells=200.0) -> BayesianLinearGaussian:
    rng = np.random.default_rng(seed)
    roots = size * rng.normal(size=(d, q + 1, q + 1))
    return BayesianLinearGaussian(
        W=rng.normal(size=(d, q)),
        mu=rng.normal(size=d),
        cov=roots @ roots.transpose(0, 2, 1) + 0.01 * np.eye(q + 1),
        noise=Gammas(np.array([cells / 2]), np.array([0.3 * cells / 2])),
        relevance=Gammas(np.full(q, 2.0), np.full(q, 3.0)),
    )


def with_missing(model, n, seed=1):
    rng = np.random.default_rng(seed)
    X = model.sample(n, rng)
    X[rng.random(X.shape) < 0.4] = np.nan
    return X


def test_predictive_moments_are_those_of_rows_with_drawn_parameters():
    model, rng = value(), np.random.default_rng(2)
    rows = np.concatenate([model.draw(rng).sample(100, rng) for _ in range(3000)])
    predictive = model.predictive()
    np.testing.assert_allclose(rows.mean(axis=0), predictive.mu, atol=0.04)
    np.testing.assert_allclose(np.cov(rows.T), predictive.covariance(), atol=0.15)


def test_sample_has_the_predictive_moments_too():
    model = value()
    rows = model.sample(400_000, np.random.default_rng(3))
    np.testing.assert_allclose(rows.mean(axis=0), model.mu, atol=0.02)
    np.testing.assert_allclose(np.cov(rows.T), model.predictive().covariance(), atol=0.05)


def test_draws_have_the_moments_of_the_posterior():
    model, rng = value(), np.random.default_rng(4)
    drawn = [model.draw(rng) for _ in range(4_000)]
    w = np.array([np.column_stack([one.W, one.mu]) for one in drawn])  # (m, d, q + 1)
    np.testing.assert_allclose(w.mean(axis=0), np.column_stack([model.W, model.mu]), atol=0.03)
    for j in range(model.d):
        np.testing.assert_allclose(np.cov(w[:, j].T), model.cov[j], atol=0.03)
    noise = np.array([one.psi[0] for one in drawn])
    assert noise.mean() == pytest.approx(model.noise_variance()[0], rel=0.01)


def test_density_integrates_to_one():
    model = value(d=2, q=1)
    grid = np.linspace(-14, 14, 400)
    cells = np.stack(np.meshgrid(grid, grid), axis=-1).reshape(-1, 2)
    area = (grid[1] - grid[0]) ** 2
    assert np.exp(model.log_likelihood(cells)).sum() * area == pytest.approx(1.0, abs=1e-6)
    one = np.column_stack([np.full(400, np.nan), grid])  # and so does the density of one cell
    mass = np.exp(model.log_likelihood(one)).sum() * (grid[1] - grid[0])
    assert mass == pytest.approx(1.0, abs=1e-6)


def test_log_likelihood_is_that_of_the_dense_gaussian():
    model = value(d=5)
    X = with_missing(model, 20)
    X[3] = np.nan
    C = model.W @ model.W.T + np.diag(
        model.noise_variance() + np.trace(model.cov, axis1=1, axis2=2)
    )
    expected = dense.log_likelihood(X, model.mu, C)
    np.testing.assert_allclose(model.log_likelihood(X), expected, rtol=1e-10, atol=1e-12)
    assert model.log_likelihood(X)[3] == 0.0


def test_conditional_variance_is_the_law_of_total_variance():
    """var x_j = E[var(x_j | z)] + var(E[x_j | z]) over z given the seen cells, by quadrature."""
    model = value(d=3, q=1)
    X = with_missing(model, 6)
    X[0] = np.nan
    mean, variance = model.conditional(X)
    posterior = model.posterior(X)
    z = np.linspace(-12, 12, 4001)
    for i, x in enumerate(X):
        weight = norm.pdf(z, posterior.mean[i, 0], posterior.std[i, 0]) * (z[1] - z[0])
        zt = np.column_stack([z, np.ones_like(z)])
        for j in np.flatnonzero(np.isnan(x)):
            given = model.W[j, 0] * z + model.mu[j]
            spread = model.noise_variance()[j] + np.einsum("ga,ab,gb->g", zt, model.cov[j], zt)
            centre = weight @ given
            assert mean[i, j] == pytest.approx(centre, abs=1e-8)
            assert variance[i, j] == pytest.approx(weight @ (spread + (given - centre) ** 2))
    np.testing.assert_array_equal(mean[~np.isnan(X)], X[~np.isnan(X)])
    assert np.all(variance[~np.isnan(X)] == 0.0)
    assert np.all(variance[np.isnan(X)] > 0.0)


def test_rows_far_out_are_less_sure():
    """The uncertainty of the loadings is multiplied by z."""
    model = value(d=4, q=1)
    near, far = model.mu.copy(), model.mu + 6 * model.W[:, 0]
    X = np.array([near, far])
    X[:, 3] = np.nan
    _, variance = model.conditional(X)
    assert variance[1, 3] > 1.2 * variance[0, 3]


def test_without_uncertainty_it_is_the_linear_gaussian():
    model = value(d=5)
    certain = BayesianLinearGaussian(
        model.W, model.mu, np.zeros_like(model.cov), Gammas(np.array([1e12]), np.array([3e11])),
        model.relevance,
    )  # fmt: skip
    X = with_missing(model, 10)
    plain = certain.at_means()
    np.testing.assert_allclose(certain.conditional(X), plain.conditional(X), rtol=1e-9)
    np.testing.assert_allclose(certain.log_likelihood(X), plain.log_likelihood(X), rtol=1e-9)


def test_draws_of_missing_vary_as_the_conditional_says():
    model = value(d=6, q=2, size=0.05)  # the two agree up to the square of the uncertainty
    X = with_missing(model, 5, seed=3)
    rng = np.random.default_rng(5)
    draws = np.array([model.sample_conditional(X, rng) for _ in range(1500)])
    missing = np.isnan(X)
    mean, variance = model.conditional(X)
    assert np.all(draws[:, ~missing] == X[~missing])
    assert np.max(np.abs(draws.mean(axis=0) - mean)[missing] / np.sqrt(variance[missing])) < 0.15
    np.testing.assert_allclose(draws.var(axis=0)[missing], variance[missing], rtol=0.2)


@pytest.mark.parametrize("each", [False, True])
def test_rescaling_changes_units_alone(each):
    model = value(d=4)
    rng = np.random.default_rng(6)
    scale = rng.uniform(0.5, 2.0, size=4) if each else np.full(4, 3.0)
    X = with_missing(model, 12)
    other = model.rescaled(scale, 5.0)
    jacobian = (~np.isnan(X)) @ np.log(scale)
    np.testing.assert_allclose(
        other.log_likelihood(scale * X + 5.0), model.log_likelihood(X) - jacobian, atol=1e-9
    )
    mean, variance = model.conditional(X)
    moved = other.conditional(scale * X + 5.0)
    np.testing.assert_allclose(moved[0], scale * mean + 5.0, rtol=1e-9)
    np.testing.assert_allclose(moved[1], scale**2 * variance, rtol=1e-9)


def test_shapes_that_do_not_fit_are_refused():
    good = value()
    with pytest.raises(ValueError, match=r"cov \(3, 2, 2\)"):
        BayesianLinearGaussian(good.W, good.mu, good.cov[:, :2, :2], good.noise, good.relevance)
    noise = Gammas(np.ones(2), np.ones(2))
    with pytest.raises(ValueError, match="2 noise precisions"):
        BayesianLinearGaussian(good.W, good.mu, good.cov, noise, good.relevance)
    with pytest.raises(ValueError, match="W holds NaN"):
        BayesianLinearGaussian(good.W * np.nan, good.mu, good.cov, good.noise, good.relevance)
