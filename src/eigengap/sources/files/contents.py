"""Which array of a file is meant, whether it holds numbers, and whether its size is plausible."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from math import prod
from typing import Any

import numpy as np

from eigengap.exceptions import UnreadableError
from eigengap.printable import quoted
from eigengap.runtime.memory import require_memory
from eigengap.sources.array import F4, F8
from eigengap.sources.checks import is_long, resolve_columns
from eigengap.sources.files.packed import Packing
from eigengap.sources.reader import FileReader
from eigengap.sources.wording import quote
from eigengap.wording import words

MOST_NAMED = 12
SMALL = 1 << 30  # bytes that are read in seconds, whatever the file is
MOST = 1000  # bytes of table for each byte of the file


class ArrayReader(FileReader):
    """One two-dimensional array of a file."""

    _d: int  # columns that are stored
    _chosen: list[int] | None  # those of them that are read; None for all

    def _describe(
        self,
        stored: np.dtype[Any],
        shape: tuple[int, ...],
        columns: Any,
        labels: tuple[str, ...] | None = None,
        packing: Packing | None = None,
    ) -> None:
        """Set what readers tell of a table."""
        self.dtype = float_type(self.where, stored, shape) if packing is None else packing.dtype
        self.long = is_long(stored) and not (packing is not None and packing.is_scaled)
        self.n_rows, self._d = map(int, shape)
        self._chosen = None if columns is None else resolve_columns(columns, labels, self._d)
        self.n_features = self._d if self._chosen is None else len(self._chosen)
        self.names = labels
        if labels is not None and self._chosen is not None:
            self.names = tuple(labels[j] for j in self._chosen)


def choose_member(where: str, shapes: Mapping[str, tuple[int, ...]], member: str | None) -> str:
    """Name of the table to read among arrays of these shapes: `member`, else the only 2-D one."""
    if member is not None:
        found = next((m for m in (member, member.strip("/"), "/" + member) if m in shapes), None)
        if found is None:
            close = get_close_matches(member, list(shapes), n=1)
            hint = f"; did you mean {quote(close[0])}?" if close else ""
            raise UnreadableError(
                where, f"it has no array {quote(member)}{hint} It holds {listed(shapes)}"
            )
        return found
    tables = [name for name, shape in shapes.items() if len(shape) == 2]
    if len(tables) == 1:
        return tables[0]
    example = tables[0] if tables else "name"
    raise UnreadableError(
        where,
        f"it has {len(tables) or 'no'} two-dimensional arrays; it holds {listed(shapes)}."
        + (
            f" Say which one after the path: {words().path(f'{where}::{example}')}"
            if tables
            else ""
        ),
    )


def listed(shapes: Mapping[str, tuple[int, ...]]) -> str:
    if not shapes:
        return "no array at all"
    shown = [f"{quote(name)} {shape}" for name, shape in list(shapes.items())[:MOST_NAMED]]
    more = f" and {len(shapes) - MOST_NAMED} more" if len(shapes) > MOST_NAMED else ""
    return ", ".join(shown) + more


def float_type(where: str, dtype: np.dtype[Any], shape: tuple[int, ...]) -> np.dtype[Any]:
    """float32 for float32, float64 for every other real number; all else is refused."""
    if dtype.kind not in "fiub":
        raise UnreadableError(
            where,
            f"it holds {dtype}, not real numbers. Write it anew as float64, e.g. "
            "table.astype(float)",
        )
    if len(shape) != 2:
        raise UnreadableError(
            where,
            f"it has {len(shape)} dimension{'s' * (len(shape) != 1)}, shape {shape}, and a table "
            "has two: rows and columns. Reshape it, e.g. table.reshape(len(table), -1)",
        )
    return F4 if dtype.kind == "f" and dtype.itemsize == 4 else F8


def names_from(attribute: Any, d: int) -> tuple[str, ...] | None:
    """Column names in the attribute "columns" of an array, where they fit it."""
    if attribute is None or isinstance(attribute, str | bytes):
        return None
    try:
        names = tuple(n.decode() if isinstance(n, bytes) else n for n in attribute)
    except (TypeError, UnicodeDecodeError):
        return None
    return names if len(names) == d and all(isinstance(n, str) for n in names) else None


def require_plausible(where: str, claimed: int, stored: int) -> None:
    """Refuse a table of `claimed` bytes in a file of `stored` bytes that is mostly not there.

    Chunked formats need not store a chunk that holds only the fill value, so that a file of a
    kilobyte can claim a terabyte, and reading it would not end. Real tables are not compressed a
    thousandfold: deflate cannot do more, and others do so for constants only.

    >>> require_plausible("a.h5", 8_000_000_000, 50_000_000)
    >>> require_plausible("a.h5", 800_000_000_000, 1_400)
    Traceback (most recent call last):
    ...
    eigengap.exceptions.UnreadableError: "a.h5": it claims 800 GB of numbers and takes 1.4 kB...
    """
    if claimed > max(SMALL, MOST * stored):
        raise UnreadableError(
            where,
            f"it claims {_size(claimed)} of numbers and takes {_size(stored)}: nearly all of them "
            "were never written, and are fill values. Keep the rows that were written, or, if all "
            "of them are meant, pass the array itself or a Dask array of it",
        )


def require_chunk(where: str, lengths: Sequence[int] | None, itemsize: int) -> None:
    """Refuse chunks that memory does not hold: one is decoded as a whole."""
    if lengths is not None:
        way_out = "write the file in smaller chunks, or read it on a machine with more memory"
        require_memory(float(prod(lengths)) * itemsize, f"a chunk of {quoted(where)}", way_out)


def _size(count: int) -> str:
    """Bytes in three digits.

    >>> _size(1_400), _size(10**30)
    ('1.4 kB', '1e+18 TB')
    """
    for unit, name in ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if count >= unit:
            return f"{count / unit:.3g} {name}"
    return f"{count} bytes"
