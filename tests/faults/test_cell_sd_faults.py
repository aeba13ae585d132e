"""Cells of a huge measurement error count as missing, and do not disturb the fit of the others."""

import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import eigengap as eg


def table():
    rng = np.random.default_rng(0)
    factors = rng.normal(size=(300, 2)) @ rng.normal(size=(2, 6)) * [3.0, 2.0, 2.0, 1.0, 1.0, 1.0]
    return factors + rng.normal(size=(300, 6))


@pytest.mark.parametrize("size", [1e2, 1e6, 1e12])
@pytest.mark.parametrize("others", [0.0, 0.1], ids=["unknown", "known"])
@pytest.mark.parametrize("estimator", [eg.PPCA(2), eg.FactorAnalysis(2)], ids=str)
@pytest.mark.filterwarnings("ignore")
def test_a_few_cells_of_huge_error_are_as_if_missing(estimator, others, size):
    X = table()
    X[:20, 2] = np.nan
    cell_sd = np.full(X.shape, others)
    known = others * np.ones_like(X)
    cell_sd[::5, 2] = size
    model = estimator.fit(X, cell_sd=cell_sd)
    assert model.converged_
    mean, sd = model.impute(X, return_std=True, cell_sd=known)
    missing = np.where(cell_sd == size, np.nan, X)
    without = type(estimator)(estimator.n_components).fit(missing, cell_sd=known + 1e-9)
    expected, expected_sd = without.impute(X, return_std=True, cell_sd=known)
    np.testing.assert_allclose(mean, expected, atol=0.01)
    np.testing.assert_allclose(sd, expected_sd, rtol=0.01, atol=1e-9)


def test_a_tolerance_below_rounding_is_not_blamed_on_the_noise():
    X = np.where(np.random.default_rng(1).random((300, 6)) < 0.1, np.nan, table())
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        model = eg.PPCA(2, tol=0).fit(X)
    said = [str(w.message) for w in heard if w.category is ConvergenceWarning]
    assert len(said) == 1 - model.converged_
    assert all("lost in rounding. A larger tol" in text for text in said)
