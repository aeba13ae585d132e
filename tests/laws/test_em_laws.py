"""Laws of the EM fit with gaps, and of the statistics it is made of."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from tests import dense

from eigengap import PPCA, LinearGaussian
from eigengap.exceptions import ObjectiveFellError
from eigengap.fitting.gaussian.noise import MultivariateT, Specification, fit_by_em, problem_of
from eigengap.fitting.gaussian.problem import EMOptions
from eigengap.fitting.mixture.problem import MixtureProblem
from eigengap.fitting.optimise.em import Bounds, Mapped, Slope, em
from eigengap.linalg import principal_angles
from eigengap.models.gaussian.observed_rows import prepare_rows
from eigengap.models.gaussian.posterior import Coefficients
from eigengap.sources.conversion import as_source
from eigengap.statistics.expected.gaussian import Expected, Parameters
from eigengap.statistics.expected.mixture import MixtureParameters
from eigengap.statistics.moments import ColumnMoments

seeds = st.integers(0, 2**32 - 1)
TIGHT = EMOptions(tol=1e-10, max_iter=5000)


def incomplete(rng, n=80, d=6, q=2, missing=0.25, noise=0.5):
    model = LinearGaussian(
        W=rng.normal(size=(d, q)) * 2, mu=rng.normal(size=d) * 3, psi=np.full(d, noise)
    )
    X = model.sample(n, rng)
    X[rng.random(X.shape) < missing] = np.nan
    X[0] = np.where(np.isnan(X[0]), 0.0, X[0])
    return X


# Statistics --------------------------------------------------------------------------------


def statistic(X, weight=None, seed=0):
    rng = np.random.default_rng(seed)
    d = X.shape[1]
    c = Coefficients(rng.normal(size=(d, 2)), rng.normal(size=d), rng.uniform(0.5, 2, d))
    return Expected.of(prepare_rows(X, weight, np.zeros(d), None, 2), c)


def assert_same(a, b, rtol=1e-11):
    for name in ("A", "B", "squares", "latent", "log_likelihood", "cells"):
        x, y = np.asarray(getattr(a, name)), np.asarray(getattr(b, name))
        atol = rtol * max(np.abs(y).max(), 1)
        np.testing.assert_allclose(x, y, rtol=rtol, atol=atol, err_msg=name)


@given(seeds, st.integers(1, 3))
@settings(max_examples=25, deadline=None)
def test_any_partition_gives_the_same_statistic(seed, cuts):
    rng = np.random.default_rng(seed)
    X = incomplete(rng)
    at = np.sort(rng.choice(np.arange(1, len(X)), cuts, replace=False))
    parts = [statistic(part) for part in np.split(X, at)]
    merged = parts[0]
    for part in parts[1:]:
        merged = merged.merge(part)
    assert_same(merged, statistic(X))


@given(seeds)
@settings(max_examples=25, deadline=None)
def test_merge_is_associative_and_order_does_not_matter(seed):
    rng = np.random.default_rng(seed)
    a, b, c = (statistic(incomplete(rng, n=20)) for _ in range(3))
    assert_same(a.merge(b).merge(c), a.merge(b.merge(c)))
    assert_same(a.merge(b), b.merge(a))
    X = incomplete(rng)
    assert_same(statistic(X), statistic(X[rng.permutation(len(X))]))


@given(seeds)
@settings(max_examples=25, deadline=None)
def test_weights_are_repetitions(seed):
    rng = np.random.default_rng(seed)
    X = incomplete(rng, n=40)
    times = rng.integers(0, 4, len(X))
    times[0] = 1
    assert_same(statistic(X, weight=times.astype(float)), statistic(np.repeat(X, times, axis=0)))


def test_shared_patterns_and_lone_rows_give_the_same_sums():
    """Complete rows take the shared route only where there are many of them."""
    rng = np.random.default_rng(0)
    X = incomplete(rng, n=3000, d=40, q=2, missing=0.02)
    X[::2] = np.where(np.isnan(X[::2]), 0.0, X[::2])
    rows = prepare_rows(X, None, np.zeros(40), None, 2)
    assert 0 < rows.n_unique < len(X)  # both routes are taken
    assert len(rows.bounds) > 1
    whole = statistic(X)
    lone = [statistic(X[i : i + 1]) for i in range(len(X))]  # every row on its own
    merged = lone[0]
    for part in lone[1:]:
        merged = merged.merge(part)
    assert_same(merged, whole, rtol=1e-9)


def test_sparse_route_equals_the_dense_one():
    rng = np.random.default_rng(1)
    X = incomplete(rng, n=400, d=200, q=2, missing=0.98)
    X[:, 0] = rng.normal(size=400)
    rows = prepare_rows(X, None, np.zeros(200), None, 2)
    assert not isinstance(rows.R, np.ndarray)  # few enough cells for the sparse products
    c = Coefficients(rng.normal(size=(200, 2)), rng.normal(size=200), rng.uniform(0.5, 2, 200))
    sparse = Expected.of(rows, c)
    model = LinearGaussian(W=c.W, mu=c.delta, psi=c.psi)
    expected = sum(dense.log_likelihood(X, model.mu, model.covariance()))
    np.testing.assert_allclose(sparse.log_likelihood, expected, rtol=1e-11)
    observed = ~np.isnan(X)
    z, cov = dense.posterior(X, c.W, c.delta, c.psi)
    second = cov + z[:, :, None] * z[:, None, :]
    np.testing.assert_allclose(sparse.A[0], observed.T @ second[:, 0, 0], rtol=1e-10)
    np.testing.assert_allclose(sparse.A[1], observed.T @ second[:, 1, 0], rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(sparse.B[:2].T, np.where(observed, X, 0).T @ z, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("noise", [0.5, 1e-7])
def test_the_expected_log_likelihood_is_the_dense_one(noise):
    """Also where residuals must be formed because r^T r - z^T P z would cancel."""
    rng = np.random.default_rng(2)
    X = incomplete(rng, n=50, noise=noise)
    W, mu, psi = rng.normal(size=(6, 2)), np.nanmean(X, axis=0), np.full(6, noise)
    rows = prepare_rows(X, None, mu, None, 2)
    got = Expected.of(rows, Coefficients(W, np.zeros(6), psi)).log_likelihood
    expected = dense.log_likelihood(X, mu, W @ W.T + np.diag(psi)).sum()
    np.testing.assert_allclose(got, expected, rtol=1e-8)


# The fit -----------------------------------------------------------------------------------


@pytest.mark.parametrize("noise", ["isotropic", "diagonal"])
@given(seed=seeds)
@settings(max_examples=10, deadline=None)
def test_likelihood_never_falls_and_ends_where_the_gradient_is_zero(noise, seed):
    """002 Eqs. 18 and 19 at the optimum, by a dense gradient: not only a small step."""
    rng = np.random.default_rng(seed)
    X = incomplete(rng, n=150, d=5, q=1)
    fit = fit_by_em(as_source(X), 1, noise, options=TIGHT)
    objective = fit.trace.objective
    slack = 1e-9 * max(abs(objective[-1]), np.isfinite(X).sum())
    assert np.all(np.diff(objective) >= -slack)
    assert fit.converged
    m = fit.model
    by_W, by_mu, by_psi = dense.gradient(X, m.W, m.mu, m.psi)
    n, sd = len(X), np.sqrt(m.variances())
    assert np.abs(by_W * sd[:, None]).max() < 1e-6 * n
    assert np.abs(by_mu * sd).max() < 1e-6 * n
    free = np.setdiff1d(np.arange(5), fit.at_floor)
    pooled = by_psi[free] @ m.psi[free] if noise == "isotropic" else by_psi[free] * m.psi[free]
    assert np.abs(pooled).max(initial=0) < 1e-6 * n
    np.testing.assert_allclose(
        fit.log_likelihood, dense.log_likelihood(X, m.mu, m.covariance()).sum(), rtol=1e-10
    )


@given(seeds)
@settings(max_examples=8, deadline=None)
def test_blocks_do_not_matter(seed):
    rng = np.random.default_rng(seed)
    X = incomplete(rng)
    whole = fit_by_em(as_source(X), 2, "isotropic", options=TIGHT).model
    for rows in (1, 7, 33):
        cut = fit_by_em(as_source(X, block_rows=rows), 2, "isotropic", options=TIGHT).model
        np.testing.assert_allclose(cut.covariance(), whole.covariance(), rtol=1e-7, atol=1e-7)
        np.testing.assert_allclose(cut.mu, whole.mu, rtol=1e-7)


@given(seeds)
@settings(max_examples=8, deadline=None)
def test_ppca_is_covariant_under_shift_scale_and_order(seed):
    rng = np.random.default_rng(seed)
    X = incomplete(rng)
    model = fit_by_em(as_source(X), 2, "isotropic", options=TIGHT).model
    shift, order = rng.normal(size=6) * 100, rng.permutation(6)
    moved = fit_by_em(as_source(X[:, order] * 1e3 + shift), 2, "isotropic", options=TIGHT).model
    C = model.covariance()[np.ix_(order, order)] * 1e6
    np.testing.assert_allclose(moved.covariance(), C, rtol=1e-6, atol=1e-6 * np.abs(C).max())
    np.testing.assert_allclose(moved.mu, model.mu[order] * 1e3 + shift, rtol=1e-6, atol=1e-3)


@given(seeds)
@settings(max_examples=8, deadline=None)
def test_factor_analysis_is_covariant_under_column_rescaling(seed):
    """002 section 3.3: FA under componentwise rescaling, as PPCA is under rotation."""
    rng = np.random.default_rng(seed)
    X = incomplete(rng, n=150)
    model = fit_by_em(as_source(X), 1, "diagonal", options=TIGHT).model
    scale = np.exp(rng.normal(size=6) * 3)
    scaled = fit_by_em(as_source(X * scale), 1, "diagonal", options=TIGHT).model
    C = model.covariance() * np.outer(scale, scale)
    np.testing.assert_allclose(scaled.covariance() / C, 1.0, atol=1e-5)


def test_a_row_without_any_observed_cell_changes_nothing():
    """T22."""
    rng = np.random.default_rng(3)
    X = incomplete(rng)
    without = fit_by_em(as_source(X), 2, "isotropic", options=TIGHT)
    blank = np.vstack([X[:40], np.full((1, 6), np.nan), X[40:]])
    fit = fit_by_em(as_source(blank), 2, "isotropic", options=TIGHT)
    np.testing.assert_allclose(fit.model.covariance(), without.model.covariance(), rtol=1e-6)
    np.testing.assert_allclose(fit.log_likelihood, without.log_likelihood, rtol=1e-10)
    posterior = fit.model.posterior(blank[40:41])
    np.testing.assert_array_equal(posterior.mean, np.zeros((1, 2)))
    np.testing.assert_allclose(posterior.cov[0], np.eye(2), atol=1e-15)


def test_one_observed_cell_leaves_more_doubt():
    """T23."""
    rng = np.random.default_rng(4)
    X = incomplete(rng)
    X[5] = np.nan
    X[5, 2] = 1.0
    fit = fit_by_em(as_source(X), 2, "isotropic", options=TIGHT)
    posterior = fit.model.posterior(X)
    assert np.isfinite(posterior.mean).all()
    complete = np.flatnonzero(~np.isnan(X).any(axis=1))[0]
    doubt = np.linalg.det(posterior.cov)
    assert doubt[5] > doubt[complete]


@pytest.mark.parametrize("start", ["zero", "last eigenvectors"])
@pytest.mark.parametrize("missing", [0.0, 0.2])
def test_saddles_are_left(start, missing):
    """T27; 002 section 3.2: W = 0 and non-principal eigenvectors are stationary but no maxima."""
    rng = np.random.default_rng(5)
    X = incomplete(rng, n=300, missing=missing)
    best = fit_by_em(as_source(X), 2, "isotropic", options=TIGHT)
    if start == "zero":
        W = np.zeros((6, 2))
        sigma2 = np.nanvar(X)
    else:
        U = np.linalg.eigh(best.model.covariance())[1]
        W = U[:, 1:3] * 0.5
        sigma2 = 1.0
    from_saddle = EMOptions(
        tol=1e-10,
        max_iter=5000,
        start=LinearGaussian(W=W, mu=np.nanmean(X, axis=0), psi=np.full(6, sigma2)),
    )
    fit = fit_by_em(as_source(X), 2, "isotropic", options=from_saddle)
    np.testing.assert_allclose(fit.log_likelihood, best.log_likelihood, rtol=1e-7)
    assert principal_angles(fit.model.W, best.model.W)[0] < 1e-4


def test_more_starts_are_never_worse():
    rng = np.random.default_rng(6)
    X = incomplete(rng, n=60, d=8, q=3, missing=0.5)
    one = fit_by_em(as_source(X), 3, "isotropic", options=EMOptions(tol=1e-8))
    many = fit_by_em(as_source(X), 3, "isotropic", options=EMOptions(tol=1e-8, n_init=5))
    assert many.log_likelihood >= one.log_likelihood - 1e-6


def test_exact_low_rank_data_are_completed():
    """No noise at all: the gaps are determined, and come out."""
    rng = np.random.default_rng(7)
    full = rng.normal(size=(200, 3)) @ rng.normal(size=(3, 12)) + 5
    X = full.copy()
    X[rng.random(X.shape) < 0.2] = np.nan
    fit = fit_by_em(as_source(X), 3, "isotropic", options=EMOptions(tol=1e-9, max_iter=5000))
    np.testing.assert_allclose(fit.model.conditional_mean(X), full, atol=1e-4)


def test_prior_on_the_loadings_is_a_map_estimate():
    """003's M-step (sum E[zz^T] + sigma2 I): the gradient of ln p(X | W) - |W|^2 / 2 is zero."""
    rng = np.random.default_rng(8)
    X = incomplete(rng, n=40)
    fit = fit_by_em(as_source(X), 2, "isotropic", loading_precision=1.0, options=TIGHT)
    m = fit.model
    by_W, by_mu, by_psi = dense.gradient(X, m.W, m.mu, m.psi)
    np.testing.assert_allclose(by_W, m.W, atol=1e-5 * len(X))
    np.testing.assert_allclose(by_mu, 0.0, atol=1e-5 * len(X))
    assert abs(by_psi.sum() * m.psi[0]) < 1e-5 * len(X)
    free = fit_by_em(as_source(X), 2, "isotropic", options=TIGHT).model
    assert np.linalg.norm(m.W) < np.linalg.norm(free.W)


def test_given_noise_and_mean_are_kept():
    rng = np.random.default_rng(9)
    X = incomplete(rng)
    fit = fit_by_em(as_source(X), 2, "isotropic", noise_variance=0.7, fit_mean=False, options=TIGHT)
    np.testing.assert_allclose(fit.model.psi, 0.7, rtol=1e-12)
    np.testing.assert_array_equal(fit.model.mu, 0.0)
    by_W, _, _ = dense.gradient(X, fit.model.W, fit.model.mu, fit.model.psi)
    assert np.abs(by_W).max() < 1e-5 * len(X)


# The guard ---------------------------------------------------------------------------------


def test_a_falling_objective_is_an_error():
    values = iter([1.0, 0.5])

    def broken(theta):
        return theta + 1.0, next(values)

    with pytest.raises(ObjectiveFellError, match="fell from"):
        em(broken, np.zeros(1), tol=1e-8, max_iter=10, cells=1.0)


def test_a_bad_extrapolation_is_taken_back():
    """Anderson overshoots at times on a non-linear map; the objective never falls."""
    rates = np.array([0.99, 0.5, 0.1])

    def apply(theta):
        return theta * rates - 0.05 * np.sin(theta) * rates, -float(np.sum(theta**2))

    result = em(apply, np.array([3.0, -2.0, 1.0]), tol=1e-10, max_iter=500, cells=1.0)
    assert result.converged
    assert np.all(np.diff(result.trace.objective) >= -1e-9)
    np.testing.assert_allclose(result.theta, 0.0, atol=1e-8)


# The gradient ------------------------------------------------------------------------------


def numerical(apply, theta, step=1e-5):
    """Central differences of the objective."""
    moves = step * np.eye(len(theta))
    ahead, behind = (np.array([apply(theta + s * m).objective for m in moves]) for s in (1, -1))
    return (ahead - behind) / (2 * step)


GRADIENTS = {
    "Gaussian": {},
    "Student, nu learned": {"student": MultivariateT()},
    "Student, nu given": {"student": MultivariateT(4.0)},
    "known noise": {"cell_sd": True},
    "prior": {"loading_precision": 1.5},
    "no mean": {"fit_mean": False},
    "noise given": {"noise_variance": 0.7},
}


@pytest.mark.parametrize("noise", ["isotropic", "diagonal"])
@pytest.mark.parametrize("how", GRADIENTS)
def test_the_gradient_is_that_of_the_objective(how, noise):
    given = {"student": None, "loading_precision": 0.0, "fit_mean": True, "noise_variance": None}
    given |= GRADIENTS[how]
    rng = np.random.default_rng(0)
    X = incomplete(rng, n=40, d=5)
    sd = rng.uniform(0.1, 0.5, X.shape) if given.pop("cell_sd", False) else None
    source = as_source(X, cell_sd=sd)
    spec = Specification(noise=noise, **given)
    problem = problem_of(source, source.reduce(ColumnMoments.of), 2, spec)
    psi = rng.uniform(0.3, 1.0, 5) if noise == "diagonal" else np.full(5, 0.4)
    delta = rng.normal(size=5) if spec.fit_mean else np.zeros(5)
    theta = problem.pack(Parameters(rng.normal(size=(5, 2)), delta, psi, nu=5.0))
    slope = problem.apply(theta).slope()
    expected = numerical(problem.apply, theta) / problem.units.cells
    if not spec.fit_mean:
        expected[10:15] = 0.0
    np.testing.assert_allclose(slope.gradient, expected, atol=1e-7)


@pytest.mark.parametrize("noise", ["isotropic", "diagonal"])
@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("ard", [False, True])
def test_the_gradient_of_a_mixture_is_that_of_the_objective(noise, shared, ard):
    rng = np.random.default_rng(0)
    source = as_source(incomplete(rng, n=40, d=5))
    problem = MixtureProblem.of(source, source.reduce(ColumnMoments.of), 2, noise, shared)
    problem = replace(problem, ard=ard)
    like = MixtureParameters(
        np.log([0.5, 0.5]),
        tuple(Parameters(np.ones((5, q)), np.zeros(5), np.ones(5)) for q in (2, 1)),
    )
    theta = 0.5 * rng.normal(size=len(problem.pack(like)))
    apply = partial(problem.apply, like=like)
    expected = numerical(apply, theta) / problem.units.cells
    np.testing.assert_allclose(apply(theta).slope().gradient, expected, atol=1e-7)


def test_a_climb_reaches_the_maximum_where_the_map_hardly_moves():
    """EM whose steps shrink: a banana with a bound, and a map that goes a millionth of the way."""
    lower = np.array([-np.inf, 0.5, -np.inf])

    def apply(theta):
        x, y, z = theta
        value = -((1 - x) ** 2) - 100 * (y - x**2) ** 2 - 1e-3 * z**2 - y
        by = np.array([2 * (1 - x) + 400 * x * (y - x**2), -200 * (y - x**2) - 1.0, -2e-3 * z])
        return Mapped(theta + 1e-7 * by, value, lambda: Slope(by, np.ones(3)))

    bounds = Bounds(lower, np.full(3, np.inf))
    start = np.array([-1.0, 2.0, 5.0])
    run = em(apply, start, tol=1e-6, max_iter=2000, cells=1.0, bounds=bounds)
    from_scipy = minimize(
        lambda t: (-apply(t).objective, -apply(t).slope().gradient),
        start,
        jac=True,
        method="L-BFGS-B",
        bounds=[(None, None), (0.5, None), (None, None)],
        options={"ftol": 1e-15, "gtol": 1e-9},
    )
    assert run.converged
    assert run.objective >= -from_scipy.fun - 1e-6
    np.testing.assert_allclose(run.theta, from_scipy.x, atol=2e-3)


def test_a_small_gradient_is_what_converged_means():
    """Small steps alone are not, without anything to climb by."""

    def apply(theta):
        return Mapped(theta + 1e-9, float(theta[0]), lambda: Slope(np.ones(1), np.ones(1)))

    run = em(apply, np.zeros(1), tol=1e-6, max_iter=50, cells=1.0)
    assert not run.converged
    assert run.objective > 1.0  # and it went on by the gradient


def test_factors_of_a_small_table_are_not_left_in_a_local_optimum():
    """30 x 8 tables, three factors: the spectral start alone fell short in 7 of 40, these too."""
    for seed in (3, 15, 33):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(30, 3)) @ rng.normal(size=(3, 8)) + 0.7 * rng.normal(size=(30, 8))
        X[rng.random(X.shape) < 0.2] = np.nan
        many = fit_by_em(as_source(X), 3, "diagonal", options=EMOptions(n_init=8, seed=1))
        one = fit_by_em(as_source(X), 3, "diagonal")
        assert one.log_likelihood >= many.log_likelihood - 1e-3 * len(X), seed


def test_the_mask_of_a_table_is_computed_once(monkeypatch):
    """Checks, moments, patterns and the E-step share it."""
    X = incomplete(np.random.default_rng(5), n=700, d=12)
    masks = []
    isnan = np.isnan

    def counting(values, *args, **kwargs):
        masks.extend([1] if np.size(values) == X.size else [])
        return isnan(values, *args, **kwargs)

    monkeypatch.setattr(np, "isnan", counting)
    PPCA(2).fit(X)
    assert len(masks) == 1
