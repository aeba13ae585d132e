"""Cases that readers of the files' and streams' pages have found, each kept as it was told."""

from __future__ import annotations

import os

import dask
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
import xarray as xr
import zarr

import eigengap as eg
from eigengap.exceptions import ClusterError, LostDigitsWarning, PartitionColumnWarning
from eigengap.sources.conversion import as_source
from eigengap.sources.dask.tasks import PartitionError


@pytest.fixture
def X():
    return np.random.default_rng(0).normal(size=(60, 4)) * [4.0, 2.0, 1.0, 1.0]


@pytest.mark.parametrize(("offset", "sd"), [(1e8, 1.0), (1e6, 1e-3), (1e8, 1e-3)])
@pytest.mark.parametrize("rows", [1, 7, 100])
def test_rows_far_from_zero_in_many_blocks(offset, sd, rows):
    """Block means agree in all but their last digits, and the squares between are made of those."""
    X = np.random.default_rng(1).normal(size=(1500, 5)) * (sd * np.arange(1, 6)) + offset
    exact = X.astype(np.longdouble)
    exact = exact - exact.mean(axis=0)
    lam = np.linalg.eigvalsh((exact.T @ exact).astype(float) / (len(X) - 1))[::-1]
    found = eg.PCA(3).fit(as_source(X, block_rows=rows)).explained_variance_
    np.testing.assert_allclose(found, lam[:3], rtol=1e-13)


def test_partial_fit_tells_when_nothing_is_left():
    U = np.random.default_rng(0).normal(size=(2000, 5)) * [1e6, 1e-2, 1e-2, 1e-2, 1e-2]
    with pytest.warns(LostDigitsWarning, match="do not determine it"):
        _ = eg.PPCA(1).partial_fit(U).noise_variance_


@pytest.mark.parametrize("kind", ["npy", "zarr", "nc"])
def test_what_was_found_in_a_file_is_not_said_of_another(tmp_path, X, kind):
    path = tmp_path / f"table.{kind}"

    def write(values):
        if kind == "npy":
            np.save(path, values)
        elif kind == "zarr":
            zarr.save_array(str(path), values, mode="w")
        else:
            xr.DataArray(values, dims=("time", "x"), name="v").to_netcdf(path, engine="h5netcdf")

    write(X)
    source = eg.open_source(str(path))
    eg.PCA(2).fit(source)
    write(3.0 * X)
    with pytest.raises(eg.exceptions.UnreadableError, match="since it was opened"):
        eg.PCA(2).fit(source)


def test_another_file_under_the_same_name_and_time(tmp_path, X):
    path, other = tmp_path / "table.npy", tmp_path / "other.npy"
    np.save(path, X)
    source = eg.open_source(path)
    np.save(other, -X)
    times = path.stat()
    os.utime(other, ns=(times.st_atime_ns, times.st_mtime_ns))
    os.replace(other, path)
    with pytest.raises(eg.exceptions.UnreadableError, match="was written to"):
        eg.PCA(2).fit(source)


@pytest.mark.parametrize("name", ["out.npy", "out.csv", "out.parquet", "out.zarr", "out.h5"])
def test_force_replaces_no_folder_of_other_things(tmp_path, X, name):
    folder = tmp_path / name
    folder.mkdir()
    (folder / "precious.txt").write_text("mine")
    with pytest.raises(FileExistsError, match="not replaced"):
        eg.stream(np.abs, X, folder, force=True)
    assert (folder / "precious.txt").read_text() == "mine"
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_force_replaces_a_store_of_its_own(tmp_path, X):
    path = tmp_path / "out.zarr"
    for values in (X, -X):
        eg.stream(np.negative, values, path, force=True)
    np.testing.assert_array_equal(eg.open_source(path).collect(), X)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes with names here")
def test_a_pipe_is_refused_and_not_waited_for(tmp_path, X):
    path = tmp_path / "pipe.csv"
    os.mkfifo(path)
    with pytest.raises(eg.exceptions.UnreadableError, match="a pipe or a device"):
        eg.open_source(path)
    with pytest.raises(FileExistsError, match="not replaced"):
        eg.stream(np.abs, X, path, force=True)
    assert not path.is_file()


@pytest.mark.parametrize("columns", [1, 2])
def test_a_first_row_of_missing_is_a_row(tmp_path, columns):
    path = tmp_path / "own.csv"
    X = np.array([[np.nan] * columns, [1.0] * columns, [2.0] * columns])
    with eg.open_sink(path) as sink:
        sink.append(X)
    np.testing.assert_array_equal(eg.open_source(path).collect(), X)


def test_words_for_missing_as_names_come_back_as_names(tmp_path):
    path = tmp_path / "named.csv"
    with eg.open_sink(path, ["NA", "nan"]) as sink:
        sink.append(np.ones((2, 2)))
    assert eg.open_source(path).names == ("NA", "nan")


def test_partitions_of_other_columns_are_told(X):
    good = pd.DataFrame(X, columns=list("abcd"))
    parts = [dask.delayed(good), dask.delayed(good[list("dcba")])]
    frame = dd.from_delayed(parts, meta=good.iloc[:0], verify_meta=False)
    with pytest.raises((PartitionError, ClusterError), match=r'partition 1 .* has "d" as column 0'):
        eg.PCA(2).fit(frame)


@pytest.mark.parametrize("kind", ["csv", "npy", "parquet"])
def test_a_month_without_rows_is_no_trouble(tmp_path, X, kind):
    names = list("abcd")
    for k, part in enumerate((X[:30], X[:0], X[30:])):
        path = tmp_path / f"month{k}.{kind}"
        frame = pd.DataFrame(part, columns=names)
        if kind == "csv":
            frame.to_csv(path, index=False)
        elif kind == "npy":
            np.save(path, part)
        else:
            frame.to_parquet(path)
    source = eg.open_source(str(tmp_path / f"*.{kind}"))
    np.testing.assert_allclose(source.collect(), X, rtol=1e-15)
    with pytest.raises(eg.exceptions.UnreadableError, match=r"0 sample\(s\)"):
        eg.PCA(1).fit(str(tmp_path / f"month1.{kind}"))


@pytest.mark.parametrize("name", ["fit_transform", "fit", "partial_fit"])
def test_a_fit_of_every_block_is_refused(tmp_path, X, name):
    with pytest.raises(ValueError, match="fit every block by itself"):
        eg.stream(getattr(eg.PCA(2), name), X, tmp_path / "out.npy")
    assert not (tmp_path / "out.npy").exists()


def test_columns_in_the_names_of_folders_are_told(tmp_path, X):
    frame = pd.DataFrame(X, columns=list("abcd")).assign(year=[2020] * 30 + [2021] * 30)
    frame.to_parquet(tmp_path / "hive", partition_cols=["year"])
    with pytest.warns(PartitionColumnWarning, match='"year"'):
        source = eg.open_source(tmp_path / "hive")
    assert source.names == tuple("abcd")


def test_a_folder_of_two_kinds_is_refused(tmp_path, X):
    frame = pd.DataFrame(X, columns=list("abcd"))
    frame.to_parquet(tmp_path / "a.parquet")
    frame.to_csv(tmp_path / "b.csv", index=False)
    with pytest.raises(eg.exceptions.UnreadableError, match=r'such as "b\.csv".*Give a glob'):
        eg.open_source(tmp_path)


def test_a_source_says_what_it_is(tmp_path, X):
    np.save(tmp_path / "x.npy", X)
    assert "60 rows x 4 columns" in repr(eg.open_source(tmp_path / "x.npy"))


def test_ica_of_a_file_that_nobody_has_looked_at(tmp_path):
    """A file says whether it has gaps only when it has been read."""
    rng = np.random.default_rng(5)
    X = rng.laplace(size=(200, 3)) @ rng.normal(size=(3, 4)) + rng.normal(size=(200, 4)) * 0.1
    X[rng.random(X.shape) < 0.05] = np.nan
    np.save(tmp_path / "x.npy", X)
    model = eg.ICA(2).fit(X)
    found = model.transform(eg.open_source(tmp_path / "x.npy", block_rows=50))
    np.testing.assert_allclose(found, model.transform(X), rtol=1e-10)
    assert np.isfinite(found).all()


@pytest.mark.parametrize("header", ["0,1,2", "2019,2020,2021"], ids=["pandas", "years"])
def test_numbers_that_count_up_are_names(tmp_path, header):
    path = tmp_path / "x.csv"
    path.write_text(f"{header}\n1.5,2,7\n0.5,3,1\n")
    source = eg.open_source(path)
    assert source.names == tuple(header.split(","))
    np.testing.assert_array_equal(source.collect(), [[1.5, 2, 7], [0.5, 3, 1]])


def test_rows_that_all_count_up_are_rows(tmp_path):
    (tmp_path / "x.csv").write_text("1,2,3\n2,3,4\n7,8,9\n")
    assert eg.open_source(tmp_path / "x.csv").collect().shape == (3, 3)


def test_an_empty_line_of_a_single_column_is_refused(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("a\n2\n\n4\n5\n")
    with pytest.raises(eg.exceptions.UnreadableError, match="line 3 is empty"):
        eg.open_source(path).collect()
    path.write_text("a\n2\n4\n\n\n")  # at the end it is nothing
    np.testing.assert_array_equal(eg.open_source(path).collect(), [[2], [4]])
