"""What reviews of the probabilistic family found, kept."""

import warnings

import numpy as np
import pandas as pd
import pytest

import eigengap as eg
from eigengap.linalg import principal_angles


def low_rank(rng, n=200, d=10, q=3, noise=0.3):
    W = rng.normal(size=(d, q))
    return lambda m=n: rng.normal(size=(m, q)) @ W.T + noise * rng.normal(size=(m, d))


def test_student_rows_make_a_detector_that_outliers_do_not_blind():
    """p-values of the t law itself let everything pass: 0 % of shifted rows were flagged."""
    rng = np.random.default_rng(0)
    draw = low_rank(rng)
    X = draw()
    X[:8] += 40 * rng.normal(size=(8, 10))
    new = draw(500)
    shifted = new.copy()
    shifted[:, 2] += 2.0
    detector = eg.NoveltyDetector(eg.PPCA(3, distribution="student")).fit(X)
    assert np.mean(detector.predict(new) == -1) < 0.1
    assert np.mean(detector.predict(shifted) == -1) > 0.9
    assert np.all(detector.predict(X[:8]) == -1)


UNITS = np.array([10.0, 12000.0, 1e-3, 5.0, 1.4])


@pytest.mark.parametrize("model", [eg.PPCA(2), eg.BayesianPCA(2), eg.MixturePPCA(1, 2)], ids=repr)
def test_one_noise_for_columns_of_very_different_size_is_told(model):
    rng = np.random.default_rng(1)
    X = low_rank(rng, d=5, q=2)() * UNITS
    with pytest.warns(eg.exceptions.UnitsWarning, match=r"column.* 2.*scale=True"):
        model.fit(X)
    with warnings.catch_warnings():
        warnings.simplefilter("error", eg.exceptions.UnitsWarning)
        model.set_params(scale=True).fit(X)
        model.set_params(scale=False).fit(X / UNITS)


def test_known_noise_in_the_fit_alone_is_told():
    rng = np.random.default_rng(2)
    X = low_rank(rng)()
    sd = rng.uniform(0.1, 1.0, X.shape)
    model = eg.PPCA(3).fit(X, cell_sd=sd)
    for method in (model.transform, model.impute, model.score, model.posterior):
        with pytest.warns(eg.exceptions.ForgottenCellSdWarning, match="fitted with cell_sd"):
            method(X)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.transform(X, cell_sd=sd)
        eg.PPCA(3).fit(X).transform(X)


def test_rows_of_cell_sd_in_another_order_are_refused():
    rng = np.random.default_rng(3)
    X = pd.DataFrame(low_rank(rng)())
    sd = pd.DataFrame(rng.uniform(0.1, 1.0, X.shape))
    with pytest.raises(ValueError, match=r"cell_sd\.loc\[X\.index\]"):
        eg.PPCA(3).fit(X, cell_sd=sd.sample(frac=1.0, random_state=0))


@pytest.mark.parametrize(
    "fit",
    [
        lambda X: eg.PPCAClassifier(1).fit(X, np.arange(len(X)) % 2),
        lambda X: eg.choose_rank(X, criteria=["bic"]),
        lambda X: eg.NoveltyDetector(eg.PPCA(1)).fit(X),
    ],
)
def test_undeclared_codes_are_told_everywhere(fit):
    X = low_rank(np.random.default_rng(4))()
    X[:20, 1] = -999.0
    with pytest.warns(eg.exceptions.SentinelWarning, match="-999"):
        fit(X)


def test_a_detector_takes_codes():
    X = low_rank(np.random.default_rng(5))()
    coded = X.copy()
    coded[:20, 1] = -999.0
    incomplete = np.where(coded == -999.0, np.nan, X)
    by_code = eg.NoveltyDetector(eg.PPCA(3), missing_values=-999.0).fit(coded)
    by_gap = eg.NoveltyDetector(eg.PPCA(3)).fit(incomplete)
    np.testing.assert_allclose(by_code.score_samples(coded), by_gap.score_samples(incomplete))


@pytest.mark.parametrize("missing", [None, np.nan])
def test_a_row_without_a_class_is_named(missing):
    X = low_rank(np.random.default_rng(6))()
    y = np.array(["a", "b"] * 100, dtype=object)
    y[7] = missing
    with pytest.raises(ValueError, match="row 7 has no class"):
        eg.PPCAClassifier(1).fit(X, y)


def test_priors_by_name_are_refused_in_words():
    X = low_rank(np.random.default_rng(7))()
    with pytest.raises(ValueError, match="in the order of the sorted class labels"):
        eg.PPCAClassifier(1, priors={"a": 0.3, "b": 0.7}).fit(X, ["a", "b"] * 100)


def test_a_test_of_student_rows_says_why_not():
    X = low_rank(np.random.default_rng(8))()
    with pytest.raises(ValueError, match="student"):
        eg.likelihood_ratio_test(eg.PPCA(2), eg.PPCA(2, distribution="student"), X)


def test_a_choice_of_rank_prints_its_summary():
    choice = eg.choose_rank(low_rank(np.random.default_rng(9))(), criteria=["bic", "eigengap"])
    assert repr(choice) == f"RankChoice({choice.summary})"


@pytest.mark.parametrize("kind", [eg.PPCA, eg.FactorAnalysis])
@pytest.mark.parametrize(("n", "d"), [(8, 30), (10, 20), (15, 40)])
@pytest.mark.parametrize("tables", [1, pytest.param(4, marks=pytest.mark.slow)])
def test_student_rows_of_few_rows_end_in_a_model(kind, n, d, tables):
    """nu fell to 0.1 and psi to its floor, where rounding broke the guard: an ArithmeticError."""
    for seed in range(tables):
        rng = np.random.default_rng(seed)
        X = low_rank(rng, n, d, 2, 0.5)()
        X[rng.random(X.shape) < 0.2] = np.nan
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = kind(2, distribution="student").fit(X)
        assert np.isfinite(model.score(X))
        assert model.degrees_of_freedom_ >= 1.0 - 1e-9


@pytest.mark.parametrize("size", [1e7, 1e8, 1e10])
def test_one_row_however_far_out_does_not_hurt_student_rows(size):
    """ln u of a row so far out was -inf, which made nu the least allowed."""
    rng = np.random.default_rng(0)
    X = low_rank(rng, 60, 6, 2)()
    clean = eg.PPCA(2).fit(np.delete(X, 7, axis=0))
    X[7] *= size
    model = eg.PPCA(2, distribution="student").fit(X)
    angles = principal_angles(model.components_.T, clean.components_.T)
    assert np.max(angles) < 0.15
    assert 1.1 < model.degrees_of_freedom_ < 2.0


@pytest.mark.parametrize("noise", ["isotropic", "diagonal"])
def test_intervals_of_a_scaled_mixture_do_not_depend_on_units(noise):
    rng = np.random.default_rng(3)
    k = rng.integers(0, 2, 120)
    W, mu = rng.normal(size=(2, 2, 5)), 3 * rng.normal(size=(2, 5))
    X = np.einsum("nq,nqd->nd", rng.normal(size=(120, 2)), W[k]) + mu[k]
    X += 0.4 * rng.normal(size=X.shape)
    X[rng.random(X.shape) < 0.2] = np.nan
    model = eg.MixturePPCA(2, 1, scale=True, noise=noise, random_state=0)
    # A power of two, so that rounding is the same and no other optimum is reached.
    plain, small = (model.fit(X * f).impute(X * f, return_std=True)[1] / f for f in (1.0, 2.0**-20))
    np.testing.assert_allclose(small, plain, rtol=1e-4)


def test_parametric_intervals_take_a_weight_for_repeated_rows():
    rng = np.random.default_rng(5)
    X = low_rank(rng, 60, 5, 2, 0.4)()
    w = rng.integers(0, 4, 60)
    by_weight, by_rows = (
        eg.confidence_intervals(eg.PPCA(2), table, method="parametric", n_boot=60, **how)
        for table, how in ((X, {"sample_weight": w}), (np.repeat(X, w, axis=0), {}))
    )
    for name in ("loadings", "explained_variance", "mean"):
        a, b = (getattr(each, name) for each in (by_weight, by_rows))
        np.testing.assert_allclose(a.high - a.low, b.high - b.low, rtol=1e-6)


def test_intervals_notice_another_cell_sd():
    rng = np.random.default_rng(6)
    X = low_rank(rng, 60, 5, 2)()
    sd = np.full(X.shape, 0.3)
    fitted = eg.PPCA(2).fit(X, cell_sd=sd)
    with pytest.raises(ValueError, match="not the table"):
        eg.confidence_intervals(fitted, X, cell_sd=3 * sd, n_boot=5)


@pytest.mark.parametrize("tables", [1, pytest.param(5, marks=pytest.mark.slow)])
def test_pca_of_few_incomplete_rows_ends_in_a_model(tables):
    for seed in range(tables):
        rng = np.random.default_rng(seed)
        X = low_rank(rng, 8, 30, 2)()
        X[rng.random(X.shape) < 0.2] = np.nan
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            filled = eg.PCA().fit(X).impute(X)
        assert np.isfinite(filled).all()


@pytest.mark.parametrize("size", [1e-100, 1e-77, 1e77, 1e100])
def test_standard_deviations_follow_the_units_as_far_as_the_fit_does(size):
    rng = np.random.default_rng(5)
    X = low_rank(rng, 60, 5, 2, 0.4)()
    X[rng.random(X.shape) < 0.15] = np.nan
    plain, scaled = (eg.PPCA(1).fit(X * f).impute(X * f, return_std=True)[1] / f for f in (1, size))
    np.testing.assert_allclose(scaled, plain, rtol=0.01)


def test_components_too_many_do_not_double_the_intervals():
    """Loadings of components without signal were held to be as uncertain as their column."""
    rng = np.random.default_rng(100)
    X = low_rank(rng, 60, 8, 2, 0.5)()
    incomplete = np.where(rng.random(X.shape) < 0.2, np.nan, X)
    right, many = (
        np.mean(eg.PPCA(q).fit(incomplete).impute(incomplete, return_std=True)[1] ** 2)
        for q in (2, 4)
    )
    assert many < 1.5 * right


def test_a_standard_deviation_beyond_all_measure_is_refused():
    X = low_rank(np.random.default_rng(7))()
    sd = np.zeros(X.shape)
    sd[3, 2] = 1e160
    with pytest.raises(ValueError, match="row 3, column 2"):
        eg.PPCA(2).fit(X, cell_sd=sd)


@pytest.mark.parametrize("m", [0, -1, 1.5])
def test_a_number_of_tables_that_is_none_is_refused(m):
    X = low_rank(np.random.default_rng(8))()
    with pytest.raises(ValueError, match="number of tables"):
        next(eg.PPCA(2).fit(X).sample_imputations(X, m))


@pytest.mark.parametrize(
    "model",
    [eg.PPCA(2), eg.FactorAnalysis(2), eg.MixturePPCA(2, 1, tol=1e-10, random_state=0)],
    ids=repr,
)
def test_standard_deviations_of_weighted_rows_are_those_of_repeated_rows(model):
    """Patterns of gaps counted once each, whatever their weight: 0.1 % off."""
    rng = np.random.default_rng(7)
    X = low_rank(rng, n=60, d=8, q=2)()
    X[rng.random(X.shape) < 0.2] = np.nan
    w = rng.integers(1, 5, 60)
    _, weighted = model.fit(X, sample_weight=w).impute(X, return_std=True)
    _, repeated = model.fit(np.repeat(X, w, axis=0)).impute(X, return_std=True)
    np.testing.assert_allclose(weighted, repeated, rtol=1e-8)


@pytest.mark.parametrize(
    "model",
    [eg.PPCA(1, tol=1e-9), eg.FactorAnalysis(1, tol=1e-9), eg.MixturePPCA(2, 1, random_state=0)],
    ids=lambda model: type(model).__name__,
)
def test_so_are_those_of_columns_of_several_kinds(model):
    """Patterns and sites were counted once for each row: 0.1 % off, mixtures by 5 %."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 2)) @ rng.standard_normal((2, 5)) * 2
    X += 0.7 * rng.standard_normal((40, 5))
    X[:, 4] = X[:, 4] > 0
    X[rng.random(X.shape) < 0.25] = np.nan
    w = rng.integers(1, 6, 40)
    model.set_params(columns="auto", max_iter=5000)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        filled, weighted = model.fit(X, sample_weight=w).impute(X, return_std=True)
        same, repeated = model.fit(np.repeat(X, w, axis=0)).impute(X, return_std=True)
    np.testing.assert_allclose(filled, same, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(weighted, repeated, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("K", [1, 2])
def test_a_mixture_of_two_rows_does_not_overflow(K):
    X = np.random.default_rng(0).normal(size=(2, 4))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", RuntimeWarning)
        assert np.isfinite(eg.MixturePPCA(K, 1).fit(X).score(X))


def test_calibrated_probabilities_with_missing():
    from sklearn.calibration import CalibratedClassifierCV
    from sklearn.datasets import load_breast_cancer
    from sklearn.metrics import log_loss

    X, y = load_breast_cancer(return_X_y=True)
    X[np.random.default_rng(0).random(X.shape) < 0.2] = np.nan
    plain = eg.PPCAClassifier(8)
    calibrated = CalibratedClassifierCV(plain, method="sigmoid", cv=3)
    losses = [log_loss(y[1::2], m.fit(X[::2], y[::2]).predict_proba(X[1::2]))
              for m in (plain, calibrated)]  # fmt: skip
    assert losses[1] < 0.7 * losses[0]


@pytest.mark.parametrize("tables", [2, pytest.param(8, marks=pytest.mark.slow)])
def test_a_component_that_closes_in_on_a_few_rows_does_not_end_the_fit(tables):
    """Two outliers draw a component onto four rows; its noise goes, and rounding outweighs a step.

    The sum of squares falls below what it is computed from long before the floor of the noise.
    """
    rng = np.random.default_rng(7)
    Z = rng.normal(size=(300, 2))
    X = Z @ rng.normal(size=(2, 8)) + 0.3 * rng.normal(size=(300, 8))
    X[5, 2], X[80, 6] = 60.0, -45.0
    for seed in range(tables):
        hidden = np.random.default_rng(seed).random(X.shape) < 0.2
        model = eg.MixturePPCA(2, 2, scale=True, random_state=0)
        model.fit(np.where(hidden, np.nan, X))
        assert np.isfinite(model.log_likelihood_)
