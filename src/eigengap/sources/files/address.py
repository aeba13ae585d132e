"""What a caller means by a path: ~, globs, lists, `file::array`; and what if nothing is there."""

from __future__ import annotations

import glob
import os
import re
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from eigengap.sources.wording import quote
from eigengap.wording import words

INSIDE = "::"  # between a file and the array in it


@dataclass(frozen=True)
class Address:
    """A file or folder that exists, and the array in it that is meant."""

    path: Path
    member: str | None = None


def find(path: Any) -> list[Address]:
    """All that is meant by a path, in order: a list in its own, a glob with 2 before 10."""
    if isinstance(path, list | tuple):
        if not path:
            raise ValueError("the list of paths is empty")
        return [address for one in path for address in find(one)]
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
            raise FileNotFoundError(f"no file matches {words().path(text)}{_beside(text)}")
        return [Address(Path(one), member or None) for one in found]
    raise FileNotFoundError(_missing(text))


def _exists(text: str) -> bool:
    try:
        return os.path.exists(text)
    except ValueError:  # a null byte
        return False


def _natural(text: str) -> list[tuple[int, str]]:
    """So that part-2 comes before part-10."""
    return [(int(p) if p.isdecimal() else -1, p) for p in re.split(r"(\d+)", text)]


def _missing(text: str) -> str:
    if re.match(r"[A-Za-z][A-Za-z0-9+.-]+://", text):
        return (
            f"{words().path(text)} is an address on a network, and files are read from this "
            "machine: "
            "copy it here first"
        )
    folder = os.path.dirname(text) or "."
    if not _exists(folder):
        return f"{words().path(text)} does not exist, nor does its folder"
    return f"{words().path(text)} does not exist{_beside(text)}"


def _beside(text: str) -> str:
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
    return f"; did you mean {' or '.join(quote(by_case[one]) for one in close)}?"
