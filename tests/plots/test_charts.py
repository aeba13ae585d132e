"""Every chart: the numbers are in it, it can be drawn, foreign names do no harm."""

from __future__ import annotations

import json
from collections.abc import Iterator, Set
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from tests.plots.foreign import HOSTILE

import eigengap as eg
from eigengap import plots, registry
from eigengap.estimators.shared.display import NAMES, charts_of
from eigengap.plots.numbers import correlations, names_of, variable_contributions
from eigengap.plots.numbers.rows import inner
from eigengap.plots.theme import rendered, save, theme


def records(chart: Any) -> list[list[dict[str, Any]]]:
    """All data sets of a chart."""
    return list(chart.to_dict()["datasets"].values())


def columns(chart: Any, *names: str) -> Iterator[list[dict[str, Any]]]:
    """The data sets that have these columns."""
    return (rows for rows in records(chart) if rows and set(names) <= set(rows[0]))


def subtitle(chart: Any) -> str:
    return " ".join(chart.to_dict()["title"].get("subtitle", []))


# The numbers are in the chart --------------------------------------------------------------------


def test_scree_holds_the_eigenvalues_and_the_gap(pca: eg.PCA, wine: pd.DataFrame) -> None:
    chart = pca.plot.scree(choice=eg.choose_rank(wine, criteria=["bic", "eigengap"], scale=True))
    points = next(columns(chart, "k", "value", "kept"))
    np.testing.assert_allclose([row["value"] for row in points], pca.explained_variance_)
    band = next(columns(chart, "next", "said"))
    assert band[0]["said"].startswith("largest eigengap 1 → 2 (ratio 1.88")
    picks = next(columns(chart, "pick"))
    assert {row["name"]: row["pick"] for row in picks} == {"BIC": 7, "the largest eigengap": 1}


def test_scree_says_what_is_known_under_missing(ppca: eg.PPCA) -> None:
    assert "4 values are known: 3 eigenvalues, and the mean of the 5 others" in subtitle(
        ppca.plot.scree()
    )


def test_circle_holds_the_correlations(pca: eg.PCA, wine: pd.DataFrame) -> None:
    rows = next(columns(pca.plot.correlation_circle(wine, axes=(1, 3)), "angle"))
    r = correlations(pca)
    np.testing.assert_allclose([[v["x"], v["y"]] for v in rows], r[:, [0, 2]], atol=1e-9)
    assert [row["name"] for row in rows] == names_of(pca)


def test_biplot_prints_its_scaling_and_its_factor(pca: eg.PCA, wine: pd.DataFrame) -> None:
    for scaling, formula in (("rows", "arrows u:"), ("columns", "u·s"), ("symmetric", "u·√s")):
        chart = pca.plot.biplot(wine, scaling=scaling)
        told = subtitle(chart)
        assert f'Scaling "{scaling}"' in told
        assert formula in told
        factor = float(told.split("drawn × ")[1].split()[0].rstrip("."))
        arrows = next(columns(chart, "first", "second"))
        for row in arrows:
            assert row["x"] == pytest.approx(factor * row["first"])


def test_contributions_show_the_largest_and_say_so(pca: eg.PCA) -> None:
    chart = pca.plot.contributions(top=5, axes=(2,))
    rows = next(columns(chart, "share", "name"))
    expected = np.sort(variable_contributions(pca)[:, 1])[::-1][:5]
    np.testing.assert_allclose([row["share"] for row in rows], expected)
    assert "The 5 largest of 13 variables" in subtitle(chart)


def test_scores_hold_every_row_and_an_ellipse_for_each_with_missing(
    ppca: eg.PPCA, incomplete: np.ndarray
) -> None:
    chart = ppca.plot.scores(incomplete[:30])
    rows = next(columns(chart, "x", "y", "missing"))
    np.testing.assert_allclose(
        [[v["x"], v["y"]] for v in rows], ppca.transform(incomplete[:30])[:, :2], atol=1e-12
    )
    outlines = next(columns(chart, "order", "row"))
    assert {row["row"] for row in outlines} == set(
        np.flatnonzero(np.isnan(incomplete[:30]).any(axis=1)).tolist()
    )
    without = ppca.plot.scores(incomplete[:30], ellipses=False)
    assert not list(columns(without, "order"))


def test_never_more_rows_than_stated(ppca: eg.PPCA, incomplete: np.ndarray) -> None:
    from eigengap.plots.numbers.rows import MOST_ROWS

    assert MOST_ROWS == 5000
    chart = ppca.plot.scores(incomplete, ellipses=False, max_rows=50)
    assert len(next(columns(chart, "x", "missing"))) == 50
    assert "50 of 300 rows, drawn at random" in subtitle(chart)
    assert "50 of 300 rows" in subtitle(ppca.plot.scores(incomplete, max_rows=50))


def test_one_component_is_drawn_along_a_line(incomplete: np.ndarray) -> None:
    model = eg.PPCA(1).fit(incomplete)
    chart = model.plot.scores(incomplete, color=np.arange(300) % 2)
    rows = next(columns(chart, "x", "group"))
    np.testing.assert_allclose([row["x"] for row in rows], model.transform(incomplete).ravel())
    assert "Intervals hold the score" in subtitle(chart)
    points = chart.to_dict()["layer"][-1]
    assert {tip["field"] for tip in points["encoding"]["tooltip"]} <= set(rows[0])


def test_large_codes_stay_apart(pca: eg.PCA, wine: pd.DataFrame) -> None:
    codes = 1_234_567 + np.arange(len(wine)) % 2
    rows = next(columns(pca.plot.scores(wine, color=codes), "x", "colour"))
    assert {row["colour"] for row in rows} == {"1234567", "1234568"}


def test_many_variables_are_labelled_in_part() -> None:
    X = np.random.default_rng(0).normal(size=(60, 45))
    chart = eg.PCA(2).fit(X).plot.correlation_circle()
    assert "The 30 longest of 45 arrows are labelled." in subtitle(chart)
    assert len(next(columns(chart, "angle"))) == 45


def test_labels_stay_within_the_frame_and_off_each_other(pca: eg.PCA, wine: pd.DataFrame) -> None:
    from eigengap.plots.arrows import LETTER, LINE, place, with_room
    from eigengap.plots.drawing import Frame

    rng = np.random.default_rng(0)
    tips = np.column_stack([rng.uniform(0.6, 0.9, 25), rng.uniform(-0.3, 0.3, 25)])
    texts = ["x" * int(k) for k in rng.integers(3, 20, 25)]
    frame = with_room(Frame((-1, 1), (-1, 1), 400, 400), tips, texts)
    placed = place(frame, tips, texts)
    at = frame.to_points(placed.anchor)
    wide = np.array([LETTER * len(text) for text in texts])
    left = np.where(placed.right, at[:, 0], at[:, 0] - wide)
    assert left.min() >= 0
    assert (left + wide).max() <= frame.width + 1e-9
    for a in range(25):
        for b in range(a):
            apart = abs(at[a, 1] - at[b, 1]) >= LINE - 0.5
            assert apart or left[a] >= left[b] + wide[b] or left[b] >= left[a] + wide[a]


# Every estimator ---------------------------------------------------------------------------------

ESTIMATORS: dict[str, Any] = {
    "PCA": lambda: eg.PCA(3),
    "PPCA": lambda: eg.PPCA(0.9),
    "student": lambda: eg.PPCA(2, distribution="student"),
    "FactorAnalysis": lambda: eg.FactorAnalysis(2, rotation="promax"),
    "BayesianPCA": lambda: eg.BayesianPCA(),
    "MixturePPCA": lambda: eg.MixturePPCA(2, 1, random_state=0),
    "ICA": lambda: eg.ICA(2, random_state=0),
    "ClassicalMDS": lambda: eg.ClassicalMDS(2),
    "KernelPCA": lambda: eg.KernelPCA(2, gamma=0.01),
    "Isomap": lambda: eg.Isomap(n_components=2),
    "LaplacianEigenmaps": lambda: eg.LaplacianEigenmaps(n_components=2),
    "MaximumVarianceUnfolding": lambda: eg.MaximumVarianceUnfolding(n_components=2),
    "StructurePreservingEmbedding": lambda: eg.StructurePreservingEmbedding(n_components=2),
    "Whitener": lambda: eg.Whitener(),
    "NoveltyDetector": lambda: eg.NoveltyDetector(eg.FactorAnalysis(2)),
    "LowRankImputer": lambda: eg.LowRankImputer(eg.PPCA(2)),
    "PPCAClassifier": lambda: eg.PPCAClassifier(1),
    "PPCARegressor": lambda: eg.PPCARegressor(2),
}
WITH_JAX: dict[str, Any] = {
    "GPLVM": lambda: eg.GPLVM(n_components=2, max_iter=20),
    "Autoencoder": lambda: eg.Autoencoder(2, hidden=(5,), max_iter=20, random_state=0),
}
ESTIMATORS |= {
    entry.name: getattr(eg, entry.name)
    for entry in registry.ESTIMATORS
    if entry.name not in (*ESTIMATORS, *WITH_JAX)
}
NEED_X = {
    "scores",
    "biplot",
    "novelty",
    "imputation",
    "mixture",
    "missingness",
    "correlation_circle",
}


SLOW = {"StructurePreservingEmbedding", "MaximumVarianceUnfolding", *WITH_JAX}
SLOW |= {"PPCA", "student", "BayesianPCA", "FactorAnalysis", "ClassicalMDS", "Isomap", "Whitener"}
ONCE = {"biplot", "contributions", "correlation_circle", "cos2", "missingness", "trace"}
LIKE_PCA = {"PPCA", "student", "BayesianPCA", "NoveltyDetector"}  # nothing new in these charts


def draw_all(model: Any, X: Any, without: Set[str] = frozenset()) -> Iterator[tuple[str, Any]]:
    for name in sorted(set(charts_of(model)) - without):
        draw = getattr(model.plot, name)
        if name == "rank_criteria" and not hasattr(inner(model), "rank_choice_"):
            continue
        if name == "novelty" and getattr(model, "distribution", "") == "student":
            continue
        how = {"column": 0} if name == "imputation" and type(model) is not eg.PCA else {}
        yield name, draw(X, **how) if name in NEED_X else draw()


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.slow] if name in SLOW else [])
        for name in [*ESTIMATORS, *WITH_JAX]
    ],
)
@pytest.mark.filterwarnings("ignore")
def test_every_chart_of_every_estimator(name: str, hostile: pd.DataFrame) -> None:
    """On names that are meant to break it; every specification is valid and every field neutral."""
    if name in WITH_JAX:
        pytest.importorskip("jax")
    model = {**ESTIMATORS, **WITH_JAX}[name]()
    X = hostile.iloc[:60]
    y = np.repeat([0, 1], 30)
    model.fit(X, y)
    without = ONCE if name in LIKE_PCA else set() if name == "PCA" else {"missingness"}
    for chart_name, chart in draw_all(model, X, without):
        spec = chart.to_dict()  # validates against the schema
        assert spec["title"]["text"], chart_name
        for field in fields(spec):
            assert field.isidentifier(), (chart_name, field)
        assert "x" * 200 not in json.dumps(spec), chart_name
    assert "\n" not in str(model.summary()).split("\n")[0]


def fields(spec: Any) -> Iterator[str]:
    if isinstance(spec, dict):
        for key, value in spec.items():
            if key == "field":
                yield value
            elif key != "datasets":
                yield from fields(value)
    elif isinstance(spec, list):
        for value in spec:
            yield from fields(value)


def test_what_an_estimator_lacks_it_says() -> None:
    with pytest.raises(AttributeError, match=r"ICA has no scree; PCA, PPCA, .* and PPCARegressor"):
        eg.ICA().plot.scree  # noqa: B018
    with pytest.raises(AttributeError, match="there is no chart 'pie'; PPCA has biplot, "):
        eg.PPCA().plot.pie  # noqa: B018
    assert "scree" in dir(eg.PPCA().plot)
    assert "mixture" not in dir(eg.PPCA().plot)
    assert set(NAMES) <= set(plots.__all__)


def test_before_the_fit_there_is_nothing_to_draw() -> None:
    from sklearn.exceptions import NotFittedError

    with pytest.raises(NotFittedError):
        eg.PPCA().plot.scree()


def test_components_that_there_are_not(pca: eg.PCA, wine: pd.DataFrame) -> None:
    with pytest.raises(ValueError, match=r"axes=\(1, 99\): PCA has 13 components, counted from 1"):
        pca.plot.scores(wine, axes=(1, 99))
    with pytest.raises(ValueError, match="two different"):
        pca.plot.correlation_circle(axes=(1, 1))
    with pytest.raises(ValueError, match="has one component, and this chart needs two"):
        eg.PCA(1).fit(wine).plot.correlation_circle()


# Where X lies ------------------------------------------------------------------------------------


def test_color_may_be_a_column_that_is_no_feature(
    biopsies: pd.DataFrame, features: pd.DataFrame, tmp_path: Path
) -> None:
    pl = pytest.importorskip("polars")
    pa = pytest.importorskip("pyarrow")
    model = eg.PPCA(2, scale=True).fit(features)
    csv = tmp_path / "b.csv"
    biopsies.to_csv(csv, index=False)
    expected = None
    for X in (biopsies, pl.from_pandas(biopsies), pa.Table.from_pandas(biopsies), csv):
        chart = model.plot.scores(X, color="diagnosis", max_rows=60)
        rows = next(columns(chart, "x", "colour", "missing"))
        expected = rows if expected is None else expected
        assert rows == expected, type(X)
    assert expected is not None
    for row in expected:
        assert row["colour"] == biopsies["diagnosis"][row["row"]]
    with pytest.raises(ValueError, match='color="stage" is no column of X'):
        model.plot.scores(biopsies, color="stage")


@pytest.mark.slow
def test_color_of_other_places(
    biopsies: pd.DataFrame, features: pd.DataFrame, tmp_path: Path
) -> None:
    """As above, of a Parquet file and of Dask."""
    dd = pytest.importorskip("dask.dataframe")
    model = eg.PPCA(2, scale=True).fit(features)
    parquet = tmp_path / "b.parquet"
    biopsies.to_parquet(parquet)
    places = (biopsies, str(parquet), dd.from_pandas(biopsies, npartitions=3))
    charts = [model.plot.scores(X, color="diagnosis", max_rows=60) for X in places]
    first, *others = [next(columns(chart, "x", "colour", "missing")) for chart in charts]
    assert all(rows == first for rows in others)


def test_colours_by_categories_numbers_and_missing(pca: eg.PCA, wine: pd.DataFrame) -> None:
    many = [f"kind {k % 12}" for k in range(178)]
    chart = pca.plot.scores(wine, color=many)
    shown = {row["colour"] for row in next(columns(chart, "x", "colour"))}
    assert len(shown) == 8
    assert "others" in shown
    assert "5 rarer categories together" in subtitle(chart)
    holes = [None if k % 7 == 0 else "a" for k in range(178)]
    shown = {row["colour"] for row in next(columns(pca.plot.scores(wine, color=holes), "colour"))}
    assert shown == {"a", "missing"}
    numbers = next(columns(pca.plot.scores(wine, color=np.linspace(0, 1, 178)), "colour"))
    assert numbers[3]["colour"] == pytest.approx(3 / 177)
    with pytest.raises(ValueError, match="color has 3 values for 178 rows"):
        pca.plot.scores(wine, color=[1, 2, 3])


def test_marks_of_missing_cells_are_those_of_the_fit(incomplete: np.ndarray) -> None:
    coded = np.where(np.isnan(incomplete), -999.0, incomplete)
    model = eg.PPCA(2, missing_values=-999.0).fit(coded)
    plain = eg.PPCA(2).fit(incomplete)
    found = next(columns(model.plot.scores(coded), "missing"))
    assert found == next(columns(plain.plot.scores(incomplete), "missing"))
    assert "missing" in subtitle(model.plot.missingness(coded))


def test_the_rows_of_a_fit_that_keeps_them(iris: pd.DataFrame) -> None:
    model = eg.Isomap(n_components=2, n_neighbors=20).fit(iris)
    rows = next(columns(model.plot.scores(), "x", "y"))
    np.testing.assert_allclose([[v["x"], v["y"]] for v in rows], model.embedding_)
    with pytest.raises(ValueError, match="does not keep the rows of its fit"):
        eg.PCA(2).fit(iris).plot.scores()


# Files ---------------------------------------------------------------------------------------


def test_pictures_without_a_browser(ppca: eg.PPCA, tmp_path: Path) -> None:
    chart = ppca.plot.scree()
    png = save(chart, tmp_path / "a.png").read_bytes()
    assert png.startswith(b"\x89PNG")
    dark = save(chart, tmp_path / "b.png", dark=True).read_bytes()
    assert dark != png
    svg = save(chart, tmp_path / "a.svg").read_text()
    assert svg.startswith("<svg")
    assert "largest known eigengap" in svg
    spec = json.loads(save(chart, tmp_path / "a.json").read_text())
    assert spec["$schema"].startswith("https://vega.github.io/schema/vega-lite/v6")
    assert not [path.name for path in tmp_path.iterdir() if path.name.startswith(".")]


@pytest.mark.slow
def test_html_holds_all_that_it_needs(hostile: pd.DataFrame, tmp_path: Path) -> None:
    model = eg.PPCA(2).fit(hostile)
    page = save(model.plot.correlation_circle(), tmp_path / "a.html").read_text()
    assert "<script src=" not in page.replace("'", '"')
    assert HOSTILE[0] not in page


def test_a_picture_of_foreign_names_shows_them_as_text(hostile: pd.DataFrame) -> None:
    model = eg.PPCA(2).fit(hostile)
    svg = rendered(model.plot.correlation_circle(), ".svg").decode()
    assert "<img" not in svg
    assert "&lt;\u2060/script&gt;" in svg  # with a mark of no width, so that it is no tag anywhere
    assert "line\\nbreak" in svg


def test_a_file_that_cannot_be(ppca: eg.PPCA, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"has to end in \.png, \.svg, \.html or \.json"):
        save(ppca.plot.scree(), tmp_path / "a.gif")
    with pytest.raises(OSError, match="cannot write"):
        save(ppca.plot.scree(), tmp_path / "no" / "a.png")


def test_theme_leaves_the_chart_as_it_was(ppca: eg.PPCA) -> None:
    chart = ppca.plot.scree()
    before = chart.to_dict()
    dark = theme(chart, dark=True).to_dict()
    assert chart.to_dict() == before
    assert dark["config"]["background"] != before["config"]["background"]
    assert {k: v for k, v in dark.items() if k != "config"} == {
        k: v for k, v in before.items() if k != "config"
    }


def test_no_mark_has_a_colour_of_its_own(pca: eg.PCA, wine: pd.DataFrame) -> None:
    """Colours are the theme's: what is fixed in a chart would vanish in the dark."""
    for chart in (pca.plot.scree(), pca.plot.biplot(wine), pca.plot.cos2()):
        spec = chart.to_dict()
        del spec["config"], spec["datasets"]
        assert "#" not in json.dumps(spec).replace("schema/vega-lite", "")


def contrast(a: str, b: str) -> float:
    """Of two colours, as WCAG 2 defines it."""

    def light(colour: str) -> float:
        parts = np.array([int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5)])
        linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
        return float(linear @ [0.2126, 0.7152, 0.0722])

    high, low = sorted((light(a), light(b)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_text_and_marks_can_be_told_from_the_page(dark: bool) -> None:
    from eigengap.plots.palette import DARK, LIGHT

    ink = DARK if dark else LIGHT
    for colour in (ink.text, ink.muted, ink.accent, ink.second):
        assert contrast(colour, ink.background) >= 4.5
    for colour in (*ink.category, *ink.ramp, ink.main):
        assert contrast(colour, ink.background) >= 3.0


def test_the_choice_of_the_model_inside_is_drawn() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 2)) @ rng.normal(size=(2, 6)) + 0.3 * rng.normal(size=(200, 6))
    detector = eg.NoveltyDetector().fit(X)
    drawn = detector.plot.rank_criteria().to_dict()
    own = eg.plots.rank_criteria(detector.estimator_.rank_choice_).to_dict()
    assert drawn["title"]["subtitle"] == own["title"]["subtitle"]
    assert len(drawn["concat"]) == len(own["concat"])
    assert "rank_criteria" in charts_of(eg.ICA())


def test_why_there_is_no_choice_to_draw_is_true() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2)) @ rng.normal(size=(2, 6)) + 0.3 * rng.normal(size=(60, 6))
    switched = r"BayesianPCA switches components off while it is fitted.*choose_rank\(X\)"
    for model in (eg.BayesianPCA().fit(X), eg.NoveltyDetector(eg.BayesianPCA()).fit(X)):
        with pytest.raises(AttributeError, match=switched) as caught:
            model.plot.rank_criteria()
        assert 'n_components="auto"' not in str(caught.value)
    for model in (eg.PPCA(2).fit(X), eg.NoveltyDetector(eg.PPCA(2)).fit(X)):
        with pytest.raises(AttributeError, match=r'n_components=2\. Fit with n_components="auto"'):
            model.plot.rank_criteria()
    with pytest.raises(AttributeError, match="was not chosen by these criteria"):
        eg.plots.rank_criteria(eg.PPCARegressor().fit(X[:, :5], X[:, 5]))
