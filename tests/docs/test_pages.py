"""The guide runs as printed, links between pages lead somewhere, prose uses the field's words."""

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
# Words that readers do not search for, each with what the field says instead.
HOMEMADE = {
    r"gaps?|gappy": "missing values",
    r"holes?": "missing regions",
    r"unseen|seen (?:cell|value|entr|residual|call|part|set)\w*": "missing, observed",
    r"(?:hidden|held-out) cells?|cells? (?:is|are|was|were) hidden": "held-out values",
    r"fill(?:s|ed|ing)?": "impute, imputation",
    r"told|foretold|foretells?": "reported, predicted",
    r"pictures?": "images",
    r"(?:odd|wild) (?:rows?|cells?|entr(?:y|ies))": "outliers, impulse noise",
    r"beside": "with, compared with",
    r"stands? out": "exceeds the noise level",
    r"intervals? (?:do not |does not |should )?(?:hold|holds|held)": "intervals cover",
    r"(?:is|are|was|were) missed by": "are predicted with an error of",
    r"known noise": "measurement error",
    r"Student rows": "multivariate t noise",
    r"crawls?": "converges slowly",
}
# Where such a word is the right one, the phrase that holds it.
LEGITIMATE = (
    "spectral gap",
    "duality gap",
    "fill value",  # of Zarr and HDF5
    "fill-in",  # of a factorisation
    "no holes",  # of a surface
    "have holes",
)
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


def _prose(page: Path) -> str:
    """A page without code, formulas and the targets of its links, line by line as it is."""
    blocks = r"^```.*?^```$|^\$\$\n.*?^\$\$$|(?<=\n\n)(?: {4}[^\n]*\n)+"
    spans = r"``.+?``|`[^`]+`|\$[^$\n]+\$|(?<=\])\([^)\s]+\)|<!--.*?-->"
    text = page.read_text(encoding="utf-8")
    for code, flags in ((blocks, re.DOTALL | re.MULTILINE), (spans, re.DOTALL)):
        text = re.sub(code, lambda found: "\n" * found[0].count("\n"), text, flags=flags)
    return text


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_prose_uses_the_words_that_the_field_searches_for(page) -> None:
    prose = _prose(page)
    for phrase in LEGITIMATE:
        prose = re.sub(rf"\b{phrase}s?\b", "", prose, flags=re.IGNORECASE)
    found = [
        f"{_name(page)}:{prose.count(chr(10), 0, word.start()) + 1}: {word[0]!r}; say {instead}"
        for homemade, instead in HOMEMADE.items()
        for word in re.finditer(rf"\b(?:{homemade})\b", prose, re.IGNORECASE)
    ]
    assert found == [], "\n".join(found)
