"""LowRankImputer with columns of every kind, as users meet it: types, answers, files, pipelines."""

from __future__ import annotations

import pickle
from decimal import Decimal

import narwhals as nw
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy.stats import gamma, norm
from sklearn.base import clone
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import eigengap as eg
from eigengap import LowRankImputer, columns
from eigengap.columns import Bounded, Continuous, Count, Ordinal
from eigengap.exceptions import DataError, UnsavableError

N = 150
LEVELS = ["p", "q", "r"]


def _table(seed: int = 0) -> pd.DataFrame:
    """Fourteen columns, eleven of them behind one latent variable; a sixth of these is missing."""
    rng = np.random.default_rng(seed)
    z = rng.normal(size=N)

    def u():
        return z + 0.5 * rng.normal(size=N)

    def cut(*at):
        return np.digitize(u(), at)

    X = pd.DataFrame(
        {
            "real": 3.0 + 2.0 * u(),
            "skewed": np.exp(2.0 + u()),
            "percent": 100.0 / (1.0 + np.exp(-u())),
            "whole": pd.array(np.round(50 + 12 * u()).astype(int), dtype="Int64"),
            "visits": pd.array(rng.poisson(np.exp(1.0 + 0.5 * u())), dtype="Int32"),
            "rating": pd.array(1 + cut(-1, 0, 1), dtype="Int8"),
            "text": pd.Series(np.array(LEVELS, dtype=object)[cut(-0.5, 0.5)], dtype=object),
            "category": pd.Categorical.from_codes(cut(-0.5, 0.5), ["r", "q", "p"]),
            "stage": pd.Categorical.from_codes(cut(-0.5, 0.5), ["low", "mid", "high"], True),
            "flag": pd.array(u() > 0, dtype="boolean"),
            "truth": pd.Series(u() > 0, dtype=object),
        }
    )
    missing = rng.random(X.shape) < 1 / 6
    missing[missing.all(axis=1), 0] = False
    for j in range(X.shape[1]):
        X.iloc[missing[:, j], j] = None
    X["id"] = [f"row {i}" for i in range(N)]
    X["day"] = pd.date_range("2024-01-01", periods=N)
    X.loc[4, "day"] = pd.NaT
    X["length"] = pd.to_timedelta(np.arange(N), unit="h")
    return X


KINDS = {"percent": Bounded(0, 100), "visits": Count()}
USED = 11


@pytest.fixture(scope="module")
def X():
    return _table()


@pytest.fixture(scope="module")
def imputer(X):
    return LowRankImputer(n_components=1, columns=KINDS).fit(X)


# Kinds and types --------------------------------------------------------------------------------


def test_kinds_are_those_asked_for_or_found(imputer):
    assert imputer.kinds_ == {
        "real": "continuous",
        "skewed": "continuous",
        "percent": "bounded",
        "whole": "continuous",
        "visits": "count",
        "rating": "ordinal",
        "text": "nominal",
        "category": "nominal",
        "stage": "ordinal",
        "flag": "binary",
        "truth": "binary",
        "id": "ignored",
        "day": "ignored",
        "length": "ignored",
    }
    assert imputer.levels_ == {
        "rating": (1.0, 2.0, 3.0, 4.0),
        "text": ("p", "q", "r"),
        "category": ("r", "q", "p"),
        "stage": ("low", "mid", "high"),
        "flag": (False, True),
        "truth": (False, True),
    }


def test_every_column_of_pandas_comes_back_in_its_type(imputer, X):
    before = X.copy()
    found = imputer.impute(X)
    pd.testing.assert_frame_equal(X, before)
    assert found.dtypes.equals(X.dtypes)
    assert found.index.equals(X.index)
    assert not found.iloc[:, :USED].isna().any(axis=None)
    for name in X:
        observed = X[name].notna()
        assert found[name][observed].equals(X[name][observed]), name
    assert all(type(value) is bool for value in found["truth"])
    assert all(type(value) is str for value in found["text"])
    pd.testing.assert_frame_equal(found.iloc[:, USED:], X.iloc[:, USED:])  # as they are


EMPTY = {
    "NaN of pandas": lambda T, name: T.assign(**{name: np.nan}),
    "None of pandas": lambda T, name: T.assign(**{name: pd.Series([None] * len(T), dtype=object)}),
    "polars": lambda T, name: pl.from_pandas(T).with_columns(pl.lit(None).alias(name)),
    "pyarrow": lambda T, name: pa.table(
        {c: pa.nulls(len(T)) if c == name else pa.array(T[c].to_numpy()) for c in T}
    ),
}


@pytest.mark.parametrize("library", EMPTY)
@pytest.mark.parametrize("name", ["number", "whole", "text", "truth"])
def test_a_column_of_new_rows_in_which_nothing_is_known_is_imputed(library, name):
    """Its type says nothing: floating point in pandas, null elsewhere."""
    rng = np.random.default_rng(0)
    z = rng.normal(size=60)
    T = pd.DataFrame(
        {
            "number": z + 0.3 * rng.normal(size=60),
            "whole": np.round(50 * z).astype(int),
            "text": np.where(z > 0.2, "yes", "no").astype(object),
            "truth": z < 0.1,
        }
    )
    model = eg.PPCA(1, columns="auto").fit(T)
    new = EMPTY[library](T.head(5), name)
    found = model.impute(new)
    assert type(found) is type(new)
    cells = found[name].to_pylist() if library == "pyarrow" else list(found[name])
    known = T.head(5).astype(object)
    known[name] = None
    expected = list(model.impute(known)[name])
    for cell, x in zip(cells, expected, strict=True):
        assert cell == x or cell == pytest.approx(x)
    assert not any(isinstance(x, Decimal) for x in expected)


def test_a_table_of_polars(X):
    plain = X.drop(columns=["stage", "length"]).astype({"truth": "boolean", "text": "string"})
    table = pl.from_pandas(plain).with_columns(
        pl.col("category").cast(pl.Enum(["r", "q", "p"])),
        pl.col("text").cast(pl.Categorical),
        pl.col("day").cast(pl.Date),
    )
    imputer = LowRankImputer(n_components=1, columns=KINDS).fit(table)
    found = imputer.impute(table)
    assert found.schema == table.schema
    assert found.drop("day").null_count().sum_horizontal().item() == 0
    for name in table.columns:
        observed = table[name].is_not_null()
        assert found[name].filter(observed).equals(table[name].filter(observed))
    low, high = imputer.intervals(table)
    assert low.schema == high.schema == table.schema


def test_a_table_of_pyarrow(X):
    plain = X.drop(columns=["stage", "length", "day"])
    table = pa.Table.from_pandas(plain, preserve_index=False)
    assert pa.types.is_dictionary(table["category"].type)
    table = pa.concat_tables([table.slice(0, 70), table.slice(70)])
    found = LowRankImputer(n_components=1, columns=KINDS).fit(table).impute(table)
    assert found.schema == table.schema
    assert [column.null_count for column in found.columns] == [0] * len(found.columns)


def test_an_array_of_objects(X):
    table = X[["real", "text", "truth", "rating", "whole"]].astype(object).to_numpy()
    table = np.where(pd.isna(table), None, table)
    imputer = LowRankImputer(n_components=1, columns="auto").fit(table)
    kinds = ["continuous", "nominal", "binary", "ordinal", "continuous"]
    assert imputer.kinds_ == dict(enumerate(kinds))
    found = imputer.impute(table)
    observed = table != None  # noqa: E711
    assert np.array_equal(found[observed], table[observed])
    assert [{type(x) for x in column} for column in found.T] == [
        {float},
        {str},
        {bool},
        {int},
        {int},
    ]
    as_list = imputer.impute(table.tolist())
    assert np.array_equal(as_list, found)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_an_array_of_numbers(X, dtype):
    table = X[["real", "skewed", "percent", "rating"]].to_numpy(dtype=dtype, na_value=np.nan)
    imputer = LowRankImputer(n_components=1, columns="auto").fit(table)
    found = imputer.impute(table)
    assert found.dtype == dtype
    assert np.array_equal(found[~np.isnan(table)], table[~np.isnan(table)])
    assert np.isfinite(found).all()
    assert np.all(found[:, 1] > 0)
    assert set(found[:, 3]) <= {1, 2, 3, 4}


def test_names_that_are_numbers_and_an_index_of_repeated_labels(X):
    table = X[["real", "skewed", "text"]].set_axis([10, 20, 30], axis=1).set_axis([0] * N)
    imputer = LowRankImputer(n_components=1, columns={2: "nominal"}).fit(table)
    assert imputer.kinds_ == {0: "continuous", 1: "continuous", 2: "nominal"}
    found = imputer.impute(table)
    assert found.columns.tolist() == [10, 20, 30]
    assert not found.isna().any(axis=None)


def test_a_number_that_is_the_name_of_one_column_and_the_position_of_another_is_refused(X):
    table = X[["real", "skewed", "text"]].set_axis([1, 2, 3], axis=1)
    with pytest.raises(DataError, match="names 1, which is the name of one column"):
        LowRankImputer(n_components=1, columns={1: "ignored"}).fit(table)
    same = table.set_axis([0, 1, 2], axis=1)
    found = LowRankImputer(n_components=1, columns={1: "ignored"}).fit(same)
    assert found.kinds_[1] == "ignored"


def test_kinds_by_name_position_word_class_and_value(X):
    few = X[["real", "skewed", "rating", "text", "visits"]]
    asked = {
        "skewed": "positive",
        0: Continuous("yeo-johnson"),
        "rating": columns.Nominal,
        -1: "count",
        "text": Ordinal(order=["r", "q", "p"]),
    }
    imputer = LowRankImputer(n_components=1, columns=asked).fit(few)
    expected = ["continuous", "positive", "nominal", "ordinal", "count"]
    assert list(imputer.kinds_.values()) == expected
    assert imputer.levels_["text"] == ("r", "q", "p")
    assert clone(imputer).columns == asked


# Values -----------------------------------------------------------------------------------------


def test_imputed_values_respect_their_columns(imputer, X):
    tables = [
        imputer.impute(X),
        *imputer.intervals(X, 0.999),
        *imputer.sample_imputations(X, 20, 0),
    ]
    for table in tables:
        assert (table["skewed"] > 0).all()
        assert table["percent"].between(0, 100).all()
        for name in ("whole", "visits", "rating"):
            assert table[name].dtype == X[name].dtype  # of whole numbers
        assert (table["visits"] >= 0).all()
        assert table["rating"].between(1, 4).all()


def test_a_log_normal_table_has_no_negative_imputation():
    rng = np.random.default_rng(1)
    X = np.exp(2 * rng.normal(size=(200, 1)) + rng.normal(size=(200, 6)))
    missing = np.where(rng.random(X.shape) < 0.3, np.nan, X)
    imputer = LowRankImputer(columns="auto").fit(missing)
    found = imputer.impute(missing)
    assert (found > 0).all()
    assert (imputer.intervals(missing, 0.99)[0] > 0).all()
    gone = np.isnan(missing)
    error = np.log(found[gone]) - np.log(X[gone])
    constant = np.log(np.broadcast_to(np.nanmedian(missing, axis=0), X.shape)[gone] / X[gone])
    assert np.mean(error**2) < 0.5 * np.mean(constant**2)


@pytest.mark.parametrize("seed", range(4))
def test_what_is_never_negative_is_not_imputed_by_negative_numbers(seed):
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(40, 1))
    u = z + 0.7 * rng.normal(size=(40, 4))
    X = np.column_stack([np.exp(u[:, :2]), norm.cdf(u[:, 2]), gamma.ppf(norm.cdf(u[:, 3]), 2)])
    missing = np.where(rng.random(X.shape) < 0.3, np.nan, X)
    imputer = LowRankImputer(n_components=1, columns="auto").fit(missing)
    tables = [*imputer.intervals(missing, 0.9999), *imputer.sample_imputations(missing, 20, 0)]
    assert min(table.min() for table in tables) >= 0
    below = imputer.impute(np.array([[np.nan, np.nan, np.nan, np.nan]]))
    assert np.all(below > 0)


def test_whole_numbers_from_1_on_are_never_imputed_by_0():
    rng = np.random.default_rng(2)
    z = rng.normal(size=300)
    size = np.ceil(np.exp(1.2 * z + 0.3 * rng.normal(size=300)))
    X = np.column_stack([z, z + 0.3 * rng.normal(size=300), size])
    X[::4, 2] = np.nan
    imputer = LowRankImputer(n_components=1, columns={2: "positive"}).fit(X)
    for table in (imputer.impute(X), imputer.intervals(X, 0.99)[0]):
        assert table[:, 2].min() >= 1
        assert np.array_equal(table[:, 2], np.round(table[:, 2]))


def test_numbers_at_a_bound_of_a_column_that_had_none_in_the_fit():
    rng = np.random.default_rng(3)
    z = rng.normal(size=200)
    percent = 100 / (1 + np.exp(-z))
    X = np.column_stack([percent, z + 0.3 * rng.normal(size=200)])
    X[::5, 1] = np.nan
    imputer = LowRankImputer(n_components=1, columns={0: Bounded(0, 100)}).fit(X)
    ends = imputer.impute(np.array([[0.0, np.nan], [50.0, np.nan], [100.0, np.nan]]))
    assert np.all(np.diff(ends[:, 1]) > 0)


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("positive", [0.0, 0.0]),
        ("positive", [0.0, 5.0]),
        ("positive", [5.0, 5.0]),
        (Bounded(0, 100), [100.0, 100.0]),
        (Bounded(0, 100), [0.0, 100.0]),
        (Bounded(0, 100), [0.0, 30.0, 100.0]),
        ("continuous", [7.0, 7.0]),
        ("continuous", [7.0, 8.0]),
        ("count", [0.0, 0.0]),
        ("count", [3.0, 3.0]),
        ("binary", [1.0, 1.0]),
        ("nominal", [1.0, 1.0]),
        ("ordinal", [1.0, 1.0]),
    ],
    ids=str,
)
def test_columns_of_one_or_few_values(kind, values):
    X = np.random.default_rng(4).normal(size=(60, 3))
    X[:, 2] = np.resize(values, 60)
    X[::4, 2] = np.nan
    imputer = LowRankImputer(n_components=1, columns={2: kind}).fit(X)
    found, (low, high) = imputer.impute(X), imputer.intervals(X)
    assert np.isfinite([found, low, high]).all()
    if kind != "count" and kind != "continuous":
        assert set(found[:, 2]) <= set(values)
    if kind == "continuous" and len(set(values)) == 1:
        assert set(found[:, 2]) == set(values)


FEW = [
    ("positive", [0.0, 0.5]),
    ("positive", [0.0, 0.0]),
    ("positive", [0.5, 0.5]),
    (Bounded(0, 1), [0.0, 1.0]),
    (Bounded(0, 1), [1.0, 1.0]),
    (Bounded(0, 1), [0.0, 0.5, 1.0]),
]


@pytest.mark.parametrize(("kind", "values"), FEW, ids=str)
def test_a_range_that_was_named_holds_where_few_of_its_values_were_observed(kind, values, tmp_path):
    X = np.random.default_rng(4).normal(size=(60, 3))
    X[:, 2] = np.resize(values, 60)
    model = eg.FactorAnalysis(1, columns={2: kind}).fit(X)
    new = np.column_stack([X[:3, :2], [0.67, np.nan, 0.1]])
    found = model.impute(new)
    np.testing.assert_array_equal(found[[0, 2], 2], [0.67, 0.1])
    assert found[1, 2] in values
    eg.save(model, tmp_path / "model.egap")
    saved = eg.load(tmp_path / "model.egap")
    for scores in (model.score_samples(new), saved.score_samples(new)):
        assert np.isfinite(scores).all()
    # What is not observed is read as the nearest of what was.
    nearest = np.array(values)[[np.argmin(np.abs(np.array(values) - x)) for x in (0.67, 0.1)]]
    as_observed = np.column_stack([X[[0, 2], :2], nearest])
    np.testing.assert_array_equal(model.transform(new[[0, 2]]), model.transform(as_observed))
    for foreign in [-0.1, 1.1] if isinstance(kind, Bounded) else [-0.1]:
        with pytest.raises(DataError, match="its values lie between 0 and") as caught:
            model.impute(np.array([[0.0, 0.0, foreign]]))
        assert "levels" not in str(caught.value)


def test_a_target_in_a_range_of_which_few_values_were_observed():
    rng = np.random.default_rng(4)
    X = rng.normal(size=(60, 2))
    y = (X[:, 0] + 0.3 * rng.normal(size=60) > 0).astype(float)
    model = eg.PPCARegressor(1, columns="auto", target_kind=Bounded(0, 1)).fit(X, y)
    found = model.predict(X)
    assert np.all((found >= 0) & (found <= 1))
    assert found[y == 1].mean() > found[y == 0].mean()
    low, high = model.intervals(X)
    assert np.all((low >= 0) & (high <= 1))


def test_folds_without_some_values_of_a_range_are_compared():
    X = np.random.default_rng(4).normal(size=(60, 3))
    X[:, 2] = 0.0
    X[[3, 20], 2] = [0.5, 0.67]
    for kind in ("positive", Bounded(0, 1)):
        models = [model(1, columns={2: kind}) for model in (eg.FactorAnalysis, eg.PPCA)]
        found = eg.compare(models, X, cv=5)
        assert np.isfinite(found.log_likelihood).all()


def test_a_row_without_any_value_gets_the_middle_of_each_column(imputer, X):
    row = X.iloc[:1].copy()
    row.iloc[0, :USED] = None
    found = imputer.impute(row).iloc[0]
    assert not found.iloc[:USED].isna().any()
    assert abs(found["real"] - X["real"].median()) < 1.0
    probable = imputer.level_probabilities(row)["flag"][0, 1]
    assert abs(probable - X["flag"].mean()) < 0.1


def test_a_table_without_any_missing_value_is_returned_as_it_is(imputer, X):
    whole = imputer.impute(X)
    again = LowRankImputer(n_components=1, columns=KINDS).fit(whole)
    pd.testing.assert_frame_equal(again.impute(whole), whole)


@pytest.mark.parametrize("rows", [2, 3, 5])
@pytest.mark.filterwarnings("error")
def test_a_few_rows(rows):
    X = pd.DataFrame({"x": [1.0, None, 2.5, 3.0, 4.0], "c": list("abbab"), "y": range(5)})
    imputer = LowRankImputer(columns={"c": "nominal"}).fit(X.iloc[:rows])
    assert not imputer.impute(X.iloc[:rows]).isna().any(axis=None)
    assert imputer.kinds_["x"] == "continuous"


def test_one_column_alone():
    X = pd.DataFrame({"c": ["a", "b", "b", None] * 10})
    imputer = LowRankImputer(columns="auto").fit(X)
    assert imputer.n_components_ == 0
    assert imputer.impute(X)["c"].tolist() == ["a", "b", "b", "b"] * 10
    probable = imputer.level_probabilities(X)["c"][3]
    np.testing.assert_allclose(probable, [1 / 3, 2 / 3], atol=0.02)


# How sure ---------------------------------------------------------------------------------------


def test_intervals_are_nested_and_hold_the_imputed_value(imputer, X):
    found = imputer.impute(X)
    inner_low, inner_high = imputer.intervals(X, 0.5)
    low, high = imputer.intervals(X, 0.95)
    for name in ["real", "skewed", "percent", "whole", "visits", "rating"]:
        ends = [t[name].astype(float) for t in (low, inner_low, found, inner_high, high)]
        assert np.all(np.diff(ends, axis=0) >= 0), name
        observed = X[name].notna()
        assert all((end[observed] == ends[2][observed]).all() for end in ends)
    gone = X["skewed"].isna()
    up, down = high["skewed"] - found["skewed"], found["skewed"] - low["skewed"]
    assert (up[gone] > down[gone]).mean() > 0.9  # a skewed column has skewed intervals


def test_probabilities_of_levels(imputer, X):
    probabilities = imputer.level_probabilities(X)
    assert list(probabilities) == list(imputer.levels_)
    found = imputer.impute(X)
    for name, p in probabilities.items():
        levels = imputer.levels_[name]
        assert p.shape == (N, len(levels))
        assert p.min() >= 0
        np.testing.assert_allclose(p.sum(axis=1), 1.0, atol=1e-9)
        for i in np.flatnonzero(X[name].notna()):
            assert p[i, levels.index(X[name][i])] == 1.0
    for name in ("text", "category", "flag", "truth"):  # the most probable level is imputed
        levels = imputer.levels_[name]
        assert [levels[k] for k in probabilities[name].argmax(axis=1)] == found[name].tolist()


def test_draws_leave_observed_cells_alone_and_have_the_probabilities(imputer, X):
    m = 300
    draws = list(imputer.sample_imputations(X, m, random_state=0))
    again = next(imputer.sample_imputations(X, 1, random_state=0))
    pd.testing.assert_frame_equal(draws[0], again)
    for name in X.columns:
        observed = X[name].notna()
        assert draws[0].dtypes[name] == X.dtypes[name]
        assert draws[0][name][observed].equals(X[name][observed])
    for name, p in imputer.level_probabilities(X).items():
        gone = X[name].isna().to_numpy()
        drawn = np.array([draw[name][gone].astype(object) for draw in draws])
        for k, level in enumerate(imputer.levels_[name]):
            share, expected = (drawn == level).mean(axis=0), p[gone, k]
            # Four standard errors, and what the uncertainty of the parameters may add to p.
            tolerance = 4 * np.sqrt(np.maximum(expected * (1 - expected), 0.02) / m) + 0.03
            assert np.all(np.abs(share - expected) < tolerance), name


def test_standard_deviations(imputer, X):
    _, std = imputer.impute(X, return_std=True)
    assert std.columns.equals(X.columns)
    for name in ("real", "skewed", "percent", "whole", "visits"):
        assert (std[name][X[name].notna()] == 0).all()
        assert (std[name][X[name].isna()] >= 0).all()
    for name in ("text", "category", "stage", "flag", "truth", "day"):  # levels; what is ignored
        assert (std[name].isna() == X[name].isna()).all()


def test_intervals_cover_held_out_values():
    inside = total = 0
    for seed in range(3):
        X = _table(seed).iloc[:, [0, 1, 3]].astype(float)
        rng = np.random.default_rng(seed)
        hidden = X.notna().to_numpy() & (rng.random(X.shape) < 0.15)
        kept = X.mask(hidden)
        low, high = LowRankImputer(n_components=1, columns="auto").fit(kept).intervals(kept, 0.9)
        inside += np.sum(((low <= X) & (high >= X)).to_numpy()[hidden])
        total += hidden.sum()
    assert abs(inside / total - 0.9) < 4 * np.sqrt(0.09 / total) + 0.02


# scikit-learn, files ----------------------------------------------------------------------------


def _assert_same(a: LowRankImputer, b: LowRankImputer, X: pd.DataFrame) -> None:
    pd.testing.assert_frame_equal(a.impute(X), b.impute(X))
    assert a.kinds_ == b.kinds_
    assert a.levels_ == b.levels_
    for one, other in zip(a.intervals(X), b.intervals(X), strict=True):
        pd.testing.assert_frame_equal(one, other)


def test_pickles_and_files_give_the_same_answers(imputer, X, tmp_path):
    _assert_same(imputer, pickle.loads(pickle.dumps(imputer)), X)
    eg.save(imputer, tmp_path / "mixed.egap")
    loaded = eg.load(tmp_path / "mixed.egap")
    _assert_same(imputer, loaded, X)
    assert loaded.columns == KINDS


def test_every_kind_goes_into_files(X, tmp_path):
    few = X[["real", "skewed", "rating", "text", "visits", "flag", "id"]]
    asked = {
        "real": Continuous("rank"),
        "skewed": "positive",
        "rating": "nominal",
        "visits": Count(0.2),
        "text": Ordinal(order=["r", "q", "p"]),
        "id": "ignored",
    }
    imputer = LowRankImputer(n_components=1, columns=asked).fit(few)
    eg.save(imputer, tmp_path / "mixed.egap")
    _assert_same(imputer, eg.load(tmp_path / "mixed.egap"), few)


def test_levels_that_a_model_file_cannot_hold_are_named(X, tmp_path):
    few = X[["real", "skewed"]].assign(part=pd.cut(X["percent"], 3))
    imputer = LowRankImputer(n_components=1, columns="auto").fit(few)
    _assert_same(imputer, pickle.loads(pickle.dumps(imputer)), few)
    with pytest.raises(UnsavableError, match=r"Interval, and a model file"):
        eg.save(imputer, tmp_path / "mixed.egap")


def test_dates_that_are_text_are_left_out_unless_they_are_asked_for(tmp_path):
    rng = np.random.default_rng(0)
    z = rng.normal(size=60)
    year = [f"{1990 + i}-01-01" for i in np.argsort(np.argsort(z)) // 10]
    table = pd.DataFrame({"a": z, "b": z + 0.3 * rng.normal(size=60), "year": year})
    table.to_csv(tmp_path / "table.csv", index=False)
    for X in (table, tmp_path / "table.csv", pl.from_pandas(table)):
        model = eg.PPCA(1, columns="auto").fit(X)
        assert model.kinds_["year"] == "ignored"
        assert "its text is dates or times" in str(model.summary())
    assert eg.overview(table).columns[2].kind == "ignored"
    later = table.assign(year="2026-11-18")  # no level of the fit, and no matter
    assert (model.impute(later)["year"] == "2026-11-18").all()
    named = eg.PPCA(1, columns={"year": "nominal"}).fit(table)
    assert named.kinds_["year"] == "nominal"
    levels = eg.PPCA(1, columns="auto").fit(table.astype({"year": "category"}))
    assert levels.kinds_["year"] == "nominal"


def test_columns_of_arrow_in_pandas(X):
    few = X[["real", "whole", "text", "category", "flag"]].astype(
        {
            "real": pd.ArrowDtype(pa.float32()),
            "whole": pd.ArrowDtype(pa.int16()),
            "text": pd.ArrowDtype(pa.string()),
            "category": pd.ArrowDtype(pa.dictionary(pa.int32(), pa.string())),
            "flag": pd.ArrowDtype(pa.bool_()),
        }
    )
    imputer = LowRankImputer(n_components=1, columns="auto").fit(few)
    found = imputer.impute(few)
    assert found.dtypes.equals(few.dtypes)
    assert not found.isna().any(axis=None)
    for name in few:
        observed = few[name].notna()
        assert found[name][observed].tolist() == few[name][observed].tolist()


def test_a_clone_fits_to_the_same(imputer, X):
    _assert_same(imputer, clone(imputer).fit(X), X)


def test_how_it_shows_itself(imputer):
    assert "columns={'percent'" in repr(imputer)
    text = str(imputer.summary())
    assert "4 continuous" not in text  # three: percent is bounded, visits are counts
    assert "3 continuous" in text
    assert 'column "id": 150 different values in 150 rows are names, not levels' in text
    assert "CodedTable" not in text
    assert "nominal" in imputer._repr_html_()


def test_transform_and_names(imputer, X):
    pd.testing.assert_frame_equal(imputer.transform(X), imputer.impute(X))
    assert imputer.get_feature_names_out().tolist() == X.columns.tolist()
    assert imputer.n_features_in_ == X.shape[1]
    pandas = clone(imputer).set_output(transform="pandas").fit(X)
    pd.testing.assert_frame_equal(pandas.transform(X), imputer.impute(X))


def test_other_libraries_by_set_output(X):
    few = X[["real", "skewed", "text", "flag"]]
    tables = [pl.from_pandas(few), pa.Table.from_pandas(few), few.to_numpy(dtype=object)]
    for table in tables:
        imputer = LowRankImputer(n_components=1, columns="auto").set_output(transform="pandas")
        found = imputer.fit(table).transform(table)
        assert isinstance(found, pd.DataFrame)
        assert not found.isna().any(axis=None)
    polars = LowRankImputer(n_components=1, columns="auto").set_output(transform="polars")
    assert isinstance(polars.fit(few).transform(few), pl.DataFrame)


def test_a_step_of_a_pipeline(X):
    few = X[["real", "skewed", "text", "category"]]
    y = (X["percent"].fillna(50) > 50).astype(int)
    encoded = make_column_transformer(
        (OneHotEncoder(), make_column_selector(dtype_include=["object", "category"])),
        (StandardScaler(), make_column_selector(dtype_include="number")),
    )
    pipeline = make_pipeline(
        LowRankImputer(n_components=1, columns="auto"), encoded, LogisticRegression()
    )
    assert pipeline.fit(few, y).score(few, y) > 0.7


def test_random_state_decides_what_is_held_out(X):
    few = X[["real", "skewed", "stage", "text"]]
    one, two = (LowRankImputer(columns="auto", random_state=7).fit(few) for _ in range(2))
    assert one.n_components_ == two.n_components_
    pd.testing.assert_frame_equal(one.impute(few), two.impute(few))


def test_rows_of_weight_0_change_nothing(X):
    few = X[["real", "skewed", "whole", "stage"]]
    outliers = few.copy()
    outliers.loc[:9, "real"] = outliers.loc[:9, "real"] + 50.0
    weight = np.r_[np.zeros(10), np.ones(N - 10)]
    how = {"n_components": 1, "columns": "auto"}
    weighted = LowRankImputer(**how).fit(outliers, sample_weight=weight)
    without = LowRankImputer(**how).fit(few.iloc[10:], sample_weight=np.ones(N - 10))
    a, b = weighted.impute(few), without.impute(few)
    pd.testing.assert_frame_equal(a, b, rtol=1e-6)


def test_weights_count(X):
    few = X[["real", "skewed", "whole"]]
    heavy = np.where(few["real"] > 3, 5.0, 1.0)
    plain = LowRankImputer(n_components=1, columns="auto").fit(few)
    weighted = LowRankImputer(n_components=1, columns="auto").fit(few, sample_weight=heavy)
    row = few.iloc[:1].mask(np.ones((1, 3), bool))
    assert weighted.impute(row)["real"].item() > plain.impute(row)["real"].item()


def test_codes_for_missing_values_in_numbers(X):
    few = X[["real", "skewed", "text"]]
    coded = few.fillna({"real": -999.0, "skewed": -999.0})
    coded["level"] = pd.Categorical(np.where(np.arange(N) % 2, -999, 1))
    few = few.assign(level=coded["level"])
    one = LowRankImputer(n_components=1, columns="auto", missing_values=-999).fit(coded)
    two = LowRankImputer(n_components=1, columns="auto").fit(few)
    assert one.levels_["level"] == (-999, 1)
    pd.testing.assert_frame_equal(one.impute(coded), two.impute(few))


@pytest.mark.parametrize("library", ["polars", "pandas", "pyarrow"])
@pytest.mark.parametrize("cls", [eg.FactorAnalysis, eg.LowRankImputer])
def test_draws_have_the_same_types_in_every_table(library, cls):
    """A count beyond 255 made its draw floating-point, and the others were of 8 bits."""
    rng = np.random.default_rng(0)
    z = rng.normal(size=120)
    table = pl.DataFrame(
        {
            "small": np.minimum(rng.poisson(90 * np.exp(0.8 * z)), 255),
            "large": rng.poisson(90 * np.exp(0.8 * z)),
            "grade": rng.integers(1, 4, size=120),
            "percent": (100 / (1 + np.exp(-z - rng.normal(size=120)))).round(),
            "complete": rng.poisson(5.0, size=120),
            "x": z,
        }
    )
    types = {"small": pl.UInt8, "grade": pl.UInt8, "percent": pl.UInt8, "complete": pl.UInt8}
    table = table.cast({**types, "large": pl.Int64})
    gone = pl.int_range(pl.len()) % 5 == 0
    names = [name for name in table.columns if name != "complete"]
    table = table.with_columns(
        pl.when(gone).then(None).otherwise(pl.col(name)).alias(name) for name in names
    )
    kinds = {"small": "count", "large": "count", "percent": Bounded(0, 100), "complete": "count"}
    model = cls(n_components=1, columns=kinds).fit(table)
    given = table
    if library == "pyarrow":
        given = table.to_arrow()
    if library == "pandas":
        given = pd.DataFrame(
            {
                name: pd.array(table[name].to_list(), dtype=str(table[name].dtype))
                for name in table.columns
            }
        )
    want = ["Float64", "Int64", "UInt8", "UInt8", "UInt8", "Float64"]
    for drawn in model.sample_imputations(given, 3, random_state=0):
        columns = nw.from_native(drawn, eager_only=True)
        assert [str(dtype) for dtype in columns.schema.values()] == want
        assert columns.null_count().to_numpy().sum() == 0
        observed = table["small"].is_not_null().to_numpy()
        np.testing.assert_array_equal(
            columns["small"].to_numpy()[observed], table["small"].drop_nulls().to_numpy()
        )
