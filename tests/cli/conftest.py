"""A small gappy table, and a model of it that is fitted once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.cli.running import call

NAMES = ("a", "b", "c", "d")


def cells(n: int = 40, seed: int = 0, share: float = 0.1) -> list[list[str]]:
    """Rows of a table of rank 2 as text; every column and row shows something."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2)) @ rng.normal(size=(2, 4)) + 0.1 * rng.normal(size=(n, 4))
    missing = rng.random(X.shape) < share
    missing[:3] = False
    missing[np.arange(n), rng.integers(4, size=n)] = False
    return [
        ["" if gone else f"{value:.3f}" for value, gone in zip(row, hidden, strict=True)]
        for row, hidden in zip(X, missing, strict=True)
    ]


def as_csv(rows, names=NAMES, separator=",", newline="\n") -> bytes:
    lines = [separator.join(row) for row in ([list(names)] if names else []) + list(rows)]
    return (newline.join(lines) + newline).encode()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A new folder that is the current one, with table.csv in it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "table.csv").write_bytes(as_csv(cells()))
    return tmp_path


@pytest.fixture(scope="session")
def fitted_once(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A model of table.csv with two components."""
    place = tmp_path_factory.mktemp("model")
    (place / "table.csv").write_bytes(as_csv(cells()))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        ran = call("fit", "table.csv", "-k", "2", "-o", "m.egap")
    assert ran.code == 0, ran.err
    return (place / "m.egap").read_bytes()


@pytest.fixture
def model(folder: Path, fitted_once: bytes) -> Path:
    """m.egap beside table.csv."""
    (folder / "m.egap").write_bytes(fitted_once)
    return folder / "m.egap"


@pytest.fixture(scope="session")
def predictors(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """A classifier of `kinds`, which goes by column a, and a regressor of column d."""
    place = tmp_path_factory.mktemp("predictors")
    kinds = ["high" if float(row[0] or 0) > 0 else "low" for row in cells()]
    both = [[*row, kind] for row, kind in zip(cells(), kinds, strict=True)]
    (place / "t.csv").write_bytes(as_csv(both, [*NAMES, "kind"]))
    found: dict[str, Any] = {"kinds": kinds}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        for name, columns in (
            ("classifier", ("--target", "kind")),
            ("regressor", ("--target", "d", "--ignore", "kind")),
        ):
            ran = call("fit", "t.csv", "-m", name, "-k", "1", *columns, "-o", f"{name}.egap")
            assert ran.code == 0, ran.err
            found[name] = (place / f"{name}.egap").read_bytes()
    return found
