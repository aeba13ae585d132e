"""Arrays and a header in one file: safetensors, with what guards against a damaged one.

A file of safetensors is the length of its table of contents (8 bytes), that table (JSON: type,
shape and place of every array, and texts of ours) and the bytes of the arrays. There is no code in
it. Our text is a JSON object: `format`, its version; `kind`, what the file is ("checkpoint",
"model"); `sha256` of arrays and header together; and the header itself. Everything that can be told
from the first kilobytes is told before the rest is read or memory is taken for it.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from eigengap.memory import require_memory
from eigengap.persistence.atomic import write_atomically

FORMAT = 1
KEY = "eigengap"  # of our text among those of the file
LARGEST_CONTENTS = 16 << 20  # bytes of a table of contents that is one

Arrays = Mapping[str, NDArray[Any]]


class CorruptFileError(ValueError):
    """A file is damaged, or is not of the kind that it was taken for."""


class NewerFormatError(ValueError):
    """A file was written by a later version of eigengap."""


def write_tensors(
    path: str | os.PathLike[str], arrays: Arrays, header: Mapping[str, Any], *, kind: str
) -> int:
    """Write arrays and a header (of JSON) atomically, and say how many bytes that took."""
    from safetensors.numpy import save

    plain = {name: _plain(array) for name, array in arrays.items()}
    text = json.dumps(header, sort_keys=True)
    facts = {"format": FORMAT, "kind": kind, "header": text, "sha256": _digest(plain, kind, text)}
    data = save(plain, {KEY: json.dumps(facts)})
    write_atomically(path, data)
    return len(data)


def read_tensors(
    path: str | os.PathLike[str], *, kind: str
) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """Arrays and header of a file of that kind.

    Raises CorruptFileError where it is damaged or of another kind, NewerFormatError where a later
    version wrote it; never gives back other values than were written.
    """
    from safetensors import SafetensorError
    from safetensors.numpy import load

    with Path(path).open("rb") as file:
        facts, size = _contents(file, path)
        _require_kind(facts, path, kind)
        require_memory(2.0 * size, f"the file {path}", "read it on a machine with more memory")
        file.seek(0)
        data = file.read()
    try:
        arrays = load(data)
    except (SafetensorError, KeyError, ValueError) as error:
        raise _damaged(path, f"its arrays cannot be read ({error})") from None
    text = facts["header"]
    if facts["sha256"] != _digest(arrays, kind, text):
        raise _damaged(path, "its contents are not those that were written (checksum)")
    header: dict[str, Any] = json.loads(text)
    return arrays, header


def _contents(file: BinaryIO, path: str | os.PathLike[str]) -> tuple[dict[str, Any], int]:
    """Our facts and the size of the file, which must be what the table of contents says."""
    size = os.fstat(file.fileno()).st_size
    length = int.from_bytes(file.read(8), "little")
    if size < 8 or length > min(size - 8, LARGEST_CONTENTS):
        raise _damaged(path, "it is cut short, or was never a file of eigengap")
    try:
        contents = json.loads(file.read(length))
        facts = json.loads(contents.pop("__metadata__")[KEY])
        ends = [int(entry["data_offsets"][1]) for entry in contents.values()]
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        raise _damaged(path, "it has no table of contents that eigengap wrote") from None
    if not isinstance(facts, dict):
        raise _damaged(path, "it has no table of contents that eigengap wrote")
    if _is_newer(facts):  # whose arrays may lie elsewhere
        return facts, size
    if max(ends, default=0) != size - 8 - length:
        raise _damaged(
            path,
            f"its arrays should take {max(ends, default=0)} bytes and take {size - 8 - length}",
        )
    return facts, size


def _is_newer(facts: dict[str, Any]) -> bool:
    written = facts.get("format")
    return isinstance(written, int) and written > FORMAT


def _require_kind(facts: dict[str, Any], path: str | os.PathLike[str], kind: str) -> None:
    if _is_newer(facts):
        raise NewerFormatError(
            f"{path} has format {facts['format']}, and this version of eigengap reads up to "
            f"{FORMAT}: a later version wrote it. Install that one"
        )
    found = facts.get("kind")
    if not all(isinstance(facts.get(key), str) for key in ("kind", "header", "sha256")):
        raise _damaged(path, "it has no table of contents that eigengap wrote")
    if found != kind:
        raise CorruptFileError(f"{path} is not a {kind} but a {found!s:.40}; give another path")


def _digest(arrays: Arrays, kind: str, text: str) -> str:
    """sha256 of everything that a reader relies on, whatever the order in the file."""
    digest = hashlib.sha256(json.dumps([FORMAT, kind, text]).encode())
    for name in sorted(arrays):
        array = arrays[name]
        digest.update(json.dumps([name, array.dtype.str, array.shape]).encode())
        digest.update(np.asarray(array, order="C").reshape(-1).view(np.uint8).data)
    return digest.hexdigest()


def _plain(array: NDArray[Any]) -> NDArray[Any]:
    return np.asarray(array, dtype=array.dtype.newbyteorder("<"), order="C")


def _damaged(path: str | os.PathLike[str], why: str) -> CorruptFileError:
    return CorruptFileError(f"{path} is damaged: {why}. Delete it, or give another path")
