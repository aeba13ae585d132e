"""Mixtures against brute force, against single models, and against scikit-learn's."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.mixture import GaussianMixture
from tests import dense

from eigengap import PPCA, FactorAnalysis, LinearGaussian
from eigengap.estimators.mixture_ppca import MixturePPCA
from eigengap.models.gaussian.mixture import MixtureOfLinearGaussians


def mixture(seed=0, d=5, ranks=(1, 3, 0), apart=1.0):
    rng = np.random.default_rng(seed)
    models = [
        LinearGaussian(
            W=rng.normal(size=(d, q)),
            mu=apart * rng.normal(size=d),
            psi=rng.uniform(0.2, 1.0, size=d),
        )
        for q in ranks
    ]
    return MixtureOfLinearGaussians(np.log(rng.dirichlet(np.full(len(ranks), 5.0))), models)


def drawn(model, n=60, missing=0.3, seed=1):
    rng = np.random.default_rng(seed)
    X, labels = model.sample(n, rng)
    X[rng.random(X.shape) < missing] = np.nan
    X[: n // 6] = model.sample(n // 6, rng)[0]  # some complete rows, which share a pattern
    X[n // 6] = np.nan
    return X, labels


def brute_force(model, X):
    """Log-likelihoods (n,), responsibilities (n, K), and means and covariances by component."""
    parts = [(m.mu, m.W @ m.W.T + np.diag(m.psi)) for m in model.models]
    joint = np.column_stack(
        [w * np.exp(dense.log_likelihood(X, *p)) for w, p in zip(model.weights, parts, strict=True)]
    )
    total = joint.sum(axis=1)
    return np.log(total), joint / total[:, None], [dense.conditional(X, *part) for part in parts]


# The value ---------------------------------------------------------------------------------------


def test_densities_and_responsibilities_are_those_of_brute_force():
    model = mixture()
    X, _ = drawn(model)
    log_likelihood, resp, _ = brute_force(model, X)
    np.testing.assert_allclose(model.log_likelihood(X), log_likelihood, rtol=1e-11, atol=1e-11)
    np.testing.assert_allclose(model.responsibilities(X), resp, atol=1e-11)


def test_filled_cells_are_those_of_brute_force():
    model = mixture()
    X, _ = drawn(model)
    _, resp, parts = brute_force(model, X)
    mean, variance = model.conditional(X)
    for i, x in enumerate(X):
        missing = np.isnan(x)
        means = np.array([part[0][i, missing] for part in parts])  # (K, u)
        variances = np.array([np.diag(part[1][i]) for part in parts])
        expected = resp[i] @ means
        np.testing.assert_allclose(mean[i, missing], expected, rtol=1e-10, atol=1e-10)
        total = resp[i] @ (variances + means**2) - expected**2
        np.testing.assert_allclose(variance[i, missing], total, rtol=1e-9)
    observed = ~np.isnan(X)
    np.testing.assert_array_equal(mean[observed], X[observed])
    assert np.all(variance[observed] == 0.0)
    np.testing.assert_allclose(model.conditional_mean(X), mean, rtol=1e-12)


def test_latent_coordinates_are_those_of_brute_force():
    model = mixture()
    X, _ = drawn(model)
    _, resp, _ = brute_force(model, X)
    Z = model.local_coordinates(X)
    blocks = []
    for k, m in enumerate(model.models):
        mean, cov = dense.posterior(X, m.W, m.mu, m.psi)
        blocks.append(resp[:, [k]] * mean)
        np.testing.assert_allclose(model.posterior(X).components[k].cov, cov, atol=1e-11)
    np.testing.assert_allclose(Z, np.hstack(blocks), atol=1e-11)


def test_given_and_marginal_are_mixtures_again():
    model = mixture()
    X, _ = drawn(model)
    x = X[20]
    missing = np.isnan(x)
    assert 0 < missing.sum() < len(x)
    rest = model.given(x)
    mean, variance = model.conditional(x[None])
    np.testing.assert_allclose(rest.mean(), mean[0, missing], rtol=1e-10)
    np.testing.assert_allclose(np.diag(rest.covariance()), variance[0, missing], rtol=1e-10)
    # p(x_u | x_o) p(x_o) = p(x_u, x_o)
    full = np.where(missing, 0.7, x)
    both = rest.log_likelihood(full[None, missing]) + model.log_likelihood(x[None])
    np.testing.assert_allclose(both, model.log_likelihood(full[None]), rtol=1e-10)
    columns = [3, 0]
    alone = np.full((1, 5), np.nan)
    alone[0, columns] = full[columns]
    np.testing.assert_allclose(
        model.marginal(columns).log_likelihood(full[None, columns]),
        model.log_likelihood(alone),
        rtol=1e-11,
    )


def test_draws_have_the_moments_of_the_mixture():
    model = mixture(apart=3.0)
    rng = np.random.default_rng(3)
    X, labels = model.sample(40_000, rng)
    np.testing.assert_allclose(np.bincount(labels) / len(X), model.weights, atol=0.01)
    np.testing.assert_allclose(X.mean(axis=0), model.mean(), atol=0.06)
    np.testing.assert_allclose(np.cov(X.T), model.covariance(), atol=0.25)
    x = X[0].copy()
    x[2:] = np.nan
    filled = model.sample_conditional(np.tile(x, (20_000, 1)), rng)
    rest = model.given(x)
    np.testing.assert_allclose(filled[:, 2:].mean(axis=0), rest.mean(), atol=0.05)
    np.testing.assert_allclose(np.cov(filled[:, 2:].T), rest.covariance(), atol=0.12)


def test_a_component_without_noise_is_taken_to_its_limit():
    """psi = 0 as in ordinary PCA: densities exist where the covariance of the seen cells does."""
    exact = LinearGaussian(W=np.eye(2), mu=[5.0, 5.0], psi=[0.0, 0.0])
    broad = LinearGaussian(W=np.eye(2), mu=[0.0, 0.0], psi=[1.0, 1.0])
    model = MixtureOfLinearGaussians(np.log([0.3, 0.7]), [exact, broad])
    X = np.array([[4.0, np.nan], [4.5, 6.0]])
    log_likelihood, resp, _ = brute_force(model, X)
    np.testing.assert_allclose(model.log_likelihood(X), log_likelihood, rtol=1e-9)
    np.testing.assert_allclose(model.responsibilities(X), resp, rtol=1e-9)


def test_a_mixture_refuses_what_is_none():
    one = LinearGaussian(W=[[1.0]], mu=[0.0], psi=[1.0])
    two = LinearGaussian(W=[[1.0], [0.0]], mu=[0.0, 0.0], psi=[1.0, 1.0])
    with pytest.raises(ValueError, match="number of features"):
        MixtureOfLinearGaussians([0.0, 0.0], [one, two])
    with pytest.raises(ValueError, match="one weight for each"):
        MixtureOfLinearGaussians([0.0], [one, one])
    with pytest.raises(ValueError, match="not weights"):
        MixtureOfLinearGaussians([-np.inf, -np.inf], [one, one])


# One component is PPCA or factor analysis -------------------------------------------------------


@pytest.mark.parametrize("missing", [0.0, 0.25])
@pytest.mark.parametrize("noise", ["isotropic", "diagonal"])
def test_one_component_is_the_single_model(noise, missing):
    rng = np.random.default_rng(4)
    X = rng.normal(size=(150, 2)) @ rng.normal(size=(2, 7)) * 2 + rng.normal(size=(150, 7)) + 3.0
    X[rng.random(X.shape) < missing] = np.nan
    kind = PPCA if noise == "isotropic" else FactorAnalysis
    single = kind(2, tol=1e-9).fit(X)
    mixed = MixturePPCA(1, 2, noise=noise, tol=1e-9).fit(X)
    np.testing.assert_allclose(mixed.log_likelihood_, single.log_likelihood_, rtol=1e-9)
    np.testing.assert_allclose(mixed.means_[0], single.mean_, atol=1e-5)
    np.testing.assert_allclose(mixed.covariances_[0], single.get_covariance(), atol=2e-5)
    np.testing.assert_allclose(mixed.noise_variance_[0], single.noise_variance_, atol=1e-5)
    np.testing.assert_allclose(mixed.transform(X), single.transform(X), atol=1e-4)
    np.testing.assert_allclose(mixed.score_samples(X), single.score_samples(X), atol=1e-4)
    for ours, theirs in zip(mixed.impute(X, True), single.impute(X, True), strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-4)
    np.testing.assert_allclose(mixed.reconstruct(X), single.reconstruct(X), atol=1e-4)
    np.testing.assert_allclose(
        mixed.reconstruct(X, "optimal"), single.reconstruct(X, "optimal"), atol=1e-4
    )


# Full rank is scikit-learn's GaussianMixture ----------------------------------------------------


def three_clusters(seed=5, n=400, d=4):
    rng = np.random.default_rng(seed)
    labels = rng.integers(3, size=n)
    roots = rng.normal(size=(3, d, d))
    means = 2.5 * rng.normal(size=(3, d))
    return means[labels] + np.einsum("nij,nj->ni", roots[labels], rng.normal(size=(n, d)))


@pytest.mark.parametrize("noise", ["isotropic", "diagonal"])
def test_full_rank_is_the_optimum_of_a_full_gaussian_mixture(noise):
    """q = d - 1 leaves the covariances free: EM of scikit-learn stays where ours ended."""
    X = three_clusters()
    ours = MixturePPCA(3, 3, noise=noise, tol=1e-9, max_iter=3000, random_state=0).fit(X)
    theirs = GaussianMixture(
        3,
        reg_covar=0.0,
        tol=1e-13,
        max_iter=1000,
        weights_init=ours.weights_,
        means_init=ours.means_,
        precisions_init=np.linalg.inv(ours.covariances_),
    ).fit(X)
    assert theirs.score(X) == pytest.approx(ours.score(X), abs=1e-9)
    np.testing.assert_allclose(ours.weights_, theirs.weights_, atol=1e-5)
    np.testing.assert_allclose(ours.means_, theirs.means_, atol=1e-4)
    np.testing.assert_allclose(ours.covariances_, theirs.covariances_, atol=1e-4)
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=1e-5)


def test_as_good_as_the_best_of_many_starts_of_scikit_learn():
    X = three_clusters(seed=6)
    ours = MixturePPCA(3, 3, random_state=0).fit(X)
    theirs = GaussianMixture(3, n_init=5, reg_covar=0.0, tol=1e-8, max_iter=500, random_state=0)
    assert ours.score(X) >= theirs.fit(X).score(X) - 1e-5


def test_rank_zero_is_a_spherical_or_diagonal_gaussian_mixture():
    X = three_clusters(seed=7)
    for noise, kind in (("isotropic", "spherical"), ("diagonal", "diag")):
        ours = MixturePPCA(3, 0, noise=noise, tol=1e-9, random_state=0).fit(X)
        precisions = 1.0 / ours.noise_variance_
        theirs = GaussianMixture(
            3,
            covariance_type=kind,
            reg_covar=0.0,
            tol=1e-13,
            max_iter=1000,
            weights_init=ours.weights_,
            means_init=ours.means_,
            precisions_init=precisions,
        ).fit(X)
        assert theirs.score(X) == pytest.approx(ours.score(X), abs=1e-9)
        np.testing.assert_allclose(ours.noise_variance_, theirs.covariances_, rtol=1e-4)


@pytest.mark.parametrize(("noise", "kind"), [("isotropic", "spherical"), ("diagonal", "diag")])
def test_information_criteria_are_those_of_scikit_learn(noise, kind):
    X = three_clusters(seed=8)
    ours = MixturePPCA(2, 0, noise=noise, tol=1e-9, random_state=1).fit(X)
    theirs = GaussianMixture(
        2,
        covariance_type=kind,
        reg_covar=0.0,
        max_iter=1000,
        tol=1e-13,
        weights_init=ours.weights_,
        means_init=ours.means_,
        precisions_init=1.0 / ours.noise_variance_,
    ).fit(X)
    assert ours.bic(X) == pytest.approx(theirs.bic(X), abs=1e-5)
    assert ours.aic(X) == pytest.approx(theirs.aic(X), abs=1e-5)


# Every fit is a stationary point of the observed-data likelihood --------------------------------


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("noise", ["isotropic", "diagonal"])
def test_the_gradient_vanishes_at_the_fit(noise, shared):
    """By Fisher's identity it is the sum of the components' gradients, by responsibility."""
    rng = np.random.default_rng(9)
    X, _ = mixture(seed=10, d=6, ranks=(2, 1), apart=2.0).sample(250, rng)
    X[rng.random(X.shape) < 0.2] = np.nan
    fit = MixturePPCA(
        2, [1, 2], noise=noise, shared_noise=shared, tol=1e-9, max_iter=5000, random_state=0
    ).fit(X)
    _, resp, _ = brute_force(fit.model_, X)
    np.testing.assert_allclose(resp.mean(axis=0), fit.weights_, atol=1e-7)
    by_noise = []
    for k, m in enumerate(fit.model_.models):
        by_W, by_mu, by_psi = weighted_gradient(X, m, resp[:, k])
        assert np.abs(by_W).max() < 2e-4
        assert np.abs(by_mu).max() < 2e-4
        by_noise.append(by_psi)
    total = np.array(by_noise).sum(axis=0, keepdims=True) if shared else np.array(by_noise)
    if noise == "isotropic":
        total = total.sum(axis=1)
    assert np.abs(total).max() < 1e-3


def weighted_gradient(X, model, w):
    """`dense.gradient`, rows counted w times."""
    parts = [dense.gradient(x[None], model.W, model.mu, model.psi) for x in X]
    return [sum(wi * part[k] for wi, part in zip(w, parts, strict=True)) for k in range(3)]
