"""Standard errors against formulas and derivatives that do not share the code."""

import warnings

import numpy as np
import pytest
import scipy.linalg
from tests import dense

import eigengap as eg
from eigengap.inference.asymptotics import (
    Layout,
    expected_information,
    observed_information,
    score,
)
from eigengap.inference.confidence import confidence_intervals, match_axes
from eigengap.linalg import procrustes
from eigengap.models.gaussian.observed_rows import prepare_rows
from eigengap.sources.conversion import as_source


def factor_model(d=4, q=2, seed=0):
    rng = np.random.default_rng(seed)
    return eg.LinearGaussian(
        W=rng.normal(size=(d, q)), mu=rng.normal(size=d), psi=rng.uniform(0.5, 1.5, size=d)
    )


def incomplete_rows(model, n=40, seed=1, missing=0.25):
    rng = np.random.default_rng(seed)
    X = model.sample(n, rng)
    X[rng.random(X.shape) < missing] = np.nan
    return X


def test_procrustes_against_scipy():
    rng = np.random.default_rng(0)
    A, B = rng.normal(size=(7, 3)), rng.normal(size=(7, 3))
    np.testing.assert_allclose(
        procrustes(A, B), scipy.linalg.orthogonal_procrustes(A, B)[0], atol=1e-12
    )


def test_match_axes_undoes_order_and_signs():
    rng = np.random.default_rng(1)
    B = rng.normal(size=(9, 4))
    shuffled = (B * [1, -1, -1, 1])[:, [2, 0, 3, 1]]
    np.testing.assert_allclose(match_axes(shuffled + 1e-3, B), B, atol=2e-3)


@pytest.mark.parametrize("isotropic", [True, False])
def test_expected_information_by_its_definition(isotropic):
    """1/2 tr(C^-1 dC C^-1 dC) with dC by differences, and C^-1 for the mean."""
    model = factor_model()
    if isotropic:
        model = eg.LinearGaussian(W=model.W, mu=model.mu, psi=np.full(4, 0.7))
    layout = Layout(4, 2, isotropic)
    theta = layout.pack(model)
    inverse = np.linalg.inv(model.covariance())
    halves, shifts = [], []
    for a in range(layout.size):
        step = np.zeros(layout.size)
        step[a] = 1e-5
        up, down = layout.unpack(theta + step), layout.unpack(theta - step)
        halves.append(inverse @ (up.covariance() - down.covariance()) / 2e-5)
        shifts.append((up.mu - down.mu) / 2e-5)
    brute = np.array(
        [
            [
                0.5 * np.trace(halves[a] @ halves[b]) + shifts[a] @ inverse @ shifts[b]
                for b in range(layout.size)
            ]
            for a in range(layout.size)
        ]
    )
    np.testing.assert_allclose(expected_information(model, layout), brute, atol=1e-8)


def test_score_with_missing_against_the_dense_gradient():
    model, elsewhere = factor_model(), factor_model(seed=5)
    X = incomplete_rows(model)
    layout = Layout(4, 2, False)
    source = as_source(X)
    shift = np.nanmean(X, axis=0)
    rows = source.prepared(lambda block: prepare_rows(block.values, None, shift, None, 2))
    by_W, by_mu, by_psi = dense.gradient(X, elsewhere.W, elsewhere.mu, elsewhere.psi)
    np.testing.assert_allclose(
        score(rows, layout.pack(elsewhere), shift, layout),
        np.concatenate([by_W.ravel(), by_mu, by_psi]),
        rtol=1e-9,
        atol=1e-9,
    )


@pytest.mark.parametrize("isotropic", [True, False])
def test_observed_information_against_a_numerical_hessian(isotropic):
    """Second differences of the dense log-likelihood of the seen cells."""
    model = factor_model(d=3, q=1)
    if isotropic:
        model = eg.LinearGaussian(W=model.W, mu=model.mu, psi=np.full(3, 0.7))
    X = incomplete_rows(model, n=25)
    layout = Layout(3, 1, isotropic)
    theta, h = layout.pack(model), 1e-4

    def log_likelihood(at):
        there = layout.unpack(at)
        return dense.log_likelihood(X, there.mu, there.covariance()).sum()

    p = layout.size
    hessian = np.empty((p, p))
    for a in range(p):
        for b in range(p):
            ea, eb = h * np.eye(p)[a], h * np.eye(p)[b]
            hessian[a, b] = (
                log_likelihood(theta + ea + eb)
                - log_likelihood(theta + ea - eb)
                - log_likelihood(theta - ea + eb)
                + log_likelihood(theta - ea - eb)
            ) / (4 * h**2)
    np.testing.assert_allclose(
        observed_information(as_source(X), model, layout), -hessian, rtol=1e-4, atol=1e-4
    )


def test_ppca_is_anderson_and_girshick():
    """On complete data the general machine is the classical theory of sample eigenpairs."""
    rng = np.random.default_rng(2)
    n, d, q = 300, 6, 2
    X = rng.normal(size=(n, d)) * [3, 2, 1, 1, 1, 1] @ np.linalg.qr(rng.normal(size=(d, d)))[0]
    found = confidence_intervals(eg.PPCA(q), X, method="asymptotic", align="axes")
    lam, U = np.linalg.eigh(np.cov(X.T, bias=True))
    lam, U = lam[::-1], U[:, ::-1]
    sigma2 = lam[q:].mean()
    lam[q:] = sigma2  # the model's
    np.testing.assert_allclose(found.explained_variance.se, np.sqrt(2 / n), rtol=1e-5)
    np.testing.assert_allclose(found.noise_variance.se, np.sqrt(2 / (n * (d - q))), rtol=1e-5)
    np.testing.assert_allclose(
        found.mean.se, np.sqrt(np.diag(U @ np.diag(lam) @ U.T) / n), rtol=1e-6
    )
    for k in range(q):
        ratio = np.array(
            [lam[k] * lam[l] / (lam[k] - lam[l]) ** 2 if l != k else 0 for l in range(d)]
        )
        axis = U**2 @ ratio / n  # (d,) variance of u_k
        length = lam[k] - sigma2
        scale = (2 * lam[k] ** 2 / n + 2 * sigma2**2 / (n * (d - q))) / (4 * length)
        np.testing.assert_allclose(
            found.loadings.se[:, k] ** 2, length * axis + U[:, k] ** 2 * scale, rtol=1e-5
        )


def test_one_factor_against_the_inverse_information():
    """With q = 1 nothing can be rotated and the covariance is the inverse information."""
    strong = eg.LinearGaussian(
        W=[[1.2], [0.9], [1.0], [-0.8], [1.1]], mu=np.ones(5), psi=np.ones(5)
    )
    X = incomplete_rows(strong, n=400, missing=0.2)
    fitted = eg.FactorAnalysis(1, tol=1e-10).fit(X)
    found = confidence_intervals(fitted, X, method="asymptotic")
    layout = Layout(5, 1, False)
    covariance = np.linalg.inv(observed_information(as_source(X), fitted.model_, layout))
    se = np.sqrt(np.diag(covariance))
    np.testing.assert_allclose(found.loadings.se.ravel(), se[:5], rtol=1e-6)
    np.testing.assert_allclose(found.mean.se, se[5:10], rtol=1e-6)
    np.testing.assert_allclose(found.noise_variance.se, se[10:] / fitted.model_.psi, rtol=1e-6)


@pytest.mark.parametrize(("d", "q", "seed"), [(3, 2, 2), (2, 1, 0), (3, 2, 5), (4, 3, 1)])
def test_more_parameters_than_a_covariance_has_are_refused_with_missing_values(d, q, seed):
    """The observed information, by differences, need not look singular: the count tells."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(200, q)) @ rng.normal(size=(q, d)) + 0.7 * rng.normal(size=(200, d))
    X[rng.random(X.shape) < 0.1] = np.nan
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", RuntimeWarning)
        with pytest.raises(ValueError, match=r"do not determine all parameters|lies at its bound"):
            confidence_intervals(eg.FactorAnalysis(q), X, method="asymptotic")
