"""The report of a pipeline: its last step, on what the steps before hand over."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from tests.reporting.pages import Parsed

import eigengap as eg
from eigengap.reporting import report

RNG = np.random.default_rng(0)
ROWS = RNG.standard_normal((60, 2)) @ RNG.standard_normal((2, 4)) + RNG.standard_normal((60, 4))
FRAME = pd.DataFrame(ROWS * [1.0, 100.0, 0.1, 5.0], columns=["mass", "length", "width", "age"])


def text_of(pipeline: Any, X: Any, folder: Path, **how: Any) -> str:
    return Parsed(report(pipeline, X, folder / "r.html", **how).read_text(encoding="utf-8")).text


def test_the_last_step_is_reported_on_what_it_gets(tmp_path: Path) -> None:
    pipeline = make_pipeline(StandardScaler(), eg.PCA(2)).fit(FRAME)
    text = text_of(pipeline, FRAME, tmp_path)
    assert "PCA is the last step of a pipeline" in text
    assert "StandardScaler" in text
    assert all(name in text for name in FRAME)
    scaled = StandardScaler().fit_transform(FRAME)
    alone = eg.PCA(2).fit(pd.DataFrame(scaled, columns=FRAME.columns))
    own = text_of(alone, pd.DataFrame(scaled, columns=FRAME.columns), tmp_path)
    share = f"{100 * np.sum(alone.explained_variance_ratio_):.0f} %"
    assert share in own
    assert share in text


@pytest.mark.parametrize("make", [np.asarray, pd.DataFrame], ids=["array", "frame"])
@pytest.mark.parametrize(
    "last",
    [
        eg.PPCA(2),
        eg.Isomap(n_neighbors=8),
        eg.MixturePPCA(2, n_components=1, random_state=0),
    ],
    ids=lambda last: type(last).__name__,
)
def test_any_table_and_last_step(make: Any, last: Any, tmp_path: Path) -> None:
    X = make(ROWS)
    pipeline = make_pipeline(StandardScaler(), last).fit(X)
    assert "last step of a pipeline" in text_of(pipeline, X, tmp_path)


def test_points_are_coloured_by_a_column_of_the_first_table(tmp_path: Path) -> None:
    pipeline = make_pipeline(StandardScaler(), eg.PCA(2)).fit(FRAME)
    assert text_of(pipeline, FRAME, tmp_path, color="age")


def test_a_pipeline_of_one_step_is_that_step(tmp_path: Path) -> None:
    fitted = make_pipeline(eg.PCA(2)).fit(FRAME)
    assert text_of(fitted, FRAME, tmp_path) == text_of(fitted[-1], FRAME, tmp_path)


def test_what_cannot_be_shown_is_refused_in_words(tmp_path: Path) -> None:
    unfitted = make_pipeline(StandardScaler(), eg.PCA(2))
    with pytest.raises(ValueError, match="PCA is not fitted yet"):
        report(unfitted, FRAME, tmp_path / "r.html")
    ended = make_pipeline(eg.PCA(2), "passthrough").fit(FRAME)
    with pytest.raises(ValueError, match=r"'passthrough'.*pipeline\[:k\]"):
        report(ended, FRAME, tmp_path / "r.html")
    with pytest.raises(ValueError, match="table in memory"):
        report(unfitted.fit(FRAME), "table.csv", tmp_path / "r.html")
