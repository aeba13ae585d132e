"""HDF5: a two-dimensional dataset of a file.

Files that would read other files are refused, because whoever wrote the file chose which. A dataset
may keep its numbers in any file of the machine (external storage), be put together from datasets of
other files (virtual), or be a link to one. A model or an imputed table would then hold what they
contain.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eigengap.exceptions import UnreadableError
from eigengap.sources.files.contents import (
    ATTRIBUTES,
    MOST_CODES,
    WAY_OUT,
    ArrayReader,
    Packing,
    choose_member,
    float_type,
    listed,
    names_from,
    require_chunk,
    require_plausible,
)
from eigengap.sources.files.paths import needed
from eigengap.sources.reader import unreadable
from eigengap.sources.wording import quote

MOST_CACHE = 256 << 20  # bytes of decoded chunks in memory, so that none is decoded twice
WHOLE_ROWS = 2 << 20  # bytes of rows read together where some columns are chosen
NETCDF = "_NCProperties"  # attribute of every NetCDF 4 file
SLOTS = 10_007  # a prime, as HDF5 wants it
ERRORS = (OSError, RuntimeError, ValueError, KeyError, TypeError, OverflowError)  # of h5py
DAMAGED = "it is damaged ({}); copy it anew"


class Hdf5Reader(ArrayReader):
    """A dataset (n, d) of numbers; its attribute "columns" may hold column names.

    HDF5 converts numbers as it reads them, so a block is written once, unless attributes of
    NetCDF 4 declare packed numbers or missing values.
    """

    def __init__(self, path: Path, columns: Any = None, member: str | None = None) -> None:
        super().__init__(path)
        with self._opened(1 << 20) as file:
            with unreadable(self.where, ERRORS, DAMAGED):
                self._member = self._choose(file, member)
            self.where = f"{path}::{self._member}"
            with unreadable(self.where, ERRORS, DAMAGED):
                data = file[self._member]
                require_inside(data, self.where)
                dtype, shape, chunks = data.dtype, data.shape, data.chunks
                float_type(self.where, dtype, shape)
                self._packing = Packing.of(self.where, dtype, _attributes(data, self.where))
                require_plausible(self.where, prod(shape) * dtype.itemsize, self._stamp.size)
                labels = _labels(data, int(shape[1]))
                require_chunk(self.where, chunks, dtype.itemsize)
        self._raw = dtype.newbyteorder("=")
        rows, width = chunks or (0, 1)
        across = -(-shape[1] // width)
        self._band = rows * width * across * dtype.itemsize  # bytes of the chunks side by side
        self._describe(dtype, shape, columns, labels, self._packing)

    def _choose(self, file: Any, member: str | None) -> str:
        shapes = _shapes(file)
        is_table = any(len(shape) == 2 for shape in shapes.values())
        if member is None and shapes and not is_table and NETCDF in file.attrs:
            raise UnreadableError(
                self.where,
                f"it is a NetCDF file without a two-dimensional array; it holds {listed(shapes)}. "
                "Give it a name that ends in .nc to read it as a field, or pass "
                "xarray.open_dataset(path)[variable]",
            )
        try:
            return choose_member(self.where, shapes, member)
        except UnreadableError as error:
            for name, link in _links(file).items():
                if hasattr(link, "filename"):  # h5py.ExternalLink
                    raise UnreadableError(
                        self.where,
                        f"{quote(name)} is a link to another file ({quote(link.filename)}), which "
                        "is not followed; give the path of that file",
                    ) from error
            raise

    @contextmanager
    def _opened(self, cache: int) -> Iterator[Any]:
        h5py = needed("reading HDF5", "h5py")
        with unreadable(self.where, ERRORS, "it is not a whole HDF5 file ({}); copy it anew"):
            file = h5py.File(self._path, "r", rdcc_nbytes=cache, rdcc_nslots=SLOTS)
        with file:
            yield file

    def _pieces(self, rows: int) -> Iterator[NDArray[Any]]:
        with self._opened(min(MOST_CACHE, max(1 << 20, self._band))) as file:
            with unreadable(self.where, ERRORS, DAMAGED):
                data = file[self._member]
            for start in range(0, len(data), rows):
                yield self._block(data, start, min(start + rows, len(data)))

    def _block(self, data: Any, start: int, stop: int) -> NDArray[Any]:
        block = np.empty((stop - start, self.n_features), dtype=self.dtype)
        if self._chosen is None and self._packing is None:
            self._fill(data, block, start)
            return block
        # All columns of a few rows at a time: a block of some columns may have very many rows.
        step = max(1, WHOLE_ROWS // (self._d * self.dtype.itemsize))
        held = self.dtype if self._packing is None else self._raw
        scratch = np.empty((min(step, len(block)), self._d), dtype=held)
        for at in range(0, len(block), step):
            part = block[at : at + step]
            rows = scratch[: len(part)]
            self._fill(data, rows, start + at)
            if self._chosen is not None:
                rows = rows[:, self._chosen]
            part[...] = rows if self._packing is None else self._packing.decode(rows)
        return block

    def _fill(self, data: Any, block: NDArray[Any], start: int) -> None:
        stop = start + len(block)
        what = f"rows {start} to {stop - 1} cannot be read ({{}}); write the file anew, or leave "
        with unreadable(self.where, ERRORS, what + "those rows out"):
            data.read_direct(block, np.s_[start:stop])


def _shapes(file: Any) -> dict[str, tuple[int, ...]]:
    import h5py

    shapes: dict[str, tuple[int, ...]] = {}

    def look(name: str, item: Any) -> None:
        if isinstance(item, h5py.Dataset) and item.shape is not None:
            shapes[name] = tuple(item.shape)

    file.visititems(look)
    return shapes


def _labels(data: Any, d: int) -> tuple[str, ...] | None:
    """Column names, where there is one for each; a damaged attribute may claim any length."""
    if "columns" not in data.attrs or data.attrs.get_id("columns").shape != (d,):
        return None
    return names_from(data.attrs["columns"], d)


def _attributes(data: Any, where: str) -> dict[str, Any]:
    """Those on how numbers are packed; a damaged one may claim any length."""
    found: dict[str, Any] = {}
    for name in ATTRIBUTES:
        if name not in data.attrs:
            continue
        shape = data.attrs.get_id(name).shape
        if shape is None or prod(shape) > MOST_CODES:
            size = "nothing" if shape is None else f"{prod(shape)} numbers"
            raise UnreadableError(where, f"its attribute {name} holds {size}. {WAY_OUT}")
        found[name] = data.attrs[name]
    return found


DEEPEST = 16  # virtual datasets of virtual datasets


def require_inside(data: Any, where: str, depth: int = 0) -> None:
    """Refuse a dataset whose numbers lie in another file."""
    if data.id.get_create_plist().get_external_count() > 0:
        others = [name for name, _, _ in data.external]
        raise _outside(where, f"the numbers of {quote(data.name)} lie", others)
    if not data.is_virtual:
        return
    sources = data.virtual_sources()
    others = [source.file_name for source in sources if source.file_name != "."]
    lie = f"the parts of the virtual {quote(data.name)} lie"
    if others or depth > DEEPEST:
        raise _outside(where, lie, others)
    for source in sources:
        part = data.file.get(source.dset_name)
        if part is None:  # it reads as fill values
            continue
        if part.file.filename != data.file.filename:
            raise _outside(where, lie, [part.file.filename])
        require_inside(part, where, depth + 1)


def require_self_contained(file: Any, where: str, size: int) -> None:
    """Refuse a file in which any link or dataset leads to another one, or claims what it has not.

    For packages that open all that a file names.
    """
    import h5py

    for name, link in _links(file).items():
        if isinstance(link, h5py.ExternalLink):
            raise _outside(where, f"{quote(name)} is a link to what lies", [link.filename])
        item = file[name] if isinstance(link, h5py.HardLink) else None
        if isinstance(item, h5py.Dataset) and item.shape is not None:
            require_inside(item, where)
            require_plausible(where, item.size * item.id.get_type().get_size(), size)


def _links(file: Any) -> dict[str, Any]:
    """Every link of a file, none of them followed."""
    found: dict[str, Any] = {}
    file.visititems_links(lambda name, link: found.__setitem__(name, link))
    return found


def _outside(where: str, what: str, others: list[str]) -> UnreadableError:
    named = f" ({quote(others[0])})" if others else ""
    return UnreadableError(
        where,
        f"{what} in another file{named}, which is not followed, for it may be any file of this "
        "machine. If you trust it, write a file that holds the numbers itself, or pass the array",
    )
