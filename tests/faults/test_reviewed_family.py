"""What reviews of the probabilistic family found, kept."""

import warnings

import numpy as np
import pandas as pd
import pytest

import eigengap as eg


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
    detector = eg.NoveltyDetector(eg.PPCA(3, noise="student")).fit(X)
    assert np.mean(detector.predict(new) == -1) < 0.1
    assert np.mean(detector.predict(shifted) == -1) > 0.9
    assert np.all(detector.predict(X[:8]) == -1)


UNITS = np.array([10.0, 12000.0, 1e-3, 5.0, 1.4])


@pytest.mark.parametrize("model", [eg.PPCA(2), eg.BayesianPCA(2), eg.MixturePPCA(1, 2)], ids=repr)
def test_one_noise_for_columns_of_very_different_size_is_told(model):
    rng = np.random.default_rng(1)
    X = low_rank(rng, d=5, q=2)() * UNITS
    with pytest.warns(eg.UnitsWarning, match=r"column.* 2.*scale=True"):
        model.fit(X)
    with warnings.catch_warnings():
        warnings.simplefilter("error", eg.UnitsWarning)
        model.set_params(scale=True).fit(X)
        model.set_params(scale=False).fit(X / UNITS)


def test_known_noise_in_the_fit_alone_is_told():
    rng = np.random.default_rng(2)
    X = low_rank(rng)()
    sd = rng.uniform(0.1, 1.0, X.shape)
    model = eg.PPCA(3).fit(X, cell_sd=sd)
    for method in (model.transform, model.impute, model.score, model.posterior):
        with pytest.warns(eg.ForgottenCellSdWarning, match="fitted with cell_sd"):
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
    with pytest.warns(eg.SentinelWarning, match="-999"):
        fit(X)


def test_a_detector_takes_codes():
    X = low_rank(np.random.default_rng(5))()
    coded = X.copy()
    coded[:20, 1] = -999.0
    gappy = np.where(coded == -999.0, np.nan, X)
    by_code = eg.NoveltyDetector(eg.PPCA(3), missing_values=-999.0).fit(coded)
    by_gap = eg.NoveltyDetector(eg.PPCA(3)).fit(gappy)
    np.testing.assert_allclose(by_code.score_samples(coded), by_gap.score_samples(gappy))


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
        eg.likelihood_ratio_test(eg.PPCA(2), eg.PPCA(2, noise="student"), X)


def test_a_choice_of_rank_prints_its_summary():
    choice = eg.choose_rank(low_rank(np.random.default_rng(9))(), criteria=["bic", "eigengap"])
    assert repr(choice) == f"RankChoice({choice.summary})"
