"""What LowRankImputer refuses in tables with columns of every kind, and what the message names."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse

from eigengap import LowRankImputer
from eigengap.columns import Binary, Bounded, Continuous, Count, Ignored, Ordinal
from eigengap.exceptions import DataError, InfiniteCellError, UnknownLevelError


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
        ValueError, match=r'the kind of column "x" is .* one of continuous, positive'
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
        lambda: Count(-1.0),
        lambda: Ordinal(order="SML"),
        lambda: Ordinal(order=["S", "M", "S"]),
    ],
)
def test_kinds_that_make_no_sense(make):
    with pytest.raises(ValueError, match=r"must|more than once"):
        make()


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
    with pytest.raises(ValueError, match="dense"):
        _fit(scipy.sparse.csr_array(np.eye(4)))
    with pytest.raises(ValueError, match="in memory"):
        _fit("table.csv")
    with pytest.raises(ValueError, match="collect"):
        _fit(pl.from_pandas(X).lazy())
    with pytest.raises(ValueError, match="every column is ignored"):
        _fit(pd.DataFrame({"id": [f"row {i}" for i in range(50)]}))


@pytest.mark.parametrize(
    ("name", "value"),
    [("integers", "keep"), ("bounds", "data"), ("estimator", "thorough"), ("add_indicator", True)],
)
def test_parameters_of_numeric_tables(name, value):
    with pytest.raises(ValueError, match=f'{name} goes with columns="numeric"'):
        _fit(_table(), **{name: value})


def test_a_numeric_imputer_knows_no_levels():
    imputer = LowRankImputer(n_components=1).fit(_table()[["x", "income", "share"]])
    with pytest.raises(ValueError, match="knows no levels"):
        imputer.level_probabilities(_table()[["x", "income", "share"]])
    assert not hasattr(imputer, "kinds_")
    assert not hasattr(imputer, "levels_")


def test_text_is_refused_without_columns():
    with pytest.raises(ValueError, match='"size"'):
        LowRankImputer().fit(_table())


def test_weights_that_do_not_fit():
    with pytest.raises(DataError, match="sample_weight has 3 entries"):
        LowRankImputer(columns="auto").fit(_table(), sample_weight=np.ones(3))
    with pytest.raises(DataError, match="not negative"):
        LowRankImputer(columns="auto").fit(_table(), sample_weight=-np.ones(60))
