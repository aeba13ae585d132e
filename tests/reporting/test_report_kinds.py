"""Every transformer has a report; what means nothing for it is left out with a sentence."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.reporting.pages import Parsed

import eigengap as eg
from eigengap import registry
from eigengap.plots.numbers import correlations
from eigengap.reporting import report
from eigengap.runtime.warnings import silence

rng = np.random.default_rng(1)
X = rng.normal(size=(80, 2)) @ rng.normal(size=(2, 5)) + 0.3 * rng.normal(size=(80, 5))
INCOMPLETE = np.where(rng.random(X.shape) < 0.1, np.nan, X)
EQUAL = np.ones((9, 3))
DISTANCES = np.sqrt(((X[:, None] - X[None]) ** 2).sum(axis=-1))

SECTIONS = [
    "glance",
    "columns",
    "missing",
    "components",
    "variables",
    "samples",
    "imputation",
    "quality",
    "reproduce",
]
Make = Callable[[], tuple[Any, Any]]
FAST: dict[str, tuple[Make, tuple[str, ...]]] = {
    "PCA": (lambda: (eg.PCA(2).fit(INCOMPLETE), INCOMPLETE), ()),
    "PCA, everything": (lambda: (eg.PCA().fit(X), X), ("mean nothing here",)),
    "FactorAnalysis, student": (
        lambda: (eg.FactorAnalysis(2, distribution="student").fit(INCOMPLETE), INCOMPLETE),
        (),
    ),
    "BayesianPCA": (lambda: (eg.BayesianPCA().fit(INCOMPLETE), INCOMPLETE), ()),
    "MixturePPCA": (
        lambda: (eg.MixturePPCA(2, n_components=1, random_state=0).fit(INCOMPLETE), INCOMPLETE),
        ("The mixture has 2 components",),
    ),
    "ICA": (lambda: (eg.ICA(2).fit(X), X), ("no density", "imputes none")),
    "KernelPCA": (
        lambda: (eg.KernelPCA(2, kernel="rbf").fit(X), X),
        ("no linear functions of the columns", "no density", "imputes none"),
    ),
    "Isomap": (lambda: (eg.Isomap(n_components=2).fit(X), X), ("no density", "imputes none")),
    "Isomap, distances": (
        lambda: (eg.Isomap(n_components=2, metric="precomputed").fit(DISTANCES), DISTANCES),
        ("pairs of rows", "no columns to look at"),
    ),
    "LowRankImputer": (
        lambda: (eg.LowRankImputer(estimator=eg.PPCA(2)).fit(INCOMPLETE), INCOMPLETE),
        ("LowRankImputer chose PPCA",),
    ),
    "NoveltyDetector": (
        lambda: (eg.NoveltyDetector(eg.PPCA(2)).fit(INCOMPLETE), INCOMPLETE),
        ("scores rows by PPCA",),
    ),
    "one column": (lambda: (eg.PCA(1).fit(X[:, :1]), X[:, :1]), ()),
    "four rows": (lambda: (eg.PPCA(1).fit(X[:4]), X[:4]), ("With 4 rows",)),
    "all rows equal": (
        lambda: (eg.PCA(1).fit(np.ones((9, 3))), np.ones((9, 3))),
        ("nothing to report",),
    ),
}
SLOW: dict[str, tuple[Make, tuple[str, ...]]] = {  # or like one of those above
    "Whitener": (lambda: (eg.Whitener().fit(X), X), ("no density", "imputes none")),
    "LaplacianEigenmaps": (
        lambda: (eg.LaplacianEigenmaps(n_components=2).fit(X), X),
        ("no density", "imputes none"),
    ),
    "ClassicalMDS": (lambda: (eg.ClassicalMDS(2).fit(X), X), ("no density", "imputes none")),
    "MaximumVarianceUnfolding": (
        lambda: (eg.MaximumVarianceUnfolding(n_components=2).fit(X), X),
        ("no density",),
    ),
    "StructurePreservingEmbedding": (
        lambda: (eg.StructurePreservingEmbedding(n_components=2).fit(X[:40]), X[:40]),
        ("no density",),
    ),
    "GPLVM": (lambda: (eg.GPLVM(2, max_iter=20).fit(X[:40]), X[:40]), ()),
    "Autoencoder": (
        lambda: (eg.Autoencoder(2, max_iter=20).fit(X), X),
        ("was fitted to them",),
    ),
}
PLACES_NO_ROWS = ("PPCAClassifier", "PPCARegressor")
FAST |= {
    entry.name: (lambda name=entry.name: (getattr(eg, name)().fit(X), X), ())
    for entry in registry.ESTIMATORS
    if entry.name not in (*FAST, *SLOW, *PLACES_NO_ROWS, "PPCA", "FactorAnalysis")
}


def check(made: tuple[Any, Any], said: tuple[str, ...], folder: Path) -> None:
    found = Parsed(report(*made, folder / "r.html").read_text(encoding="utf-8"))
    sections = [a["id"] for tag, a in found.tags if tag == "section"]
    assert sections == SECTIONS
    for words in said:
        assert words in found.text
    told = found.text.rpartition("Reproducibility")[0]  # parameters may be nan
    assert "nan" not in told.lower().split()
    drawn = {a["id"] for _, a in found.tags if (a.get("class") or "") == "chart"}
    assert set(found.data["charts"]) | {"scores", "differences", "glance-chart"} == drawn


@pytest.mark.parametrize("name", FAST)
def test_a_report_of(name: str, tmp_path: Path) -> None:
    make, said = FAST[name]
    with silence():
        made = make()
    check(made, said, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("name", SLOW)
def test_a_slow_report_of(name: str, tmp_path: Path) -> None:
    make, said = SLOW[name]
    with silence():
        made = make()
    check(made, said, tmp_path)


def test_a_fit_that_did_not_converge_is_said_first(tmp_path: Path) -> None:
    with silence():
        model = eg.PPCA(2, max_iter=1).fit(INCOMPLETE)
    found = Parsed(report(model, INCOMPLETE, tmp_path / "r.html").read_text(encoding="utf-8"))
    assert "Caution: The fit did not converge" in found.text


def test_columns_of_very_different_size_are_told_unless_scaled(tmp_path: Path) -> None:
    wild = X * np.array([1.0, 1.0, 1.0, 1.0, 1e4])
    for scale in (False, True):
        model = eg.PCA(2, scale=scale).fit(wild)
        found = Parsed(report(model, wild, tmp_path / "r.html").read_text(encoding="utf-8"))
        assert ("Columns differ much in size" in found.text) is not scale


def test_codes_for_missing_cells_and_names_without_warnings(
    tmp_path: Path, recwarn: pytest.WarningsRecorder
) -> None:
    import pandas as pd

    frame = pd.DataFrame(np.nan_to_num(INCOMPLETE, nan=-999.0), columns=list("abcde"))
    model = eg.PPCA(2, missing_values=-999).fit(frame)
    found = Parsed(report(model, frame, tmp_path / "r.html").read_text(encoding="utf-8"))
    assert f"{int(np.isnan(INCOMPLETE).sum())} cells of 400" in found.text
    assert [w for w in recwarn if "feature names" in str(w.message)] == []


def test_labels_of_every_type_colour_or_name_the_rows(tmp_path: Path) -> None:
    import pandas as pd

    n = len(X)
    frame = pd.DataFrame(X, columns=list("abcde"))
    model = eg.PPCA(2).fit(frame)
    frame["date"] = pd.date_range("2020-01-01", periods=n)
    frame["category"] = pd.Categorical(["x", None] * (n // 2))
    frame["nullable"] = pd.array([1, None] * (n // 2), dtype="Int64")
    frame["mixed"] = [None, 1, "a", np.inf] * (n // 4)
    frame["empty"] = None
    frame["lists"] = [[1]] * n
    frame["infinite"] = np.where(X[:, 0] > 0, np.inf, X[:, 0])
    frame.index = pd.Index([f"row {i}" for i in range(n)], name="well")
    for color in ("infinite", None):
        path = report(model, frame, tmp_path / "r.html", color=color)
        rows = Parsed(path.read_text(encoding="utf-8")).data["rows"]
        found = {colour["name"]: colour for colour in rows["colours"]}
        assert found["category"]["levels"] == ["x", "(missing)"]
        assert found["nullable"]["levels"] == ["1", "(missing)"]
        assert found["date"]["dates"]
        assert found["date"]["values"][:2] == [18262, 18263]  # days since 1970-01-01
        assert "empty" not in found
        assert None in found["infinite"]["values"]
        assert rows["names"][3] == "3 (row 3)"


@pytest.mark.parametrize("method", ["centre", "normalise"])
def test_scores_that_stay_missing_are_reported(method: str, tmp_path: Path) -> None:
    """Columns are correlated with them over the rows in which both are known."""
    X = np.random.default_rng(0).normal(size=(40, 4))
    X[::7, 1] = np.nan
    model = eg.Whitener(method=method).fit(X)
    report(model, X, tmp_path / "report.html")
    both = ~np.isnan(X[:, 1])
    truth = np.corrcoef(X[both].T)
    np.testing.assert_allclose(correlations(model, X)[:, 1], truth[:, 1], atol=1e-12)
