"""Zarr: a two-dimensional array of format 2 or 3, in a folder."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eigengap.exceptions import UnreadableError
from eigengap.sources.files.contents import (
    CODES,
    ArrayReader,
    Packing,
    choose_member,
    decoded_fill_value,
    float_type,
    names_from,
    require_chunk,
    require_plausible,
)
from eigengap.sources.files.paths import needed
from eigengap.sources.reader import Stamp, unreadable
from eigengap.sources.wording import quote

DIMENSIONS = "_ARRAY_DIMENSIONS"  # attribute with their names, in format 2
ERRORS = (Exception,)  # stores and codecs raise what they like
MOST_BAND = 256 << 20  # bytes of chunks side by side that are read together


class ZarrReader(ArrayReader):
    """An array (n, d) of numbers; its attribute "columns" may hold column names.

    A chunk is decoded as a whole, so rows are read in multiples of its rows. Attributes of xarray
    that declare packed numbers and missing values are respected.
    """

    def __init__(self, path: Path, columns: Any = None, member: str | None = None) -> None:
        super().__init__(path)
        self._member: str | None = None
        require_sound(path)
        node = self._opened()
        if not hasattr(node, "shape"):
            self._member = choose_member(self.where, dict(_shapes(node)), member)
            node = node[self._member]
        elif member is not None:
            raise UnreadableError(self.where, "it is an array itself; leave out what follows ::")
        if self._member is not None:
            self.where = f"{path}::{self._member}"
        dtype = np.dtype(node.dtype)
        float_type(self.where, dtype, node.shape)
        self._packing = Packing.of(self.where, dtype, _attributes(node))
        labels = names_from(dict(node.attrs).get("columns"), int(node.shape[1]))
        self._describe(dtype, node.shape, columns, labels, self._packing)
        require_chunk(self.where, node.chunks, dtype.itemsize)
        self._chunk_rows, self._row_bytes = int(node.chunks[0]), self._d * dtype.itemsize

    def _opened(self) -> Any:
        zarr = needed("reading Zarr", "zarr")
        with unreadable(self.where, ERRORS, "it is no Zarr array or group ({}); copy it anew"):
            return zarr.open(str(self._path), mode="r")

    @property
    def bytes_per_pass(self) -> int | None:
        return None  # the folder may hold other arrays

    def _pieces(self, rows: int) -> Iterator[NDArray[Any]]:
        node = self._opened()
        array = node if self._member is None else node[self._member]
        step = self._step(rows)
        for start in range(0, array.shape[0], step):
            stop = min(start + step, array.shape[0])
            what = f"rows {start} to {stop - 1} cannot be read ({{}}); write the array anew, or "
            with unreadable(self.where, ERRORS, what + "leave those rows out"):
                band = np.asarray(array[start:stop])
            for at in range(0, len(band), rows):
                part = band[at : at + rows]
                if self._chosen is not None:
                    part = part[:, self._chosen]
                if self._packing is not None:
                    part = self._packing.decode(part)
                yield np.array(part, dtype=self.dtype, order="C", copy=None)

    def _step(self, rows: int) -> int:
        """Rows that are read together: whole chunks, unless these are out of all proportion.

        All columns of them are read, so that fewer make up a block where some are chosen.
        """
        chunk, rows = self._chunk_rows, max(1, rows * self.n_features // self._d)
        if chunk <= rows:
            return rows // chunk * chunk
        return chunk if chunk * self._row_bytes <= MOST_BAND else rows


def _attributes(array: Any) -> dict[str, Any]:
    """The attributes of an array, with the fill value where that stands for missing values.

    It does in format 2 where dimensions have names: xarray writes `_FillValue` in no other way
    there. Elsewhere it is what a chunk holds that was never written, mostly 0.
    """
    found = dict(array.attrs)
    dtype = np.dtype(array.dtype)
    declared = decoded_fill_value(found.get(CODES[0]), dtype)
    fill = array.fill_value
    if array.metadata.zarr_format != 2 or DIMENSIONS not in found or dtype.kind not in "fiu":
        fill = None
    if fill is None:
        return {**found, CODES[0]: declared}
    declared = declared if isinstance(declared, list) else [declared]
    both = [np.asarray(fill).item(), *(code for code in declared if code is not None)]
    return {**found, CODES[0]: both}


def _shapes(group: Any, prefix: str = "") -> Iterator[tuple[str, tuple[int, ...]]]:
    for name in group.array_keys():
        yield prefix + name, tuple(group[name].shape)
    for name in group.group_keys():
        yield from _shapes(group[name], f"{prefix}{name}/")


FILES = frozenset({"zarr.json", ".zarray", ".zmetadata"})
CHUNKS = ("chunks", "chunk_shape")  # in formats 2 and 3
CODECS = ("id", "name")
WIDEST = 8  # bytes of a number, at most


def require_sound(path: Path) -> None:
    """Refuse chunks without length, arrays that are not there, and codecs that run code."""
    stored = Stamp.of(path).size
    folders = ((folder, FILES.intersection(names)) for folder, _, names in os.walk(path))
    for file in (Path(folder) / name for folder, names in folders for name in sorted(names)):
        where = str(file)
        try:
            document = json.loads(file.read_bytes())
        except (ValueError, RecursionError):
            raise UnreadableError(where, "it is no JSON of Zarr; copy the folder anew") from None
        for part in _parts(document):
            for key in CHUNKS:
                lengths = part.get(key)
                if isinstance(lengths, list) and any(type(n) is int and n < 1 for n in lengths):
                    raise UnreadableError(
                        where,
                        f"{quote(key)} is {lengths!s:.60}, and every chunk has a length; write it "
                        "anew",
                    )
            if any(str(part.get(key)).rpartition(".")[2] == "pickle" for key in CODECS):
                raise UnreadableError(
                    where,
                    "its chunks are pickles, which can run any code when they are read. If you "
                    "trust it, write it anew without that codec",
                )
            shape = part.get("shape")
            if isinstance(shape, list) and all(type(n) is int and n >= 0 for n in shape):
                require_plausible(str(path), prod(shape) * WIDEST, stored)


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
