"""Correlations, contributions and cos2, against NumPy and against FactoMineR's definitions.

S. Le, J. Josse, F. Husson (2008), FactoMineR: an R package for multivariate analysis, Journal of
Statistical Software 25(1).
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import eigengap as eg
from eigengap.plots.numbers import (
    correlations,
    row_contributions,
    row_cos2,
    table_of,
    variable_contributions,
    variable_cos2,
)

# Fits warn of these tables, which are not the point here.
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")

LINEAR = {
    "pca": lambda: eg.PCA(3),
    "pca_scaled": lambda: eg.PCA(3, scale=True),
    "pca_whitened": lambda: eg.PCA(3, whiten=True, scale=True),
    "ppca": lambda: eg.PPCA(3, scale=True),
    "factors": lambda: eg.FactorAnalysis(3, tol=1e-9),
    "varimax": lambda: eg.FactorAnalysis(3, rotation="varimax", tol=1e-9),
    "oblimin": lambda: eg.FactorAnalysis(3, rotation="oblimin", tol=1e-9),
    "bayesian": lambda: eg.BayesianPCA(3, scale=True),
    "ica": lambda: eg.ICA(1, random_state=0),
    "mds": lambda: eg.ClassicalMDS(3),
}


def against_numpy(X: np.ndarray, T: np.ndarray) -> np.ndarray:
    d = X.shape[1]
    return np.corrcoef(X, T, rowvar=False)[:d, d:]


@pytest.mark.parametrize("name", LINEAR)
def test_circle_is_the_correlation_of_columns_with_scores(name: str, wine: pd.DataFrame) -> None:
    model = LINEAR[name]().fit(wine)
    expected = against_numpy(wine.to_numpy(), model.transform(wine))
    found = correlations(model, table_of(wine, model))
    np.testing.assert_allclose(found, expected, atol=1e-10)


@pytest.mark.parametrize("name", ["pca_scaled", "pca_whitened", "ppca", "factors", "oblimin"])
def test_the_model_alone_knows_the_correlations(name: str, wine: pd.DataFrame) -> None:
    """Of complete data: PCA exactly, factor analysis at its optimum."""
    model = LINEAR[name]().fit(wine)
    expected = against_numpy(wine.to_numpy(), model.transform(wine))
    np.testing.assert_allclose(correlations(model), expected, atol=1e-5)


def test_correlations_under_missing_are_near_those_of_the_complete_table(
    truth: np.ndarray, incomplete: np.ndarray, ppca: eg.PPCA
) -> None:
    complete = eg.PPCA(3).fit(truth)
    expected = against_numpy(truth, complete.transform(truth))
    found = correlations(ppca, table_of(incomplete, ppca))
    np.testing.assert_allclose(found, expected, atol=0.08)


def test_no_variable_leaves_the_circle(incomplete: np.ndarray) -> None:
    for q in (1, 3, 7):
        model = eg.PPCA(q, scale=True).fit(incomplete)
        for table in (None, table_of(incomplete, model)):
            assert np.all(np.sum(correlations(model, table) ** 2, axis=1) <= 1 + 1e-9)


def test_columns_without_linear_map_need_the_table(iris: pd.DataFrame) -> None:
    model = eg.KernelPCA(2, gamma=0.1).fit(iris)
    with pytest.raises(AttributeError, match=r"keeps no loadings .* PCA, PPCA"):
        correlations(model)
    expected = against_numpy(iris.to_numpy(), model.transform(iris))
    np.testing.assert_allclose(correlations(model, table_of(iris, model)), expected, atol=1e-10)


def test_a_constant_column_correlates_with_nothing(truth: np.ndarray) -> None:
    X = truth.copy()
    X[:, 2] = 7.0
    model = eg.PCA(2).fit(X)
    assert np.all(correlations(model, table_of(X, model))[2] == 0.0)


@pytest.mark.parametrize("name", LINEAR)
def test_contributions_sum_to_100(name: str, wine: pd.DataFrame) -> None:
    model = LINEAR[name]().fit(wine)
    np.testing.assert_allclose(variable_contributions(model).sum(axis=0), 100.0)


def test_contributions_are_those_of_factominer(wine: pd.DataFrame, pca: eg.PCA) -> None:
    """var$contrib = 100 coord^2 / eigenvalue, var$cos2 = coord^2; ind$contrib, ind$cos2."""
    Y = ((wine - wine.mean()) / wine.std(ddof=0)).to_numpy()
    _, s, Vt = np.linalg.svd(Y / np.sqrt(len(Y)), full_matrices=False)
    coord = Vt.T * s
    np.testing.assert_allclose(variable_contributions(pca), 100 * coord**2 / s**2, atol=1e-9)
    table = table_of(wine, pca)
    np.testing.assert_allclose(variable_cos2(pca, table), coord**2, atol=1e-9)
    scores = Y @ Vt.T
    expected = 100 * scores**2 / (len(Y) * s**2)
    np.testing.assert_allclose(row_contributions(pca, table), expected, atol=1e-8)
    expected = scores**2 / np.sum(Y**2, axis=1, keepdims=True)
    np.testing.assert_allclose(row_cos2(pca, table), expected, atol=1e-9)


@pytest.mark.parametrize("scale", [False, True], ids=["covariance", "correlation"])
def test_cos2_sums_to_one_over_all_components(scale: bool, wine: pd.DataFrame) -> None:
    model = eg.PCA(scale=scale).fit(wine)
    table = table_of(wine, model)
    np.testing.assert_allclose(variable_cos2(model, table).sum(axis=1), 1.0, atol=1e-8)
    np.testing.assert_allclose(row_cos2(model, table).sum(axis=1), 1.0, atol=1e-8)


def test_what_is_not_known_of_a_row_is_not_represented(
    truth: np.ndarray, incomplete: np.ndarray
) -> None:
    model = eg.PCA(7).fit(truth)
    complete = row_cos2(model, table_of(truth, model)).sum(axis=1)
    partly = row_cos2(model, table_of(incomplete, model)).sum(axis=1)
    holes = np.isnan(incomplete).any(axis=1)
    assert np.all(partly <= 1.0 + 1e-12)
    np.testing.assert_allclose(partly[~holes], complete[~holes])
    assert np.mean(partly[holes]) < np.mean(complete[holes])


def test_rows_need_orthogonal_components(wine: pd.DataFrame) -> None:
    model = eg.FactorAnalysis(2, rotation="oblimin").fit(wine)
    with pytest.raises(AttributeError, match="orthogonal directions"):
        row_cos2(model, table_of(wine, model))
