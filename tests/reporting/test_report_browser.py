"""The report in a real browser: nothing leaves it, nothing foreign runs, its parts are linked."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from tests.reporting.pages import HOSTILE

import eigengap as eg
from eigengap.reporting import report

pytestmark = pytest.mark.needs_browser

PATIENCE = 30.0  # seconds


def wait(found: Callable[[], Any], what: str) -> Any:
    """Ask again and again: the page's policy forbids what a driver's own waiting would run."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        value = found()
        if value:
            return value
        time.sleep(0.05)
    raise AssertionError(f"waited {PATIENCE} s in vain for {what}")


@contextmanager
def opened(browser: Any, path: Path, **how: Any) -> Iterator[Any]:
    """A page that is drawn; whatever it says, asks for or pops up fails the test."""
    heard: list[str] = []
    context = browser.new_context(**{"viewport": {"width": 1400, "height": 900}, **how})
    try:
        page = context.new_page()
        page.on("console", lambda message: heard.append(f"console: {message.text}"))
        page.on("pageerror", lambda error: heard.append(f"error: {error}"))
        page.on("dialog", lambda dialog: (heard.append("a dialog"), dialog.dismiss()))
        own = path.as_uri()

        def routed(route: Any) -> None:
            if route.request.url.partition("#")[0] != own:
                heard.append(f"request: {route.request.url}")
                route.abort()
            else:
                route.continue_()

        context.route("**/*", routed)
        page.goto(own)
        ready = wait(lambda: page.evaluate("document.documentElement.dataset.ready"), "the charts")
        assert ready == "yes"
        yield page
        assert heard == []
    finally:
        context.close()


@pytest.fixture(scope="module")
def shared(browser: Any, written: Path) -> Iterator[Any]:
    """The report of the shipped table, opened once."""
    with opened(browser, written) as page:
        yield page


@pytest.fixture
def page(shared: Any) -> Any:
    """The same, as if it had just been opened."""
    if shared.is_enabled("#clear"):
        shared.click("#clear")
    shared.uncheck("#only")
    for control, value in (("colour", "0"), ("axis-x", "0"), ("axis-y", "1")):
        if shared.input_value(f"#{control}") != value:
            shared.select_option(f"#{control}", value)
    wait(lambda: selected(shared) == 0, "no selection")
    wait(lambda: shared.locator("#legend button").count() == 2, "categories")
    return shared


def selected(page: Any) -> int:
    found = re.match(r"([\d\u202f]+) of", page.text_content("#selected"))
    return int(found[1].replace("\u202f", "")) if found else 0


def brush(page: Any, low: tuple[float, float], high: tuple[float, float]) -> None:
    """Drag over a part of the scores, in shares of the drawing area."""
    area = page.locator("#scores svg .background").first
    area.scroll_into_view_if_needed()
    box = area.bounding_box()
    corner = [(box["x"] + box["width"] * x, box["y"] + box["height"] * y) for x, y in (low, high)]
    page.mouse.move(*corner[0])
    page.mouse.down()
    page.mouse.move(*corner[1], steps=6)
    page.mouse.up()


def opacities(page: Any) -> set[str]:
    return set(
        page.evaluate(
            "[...document.querySelectorAll('#scores svg .mark-symbol path')]"
            ".map(p => p.getAttribute('opacity'))"
        )
    )


def test_it_opens_without_a_word_or_a_request(page: Any) -> None:
    charts = page.locator(".chart")
    assert charts.count() > 8
    drawn = page.evaluate(
        "[...document.querySelectorAll('.chart')].filter(c => !c.closest('[hidden]'))"
        ".map(c => c.querySelectorAll('svg path').length)"
    )
    assert min(drawn) > 3
    points = page.locator("#scores svg .mark-symbol path").count()
    assert points == 699


def test_brushing_the_scores_filters_the_rows_and_compares_them(page: Any) -> None:
    assert selected(page) == 0
    assert page.is_hidden("#difference")
    brush(page, (0.45, 0.02), (0.98, 0.98))
    n = wait(lambda: selected(page), "a selection")
    assert 0 < n < 699
    wait(lambda: f"of {n}" in page.text_content("#place"), "the filtered rows")
    assert {"0.12", "0.75"} <= wait(
        lambda: opacities(page) if len(opacities(page)) > 1 else None, "dimmed points"
    )
    words = wait(lambda: page.text_content("#difference-words"), "the differences")
    assert "differ most from the rest in" in words
    scores = page.evaluate("JSON.parse(document.getElementById('data').textContent).rows")
    shown = page.locator("#rows-body tr td:nth-child(2)").all_text_contents()
    chosen = [scores["rows"].index(int(row)) for row in shown]
    others = np.array(scores["scores"][0])
    assert min(others[chosen]) > np.median(others)  # the right half was brushed
    page.click("#clear")
    wait(lambda: selected(page) == 0, "no selection")
    wait(lambda: "of 699" in page.text_content("#place"), "all rows")
    assert wait(lambda: opacities(page) == {"0.75"}, "bright points")


def test_differences_are_those_of_the_means(
    page: Any, biopsies: pd.DataFrame, features: list[str]
) -> None:
    page.click("#legend button:has-text('malignant')")
    wait(lambda: selected(page) == 241, "the category")
    words = wait(lambda: page.text_content("#difference-words"), "the differences")
    frame = biopsies[features]
    bad = biopsies["diagnosis"] == "malignant"
    apart = (frame[bad].mean() - frame[~bad].mean()) / frame.std(ddof=0)
    first = apart.abs().sort_values(ascending=False).index[0]
    assert f"in {first} (+{apart[first]:.1f})" in words
    bars = page.locator("#differences svg .mark-rect path").count()
    assert bars == len(features)


def test_ticking_a_row_marks_its_point_with_the_keyboard(page: Any) -> None:
    page.focus("#rows-body input")
    page.keyboard.press("Space")
    wait(lambda: selected(page) == 1, "one row")
    assert page.evaluate("document.activeElement.dataset.row") == "0"
    wait(lambda: "0.12" in opacities(page), "dimmed points")
    bright = page.locator("#scores svg .mark-symbol path[opacity='0.75']").count()
    assert bright == 1
    assert "of 699" in page.text_content("#place")  # the others can still be ticked
    assert page.text_content("#rows-caption").startswith("699 rows, 1 of them ticked;")
    page.check("#only")
    wait(lambda: page.text_content("#rows-caption").startswith("1 of 699 rows"), "the caption")
    wait(lambda: "of 1" in page.text_content("#place"), "the ticked row alone")


def test_the_colour_selector_recolours_the_points(page: Any) -> None:
    def fills() -> set[str]:
        return set(
            page.evaluate(
                "[...document.querySelectorAll('#scores svg .mark-symbol path')]"
                ".map(p => p.getAttribute('fill'))"
            )
        )

    assert page.locator("#colour option").all_text_contents()[0] == "diagnosis"
    assert fills() == {"var(--k1)", "var(--k2)"}
    assert page.locator("#legend button").count() == 2
    page.select_option("#colour", label="clump_thickness")
    wait(lambda: page.locator("#legend button").count() == 0, "a scale")
    wait(lambda: len(fills()) == 10, "a colour for each of ten values")
    page.select_option("#colour", label="(one colour)")
    wait(lambda: fills() == {"var(--main)"}, "one colour")
    assert "coloured by" not in page.get_attribute("#scores", "aria-label")


def test_an_axis_is_never_shown_against_itself(page: Any) -> None:
    """Across what is up: the two change places."""
    page.select_option("#axis-x", label="PC2")
    wait(lambda: "PC2 and PC1" in page.get_attribute("#scores", "aria-label"), "PC2 across")
    assert page.input_value("#axis-y") == "0"
    page.select_option("#axis-y", label="PC2")
    wait(lambda: "PC1 and PC2" in page.get_attribute("#scores", "aria-label"), "PC2 up again")


def test_a_wild_number_does_not_take_all_colours_and_dates_have_a_scale(
    browser: Any, tmp_path: Path
) -> None:
    """Of 200 numbers one is a million: the others keep their colours, and the page says why."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 2)) @ rng.normal(size=(2, 4)) + 0.3 * rng.normal(size=(200, 4))
    frame = pd.DataFrame(X, columns=list("abcd"))
    model = eg.PPCA(2).fit(frame)
    frame["wild"] = np.where(np.arange(200) == 7, 1e6, rng.normal(size=200))
    frame["day"] = pd.date_range("2024-01-01", periods=200).strftime("%Y-%m-%d")
    with opened(browser, report(model, frame, tmp_path / "w.html", color="wild")) as page:
        fills = "new Set([...document.querySelectorAll('#scores svg .mark-symbol path')]"
        assert page.evaluate(f"{fills}.map(p => p.getAttribute('fill'))).size") > 100
        assert "1 % to its 99 % quantile" in page.text_content("#legend-note")
        page.select_option("#colour", label="day")
        wait(lambda: "2024-01-03" in page.text_content("#scores"), "dates of the scale")
        page.hover("#scores svg .mark-symbol path >> nth=3", force=True)
        wait(lambda: "2024-01-04" in page.text_content("#tip"), "the date of a row")


def test_the_axes_can_be_changed(page: Any) -> None:
    page.select_option("#axis-y", label="PC3")
    wait(lambda: "PC1 and PC3" in page.get_attribute("#scores", "aria-label"), "PC3")
    assert "PC3" in page.locator("#scores svg").text_content()


def test_rows_are_sorted_by_a_column(page: Any) -> None:
    page.click("#rows-head button:has-text('PC1')")
    page.click("#rows-head button:has-text('PC1')")
    heads = page.locator("#rows-head th").all_text_contents()
    cells = page.locator(f"#rows-body td:nth-child({heads.index('PC1') + 1})")
    found = [float(text.replace("\u2212", "-")) for text in cells.all_text_contents()]
    assert found == sorted(found, reverse=True)
    assert page.locator("th[aria-sort='descending']").text_content() == "PC1"


def test_hostile_names_of_axes_do_not_run(browser: Any, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 2)) @ rng.normal(size=(2, 8)) + 0.3 * rng.normal(size=(40, 8))
    frame = pd.DataFrame(X, columns=list(HOSTILE[:8]))
    path = report(eg.Whitener(method="zca").fit(frame), frame, tmp_path / "w.html")
    with opened(browser, path) as page:  # its axes have the names of the columns
        assert "onerror" in page.locator("#scores svg").text_content()
        page.hover("#scores svg .mark-symbol path >> nth=3", force=True)
        wait(lambda: "onerror" in page.text_content("#tip"), "the names of the axes")
        assert page.evaluate("window.__pwned") is None


def test_hostile_names_do_not_run(browser: Any, hostile: Path) -> None:
    with opened(browser, hostile) as page:
        assert page.evaluate("window.__pwned") is None
        for k in range(page.locator("#colour option").count()):
            page.select_option("#colour", str(k))
            wait(lambda: page.locator("#scores svg .mark-symbol path").count() == 80, "points")
        page.select_option("#colour", "0")
        wait(lambda: page.locator("#legend button").count() > 1, "categories")
        page.locator("#legend button").first.click()
        wait(lambda: page.text_content("#difference-words"), "the differences")
        page.hover("#scores svg .mark-symbol path >> nth=3", force=True)
        assert page.evaluate("document.querySelectorAll('img, svg[onload], iframe').length") == 0
        assert page.evaluate("window.__pwned") is None
        assert "onerror" in page.text_content("main")  # as text


def test_light_dark_narrow_and_paper(page: Any) -> None:
    colours = {"light": "rgb(255, 255, 255)", "dark": "rgb(20, 24, 29)"}
    ask = "getComputedStyle(document.body).backgroundColor"
    page.set_viewport_size({"width": 400, "height": 800})
    try:
        for scheme in colours:
            page.emulate_media(color_scheme=scheme)
            assert page.evaluate(ask) == colours[scheme]
            assert least_contrast(page) >= 4.5
        page.click("#theme")
        assert page.evaluate(ask) == colours["light"]
        page.click("#theme")
        assert page.evaluate(ask) == colours["dark"]
        assert broken_words(page) == []
        wide = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
        wait(lambda: page.evaluate(wide) <= 0, "charts that are no wider than the page")
        page.emulate_media(media="print")
        assert page.evaluate(ask) == colours["light"]
        assert page.is_hidden("#theme")
    finally:
        page.emulate_media(media="screen", color_scheme="light")
        page.evaluate("delete document.documentElement.dataset.theme")
        page.set_viewport_size({"width": 1400, "height": 900})


def broken_words(page: Any) -> list[str]:
    """Words of tables that stand on two lines."""
    return page.evaluate(
        """() => {
          const found = [];
          for (const cell of document.querySelectorAll('td, th, dd b')) {
            const text = cell.firstChild;
            if (!text || text.nodeType !== 3) continue;
            const words = cell.classList.contains('id') ? /.+/g : /\\S+/g;
            for (const word of text.data.matchAll(words)) {
              const range = document.createRange();
              range.setStart(text, word.index);
              range.setEnd(text, word.index + word[0].length);
              const tops = new Set([...range.getClientRects()].map((r) => Math.round(r.top)));
              if (tops.size > 1 && word[0].length < 60) found.push(word[0]);
            }
          }
          return found;
        }"""
    )


def least_contrast(page: Any) -> float:
    """The least ratio of text and ground (WCAG 2.1) of words and of labels of charts."""
    pairs = page.evaluate(
        """() => {
          const ground = (e) => {
            for (; e; e = e.parentElement) {
              const c = getComputedStyle(e).backgroundColor;
              if (!c.startsWith('rgba(0, 0, 0, 0')) return c;
            }
          };
          const words = 'p, li, td, th, h1, h2, h3, a, dt, small, summary, label, button';
          const html = [...document.querySelectorAll(words)]
            .map((e) => [getComputedStyle(e).color, ground(e)]);
          const svg = [...document.querySelectorAll('svg text')]
            .map((e) => [getComputedStyle(e).fill, ground(e)]);
          return [...new Set([...html, ...svg].map((p) => p.join('|')))];
        }"""
    )

    def luminance(colour: str) -> float:
        parts = [int(v) / 255 for v in re.findall(r"\d+", colour)[:3]]
        r, g, b = (v / 12.92 if v <= 0.03928 else ((v + 0.055) / 1.055) ** 2.4 for v in parts)
        return 0.2126 * r + 0.7152 * g + 0.0722 * b

    def ratio(pair: str) -> float:
        a, b = sorted(map(luminance, pair.split("|")))
        return (b + 0.05) / (a + 0.05)

    return min(map(ratio, pairs))


def test_all_controls_are_reached_by_the_keyboard_in_order(page: Any) -> None:
    reached: list[str] = []
    page.focus(".skip")  # the first of all
    while len(reached) < 60 and "only" not in reached:
        page.keyboard.press("Tab")
        reached.append(page.evaluate("document.activeElement.id || document.activeElement.tagName"))
    for control in ("theme", "colour", "axis-x", "axis-y", "only"):
        assert control in reached
    assert reached.index("colour") < reached.index("axis-x") < reached.index("only")


def test_one_axis_can_be_brushed_too(browser: Any, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 1)) @ rng.normal(size=(1, 4)) + 0.3 * rng.normal(size=(60, 4))
    path = report(eg.PPCA(1).fit(X), X, tmp_path / "one.html")
    with opened(browser, path) as page:
        brush(page, (0.5, 0.3), (0.99, 0.7))
        assert 0 < wait(lambda: selected(page), "a selection") < 60
