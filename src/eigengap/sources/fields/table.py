"""A labelled field as a table, and rows of the table as labelled fields again."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace
from math import nan
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eigengap.exceptions import InfiniteCellError, UnreadableError
from eigengap.runtime import memory
from eigengap.sources.array import is_field
from eigengap.sources.base import ObservedCells
from eigengap.sources.checks import as_weight, missing_codes
from eigengap.sources.fields.grid import Grid, listed
from eigengap.sources.fields.places import places_of, xarray
from eigengap.sources.fields.reader import FieldReader, layout_of, warn_of_rereading
from eigengap.sources.reader import BLOCK_BYTES, StreamSource
from eigengap.sources.wording import quote
from eigengap.wording import words


class FieldSource(StreamSource):
    """A labelled field as a table; made by `field_source`.

    Attributes
    ----------
    sample_dim : the dimension whose positions are rows
    variable : name of the field, None where it has none
    grid : the other dimensions, and which of their cells are columns
    """

    reader: FieldReader

    def __init__(self, reader: FieldReader, **options: Any) -> None:
        super().__init__(reader, **options)
        self._layout = reader.layout
        self.grid: Grid = reader.grid
        self.sample_dim, self.variable = self._layout.sample_dim, self._layout.name

    @property
    def never_observed(self) -> Any:
        """DataArray of truth values over the grid: the cells that are no columns."""
        outside = np.ones(self.grid.size, dtype=bool)
        outside[self.grid.cells] = False
        return self._made(outside.reshape(self.grid.shape), self.grid.dims, "never_observed")

    def to_field(
        self,
        rows: Any,
        dim: Hashable | None = None,
        name: Hashable | None = None,
        labels: Sequence[Any] | None = None,
    ) -> Any:
        """Rows over the columns of this source as a labelled field.

        Parameters
        ----------
        rows : array of shape (k, n_features) or (n_features,)
            Imputed or reconstructed samples, `components_`, `mean_`, ...
        dim : name of the first dimension, default=None
            None means `sample_dim`, with its coordinates, where there are as many rows as samples,
            and "component" otherwise. Give it where a model has as many components as samples.
        name : name of the field, default=None
            None means the variable's own for samples and single rows.
        labels : sequence of length k, default=None
            Coordinates along `dim`; None means PC1, PC2, ... along "component" and none elsewhere.

        Returns
        -------
        xarray.DataArray
            Dimensions (first, *others) with their coordinates, without the first one for a single
            row; NaN in cells that are no columns. Attributes, such as units, are those of the field
            for samples and single rows.

        Examples
        --------
        >>> import numpy as np, xarray
        >>> from eigengap.sources.fields.table import field_source
        >>> sst = xarray.DataArray(
        ...     [[[1.0, np.nan], [3.0, 4.0]], [[5.0, np.nan], [np.nan, 8.0]]],
        ...     dims=("time", "lat", "lon"), coords={"lat": [10.5, 11.5], "lon": [20.0, 30.0]})
        >>> source = field_source(sst)
        >>> source.names
        ('lat=10.5, lon=20', 'lat=11.5, lon=20', 'lat=11.5, lon=30')
        >>> source.to_field([[1.0, 2.0, 3.0]]).sel(component="PC1").values
        array([[ 1., nan],
               [ 2.,  3.]])
        """
        rows = _floats(rows)
        if rows.ndim not in (1, 2) or rows.shape[-1] != self.n_features:
            raise ValueError(
                f"rows have the shape {rows.shape}, and the last axis must be the "
                f"{self.n_features} columns of this source"
            )
        own = self.variable if name is None else name
        if rows.ndim == 1:
            values = self.grid.unstacked(rows[None])[0]
            return self._made(values, self.grid.dims, own).assign_attrs(self._layout.attrs)
        values = self.grid.unstacked(rows)
        samples = self._samples(len(rows)) if labels is None else None
        if samples is not None and dim in (None, self.sample_dim):
            field = self._made(values, (self.sample_dim, *self.grid.dims), own)
            return field.assign_coords(samples).assign_attrs(self._layout.attrs)
        return self._along(values, self.grid.dims, dim, labels, name)

    def to_series(
        self,
        values: Any,
        dim: Hashable | None = None,
        name: Hashable | None = None,
        labels: Sequence[Any] | None = None,
    ) -> Any:
        """A model's output for every sample, along `sample_dim` with its coordinates.

        Parameters
        ----------
        values : array of shape (n_samples,) or (n_samples, k)
            `score_samples(source)`, `transform(source)`, ...
        dim : name of the second dimension, default=None
            None means "component".
        name : name of the result, default=None
        labels : sequence of length k, default=None
            Coordinates along `dim`; None means PC1, PC2, ... along "component" and none elsewhere.

        Returns
        -------
        xarray.DataArray
            Of shape (n_samples,) or (n_samples, k).
        """
        values = _floats(values)
        samples = self._samples(len(values)) if values.ndim in (1, 2) else None
        if samples is None:
            raise ValueError(
                f"values have the shape {values.shape}, and one entry or row for each of the "
                f"{self.n_rows} samples is expected"
            )
        if values.ndim == 1:
            made = xarray().DataArray(values, dims=(self.sample_dim,), name=name)
            return made.assign_coords(samples)
        made = self._along(values.T, (self.sample_dim,), dim, labels, name)
        new = set(made.dims) - {self.sample_dim}
        return made.transpose(self.sample_dim, ...).assign_coords(_not_called(new, samples))

    def same_columns(self, X: Any) -> FieldSource:
        """Another field as a table with exactly the columns of this one.

        Parameters
        ----------
        X : DataArray, Dataset, or path
            A field on the same grid; its dimensions may have another order. It need not have
            values in the same cells: they are missing where this field has columns, and left out
            where it has none.

        Returns
        -------
        FieldSource
            Opened without a pass over the data.

        Raises
        ------
        ValueError
            Where the grids differ; the message names the first coordinate that does.
        """
        if isinstance(X, FieldSource):
            places = X.reader.places
        else:
            chooses = hasattr(X, "data_vars") or not is_field(X)
            places = places_of(X, self.variable if chooses else None)
        layout = layout_of(places, self.sample_dim, self.grid.dims)
        self.grid.require_same(layout.grid, "the new field")
        reader = FieldReader(places, layout).only(self.grid.cells)
        return FieldSource(reader, codes=self._codes, block_rows=self.rows_per_block)

    def _samples(self, k: int) -> Any:
        """Coordinates of k rows where they are the samples, those of weight 0 left out; or None."""
        samples = self._layout.samples
        if k != self.n_rows:
            if self.weight is None or k != np.count_nonzero(self.weight):
                return None
            if self.sample_dim in samples.dims:
                samples = samples.isel({self.sample_dim: np.flatnonzero(self.weight)})
        return samples.coords

    def _along(
        self,
        values: NDArray[Any],
        others: tuple[Hashable, ...],
        dim: Hashable | None,
        labels: Sequence[Any] | None,
        name: Hashable | None,
    ) -> Any:
        """Values (k, ...) along a dimension that the field does not have."""
        first = "component" if dim is None else dim
        if first in others:
            raise ValueError(
                f"the field has a dimension {quote(str(first))} of its own: name another with dim="
            )
        if labels is None and first == "component":
            labels = [f"PC{i + 1}" for i in range(len(values))]
        if labels is not None and len(labels) != len(values):
            raise ValueError(f"{len(labels)} labels for {len(values)} rows")
        made = self._made(values, (first, *others), name)
        return made if labels is None else made.assign_coords({first: list(labels)})

    def _made(self, values: NDArray[Any], dims: tuple[Hashable, ...], name: Any) -> Any:
        made = xarray().DataArray(values, dims=dims, name=name)
        if not set(self.grid.dims) <= set(dims):
            return made
        return made.assign_coords(_not_called(set(dims) - set(self.grid.dims), self.grid.coords))

    def _about(self, error: InfiniteCellError) -> str:
        return (
            f"{words().table} contains infinity: {error.value} at {quote(str(error.name))}, "
            f"{self.reader.place(error.row)}. Set such cells to NaN to have them treated as "
            "missing, or correct them"
        )


def _not_called(names: set[Any], coords: Any) -> Any:
    """Coordinates without those that are called like a new dimension."""
    taken = [name for name in coords if name in names]
    return coords.to_dataset().drop_vars(taken).coords if taken else coords


def _floats(values: Any) -> NDArray[Any]:
    array = np.asarray(values)
    return array if array.dtype.kind == "f" else array.astype(np.float64)


def field_source(
    X: Any,
    *,
    sample_dim: Hashable | None = None,
    variable: Hashable | None = None,
    columns: Any = None,
    missing_values: Any = nan,
    sample_weight: Any = None,
    block_bytes: int | None = None,
    block_rows: int | None = None,
) -> FieldSource:
    """A labelled field as a table that any estimator reads in blocks: `open_source` of a field.

    The dimensions besides `sample_dim` are stacked, in their order, into columns. DataArrays may be
    in memory, lazily opened or on Dask: they are read in blocks all the same, of all cells of the
    grid; up to four of them at once where the chunks of the field are that large. `columns` may be
    truth values too, also as a DataArray over the grid, such as a mask of the sea; None means every
    cell that is observed in some sample, which takes a pass over the data to find.

    Examples
    --------
    >>> import numpy as np, xarray
    >>> from eigengap import PPCA
    >>> from eigengap.sources.fields.table import field_source
    >>> rng = np.random.default_rng(0)
    >>> waves = rng.normal(size=(60, 2)) @ rng.normal(size=(2, 12))
    >>> waves += 0.1 * rng.normal(size=(60, 12))
    >>> sst = xarray.DataArray(waves.reshape(60, 3, 4), dims=("time", "lat", "lon"))
    >>> sst[:, 0, 0] = np.nan  # land
    >>> sst[::5, 1, 2] = np.nan  # clouds
    >>> source = field_source(sst)
    >>> source.n_features, source.has_missing
    (11, True)
    >>> model = PPCA(n_components=2).fit(source)
    >>> source.to_field(model.components_).sizes
    Frozen({'component': 2, 'lat': 3, 'lon': 4})
    >>> mean = source.to_field(model.mean_)
    >>> bool(mean[0, 0].isnull()), bool(mean[1, 2].isnull())
    (True, False)
    """
    places = places_of(X, variable)
    layout = layout_of(places, sample_dim)
    if layout.grid.size == 0:
        raise ValueError(
            f"{places[0].where} has no cell: a dimension of {listed(layout.grid.dims)} is empty"
        )
    if block_rows is not None and block_rows < 1:
        raise ValueError(f"block_rows must be at least 1, got {block_rows}")
    size = block_bytes or memory.block_bytes(BLOCK_BYTES)
    options: dict[str, Any] = {
        "weight": as_weight(sample_weight, sum(layout.lengths)),
        "codes": missing_codes(missing_values),
        "block_rows": block_rows or max(1, size // (8 * layout.grid.size)),
    }
    warn_of_rereading(layout, options["block_rows"])
    reader = FieldReader(places, layout)
    if columns is not None:
        return FieldSource(reader.only(layout.grid.chosen(columns)), **options)
    # Without the cells that no sample shows: one pass, which counts observed values.
    whole = FieldSource(reader, **options)
    observed = whole.observed()
    cells = np.flatnonzero(observed.per_column)
    if not len(cells):
        raise UnreadableError(
            reader.where, "no cell has a value in any sample: there is nothing to learn from"
        )
    source = FieldSource(reader.only(cells), **options)
    source.passes, source.bytes_read = whole.passes, whole.bytes_read
    source.remember(ObservedCells.of, replace(observed, per_column=observed.per_column[cells]))
    return source


def field_like(X: Any, values: NDArray[Any], columns: Any = None) -> Any:
    """Rows (n, d) over the columns that X has as a source, as a labelled field like X.

    `columns` are those that the source of X was made with, such as `feature_names_in_`; without
    them, and where some cells are no columns, finding them takes a pass over X.
    """
    if isinstance(X, FieldSource):
        return X.to_field(values)
    if columns is None and values.shape[-1] == layout_of(places_of(X, None), None).grid.size:
        columns = range(values.shape[-1])
    return field_source(X, columns=columns).to_field(values)
