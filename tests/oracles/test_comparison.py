"""`compare` against scikit-learn's cross-validation, closed forms and hand computations."""

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.stats import multivariate_normal
from sklearn.decomposition import PCA as SklearnPCA
from sklearn.ensemble import IsolationForest
from sklearn.exceptions import ConvergenceWarning
from sklearn.impute import KNNImputer, SimpleImputer
from sklearn.mixture import GaussianMixture
from sklearn.model_selection import (
    GridSearchCV,
    KFold,
    RepeatedKFold,
    StratifiedKFold,
    cross_val_score,
)
from sklearn.neighbors import KernelDensity
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import eigengap as eg
from eigengap.comparison.compare import compare, impute_cells
from eigengap.comparison.result import RowMean
from eigengap.runtime.hashing import cell_uniforms
from eigengap.sources import frames as new_frame_module
from eigengap.sources.blocked import hidden_cells


def table(n=120, d=5, missing=0.0, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2)) @ rng.normal(size=(2, d)) * 1.5 + rng.normal(size=(n, d))
    X[rng.random(X.shape) < missing] = np.nan
    return X


class Known:
    """A density that learns nothing."""

    def __init__(self, mean=(0.0,), cov=((1.0,),)):
        self.mean, self.cov = mean, cov

    def get_params(self, deep=True):
        return {"mean": self.mean, "cov": self.cov}

    def fit(self, X, y=None):
        return self

    def score_samples(self, X):
        return multivariate_normal(self.mean, self.cov).logpdf(X)


def test_log_likelihood_is_that_of_cross_val_score():
    X = table()
    models = {
        "mixture": GaussianMixture(2, random_state=0),
        "kernels": KernelDensity(),
        "pca": SklearnPCA(2),
        "ppca": eg.PPCA(2),
    }
    folds = KFold(4, shuffle=True, random_state=1)
    found = compare(models, X, cv=folds)
    for k, (name, model) in enumerate(models.items()):
        theirs = cross_val_score(model, X, cv=folds)
        if name == "kernels":  # whose score is the sum
            theirs = theirs / [len(test) for _, test in folds.split(X)]
        np.testing.assert_allclose(found.fold_log_likelihood[:, k], theirs, rtol=1e-12)
    np.testing.assert_allclose(  # folds of equal size
        found.log_likelihood, found.fold_log_likelihood.mean(axis=0), rtol=1e-12
    )


def test_a_known_difference_is_found():
    """Of the truth from another Gaussian the expected difference is their divergence."""
    rng = np.random.default_rng(2)
    C0, C1 = np.array([[2.0, 0.8], [0.8, 1.0]]), np.eye(2)
    m1 = np.array([0.2, 0.0])
    X = rng.multivariate_normal([0, 0], C0, size=4000)
    found = compare({"wrong": Known(m1, C1), "truth": Known([0.0, 0.0], C0)}, X, cv=3)
    divergence = 0.5 * (
        np.trace(np.linalg.solve(C1, C0))
        + m1 @ np.linalg.solve(C1, m1)
        - 2
        + np.log(np.linalg.det(C1) / np.linalg.det(C0))
    )
    assert found.best == "truth"
    gap, se = -found.log_likelihood_difference[0], found.log_likelihood_se[0]
    assert abs(gap - divergence) < 3 * se
    rows = Known([0, 0], C0).score_samples(X) - Known(m1, C1).score_samples(X)
    np.testing.assert_allclose([gap, se], [rows.mean(), rows.std(ddof=1) / np.sqrt(4000)])


def test_standard_errors_are_honest():
    """Over many tables the difference varies as its standard error says."""
    rng = np.random.default_rng(3)
    models = {"a": Known([0.0], [[1.0]]), "b": Known([0.3], [[1.2]])}
    found = [compare(models, rng.normal(size=(50, 1)), cv=2) for _ in range(150)]
    apart = [f.log_likelihood[0] - f.log_likelihood[1] for f in found]
    told = np.mean([f.log_likelihood_se.max() for f in found])
    assert abs(np.std(apart) / told - 1) < 0.2  # 150 tables know it to 6 %


def test_filled_cells_by_hand():
    """Mean filling: the error of every hidden cell, in standard deviations of its column."""
    X = table(missing=0.1)
    folds = list(KFold(3).split(X))
    found = compare([SimpleImputer(), eg.PPCA(2)], X, cv=folds, holdout=0.2, random_state=7)
    hidden = hidden_cells(~np.isnan(X), 0.2, 7)
    errors = np.zeros(X.shape)
    for train, test in folds:
        errors[test] = (X[test] - np.nanmean(X[train], axis=0)) / np.nanstd(X, axis=0)
    assert found.rmse[0] == pytest.approx(np.sqrt(np.mean(errors[hidden] ** 2)), rel=1e-12)
    # and PPCA's, through its own methods
    ours, inside = np.zeros(X.shape), []
    for train, test in folds:
        rows = np.where(hidden[test], np.nan, X[test])
        filled, sd = eg.PPCA(2).fit(X[train]).impute(rows, return_std=True)
        ours[test] = (X[test] - filled) / np.nanstd(X, axis=0)
        inside.extend((np.abs(X[test] - filled) < 1.96 * sd)[hidden[test]])
    assert found.rmse[1] == pytest.approx(np.sqrt(np.mean(ours[hidden] ** 2)), rel=1e-9)
    assert found.coverage[1] == pytest.approx(np.mean(inside))
    # the paired error of the difference of two roots, by the jackknife over rows
    a, b = (np.where(hidden, e**2, 0).sum(axis=1) for e in (errors, ours))
    c = hidden.sum(axis=1)
    keep = ~np.eye(len(X), dtype=bool)
    roots = [np.sqrt(a[k].sum() / c[k].sum()) - np.sqrt(b[k].sum() / c[k].sum()) for k in keep]
    jackknife = np.sqrt((len(X) - 1) * np.var(roots))
    assert found.rmse_se[0] == pytest.approx(jackknife, rel=0.03)


def test_a_plane_fills_by_least_squares():
    """Iterated projection of scikit-learn's PCA ends at the nearest point of its plane."""
    X = table(200, 6)
    model = SklearnPCA(2).fit(X)
    rows = X[:5].copy()
    rows[[0, 1, 2, 3, 4], [0, 1, 2, 3, 4]] = np.nan
    filled, sd = impute_cells(model, rows, rows, X.mean(axis=0))
    U = model.components_.T
    for row, full in zip(rows, filled, strict=True):
        o = ~np.isnan(row)
        z = np.linalg.lstsq(U[o], row[o] - model.mean_[o], rcond=None)[0]
        np.testing.assert_allclose(full[~o], (U @ z + model.mean_)[~o], atol=1e-4)
        np.testing.assert_array_equal(full[o], row[o])
    assert sd is None


def test_row_mean_counts_copies():
    rng = np.random.default_rng(4)
    sums, counts = rng.normal(size=30), rng.integers(0, 3, size=30).astype(float)
    w = rng.integers(1, 4, size=30)
    weighted = RowMean.of(sums, counts, w.astype(float))
    repeated = RowMean.of(np.repeat(sums, w), np.repeat(counts, w), np.ones(w.sum()))
    assert weighted.value == pytest.approx(repeated.value)
    assert weighted.se == pytest.approx(repeated.se)


def test_weights_are_repeated_rows():
    X = table(60, missing=0.1)
    w = np.random.default_rng(5).integers(1, 4, size=60)
    fold = np.arange(60) % 3
    folds = [(np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in range(3)]
    again = np.repeat(fold, w)
    repeated_folds = [(np.flatnonzero(again != k), np.flatnonzero(again == k)) for k in range(3)]
    models = [eg.PPCA(1, tol=1e-9), eg.PPCA(2, tol=1e-9)]
    weighted = compare(models, X, cv=folds, sample_weight=w, holdout=0)
    repeated = compare(models, np.repeat(X, w, axis=0), cv=repeated_folds, holdout=0)
    np.testing.assert_allclose(weighted.log_likelihood, repeated.log_likelihood, rtol=1e-6)
    np.testing.assert_allclose(
        weighted.log_likelihood_se, repeated.log_likelihood_se, rtol=1e-4, atol=1e-12
    )


def test_repeated_folds_count_each_row_once():
    X = table(40)
    found = compare([eg.PPCA(1), eg.PPCA(2)], X, cv=RepeatedKFold(n_splits=2, n_repeats=5))
    assert len(found.fold_log_likelihood) == 10
    once = compare([eg.PPCA(1), eg.PPCA(2)], X, cv=2)
    # five times the tests of the same 40 rows do not make the error smaller by root five
    assert found.log_likelihood_se.max() > 0.6 * once.log_likelihood_se.max()


def test_hidden_cells_do_not_depend_on_the_rows_around():
    all_rows = cell_uniforms(np.arange(1000), 7, seed=3)
    some = cell_uniforms(np.array([999, 5, 17]), 7, seed=3)
    np.testing.assert_array_equal(some, all_rows[[999, 5, 17]])
    assert abs(all_rows.mean() - 0.5) < 4 * np.sqrt(1 / 12 / 7000)
    assert np.abs(np.corrcoef(all_rows.T) - np.eye(7)).max() < 0.15
    assert not np.array_equal(all_rows, cell_uniforms(np.arange(1000), 7, seed=4))


def test_every_row_keeps_a_cell():
    observed = np.random.default_rng(6).random((500, 3)) < 0.5
    hidden = hidden_cells(observed, 0.95, seed=0)
    assert not np.any(hidden & ~observed)
    left = (observed & ~hidden).any(axis=1)
    np.testing.assert_array_equal(left, observed.any(axis=1))


def test_what_cannot_be_measured_says_why():
    models = {
        "mixture": GaussianMixture(2),
        "plane": SklearnPCA(2),
        "neighbours": KNNImputer(),
        "forest": IsolationForest(n_estimators=5),
        "pipe": make_pipeline(StandardScaler(), KernelDensity()),
        "ours": eg.PPCA(2),
    }
    found = compare(models, table(missing=0.1), cv=2)
    assert found.reasons["mixture"] == found.reasons["plane"] == "does not take NaN"
    assert found.reasons["pipe"] == "does not take NaN"
    assert "no density" in found.reasons["neighbours"]
    assert "outlier" in found.reasons["forest"]
    assert "ours" not in found.reasons
    assert np.isnan(found.log_likelihood[:5]).all()
    assert np.isfinite(found.rmse[[2, 5]]).all()
    assert "does not take NaN" in found.summary
    assert "does not take NaN" in repr(found)
    assert found.best == "ours"
    complete = compare(models, table(), cv=2)
    assert "transformed columns" in complete.reasons["pipe"]
    weighted = compare(models, table(), cv=2, sample_weight=np.ones(120))
    assert weighted.reasons["mixture"] == "takes no sample_weight"


def test_an_autoencoder_is_compared_by_imputation_alone():
    """Its score_samples is minus a squared error: near 0, and above any honest log-likelihood."""

    class Own(eg.Autoencoder):
        pass

    settings = {"hidden": (4,), "max_iter": 5, "random_state": 0}
    network = eg.Autoencoder(2, **settings)
    models = {
        "ppca": eg.PPCA(2),
        "network": network,
        "subclass": Own(2, **settings),
        "search": GridSearchCV(network, {"n_components": [1, 2]}, cv=2),
        "single step": make_pipeline(network),
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        found = compare(models, table(), cv=2)
    assert found.best == "ppca"
    assert np.isfinite(found.log_likelihood[0])
    assert np.isnan(found.log_likelihood[1:]).all()
    assert np.isfinite(found.rmse[:3]).all()
    for name in found.names[1:]:
        assert "is no density (score_samples is neg_mean_squared_error)" in found.reasons[name]
    kernel = GridSearchCV(KernelDensity(), {"bandwidth": [0.5, 1.0]}, cv=2)
    assert np.isfinite(compare([kernel], table(), cv=2).log_likelihood).all()


def test_frames_give_the_same_figures_and_names_reach_the_models():
    X = table(missing=0.1)
    models = [eg.PPCA(2), KNNImputer()]
    arrays = compare(models, X)
    for frame in (pd.DataFrame(X, columns=list("abcde")), pl.DataFrame(X, schema=list("abcde"))):
        frames = compare(models, frame)
        np.testing.assert_allclose(frames.log_likelihood, arrays.log_likelihood, rtol=1e-12)
        np.testing.assert_allclose(frames.rmse, arrays.rmse, rtol=1e-12)
    coded = compare(models, np.where(np.isnan(X), -999.0, X), missing_values=-999.0)
    np.testing.assert_array_equal(coded.rmse, arrays.rmse)


def test_the_frame_that_comes_out(monkeypatch):
    found = compare([eg.PPCA(1), eg.PPCA(2)], table(), cv=StratifiedKFold(2), y=np.arange(120) % 2)
    frame = found.to_frame()
    assert list(frame.model) == ["PPCA(n_components=1)", "PPCA(n_components=2)"]
    np.testing.assert_array_equal(frame.rmse, found.rmse)
    find = new_frame_module.find_spec
    monkeypatch.setattr(
        new_frame_module, "find_spec", lambda name: None if name == "pandas" else find(name)
    )
    assert isinstance(found.to_frame(), pl.DataFrame)
    monkeypatch.setattr(new_frame_module, "find_spec", lambda name: None)
    with pytest.raises(ImportError, match="pip install pandas"):
        found.to_frame()


@pytest.mark.parametrize(
    ("models", "keywords", "error", "words"),
    [
        ([], {}, ValueError, "no model"),
        (eg.PPCA(1), {}, TypeError, "list or a dict"),
        ([eg.PPCA], {}, TypeError, "instance"),
        ([eg.PPCA(1)], {"cv": 1}, ValueError, "between 2 and 120"),
        ([eg.PPCA(1)], {"holdout": 1.0}, ValueError, "holdout"),
        ([eg.PPCA(1)], {"y": [1, 2]}, ValueError, "y has 2 entries"),
        ([eg.PPCA(50)], {}, ValueError, "n_components=50"),
    ],
)
def test_bad_questions(models, keywords, error, words):
    with pytest.raises(error, match=words):
        compare(models, table(), **keywords)


def test_the_failing_model_and_fold_are_named():
    told = "'too many' failed on fold 1 of 5: .*n_components=50"
    with pytest.raises(ValueError, match=told):
        compare({"too many": eg.PPCA(50)}, table())
    found = compare({"too many": eg.PPCA(50), "fine": eg.PPCA(1)}, table())
    assert "n_components=50" in found.reasons["too many"]
    assert np.isfinite(found.log_likelihood).tolist() == [False, True]
    assert found.best == "fine"


def test_models_are_left_as_they_were():
    model = eg.PPCA(2)
    compare([model], table(), cv=2)
    assert not hasattr(model, "model_")
