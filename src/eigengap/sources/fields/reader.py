"""Labelled fields as tables: samples are rows, the cells of the grid are columns.

A field is read along its samples, in pieces that follow its chunks, from one place after another.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import repeat
from math import isfinite, nan
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from eigengap.exceptions import RereadWarning, UnreadableError
from eigengap.printable import quoted
from eigengap.runtime.warnings import warn
from eigengap.sources.array import F4, F8
from eigengap.sources.fields.grid import CellNames, Grid, listed, plain, text_of
from eigengap.sources.fields.places import FieldFile, Place, xarray
from eigengap.sources.reader import Reader, unreadable
from eigengap.sources.wording import quote
from eigengap.wording import words

LARGEST_CHUNK = 4  # blocks' worth of rows that are read at once to read no chunk twice
KINDS = {"M": "dates", "m": "durations", "c": "complex numbers", "O": "objects"}


@dataclass(frozen=True, eq=False)
class Layout:
    """What all places of a field have in common, and the samples of each."""

    sample_dim: Hashable
    grid: Grid
    dtype: np.dtype[Any]
    lengths: tuple[int, ...]  # samples in each place
    samples: Any  # xarray.Dataset of the coordinates along sample_dim
    name: Hashable | None
    attrs: dict[Any, Any]
    chunk: int = 1  # samples that can only be read together, at most

    def label(self, row: int) -> str:
        """The coordinate of a sample, for messages; nothing where there is none."""
        if self.sample_dim not in self.samples.coords:
            return ""
        return plain(f"{self.sample_dim}={text_of(self.samples[self.sample_dim].values[row])}, ")


def layout_of(
    places: Sequence[Place],
    sample_dim: Hashable | None,
    order: tuple[Hashable, ...] | None = None,
) -> Layout:
    """Look at every place once, reading coordinates only; all must lie on the grid of the first.

    `order` is how the other dimensions are to stand; None means as in the first place.
    """
    looks: list[Layout] = []
    for place in places:
        with place.opened() as field:
            look = _look(field, sample_dim, order, place)
        if looks:
            looks[0].grid.require_same(look.grid, quoted(place.where))
        looks.append(look)
        sample_dim, order = look.sample_dim, look.grid.dims
    return replace(
        looks[0],
        dtype=F4 if all(look.dtype == F4 for look in looks) else F8,
        lengths=tuple(look.lengths[0] for look in looks),
        samples=_joined([look.samples for look in looks], looks[0].sample_dim),
        chunk=max(look.chunk for look in looks),
    )


def _look(field: Any, sample_dim: Any, order: tuple[Hashable, ...] | None, place: Place) -> Layout:
    """The layout of a single place; what holds no real numbers is refused."""
    dtype = field.dtype
    if not (isinstance(dtype, np.dtype) and dtype.kind in "fiub"):
        kind = KINDS.get(getattr(dtype, "kind", ""), "text")
        raise UnreadableError(
            place.where,
            f"{quote(str(field.name))} holds {kind} ({dtype}), not real numbers. Choose another "
            "variable with variable=, or convert it, e.g. X.astype(float)",
        )
    dim = _sample_dim(field, sample_dim, place.where)
    if order is not None and {dim, *order} == set(field.dims):
        field = field.transpose(dim, *order)
    return Layout(
        sample_dim=dim,
        grid=Grid.of(field, dim),
        dtype=F4 if dtype.kind == "f" and dtype.itemsize == 4 else F8,
        lengths=(int(field.sizes[dim]),),
        samples=_along(field, dim),
        name=field.name,
        attrs=dict(field.attrs),
        chunk=_longest_chunk(field, dim, place),
    )


class FieldReader(Reader):
    """The samples of a field, from one place after another."""

    def __init__(self, places: Sequence[Place], layout: Layout) -> None:
        self.places, self.layout, self.grid = places, layout, layout.grid
        more = f" and {len(places) - 1} more" if len(places) > 1 else ""
        self.where = f"{places[0].where}{more}"
        self.n_features = len(self.grid.cells)
        # Made one by one until the columns are settled: there may be millions.
        self.names = cast("tuple[str, ...]", CellNames(self.grid))
        self.dtype = layout.dtype
        self.n_rows: int = sum(layout.lengths)
        self._size: int | None = None

    def only(self, cells: NDArray[np.intp]) -> FieldReader:
        """The same samples with these cells of the grid as columns."""
        narrow = FieldReader(self.places, replace(self.layout, grid=self.grid.only(cells)))
        narrow.names, narrow._size = narrow.grid.names(), self._size
        return narrow

    def pieces(self, rows: int) -> Iterator[NDArray[Any]]:
        for place, length in zip(self.places, self.layout.lengths, strict=True):
            place.require_unchanged()
            with place.opened() as field:
                for start, stop in steps(chunks_of(field, self.layout.sample_dim), length, rows):
                    yield self._piece(field, start, stop, place)
            place.require_unchanged()

    def require_unchanged(self) -> None:
        for place in self.places:
            place.require_unchanged()

    def _piece(self, field: Any, start: int, stop: int, place: Place) -> NDArray[Any]:
        dim = self.layout.sample_dim
        part = field.isel({dim: slice(start, stop)}).transpose(dim, *self.grid.dims)
        what = f"samples {start} to {stop - 1} along {quote(str(dim))} cannot be read ({{}})"
        kinds = (Exception,) if isinstance(place, FieldFile) else ()  # every codec has its own
        with unreadable(place.where, kinds, what):
            values = without_codes(np.asarray(part.values), field.encoding)
        return self.grid.stacked(values).astype(self.dtype, copy=False)

    def place(self, row: int) -> str:
        """A row by its coordinate, and by its number within its file."""
        ends = np.cumsum(self.layout.lengths)
        k = int(np.searchsorted(ends, row, side="right"))
        inside = row - int(ends[k]) + self.layout.lengths[k]
        return f"{self.layout.label(row)}row {inside} of {words().path(self.places[k].where)}"

    @property
    def bytes_per_pass(self) -> int:
        """Bytes of the files, other variables in them included."""
        if self._size is None:
            self._size = sum(place.size() for place in self.places)
        return self._size


def without_codes(values: NDArray[Any], encoding: Mapping[Any, Any]) -> NDArray[Any]:
    """float32 values without the codes of missing ones that the file states in float64.

    xarray compares a code with the values in the wider of the two types, where 1e20 is not 1e20
    rounded to float32, and leaves such cells as they are.

    >>> without_codes(np.float32([1, 1e20]), {"missing_value": np.float64(1e20)})
    array([ 1., nan], dtype=float32)
    """
    if values.dtype != F4 or encoding.get("dtype", F4) != F4:
        return values
    for name in ("_FillValue", "missing_value"):
        for code in np.atleast_1d(encoding.get(name, np.nan)).tolist():
            if isinstance(code, float) and isfinite(code):
                values = np.where(values == np.float32(code), np.float32(nan), values)
    return values


def chunks_of(field: Any, dim: Hashable) -> Iterator[int]:
    """Lengths of the chunks along a dimension, one after another; 1 where there are none."""
    if dim in (field.chunksizes or {}):
        return iter(field.chunksizes[dim])
    preferred = field.encoding.get("preferred_chunks") or {}
    return repeat(max(1, int(preferred.get(dim) or 1)))


def _longest_chunk(field: Any, dim: Hashable, place: Place) -> int:
    """Samples that come out of a file, or of Dask, only together; 1 in memory."""
    if dim in (field.chunksizes or {}):
        return int(max(field.chunksizes[dim], default=1))
    packed = any(field.encoding.get(key) for key in ("zlib", "compression", "chunks"))
    if not (isinstance(place, FieldFile) and packed):  # HDF5 reads a part of a plain chunk
        return 1
    return int(min(next(chunks_of(field, dim)), field.sizes[dim]))


def warn_of_rereading(layout: Layout, rows: int) -> None:
    """Warn where chunks are so long that every block of a pass has to read all of them."""
    if layout.chunk <= LARGEST_CHUNK * rows:
        return
    enough = -(-layout.chunk // LARGEST_CHUNK) * 8 * layout.grid.size
    warn(
        f"chunks hold {layout.chunk} samples each and a block {rows}: every pass reads each chunk "
        f"about {-(-layout.chunk // rows)} times. Store the field in shorter chunks along "
        f"{quote(str(layout.sample_dim))}, or pass block_bytes={enough} if memory allows",
        RereadWarning,
    )


def steps(chunks: Iterator[int], length: int, rows: int) -> Iterator[tuple[int, int]]:
    """Consecutive (start, stop) of about `rows` that cut no chunk, unless one is far too large."""
    start = stop = 0
    while stop < length:
        chunk = min(next(chunks), length - stop)
        if stop > start and stop + chunk - start > rows:
            yield start, stop
            start = stop
        stop += chunk
        if chunk > LARGEST_CHUNK * rows:
            yield from ((low, min(low + rows, stop)) for low in range(start, stop, rows))
            start = stop
    if stop > start:
        yield start, stop


def _sample_dim(field: Any, sample_dim: Hashable | None, where: str) -> Hashable:
    if not field.dims:
        raise UnreadableError(
            where, f"{quote(str(field.name))} is a single number: it has no dimension of samples"
        )
    twice = next((dim for dim in field.dims if field.dims.count(dim) > 1), None)
    if twice is not None:
        raise UnreadableError(
            where, f"the dimension {quote(str(twice))} occurs twice; rename one of them"
        )
    if sample_dim is None:
        found: Hashable = field.dims[0]
        return found
    if sample_dim not in field.dims:
        raise UnreadableError(
            where,
            f"there is no dimension {quote(str(sample_dim))}; the dimensions are "
            f"{listed(field.dims)}. A single sample keeps its dimension with X.isel(dim=[i])",
        )
    return sample_dim


def _along(field: Any, dim: Hashable) -> Any:
    """The coordinates of the samples alone, in memory."""
    others = [name for name, c in field.coords.items() if c.dims != (dim,)]
    return field.coords.to_dataset().drop_vars(others).compute()


def _joined(samples: list[Any], dim: Hashable) -> Any:
    if len(samples) == 1:
        return samples[0]
    common = set.intersection(*(set(part.coords) for part in samples))
    parts = [part.drop_vars(set(part.coords) - common) for part in samples]
    if not common:
        return parts[0]
    how: dict[str, Any] = dict.fromkeys(("compat", "join", "combine_attrs"), "override")
    return xarray().concat(parts, dim=dim, data_vars="minimal", coords="minimal", **how)
