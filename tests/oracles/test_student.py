"""Student rows against scipy's multivariate t and brute force, the Gaussian limit, and outliers."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import approx_fprime
from scipy.stats import kstest, multivariate_t
from scipy.stats import t as student_t

from eigengap import PPCA, FactorAnalysis, LinearGaussian
from eigengap.exceptions import HeavyTailsWarning
from eigengap.fitting.gaussian.noise import MultivariateT, fit_by_em
from eigengap.fitting.gaussian.problem import EMOptions
from eigengap.linalg import principal_angles
from eigengap.models.gaussian.student import StudentLinearGaussian
from eigengap.sources.conversion import as_source

TIGHT = EMOptions(tol=1e-10, max_iter=5000)


def model(seed=0, d=5, q=2, nu=3.4):
    rng = np.random.default_rng(seed)
    return StudentLinearGaussian(
        W=rng.normal(size=(d, q)) * 1.5,
        mu=rng.normal(size=d),
        psi=rng.uniform(0.3, 2.0, d),
        nu=nu,
    )


def with_missing(X, share, seed=1):
    X = X.copy()
    X[np.random.default_rng(seed).random(X.shape) < share] = np.nan
    return X


def log_t(X, mu, C, nu):
    """By scipy, over the seen cells of each row."""
    result = np.zeros(len(X))
    for i, x in enumerate(X):
        o = ~np.isnan(x)
        if o.any():
            result[i] = multivariate_t(mu[o], C[np.ix_(o, o)], df=nu).logpdf(x[o])
    return result


# The value ---------------------------------------------------------------------------------


@pytest.mark.parametrize("nu", [0.4, 1.0, 3.4, 50.0, 1e5])
def test_the_density_is_scipys(nu):
    m = model(nu=nu)
    X = with_missing(model(nu=3.0).sample(40, np.random.default_rng(2)), 0.3)
    X[0] = np.nan
    assert_allclose(m.log_likelihood(X), log_t(X, m.mu, m.scatter(), nu), rtol=1e-9, atol=1e-9)
    assert m.log_likelihood(X)[0] == 0.0


def test_many_degrees_of_freedom_are_the_gaussian():
    m = model(nu=1e12)
    X = with_missing(m.sample(30, np.random.default_rng(3)), 0.3)
    g = m.gaussian
    assert_allclose(m.log_likelihood(X), g.log_likelihood(X), atol=1e-9)
    assert_allclose(m.conditional(X)[1], g.conditional(X)[1], rtol=1e-9)
    assert_allclose(m.posterior(X).cov, g.posterior(X).cov, rtol=1e-9)
    assert_allclose(m.row_weights(X), 1.0, atol=1e-9)


def test_the_conditional_is_the_ratio_of_densities():
    """p(x_u | x_o) = p(x_u, x_o) / p(x_o) at any x_u, where `given` is a model again."""
    m = model()
    x = m.sample(1, np.random.default_rng(4))[0]
    observed = np.array([True, False, True, True, False])
    row = np.where(observed, x, np.nan)
    joint = m.log_likelihood(x[None])[0] - m.log_likelihood(row[None])[0]
    given = m.given(row)
    assert given.nu == m.nu + 3
    assert_allclose(given.log_likelihood(x[None, ~observed])[0], joint, rtol=1e-12)
    mean, variance = m.conditional(row[None])
    assert_allclose(mean[0, ~observed], given.mu, rtol=1e-12)
    assert_allclose(variance[0, ~observed], given.variances(), rtol=1e-12)
    assert np.all(variance[0, observed] == 0.0)


def test_draws_follow_their_law():
    m = model(nu=4.0)
    rng = np.random.default_rng(5)
    X = m.sample(4000, rng)
    scale = np.sqrt(np.diag(m.scatter()))
    for j in range(m.d):
        assert kstest((X[:, j] - m.mu[j]) / scale[j], student_t(4.0).cdf).pvalue > 1e-3
    row = np.where([True, True, True, False, True], X[0] + 5.0, np.nan)
    given = m.given(row)
    drawn = m.sample_conditional(np.tile(row, (4000, 1)), rng)
    assert np.all(drawn[:, :3] == row[:3])
    z = (drawn[:, 3] - given.mu[0]) / np.sqrt(given.scatter()[0, 0])
    assert kstest(z, student_t(given.nu).cdf).pvalue > 1e-3


def test_there_is_no_covariance_below_two_degrees_of_freedom():
    with pytest.raises(ValueError, match=r"no covariance \(that takes more than 2\)"):
        model(nu=2.0).covariance()
    m = model(nu=5.0)
    assert_allclose(m.covariance(), m.scatter() * 5.0 / 3.0)
    assert_allclose(m.precision() @ m.covariance(), np.eye(m.d), atol=1e-10)
    alone = model(nu=1.5).conditional(np.full((1, 5), np.nan))[1]
    assert np.all(np.isinf(alone))


# The fit -----------------------------------------------------------------------------------


@pytest.mark.parametrize("noise", ["isotropic", "diagonal"])
def test_the_gradient_vanishes_at_the_optimum(noise):
    """Of scipy's likelihood by finite differences, in W, mu, ln psi and ln nu."""
    d, q = 4, 1
    m = model(seed=6, d=d, q=q, nu=3.0)
    X = with_missing(m.sample(80, np.random.default_rng(7)), 0.2)
    fit = fit_by_em(as_source(X), q, noise, student=MultivariateT(), options=TIGHT)
    best = fit.model

    def objective(theta):
        W, mu = theta[: d * q].reshape(d, q), theta[d * q : d * q + d]
        psi = np.broadcast_to(np.exp(theta[d * q + d : -1]), d)
        return log_t(X, mu, W @ W.T + np.diag(psi), np.exp(theta[-1])).sum()

    psi = best.psi if noise == "diagonal" else best.psi[:1]
    at = np.concatenate([best.W.ravel(), best.mu, np.log(psi), [np.log(best.nu)]])
    assert_allclose(fit.log_likelihood, objective(at), rtol=1e-10)
    assert np.max(np.abs(approx_fprime(at, objective, 1e-6))) < 2e-3
    rng = np.random.default_rng(8)
    for _ in range(10):
        assert objective(at + 0.02 * rng.standard_normal(len(at))) < objective(at)


@pytest.mark.parametrize("noise", ["isotropic", "diagonal"])
def test_given_many_degrees_of_freedom_the_fit_is_the_gaussian_one(noise):
    X = with_missing(model().gaussian.sample(200, np.random.default_rng(9)), 0.2)
    plain = fit_by_em(as_source(X), 2, noise, options=TIGHT)
    student = fit_by_em(as_source(X), 2, noise, student=MultivariateT(1e12), options=TIGHT)
    assert_allclose(student.log_likelihood, plain.log_likelihood, rtol=1e-9)
    assert_allclose(student.model.scatter(), plain.model.covariance(), rtol=1e-5, atol=1e-6)


def test_light_tails_send_the_degrees_of_freedom_to_their_limit():
    """Rows on an ellipsoid have lighter tails still: no finite number fits them best."""
    Y = np.random.default_rng(10).normal(size=(400, 5))
    Y *= np.sqrt(5.0) / np.linalg.norm(Y, axis=1, keepdims=True)
    X = with_missing(Y @ np.linalg.cholesky(model().scatter()).T, 0.1)
    estimator = PPCA(2, distribution="student").fit(X)
    plain = PPCA(2).fit(X)
    assert estimator.converged_
    assert estimator.degrees_of_freedom_ > 1e4
    assert_allclose(estimator.log_likelihood_, plain.log_likelihood_, atol=1e-2)


def test_degrees_of_freedom_and_scatter_are_recovered():
    m = model(seed=11, d=10, q=2, nu=3.0)
    X = with_missing(m.sample(3000, np.random.default_rng(12)), 0.2)
    fit = FactorAnalysis(2, distribution="student").fit(X)
    assert_allclose(fit.degrees_of_freedom_, 3.0, rtol=0.1)
    assert_allclose(fit.model_.scatter(), m.scatter(), rtol=0.12, atol=0.12)
    assert principal_angles(fit.model_.W, m.W)[0] < 0.05


@pytest.mark.parametrize("kind", [PPCA, FactorAnalysis])
@pytest.mark.parametrize("share", [0.05, 0.1])
def test_gross_outliers_do_not_move_the_axes(kind, share):
    rng = np.random.default_rng(13)
    m = LinearGaussian(W=rng.normal(size=(12, 2)) * 2, mu=rng.normal(size=12), psi=np.full(12, 0.5))
    X = m.sample(500, rng)
    bad = rng.choice(500, int(500 * share), replace=False)
    X[bad] = 60.0 * rng.normal(size=12) + 5.0 * rng.normal(size=(len(bad), 12))
    X = with_missing(X, 0.15)
    clean = np.setdiff1d(np.arange(500), bad)
    plain, robust = kind(2).fit(X), kind(2, distribution="student").fit(X)
    assert principal_angles(plain.model_.W, m.W)[0] > 0.5
    assert principal_angles(robust.model_.W, m.W)[0] < 0.06
    reference = kind(2).fit(X[clean])
    assert_allclose(robust.mean_, reference.mean_, atol=0.15)
    weights = robust.row_weights(X)
    assert weights[bad].max() < 0.1 * weights[clean].min()
    assert_allclose(plain.row_weights(X), 1.0)


def test_robust_scaling_is_not_moved_either():
    rng = np.random.default_rng(14)
    unit = 10.0 ** rng.uniform(-2, 2, 8)
    X = (
        rng.normal(size=(400, 2)) @ rng.normal(size=(2, 8)) + 0.3 * rng.normal(size=(400, 8))
    ) * unit
    spoilt = X.copy()
    spoilt[:20] = 1e4 * unit
    clean = PPCA(2, distribution="student", scale=True).fit(X[20:])
    robust = PPCA(2, distribution="student", scale=True).fit(spoilt)
    assert_allclose(robust.scale_, clean.scale_, rtol=0.15)
    assert principal_angles(robust.components_.T, clean.components_.T)[0] < 0.1


def test_intervals_widen_with_the_distance_of_a_row():
    m = model(seed=15, d=8, nu=4.0)
    X = m.sample(300, np.random.default_rng(16))
    fit = PPCA(2, distribution="student", degrees_of_freedom=4.0).fit(X)
    near, far = m.mu.copy(), m.mu + 30.0
    near[0] = far[0] = np.nan
    _, std = fit.impute(np.array([near, far]), return_std=True)
    assert std[1, 0] > 3.0 * std[0, 0]
    posterior = fit.posterior(np.array([near, far]))
    assert np.all(posterior.std[1] > 3.0 * posterior.std[0])
    assert_allclose(posterior.std**2, np.einsum("iqq->iq", posterior.cov))


def test_closed_form_and_cell_sd_are_refused_with_words():
    X = np.random.default_rng(17).normal(size=(30, 4))
    with pytest.raises(ValueError, match=r'closed_form.*Gaussian noise.*solver="em" or "auto"'):
        PPCA(1, solver="closed_form", distribution="student").fit(X)
    with pytest.raises(ValueError, match="cell_sd cannot be used with Student noise"):
        PPCA(1, distribution="student").fit(X, cell_sd=np.ones(X.shape))
    fitted = PPCA(1, distribution="student", degrees_of_freedom=5).fit(X)
    with pytest.raises(ValueError, match="cell_sd cannot be used with Student noise"):
        fitted.transform(X, cell_sd=np.ones(X.shape))
    with pytest.raises(ValueError, match="degrees_of_freedom"):
        PPCA(1, distribution="student", degrees_of_freedom=0).fit(X)
    with pytest.raises(ValueError, match="positive and finite"):
        model(nu=-1.0)


# Very heavy tails --------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "nu"), [(PPCA, 0.4), (PPCA, 0.8), (FactorAnalysis, 0.8)])
@pytest.mark.filterwarnings("ignore")
def test_fewer_degrees_of_freedom_than_one_are_learned(kind, nu):
    X = with_missing(model(nu=nu, d=4, q=1).sample(300, np.random.default_rng(3)), 0.2)
    learned = kind(1, distribution="student").fit(X)
    found = learned.degrees_of_freedom_
    assert found == pytest.approx(nu, rel=0.25)
    for other in (0.8 * found, 1.25 * found, 1.0):
        given = kind(1, distribution="student", degrees_of_freedom=other).fit(X)
        assert given.log_likelihood_ < learned.log_likelihood_ - 0.5


def skewed_table():
    """Weights that span decades beside columns that do not, as of mammals and their sleep."""
    rng = np.random.default_rng(4)
    size = rng.normal(size=80)
    weights = np.exp(np.column_stack([2.5 * size, 2.0 * size + 0.5 * rng.normal(size=80)]))
    others = -size[:, None] + rng.normal(size=(80, 2)) + 20.0
    X = np.hstack([weights, others])
    hidden = rng.random(X.shape) < 0.25
    hidden[np.arange(80), np.argmin(hidden, axis=1)] = False
    return np.where(hidden, np.nan, X)


def test_skewed_columns_are_named_and_their_logarithms_are_the_way_out():
    X = skewed_table()
    with pytest.warns(HeavyTailsWarning, match="logarithm of the skewed columns 0, 1, or set"):
        heavy = PPCA(1, distribution="student", scale=True).fit(X)
    assert heavy.degrees_of_freedom_ <= 2.0
    X[:, :2] = np.log(X[:, :2])
    with warnings.catch_warnings():
        warnings.simplefilter("error", HeavyTailsWarning)
        light = PPCA(1, distribution="student", scale=True).fit(X)
        PPCA(1, distribution="student", scale=True, degrees_of_freedom=1.0).fit(
            X
        )  # as was asked for
    sd = light.impute(X, return_std=True)[1]
    assert np.all(sd <= 2.0 * np.nanstd(X, axis=0))


def test_heavy_tails_of_columns_that_have_no_logarithm():
    X = model(nu=1.0, d=4, q=1).sample(200, np.random.default_rng(3))
    with pytest.warns(HeavyTailsWarning, match=r"observed values\. Set degrees_of_freedom to 4"):
        PPCA(1, distribution="student").fit(X)


@pytest.mark.filterwarnings("ignore")
def test_a_variance_that_does_not_exist_is_infinite():
    X = with_missing(model(nu=0.7, d=4, q=1).sample(200, np.random.default_rng(3)), 0.2)
    fitted = PPCA(1, distribution="student").fit(X)
    rows = np.full((3, 4), np.nan)
    rows[1, 0] = rows[2, :2] = 1.0
    sd = fitted.impute(rows, return_std=True)[1]
    few = fitted.degrees_of_freedom_ + np.sum(~np.isnan(rows), axis=1) <= 2.0
    assert few.tolist() == [True, True, False]
    np.testing.assert_array_equal(np.isinf(sd), np.isnan(rows) & few[:, None])
