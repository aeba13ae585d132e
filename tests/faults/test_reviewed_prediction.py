"""What a review of classes, regression, imputation, ranks and comparisons found, kept."""

import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.datasets import load_iris

import eigengap as eg


def low_rank(rng, n=60, d=6, q=2, noise=0.3):
    return rng.normal(size=(n, q)) @ rng.normal(size=(q, d)) + noise * rng.normal(size=(n, d))


def incomplete(rng, share=0.2, **shape):
    X = low_rank(rng, **shape)
    X[rng.random(X.shape) < share] = np.nan
    return X


# Weights -------------------------------------------------------------------------------------


def test_the_bootstrap_of_weighted_rows_is_that_of_repeated_rows():
    """It drew as many rows as there are distinct ones: p = 0.91 instead of 0.02."""
    rng = np.random.default_rng(0)
    X = np.clip(np.round(rng.normal(size=(300, 1)) + 0.8 * rng.normal(size=(300, 3))), -2, 2)
    distinct, w = np.unique(X, axis=0, return_counts=True)
    models = eg.PPCA(1), eg.PPCA(2)
    repeated = eg.likelihood_ratio_test(*models, np.repeat(distinct, w, axis=0), n_boot=9)
    weighted = eg.likelihood_ratio_test(*models, distinct, sample_weight=w, n_boot=9)
    assert weighted.statistic == pytest.approx(repeated.statistic, abs=1e-6)
    np.testing.assert_allclose(weighted.replicates, repeated.replicates, atol=1e-6)
    with pytest.raises(ValueError, match="whole numbers"):
        eg.likelihood_ratio_test(*models, distinct, sample_weight=w + 0.5, n_boot=9)


def test_rows_of_weight_zero_have_no_say_in_a_comparison():
    rng = np.random.default_rng(1)
    X = low_rank(rng)
    w = np.ones(60)
    w[:10] = 0.0
    bad = X.copy()
    bad[:10] = 1e6
    folds = [(np.r_[30:60], np.r_[0:30]), (np.r_[0:30], np.r_[30:60])]
    fine, other = (
        eg.compare([eg.PPCA(1), eg.PPCA(2)], T, sample_weight=w, cv=folds).rmse for T in (X, bad)
    )
    np.testing.assert_allclose(fine, other)


@pytest.mark.parametrize("tables", [1, pytest.param(3, marks=pytest.mark.slow)])
def test_ranks_of_weighted_rows_are_searched_as_far_as_those_of_repeated_rows(tables):
    for seed in range(tables):
        rng = np.random.default_rng(seed)
        B = low_rank(rng, n=10, d=9, q=3)
        w = rng.integers(1, 5, 10)
        X, y = B[:, :8], B[:, 8]
        weighted = eg.PPCARegressor().fit(X, y, sample_weight=w)
        repeated = eg.PPCARegressor().fit(np.repeat(X, w, axis=0), np.repeat(y, w))
        assert list(weighted.cv_errors_) == list(repeated.cv_errors_)
        assert weighted.n_components_ == repeated.n_components_


def test_weights_that_count_for_nothing_are_refused_by_choose_rank():
    X = low_rank(np.random.default_rng(2))
    with pytest.raises(ValueError, match="weights are frequencies"):
        eg.choose_rank(X, sample_weight=np.full(60, 0.001), criteria=["bic"])


# Few cells -----------------------------------------------------------------------------------


def with_few(seed, k, n=60, d=6, q=2):
    rng = np.random.default_rng(seed)
    B = low_rank(rng, n=n, d=d + 1, q=q, noise=0.5)
    observed = B.copy()
    observed[k:, d] = np.nan
    return B, observed


def covered(fill, k, tables=6):
    inside = []
    for seed in range(tables):
        B, observed = with_few(seed, k)
        mean, sd = fill(observed)
        inside.append(np.mean(np.abs(mean - B[k:, -1]) < 1.96 * sd))
    return np.mean(inside)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("k", "least"), [(3, 0.7), pytest.param(8, 0.85, marks=pytest.mark.slow)])
def test_a_target_observed_in_few_rows_is_not_claimed_to_be_known(k, least):
    """30 and 72 % of the truth lay in 95 % intervals of the regressor."""

    def regress(observed):
        model = eg.PPCARegressor().fit(observed[:, :-1], observed[:, -1])
        return model.predict(observed[k:, :-1], return_std=True)

    def impute(observed):
        filled, sd = eg.LowRankImputer().fit(observed).impute(observed, return_std=True)
        return filled[k:, -1], sd[k:, -1]

    assert covered(regress, k) > least
    assert covered(impute, k) > least


def test_a_column_observed_in_few_rows_is_told_by_name():
    _, observed = with_few(0, 3)
    frame = pd.DataFrame(observed, columns=list("abcdefg"))
    for fit in (
        lambda: eg.FactorAnalysis(2).fit(frame),
        lambda: eg.LowRankImputer(eg.FactorAnalysis(2)).fit(frame),
    ):
        with pytest.warns(eg.exceptions.FewCellsWarning, match=r'column "g" \(3\)'):
            fit()
    with pytest.warns(eg.exceptions.FewCellsWarning, match=r'column "y" \(3\)'):
        eg.PPCARegressor(2).fit(observed[:, :-1], observed[:, -1])
    with pytest.raises(ValueError, match="y is known in one row only"):
        eg.PPCARegressor(2).fit(*(lambda s: (s[:, :-1], s[:, -1]))(with_few(0, 1)[1]))


@pytest.mark.parametrize("tables", [2, pytest.param(10, marks=pytest.mark.slow)])
def test_nothing_better_than_the_mean_is_the_mean(tables):
    """Mean filling was no candidate: small tables of independent columns were filled worse."""
    chosen = []
    for seed in range(tables):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(100, 10))
        X[rng.random(X.shape) < 0.5] = np.nan
        imputer = eg.LowRankImputer().fit(X)
        assert imputer.choice_.chosen.error <= imputer.choice_.mean_error * (1 + 1e-9)
        chosen.append(imputer.choice_.chosen.model)
    assert tables < 10 or chosen.count("column means") >= 5
    few = eg.LowRankImputer().fit(incomplete(np.random.default_rng(0), n=10, d=3, q=1))
    assert "this is uncertain" in few.choice_.summary


def test_the_mean_as_a_model_has_intervals_and_draws():
    rng = np.random.default_rng(3)
    hits, cells = 0, 0
    for _ in range(40):
        X = rng.normal(size=(12, 4))
        hidden = rng.random(X.shape) < 0.2
        hidden[:3] = False
        from eigengap.estimators.shared.inner import ColumnMeans

        table = np.where(hidden, np.nan, X)
        model = ColumnMeans().fit(table)
        filled, sd = model.impute(table, return_std=True)
        hits += np.sum(np.abs(filled - X)[hidden] < 1.96 * sd[hidden])
        cells += hidden.sum()
    assert 0.91 < hits / cells < 0.985
    drawn = np.stack(list(model.sample_imputations(table, 400, random_state=0)))
    assert np.array_equal(drawn[0][~hidden], X[~hidden])
    np.testing.assert_allclose(drawn.mean(axis=0)[hidden], filled[hidden], atol=0.4)


# Threads and warnings ------------------------------------------------------------------------


def test_fits_in_threads_leave_the_warning_filters_alone():
    """A filter that ignores everything was left behind, and the process was mute for good."""
    X = incomplete(np.random.default_rng(4), n=40)
    eg.LowRankImputer(n_components=1).fit(X)  # imports may add filters of their own
    before = list(warnings.filters)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: eg.LowRankImputer(n_components=1).fit(X), range(8)))
    assert warnings.filters == before


def test_many_classes_and_folds_are_warned_of_once():
    rng = np.random.default_rng(5)
    y = np.repeat(np.arange(40), 2)
    X = 5 * rng.normal(size=(40, 4))[y] + rng.normal(size=(80, 4))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        eg.PPCAClassifier().fit(X, y)
    floor = [w for w in caught if issubclass(w.category, eg.exceptions.NoiseFloorWarning)]
    assert len(floor) == 1
    assert "and 35 more" in str(floor[0].message)
    coded = low_rank(rng)
    coded[rng.random(coded.shape) < 0.2] = -999
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        eg.compare([eg.PPCA(1), eg.PPCA(2)], coded, cv=10)
    assert sum(issubclass(w.category, eg.exceptions.SentinelWarning) for w in caught) == 1


# Cells, labels, parameters -------------------------------------------------------------------


def test_a_cell_too_large_to_be_squared_is_named():
    """It was ordinary (p-value NaN), and class probabilities were NaN."""
    X, y = load_iris(return_X_y=True)
    bad = X[:3].copy()
    for value in (1e160, -1.7976931348623157e308):
        bad[2, 1] = value
        for ask in (
            eg.NoveltyDetector(eg.PPCA(2)).fit(X).predict,
            eg.PPCAClassifier(2).fit(X, y).predict_proba,
        ):
            with pytest.raises(ValueError, match=r"row 2, column 1, which is too large"):
                ask(bad)


def test_a_class_of_two_rows_borrows_noise_with_diagonal_noise_too():
    X, y = load_iris(return_X_y=True)
    y = np.r_[9, 9, y[2:]]
    with pytest.warns(eg.exceptions.NoiseFloorWarning, match="class 9"):
        model = eg.PPCAClassifier(noise="diagonal").fit(X, y)
    assert model.predict_proba(X[2:3])[0, 3] > 1e-4  # its neighbour may well belong to it
    with pytest.warns(eg.exceptions.NoiseFloorWarning, match="class 9"):
        eg.PPCAClassifier(noise="diagonal").fit(np.r_[X, np.ones((10, 4))], np.r_[y, [9] * 10])


@pytest.mark.parametrize("dtype", ["boolean", "string", "Int64"])
def test_labels_that_are_na_are_named(dtype):
    X, y = load_iris(return_X_y=True)
    values = {"boolean": list(y == 0), "string": list(y.astype(str)), "Int64": list(y)}[dtype]
    with pytest.raises(ValueError, match=r"row 0 has no class"):
        eg.PPCAClassifier(1).fit(X, pd.Series([pd.NA, *values[1:]], dtype=dtype))


def test_minkas_criterion_does_not_depend_on_units():
    X = low_rank(np.random.default_rng(6), n=100)
    plain, tiny = (
        eg.choose_rank(X * unit, criteria=["minka"]).criteria["minka"] for unit in (1.0, 1e-9)
    )
    assert plain == tiny == 2


def test_a_failed_refit_leaves_the_last_fit():
    rng = np.random.default_rng(7)
    X = low_rank(rng)
    X[0, 0] = np.nan
    imputer = eg.LowRankImputer(eg.PPCA(3)).fit(X)
    with pytest.raises(ValueError, match="n_components=3"):
        imputer.fit(X[:, :2])
    assert np.isfinite(imputer.impute(X, return_std=True)[1]).all()
    full = low_rank(rng)
    detector = eg.NoveltyDetector(eg.PPCA(2), contamination=0.1).fit(full)
    flat = full[:, :2] @ rng.normal(size=(2, 4))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(eg.exceptions.SingularModelError):
            detector.fit(flat)
    assert detector.predict(full).shape == (60,)


def test_columns_for_whole_numbers_and_bounds():
    rng = np.random.default_rng(8)
    frame = pd.DataFrame(rng.normal(size=(40, 3)), columns=list("abc"))
    frame.iloc[::4, 0] = np.nan
    for chosen in (np.array([0, 1]), frame.columns[:2]):
        filled = eg.LowRankImputer(integers=chosen).fit(frame).impute(frame)
        assert np.all(filled["a"][::4] % 1 == 0)
    for bounds in ([(0, 1), (0, 2)], ("a", "b")):
        with pytest.raises(ValueError, match="bounds must be"):
            eg.LowRankImputer(bounds=bounds).fit(frame)
    with pytest.raises(ValueError, match=r'column "a" .* none between its bounds 0\.2 and 0\.8'):
        eg.LowRankImputer(integers=["a"], bounds={"a": (0.2, 0.8)}).fit(frame)


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame])
def test_integers_that_float64_does_not_hold_stay(make):
    big = [2**60 + 1, 2**60 + 3, None, 2**60 + 7] * 10
    other = np.random.default_rng(9).normal(size=40)
    if make is pd.DataFrame:
        frame = pd.DataFrame({"id": pd.array(big, dtype="Int64"), "b": other})
    else:
        frame = pl.DataFrame({"id": big, "b": other})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        filled = eg.LowRankImputer(integers="keep", bounds={"id": (0, 2**50)}).fit(frame)
        filled = filled.impute(frame)
    assert [v for v in list(filled["id"]) if v > 2**55] == [v for v in big if v is not None]


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_an_indicator_does_not_cost_column_types(library):
    frame = pd.DataFrame({"a": pd.array([1, 2, None, 3] * 10, dtype="Int64"),
                          "b": np.random.default_rng(10).normal(size=40)})  # fmt: skip
    frame = frame if library == "pandas" else pl.from_pandas(frame)
    imputer = eg.LowRankImputer(integers="keep", add_indicator=True).set_output(transform=library)
    out = imputer.fit(frame).transform(frame)
    assert list(out.columns) == ["a", "b", "missingindicator_a"]
    assert "Int64" in str(out["a"].dtype)
    assert list(out["missingindicator_a"])[:4] == [0, 0, 1, 0]


def test_scores_and_coefficients_say_what_is_wrong():
    X = np.random.default_rng(11).normal(size=(40, 3))
    y = X[:, 0]
    model = eg.PPCARegressor(1).fit(X, y)
    with pytest.raises(ValueError, match=r"y must hold numbers.*Input y") as caught:
        eg.PPCARegressor(1).fit(X, pd.Series(["1,5"] * 40))
    assert "X[:" not in str(caught.value)
    with pytest.raises(ValueError, match=r"\(text, .* To predict classes, take PPCAClassifier$"):
        eg.PPCARegressor(1).fit(X, np.where(y > 0, "yes", "no"))
    with pytest.raises(ValueError, match="y has shape"):
        model.score(X, np.c_[y, y])
    with pytest.raises(ValueError, match="sample_weight has shape"):
        model.score(X, y, sample_weight=[1, 2])
    with pytest.raises(ValueError, match="nothing to score"):
        model.score(X, y * np.nan)
    both = eg.PPCARegressor(1).fit(X, np.c_[y, y])
    assert both.score(X, np.c_[y, y * np.nan]) == pytest.approx(model.score(X, y), abs=0.2)
    mixture = eg.PPCARegressor(estimator=eg.MixturePPCA(2, n_components=1, random_state=0))
    with pytest.raises(AttributeError, match="not linear"):
        _ = mixture.fit(X, y).coef_


def test_pooling_without_variance_within():
    pooled = eg.pool([1, 2, 1], [0, 0, 0], df_complete=10)
    assert float(pooled.df) == pytest.approx(2.0)
    assert np.all(np.isfinite(pooled.interval()))
