"""PPCARegressor against least squares and dense conditionals."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse
from sklearn.linear_model import LinearRegression
from sklearn.metrics import r2_score
from sklearn.model_selection import cross_val_score
from tests import dense

from eigengap import PPCA, FactorAnalysis
from eigengap.estimators.regressor import PPCARegressor


def low_rank(n=120, d=6, k=1, q=2, noise=0.4, seed=0):
    rng = np.random.default_rng(seed)
    W = rng.normal(size=(d + k, q))
    table = rng.normal(size=(n, q)) @ W.T + noise * rng.normal(size=(n, d + k)) + 3.0
    return table[:, :d], table[:, d:]


def hide(X, share, seed=1):
    return np.where(np.random.default_rng(seed).random(X.shape) < share, np.nan, X)


@pytest.mark.parametrize("k", [1, 2])
@pytest.mark.parametrize("scale", [True, False])
def test_an_unrestricted_joint_gaussian_is_least_squares(k, scale):
    X, Y = low_rank(k=k)
    d = X.shape[1]
    ours = PPCARegressor(d + k - 1, noise="isotropic", scale=scale).fit(X, Y)
    theirs = LinearRegression().fit(X, Y)
    np.testing.assert_allclose(ours.predict(X), theirs.predict(X), rtol=1e-7, atol=1e-8)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(ours.intercept_, theirs.intercept_, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("noise", ["isotropic", "diagonal"])
def test_predictions_are_dense_conditionals(noise):
    X, Y = low_rank(k=2)
    X, Y = hide(X, 0.3), hide(Y, 0.2, seed=2)
    X[3], Y[5] = np.nan, np.nan
    model = PPCARegressor(2, noise=noise).fit(X, Y)
    joint = model.estimator_.model_
    unknown = np.column_stack([X, np.full_like(Y, np.nan)])
    expected, covs = dense.conditional(unknown, joint.mu, joint.covariance())
    mean, std = model.predict(X, return_std=True)
    np.testing.assert_allclose(mean, expected[:, -2:], rtol=1e-7, atol=1e-8)
    plug_in = np.sqrt([np.diag(C)[-2:] for C in covs])
    assert np.all(std >= 0.999 * plug_in)  # and the uncertainty of the parameters beside it
    assert np.median(std / plug_in) < 1.3
    np.testing.assert_allclose(mean[3], joint.mu[-2:], rtol=1e-9)


def test_intervals_cover():
    covered = []
    for seed in range(8):
        X, y = low_rank(n=560, seed=seed)
        X = hide(X, 0.2, seed)
        model = PPCARegressor(2).fit(X[:60], y[:60, 0])
        mean, std = model.predict(X[60:], return_std=True)
        covered.append(np.abs(y[60:, 0] - mean) < 1.96 * std)
    assert 0.93 < np.mean(covered) < 0.97


def test_rows_without_y_help():
    """25 rows know y, 1 000 more show how the columns of X hang together."""
    gains = []
    for seed in range(5):
        X, y = low_rank(n=2025, d=20, noise=1.5, seed=seed)
        y = y[:, 0]
        known = np.where(np.arange(len(y)) < 25, y, np.nan)
        few = PPCARegressor(2).fit(X[:25], y[:25]).score(X[1025:], y[1025:])
        all_rows = PPCARegressor(2).fit(X[:1025], known[:1025]).score(X[1025:], y[1025:])
        gains.append(all_rows - few)
    assert np.mean(gains) > 0.01


def test_auto_takes_the_rank_that_predicts():
    """X without structure: BIC of the joint table would keep too few components."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 10))
    y = X @ rng.normal(size=10) + rng.normal(size=300)
    model = PPCARegressor().fit(X[:200], y[:200])
    least_squares = LinearRegression().fit(X[:200], y[:200]).score(X[200:], y[200:])
    assert model.score(X[200:], y[200:]) > least_squares - 0.02
    least = min(model.cv_errors_.values())
    as_good = [q for q, error in model.cv_errors_.items() if error <= 1.01 * least]
    assert model.n_components_ == min(as_good)
    assert 0 < least < 1


def test_auto_finds_a_low_rank():
    X, y = low_rank(n=200, d=12, q=3, noise=0.5)
    model = PPCARegressor().fit(hide(X, 0.1), y[:, 0])
    assert 3 <= model.n_components_ <= 5


def test_shapes_of_y_come_back():
    X, Y = low_rank(k=2)
    assert PPCARegressor(2).fit(X, Y[:, 0]).predict(X).shape == (120,)
    assert PPCARegressor(2).fit(X, Y[:, :1]).predict(X).shape == (120, 1)
    mean, std = PPCARegressor(2).fit(X, Y).predict(X, return_std=True)
    assert mean.shape == std.shape == (120, 2)
    assert PPCARegressor(2).fit(X, Y).coef_.shape == (2, 6)
    assert PPCARegressor(2).fit(X, Y[:, 0]).coef_.shape == (6,)


def test_score_is_scikit_learns_and_leaves_out_what_is_unknown():
    X, Y = low_rank(k=2)
    model = PPCARegressor(2).fit(X, Y)
    assert model.score(X, Y) == pytest.approx(r2_score(Y, model.predict(X)))
    w = np.random.default_rng(0).random(120)
    assert model.score(X, Y, w) == pytest.approx(r2_score(Y, model.predict(X), sample_weight=w))
    one = PPCARegressor(2).fit(X, Y[:, 0])
    known = np.arange(120) % 3 > 0
    assert one.score(X, np.where(known, Y[:, 0], np.nan)) == pytest.approx(
        r2_score(Y[known, 0], one.predict(X)[known])
    )
    assert len(cross_val_score(one, X, np.where(known, Y[:, 0], np.nan), cv=3)) == 3


def test_weights_are_repeated_rows_also_where_the_rank_is_chosen():
    X, Y = low_rank(n=60)
    weight = np.random.default_rng(1).integers(0, 3, 60)
    weighted = PPCARegressor().fit(X, Y[:, 0], sample_weight=weight)
    repeated = PPCARegressor().fit(np.repeat(X, weight, axis=0), np.repeat(Y[:, 0], weight))
    assert weighted.cv_errors_ == pytest.approx(repeated.cv_errors_, rel=1e-3)
    np.testing.assert_allclose(weighted.predict(X), repeated.predict(X), rtol=1e-4)


def test_the_order_of_rows_does_not_matter():
    X, Y = low_rank(n=80)
    order = np.random.default_rng(2).permutation(80)
    a = PPCARegressor().fit(X, Y[:, 0])
    b = PPCARegressor().fit(X[order], Y[order, 0])
    assert a.cv_errors_ == pytest.approx(b.cv_errors_, rel=1e-4)


@pytest.mark.parametrize("kind", ["pandas", "polars", "sparse"])
def test_tables_of_any_kind(kind):
    X, Y = low_rank(k=2)
    names = list("abcdef")
    table = {
        "pandas": lambda: (pd.DataFrame(X, columns=names), pd.DataFrame(Y, columns=["u", "v"])),
        "polars": lambda: (pl.DataFrame(X, schema=names), pl.DataFrame(Y, schema=["u", "v"])),
        "sparse": lambda: (scipy.sparse.csr_array(X), Y),
    }[kind]()
    model = PPCARegressor(2).fit(*table)
    np.testing.assert_allclose(
        model.predict(table[0]), PPCARegressor(2).fit(X, Y).predict(X), rtol=1e-6
    )
    if kind != "sparse":
        series = table[1]["u"]
        assert PPCARegressor(2).fit(table[0], series).predict(table[0]).shape == (120,)


def test_codes_for_unknown_cells_count_in_y_too():
    X, Y = low_rank()
    y = Y[:, 0].copy()
    coded = np.where(np.arange(120) % 4 == 0, -99.0, y)
    by_code = PPCARegressor(2, missing_values=-99).fit(X, coded)
    by_nan = PPCARegressor(2).fit(X, np.where(coded == -99, np.nan, y))
    np.testing.assert_allclose(by_code.predict(X), by_nan.predict(X))


def test_other_estimators_of_the_joint_table():
    X, Y = low_rank()
    y = Y[:, 0]
    same = PPCARegressor(estimator=FactorAnalysis(2, scale=True)).fit(X, y)
    np.testing.assert_allclose(same.predict(X), PPCARegressor(2).fit(X, y).predict(X), rtol=1e-6)
    with pytest.raises(ValueError, match="n_components=3 has no effect"):
        PPCARegressor(3, estimator=PPCA(2)).fit(X, y)


def test_bad_targets_are_told():
    X, Y = low_rank(k=2)
    with pytest.raises(ValueError, match="y has no value"):
        PPCARegressor(1).fit(X, np.full(120, np.nan))
    with pytest.raises(ValueError, match="column 1 of y has no value"):
        PPCARegressor(1).fit(X, np.column_stack([Y[:, 0], np.full(120, np.nan)]))
    with pytest.raises(ValueError, match="Input y"):
        PPCARegressor(1).fit(X, np.array(["a"] * 120))
    with pytest.raises(ValueError, match="requires y"):
        PPCARegressor(1).fit(X, None)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        PPCARegressor(1).fit(X, Y[:50])


def test_y_known_in_hardly_any_row_still_fits():
    X, Y = low_rank()
    y = np.where(np.arange(120) < 3, Y[:, 0], np.nan)
    model = PPCARegressor().fit(X, y)
    assert np.isfinite(model.predict(X)).all()
