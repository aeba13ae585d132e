"""What a chart says can be read: titles, units, labels that cover nothing, the theme asked for."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import eigengap as eg
from eigengap.plots.charts.scores import apart
from eigengap.plots.charts.spectra import WIDTH, _beside
from eigengap.plots.theme import save, theme


def parts(spec: Any, key: str) -> Iterator[Any]:
    """All values under a key, wherever they stand."""
    if isinstance(spec, dict):
        for name, value in spec.items():
            if name == key:
                yield value
            if name != "datasets":
                yield from parts(value, key)
    elif isinstance(spec, list):
        for value in spec:
            yield from parts(value, key)


def told(chart: Any) -> str:
    return " ".join(chart.to_dict()["title"].get("subtitle", []))


def test_save_keeps_the_theme_that_a_chart_has(ppca: eg.PPCA, tmp_path: Path) -> None:
    """theme(chart, dark=True) was saved light; dark=False and True still decide."""
    chart = ppca.plot.scree()

    def page(given: Any, **how: Any) -> str:
        path = save(given, tmp_path / "a.json", **how)
        return str(json.loads(path.read_text())["config"]["background"])

    light, dark = "#ffffff", "#14181d"
    assert page(chart) == light
    assert page(theme(chart, dark=True)) == dark
    assert page(chart, dark=True) == dark
    assert page(theme(chart, dark=True), dark=False) == light
    bare = chart.copy(deep=False)
    bare.config = type(chart)().config  # as of one that came without a theme
    assert page(bare) == light


def test_calibration_names_both_axes(ppca: eg.PPCA, incomplete: np.ndarray) -> None:
    """One layer without a title took it from all."""
    chart = ppca.plot.imputation(incomplete[:60], held_out=0.1).to_dict()
    titles = {layer["encoding"]["y"]["title"] for layer in chart["hconcat"][0]["layer"]}
    assert titles == {"imputed value (standard deviations from the mean)"}


def test_rows_of_a_pattern_are_counted_on_an_axis_of_counts(incomplete: np.ndarray) -> None:
    """The axis ran to 190 %, with counts at the bars."""
    from eigengap.plots import missingness

    chart = missingness(incomplete).to_dict()
    bars = next(rows for rows in chart["datasets"].values() if "said" in rows[0])
    most = max(row["rows"] for row in bars)
    assert {"domain": [0, most], "nice": False} in list(parts(chart, "scale"))
    complete = int((~np.isnan(incomplete)).all(axis=1).sum())
    assert f"{complete} ({100 * complete / 300:.3g} %)" in {row["said"] for row in bars}


def test_names_of_components_stand_where_no_other_component_is() -> None:
    """Around one centre all names stood on top of each other."""
    angle = np.linspace(0, 2 * np.pi, 33)
    circle = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    crossed = np.stack([circle * [4, 1], circle * [1, 3]])
    spots = apart(crossed)
    assert abs(spots[0, 0]) == pytest.approx(4)
    assert abs(spots[1, 1]) == pytest.approx(3)
    assert apart(crossed[:1]).shape == (1, 2)


@pytest.mark.parametrize("last", [2, 3, 5, 13, 40])
def test_words_on_the_gap_stay_within_the_frame(last: int) -> None:
    """Beside the band where there is room, and never beyond the frame."""
    for k in range(1, last):
        start = _beside(k, last, 220.0)
        assert 0 <= start <= WIDTH - 220
        left, right = (k - 0.5) * WIDTH / last, (k + 0.5) * WIDTH / last
        room = max(left, WIDTH - right) >= 226
        assert not room or start >= right or start + 220 <= left


def test_words_on_the_gap_stand_above_all_points(ppca: eg.PPCA) -> None:
    """The largest eigenvalue leaves them room, so that they cover no point."""
    chart = ppca.plot.scree().to_dict()
    top = [scale["domainMax"] for scale in parts(chart, "scale") if "domainMax" in scale]
    points = next(rows for rows in chart["datasets"].values() if "kept" in rows[0])
    assert min(top) >= 1.1 * max(row.get("value", 0.0) for row in points)


def test_at_most_thirty_ellipses_unless_more_are_asked_for(
    ppca: eg.PPCA, incomplete: np.ndarray
) -> None:
    """Those of 150 rows hid the rows."""

    def drawn(**how: Any) -> int:
        chart = ppca.plot.scores(incomplete, **how).to_dict()
        rows = next(rows for rows in chart["datasets"].values() if "order" in rows[0])
        return len({row["row"] for row in rows})

    assert drawn() == 30
    assert drawn(ellipses=45) == 45


def test_a_biplot_says_how_many_times_the_scores_its_points_are(
    ppca: eg.PPCA, incomplete: np.ndarray, pca: eg.PCA, wine: pd.DataFrame
) -> None:
    """PPCA's points are not its scores, and stood on axes of the same name."""
    chart = ppca.plot.biplot(incomplete[:50]).to_dict()
    rows = next(rows for rows in chart["datasets"].values() if "missing" in rows[0])
    (title,) = {x["title"] for x in parts(chart, "x") if isinstance(x, dict) and "title" in x}
    name, times = title.split(" × ")
    assert name == "PC1"
    scores = ppca.transform(incomplete[:50])[:, 0]
    np.testing.assert_allclose([row["x"] for row in rows], float(times) * scores, rtol=0.01)
    plain = pca.plot.biplot(wine).to_dict()
    assert {x["title"] for x in parts(plain, "x") if isinstance(x, dict)} == {"PC1"}


def test_novelty_says_where_flags_come_from(pca: eg.PCA, wine: pd.DataFrame) -> None:
    """A row may lie beyond a line and be no flagged one; p is written as people write it."""
    chart = eg.PCA(3, scale=True).fit(wine).plot.novelty(wine)
    assert "by the p-value of both together" in told(chart)
    assert "not by the two lines" in told(chart)
    lines = next(rows for rows in chart.to_dict()["datasets"].values() if "line" in rows[0])
    written = {row["line"].split("p = ")[1].rstrip(")") for row in lines}
    assert all("e" not in p or float(p) < 1e-4 for p in written)


def test_names_that_every_javascript_object_has(tmp_path):
    """Vega keeps values in objects, where these names have a meaning already."""
    names = ["constructor", "__proto__", "toString", "valueOf"]
    X = np.random.default_rng(0).normal(size=(40, 4))
    frame = pd.DataFrame(X, columns=names)
    model = eg.PPCA(2).fit(frame)
    for chart in (model.plot.contributions(frame), model.plot.cos2(frame)):
        text = save(chart, tmp_path / "chart.svg").read_text(encoding="utf-8")
        assert all(name in text for name in names)
