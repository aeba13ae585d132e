"""Which format a file has: by its first bytes, which do not lie, and else by its name."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from eigengap.exceptions import UnreadableError
from eigengap.wording import words

MAGIC = (
    (b"\x93NUMPY", "npy"),
    (b"PK\x03\x04", "npz"),
    (b"PK\x05\x06", "npz"),
    (b"PAR1", "parquet"),
    (b"\x89HDF\r\n\x1a\n", "hdf5"),
)
COMPRESSED = ((b"\x1f\x8b", "gzip"), (b"BZh", "bz2"), (b"\x28\xb5\x2f\xfd", "zstd"))
SUFFIXES = {
    ".npy": "npy",
    ".npz": "npz",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".h5": "hdf5",
    ".hdf5": "hdf5",
    ".hdf": "hdf5",
    ".zarr": "zarr",
}
ZARR = (".zarray", ".zgroup", "zarr.json")  # one of these lies in the folder of an array or group
REFUSED = {
    ".pkl": "a pickle, and loading one runs whatever code it holds",
    ".pickle": "a pickle, and loading one runs whatever code it holds",
    ".joblib": "a pickle, and loading one runs whatever code it holds",
    ".xlsx": "a spreadsheet; save it as CSV",
    ".xls": "a spreadsheet; save it as CSV",
    ".ods": "a spreadsheet; save it as CSV",
    ".feather": "a Feather file; write it as Parquet",
    ".arrow": "an Arrow file; write it as Parquet",
}
KNOWN = "CSV (also .gz), Parquet, .npy, .npz, HDF5 and Zarr"
LOOKED_AT = 8192  # bytes


@dataclass(frozen=True)
class Format:
    """The name of a format, and how the file is compressed around it."""

    name: str
    compression: str | None = None


def format_of(path: Path) -> Format:
    """The format of a file or folder that exists."""
    where, suffix = str(path), path.suffix.lower()
    if path.is_dir():
        zarr = suffix == ".zarr" or any((path / name).exists() for name in ZARR)
        return Format("zarr" if zarr else "folder")
    if not path.is_file():
        raise UnreadableError(
            where,
            "it is a pipe or a device, and a table is read more than once. Write it to a file "
            "first",
        )
    with path.open("rb") as file:
        head = file.read(LOOKED_AT)
    if not head:
        raise UnreadableError(
            where, "it is empty" + words().either(": Found array with 0 sample(s)")
        )
    if suffix in REFUSED:
        raise UnreadableError(where, f"it is {REFUSED[suffix]}. {KNOWN} are read")
    for magic, name in MAGIC:
        if head.startswith(magic):
            return Format(name)
    for magic, name in COMPRESSED:
        if head.startswith(magic):
            return Format("csv", name)
    return _by_name(where, suffix, head)


def _by_name(where: str, suffix: str, head: bytes) -> Format:
    name = SUFFIXES.get(suffix)
    if name == "hdf5":  # what makes it one may stand further on
        return Format(name)
    if name is not None:
        raise UnreadableError(
            where,
            f"it is named like a {suffix} file but does not begin as one ({head[:8]!r}): another "
            "format, or not written to its end",
        )
    is_wide = head[:2] in (b"\xff\xfe", b"\xfe\xff")  # UTF-16, which the CSV reader tells
    if b"\x00" in head and not is_wide:
        raise UnreadableError(where, f"it is of no format that is read: {KNOWN}")
    return Format("csv")
