"""What an estimator shows of itself: summaries and notebooks."""

from __future__ import annotations

import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.pipeline import make_pipeline
from sklearn.utils import estimator_html_repr
from tests.cli.running import call
from tests.plots.foreign import HOSTILE

import eigengap as eg
from eigengap.estimators.shared.inner import ColumnMeans, StoppedFactorAnalysis


class Tags(HTMLParser):
    """Which tags and attributes a page has."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


def part(estimator: object) -> str:
    """What is added to scikit-learn's diagram."""
    html = estimator._repr_mimebundle_()["text/html"]  # type: ignore[attr-defined]
    return html[html.index("<div class='eigengap-repr'") :]


def test_summary_says_what_was_fitted(features: pd.DataFrame) -> None:
    model = eg.PPCA(scale=True).fit(features)
    told = str(model.summary())
    assert told.startswith("PPCA\n")
    assert "699 rows × 9 columns, 16 cells missing (0.254 %)" in told
    assert re.search(r"chosen +k = 1: the first component exceeds the noise level", told)
    assert re.search(r"fit +\d+ steps, converged", told)
    assert f"{100 * model.explained_variance_ratio_[0]:.1f}" in told
    assert repr(model.summary()) == told


def test_summary_of_a_closed_form(wine: pd.DataFrame, pca: eg.PCA) -> None:
    told = str(pca.summary())
    assert "178 rows × 13 columns, none of their cells missing" in told
    assert "in closed form" in told
    assert "and 1 more" in told  # of 13 components 12 are listed


@pytest.mark.filterwarnings("ignore")
def test_summary_warns(incomplete: np.ndarray) -> None:
    told = str(eg.PPCA(2, max_iter=1).fit(incomplete).summary())
    assert "NOT converged" in told
    assert "! the fit did not converge" in told


@pytest.mark.filterwarnings("ignore")
def test_a_target_that_is_explained_entirely_is_called_so(truth: np.ndarray) -> None:
    """The noise of the target is at its floor: it is no column of X and has no name among them."""
    X = pd.DataFrame(truth.copy(), columns=[f"c{j}" for j in range(8)])
    X.iloc[:9, 0] = np.nan
    y = truth[:, :1] + 0.0
    y[:30] = np.nan
    model = eg.PPCARegressor(2).fit(X, y.ravel())
    model.estimator_.heywood_ = (0, 8)
    told = str(model.summary())
    assert 'the factors explain column "c0" and the target entirely' in told
    assert "300 rows × 8 columns, 9 cells missing (0.375 %)" in told  # the target's are no cells
    assert re.search(r"targets +1, known in 270 rows", told)
    assert "the target entirely" in model._repr_html_()


@pytest.mark.filterwarnings("ignore")
def test_missing_cells_of_mixtures_and_classes(incomplete: np.ndarray) -> None:
    """A mixture and a classifier know their gaps by component and by class."""
    missing = int(np.isnan(incomplete).sum())
    mixture = eg.MixturePPCA(2, 1, random_state=0, max_iter=5, tol=1.0).fit(incomplete)
    classes = eg.PPCAClassifier(1).fit(incomplete, np.arange(300) % 2)
    for model in (mixture, classes):
        assert f"300 rows × 8 columns, {missing} cells missing" in str(model.summary())


@pytest.mark.filterwarnings("ignore")
def test_an_imputer_that_stops_early_on_purpose_raises_no_alarm(incomplete: np.ndarray) -> None:
    model = eg.LowRankImputer(n_components=2, max_iter=2).fit(incomplete)
    assert not model.estimator_.converged_
    told = str(model.summary())
    assert "2 steps, stopped early on purpose" in told
    assert "!" not in told
    assert "not converged" not in model._repr_html_()
    assert "2 steps in" in " ".join(model.plot.trace().to_dict()["title"]["subtitle"])
    own = eg.LowRankImputer(eg.PPCA(2, max_iter=1)).fit(incomplete)
    assert "! the fit did not converge" in str(own.summary())


@pytest.mark.filterwarnings("ignore")
def test_foreign_names_stay_text(truth: np.ndarray) -> None:
    X = pd.DataFrame(np.repeat(truth[:, :1], 6, axis=1), columns=HOSTILE[:6])
    X += np.random.default_rng(0).normal(size=X.shape) * [0, 1, 1, 1, 1, 1]
    model = eg.FactorAnalysis(1).fit(X)
    assert model.heywood_  # its columns are named in a warning
    html = model.summary()._repr_html_()
    assert "</script><img" not in html
    assert not [tag for tag, _ in Tags(html).found if tag in ("script", "img")]
    labels = np.array(["<b>one</b>", "two\nlines"])[np.arange(len(X)) % 2]
    classifier = eg.PPCAClassifier(1).fit(X.iloc[:, 1:], labels)
    assert "<b>one" not in classifier.summary()._repr_html_()
    assert "two\nlines" not in str(classifier.summary())


def test_before_the_fit_it_is_scikit_learns(features: pd.DataFrame) -> None:
    assert "eigengap-repr" not in eg.PPCA()._repr_html_()
    with pytest.raises(sklearn.exceptions.NotFittedError):
        eg.PPCA().summary()


def test_in_a_terminal_it_is_scikit_learns(ppca: eg.PPCA) -> None:
    assert repr(ppca) == "PPCA(n_components=3)"
    assert ppca._repr_mimebundle_()["text/plain"] == "PPCA(n_components=3)"


def test_pictures_can_be_read_aloud(ppca: eg.PPCA) -> None:
    found = Tags(part(ppca)).found
    pictures = [attributes for tag, attributes in found if tag == "svg"]
    assert len(pictures) == 2  # scree and convergence
    for attributes in pictures:
        assert attributes["role"] == "img"
        assert attributes["aria-label"]
    assert [tag for tag, _ in found].count("title") == 2


def test_pictures_take_the_colours_of_the_page(ppca: eg.PPCA) -> None:
    for svg in re.findall(r"<svg.*?</svg>", part(ppca)):
        ElementTree.fromstring(svg)  # well formed
        for colour in re.findall(r"(?:fill|stroke)='([^']*)'", svg):
            assert colour in ("currentColor", "none")


def test_bars_are_as_high_as_the_eigenvalues(pca: eg.PCA) -> None:
    svg = re.search(r"<svg.*?</svg>", part(pca))
    assert svg is not None
    heights = [float(h) for h in re.findall(r"<rect [^>]*height='([\d.]+)'", svg.group())]
    lam = pca.spectrum_.lam
    np.testing.assert_allclose(np.array(heights) / heights[0], lam / lam[0], atol=0.01)


def test_no_diagram_where_none_is_wanted(ppca: eg.PPCA) -> None:
    with sklearn.config_context(display="text"):
        assert "text/html" not in ppca._repr_mimebundle_()
        assert not hasattr(ppca, "_repr_html_")


def test_in_a_pipeline_the_diagram_is_the_pipelines(wine: pd.DataFrame) -> None:
    pipeline = make_pipeline(eg.PPCA(2, scale=True)).fit(wine)
    assert "PPCA" in pipeline._repr_html_()


def test_showing_and_summaries_need_no_altair() -> None:
    code = """
import sys
sys.modules["altair"] = None
import numpy as np, eigengap as eg
model = eg.PPCA(2).fit(np.random.default_rng(0).normal(size=(30, 5)))
model.summary(), model._repr_html_(), model.plot, dir(model.plot)
try:
    model.plot.scree()
except eg.exceptions.MissingExtraError as error:
    print(error)
assert not {"vl_convert", "jinja2"} & {name.partition(".")[0] for name in sys.modules}
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "drawing plots needs altair, which is not installed" in ran.stdout
    assert 'pip install "eigengap[cli]"' in ran.stdout


def test_showing_a_degenerate_fit_does_not_fail():
    """scikit-learn's table asks for every attribute; the predictive density of this one is none."""
    model = eg.FactorAnalysis(1).fit(np.random.default_rng(0).normal(size=(30, 1)))
    broken = type("Broken", (type(model),), {"predictive_": property(lambda self: 1 / 0)})
    model.__class__ = broken
    assert "eigengap-repr" in model._repr_html_()


def test_a_model_that_an_imputer_stops_goes_by_the_name_that_users_know(
    tmp_path: Path,
) -> None:
    """Factor analysis stopped early has a class of its own, which is nobody's business."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3)) @ rng.normal(size=(3, 10))
    X += rng.normal(size=X.shape) * np.linspace(0.1, 3.0, 10)
    X[rng.random(X.shape) < 0.1] = np.nan
    imputer = eg.LowRankImputer(n_components=3).fit(X)
    stopped = StoppedFactorAnalysis(3, max_iter=2)
    imputer.estimator_ = stopped.fit(X)  # whatever won
    assert ("model", "FactorAnalysis") in imputer.summary().facts
    assert ("fit", "2 steps, stopped early on purpose") in imputer.summary().facts
    assert ("fit", "2 steps, stopped early on purpose") in stopped.summary().facts
    assert not stopped.summary().warnings
    assert repr(stopped).startswith("FactorAnalysis(max_iter=2")
    page = eg.report(imputer, X, tmp_path / "r.html").read_text(encoding="utf-8")
    assert "LowRankImputer chose FactorAnalysis, stopped after 2 steps" in page
    eg.save(imputer, tmp_path / "m.eigengap")
    met = [page, str(imputer.summary()), str(stopped.summary()), repr(stopped)]
    met += [estimator_html_repr(model) for model in (imputer, stopped)]
    met += [str(model._repr_mimebundle_()) for model in (imputer, stopped)]
    met += [stopped.plot.scree().to_json(), imputer.plot.trace().to_json()]
    met.append(call("inspect", str(tmp_path / "m.eigengap"), "-v").text)
    assert not any("Stopped" in text for text in met)
    assert type(eg.load(tmp_path / "m.eigengap").estimator_) is StoppedFactorAnalysis


def test_column_means_are_called_that() -> None:
    X = np.random.default_rng(0).normal(size=(60, 4))
    X[::5, 0] = np.nan
    imputer = eg.LowRankImputer([ColumnMeans()]).fit(X)
    assert ("model", "column means") in imputer.summary().facts
    assert "ColumnMeans" not in str(imputer.summary())
