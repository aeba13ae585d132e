"""Intervals that hold the uncertainty of the parameters, against dense algebra and simulation."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from eigengap import PCA, PPCA, FactorAnalysis
from eigengap.exceptions import UnboundedLikelihoodWarning
from eigengap.models.gaussian.information import ObservationPattern, information
from eigengap.models.gaussian.linear_gaussian import LinearGaussian
from eigengap.models.gaussian.predictive import Predictive


def some_model(rng, d=6, q=2):
    W = rng.normal(size=(d, q))
    return LinearGaussian(W=W, mu=rng.normal(size=d), psi=rng.uniform(0.2, 1.0, d))


def some_evidence(rng, d=6, k=40, n=400.0, noise="diagonal", **others):
    observed = rng.random((k, d)) > 0.3
    return ObservationPattern(
        observed=observed, observed_w=n * observed.mean(axis=0), noise=noise, **others
    )


def dense_information(model, observed, j):
    """Of (w_j, mu_j), and for psi_j, from x_j given the other seen cells of one row."""
    others = [k for k in np.flatnonzero(observed) if k != j]
    C = model.covariance()
    Coo = C[np.ix_(others, others)]
    to_z = np.linalg.solve(Coo, model.W[others]).T if others else np.zeros((model.q, 0))
    cov_z = to_z @ Coo @ to_z.T
    v = C[j, j] - model.W[j] @ cov_z @ model.W[j]
    about = np.zeros((model.q + 1, model.q + 1))
    about[:-1, :-1] = cov_z / v
    about[-1, -1] = 1 / v
    return about, (model.psi[j] / v) ** 2


def test_information_is_that_of_a_cell_given_the_others():
    rng = np.random.default_rng(0)
    model = some_model(rng)
    evidence = some_evidence(rng)
    got = information(model, evidence)
    for j in range(model.d):
        rows = evidence.observed[evidence.observed[:, j]]
        each = [dense_information(model, row, j) for row in rows]
        mean = np.mean([about for about, _ in each], axis=0)
        noise = np.mean([worth for _, worth in each])
        # Rows without the feature count a thousandth.
        assert_allclose(got.loadings[j], mean * evidence.observed_w[j], rtol=2e-3, atol=1e-2)
        assert_allclose(got.noise[j], noise * evidence.observed_w[j], rtol=2e-3)


def test_a_feature_that_no_sampled_row_shows_is_judged_by_the_rows_there_are():
    rng = np.random.default_rng(1)
    model = some_model(rng)
    evidence = some_evidence(rng)
    evidence.observed[:, 2] = False
    got = information(model, evidence)
    expected = np.mean([dense_information(model, row, 2)[0] for row in evidence.observed], axis=0)
    assert_allclose(got.loadings[2], expected * evidence.observed_w[2], rtol=1e-9, atol=1e-9)


def drawn_variance(predictive, X, m, rng):
    """Of the gaps, over parameters and cells together: law of total variance, m models."""
    means, variances = zip(*(predictive.draw(rng).conditional(X) for _ in range(m)), strict=True)
    return np.var(means, axis=0) + np.mean(variances, axis=0)


@pytest.mark.parametrize("noise", ["isotropic", "diagonal", "given"])
def test_variance_is_that_of_models_drawn_around_the_estimate(noise):
    rng = np.random.default_rng(2)
    model = some_model(rng)
    if noise == "isotropic":
        model = LinearGaussian(W=model.W, mu=model.mu, psi=np.full(model.d, 0.5))
    X = model.sample(30, rng)
    X[rng.random(X.shape) < 0.4] = np.nan
    X[0] = np.nan
    predictive = Predictive.of(model, some_evidence(rng, n=80.0, noise=noise))
    _, variance = predictive.conditional(X)
    missing = np.isnan(X)
    drawn = drawn_variance(predictive, X, 1500, rng)
    plug_in = model.conditional(X)[1]
    assert np.all(variance[missing] > plug_in[missing])
    assert plug_in[missing].mean() < 0.92 * drawn[missing].mean()
    assert_allclose(variance[missing].mean(), drawn[missing].mean(), rtol=0.06)
    assert_allclose(variance[missing], drawn[missing], rtol=0.15)


def test_with_many_rows_the_estimate_is_all_there_is():
    rng = np.random.default_rng(3)
    model = some_model(rng)
    X = model.sample(20, rng)
    X[rng.random(X.shape) < 0.4] = np.nan
    mean, variance = Predictive.of(model, some_evidence(rng, n=1e9)).conditional(X)
    for got, expected in zip((mean, variance), model.conditional(X), strict=True):
        assert_allclose(got, expected, rtol=1e-6, atol=1e-9)


def test_what_is_given_is_certain():
    rng = np.random.default_rng(4)
    model = some_model(rng)
    evidence = some_evidence(rng, n=50.0, noise="given", fits_mean=False)
    predictive = Predictive.of(model, evidence)
    drawn = predictive.draw(rng)
    assert_allclose(predictive.noise, model.psi)
    assert_allclose(drawn.psi, model.psi)
    assert_allclose(drawn.mu, model.mu)
    assert not np.allclose(drawn.W, model.W, rtol=1e-3)


def test_units_do_not_matter():
    rng = np.random.default_rng(5)
    model = some_model(rng)
    evidence = some_evidence(rng, n=60.0)
    X = model.sample(20, rng)
    X[rng.random(X.shape) < 0.4] = np.nan
    scale = 10.0 ** rng.uniform(-3, 3, model.d)
    _, plain = Predictive.of(model, evidence).conditional(X)
    _, scaled = Predictive.of(model.rescaled(scale), evidence).conditional(X * scale)
    assert_allclose(scaled, plain * scale**2, rtol=1e-7)


@pytest.mark.parametrize("model", [PPCA(1, scale=True), FactorAnalysis(2), PPCA(3)], ids=repr)
def test_the_mean_of_a_row_without_cells_is_as_uncertain_as_the_mean(model):
    """Beyond the column's own variance: that of its mean, variance / n."""
    X = some_model(np.random.default_rng(6)).sample(40, np.random.default_rng(7))
    incomplete = X.copy()
    incomplete[::3, 0] = np.nan
    fitted = model.fit(incomplete)
    _, std = fitted.impute(np.full((1, 6), np.nan), return_std=True)
    variance = np.diag(fitted.get_covariance())
    assert np.all(std[0] ** 2 > variance * (1 + 1 / 40))
    assert np.all(std[0] ** 2 < variance * 2.0)  # generous where nothing was seen


@pytest.mark.parametrize(
    ("kind", "spread"),
    [
        (PPCA, (1.0, 1.0)),
        pytest.param(FactorAnalysis, (0.3, 3.0), marks=pytest.mark.slow),
    ],
)
def test_intervals_of_small_tables_cover(kind, spread):
    """50 x 20, 5 components, a fifth missing: 95 % intervals, where plug-in ones cover < 91 %."""
    inside = {"plug-in": 0, "impute": 0}
    cells = 0
    for seed in range(25):
        rng = np.random.default_rng(seed)
        psi = 0.25 * rng.uniform(*spread, 20)
        truth = LinearGaussian(W=rng.normal(size=(20, 5)), mu=np.zeros(20), psi=psi)
        X = truth.sample(50, rng)
        missing = rng.random(X.shape) < 0.2
        incomplete = np.where(missing, np.nan, X)
        fitted = kind(5, max_iter=3000).fit(incomplete)
        filled, std = fitted.impute(incomplete, return_std=True)
        plug_in = np.sqrt(fitted.model_.conditional(incomplete)[1])
        inside["impute"] += np.sum(np.abs(filled - X)[missing] < 1.96 * std[missing])
        inside["plug-in"] += np.sum(np.abs(filled - X)[missing] < 1.96 * plug_in[missing])
        cells += np.sum(missing)
    assert inside["plug-in"] < 0.91 * cells
    assert 0.935 * cells < inside["impute"] < 0.965 * cells  # +- 3 standard errors of 5 000 cells


@pytest.mark.parametrize("scale", [False, True])
@pytest.mark.parametrize(("n", "d"), [(30, 10), (15, 8), (40, 1)])
def test_as_many_components_as_columns_are_as_uncertain_as_one_fewer(n, d, scale):
    """PCA() and PPCA(d) have the density of d - 1 components and noise."""
    rng = np.random.default_rng(n)
    X = rng.normal(size=(n, d)) @ rng.normal(size=(d, d))
    new = np.where(rng.random((20, d)) < 0.3, np.nan, rng.normal(size=(20, d)))
    filled, sd = PPCA(d - 1, scale=scale).fit(X).impute(new, return_std=True)
    for model in (PCA(scale=scale), PPCA(d, scale=scale)):
        both = model.fit(X).impute(new, return_std=True)
        assert_allclose(both[0], filled, atol=1e-8 * np.ptp(X))
        assert_allclose(both[1], sd, rtol=1e-6)
    drawn = PCA(scale=scale).fit(X).sample_imputations(new, 200, random_state=0)
    variance = np.var(list(drawn), axis=0)[np.isnan(new)]
    assert 0.7 < np.median(variance / sd[np.isnan(new)] ** 2) < 1.4


@pytest.mark.parametrize("missing", [0.0, 0.2])
def test_standard_deviations_are_proportional_to_the_noise_however_small(missing):
    """Nothing in a table but the noise sets their scale, once it is small beside the signal."""
    rng = np.random.default_rng(0)
    signal = rng.normal(size=(50, 3)) @ rng.normal(size=(3, 10))
    error = rng.normal(size=signal.shape)
    hidden = rng.random((30, 10)) < missing
    new = np.where(np.arange(10) < 3, np.nan, 0.0)
    relative = []
    for sigma in (1e-2, 1e-3, 1e-4) if missing == 0.0 else (1e-1, 1e-2, 3e-3):
        X = signal + sigma * error
        model = PPCA(3).fit(np.where(hidden, np.nan, X[:30]))
        relative.append(model.impute(X[30:] + new, return_std=True)[1][:, :3] / sigma)
    for some in relative[1:]:
        assert_allclose(some, relative[0], rtol=0.15)  # of order sigma, and of EM's tolerance


def test_pca_without_noise_says_that_its_standard_deviations_are_too_small():
    """More columns than rows: no residual is left to judge the parameters by."""
    X = np.random.default_rng(0).normal(size=(12, 30))
    new = X.copy()
    new[:, 0] = np.nan
    model = PCA().fit(X)
    with pytest.warns(UnboundedLikelihoodWarning, match="leave out the uncertainty"):
        model.impute(new, return_std=True)
    with pytest.warns(UnboundedLikelihoodWarning, match="leave out the uncertainty"):
        next(model.sample_imputations(new, 1))


@pytest.mark.parametrize("psi", [0.01, 0.3])
def test_a_noise_beside_a_large_known_error_is_as_uncertain_as_their_sum(psi):
    """Rows of a mean and noise alone: the variance of a cell is a scaled inverse chi-square."""
    d, n, known = 3, 300, np.array([0.0, 2.0, 6.0])
    model = LinearGaussian(W=np.zeros((d, 0)), mu=np.zeros(d), psi=np.full(d, psi))
    seen = np.ones((20, d), dtype=bool)
    pattern = ObservationPattern(seen, np.full(d, float(n)), "diagonal", known=known)
    predictive = Predictive.of(model, pattern)
    nu = n - 1.0
    assert_allclose(predictive.noise + known, (psi + known) * n / (nu - 2.0), rtol=1e-9)
    rng = np.random.default_rng(0)
    drawn = np.array([predictive.draw(rng).psi for _ in range(4000)])
    deviation = np.sqrt(2.0 / nu) * (psi + known)
    assert np.all(drawn > 0.0)
    assert np.all(drawn.mean(axis=0) <= psi + deviation)
    assert np.all(drawn.max(axis=0) <= psi + 6.0 * deviation)
