"""Random small tables of every kind: fits end at a maximum or say that they do not; laws hold.

A sample runs with `make test`, the whole campaign with `make test-all`. `random_tables` holds the
tables and an oracle that shares no code with the fits.
"""

import warnings
from functools import partial

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.exceptions import ConvergenceWarning
from tests.random_tables import (
    climbed,
    column_variances,
    draw,
    evidence_bound,
    log_likelihood,
    noise_floor,
)

import eigengap as eg
from eigengap.exceptions import UnboundedLikelihoodWarning

NOISE = {eg.PCA: "isotropic", eg.PPCA: "isotropic", eg.FactorAnalysis: "diagonal"}
ESTIMATORS = list(NOISE)
GAIN = 1e-4  # nats per row that may be left
TOL = 1e-6  # that of the fits, by default
SMALL = (30, 8)  # of the sample that runs with `make test`


def fitted(make, X, weight):
    """The fit, and the kinds of warnings that it gave."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        model = make().fit(X, sample_weight=weight)
    return model, {warning.category for warning in told}


def varies(table):
    return bool(np.any(column_variances(table.X, table.w) > 0))


def check_maximum(kind, seed, **size):
    """Converged at a maximum, or a warning; finite numbers, or a warning."""
    table = draw(seed, **size)
    model, told = fitted(partial(kind, table.q), table.X, table.weight)
    assert model.converged_ == (ConvergenceWarning not in told), table
    if not varies(table):
        return
    assert np.all(np.isfinite(model.transform(table.X)))
    assert np.all(np.isfinite(model.impute(table.X)))
    mu, W, psi = model.model_.mu, model.model_.W, model.model_.psi
    if np.any(psi <= 0):  # as many components as columns need no noise
        bounded = kind is eg.PCA or table.q >= len(psi)
        assert bounded or UnboundedLikelihoodWarning in told, table
        return
    assert np.all(np.isfinite(model.model_.log_likelihood(table.X))), table
    if not model.converged_:
        return
    floor = np.minimum(noise_floor(table.X, table.w, NOISE[kind]), psi)
    end = climbed(table.X, table.w, mu, W, psi, floor, NOISE[kind], max_iter=150)
    # The fit's gradient is per cell, this one per row: up to d cells. Rounding is that of the
    # oracle's inverses, and of standardised values, which keep the table's type: relative to the
    # noise they are off by `stored`, and a gradient that is off by so much costs half its square.
    contrast = float(np.max((np.sum(W**2, axis=1) + psi) / psi))
    stored = np.finfo(table.X.dtype).eps * np.sqrt(contrast)
    assert end.gain <= GAIN + 0.5 * stored**2, (table, end.gain)
    assert end.steepness <= TOL * len(psi) + 1e-13 * contrast + stored, (table, end.steepness)


@pytest.mark.parametrize("kind", ESTIMATORS, ids=lambda kind: kind.__name__)
def test_a_converged_fit_is_at_a_maximum(kind):
    first = 100 * ESTIMATORS.index(kind)
    for seed in range(first, first + 12):
        check_maximum(kind, seed, largest=SMALL)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(10))
@pytest.mark.parametrize("kind", ESTIMATORS, ids=lambda kind: kind.__name__)
def test_a_converged_fit_is_at_a_maximum_whatever_the_table(kind, part):
    for seed in range(60 * part, 60 * part + 60):
        check_maximum(kind, seed)


def test_factors_of_a_table_that_is_mostly_missing_are_at_a_maximum():
    """40 x 6, 70 % missing: at the noise floor small steps of EM say nothing."""
    for seed in (8, 9):
        rng = np.random.default_rng(seed)
        X = rng.standard_normal((40, 2)) @ rng.standard_normal((2, 6))
        X += 0.7 * rng.standard_normal(X.shape)
        X[rng.random(X.shape) < 0.7] = np.nan
        model, _ = fitted(partial(eg.FactorAnalysis, 2), X, None)
        if model.converged_:
            one = np.ones(40)
            at = model.model_
            floor = noise_floor(X, one, "diagonal")
            end = climbed(X, one, at.mu, at.W, at.psi, floor, "diagonal", max_iter=50)
            assert end.gain <= GAIN, (seed, end.gain)


# Bayesian PCA ------------------------------------------------------------------------------


def check_bound(seed):
    table = draw(seed, largest=(30, 6))
    model, told = fitted(partial(eg.BayesianPCA, table.q), table.X, table.weight)
    assert model.converged_ == (ConvergenceWarning not in told), table
    if not varies(table):
        return
    assert np.all(np.isfinite(model.impute(table.X)))
    if not model.converged_:
        return
    found, rows = model.bayesian_, float(np.sum(table.w))
    bound, pack = evidence_bound(table.X, table.w, found.W.shape[1])
    theta = pack(found.W, found.mu, found.cov, found.noise.rate[0])
    value = bound(theta)
    noise = found.noise.rate[0] / found.noise.shape[0]
    rounding = 1e-13 * float(np.max(np.sum(found.W**2, axis=1)) / noise) ** 2
    assert abs(value - model.elbo_) <= (1e-7 + rounding) * max(abs(value), rows)
    end = minimize(
        lambda at: -bound(at) / rows,
        theta,
        method="L-BFGS-B",
        options={"maxiter": 40, "maxfun": 40 * len(theta)},
    )
    assert -end.fun - value / rows <= GAIN + rounding, table


def test_the_bound_of_bayesian_pca_is_right_and_at_a_maximum():
    for seed in range(10):
        check_bound(seed)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(6))
def test_the_bound_of_bayesian_pca_is_right_and_at_a_maximum_whatever_the_table(part):
    for seed in range(50 * part, 50 * part + 50):
        check_bound(seed)


# Imputation and mixtures: finite, and no failure -------------------------------------------


def check_imputations(seed, **size):
    table = draw(seed, **size)
    model, _ = fitted(eg.LowRankImputer, table.X, table.weight)
    filled = model.transform(table.X)
    assert np.all(np.isfinite(filled)), table
    observed = ~np.isnan(table.X)
    np.testing.assert_array_equal(filled[observed], table.X[observed])


def check_mixture(seed, **size):
    table = draw(seed, **{"largest": (60, 8), **size})
    if len(table.X) < 8 or not varies(table):
        return
    make = partial(eg.MixturePPCA, 2, 1, random_state=0)
    model, told = fitted(make, table.X, table.weight)
    assert model.converged_ == (ConvergenceWarning not in told), table
    assert np.all(np.isfinite(model.score_samples(table.X))), table


@pytest.mark.parametrize("check", [check_imputations, check_mixture])
def test_imputations_and_mixtures_are_finite(check):
    for seed in range(4):
        check(seed, largest=SMALL)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
@pytest.mark.parametrize("check", [check_imputations, check_mixture])
def test_imputations_and_mixtures_are_finite_whatever_the_table(check, part):
    for seed in range(50 * part, 50 * part + 50):
        check(seed)


# Laws --------------------------------------------------------------------------------------


def transformed(law, kind, table, rng):
    """The table after a change that a law speaks of: (X, weight, order, factor).

    Column j of the result is `factor[j]` times column `order[j]` of the table.
    """
    n, d = table.X.shape
    X, weight = table.X.astype(np.float64), table.weight
    order, factor = np.arange(d), np.ones(d)
    if law == "permutation":
        rows, order = rng.permutation(n), rng.permutation(d)
        return X[rows][:, order], None if weight is None else weight[rows], order, factor
    if law == "repetition":
        times = np.ones(n) if weight is None else np.round(weight)
        return np.repeat(X, times.astype(int), axis=0), None, order, factor
    if law == "weight":
        return X, 3.0 * table.w, order, factor
    if law == "empty rows":
        more = np.vstack([X, np.full((3, d), np.nan)])
        return more, None if weight is None else np.append(weight, [1.0, 2.0, 1.0]), order, factor
    factor = np.full(d, 8.0)
    # The floor of a constant column is by the size of the others.
    if NOISE[kind] == "diagonal" and np.all(column_variances(X, table.w) > 0):
        factor = 2.0 ** rng.integers(-10, 11, size=d)
    return X * factor, weight, order, factor


LAWS = ("permutation", "repetition", "weight", "empty rows", "scale")


def check_law(law, kind, seed, **size):
    """A fit after a change is the change of the fit: by its likelihood, where both converged."""
    table = draw(seed, **size)
    if (law == "repetition" and "fractional weights" in table.traits) or not varies(table):
        return
    rng = np.random.default_rng(seed)
    X, weight, order, factor = transformed(law, kind, table, rng)
    before, _ = fitted(partial(kind, table.q), table.X.astype(np.float64), table.weight)
    after, _ = fitted(partial(kind, table.q), X, weight)
    back = np.argsort(order)
    first, second = before.model_, after.model_
    if np.any(first.psi <= 0) or np.any(second.psi <= 0):
        return
    if not (before.converged_ and after.converged_):
        return
    # Fewer values than parameters leave many maxima, with the noise of most columns at its floor:
    # which of them a start leads to is decided by rounding.
    if kind is eg.FactorAnalysis and np.sum(~np.isnan(table.X)) < first.W.size + 2 * first.d:
        return
    returned = (
        (second.mu / factor)[back],
        (second.W / factor[:, None])[back],
        (second.psi / factor**2)[back],
    )
    values = [
        log_likelihood(table.X.astype(np.float64), table.w, *at)[0] / np.sum(table.w)
        for at in ((first.mu, first.W, first.psi), returned)
    ]
    assert abs(values[0] - values[1]) <= 2 * GAIN, (table, law, values)


@pytest.mark.parametrize("kind", [eg.PPCA, eg.FactorAnalysis], ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("law", LAWS)
def test_a_law_holds(law, kind):
    for seed in range(LAWS.index(law), 15, len(LAWS)):
        check_law(law, kind, seed, largest=SMALL)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(2))
@pytest.mark.parametrize("kind", [eg.PPCA, eg.FactorAnalysis], ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("law", LAWS)
def test_a_law_holds_whatever_the_table(law, kind, part):
    for seed in range(100 * part + LAWS.index(law), 100 * part + 100, len(LAWS)):
        check_law(law, kind, seed)
