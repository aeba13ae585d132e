"""What the README shows in Python runs as it stands."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

import eigengap

README = Path(__file__).parents[2] / "README.md"
PYTHON = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)


def test_the_python_of_the_readme_does_what_its_comments_say(capsys, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    any_table, code, met = PYTHON
    shown: dict[str, np.ndarray] = {}
    exec(any_table, shown)
    said, printed = any_table.splitlines()[-1].removeprefix("# "), capsys.readouterr().out.strip()
    share, rest = said.split("%")
    assert printed.endswith(rest)
    # Fits that stop early end at other places with other kernels: one of 70 diagnoses may differ.
    assert abs(int(share) - int(printed.split("%")[0])) <= 2
    exec(code, shown)
    X = shown["X"]
    gone = np.isnan(X)
    assert shown["Z"].shape == (len(X), 2)
    assert shown["logp"].shape == (len(X),)
    np.testing.assert_array_equal(shown["imputed"][~gone], X[~gone])
    np.testing.assert_array_equal(shown["sd"][~gone], 0)
    assert np.all(shown["sd"][gone] > 0)
    printed = capsys.readouterr().out
    assert printed.strip() == code.splitlines()[-1].removeprefix("# ")
    _run_what_people_meet(met, shown)


def _run_what_people_meet(code: str, shown: dict[str, np.ndarray]) -> None:
    exec(code, shown)
    assert "PPCA" in Path("report.html").read_text(encoding="utf-8")
    again = eigengap.load("model.egap")
    np.testing.assert_array_equal(again.transform(shown["X"]), shown["Z"])


def test_it_is_one_screen_and_no_manual() -> None:
    assert len(README.read_text(encoding="utf-8").split()) < 900


def test_files_that_the_readme_points_to_exist() -> None:
    links = re.findall(r"\]\(([^)#:]+)\)", README.read_text(encoding="utf-8"))
    assert links
    assert [link for link in links if not (README.parent / link).exists()] == []
