"""Labelled fields that cannot be read say what is wrong, where, and the way out."""

from __future__ import annotations

import sys

import numpy as np
import pytest
import xarray as xr
from tests.sources.test_fields import sea
from tests.sources.test_fields_files import open_handles, write

from eigengap import PPCA
from eigengap.exceptions import MissingExtraError, UnreadableError
from eigengap.sources.fields.table import field_source

pytestmark = pytest.mark.filterwarnings("ignore::zarr.errors.ZarrUserWarning")


def test_an_unknown_dimension_is_told_with_those_that_are():
    with pytest.raises(ValueError, match=r'no dimension "tme".*"time", "lat", "lon"'):
        field_source(sea(), sample_dim="tme")


def test_several_variables_are_listed():
    data = xr.Dataset({"sst": sea(), "ice": sea()})
    with pytest.raises(ValueError, match=r'variables "sst", "ice"; name one with variable='):
        field_source(data)
    with pytest.raises(ValueError, match=r'no variable "salt"; its variables are "sst", "ice"'):
        field_source(data, variable="salt")
    with pytest.raises(ValueError, match="holds no variable"):
        field_source(xr.Dataset(coords={"x": [1, 2]}))
    with pytest.raises(ValueError, match="chooses from a Dataset"):
        field_source(sea(), variable="ice")
    assert field_source(sea(), variable="sst").variable == "sst"


@pytest.mark.parametrize(
    ("values", "word"),
    [
        (np.array([["2001-01-01"] * 2] * 2, dtype="M8[ns]"), "dates"),
        (np.array([[1, 2], [3, 4]], dtype="m8[ns]"), "durations"),
        (np.array([["a", "b"], ["c", "d"]]), "text"),
        (np.ones((2, 2), dtype=complex), "complex numbers"),
        (np.array([[1, "b"], [None, 2]], dtype=object), "objects"),
    ],
    ids=["dates", "durations", "text", "complex", "objects"],
)
def test_what_is_no_number_is_refused(values, word):
    with pytest.raises(UnreadableError, match=f'"v" holds {word} .*variable='):
        field_source(xr.DataArray(values, dims=("t", "x"), name="v"))


def test_a_category_is_refused():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"v": pd.Categorical(["a", "b"])})
    with pytest.raises(ValueError, match="not real numbers"):
        field_source(frame.to_xarray()["v"])


def test_infinity_is_told_with_its_coordinates(tmp_path):
    field = sea()
    field[37, 2, 1] = -np.inf
    path = write(field, tmp_path / "sst.nc", "netcdf4")
    told = r'-inf at "lat=10.5, lon=25", time=2001-02-07, row 37 of .*Set such cells to NaN'
    for X, where in ((field, "the field sst"), (path, "sst.nc")):
        with pytest.raises(UnreadableError, match=told) as raised:
            field_source(X, block_rows=7)
        assert where in str(raised.value)
    assert not open_handles(tmp_path)
    bare = field.drop_vars("time")
    with pytest.raises(UnreadableError, match=r'"lat=10.5, lon=25", row 37 of'):
        field_source(bare, block_rows=7)
    assert field_source(field, missing_values=-np.inf).has_missing


def test_nothing_observed_at_all():
    with pytest.raises(UnreadableError, match="no cell has a value in any sample"):
        field_source(sea() * np.nan)
    with pytest.raises(ValueError, match="no cell: a dimension"):
        field_source(sea().isel(lat=slice(0, 0)))
    with pytest.raises(ValueError, match=r"0 sample\(s\)"):
        field_source(sea().isel(time=slice(0, 0)))
    with pytest.raises(UnreadableError, match="single number"):
        field_source(xr.DataArray(1.0))


def test_a_land_cell_that_was_asked_for_is_named_by_the_fit():
    source = field_source(sea(), columns=[0, 1, 2])
    with pytest.raises(ValueError, match=r'no value in column "lat=-10.5, lon=25"'):
        PPCA(1).fit(source)


def test_a_dimension_that_occurs_twice():
    with pytest.warns(UserWarning, match="[Dd]uplicate"):
        field = xr.DataArray(np.ones((2, 3, 3)), dims=("t", "x", "x"))
    with pytest.raises(UnreadableError, match='"x" occurs twice'):
        field_source(field)


def test_another_grid_is_told_by_its_first_difference(tmp_path):
    source = field_source(sea())
    with pytest.raises(ValueError, match=r"position 1 is lat=0.5, and lat=0 is expected"):
        source.same_columns(sea().assign_coords(lat=[-10.5, 0.5, 10.5]))
    with pytest.raises(ValueError, match=r"lon has 4 positions, and 5 are expected"):
        source.same_columns(sea().isel(lon=slice(4)))
    with pytest.raises(ValueError, match=r'dimensions "y", "lon" .*"lat", "lon" are expected'):
        source.same_columns(sea().rename(lat="y"))
    with pytest.raises(ValueError, match=r'no dimension "time".*isel\(dim=\[i\]\)'):
        source.same_columns(sea().isel(time=0))
    with pytest.raises(ValueError, match=r'no cell "lat=-10.5, lon=20".*Its cells'):
        field_source(sea().assign_coords(lon=np.arange(5)), columns=source.names)
    write(sea(), tmp_path / "a.nc", "netcdf4")
    write(sea().isel(lat=[0, 2, 1]), tmp_path / "b.nc", "netcdf4")
    with pytest.raises(ValueError, match=r"b.nc.*position 1 is lat=10.5, and lat=0 is expected"):
        field_source(str(tmp_path / "*.nc"))


def test_columns_that_do_not_fit_the_grid():
    with pytest.raises(ValueError, match="3 truth values but the grid has 15 cells"):
        field_source(sea(), columns=[True, False, True])
    with pytest.raises(ValueError, match=r'chooses "lat=-10.5, lon=30" more than once'):
        field_source(sea(), columns=[2, 0, 2])
    with pytest.raises(ValueError, match="chooses 15, and the grid has 15 cells"):
        field_source(sea(), columns=[15])
    with pytest.raises(ValueError, match='truth values over "lat", "lon"; it holds float64'):
        field_source(sea(), columns=sea().isel(time=0))
    mask = sea().isel(time=0, drop=True).notnull().isel(lat=slice(None, None, -1))
    with pytest.raises(ValueError, match="columns lies on another grid"):
        field_source(sea(), columns=mask)


def test_rows_that_are_not_of_this_source():
    source = field_source(sea())
    for rows in (np.ones((2, 15)), np.ones(12), np.ones((1, 1, 13)), np.float64(1)):
        with pytest.raises(ValueError, match="must be the 13 columns"):
            source.to_field(rows)
    with pytest.raises(ValueError, match="3 labels for 2 rows"):
        source.to_field(np.ones((2, 13)), labels=["a", "b", "c"])
    with pytest.raises(ValueError, match='a dimension "lat" of its own'):
        source.to_field(np.ones((2, 13)), dim="lat")
    with pytest.raises(ValueError, match="each of the 60 samples"):
        source.to_series(np.ones(59))
    own = field_source(sea().rename(lat="component"))
    with pytest.raises(ValueError, match='a dimension "component" of its own'):
        own.to_field(np.ones((2, 13)))


def test_weights_of_another_length_and_empty_blocks():
    with pytest.raises(ValueError, match="block_rows must be at least 1, got 0"):
        field_source(sea(), block_rows=0)
    with pytest.raises(ValueError, match="5 entries but X has 60 rows"):
        field_source(sea(), sample_weight=np.ones(5))


def test_files_that_are_not_there(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no\.nc"):
        field_source(tmp_path / "no.nc")
    with pytest.raises(FileNotFoundError, match="no file matches"):
        field_source(str(tmp_path / "*.nc"))
    with pytest.raises(ValueError, match="empty"):
        field_source([])
    with pytest.raises(ValueError, match="DataArray, a Dataset, or the path"):
        field_source(np.ones((3, 2)))


def test_files_that_are_no_fields(tmp_path):
    (tmp_path / "text.nc").write_text("lat,lon\n1,2\n")
    with pytest.raises(UnreadableError, match="no NetCDF file"):
        field_source(tmp_path / "text.nc")
    (tmp_path / "empty.nc").write_bytes(b"")
    with pytest.raises(UnreadableError, match="no NetCDF file"):
        field_source(tmp_path / "empty.nc")
    (tmp_path / "folder.nc").mkdir()
    with pytest.raises(UnreadableError, match="no Zarr group"):
        field_source(tmp_path / "folder.nc")


@pytest.mark.parametrize("kind", ["netcdf4", "chunked", "classic"])
@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_a_file_cut_short_is_told(tmp_path, kind, share):
    path = write(sea(), tmp_path / "sst.nc", kind)
    whole = path.read_bytes()
    path.write_bytes(whole[: int(share * len(whole))])
    with pytest.raises(ValueError, match=r"sst\.nc"):
        field_source(path).collect()
    assert not open_handles(tmp_path)


def test_a_corrupt_chunk_is_told_with_its_samples(tmp_path):
    path = write(sea(n=260), tmp_path / "sst.zarr", "zarr3")
    source = field_source(path, block_rows=13)
    (chunk,) = path.glob("sst/c/7/0/0")
    chunk.write_bytes(b"\x00" + chunk.read_bytes()[:-9])
    with pytest.raises(UnreadableError, match=r'sst.zarr": it .* since it was opened'):
        source.collect()
    with pytest.raises(UnreadableError, match=r'sst.zarr": samples 91 to 103 along "time"'):
        field_source(path, block_rows=13)


def test_a_file_that_changes_between_passes_is_told(tmp_path):
    path = write(sea(), tmp_path / "sst.nc", "netcdf4")
    source = field_source(path, block_rows=7)
    path.unlink()
    write(sea(n=50), path, "netcdf4")
    with pytest.raises(UnreadableError, match=r"sst\.nc.* since it was opened"):
        source.collect()
    path.unlink()
    with pytest.raises(UnreadableError, match=r"sst\.nc.* was removed"):
        source.collect()
    assert not open_handles(tmp_path)


def test_a_computation_that_fails_leaves_no_file_open(tmp_path):
    source = field_source(write(sea(), tmp_path / "sst.nc", "netcdf4"), block_rows=7)

    def fails(block):
        if block.start > 20:
            raise RuntimeError("half-way")
        return block.values

    with pytest.raises(RuntimeError, match="half-way"):
        source.map(fails)
    assert not open_handles(tmp_path)


def test_times_that_cannot_be_decoded_say_the_way_out(tmp_path):
    field = sea().drop_vars("time").assign_coords(time=("time", np.arange(60.0)))
    field.time.attrs["units"] = "days since the beginning"
    write(field, tmp_path / "sst.nc", "netcdf4")
    with pytest.raises(UnreadableError, match=r"xarray cannot open it.*xarray\.open_dataset"):
        field_source(tmp_path / "sst.nc")


def test_foreign_names_are_shown_on_one_line():
    field = sea().rename("a\n\x1b[31m").rename(lat="l\nat", time="t\x1b[31m\n")
    field[3, 1, 1] = np.inf
    with pytest.raises(UnreadableError) as raised:
        field_source(field)
    assert str(raised.value).isprintable()
    with pytest.raises(ValueError) as raised:  # noqa: PT011
        field_source(field, sample_dim="\n")
    assert str(raised.value).isprintable()


@pytest.mark.parametrize("package", ["xarray", "h5netcdf"])
def test_a_package_that_is_missing_is_named_with_its_extra(tmp_path, monkeypatch, package):
    path = write(sea(), tmp_path / "sst.nc", "netcdf4")
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtraError, match=rf'{package}.*pip install "eigengap\[xarray\]"'):
        field_source(path)
