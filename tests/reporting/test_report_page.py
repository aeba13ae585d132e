"""The file as a file: one, small, self-contained, harmless, the same each time."""

from __future__ import annotations

import json
import pickle
import re
import sys
from base64 import b64encode
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from tests.reporting.pages import HOSTILE, Parsed

import eigengap as eg
from eigengap.exceptions import MissingExtraError
from eigengap.plots.numbers.names import clean, distinct
from eigengap.plots.theme import escaped_json
from eigengap.reporting import page, report

MOST_BYTES = 3_000_000


def test_it_is_one_small_file(written: Path) -> None:
    assert written.stat().st_size < MOST_BYTES
    assert [p.name for p in written.parent.iterdir()] == [written.name]


def test_a_wide_and_long_table_stays_small(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2010, 6)) @ rng.normal(size=(6, 31)) + rng.normal(size=(2010, 31))
    X[rng.random(X.shape) < 0.1] = np.nan  # a posterior of its own for every row
    path = report(eg.PPCA(6, tol=1e-1).fit(X), X, tmp_path / "wide.html")
    assert path.stat().st_size < MOST_BYTES


def test_nothing_is_loaded_from_anywhere(parsed: Parsed) -> None:
    for tag, attributes in parsed.tags:
        assert tag not in {"link", "iframe", "object", "embed", "base", "form", "img"}
        assert "src" not in attributes
        assert not any(name.startswith("on") for name in attributes)
        assert "style" not in attributes
        assert (attributes.get("href") or "#").startswith("#")


def test_the_policy_names_exactly_the_scripts_and_the_style_of_the_page(parsed: Parsed) -> None:
    meta = parsed.attribute("meta", **{"http-equiv": "Content-Security-Policy"})["content"]
    assert meta is not None
    rules = {rule.split()[0]: rule.split()[1:] for rule in meta.split(";")}
    assert rules["default-src"] == ["'none'"]

    def hashes(tag: str) -> set[str]:
        texts = [text for t, a, text in parsed.inside if t == tag and "type" not in a]
        return {f"'sha256-{b64encode(sha256(t.encode()).digest()).decode()}'" for t in texts}

    assert set(rules["script-src"]) == hashes("script")
    assert set(rules["style-src"]) == hashes("style")
    assert "unsafe" not in meta


def test_headings_go_down_one_by_one_and_every_picture_has_words(parsed: Parsed) -> None:
    levels = [int(tag[1]) for tag, _ in parsed.tags if re.fullmatch(r"h[1-6]", tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))
    charts = [a for _, a in parsed.tags if a.get("role") == "img"]
    assert len(charts) > 8
    assert all(len(a.get("aria-label") or "") > 10 for a in charts)
    tables = sum(tag == "table" for tag, _ in parsed.tags)
    assert tables == sum(tag == "caption" for tag, _ in parsed.tags)
    for landmark in ("main", "nav", "header", "footer"):
        assert landmark in {tag for tag, _ in parsed.tags}
    ids = [a["id"] for _, a in parsed.tags if "id" in a]
    assert len(ids) == len(set(ids))


def test_the_same_input_gives_the_same_bytes_and_leaves_the_model_alone(
    fitted: Any, biopsies: pd.DataFrame, written: Path, tmp_path: Path
) -> None:
    restored = pickle.loads(pickle.dumps(fitted))
    before = pickle.dumps(restored)
    again = report(restored, biopsies, tmp_path / "again.html")
    assert again.read_bytes() == written.read_bytes()
    assert pickle.dumps(restored) == before


def test_no_more_rows_are_embedded_than_allowed_and_it_says_so(
    fitted: Any, biopsies: pd.DataFrame, tmp_path: Path
) -> None:
    path = report(fitted, biopsies, tmp_path / "few.html", max_rows=37)
    found = Parsed(path.read_text(encoding="utf-8"))
    rows = found.data["rows"]
    assert len(rows["rows"]) == 37 == len(set(rows["rows"]))
    path = report(fitted, biopsies, tmp_path / "others.html", max_rows=37, random_state=1)
    assert Parsed(path.read_text(encoding="utf-8")).data["rows"]["rows"] != rows["rows"]
    assert all(len(values) == 37 for values in rows["scores"])
    assert all(len(feature["values"]) == 37 for feature in rows["features"])
    longest = max(len(spec["data"]["values"]) for spec in found.data["charts"].values())
    assert longest <= 400  # hidden cells, which are no rows
    assert "show 37 of 699 rows" in found.text
    assert "16 cells of 6291" in found.text  # gaps are counted in all rows


def test_hostile_names_are_text_and_nothing_else(hostile: Path, parsed: Parsed) -> None:
    html = hostile.read_text(encoding="utf-8")
    found = Parsed(html)
    assert {tag for tag, _ in found.tags} <= {tag for tag, _ in parsed.tags} | {"details"}
    assert sum(tag == "script" for tag, _ in found.tags) == 3
    for _, attributes in found.tags:
        assert not any(name.startswith("on") for name in attributes)
        assert (attributes.get("href") or "#").startswith("#")
    assert HOSTILE[0] in found.text
    assert "{{7*7}}" in found.text
    assert "\u202e" not in html
    assert "\u2028" not in html
    assert "x" * 200 not in html.split("<body>")[1].split('<script type="application/json"')[0]
    names = {feature["name"] for feature in found.data["rows"]["features"]}
    assert clean(HOSTILE[0]) in names
    for spec in found.data["charts"].values():  # names are values, never names of fields
        assert not any(clean(name) in fields_of(spec) for name in HOSTILE)
        # Vega-Lite makes an expression of the titles in a tooltip, and escapes them badly.
        assert all(re.fullmatch(r"[\w ²ₐ-ₜ,.'-]+", title) for title in tooltip_titles(spec))


def tooltip_titles(spec: Any) -> set[str]:
    if isinstance(spec, dict):
        own = {tip["title"] for tip in spec.get("tooltip", [])}
        return own.union(*(tooltip_titles(v) for k, v in spec.items() if k != "values"))
    return set().union(*(tooltip_titles(v) for v in spec)) if isinstance(spec, list) else set()


def fields_of(spec: Any) -> set[str]:
    if isinstance(spec, dict):
        own = {spec["field"]} if isinstance(spec.get("field"), str) else set()
        return own.union(*(fields_of(v) for k, v in spec.items() if k != "values"))
    return set().union(*(fields_of(v) for v in spec)) if isinstance(spec, list) else set()


def test_json_in_the_page_cannot_end_its_element() -> None:
    for text in (*HOSTILE, "\ud800", "\u2029"):
        escaped = escaped_json({text: [text]})
        assert not set("<>&\u2028\u2029") & set(escaped)
        readable = text.encode("utf-8", "replace").decode()
        assert json.loads(escaped) == {readable: [readable]}


def test_names_stay_apart_when_they_are_shortened() -> None:
    names = ["a" * 100 + str(i) for i in range(20)] + ["", " ", "\n", "a\nb", "a b"]
    shown = distinct(names)
    assert len(set(shown)) == len(names)
    assert all("\n" not in name and len(name) < 80 for name in shown)


def test_a_report_that_fails_leaves_the_old_file_and_no_debris(
    fitted: Any, biopsies: pd.DataFrame, tmp_path: Path
) -> None:
    path = tmp_path / "report.html"
    path.write_text("old")
    with pytest.raises(ValueError, match="not fitted"):
        report(eg.PPCA(2), biopsies, path)
    with pytest.raises(ValueError, match="lacks a column"):
        report(fitted, biopsies.drop(columns="mitoses"), path)
    with pytest.raises(ValueError, match='"colour" is no column'):
        report(fitted, biopsies, path, color="colour")
    with pytest.raises(ValueError, match="3 values, and X has 699 rows"):
        report(fitted, biopsies, path, color=[1, 2, 3])
    with pytest.raises(ValueError, match="max_rows"):
        report(fitted, biopsies, path, max_rows=0)
    for name in ("max_rows", "first_row", "random_state"):
        with pytest.raises(ValueError, match=f"{name}.* whole number of at least .*, got True"):
            report(fitted, biopsies, path, **{name: True})
    X = np.random.default_rng(0).normal(size=(20, 3))
    for model in (eg.PPCAClassifier().fit(X, [0, 1] * 10), eg.PPCARegressor().fit(X, X[:, 0])):
        with pytest.raises(ValueError, match="places rows nowhere"):
            report(model, X, path)
    with pytest.raises(ValueError, match='color="id" has 699 different texts'):
        report(fitted, biopsies.assign(id=[f"b{i}" for i in range(699)]), path, color="id")
    with pytest.raises(FileNotFoundError, match="cannot write"):
        report(fitted, biopsies, tmp_path / "no" / "folder.html")
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["report.html"]


def test_without_jinja2_it_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, fitted: Any, biopsies: pd.DataFrame, tmp_path: Path
) -> None:
    page._template.cache_clear()
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(MissingExtraError, match=r"eigengap\[cli\]"):
        report(fitted, biopsies, tmp_path / "report.html")
    assert not list(tmp_path.iterdir())


def test_provenance_is_shown_and_that_of_a_loaded_model_is_found(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 4))
    model = eg.PPCA(1).fit(X)
    model.provenance_ = {"command": "eigengap fit t.csv", "data_sha256": "ab" * 32, "rows": 40}
    text = Parsed(report(model, X, tmp_path / "r.html").read_text(encoding="utf-8")).text
    assert "eigengap fit t.csv" in text
    assert "ab" * 32 in text
    given = {"created": "2026-01-02T03:04:05+00:00"}
    path = report(model, X, tmp_path / "r.html", provenance=given)
    text = Parsed(path.read_text(encoding="utf-8")).text
    assert "2026-01-02T03:04:05" in text
    assert "t.csv" not in text


def test_the_script_of_vega_is_made_once_and_kept(tmp_path, monkeypatch) -> None:
    made = []
    monkeypatch.setenv("EIGENGAP_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(page, "bundled", lambda: made.append(1) or "script();")
    assert [page.vega() for _ in range(3)] == ["script();"] * 3
    assert len(made) == 1
    (kept,) = (tmp_path / "cache").iterdir()
    kept.write_text(kept.read_text().replace("script", "stolen"))  # damaged: made anew
    assert page.vega() == "script();"
    assert len(made) == 2


def test_a_cache_that_cannot_be_written_is_done_without(tmp_path, monkeypatch) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("EIGENGAP_CACHE_DIR", str(tmp_path / "file"))
    monkeypatch.setattr(page, "bundled", lambda: "script();")
    assert page.vega() == "script();"
