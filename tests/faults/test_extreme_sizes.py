"""Tables whose squares leave the range of floating point: an error that names the column, or right.

Never a raw RuntimeWarning on the way, nor another cause named.
"""

from __future__ import annotations

import contextlib
import warnings

import numpy as np
import pytest
from sklearn.base import clone

import eigengap as eg
from eigengap.estimators.shared.base import as_fitted
from eigengap.exceptions import RankDeficientWarning


def low_rank(n=30, d=4):
    rng = np.random.default_rng(0)
    return rng.normal(size=(n, 2)) @ rng.normal(size=(2, d)) + 0.1 * rng.normal(size=(n, d))


def with_missing(X):
    return np.where(np.random.default_rng(1).random(X.shape) < 0.1, np.nan, X)


WAYS = {
    "PPCA": lambda X: eg.PPCA().fit(X),
    "PPCA about 0": lambda X: eg.PPCA(fit_mean=False).fit(X),
    "FactorAnalysis": lambda X: eg.FactorAnalysis().fit(X),
    "BayesianPCA": lambda X: eg.BayesianPCA().fit(X),
    "choose_rank": lambda X: eg.choose_rank(X),
    "LowRankImputer": lambda X: eg.LowRankImputer().fit(X),
}
ways = pytest.mark.parametrize("way", WAYS)


@pytest.fixture(autouse=True)
def raw_warnings_are_errors():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", RuntimeWarning)
        yield


@ways
@pytest.mark.parametrize("missing", [False, True], ids=["complete", "gaps"])
@pytest.mark.parametrize(
    ("scale", "message"),
    [
        pytest.param(1e155, "squares overflow: column", id="1e155"),
        pytest.param(1e200, "squares overflow: column", id="1e200"),
        pytest.param([1, 1e200, 1, 1], "squares overflow: column 1", id="one column"),
        pytest.param(1e-200, "underflow", id="1e-200"),
    ],
)
def test_values_out_of_range_are_named(way, missing, scale, message):
    X = low_rank() * scale
    with pytest.raises(ValueError, match=message):
        WAYS[way](with_missing(X) if missing else X)


@ways
def test_a_table_of_few_rows_too(way):
    with pytest.raises(ValueError, match="squares overflow: column"):
        WAYS[way](np.random.default_rng(2).normal(size=(6, 12)) * 1e200)


@pytest.mark.parametrize("way", [way for way in WAYS if way != "PPCA about 0"])
def test_a_huge_constant_is_a_constant(way):
    """It has no variance, and changes nothing but its own column."""
    X = low_rank()
    X[:, 1] = 1e200
    large = WAYS[way](X)
    X[:, 1] = 1.0
    small = WAYS[way](X)
    if way == "LowRankImputer":
        large, small = large.estimator_, small.estimator_
    count = "n_components" if way == "choose_rank" else "n_components_"
    assert getattr(large, count) == getattr(small, count)


@pytest.mark.parametrize("constant", [0.1, 0.3, 1.7, 1e200])
@pytest.mark.parametrize("model", [eg.PPCA, eg.BayesianPCA])
def test_a_constant_is_not_said_to_drown_in_noise(model, constant):
    """Rounding of its mean is no variance: 30 cells of 0.1 vary by 8e-34, as numpy computes it."""
    X = low_rank()
    X[:, 1] = constant
    with warnings.catch_warnings():
        warnings.simplefilter("error", eg.exceptions.UnitsWarning)
        model().fit(X)


LARGEST = {
    "KernelPCA": lambda X: eg.KernelPCA(2, kernel="cosine").fit(X),
    "PCA": lambda X: eg.PCA(2).fit(X),
    "Isomap": lambda X: eg.Isomap(2).fit(X),
    "ClassicalMDS": lambda X: eg.ClassicalMDS(2, metric="cityblock").fit(X),
}


@pytest.mark.parametrize("way", LARGEST)
def test_values_at_the_end_of_the_range_give_no_raw_warning(way):
    with contextlib.suppress(ValueError):  # in words; a RuntimeWarning is no ValueError
        LARGEST[way](low_rank() * 1e307)


@pytest.mark.parametrize("landmarks", [None, 3])
def test_scores_whose_own_kernel_overflows_are_refused_in_words(landmarks):
    X = np.array([[2.0**63, 1.0], [2.0**64, 2.0], [5.0, 7.0], [2.0**63, 3.0]])
    model = eg.KernelPCA(2, kernel="poly", fit_inverse_transform=True, landmarks=landmarks)
    with pytest.raises(ValueError, match="the kernel overflows"):
        model.fit(X)


@pytest.mark.parametrize("constraint", ["equal", "at_most"])
@pytest.mark.parametrize("size", [1e6, 1e12])
def test_one_far_row_does_not_break_unfolding_on_landmarks(constraint, size):
    X = np.vstack([low_rank(), [size, 0.0, 0.0, 0.0]])
    model = eg.MaximumVarianceUnfolding(2, constraint=constraint, landmarks=5).fit(X)
    assert np.all(np.isfinite(model.embedding_))


@pytest.mark.parametrize("kind", [eg.PCA, eg.PPCA, eg.FactorAnalysis])
def test_no_component_at_all_has_a_standard_deviation(kind):
    """Without components an imputed value has the variance of its column, and of its mean."""
    X = with_missing(low_rank())
    filled, sd = kind(0).fit(X).impute(X, return_std=True)
    missing = np.isnan(X)
    np.testing.assert_array_equal(sd[~missing], 0.0)
    np.testing.assert_allclose(filled, np.where(missing, np.nanmean(X, axis=0), X))
    assert np.all(sd[missing] > 0.0)


@pytest.mark.parametrize("size", [1e-25, 1e25])
@pytest.mark.parametrize(
    "estimator",
    [eg.PCA(2), eg.PPCA(1), eg.FactorAnalysis(1), eg.KernelPCA(2), eg.ICA(2, random_state=0)],
    ids=str,
)
def test_float32_neither_overflows_nor_underflows_in_fitted_attributes(estimator, size):
    X = (low_rank() * size).astype(np.float32)
    single, double = clone(estimator).fit(X), clone(estimator).fit(X.astype(np.float64))
    names = [n for n in dir(type(single)) if n.endswith("_") and not n.startswith("_")]
    compared = 0
    for name in names:
        expected = getattr(double, name, None)
        if isinstance(expected, np.ndarray) and expected.dtype == np.float64:
            found = getattr(single, name)
            scale = np.max(np.abs(expected), initial=0.0)
            np.testing.assert_allclose(found / scale, expected / scale, atol=1e-5, err_msg=name)
            compared += 1
    assert compared >= 2
    assert single.transform(X).dtype == np.float32


def test_float32_is_kept_where_only_rounding_underflows():
    values = np.array([1.0, 1e-45, 0.0, np.nan])
    assert as_fitted(values, float32=True).dtype == np.float32
    assert as_fitted(values[1:], float32=True).dtype == np.float64


@pytest.mark.parametrize("method", ["pca", "zca"])
def test_incomplete_columns_of_unlike_units_are_whitened_as_far_as_digits_go(method):
    """Directions of 1e-16 of the largest are rounding, as they are in a complete table."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2)) @ rng.normal(size=(2, 6)) + 0.3 * rng.normal(size=(60, 6))
    X *= 10.0 ** np.array([-8, -4, 0, 4, 8, 2])
    X[rng.random(X.shape) < 0.2] = np.nan
    with pytest.warns(RankDeficientWarning):
        model = eg.Whitener(method=method).fit(X)
    assert model.rank_ == 5
    assert np.all(model.transform(X).std(axis=0) < 1.1)


def test_a_fit_that_rounding_ends_is_not_advised_to_take_more_steps():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2)) @ rng.normal(size=(2, 3)) + 0.3 * rng.normal(size=(60, 3))
    X *= 10.0 ** np.array([-3, 0, 3])
    X[rng.random(X.shape) < 0.1] = np.nan
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        model = eg.PCA(3, max_iter=1000).fit(X)
    assert model.n_iter_ < 1000
    assert not any("max_iter" in str(one.message) for one in heard)


@pytest.mark.filterwarnings("ignore::eigengap.exceptions.NoiseFloorWarning")
def test_columns_whose_squares_nearly_overflow_are_imputed():
    X = np.array(
        [[1e9, 8e149], [1e9 + 1.0, -3e149], [np.nan, 7e149], [1e9, -2.9e149], [1e9 - 1.0, 1.24e150]]
    )
    imputed = eg.LowRankImputer().fit(X).impute(X)
    assert 0.9e9 < imputed[2, 0] < 1.1e9
