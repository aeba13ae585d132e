"""Tables with columns of any kind, wherever they lie: the same schema, codes and fits."""

from __future__ import annotations

from functools import partial

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from tests.tolerance import assert_same_optimum

import eigengap as eg
from eigengap.exceptions import DataError, SentinelWarning, UnknownLevelError, UnreadableError
from eigengap.sources import open_table
from eigengap.sources.files.csv.reader import CsvReader
from eigengap.sources.levels import MOST_KEPT, Schema

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

N = 300


def table(n=N, seed=0) -> pd.DataFrame:
    """One column of every type that CSV can hold, behind one latent variable."""
    rng = np.random.default_rng(seed)
    z = rng.normal(size=n)

    def noisy():
        return z + 0.6 * rng.normal(size=n)

    made = pd.DataFrame(
        {
            "real": noisy(),
            "income": np.exp(noisy()),
            "rain": np.maximum(noisy(), 0.0),
            "rating": np.digitize(noisy(), [-1.0, 0.0, 1.0]).astype(float),
            "region": np.array(["north", "süd, west", 'the "east"'])[
                np.digitize(noisy(), [-0.5, 0.5])
            ],
            "member": pd.Series(noisy() > 0, dtype=object),
            "day": [f"2024-01-{i % 28 + 1:02d}" for i in range(n)],
            "id": [f"row {i}" for i in range(n)],
        }
    )
    hidden = rng.random(made.shape) < 0.15
    hidden[:, -1] = False
    return made.mask(hidden)


def csv(X, folder):
    X.to_csv(folder / "t.csv", index=False)
    return folder / "t.csv"


def semicolons(X, folder):
    X.to_csv(folder / "s.csv", index=False, sep=";", decimal=",", na_rep="NA")
    return folder / "s.csv"


def csv_gz(X, folder):
    X.to_csv(folder / "t.csv.gz", index=False, na_rep="NaN")
    return folder / "t.csv.gz"


def many(X, folder):
    step = -(-len(X) // 3)
    for k in range(3):
        X.iloc[k * step : (k + 1) * step].to_csv(folder / f"part-{k}.csv", index=False)
    return str(folder / "part-*.csv")


def listed(X, folder):
    many(X, folder)
    return [folder / f"part-{k}.csv" for k in range(3)]


def parquet(X, folder):
    X.to_parquet(folder / "t.parquet", row_group_size=50)
    return folder / "t.parquet"


def categories(X, folder):
    """Dictionaries of Arrow in Parquet."""
    X.astype({"region": "category", "day": "category"}).to_parquet(
        folder / "c.parquet", row_group_size=50
    )
    return folder / "c.parquet"


def parquets(X, folder):
    (folder / "parts").mkdir()
    for k, start in enumerate(range(0, len(X), 100)):
        X.iloc[start : start + 100].to_parquet(folder / "parts" / f"{k}.parquet")
    return folder / "parts"


def dask(X, folder):
    dd = pytest.importorskip("dask.dataframe")
    return dd.from_pandas(_with_boolean(X), npartitions=4)


def dask_categories(X, folder):
    dd = pytest.importorskip("dask.dataframe")
    return dd.from_pandas(_with_boolean(X).astype({"region": "category"}), npartitions=3)


def dask_unknown(X, folder):
    dd = pytest.importorskip("dask.dataframe")
    collection = dd.from_pandas(_with_boolean(X), npartitions=4)
    return collection.astype({"region": "category"})


def polars(X, folder):
    return pl.from_pandas(X)


def arrow(X, folder):
    return pa.Table.from_pandas(X, preserve_index=False)


def objects(X, folder):
    return X.to_numpy(dtype=object)


def _with_boolean(X):
    return X.astype({"member": "boolean"})  # Dask makes text of objects


PLACES = {
    make.__name__: make
    for make in (
        csv, semicolons, csv_gz, many, listed, parquet, categories, parquets, dask, dask_categories,
        dask_unknown, polars, arrow, objects,
    )
}  # fmt: skip


def _coded(X, **how):
    found = open_table(X, **how)
    schema = found.schema()
    return schema, found.source(schema, range(len(schema.columns)))


@pytest.mark.parametrize("place", PLACES)
def test_schema_and_codes_are_those_of_the_frame(place, tmp_path):
    X = table()
    wanted, source = _coded(X)
    values = source.collect()
    found, other = _coded(PLACES[place](X, tmp_path))
    assert [own.holds for own in wanted.columns] == [
        "numbers", "numbers", "numbers", "numbers", "levels", "truth", "levels", "levels"
    ]  # fmt: skip
    assert [own.holds for own in found.columns] == [own.holds for own in wanted.columns]
    assert [own.levels for own in found.columns] == [own.levels for own in wanted.columns]
    np.testing.assert_array_equal(other.collect(), values)
    assert other.n_rows == N


FILES = ("csv", "many", "parquet", "dask", "polars")
FITS = {
    "FactorAnalysis": lambda: eg.FactorAnalysis(1, columns="auto", tol=1e-9),
    "PPCA": lambda: eg.PPCA(1, columns="auto", tol=1e-9),
    "LowRankImputer": lambda: eg.LowRankImputer(),  # it searches, so in two places only
}


@pytest.mark.parametrize(
    ("name", "place"),
    [(name, place) for name in ("FactorAnalysis", "PPCA") for place in FILES]
    + [("LowRankImputer", "csv"), ("LowRankImputer", "dask")],
)
def test_fits_are_those_of_the_frame(name, place, tmp_path):
    X = table()
    wanted, found = FITS[name]().fit(X), FITS[name]().fit(PLACES[place](X, tmp_path))
    assert found.kinds_ == wanted.kinds_
    assert found.levels_ == wanted.levels_
    assert found.kinds_["day"] == "ignored"  # dates, written as text
    assert found.kinds_["id"] == "ignored"
    ours, theirs = found.impute(X), wanted.impute(X)
    for own in X.columns:
        if X[own].dtype == float:
            assert_same_optimum(ours[own].to_numpy(), theirs[own].to_numpy(), own, sites=True)
        else:
            assert ours[own].tolist() == theirs[own].tolist()
    if name != "LowRankImputer":
        assert_same_optimum(found.transform(X), wanted.transform(X), "transform", sites=True)


@pytest.mark.parametrize("place", ["csv", "many", "parquet"])
def test_maps_are_equal_in_every_bit(place, tmp_path):
    X = table()
    wanted = eg.FactorAnalysis(1, columns="auto").fit(X)
    found = eg.FactorAnalysis(1, columns="auto").fit(PLACES[place](X, tmp_path))
    rows = np.column_stack([np.linspace(0.01, 3.0, 50)] * len(wanted.table_.used))
    for j, (one, two) in enumerate(
        zip(wanted.table_.columns.kinds, found.table_.columns.kinds, strict=True)
    ):
        x = rows[:, j] if one.is_exact else np.resize(one.levels, 50)
        for a, b in zip(
            one.encode(x, np.empty((50, 0))), two.encode(x, np.empty((50, 0))), strict=True
        ):
            np.testing.assert_array_equal(a, b)


def test_rows_that_a_table_elsewhere_imputes_are_those_of_the_frame(tmp_path):
    X = table()
    model = eg.FactorAnalysis(1, columns="auto").fit(X)
    wanted = model.impute(X)
    found = model.impute(csv(X, tmp_path))
    for name in X.columns:  # None and NaN are one missing value
        one, two = (t[name].astype(object).where(t[name].notna(), None) for t in (found, wanted))
        assert one.tolist() == two.tolist()
    np.testing.assert_array_equal(model.transform(tmp_path / "t.csv"), model.transform(X))
    std = model.impute(tmp_path / "t.csv", return_std=True)[1]
    np.testing.assert_array_equal(std, model.impute(X, return_std=True)[1].to_numpy())


# Levels that come late -------------------------------------------------------------------------


def late(n=80_000):
    """A level, and a word among numbers, in the last row of a file of several chunks."""
    rng = np.random.default_rng(1)
    X = pd.DataFrame({"a": rng.normal(size=n), "b": rng.integers(0, 4, n).astype(str)})
    X["c"] = rng.choice(["x", "y"], n)
    X["pad"] = rng.normal(size=n)
    X.loc[n - 1, ["b", "c"]] = ["many", "z"]
    return X


@pytest.mark.parametrize("place", ["csv", "many", "parquet", "dask"])
def test_what_the_last_block_alone_has(place, tmp_path):
    X = late()
    schema, source = _coded(
        PLACES[place](X.assign(member=True), tmp_path).copy()
        if place == "dask"
        else PLACES[place](X, tmp_path)
    )
    names = [own.name for own in schema.columns]
    assert schema.columns[names.index("b")].levels == ("0", "1", "2", "3", "many")
    assert schema.columns[names.index("c")].levels == ("x", "y", "z")
    assert source.collect()[-1, names.index("c")] == 2.0


def test_numbers_that_turn_out_to_be_text_cost_one_more_pass(tmp_path, monkeypatch):
    reads = []
    chunks = CsvReader._chunks

    def counted(self, size):
        reads.append(self.n_features)
        return chunks(self, size)

    monkeypatch.setattr(CsvReader, "_chunks", counted)
    open_table(csv(late(), tmp_path)).schema()
    assert reads == [4, 1]  # all columns, and those that were taken for numbers at first


def test_imputer_falls_back_on_columns_where_text_comes_late(tmp_path):
    X = table()
    X["score"] = np.where(np.arange(N) < N - 1, X["rating"].fillna(1.0).map("{:g}".format), "none")
    wide = pd.concat([X] * 8, ignore_index=True)[["real", "score"]]  # beyond the rows first read
    wide.loc[: len(wide) - 2, "score"] = wide["score"].iloc[:-1].replace("none", "0")
    imputer = eg.LowRankImputer(n_components=1).fit(csv(wide, tmp_path))
    assert imputer.kinds_["score"] == "nominal"


def test_words_among_numbers_are_reported_with_the_reason(tmp_path):
    rng = np.random.default_rng(2)
    X = pd.DataFrame({"x": rng.normal(size=200), "y": rng.normal(size=200).astype(str)})
    X.loc[150, "y"] = "broken"
    for place in (X, csv(X, tmp_path)):
        with pytest.warns(SentinelWarning, match='"broken" at row 150'):
            model = eg.FactorAnalysis(1, columns={"x": "continuous"}).fit(place)
        assert model.kinds_["y"] == "ignored"
        assert 'numbers and text such as "broken"' in model.table_.ignored()["y"]


def postal(n=200) -> pd.DataFrame:
    """Twelve codes with leading zeros, some missing, and two columns of numbers."""
    rng = np.random.default_rng(6)
    codes = [f"{code:05d}" for code in rng.choice(20_000, 12, replace=False)]
    z = rng.normal(size=n)
    X = pd.DataFrame({"x": z, "y": z + rng.normal(size=n), "code": rng.choice(codes, n)})
    X.loc[0, "code"] = codes[0] = "00501"
    X.loc[7::9, "code"] = None
    return X


@pytest.mark.parametrize(
    "suffix",
    ["csv", *(pytest.param(each, marks=pytest.mark.slow) for each in ("csv.gz", "parquet"))],
)
def test_digits_with_leading_zeros_are_text_in_files_as_in_frames(suffix, tmp_path):
    X = postal()
    path = tmp_path / f"codes.{suffix}"
    X.to_parquet(path) if suffix == "parquet" else X.to_csv(path, index=False)
    frame, file = (eg.FactorAnalysis(1, columns="auto").fit(at) for at in (X, path))
    assert file.kinds_ == frame.kinds_ == {"x": "continuous", "y": "continuous", "code": "nominal"}
    assert file.levels_ == frame.levels_
    assert "00501" in file.levels_["code"]
    imputed = eg.stream(file.impute, path, tmp_path / "imputed.csv")
    read = pd.read_csv(imputed, dtype={"code": str})["code"]
    assert read.tolist() == frame.impute(X)["code"].tolist()
    assert eg.LowRankImputer(n_components=1).fit(path).kinds_["code"] == "nominal"


def test_codes_are_numbers_where_that_is_asked_for(tmp_path):
    path = csv(postal(), tmp_path)
    numbers = pd.read_csv(path)["code"]
    assert numbers.dtype == float
    for kind in ("continuous", "count"):
        model = eg.FactorAnalysis(1, columns={"code": kind}).fit(path)
        assert model.kinds_["code"] == kind
        np.testing.assert_array_equal(
            model.table_.code(pd.read_csv(path))[:, 2], numbers.to_numpy()
        )
    assert open_table(path).schema().columns[2].holds == "levels"
    found = eg.overview(path, columns={"code": "continuous"}).columns[2]
    assert (found.kind, found.levels) == ("continuous", ())
    eg.PPCA(1).fit(path)  # columns="numeric" reads numbers


@pytest.mark.parametrize("last", ["0.5", "-12", "1e3"])
def test_leading_zeros_among_other_numbers_are_numbers(last, tmp_path):
    X = postal()
    X.loc[len(X) - 1, "code"] = last
    assert open_table(csv(X, tmp_path)).schema().columns[2].holds == "numbers"


def test_leading_zeros_of_one_of_several_files(tmp_path):
    X = postal()
    for k, code in enumerate(["10501", "00501"]):
        X.assign(code=code).to_csv(tmp_path / f"{k}.csv", index=False)
    (own,) = open_table(str(tmp_path / "*.csv")).schema().columns[2:]
    assert (own.holds, own.levels) == ("levels", ("00501", "10501"))


def test_more_levels_than_are_kept_are_an_identifier(tmp_path):
    n = MOST_KEPT + 50
    X = pd.DataFrame({"x": np.arange(n) % 97 / 7.0, "id": [f"n{i}" for i in range(n)]})
    for place in (X, csv(X, tmp_path), parquet(X, tmp_path)):
        schema, source = _coded(place)
        assert schema.columns[1].holds == "other"
        assert schema.columns[1].levels == ()
        assert "more than 10000 different values" in schema.columns[1].note
        assert np.isnan(source.collect()[:, 1]).all()


# What is missing -------------------------------------------------------------------------------


def test_spellings_of_missing_and_of_truth(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text(
        "n,t,b\n1,a,TRUE\nNA,NA,\n2.5, n/a ,false\n,?,NaN\nNULL,b,True\n", encoding="utf-8"
    )
    schema, source = _coded(path, missing_values="?")
    assert [own.holds for own in schema.columns] == ["numbers", "levels", "truth"]
    assert schema.columns[1].levels == ("a", "b")
    nan = np.nan
    wanted = [[1, 0, 1], [nan, nan, nan], [2.5, nan, 0], [nan, nan, nan], [nan, 1, 1]]
    np.testing.assert_array_equal(source.collect(), wanted)


NULL_WORDS = """number,truth,limit,level,rare
1,TRUE,0.5,None,a
None,None,<0.2,null,None
2.5,FALSE,None,NULL,a
null,null,NULL,b,a
,,,,a
"""


def test_words_for_missing_are_levels_of_text_and_missing_elsewhere(tmp_path):
    """As in data frames, whose text may be "None"."""
    path = tmp_path / "t.csv"
    path.write_text(NULL_WORDS, encoding="utf-8")
    schema, source = _coded(path)
    holds = [own.holds for own in schema.columns]
    assert holds == ["numbers", "truth", "numbers", "levels", "levels"]
    assert schema.columns[2].has_limits
    assert schema.columns[3].levels == ("NULL", "None", "b", "null")
    assert schema.columns[4].levels == ("None", "a")
    nan = np.nan
    wanted = [[1, 1, 0.5, 1, 1], [nan, nan, nan, 3, 0], [2.5, 0, nan, 0, 1]]
    wanted += [[nan, nan, nan, 2, 1], [nan] * 4 + [1]]
    np.testing.assert_array_equal(source.collect()[:, :5], wanted)
    frame = pl.read_csv(path, columns=["level", "rare"])
    assert Schema.of(frame).columns == schema.columns[3:]
    schema, _ = _coded(path, missing_values=["None", "null"])
    assert schema.columns[3].levels == ("NULL", "b")
    assert schema.columns[4].levels == ("a",)


@pytest.mark.parametrize("first", ["None", "", "1"])
@pytest.mark.parametrize("kind", ["text", "truth", "number", "nothing"])
def test_words_for_missing_count_wherever_they_stand(kind, first, tmp_path, monkeypatch):
    """A column is text where its last cell is, blocks before; and then "None" was a level."""
    monkeypatch.setattr("eigengap.sources.files.csv.mixed.LEAST_CHUNK", 1 << 12)
    monkeypatch.setattr("eigengap.sources.coded.ROWS", 1 << 8)
    last = {"text": "Some", "truth": "true", "number": "3", "nothing": ""}[kind]
    column = ["None"] * 5 + [first] * 3000 + [last] * 2
    path = tmp_path / "t.csv"
    path.write_text("x,y\n" + "".join(f"{i % 7}.5,{cell}\n" for i, cell in enumerate(column)))
    schema, source = _coded(path)
    own = schema.columns[1]
    if kind == "text":
        assert set(own.levels) == set(column) - {""}
        at = {level: k for k, level in enumerate(own.levels)}
        wanted = [at.get(cell, np.nan) for cell in column]
    else:
        assert own.holds == ("truth" if kind == "truth" and first != "1" else "numbers")
        number = {"1": 1.0, "3": 3.0, "true": 1.0}
        wanted = [number.get(cell, np.nan) for cell in column]
    np.testing.assert_array_equal(source.collect()[:, 1], wanted)


def test_truth_values_among_numbers_are_numbers(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("a,b\n1,TRUE\n2,0.5\n3,FALSE\n")
    schema, source = _coded(path)
    assert [own.holds for own in schema.columns] == ["numbers", "numbers"]
    np.testing.assert_array_equal(source.collect()[:, 1], [1.0, 0.5, 0.0])


def test_codes_of_missing_values_are_those_of_numbers(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("a,b\n1,x\n-9,y\n3,-9\n")
    schema, source = _coded(path, missing_values=-9)
    assert schema.columns[1].levels == ("-9", "x", "y")
    np.testing.assert_array_equal(source.collect()[:, 0], [1.0, np.nan, 3.0])


# Weights ---------------------------------------------------------------------------------------

# Sites of expectation propagation settle to 1e-5, and a fit ends where the likelihood is flat to
# rounding: sums of weights, rounded otherwise, move the scores by as much.
SETTLED = {"rtol": 1e-5, "atol": 1e-5}


def assert_same_columns(one, two):
    """Maps and thresholds, which do not iterate but for the power of a map."""
    x = np.linspace(0.05, 2.0, 20)
    for a, b in zip(one.table_.columns.kinds, two.table_.columns.kinds, strict=True):
        if hasattr(a, "thresholds"):
            np.testing.assert_allclose(a.thresholds, b.thresholds, rtol=1e-12)
        else:
            np.testing.assert_allclose(
                a.margin.forward(x), b.margin.forward(x), rtol=1e-7, atol=1e-9
            )


@pytest.mark.parametrize("place", ["frame", "csv", "parquet", "dask"])
def test_rows_of_weight_0_are_as_if_absent(place, tmp_path):
    X = table()
    X.loc[7, "region"] = "nowhere"
    X.loc[8, "real"] = 1e6
    weight = np.ones(N)
    weight[[7, 8]] = 0.0
    at = X if place == "frame" else PLACES[place](X, tmp_path)
    model = eg.FactorAnalysis(1, columns="auto", tol=1e-9).fit(at, sample_weight=weight)
    assert model.levels_["region"] == ("north", "süd, west", 'the "east"')
    without = X.drop(index=[7, 8])
    wanted = eg.FactorAnalysis(1, columns="auto", tol=1e-9).fit(without)
    assert_same_columns(model, wanted)
    np.testing.assert_allclose(model.transform(without), wanted.transform(without), **SETTLED)
    with pytest.raises(UnknownLevelError, match="nowhere"):
        model.transform(X)


@pytest.mark.parametrize("place", ["frame", "csv", "dask"])
def test_a_row_of_weight_2_is_a_row_that_occurs_twice(place, tmp_path):
    X = table(150)
    weight = np.random.default_rng(3).integers(1, 4, 150)
    twice = X.loc[np.repeat(np.arange(150), weight)].reset_index(drop=True)
    at = X if place == "frame" else PLACES[place](X, tmp_path)
    how = partial(eg.FactorAnalysis, 1, columns="auto", tol=1e-10)
    model, wanted = how().fit(at, sample_weight=weight), how().fit(twice)
    assert model.kinds_ == wanted.kinds_
    assert_same_columns(model, wanted)
    np.testing.assert_allclose(model.transform(X), wanted.transform(X), **SETTLED)


@pytest.mark.parametrize("scale", [0.1, 3.0, 1e6])
def test_a_factor_of_all_weights_changes_no_map(scale):
    X = table()
    weight = np.random.default_rng(4).integers(1, 4, N).astype(float)
    one, two = (
        eg.FactorAnalysis(1, columns="auto", tol=1e-9).fit(X, sample_weight=w)
        for w in (weight, scale * weight)
    )
    assert one.kinds_ == two.kinds_
    assert_same_columns(one, two)


# What is refused -------------------------------------------------------------------------------


def test_a_level_that_the_fit_did_not_have(tmp_path):
    X = table()
    model = eg.FactorAnalysis(1, columns="auto").fit(csv(X, tmp_path))
    X.loc[211, "region"] = "east"
    with pytest.raises(UnknownLevelError, match='"east" at row 211, column "region"') as caught:
        model.transform(csv(X, tmp_path))
    assert (caught.value.row, caught.value.name) == (211, "region")
    with pytest.raises(UnknownLevelError, match='"east" at row 211'):
        model.transform(many(X, tmp_path))
    with pytest.raises(UnknownLevelError, match='"east"'):
        model.transform(dask(X, tmp_path))


def test_text_where_the_fit_had_numbers_names_the_line(tmp_path):
    X = table()
    model = eg.FactorAnalysis(1, columns="auto").fit(csv(X, tmp_path))
    X["real"] = X["real"].astype(object)
    X.loc[100, "real"] = "many"
    with pytest.raises(UnreadableError, match='line 102, column "real" holds text, "many"'):
        model.transform(csv(X, tmp_path))


def test_a_kind_that_does_not_fit_names_the_row(tmp_path):
    path = csv(table(), tmp_path)
    first = int(np.flatnonzero(table()["real"] < 0)[0])
    with pytest.raises(
        DataError, match=f'"real" cannot be positive.*negative number at row {first}'
    ):
        eg.FactorAnalysis(1, columns={"real": "positive"}).fit(path)


def test_columns_of_another_file(tmp_path):
    X = table()
    model = eg.FactorAnalysis(1, columns="auto").fit(csv(X, tmp_path))
    with pytest.raises(ValueError, match='column 0 is "id" instead of "real"'):
        model.transform(csv(X[X.columns[::-1]], tmp_path))
    with pytest.raises(ValueError, match="has 7 features, but 8"):
        model.transform(csv(X.drop(columns="id"), tmp_path))


def test_text_that_is_not_utf_8(tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes("a,b\n1,süd\n2,nord\n".encode("latin-1"))
    with pytest.raises(UnreadableError, match='column "b" is not UTF-8'):
        open_table(path).schema()


def test_types_that_differ_between_files(tmp_path):
    pd.DataFrame({"a": [1.0, 2.0], "b": ["x", "y"]}).to_parquet(tmp_path / "1.parquet")
    pd.DataFrame({"a": ["1", "2"], "b": ["x", "y"]}).to_parquet(tmp_path / "2.parquet")
    with pytest.raises(DataError, match='column "a": the column is of different types'):
        open_table(str(tmp_path / "*.parquet")).schema()


# Writing ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", ["csv", "parquet", "many", "dask", "polars", "arrow", "frame"])
@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_stream_writes_levels_as_text(suffix, place, tmp_path):
    X = table()
    model = eg.FactorAnalysis(1, columns="auto").fit(X)
    at = X if place == "frame" else PLACES[place](X, tmp_path)
    path = eg.stream(model.impute, at, tmp_path / f"out{suffix}")
    read = pd.read_csv if suffix == ".csv" else pd.read_parquet
    found, wanted = read(path), model.impute(X)
    assert list(found.columns) == list(wanted.columns)
    for name in ("region", "id"):
        assert found[name].tolist() == wanted[name].tolist()
    assert found["member"].astype(bool).tolist() == wanted["member"].astype(bool).tolist()
    for name in ("real", "income", "rain", "rating"):
        np.testing.assert_allclose(found[name], wanted[name], rtol=1e-12)


def test_stream_writes_deviations_and_scores(tmp_path):
    X = table()
    model = eg.FactorAnalysis(1, columns="auto").fit(X)
    path = eg.stream(partial(model.impute, return_std=True), csv(X, tmp_path), tmp_path / "sd.csv")
    found = pd.read_csv(path)
    assert list(found.columns) == [*X.columns, *(f"{name}_sd" for name in X.columns)]
    np.testing.assert_allclose(found["real_sd"], model.impute(X, return_std=True)[1]["real"])
    path = eg.stream(model.transform, tmp_path / "t.csv", tmp_path / "z.npy")
    np.testing.assert_allclose(np.load(path), model.transform(X))


def test_a_file_of_numbers_takes_no_text(tmp_path):
    X = table()
    model = eg.FactorAnalysis(1, columns="auto").fit(X)
    with pytest.raises(ValueError, match=r"file of numbers, and levels are text: write \.csv or"):
        eg.stream(model.impute, X, tmp_path / "out.npy")
    assert not (tmp_path / "out.npy").exists()
