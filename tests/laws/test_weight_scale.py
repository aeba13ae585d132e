"""All weights times a constant: the rows count for more, and nothing else changes.

Also what rounding tolerances have to do with it: they follow from the columns and from how cells
are stored, not from how many rows there are.
"""

import warnings

import numpy as np
import pytest
from sklearn.base import clone
from tests.tolerance import assert_same_optimum

from eigengap import (
    ICA,
    PCA,
    PPCA,
    ClassicalMDS,
    FactorAnalysis,
    KernelPCA,
    LowRankImputer,
    MixturePPCA,
    PPCAClassifier,
    PPCARegressor,
    Whitener,
)
from eigengap.fitting.gaussian.pca import fit_pca
from eigengap.sources.conversion import as_source
from eigengap.statistics.medians import medians

N, D = 40, 5
SCALES = (1e-1, 1e4, 1e10, 1e12, 1e100)


def table(missing):
    """Rows along two directions, and columns of very different units."""
    rng = np.random.default_rng(3)
    X = rng.standard_normal((N, 2)) @ rng.standard_normal((2, D))
    X = X + 0.3 * rng.standard_normal((N, D)) + 1.0
    X[rng.random((N, D)) < 0.15] = np.nan if missing else 0.5
    return X, rng.integers(1, 4, N).astype(float)


# Whitener has divisor n: with n - 1 its outputs depend on what the rows count by definition.
ESTIMATORS = {
    "PCA of all": PCA(),
    "PCA of 2": PCA(2),
    "PCA of a share": PCA(0.9),
    "PCA whitened": PCA(2, scale=True),
    "PPCA": PPCA(2, tol=1e-9),
    "PPCA with outliers": PPCA(2, distribution="student", tol=1e-9),
    "FactorAnalysis": FactorAnalysis(1, tol=1e-9),
    "MixturePPCA": MixturePPCA(2, n_components=1, random_state=0),
    "KernelPCA": KernelPCA(3, kernel="poly", degree=2),
    "ICA": ICA(random_state=0, tol=1e-6, max_iter=2000),
    "ClassicalMDS": ClassicalMDS(3),
    "LowRankImputer": LowRankImputer(PPCA(2)),
    **{
        f"Whitener {method}": Whitener(method=method, ddof=0)
        for method in ("centre", "normalise", "pca", "zca", "cholesky", "pca-cor", "zca-cor")
    },
}


def outputs(estimator, X, w):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what rows can tell is said, and depends on their number
        fitted = estimator.fit(X, sample_weight=w)
        return fitted.transform(X)


# KernelPCA fills gaps by a density whose rank depends on what the rows count.
CASES = [
    (name, missing)
    for name in ESTIMATORS
    for missing in (False, True)
    if (name, missing) != ("KernelPCA", True)
]


@pytest.mark.parametrize(("name", "missing"), CASES)
def test_scaled_weights_change_no_output(name, missing):
    X, w = table(missing)
    expected = outputs(ESTIMATORS[name], X, w)
    for scale in SCALES:
        got = outputs(ESTIMATORS[name], X, scale * w)
        # EM and ICA stop by a tolerance; how they got there may differ in the last digits.
        np.testing.assert_allclose(got, expected, rtol=1e-6, atol=1e-6, err_msg=f"{scale:g}")


@pytest.mark.parametrize("scale", SCALES)
def test_scaled_weights_change_no_prediction(scale):
    X, w = table(False)
    y = np.arange(N) % 2
    X[y == 1] += 1.0
    two = PPCAClassifier(n_components=2)
    expected = two.fit(X, y, sample_weight=w).predict_proba(X)
    got = two.fit(X, y, sample_weight=scale * w).predict_proba(X)
    np.testing.assert_allclose(got, expected, rtol=1e-6, atol=1e-9)
    line = PPCARegressor(n_components=2)
    expected = line.fit(X[:, :4], X[:, 4], sample_weight=w).predict(X[:, :4])
    got = line.fit(X[:, :4], X[:, 4], sample_weight=scale * w).predict(X[:, :4])
    np.testing.assert_allclose(got, expected, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("scale", [0.1, 1 / 3, 0.7, 1e-3, 1e160, 1e-160])
def test_scaled_weights_change_no_median(scale):
    """Halves of one weight stay so, although tenths do not add up to it exactly."""
    rng = np.random.default_rng(4)
    for n in range(2, 40):
        X = rng.standard_t(3, size=(n, 2))
        np.testing.assert_allclose(medians(X, np.full(n, scale)), np.median(X, axis=0), rtol=1e-12)
    expected, got = (
        KernelPCA(1, kernel="rbf", gamma="median").fit(X, sample_weight=np.full(len(X), w)).gamma_
        for w in (1.0, scale)
    )
    assert got == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("scale", [0.7, 7.0, 1e4])
def test_scaled_weights_change_no_robust_unit(scale):
    X, _ = table(False)
    model = PPCA(1, distribution="student", scale=True, tol=1e-9)
    expected = clone(model).fit(X).scale_
    np.testing.assert_allclose(
        clone(model).fit(X, sample_weight=np.full(N, scale)).scale_, expected, rtol=1e-10
    )


@pytest.mark.parametrize("make", [PCA, Whitener, ICA], ids=["PCA", "Whitener", "ICA"])
@pytest.mark.parametrize("scale", [1.0, 1e10, 1e12])
def test_heavy_rows_keep_small_columns(make, scale):
    rng = np.random.default_rng(0)
    X = rng.laplace(size=(200, 3)) * [1.0, 1e-2, 1e-4]
    fitted = make().fit(X, sample_weight=np.full(200, scale))
    assert fitted.transform(X).shape == (200, 3)


@pytest.mark.parametrize("scale", [1.0, 1e10, 1e12])
def test_heavy_rows_keep_small_coordinates(scale):
    X = np.random.default_rng(0).standard_normal((50, 3)) * [1.0, 1e-2, 1e-4]
    Z = ClassicalMDS(3).fit(X, sample_weight=np.full(50, scale)).embedding_
    np.testing.assert_allclose(np.std(Z, axis=0), np.std(X, axis=0), rtol=0.2)
    assert ClassicalMDS("auto").fit(X, sample_weight=np.full(50, scale)).n_components_ == 3


def test_small_weights_take_no_components():
    X, w = table(True)
    assert PCA().fit(X, sample_weight=w / np.sum(w) * 2.0).n_components_ == D - 1
    assert PPCA(3).fit(X, sample_weight=w / np.sum(w) * 2.0).n_components_ == 3


# Tolerances and the number of rows ------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("ratio", [1e-2, 1e-4])
def test_many_rows_keep_small_sources(dtype, ratio):
    X = np.random.default_rng(0).laplace(size=(200_000, 2)) * [1.0, ratio]
    assert ICA(random_state=0).fit(X.astype(dtype)).n_components_ == 2


@pytest.mark.parametrize("seed", range(6))
def test_float32_mixings_keep_all_sources(seed):
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((6, 6))
    X = (rng.laplace(size=(20_000, 6)) @ A.T).astype(np.float32)
    w = np.full(len(X), 10.0)
    assert ICA(random_state=0).fit(X, sample_weight=w).n_components_ == 6


def test_heavy_float32_rows_are_not_equal():
    X = np.random.default_rng(0).laplace(size=(1000, 3)).astype(np.float32)
    assert ICA(random_state=0).fit(X, sample_weight=np.full(1000, 1e4)).n_components_ == 3


def test_a_million_rows_keep_a_tiny_column():
    X = np.random.default_rng(0).standard_normal((1_000_000, 2)) * [1.0, 1e-10]
    assert PCA().fit(X).n_components_ == 2


@pytest.mark.parametrize("n", [4, 50, 3000, 300_000])
@pytest.mark.parametrize("offset", [0.0, 1.0, 100.0, 1e4])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rounding_is_not_a_direction(n, offset, dtype):
    """Columns that follow from others, but for the rounding of their cells and of their mean."""
    rng = np.random.default_rng(n)
    Z = rng.standard_normal((n, 2)) + offset
    X = np.column_stack([Z, Z[:, 0] + Z[:, 1], Z[:, 0] - 0.3 * Z[:, 1], Z[:, 1]]).astype(dtype)
    assert fit_pca(as_source(X)).rank(dtype) == 2
    assert PCA().fit(X).n_components_ == 2


def test_a_far_column_does_not_drown_another():
    rng = np.random.default_rng(0)
    X = np.column_stack([np.full(100, 1e20), rng.standard_normal(100), rng.standard_normal(100)])
    with pytest.warns(UserWarning, match="rank 2"):
        white = Whitener().fit_transform(X)
    np.testing.assert_allclose(np.cov(white.T), np.eye(2), atol=1e-12)


def test_weights_of_one_change_no_scores_of_kernel_pca():
    """Incomplete rows of the fit have the scores of the fit, weighted by 1 or not at all."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2)) @ rng.normal(size=(2, 6)) + 0.3 * rng.normal(size=(60, 6))
    X[rng.random(X.shape) < 0.25] = np.nan
    plain = KernelPCA(2, kernel="rbf", gamma=0.05).fit_transform(X)
    weighted = KernelPCA(2, kernel="rbf", gamma=0.05).fit_transform(X, sample_weight=np.ones(60))
    assert_same_optimum(weighted, plain)
