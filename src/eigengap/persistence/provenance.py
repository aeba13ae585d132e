"""Where a model comes from: a flat record in its file."""

from __future__ import annotations

import hashlib
import os
import platform
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from math import isfinite
from pathlib import Path
from typing import Any

LARGEST_HASHED = 1 << 30  # bytes of a data file whose checksum is taken; a second or two
LONGEST = 1_000_000  # letters of one entry
MOST = 1000  # entries
PACKAGES = ("numpy", "scipy", "scikit-learn")


def provenance_of(
    command: str | None = None,
    data: str | os.PathLike[str] | None = None,
    rows: int | None = None,
) -> dict[str, Any]:
    """A record of when and with what a model was fitted, and to which data.

    Parameters
    ----------
    command : str, default=None
        What was run.
    data : str or path-like, default=None
        The data, as they were named. Where that is a file of at most 1 GB its sha256 is taken.
    rows : int, default=None
        Number of rows.

    Returns
    -------
    dict
        `created` (UTC), versions of `eigengap`, `python`, `numpy`, `scipy` and `scikit-learn`, and
        what was given: `command`, `data`, `data_bytes`, `data_sha256`, `rows`.

    Examples
    --------
    >>> from eigengap.persistence.provenance import provenance_of
    >>> record = provenance_of(command="eigengap fit biopsy.csv", rows=699)
    >>> record["rows"], record["command"]
    (699, 'eigengap fit biopsy.csv')
    """
    from eigengap import __version__

    record: dict[str, Any] = {
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "eigengap": __version__,
        "python": platform.python_version(),
    }
    record |= {name: found for name in PACKAGES if (found := _version(name)) is not None}
    if command is not None:
        record["command"] = str(command)
    if data is not None:
        record |= {"data": os.fspath(data), **_facts_of(data)}
    if rows is not None:
        record["rows"] = int(rows)
    return record


@cache
def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:  # installed in a way that leaves no record
        return None


def _facts_of(data: str | os.PathLike[str]) -> dict[str, Any]:
    """Size and checksum of a file; nothing of what is none, or cannot be read."""
    path = Path(data)
    try:
        if not path.is_file():
            return {}
        size = path.stat().st_size
        facts: dict[str, Any] = {"data_bytes": size}
        if size <= LARGEST_HASHED:
            with path.open("rb") as file:
                facts["data_sha256"] = hashlib.file_digest(file, "sha256").hexdigest()
    except (OSError, ValueError):  # the latter of names that no file can have
        return {}
    return facts


def require_flat(record: Any) -> dict[str, Any]:
    """The record as it goes into a file: texts, numbers, truth values and None under names."""
    if not isinstance(record, Mapping):
        raise TypeError(f"provenance must be a dict, got {type(record).__name__}")
    if len(record) > MOST:
        raise ValueError(f"provenance has {len(record)} entries; at most {MOST} are kept")
    for name, value in record.items():
        entry = f"provenance[{name!r:.60}]"
        if not isinstance(name, str):
            raise TypeError(f"provenance must have texts for names, got {name!r:.60}")
        if value is not None and type(value) not in (str, int, float, bool):
            kind = type(value).__name__
            raise TypeError(f"{entry} must be a text, a number, a truth value or None, got {kind}")
        if isinstance(value, float) and not isfinite(value):
            raise ValueError(f"{entry} is {value}, which JSON has no word for")
        too_long = isinstance(value, str) and len(value) > LONGEST
        if too_long or len(name) > LONGEST or (type(value) is int and value.bit_length() > 64):
            raise ValueError(f"{entry} is too long")
    return dict(record)
