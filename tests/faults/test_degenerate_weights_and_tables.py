"""Tiny weights, tables without variance and very few rows: the cause in words, or a result."""

import warnings

import numpy as np
import pytest

import eigengap as eg
from eigengap.exceptions import DataError


@pytest.fixture(autouse=True)
def raw_warnings_are_errors():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", RuntimeWarning)
        yield


def table(n=60):
    return np.random.default_rng(0).normal(size=(n, 6)) * [5, 3, 1, 1, 1, 1]


def test_a_class_of_tiny_weights_is_named():
    y = np.array(["a", "b", "c"])[np.arange(60) % 3]
    w = np.where(y == "b", 1e-8, 1.0)
    with pytest.raises(DataError, match=r"sample_weight sums to 2e-07 in class .?b"):
        eg.PPCAClassifier(1).fit(table(), y, sample_weight=w)


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("estimator", [eg.PCA(1), eg.PPCA(1), eg.FactorAnalysis(1)], ids=str)
def test_weights_whose_inverse_overflows_are_refused_in_words(estimator, missing):
    X, w = table(), np.random.default_rng(0).random(60) * 1e-310
    if missing:
        X[::7, 2] = np.nan
    with pytest.raises(DataError, match="weights are frequencies"):
        estimator.fit(X, sample_weight=w)


def test_a_row_of_almost_no_weight_is_drawn_last():
    w = np.full(60, 1e-310)
    w[:50], w[59] = 1.0, 0.0
    source = eg.sources.as_source(np.arange(60.0)[:, None], sample_weight=w)
    drawn = source.sample(59, np.random.default_rng(0)).ravel()
    assert set(drawn[:50]) == set(range(50))
    assert 59.0 not in drawn


def test_a_constant_table_is_imputed_without_deviation_under_student_noise():
    X = np.full((30, 3), 7.0)
    X[0, 0] = np.nan
    model = eg.PPCA(0, distribution="student").fit(X)
    imputed, sd = model.impute(X, return_std=True)
    assert np.all(imputed == 7.0)
    assert np.all(sd == 0.0)
    assert np.all(next(model.sample_imputations(X, 1, random_state=0)) == 7.0)


def test_intervals_of_very_few_rows_give_no_raw_warning():
    found = eg.confidence_intervals(eg.PPCA(1), table()[:3], n_boot=20)
    assert np.all(np.asarray(found.noise_variance.high) >= np.asarray(found.noise_variance.low))
