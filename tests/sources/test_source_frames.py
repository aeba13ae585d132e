"""pandas, polars and pyarrow: the same numbers, the same messages, the same type back."""

from __future__ import annotations

import datetime as dt
import re
from decimal import Decimal

import narwhals as nw
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as sp

from eigengap.sources.conversion import as_source
from eigengap.sources.frames import like
from eigengap.sources.wording import quote

nan = np.nan
MAKERS = {
    "pandas": pd.DataFrame,
    "pandas arrow": lambda columns: pa.table(columns).to_pandas(types_mapper=pd.ArrowDtype),
    "pandas nullable": lambda columns: pd.DataFrame(columns).convert_dtypes(),
    "polars": pl.DataFrame,
    "pyarrow": pa.table,
    "pyarrow batch": pa.record_batch,
    "narwhals": lambda columns: nw.from_native(pl.DataFrame(columns)),
}
every_library = pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS.keys())


@every_library
def test_nulls_of_every_kind_are_missing(make):
    columns = {
        "int": [1, None, 3],
        "float": [0.5, None, 2.5],
        "bool": [True, None, False],
        "decimal": [Decimal("1.25"), None, Decimal("2")],
    }
    source = as_source(make(columns))
    expected = [[1, 0.5, 1, 1.25], [nan, nan, nan, nan], [3, 2.5, 0, 2]]
    assert source.dtype == np.float64
    assert source.names == ("int", "float", "bool", "decimal")
    np.testing.assert_array_equal(source.collect(), expected)
    np.testing.assert_array_equal(source.missing_per_column(), [1, 1, 1, 1])


@every_library
def test_complete_tables_have_no_missing(make):
    source = as_source(make({"a": [1, 2], "b": [True, False]}))
    assert source.has_missing is False
    np.testing.assert_array_equal(source.collect(), [[1, 1], [2, 0]])


@pytest.mark.parametrize("dtype", ["Int8", "UInt64", "Float32", "Float64", "boolean"])
def test_pandas_nullable_types(dtype):
    source = as_source(pd.DataFrame({"a": pd.array([1, None, 0], dtype=dtype)}))
    np.testing.assert_array_equal(source.collect(), [[1], [nan], [0]])
    assert source.dtype == (np.float32 if dtype == "Float32" else np.float64)


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "i4", "u1", "bool", "longdouble", "object"])
def test_numpy_types_in_pandas(dtype):
    X = np.array([[0, 1], [1, 0]]).astype(dtype)
    source = as_source(pd.DataFrame(X, columns=["a", "b"]))
    assert source.dtype == (np.float32 if dtype == "f4" else np.float64)
    np.testing.assert_array_equal(source.collect(), [[0, 1], [1, 0]])


def test_float32_columns_stay_float32_only_together():
    a = np.array([1, 2], dtype="f4")
    for make in (pd.DataFrame, pl.DataFrame, pa.table):
        assert as_source(make({"a": a, "b": a})).dtype == np.float32
        assert as_source(make({"a": a, "b": a.astype("f8")})).dtype == np.float64


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_homogeneous_frames_are_not_copied(dtype):
    X = np.asfortranarray(np.arange(6, dtype=dtype).reshape(3, 2))
    frame = pd.DataFrame(X, columns=["a", "b"], copy=False)
    assert np.shares_memory(as_source(frame).collect(), frame.to_numpy())
    polars = pl.DataFrame(X, schema=["a", "b"])
    assert np.shares_memory(as_source(polars).collect(), polars.to_numpy())


def test_chunked_arrow_columns():
    chunked = pa.chunked_array([[1.0, None], [], [3.0]])
    table = pa.table({"a": chunked, "b": pa.chunked_array([[4], [5, None]])})
    np.testing.assert_array_equal(as_source(table).collect(), [[1, 4], [nan, 5], [3, nan]])


def test_columns_without_a_type_are_missing():
    np.testing.assert_array_equal(
        as_source(pl.DataFrame({"a": [None, None], "b": [1, 2]})).collect(), [[nan, 1], [nan, 2]]
    )
    np.testing.assert_array_equal(
        as_source(pd.DataFrame({"a": [None, pd.NA], "b": [pd.NaT, 2]})).collect(),
        [[nan, nan], [nan, 2]],
    )
    texts = pl.DataFrame({"a": [None, None], "b": [1, 2]}, schema={"a": pl.String, "b": pl.Int8})
    np.testing.assert_array_equal(as_source(texts).collect(), [[nan, 1], [nan, 2]])


def test_sparse_pandas_columns_are_read():
    frame = pd.DataFrame({"a": pd.arrays.SparseArray([0.0, 1.0]), "b": [2, 3]})
    np.testing.assert_array_equal(as_source(frame).collect(), [[0, 2], [1, 3]])


# Refusals.


@pytest.mark.parametrize(
    "make", [pd.DataFrame, pl.DataFrame, pa.table], ids=["pandas", "polars", "pyarrow"]
)
def test_every_column_without_numbers_is_named(make):
    frame = make(
        {
            "age": [1, None, 3],
            "name": [None, "Ada", "Bob"],
            "when": [dt.datetime(2020, 1, 2), None, None],
            "written": ["1.5", None, "2"],
            "mixed": ["1", "2", "?"],
            "height": [1.0, 2.0, 3.0],
        }
    )
    with pytest.raises(ValueError, match="Input X has columns that are not numeric") as error:
        as_source(frame)
    said = str(error.value)
    assert '"name" (text, e.g. "Ada" at row 1)' in said
    assert '"when" (date or time, e.g. 2020-01-02 00:00:00 at row 0)' in said
    assert '"written" (numbers written as text, e.g. "1.5" at row 0)' in said
    assert '"mixed" (text among numbers, e.g. "?" at row 2)' in said
    assert 'X[["age", "height"]]' in said
    values = as_source(frame, columns=["height", "age"]).collect()
    np.testing.assert_array_equal(values, [[1, 1], [2, nan], [3, 3]])


@pytest.mark.parametrize(
    ("make", "cure"),
    [
        (pd.DataFrame, 'pandas.to_numeric(X["b"])'),
        (pl.DataFrame, 'X.with_columns(polars.col("b").cast(polars.Float64))'),
        (pa.table, 'pyarrow.compute.cast(X["b"], "float64")'),
    ],
)
def test_the_cure_for_numbers_written_as_text_works(make, cure):
    import pyarrow.compute

    X = make({"a": [1, 2, 3], "b": ["1.5", None, "2"]})
    with pytest.raises(ValueError, match=re.escape(f"numbers written as text with e.g. {cure}.")):
        as_source(X)
    cured = eval(cure, {"pandas": pd, "polars": pl, "pyarrow": pyarrow, "X": X})
    cured = cured["b"] if isinstance(cured, pl.DataFrame) else cured
    values = as_source(make({"b": cured})).collect()
    np.testing.assert_array_equal(values, [[1.5], [nan], [2]])


@pytest.mark.parametrize(
    ("column", "words"),
    [
        (pd.Categorical([None, "u", "u"]), '(categorical, e.g. "u" at row 1)'),
        (pd.Categorical([1, 2, 1]), "(categorical, e.g. 1 at row 0)"),
        (pd.to_timedelta([1, 2, 3]), "(date or time"),
        ([dt.date(2020, 1, 1), None, None], "(objects of type 'date', e.g. 2020-01-01 at row 0)"),
        ([1, "x", 2], '(text among numbers, e.g. "x" at row 1)'),
        ([1, "2", 2], '(numbers written as text, e.g. "2" at row 1)'),
        ([b"x", b"y", b"z"], "(text, e.g. b'x' at row 0)"),
        (pd.period_range("2020", periods=3, freq="D"), "e.g. 2020-01-01 at row 0"),
    ],
)
def test_pandas_columns_that_are_refused(column, words):
    frame = pd.DataFrame({"a": [1, 2, 3], "b": column})
    with pytest.raises(ValueError, match=re.escape('"b" ')) as error:
        as_source(frame)
    assert words in str(error.value)


@pytest.mark.parametrize(
    "column",
    [
        pl.Series(["u", None], dtype=pl.Categorical),
        pl.Series(["u", None], dtype=pl.Enum(["u"])),
        pl.Series([dt.time(1), None]),
        pl.Series([[1], [2]]),
        pl.Series([{"x": 1}, {"x": 2}]),
        pl.Series([b"x", None]),
    ],
    ids=lambda s: str(s.dtype),
)
def test_polars_columns_that_are_refused(column):
    with pytest.raises(ValueError, match=r'not numeric: "b" \(.*, e\.g\. .* at row 0\)'):
        as_source(pl.DataFrame({"a": [1, 2], "b": column}))


def test_complex_columns():
    with pytest.raises(ValueError, match='Complex data not supported: column "a"'):
        as_source(pd.DataFrame({"a": [1j, 2]}))


@pytest.mark.parametrize(
    "name", ['qu"ote', "new\nline", "{0}", "%s", "<b>", "\x1b[31mred", "\u202egnp", "é"]
)
def test_hostile_names_stay_on_one_printable_line(name):
    frames = [
        pd.DataFrame({name: ["1", "2"], "b": [1, 2]}),
        pd.DataFrame({name: [1.0, np.inf]}),
        pd.DataFrame({name: [nan, nan]}),
    ]
    for frame in frames:
        with pytest.raises(ValueError, match=r".") as error:
            as_source(frame).require_fit()
        said = str(error.value)
        assert said.isprintable()
        shown = re.search(r'"((?:[^"\\]|\\.)*)"', said)
        assert shown is not None
        escaped = shown.group(1).replace("é", r"\xe9")
        assert escaped.encode().decode("unicode_escape") == name


def test_names_that_cannot_be_encoded_are_escaped():
    assert quote("a\udc80") == r'"a\udc80"'


def test_long_names_and_values_are_cut():
    with pytest.raises(ValueError, match="not numeric") as error:
        as_source(pd.DataFrame({"x" * 10_000: ["y" * 10_000]}))
    assert len(str(error.value)) < 400


def test_infinity_is_named_by_position_whatever_the_index():
    frame = pd.DataFrame({"a": [1.0, 2, 3, 4], "age": [1, 2, 3, np.inf]}, index=[40, 30, 20, 10])
    with pytest.raises(ValueError, match='Input X contains infinity: inf at row 3, column "age"'):
        as_source(frame)


def test_an_missing_column_is_named():
    frame = pl.DataFrame({"a": [1, 2], "b": [None, None]})
    with pytest.raises(ValueError, match='no value in column "b": every cell is NaN'):
        as_source(frame).require_fit()


# Names and columns.


def test_names_are_kept_only_where_all_are_strings():
    X = np.ones((2, 2))
    assert as_source(pd.DataFrame(X, columns=["a", "b"])).names == ("a", "b")
    assert as_source(pd.DataFrame(X)).names is None
    assert as_source(pd.DataFrame(X, columns=["a", 1])).names is None
    two_levels = pd.MultiIndex.from_tuples([("a", "x"), ("a", "y")])
    assert as_source(pd.DataFrame(X, columns=two_levels)).names is None


@pytest.mark.parametrize("dtype", ["f8", "Float64"])
def test_names_that_occur_twice_are_read_by_position(dtype):
    frame = pd.DataFrame([[1, 2], [3, 4]], columns=["a", "a"]).astype(dtype)
    source = as_source(frame)
    assert source.names == ("a", "a")
    np.testing.assert_array_equal(source.collect(), [[1, 2], [3, 4]])
    np.testing.assert_array_equal(as_source(frame, columns=[1]).collect(), [[2], [4]])
    with pytest.raises(ValueError, match=r'"a", which names 2 columns \(positions 0, 1\)'):
        as_source(frame, columns=["a"])
    arrow = pa.table([[1, 2], [3, None]], names=["a", "a"])
    np.testing.assert_array_equal(as_source(arrow).collect(), [[1, 3], [2, nan]])


@every_library
def test_columns_by_name_and_position(make):
    frame = make({"a": [1, 2], "b": [3, None], "c": [5, 6]})
    for columns in (["c", "a"], [2, 0], [-1, "a"]):
        source = as_source(frame, columns=columns)
        assert source.names == ("c", "a")
        np.testing.assert_array_equal(source.collect(), [[5, 1], [6, 2]])
    assert as_source(frame, columns="b").names == ("b",)


def test_unknown_columns_suggest_close_ones():
    frame = pl.DataFrame({"height": [1], "weight": [2], "age": [3]})
    with pytest.raises(ValueError, match='no column "heigth"; did you mean "height"'):
        as_source(frame, columns=["heigth"])
    with pytest.raises(ValueError, match='the columns are "height", "weight", "age"'):
        as_source(frame, columns=["zzz"])


@pytest.mark.parametrize(
    "series", [pd.Series([1, 2]), pl.Series([1, 2]), pa.chunked_array([[1, 2]]), pd.Index([1, 2])]
)
def test_a_series_is_not_a_table(series):
    with pytest.raises(ValueError, match="Expected a 2-dimensional container but got"):
        as_source(series)


def test_lazy_frames_are_refused_and_empty_ones_too():
    with pytest.raises(ValueError, match="collect it first"):
        as_source(pl.LazyFrame({"a": [1]}))
    for empty in (pd.DataFrame(), pl.DataFrame(), pd.DataFrame({"a": []})):
        with pytest.raises(ValueError, match=r"Found array with 0 sample\(s\)"):
            as_source(empty)
    with pytest.raises(ValueError, match=r"0 feature\(s\) \(shape=\(2, 0\)\)"):
        as_source(pd.DataFrame(index=[0, 1]))


@pytest.mark.parametrize(
    "weight",
    [
        pd.Series([1, 2, 0], index=[7, 8, 9]),
        pd.Series([1, 2, 0], dtype="Int64"),
        pl.Series([1, 2, 0]),
        pa.chunked_array([[1, 2], [0]]),
        pa.array([1, 2, 0]),
        pd.array([1, 2, 0], dtype="Float64"),
    ],
)
def test_weights_of_frame_libraries(weight):
    source = as_source(np.ones((3, 1)), sample_weight=weight)
    np.testing.assert_array_equal(source.map(lambda block: block.weight), [1, 2, 0])


@pytest.mark.parametrize("make", [pd.Series, pl.Series, lambda x: pd.Series(x, dtype="Int64")])
def test_a_null_weight_is_an_error(make):
    with pytest.raises(ValueError, match="nan at row 1"):
        as_source(np.ones((3, 1)), sample_weight=make([1, None, 2]))
    with pytest.raises(ValueError, match="sample_weight is not numeric: text"):
        as_source(np.ones((3, 1)), sample_weight=pl.Series(["a", "b", "c"]))


def test_codes_do_not_touch_the_frame():
    frame = pd.DataFrame({"a": [1.0, -999], "b": [2.0, 3]})
    assert as_source(frame, missing_values=-999).missing_per_column().tolist() == [1, 0]
    assert frame["a"].tolist() == [1, -999]


# The way back.


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_like_gives_a_frame_for_a_frame(dtype):
    values = np.array([[1, 2], [3, 4]], dtype=dtype)
    frame = pd.DataFrame({"a": [0, None], "b": [None, 1]}, index=pd.Index(["x", "y"], name="id"))
    frame.columns.name = "feature"
    expected = pd.DataFrame(values, index=frame.index, columns=frame.columns)
    pd.testing.assert_frame_equal(like(frame, values), expected)
    assert like(pl.from_pandas(frame), values).equals(pl.DataFrame(values, schema=["a", "b"]))
    back = like(pa.Table.from_pandas(frame, preserve_index=False), values)
    assert back.equals(pa.table({"a": values[:, 0], "b": values[:, 1]}))


@every_library
def test_like_returns_the_callers_class_and_survives_the_trip(make):
    frame = make({"a": [1, 2], "b": [3.5, 4]})
    native = nw.to_native(frame, pass_through=True)
    back = like(frame, as_source(frame).collect())
    assert type(back) is (pa.Table if isinstance(native, pa.RecordBatch) else type(native))
    again = as_source(back)
    assert again.names == ("a", "b")
    np.testing.assert_array_equal(again.collect(), [[1, 3.5], [2, 4]])


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table])
def test_like_with_chosen_or_new_names(make):
    frame = make({"id": ["u", "v"], "a": [1, 2], "b": [3, 4]})
    values = np.array([[9.0, 8], [7, 6]])
    assert as_source(like(frame, values, columns=["b", "a"])).names == ("b", "a")
    assert as_source(like(frame, values, columns=[2, 1])).names == ("b", "a")
    assert as_source(like(frame, values, columns=["PC1", "PC2"])).names == ("PC1", "PC2")
    with pytest.raises(ValueError, match="3 column names for 2 columns"):
        like(frame, values)
    with pytest.raises(ValueError, match="values have 1 rows but the frame has 2"):
        like(frame, values[:1], columns=["a", "b"])


def test_like_keeps_pandas_duplicates_and_levels():
    values = np.ones((2, 2))
    twice = pd.DataFrame(values, columns=["a", "a"])
    assert list(like(twice, values).columns) == ["a", "a"]
    levels = pd.DataFrame(values, columns=pd.MultiIndex.from_tuples([("a", 1), ("b", 2)]))
    pd.testing.assert_index_equal(like(levels, values).columns, levels.columns)


@pytest.mark.parametrize(
    "X", [np.zeros((2, 2)), [[0, 0], [0, 0]], np.ma.zeros((2, 2)), sp.eye_array(2)], ids=type
)
def test_like_gives_an_array_for_all_else(X):
    values = np.ones((2, 2))
    assert like(X, values) is values
