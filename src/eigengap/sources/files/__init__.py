"""Tables in files. `open_source` finds the reader by the name of the file."""

from __future__ import annotations

from math import nan
from pathlib import Path
from typing import Any

from eigengap.sources.base import Source
from eigengap.sources.checks import missing_codes
from eigengap.sources.files.npy import NpyReader
from eigengap.sources.stream import BLOCK_BYTES, StreamSource

__all__ = ["open_source"]


def open_source(
    path: Any,
    *,
    columns: Any = None,
    missing_values: Any = nan,
    sample_weight: Any = None,
    block_bytes: int = BLOCK_BYTES,
    block_rows: int | None = None,
) -> Source:
    """A file as a table that any estimator reads in blocks."""
    return StreamSource(
        NpyReader(Path(path), columns),
        codes=missing_codes(missing_values),
        weight=sample_weight,
        block_bytes=block_bytes,
        block_rows=block_rows,
    )
