"""Reports of columns of every kind: what they say of each column, and of held-out values."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binomtest, norm
from tests.reporting.pages import Parsed

import eigengap as eg
from eigengap.plots.numbers.held_out_kinds import HeldOutLevels, HeldOutNumbers, held_out_kinds
from eigengap.plots.numbers.rows import Look, look_at
from eigengap.plots.numbers.subject import Subject
from eigengap.reporting import report
from eigengap.reporting.sections.columns import overview_for
from eigengap.runtime.warnings import silence

N = 160
REGIONS = np.array(["east", "north", "south"])


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    rng = np.random.default_rng(4)
    z = rng.normal(size=N)

    def noisy() -> np.ndarray:
        return z + 0.5 * rng.normal(size=N)

    frame = pd.DataFrame(
        {
            "income": np.exp(10 + 1.5 * noisy()),
            "height": noisy(),
            "grade": np.digitize(noisy(), [-1, 0, 1]) + 1,
            "region": REGIONS[np.digitize(noisy(), [-0.6, 0.6])],
            "alive": noisy() > 0,
            "name": [f"row {i}" for i in range(N)],
        }
    )
    frame["region"] = frame["region"].astype(object)
    hidden = rng.random(frame.shape) < 0.1
    hidden[:, -1] = False
    return frame.mask(hidden)


@pytest.fixture(scope="module")
def fitted(table: pd.DataFrame) -> eg.PPCA:
    with silence():
        return eg.PPCA(2, columns={"grade": "ordinal", "alive": "binary"}).fit(table)


@pytest.fixture(scope="module")
def page(fitted: eg.PPCA, table: pd.DataFrame, tmp_path_factory: pytest.TempPathFactory) -> Parsed:
    path = report(fitted, table, tmp_path_factory.mktemp("r") / "r.html", color="region")
    return Parsed(path.read_text(encoding="utf-8"))


def test_sections_speak_of_columns_by_their_kind(page: Parsed) -> None:
    assert "2 continuous" in page.text
    assert "Not in the model: name" in page.text
    assert "η²" in page.text
    for words in ("region=", "What each column holds", "Gaussian variables behind the columns"):
        assert words in page.text
    charts = set(page.data["charts"])
    named = ("distributions", "circle", "contributions-1", "levels", "imputation-error",
             "imputation-intervals", "imputation-levels", "imputation-calibration")  # fmt: skip
    assert {f"chart-{name}" for name in named} <= charts
    assert "nan" not in page.text.rpartition("Reproducibility")[0].lower().split()
    assert "Columns differ much in size" not in page.text


def test_levels_colour_rows_and_numbers_are_compared(page: Parsed) -> None:
    rows = page.data["rows"]
    assert [one["name"] for one in rows["features"]] == ["income", "height", "grade"]
    colours = {one["name"]: one for one in rows["colours"]}
    assert set(colours["region"]["levels"]) >= set(REGIONS)
    assert rows["start"] == "region"
    assert rows["names"][3] == "3 (row 3)"


def look_of(fitted: eg.PPCA, table: pd.DataFrame) -> Look:
    source = fitted.table_.source(table)
    return look_at(source, N, 0)


def test_the_overview_counts_what_pandas_counts(fitted: eg.PPCA, table: pd.DataFrame) -> None:
    subject = Subject.of(fitted)
    assert subject.names == ("income", "height", "grade", "region", "alive")
    found = {
        one.name: one
        for one in overview_for(subject, look_of(fitted, table), subject.names).columns
    }
    for name, column in found.items():
        assert column.missing == table[name].isna().sum()
        assert column.different == table[name].nunique()
    shares = table["region"].value_counts()
    assert dict(found["region"].levels) == shares.to_dict()
    assert found["income"].skewness == pytest.approx(
        float(((table["income"] - table["income"].mean()) ** 3).mean())
        / table["income"].std(ddof=0) ** 3
    )
    assert "skewed to the right" in found["income"].cautions


def test_held_out_values_are_judged_by_their_kind(fitted: eg.PPCA, table: pd.DataFrame) -> None:
    """Levels better than the most frequent, numbers better than the median, no cell twice."""
    subject, look = Subject.of(fitted), look_of(fitted, table)
    found = held_out_kinds(subject, look, 0)
    assert not isinstance(found, str)
    assert found.refitted
    assert set(found.numbers.column) == {0, 1}
    assert set(found.levels.column) == {2, 3, 4}
    assert np.mean([found.numbers.ratio(j) for j in (0, 1)]) < 1.0
    assert found.levels.accuracy > found.levels.accuracy_of_mode
    assert found.levels.log_score > found.levels.log_score_of_shares
    assert np.all((found.levels.sure > 0) & (found.levels.sure <= 1))
    observed = look.X[:, 0][~np.isnan(look.X[:, 0])]
    own = found.numbers.truth[found.numbers.column == 0]
    assert np.isin(own, observed).all()
    assert np.all(found.numbers.low[found.numbers.column == 0] >= 0)
    assert np.all(found.numbers.low <= found.numbers.high)


def test_tests_of_coverage_and_probability_are_those_of_textbooks() -> None:
    """By hand, from few cells."""
    truth = np.arange(40.0)
    low, high = truth - 1.0, np.where(np.arange(40) < 30, truth + 1.0, truth - 0.5)
    exact = np.arange(40) % 2 == 0
    column = np.zeros(40, dtype=np.intp)
    numbers = HeldOutNumbers(column, truth, truth + 2.0, low, high, truth + 4.0, exact)
    assert numbers.coverage == 0.75
    assert numbers.coverage_p == pytest.approx(binomtest(15, 20, 0.95).pvalue)
    assert numbers.ratio(0) == pytest.approx(0.5)
    sure = np.full(50, 0.8)
    right = np.arange(50) < 30
    of_truth = np.where(right, 0.8, 0.1)
    levels = HeldOutLevels(
        np.zeros(50, dtype=np.intp), right, sure, of_truth, right, np.full(50, 0.5)
    )
    z = (30 - 40) / np.sqrt(50 * 0.8 * 0.2)
    assert levels.calibration_p == pytest.approx(2 * norm.cdf(z))
    assert levels.log_score == pytest.approx(0.6 * np.log(0.8) + 0.4 * np.log(0.1))


def test_a_table_of_numbers_is_looked_at_too(tmp_path: Path) -> None:
    """By its values; the model takes all columns as numbers, and the page says so."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 3)) + rng.normal(size=(80, 1))
    frame = pd.DataFrame(X, columns=list("abc"))
    frame["d"] = np.exp(3 * X[:, 0])
    frame["one"], frame["again"] = 1.0, frame["a"]
    with silence():
        path = report(eg.PPCA(1, scale=True).fit(frame), frame, tmp_path / "r.html")
    text = Parsed(path.read_text(encoding="utf-8")).text
    assert "this model takes all of them as numbers" in text
    assert "one is constant" in text.lower()
    assert "a holds the same as again" in text.lower()
    assert "d skewed" in text or "most of all d" in text


def test_an_imputer_of_any_table_has_a_report(table: pd.DataFrame, tmp_path: Path) -> None:
    with silence():
        imputer = eg.LowRankImputer(n_components=1).fit(table)
        path = report(imputer, table, tmp_path / "r.html")
    text = Parsed(path.read_text(encoding="utf-8")).text
    assert "LowRankImputer chose" in text
    assert "held-out levels" in text


def test_a_model_stopped_early_on_purpose_is_no_failure(tmp_path: Path) -> None:
    """Bayesian factor analysis, which `LowRankImputer` chooses for small tables."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(80, 2)) @ rng.normal(size=(2, 6)) + 0.5 * rng.normal(size=(80, 6))
    with silence():
        imputer = eg.LowRankImputer(eg.BayesianPCA(2, max_iter=3)).fit(X)
        assert Subject.of(imputer).converged is False  # as asked, and not enough
        imputer.set_params(estimator="auto")
        assert Subject.of(imputer).converged is None
        found = Parsed(report(imputer, X, tmp_path / "r.html").read_text(encoding="utf-8"))
    assert "did not converge" not in found.text
    assert "NOT converge" not in found.text
