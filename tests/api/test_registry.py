"""The registry names what there is, and everything that lists estimators agrees with it."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import eigengap
from eigengap import plots, registry
from eigengap.persistence import kinds, schema
from eigengap.registry import ESTIMATORS

ROOT = Path(__file__).parents[2]
FOLDER = Path(eigengap.__file__).parent / "estimators"


@pytest.mark.parametrize("entry", ESTIMATORS, ids=lambda entry: entry.name)
def test_an_entry_names_a_class_its_charts_and_its_command(entry) -> None:
    cls = getattr(eigengap, entry.name)
    assert (cls.__module__, cls.__name__) == (entry.home, entry.name)
    assert hasattr(cls, "fit")
    assert set(entry.charts) <= set(plots.__all__)
    assert ("trace" in entry.charts) or not entry.objective
    assert re.fullmatch(r"[a-z]+(-[a-z]+)*", entry.command)
    assert kinds.kind_of(cls) is kinds.ESTIMATORS[entry.name]


def test_names_and_commands_are_unique() -> None:
    assert len(registry.BY_NAME) == len(registry.BY_COMMAND) == len(ESTIMATORS)


def test_every_estimator_is_registered() -> None:
    public = re.compile(r"^class ([A-Z]\w+)\(.*\):", re.MULTILINE)
    found = {
        name
        for path in FOLDER.glob("[!_]*.py")
        for name in public.findall(path.read_text(encoding="utf-8"))
        if hasattr(getattr(eigengap, name, None), "fit")
    }
    assert found == set(registry.BY_NAME)


def test_type_checkers_see_the_same_estimators() -> None:
    tree = ast.parse(Path(registry.__file__).read_text(encoding="utf-8"))
    seen = {
        (f"{node.module}", alias.name, alias.asname)
        for block in tree.body
        if isinstance(block, ast.If)
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert seen == {(entry.home, entry.name, entry.name) for entry in ESTIMATORS}


def test_checks_of_model_files_are_of_registered_estimators() -> None:
    assert set(schema.ESTIMATORS) <= set(kinds.ESTIMATORS)


def test_the_reference_lists_every_family() -> None:
    page = (ROOT / "docs" / "api.rst.in").read_text(encoding="utf-8")
    families = {entry.family for entry in ESTIMATORS}
    assert set(re.findall(r"^   @(\w+)@$", page, re.MULTILINE)) == families
