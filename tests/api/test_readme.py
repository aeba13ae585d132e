"""What the README shows in Python runs as it stands."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pandas

import eigengap

README = Path(__file__).parents[2] / "README.md"
PYTHON = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)


def test_the_python_of_the_readme_does_what_its_comments_say(capsys, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    any_table, code, met, more, large = PYTHON
    shown: dict[str, np.ndarray] = {}
    exec(any_table, shown)
    said, printed = any_table.splitlines()[-1].removeprefix("# "), capsys.readouterr().out.strip()
    share, rest = said.split("%")
    assert printed.endswith(rest)
    # Of 100 diagnoses one may be as probable as not: rounding decides it.
    assert abs(int(share) - int(printed.split("%")[0])) <= 1
    exec(code, shown)
    X = shown["X"]
    gone = np.isnan(X)
    assert shown["Z"].shape == (len(X), 2)
    assert shown["logp"].shape == (len(X),)
    np.testing.assert_array_equal(shown["filled"][~gone], X[~gone])
    np.testing.assert_array_equal(shown["sd"][~gone], 0)
    assert np.all(shown["sd"][gone] > 0)
    printed = capsys.readouterr().out
    assert printed.strip() == code.splitlines()[-1].removeprefix("# ")
    _run_what_people_meet(met, shown)
    summary, full, why, table = (eval(line, shown) for line in more.strip().splitlines())
    assert summary.startswith("k = ")
    np.testing.assert_array_equal(full[~gone], X[~gone])
    assert not np.isnan(full).any()
    assert "expected" in str(why[0])
    assert len(table.names) == 3
    _run_on_files(large, shown)


def _run_what_people_meet(code: str, shown: dict[str, np.ndarray]) -> None:
    exec(code, shown)
    assert "PPCA" in Path("report.html").read_text(encoding="utf-8")
    again = eigengap.load("model.egap")
    np.testing.assert_array_equal(again.transform(shown["X"]), shown["Z"])


def _run_on_files(code: str, shown: dict[str, np.ndarray]) -> None:
    """The table of the README in two files."""
    columns = ["sepal length", "sepal width", "petal length", "petal width"]
    Path("runs").mkdir()
    for k, part in enumerate(np.array_split(shown["X"], 2)):
        pandas.DataFrame(part, columns=columns).to_parquet(f"runs/{k}.parquet")
    exec(code, shown)
    filled = pandas.read_parquet("filled.parquet")
    assert list(filled.columns) == columns
    np.testing.assert_allclose(filled, shown["filled"], rtol=1e-6)
    assert not Path("fit.egck").exists()


def test_files_that_the_readme_points_to_exist() -> None:
    links = re.findall(r"\]\(([^)#:]+)\)", README.read_text(encoding="utf-8"))
    assert links
    assert [link for link in links if not (README.parent / link).exists()] == []
