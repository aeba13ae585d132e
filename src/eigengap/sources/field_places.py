"""Where labelled fields lie: in memory, on Dask, in NetCDF files and Zarr groups.

A file is open while it is read and no longer, so that ten thousand of them are as good as one.
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from glob import glob, has_magic
from os import PathLike, fspath
from pathlib import Path
from typing import Any, Protocol

from eigengap.extras import MissingExtraError
from eigengap.sources.field_grid import listed
from eigengap.sources.reader import UnreadableError
from eigengap.sources.wording import quote

SUFFIXES = frozenset({".nc", ".nc4", ".cdf", ".netcdf"})
ENGINES = {b"CDF": "scipy", b"\x89HD": "h5netcdf"}  # by the first bytes of a file
BY_HAND = (
    "Open it yourself, e.g. X = xarray.open_dataset(path, ...) with the options it needs, and pass "
    "X[variable]"
)


class Place(Protocol):
    """A field that can be looked at."""

    where: str

    def opened(self) -> Any:
        """A context in which the DataArray can be read."""

    def size(self) -> int:
        """Bytes on the medium, 0 where there is none."""


@dataclass(frozen=True, eq=False)
class Held:
    """A DataArray in the caller's hands, in memory, on Dask or lazily opened."""

    field: Any

    @property
    def where(self) -> str:
        return "the field" if self.field.name is None else f"the field {self.field.name}"

    @contextmanager
    def opened(self) -> Iterator[Any]:
        yield self.field

    def size(self) -> int:
        return 0


@dataclass(frozen=True, eq=False)
class FieldFile:
    """A variable of a NetCDF file or Zarr group."""

    path: Path
    variable: Hashable | None

    @property
    def where(self) -> str:
        return str(self.path)

    @contextmanager
    def opened(self) -> Iterator[Any]:
        data = _open(self.path)
        try:
            yield chosen_variable(data, self.variable, quote(self.where))
        finally:
            data.close()

    def size(self) -> int:
        """Of the whole file; of a Zarr group, of the variable's own folder."""
        if self.path.is_file():
            return self.path.stat().st_size
        with self.opened() as field:
            folder = self.path / str(field.name)
        return sum(part.stat().st_size for part in folder.rglob("*") if part.is_file())


def xarray() -> Any:
    """The package, or an error that says how to install it."""
    try:
        import xarray as package
    except ImportError:
        raise MissingExtraError("a labelled field", "xarray", "xarray") from None
    return package


def is_field(X: Any) -> bool:
    """Whether X is a DataArray or Dataset of xarray, which is not imported to find out."""
    return any(
        base.__name__ in ("DataArray", "Dataset") and base.__module__.partition(".")[0] == "xarray"
        for base in type(X).__mro__
    )


def is_field_path(X: Any) -> bool:
    """Whether X names a NetCDF file, a Zarr group, or many of them (a glob, a list)."""
    if isinstance(X, list | tuple):
        return bool(X) and all(map(is_field_path, X))
    if not isinstance(X, str | PathLike):
        return False
    name = fspath(X)
    if not isinstance(name, str):
        return False
    if Path(name).suffix.lower() in SUFFIXES:
        return True
    if has_magic(name) and not Path(name).exists():
        return any(_is_group(Path(found)) for found in sorted(glob(name))[:1])
    return _is_group(Path(name))


def places_of(X: Any, variable: Hashable | None) -> list[Place]:
    """One place for a field in memory, one a file for paths; files in the order of their names."""
    if is_field(X):
        if not hasattr(X, "data_vars"):
            _refuse_variable(X, variable)
            return [Held(X)]
        return [Held(chosen_variable(X, variable, "the Dataset"))]
    return [FieldFile(path, variable) for path in _paths(X)]


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
        told = f"holds the variables {listed(names)}" if names else "holds no variable"
        raise ValueError(f"{what} {told}; name one with variable=")
    return data[names[0]]


def _refuse_variable(field: Any, variable: Hashable | None) -> None:
    if variable is not None and variable != field.name:
        raise ValueError(
            f"variable={variable!r} chooses from a Dataset, and X is a DataArray named "
            f"{field.name!r}"
        )


def _paths(X: Any) -> list[Path]:
    if isinstance(X, list | tuple):
        if not X:
            raise ValueError("the list of files is empty")
        return [path for part in X for path in _paths(part)]
    if not isinstance(X, str | PathLike):
        raise ValueError(
            f"a field is an xarray.DataArray, a Dataset, or the path of a NetCDF file or Zarr "
            f"group; got {type(X)}"
        )
    name = str(fspath(X))
    if not has_magic(name) or Path(name).exists():
        return [Path(name)]
    found = sorted(glob(name, recursive=True))
    if not found:
        raise FileNotFoundError(f"no file matches {quote(name)}")
    return list(map(Path, found))


def _open(path: Path) -> Any:
    """The Dataset, nothing of it read yet.

    Bounds and projections count as coordinates, so that they are not taken for data; durations stay
    numbers, for "days" may be the unit of a measurement.
    """
    if not path.exists():
        raise FileNotFoundError(f"there is no file {quote(str(path))}")
    options = _zarr_options(path) if path.is_dir() else {"engine": _engine(path)}
    package = xarray()
    try:
        return package.open_dataset(
            path,
            chunks=None,
            cache=False,
            decode_coords="all",
            decode_timedelta=False,
            **options,
        )
    except ImportError as error:
        raise MissingExtraError(
            f"reading {path.name}", error.name or "a package", "xarray"
        ) from error
    except (OSError, ValueError, KeyError, RuntimeError, TypeError) as error:
        raise UnreadableError(
            str(path), f"xarray cannot open it ({_first_line(error)}). {BY_HAND}"
        ) from error


def _engine(path: Path) -> str:
    with path.open("rb") as file:
        start = file.read(3)
    if start not in ENGINES:
        raise UnreadableError(
            str(path), "it is no NetCDF file: neither classic (CDF) nor NetCDF 4 (HDF5)"
        )
    return ENGINES[start]


def _zarr_options(path: Path) -> dict[str, Any]:
    if not _is_group(path):
        raise UnreadableError(
            str(path), "it is a folder, but no Zarr group: it has neither zarr.json nor .zgroup"
        )
    consolidated = (path / ".zmetadata").exists() or bool(
        _metadata(path).get("consolidated_metadata")
    )
    return {"engine": "zarr", "consolidated": consolidated}  # told, or xarray warns


def _is_group(path: Path) -> bool:
    return (path / ".zgroup").exists() or _metadata(path).get("node_type") == "group"


def _metadata(path: Path) -> dict[str, Any]:
    try:
        found = json.loads((path / "zarr.json").read_text())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
