"""HDF5, NetCDF and Zarr that lead to other files, claim what they do not hold, or run code."""

from __future__ import annotations

import json
import os
import pickle
from pathlib import Path

import h5netcdf
import h5py
import numpy as np
import pytest
import xarray as xr
import zarr

import eigengap as eg
from eigengap.exceptions import DoesNotFitError, UnreadableError
from eigengap.sources.opening import open_source

pytestmark = pytest.mark.filterwarnings("ignore::zarr.errors.ZarrUserWarning")
N, D = 30, 3


@pytest.fixture
def secret(tmp_path: Path) -> np.ndarray:
    """Numbers of other files, in raw bytes, HDF5 and NetCDF."""
    X = np.random.default_rng(0).normal(size=(N, D))
    X.tofile(tmp_path / "secret.bin")
    with h5py.File(tmp_path / "secret.h5", "w") as file:
        file["y"] = X
    plain_netcdf(tmp_path / "secret.nc", X)
    return X


def plain_netcdf(path: Path, X: np.ndarray) -> None:
    with h5netcdf.File(path, "w") as file:
        file.dimensions = {"t": len(X), "c": X.shape[1]}
        file.create_variable("v", ("t", "c"), float)[:] = X


def external(file: h5py.File, name: str) -> None:
    where = [("secret.bin", 0, 8 * N * D)]
    file.create_dataset(name, shape=(N, D), dtype="f8", external=where)


def virtual(file: h5py.File, name: str, source: str = "secret.h5", inside: str = "y") -> None:
    layout = h5py.VirtualLayout(shape=(N, D), dtype="f8")
    layout[:] = h5py.VirtualSource(source, inside, shape=(N, D))
    file.create_virtual_dataset(name, layout)


def virtual_of_external(file: h5py.File, name: str) -> None:
    external(file.create_group("inner"), "e")
    virtual(file, name, ".", "inner/e")


def virtual_through_a_link(file: h5py.File, name: str) -> None:
    file["inner"] = h5py.ExternalLink("secret.h5", "/")
    virtual(file, name, ".", "inner/y")


def linked(file: h5py.File, name: str) -> None:
    file[name] = h5py.ExternalLink("secret.h5", "y")


def linked_softly(file: h5py.File, name: str) -> None:
    file["inner"] = h5py.ExternalLink("secret.h5", "/")
    file[name] = h5py.SoftLink("/inner/y")


WAYS = [external, virtual, virtual_of_external, virtual_through_a_link, linked, linked_softly]


@pytest.mark.parametrize(
    ("way", "member"),
    [
        (way, member)
        for way in WAYS
        for member in ("", "::x")
        if member or way is not virtual_of_external
    ],  # which has two arrays
    ids=lambda given: getattr(given, "__name__", given or "alone"),
)
def test_hdf5_that_leads_to_another_file_is_refused(way, member, tmp_path, secret):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        way(file, "x")
    with pytest.raises(UnreadableError, match=r"(secret\.|virtual).*(not\s+followed)"):
        eg.PPCA(1).fit(f"{tmp_path / 'a.h5'}{member}")


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_netcdf_that_leads_to_another_file_is_refused(way, tmp_path, secret):
    """xarray opens whatever a file names: also beside the variable that is asked for."""
    plain_netcdf(tmp_path / "a.nc", secret)
    with h5py.File(tmp_path / "a.nc", "a") as file:
        way(file, "w")
    with pytest.raises(UnreadableError, match="not followed"):
        eg.PPCA(1).fit(f"{tmp_path / 'a.nc'}::v")


def test_virtual_datasets_and_links_within_a_file_are_read(tmp_path, secret):
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        file["inner/y"] = secret
        virtual(file, "x", ".", "inner/y")
        linked(file, "elsewhere")  # and not asked for
    found = eg.PCA(1).fit(f"{path}::x")
    np.testing.assert_allclose(found.mean_, secret.mean(axis=0))


# Claims ------------------------------------------------------------------------------------------


def sparse_hdf5(path: Path, shape, chunks, **how) -> Path:
    with h5py.File(path, "w") as file:
        file.create_dataset("x", shape=shape, chunks=chunks, dtype="f8", **how)
    return path


def sparse_zarr(path: Path, shape, chunks, **how) -> Path:
    zarr.open(str(path), mode="w", shape=shape, chunks=chunks, dtype="f8", **how)
    return path


@pytest.mark.parametrize("make", [sparse_hdf5, sparse_zarr], ids=["hdf5", "zarr"])
@pytest.mark.parametrize(
    ("shape", "chunks"),
    [((10**9, 100), (1000, 100)), ((10, 10**9), (10, 1000)), ((10**15, 1), (10**6, 1))],
    ids=["long", "wide", "very long"],
)
def test_a_store_of_fill_values_is_refused_at_once(make, shape, chunks, tmp_path):
    path = make(tmp_path / ("a.h5" if make is sparse_hdf5 else "a.zarr"), shape, chunks)
    with pytest.raises(UnreadableError, match=r"claims .*B of numbers and takes .*fill values"):
        eg.PPCA(1).fit(path)


def test_coordinates_that_are_not_there_are_refused(tmp_path, secret):
    """xarray reads those of a dimension while it opens the file."""
    path = tmp_path / "a.nc"
    plain_netcdf(path, secret)
    with h5py.File(path, "a") as file:
        file.create_dataset("z", shape=(10**12,), chunks=(10**6,), dtype="f8").make_scale("z")
    with pytest.raises(UnreadableError, match="claims 8 TB"):
        eg.PPCA(1).fit(f"{path}::v")
    group = tmp_path / "g.zarr"
    xr.Dataset({"v": (("t", "c"), secret)}).to_zarr(group, consolidated=False)
    zarr.open_group(group).create_array("z", shape=(10**12,), chunks=(10**6,), dtype="f8")
    with pytest.raises(UnreadableError, match="claims 8 TB"):
        eg.PPCA(1).fit(f"{group}::v")


def test_ordinary_stores_with_missing_chunks_are_read(tmp_path):
    """A table of 32 MB in which one chunk of 10 was written."""
    X = np.random.default_rng(0).normal(size=(20_000, 20))
    h5 = sparse_hdf5(tmp_path / "a.h5", (200_000, 20), (20_000, 20), fillvalue=np.nan)
    store = sparse_zarr(tmp_path / "a.zarr", (200_000, 20), (20_000, 20), fill_value=np.nan)
    with h5py.File(h5, "a") as file:
        file["x"][:20_000] = X
    zarr.open(str(store), mode="a")[:20_000] = X
    for path in (h5, store):
        table = open_source(path)
        np.testing.assert_array_equal(table.missing_per_column(), np.full(20, 180_000))
        np.testing.assert_array_equal(table.collect()[:20_000], X)


def test_a_chunk_that_memory_does_not_hold_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("eigengap.runtime.memory.free_memory", lambda: 1 << 20)
    for path in (
        sparse_hdf5(tmp_path / "a.h5", (20_000, 20), (20_000, 20), compression="gzip"),
        sparse_zarr(tmp_path / "a.zarr", (20_000, 20), (20_000, 20)),
    ):
        with pytest.raises(DoesNotFitError, match=r"a chunk of .*smaller chunks"):
            open_source(path)


# Metadata of Zarr --------------------------------------------------------------------------------


def changed(path: Path, change) -> None:
    found = json.loads(path.read_text())
    change(found)
    path.write_text(json.dumps(found))


@pytest.mark.parametrize("group", [False, True], ids=["array", "group"])
@pytest.mark.parametrize("text", ["[" * 1_000_000, '{"a":' * 100_000, "", "\0"])
def test_metadata_that_are_no_json_are_told(text, group, tmp_path):
    path = tmp_path / "a.zarr"
    if group:
        xr.Dataset({"v": (("t", "c"), np.ones((4, 2)))}).to_zarr(path, consolidated=False)
    else:
        sparse_zarr(path, (10, 10), (5, 5))
    (path / "v" / "zarr.json" if group else path / "zarr.json").write_text(text)
    with pytest.raises(UnreadableError, match=r"zarr\.json.*no JSON of Zarr"):
        eg.PPCA(1).fit(path)


@pytest.mark.parametrize("length", [0, -1])
@pytest.mark.parametrize("version", [2, 3])
def test_chunks_without_length_are_told(length, version, tmp_path):
    path = sparse_zarr(tmp_path / "a.zarr", (10, 10), (5, 5), zarr_format=version)
    if version == 2:
        changed(path / ".zarray", lambda m: m.update(chunks=[length, 5]))
    else:
        grid = {"chunk_shape": [5, length]}
        changed(path / "zarr.json", lambda m: m["chunk_grid"].update(configuration=grid))
    with pytest.raises(UnreadableError, match="every chunk has a length"):
        eg.PPCA(1).fit(path)


@pytest.mark.parametrize("key", ["compressor", "filters"])
@pytest.mark.parametrize("group", [False, True], ids=["array", "coordinate"])
def test_pickles_in_chunks_are_refused_whatever_the_codecs_allow(key, group, tmp_path, monkeypatch):
    class Bomb:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "ran"),)

    monkeypatch.setattr("numcodecs.pickles.ALLOW_UNSAFE_PICKLE_DECODE", True, raising=False)
    path = tmp_path / "a.zarr"
    if group:
        data = xr.Dataset({"v": (("t", "c"), np.ones((4, 2)))}, coords={"t": np.arange(4)})
        data.to_zarr(path, consolidated=False, zarr_format=2)
        folder, chunk = path / "t", "0"
    else:
        zarr.open(str(path), mode="w", shape=(4, 2), chunks=(4, 2), dtype="f8", zarr_format=2)
        folder, chunk = path, "0.0"
    codec = {"id": "pickle"}
    texts = [{"id": "vlen-utf8"}]
    how = {"dtype": "|O", "fill_value": None, "compressor": None, "filters": [*texts, codec]}
    if key == "compressor":
        how |= {"compressor": codec, "filters": texts}
    changed(folder / ".zarray", lambda m: m.update(how))
    (folder / chunk).write_bytes(pickle.dumps(Bomb()))
    with pytest.raises(UnreadableError, match="pickles"):
        eg.PPCA(1).fit(path)
    assert not (tmp_path / "ran").exists()
