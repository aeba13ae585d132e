"""The table of lowest versions, the classifiers and the source archive say what pyproject does."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PROJECT = PYPROJECT["project"]
PAGE = (ROOT / "docs" / "project" / "requirements.md").read_text(encoding="utf-8")
PINNED = ("ruff", "mypy", "import-linter")


def bound(requirement: str) -> tuple[str, str]:
    """('dask', '2025.1') of 'dask[array]>=2025.1'."""
    found = re.fullmatch(r"([\w-]+)(?:\[[^]]*\])?>=([\d.]+)", requirement)
    assert found, f"{requirement!r} has no lowest version"
    return found[1], found[2]


def declared() -> dict[str, tuple[str, set[str]]]:
    """Lowest version of each package, and the extras that bring it."""
    extras = {
        name: needs
        for name, needs in PROJECT["optional-dependencies"].items()
        if name not in ("all", "test", "docs", "bench")
    }
    table: dict[str, tuple[str, set[str]]] = {}
    for extra, needs in {"always": PROJECT["dependencies"], **extras}.items():
        for package, version in map(bound, needs):
            lowest, brings = table.setdefault(package, (version, set()))
            assert lowest == version, f"two lowest versions of {package}"
            brings.add(extra)
    return table


def test_the_table_holds_the_bounds_of_pyproject():
    rows = re.findall(r"^\| ([\w-]+) \| ([\d.]+) \| (.+) \|$", PAGE, re.MULTILINE)
    shown = {name: (low, set(re.findall(r"[\w-]+", uses))) for name, low, uses in rows}
    assert shown == declared()


def test_classifiers_name_the_versions_of_python_that_the_page_names():
    of_classifiers = re.findall(r"Python :: (3\.\d+)", "\n".join(PROJECT["classifiers"]))
    assert re.findall(r"3\.\d+", PAGE.splitlines()[2]) == of_classifiers
    assert PROJECT["requires-python"] == f">={of_classifiers[0]}"


@pytest.mark.parametrize("tool", PINNED)
def test_what_judges_the_style_is_pinned(tool):
    assert any(
        re.fullmatch(rf"{tool}==[\d.]+", r) for r in PROJECT["optional-dependencies"]["test"]
    )


def test_the_source_archive_holds_what_tests_and_pages_read():
    """Each top-level name that a test, a page or the Makefile builds a path from."""
    sdist = PYPROJECT["tool"]["hatch"]["build"]["targets"]["sdist"]
    archived = {name.strip("/") for name in sdist["include"]}
    archived |= {"README.md", "LICENSE", "pyproject.toml"}  # hatchling adds them by itself
    here = {path.name for path in ROOT.iterdir() if not path.name.startswith(".")}
    readers = [*ROOT.glob("tests/**/*.py"), *ROOT.glob("docs/**/*.md"), ROOT / "docs" / "conf.py"]
    named = re.compile(r'(?:(?:ROOT|parents\[2\]) / "|\]\((?:\.\./)+)([\w.]+)')
    text = "\n".join(path.read_text(encoding="utf-8") for path in readers)
    read = set(named.findall(text)) & here
    assert {"examples", "CONTRIBUTING.md"} <= read
    assert read <= archived
