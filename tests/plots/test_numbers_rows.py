"""Scores, their regions, biplots, imputations, odd rows, mixtures: laws, and oracles by "
"brute force."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import eigengap as eg
from eigengap.plots.numbers import (
    biplot_numbers,
    calibration,
    imputations,
    missingness_summary,
    mixture_numbers,
    outlier_numbers,
    score_ellipses,
    table_of,
)
from eigengap.plots.numbers.outliers import detector_for

# Fits warn of these tables, which are not the point here.
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")

SCALINGS = ["rows", "columns", "symmetric"]


def conditional(mu: np.ndarray, C: np.ndarray, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and covariance of a whole row of a Gaussian given its seen cells, by solving."""
    o = ~np.isnan(x)
    gain = C[:, o] @ np.linalg.inv(C[np.ix_(o, o)])
    return mu + gain @ (x[o] - mu[o]), C - gain @ C[o]


# Biplots ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("scaling", SCALINGS)
def test_biplot_shows_the_best_approximation_of_rank_two(
    scaling: str, wine: pd.DataFrame, pca: eg.PCA
) -> None:
    """Gabriel (1971), by the singular value decomposition of the standardised table."""
    Y = ((wine - wine.mean()) / wine.std(ddof=0)).to_numpy()
    U, s, Vt = np.linalg.svd(Y, full_matrices=False)
    best = (U[:, :2] * s[:2]) @ Vt[:2]
    found = biplot_numbers(pca, table_of(wine, pca), (0, 1), scaling)
    np.testing.assert_allclose(found.points @ found.arrows.T, best, atol=1e-9)


@pytest.mark.parametrize("scaling", SCALINGS)
@pytest.mark.parametrize("name", ["PPCA", "FactorAnalysis", "BayesianPCA", "ICA"])
def test_biplot_shows_what_the_components_show(name: str, scaling: str, wine: pd.DataFrame) -> None:
    model = getattr(eg, name)(2).fit(wine)
    shown = model.inverse_transform(model.transform(wine)) - model.mean_
    found = biplot_numbers(model, table_of(wine, model), (0, 1), scaling)
    np.testing.assert_allclose(found.points @ found.arrows.T, shown, atol=1e-8)


def test_each_scaling_keeps_what_it_promises(wine: pd.DataFrame) -> None:
    model = eg.PCA(scale=True).fit(wine)
    all_axes = tuple(range(model.n_components_))
    table = table_of(wine, model)
    Y = ((wine - wine.mean()) / wine.std(ddof=0)).to_numpy()
    points = biplot_numbers(model, table, all_axes, "rows").points
    np.testing.assert_allclose(points @ points.T, Y @ Y.T, atol=1e-8)  # distances of rows
    arrows = biplot_numbers(model, table, all_axes, "columns").arrows
    np.testing.assert_allclose(arrows @ arrows.T, np.corrcoef(Y, rowvar=False), atol=1e-8)


# Regions of scores -----------------------------------------------------------------------------


@pytest.mark.parametrize("whiten", [False, True], ids=["plain", "whitened"])
@pytest.mark.parametrize("scale", [False, True], ids=["covariance", "correlation"])
def test_regions_of_pca_are_those_of_a_dense_gaussian(
    whiten: bool, scale: bool, incomplete: np.ndarray
) -> None:
    model = eg.PCA(3, whiten=whiten, scale=scale).fit(incomplete)
    found = score_ellipses(model, incomplete, (0, 2), most=20)
    assert found is not None
    mu, C = model.model_.mu, model.get_covariance()
    unit = np.ones(8) if model.scale_ is None else model.scale_
    spread = np.sqrt(model.explained_variance_) if whiten else np.ones(3)
    A = (model.components_ / spread[:, None])[[0, 2]] / unit
    for i, centre, cov in zip(found.at, found.centre, found.cov, strict=True):
        mean, covariance = conditional(mu, C, incomplete[i])
        np.testing.assert_allclose(centre, A @ (mean - mu), atol=1e-8)
        np.testing.assert_allclose(cov, A @ covariance @ A.T, atol=1e-8)


@pytest.mark.parametrize("rotation", [None, "varimax", "oblimin"])
def test_regions_of_factors_are_those_of_a_dense_gaussian(
    rotation: str | None, incomplete: np.ndarray
) -> None:
    model = eg.FactorAnalysis(3, rotation=rotation).fit(incomplete)
    found = score_ellipses(model, incomplete, (0, 1), most=20)
    assert found is not None
    T = model.rotation_.T
    W, psi, mu = model.model_.W, model.model_.psi, model.model_.mu
    for i, centre, cov in zip(found.at, found.centre, found.cov, strict=True):
        o = ~np.isnan(incomplete[i])
        S = np.linalg.inv(np.eye(3) + W[o].T @ (W[o] / psi[o, None]))
        m = S @ W[o].T @ ((incomplete[i] - mu)[o] / psi[o])
        np.testing.assert_allclose(centre, (T.T @ m)[:2], atol=1e-7)
        np.testing.assert_allclose(cov, (T.T @ S @ T)[:2, :2], atol=1e-7)


@pytest.mark.parametrize("name", ["PCA", "PPCA"])
def test_regions_hold_the_scores_that_they_promise_to_hold(name: str) -> None:
    """Rows of a known density, hidden in part: 95 % of the true scores lie within."""
    rng = np.random.default_rng(2)
    W = rng.normal(size=(8, 2)) * [2.0, 1.0]
    Z = rng.normal(size=(3000, 2))
    X = Z @ W.T + 0.7 * rng.normal(size=(3000, 8))
    holes = np.where(rng.random(X.shape) < 0.4, np.nan, X)
    model = getattr(eg, name)(2).fit(X)
    found = score_ellipses(model, holes, (0, 1), most=3000)
    assert found is not None
    if name == "PCA":
        true = model.transform(X)[found.at]
    else:  # the latents in the model's own frame
        R = np.linalg.lstsq(Z, model.transform(X), rcond=None)[0]
        U, _, Vt = np.linalg.svd(R)
        true = (Z @ U @ Vt)[found.at]
    # One hidden cell leaves one direction open, and PCA's region is a line: not for this test.
    open_both = np.isnan(holes).sum(axis=1)[found.at] > 2
    away, cov = (true - found.centre)[open_both], found.cov[open_both]
    distance = np.einsum("ij,ijk,ik->i", away, np.linalg.inv(cov), away)
    assert abs(np.mean(distance <= stats.chi2.ppf(0.95, 2)) - 0.95) < 0.02


def test_outline_lies_at_one_distance(ppca: eg.PPCA, incomplete: np.ndarray) -> None:
    found = score_ellipses(ppca, incomplete, (0, 1), most=5)
    assert found is not None
    for outline, centre, cov in zip(found.outlines(), found.centre, found.cov, strict=True):
        away = outline - centre
        distance = np.einsum("ij,jk,ik->i", away, np.linalg.inv(cov), away)
        np.testing.assert_allclose(distance, stats.chi2.ppf(0.95, 2))


# Imputations -----------------------------------------------------------------------------------
# Imputations -----------------------------------------------------------------------------------


def test_fills_are_those_of_impute(ppca: eg.PPCA, incomplete: np.ndarray) -> None:
    found = imputations(ppca, incomplete)
    filled, sd = ppca.impute(incomplete, return_std=True)
    assert len(found.value) == np.isnan(incomplete).sum()
    np.testing.assert_allclose(found.value, filled[np.isnan(incomplete)])
    np.testing.assert_allclose(
        found.high - found.value, 1.959964 * sd[np.isnan(incomplete)], rtol=1e-6
    )


def test_coverage_is_about_what_the_intervals_promise(
    ppca: eg.PPCA, incomplete: np.ndarray, truth: np.ndarray
) -> None:
    found = calibration(ppca, incomplete, truth=truth)
    assert abs(found.coverage - 0.95) < 0.03
    levels = np.array([0.5, 0.8, 0.95])
    np.testing.assert_allclose(found.coverage_at(levels), levels, atol=0.06)


def test_hidden_cells_are_observed_cells(ppca: eg.PPCA, incomplete: np.ndarray) -> None:
    found = calibration(ppca, incomplete, share=0.2)
    np.testing.assert_array_equal(
        found.truth, incomplete[found.imputations.row, found.imputations.column]
    )


def test_intervals_of_an_imputer_keep_its_bounds(incomplete: np.ndarray) -> None:
    imputer = eg.LowRankImputer(eg.PPCA(2), bounds=(-1.0, 1.0)).fit(incomplete)
    found = imputations(imputer, incomplete)
    assert found.low.min() >= -1.0
    assert found.high.max() <= 1.0


# Odd rows --------------------------------------------------------------------------------------


def test_limits_have_the_p_value_that_they_promise(incomplete: np.ndarray) -> None:
    detector = eg.NoveltyDetector().fit(incomplete)
    found = outlier_numbers(detector, incomplete)
    statistics = detector.statistics(incomplete)
    for name, limit in (("T2", found.T2_limit), ("SPE", found.SPE_limit)):
        statistic = getattr(statistics, name)
        usable = statistic.dof > 0
        beyond = statistic.value > limit
        np.testing.assert_array_equal(beyond[usable], (statistic.p_value < 0.05)[usable])


def test_shares_of_the_oddest_rows_sum_to_their_distance(incomplete: np.ndarray) -> None:
    detector = eg.NoveltyDetector().fit(incomplete)
    found = outlier_numbers(detector, incomplete, most=4)
    expected = detector.statistics(incomplete).D2.value[found.least_probable]
    np.testing.assert_allclose(found.shares.sum(axis=1), expected)
    assert list(found.least_probable) == list(np.argsort(detector.score_samples(incomplete))[:4])


def test_a_model_serves_as_the_detector_around_it(incomplete: np.ndarray) -> None:
    model = eg.FactorAnalysis(2).fit(incomplete)
    expected = eg.NoveltyDetector(eg.FactorAnalysis(2)).fit(incomplete).score_samples(incomplete)
    np.testing.assert_allclose(detector_for(model).score_samples(incomplete), expected, rtol=0.02)


def test_student_noise_is_refused_in_words(incomplete: np.ndarray) -> None:
    model = eg.PPCA(2, distribution="student").fit(incomplete)
    with pytest.raises(AttributeError, match=r"NoveltyDetector\(estimator\)\.fit\(X\) takes"):
        outlier_numbers(model, incomplete)


# Mixtures --------------------------------------------------------------------------------------


def test_components_hold_their_own_draws(iris: pd.DataFrame) -> None:
    model = eg.MixturePPCA(2, 1, random_state=0).fit(iris)
    rows, which = model.sample(6000, random_state=0)
    found = mixture_numbers(model, rows)
    for k in range(2):
        away = found.points[which == k] - found.ellipses.centre[k]
        inverse = np.linalg.inv(found.ellipses.cov[k])
        distance = np.einsum("ij,jk,ik->i", away, inverse, away)
        assert abs(np.mean(distance <= stats.chi2.ppf(0.95, 2)) - 0.95) < 0.02


def test_classes_are_components_too(iris: pd.DataFrame) -> None:
    model = eg.PPCAClassifier(1).fit(iris, np.repeat(["a", "b", "c"], 50))
    found = mixture_numbers(model, iris.to_numpy())
    assert found.names == ["a", "b", "c"]
    np.testing.assert_allclose(found.resp, model.predict_proba(iris))


# Gaps ------------------------------------------------------------------------------------------


def test_patterns_are_counted(incomplete: np.ndarray) -> None:
    found = missingness_summary(table_of(incomplete), most=5)
    counted = pd.DataFrame(np.isnan(incomplete)).value_counts()
    assert list(found.rows) == list(counted.iloc[:5])
    assert found.rows.sum() + found.other_rows == len(incomplete)
    assert found.others == len(counted) - 5
    for pattern, rows in zip(found.patterns, found.rows, strict=True):
        assert np.all(np.isnan(incomplete) == pattern, axis=1).sum() == rows
    np.testing.assert_array_equal(found.per_column, np.isnan(incomplete).sum(axis=0))


def test_a_large_table_is_sampled_and_counted_as_a_whole(incomplete: np.ndarray) -> None:
    table = table_of(incomplete, most=50)
    assert table.is_sampled
    assert len(table.at) == 50
    np.testing.assert_array_equal(table.X, incomplete[table.at])
    np.testing.assert_array_equal(table.missing, np.isnan(incomplete).sum(axis=0))
    again = table_of(incomplete, most=50)
    np.testing.assert_array_equal(table.at, again.at)
