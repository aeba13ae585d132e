"""What must hold of confidence intervals whatever the data."""

import numpy as np
import pandas as pd
import pytest

import eigengap as eg
from eigengap.inference.confidence import confidence_intervals, onto, resampled


def table(n=150, d=6, missing=0.0, seed=0):
    rng = np.random.default_rng(seed)
    clear = [[1.5, 0.2], [1.3, 0.0], [-1.2, 0.3], [0.1, 1.1], [0.2, 1.2], [-0.1, 0.9]]
    W = np.resize(clear, (d, 2))
    X = rng.normal(size=(n, 2)) @ W.T + rng.normal(size=(n, d))
    X[rng.random(X.shape) < missing] = np.nan
    return X


ESTIMATORS = [eg.PPCA(2), eg.FactorAnalysis(2), eg.FactorAnalysis(2, rotation="varimax")]
OBLIQUE = eg.FactorAnalysis(2, rotation="promax")


@pytest.mark.parametrize("estimator", [*ESTIMATORS, OBLIQUE], ids=str)
@pytest.mark.parametrize("method", ["bootstrap", "parametric", "asymptotic"])
@pytest.mark.parametrize("align", ["rotation", "axes"])
def test_limits_are_ordered_and_around_the_fit(estimator, method, align):
    X = table(missing=0.1)
    fitted = estimator.fit(X)
    before = fitted.loadings_.copy()
    found = confidence_intervals(fitted, X, method=method, align=align, n_boot=4)
    np.testing.assert_array_equal(found.loadings.estimate, before)
    np.testing.assert_array_equal(fitted.loadings_, before)
    np.testing.assert_array_equal(found.explained_variance.estimate, fitted.explained_variance_)
    for part in (found.loadings, found.explained_variance, found.mean):
        assert np.all(part.low < part.estimate)
        assert np.all(part.estimate < part.high)
    assert np.all(found.noise_variance.low > 0)


@pytest.mark.parametrize(("estimator", "missing"), [(eg.PPCA(2), 0.1), (eg.FactorAnalysis(2), 0.0)])
def test_methods_agree_on_a_long_gaussian_table(estimator, missing):
    X = table(n=600, missing=missing)
    fitted = estimator.fit(X)
    a = confidence_intervals(fitted, X, method="asymptotic")
    for method in ("bootstrap", "parametric"):
        b = confidence_intervals(fitted, X, method=method, n_boot=80)
        for part in ("loadings", "explained_variance", "mean", "noise_variance"):
            ratio = getattr(b, part).se / getattr(a, part).se
            # 80 replicates know a standard deviation to 8 %
            assert np.all(np.abs(np.log(ratio)) < 0.4), (method, part, ratio)
            assert abs(np.log(ratio).mean()) < 0.2


def test_a_rotated_fit_is_aligned_back():
    rng = np.random.default_rng(1)
    W = rng.normal(size=(7, 3))
    R = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    T = rng.normal(size=(3, 3))  # an oblique rotation of the reference
    aligned = onto(W, W @ T, rng.uniform(1, 9, size=7), "rotation")
    np.testing.assert_allclose(aligned(W @ R, W @ R), W @ T, atol=1e-10)


def test_more_confidence_is_wider_and_nested():
    X = table()
    narrow, wide = (
        confidence_intervals(eg.PPCA(2), X, method="asymptotic", level=level)
        for level in (0.5, 0.99)
    )
    assert np.all(wide.loadings.low < narrow.loadings.low)
    assert np.all(wide.loadings.high > narrow.loadings.high)
    assert np.all(wide.noise_variance.high > narrow.noise_variance.high)


@pytest.mark.parametrize("missing", [0.0, 0.2])
@pytest.mark.parametrize("method", ["bootstrap", "asymptotic"])
def test_units_and_origin_of_factor_analysis(method, missing):
    """Loadings of factor analysis follow the units of the columns, and so do their limits."""
    X = table(missing=missing)
    unit, origin = np.array([1e-3, 1.0, 50.0, 2.0, 1e4, 7.0]), np.linspace(-30, 30, 6)
    model = eg.FactorAnalysis(2, tol=1e-9)
    plain, scaled = (
        confidence_intervals(model, data, method=method, n_boot=5)
        for data in (X, X * unit + origin)
    )
    np.testing.assert_allclose(scaled.loadings.se, plain.loadings.se * unit[:, None], rtol=2e-4)
    np.testing.assert_allclose(scaled.mean.low, plain.mean.low * unit + origin, rtol=1e-3)
    np.testing.assert_allclose(scaled.noise_variance.se, plain.noise_variance.se, rtol=1e-3)


@pytest.mark.parametrize("missing", [0.0, 0.2])
def test_a_weight_is_a_repeated_row(missing):
    X = table(missing=missing)
    w = np.random.default_rng(2).integers(1, 4, size=len(X))
    weighted = confidence_intervals(eg.PPCA(2, tol=1e-9), X, sample_weight=w, method="asymptotic")
    repeated = confidence_intervals(eg.PPCA(2, tol=1e-9), np.repeat(X, w, 0), method="asymptotic")
    np.testing.assert_allclose(weighted.loadings.low, repeated.loadings.low, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(weighted.mean.high, repeated.mean.high, rtol=1e-6)


def test_counts_are_a_resample():
    rng = np.random.default_rng(3)
    observed = rng.random((60, 4)) < 0.9
    weight = rng.integers(0, 3, size=60).astype(float)
    drawn = np.array([resampled(observed, weight, rng) for _ in range(2000)])
    np.testing.assert_allclose(drawn.sum(axis=1), weight.sum())
    assert np.all(drawn[:, weight == 0] == 0)
    np.testing.assert_allclose(drawn.mean(axis=0), weight, atol=6 * np.sqrt(2 / 2000))


def test_the_seed_decides_and_threads_do_not():
    X = table(missing=0.1)
    one, two, other = (
        confidence_intervals(eg.PPCA(2), X, n_boot=6, random_state=seed, n_jobs=jobs)
        for seed, jobs in ((0, None), (0, 2), (1, None))
    )
    np.testing.assert_array_equal(one.loadings.low, two.loadings.low)
    assert not np.array_equal(one.loadings.low, other.loadings.low)


def test_frames_keep_their_names():
    frame = pd.DataFrame(table(missing=0.1), columns=list("abcdef"))
    found = confidence_intervals(eg.PPCA(2).fit(frame), frame, method="asymptotic")
    lines = found.to_frame()
    assert list(lines.columns) == [
        "parameter", "feature", "component", "estimate", "low", "high",
    ]  # fmt: skip
    assert set(lines.feature) == {*"abcdef", "all"}
    assert len(lines) == 12 + 2 + 6 + 1
    loading = lines[(lines.parameter == "loading") & (lines.feature == "c")]
    np.testing.assert_array_equal(loading.low, found.loadings.low[2])
    assert "95% intervals" in repr(found)


def test_standardising_is_resampled_too():
    """With scale=True units do not matter, and loadings stay in the data's."""
    X, unit = table(), np.array([1.0, 10.0, 1.0, 1e-3, 1.0, 100.0])
    model = eg.PPCA(2, scale=True)
    plain, scaled = (confidence_intervals(model, data, n_boot=8) for data in (X, X * unit))
    np.testing.assert_allclose(scaled.loadings.se, plain.loadings.se * unit[:, None], rtol=1e-6)
    np.testing.assert_allclose(scaled.noise_variance.low, plain.noise_variance.low, rtol=1e-6)


def heywood_table():
    X = table(n=40, d=4, seed=7)
    X[:, 3] = X[:, 0] + X[:, 1]
    return X


@pytest.mark.filterwarnings("ignore:the noise variance fell")
@pytest.mark.parametrize(
    ("estimator", "X", "keywords", "words"),
    [
        (eg.PPCA(2, scale=True), table(), {"method": "asymptotic"}, "scale=True"),
        (eg.PPCA(2, loading_precision=1.0), table(), {"method": "asymptotic"}, "loading_precision"),
        (eg.FactorAnalysis(2), heywood_table(), {"method": "asymptotic"}, "bound|singular"),
        (eg.PPCA(5), table(20, 900), {"method": "asymptotic"}, "5401 parameters"),
        (eg.PPCA(2).fit(table()), table() + 1, {}, "not the table"),
        (eg.PPCA(2).fit(table()), table(d=5), {}, "5 features"),
        (eg.PPCA(2), table(), {"level": 95}, "between 0 and 1"),
        (eg.PPCA(2), table(), {"method": "jackknife"}, "method must be"),
        (eg.PPCA(2), table(), {"align": "sign"}, "align must be"),
        (eg.PPCA(2), table(), {"n_boot": 1}, "n_boot"),
    ],
)
def test_what_cannot_be_is_said(estimator, X, keywords, words):
    with pytest.raises(ValueError, match=words):
        confidence_intervals(estimator, X, **keywords)


def test_a_column_observed_once_cannot_be_resampled():
    X = table(30)
    X[1:, 4] = np.nan
    with pytest.raises(ValueError, match="Column 4 has 1 observed value"):
        confidence_intervals(eg.PPCA(1), X, n_boot=3)


def test_known_cell_noise_and_student_rows_are_resampled():
    X, sd = table(80), np.full((80, 6), 0.3)
    found = confidence_intervals(eg.PPCA(2), X, cell_sd=sd, n_boot=6)
    assert np.all(found.noise_variance.low > 0)
    robust = confidence_intervals(
        eg.PPCA(2, distribution="student"), X, method="parametric", n_boot=6
    )
    assert np.all(robust.loadings.se > 0)
    for estimator, keywords in (
        (eg.PPCA(2), {"cell_sd": sd}),
        (eg.PPCA(2, distribution="student"), {}),
    ):
        with pytest.raises(ValueError, match="same in every row"):
            confidence_intervals(estimator, X, method="asymptotic", **keywords)
