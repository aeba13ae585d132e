"""What a path means: ~, globs, lists, `file::array`, and the format of the file that is there."""

from __future__ import annotations

import glob
import os
import re
from dataclasses import dataclass
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from typing import Any

from eigengap.exceptions import MissingExtraError, UnreadableError
from eigengap.wording import words

INSIDE = "::"  # between a file and the array in it


def needed(what: str, module: str, extra: str = "files") -> Any:
    """A module of a package that not everybody has installed; without it, how to install it."""
    package = module.partition(".")[0]
    try:
        import_module(package)
        return import_module(module)
    except ImportError as error:
        raise MissingExtraError(what, package, extra) from error


@dataclass(frozen=True)
class Address:
    """A file or folder that exists, and the array in it that is meant."""

    path: Path
    member: str | None = None


def find_files(path: Any) -> list[Address]:
    """All that is meant by a path, in order: a list in its own, a glob with 2 before 10."""
    if isinstance(path, list | tuple):
        if not path:
            raise ValueError("the list of paths is empty")
        return [address for one in path for address in find_files(one)]
    if not isinstance(path, str | bytes | os.PathLike):
        raise TypeError(
            f"open_source takes the path of a file, a list of paths, or a field of xarray; got "
            f"{type(path).__name__}. Estimators take the table itself: PCA().fit(table)"
        )
    text = os.path.expanduser(os.fsdecode(path))
    if _exists(text):
        return [Address(Path(text))]
    text, _, member = text.partition(INSIDE)
    if _exists(text):
        return [Address(Path(text), member or None)]
    if glob.has_magic(text):
        found = sorted(glob.glob(text, recursive=True), key=_natural)
        if not found:
            raise FileNotFoundError(f"no file matches {words().path(text)}{_close_to(text)}")
        return [Address(Path(one), member or None) for one in found]
    if re.match(r"[A-Za-z][A-Za-z0-9+.-]+://", text):
        raise FileNotFoundError(
            f"{words().path(text)} is an address on a network, and files are read from this "
            "machine: copy it here first"
        )
    if not _exists(os.path.dirname(text) or "."):
        raise FileNotFoundError(f"{words().path(text)} does not exist, nor does its folder")
    raise FileNotFoundError(f"{words().path(text)} does not exist{_close_to(text)}")


def _exists(text: str) -> bool:
    try:
        return os.path.exists(text)
    except ValueError:  # a null byte
        return False


def _natural(text: str) -> list[tuple[int, str]]:
    """So that part-2 comes before part-10."""
    return [(int(p) if p.isdecimal() else -1, p) for p in re.split(r"(\d+)", text)]


def _close_to(text: str) -> str:
    """Names in the same folder that may have been meant."""
    folder, name = os.path.split(text)
    try:
        there = sorted(os.listdir(folder or "."))
    except (OSError, ValueError):
        return ""
    by_case = {one.lower(): one for one in there}
    close = get_close_matches(name.lower(), list(by_case), n=3, cutoff=0.75)
    if not close:
        return ""
    return f"; did you mean {' or '.join(words().path(by_case[one]) for one in close)}?"


MAGIC = (
    (b"\x93NUMPY", "npy"),
    (b"PK\x03\x04", "npz"),
    (b"PK\x05\x06", "npz"),
    (b"PAR1", "parquet"),
    (b"\x89HDF\r\n\x1a\n", "hdf5"),
)
COMPRESSED = ((b"\x1f\x8b", "gzip"), (b"BZh", "bz2"), (b"\x28\xb5\x2f\xfd", "zstd"))
SUFFIXES = {
    **{".npy": "npy", ".npz": "npz", ".parquet": "parquet", ".pq": "parquet"},
    **{".h5": "hdf5", ".hdf5": "hdf5", ".hdf": "hdf5", ".zarr": "zarr"},
}
ZARR = (".zarray", ".zgroup", "zarr.json")  # one of these lies in the folder of an array or group
PICKLE = "a pickle, and loading one runs whatever code it holds"
REFUSED = {
    **dict.fromkeys((".pkl", ".pickle", ".joblib"), PICKLE),
    **dict.fromkeys((".xlsx", ".xls", ".ods"), "a spreadsheet; save it as CSV"),
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
    named = SUFFIXES.get(suffix)
    if named == "hdf5":  # what makes it one may stand further on
        return Format(named)
    if named is not None:
        raise UnreadableError(
            where,
            f"it is named like a {suffix} file but does not begin as one ({head[:8]!r}): another "
            "format, or not written to its end",
        )
    is_wide = head[:2] in (b"\xff\xfe", b"\xfe\xff")  # UTF-16, which the CSV reader reports
    if b"\x00" in head and not is_wide and not _is_text(head.replace(b"\x00", b"")):
        raise UnreadableError(where, f"it is of no format that is read: {KNOWN}")
    return Format("csv")


def _is_text(head: bytes) -> bool:
    """Whether bytes are lines of text, in whatever encoding: without other control characters."""
    return b"\n" in head and not any(byte < 32 and byte not in b"\t\n\r\f" for byte in head)
