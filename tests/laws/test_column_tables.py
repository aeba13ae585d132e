"""Laws of fits to columns of every kind, on random tables, awkward ones among them."""

import warnings

import numpy as np
import pandas as pd
import pytest

import eigengap as eg
from eigengap.fitting.columns.fit import fit_column_model, fit_columns
from eigengap.fitting.columns.kinds import (
    Binary,
    Bounded,
    Continuous,
    Count,
    Nominal,
    Ordinal,
    Positive,
)
from eigengap.fitting.gaussian.problem import EMOptions
from eigengap.models.columns.model import ColumnModel
from eigengap.models.columns.nominal import NominalColumn
from eigengap.models.columns.ordinal import OrdinalColumn
from eigengap.models.columns.table import Columns
from eigengap.selection.columns import rank_of_source
from eigengap.sources import ArraySource, as_source

TIGHT = EMOptions(tol=1e-6)


def columns_of(X, kinds):
    observed = [x[~np.isnan(x)] for x in X.T]
    return Columns(tuple(kind.learned(x) for kind, x in zip(kinds, observed, strict=True)))


def mixed(seed, n=150, missing=0.2):
    """A column of each kind behind two latent variables."""
    rng = np.random.default_rng(seed)
    U = rng.normal(size=(n, 2)) @ rng.normal(size=(2, 7)) + 0.7 * rng.normal(size=(n, 7))
    X = U.copy()
    X[:, 1] = np.exp(U[:, 1])
    X[:, 2] = np.digitize(U[:, 2], [-1.0, 0.0, 1.5])
    X[:, 3] = U[:, 3] > 0.3
    X[:, 4] = np.digitize(U[:, 4], [-0.5, 0.8])
    X[:, 5] = rng.poisson(np.exp(1.0 + U[:, 5]))
    X[:, 6] = 1.0 / (1.0 + np.exp(-U[:, 6]))
    X[rng.random(X.shape) < missing] = np.nan
    kinds = (Continuous(), Positive(), Ordinal(), Binary(), Nominal(), Count(), Bounded())
    return X, columns_of(X, kinds)


def assert_same(one, two, atol=1e-4):
    assert one.log_likelihood == pytest.approx(two.log_likelihood, abs=1e-3)
    np.testing.assert_allclose(one.model.covariance(), two.model.covariance(), atol=atol, rtol=1e-3)
    np.testing.assert_allclose(one.model.mu, two.model.mu, atol=atol, rtol=1e-3)


@pytest.mark.parametrize("block_rows", [pytest.param(1, marks=pytest.mark.slow), 7, 50])
def test_blocks_change_nothing(block_rows):
    X, columns = mixed(2)
    whole = fit_columns(as_source(X), columns, 1, TIGHT)
    assert whole.converged
    assert_same(whole, fit_columns(as_source(X, block_rows=block_rows), columns, 1, TIGHT))


def test_order_and_empty_rows_change_nothing():
    X, columns = mixed(1)
    whole = fit_columns(as_source(X), columns, 1, TIGHT)
    assert_same(whole, fit_columns(as_source(X[::-1].copy()), columns, 1, TIGHT))
    longer = np.vstack([X[:30], np.full((9, 7), np.nan), X[30:]])
    assert_same(whole, fit_columns(as_source(longer), columns, 1, TIGHT))


def test_weights_are_repeated_rows():
    X, columns = mixed(2)
    times = np.random.default_rng(0).integers(1, 4, size=len(X))
    weighted = fit_columns(ArraySource(X, weight=times.astype(float)), columns, 1, TIGHT)
    repeated = fit_columns(as_source(np.repeat(X, times, axis=0)), columns, 1, TIGHT)
    assert_same(weighted, repeated)


def test_names_of_levels_change_nothing():
    X, columns = mixed(3)
    renamed = X.copy()
    renamed[:, 4] = np.array([2.0, 0.0, 1.0, np.nan])[np.nan_to_num(X[:, 4], nan=3).astype(int)]
    old = columns.kinds[4]
    x = renamed[~np.isnan(renamed[:, 4]), 4]
    new = NominalColumn.of_counts(np.unique(x, return_counts=True)[1].astype(float))
    assert new.width == old.width
    others = Columns((*columns.kinds[:4], new, *columns.kinds[5:]))
    assert_same(
        fit_columns(as_source(X), columns, 1, TIGHT),
        fit_columns(as_source(renamed), others, 1, TIGHT),
    )


@pytest.mark.parametrize("dtype", ["float64", "float32", "Int64"])
def test_numbers_in_an_order_that_is_named_are_as_text_in_it(dtype):
    X = _ordered()
    numbers = {"b": 1, "a": 2, "c": 3}
    coded = X.assign(level=X["level"].map(numbers).astype(dtype))
    text = eg.FactorAnalysis(1, columns={"level": Ordinal(order=["a", "b", "c"])}).fit(X)
    number = eg.FactorAnalysis(1, columns={"level": Ordinal(order=[2, 1, 3])}).fit(coded)
    assert number.levels_["level"] == (2, 1, 3)
    assert number.log_likelihood_ == pytest.approx(text.log_likelihood_, rel=1e-9)
    imputed, sd = number.impute(coded, return_std=True)
    assert imputed.dtypes.equals(coded.dtypes)
    assert imputed["level"].tolist() == text.impute(X)["level"].map(numbers).tolist()
    assert sd["level"].isna().equals(X["level"].isna())  # another order is no scale


def _ordered() -> pd.DataFrame:
    rng = np.random.default_rng(5)
    z = rng.normal(size=80)
    level = np.array(["a", "b", "c"])[np.digitize(z + 0.7 * rng.normal(size=80), [-0.5, 0.5])]
    X = pd.DataFrame({"x": z, "y": z + 0.6 * rng.normal(size=80), "level": level})
    X.loc[::7, "level"] = None
    return X


def test_a_reversed_ordinal_column_is_mirrored():
    X, columns = mixed(4)
    mirrored = X.copy()
    mirrored[:, 2] = 3.0 - X[:, 2]
    shares = np.unique(mirrored[~np.isnan(mirrored[:, 2]), 2], return_counts=True)[1]
    new = OrdinalColumn.of_shares(shares.astype(float))
    others = Columns((*columns.kinds[:2], new, *columns.kinds[3:]))
    one = fit_columns(as_source(X), columns, 1, TIGHT)
    two = fit_columns(as_source(mirrored), others, 1, TIGHT)
    sign = np.ones(columns.width)
    sign[2] = -1.0
    assert one.log_likelihood == pytest.approx(two.log_likelihood, abs=1e-3)
    np.testing.assert_allclose(one.model.mu, sign * two.model.mu, atol=1e-4)
    mirror = np.outer(sign, sign) * two.model.covariance()
    np.testing.assert_allclose(one.model.covariance(), mirror, atol=1e-4, rtol=1e-3)


@pytest.mark.parametrize("seed", range(3))
def test_compiled_or_not(seed, monkeypatch):
    X, columns = mixed(10 + seed)
    fits = []
    for mode in ("never", "always"):
        monkeypatch.setenv("EIGENGAP_COMPILED", mode)
        fits.append(fit_columns(as_source(X), columns, 1, TIGHT))
    assert_same(*fits)


def test_the_rank_is_that_of_the_table():
    rng = np.random.default_rng(5)
    n, d, q = 400, 14, 3
    U = rng.normal(size=(n, q)) @ rng.normal(size=(q, d)) + 0.7 * rng.normal(size=(n, d))
    X = U.copy()
    X[:, ::2] = np.digitize(U[:, ::2], [-1.0, 0.0, 1.0])
    X[rng.random(X.shape) < 0.1] = np.nan
    columns = columns_of(X, (Ordinal(), Continuous()) * 7)
    found = rank_of_source(as_source(X), columns)
    assert found.chosen == q
    assert found == rank_of_source(as_source(X), columns)


# Awkward tables ---------------------------------------------------------------------------------


def awkward(seed):
    """Kinds at random, few rows, constant and equal columns, separated levels, huge units."""
    rng = np.random.default_rng(seed)
    n, d, k = int(rng.choice([2, 3, 8, 30, 80])), int(rng.integers(1, 9)), int(rng.integers(0, 3))
    U = rng.normal(size=(n, k)) @ rng.normal(size=(k, d)) + 0.5 * rng.normal(size=(n, d))
    made = [
        lambda u: (u, Continuous()),
        lambda u: (np.exp(u), Positive()),
        lambda u: (1.0 / (1.0 + np.exp(-u)), Bounded()),
        lambda u: (np.digitize(u, [-1.0, 0.2]), Ordinal()),
        lambda u: (u > 0.5, Binary()),
        lambda u: (np.digitize(u, [-0.5, 0.5]), Nominal()),
        lambda u: (rng.poisson(np.exp(u)), Count()),
        lambda u: (np.full(n, 3.7), Continuous()),
        lambda u: (np.where(u < 0, 0.0, np.exp(u)), Continuous()),
        lambda u: (1e12 * u, Continuous()),
        lambda u: (1e-12 * u, Continuous()),
        lambda u: (1.0 * (U[:, 0] > 0) + (U[:, 0] > 1), Ordinal()),
    ]
    X, kinds = np.empty((n, d)), []
    for j in range(d):
        X[:, j], kind = made[rng.integers(len(made))](U[:, j])
        kinds.append(kind)
    if d > 1 and rng.random() < 0.3:
        X[:, 1], kinds[1] = X[:, 0], kinds[0]
    X[rng.random((n, d)) < rng.choice([0.0, 0.2, 0.7])] = np.nan
    observed = ~np.isnan(X).all(axis=0)
    X, kinds = X[:, observed], [kind for kind, has in zip(kinds, observed, strict=True) if has]
    weight = None if rng.random() < 0.5 else 10.0 ** rng.uniform(-3, 3, size=n)
    return X, kinds, weight, int(rng.choice([0, 1, 2, d + 1]))


@pytest.mark.parametrize("seed", range(24))
def test_awkward_tables(seed):
    X, kinds, weight, q = awkward(seed)
    if not X.size:
        return
    columns = columns_of(X, kinds)
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        source = ArraySource(X, weight=weight)
        try:
            model, _ = fit_column_model(source, columns, q, EMOptions(tol=1e-3, max_iter=60))
        except ValueError as error:
            assert "nothing to fit" in str(error)  # noqa: PT017 - one of two outcomes
            return
        assert isinstance(model, ColumnModel)
        imputed = model.impute(X)
        lower, upper = model.intervals(X)
        drawn = model.sample_imputations(X, np.random.default_rng(0))
        assert np.all(np.isfinite(model.log_likelihood(X)))
    for table in (imputed, lower, upper, drawn):
        assert not np.any(np.isnan(table))
        for j, kind in enumerate(kinds):
            x, known = table[:, j], X[~np.isnan(X[:, j]), j]
            if isinstance(kind, Positive | Bounded | Count):
                assert np.all(x >= 0)
            if isinstance(kind, Bounded):
                assert np.all(x <= 1)
            if isinstance(kind, Ordinal | Nominal):
                assert np.all(np.isin(x, known))
            if isinstance(kind, Count):
                assert np.all(x == np.round(x))


def test_one_weight_near_zero_makes_no_thousands_of_the_other_rows():
    rng = np.random.default_rng(1)
    z = rng.normal(size=(60, 1))
    X = z + 0.5 * rng.normal(size=(60, 3))
    weight = np.ones(60)
    found = []
    for least in (0.0123456, 0.001, 1e-200):
        weight[0] = least
        model = eg.PPCA(1, columns="auto").fit(X, sample_weight=weight)
        assert all(kind.margin.knots is None for kind in model.model_.columns.kinds)
        found.append(model.log_likelihood_)
    assert np.ptp(found) < 0.2
