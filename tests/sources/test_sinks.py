"""What is written reads back; what is not complete is not there."""

from __future__ import annotations

import csv
import errno
import os
import sys
import warnings

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from eigengap.exceptions import MissingExtraError, RoundedWarning
from eigengap.sources.opening import open_source
from eigengap.sources.sinks import base, formats, open_sink

KINDS = ["npy", "csv", "csv.gz", "parquet", "zarr", "h5"]
NAMES = ("a", "b c", "größe")


@pytest.fixture
def X() -> np.ndarray:
    X = np.random.default_rng(0).normal(size=(101, 3)) * [1, 1e-200, 1e200]
    X[7, 1] = X[-1] = np.nan
    return X


def write(path, X, names=NAMES, step=13, **options):
    with open_sink(path, names, **options) as sink:
        for start in range(0, len(X), step):
            sink.append(X[start : start + step])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("step", [1, 13, 1000])
@pytest.mark.parametrize("gathered", [1, base.GATHERED], ids=["small", "large"])
def test_what_is_written_reads_back(tmp_path, X, kind, step, gathered, monkeypatch):
    monkeypatch.setattr(base, "GATHERED", gathered)
    monkeypatch.setattr(formats, "ZARR_CHUNK", 500)
    monkeypatch.setattr(formats, "GROUP", 500)
    write(tmp_path / f"x.{kind}", X, step=step)
    source = open_source(tmp_path / f"x.{kind}")
    assert source.names == (None if kind == "npy" else NAMES)
    np.testing.assert_array_equal(source.collect(), X)
    assert os.listdir(tmp_path) == [f"x.{kind}"]


@pytest.mark.parametrize("kind", ["npy", "parquet", "zarr", "h5", "csv"])
def test_float32_stays(tmp_path, X, kind):
    X = np.float32(np.random.default_rng(1).normal(size=(20, 3)))
    write(tmp_path / f"x.{kind}", X)
    source = open_source(tmp_path / f"x.{kind}")
    assert source.dtype == (np.float64 if kind == "csv" else np.float32)
    np.testing.assert_array_equal(source.collect().astype(np.float32), X)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [np.float64, np.int32, np.int64, np.longdouble])
def test_wider_rows_after_float32_are_refused_and_not_rounded(tmp_path, kind, dtype):
    sink = open_sink(tmp_path / f"x.{kind}")
    sink.append(np.ones((1, 1), dtype=np.float32))
    with (
        pytest.raises(ValueError, match=r"before row 1 .* are float32, .* Append all of them as"),
        sink,
    ):
        sink.append(np.array([[2**24 + 1]], dtype=dtype))
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [np.float16, np.int16, np.bool_])
def test_narrower_rows_after_float32_are_taken(tmp_path, kind, dtype):
    with open_sink(tmp_path / f"x.{kind}") as sink:
        sink.append(np.full((1, 1), 0.5, dtype=np.float32))
        sink.append(np.ones((1, 1), dtype=dtype))
    assert open_source(tmp_path / f"x.{kind}").collect().ravel().tolist() == [0.5, 1.0]


def test_float32_after_wider_rows_is_widened(tmp_path):
    with open_sink(tmp_path / "x.npy") as sink:
        sink.append(np.array([[1e300]]))
        sink.append(np.ones((1, 1), dtype=np.float32))
    np.testing.assert_array_equal(np.load(tmp_path / "x.npy"), [[1e300], [1.0]])


@pytest.mark.skipif(np.finfo(np.longdouble).max == np.finfo(float).max, reason="no wider type")
def test_a_number_beyond_float64_is_refused(tmp_path):
    with (
        pytest.raises(ValueError, match="too large for float64"),
        open_sink(tmp_path / "x.npy") as sink,
    ):
        sink.append(np.array([["1e4000"]]).astype(np.longdouble))


@pytest.mark.parametrize("kind", KINDS)
def test_integers_beyond_2_to_53_are_rounded_with_one_warning(tmp_path, kind):
    with open_sink(tmp_path / f"x.{kind}", ["id", "x"]) as sink:
        sink.append(np.array([[1, 2], [3, 4]]))
        with pytest.warns(RoundedWarning, match=r'column "id" .* beyond 2\^53 .at row 2'):
            sink.append(np.array([[2**53 + 1, 2]]))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            sink.append(np.array([[2**53 + 1, 2]]))


def test_others_read_it_too(tmp_path, X):
    for kind in KINDS[:4]:
        write(tmp_path / f"x.{kind}", X)
    np.testing.assert_array_equal(np.load(tmp_path / "x.npy"), X)
    frame = pd.read_csv(tmp_path / "x.csv", float_precision="round_trip")
    assert tuple(frame.columns) == NAMES
    np.testing.assert_allclose(frame, X, rtol=1e-15)
    np.testing.assert_allclose(
        pd.read_csv(tmp_path / "x.csv.gz", float_precision="round_trip"), X, rtol=1e-15
    )
    table = pq.read_table(tmp_path / "x.parquet")
    assert table.column("b c").null_count == 2


@pytest.mark.parametrize("kind", KINDS)
def test_one_column_with_missing(tmp_path, kind):
    X = np.array([[1.0], [np.nan], [np.nan], [2.0], [np.nan]])
    write(tmp_path / f"x.{kind}", X, names=["only"])
    np.testing.assert_array_equal(open_source(tmp_path / f"x.{kind}").collect(), X)


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    arrays(
        np.float64,
        st.tuples(st.integers(1, 6), st.integers(1, 3)),
        elements=st.floats(allow_infinity=False),
    )
)
def test_text_reads_back_to_the_last_digit(tmp_path, X):
    write(tmp_path / "x.csv", X, names=[f"c{j}" for j in range(X.shape[1])], force=True)
    found = open_source(tmp_path / "x.csv").collect()
    np.testing.assert_array_equal(found, X)


@pytest.mark.parametrize("kind", ["csv", "parquet", "zarr", "h5"])
def test_very_many_columns(tmp_path, kind):
    names = tuple(f"gene_{j:010d}" for j in range(6000))
    X = np.arange(12_000.0).reshape(2, 6000)
    write(tmp_path / f"x.{kind}", X, names=names)
    source = open_source(tmp_path / f"x.{kind}")
    assert source.names == names
    np.testing.assert_array_equal(source.collect(), X)


# T32 -----------------------------------------------------------------------------------------


def test_headers_that_look_like_formulas_are_made_harmless(tmp_path):
    names = ["=1+1", "+a", "-b", "@c", "\td", "\re", "f=g", "plain"]
    write(tmp_path / "x.csv", np.full((2, 8), -1.5), names=names)
    with (tmp_path / "x.csv").open(newline="") as file:
        rows = list(csv.reader(file))
    assert rows[0] == ["'=1+1", "'+a", "'-b", "'@c", "'\td", "'\re", "f=g", "plain"]
    assert rows[1:] == [["-1.5"] * 8] * 2


@pytest.mark.parametrize("names", [("2001", "2002"), ("1", ""), ("x", "y,z"), ('a"b', "c\nd")])
def test_any_names_read_back_from_csv(tmp_path, names):
    X = np.array([[1.0, 2.0]])
    write(tmp_path / "x.csv", X, names=names)
    source = open_source(tmp_path / "x.csv", columns=[0, 1])
    assert source.names == names
    np.testing.assert_array_equal(source.collect(), X)


def test_without_names(tmp_path):
    X = np.array([[1.0, 2.0]])
    for kind in KINDS:
        write(tmp_path / f"x.{kind}", X, names=None)
        source = open_source(tmp_path / f"x.{kind}")
        assert source.names == (("0", "1") if kind == "parquet" else None)
        np.testing.assert_array_equal(source.collect(), X)


# Complete or not there -----------------------------------------------------------------------


class Interrupted(BaseException):
    pass


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, Interrupted])
@pytest.mark.parametrize("rows", [0, 20], ids=["at-once", "half-way"])
def test_nothing_is_left_of_what_failed(tmp_path, X, kind, error, rows, monkeypatch):
    monkeypatch.setattr(base, "GATHERED", 1)

    def fail():
        with open_sink(tmp_path / f"x.{kind}", NAMES) as sink:
            if rows:
                sink.append(X[:rows])
            assert not (tmp_path / f"x.{kind}").exists()
            raise error

    with pytest.raises(error):
        fail()
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_there_stays_until_the_new_one_is_complete(tmp_path, X, kind):
    path = tmp_path / f"x.{kind}"
    write(path, X)
    with pytest.raises(FileExistsError, match="force=True"):
        open_sink(path, NAMES)

    def fail():
        with open_sink(path, NAMES, force=True) as sink:
            sink.append(X[:5])
            raise ValueError

    with pytest.raises(ValueError):  # noqa: PT011
        fail()
    np.testing.assert_array_equal(open_source(path).collect(), X)
    write(path, X[:9], force=True)
    np.testing.assert_array_equal(open_source(path).collect(), X[:9])
    assert os.listdir(tmp_path) == [f"x.{kind}"]


def test_a_file_that_appears_meanwhile_is_not_replaced(tmp_path, X):
    def late():
        with open_sink(tmp_path / "x.npy") as sink:
            sink.append(X)
            (tmp_path / "x.npy").write_text("mine")

    with pytest.raises(FileExistsError):
        late()
    assert (tmp_path / "x.npy").read_text() == "mine"
    assert os.listdir(tmp_path) == ["x.npy"]


def test_a_link_stays_a_link(tmp_path, X):
    write(tmp_path / "real.npy", X)
    (tmp_path / "link.npy").symlink_to(tmp_path / "real.npy")
    write(tmp_path / "link.npy", X[:4], force=True)
    assert (tmp_path / "link.npy").is_symlink()
    assert len(np.load(tmp_path / "real.npy")) == 4


def test_permissions_are_those_of_any_new_file(tmp_path, X):
    old = os.umask(0o027)
    try:
        write(tmp_path / "x.parquet", X)
    finally:
        os.umask(old)
    assert (tmp_path / "x.parquet").stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize("kind", KINDS)
def test_errors_of_the_system_name_the_path(tmp_path, X, kind, monkeypatch):
    path = tmp_path / f"x.{kind}"
    sink = open_sink(path, NAMES)

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device", "/some/temporary/name")

    monkeypatch.setattr(sink, "_write", full)
    with pytest.raises(OSError, match="nothing was written under this name") as caught, sink:
        sink.append(X)
    assert caught.value.errno == errno.ENOSPC
    assert caught.value.filename == str(path)
    assert os.listdir(tmp_path) == []


def test_what_cannot_be_written_is_told(tmp_path, X):
    with pytest.raises(ValueError, match="ends in none of"):
        open_sink(tmp_path / "x.txt")
    with pytest.raises(FileNotFoundError, match="folder does not exist"):
        open_sink(tmp_path / "no" / "x.csv")
    with pytest.raises(ValueError, match="nothing was appended"), open_sink(tmp_path / "x.csv"):
        pass
    sink = open_sink(tmp_path / "x.csv")
    sink.append(X)
    with pytest.raises(ValueError, match="has 3 columns, and row 101 on has 2"), sink:
        sink.append(X[:, :2])
    with pytest.raises(ValueError, match='"a" occurs twice'):
        write(tmp_path / "x.csv", X, names=["a", "b", "a"])
    with pytest.raises(ValueError, match="real numbers"):
        write(tmp_path / "x.csv", np.array([["a"]]), names=["a"])
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    ("kind", "package"),
    [("csv", "pyarrow"), ("parquet", "pyarrow"), ("zarr", "zarr"), ("h5", "h5py")],
)
def test_a_missing_package_is_named_with_its_extra(tmp_path, X, kind, package, monkeypatch):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtraError, match=rf"needs {package}.*eigengap\[files\]"):
        write(tmp_path / f"x.{kind}", X)
    assert os.listdir(tmp_path) == []
