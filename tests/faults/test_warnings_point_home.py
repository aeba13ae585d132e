"""A warning names the column, and points at the line of the user's own file."""

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import eigengap as eg


def coded():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 2)) @ rng.normal(size=(2, 5)) + 0.3 * rng.normal(size=(120, 5))
    X[:15, 3] = -999.0
    return pd.DataFrame(X, columns=list("abcde"))


Y = np.arange(120) % 2

FITS = {
    "PPCA": lambda X: eg.PPCA(2).fit(X),
    "fit_transform": lambda X: eg.PPCA(2).fit_transform(X),
    "FactorAnalysis": lambda X: eg.FactorAnalysis(1).fit(X),
    "BayesianPCA": lambda X: eg.BayesianPCA(2).fit(X),
    "MixturePPCA": lambda X: eg.MixturePPCA(2, 1).fit(X),
    "PPCAClassifier": lambda X: eg.PPCAClassifier(1).fit(X, Y),
    "PPCARegressor": lambda X: eg.PPCARegressor(1).fit(X, Y),
    "NoveltyDetector": lambda X: eg.NoveltyDetector().fit(X),
    "LowRankImputer": lambda X: eg.LowRankImputer().fit(X),
    "LowRankImputer of FA": lambda X: eg.LowRankImputer(eg.FactorAnalysis(1)).fit(X),
    "choose_rank": lambda X: eg.choose_rank(X, criteria=["bic"]),
    "compare": lambda X: eg.compare({"one": eg.PPCA(1), "two": eg.PPCA(2)}, X, cv=3),
    "pipeline": lambda X: make_pipeline(eg.LowRankImputer(), StandardScaler()).fit(X),
    "cross_val_score": lambda X: cross_val_score(eg.PPCA(1), X, cv=2),
}


@pytest.mark.parametrize("fit", FITS.values(), ids=FITS.keys())
def test_warnings_name_the_column_and_point_at_the_caller(fit):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fit(coded())
    codes = [w for w in caught if issubclass(w.category, eg.exceptions.SentinelWarning)]
    assert codes
    assert all('column "d" holds -999' in str(w.message) for w in codes)
    assert [w.filename for w in caught if w.filename != __file__] == []


@pytest.mark.parametrize("name", ["PPCA", "PPCAClassifier", "PPCARegressor", "LowRankImputer"])
def test_a_code_is_told_once(name):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        FITS[name](coded())
    assert sum(issubclass(w.category, eg.exceptions.SentinelWarning) for w in caught) == 1


def test_forgotten_cell_sd_points_at_the_caller():
    X = coded().replace(-999.0, np.nan)
    model = eg.PPCA(2).fit(X, cell_sd=np.full(X.shape, 0.1))
    for method in (model.transform, model.impute, model.score):
        with pytest.warns(eg.exceptions.ForgottenCellSdWarning) as caught:
            method(X)
        assert {w.filename for w in caught} == {__file__}


def test_a_code_in_y_is_told_as_such():
    y = np.random.default_rng(1).normal(size=120)
    y[:10] = -999.0
    with pytest.warns(eg.exceptions.SentinelWarning, match='column "y" holds -999 in 10'):
        eg.PPCARegressor(1).fit(coded().replace(-999.0, np.nan), y)
