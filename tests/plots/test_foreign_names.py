"""Names from users' files that are markup: shown in charts and pages, and never run."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import altair as alt
import numpy as np
import pandas as pd
import pytest
from tests.plots.test_notebook import Tags

import eigengap as eg
from eigengap.plots.theme import chart_page, save

# Short, for charts cut long names.
ATTACKS = (
    "</script><script>hit=1</script>",
    "</SCRIPT\t><script>hit=1//",
    "<!--<script>",
    "<img src=x onerror=hit=1>",
    "<?x </script >",
)
TAME = ("one", "two", "three", "four", "five")


def table(names: tuple[str, ...]) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2)) @ rng.normal(size=(2, 5)) + 0.3 * rng.normal(size=(60, 5))
    X[rng.random(X.shape) < 0.1] = np.nan
    return pd.DataFrame(X, columns=list(names))


def charts(names: tuple[str, ...]) -> dict[str, Any]:
    """Every chart in which names of columns, classes or categories stand."""
    X = table(names)
    kinds = pd.Series(np.array(names)[np.arange(60) % 5], name=names[0])
    model = eg.PPCA(2).fit(X)
    classes = eg.PPCAClassifier(1).fit(X, kinds)
    return {
        "biplot": model.plot.biplot(X, color=kinds),
        "contributions": model.plot.contributions(),
        "correlation_circle": model.plot.correlation_circle(),
        "cos2": model.plot.cos2(),
        "imputation": model.plot.imputation(X),
        "missingness": model.plot.missingness(X),
        "novelty": model.plot.novelty(X),
        "scores": model.plot.scores(X, color=kinds),
        "classes": classes.plot.mixture(X),
    }


@pytest.fixture(scope="module")
def hostile() -> dict[str, Any]:
    return charts(ATTACKS)


def shapes(html: str) -> list[str]:
    return [tag for tag, _ in Tags(html).found]


def test_no_name_becomes_an_element_where_altair_writes_the_page(hostile: dict[str, Any]) -> None:
    """Altair puts the specification into a script as it is: in `save` and in notebooks."""
    tame = charts(TAME)
    with alt.renderers.enable("html"):
        for name, chart in hostile.items():
            assert "hit" in chart.to_json(), name  # it is among what is shown
            assert shapes(chart.to_html()) == shapes(tame[name].to_html()), name
            shown = chart._repr_mimebundle_()["text/html"]
            assert shapes(shown) == shapes(tame[name]._repr_mimebundle_()["text/html"]), name


def test_a_specification_of_any_sort_stays_one_script() -> None:
    """Also where a user's own titles are markup, which labels do not pass through."""
    for text in ATTACKS:
        spec = alt.Chart(alt.InlineData([{text: text}])).mark_point().properties(title=text)
        page = chart_page(spec.to_dict(), "window.vegaEmbed = null;")
        assert shapes(page).count("script") == 3
        assert shapes(page).count("img") == 0


# In Chromium -------------------------------------------------------------------------------------


def wait(found: Callable[[], Any], what: str) -> Any:
    end = time.monotonic() + 30.0
    while time.monotonic() < end:
        if value := found():
            return value
        time.sleep(0.05)
    raise AssertionError(f"waited in vain for {what}")


@contextmanager
def opened(browser: Any, path: Path) -> Iterator[tuple[Any, list[str]]]:
    """The page without a network, and the addresses that it asked for."""
    context, asked = browser.new_context(), []
    try:
        page = context.new_page()
        own = path.as_uri()

        def routed(route: Any) -> None:
            if route.request.url == own:
                route.continue_()
            else:
                asked.append(route.request.url)
                route.abort()

        context.route("**/*", routed)
        page.goto(own)
        yield page, asked
    finally:
        context.close()


@pytest.mark.needs_browser
def test_a_saved_page_draws_the_names_and_runs_none(
    hostile: dict[str, Any], browser: Any, tmp_path: Path
) -> None:
    titled = hostile["biplot"].properties(title=ATTACKS[0])
    with opened(browser, save(titled, tmp_path / "x.html")) as (page, asked):
        wait(lambda: page.locator("#chart svg .mark-text").count(), "the chart")
        assert "hit=1" in page.text_content("#chart svg")
        assert page.evaluate("typeof hit") == "undefined"
        assert page.evaluate("document.querySelectorAll('img, iframe').length") == 0
        # Whatever should slip through, the policy stands in its way.
        page.evaluate(
            """() => {
              const script = document.createElement('script');
              script.textContent = 'window.slipped = 1';
              document.body.append(script);
              document.body.insertAdjacentHTML(
                'beforeend', '<img src="https://example.org/x" onerror="window.slipped = 1">');
            }"""
        )
        time.sleep(0.2)
        assert page.evaluate("typeof slipped") == "undefined"
        assert asked == []


@pytest.mark.needs_browser
@pytest.mark.parametrize("name", ["biplot", "missingness", "contributions"])
def test_nothing_runs_where_altair_writes_the_page(
    name: str, hostile: dict[str, Any], browser: Any, tmp_path: Path
) -> None:
    chart = hostile[name]
    chart.save(tmp_path / "own.html")
    with alt.renderers.enable("html"):
        shown = chart._repr_mimebundle_()["text/html"]
    (tmp_path / "notebook.html").write_text(f"<!DOCTYPE html><meta charset=utf-8>{shown}")
    for file in ("own.html", "notebook.html"):
        with opened(browser, tmp_path / file) as (page, _):
            assert page.evaluate("typeof hit") == "undefined", file
