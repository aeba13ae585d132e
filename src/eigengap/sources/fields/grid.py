"""The grid of a labelled field: what stands where, and which of its cells are columns.

A field has one dimension of samples; the others span a grid. Stacked in C order, its cells are the
columns of a table. A cell that is never observed (land in a field of sea temperatures) is no
column, and comes back as NaN. A cell that is observed in some samples has missing values.
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eigengap.sources.wording import quote, show

DIGITS = 12  # of a coordinate in a name; what differs in rounding only is the same place
MOST_NAMED = 5


@dataclass(frozen=True, eq=False)
class Grid:
    """The dimensions of a field besides that of its samples, and the cells that are columns."""

    dims: tuple[Hashable, ...]
    shape: tuple[int, ...]
    labels: tuple[tuple[str, ...], ...]  # what stands at each position of each dimension, unique
    coords: Any  # xarray.Coordinates that do not depend on the sample
    cells: NDArray[np.intp]  # (d,) positions of the columns among all cells, C order
    alone: str = "value"  # name of the only cell where there are no dimensions

    @classmethod
    def of(cls, field: Any, sample_dim: Hashable) -> Grid:
        """All cells of a DataArray."""
        dims = tuple(dim for dim in field.dims if dim != sample_dim)
        shape = tuple(int(field.sizes[dim]) for dim in dims)
        return cls(
            dims=dims,
            shape=shape,
            labels=tuple(labels_of(field, dim) for dim in dims),
            coords=_without(field, sample_dim),
            cells=np.arange(int(np.prod(shape, dtype=np.intp))),
            alone="value" if field.name is None else str(field.name),
        )

    @property
    def size(self) -> int:
        """Number of cells, columns or not."""
        return int(np.prod(self.shape, dtype=np.intp))

    @property
    def is_whole(self) -> bool:
        """Whether every cell is a column, in order."""
        return len(self.cells) == self.size and bool(np.all(np.diff(self.cells) == 1))

    def only(self, cells: NDArray[np.intp]) -> Grid:
        """The same grid with these cells as its columns."""
        return replace(self, cells=cells)

    def names(self, cells: NDArray[np.intp] | None = None) -> tuple[str, ...]:
        """Names of cells, such as "lat=10.5, lon=20"; by default of the columns."""
        cells = self.cells if cells is None else cells
        if not self.dims:
            return (self.alone,) * len(cells)
        at = np.unravel_index(cells, self.shape)
        parts = [
            np.array([f"{dim}={label}" for label in labels], dtype=object)[positions]
            for dim, labels, positions in zip(self.dims, self.labels, at, strict=True)
        ]
        return tuple(map(", ".join, zip(*parts, strict=True)))

    def stacked(self, values: NDArray[Any]) -> NDArray[Any]:
        """Columns (c, d) of samples (c, *shape); a view where every cell is a column."""
        table = values.reshape(len(values), self.size)
        return table if self.is_whole else np.take(table, self.cells, axis=1)

    def unstacked(self, rows: NDArray[Any]) -> NDArray[Any]:
        """Samples (c, *shape) of columns (c, d); NaN in every cell that is no column."""
        if self.is_whole:
            return rows.reshape(len(rows), *self.shape)
        table = np.full((len(rows), self.size), np.nan, dtype=rows.dtype)
        table[:, self.cells] = rows
        return table.reshape(len(rows), *self.shape)

    def require_same(self, other: Grid, what: str) -> None:
        """Refuse another grid, with the first coordinate that differs."""
        if other.dims != self.dims:
            raise ValueError(
                f"{what} has the dimensions {listed(other.dims)} besides its samples, and "
                f"{listed(self.dims)} are expected"
            )
        for dim, here, there in zip(self.dims, self.labels, other.labels, strict=True):
            if here == there:
                continue
            if len(here) != len(there):
                raise ValueError(
                    f"{what} lies on another grid: {plain(dim)} has {len(there)} positions, and "
                    f"{len(here)} are expected. Select or interpolate, e.g. X.sel or X.interp"
                )
            i = next(i for i, pair in enumerate(zip(here, there, strict=True)) if len({*pair}) > 1)
            raise ValueError(
                f"{what} lies on another grid: position {i} is {plain(f'{dim}={there[i]}')}, and "
                f"{plain(f'{dim}={here[i]}')} is expected. Sort or interpolate, e.g. X.sortby or "
                "X.interp"
            )

    def chosen(self, columns: Any) -> NDArray[np.intp]:
        """Positions (d,) of chosen cells: names, positions, or truth values on the grid."""
        if hasattr(columns, "dims"):
            columns = self._on_grid(columns)
        if isinstance(columns, np.ndarray) and columns.ndim > 1 and columns.shape == self.shape:
            columns = columns.ravel()
        picked = [columns] if isinstance(columns, str) else list(columns)
        if picked and all(isinstance(c, bool | np.bool_) for c in picked):
            if len(picked) != self.size:
                raise ValueError(
                    f"columns has {len(picked)} truth values but the grid has {self.size} cells"
                )
            return np.flatnonzero(picked)
        at = self._positions(picked)
        twice = np.flatnonzero(np.bincount(at, minlength=1) > 1)
        if len(twice):
            raise ValueError(f"columns chooses {quote(*self.names(twice[:1]))} more than once")
        return at

    def _on_grid(self, mask: Any) -> NDArray[np.bool_]:
        """A DataArray of truth values as one flat array over the cells."""
        if mask.dtype != bool or set(mask.dims) != set(self.dims):
            raise ValueError(
                f"columns as a DataArray must hold truth values over {listed(self.dims)}; it holds "
                f"{mask.dtype} over {listed(mask.dims)}"
            )
        mask = mask.transpose(*self.dims)
        own = replace(self, labels=tuple(labels_of(mask, dim) for dim in self.dims))
        self.require_same(own, "columns")
        return np.asarray(mask.values).ravel()

    def _positions(self, picked: list[Any]) -> NDArray[np.intp]:
        known: dict[str, int] = {}
        if any(isinstance(c, str) for c in picked):
            known = {name: j for j, name in enumerate(self.names(np.arange(self.size)))}
        at = np.empty(len(picked), dtype=np.intp)
        for k, choice in enumerate(picked):
            if isinstance(choice, str):
                at[k] = known.get(choice, -1)
            elif isinstance(choice, int | np.integer) and -self.size <= choice < self.size:
                at[k] = choice % self.size
            else:
                raise ValueError(
                    f"columns chooses {show(choice)}, and the grid has {self.size} cells"
                )
        if np.any(at < 0):
            unknown = quote(picked[int(np.argmax(at < 0))])
            few = ", ".join(map(quote, list(known)[:MOST_NAMED]))
            raise ValueError(
                f"the field has no cell {unknown}: it lies on another "
                f"grid. Its cells are {few}{', ...' if len(known) > MOST_NAMED else ''}"
            )
        return at


class CellNames(Sequence[str]):
    """Names of the columns of a grid, made one by one when asked for: most never are."""

    def __init__(self, grid: Grid) -> None:
        self._grid = grid

    def __len__(self) -> int:
        return len(self._grid.cells)

    def __getitem__(self, j: Any) -> Any:
        cells = self._grid.cells
        if isinstance(j, slice):
            return self._grid.names(cells[j])
        return self._grid.names(cells[[j]])[0]

    def __iter__(self) -> Iterator[str]:
        return iter(self._grid.names())


def labels_of(field: Any, dim: Hashable) -> tuple[str, ...]:
    """What stands at each position of a dimension: its coordinate, else the position.

    Where two positions would read the same, each is shown with its position.
    """
    texts = [str(i) for i in range(int(field.sizes[dim]))]
    if dim in field.coords and field.coords[dim].dims == (dim,):
        texts = [text_of(value) for value in field.coords[dim].values]
    if len(set(texts)) < len(texts):
        texts = [f"{text} ({i})" for i, text in enumerate(texts)]
    return tuple(texts)


def text_of(value: Any) -> str:
    """A coordinate in words; text that could be taken for more than one is quoted."""
    if isinstance(value, np.datetime64) and not np.isnat(value):
        return str(np.datetime_as_string(value, unit="auto"))
    if isinstance(value, float | np.floating):
        shortest = float(value) if isinstance(value, float) else float(str(value))
        return f"{shortest + 0.0:.{DIGITS}g}"  # -0 is 0
    text = f"({', '.join(map(text_of, value))})" if isinstance(value, tuple) else str(value)
    is_plain = text.isprintable() and text.strip() == text and not set(text) & set(',="')
    return text if is_plain else json.dumps(text, ensure_ascii=False)


def plain(text: object) -> str:
    """A foreign name on one line, without quotes."""
    return quote(str(text))[1:-1]


def listed(dims: Any) -> str:
    """Names of dimensions or variables for a message."""
    return ", ".join(quote(str(dim)) for dim in dims) or "none"


def _without(field: Any, sample_dim: Hashable) -> Any:
    """The coordinates that do not depend on the sample, in memory."""
    other = [name for name, c in field.coords.items() if sample_dim in c.dims]
    return field.coords.to_dataset().drop_vars(other).compute().coords
