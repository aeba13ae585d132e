"""Tables with levels: what a column holds, its codes, and the way back into the caller's types."""

from __future__ import annotations

import datetime as dt
import sys
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from eigengap.exceptions import DataError, UnknownLevelError
from eigengap.selection.coded_table import CodedTable
from eigengap.sources import Schema, as_source

DAY = dt.date(2024, 2, 29)


def _held(X) -> dict[str, str]:
    return {column.name: column.holds for column in Schema.of(X).columns}


def _levels(X) -> dict[str, tuple]:
    return {column.name: column.levels for column in Schema.of(X).columns}


def test_what_columns_of_pandas_hold():
    X = pd.DataFrame(
        {
            "float": [1.0, np.nan, 2.5],
            "int": [1, 2, 3],
            "Int64": pd.array([1, None, 3], dtype="Int64"),
            "Float64": pd.array([1.5, None, 3], dtype="Float64"),
            "bool": [True, False, True],
            "boolean": pd.array([True, None, False], dtype="boolean"),
            "truth": pd.Series([True, None, False], dtype=object),
            "numbers": pd.Series([1, None, 2.5], dtype=object),
            "text": pd.Series(["a", None, "b"], dtype=object),
            "string": pd.array(["a", None, "b"], dtype="string"),
            "category": pd.Categorical(["b", None, "a"]),
            "ordered": pd.Categorical(["b", None, "a"], ["b", "a"], ordered=True),
            "when": pd.to_datetime(["2024-02-29", None, "2024-03-01"]),
            "duration": pd.to_timedelta([1, None, 2], unit="h"),
            "days": pd.Series([DAY, None, DAY], dtype=object),
            "lists": [[1], [2], None],
            "dicts": [{}, {"a": 1}, None],
            "mixture": pd.Series([1, "a", DAY], dtype=object),
        }
    )
    assert _held(X) == {
        **dict.fromkeys(["float", "int", "Int64", "Float64", "numbers"], "numbers"),
        **dict.fromkeys(["bool", "boolean", "truth"], "truth"),
        **dict.fromkeys(["text", "string", "category"], "levels"),
        "ordered": "ordered",
        **dict.fromkeys(["when", "duration", "days", "lists", "dicts", "mixture"], "other"),
    }


def test_what_columns_of_polars_hold():
    X = pl.DataFrame(
        {
            "float": [1.0, None, 2.5],
            "bool": [True, None, False],
            "text": ["a", None, "b"],
            "categorical": pl.Series(["b", None, "a"], dtype=pl.Categorical),
            "enum": pl.Series(["b", None, "a"], dtype=pl.Enum(["b", "unused", "a"])),
            "day": [DAY, None, DAY],
            "time": [dt.time(1), None, dt.time(2)],
            "lists": [[1], [2], None],
        }
    )
    assert _held(X) == {
        "float": "numbers",
        "bool": "truth",
        **dict.fromkeys(["text", "categorical", "enum"], "levels"),
        **dict.fromkeys(["day", "time", "lists"], "other"),
    }


def test_levels_are_in_the_order_of_the_categories_or_sorted():
    levels = _levels(
        pd.DataFrame(
            {
                "text": ["b", "a", "c"],
                "category": pd.Categorical(["b", "a", "a"], ["b", "unused", "a"]),
                "mixed": pd.Series(["x", 2, 1], dtype=object),
            }
        )
    )
    assert levels == {"text": ("a", "b", "c"), "category": ("b", "a"), "mixed": (1, 2, "x")}
    assert _levels(
        pl.DataFrame(
            {
                "categorical": pl.Series(["b", "c", "a"], dtype=pl.Categorical),
                "enum": pl.Series(["b", "a", "b"], dtype=pl.Enum(["b", "unused", "a"])),
            }
        )
    ) == {"categorical": ("a", "b", "c"), "enum": ("b", "a")}


def test_categories_0_and_1_are_levels_and_no_truth_values():
    schema = Schema.of(pd.DataFrame({"x": pd.Categorical([0, 1, None, 0])}))
    assert (schema.columns[0].holds, schema.columns[0].levels) == ("levels", (0, 1))


def test_an_ordered_dictionary_of_pyarrow_keeps_its_order():
    codes, levels = pa.array([0, 1, None, 0]), pa.array(["low", "high"])
    X = pa.table({"x": pa.DictionaryArray.from_arrays(codes, levels, ordered=True)})
    (column,) = Schema.of(X).columns
    assert (column.holds, column.levels) == ("ordered", ("low", "high"))


FRAMES = {
    "pandas": pd.DataFrame(
        {
            "text": pd.Series(["a", None, "b"], dtype=object),
            "string": pd.array(["a", None, "b"], dtype="string"),
            "category": pd.Categorical(["b", None, "a"], ["b", "a", "unused"]),
            "truth": pd.Series([True, None, False], dtype=object),
            "boolean": pd.array([True, None, False], dtype="boolean"),
            "Int64": pd.array([5, None, 7], dtype="Int64"),
            "Float32": pd.array([5.5, None, 7], dtype="Float32"),
            "objects": pd.Series([5, None, 7], dtype=object),
            "float": [0.5, np.nan, 1.5],
        }
    ).set_axis([7, 7, 3]),
    "polars": pl.DataFrame(
        {
            "text": ["a", None, "b"],
            "categorical": pl.Series(["b", None, "a"], dtype=pl.Categorical),
            "enum": pl.Series(["b", None, "a"], dtype=pl.Enum(["b", "unused", "a"])),
            "bool": [True, None, False],
            "int8": pl.Series([5, None, 7], dtype=pl.Int8),
            "float32": pl.Series([0.5, None, 1.5], dtype=pl.Float32),
        }
    ),
    "pyarrow": pa.table(
        {
            "string": pa.array(["a", None, "b"]),
            "large": pa.array(["a", None, "b"], pa.large_string()),
            "dictionary": pa.array(["a", None, "b"]).dictionary_encode(),
            "bool": pa.array([True, None, False]),
            "int16": pa.array([5, None, 7], pa.int16()),
            "double": pa.array([0.5, None, 1.5]),
        }
    ),
}


@pytest.mark.parametrize("library", FRAMES)
def test_imputed_codes_go_back_into_the_types_of_the_frame(library):
    X = FRAMES[library]
    schema = Schema.of(X)
    values = schema.code(X)
    imputed = np.isnan(values)
    assert imputed[1].all()
    assert not imputed[[0, 2]].any()
    values[1] = values[0]
    found = schema.decode(X, values, imputed)
    assert type(found) is type(X)
    assert np.array_equal(schema.code(found), values)
    if library == "pandas":
        assert found.dtypes.equals(X.dtypes)
        assert found.index.equals(X.index)
        observed = [0, 2]
        pd.testing.assert_frame_equal(found.iloc[observed], X.iloc[observed])
        assert X.iloc[1].isna().all()  # the caller's table is as it was
    else:
        assert found.schema == X.schema
        assert not any(schema.missing_cells(found).ravel())


def _in_pyarrow(cells, categories, ordered):
    at = [None if cell is None else categories.index(cell) for cell in cells]
    column = pa.DictionaryArray.from_arrays(pa.array(at, pa.int8()), categories, ordered=ordered)
    return pa.table({"size": column})


NARROW = {
    "pandas": lambda cells, categories: pd.DataFrame({"size": pd.Categorical(cells, categories)}),
    "ordered": lambda cells, categories: pd.DataFrame(
        {"size": pd.Categorical(cells, categories, ordered=True)}
    ),
    "arrow in pandas": lambda cells, categories: _in_pyarrow(cells, categories, False).to_pandas(
        types_mapper=pd.ArrowDtype
    ),
    "polars": lambda cells, categories: pl.DataFrame(
        {"size": pl.Series(cells, dtype=pl.Enum(categories))}
    ),
    "pyarrow": lambda cells, categories: _in_pyarrow(cells, categories, False),
    "pyarrow, ordered": lambda cells, categories: _in_pyarrow(cells, categories, True),
}


@pytest.mark.parametrize("categories", [["M"], ["M", "other"], ["L", "M"]])
@pytest.mark.parametrize("library", NARROW)
def test_a_type_without_a_level_of_the_fit_gets_it(library, categories):
    """New rows may have a type made of the levels that occur in them."""
    make = NARROW[library]
    schema = Schema.of(make(["S", "M", "L"], ["S", "M", "L"]))
    X = make(["M", None, None], categories)
    codes = [schema.columns[0].levels.index(level) for level in ("M", "S", "L")]
    values, imputed = np.array(codes, dtype=float)[:, None], np.array([[False], [True], [True]])
    found = schema.decode(X, values, imputed)
    column = found["size"]
    cells = column.to_pylist() if hasattr(column, "to_pylist") else column.to_list()
    assert cells == ["M", "S", "L"]
    assert type(found) is type(X)
    own = Schema.of(found).columns[0]
    assert own.holds == Schema.of(X).columns[0].holds
    if own.holds == "ordered":
        assert own.levels[:3] == ("S", "M", "L")


def test_numbers_that_the_type_cannot_hold_make_a_column_of_floats():
    X = pd.DataFrame({"x": pd.array([1, None], dtype="Int64"), "c": ["a", "b"]})
    values = np.array([[1.0, 0.0], [1.5, 1.0]])
    found = Schema.of(X).decode(X, values, np.array([[False, False], [True, False]]))
    assert found["x"].tolist() == [1.0, 1.5]


def test_columns_without_names_or_with_numbers_for_names():
    X = pd.DataFrame({10: ["a", None, "b"], 20: [1.0, np.nan, 2.0]})
    schema = Schema.of(X)
    assert schema.names is None
    values = np.where(np.isnan(schema.code(X)), 1.0, schema.code(X))
    found = schema.decode(X, values, np.isnan(schema.code(X)))
    assert found[10].tolist() == ["a", "b", "b"]
    assert found[20].tolist() == [1.0, 1.0, 2.0]


def test_an_array_of_objects_gets_python_values():
    X = np.array([[1, "a", True, 0.5], [None, None, None, None], [2, "b", False, 1]], dtype=object)
    schema = Schema.of(X)
    values = schema.code(X)
    imputed = np.isnan(values)
    values[1] = [2.0, 1.0, 1.0, 0.25]
    found = schema.decode(X, values, imputed)
    assert found[1].tolist() == [2, "b", True, 0.25]
    assert [type(cell) for cell in found[1]] == [int, str, bool, float]
    assert X[1].tolist() == [None] * 4


def test_decimals_stay_decimals():
    X = pd.DataFrame({"x": [Decimal("1.50"), None, Decimal("2.5")], "c": ["a", "b", "a"]})
    schema = Schema.of(X)
    values = schema.code(X)
    missing = np.isnan(values)
    values[1, 0] = 0.25
    assert schema.decode(X, values, missing)["x"].tolist() == [
        Decimal("1.50"),
        Decimal("0.25"),
        Decimal("2.5"),
    ]


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_an_array_of_numbers_keeps_its_type(dtype):
    X = np.array([[1.0, np.nan], [2.0, 3.0]], dtype=dtype)
    schema = Schema.of(X)
    values = np.nan_to_num(schema.code(X))
    found = schema.decode(X, values, np.isnan(schema.code(X)))
    assert found.dtype == dtype
    assert np.array_equal(found, values)


def test_masked_cells_are_missing():
    numbers = np.ma.array([[1.0, 2.0], [3.0, 4.0]], mask=[[False, True], [False, False]])
    assert np.isnan(Schema.of(numbers).code(numbers)[0, 1])
    texts = np.ma.array([["a", "b"], ["b", "b"]], mask=[[False, True], [False, False]])
    assert np.isnan(Schema.of(texts).code(texts)[0, 1])


def test_codes_for_missing_values_are_those_of_numbers_alone():
    X = pd.DataFrame({"x": [1.0, -999.0, 2.0], "level": pd.Categorical([-999, 1, 1])})
    values = Schema.of(X, missing=[-999.0]).code(X)
    assert np.isnan(values[:, 0]).tolist() == [False, True, False]
    assert not np.isnan(values[:, 1]).any()


def test_a_level_that_the_fit_did_not_have():
    X = pd.DataFrame({"size": ["S", "M", None]})
    schema = Schema.of(X)
    with pytest.raises(UnknownLevelError, match='"XXL" at row 1, column "size"') as caught:
        schema.code(pd.DataFrame({"size": ["S", "XXL", "M"]}))
    assert (caught.value.row, caught.value.name, caught.value.value) == (1, "size", "XXL")


def test_text_where_the_fit_had_numbers():
    schema = Schema.of(pd.DataFrame({"x": [1.0, 2.0]}))
    with pytest.raises(ValueError, match=r'column "x" held numbers in the fit.*"many" at row 1'):
        schema.code(pd.DataFrame({"x": [1.0, "many"]}))


@pytest.mark.parametrize("X", [np.zeros(3), np.zeros((2, 2, 2)), np.empty((0, 2)), pd.DataFrame()])
def test_what_is_no_table(X):
    with pytest.raises(ValueError, match="array"):
        Schema.of(X)


def _imputed(fitted, new):
    """Of a schema of one column, all missing values of another as its last level."""
    schema = Schema.of(fitted)
    coded = schema.code(new)
    values = np.where(np.isnan(coded), len(schema.columns[0].levels) - 1.0, coded)
    return schema.decode(new, values, np.isnan(coded))


EMPTY = {
    "NaT": pd.to_datetime(pd.Series([None, None])),
    "float": pd.Series([np.nan, np.nan]),
    "Int64": pd.Series([None, None], dtype="Int64"),
    "boolean": pd.Series([None, None], dtype="boolean"),
    "string": pd.Series([None, None], dtype="string"),
    "categorical": pd.Series(pd.Categorical([None, None])),
    "categories": pd.Series(pd.Categorical([None, None], ["x", "y"])),
}


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
@pytest.mark.parametrize("empty", EMPTY)
@pytest.mark.parametrize(
    "levels", [["a", "b"], [1, 2], [pd.Timestamp(2024, 1, 1), pd.Timestamp(2024, 1, 2)]]
)
def test_levels_in_a_column_without_a_value_of_any_type(levels, empty, library):
    """They are levels of the fit, not text or times that a type has made of them."""
    new = pd.DataFrame({"w": EMPTY[empty]})
    if library == "polars":
        new = pl.from_pandas(new)
    elif library == "pyarrow":
        new = pa.Table.from_pandas(new, preserve_index=False)
    column = _imputed(pd.DataFrame({"w": pd.Categorical(levels)}), new)["w"]
    cells = column.to_pylist() if library == "pyarrow" else column.to_list()
    assert cells == [levels[-1]] * 2


def test_levels_that_the_type_of_a_new_column_has_not():
    fitted = pd.DataFrame({"w": pd.Categorical([0, 1, 2])})
    new = pd.DataFrame({"w": pd.array([True, None, False], dtype="boolean")})
    for X in (new, pl.from_pandas(new), pa.Table.from_pandas(new)):
        assert list(np.asarray(_imputed(fitted, X)["w"])) == [1.0, 2.0, 0.0]
    mixed = pd.DataFrame({"w": pd.Series(["a", 1], dtype=object)})
    mixed = pd.concat([mixed, mixed])
    text = pd.DataFrame({"w": pd.Series([None, "a"], dtype="string")})
    schema = Schema.of(mixed)
    at = float(schema.columns[0].levels.index(1))
    missing = np.array([[True], [False]])
    decoded = schema.decode(text, np.array([[at], [1.0 - at]]), missing)
    assert decoded["w"].to_list() == [1, "a"]
    with pytest.raises(DataError, match=r'column "w" is of type String, which cannot hold'):
        schema.decode(pl.from_pandas(text), np.array([[at], [1.0 - at]]), missing)


@pytest.mark.parametrize("of", [pa.Table.from_pandas, pl.from_pandas])
def test_periods_of_arrow_are_no_numbers(of):
    """Their storage is numbers of days since 1970."""
    if of is pl.from_pandas and not hasattr(pl, "BaseExtension"):
        pytest.skip("this polars has no extension types and hands on their storage")
    X = of(pd.DataFrame({"x": [1.0, 2.0], "when": pd.period_range("2020", periods=2, freq="D")}))
    assert _held(X) == {"x": "numbers", "when": "other"}
    with pytest.raises(ValueError, match=r'"when" \(extension type, e.g. 18262 at row 0\)'):
        as_source(X)


def test_dictionaries_of_what_is_no_level():
    lists = pa.DictionaryArray.from_arrays([0, 1, None], pa.array([[1], [1, 2]]))
    cut = pa.array(pd.Series(pd.cut([0.0, 1.0, np.nan], 2)))
    assert _held(pa.table({"lists": lists, "cut": cut})) == {"lists": "other", "cut": "other"}


def calls_with(d):
    """How many functions are called to code a table of d columns of text, in all."""
    rng = np.random.default_rng(0)
    levels = np.array(["low", "mid", "high"], dtype=object)
    X = pd.DataFrame({f"column {j}": levels[rng.integers(0, 3, 20)] for j in range(d)})
    count = 0

    def called(frame, event, arg):
        nonlocal count
        count += event == "call"  # of a generator, too, each time that it goes on

    before = sys.getprofile()
    sys.setprofile(called)
    try:
        table, rows = CodedTable.learned(X, "auto", None, np.nan)
        table.columns.encode(rows.collect())
        table.source(X)
        table.levels()
    finally:
        sys.setprofile(before)
    return count


def test_the_work_on_a_wide_table_grows_with_its_columns_and_not_with_their_square():
    calls_with(10)  # imports
    assert calls_with(800) < 5.0 * calls_with(200)
