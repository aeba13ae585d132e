"""Tables, fits and pages that several files look at, made once; and a browser."""

from __future__ import annotations

import csv
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from tests.reporting.pages import HOSTILE, Parsed

import eigengap as eg
from eigengap.reporting import report

NOT_FEATURES = ("id", "diagnosis")


@pytest.fixture(scope="session")
def biopsies() -> pd.DataFrame:
    """The shipped table, with its text column and its 16 gaps."""
    with (resources.files("eigengap") / "data" / "breast_cancer_wisconsin.csv").open() as file:
        rows = list(csv.DictReader(file))
    frame = pd.DataFrame(rows)
    for name in frame.columns:
        if name != "diagnosis":
            frame[name] = pd.to_numeric(frame[name])
    return frame


@pytest.fixture(scope="session")
def features(biopsies: pd.DataFrame) -> list[str]:
    return [name for name in biopsies.columns if name not in NOT_FEATURES]


@pytest.fixture(scope="session")
def fitted(biopsies: pd.DataFrame, features: list[str]) -> Any:
    return eg.PPCA(3, scale=True).fit(biopsies[features])


@pytest.fixture(scope="session")
def written(fitted: Any, biopsies: pd.DataFrame, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of the shipped table."""
    return report(fitted, biopsies, tmp_path_factory.mktemp("report") / "biopsies.html")


@pytest.fixture(scope="session")
def parsed(written: Path) -> Parsed:
    return Parsed(written.read_text(encoding="utf-8"))


@pytest.fixture(scope="session")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report in which every name that a user's files can bring is an attack."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 2)) @ rng.normal(size=(2, 6)) + 0.3 * rng.normal(size=(80, 6))
    X[rng.random(X.shape) < 0.1] = np.nan
    frame = pd.DataFrame(X, columns=list(HOSTILE[:6]))
    frame[HOSTILE[6]] = rng.choice([*HOSTILE[:4], "__proto__", "toString", HOSTILE[8]], 80)
    frame[HOSTILE[7]] = [f"{HOSTILE[0]}{i}" for i in range(80)]
    folder = tmp_path_factory.mktemp("<img src=x onerror=alert(1)>")
    model = eg.PPCA(2).fit(frame[list(HOSTILE[:6])])
    provenance = {"command": HOSTILE[0], "data": HOSTILE[2], HOSTILE[3]: HOSTILE[1]}
    path = folder / '"><svg onload=alert(1)>.html'
    return report(model, frame, path, color=HOSTILE[6], title=HOSTILE[0], provenance=provenance)
