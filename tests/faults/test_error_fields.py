"""Errors carry what they are about as fields, also when they come from another process."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import eigengap as eg
from eigengap.exceptions import (
    DataError,
    InfiniteCellError,
    OverflowingCellError,
    UnreadableError,
)
from eigengap.sources.base import require_unique
from eigengap.sources.checks import resolve_columns
from eigengap.sources.conversion import as_source
from eigengap.sources.opening import open_source


def caught(kind, fn, *args, **kwargs):
    with pytest.raises(kind) as info:
        fn(*args, **kwargs)
    error = info.value
    copy = pickle.loads(pickle.dumps(error))  # as it comes from a worker
    assert str(copy) == str(error)
    assert copy.__dict__ == error.__dict__
    return error


@pytest.fixture
def csv(tmp_path):
    def opened(text, **how):
        path = tmp_path / "t.csv"
        path.write_text(text)
        return open_source(path, **how)

    return opened


def test_infinite_cells(csv):
    X = np.zeros((4, 3))
    X[2, 1] = X[3, 1] = np.inf
    error = caught(InfiniteCellError, as_source, X)
    assert (error.row, error.column, error.name, error.value) == (2, 1, None, np.inf)
    error = caught(UnreadableError, csv("a,b\n1,2\n3,-inf\n").collect)
    assert (error.row, error.column, error.name, error.value) == (1, 1, "b", -np.inf)
    assert error.in_cells
    assert error.where.endswith("t.csv")


def test_cells_too_large_to_be_squared():
    model = eg.PPCA(1).fit(np.random.default_rng(0).normal(size=(9, 2)))
    error = caught(OverflowingCellError, model.score_samples, [[1.0, 2.0], [3e200, 4.0]])
    assert (error.row, error.column, error.value) == (1, 0, 3e200)


def test_columns_and_weights():
    X = np.array([[1.0, np.nan], [2.0, np.nan]])
    assert caught(DataError, as_source(X).require_fit).column == 1
    assert caught(DataError, require_unique, ("a", "b", "a")).name == "a"
    assert caught(DataError, resolve_columns, ["heigth"], ["height", "age"], 2).value == "heigth"
    error = caught(DataError, as_source, np.eye(3), sample_weight=[1.0, -2.0, 1.0])
    assert (error.row, error.value) == (1, -2.0)


def test_text(csv):
    rows = "".join(f"{i},{i}\n" for i in range(2000))
    error = caught(UnreadableError, csv(f"a,b\n{rows}5%,1\n").collect)
    assert (error.line, error.column, error.name, error.value) == (2002, 0, "a", "5%")
    assert error.in_cells
    error = caught(UnreadableError, csv, "a,b,c\nx,1,2\ny,?,3\nz,4,5\n")
    assert (error.value, error.in_cells) == ("?", True)


def test_lines_and_names(csv):
    error = caught(UnreadableError, csv, "a,b\n1,2\n3\n4,5\n")
    assert (error.line, error.in_cells) == (3, False)
    error = caught(UnreadableError, csv, "a,b,a\n1,2,3\n4,5,6\n")
    assert (error.line, error.name) == (1, "a")
    error = caught(UnreadableError, csv, ",b,c\n1,2,3\n4,5,6\n")
    assert (error.line, error.column) == (1, 0)
