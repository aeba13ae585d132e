"""Intervals and surprises of fits to numbers, against conditional distributions from matrices."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import brentq
from scipy.stats import norm, t

import eigengap as eg
from eigengap import LinearGaussian
from eigengap.models.gaussian.mixture import MixtureOfLinearGaussians
from eigengap.models.gaussian.predictive import MixturePredictive, Predictive
from eigengap.models.gaussian.spread import StudentSpread
from eigengap.models.gaussian.student import StudentLinearGaussian

NAN = np.nan
ROWS = np.array([[1.0, NAN, 3.0], [NAN, 0.5, NAN], [NAN, NAN, NAN], [0.2, -1.0, 9.0]])


def known(model):
    """A predictive distribution of a model whose parameters are known."""
    certain = np.zeros(((model.q + 1) * (model.q + 2) // 2, model.d))
    return Predictive(model, model.psi, np.full(model.d, np.inf), certain, "given")


def parameters(seed=0, d=3, q=1):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(d, q)), rng.normal(size=d), rng.uniform(0.3, 1.0, size=d)


def given(row, j, W, mu, psi):
    """Mean, variance, squared distance and number of the observed values, from C itself."""
    C = W @ W.T + np.diag(psi)
    o = np.flatnonzero(~np.isnan(row) & (np.arange(len(row)) != j))
    r = row[o] - mu[o]
    weights = np.linalg.solve(C[np.ix_(o, o)], np.column_stack([C[o, j], r]))
    mean = mu[j] + weights[:, 0] @ r
    return mean, C[j, j] - weights[:, 0] @ C[o, j], r @ weights[:, 1], len(o)


def distribution(row, j, W, mu, psi, nu):
    mean, variance, distance, p = given(row, j, W, mu, psi)
    if nu is None:
        return norm(mean, np.sqrt(variance))
    return t(nu + p, mean, np.sqrt(variance * (nu + distance) / (nu + p)))


@pytest.mark.parametrize("nu", [None, 1.5, 6.0])
def test_ends_are_quantiles_of_the_conditional_distribution(nu):
    W, mu, psi = parameters()
    model = LinearGaussian(W, mu, psi) if nu is None else StudentLinearGaussian(W, mu, psi, nu=nu)
    low, high = known(model).intervals(ROWS, 0.9)
    for i, j in np.argwhere(np.isnan(ROWS)):
        expected = distribution(ROWS[i], j, W, mu, psi, nu)
        assert low[i, j] == pytest.approx(expected.ppf(0.05), rel=1e-9)
        assert high[i, j] == pytest.approx(expected.ppf(0.95), rel=1e-9)
    observed = ~np.isnan(ROWS)
    np.testing.assert_array_equal(low[observed], ROWS[observed])
    np.testing.assert_array_equal(high[observed], ROWS[observed])


@pytest.mark.parametrize("nu", [None, 3.0])
def test_surprises_are_tails_given_the_other_values(nu):
    W, mu, psi = parameters(1)
    model = LinearGaussian(W, mu, psi) if nu is None else StudentLinearGaussian(W, mu, psi, nu=nu)
    p, expected = known(model).surprises(ROWS)
    np.testing.assert_array_equal(np.isnan(p), np.isnan(ROWS))
    for i, j in np.argwhere(~np.isnan(ROWS)):
        of_cell = distribution(ROWS[i], j, W, mu, psi, nu)
        far = abs(ROWS[i, j] - of_cell.mean())
        assert p[i, j] == pytest.approx(2.0 * of_cell.sf(of_cell.mean() + far), rel=1e-9)
        assert expected[i, j] == pytest.approx(of_cell.mean(), rel=1e-9)


def test_quantiles_of_a_mixture_are_those_of_the_mixture():
    models = [LinearGaussian(*parameters(seed)) for seed in (2, 3)]
    mixture = MixtureOfLinearGaussians(np.log([0.3, 0.7]), models)
    predictive = MixturePredictive(mixture, tuple(map(known, models)), np.array([30.0, 70.0]))
    low, high = predictive.intervals(ROWS, 0.8)
    resp = mixture.responsibilities(ROWS)
    for i, j in np.argwhere(np.isnan(ROWS)):
        parts = [distribution(ROWS[i], j, m.W, m.mu, m.psi, None) for m in models]

        def below(x, i=i, parts=parts):
            return sum(r * part.cdf(x) for r, part in zip(resp[i], parts, strict=True))

        assert low[i, j] == pytest.approx(brentq(lambda x, f=below: f(x) - 0.1, -50, 50), abs=1e-9)
        assert high[i, j] == pytest.approx(brentq(lambda x, f=below: f(x) - 0.9, -50, 50), abs=1e-9)
    np.testing.assert_array_equal(low[3], ROWS[3])


def test_a_value_without_spread_is_certain():
    spread = StudentSpread.gaussian(np.array([[1.0, 1.0]]), np.zeros((1, 2)))
    np.testing.assert_array_equal(
        spread.tails(np.array([[1.0, 2.0]])), [[[0.5, 1.0]], [[0.5, 0.0]]]
    )
    p, _ = known(LinearGaussian(*parameters(1))).surprises(ROWS[2:3])
    assert np.all(np.isnan(p))


MODELS = {
    "PCA": eg.PCA(1),
    "PPCA": eg.PPCA(1),
    "Student": eg.PPCA(1, distribution="student"),
    "FactorAnalysis": eg.FactorAnalysis(1),
    "BayesianPCA": eg.BayesianPCA(),
    "MixturePPCA": eg.MixturePPCA(2, n_components=1, random_state=0),
}


@pytest.mark.parametrize("name", MODELS)
def test_every_density_has_intervals_that_cover(name):
    rng = np.random.default_rng(0)
    inside = total = 0
    for _ in range(3):
        Z = rng.normal(size=(150, 1))
        if name == "MixturePPCA":
            Z[:75] += 8.0
        X = Z @ np.ones((1, 5)) + 0.5 * rng.normal(size=(150, 5))
        if name == "Student":
            X /= np.sqrt(rng.gamma(2.0, size=(150, 1)) / 2.0)
        hidden = rng.random(X.shape) < 0.15
        kept = pd.DataFrame(np.where(hidden, NAN, X), columns=list("abcde"))
        low, high = MODELS[name].fit(kept).intervals(kept, 0.9)
        assert low.columns.equals(kept.columns)
        assert low.where(~hidden).equals(kept)
        inside += np.sum(((low <= X) & (high >= X)).to_numpy()[hidden])
        total += hidden.sum()
    assert abs(inside / total - 0.9) < 4 * np.sqrt(0.09 / total)
    p = MODELS[name].explain(kept).p
    assert p.isna().equals(kept.isna())
    assert np.nanmean(p < 0.5) == pytest.approx(0.5, abs=0.1)
