"""The overview of a table against pandas and SciPy, and the same however the rows are cut."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import eigengap as eg
from eigengap.sources import ArraySource, Schema
from eigengap.statistics.overview import Distinct, TableFacts


def _table(n: int = 400) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {
            "income": np.exp(rng.normal(10, 1, n)).round(2),
            "rain": np.where(rng.random(n) < 0.4, 0.0, rng.gamma(2.0, size=n)),
            "grade": pd.Categorical(
                rng.choice(["low", "mid", "high"], n), ["low", "mid", "high"], ordered=True
            ),
            "region": rng.choice(["north", "south", "east"], n, p=[0.6, 0.3, 0.1]),
            "smoker": rng.random(n) < 0.3,
            "points": rng.integers(1, 6, n),
            "name": [f"person {i}" for i in range(n)],
            "day": pd.date_range("2024-01-01", periods=n),
            "nothing": np.nan,
        }
    )
    table["again"] = table["income"]
    for name, share in (("income", 0.1), ("region", 0.2), ("again", 0.1)):
        table.loc[np.random.default_rng(1).random(n) < share, name] = None
    return pd.concat([table, table.iloc[[3, 3, 7]]], ignore_index=True)


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    return _table()


@pytest.fixture(scope="module")
def found(table: pd.DataFrame) -> dict[str, Any]:
    return {column.name: column for column in eg.overview(table).columns}


def test_counts_are_those_of_pandas(table: pd.DataFrame, found: dict[str, Any]) -> None:
    whole = eg.overview(table)
    assert whole.rows == len(table)
    assert whole.duplicate_rows == int(table.duplicated().sum()) == 3
    assert whole.incomplete_rows == int(table.isna().any(axis=1).sum())
    for name, column in found.items():
        assert column.observed == table[name].notna().sum()
        assert column.missing == table[name].isna().sum()
        assert column.different == table[name].nunique()
    assert {name for name, column in found.items() if column.is_constant} == set()


def test_numbers_are_those_of_pandas_and_scipy(table: pd.DataFrame, found: dict[str, Any]) -> None:
    for name in ("income", "rain", "points"):
        x = table[name].dropna().to_numpy(dtype=float)
        column = found[name]
        assert column.mean == pytest.approx(x.mean(), rel=1e-12)
        assert column.sd == pytest.approx(x.std(ddof=1), rel=1e-12)
        assert column.skewness == pytest.approx(stats.skew(x), rel=1e-9)
        np.testing.assert_allclose(column.quantiles, np.quantile(x, [0.05, 0.25, 0.5, 0.75, 0.95]))
        assert (column.least, column.largest) == (x.min(), x.max())
        assert column.share_least == pytest.approx(np.mean(x == x.min()))
    assert found["rain"].counts.sum() == found["rain"].observed
    assert np.isnan(found["region"].mean)
    assert "% are 0" in found["rain"].cautions[-1]


def test_levels_and_kinds(table: pd.DataFrame, found: dict[str, Any]) -> None:
    kinds = {name: column.kind for name, column in found.items()}
    assert kinds == {
        "income": "continuous",
        "rain": "continuous",
        "grade": "ordinal",
        "region": "nominal",
        "smoker": "binary",
        "points": "ordinal",
        "name": "ignored",
        "day": "ignored",
        "nothing": "continuous",
        "again": "continuous",
    }
    counts = table["region"].value_counts()
    assert found["region"].levels == tuple((str(k), int(v)) for k, v in counts.items())
    assert [level for level, _ in found["grade"].levels] == ["low", "mid", "high"]
    assert [level for level, _ in found["points"].levels] == ["1", "2", "3", "4", "5"]
    assert found["income"].same_as == ("again",)
    assert found["nothing"].cautions == ("no value is observed",)
    asked = eg.overview(table, columns={"points": "count"}).columns[5]
    assert (asked.kind, asked.why) == ("count", "as asked")


def test_outliers_are_beyond_the_fences_on_the_scale_of_the_model() -> None:
    rng = np.random.default_rng(0)
    plain = rng.normal(size=500)
    plain[0] = 30.0
    skewed = np.exp(2.0 * rng.normal(size=500))
    columns = eg.overview(np.column_stack([plain, skewed])).columns
    q1, q3 = np.quantile(plain, [0.25, 0.75])
    fence = 3 * (q3 - q1)
    assert np.sum((plain < q1 - fence) | (plain > q3 + fence)) == columns[0].outliers == 1
    q1, q3 = np.quantile(skewed, [0.25, 0.75])
    assert np.sum(skewed > q3 + 3 * (q3 - q1)) > 20  # on its own scale its tail would be outliers
    assert columns[1].outliers == 0
    assert columns[1].scale == "log"


@pytest.mark.parametrize("rows", [1, 7, 100])
def test_any_partition_gives_the_same_facts(table: pd.DataFrame, rows: int) -> None:
    values = Schema.of(table).code(table)
    whole = ArraySource(values, block_rows=len(values)).reduce(TableFacts.of)
    parts = ArraySource(values, block_rows=rows).reduce(TableFacts.of)
    for name in ("rows", "incomplete_rows", "empty_rows", "duplicate_rows"):
        assert getattr(whole, name) == getattr(parts, name)
    np.testing.assert_array_equal(whole.prints, parts.prints)
    np.testing.assert_array_equal(whole.moments.n, parts.moments.n)
    for name in ("mean", "sd", "skewness"):
        np.testing.assert_allclose(
            getattr(whole.moments, name), getattr(parts.moments, name), rtol=1e-9
        )
    for name in ("least", "at_least", "largest", "at_largest"):
        np.testing.assert_array_equal(getattr(whole.extremes, name), getattr(parts.extremes, name))
    for one, other in zip(whole.values, parts.values, strict=True):
        np.testing.assert_array_equal(one.values, other.values)
        np.testing.assert_array_equal(one.counts, other.counts)


def test_very_many_different_values_are_estimated() -> None:
    """k least hashes: a standard error of about 1 / sqrt(k), 3 % at k = 1024."""
    rng = np.random.default_rng(0)
    values = np.repeat(np.arange(50_000.0), 2)
    hashes = rng.integers(2**64, size=50_000, dtype=np.uint64)[values.astype(int)]
    halves = [Distinct.of(hashes[k::2], values[k::2], 1024) for k in range(2)]
    merged = halves[0].merge(halves[1])
    assert not merged.is_exact
    assert abs(merged.different / 50_000 - 1) < 5 / np.sqrt(1024)
    assert set(merged.counts.tolist()) == {2}
    assert merged.repeated == 0.5


def test_a_constant_far_from_zero_has_no_spread() -> None:
    X = np.full((1000, 2), 1e8 + 0.1)
    X[:, 1] = np.arange(1000) % 2
    column = eg.overview(X).columns[0]
    assert column.sd == 0.0
    assert column.is_constant
    assert column.cautions[0] == "is constant"


def test_frames_of_every_library_have_the_same_overview(table: pd.DataFrame) -> None:
    polars = pytest.importorskip("polars")
    few = table[["income", "region", "smoker", "points"]]
    ours = eg.overview(polars.from_pandas(few))
    assert [str(c) for c in ours.to_frame().to_dict("list")] == list(eg.overview(few).to_frame())
    assert ours.duplicate_rows == eg.overview(few).duplicate_rows
    assert str(ours) == str(eg.overview(few))


def test_files_and_dask_frames_have_the_same_overview(table: pd.DataFrame, tmp_path: Any) -> None:
    kept = ["income", "rain", "region", "points", "again"]
    path = tmp_path / "table.csv"
    table[kept].to_csv(path, index=False)
    here = eg.overview(table[kept])
    for there in (eg.overview(path), eg.overview(str(path))):
        assert str(there) == str(here)
        assert there.duplicate_rows == here.duplicate_rows
    dask = pytest.importorskip("dask.dataframe")
    assert str(eg.overview(dask.from_pandas(table[kept], npartitions=3))) == str(here)


def test_free_text_of_a_file_is_not_looked_at(table: pd.DataFrame, tmp_path: Any) -> None:
    path = tmp_path / "table.csv"
    many = table[["rain"]].copy()
    many["day"] = pd.date_range("2024-01-01", periods=len(many))
    many.to_parquet(path.with_suffix(".parquet"))
    found = eg.overview(path.with_suffix(".parquet"))
    assert found.columns[1].kind == "ignored"
    assert found.columns[1].cautions == ("not read",)
    assert found.incomplete_rows == 0
    assert found.rows == len(many)
