"""The guide runs as it is printed, and links between pages lead somewhere."""

from __future__ import annotations

import doctest
import re
import warnings
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
GUIDE = [*sorted((DOCS / "guide").rglob("*.md")), DOCS / "columns.md", DOCS / "mixed-data.md"]
# What Sphinx generates is not in the repository; its own build checks the links between those.
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *sorted(
        page
        for page in DOCS.rglob("*.md")
        if not {"_build", "auto_api", "auto_gallery"} & set(page.relative_to(DOCS).parts)
    ),
]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS


def _name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def _session(page: Path) -> str:
    """The Python sessions of a page, one after the other, each at its own line."""
    text = page.read_text(encoding="utf-8")
    kept = [""] * (text.count("\n") + 1)
    for block in BLOCK.finditer(text):
        if block[1] == "pycon":
            first = text.count("\n", 0, block.start(2))
            lines = block[2].splitlines()
            kept[first : first + len(lines)] = lines
    return "\n".join(kept)


@pytest.mark.parametrize("page", GUIDE, ids=_name)
def test_code_of_the_guide_prints_what_the_page_shows(page, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    test = doctest.DocTestParser().get_doctest(_session(page), {}, _name(page), str(page), 0)
    report: list[str] = []
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # a page does not show code that warns
        # What other packages find outdated in one another is not shown to users.
        warnings.filterwarnings("ignore", category=DeprecationWarning, module="(?!eigengap)")
        doctest.DocTestRunner(optionflags=FLAGS).run(test, out=report.append)
    assert report == [], "".join(report)


@pytest.mark.parametrize("page", GUIDE, ids=_name)
def test_no_python_of_the_guide_escapes_the_tests(page) -> None:
    languages = {block[1] for block in BLOCK.finditer(page.read_text(encoding="utf-8"))}
    assert "python" not in languages


def _anchors(page: Path) -> set[str]:
    """What GitHub, and MyST after it, make of the headings of a page."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.M)
    titles = re.findall(r"^#+ +(.*)$", text, re.MULTILINE)
    kept = (re.sub(r"[^\w\- ]", "", title.replace("`", "").lower()) for title in titles)
    return {title.replace(" ", "-") for title in kept}


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_relative_links_lead_to_files_and_headings(page) -> None:
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.M)
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), f"{_name(page)} points to {link}, which is not there"
        if anchor:
            assert anchor in _anchors(target), f"{_name(page)}: {path} has no heading for #{anchor}"
