"""Laws of fits with Student rows and with known noise: monotone, equivariant, weights as counts."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from eigengap.fitting.gaussian.noise import MultivariateT, fit_by_em
from eigengap.fitting.gaussian.problem import EMOptions
from eigengap.fitting.optimise.em import ROUNDING
from eigengap.models.gaussian.observed_rows import prepare_rows
from eigengap.sources.conversion import as_source
from eigengap.statistics.expected.gaussian import Parameters
from eigengap.statistics.expected.heteroscedastic import NoisyExpected
from eigengap.statistics.expected.student import StudentExpected

seeds = st.integers(0, 2**32 - 1)
kinds = pytest.mark.parametrize("kind", ["student", "student, given", "known"])
noises = pytest.mark.parametrize("noise", ["isotropic", "diagonal"])
TIGHT = EMOptions(tol=1e-9, max_iter=5000)


def table(seed, n=80, d=6, q=2, missing=0.25):
    rng = np.random.default_rng(seed)
    s = rng.uniform(0.0, 1.5, (n, d)) * (rng.random((n, d)) < 0.7)
    X = rng.normal(size=(n, q)) @ rng.normal(size=(q, d)) * 2 + rng.normal(size=(n, d)) * (0.5 + s)
    X /= np.sqrt(rng.gamma(1.5, size=n) / 1.5)[:, None]
    X[rng.random((n, d)) < missing] = np.nan
    X[:3] = rng.normal(size=(3, d))
    return X, s


def fitted(X, s, kind, noise="isotropic", w=None, options=TIGHT, **how):
    if kind == "known":
        return fit_by_em(as_source(X, cell_sd=s, sample_weight=w), 2, noise, options=options, **how)
    student = MultivariateT(3.0 if kind == "student, given" else None)
    source = as_source(X, sample_weight=w)
    return fit_by_em(source, 2, noise, student=student, options=options, **how)


def scatter(fit):
    return fit.model.gaussian.covariance()


ASKED = [
    ("isotropic", {}),
    ("isotropic", {"fit_mean": False}),
    ("isotropic", {"noise_variance": 0.7}),
    ("isotropic", {"loading_precision": 1.0}),
    ("diagonal", {}),
    ("diagonal", {"fit_mean": False}),
]


@kinds
@pytest.mark.parametrize(("noise", "how"), ASKED, ids=str)
def test_the_objective_never_falls_and_is_the_models_own(kind, noise, how):
    for seed in range(3):
        X, s = table(seed, n=120)
        fit = fitted(X, s, kind, noise, options=EMOptions(tol=1e-7, max_iter=3000), **how)
        assert fit.converged
        falls = -np.diff(fit.trace.objective[np.isfinite(fit.trace.objective)])
        assert falls.max() <= ROUNDING * max(abs(fit.log_likelihood), X.size)
        deviations = np.where(np.isnan(X), 0.0, s) if kind == "known" else None
        own = fit.model.log_likelihood(X, deviations).sum()
        assert_allclose(fit.log_likelihood, own, rtol=1e-9)


@given(seeds)
@settings(max_examples=15, deadline=None)
def test_statistics_merge_and_weights_are_repetitions(seed):
    rng = np.random.default_rng(seed)
    X, s = table(seed, n=40)
    d = X.shape[1]
    at = Parameters(rng.normal(size=(d, 2)), rng.normal(size=d), rng.uniform(0.5, 2, d), nu=3.0)

    def student(rows, w=None):
        return StudentExpected.of(prepare_rows(rows, w, np.zeros(d), None, 2), at)

    def known(rows, w=None):
        prepared = prepare_rows(rows[:, :d], w, np.zeros(d), None, 2, cell_sd=rows[:, d:])
        return NoisyExpected.of(prepared, at, learns_noise=True)

    times = rng.integers(0, 4, len(X))
    times[0] = 1
    for of, rows in ((student, X), (known, np.hstack([X, s]))):
        whole = of(rows)
        assert_same(of(rows[:13]).merge(of(rows[13:])), whole)
        assert_same(of(rows[rng.permutation(len(X))]), whole)
        assert_same(of(rows, times.astype(float)), of(np.repeat(rows, times, axis=0)))


def assert_same(a, b):
    for name, x in vars(a).items():
        y = getattr(b, name)
        if hasattr(x, "merge"):
            assert_same(x, y)
        else:
            assert_allclose(x, y, rtol=1e-10, atol=1e-9, err_msg=name)


@kinds
@noises
def test_integer_weights_equal_repeated_rows(kind, noise):
    X, s = table(1)
    w = np.random.default_rng(2).integers(0, 3, len(X))
    w[:3] = 1
    weighted = fitted(X, s, kind, noise, w=w.astype(float))
    repeated = fitted(np.repeat(X, w, axis=0), np.repeat(s, w, axis=0), kind, noise)
    assert_allclose(weighted.log_likelihood, repeated.log_likelihood, rtol=1e-8)
    assert_allclose(scatter(weighted), scatter(repeated), rtol=1e-4, atol=1e-4)


@kinds
def test_rows_of_any_order_and_blocks_of_any_size(kind):
    X, s = table(3)
    whole = fitted(X, s, kind)
    order = np.random.default_rng(4).permutation(len(X))
    assert_allclose(scatter(fitted(X[order], s[order], kind)), scatter(whole), rtol=1e-5, atol=1e-6)
    source = as_source(X, cell_sd=s if kind == "known" else None, block_rows=7)
    student = None if kind == "known" else MultivariateT(3.0 if "given" in kind else None)
    cut = fit_by_em(source, 2, "isotropic", student=student, options=TIGHT)
    assert_allclose(scatter(cut), scatter(whole), rtol=1e-5, atol=1e-6)


@kinds
def test_shift_and_rotation_equivariance_of_the_isotropic_fit(kind):
    X, s = table(5, missing=0.0)
    shift = 1e3 * np.arange(X.shape[1])
    base = fitted(X, s, kind)
    moved = fitted(3.0 * X + shift, 3.0 * s, kind)
    assert_allclose(scatter(moved), 9.0 * scatter(base), rtol=1e-4, atol=1e-4)
    assert_allclose(moved.model.mu, 3.0 * base.model.mu + shift, rtol=1e-5, atol=1e-4)
    if kind == "known":
        return  # noise of cells is tied to the axes
    Q = np.linalg.qr(np.random.default_rng(6).normal(size=(X.shape[1],) * 2))[0]
    turned = fitted(X @ Q, s, kind)
    assert_allclose(scatter(turned), Q.T @ scatter(base) @ Q, rtol=1e-4, atol=1e-4)


@kinds
def test_columns_in_other_units_of_the_diagonal_fit(kind):
    X, s = table(7, n=150)
    unit = 10.0 ** np.random.default_rng(8).uniform(-3, 3, X.shape[1])
    base = fitted(X, s, kind, "diagonal")
    other = fitted(X * unit, s * unit, kind, "diagonal")
    assert_allclose(scatter(other) / np.outer(unit, unit), scatter(base), rtol=1e-4, atol=1e-4)


@kinds
def test_several_starts_are_never_worse(kind):
    X, s = table(9)
    one = fitted(X, s, kind)
    four = fitted(X, s, kind, options=EMOptions(tol=1e-9, max_iter=5000, n_init=4))
    assert four.log_likelihood >= one.log_likelihood - 1e-6


@kinds
def test_a_fit_goes_on_from_a_given_model(kind):
    X, s = table(10)
    first = fitted(X, s, kind)
    again = fitted(X, s, kind, options=EMOptions(tol=1e-9, max_iter=5000, start=first.model))
    assert_allclose(again.log_likelihood, first.log_likelihood, atol=1e-5)
