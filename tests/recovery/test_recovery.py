"""Simulated tables whose truth is known: does the fit find it, and is it as sure as it says?"""

import numpy as np
import pytest

import eigengap as eg
from eigengap.linalg import principal_angles


def simulate(n, d, q, missing, seed, noise=0.5):
    rng = np.random.default_rng(seed)
    psi = np.full(d, noise) if np.isscalar(noise) else noise
    truth = eg.LinearGaussian(W=rng.normal(size=(d, q)) * 1.5, mu=rng.normal(size=d) * 5, psi=psi)
    full = truth.sample(n, rng)
    X = np.where(rng.random((n, d)) < missing, np.nan, full)
    return truth, full, X


def relative_error(n, missing, seed):
    truth, _, X = simulate(n, 15, 3, missing, seed=seed)
    model = eg.PPCA(3).fit(X).model_
    assert abs(model.psi[0] / 0.5 - 1) < 5 / np.sqrt(n)
    difference = model.covariance() - truth.covariance()
    return np.linalg.norm(difference) / np.linalg.norm(truth.covariance())


@pytest.mark.parametrize("missing", [0.1, 0.4])
def test_error_shrinks_like_one_over_root_n(missing):
    short, long = (np.mean([relative_error(n, missing, s) for s in range(8)]) for n in (500, 8000))
    assert long < short / 2.5  # a fourth in expectation
    assert long < 0.03


def test_axes_of_a_strong_signal():
    truth, _, X = simulate(4000, 20, 3, 0.3, seed=2)
    model = eg.PPCA(3).fit(X)
    assert principal_angles(model.components_.T, truth.W)[0] < 0.05


def test_missing_that_depend_on_what_was_observed():
    """Missing at random, not completely: the mean of the seen cells is biased, the fit is not."""
    rng = np.random.default_rng(3)
    full = rng.multivariate_normal([0.0, 0.0], [[1.0, 0.8], [0.8, 1.0]], size=40_000)
    X = full.copy()
    X[full[:, 0] > 0, 1] = np.nan  # the second is read only where the first is low
    assert np.nanmean(X[:, 1]) < -0.5
    model = eg.PPCA(1).fit(X)
    np.testing.assert_allclose(model.mean_, [0.0, 0.0], atol=0.03)
    np.testing.assert_allclose(model.get_covariance(), [[1.0, 0.8], [0.8, 1.0]], atol=0.04)


@pytest.mark.parametrize("estimator", [eg.PPCA(2), eg.FactorAnalysis(2)])
def test_intervals_cover_on_a_long_table(estimator):
    """With many rows the parameters are known, and 95 % intervals cover 95 % of the cells."""
    _, full, X = simulate(4000, 12, 2, 0.2, seed=4)
    filled, sd = estimator.fit(X).impute(X, return_std=True)
    missing = np.isnan(X)
    inside = np.abs(full - filled)[missing] < 1.96 * sd[missing]
    assert 0.94 < inside.mean() < 0.96


def test_imputations_are_drawn_from_what_impute_describes():
    _, _, X = simulate(300, 6, 2, 0.3, seed=5)
    model = eg.PPCA(2).fit(X)
    filled, sd = model.impute(X, return_std=True)
    draws = np.array(list(model.sample_imputations(X, 2000, random_state=0)))
    missing = np.isnan(X)
    z = (draws[:, missing].mean(axis=0) - filled[missing]) / (sd[missing] / np.sqrt(2000))
    assert np.abs(z).max() < 5
    np.testing.assert_allclose(draws[:, missing].std(axis=0), sd[missing], rtol=0.15)
    assert np.all(draws[:, ~missing] == X[~missing])


@pytest.mark.parametrize("missing", [0.0, 0.3])
@pytest.mark.parametrize(("n", "d", "q"), [(200, 20, 5), (60, 150, 3), (500, 12, 1)])
def test_auto_finds_the_rank(n, d, q, missing):
    for seed in range(3):
        _, _, X = simulate(n, d, q, missing, seed=10 + seed)
        assert eg.PPCA().fit(X).n_components_ == q
        assert eg.PCA("auto").fit(X).n_components_ == q


@pytest.mark.parametrize("missing", [0.0, 0.2])
def test_auto_finds_the_number_of_factors(missing):
    noise = np.random.default_rng(0).uniform(0.2, 2.0, 15)
    for seed in range(3):
        _, _, X = simulate(500, 15, 3, missing, seed=seed, noise=noise)
        assert eg.FactorAnalysis().fit(X).n_components_ == 3


def test_noise_alone_has_one_component_at_most():
    X = np.random.default_rng(6).normal(size=(100, 30))
    assert eg.PPCA().fit(X).n_components_ == 1


def test_factor_analysis_recovers_each_features_noise():
    noise = np.linspace(0.2, 3.0, 10)
    truth, _, X = simulate(20_000, 10, 2, 0.2, seed=7, noise=noise)
    model = eg.FactorAnalysis(2).fit(X)
    np.testing.assert_allclose(model.noise_variance_, noise, rtol=0.08)
    assert principal_angles(model.loadings_, truth.W)[0] < 0.05


def test_ppca_beats_mean_filling_on_the_breast_cancer_table():
    """002 section 4.3: 50 holes per column; the seed reports 26 % below mean filling on average."""
    from importlib.resources import files

    lines = (files("eigengap") / "data" / "breast_cancer_wisconsin.csv").read_text().splitlines()
    cells = [line.split(",")[1:10] for line in lines[1:]]
    truth = np.array([[float(c) if c else np.nan for c in row] for row in cells])
    rng = np.random.default_rng(8)
    X = truth.copy()
    for j in range(9):
        X[rng.choice(len(X), 50, replace=False), j] = np.nan
    hidden = np.isnan(X) & ~np.isnan(truth)
    filled = eg.PPCA(1, scale=True).fit(X).impute(X)
    rmse = lambda guess: np.sqrt(np.mean((guess - truth)[hidden] ** 2))  # noqa: E731
    assert rmse(filled) < 0.7 * rmse(np.nanmean(X, axis=0))
