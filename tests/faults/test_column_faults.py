"""What LowRankImputer refuses in tables with columns of every kind, and what the message names."""

from __future__ import annotations

import pickle
import re
import warnings
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse
from sklearn.base import BaseEstimator
from sklearn.ensemble import IsolationForest

import eigengap as eg
from eigengap import PPCA, FactorAnalysis, LowRankImputer
from eigengap.columns import Binary, Bounded, Censored, Continuous, Count, Ignored, Ordinal
from eigengap.exceptions import (
    DataError,
    InfiniteCellError,
    NoiseFloorWarning,
    SentinelWarning,
    UnknownLevelError,
)


def _table(n: int = 60) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    z = rng.normal(size=n)
    X = pd.DataFrame(
        {
            "x": z + 0.5 * rng.normal(size=n),
            "income": np.exp(z + 0.5 * rng.normal(size=n)),
            "share": 1 / (1 + np.exp(-z - 0.5 * rng.normal(size=n))),
            "grade": np.digitize(z + 0.5 * rng.normal(size=n), [-0.5, 0.5]) * 1.0,
            "visits": rng.poisson(np.exp(1 + 0.3 * z)) * 1.0,
            "size": np.array(["S", "M", "L"])[
                np.digitize(z + 0.5 * rng.normal(size=n), [-0.5, 0.5])
            ],
        }
    )
    return X.mask(rng.random(X.shape) < 0.1)


KINDS = {"income": "positive", "share": Bounded(0, 1), "visits": "count", "grade": "ordinal"}


@pytest.fixture(scope="module")
def imputer():
    return LowRankImputer(n_components=1, columns=KINDS).fit(_table())


def _fit(X, columns="auto", **how):
    return LowRankImputer(n_components=1, columns=columns, **how).fit(X)


# New rows ---------------------------------------------------------------------------------------

FOREIGN = [
    ("size", "XL", UnknownLevelError),
    ("grade", 7.0, UnknownLevelError),
    ("grade", 0.5, UnknownLevelError),
    ("income", -1.0, DataError),
    ("share", 1.5, DataError),
    ("share", -0.1, DataError),
    ("visits", 2.5, DataError),
    ("visits", -1.0, DataError),
]


@pytest.mark.parametrize("answer", ["impute", "transform", "intervals", "level_probabilities"])
@pytest.mark.parametrize(("name", "value", "error"), FOREIGN, ids=str)
def test_a_value_that_its_column_cannot_hold(imputer, name, value, error, answer):
    X = _table()
    X.loc[3, name] = value
    with pytest.raises(error, match=f'at row 3, column "{name}"') as caught:
        getattr(imputer, answer)(X)
    assert (caught.value.row, caught.value.name) == (3, name)
    assert caught.value.value == value


def test_draws_refuse_at_once_and_not_at_the_first_table(imputer):
    X = _table()
    X.loc[3, "size"] = "XL"
    with pytest.raises(UnknownLevelError):
        imputer.sample_imputations(X, 2)


def test_a_number_below_the_logarithm_that_was_found():
    rng = np.random.default_rng(1)
    X = np.exp(rng.normal(size=(80, 1)) * 2 + rng.normal(size=(80, 3)))
    imputer = _fit(X)
    bad = X[:3].copy()
    bad[1, 2] = -4.0
    with pytest.raises(DataError, match=r"-4.0 at row 1, column 2, .* between 0 and inf"):
        imputer.impute(bad)


def test_text_where_numbers_were(imputer):
    X = _table().astype({"x": object})
    X.loc[5, "x"] = "many"
    with pytest.raises(ValueError, match='column "x" held numbers in the fit'):
        imputer.impute(X)


@pytest.mark.parametrize(
    ("cells", "match"),
    [
        (lambda x: x.astype(str).where(x.notna()), r'numbers written as text: ".+" at row 0'),
        (lambda x: pd.to_datetime(x, unit="D"), "date or time: .* at row 0"),
        (lambda x: x.astype(object).where(x.index != 4, "many"), 'text among .*: "many" at row 4'),
    ],
)
def test_cells_where_numbers_were_are_named_with_the_way_out(imputer, cells, match):
    X = _table()
    with pytest.raises(DataError, match=f'"visits" held numbers .* now holds {match}. [A-Z]'):
        imputer.impute(X.assign(visits=cells(X["visits"])))


@pytest.mark.parametrize(
    ("value", "kinds"), [(25.0, '"count"} or "continuous"'), (0.5, '"continuous"}')]
)
def test_a_number_outside_the_levels_has_a_way_out(imputer, value, kinds):
    X = _table()
    X.loc[3, "grade"] = value
    with pytest.raises(UnknownLevelError, match=f'fit with columns={{"grade": {kinds}'):
        imputer.impute(X)


def test_infinity_is_refused_by_name(imputer):
    X = _table()
    X.loc[2, "income"] = np.inf
    with pytest.raises(InfiniteCellError, match='inf at row 2, column "income"'):
        imputer.impute(X)
    with pytest.raises(InfiniteCellError, match='inf at row 2, column "income"'):
        _fit(X)
    kinds = {**KINDS, "income": "ignored"}
    found = _fit(X, kinds).impute(X)
    assert found["income"].equals(X["income"])


def test_columns_in_another_order_or_number(imputer):
    X = _table()
    with pytest.raises(ValueError, match="feature names should match"):
        imputer.impute(X[X.columns[::-1]])
    with pytest.raises(ValueError, match="feature names should match"):
        imputer.impute(X.drop(columns="size"))
    with pytest.raises(ValueError, match="features"):
        _fit(X.astype(object).to_numpy(), {3: "ordinal"}).impute(X.iloc[:, :4].to_numpy())


# The fit ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("column", "kind", "what"),
    [
        ("x", "positive", "a negative number"),
        ("x", Continuous("log"), "a number that is not positive"),
        ("income", Bounded(0, 0.5), "a number outside 0 to 0.5"),
        ("x", "count", "a number that is not a count"),
        ("size", "count", "text"),
        ("size", "continuous", "text"),
        ("size", Bounded(0, 1), "text"),
        ("size", Binary(), "a third level"),
        ("grade", "binary", "a third level"),
    ],
)
def test_a_kind_that_does_not_fit_its_data(column, kind, what):
    X = _table()
    with pytest.raises(
        DataError, match=f'column "{column}" cannot be .*: it has {what} at row'
    ) as caught:
        _fit(X, {column: kind})
    assert caught.value.name == column
    assert not pd.isna(X[column][caught.value.row])


@pytest.mark.parametrize("bound", [1e15, 1e140])
def test_bounds_so_wide_that_values_are_alike_between_them(bound):
    with pytest.raises(DataError, match=r'"x" cannot be bounded by -1e\+1.* Make it Continuous'):
        _fit(_table(), {"x": Bounded(-bound, bound)})
    assert _fit(_table(), {"income": Bounded(0, bound)}).kinds_["income"] == "bounded"


def test_text_is_ordinal_only_with_an_order():
    X = _table()
    with pytest.raises(DataError, match=r'"size" holds text, which has no order.*Ordinal\(order='):
        _fit(X, {"size": "ordinal"})
    assert _fit(X, {"size": Ordinal(order=["S", "M", "L"])}).levels_["size"] == ("S", "M", "L")
    stages = X["size"].astype(pd.CategoricalDtype(["S", "M", "L"], ordered=True))
    assert _fit(X.assign(size=stages), {"size": "ordinal"}).levels_["size"] == ("S", "M", "L")
    with pytest.raises(UnknownLevelError, match='"L" at row'):
        _fit(X, {"size": Ordinal(order=["S", "M"])})


@pytest.mark.parametrize(
    "kind", ["gaussian", 3, None, ("ordinal",), Bounded(0, 1).__class__.__name__]
)
def test_what_is_no_kind(kind):
    with pytest.raises(
        ValueError, match=r'the kind of column "x" is .* one of continuous, .*positive'
    ):
        _fit(_table(), {"x": kind})


def test_columns_that_are_not_there():
    with pytest.raises(DataError, match="salary"):
        _fit(_table(), {"salary": "positive"})
    with pytest.raises(DataError, match="position 9"):
        _fit(_table(), {9: "positive"})
    with pytest.raises(DataError, match="no column names"):
        _fit(np.zeros((5, 2)), {"x": "positive"})
    with pytest.raises(DataError, match='column "x" more than once'):
        _fit(_table(), {"x": "continuous", 0: "continuous"})


@pytest.mark.parametrize(
    "make",
    [
        lambda: Continuous("logit"),
        lambda: Continuous("sqrt"),
        lambda: Bounded(1, 1),
        lambda: Bounded(0, float("nan")),
        lambda: Bounded(0, np.inf),
        lambda: Bounded(-np.inf, 1),
        lambda: Bounded(2, 1),
        lambda: Bounded(-1.5e308, 1.5e308),
        lambda: Count(-1.0),
        lambda: Ordinal(order="SML"),
        lambda: Ordinal(order=["S", "M", "S"]),
    ],
)
def test_kinds_that_make_no_sense(make):
    with pytest.raises(ValueError, match=r"must|more than once"):
        make()


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: Bounded("a", 2), "lower must be a number, got 'a'"),
        (lambda: Bounded(None, 1), "lower must be a number, got None"),
        (lambda: Bounded(0, [1]), r"upper must be a number, got \[1\]"),
        (lambda: Censored(below="0.1"), "below must be a number, got '0.1'"),
        (lambda: Censored(above=None), "above must be a number, got None"),
        (lambda: Count(dispersion=None), 'dispersion must be "auto", 0 or a positive .* got None'),
        (lambda: Count(dispersion=[1.0]), r'dispersion must be "auto", .* got \[1.0\]'),
        (lambda: Ordinal(order=[["S"], ["M"]]), "levels must be text, numbers or truth values"),
    ],
)
def test_parameters_of_kinds_that_are_no_numbers_are_named(make, match):
    with pytest.raises(TypeError, match=match):
        make()


@pytest.mark.parametrize("order", [[2.0, 0.0], ["low", "high"], [2, 0, 3]])
def test_numbers_that_an_order_does_not_have(order):
    X = _table()
    first = int(np.argmax(X["grade"] == 1.0))
    with pytest.raises(UnknownLevelError, match=r"not in order=") as caught:
        _fit(X, {"grade": Ordinal(order=order)})
    row = first if order != ["low", "high"] else int(np.argmax(X["grade"].notna()))
    assert (caught.value.row, caught.value.name) == (row, "grade")


# Sizes ------------------------------------------------------------------------------------------


def _rates() -> pd.DataFrame:
    return _table()[["x", "share", "visits"]].assign(hours=np.linspace(1.0, 3.0, 60))


SIZED = {"visits": Count(size="hours")}


@pytest.mark.parametrize("is_missing", [False, True])
@pytest.mark.parametrize(
    ("size", "match"),
    [
        (-2.0, '-2 at row 5, column "hours", is no size of the count in column "visits"'),
        (0.0, '0 at row 5, column "hours", is no size of the count in column "visits"'),
        (np.inf, 'inf at row 5, column "hours"'),
    ],
)
def test_sizes_are_positive_also_where_the_count_is_missing(size, match, is_missing, tmp_path):
    X, model = _rates(), FactorAnalysis(0, columns=SIZED).fit(_rates())
    X.loc[5, "hours"] = size
    X.loc[5, "visits"] = np.nan if is_missing else 2.0
    X.to_csv(tmp_path / "rates.csv", index=False)
    for refused in (lambda: FactorAnalysis(0, columns=SIZED).fit(X), lambda: model.impute(X)):
        with pytest.raises(DataError, match=match) as caught:
            refused()
        assert (caught.value.row, caught.value.name) == (5, "hours")
    if np.isfinite(size):
        with pytest.raises(DataError, match=match):
            FactorAnalysis(0, columns=SIZED).fit(tmp_path / "rates.csv")
    weight = np.where(np.arange(60) == 5, 0.0, 1.0)
    if np.isfinite(size):
        for table in (X, tmp_path / "rates.csv"):
            FactorAnalysis(0, columns=SIZED).fit(table, sample_weight=weight)


def test_a_size_may_be_missing_where_the_count_is():
    X = _rates()
    X.loc[5, ["hours", "visits"]] = np.nan
    assert FactorAnalysis(0, columns=SIZED).fit(X).impute(X).loc[5, "visits"] >= 0
    X.loc[5, "visits"] = 2.0
    with pytest.raises(DataError, match='row 5, column "visits", has no size: column "hours"'):
        FactorAnalysis(0, columns=SIZED).fit(X)


def test_a_total_that_may_be_a_column_is_refused():
    X = _rates().rename(columns={"hours": "total"})
    kinds = {"visits": Count(size="total")}
    with pytest.raises(DataError, match=r'may mean the column "total" .* Count\(size=3\)'):
        FactorAnalysis(0, columns=kinds).fit(X)
    by_position = FactorAnalysis(0, columns={"visits": Count(size=3)}).fit(X)
    by_name = FactorAnalysis(0, columns=SIZED).fit(_rates())
    assert by_position.log_likelihood_ == by_name.log_likelihood_


def test_a_column_is_not_its_own_size():
    with pytest.raises(DataError, match='column "visits" is named as its own size'):
        FactorAnalysis(0, columns={"visits": Count(size="visits")}).fit(_rates())


EMPTY = {
    "float": np.full(60, np.nan),
    "object": np.full(60, None),
    "string": pd.array([None] * 60, dtype="string"),
    "category": pd.Categorical([None] * 60, ["a", "b"]),
    "boolean": pd.array([None] * 60, dtype="boolean"),
}


@pytest.mark.parametrize("dtype", EMPTY)
def test_a_column_without_any_value_is_refused_by_name_unless_it_is_ignored(dtype):
    X = _table().assign(empty=EMPTY[dtype])
    with pytest.raises(DataError, match='column "empty" has no observed value') as caught:
        _fit(X)
    assert (caught.value.column, caught.value.name) == (6, "empty")
    imputer = _fit(X, {"empty": "ignored"})
    found = imputer.impute(X)
    assert found["empty"].isna().all()
    assert not found.drop(columns="empty").isna().any(axis=None)
    assert "ignored" in str(imputer.summary())


DATES = pd.date_range("2024-01-01", periods=60)


@pytest.mark.parametrize(
    ("cells", "what"),
    [
        (DATES, "it holds dates or times. Make numbers of it, days since"),
        (pd.Series(DATES.date, dtype=object), "it holds dates or times. Make numbers of it"),
        (pd.to_timedelta(np.arange(60), unit="h"), "it holds dates or times. Make numbers"),
        (pd.Series([[1]] * 60), "it holds neither numbers nor levels. Make numbers or text"),
    ],
)
@pytest.mark.parametrize("kind", [Continuous(), "nominal"])
def test_a_column_of_neither_numbers_nor_levels_says_what_it_holds(cells, what, kind):
    X = _table().assign(when=cells)
    with pytest.raises(DataError, match=f'column "when" cannot be .*: {what}') as caught:
        _fit(X, {"when": kind})
    assert (caught.value.column, caught.value.name) == (6, "when")


# Words among numbers ----------------------------------------------------------------------------


def _with_words() -> pd.DataFrame:
    X = _table()[["x", "share", "size"]]
    return X.assign(size=X["x"].round(2).astype(str).where(X["x"].notna())).assign(
        size=lambda Y: Y["size"].mask(Y.index.isin([7, 30]), "ND")
    )


@pytest.mark.parametrize("where", ["pandas", "polars", "csv"])
@pytest.mark.parametrize("cls", [FactorAnalysis, LowRankImputer])
def test_words_among_numbers_are_warned_of_once(where, cls, tmp_path):
    X = _with_words()
    X.to_csv(tmp_path / "words.csv", index=False)
    tables = {"pandas": X, "polars": pl.from_pandas(X), "csv": tmp_path / "words.csv"}
    with pytest.warns(SentinelWarning) as caught:
        cls(n_components=1, columns="auto").fit(tables[where])
    (message,) = [str(one.message) for one in caught if one.category is SentinelWarning]
    assert 'column "size" holds numbers, but text in 2 cells ("ND" at row 7)' in message
    assert "left out of the model" in message
    way = {"pandas": "pandas.to_numeric(X[", "polars": "strict=False", "csv": '["ND"]'}[where]
    assert way in message


@pytest.mark.filterwarnings("error::eigengap.exceptions.SentinelWarning")
def test_words_of_columns_whose_kind_is_named_are_not_warned_of(tmp_path):
    X = _with_words()
    FactorAnalysis(0, columns={"size": "ignored"}).fit(X)
    X.to_csv(tmp_path / "words.csv", index=False)
    for cls in (FactorAnalysis, LowRankImputer):
        how = {"n_components": 1, "columns": {"x": "continuous"}, "missing_values": ["ND"]}
        assert cls(**how).fit(tmp_path / "words.csv").kinds_["size"] == "continuous"


def _told(X) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        FactorAnalysis(1, columns="auto").fit(X)
    return [str(one.message) for one in caught if one.category is SentinelWarning]


def _tables(X: pd.DataFrame, folder) -> dict[str, Any]:
    X.to_csv(folder / "x.csv", index=False)
    X.to_parquet(folder / "x.parquet")
    files = {ending: folder / f"x.{ending}" for ending in ("csv", "parquet")}
    return {"pandas": X, "polars": pl.from_pandas(X), "array": X.to_numpy(object), **files}


AS_TEXT = {
    "money": (lambda x: f"${1e4 + x:,.2f}", "a sum of money", "without the sign"),
    "percent": (lambda x: f"{x:.1f}%", "a percentage", "without the sign"),
    "comma": (lambda x: f"{x:.2f}".replace(".", ","), "a decimal comma", "write"),
    "unit": (lambda x: f"{x:.1f} kg", "a number with a unit (kg)", "write"),
    "prices": (lambda x: f"${5 * (1 + x // 34):g}", "a sum of money", "without the sign"),
    "both": (lambda x: f"{x:.1f}%" if x % 2 else f"{x}", "a percentage", "without the sign"),
}


@pytest.mark.parametrize("of", AS_TEXT)
@pytest.mark.parametrize("where", ["pandas", "polars", "array", "csv", "parquet"])
def test_numbers_in_another_notation_are_warned_of(of, where, tmp_path):
    written, like, way = AS_TEXT[of]
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(100, 2)), columns=["a", "b"])
    X["c"] = [written(x) for x in rng.permutation(100)]
    (message,) = _told(_tables(X, tmp_path)[where])
    label = "2" if where == "array" else '"c"'
    assert f"column {label} holds text that looks like {like}" in message
    assert way in message
    row = int(re.search(r"at row (\d+)", message)[1])
    assert f'("{X["c"][row]}" at row' in message
    is_out = "left out of the model" in message
    assert is_out == (of != "prices")
    kind = "ignored" if is_out else "nominal"
    assert f'columns={{{label}: "{kind}"}}' in message


def test_numbers_in_another_notation_of_more_texts_than_are_kept_are_warned_of():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(10_500, 2)), columns=["a", "b"])
    X["pay"] = [f"${k:,d}.50" for k in range(len(X))]
    (message,) = _told(X)
    assert '"pay" holds text that looks like a sum of money ("$0.50" at row 0)' in message


@pytest.mark.parametrize("mark", ["-", "?", "\u2013", "--", "...", " "])
@pytest.mark.parametrize("where", ["pandas", "polars", "array", "csv", "parquet"])
def test_a_mark_among_words_is_warned_of(mark, where, tmp_path):
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(60, 2)), columns=["a", "b"])
    X["habit"] = np.resize(["smoker", "nonsmoker", "nonsmoker"], 60)
    X.loc[[7, 30], "habit"] = mark
    told = _told(_tables(X, tmp_path)[where])
    if where == "csv" and mark == " ":  # an empty cell
        assert told == []
        return
    (message,) = told
    label = "2" if where == "array" else '"habit"'
    assert f'column {label} holds a mark in 2 cells ("{mark}" at row 7)' in message
    if where == "pandas":
        code = f'X["habit"].mask(X["habit"] == "{mark}")'
        assert code in message
        X["habit"] = eval(code, {"X": X})
        assert _told(X) == []
    if where == "csv":
        assert f'missing_values=["{mark}"]' in message


@pytest.mark.parametrize(
    "levels",
    [
        ["+", "-"],
        ["++", "+", "-", "--"],
        ["A+", "A-", "B+"],
        ["555 1234", "030 99", "1 2"],
        ["00501", "12345", "99999"],
        ["2024-01-01", "2024-01-02", "2024-01-03"],
        ["v1.2", "v1.3"],
        ["12A", "3B"],
        ["-", "?"],
    ],
    ids=str,
)
def test_other_text_is_not_warned_of(levels):
    X = pd.DataFrame(np.random.default_rng(0).normal(size=(60, 2)), columns=["a", "b"])
    X["c"] = np.resize(levels, 60)
    assert _told(X) == []
    X["c"] = pd.Categorical(np.resize(["low", "?", "high"], 60), ["low", "?", "high"], True)
    assert _told(X) == []


def test_a_null_column_of_polars():
    X = pl.from_pandas(_table()).with_columns(pl.lit(None).alias("empty"))
    with pytest.raises(DataError, match='column "empty" has no observed value'):
        _fit(X)
    assert _fit(X, {"empty": Ignored()}).impute(X).schema == X.schema


def test_more_components_than_there_are_variables():
    with pytest.raises(ValueError, match=r"n_components is 8, but .* only 7 Gaussian variables"):
        LowRankImputer(n_components=8, columns="auto").fit(_table())


def test_numbers_whose_squares_overflow():
    X = _table()
    X.loc[4, "income"] = 1e200
    with pytest.raises(DataError, match=r'1e\+200 at row 4, column "income"') as caught:
        _fit(X)
    assert (caught.value.row, caught.value.name) == (4, "income")


def test_tables_that_are_none():
    X = _table()
    with pytest.raises(DataError, match='2 columns named "x"'):
        _fit(X.set_axis(["x", "x", "share", "grade", "visits", "size"], axis=1))
    with pytest.raises(DataError, match="at least 2 rows"):
        _fit(X.iloc[:1].fillna({"x": 0.0, "size": "S"}))
    with pytest.raises(DataError, match=r"0 sample\(s\)"):
        _fit(X.iloc[:0])
    with pytest.raises(ValueError, match="Expected 2D array"):
        _fit(np.zeros(4))
    with pytest.raises(FileNotFoundError, match=r"no_table\.csv"):
        _fit("no_table.csv")
    with pytest.raises(ValueError, match="dense"):
        LowRankImputer(columns={0: "positive"}).fit(scipy.sparse.csr_array(np.eye(4)))
    with pytest.raises(ValueError, match="collect"):
        _fit(pl.from_pandas(X).lazy())
    with pytest.raises(ValueError, match="every column is ignored"):
        _fit(pd.DataFrame({"id": [f"row {i}" for i in range(50)]}))


@pytest.mark.parametrize("parameters", [{"integers": ["size"]}, {"bounds": {"size": (0, 1)}}])
def test_rounding_and_bounds_are_for_numbers(parameters):
    with pytest.raises(ValueError, match='names column "size", which holds no numbers'):
        LowRankImputer(n_components=1, **parameters).fit(_table())


class _OfNumbers(BaseEstimator):
    def fit(self, X):
        raise AssertionError("refused before")

    def impute(self, X):
        raise AssertionError("never fitted")


def test_estimators_that_cannot_take_levels():
    with pytest.raises(TypeError, match="takes numbers only"):
        LowRankImputer(_OfNumbers()).fit(_table())
    with pytest.raises(ValueError, match="several estimators"):
        LowRankImputer([PPCA(1), PPCA(2)]).fit(_table())
    with pytest.raises(ValueError, match="scale of its own"):
        LowRankImputer(scale=False).fit(_table())


def test_gaussian_numbers_have_no_levels():
    table = _table()[["x", "income", "share"]]
    imputer = LowRankImputer(n_components=1, columns="numeric").fit(table)
    assert imputer.level_probabilities(table) == imputer.levels_ == {}
    assert imputer.kinds_ == dict.fromkeys(table.columns, "gaussian")


def test_text_is_refused_without_columns():
    with pytest.raises(ValueError, match='"size"'):
        LowRankImputer(columns="numeric").fit(_table())


def test_weights_that_do_not_fit():
    with pytest.raises(DataError, match="sample_weight has 3 entries"):
        LowRankImputer(columns="auto").fit(_table(), sample_weight=np.ones(3))
    with pytest.raises(DataError, match="not negative"):
        LowRankImputer(columns="auto").fit(_table(), sample_weight=-np.ones(60))


# Densities --------------------------------------------------------------------------------------

DENSITIES = [PPCA, FactorAnalysis]
ANSWERS = [
    "impute",
    "intervals",
    "transform",
    "posterior",
    "reconstruct",
    "score_samples",
    "score",
    "explain",
    "level_probabilities",
    lambda model, X: model.sample_imputations(X, 1),
]


@pytest.fixture(scope="module", params=DENSITIES, ids=lambda cls: cls.__name__)
def density(request):
    return request.param(1, columns=KINDS, tol=1e-4).fit(_table())


@pytest.mark.parametrize("answer", ANSWERS, ids=lambda a: a if isinstance(a, str) else "draws")
@pytest.mark.parametrize(
    ("name", "value", "error"),
    [("size", "XL", UnknownLevelError), ("share", 1.5, DataError), ("grade", 7.0, DataError)],
    ids=str,
)
def test_a_density_refuses_what_its_columns_cannot_hold(density, name, value, error, answer):
    X = _table()
    X.loc[3, name] = value
    with pytest.raises(error, match=f'at row 3, column "{name}"') as caught:
        answer(density, X) if callable(answer) else getattr(density, answer)(X)
    assert (caught.value.row, caught.value.name) == (3, name)


@pytest.mark.parametrize("answer", ["impute", "transform", "explain", "score_samples"])
def test_a_density_refuses_other_columns(density, answer):
    X = _table()
    for other in (X[X.columns[::-1]], X.drop(columns="size")):
        with pytest.raises(ValueError, match="feature names should match"):
            getattr(density, answer)(other)
    with pytest.raises(ValueError, match="2D array"):
        getattr(density, answer)(np.zeros(6))


REFUSED = [
    (PPCA, {"distribution": "student"}, 'distribution="student" goes with columns="numeric"'),
    (FactorAnalysis, {"distribution": "student"}, 'distribution="student" goes with'),
    (PPCA, {"degrees_of_freedom": 4.0}, "degrees_of_freedom=4.0 is of Student rows"),
    (PPCA, {"fit_mean": False}, "fit_mean=False goes with"),
    (PPCA, {"noise_variance": 0.0}, "noise_variance=0 is too small .* at least 0.001"),
    (PPCA, {"solver": "closed_form"}, 'solver="closed_form" goes with'),
    (PPCA, {"n_components": 8}, "n_components is 8, but .* only 7 Gaussian variables"),
    (PPCA, {"columns": "text"}, "The 'columns' parameter of PPCA must be"),
    (PPCA, {"columns": 3}, "The 'columns' parameter of PPCA must be"),
    (PPCA, {"columns": {"x": "gaussian"}}, 'the kind of column "x" is .* one of continuous'),
]


@pytest.mark.parametrize(("cls", "how", "match"), REFUSED)
def test_parameters_that_make_no_sense_are_named(cls, how, match):
    with pytest.raises(ValueError, match=match):
        cls(**{"n_components": 1, "columns": KINDS, **how}).fit(_table())


@pytest.mark.parametrize("cls", DENSITIES)
def test_measurement_errors_go_with_numbers(cls, density):
    X = _table()
    with pytest.raises(ValueError, match='cell_sd goes with columns="numeric"'):
        cls(1, columns=KINDS).fit(X, cell_sd=np.ones(X.shape))
    with pytest.raises(ValueError, match='cell_sd goes with columns="numeric"'):
        density.impute(X, cell_sd=np.ones(X.shape))


@pytest.mark.parametrize("cls", DENSITIES)
def test_batches_go_with_numbers(cls, density):
    X = _table()[["x", "income"]]
    with pytest.raises(AttributeError, match="partial_fit") as caught:
        cls(1, columns="auto").partial_fit(X)
    assert "learned from the whole table" in str(caught.value.__cause__)
    assert not hasattr(density, "partial_fit")


def test_projections_go_with_numbers(density):
    with pytest.raises(ValueError, match='kind="optimal" goes with columns="numeric"'):
        density.reconstruct(_table(), kind="optimal")


def test_levels_of_an_interval(density):
    for level in (0.0, 1.0, -1.0):
        with pytest.raises(ValueError, match="level must lie between 0 and 1"):
            density.intervals(_table(), level)


def test_a_fit_to_numbers_knows_no_kinds():
    X = _table()[["x", "income", "share"]]
    model = PPCA(1).fit(X)
    for name in ("kinds_", "levels_", "underlying_names_"):
        assert not hasattr(model, name)
    with pytest.raises(ValueError, match="knows no levels"):
        model.level_probabilities(X)


@pytest.mark.parametrize("cls", DENSITIES)
def test_sparse_tables_are_refused(cls):
    with pytest.raises(ValueError, match=r"sparse input is not supported .* X.toarray\(\)"):
        cls(1, columns="auto").fit(scipy.sparse.csr_array(np.eye(4)))


@pytest.mark.parametrize("cls", DENSITIES)
def test_new_identifiers_are_no_levels(cls):
    X = _table().assign(id=[f"row {i}" for i in range(60)])
    model = cls(1, columns={**KINDS, "id": "ignored"}, tol=1e-4).fit(X)
    new = X.assign(id=[f"another {i}" for i in range(60)])
    assert model.impute(new)["id"].equals(new["id"])
    np.testing.assert_array_equal(model.transform(new), model.transform(X))


# Outliers, classes, regression --------------------------------------------------------------------


@pytest.fixture(scope="module")
def tasks():
    X = _table()
    y = np.where(X["x"].fillna(0.0) > 0, "high", "low")
    how = {"columns": KINDS, "tol": 1e-3}
    return {
        "novelty": eg.NoveltyDetector(eg.FactorAnalysis(1, tol=1e-3), columns=KINDS).fit(X),
        "classes": eg.PPCAClassifier(0, **how).fit(X, y),
        "regression": eg.PPCARegressor(1, **how).fit(X, np.arange(len(X)) * 1.0),
    }


@pytest.mark.filterwarnings("ignore::eigengap.exceptions.HeywoodWarning")
@pytest.mark.parametrize("task", ["novelty", "classes", "regression"])
@pytest.mark.parametrize(("name", "value", "error"), FOREIGN, ids=str)
def test_tasks_refuse_what_a_column_cannot_hold(tasks, task, name, value, error):
    X = _table()
    X.loc[3, name] = value
    with pytest.raises(error, match=f'at row 3, column "{name}"') as caught:
        tasks[task].predict(X)
    assert (caught.value.row, caught.value.name) == (3, name)


@pytest.mark.filterwarnings("ignore::eigengap.exceptions.HeywoodWarning")
@pytest.mark.parametrize("task", ["novelty", "classes", "regression"])
def test_tasks_take_rows_without_any_value_and_other_columns_not(tasks, task):
    X = _table()
    X.loc[0] = None
    assert np.all(pd.notna(tasks[task].predict(X)))
    with pytest.raises(ValueError, match="feature names"):
        tasks[task].predict(X.rename(columns={"size": "sizes"}))
    assert "kinds" in str(tasks[task].summary())


@pytest.mark.filterwarnings("ignore::eigengap.exceptions.HeywoodWarning")
@pytest.mark.parametrize("task", ["novelty", "classes", "regression"])
def test_tasks_of_files_are_those_of_memory(tasks, task, tmp_path):
    X = _table()
    eg.save(tasks[task], tmp_path / "model.eig")
    loaded, copied = eg.load(tmp_path / "model.eig"), pickle.loads(pickle.dumps(tasks[task]))
    expected = tasks[task].predict(X)
    for model in (loaded, copied):
        np.testing.assert_array_equal(model.predict(X), expected)
        assert model.kinds_ == tasks[task].kinds_
    np.testing.assert_array_equal(loaded.predict(pl.from_pandas(X)), expected)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_what_goes_with_numbers_only():
    X, y = _table(), np.repeat([0, 1], 30)
    with pytest.raises(ValueError, match="IsolationForest takes numbers only"):
        eg.NoveltyDetector(IsolationForest(), columns="auto").fit(X)
    with pytest.raises(ValueError, match='estimator=PPCA goes with columns="numeric"'):
        eg.PPCAClassifier(estimator=eg.PPCA(1), columns="auto").fit(X, y)
    with pytest.raises(ValueError, match="target_kind='ordinal' is one of levels"):
        eg.PPCARegressor(1, columns="auto", target_kind="ordinal").fit(X, y * 1.0)
    with pytest.raises(ValueError, match="cannot be positive: it has a negative number"):
        eg.PPCARegressor(1, columns="auto", target_kind="positive").fit(X, y - 0.5)
    with pytest.raises(ValueError, match="bic take numbers only"):
        eg.choose_rank(X, columns="auto", criteria="bic")
    detector = eg.NoveltyDetector(eg.FactorAnalysis(0, tol=1e-3), columns=KINDS).fit(X)
    with pytest.raises(ValueError, match=r"explain\(\) names the cells"):
        detector.contributions(X)


def test_a_class_without_a_value_in_a_column():
    X, y = _table(), np.repeat(["a", "b"], 30)
    X.loc[30:, "size"] = None
    with pytest.raises(ValueError, match='class "b" has no value in column "size"'):
        eg.PPCAClassifier(0, columns=KINDS).fit(X, y)


@pytest.mark.filterwarnings("ignore::eigengap.exceptions.NoiseFloorWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_class_of_one_row_has_a_density_of_the_common_width():
    X = _table().dropna()
    y = np.array(["many"] * len(X), dtype=object)
    y[0] = "one"
    model = eg.PPCAClassifier(0, columns=KINDS).fit(X, y)
    p = model.predict_proba(X)[:, list(model.classes_).index("one")]
    assert 3.0 / len(X) < p[0] < 0.9
    assert p.max() < 0.9


def test_scale_is_advised_where_it_has_an_effect():
    """Variables behind columns have no units, and scaled columns have one."""
    z = np.random.default_rng(0).normal(size=60)
    X = pd.DataFrame({"a": z, "b": 2.0 * z, "c": -z})
    kinds = dict.fromkeys(X, Continuous("identity"))
    for model in (PPCA(1, columns=kinds), PPCA(1, scale=True)):
        with pytest.warns(NoiseFloorWarning, match="the data have no noise$"):
            model.fit(X.mask(X > 2.0))
    with pytest.warns(NoiseFloorWarning, match=r"differ too much in size \(scale=True helps\)$"):
        PPCA(1).fit(X.mask(X > 2.0))
