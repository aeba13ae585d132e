"""Arrays and a header in one file: safetensors, with what guards against a damaged one.

A file of safetensors is the length of its table of contents (8 bytes), that table (JSON: type,
shape and place of every array, and texts of ours) and the bytes of the arrays. There is no code in
it. Our text is a JSON object: `format`, its version; `kind`, what the file is ("checkpoint",
"model"); `sha256` of arrays and header together; `head`, the sha256 of all but the values of the
arrays; and the header itself. Everything that the first kilobytes show is checked before the rest
is read or memory is allocated for it.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from stat import S_ISDIR, S_ISREG
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from eigengap.exceptions import CorruptFileError, NewerFormatError
from eigengap.persistence.atomic import write_atomically
from eigengap.printable import bare
from eigengap.runtime.memory import require_memory

FORMAT = 1
KEY = "eigengap"  # of our text among those of the file
LARGEST_CONTENTS = 16 << 20  # bytes of a table of contents that is one

# What safetensors calls the types of NumPy.
CODES = {
    "bool": "BOOL", "int8": "I8", "int16": "I16", "int32": "I32", "int64": "I64",
    "uint8": "U8", "uint16": "U16", "uint32": "U32", "uint64": "U64",
    "float16": "F16", "float32": "F32", "float64": "F64",
}  # fmt: skip
NAMES = {code: name for name, code in CODES.items()}
# What is wrong with a file.
FOREIGN = "it has no table of contents that eigengap wrote"
OTHER = "its contents are not those that were written (checksum)"

Arrays = Mapping[str, NDArray[Any]]
Place = str | os.PathLike[str]


class TensorFacts(NamedTuple):
    """An array of a file, which was not read."""

    name: str
    dtype: str  # in NumPy's words
    shape: tuple[int, ...]


class Head(NamedTuple):
    """The part of a file before its arrays."""

    size: int  # bytes of the whole file
    format: int
    header: dict[str, Any]
    tensors: tuple[TensorFacts, ...]


def write_tensors(path: Place, arrays: Arrays, header: Mapping[str, Any], *, kind: str) -> int:
    """Write arrays and a header (JSON) atomically; the number of bytes.

    ValueError where the header is longer than readers accept.
    """
    from safetensors.numpy import save

    plain = {
        name: np.asarray(array, dtype=array.dtype.newbyteorder("<"), order="C")
        for name, array in arrays.items()
    }
    for name, array in plain.items():
        if array.dtype.name not in CODES:
            raise TypeError(f"{name} holds {array.dtype}, which no file of tensors takes")
    tensors = [TensorFacts(name, a.dtype.name, a.shape) for name, a in plain.items()]
    text = json.dumps(header, sort_keys=True)
    facts = {
        "format": FORMAT,
        "kind": kind,
        "header": text,
        "head": _head_digest(tensors, kind, text),
        "sha256": _digest(plain, kind, text),
    }
    data = save(plain, {KEY: json.dumps(facts)})
    length = int.from_bytes(data[:8], "little")
    if length > LARGEST_CONTENTS:
        raise ValueError(
            f"what is to be written besides arrays takes {length / 2**20:.0f} MB, and at most "
            f"{LARGEST_CONTENTS / 2**20:.0f} MB are read again"
        )
    write_atomically(path, data)
    return len(data)


def read_head(path: Place, *, kind: str) -> Head:
    """The part of a file of that kind before its arrays, which are not read."""
    with _opened(path) as file:
        facts, entries, size = _contents(file, path, kind)
    tensors = _checked(facts, entries, path)
    return Head(size, facts["format"], _header(facts["header"], path), tensors)


def read_tensors(path: Place, *, kind: str) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """Arrays and header of a file of that kind.

    Raises CorruptFileError where it is damaged or of another kind, NewerFormatError where a later
    version wrote it; never gives back other values than were written.
    """
    from safetensors import SafetensorError
    from safetensors.numpy import load

    with _opened(path) as file:
        facts, entries, size = _contents(file, path, kind)
        require_memory(
            2.0 * size, f"the file {bare(path)}", "read it on a machine with more memory"
        )
        _checked(facts, entries, path)
        file.seek(0)
        data = file.read()
    try:
        arrays = load(data)
    except (SafetensorError, KeyError, ValueError) as error:
        raise _damaged(path, f"its arrays cannot be read ({error})") from None
    if facts["sha256"] != _digest(arrays, kind, facts["header"]):
        raise _damaged(path, OTHER)
    return arrays, _header(facts["header"], path)


def _opened(path: Place) -> BinaryIO:
    """The file, unless it is a pipe, which would block until somebody writes to it."""
    mode = os.stat(path).st_mode
    if not S_ISREG(mode) and not S_ISDIR(mode):
        raise _damaged(path, "it is a pipe or a device and not a file")
    return Path(path).open("rb")


def _contents(file: BinaryIO, path: Place, kind: str) -> tuple[dict[str, Any], dict[str, Any], int]:
    """Our facts, the entries of arrays, and the size of the file, which must fit them."""
    size = os.fstat(file.fileno()).st_size
    length = int.from_bytes(file.read(8), "little")
    if size < 8 or length > min(size - 8, LARGEST_CONTENTS):
        raise _damaged(path, "it is cut short, or was never a file of eigengap")
    try:
        contents = json.loads(file.read(length))
        facts = json.loads(contents.pop("__metadata__")[KEY])
        written = facts.get("format")
        end = max((_end(*entry["data_offsets"]) for entry in contents.values()), default=0)
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        raise _damaged(path, FOREIGN) from None
    if isinstance(written, int) and written > FORMAT:  # whose arrays may lie elsewhere
        raise NewerFormatError(
            f"{bare(path)} has format {written}, and this version of eigengap reads up to "
            f"{FORMAT}: a later version wrote it. Install that one"
        )
    texts = [facts.get(key) for key in ("kind", "header", "head", "sha256")]
    if type(written) is not int or written < 1 or not all(isinstance(t, str) for t in texts):
        raise _damaged(path, FOREIGN)
    if facts["kind"] != kind:
        raise CorruptFileError(
            f"{bare(path)} is not a {kind} but a {bare(facts['kind']):.40}; give another path"
        )
    if end != size - 8 - length:
        raise _damaged(path, f"its arrays should take {end} bytes and take {size - 8 - length}")
    return facts, contents, size


def _end(start: Any, end: Any) -> int:
    """Where an array ends, of the two places that a file names."""
    if type(start) is not int or type(end) is not int or not 0 <= start <= end:
        raise ValueError(f"an array from {start} to {end}")
    return end


def _checked(
    facts: dict[str, Any], entries: dict[str, Any], path: Place
) -> tuple[TensorFacts, ...]:
    """The arrays that a file lists, if all that precedes them is intact."""
    tensors = []
    for name, entry in entries.items():
        dtype, shape = entry.get("dtype"), entry.get("shape")
        is_shape = isinstance(shape, list) and all(type(n) is int and n >= 0 for n in shape)
        if not isinstance(dtype, str) or dtype not in NAMES or not is_shape:
            raise _damaged(path, FOREIGN)
        tensors.append(TensorFacts(name, NAMES[dtype], tuple(shape)))
    if facts["head"] != _head_digest(tensors, facts["kind"], facts["header"]):
        raise _damaged(path, OTHER)
    return tuple(tensors)


def _header(text: str, path: Place) -> dict[str, Any]:
    try:
        header = json.loads(text)
    except (ValueError, RecursionError):
        header = None
    if not isinstance(header, dict):
        raise _damaged(path, "its header is not what eigengap writes")
    return header


def _digest(arrays: Arrays, kind: str, text: str) -> str:
    """sha256 of everything that a reader relies on, whatever the order in the file."""
    digest = hashlib.sha256(json.dumps([FORMAT, kind, text]).encode())
    for name in sorted(arrays):
        array = arrays[name]
        digest.update(json.dumps([name, array.dtype.str, array.shape]).encode())
        digest.update(np.asarray(array, order="C").reshape(-1).view(np.uint8).data)
    return digest.hexdigest()


def _head_digest(tensors: list[TensorFacts], kind: str, text: str) -> str:
    """sha256 of everything but the values of the arrays."""
    return hashlib.sha256(json.dumps([FORMAT, kind, text, sorted(tensors)]).encode()).hexdigest()


def _damaged(path: Place, why: str) -> CorruptFileError:
    return CorruptFileError(
        f"{bare(path)} is damaged, or was never such a file: {why}. Give another path"
    )
