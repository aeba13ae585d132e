"""Errors carry what they are about, so that a program can word them anew."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import eigengap as eg
from eigengap.exceptions import (
    ColumnChoiceError,
    DoesNotFitError,
    EmptyColumnError,
    ExistingFileError,
    InfiniteCellError,
    OverflowingCellError,
    RepeatedNameError,
    SentinelWarning,
    TooFewRowsError,
    UnreadableError,
    UnusableCellError,
    WeightError,
)
from eigengap.runtime.memory import require_pairs
from eigengap.runtime.warnings import captured
from eigengap.sources import as_source, open_sink, open_source, resolve_columns, warn_of_codes
from eigengap.sources.base import require_unique


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
    assert (error.row, error.column, error.name, error.value, error.count) == (
        2,
        1,
        None,
        np.inf,
        2,
    )
    error = caught(UnusableCellError, csv("a,b\n1,2\n3,-inf\n").collect)
    assert (error.row, error.column, error.name, error.value) == (1, 1, "b", -np.inf)
    assert error.where.endswith("t.csv")


def test_cells_too_large_to_be_squared():
    model = eg.PPCA(1).fit(np.random.default_rng(0).normal(size=(9, 2)))
    error = caught(OverflowingCellError, model.score_samples, [[1.0, 2.0], [3e200, 4.0]])
    assert (error.row, error.column, error.value) == (1, 0, 3e200)
    assert error.suggestions == {"missing_values": 3e200}


def test_columns_without_values_rows_and_names():
    X = np.array([[1.0, np.nan], [2.0, np.nan]])
    error = caught(EmptyColumnError, as_source(X).require_fit)
    assert (error.columns, error.names) == ((1,), None)
    error = caught(TooFewRowsError, as_source(X[:1]).require_fit)
    assert (error.count, error.needed) == (1, 2)
    error = caught(RepeatedNameError, require_unique, ("a", "b", "a"))
    assert (error.name, error.positions) == ("a", (0, 2))


def test_choices_of_columns(csv):
    error = caught(ColumnChoiceError, resolve_columns, ["heigth"], ["height", "age"], 2)
    assert (error.value, error.close) == ("heigth", ("height",))
    error = caught(UnreadableError, csv, "height,age\n1,2\n", columns=["heigth"])
    assert (error.value, error.suggestions) == ("heigth", {"columns": ("height",)})


def test_text_in_a_late_row(csv):
    rows = "".join(f"{i},{i}\n" for i in range(2000))
    error = caught(UnusableCellError, csv(f"a,b\n{rows}5%,1\n").collect)
    assert (error.line, error.column, error.name, error.value) == (2002, 0, "a", "5%")
    assert error.suggestions == {"missing_values": "5%", "columns": ["b"]}
    assert error.hint.startswith("It looks like a percentage")
    assert "missing_values" not in error.problem + error.hint


def test_columns_of_text(csv):
    error = caught(UnusableCellError, csv, "a,b,c\nx,1,2\ny,?,3\nz,4,5\n")
    assert [name for name, _ in error.columns] == ["a", "b"]
    assert error.suggestions == {"columns": ["c"], "missing_values": "?"}
    assert "columns=" not in error.problem


def test_lines_that_are_no_rows(csv):
    error = caught(UnreadableError, csv, "made by a logger\n# today\na,b\n1,2\n3,4\n")
    assert error.line == 3
    assert error.suggestions == {"skip_rows": 2}
    assert "skip_rows" not in error.problem + error.hint
    error = caught(UnreadableError, csv, "a,b\n1,2\n3\n4,5\n")
    assert (error.line, error.suggestions) == (3, {})
    assert error.hint == "Complete the line, or take it out"


def test_names_in_the_header(csv):
    error = caught(UnreadableError, csv, "a,b,a\n1,2,3\n4,5,6\n")
    assert (error.line, error.name, error.count) == (1, "a", 2)
    assert error.suggestions == {"columns": [0, 1]}
    error = caught(UnreadableError, csv, ",b,c\n1,2,3\n4,5,6\n")
    assert (error.column, error.suggestions) == (0, {"columns": [1, 2]})


def test_weights():
    error = caught(WeightError, as_source, np.eye(3), sample_weight=[1.0, -2.0, 1.0])
    assert (error.row, error.value) == (1, -2.0)


def test_files_and_memory(tmp_path):
    (tmp_path / "x.npy").write_text("there")
    with pytest.raises(ExistingFileError) as info:
        open_sink(tmp_path / "x.npy")
    assert info.value.is_replaceable
    (tmp_path / "y.npy").mkdir()
    with pytest.raises(ExistingFileError) as info:
        open_sink(tmp_path / "y.npy", force=True)
    assert not info.value.is_replaceable
    with pytest.raises(DoesNotFitError) as refused:
        require_pairs(10**6, "an exact fit", "use landmarks")
    assert refused.value.needed == 1.6e13
    assert refused.value.way_out == "use landmarks"


def test_a_captured_warning_has_fields():
    X = np.random.default_rng(0).normal(size=(300, 2))
    X[::10, 1] = -999.0
    with captured() as warned:
        warn_of_codes(as_source(X))
    assert [one.category for one in warned] == [SentinelWarning]
    assert warned[0].fields == {"suggestions": {"missing_values": [-999.0]}}
