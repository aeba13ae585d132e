"""The numbers behind the charts take what the charts take; dates colour as a scale of days."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import eigengap as eg
from eigengap.plots import numbers, scores
from eigengap.plots.numbers.colour import as_date, days_of
from eigengap.plots.numbers.rows import table_of

FEATURES = list("abcde")


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    """Five features with gaps among other columns, and in another order than that of the fit."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2)) @ rng.normal(size=(2, 5)) + 0.3 * rng.normal(size=(60, 5))
    X[3:20, 1] = np.nan
    frame = pd.DataFrame(X, columns=FEATURES)
    frame["kind"] = "text"
    return frame[["kind", "e", "b", "a", "c", "d"]]


@pytest.fixture(scope="module")
def model(table: pd.DataFrame) -> Any:
    return eg.PPCA(2).fit(table[FEATURES])


@pytest.mark.parametrize(
    "name",
    [
        "biplot_numbers", "calibration", "correlations", "imputations", "missingness_summary",
        "outlier_numbers", "row_contributions", "row_cos2", "score_ellipses", "scores_of",
        "variable_cos2",
    ],
)  # fmt: skip
def test_arrays_frames_and_paths_give_the_same_numbers(
    name: str, table: pd.DataFrame, model: Any, tmp_path: Path
) -> None:
    """Columns of a frame or a file are found by name; a code for missing cells is heeded."""
    path = tmp_path / "t.csv"
    table.to_csv(path, index=False)
    X = table[FEATURES]
    coded = eg.PPCA(2, missing_values=[np.nan, -999.0]).fit(X)
    function = getattr(numbers, name)
    alone = name == "missingness_summary"
    expected = _flat(function(table_of(X)) if alone else function(model, table_of(X, model)))
    for rows in [X] if alone else [X.to_numpy(), X.to_numpy().tolist(), X, table, path, str(path)]:
        found = _flat(function(rows) if alone else function(model, rows))
        for a, b in zip(expected, found, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)
    if not alone:
        found = _flat(function(coded, X.fillna(-999.0).to_numpy()))
        for a, b in zip(expected, found, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9)


def test_the_numbers_of_a_mixture_take_a_frame(table: pd.DataFrame) -> None:
    mixture = eg.MixturePPCA(2, 1, random_state=0).fit(table[FEATURES])
    by_array = numbers.mixture_numbers(mixture, table[FEATURES].to_numpy())
    by_frame = numbers.mixture_numbers(mixture, table)
    np.testing.assert_array_equal(by_array.resp, by_frame.resp)
    np.testing.assert_array_equal(by_array.points, by_frame.points)


def _flat(found: Any) -> list[np.ndarray]:
    """The arrays within a value."""
    if isinstance(found, np.ndarray | float | int):
        return [np.asarray(found, dtype=float)]
    if hasattr(found, "__dataclass_fields__"):
        return [a for name in found.__dataclass_fields__ for a in _flat(getattr(found, name))]
    return []


# Dates ---------------------------------------------------------------------------------------

DAYS = pd.date_range("2024-01-03", periods=60, freq="36h")


@pytest.mark.parametrize(
    "color",
    [
        DAYS,
        pd.Series(DAYS),
        DAYS.to_numpy(),
        list(DAYS),
        [str(day) for day in DAYS],
        "when",
        pd.Series(DAYS.to_period("h")),
        list(DAYS.strftime("%d.%m.%Y %H:%M")),
    ],
    ids=["index", "series", "numpy", "timestamps", "texts", "column", "periods", "pointed"],
)
def test_dates_colour_as_a_scale_of_days(table: pd.DataFrame, model: Any, color: Any) -> None:
    """However they are given: numbers of days since 1970, a legend and a tooltip of dates."""
    spec = scores(model, table.assign(when=DAYS), color=color).to_dict()
    points = spec["layer"][-1]
    shown = spec["datasets"][points["data"]["name"]]
    days = np.asarray((DAYS - pd.Timestamp(0)) / pd.Timedelta(days=1))
    assert [row["colour"] for row in shown] == pytest.approx(list(days))
    assert [row["date"] for row in shown[:2]] == ["2024-01-03", "2024-01-04 12:00"]
    colour = points["encoding"]["color"]
    assert colour["type"] == "quantitative"
    assert colour["title"] == ("when" if isinstance(color, str) else "date")
    assert "utcFormat" in colour["legend"]["labelExpr"]
    assert colour["legend"]["values"] == pytest.approx([days[0], days[[0, -1]].mean(), days[-1]])
    assert {tip["field"] for tip in points["encoding"]["tooltip"]} >= {"date"}


@pytest.mark.parametrize("texts", ["31.13.2024", "5/6/2024", "1.2.3", "31.05.2024x"])
def test_what_is_no_date_or_has_two_meanings_stays_text(texts: str) -> None:
    assert days_of([texts]) is None


def test_a_truth_value_is_no_number_of_rows(table: pd.DataFrame, model: Any) -> None:
    """Python counts True as 1."""
    for wrong in (True, 2.5, 0):
        with pytest.raises(ValueError, match=r"max_rows.* must be a whole number of at least 1"):
            scores(model, table, max_rows=wrong)
    with pytest.raises(ValueError, match="counted from 1"):
        scores(model, table, axes=(True, 2))


def test_a_few_dates_are_categories(table: pd.DataFrame, model: Any) -> None:
    few = pd.Series(DAYS.normalize()[:3].repeat(20))
    spec = scores(model, table, color=few).to_dict()
    legend = spec["layer"][-1]["encoding"]["color"]["scale"]["domain"]
    assert legend == ["2024-01-03", "2024-01-04", "2024-01-06"]


def test_rows_whose_colour_is_not_known_are_drawn_in_grey() -> None:
    """Vega-Lite leaves points without a colour out, unless told otherwise."""
    import vl_convert

    X = np.random.default_rng(0).normal(size=(40, 4))
    values = X[:, 0].copy()
    values[::2] = np.nan
    chart = scores(eg.PPCA(2).fit(X), X, color=values).to_dict()
    assert "without a value in grey" in " ".join(chart["title"]["subtitle"])
    drawn = vl_convert.vegalite_to_svg(chart)
    assert drawn.count('fill="#8a8a8a"') >= len(values[::2])


def test_midnight_in_a_zone_is_no_evening_before() -> None:
    days = pd.Series(pd.date_range("2021-03-01", periods=3, freq="D", tz="Europe/Berlin"))
    assert as_date(days_of(list(days))[0]) == "2021-03-01"
