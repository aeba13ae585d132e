"""Known standard deviations of cells against a dense Gaussian with its own noise in every cell."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import approx_fprime
from tests import dense, tolerance

from eigengap import PPCA, FactorAnalysis, LinearGaussian
from eigengap.fitting.gaussian.noise import fit_by_em
from eigengap.fitting.gaussian.problem import EMOptions
from eigengap.linalg import principal_angles
from eigengap.sources.conversion import as_source

TIGHT = EMOptions(tol=1e-10, max_iter=20_000)


def case(seed=0, n=60, d=5, q=2, psi=0.4, missing=0.2, size=1.0):
    """A model, noisy rows of it with gaps, and the noise that is known."""
    rng = np.random.default_rng(seed)
    m = LinearGaussian(W=rng.normal(size=(d, q)) * 1.5, mu=rng.normal(size=d), psi=np.full(d, psi))
    s = size * rng.lognormal(0.0, 1.0, (n, d))
    s[rng.random((n, d)) < 0.3] = 0.0
    X = m.sample(n, rng) + s * rng.normal(size=(n, d))
    X[rng.random((n, d)) < missing] = np.nan
    return m, X, s


def dense_log_likelihood(X, s, W, mu, psi):
    return sum(
        dense.log_likelihood(X[i : i + 1], mu, W @ W.T + np.diag(psi + s[i] ** 2))[0]
        for i in range(len(X))
    )


# The value ---------------------------------------------------------------------------------


@pytest.mark.parametrize("psi", [0.4, 1e-4, 1e-9])
def test_posteriors_and_densities_are_the_dense_ones(psi):
    """Also where residuals or orthogonal factorisations take the place of products."""
    m, X, s = case(psi=psi)
    X[0] = np.nan
    posterior = m.posterior(X, s)
    mean, variance = m.conditional(X, s)
    for i in range(len(X)):
        noise = psi + s[i] ** 2
        C = m.W @ m.W.T + np.diag(noise)
        observed = ~np.isnan(X[i])
        off = (
            tolerance.of_solution(C[np.ix_(observed, observed)]) if observed.any() else 0.0
        )  # of the oracle
        z, cov = dense.posterior(X[i : i + 1], m.W, m.mu, noise)
        assert_allclose(posterior.mean[i], z[0], rtol=1e-6, atol=1e-7)
        assert_allclose(posterior.cov[i], cov[0], rtol=1e-5, atol=1e-9)
        log_p = dense.log_likelihood(X[i : i + 1], m.mu, C)[0]
        assert_allclose(m.log_likelihood(X, s)[i], log_p, rtol=1e-8 + off, atol=1e-8 + off)
        u = np.isnan(X[i])
        filled, covs = dense.conditional(X[i : i + 1], m.mu, C)
        assert_allclose(mean[i], filled[0], rtol=1e-6, atol=1e-6)
        # The gap is filled with the quantity itself, without the noise of a measurement of it.
        assert_allclose(variance[i, u], np.diag(covs[0]) - s[i, u] ** 2, rtol=1e-5, atol=1e-7)


def test_a_cell_of_huge_deviation_is_as_good_as_missing():
    m, X, s = case()
    at = (3, int(np.flatnonzero(~np.isnan(X[3]))[0]))
    s[at] = 1e9
    hidden = X.copy()
    hidden[at] = np.nan
    assert_allclose(m.posterior_mean(X, s), m.posterior_mean(hidden, s), atol=1e-8)
    s[at] = 0.0
    assert np.abs(m.posterior_mean(X, s) - m.posterior_mean(hidden, s)).max() > 1e-3


# The fit -----------------------------------------------------------------------------------


@pytest.mark.parametrize("noise", ["isotropic", "diagonal"])
def test_the_gradient_vanishes_at_the_optimum(noise):
    """Of the dense likelihood by finite differences, in W, mu and ln psi, with gaps and weights."""
    d, q = 4, 1
    _, X, s = case(seed=1, n=60, d=d, q=q)
    w = np.random.default_rng(2).integers(1, 4, len(X))
    source = as_source(X, cell_sd=s, sample_weight=w)
    fit = fit_by_em(source, q, noise, options=TIGHT)
    repeated, deviations = np.repeat(X, w, axis=0), np.repeat(s, w, axis=0)

    def objective(theta):
        W, mu = theta[: d * q].reshape(d, q), theta[d * q : d * q + d]
        psi = np.broadcast_to(np.exp(theta[d * q + d :]), d)
        return dense_log_likelihood(repeated, deviations, W, mu, psi)

    psi = fit.model.psi if noise == "diagonal" else fit.model.psi[:1]
    at = np.concatenate([fit.model.W.ravel(), fit.model.mu, np.log(psi)])
    assert_allclose(fit.log_likelihood, objective(at), rtol=1e-10)
    assert np.max(np.abs(approx_fprime(at, objective, 1e-6))) < 5e-3


@pytest.mark.parametrize("q", [1, 3])
def test_constant_noise_only_shifts_sigma2(q):
    """s_ij = c: the closed form with sigma2 + c^2 in the place of sigma2."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(150, 3)) @ rng.normal(size=(3, 8)) + rng.normal(size=(150, 8))
    closed = PPCA(q).fit(X)
    c = 0.6
    known = PPCA(q, tol=1e-10, max_iter=5000).fit(X, cell_sd=np.full(X.shape, c))
    assert_allclose(known.noise_variance_, closed.noise_variance_ - c**2, rtol=1e-6)
    assert_allclose(known.loadings_ @ known.loadings_.T, closed.loadings_ @ closed.loadings_.T,
                    rtol=1e-5, atol=1e-6)  # fmt: skip
    assert_allclose(known.log_likelihood_, closed.log_likelihood_, rtol=1e-9)


@pytest.mark.parametrize("kind", [PPCA, FactorAnalysis])
def test_nothing_known_is_the_plain_fit(kind):
    _, X, s = case(n=80, d=8)
    plain = kind(2).fit(X)
    for nothing in (np.zeros(X.shape), np.full(X.shape, np.nan), np.where(np.isnan(X), 3.0, 0.0)):
        known = kind(2).fit(X, cell_sd=nothing)
        assert_array_equal(known.loadings_, plain.loadings_)
    tight = kind(2, tol=1e-7, max_iter=5000)
    little = tight.fit(X, cell_sd=np.where(s > 0, 1e-6, 0.0)).get_covariance()
    assert_allclose(little, tight.fit(X).get_covariance(), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("kind", [PPCA, FactorAnalysis])
def test_cells_of_huge_deviation_are_as_good_as_missing(kind):
    _, X, _ = case(n=150, d=9, missing=0.1)
    rng = np.random.default_rng(4)
    wild = (rng.random(X.shape) < 0.15) & ~np.isnan(X)
    spoilt = np.where(wild, X + 1e6 * rng.normal(size=X.shape), X)
    options = {"tol": 1e-9, "max_iter": 5000}
    known = kind(2, **options).fit(spoilt, cell_sd=np.where(wild, 1e6, 0.0))
    hidden = kind(2, **options).fit(np.where(wild, np.nan, X))
    assert_allclose(known.get_covariance(), hidden.get_covariance(), rtol=1e-3, atol=1e-4)
    assert_allclose(known.mean_, hidden.mean_, atol=1e-4)


@pytest.mark.parametrize("kind", [PPCA, FactorAnalysis])
def test_knowing_the_noise_beats_ignoring_it(kind):
    m, X, s = case(seed=5, n=400, d=12, q=2, psi=0.2, size=1.5)
    truth = m.covariance()
    known, ignorant = kind(2).fit(X, cell_sd=s), kind(2).fit(X)
    errors = [np.linalg.norm(each.get_covariance() - truth) for each in (known, ignorant)]
    assert errors[0] < 0.5 * errors[1]
    angles = [principal_angles(each.model_.W, m.W)[0] for each in (known, ignorant)]
    assert angles[0] < 0.5 * angles[1]


@pytest.mark.parametrize("noise", ["isotropic", "diagonal"])
def test_noise_that_is_all_known_leaves_none(noise):
    """psi tends to 0, where an EM step of the variance would crawl."""
    rng = np.random.default_rng(6)
    W, s = rng.normal(size=(8, 2)), rng.uniform(0.3, 1.5, (500, 8))
    X = rng.normal(size=(500, 2)) @ W.T + s * rng.normal(size=s.shape)
    fit = fit_by_em(as_source(X, cell_sd=s), 2, noise, options=EMOptions(tol=1e-8))
    assert fit.converged
    assert fit.n_iter < 400
    assert np.all(fit.model.psi < 0.15)
    assert fit.at_floor == ()
    if noise == "isotropic":
        given = fit_by_em(as_source(X, cell_sd=s), 2, noise, noise_variance=0.0)
        assert np.all(given.model.psi == 0.0)
        assert principal_angles(given.model.W, W)[0] < 0.05
        assert given.log_likelihood <= fit.log_likelihood + 1e-6


def test_intervals_cover_where_the_noise_is_known():
    m, _, s = case(seed=7, n=300, d=10, q=2, psi=0.3)
    rng = np.random.default_rng(8)
    truth = m.sample(300, rng)
    noisy = truth + s * rng.normal(size=s.shape)
    hidden = rng.random(truth.shape) < 0.2
    noisy[hidden] = np.nan
    fit = PPCA(2).fit(noisy, cell_sd=s)
    filled, std = fit.impute(noisy, return_std=True, cell_sd=s)
    covered = np.abs(filled - truth)[hidden] < 1.96 * std[hidden]
    assert 0.92 < covered.mean() < 0.98
    ignorant = PPCA(2).fit(noisy).impute(noisy)
    error = [np.mean((each - truth)[hidden] ** 2) for each in (filled, ignorant)]
    assert error[0] < 0.9 * error[1]


# The estimators' methods -------------------------------------------------------------------


@pytest.mark.parametrize("kind", [PPCA, FactorAnalysis])
def test_every_method_takes_cell_sd(kind):
    _, X, s = case(n=80)
    fit = kind(2).fit(X, cell_sd=s)
    at = fit.model_
    # Unseen cells have no noise to know.
    z = fit.transform(X, cell_sd=s)
    assert_allclose(z, fit.fit_transform(X, cell_sd=s))
    assert_allclose(z, fit.posterior(X, cell_sd=s).mean, atol=1e-12)
    assert np.abs(z - fit.transform(X)).max() > 1e-2
    assert_allclose(fit.score_samples(X, cell_sd=s), at.log_likelihood(X, s))
    assert_allclose(fit.score(X, cell_sd=s) * len(X), fit.log_likelihood_, rtol=1e-9)
    denoised = at.posterior_mean(X, s) @ at.W.T + at.mu
    assert_allclose(fit.reconstruct(X, cell_sd=s), denoised)
    assert_allclose(fit.impute(X, cell_sd=s), np.where(np.isnan(X), denoised, X))
    drawn = next(fit.sample_imputations(X, 1, random_state=0, cell_sd=s))
    assert_array_equal(drawn[~np.isnan(X)], X[~np.isnan(X)])
    with pytest.raises(ValueError, match=r'kind="optimal" is a projection'):
        fit.reconstruct(X, kind="optimal", cell_sd=s)


def test_scale_and_units_do_not_change_what_is_known():
    _, X, s = case(n=120)
    unit = np.array([1.0, 100.0, 1e-3, 7.0, 0.2])
    tight = {"tol": 1e-9, "max_iter": 5000}
    a = FactorAnalysis(2, **tight).fit(X, cell_sd=s)
    b = FactorAnalysis(2, **tight).fit(X * unit, cell_sd=s * unit)
    assert_allclose(b.get_covariance() / np.outer(unit, unit), a.get_covariance(), rtol=1e-4)
    c = PPCA(2, scale=True, **tight).fit(X, cell_sd=s)
    d = PPCA(2, scale=True, **tight).fit(X * unit, cell_sd=s * unit)
    assert_allclose(d.get_covariance() / np.outer(unit, unit), c.get_covariance(), rtol=1e-4)
    assert_allclose(c.score(X, cell_sd=s) * len(X), c.log_likelihood_, rtol=1e-9)


def test_sparse_tables_and_zero_weights_go_along():
    import scipy.sparse

    _, X, s = case(n=60, missing=0.0)
    X[np.abs(X) < 0.5] = 0.0
    w = np.ones(60)
    w[::3] = 0.0
    one = PPCA(1).fit(scipy.sparse.csr_array(X), sample_weight=w, cell_sd=s)
    other = PPCA(1).fit(X[w > 0], cell_sd=s[w > 0])
    assert_allclose(one.get_covariance(), other.get_covariance(), rtol=1e-6)
    got = one.transform(scipy.sparse.csr_array(X), cell_sd=s)
    assert_allclose(got, one.transform(X, cell_sd=s), atol=1e-12)


# What is refused ---------------------------------------------------------------------------


def test_bad_deviations_are_named():
    X = pd.DataFrame(np.random.default_rng(9).normal(size=(20, 3)), columns=["a", "b", "c"])
    s = np.ones(X.shape)
    for bad in (-1.0, np.inf):
        wrong = s.copy()
        wrong[4, 1] = bad
        with pytest.raises(ValueError, match=rf'{bad} at row 4, column "b"'):
            PPCA(1).fit(X, cell_sd=wrong)
    with pytest.raises(ValueError, match=r"shape \(20, 2\) but X has shape \(20, 3\)"):
        PPCA(1).fit(X, cell_sd=s[:, :2])
    with pytest.raises(ValueError, match=r"numpy.full\(X.shape, sd\)"):
        PPCA(1).fit(X, cell_sd=0.5)
    swapped = pd.DataFrame(s, columns=["b", "a", "c"])
    with pytest.raises(ValueError, match=r'column 0 is "b" there and "a" in X'):
        PPCA(1).fit(X, cell_sd=swapped)
    s[7, 2] = 0.0
    with pytest.raises(ValueError, match=r'row 7, column "c" has none'):
        PPCA(1, noise_variance=0.0).fit(X, cell_sd=s)
    with pytest.raises(ValueError, match="no cell_sd"):
        PPCA(1, solver="closed_form").fit(X, cell_sd=s)
