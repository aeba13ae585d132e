"""The variational updates and the bound, against loops, sampling and the evidence itself."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import gammaln, logsumexp
from scipy.stats import gamma, multivariate_normal, multivariate_t, norm
from tests import dense

from eigengap.linalg import packed_indices, unpack
from eigengap.models.gaussian.bayesian import Gammas
from eigengap.models.gaussian.observed_rows import prepare_rows
from eigengap.statistics.expected.gaussian import Expected
from eigengap.statistics.expected.variational import (
    Prior,
    VariationalPosterior,
    elbo,
    start,
    update,
)

PRIOR = Prior(
    loading_shape=2.0, loading_rate=1.5, noise_shape=2.0, noise_rate=0.5, mean_precision=0.3
)
BROAD = Prior(1e-3, 1e-3, 1e-6, 1e-6, 1e-6)


def table(n=30, d=5, q=2, missing=0.3, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, q)) @ rng.normal(size=(q, d)) + 0.4 * rng.normal(size=(n, d))
    X[rng.random(X.shape) < missing] = np.nan
    return X


def some_posterior(X, q, noise="isotropic", seed=1) -> VariationalPosterior:
    """Not the best ones, and in no special basis."""
    rng = np.random.default_rng(seed)
    d = X.shape[1]
    roots = 0.3 * rng.normal(size=(d, q + 1, q + 1))
    i, j = packed_indices(q + 1)
    cov = (roots @ roots.transpose(0, 2, 1) + 0.05 * np.eye(q + 1))[:, i, j].T
    observed = (~np.isnan(X)).sum(axis=0)
    shape = PRIOR.noise_shape + 0.5 * (
        observed if noise == "diagonal" else observed.sum(keepdims=True)
    )
    tau = Gammas(shape, shape * rng.uniform(0.2, 0.6, size=len(shape)))
    return VariationalPosterior(rng.normal(size=(q + 1, d)), np.ascontiguousarray(cov), tau)


def e_step(X, posterior) -> Expected:
    rows = prepare_rows(X, None, np.zeros(X.shape[1]), None, posterior.q)
    return Expected.of(rows, posterior.coefficients())


def rows_by_loop(X, posterior):
    """q(z_i) of every row: means (n, q), covariances (n, q, q)."""
    q = posterior.q
    tau = np.broadcast_to(posterior.tau.mean(), (posterior.d,))
    cov = unpack(posterior.cov.T, q + 1)
    means, covs = [], []
    for x in X:
        P, b = np.eye(q), np.zeros(q)
        for j in np.flatnonzero(~np.isnan(x)):
            second = np.outer(posterior.mean[:, j], posterior.mean[:, j]) + cov[j]
            P += tau[j] * second[:q, :q]
            b += tau[j] * (posterior.mean[:q, j] * x[j] - second[:q, q])
        covs.append(np.linalg.inv(P))
        means.append(covs[-1] @ b)
    return np.array(means), np.array(covs)


@pytest.mark.parametrize("noise", ["isotropic", "diagonal"])
@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_updates_are_those_of_the_textbook(noise, missing):
    """Bishop 1999, Eqs. 18 to 23, row by row and feature by feature, up to the change of basis."""
    X, q = table(missing=missing), 2
    posterior = some_posterior(X, q, noise).principal()  # where the prior precision is diagonal
    Z, S = rows_by_loop(X, posterior)
    alpha = posterior.relevance(PRIOR).mean()
    d = X.shape[1]
    tau = np.broadcast_to(posterior.tau.mean(), (d,))
    residual = np.zeros(d)
    w, cov = np.zeros((d, q + 1)), np.zeros((d, q + 1, q + 1))
    for j in range(d):
        precision, right = np.diag(np.append(alpha, PRIOR.mean_precision)), np.zeros(q + 1)
        observed = np.flatnonzero(~np.isnan(X[:, j]))
        second = {}
        for i in observed:
            zt = np.append(Z[i], 1.0)
            second[i] = np.outer(zt, zt)
            second[i][:q, :q] += S[i]
            precision = precision + tau[j] * second[i]
            right += tau[j] * zt * X[i, j]
        cov[j] = np.linalg.inv(precision)
        w[j] = cov[j] @ right
        for i in observed:
            zt = np.append(Z[i], 1.0)
            residual[j] += X[i, j] ** 2 - 2 * X[i, j] * (w[j] @ zt)
            residual[j] += np.trace(second[i] @ (np.outer(w[j], w[j]) + cov[j]))
    updated = update(e_step(X, posterior), posterior, PRIOR)
    rate = PRIOR.noise_rate + 0.5 * (
        residual if noise == "diagonal" else residual.sum(keepdims=True)
    )
    np.testing.assert_allclose(updated.tau.rate, rate, rtol=1e-9)
    # The change of basis: predictions w~^T z~ keep their distribution, so W S W^T type products do.
    mean, V = e_step(X, posterior).latent_moments()
    T = np.eye(q + 1)
    T[:q, :q], T[q, :q] = np.linalg.cholesky(V).T, mean
    moved = np.allclose(updated.mean, T @ w.T, atol=1e-9)
    stayed = np.allclose(updated.mean, w.T, atol=1e-9)
    assert moved or stayed
    turn = T if moved else np.eye(q + 1)
    np.testing.assert_allclose(
        unpack(updated.cov.T, q + 1), turn @ cov @ turn.T, rtol=1e-8, atol=1e-12
    )


def joint_minus_q(X, posterior, prior, n_draws, rng):
    """Draws of ln p(X, Z, W, mu, alpha, tau) - ln q(Z, W, mu, alpha, tau)."""
    q, d = posterior.q, posterior.d
    posterior = posterior.principal()
    Z, S = rows_by_loop(X, posterior)
    cov = unpack(posterior.cov.T, q + 1)
    alpha_q, tau_q = posterior.relevance(prior), posterior.tau
    alpha = rng.gamma(alpha_q.shape, size=(n_draws, q)) / alpha_q.rate
    tau = rng.gamma(tau_q.shape, size=(n_draws, len(tau_q))) / tau_q.rate
    total = gamma.logpdf(alpha, prior.loading_shape, scale=1 / prior.loading_rate).sum(axis=1)
    total -= gamma.logpdf(alpha, alpha_q.shape, scale=1 / alpha_q.rate).sum(axis=1)
    total += gamma.logpdf(tau, prior.noise_shape, scale=1 / prior.noise_rate).sum(axis=1)
    total -= gamma.logpdf(tau, tau_q.shape, scale=1 / tau_q.rate).sum(axis=1)
    w = np.empty((n_draws, d, q + 1))
    for j in range(d):
        q_w = multivariate_normal(posterior.mean[:, j], cov[j])
        w[:, j] = q_w.rvs(n_draws, random_state=rng).reshape(n_draws, q + 1)
        total -= q_w.logpdf(w[:, j])
        total += norm.logpdf(w[:, j, :q], scale=alpha**-0.5).sum(axis=1)
        total += norm.logpdf(w[:, j, q], scale=prior.mean_precision**-0.5)
    for i, x in enumerate(X):
        q_z = multivariate_normal(Z[i], S[i])
        z = q_z.rvs(n_draws, random_state=rng).reshape(n_draws, q)
        total += norm.logpdf(z).sum(axis=1) - q_z.logpdf(z)
        observed = ~np.isnan(x)
        mean = np.einsum("mjk,mk->mj", w[:, :, :q], z) + w[:, :, q]
        sd = np.broadcast_to(tau**-0.5, (n_draws, d))
        total += norm.logpdf(x[observed], mean[:, observed], sd[:, observed]).sum(axis=1)
    return total


@pytest.mark.parametrize("noise", ["isotropic", "diagonal"])
def test_bound_is_the_expectation_that_defines_it(noise):
    """E_q[ln p - ln q], every constant included, by sampling."""
    X = table(n=8, d=3, q=2)
    posterior = some_posterior(X, 2, noise)
    draws = joint_minus_q(X, posterior, PRIOR, 20_000, np.random.default_rng(2))
    error = draws.std() / np.sqrt(len(draws))
    assert elbo(e_step(X, posterior), posterior, PRIOR) == pytest.approx(
        draws.mean(), abs=5 * error
    )
    assert error < 0.3


def log_evidence(X, centre, prior, n_draws, rng):
    """ln p(X) for q = 1 and one noise variance, by importance sampling.

    Z and alpha are integrated out in closed form; (W, mu, ln tau) are drawn from a mixture of
    Student's t around `centre` and its mirror image, for W and -W are alike.
    """
    d = X.shape[1]
    at, scale = centre
    flip = np.concatenate([-np.ones(d), np.ones(d + 1)])
    side = rng.random(n_draws) < 0.5
    proposals = [multivariate_t(at * sign, scale, df=5) for sign in (np.ones(2 * d + 1), flip)]
    draws = np.where(
        side[:, None],
        proposals[0].rvs(n_draws, random_state=rng),
        proposals[1].rvs(n_draws, random_state=rng),
    )
    log_proposal = logsumexp([p.logpdf(draws) for p in proposals], axis=0) - np.log(2)
    W, mu, log_tau = draws[:, :d], draws[:, d : 2 * d], draws[:, -1]
    a, b = prior.loading_shape, prior.loading_rate
    log_prior = gammaln(a + d / 2) - gammaln(a) + a * np.log(b) - d / 2 * np.log(2 * np.pi)
    log_prior = log_prior - (a + d / 2) * np.log(b + 0.5 * (W**2).sum(axis=1))
    log_prior += norm.logpdf(mu, scale=prior.mean_precision**-0.5).sum(axis=1)
    tau = np.exp(log_tau)
    log_prior += gamma.logpdf(tau, prior.noise_shape, scale=1 / prior.noise_rate) + log_tau
    log_p = [
        dense.log_likelihood(X, m, np.outer(w, w) + np.eye(d) / t).sum()
        for w, m, t in zip(W, mu, tau, strict=True)
    ]
    weights = np.array(log_p) + log_prior - log_proposal
    share = np.exp(weights - logsumexp(weights))
    return logsumexp(weights) - np.log(n_draws), 1.0 / np.sum(share**2)


def converged(X, q, prior, rounds=300) -> VariationalPosterior:
    posterior = some_posterior(X, q)
    for _ in range(rounds):
        posterior = update(e_step(X, posterior), posterior, prior)
    return posterior


@pytest.mark.slow
def test_bound_is_below_the_evidence_but_not_far():
    X = table(n=12, d=2, q=1, missing=0.2, seed=3)
    posterior = converged(X, 1, PRIOR)
    value = elbo(e_step(X, posterior), posterior, PRIOR)
    at = np.concatenate([posterior.mean[0], posterior.mean[1], np.log(posterior.tau.mean())])
    scale = np.diag(np.concatenate([[0.15, 0.15, 0.1, 0.1], [0.15]]))
    evidence, effective = log_evidence(X, (at, scale), PRIOR, 3000, np.random.default_rng(4))
    assert effective > 150
    assert value <= evidence + 3 / np.sqrt(effective)
    # q knows one of the two mirror images (ln 2), and takes W and Z for independent.
    assert value > evidence - 4.0


@pytest.mark.parametrize("noise", ["isotropic", "diagonal"])
@pytest.mark.parametrize("prior", [PRIOR, BROAD, replace(PRIOR, loading_rate=50.0)])
@pytest.mark.parametrize("missing", [0.0, 0.4])
def test_no_round_lowers_the_bound(noise, prior, missing):
    X = table(missing=missing)
    for seed in range(3):
        posterior = some_posterior(X, 3, noise, seed)
        values = []
        for _ in range(25):
            expected = e_step(X, posterior)
            values.append(elbo(expected, posterior, prior))
            posterior = update(expected, posterior, prior)
        assert np.min(np.diff(values)) > -1e-9 * max(abs(values[-1]), X.size)


def test_bound_does_not_depend_on_the_basis():
    X = table()
    posterior = some_posterior(X, 3)
    turned = posterior.principal()
    assert not np.allclose(turned.mean, posterior.mean)
    first = elbo(e_step(X, posterior), posterior, PRIOR)
    assert elbo(e_step(X, turned), turned, PRIOR) == pytest.approx(first, abs=1e-8)
    Q = turned.second_moment()[:-1, :-1]
    np.testing.assert_allclose(Q, np.diag(np.diag(Q)), atol=1e-10)


def test_columns_that_share_a_covariance_are_solved_once_and_alike():
    """Complete columns beside gappy ones take a short cut; a weight of a hair rules it out."""
    X = table(missing=0.0, d=6)
    X[3:9, 0] = X[5:12, 4] = np.nan
    posterior = some_posterior(X, 2)
    short = update(e_step(X, posterior), posterior, PRIOR)
    expected = e_step(X, posterior)
    nudged = replace(expected, latent=expected.latent * (1 + 1e-15))
    assert nudged.sum_w != expected.sum_w
    long = update(nudged, posterior, PRIOR)
    np.testing.assert_allclose(short.mean, long.mean, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(short.cov, long.cov, rtol=1e-10, atol=1e-14)


def test_a_start_is_as_sure_as_its_rows_allow():
    mean = np.array([[1.0, 2.0], [0.5, 0.1], [0.0, 0.0]])  # q = 2, d = 2
    tau = Gammas(np.array([10.0]), np.array([5.0]))
    posterior = start(mean, tau, np.array([100.0, 25.0]), BROAD)
    diagonal = np.einsum("jaa->ja", unpack(posterior.cov.T, 3))
    np.testing.assert_allclose(diagonal[:, 2], [1 / 200, 1 / 50], rtol=1e-6)
    assert np.all(diagonal[0] < diagonal[1])
