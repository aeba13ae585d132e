"""HDF5 and Zarr whose attributes pack numbers and declare missing values: as xarray decodes them.

NetCDF 4 is HDF5, whatever the file is named; an array in a group that xarray wrote is a Zarr array.
"""

from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np
import pytest
import xarray as xr
import zarr

import eigengap as eg
from eigengap.exceptions import UnreadableError
from eigengap.sources.opening import open_source

pytestmark = [
    pytest.mark.filterwarnings("ignore::zarr.errors.ZarrUserWarning"),
    pytest.mark.filterwarnings("ignore::xarray.SerializationWarning"),
]
N, D = 53, 4
SCALED = {"scale_factor": 0.5, "add_offset": 1.0}
SINGLE = {"scale_factor": np.float32(0.01), "add_offset": np.float32(273.15)}
ENCODINGS = {
    "int16 packed": {"dtype": "i2", "_FillValue": -99, **SCALED},
    "int16 scale alone": {"dtype": "i2", "_FillValue": -99, "scale_factor": 0.25},
    "int16 offset alone": {"dtype": "i2", "_FillValue": -99, "add_offset": 100.0},
    "int16 factors in single precision": {"dtype": "i2", "_FillValue": -32768, **SINGLE},
    "int32 not packed": {"dtype": "i4", "_FillValue": -2147483647},
    "int64 not packed": {"dtype": "i8", "_FillValue": -(2**63)},
    "uint8": {"dtype": "u1", "_FillValue": 255},
    "int8 unsigned": {"dtype": "i1", "_FillValue": -1, "_Unsigned": "true"},
    "int8 unsigned packed": {"dtype": "i1", "_FillValue": -1, "_Unsigned": "true", **SCALED},
    "uint8 signed": {"dtype": "u1", "_FillValue": 255, "_Unsigned": "false", **SCALED},
    "float32": {"dtype": "f4", "_FillValue": np.float32(-9999.9)},
    "float32 packed": {"dtype": "f4", "_FillValue": np.float32(1e20), **SCALED},
    "float64": {"dtype": "f8", "_FillValue": 1e20},
    "float64 NaN": {"dtype": "f8", "_FillValue": np.nan},
    "missing_value": {"dtype": "i2", "missing_value": -9, "_FillValue": -9, **SCALED},
    "big endian": {"dtype": ">i2", "_FillValue": -99, **SCALED},
}
STORES = ["netcdf", "zarr-2", "zarr-3"]


def values() -> xr.DataArray:
    """Whole numbers from 2 to 100, a fifth of them missing."""
    rng = np.random.default_rng(0)
    X = rng.integers(2, 100, size=(N, D)).astype(float)
    X[rng.random((N, D)) < 0.2] = np.nan
    return xr.DataArray(X, dims=("time", "station"), name="v")


def stored(store: str, folder: Path, encoding: dict) -> tuple[list[str], xr.DataArray]:
    """Paths by which a plain reader meets the array, and what xarray reads."""
    data = values().to_dataset()
    chunk = {"chunks": (10, 3)}
    if store == "netcdf":
        path = folder / "a.h5"
        chunk = {"chunksizes": (10, 3)}
        data.to_netcdf(path, encoding={"v": {**encoding, **chunk}}, engine="h5netcdf")
        with xr.open_dataset(path, engine="h5netcdf") as opened:
            return [str(path), f"{path}::v"], opened.v.load()
    path = folder / "a.zarr"
    data.to_zarr(path, encoding={"v": {**encoding, **chunk}}, zarr_format=int(store[-1]))
    return [str(path / "v")], xr.open_zarr(path).v.load()


@pytest.mark.parametrize(
    ("store", "encoding"),
    [(s, e) for s in STORES for e in ENCODINGS if (s, e) != ("zarr-3", "uint8 signed")],
)  # which xarray itself cannot read
def test_packed_numbers_are_those_of_xarray(store, encoding, tmp_path):
    paths, aim = stored(store, tmp_path, ENCODINGS[encoding])
    assert 20 < int(aim.isnull().sum()) < 80
    rel = 1e-6 if aim.dtype == np.float32 else 1e-15
    for path in paths:
        for rows in (1, 7, N, 1000):
            X = open_source(path, block_rows=rows).collect()
            np.testing.assert_allclose(X, aim.values.astype(float), rtol=rel)


@pytest.mark.parametrize("store", STORES)
def test_some_columns_and_several_files(store, tmp_path):
    paths, aim = stored(store, tmp_path, ENCODINGS["int16 packed"])
    X = open_source([paths[0], paths[0]], columns=[3, 1], block_rows=5).collect()
    np.testing.assert_array_equal(X, np.tile(aim.values[:, [3, 1]], (2, 1)))
    model, other = eg.PPCA(1).fit(paths[0]), eg.PPCA(1).fit(aim.values)
    np.testing.assert_allclose(model.mean_, other.mean_)


@pytest.mark.parametrize("store", STORES)
def test_single_precision_stays_unless_it_is_scaled(store, tmp_path):
    for encoding, dtype in (("float32", np.float32), ("float32 packed", np.float64)):
        (tmp_path / encoding).mkdir()
        paths, _ = stored(store, tmp_path / encoding, ENCODINGS[encoding])
        assert open_source(paths[0]).collect().dtype == dtype


def test_xarray_names_a_variable_and_its_folder_alike(tmp_path):
    for version in (2, 3):
        path = tmp_path / f"{version}.zarr"
        encoding = {"v": ENCODINGS["int16 packed"]}
        values().to_dataset().to_zarr(path, encoding=encoding, zarr_format=version)
        group = open_source(f"{path}::v").collect()
        np.testing.assert_array_equal(open_source(path / "v").collect(), group)


def test_a_field_under_another_name_says_how_to_read_it(tmp_path):
    cube = xr.DataArray(np.ones((3, 2, 2)), dims=("t", "a", "b"), name="v")
    cube.to_netcdf(tmp_path / "a.h5", engine="h5netcdf")
    with pytest.raises(UnreadableError, match=r"NetCDF file .*\(3, 2, 2\).*ends in \.nc"):
        open_source(tmp_path / "a.h5")


# Attributes by hand ------------------------------------------------------------------------------

STORED = np.array([[1, 2, -99], [4, 5, -98], [7, 127, 9]], dtype="i2")


def by_hand(kind: str, folder: Path, attributes: dict, X: np.ndarray = STORED, **how) -> Path:
    if kind == "hdf5":
        with h5py.File(folder / "a.h5", "w") as file:
            file.create_dataset("group/x", data=X).attrs.update(attributes)
        return folder / "a.h5"
    plain = {
        k: np.asarray(v).tolist() if np.ndim(v) or hasattr(v, "dtype") else v
        for k, v in attributes.items()
    }
    group = zarr.open_group(folder / "a.zarr", mode="w", zarr_format=int(kind[-1]))
    array = group.create_array("group/x", shape=X.shape, dtype=X.dtype, chunks=(2, 2), **how)
    array[:] = X
    array.attrs.update(plain)
    return folder / "a.zarr"


KINDS = ["hdf5", "zarr-2", "zarr-3"]
HIDDEN = np.where(np.isin(STORED, [-99]), np.nan, STORED)
BOTH = np.where(np.isin(STORED, [-99, -98]), np.nan, STORED)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("attributes", "aim"),
    [
        ({"_FillValue": np.int16(-99)}, HIDDEN),
        ({"_FillValue": np.array([-99], dtype="i2")}, HIDDEN),
        ({"_FillValue": -99.0}, HIDDEN),
        ({"missing_value": np.array([-99, -98], dtype="i2")}, BOTH),
        ({"_FillValue": np.int16(-98), "missing_value": np.int16(-99)}, BOTH),
        ({"scale_factor": np.array([0.1])}, STORED * 0.1),
        ({"add_offset": np.int64(3)}, STORED + 3.0),
        ({"_FillValue": -99, "scale_factor": 2.0, "add_offset": -1.0}, HIDDEN * 2.0 - 1.0),
        ({"missing_value": -99999}, STORED),  # of which int16 has none
        ({"missing_value": -98.5}, STORED),
        ({"missing_value": 1e300}, STORED),
    ],
    ids=lambda given: ",".join(given) if isinstance(given, dict) else "",
)
def test_plain_arrays_with_attributes(kind, attributes, aim, tmp_path):
    path = by_hand(kind, tmp_path, attributes)
    np.testing.assert_allclose(open_source(path).collect(), aim, rtol=1e-15)


@pytest.mark.parametrize("kind", KINDS)
def test_a_double_names_a_single(kind, tmp_path):
    X = np.array([[1.5, -9999.9], [np.nan, 2.5]], dtype="f4")
    path = by_hand(kind, tmp_path, {"missing_value": np.float64(-9999.9)}, X)
    np.testing.assert_array_equal(open_source(path).collect(), [[1.5, np.nan], [np.nan, 2.5]])


@pytest.mark.parametrize("code", [200, -56])
@pytest.mark.parametrize("kind", KINDS)
def test_codes_of_unsigned_numbers_in_either_sign(kind, code, tmp_path):
    X = np.array([[1, -56], [-128, 127]], dtype="i1")
    path = by_hand(kind, tmp_path, {"_Unsigned": "true", "missing_value": code}, X)
    np.testing.assert_array_equal(open_source(path).collect(), [[1, np.nan], [128, 127]])


@pytest.mark.parametrize("kind", KINDS)
def test_codes_of_signed_numbers(kind, tmp_path):
    X = np.array([[1, 255], [128, 127]], dtype="u1")
    path = by_hand(kind, tmp_path, {"_Unsigned": "false", "_FillValue": 255}, X)
    np.testing.assert_array_equal(open_source(path).collect(), [[1, np.nan], [-128, 127]])


def test_bytes_as_attributes(tmp_path):
    X = np.array([[1, -1], [-128, 127]], dtype="i1")
    path = by_hand("hdf5", tmp_path, {"_Unsigned": np.bytes_(b"true"), "_FillValue": -1}, X)
    np.testing.assert_array_equal(open_source(path).collect(), [[1, np.nan], [128, 127]])


@pytest.mark.parametrize("kind", KINDS)
def test_whole_numbers_are_compared_before_they_are_rounded(kind, tmp_path):
    X = np.array([[2**60, 2**60 + 1], [3, 4]], dtype="i8")
    path = by_hand(kind, tmp_path, {"_FillValue": np.int64(2**60 + 1)}, X)
    with pytest.warns(UserWarning, match="beyond 2\\^53"):
        found = open_source(path).collect()
    np.testing.assert_array_equal(found, [[2.0**60, np.nan], [3, 4]])


@pytest.mark.parametrize("kind", ["zarr-2", "zarr-3"])
def test_what_zarr_fills_unwritten_chunks_with_is_no_missing_value(kind, tmp_path):
    """Without named dimensions: 0 is what Zarr fills with unless it is told otherwise."""
    X = np.array([[0, 1], [2, 0], [3, 0]], dtype="i2")
    path = by_hand(kind, tmp_path, {}, X, fill_value=0)
    np.testing.assert_array_equal(open_source(path).collect(), X)


@pytest.mark.parametrize("kind", KINDS)
def test_truth_values(kind, tmp_path):
    X = np.array([[True, False], [False, False]])
    path = by_hand(kind, tmp_path, {"scale_factor": 2.0}, X)
    np.testing.assert_array_equal(open_source(path).collect(), [[2, 0], [0, 0]])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("_FillValue", "none", 'is "none": not a number'),
        ("missing_value", "", 'is "": not a number'),
        ("scale_factor", "0.5", 'is "0.5": not a number'),
        ("scale_factor", np.array([1.0, 2.0]), "2 numbers, and one is needed"),
        ("add_offset", np.array([], dtype=float), "no numbers"),
        ("_Unsigned", "perhaps", 'neither "true" nor "false"'),
        ("_Unsigned", np.array([1, 2]), 'neither "true" nor "false"'),
        ("missing_value", np.arange(7_000), "numbers"),
        ("missing_value", np.array([True, False]), "not a number"),
    ],
)
def test_attributes_that_are_no_numbers_are_refused(kind, name, value, says, tmp_path):
    path = by_hand(kind, tmp_path, {name: value})
    with pytest.raises(UnreadableError, match=rf"group/x.*{name}.*{says}.*pass the array"):
        open_source(path)


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("kind", ["hdf5", "zarr-3"])
def test_factors_that_are_not_finite_are_refused(kind, value, tmp_path):
    path = by_hand(kind, tmp_path, {"scale_factor": value})
    with pytest.raises(UnreadableError, match=r"scale_factor.*not finite"):
        open_source(path)


@pytest.mark.parametrize(
    "value", [h5py.Empty("f8"), h5py.Empty("S1"), np.zeros(2, dtype=[("a", "f8"), ("b", "i2")])]
)
def test_attributes_of_hdf5_that_hold_nothing_or_records(value, tmp_path):
    path = by_hand("hdf5", tmp_path, {"_FillValue": value})
    with pytest.raises(UnreadableError, match=r"_FillValue.*(holds nothing|not a number)"):
        open_source(path)


@pytest.mark.parametrize("value", ["AAAA", "AAAAAAAA+H8", "%", [["AAAAAAAA+H8="]], {"a": 1}])
def test_fill_values_of_zarr_that_are_no_bytes_of_a_double(value, tmp_path):
    path = by_hand("zarr-3", tmp_path, {}, STORED.astype(float))
    zarr.open_group(path)["group/x"].attrs["_FillValue"] = value
    with pytest.raises(UnreadableError, match=r"_FillValue.*not a number"):
        open_source(path)


@pytest.mark.parametrize("value", [10**400, -(10**400)], ids=["above", "below"])
@pytest.mark.parametrize("dtype", ["i2", "f4", "f8"])
def test_numbers_beyond_all_types(value, dtype, tmp_path):
    path = by_hand("zarr-3", tmp_path, {}, STORED.astype(dtype))
    array = zarr.open_group(path)["group/x"]
    array.attrs["missing_value"] = value
    np.testing.assert_array_equal(open_source(path).collect(), STORED)
    array.attrs["scale_factor"] = value
    with pytest.raises(UnreadableError, match=r"scale_factor.*not finite"):
        open_source(path)
