"""Labelled fields through xarray: samples along one dimension, a grid along the others.

`field_source` makes a table of a field that any estimator fits; `FieldSource.to_field` makes a
field of rows again, with its coordinates.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace
from math import nan
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eigengap.exceptions import UnreadableError
from eigengap.runtime import memory
from eigengap.sources.base import ObservedCells
from eigengap.sources.checks import as_weight, missing_codes
from eigengap.sources.fields.grid import listed
from eigengap.sources.fields.places import is_field, is_field_path, places_of
from eigengap.sources.fields.reader import FieldReader, Layout, layout_of, warn_of_rereading
from eigengap.sources.fields.table import FieldSource
from eigengap.sources.stream import BLOCK_BYTES

__all__ = ["FieldSource", "field_like", "field_source", "is_field", "is_field_path"]


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
    """A labelled field as a table that any estimator reads in blocks.

    Parameters
    ----------
    X : DataArray, Dataset, or path
        A path names a NetCDF file or a Zarr group; a list of paths, or a pattern such as
        "sst-*.nc", is read one file after another, in the order of names. DataArrays may be in
        memory, lazily opened or on Dask: they are read in blocks all the same.
    sample_dim : name of a dimension, default=None
        Its positions are the rows; None means the first dimension of the field. The other
        dimensions are stacked, in their order, into columns.
    variable : name of a variable, default=None
        Which one of a Dataset; may be left out where there is only one.
    columns : names or positions of cells, or truth values, default=None
        The cells to use. Truth values may be a DataArray over the grid, such as a mask of the sea.
        None means every cell that is seen in some sample, which takes a pass over the data to
        find; with `columns` there is none.
    missing_values : NaN, number or list of numbers
        What stands for unseen cells besides NaN.
    sample_weight : array of shape (n_samples,), default=None
        Frequency of each sample; one of weight 0 is as if absent.
    block_bytes, block_rows : int
        Size of a block, of all cells of the grid; up to four of them are read at once where the
        chunks of the field are that large.

    Returns
    -------
    FieldSource

    Raises
    ------
    ValueError
        Where there is no such dimension or variable, the field holds no numbers, no cell is ever
        seen, files lie on different grids, or a cell is infinite.

    Examples
    --------
    >>> import numpy as np, xarray
    >>> from eigengap import PPCA
    >>> from eigengap.sources.fields.opening import field_source
    >>> rng = np.random.default_rng(0)
    >>> waves = rng.normal(size=(60, 2)) @ rng.normal(size=(2, 12))
    >>> waves += 0.1 * rng.normal(size=(60, 12))
    >>> sst = xarray.DataArray(waves.reshape(60, 3, 4), dims=("time", "lat", "lon"))
    >>> sst[:, 0, 0] = np.nan  # land
    >>> sst[::5, 1, 2] = np.nan  # clouds
    >>> source = field_source(sst)
    >>> source.n_features, source.has_gaps
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
    n = sum(layout.lengths)
    size = block_bytes or memory.block_bytes(BLOCK_BYTES)
    options: dict[str, Any] = {
        "weight": as_weight(sample_weight, n),
        "codes": missing_codes(missing_values),
        "block_rows": block_rows or max(1, size // (8 * layout.grid.size)),
    }
    warn_of_rereading(layout, options["block_rows"])
    reader = FieldReader(places, layout, layout.grid)
    if columns is not None:
        return FieldSource(reader.only(layout.grid.chosen(columns)), layout, **options)
    return _without_land(FieldSource(reader, layout, **options), layout, options)


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


def _without_land(whole: FieldSource, layout: Layout, options: dict[str, Any]) -> FieldSource:
    """The source without the cells that no sample shows: one pass, which counts what is seen."""
    observed = whole.observed()
    cells = np.flatnonzero(observed.per_column)
    if not len(cells):
        raise UnreadableError(
            whole.reader.where, "no cell has a value in any sample: there is nothing to learn from"
        )
    source = FieldSource(whole.reader.only(cells), layout, **options)
    source.passes, source.bytes_read = whole.passes, whole.bytes_read
    source.remember(ObservedCells.of, replace(observed, per_column=observed.per_column[cells]))
    return source
