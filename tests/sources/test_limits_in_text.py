"""Cells of text that are limits, "<0.1": the same as limits given as tables, wherever they lie."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest

import eigengap as eg
from eigengap.columns import with_limits
from eigengap.exceptions import DataError, UnreadableError
from eigengap.sources import Schema, open_table
from eigengap.sources.limits import limits_of

N = 300
NAN = np.nan


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("<0.1", (NAN, 0.1)),
        (" < 0,5 ", (NAN, 0.5)),
        ("<=3", (NAN, 3.0)),
        ("\u226473e-2", (NAN, 0.73)),
        (">100", (100.0, NAN)),
        ("=> -2.5", (-2.5, NAN)),
    ],
)
def test_forms_that_are_read(text, wanted):
    np.testing.assert_array_equal(limits_of(text), wanted)


@pytest.mark.parametrize(
    "text",
    ["0.1", "<", "<NA", "0.2-0.5", "<1,000", "<0.1 mg", "<<2", "1<2", "<inf", "~3", "<1.2.3"],
)
def test_forms_that_are_not(text):
    assert limits_of(text) is None


def table() -> tuple[pd.DataFrame, pd.DataFrame, np.ndarray]:
    """Text with limits; the numbers in it, and upper limits."""
    rng = np.random.default_rng(0)
    z = rng.normal(size=N)
    X = pd.DataFrame(np.exp(z[:, None] + 0.5 * rng.normal(size=(N, 3))), columns=list("abc"))
    X = X.round(3)
    limit = rng.choice([0.3, 0.6], size=X.shape)
    below = X.to_numpy() < limit
    below[:, 2] = False
    upper = np.where(below, limit, NAN)
    numbers = X.mask(below).mask(rng.random(X.shape) < 0.1)
    numbers = numbers.where(~below)
    texts = numbers.astype(object)
    for j in range(2):
        texts.iloc[:, j] = [
            f"<{limit[i, j]}" if below[i, j] else (None if np.isnan(x) else repr(float(x)))
            for i, x in enumerate(numbers.iloc[:, j])
        ]
    texts["c"] = numbers["c"]
    return texts, numbers, upper


def csv(X, folder):
    X.to_csv(folder / "t.csv", index=False)
    return folder / "t.csv"


def commas(X, folder):
    for name in "ab":
        X = X.assign(**{name: [None if x is None else x.replace(".", ",") for x in X[name]]})
    X.to_csv(folder / "t.csv", index=False, sep=";", decimal=",")
    return folder / "t.csv"


def parquet(X, folder):
    X.to_parquet(folder / "t.parquet", row_group_size=40)
    return folder / "t.parquet"


def polars(X, folder):
    return pl.from_pandas(X)


def mixed_objects(X, folder):
    """Numbers and text in one column of objects."""
    kept = X.copy()
    for name in "ab":
        kept[name] = [x if x is None or x.startswith("<") else float(x) for x in X[name]]
    return kept


def dask(X, folder):
    return pytest.importorskip("dask.dataframe").from_pandas(X, npartitions=3)


PLACES = {make.__name__: make for make in (csv, commas, parquet, polars, mixed_objects, dask)}


@pytest.mark.parametrize("place", ["frame", *PLACES])
def test_text_says_what_tables_of_limits_say(place, tmp_path):
    texts, numbers, upper = table()
    wanted = eg.FactorAnalysis(1, columns="auto").fit(with_limits(numbers, upper=upper))
    X = texts if place == "frame" else PLACES[place](texts, tmp_path)
    model = eg.FactorAnalysis(1, columns="auto").fit(X)
    assert model.kinds_ == {"a": "censored", "b": "censored", "c": "continuous"}
    assert model.log_likelihood_ == pytest.approx(wanted.log_likelihood_, abs=1e-6)
    ours = np.asarray(model.impute(X), dtype=float)
    theirs = wanted.impute(with_limits(numbers, upper=upper)).to_numpy()
    np.testing.assert_allclose(ours, theirs, rtol=1e-6)
    at = ~np.isnan(upper)
    assert (ours[at] < upper[at]).all()


def test_imputed_text_is_a_column_of_numbers(tmp_path):
    texts, _, _ = table()
    model = eg.FactorAnalysis(1, columns="auto").fit(texts)
    assert [str(kind) for kind in model.impute(texts).dtypes] == ["float64"] * 3
    path = eg.stream(model.impute, csv(texts, tmp_path), tmp_path / "out.parquet")
    found = pd.read_parquet(path)
    np.testing.assert_allclose(found, model.impute(texts), rtol=1e-9)


@pytest.mark.parametrize(
    "cells",
    [
        ["<20", "20-40", ">40"] * 5,  # ages in groups
        ["<20", ">40"] * 5,  # no number besides
        ["0.1", "0.2", "<0.1", "none"] * 5,  # a word
        [True, "<0.1", 0.5] * 5,
    ],
)
def test_columns_that_are_no_numbers_with_limits(cells):
    (column,) = Schema.of(pd.DataFrame({"x": pd.Series(cells, dtype=object)})).columns
    assert column.holds == "levels"
    assert not column.has_limits


def test_other_kinds_of_such_a_column_are_refused():
    texts, _, _ = table()
    with pytest.raises(DataError, match='"a" cannot be ordinal: it holds limits'):
        eg.FactorAnalysis(1, columns={"a": "ordinal"}).fit(texts)


def test_new_text_that_is_neither_a_number_nor_a_limit(tmp_path):
    texts, _, _ = table()
    model = eg.FactorAnalysis(1, columns="auto").fit(texts)
    texts.loc[17, "b"] = "trace"
    with pytest.raises(ValueError, match=r'"b" held numbers and limits.*"trace" at row 17'):
        model.transform(texts)
    with pytest.raises((ValueError, UnreadableError), match='"trace" at row 17'):
        model.transform(csv(texts, tmp_path))


def test_coded_rows_carry_limits_behind_their_values():
    schema = Schema.of(X := pd.DataFrame({"x": ["0.5", "<0.1", None], "y": [1.0, 2.0, 3.0]}))
    values = schema.code_with_limits(X)
    wanted = [[0.5, 1.0, NAN, NAN], [NAN, 2.0, NAN, 0.1], [NAN, 3.0, NAN, NAN]]
    np.testing.assert_array_equal(values, wanted)
    source = open_table(X).source(schema, [0])
    assert source.names == ("x", "x (lower limit)", "x (upper limit)")
    np.testing.assert_array_equal(source.collect(), np.array(wanted)[:, [0, 2, 3]])


@pytest.mark.parametrize(
    "cell", [pd.Timestamp(2024, 1, 1), (1, 2), [1], {"a": 1}, frozenset(), b"1"]
)
def test_cells_that_are_neither_numbers_nor_limits_are_refused(cell):
    schema = Schema.of(pd.DataFrame({"b": ["<0.1", "2", "3"]}))
    new = pd.DataFrame({"b": pd.Series([None, "<1", cell, 3.0], dtype=object)})
    with pytest.raises(ValueError, match=r'"b" held numbers and limits.* at row 2'):
        schema.code(new)
