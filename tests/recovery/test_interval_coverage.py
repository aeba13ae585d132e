"""95 % intervals hold the truth in 95 % of tables; the grid is benchmarks/intervals.py."""

import numpy as np
import pytest

import eigengap as eg
from eigengap.inference.confidence import confidence_intervals, onto, units_of


def truth(noise, d=8, strength=(5.0, 2.5), seed=0):
    rng = np.random.default_rng(seed)
    U = np.linalg.qr(rng.normal(size=(d, len(strength))))[0]
    psi = np.ones(d) if noise == "isotropic" else np.linspace(0.6, 1.6, d)
    model = eg.LinearGaussian(W=U * np.sqrt(strength), mu=rng.normal(size=d), psi=psi)
    return model.canonical()


def coverage(model, estimator, tables, n=400, missing=0.0, **keywords):
    """Share of intervals that hold the truth: loadings, variances, means, noise."""
    rng = np.random.default_rng(1)
    inside = [[], [], [], []]
    align = keywords.get("align", "rotation")
    for _ in range(tables):
        X = model.sample(n, rng)
        X[rng.random(X.shape) < missing] = np.nan
        fitted = estimator.fit(X)
        found = confidence_intervals(fitted, X, **keywords)
        aligned = onto(fitted.model_.W, fitted.loadings_, units_of(fitted), align)
        noise = model.psi[: len(found.noise_variance.estimate)]
        inside[0].append(found.loadings.covers(aligned(model.W, model.W)))
        inside[1].append(found.explained_variance.covers(model.principal_axes()[1]))
        inside[2].append(found.mean.covers(model.mu))
        inside[3].append(found.noise_variance.covers(noise))
    return np.array([np.mean(part) for part in inside])


@pytest.mark.parametrize("align", ["rotation", pytest.param("axes", marks=pytest.mark.slow)])
def test_asymptotic_ppca(align):
    shares = coverage(truth("isotropic"), eg.PPCA(2), 100, method="asymptotic", align=align)
    # Monte-Carlo standard errors: 0.8 % for the 16 loadings, 1.5 % and 2.2 % for two and one value
    assert abs(shares[0] - 0.95) < 0.025
    assert np.all(shares[1:] > 0.89), shares


def test_asymptotic_factor_analysis():
    shares = coverage(truth("diagonal"), eg.FactorAnalysis(2), 50, method="asymptotic")
    assert abs(shares[0] - 0.95) < 0.025
    assert np.all(shares[1:] > 0.90), shares


def test_asymptotic_with_missing():
    shares = coverage(truth("isotropic"), eg.PPCA(2), 30, missing=0.2, method="asymptotic")
    assert abs(shares[0] - 0.95) < 0.035
    assert np.all(shares[1:] > 0.88), shares


@pytest.mark.slow
def test_bootstrap():
    shares = coverage(truth("isotropic"), eg.PPCA(2), 40, method="bootstrap", n_boot=40)
    assert abs(shares[0] - 0.95) < 0.035
    assert np.all(shares[1:] > 0.85), shares


@pytest.mark.slow
@pytest.mark.parametrize("method", ["bootstrap", "asymptotic"])
@pytest.mark.parametrize("missing", [0.0, 0.2])
@pytest.mark.parametrize("noise", ["isotropic", "diagonal"])
def test_coverage_is_nominal(noise, missing, method):
    estimator = eg.PPCA(2) if noise == "isotropic" else eg.FactorAnalysis(2)
    shares = coverage(truth(noise), estimator, 200, missing=missing, method=method, n_boot=100)
    assert np.all(np.abs(shares[[0, 2]] - 0.95) < 0.02), shares
    assert np.all(np.abs(shares[[1, 3]] - 0.95) < 0.045), shares
