"""The real command in a process of its own: what it says, what it writes, how it ends."""

from __future__ import annotations

import csv
import os
import re
import subprocess
import sys
from importlib import resources
from pathlib import Path

import pytest

SHIPPED = resources.files("eigengap") / "data" / "breast_cancer_wisconsin.csv"
GAPS = 16


def run_python(*arguments: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    inherited = {k: v for k, v in os.environ.items() if k not in {"NO_COLOR", "FORCE_COLOR"}}
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=cwd,
        env={**inherited, "PYTHONIOENCODING": "utf-8", **environment},
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )


def run(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return run_python("-m", "eigengap", *arguments, cwd=cwd)


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> tuple[subprocess.CompletedProcess[str], Path]:
    folder = tmp_path_factory.mktemp("demo")
    return run("demo", cwd=folder), folder / "breast_cancer_filled.csv"


def test_it_says_what_was_read_chosen_fitted_filled_and_written(demo) -> None:
    ran, _ = demo
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout == ""
    labels = re.findall(r"^(\w+) ", ran.stderr, flags=re.MULTILINE)
    assert [label for label in labels if label != "Note"] == [
        "Read",
        "Chose",
        "Fit",
        "Filled",
        "Wrote",
        "Next",
    ]
    assert "699 rows x 9 numeric columns" in ran.stderr
    assert "16 cells missing (0.25 %), all in bare_nuclei" in ran.stderr
    assert "id and diagnosis" in ran.stderr
    assert re.search(r"^Chose  k = \d: \w+", ran.stderr, flags=re.MULTILINE)
    assert re.search(r"Fit .*\d+ steps, converged; log-likelihood per row −\d+\.\d\d", ran.stderr)
    assert re.search(r"^ +24  bare_nuclei  \d+\.\d\d ± \d\.\d\d$", ran.stderr, flags=re.MULTILINE)


def test_seen_cells_are_byte_identical_and_gaps_are_filled(demo) -> None:
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
    assert len(filled) == GAPS
    # The scores run from 1 to 10; a Gaussian model may overshoot a little, not wander off.
    assert all(0 < value < 11 for value in filled)


def test_filled_cells_follow_the_rest_of_the_row(demo) -> None:
    """Benign biopsies have few bare nuclei, malignant ones many, and the model was not told."""
    _, written = demo
    with SHIPPED.open(encoding="utf-8") as old, written.open(encoding="utf-8") as new:
        filled = [
            (row["diagnosis"], row["clump_thickness"], float(row["bare_nuclei"]))
            for was, row in zip(csv.DictReader(old), csv.DictReader(new), strict=True)
            if was["bare_nuclei"] == ""
        ]
    malignant = [value for diagnosis, _, value in filled if diagnosis == "malignant"]
    quiet = [value for _, clump, value in filled if clump == "1"]
    assert min(malignant) > 2 * max(quiet)


def test_it_does_not_overwrite_unless_forced(tmp_path: Path) -> None:
    (tmp_path / "mine.csv").write_text("precious")
    ran = run("demo", "--output", "mine.csv", cwd=tmp_path)
    assert ran.returncode == 3
    assert "mine.csv exists" in ran.stderr
    assert "--force" in ran.stderr
    assert (tmp_path / "mine.csv").read_text() == "precious"

    forced = run("demo", "--output", "mine.csv", "--force", cwd=tmp_path)
    assert forced.returncode == 0, forced.stderr
    assert (tmp_path / "mine.csv").read_text().startswith("id,clump_thickness")


def test_dash_writes_the_same_table_to_standard_output(demo, tmp_path: Path) -> None:
    _, written = demo
    ran = run("demo", "--output", "-", "--quiet", cwd=tmp_path)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout == written.read_text(encoding="utf-8")
    assert ran.stderr == ""
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_not_there_is_an_error_without_traceback(tmp_path: Path) -> None:
    ran = run("demo", "--output", "nowhere/filled.csv", cwd=tmp_path)
    assert ran.returncode == 4
    assert "there is no folder nowhere" in ran.stderr
    assert "Traceback" not in ran.stderr


def test_no_color_is_respected_even_where_colour_is_forced(tmp_path: Path) -> None:
    code = "from eigengap.cli.narration import Narrator; Narrator().say('Read', '3 rows')"
    coloured, plain = (
        run_python("-c", code, cwd=tmp_path, FORCE_COLOR="1", TERM="xterm", **no_color).stderr
        for no_color in ({}, {"NO_COLOR": "1"})
    )
    colour = re.compile(r"\x1b\[[\d;]*3\dm")
    assert colour.search(coloured)
    assert not colour.search(plain)
    assert "3 rows" in plain


@pytest.mark.parametrize("module", ["click", "rich", "pyarrow"])
def test_without_the_extra_it_says_what_to_install(module: str, tmp_path: Path) -> None:
    code = (
        f"import sys; sys.modules[{module!r}] = None; sys.argv = ['eigengap', 'demo']\n"
        "from eigengap.cli import main; main()"
    )
    ran = run_python("-c", code, cwd=tmp_path)
    assert ran.returncode == 6
    assert 'pip install "eigengap[cli]"' in ran.stderr
    assert "Traceback" not in ran.stderr
