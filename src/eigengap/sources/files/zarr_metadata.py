"""What the metadata of a Zarr folder say, checked before any package acts on them."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from math import prod
from pathlib import Path
from typing import Any

from eigengap.exceptions import UnreadableError
from eigengap.sources.files.claims import require_plausible
from eigengap.sources.files.file import Stamp
from eigengap.sources.wording import quote

FILES = frozenset({"zarr.json", ".zarray", ".zmetadata"})
CHUNKS = ("chunks", "chunk_shape")  # in formats 2 and 3
CODECS = ("id", "name")
WIDEST = 8  # bytes of a number, at most


def require_sound(path: Path) -> None:
    """Refuse chunks without length, arrays that are not there, and codecs that run code."""
    stored = Stamp.of(path).size
    for file in _files(path):
        where = str(file)
        for part in _parts(_read(file)):
            _require_chunks(part, where)
            if any(str(part.get(key)).rpartition(".")[2] == "pickle" for key in CODECS):
                raise UnreadableError(
                    where,
                    "its chunks are pickles, which can run any code when they are read. If you "
                    "trust it, write it anew without that codec",
                )
            shape = part.get("shape")
            if isinstance(shape, list) and all(type(n) is int and n >= 0 for n in shape):
                require_plausible(str(path), prod(shape) * WIDEST, stored)


def _files(path: Path) -> Iterator[Path]:
    for folder, _, names in os.walk(path):
        yield from (Path(folder) / name for name in sorted(FILES.intersection(names)))


def _read(file: Path) -> Any:
    try:
        return json.loads(file.read_bytes())
    except (ValueError, RecursionError):
        raise UnreadableError(str(file), "it is no JSON of Zarr; copy the folder anew") from None


def _parts(value: Any) -> Iterator[dict[str, Any]]:
    """Every object inside of a document, but for what its user has put there."""
    waiting = [value]
    while waiting:
        found = waiting.pop()
        if isinstance(found, dict):
            yield found
            waiting.extend(v for k, v in found.items() if not k.endswith(("attributes", ".zattrs")))
        elif isinstance(found, list):
            waiting.extend(found)


def _require_chunks(part: dict[str, Any], where: str) -> None:
    for key in CHUNKS:
        lengths = part.get(key)
        if isinstance(lengths, list) and any(type(n) is int and n < 1 for n in lengths):
            raise UnreadableError(
                where,
                f"{quote(key)} is {lengths!s:.60}, and every chunk has a length; write it anew",
            )
