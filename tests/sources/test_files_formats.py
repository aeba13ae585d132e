"""One table in every format: what is read is the table, whole, in order, in blocks of any size."""

from __future__ import annotations

import gzip
import sys
import tracemalloc
from decimal import Decimal
from pathlib import Path

import h5py
import numpy as np
import pandas
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zarr

from eigengap.exceptions import MissingExtraError, UnreadableError
from eigengap.sources.conversion import as_source
from eigengap.sources.files import parquet
from eigengap.sources.opening import open_source
from eigengap.statistics.moments import Moments

N, D = 97, 4
NAMES = ("a", "b", "c", "d")


@pytest.fixture
def X() -> np.ndarray:
    X = np.random.default_rng(0).normal(size=(N, D))
    X[3, 1] = X[50, 0] = X[-1, -1] = np.nan
    return X


def write_npy(path: Path, X: np.ndarray) -> Path:
    np.save(path / "x.npy", X)
    return path / "x.npy"


def write_fortran(path: Path, X: np.ndarray) -> Path:
    return write_npy(path, np.asfortranarray(X))


def write_npz(path: Path, X: np.ndarray) -> Path:
    np.savez(path / "x.npz", table=X, weights=np.ones(3))
    return path / "x.npz"


def write_npz_compressed(path: Path, X: np.ndarray) -> Path:
    np.savez_compressed(path / "x.npz", np.asfortranarray(X))
    return path / "x.npz"


def text(X: np.ndarray) -> str:
    rows = [",".join("" if np.isnan(x) else repr(float(x)) for x in row) for row in X]
    return "\n".join([",".join(NAMES), *rows, ""])


def write_csv(path: Path, X: np.ndarray) -> Path:
    (path / "x.csv").write_text(text(X))
    return path / "x.csv"


def write_csv_gz(path: Path, X: np.ndarray) -> Path:
    (path / "x.csv.gz").write_bytes(gzip.compress(text(X).encode()))
    return path / "x.csv.gz"


def table(X: np.ndarray) -> pa.Table:
    return pa.table({n: pa.array(X[:, j], from_pandas=True) for j, n in enumerate(NAMES)})


def write_parquet(path: Path, X: np.ndarray) -> Path:
    pq.write_table(table(X), path / "x.parquet", row_group_size=20)
    return path / "x.parquet"


def write_folder(path: Path, X: np.ndarray) -> Path:
    folder = path / "parts"
    (folder / "deep").mkdir(parents=True)
    pq.write_table(table(X[:40]), folder / "a.parquet")
    pq.write_table(table(X[40:]), folder / "deep" / "b.parquet")
    (folder / "_SUCCESS").write_text("")
    return folder


def chunk(X: np.ndarray) -> tuple[int, int]:
    """Neither rows nor columns are a multiple of it."""
    return (700, 60) if X.size > 10_000 else (min(10, max(1, len(X))), min(3, X.shape[1]))


def write_hdf5(path: Path, X: np.ndarray) -> Path:
    with h5py.File(path / "x.h5", "w") as file:
        file.create_dataset("runs/first", data=X, chunks=chunk(X) if len(X) else None)
        file.create_dataset("times", data=np.arange(3))
    return path / "x.h5"


def write_zarr2(path: Path, X: np.ndarray) -> Path:
    zarr.open_array(
        str(path / "x.zarr"), mode="w", shape=X.shape, chunks=chunk(X), dtype=X.dtype, zarr_format=2
    )[:] = X
    return path / "x.zarr"


def write_zarr3(path: Path, X: np.ndarray) -> Path:
    group = zarr.open_group(str(path / "x.zarr"), mode="w", zarr_format=3)
    group.create_array("inner/table", shape=X.shape, chunks=chunk(X), dtype=X.dtype)[:] = X
    group.create_array("times", shape=(3,), dtype="f8")
    return path / "x.zarr"


WRITERS = {
    "npy": write_npy,
    "npy-fortran": write_fortran,
    "npz": write_npz,
    "npz-compressed-fortran": write_npz_compressed,
    "csv": write_csv,
    "csv-gz": write_csv_gz,
    "parquet": write_parquet,
    "parquet-folder": write_folder,
    "hdf5": write_hdf5,
    "zarr-2": write_zarr2,
    "zarr-3-group": write_zarr3,
}
NAMED = {"csv", "csv-gz", "parquet", "parquet-folder"}
COUNTED = set(WRITERS) - {"csv", "csv-gz"}


@pytest.fixture(params=list(WRITERS))
def kind(request) -> str:
    return request.param


@pytest.mark.parametrize("block_rows", [1, 7, 64, 1000])
def test_a_file_is_the_table(tmp_path, X, kind, block_rows):
    source = open_source(WRITERS[kind](tmp_path, X), block_rows=block_rows)
    assert source.n_features == D
    assert source.names == (NAMES if kind in NAMED else None)
    assert source.n_rows == (N if kind in COUNTED else None)
    np.testing.assert_array_equal(source.collect(), X)
    assert source.n_rows == N
    sizes = source.map(lambda block: np.array([block.n_rows]))
    assert list(sizes[:-1]) == [block_rows] * (len(sizes) - 1)


def test_moments_are_those_of_the_table(tmp_path, X, kind):
    X = np.nan_to_num(X)
    source = open_source(str(WRITERS[kind](tmp_path, X)), block_rows=10)
    ours, plain = source.reduce(Moments.of), as_source(X).reduce(Moments.of)
    np.testing.assert_allclose(ours.scatter, plain.scatter, rtol=1e-12)
    assert source.passes == 1


def test_blocks_may_be_kept_and_are_not_written_to_again(tmp_path, X, kind):
    kept = list(open_source(WRITERS[kind](tmp_path, X)).reader.pieces(7))
    np.testing.assert_array_equal(np.concatenate(kept), X)
    assert all(block.flags.writeable for block in kept)


def test_columns_by_position_in_any_order(tmp_path, X, kind):
    source = open_source(WRITERS[kind](tmp_path, X), columns=[3, 0], block_rows=11)
    np.testing.assert_array_equal(source.collect(), X[:, [3, 0]])
    assert source.names == (("d", "a") if kind in NAMED else None)


@pytest.mark.parametrize("kind", ["npy", "npy-fortran", "npz", "hdf5", "zarr-2"])
def test_one_column_of_many_takes_little_memory(tmp_path, kind):
    X = np.arange(8000.0 * 200).reshape(8000, 200)  # 13 MB
    source = open_source(WRITERS[kind](tmp_path, X), columns=[5], block_rows=8000)
    source.reader.pieces(8000).__next__()
    tracemalloc.start()
    values = source.collect()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    np.testing.assert_array_equal(values, X[:, [5]])
    assert peak < 6e6


def test_no_columns_are_told(tmp_path, X, kind):
    with pytest.raises(UnreadableError, match=r"0 feature\(s\)"):
        open_source(WRITERS[kind](tmp_path, X), columns=[])


@pytest.mark.parametrize("kind", sorted(NAMED))
def test_columns_by_name(tmp_path, X, kind):
    path = WRITERS[kind](tmp_path, X)
    source = open_source(path, columns=["c", "b"])
    np.testing.assert_array_equal(source.collect(), X[:, [2, 1]])
    with pytest.raises(UnreadableError, match='no column "bb"; did you mean "b"'):
        open_source(path, columns=["bb"])


def test_numbers_that_stand_for_missing(tmp_path, X, kind):
    X[10, 2] = -999.0
    source = open_source(WRITERS[kind](tmp_path, X), missing_values=-999)
    X[10, 2] = np.nan
    np.testing.assert_array_equal(source.collect(), X)


def test_weights(tmp_path, X, kind):
    w = np.arange(N) % 3.0
    path = WRITERS[kind](tmp_path, X)
    source = open_source(path, sample_weight=w, block_rows=10)
    assert source.observed().sum_w == w.sum()
    np.testing.assert_array_equal(source.collect(), X[w > 0])
    with pytest.raises(ValueError, match=r"5 entries but X has (at least )?97 rows"):
        open_source(path, sample_weight=np.ones(5)).observed()


SINGLE = ["npy", "npy-fortran", "npz", "npz-compressed-fortran", "parquet", "hdf5", "zarr-2"]


@pytest.mark.parametrize("kind", SINGLE)
def test_float32_stays(tmp_path, X, kind):
    X = X.astype(np.float32)
    source = open_source(WRITERS[kind](tmp_path, X), block_rows=9)
    assert source.dtype == np.float32
    values = source.collect()
    assert values.dtype == np.float32
    np.testing.assert_array_equal(values, X)


@pytest.mark.parametrize("stored", ["i4", "u1", ">f8", ">f4", "f2", "?"])
@pytest.mark.parametrize("kind", ["npy", "npy-fortran", "npz", "hdf5", "zarr-2"])
def test_every_real_number_is_read_as_float(tmp_path, kind, stored):
    X = np.arange(60).reshape(20, 3).astype(stored)
    if kind == "zarr-2" and stored == "?":
        X = X.astype("u1")
    source = open_source(WRITERS[kind](tmp_path, X), block_rows=7)
    assert source.dtype == (np.float32 if stored == ">f4" else np.float64)
    values = source.collect()
    assert values.dtype.isnative
    np.testing.assert_array_equal(values, X.astype(float))


@pytest.mark.parametrize("kind", ["npy", "npz", "hdf5"])
def test_what_is_no_real_number_is_refused(tmp_path, kind):
    with pytest.raises(UnreadableError, match=r"complex128, not real numbers"):
        open_source(WRITERS[kind](tmp_path, np.ones((4, 2), dtype=complex)))


@pytest.mark.parametrize("shape", [(5,), (2, 3, 4)])
def test_a_table_has_two_dimensions(tmp_path, shape):
    np.save(tmp_path / "x.npy", np.ones(shape))
    with pytest.raises(UnreadableError, match=r"a table\s+has two.*Reshape"):
        open_source(tmp_path / "x.npy")


@pytest.mark.parametrize("kind", ["npy", "npz", "hdf5", "zarr-2", "parquet"])
def test_a_table_without_rows_is_told(tmp_path, kind):
    with pytest.raises(UnreadableError, match=r"x\..*0 sample\(s\)"):
        open_source(WRITERS[kind](tmp_path, np.empty((0, D))))


def test_parquet_types(tmp_path):
    columns = {
        "whole": pa.array([1, None, 2**60], pa.int64()),
        "truth": pa.array([True, False, None]),
        "money": pa.array([Decimal("1.25"), None, Decimal("-3.50")], pa.decimal128(10, 2)),
        "nothing": pa.nulls(3),
        "coded": pa.array([5.0, 7.0, 5.0]).dictionary_encode(),
        "single": pa.array([0.5, None, 1.5], pa.float32()),
        "half": pa.array(np.array([1, 2, 3], dtype=np.float16)),
        "tiny": pa.array([1, 2, None], pa.uint8()),
    }
    pq.write_table(pa.table(columns), tmp_path / "x.parquet")
    source = open_source(tmp_path / "x.parquet")
    nan = np.nan
    expected = np.array(
        [
            [1, 1, 1.25, nan, 5, 0.5, 1, 1],
            [nan, 0, nan, nan, 7, nan, 2, 2],
            [2.0**60, nan, -3.5, nan, 5, 1.5, 3, nan],
        ]
    )
    assert source.dtype == np.float64
    np.testing.assert_array_equal(source.collect(), expected)
    assert open_source(tmp_path / "x.parquet", columns=["single"]).dtype == np.float32


INDICES = {
    "filtered rows": lambda frame: frame.iloc[[7, 3, 11, 5]],
    "labels": lambda frame: frame.set_axis(list("abcdefghijkl")),
    "a named column": lambda frame: frame.set_index("z"),
    "two levels": lambda frame: frame.set_index(["z", "y"]),
    "0, 1, 2": lambda frame: frame,
}


@pytest.mark.parametrize("indexed", INDICES.values(), ids=INDICES)
def test_the_index_of_a_pandas_frame_is_no_feature(tmp_path, indexed):
    rng = np.random.default_rng(0)
    frame = indexed(pandas.DataFrame(rng.normal(size=(12, 4)), columns=list("wxyz")))
    frame.to_parquet(tmp_path / "x.parquet")
    source = open_source(tmp_path / "x.parquet")
    assert source.names == tuple(frame.columns)
    np.testing.assert_array_equal(source.collect(), frame.to_numpy())


def test_the_index_of_a_pandas_frame_can_be_asked_for(tmp_path):
    frame = pandas.DataFrame({"x": [1.0, 2.0], "z": [5.0, 4.0]}).set_index("z")
    frame.to_parquet(tmp_path / "x.parquet")
    source = open_source(tmp_path / "x.parquet", columns=["z", "x"])
    np.testing.assert_array_equal(source.collect(), [[5.0, 1.0], [4.0, 2.0]])


def test_parquet_columns_that_are_no_numbers_are_told_together(tmp_path):
    columns = {
        "id": ["u", "v"],
        "when": pa.array([0, 1], pa.timestamp("s")),
        "x": [1.0, 2.0],
        "kind": pa.array(["p", "q"]).dictionary_encode(),
        "list": [[1.0], [2.0]],
        "y": [3, 4],
    }
    pq.write_table(pa.table(columns), tmp_path / "x.parquet")
    with pytest.raises(UnreadableError) as caught:
        open_source(tmp_path / "x.parquet")
    message = str(caught.value)
    assert '"id" (text), "when" (date or time), "kind" (categorical), "list" (nested' in message
    assert 'columns=["x", "y"]' in message
    source = open_source(tmp_path / "x.parquet", columns=["y", "x"])
    np.testing.assert_array_equal(source.collect(), [[3, 1], [4, 2]])


def test_parquet_reads_the_chosen_columns_only(tmp_path, X):
    path = write_parquet(tmp_path, X)
    whole, part = open_source(path), open_source(path, columns=["b"])
    whole.observed(), part.observed()
    assert 0 < part.bytes_read < 0.4 * whole.bytes_read < path.stat().st_size


@pytest.mark.parametrize("rows", [3, 16, 200])
@pytest.mark.parametrize("group", [1, 7, 40, 97])
def test_parquet_row_groups_and_blocks_of_any_size(tmp_path, X, group, rows, monkeypatch):
    """As a whole, a column or all of them at a time, and in batches: the same rows."""
    path = tmp_path / "x.parquet"
    pq.write_table(table(X), path, row_group_size=group)
    lengths = [min(rows, N - start) for start in range(0, N, rows)]
    for whole, batch in ((100, 1 << 20), (100, 8), (0, 1 << 20)):
        monkeypatch.setattr(parquet, "WHOLE", whole)
        monkeypatch.setattr(parquet, "BATCH", (batch, batch))
        blocks = list(parquet.ParquetReader(path).pieces(rows))
        assert [len(block) for block in blocks] == lengths
        np.testing.assert_array_equal(np.concatenate(blocks), X)


def test_a_parquet_name_with_a_dot_and_its_beginning_are_two_columns(tmp_path):
    pq.write_table(pa.table({"a": [1.0], "a.b": [2.0], "c": [3.0]}), tmp_path / "x.parquet")
    np.testing.assert_array_equal(open_source(tmp_path / "x.parquet").collect(), [[1, 2, 3]])
    one = open_source(tmp_path / "x.parquet", columns=["a"])
    np.testing.assert_array_equal(one.collect(), [[1]])


@pytest.mark.parametrize("kind", ["npz", "hdf5", "zarr-3-group"])
def test_an_array_in_a_file_is_named_after_two_colons(tmp_path, X, kind):
    member = {"npz": "table", "hdf5": "runs/first", "zarr-3-group": "inner/table"}[kind]
    path = WRITERS[kind](tmp_path, X)
    np.testing.assert_array_equal(open_source(f"{path}::{member}").collect(), X)
    with pytest.raises(UnreadableError, match=rf'no array "{member}s".*did you mean "{member}"'):
        open_source(f"{path}::{member}s")


def test_several_arrays_are_listed(tmp_path):
    np.savez(tmp_path / "x.npz", first=np.ones((2, 3)), second=np.ones((4, 3)), t=np.ones(2))
    with pytest.raises(UnreadableError, match=r'"first" \(2, 3\), "second" \(4, 3\), "t" \(2,\)'):
        open_source(tmp_path / "x.npz")
    with pytest.raises(UnreadableError, match=r"::first"):
        open_source(tmp_path / "x.npz")
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["t"] = np.ones(2)
    with pytest.raises(UnreadableError, match=r'no two-dimensional arrays; it holds "t"'):
        open_source(tmp_path / "x.h5")
    with pytest.raises(UnreadableError, match="it is one table; leave out ::t"):
        open_source(f"{write_npy(tmp_path, np.ones((2, 2)))}::t")


@pytest.mark.parametrize(
    "kind", sorted(set(WRITERS) - {"parquet-folder", "zarr-2", "zarr-3-group"})
)
@pytest.mark.parametrize("name", ["x", "x.dat", "x.csv"])
def test_first_bytes_count_more_than_the_name(tmp_path, X, kind, name):
    path = WRITERS[kind](tmp_path, X)
    other = path.rename(tmp_path / name)
    np.testing.assert_array_equal(open_source(other).collect(), X)


@pytest.mark.parametrize("name", ["x.npy", "x.npz", "x.parquet", "x.h5"])
def test_a_name_that_lies_is_told(tmp_path, name):
    (tmp_path / name).write_text("a,b\n1,2\n")
    with pytest.raises(UnreadableError, match=rf"{name}.*(does not begin as one|not a whole HDF5)"):
        open_source(tmp_path / name)


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("x.pkl", b"\x80\x04.", "pickle.*runs whatever code"),
        ("x.xlsx", b"PK\x03\x04", "spreadsheet; save it as CSV"),
        ("x.bin", b"\x00\x01\x02\x03" * 10, "no format that is read"),
        ("x.csv", b"", "empty"),
        ("x.nc", b"CDF\x01", "xarray"),
    ],
    ids=["pickle", "spreadsheet", "unknown", "empty", "netcdf"],
)
def test_what_is_not_read_is_told_with_a_way_out(tmp_path, name, content, told):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(UnreadableError, match=told):
        open_source(tmp_path / name)


NUL = b"\x00"
CSV = b"a,b\n" + b"".join(b"%d,%d.5\n" % (k, k % 7) for k in range(60_000))
BEGIN = CSV[: CSV.index(b"60,")]


@pytest.mark.parametrize(
    ("content", "line", "where"),
    [
        (BEGIN.replace(b"\n9,2.5", b"\n9,2.\x005"), 11, 'line 11, column "b"'),
        (CSV.replace(b"\n59000,", b"\n5\x009000,"), 59_002, 'line 59002, column "a"'),
        (BEGIN + NUL * 400, 62, 'line 62, column "a"'),  # after a loss of power
        (CSV + NUL * 400, 60_002, 'line 60002, column "a"'),
        (BEGIN.replace(b"a,b", b"a,b\x00"), 1, "line 1, column 1"),
    ],
    ids=["cell", "late cell", "end", "late end", "name"],
)
def test_nul_bytes_in_csv_are_told_with_line_and_column(tmp_path, content, line, where):
    (tmp_path / "x.csv").write_bytes(content)
    with pytest.raises(UnreadableError, match=f"{where}, holds a NUL byte") as caught:
        open_source(tmp_path / "x.csv").collect()
    assert caught.value.line == line


@pytest.mark.parametrize("encoding", ["UTF-16LE", "UTF-16BE"])
def test_utf_16_without_a_mark_is_told(tmp_path, encoding):
    (tmp_path / "x.csv").write_bytes(BEGIN.decode().encode(encoding))
    with pytest.raises(UnreadableError, match=f"written in {encoding}.*iconv -f {encoding}"):
        open_source(tmp_path / "x.csv")


def test_objects_are_never_unpickled(tmp_path):
    class Trap:
        def __reduce__(self):
            return (pytest.fail, ("unpickled",))

    np.save(tmp_path / "x.npy", np.array([[Trap()]], dtype=object), allow_pickle=True)
    np.savez(tmp_path / "x.npz", np.array([[Trap()]], dtype=object))
    for name in ("x.npy", "x.npz"):
        with pytest.raises(UnreadableError, match="numbers"):
            open_source(tmp_path / name)


@pytest.mark.parametrize(
    ("kind", "package"),
    [("csv", "pyarrow"), ("parquet", "pyarrow"), ("hdf5", "h5py"), ("zarr-2", "zarr")],
    ids=["csv", "parquet", "hdf5", "zarr"],
)
def test_a_missing_package_is_named_with_its_extra(tmp_path, X, kind, package, monkeypatch):
    path = WRITERS[kind](tmp_path, X)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtraError, match=rf"needs {package}.*eigengap\[files\]"):
        open_source(path)


def test_text_that_stands_for_missing_belongs_to_csv(tmp_path, X):
    with pytest.raises(UnreadableError, match=r'missing_values="\?" is text.*CSV'):
        open_source(write_npy(tmp_path, X), missing_values="?")


def test_infinite_cells_of_a_file_are_counted_as_far_as_it_was_read(tmp_path):
    X = np.zeros((400, 3))
    X[[1, 5, 390], [0, 1, 2]] = np.inf
    np.save(tmp_path / "x.npy", X)
    source = open_source(tmp_path / "x.npy", block_rows=100)
    with pytest.raises(ValueError, match=r"row 1, column 0 \(and at least 1 more cell\)"):
        source.observed()
