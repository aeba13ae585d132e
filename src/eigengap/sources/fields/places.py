"""Where labelled fields lie: in memory, on Dask, in NetCDF files and Zarr groups.

A file is open while it is read and no longer, so that ten thousand of them are as good as one.
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from os import PathLike, fspath
from pathlib import Path
from typing import Any, TypeAlias

from eigengap.exceptions import MissingExtraError, UnreadableError
from eigengap.printable import quoted
from eigengap.sources.array import is_field
from eigengap.sources.fields.grid import listed
from eigengap.sources.files.hdf5 import require_self_contained
from eigengap.sources.files.paths import INSIDE, find_files, needed
from eigengap.sources.files.zarr_reader import require_sound
from eigengap.sources.reader import Stamp, require_stamp, unreadable
from eigengap.sources.wording import quote

SUFFIXES = frozenset({".nc", ".nc4", ".cdf", ".netcdf"})
ENGINES = {b"CDF": "scipy", b"\x89HD": "h5netcdf"}  # by the first bytes of a file
ERRORS = (OSError, ValueError, LookupError, RuntimeError, TypeError)
BY_HAND = (
    "Open it yourself, e.g. X = xarray.open_dataset(path, ...) with the options it needs, and pass "
    "X[variable]"
)


@dataclass(frozen=True, eq=False)
class Held:
    """A DataArray in the caller's hands, in memory, on Dask or lazily opened."""

    field: Any

    @property
    def where(self) -> str:
        """How messages name it."""
        return "the field" if self.field.name is None else f"the field {self.field.name}"

    @contextmanager
    def opened(self) -> Iterator[Any]:
        """A context in which the DataArray can be read."""
        yield self.field

    def size(self) -> int:
        """Bytes on the medium."""
        return 0

    def require_unchanged(self) -> None:
        """What the caller holds is the caller's to change."""


@dataclass(frozen=True, eq=False)
class FieldFile:
    """A variable of a NetCDF file or Zarr group."""

    path: Path
    variable: Hashable | None
    stamp: Stamp

    @classmethod
    def at(cls, path: Path, variable: Hashable | None) -> FieldFile:
        """The file as it is now, if it can be opened without harm."""
        stamp = Stamp.of(path)
        _require_harmless(path, stamp.size)
        return cls(path, variable, stamp)

    def require_unchanged(self) -> None:
        require_stamp(self.path, self.stamp, self.where)

    @property
    def where(self) -> str:
        return str(self.path)

    @contextmanager
    def opened(self) -> Iterator[Any]:
        data = _open(self.path)
        try:
            yield chosen_variable(data, self.variable, quoted(self.where))
        finally:
            data.close()

    def size(self) -> int:
        """Of the whole file; of a Zarr group, of the variable's own folder."""
        if self.path.is_file():
            return self.path.stat().st_size
        with self.opened() as field:
            folder = self.path / str(field.name)
        return sum(part.stat().st_size for part in folder.rglob("*") if part.is_file())


Place: TypeAlias = Held | FieldFile


def xarray() -> Any:
    """The package, or an error on how to install it."""
    return needed("a labelled field", "xarray", "xarray")


def is_field_path(X: Any) -> bool:
    """Whether X names a NetCDF file, a Zarr group with dimensions, or many of them."""
    if isinstance(X, list | tuple):
        return bool(X) and all(map(is_field_path, X))
    if not isinstance(X, str | PathLike) or not isinstance(fspath(X), str):
        return False
    text = str(fspath(X)).partition(INSIDE)[0]
    if Path(text).suffix.lower() in SUFFIXES:
        return True
    try:
        return _has_dimensions(find_files(X)[0].path)
    except OSError:
        return False


def places_of(X: Any, variable: Hashable | None) -> list[Place]:
    """One place for a field in memory, one a file for paths; files in the order of their names."""
    if is_field(X):
        if hasattr(X, "data_vars"):
            return [Held(chosen_variable(X, variable, "the Dataset"))]
        if variable is not None and variable != X.name:
            raise ValueError(
                f"variable={variable!r} chooses from a Dataset, and X is a DataArray named "
                f"{X.name!r}"
            )
        return [Held(X)]
    if not isinstance(X, str | PathLike | list | tuple):
        raise ValueError(
            "a field is an xarray.DataArray, a Dataset, or the path of a NetCDF file or Zarr "
            f"group; got {type(X)}"
        )
    return [
        FieldFile.at(at.path, variable if variable is not None else at.member)
        for at in find_files(X)
    ]


def chosen_variable(data: Any, variable: Hashable | None, what: str) -> Any:
    """The variable of a Dataset that is asked for, or its only one."""
    names = list(data.data_vars)
    if variable is not None:
        if variable not in names:
            raise ValueError(
                f"{what} has no variable {quote(str(variable))}; its variables are {listed(names)}"
            )
        return data[variable]
    if len(names) != 1:
        held = f"holds the variables {listed(names)}" if names else "holds no variable"
        raise ValueError(
            f"{what} {held}; name one with "
            f"variable=, or in a path as {quote('file.nc::' + str(names[0] if names else 'name'))}"
        )
    return data[names[0]]


def _open(path: Path) -> Any:
    """The Dataset, nothing of it read yet.

    Bounds and projections count as coordinates, so that they are not taken for data; durations stay
    numbers, for "days" may be the unit of a measurement.
    """
    if not path.exists():
        raise FileNotFoundError(f"{quoted(str(path))} does not exist any more")
    options: dict[str, Any] = {"engine": "zarr" if path.is_dir() else _engine(path)}
    if path.is_dir():
        if not _is_group(path):
            raise UnreadableError(
                str(path), "it is a folder, but no Zarr group: it has neither zarr.json nor .zgroup"
            )
        found = _metadata(path / "zarr.json").get("consolidated_metadata")  # or xarray warns
        options["consolidated"] = bool(found) or (path / ".zmetadata").exists()
    package = xarray()
    if find_spec(options["engine"]) is None:
        raise MissingExtraError(f"reading {quoted(str(path))}", options["engine"], "xarray")
    options |= {"chunks": None, "cache": False}
    # Not `unreadable`: its frame would keep xarray's, and with it the file open, until collected.
    try:
        return package.open_dataset(path, decode_coords="all", decode_timedelta=False, **options)
    except ERRORS as error:
        said = str(error).strip().partition("\n")[0] or type(error).__name__
        raise UnreadableError(str(path), f"xarray cannot open it ({said}). {BY_HAND}") from error


def _require_harmless(path: Path, size: int) -> None:
    """Refuse what xarray would follow to other files, or would read without end while opening."""
    if path.is_dir():
        require_sound(path)
    elif _engine(path) == "h5netcdf" and find_spec("h5py") is not None:
        import h5py

        broken = "it is not a whole NetCDF file ({}); copy it anew"
        with unreadable(str(path), ERRORS, broken), h5py.File(path, "r") as file:
            require_self_contained(file, str(path), size)


def _engine(path: Path) -> str:
    with path.open("rb") as file:
        start = file.read(3)
    if start not in ENGINES:
        raise UnreadableError(
            str(path), "it is no NetCDF file: neither classic (CDF) nor NetCDF 4 (HDF5)"
        )
    return ENGINES[start]


def _is_group(path: Path) -> bool:
    return (path / ".zgroup").exists() or _metadata(path / "zarr.json").get("node_type") == "group"


def _has_dimensions(path: Path) -> bool:
    """Whether it is a Zarr group with an array whose dimensions have names, as xarray writes."""
    return _is_group(path) and any(
        _metadata(part / ".zattrs").get("_ARRAY_DIMENSIONS") is not None
        or _metadata(part / "zarr.json").get("dimension_names") is not None
        for part in path.iterdir()
        if part.is_dir()
    )


def _metadata(file: Path) -> dict[str, Any]:
    try:
        found = json.loads(file.read_text())
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
