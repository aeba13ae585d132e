"""Paths as pyarrow takes them: it encodes texts as UTF-8, and names of files may be any bytes."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

PACKED = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd"}


def native(path: str | os.PathLike[str]) -> Any:
    """The path as text, or the file itself, opened, where its name is no UTF-8."""
    text = os.fspath(path)
    try:
        text.encode()
    except UnicodeEncodeError:
        import pyarrow as pa

        return pa.OSFile(os.fsencode(text))
    return text


def packed_by(path: str) -> str | None:
    """How a file is compressed, by its name."""
    return PACKED.get(Path(path).suffix.lower())
