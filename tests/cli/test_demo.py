"""The demonstration: what it says, what it writes, and that it ends with a report."""

from __future__ import annotations

import csv
import re
from importlib import resources
from pathlib import Path

import numpy as np
import pytest
from tests.cli.running import Ran, call

SHIPPED = resources.files("eigengap") / "data" / "breast_cancer_wisconsin.csv"
MISSING = 16


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> tuple[Ran, Path]:
    folder = tmp_path_factory.mktemp("demo")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        return call("demo"), folder / "breast_cancer_filled.csv"


def test_it_says_what_was_read_chosen_fitted_filled_and_written(demo) -> None:
    ran, _ = demo
    assert ran.code == 0, ran.err
    assert ran.out == b""
    labels = re.findall(r"^(\w+) ", ran.err, flags=re.MULTILINE)
    assert [label for label in labels if label != "Note"] == [
        "Read",
        "Columns",
        "Chose",
        "Fit",
        "Imputed",
        "Wrote",
        "Wrote",
        "Next",
    ]
    assert "699 rows x 10 columns" in ran.err
    assert "16 cells missing (0.23 %), all in bare_nuclei" in ran.err
    assert "Columns 9 ordinal, 1 binary\n" in ran.err
    assert re.search(r"^Chose   .*, \d components: held-out values", ran.err, flags=re.MULTILINE)
    assert re.search(r"^Fit     LowRankImputer, k = \d$", ran.err, flags=re.MULTILINE)
    assert re.search(r"^ +24  bare_nuclei  \d\.\d+ ± \d\.\d$", ran.err, flags=re.MULTILINE)


def test_observed_cells_are_byte_identical_and_missing_are_filled(demo) -> None:
    _, written = demo
    before = SHIPPED.read_bytes().split(b"\n")
    after = written.read_bytes().split(b"\n")
    assert len(after) == len(before)
    filled = []
    for old, new in zip(before, after, strict=True):
        for old_cell, new_cell in zip(old.split(b","), new.split(b","), strict=True):
            if old_cell == b"" and old != b"":
                filled.append(float(new_cell))
            else:
                assert new_cell == old_cell
    assert len(filled) == MISSING
    assert set(filled) <= set(range(1, 11))  # the scores run from 1 to 10


def test_filled_cells_follow_the_rest_of_the_row(demo) -> None:
    """Benign biopsies have few bare nuclei, malignant ones many."""
    _, written = demo
    with SHIPPED.open(encoding="utf-8") as old, written.open(encoding="utf-8") as new:
        filled = [
            (row["diagnosis"], row["clump_thickness"], float(row["bare_nuclei"]))
            for was, row in zip(csv.DictReader(old), csv.DictReader(new), strict=True)
            if was["bare_nuclei"] == ""
        ]
    malignant = [value for diagnosis, _, value in filled if diagnosis == "malignant"]
    quiet = [value for _, clump, value in filled if clump == "1"]
    assert min(malignant) >= 2 * np.median(quiet)


def test_it_ends_with_a_report(demo) -> None:
    _, written = demo
    report = (written.parent / "report.html").read_text(encoding="utf-8")
    assert report.lower().startswith("<!doctype html")
    assert "bare_nuclei" in report
    assert len(report) < 3_000_000
    assert sorted(path.name for path in written.parent.iterdir()) == [
        "breast_cancer_filled.csv",
        "report.html",
    ]


def test_it_does_not_overwrite_unless_forced(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.csv").write_text("precious")
    Path("report.html").write_text("precious")
    for names in (("-o", "mine.csv", "--no-report"), ("-o", "other.csv")):
        ran = call("demo", *names)
        assert ran.code == 3
        assert "--force" in ran.err
    assert Path("mine.csv").read_text() == Path("report.html").read_text() == "precious"
    assert not Path("other.csv").exists()
    forced = call("demo", "--output", "mine.csv", "--no-report", "--force")
    assert forced.code == 0, forced.err
    assert Path("mine.csv").read_text().startswith("id,clump_thickness")


def test_dash_writes_the_same_table_to_standard_output(demo, tmp_path: Path, monkeypatch) -> None:
    _, written = demo
    monkeypatch.chdir(tmp_path)
    ran = call("demo", "--output", "-", "--quiet", "--no-report")
    assert ran.code == 0, ran.err
    assert ran.out == written.read_bytes()
    assert ran.err == ""
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_not_there_is_an_error_without_traceback(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    ran = call("demo", "--output", "nowhere/filled.csv")
    assert ran.code == 4
    assert "there is no folder nowhere" in ran.err
