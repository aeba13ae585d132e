"""Labelled fields in NetCDF files and Zarr groups: the same table, in blocks, and closed again."""

from __future__ import annotations

import os
import tracemalloc

import numpy as np
import pytest
import xarray as xr
from scipy.io import netcdf_file
from tests.sources.test_fields import sea, table_of
from xarray.backends.file_manager import FILE_CACHE

from eigengap import PPCA
from eigengap.exceptions import RereadWarning
from eigengap.sources.fields import places as field_places
from eigengap.sources.fields.places import is_field_path
from eigengap.sources.fields.table import field_source
from eigengap.statistics.moments import ColumnMoments

pytestmark = pytest.mark.filterwarnings("ignore::zarr.errors.ZarrUserWarning")


def write(field, path, kind):
    """Write a field by xarray alone."""
    if kind == "netcdf4":
        field.to_netcdf(path, engine="h5netcdf")
    elif kind == "chunked":
        options = {field.name: {"zlib": True, "chunksizes": (min(13, len(field)), 2, 5)}}
        field.to_netcdf(path, engine="h5netcdf", encoding=options)
    elif kind == "classic":
        field.to_netcdf(path, engine="scipy", format="NETCDF3_64BIT")
    else:
        consolidated = not kind.endswith("plain")
        chunks = {field.name: {"chunks": (13, 2, 5)}}
        field.to_zarr(path, zarr_format=int(kind[4]), consolidated=consolidated, encoding=chunks)
    return path


KINDS = ["netcdf4", "chunked", "classic", "zarr2", "zarr2-plain", "zarr3", "zarr3-plain"]


def open_handles(path):
    """Handles of this process below the path; xarray's own list where the system keeps none."""
    if not os.path.isdir("/proc/self/fd"):
        return [key for key in list(FILE_CACHE) if str(path) in str(key)]
    found = []
    for handle in os.listdir("/proc/self/fd"):
        try:
            found.append(os.readlink(f"/proc/self/fd/{handle}"))
        except OSError:
            continue
    return [name for name in found if name.startswith(str(path))]


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_is_the_field_that_was_written(tmp_path, kind):
    field = sea()
    path = write(field, tmp_path / ("sst.zarr" if "zarr" in kind else "sst.nc"), kind)
    assert is_field_path(path)
    assert is_field_path(str(path))
    source = field_source(path, block_rows=7)
    assert source.names == field_source(field).names
    assert source.passes == 1
    np.testing.assert_array_equal(source.collect(), table_of(field).values)
    back = source.to_field(source.collect())
    xr.testing.assert_equal(back, field)
    assert (back.name, back.attrs) == ("sst", field.attrs)
    assert source.bytes_read >= 2 * 60 * 15  # two passes, compressed perhaps
    assert not open_handles(tmp_path)
    with field_places.FieldFile.at(path, None).opened():
        assert kind.startswith("zarr") or open_handles(tmp_path)  # the check can see


@pytest.mark.parametrize("kind", ["netcdf4", "zarr3"])
def test_models_of_files_are_those_of_the_table(tmp_path, kind):
    field = sea()
    path = write(field, tmp_path / "sst.nc", kind)
    there = PPCA(2).fit(table_of(field).values)
    here = PPCA(2).fit(field_source(path, block_rows=11))
    np.testing.assert_allclose(
        here.get_covariance(), there.get_covariance(), rtol=1e-10, atol=1e-10
    )


@pytest.mark.parametrize("dtype", ["f4", "f8", "i4"])
def test_types_in_files(tmp_path, dtype):
    field = sea(missing=0.0, land=()).astype(dtype)
    source = field_source(write(field, tmp_path / "sst.nc", "netcdf4"))
    assert source.dtype == (np.float32 if dtype == "f4" else np.float64)
    np.testing.assert_array_equal(source.collect(), table_of(field).values)


def test_fields_that_others_have_opened(tmp_path):
    field = sea()
    for year, part in enumerate(np.split(np.arange(60), [13, 40])):
        write(field.isel(time=part), tmp_path / f"sst-{year}.nc", "netcdf4")
    with xr.open_dataset(tmp_path / "sst-1.nc", engine="h5netcdf") as data:
        source = field_source(data, block_rows=7)
        np.testing.assert_array_equal(source.collect(), table_of(field)[13:40].values)
        assert not data.sst.variable._in_memory  # blocks were read, and the whole was not
    pytest.importorskip("dask")
    with xr.open_mfdataset(str(tmp_path / "sst-*.nc"), engine="h5netcdf") as data:
        source = field_source(data.sst, block_rows=7)
        np.testing.assert_array_equal(source.collect(), table_of(field).values)
        assert data.sst.chunks is not None


def test_packed_numbers_and_fill_values_are_decoded(tmp_path):
    field = sea()
    packing = {"dtype": "i2", "scale_factor": 0.01, "add_offset": 273.15, "_FillValue": -32768}
    field.to_netcdf(tmp_path / "sst.nc", engine="h5netcdf", encoding={"sst": packing})
    source = field_source(tmp_path / "sst.nc")
    assert source.names == field_source(field).names
    np.testing.assert_allclose(source.collect(), table_of(field).values, atol=0.00501)


def test_codes_stated_in_float64_mark_missing_values_in_float32(tmp_path):
    values = np.random.default_rng(0).normal(size=(30, 3, 4)).astype(np.float32)
    values[3, 1, 1] = 1.1e20
    with netcdf_file(tmp_path / "x.nc", "w") as file:
        for name, length in zip("tyx", values.shape, strict=True):
            file.createDimension(name, length)
        stored = file.createVariable("v", "f4", ("t", "y", "x"))
        stored[:] = values
        stored.missing_value = np.float64(1.1e20)  # not a number of float32
    source = field_source(tmp_path / "x.nc")
    read = source.collect().reshape(values.shape)
    values[3, 1, 1] = np.nan
    np.testing.assert_array_equal(read, values)
    assert source.missing_per_column().sum() == 1


def test_durations_and_bounds_are_no_obstacle(tmp_path):
    field = sea().rename("season").assign_attrs(units="days")
    field.lat.attrs["bounds"] = "lat_bnds"
    data = field.to_dataset()
    data["lat_bnds"] = (("lat", "nv"), np.zeros((3, 2)))
    data.to_netcdf(tmp_path / "season.nc", engine="h5netcdf")
    source = field_source(tmp_path / "season.nc")
    assert source.variable == "season"
    np.testing.assert_array_equal(source.collect(), table_of(field).values)
    assert source.to_field(source.collect()).attrs["units"] == "days"


def test_one_of_several_variables_and_another_dimension_of_samples(tmp_path):
    field = sea(land=()).transpose("lat", "time", "lon")
    data = xr.Dataset({"sst": field, "ice": field * 2})
    data.to_netcdf(tmp_path / "both.nc", engine="h5netcdf")
    source = field_source(tmp_path / "both.nc", variable="ice", sample_dim="time", block_rows=7)
    np.testing.assert_array_equal(source.collect(), 2 * table_of(field).values)
    first = field_source(f"{tmp_path / 'both.nc'}::ice")
    assert (first.sample_dim, first.n_rows) == ("lat", 3)


@pytest.mark.parametrize("kind", ["netcdf4", "zarr3"])
def test_many_files_are_one_field_with_one_of_them_open_at_a_time(tmp_path, kind, monkeypatch):
    field = sea()
    suffix = "zarr" if kind == "zarr3" else "nc"
    for year, part in enumerate(np.split(np.arange(60), [13, 14])):
        piece = field.isel(time=part)
        if year == 1:
            piece = piece.transpose("lon", "lat", "time")
        write(piece, tmp_path / f"sst-{year}.{suffix}", kind)
    open_now, most = [0], [0]
    opened = field_places._open

    def counting(path):
        data = opened(path)
        open_now[0] += 1
        most[0] = max(most[0], open_now[0])
        close = data.close
        data.set_close(lambda: (open_now.__setitem__(0, open_now[0] - 1), close)[0])
        return data

    monkeypatch.setattr(field_places, "_open", counting)
    pattern = str(tmp_path / f"sst-*.{suffix}")
    assert is_field_path(pattern)
    source = field_source(pattern, block_rows=7)
    assert (source.n_rows, source.passes) == (60, 1)
    xr.testing.assert_equal(source.to_field(source.collect()), field)
    assert (most[0], open_now[0]) == (1, 0)
    assert "2 more" in source.reader.where
    place = source.reader.place(15)
    assert place.startswith("time=2001-01-16, row 1 of")
    assert place.endswith(f'sst-2.{suffix}"')
    listed = field_source(sorted(tmp_path.glob("sst-*")), block_rows=7)
    assert (listed.n_rows, listed.names) == (60, source.names)


def test_a_file_much_larger_than_a_block_is_never_held(tmp_path):
    rng = np.random.default_rng(0)
    field = xr.DataArray(rng.normal(size=(4000, 20, 25)), dims=("t", "y", "x"), name="u")  # 16 MB
    for kind, name in (("netcdf4", "u.nc"), ("zarr", "u.zarr")):
        if kind == "zarr":
            field.to_zarr(tmp_path / name, encoding={"u": {"chunks": (50, 20, 25)}})
        else:
            field.to_netcdf(tmp_path / name, engine="h5netcdf")
        source = field_source(tmp_path / name, block_bytes=400_000)  # opens what is slow to import
        tracemalloc.start()
        source.reduce(ColumnMoments.of)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 5e6
        assert source.rows_per_block == 100


def test_chunks_of_a_file_are_read_once_a_pass(tmp_path, monkeypatch):
    field = sea()
    path = write(field, tmp_path / "sst.zarr", "zarr3")
    source = field_source(path, block_rows=5)
    cuts = []
    piece = type(source.reader)._piece

    def observed(self, field, start, stop, place):
        cuts.append((start, stop))
        return piece(self, field, start, stop, place)

    monkeypatch.setattr(type(source.reader), "_piece", observed)
    source.collect()
    assert cuts == [(0, 13), (13, 26), (26, 39), (39, 52), (52, 60)]


@pytest.mark.parametrize("kind", ["plain", "packed", "zarr", "dask", "memory"])
def test_chunks_that_every_block_would_read_are_told(tmp_path, kind, recwarn):
    field, chunks = sea(), (60, 1, 1)
    path = tmp_path / "sst.nc"
    if kind in ("plain", "packed"):
        options = {"sst": {"chunksizes": chunks, "zlib": kind == "packed"}}
        field.to_netcdf(path, engine="h5netcdf", encoding=options)
    elif kind == "zarr":
        field.to_zarr(path, encoding={"sst": {"chunks": chunks}})
    else:
        path = field if kind == "memory" else field.chunk(time=60)
    told = lambda: [str(w.message) for w in recwarn if w.category is RereadWarning]  # noqa: E731
    source = field_source(path, block_rows=15)
    assert not told()
    source = field_source(path, block_rows=14)
    np.testing.assert_array_equal(source.collect(), table_of(field).values)
    assert len(told()) == (kind in ("packed", "zarr", "dask"))
    if told():
        assert 'about 5 times. Store the field in shorter chunks along "time"' in told()[0]
        enough = int(told()[0].partition("block_bytes=")[2].split()[0])
        recwarn.clear()
        field_source(path, block_bytes=enough)
        assert not told()


def test_a_new_file_has_the_columns_of_the_first(tmp_path):
    source = field_source(write(sea(), tmp_path / "a.nc", "netcdf4"))
    new = sea(n=5, seed=3, land=((1, 1),))
    there = source.same_columns(write(new, tmp_path / "b.nc", "chunked"))
    assert there.names == source.names
    assert there.passes == 0
    np.testing.assert_array_equal(there.collect(), source.same_columns(new).collect())


def test_what_is_no_field_is_left_to_others(tmp_path):
    zarr = pytest.importorskip("zarr")
    zarr.save_array(str(tmp_path / "table.zarr"), np.ones((3, 2)))
    zarr.save_group(str(tmp_path / "group.zarr"), a=np.ones((3, 2)))
    for other in (
        tmp_path / "table.zarr",
        tmp_path / "group.zarr",
        tmp_path,
        "table.csv",
        tmp_path / "no.zarr",
        3,
        [],
        b"x.nc",
    ):
        assert not is_field_path(other)
