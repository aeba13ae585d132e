"""Charts of fits to columns of several kinds: their numbers are in them, and labels are legible."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from tests.plots.foreign import HOSTILE

import eigengap as eg
from eigengap import plots
from eigengap.plots.arrows import LETTER, LINE, place, with_room
from eigengap.plots.drawing import equal_frame
from eigengap.plots.numbers.variables import biplot_numbers
from eigengap.plots.theme import rendered, save


@pytest.fixture(scope="module")
def penguins() -> pd.DataFrame:
    table = pd.read_csv(files("eigengap") / "data" / "penguins.csv")
    return table.drop(columns="year")


@pytest.fixture(scope="module")
def model(penguins: pd.DataFrame) -> eg.PPCA:
    return eg.PPCA(2, columns="auto").fit(penguins)


@pytest.fixture(scope="module")
def found(model: eg.PPCA, penguins: pd.DataFrame) -> Any:
    return eg.associations(model, penguins)


def columns(chart: Any, *names: str) -> list[dict[str, Any]]:
    """The first data set that has these columns."""
    sets = chart.to_dict()["datasets"].values()
    return next(rows for rows in sets if rows and set(names) <= set(rows[0]))


def subtitle(chart: Any) -> str:
    return " ".join(chart.to_dict()["title"]["subtitle"])


# Biplot ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("scaling", ["rows", "columns", "symmetric"])
def test_levels_stand_at_the_mean_of_their_points(
    model: eg.PPCA, penguins: pd.DataFrame, scaling: Any
) -> None:
    chart = model.plot.biplot(penguins, scaling=scaling)
    rows = columns(chart, "row", "missing")
    points = pd.DataFrame([[row["x"], row["y"]] for row in rows], index=penguins.index)
    levels = columns(chart, "level", "weight")
    assert len(levels) == 8
    for level in levels:
        of = penguins[level["column"]] == level["level"]
        expected = points[of.to_numpy()].mean()
        np.testing.assert_allclose([level["x"], level["y"]], expected, rtol=1e-8, atol=1e-12)
        assert level["weight"] == of.sum()


def test_ellipses_are_those_of_the_associations(
    model: eg.PPCA, penguins: pd.DataFrame, found: Any
) -> None:
    """Every point of an outline has the Mahalanobis distance of 95 %."""
    for of, field in (("rows", "cov"), ("barycentre", "cov_barycentre")):
        numbers = biplot_numbers(model, penguins)
        chart = model.plot.biplot(penguins, ellipses=of)
        lines = columns(chart, "order", "level")
        name = found.categories.level[0]
        outline = np.array([[row["x"], row["y"]] for row in lines if row["level"] == name])
        away = outline / numbers.factor - found.categories.coordinates[0]
        cov = getattr(found.categories, field)[0]
        distance = np.einsum("pi,ij,pj->p", away, np.linalg.inv(cov), away)
        np.testing.assert_allclose(distance, 5.991465, rtol=1e-5)
        assert {row["level"] for row in lines} == set(found.categories.level)


def test_a_coloured_column_alone_has_ellipses_in_its_colours(
    model: eg.PPCA, penguins: pd.DataFrame
) -> None:
    chart = model.plot.biplot(penguins, color="species", ellipses="rows")
    lines = columns(chart, "order", "level")
    assert {row["level"] for row in lines} == {"Adelie", "Chinstrap", "Gentoo"}
    assert all(row["colour"] == row["level"] for row in lines)
    assert "Ellipses contain 95 % of the rows of a level" in subtitle(chart)


def test_columns_have_points_or_arrows(model: eg.PPCA, penguins: pd.DataFrame) -> None:
    def drawn(**how: Any) -> tuple[set[str], set[str]]:
        numbers = biplot_numbers(model, penguins, **how)
        points = set() if numbers.levels is None else set(numbers.levels.columns)
        return points, set(numbers.names)

    numeric = {"bill_length_mm", "bill_depth_mm", "flipper_length_mm", "body_mass_g"}
    assert drawn() == ({"species", "island", "sex"}, numeric)
    assert drawn(categories=["species"]) == ({"species"}, numeric | {"sex"})
    assert drawn(categories=False) == (set(), numeric | {"sex"})
    with pytest.raises(ValueError, match="no column with levels"):
        model.plot.biplot(penguins, categories=["body_mass_g"])
    with pytest.raises(ValueError, match='"rows", "barycentre" or None'):
        model.plot.biplot(penguins, ellipses="both")


def test_labels_of_levels_and_arrows_do_not_overlap(model: eg.PPCA, penguins: pd.DataFrame) -> None:
    numbers = biplot_numbers(model, penguins)
    assert numbers.levels is not None
    factor = 0.85 * np.abs(numbers.points).max() / np.abs(numbers.arrows).max()
    tips = np.vstack([numbers.arrows * factor, numbers.levels.points])
    texts = [*numbers.names, *numbers.levels.labels]
    plain = equal_frame(np.vstack([numbers.points, tips]), ["a", "b"], width=460, most=460)
    frame = with_room(plain, tips, texts)
    placed = place(frame, tips, texts)
    at = frame.to_points(placed.anchor)
    wide = np.array([LETTER * len(text) for text in texts])
    left = np.where(placed.right, at[:, 0], at[:, 0] - wide)
    for a in range(len(texts)):
        for b in range(a):
            apart = abs(at[a, 1] - at[b, 1]) >= LINE - 0.5
            assert apart or left[a] >= left[b] + wide[b] or left[b] >= left[a] + wide[a]


# Other charts ----------------------------------------------------------------------------------


def test_contributions_and_associations_are_by_column(
    model: eg.PPCA, penguins: pd.DataFrame, found: Any
) -> None:
    bars = columns(model.plot.contributions(penguins, axes=1), "name", "share")
    share = dict(zip(found.columns, found.contributions[:, 0], strict=True))
    assert {row["name"]: row["share"] for row in bars} == pytest.approx(share)
    stack = columns(model.plot.cos2(penguins), "cos2", "component")
    r2 = {
        (name, f"PC{k + 1}"): found.r2[j, k] for j, name in enumerate(found.columns) for k in (0, 1)
    }
    assert {(row["name"], row["component"]): row["cos2"] for row in stack} == pytest.approx(r2)
    for chart in ("contributions", "cos2", "correlation_circle"):
        with pytest.raises(ValueError, match="give the table"):
            getattr(model.plot, chart)()


def test_the_circle_has_arrows_of_columns_with_an_order(
    model: eg.PPCA, penguins: pd.DataFrame, found: Any
) -> None:
    chart = model.plot.correlation_circle(penguins)
    arrows = {row["name"]: (row["x"], row["y"]) for row in columns(chart, "angle", "name")}
    assert set(arrows) == set(found.columns) - {"species", "island"}
    assert arrows["sex"] == pytest.approx(tuple(found.r[found.columns.index("sex")]))
    assert "without an order have no correlation" in subtitle(chart)


def test_imputed_levels_are_drawn_by_their_probabilities(penguins: pd.DataFrame) -> None:
    gone = penguins.mask(np.random.default_rng(3).random(penguins.shape) < 0.1)
    model = eg.PPCA(2, columns="auto").fit(gone)
    chart = model.plot.imputation(gone, column="species")
    cells = columns(chart, "level", "share", "end")
    shares = pd.DataFrame(cells)
    probabilities = model.level_probabilities(gone)["species"]
    bars = [rows for rows in chart.to_dict()["datasets"].values() if "share" in rows[0]]
    right = pd.DataFrame(max(bars, key=len)).pivot_table(
        index="row", columns="level", values="share"
    )
    missing = np.flatnonzero(gone["species"].isna())
    np.testing.assert_allclose(right.to_numpy(), probabilities[missing], atol=1e-9)
    assert shares["share"].between(0, 1).all()
    low, high = model.intervals(gone, level=0.95)
    ranges = columns(model.plot.imputation(gone, column="body_mass_g"), "k", "low", "high")
    at = np.flatnonzero(gone["body_mass_g"].isna())
    np.testing.assert_allclose(
        sorted(row["low"] for row in ranges), np.sort(low["body_mass_g"].to_numpy()[at])
    )
    np.testing.assert_allclose(
        sorted(row["high"] for row in ranges), np.sort(high["body_mass_g"].to_numpy()[at])
    )


def test_calibration_is_of_numbers_and_by_their_own_quantiles() -> None:
    """A skewed column is covered at every level, though its intervals are not symmetric."""
    rng = np.random.default_rng(0)
    z = rng.normal(size=(400, 1))
    X = np.exp(z + 0.4 * rng.normal(size=(400, 5)))
    X[rng.random(X.shape) < 0.05] = np.nan
    table = pd.DataFrame(X, columns=list("abcde"))
    table["level"] = np.where(z[:, 0] > 0, "high", "low")
    model = eg.PPCA(1, columns="auto").fit(table)
    sets = model.plot.imputation(table, held_out=0.2).to_dict()["datasets"].values()
    curve = max((rows for rows in sets if "held" in rows[0]), key=len)
    level, held = (np.array([row[name] for row in curve]) for name in ("level", "held"))
    assert len(level) > 10
    assert np.all(np.diff(held) >= 0)
    # About 400 cells: three standard errors of a share are at most 7.5 %.
    assert np.max(np.abs(level - held)) < 9


def test_scores_keep_the_order_of_ordered_levels() -> None:
    rng = np.random.default_rng(0)
    order = ["low", "mid", "high"]
    table = pd.DataFrame(rng.normal(size=(60, 3)), columns=list("abc"))
    table["grade"] = pd.Categorical(rng.choice(order, 60), order, ordered=True)
    chart = eg.PPCA(1, columns="auto").fit(table).plot.scores(table, color="grade")
    legends = [
        layer["encoding"]["color"]["scale"]["domain"]
        for layer in chart.to_dict()["layer"]
        if "color" in layer["encoding"]
    ]
    assert legends == [order]


def test_every_chart_can_be_drawn_with_hostile_names(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    z = rng.normal(size=(80, 2))
    table = pd.DataFrame(
        z @ rng.normal(size=(2, 3)) + rng.normal(size=(80, 3)), columns=HOSTILE[:3]
    )
    table[HOSTILE[3]] = np.where(z[:, 0] > 0, HOSTILE[4], "</script>")
    table[HOSTILE[5]] = np.array(["a", HOSTILE[6], "\n"])[np.digitize(z[:, 1], [-0.5, 0.5])]
    table = table.mask(rng.random(table.shape) < 0.1)
    model = eg.PPCA(2, columns="auto").fit(table)
    charts = [
        model.plot.biplot(table, ellipses="barycentre"),
        model.plot.imputation(table),
        model.plot.contributions(table),
        model.plot.cos2(table),
        plots.overview(table),
    ]
    for chart in charts:
        page = save(chart, tmp_path / "chart.html").read_text(encoding="utf-8")
        assert page.count("</script>") == 3  # of our own
        assert rendered(chart, ".svg").startswith(b"<svg")


# The overview ----------------------------------------------------------------------------------


def test_the_overview_draws_what_its_numbers_say(penguins: pd.DataFrame) -> None:
    chart = plots.overview(penguins)
    numbers = {column.name: column for column in eg.overview(penguins).columns}
    spec = chart.to_dict()
    assert [panel["title"]["text"] for panel in spec["concat"]] == list(penguins.columns)
    bars = columns(chart, "level", "cells")
    assert [(row["level"], row["cells"]) for row in bars] == list(numbers["species"].levels)
    cells = columns(chart, "low", "high", "cells")
    assert [row["cells"] for row in cells] == numbers["bill_length_mm"].counts.tolist()
    assert "3.2 % missing" in spec["concat"][-1]["title"]["subtitle"][0]
    assert plots.overview(eg.overview(penguins)).to_dict()["title"] == spec["title"]
    with pytest.raises(ValueError, match="could be drawn"):
        plots.overview(pd.DataFrame({"day": pd.date_range("2024-01-01", periods=9)}))


# Every estimator -------------------------------------------------------------------------------

FITS: dict[str, Any] = {
    "factors": lambda: eg.FactorAnalysis(2, columns="auto", rotation="varimax"),
    "bayesian": lambda: eg.BayesianPCA(2, columns="auto"),
    "mixture": lambda: eg.MixturePPCA(2, 1, columns="auto", random_state=0),
    "imputer": lambda: eg.LowRankImputer(columns="auto"),
}


@pytest.mark.filterwarnings("ignore::UserWarning")  # Heywood cases, and steps left to go
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[] if name in ("factors", "imputer") else [pytest.mark.slow])
        for name in FITS
    ],
)
def test_every_chart_of_every_fit_is_drawn(name: str, penguins: pd.DataFrame) -> None:
    from eigengap.estimators.shared.display import charts_of

    model = FITS[name]().fit(penguins)
    names = set(charts_of(model)) - {"rank_criteria"}
    assert "missingness" in names
    assert not names & {"novelty", "mixture"}
    for chart in names:
        rows = () if chart in ("scree", "spectrum", "trace") else (penguins,)
        assert rendered(getattr(model.plot, chart)(*rows), ".svg").startswith(b"<svg")


def test_charts_of_numbers_are_refused_in_words(model: eg.PPCA, penguins: pd.DataFrame) -> None:
    with pytest.raises(AttributeError, match="fitted to columns of several kinds"):
        model.plot.novelty(penguins)


def test_a_file_has_the_charts_of_its_table(
    model: eg.PPCA, penguins: pd.DataFrame, tmp_path: Path
) -> None:
    path = tmp_path / "penguins.csv"
    penguins.to_csv(path, index=False)
    here, there = (
        columns(model.plot.biplot(X, color="sex"), "row", "missing") for X in (penguins, path)
    )
    assert here == there
    found, other = (eg.associations(model, X) for X in (penguins, path))
    np.testing.assert_allclose(found.r2, other.r2, rtol=1e-12)


def test_rotated_factors_have_the_scores_of_transform(penguins: pd.DataFrame) -> None:
    with pytest.warns(UserWarning, match="Heywood"):
        model = FITS["factors"]().fit(penguins)
    female = (penguins["sex"] == "female").to_numpy()
    expected = model.transform(penguins)[female].mean(axis=0)
    found = eg.associations(model, penguins).categories
    at = found.level.index("female")
    np.testing.assert_allclose(found.coordinates[at], expected, rtol=1e-9)


def test_the_column_that_is_asked_for_is_drawn_where_columns_before_it_are_ignored() -> None:
    rng = np.random.default_rng(0)
    z = rng.normal(size=60)
    X = pd.DataFrame(
        {
            "key": [f"P{i}" for i in range(60)],
            "a": z + 0.3 * rng.normal(size=60),
            "b": z + 0.3 * rng.normal(size=60),
            "c": z + 0.3 * rng.normal(size=60),
        }
    )
    X.loc[:4, "b"] = np.nan
    X.loc[5:9, "c"] = np.nan
    model = eg.PPCA(1, columns="auto").fit(X)
    for column in ("b", "c", 2, 3):
        name = column if isinstance(column, str) else "abc"[column - 1]
        chart = str(plots.imputation(model, X, column=column).to_dict())
        other = {"b": "c", "c": "b"}[name]
        assert f"'title': '{name}'" in chart
        assert f"'title': '{other}'" not in chart
    with pytest.raises(ValueError, match="'key' is not in the model"):
        plots.imputation(model, X, column="key")
