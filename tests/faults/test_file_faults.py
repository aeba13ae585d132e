"""Files that are damaged, that differ, that change while they are read: told with file and place.

Nothing half-written stands under the final name, whatever goes wrong on the way.
"""

from __future__ import annotations

import gzip
import os

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zarr
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from eigengap import PCA
from eigengap.exceptions import UnreadableError
from eigengap.sources.opening import open_source
from eigengap.sources.sinks import open_sink
from eigengap.sources.streaming import stream

N, D = 4000, 3


@pytest.fixture
def X() -> np.ndarray:
    return np.random.default_rng(0).normal(size=(N, D))


def written(folder, X, kind):
    path = folder / f"in.{kind}"
    with open_sink(path, ["a", "b", "c"]) as sink:
        sink.append(X)
    return path


def copied(path, target) -> None:
    """Every block through `stream`, into a file beside it."""
    stream(np.asarray, open_source(path, block_rows=100), target)


def told(path, target) -> str:
    """What is said of a file that cannot be read to its end; nothing is left of the copy."""
    before = sorted(os.listdir(target.parent))
    with pytest.raises(UnreadableError) as caught:
        copied(path, target)
    assert sorted(os.listdir(target.parent)) == before
    return str(caught.value)


# Bad input in the middle -----------------------------------------------------------------------


SINKS = ["out.csv", "out.csv.gz", "out.parquet", "out.npy", "out.zarr", "out.h5"]


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("1,2", "line 3002 has 2 cells, and the header has 3"),
        ("1,2,3,4", "line 3002 has 4 cells, and the header has 3"),
        ("1,oops,3", 'line 3002, column "b" holds text, "oops"'),
        ("1,2,inf", 'infinity: inf at row 3000, column "c"'),
    ],
    ids=["short", "long", "text", "infinity"],
)
@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gzip"])
def test_a_bad_row_of_csv(tmp_path, X, packed, line, what):
    path = with_line_3002(tmp_path, X, line, packed)
    message = told(path, tmp_path / "out.npy")
    assert str(path) in message
    assert what in message


@pytest.mark.parametrize("to", SINKS)
def test_a_bad_row_leaves_nothing_of_any_sink(tmp_path, X, to):
    assert "line 3002" in told(with_line_3002(tmp_path, X, "1,oops,3", False), tmp_path / to)


def with_line_3002(folder, X, line, packed):
    lines = [",".join(map(repr, row)) for row in X.tolist()]
    lines[3000] = line
    content = "\n".join(["a,b,c", *lines, ""]).encode()
    path = folder / ("in.csv.gz" if packed else "in.csv")
    path.write_bytes(gzip.compress(content) if packed else content)
    return path


@pytest.mark.parametrize("compression", ["NONE", "SNAPPY", "ZSTD"])
def test_a_corrupt_row_group(tmp_path, X, compression):
    path = tmp_path / "in.parquet"
    table = pa.table({name: X[:, j] for j, name in enumerate("abc")})
    pq.write_table(
        table, path, row_group_size=1000, compression=compression, write_page_checksum=True
    )
    where = pq.ParquetFile(path).metadata.row_group(2).column(1).data_page_offset
    content = bytearray(path.read_bytes())
    for i in range(where + 100, where + 200):
        content[i] ^= 0x5A
    path.write_bytes(content)
    message = told(path, tmp_path / "out.npy")
    assert f'"{path}": row group 2 (rows 2000 to 2999) cannot be read' in message


def test_a_file_of_another_width_among_many(tmp_path, X):
    for k in range(3):
        np.save(tmp_path / f"part{k}.npy", X[:10, : 3 - (k == 2)])
    with pytest.raises(UnreadableError, match=r"part2\.npy.*2 instead of 3"):
        copied(tmp_path / "part*.npy", tmp_path / "out.csv")
    assert not (tmp_path / "out.csv").exists()


def test_a_bad_row_in_one_of_many_files(tmp_path):
    for k in range(3):
        (tmp_path / f"part{k}.csv").write_text("a,b\n" + "1,2\n" * 2000 + "3,x\n" * (k == 1))
    with pytest.raises(UnreadableError, match=r'part1\.csv".*line 2002, column "b".*"x"'):
        copied(tmp_path / "part*.csv", tmp_path / "out.csv")
    assert not (tmp_path / "out.csv").exists()


def test_a_zarr_chunk_of_another_width_or_damaged(tmp_path, X):
    array = zarr.open_array(
        str(tmp_path / "x.zarr"), mode="w", shape=X.shape, chunks=(1000, 3), dtype="f8"
    )
    array[:] = X
    chunk = sorted(path for path in (tmp_path / "x.zarr").rglob("*") if path.is_file())[2]
    content = chunk.read_bytes()
    for damage in (content[: len(content) // 2], os.urandom(len(content)), b""):
        chunk.write_bytes(damage)
        message = told(tmp_path / "x.zarr", tmp_path / "out.npy")
        assert f'"{tmp_path / "x.zarr"}": rows 2000 to 2999 cannot be read' in message


def test_a_damaged_chunk_of_hdf5(tmp_path, X):
    path = tmp_path / "x.h5"
    with h5py.File(path, "w") as file:
        data = file.create_dataset(
            "data", data=X, chunks=(1000, 3), compression="gzip", fletcher32=True
        )
        where = data.id.get_chunk_info(2)
    content = bytearray(path.read_bytes())
    middle = where.byte_offset + where.size // 2
    content[middle] ^= 0xFF
    path.write_bytes(content)
    message = told(path, tmp_path / "out.npy")
    assert f'"{path}::data": rows 2000 to 2099 cannot be read' in message


def test_a_damaged_archive(tmp_path, X):
    for save in (np.savez, np.savez_compressed):
        save(tmp_path / "x.npz", X)
        content = bytearray((tmp_path / "x.npz").read_bytes())
        content[len(content) // 2] ^= 0xFF
        (tmp_path / "x.npz").write_bytes(content)
        assert "not a whole .npz archive" in told(tmp_path / "x.npz", tmp_path / "out.npy")


# Cut short, at every place ---------------------------------------------------------------------

KINDS = ["npy", "npz", "csv.gz", "parquet", "h5"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_cut_short_is_never_read_as_a_shorter_table(tmp_path, X, kind):
    X = X[:300]
    path = tmp_path / f"in.{kind}"
    if kind == "npz":
        np.savez(path, X)
    else:
        written(tmp_path, X, kind)
    whole = path.read_bytes()
    for k in range(64):
        path.write_bytes(whole[: k * len(whole) // 64])
        assert f"in.{kind}" in told(path, tmp_path / "out.npy")


@pytest.mark.parametrize("kind", KINDS)
@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(at=st.floats(0, 1, exclude_max=True), flip=st.integers(1, 255))
def test_a_byte_flipped_is_read_or_told(tmp_path, kind, at, flip):
    X = np.random.default_rng(0).normal(size=(50, 3))
    path = tmp_path / f"in.{kind}"
    if kind == "npz":
        np.savez(path, X)
    else:
        with open_sink(path, ["a", "b", "c"], force=True) as sink:
            sink.append(X)
    content = bytearray(path.read_bytes())
    content[int(at * len(content))] ^= flip
    path.write_bytes(content)
    message = None
    try:
        open_source(path).collect()
    except (ValueError, OSError, MemoryError) as error:
        message = str(error)
    assert message is None or f"in.{kind}" in message


# Changed between passes ------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["npy", "csv", "csv.gz", "parquet", "h5"])
@pytest.mark.parametrize("rows", [N - 10, N + 10], ids=["cut", "grown"])
def test_a_file_that_changes_between_passes(tmp_path, X, kind, rows):
    path = written(tmp_path, X, kind)
    source = open_source(path, block_rows=500)
    source.observed()
    with open_sink(path, ["a", "b", "c"], force=True) as sink:
        sink.append(np.resize(X, (rows, D)))
    with pytest.raises(UnreadableError, match=rf"in\.{kind}.*since it was opened.*work on a copy"):
        stream(np.asarray, source, tmp_path / "out.npy")
    path.unlink()
    with pytest.raises(UnreadableError, match=rf"in\.{kind}.*was removed after it was opened"):
        stream(np.asarray, source, tmp_path / "out.npy")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("kind", ["npy", "csv"])
def test_a_file_that_grows_while_it_is_read(tmp_path, X, kind):
    """A row that is half written is not half read."""
    path = written(tmp_path, X, kind)
    calls = []

    def grows(block):
        if not calls:
            with path.open("ab") as file:
                file.write(b"1.5,2.5,3" if kind == "csv" else b"\0" * 24)
        calls.append(len(block))
        return np.asarray(block)

    with pytest.raises(UnreadableError, match=rf"in\.{kind}.*since it was opened"):
        stream(grows, open_source(path, block_rows=50), tmp_path / "out.npy")
    assert os.listdir(tmp_path) == [path.name]


def test_a_file_cut_short_while_it_is_read_does_not_kill_the_process(tmp_path, X):
    path = written(tmp_path, X, "npy")

    def cuts(block):
        os.truncate(path, 10_000)
        return np.asarray(block)

    with pytest.raises(UnreadableError, match=r"in\.npy.*(ends at row|since it was opened)"):
        stream(cuts, open_source(path, block_rows=50), tmp_path / "out.npy")


def test_a_number_changed_in_place_is_observed(tmp_path, X):
    path = written(tmp_path, X, "npy")
    source = open_source(path)
    source.observed()
    status = path.stat()
    table = np.load(path, mmap_mode="r+")
    table[5, 1] = 7.0
    table.flush()
    del table
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns + 1))
    with pytest.raises(UnreadableError, match="it was written to since it was opened"):
        source.collect()


def test_an_infinite_cell_among_many_files_is_told_with_its_file(tmp_path):
    for k in range(3):
        X = np.random.default_rng(k).normal(size=(10, 2))
        if k == 2:
            X[4, 1] = np.inf
        np.save(tmp_path / f"part{k}.npy", X)
    with pytest.raises(UnreadableError, match=r"inf at row 24, column 1.*row 4 of \S*part2\.npy"):
        PCA(1).fit(str(tmp_path / "part*.npy"))


# Messages that offer what there is --------------------------------------------------------------


def test_columns_of_one_name_in_parquet_offer_others_where_there_are_any(tmp_path):
    path, column = tmp_path / "a.parquet", pa.array([1.0, 2.0])
    pq.write_table(pa.Table.from_arrays([column, column], names=["a", "a"]), path)
    with pytest.raises(UnreadableError, match=r'2 columns named "a".*Rename them$'):
        open_source(path)
    pq.write_table(pa.Table.from_arrays([column] * 3, names=["a", "a", "b"]), path)
    with pytest.raises(UnreadableError, match=r'Rename them, or choose others: columns=\["b"\]$'):
        open_source(path)


@pytest.mark.parametrize("given", [np.eye(3), 7, None, {"a": [1]}, [[1.0, 2.0]], [np.eye(2)]])
def test_what_is_no_path_is_refused_in_words(given):
    with pytest.raises(TypeError, match=r"takes the path of a file.*Estimators take the table"):
        open_source(given)
