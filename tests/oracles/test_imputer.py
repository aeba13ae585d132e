"""LowRankImputer: what it may and may not touch, what it chooses, and how it sits in pipelines."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.compose import ColumnTransformer, make_column_transformer
from sklearn.linear_model import Ridge
from sklearn.metrics import mean_pinball_loss
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

from eigengap import PPCA, FactorAnalysis
from eigengap.estimators.bayesian_pca import BayesianPCA
from eigengap.estimators.imputer import LowRankImputer
from eigengap.estimators.mixture_ppca import MixturePPCA
from eigengap.selection.columns import ColumnRanks
from eigengap.selection.gaussian_or_mapped import (
    BAYESIAN,
    MODEL,
    SHARES,
    Behind,
    Contest,
    QuantileLoss,
)
from eigengap.selection.imputation import ImputationChoice, Trial, std_factors
from eigengap.selection.rank import search_ranks


def low_rank(n=200, d=8, q=2, noise=0.3, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, q)) @ rng.normal(size=(q, d)) + noise * rng.normal(size=(n, d))
    hidden = rng.random((n, d)) < 0.15
    return X, np.where(hidden, np.nan, X), hidden


def counts(n=120, seed=0):
    """A frame of every column type that can hold numbers and gaps."""
    rng = np.random.default_rng(seed)
    z = rng.normal(size=n)
    frame = pd.DataFrame(
        {
            "measured": z + 0.2 * rng.normal(size=n),
            "single": (2 * z + 0.2 * rng.normal(size=n)).astype("float32"),
            "count": pd.array(np.round(5 + 2 * z + rng.normal(size=n)), dtype="Int64"),
            "small": pd.array(np.round(9 + 3 * z), dtype="Int8"),
            "yes": pd.array(z > 0, dtype="boolean"),
            "complete": np.arange(n) + 2**53,  # which no float64 holds
        }
    )
    for j, name in enumerate(["measured", "single", "count", "small", "yes"]):
        frame.loc[frame.index[j::11], name] = pd.NA if j > 1 else np.nan
    return frame


# Filling -------------------------------------------------------------------------------------


@pytest.mark.parametrize("estimator", ["auto", PPCA(2), MixturePPCA(2, 1, random_state=0)])
def test_fills_every_gap_and_leaves_observed_cells_alone(estimator):
    truth, X, hidden = low_rank()
    imputer = LowRankImputer(estimator).fit(X)
    filled = imputer.transform(X)
    assert np.array_equal(filled[~hidden], truth[~hidden])
    assert np.isfinite(filled).all()
    assert np.isnan(X).sum() == hidden.sum()  # X itself is as it was
    again, std = imputer.impute(X, return_std=True)
    np.testing.assert_allclose(again, filled, rtol=1e-12)
    assert np.all(std[hidden] > 0)
    assert np.all(std[~hidden] == 0)


def test_beats_the_mean_by_what_the_model_allows():
    truth, X, hidden = low_rank(n=400, d=12, noise=0.3)
    error = np.sqrt(np.mean((LowRankImputer().fit_transform(X) - truth)[hidden] ** 2))
    # Half of the noise is what even the true parameters leave, and a little for learning them.
    assert 0.3 < error < 0.45
    assert error < 0.35 * np.nanstd(X)


def test_a_given_estimator_is_used_as_it_is():
    _, X, _ = low_rank()
    imputer = LowRankImputer(PPCA(3, scale=True)).fit(X)
    assert np.array_equal(imputer.transform(X), PPCA(3, scale=True).fit(X).impute(X))
    assert imputer.choice_ is None
    assert imputer.n_components_ == 3


def test_what_the_imputer_says_goes_to_given_estimators():
    _, X, _ = low_rank()
    imputer = LowRankImputer(PPCA(3), n_components=2, scale=True).fit(X)
    assert np.array_equal(imputer.transform(X), PPCA(2, scale=True).fit(X).impute(X))


def test_a_list_is_chosen_from_and_left_unfitted():
    _, X, _ = low_rank()
    given = [PPCA(1), FactorAnalysis("auto", tol=1e-2), BayesianPCA(tol=1e-2)]
    imputer = LowRankImputer(given).fit(X)
    assert {trial.model for trial in imputer.choice_.trials} == {repr(e) for e in given}
    assert not any(hasattr(estimator, "model_") for estimator in given)
    errors = [trial.error for trial in imputer.choice_.trials]
    assert imputer.choice_.chosen.error <= 1.01 * min(errors)


def test_intervals_are_the_fills_plus_minus_their_deviations():
    truth, X, hidden = low_rank(n=500)
    imputer = LowRankImputer().fit(X)
    filled, std = imputer.impute(X, return_std=True)
    low, high = imputer.intervals(X, level=0.95)
    np.testing.assert_allclose(high - filled, 1.959964 * std, rtol=1e-6)
    np.testing.assert_allclose(filled - low, 1.959964 * std, rtol=1e-6)
    assert np.array_equal(low[~hidden], truth[~hidden])
    covered = np.mean(((low <= truth) & (truth <= high))[hidden])
    assert 0.92 < covered < 0.98


def test_draws_have_the_mean_and_spread_that_impute_states():
    _, X, hidden = low_rank(n=100)
    imputer = LowRankImputer(PPCA(2)).fit(X)
    draws = np.stack(list(imputer.sample_imputations(X, 400, random_state=0)))
    filled, std = imputer.impute(X, return_std=True)
    z = (draws.mean(axis=0) - filled)[hidden] / (std[hidden] / np.sqrt(400))
    assert np.sqrt(np.mean(z**2)) < 1.3
    assert np.mean(draws.std(axis=0)[hidden] / std[hidden]) == pytest.approx(1.0, abs=0.05)


def test_deviations_and_draws_are_scaled_by_what_hidden_cells_showed():
    _, X, hidden = low_rank()
    imputer = LowRankImputer().fit(X)
    inner, scaled = imputer.estimator_.impute(X, return_std=True)[1], imputer.impute(X, True)[1]
    np.testing.assert_allclose(scaled, inner * imputer.std_factors_, rtol=1e-12)
    filled = imputer.transform(X)
    ours = next(imputer.sample_imputations(X, 1, random_state=3))
    theirs = next(imputer.estimator_.sample_imputations(X, 1, random_state=3))
    expected = np.where(hidden, filled + imputer.std_factors_ * (theirs - filled), X)
    np.testing.assert_allclose(ours, expected, rtol=1e-12)


def test_factors_make_95_percent_of_cells_lie_within_their_intervals():
    rng = np.random.default_rng(0)
    columns = np.repeat([0, 1, 2], 20_000)
    z = rng.normal(size=60_000) * np.array([0.5, 1.0, 2.0])[columns]
    factors = std_factors(z, columns, d=4)
    np.testing.assert_allclose(factors[:3], [0.5, 1.0, 2.0], rtol=0.03)
    inside = np.abs(z) <= 1.96 * factors[columns]
    assert np.mean(inside) == pytest.approx(0.95, abs=0.005)
    assert factors[3] == pytest.approx(np.quantile(np.abs(z), 0.95) / 1.96, rel=0.01)


def test_few_cells_move_the_factors_little():
    z = np.full(5, 9.0)
    assert 1.0 < std_factors(z, np.zeros(5, dtype=int), d=1)[0] < 1.2
    assert np.array_equal(std_factors(np.empty(0), np.empty(0, dtype=int), d=2), [1.0, 1.0])
    with_nan = std_factors(np.array([1.0, np.inf, np.nan]), np.zeros(3, dtype=int), d=1)
    assert np.isfinite(with_nan).all()


def test_intervals_of_skewed_columns_cover():
    """Exponentials of a Gaussian table: its own deviations would not do."""
    rng = np.random.default_rng(8)
    truth = np.exp(0.7 * (rng.normal(size=(1500, 2)) @ rng.normal(size=(2, 6))))
    truth += rng.exponential(size=truth.shape)
    hidden = rng.random(truth.shape) < 0.15
    X = np.where(hidden, np.nan, truth)
    low, high = LowRankImputer().fit(X).intervals(X)
    covered = [np.mean(((low <= truth) & (truth <= high))[:, j][hidden[:, j]]) for j in range(6)]
    assert 0.93 < np.mean(covered) < 0.97
    assert min(covered) > 0.90


# Whole numbers, bounds, types ------------------------------------------------------------------


def test_integers_are_kept_in_arrays():
    _, X, hidden = low_rank()
    X[:, :3] = np.round(3 * X[:, :3])
    filled = LowRankImputer(integers="keep").fit_transform(X)
    assert np.array_equal(filled[:, :3], np.round(filled[:, :3]))
    assert np.any(filled[:, 3:][hidden[:, 3:]] % 1 != 0)
    plain = LowRankImputer().fit_transform(X)
    assert np.array_equal(filled[:, :3], np.round(plain[:, :3]))


def test_integers_of_named_columns():
    frame = counts()
    filled = LowRankImputer(integers=["measured"], columns="numeric").fit(frame).impute(frame)
    missing = frame["measured"].isna()
    assert np.all(filled["measured"][missing] % 1 == 0)
    assert filled["count"].dtype == "float64"  # not asked for, so it has fractions


def test_frames_come_back_in_their_types():
    frame = counts()
    filled = LowRankImputer(integers="keep").fit(frame).impute(frame)
    assert list(filled.dtypes) == list(frame.dtypes)
    assert not filled.isna().any().any()
    for name in frame:
        observed = frame[name].notna()
        pd.testing.assert_series_equal(filled[name][observed], frame[name][observed])


def test_columns_that_cannot_hold_fractions_become_floats():
    frame = counts()
    filled = LowRankImputer(columns="numeric").fit(frame).impute(frame)
    assert filled["count"].dtype == "float64"
    assert filled["complete"].tolist() == frame["complete"].tolist()  # beyond 2**53 too


@pytest.mark.parametrize("library", ["polars", "pyarrow"])
def test_other_frames_keep_their_types(library):
    frame = counts().drop(columns="complete")
    lists = {
        name: [None if pd.isna(v) else v for v in frame[name].tolist()] for name in frame.columns
    }
    if library == "polars":
        types = [pl.Float64, pl.Float32, pl.Int64, pl.Int8, pl.Boolean]
        X = pl.DataFrame(lists, schema=dict(zip(lists, types, strict=True)))
        filled = LowRankImputer(integers="keep").fit(X).impute(X)
        assert filled.schema == X.schema
        assert sum(filled.null_count().row(0)) == 0
    else:
        types = [pa.float64(), pa.float32(), pa.int64(), pa.int8(), pa.bool_()]
        X = pa.table(lists, schema=pa.schema(list(zip(lists, types, strict=True))))
        filled = LowRankImputer(integers="keep").fit(X).impute(X)
        assert filled.schema.types == X.schema.types
        assert sum(column.null_count for column in filled.columns) == 0


def test_bounds_hold_in_fills_intervals_and_draws():
    rng = np.random.default_rng(1)
    X = np.exp(rng.normal(size=(200, 1)) + 0.3 * rng.normal(size=(200, 5)))
    X[rng.random(X.shape) < 0.2] = np.nan
    imputer = LowRankImputer(FactorAnalysis(1), bounds=(0, None)).fit(X)
    low, high = imputer.intervals(X)
    tables = [imputer.transform(X), low, high, *imputer.sample_imputations(X, 3, random_state=0)]
    free = LowRankImputer(FactorAnalysis(1), bounds=(None, None)).fit(X)
    assert free.intervals(X)[0].min() < 0  # else no test
    assert all(np.nanmin(table) >= 0 for table in tables)
    missing = np.isnan(X)
    assert np.mean(tables[3][missing] == 0) == 0  # reflected, not piled up at the bound


def test_what_was_never_negative_is_not_imputed_below_zero():
    """Lengths, volumes: a Gaussian knows no zero. Whole numbers from 1 on stay at 1."""
    rng = np.random.default_rng(1)
    U = rng.normal(size=(200, 1)) + 0.6 * rng.normal(size=(200, 4))
    X = np.column_stack([np.exp(U[:, 0]), U[:, 1], 1 + np.round(np.exp(U[:, 2])), U[:, 3] - 20])
    X[rng.random(X.shape) < 0.2] = np.nan
    imputer = LowRankImputer(FactorAnalysis(1)).fit(X)
    np.testing.assert_array_equal(imputer.bounds_[0], [0, -np.inf, 1, -np.inf])
    assert np.all(np.isinf(imputer.bounds_[1]))
    low, high = imputer.intervals(X)
    for table in (imputer.transform(X), low, high, *imputer.sample_imputations(X, 2)):
        assert np.nanmin(table[:, 0]) >= 0
        assert np.nanmin(table[:, 2]) >= 1
    for free in ({"columns": "numeric"}, {"bounds": (None, None)}):
        assert np.all(np.isinf(LowRankImputer(FactorAnalysis(1), **free).fit(X).bounds_))


def test_a_choice_names_no_rank_that_the_fit_finds_itself():
    ranks = ColumnRanks((0, 1), (-1.0, -0.9), 1)
    of_factors = Behind(MODEL, 1, [], ranks, score=-0.8).choice(100).chosen
    of_bayesian = Behind(BAYESIAN, 16, [], ranks, score=-0.5).choice(100).chosen
    assert str(of_factors).startswith(f"{MODEL}, 1 component")
    assert str(of_bayesian) == BAYESIAN


@pytest.mark.parametrize(
    ("gain", "words"),
    [(0.0, "are no more probable"), (0.006, "0.6 % more"), (0.05, "5 % more"), (0.2, "1.2 times")],
)
def test_a_small_gain_is_a_percentage_and_not_once_as_probable(gain, words):
    ranks = ColumnRanks((0, 1), (-1.0, -1.0 + gain), 1)
    assert words in Behind(MODEL, 1, [], ranks).choice(1000).summary


def test_a_loss_above_that_of_the_columns_is_more_and_not_less():
    choice = ImputationChoice((), Trial("PPCA", 1, 0.9), 1.0, 100, "PPCA, 1 component")
    contest = Contest(1.04, 1.2, Trial(MODEL, 1, 1.0), 1)
    assert "with 4 % more loss than by those of each column" in contest.added_to(choice).summary


def test_a_column_alone_is_imputed_by_its_own_distribution():
    """No other column can say anything; a Gaussian of log-normal values reaches below 0."""
    x = np.exp(1.2 * np.random.default_rng(0).normal(size=400))
    imputer = LowRankImputer().fit(x[:, None])
    assert "alone" in imputer.choice_.summary
    low, high = (end[0, 0] for end in imputer.intervals(np.array([[np.nan]]), level=0.9))
    assert low == pytest.approx(np.quantile(x, 0.05), rel=0.25)
    assert high == pytest.approx(np.quantile(x, 0.95), rel=0.25)


def test_bounds_of_the_data_and_of_columns():
    _, X, _ = low_rank()
    imputer = LowRankImputer(PPCA(2), bounds="data").fit(X)
    np.testing.assert_array_equal(imputer.bounds_, [np.nanmin(X, axis=0), np.nanmax(X, axis=0)])
    frame = pd.DataFrame(X, columns=list("abcdefgh"))
    imputer = LowRankImputer(PPCA(2), bounds={"c": (None, 0.5)}).fit(frame)
    assert imputer.bounds_[1, 2] == 0.5
    assert np.isinf(np.delete(imputer.bounds_, 2, axis=1)).all()
    missing = np.isnan(X[:, 2])
    assert imputer.impute(frame)["c"][missing].max() <= 0.5
    assert np.nanmax(X[:, 2]) > 0.5  # seen cells are not clipped
    assert imputer.impute(frame)["c"].max() == np.nanmax(X[:, 2])


def test_clipping_never_adds_error():
    rng = np.random.default_rng(2)
    truth = np.clip(rng.normal(size=(300, 1)) + 0.5 * rng.normal(size=(300, 6)), -1, 1)
    hidden = rng.random(truth.shape) < 0.3
    X = np.where(hidden, np.nan, truth)
    free = LowRankImputer(PPCA(1)).fit_transform(X)
    bound = LowRankImputer(PPCA(1), bounds=(-1, 1)).fit_transform(X)
    assert np.all(np.abs(bound - truth) <= np.abs(free - truth))
    assert np.any(np.abs(bound - truth) < np.abs(free - truth))


def test_whole_columns_stay_whole_at_fractional_bounds():
    _, X, _ = low_rank()
    X = np.round(3 * X)
    filled = LowRankImputer(integers="keep", bounds=(-2.5, 2.5)).fit_transform(X)
    missing = np.isnan(X)
    assert set(np.unique(filled[missing])) <= {-2.0, -1.0, 0.0, 1.0, 2.0}


# Choosing --------------------------------------------------------------------------------------


def test_picks_factor_analysis_and_about_the_rank_where_columns_differ_in_noise():
    rng = np.random.default_rng(3)
    W = rng.normal(size=(15, 3))
    sd = np.geomspace(0.1, 3.0, 15)
    X = rng.normal(size=(600, 3)) @ W.T + sd * rng.normal(size=(600, 15))
    X[rng.random(X.shape) < 0.2] = np.nan
    imputer = LowRankImputer(scale=False).fit(X)
    assert "factor analysis" in imputer.choice_.chosen.model
    assert 2 <= imputer.n_components_ <= 5
    by_model = {}
    for trial in imputer.choice_.trials:
        by_model[trial.model] = min(by_model.get(trial.model, np.inf), trial.error)
    assert by_model["factor analysis"] < by_model["Bayesian PCA"]


@pytest.mark.parametrize("q", [1, 3, 6])
def test_the_rank_of_ppca_is_found(q):
    _, X, _ = low_rank(n=500, d=20, q=q, noise=0.4)
    assert LowRankImputer(PPCA("auto", tol=1e-4)).fit(X).n_components_ == q


@pytest.mark.slow
def test_mixtures_win_where_rows_form_clusters():
    rng = np.random.default_rng(4)
    which = rng.integers(2, size=200)
    slope = np.where(which, 1.0, -1.0)[:, None]
    z = rng.normal(size=(200, 1))
    X = np.hstack([z, slope * z, z, slope * z]) + 0.2 * rng.normal(size=(200, 4))
    X[:, :] += 5 * which[:, None] * np.array([1, 0, 0, 1])
    X[rng.random(X.shape) < 0.1] = np.nan
    choice = LowRankImputer("thorough").fit(X).choice_
    assert choice.chosen.model.startswith("mixture")


def test_the_choice_is_told():
    _, X, _ = low_rank()
    choice = LowRankImputer().fit(X).choice_
    assert choice.chosen in choice.trials
    assert str(choice.chosen) in choice.summary
    assert 0.9 < choice.mean_error < 1.1
    gain = 100 * (1 - choice.chosen.error / choice.mean_error)
    assert f"{gain:.0f} %" in choice.summary


def test_independent_columns_are_told_to_hold_nothing():
    X = np.random.default_rng(5).normal(size=(300, 6))
    X[::7, 0] = np.nan
    assert "no model predicts" in LowRankImputer().fit(X).choice_.summary


def test_the_same_seed_gives_the_same_fills_and_another_hides_other_cells():
    _, X, _ = low_rank()
    first, again = (LowRankImputer(random_state=1).fit(X) for _ in range(2))
    assert np.array_equal(first.transform(X), again.transform(X))
    assert first.choice_ == again.choice_
    other = LowRankImputer(random_state=2).fit(X)
    assert other.choice_.mean_error != first.choice_.mean_error


def test_weights_are_frequencies():
    _, X, _ = low_rank(n=60)
    weight = np.random.default_rng(6).integers(1, 4, size=len(X))
    weighted = LowRankImputer(PPCA(2, tol=1e-10)).fit(X, sample_weight=weight)
    repeated = LowRankImputer(PPCA(2, tol=1e-10)).fit(np.repeat(X, weight, axis=0))
    np.testing.assert_allclose(weighted.transform(X), repeated.transform(X), atol=1e-6)


def test_rows_of_weight_zero_are_as_if_absent():
    _, X, _ = low_rank()
    wild = np.vstack([X, np.full((20, 8), 1e6)])
    weight = np.repeat([1.0, 0.0], [len(X), 20])
    fitted = LowRankImputer().fit(wild, sample_weight=weight)
    assert fitted.choice_ == LowRankImputer().fit(X).choice_
    assert np.array_equal(fitted.transform(X), LowRankImputer().fit_transform(X))


@pytest.mark.parametrize(("best", "most"), [(1, 30), (7, 30), (30, 30), (13, 200), (1, 1)])
def test_the_search_finds_the_bottom_of_a_valley(best, most):
    asked = []

    def error(q):
        asked.append(q)
        return 1.0 + abs(np.log(q / best))

    curve = search_ranks(error, most)
    found = min(curve, key=curve.get)
    assert abs(np.log(found / best)) < np.log(1.2)
    assert len(asked) == len(set(asked)) <= 12
    nearby = search_ranks(lambda q: 1.0 + abs(np.log(q / best)), most, start=max(best // 2, 1))
    assert abs(np.log(min(nearby, key=nearby.get) / best)) < np.log(1.2)


# In pipelines ----------------------------------------------------------------------------------


def test_in_a_pipeline_and_a_grid_search():
    truth, X, _ = low_rank()
    y = truth[:, 0] + truth[:, 1]
    pipeline = make_pipeline(LowRankImputer(PPCA(2)), Ridge())
    assert pipeline.fit(X, y).score(X, y) > 0.85
    grid = {"lowrankimputer__n_components": [1, 2], "lowrankimputer__scale": [True, False]}
    search = GridSearchCV(pipeline, grid, cv=2).fit(X, y)
    assert search.best_params_["lowrankimputer__n_components"] == 2


def test_in_a_column_transformer_with_pandas_output():
    frame = counts()
    columns = make_column_transformer(
        (LowRankImputer(integers="keep"), ["measured", "single", "count", "small"]),
        remainder="passthrough",
        verbose_feature_names_out=False,
    ).set_output(transform="pandas")
    assert isinstance(columns, ColumnTransformer)
    out = columns.fit_transform(frame)
    assert list(out.columns[:4]) == ["measured", "single", "count", "small"]
    assert out["count"].dtype == "Int64"
    assert out["small"].dtype == "Int8"
    assert not out[["measured", "single", "count", "small"]].isna().any().any()


def test_indicators_name_the_columns_that_had_missing():
    frame = pd.DataFrame(low_rank()[1], columns=list("abcdefgh"))
    frame["h"] = 1.0 * np.arange(len(frame))
    imputer = LowRankImputer(PPCA(2), add_indicator=True).set_output(transform="pandas")
    out = imputer.fit_transform(frame)
    assert list(out.columns) == [*"abcdefgh", *(f"missingindicator_{c}" for c in "abcdefg")]
    assert np.array_equal(out["missingindicator_c"], frame["c"].isna())
    assert list(imputer.get_feature_names_out()) == list(out.columns)


def test_new_rows_and_other_marks_of_missing():
    truth, X, hidden = low_rank()
    imputer = LowRankImputer(PPCA(2), missing_values=-999).fit(np.where(hidden, -999, X))
    coded = imputer.transform(np.where(hidden, -999, truth)[:10])
    plain = LowRankImputer(PPCA(2)).fit(X).transform(X[:10])
    np.testing.assert_allclose(coded, plain, rtol=1e-12)


# Errors ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"estimator": []}, "empty list"),
        ({"estimator": [PPCA(1), PPCA(1)]}, "more than once"),
        ({"bounds": (1, 0)}, "low <= high"),
        ({"bounds": (1, 2, 3)}, r"\(low, high\)"),
        ({"bounds": {"z": (0, 1)}}, "no column"),
        ({"integers": ["z"]}, "no column"),
    ],
)
def test_what_is_wrong_is_told(parameters, words):
    frame = pd.DataFrame(low_rank()[1], columns=list("abcdefgh"))
    with pytest.raises(ValueError, match=words):
        LowRankImputer(**parameters).fit(frame)


def test_what_cannot_impute_is_refused():
    with pytest.raises(TypeError, match="cannot impute"):
        LowRankImputer([PPCA(1), Ridge()]).fit(low_rank()[1])


def test_an_empty_column_is_named():
    frame = pd.DataFrame(low_rank()[1], columns=list("abcdefgh"))
    frame["c"] = np.nan
    with pytest.raises(ValueError, match='"c"'):
        LowRankImputer().fit(frame)


@pytest.mark.parametrize("shape", [(3, 2), (5, 1), (2, 6)])
def test_tables_too_small_to_hide_anything_are_still_filled(shape):
    X = np.random.default_rng(7).normal(size=shape)
    X[0, 0] = np.nan
    imputer = LowRankImputer().fit(X)
    assert np.isfinite(imputer.transform(X)).all()


def test_large_tables_are_searched_on_some_of_their_rows(monkeypatch):
    from eigengap.selection import imputation

    monkeypatch.setattr(imputation, "LARGEST_SEARCH", 8 * 1000)
    _, X, _ = low_rank(n=3000)
    imputer = LowRankImputer().fit(X)
    assert imputer.choice_.n_hidden < 0.15 * 8 * 1100
    assert imputer.n_components_ >= 2
    assert np.isfinite(imputer.transform(X)).all()


def test_the_loss_of_quantiles_is_that_of_scikit_learn():
    rng = np.random.default_rng(0)
    truth, weight = rng.normal(size=(50, 2)), rng.integers(1, 4, size=50).astype(float)
    hidden = rng.random(truth.shape) < 0.4
    quantiles = [truth + 0.5 * rng.normal(size=truth.shape) + share for share in SHARES]
    found = QuantileLoss.of(truth, quantiles, hidden, weight)
    for j in range(2):
        at = hidden[:, j]
        own = np.quantile(truth[~at, j], SHARES)
        losses = [
            sum(
                mean_pinball_loss(truth[at, j], each, alpha=share, sample_weight=weight[at])
                for share, each in zip(SHARES, predicted, strict=True)
            )
            for predicted in ([q[at, j] for q in quantiles], [np.full(at.sum(), x) for x in own])
        ]
        np.testing.assert_allclose(
            [found.predicted[j], found.by_column[j]],
            np.array(losses) * weight[at].sum(),
            rtol=1e-12,
        )
    assert QuantileLoss(np.array([1.0, 2.0, 5.0]), np.array([2.0, 2.0, 0.0])).relative() == 0.75
