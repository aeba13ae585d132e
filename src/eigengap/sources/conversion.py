"""What callers have in memory, or name, as a `Source`."""

from __future__ import annotations

from collections.abc import Callable
from math import nan
from os import PathLike
from typing import Any

import numpy as np

from eigengap.linalg import Array
from eigengap.sources.array import (
    BLOCK_BYTES,
    ArraySource,
    dense_to_float,
    is_dask,
    is_field,
    is_sparse,
    library_of,
    select_columns,
    sparse_to_float,
)
from eigengap.sources.base import Rows, Source
from eigengap.sources.checks import as_weight, missing_codes, resolve_columns, with_missing_for
from eigengap.sources.dask import as_dask_source
from eigengap.sources.frames import frame_to_float, series_to_float
from eigengap.sources.wording import column, quote

LARGEST = 1e75  # of cell_sd, whose fourth power is a number: sums hold squares of variances


def as_source(
    X: Any,
    *,
    sample_weight: Any = None,
    cell_sd: Any = None,
    missing_values: Any = nan,
    columns: Any = None,
    block_bytes: int | None = None,
    block_rows: int | None = None,
) -> Source:
    """The table X (n, d) as a source, validated once.

    Parameters
    ----------
    X : ndarray, masked array, scipy.sparse, list of rows, a pandas, polars or pyarrow frame, a Dask
        array or frame, or what `open_source` opens: the path of a file, a DataArray.
        float32 and float64 are used as they are, without a copy; every other number becomes
        float64. NaN, null and masked cells are missing; the zeros of a sparse table are zeros.
        A Source is returned as it is. X is never modified.
    sample_weight : (n,) how often each row counts, or a number; a row of weight 0 is as if absent.
    cell_sd : (n, d) known standard deviation of each cell; NaN or 0 where nothing is known.
    missing_values : NaN, or a number or list of numbers that stand for missing values too.
    columns : the columns to use, in this order; strings are names, integers positions.
    block_bytes, block_rows : size of a block; it changes rounding, nothing else.

    Raises
    ------
    ValueError
        Where a column holds no numbers, a cell is infinite, or the shape is wrong. The message
        names the row (0-based position) and column.
    """
    if lies_elsewhere(X):
        if cell_sd is not None:
            raise ValueError(
                "cell_sd goes with a table in memory, and X is not one. Load it, or leave cell_sd "
                "out"
            )
        if is_dask(X):
            open_elsewhere: Callable[..., Source] = as_dask_source
        else:
            from eigengap.sources.opening import open_source as open_elsewhere
        return open_elsewhere(
            X,
            sample_weight=sample_weight,
            missing_values=missing_values,
            columns=columns,
            block_bytes=block_bytes,
            block_rows=block_rows,
        )
    if isinstance(X, Source):
        given = sample_weight is not None or cell_sd is not None or columns is not None
        if given or missing_codes(missing_values):
            raise ValueError(
                "X is a source already; give sample_weight, columns and missing_values to "
                "open_source, which makes it. cell_sd goes with a table in memory only"
            )
        return X
    values, names = _table(X, columns)
    if cell_sd is not None:
        _refuse_other_rows(cell_sd, X)
    codes = missing_codes(missing_values)
    if codes and isinstance(values, np.ndarray):
        values = with_missing_for(values, codes)
    elif codes and (0.0 in codes or np.isin(values.data, codes).any()):
        raise ValueError(
            f"missing_values={list(codes)} occurs in X, but sparse input has no missing values; "
            "densify it with X.toarray()"
        )
    if library_of(sample_weight) is not None:
        sample_weight = series_to_float(sample_weight)
    return ArraySource(
        values,
        weight=as_weight(sample_weight, values.shape[0]),
        cell_sd=None if cell_sd is None else as_cell_sd(cell_sd, values, names, columns),
        names=names,
        block_bytes=block_bytes or BLOCK_BYTES,
        block_rows=block_rows,
    )


def in_memory_table(X: Any) -> bool:
    """Whether X is a table that scikit-learn can look at, and not a place where one lies."""
    return not (isinstance(X, Source) or lies_elsewhere(X))


def lies_elsewhere(X: Any) -> bool:
    """Whether X is a path or a list of them, a labelled field, or a collection of Dask."""
    paths = X if isinstance(X, list | tuple) and X else [X]
    return all(isinstance(path, str | PathLike) for path in paths) or is_field(X) or is_dask(X)


def _table(X: Any, columns: Any) -> tuple[Rows, tuple[str, ...] | None]:
    if type(X) is not np.ndarray:
        if is_sparse(X):
            positions = None if columns is None else resolve_columns(columns, None, X.shape[-1])
            return sparse_to_float(X, positions), None
        if library_of(X) is not None:
            return frame_to_float(X, columns)
    if columns is not None:
        X = select_columns(X, columns)
    return dense_to_float(X), None


def _refuse_other_rows(cell_sd: Any, X: Any) -> None:
    """Refuse a frame whose row labels are not those of X: it would be read in the wrong order."""
    if library_of(cell_sd) != "pandas" or library_of(X) != "pandas":
        return  # the others have no row labels
    if len(cell_sd) == len(X) and not cell_sd.index.equals(X.index):
        raise ValueError(
            "the rows of cell_sd are not labelled as those of X. Bring them into the order of X, "
            "cell_sd.loc[X.index], or pass cell_sd.to_numpy() if they are in it"
        )


def as_cell_sd(
    cell_sd: Any, values: Rows, names: tuple[str, ...] | None, columns: Any = None
) -> Array | None:
    """Standard deviations (n, d) in float64, 0 where nothing is known; None where nothing is.

    Raises
    ------
    ValueError
        Where one is negative or infinite, or the shape or the column names are not those of X.
    """
    labels = None
    if library_of(cell_sd) is not None:
        cell_sd, labels = frame_to_float(cell_sd, columns)
    else:
        cell_sd = cell_sd.toarray() if is_sparse(cell_sd) else cell_sd
        cell_sd = cell_sd if columns is None else select_columns(cell_sd, columns)
    if np.ndim(cell_sd) != 2:
        raise ValueError(
            f"cell_sd must be a table with one standard deviation per cell of X, got "
            f"{np.ndim(cell_sd)} dimensions. One for all cells is numpy.full(X.shape, sd), one per "
            "column numpy.broadcast_to(sd, X.shape)"
        )
    deviations = np.asarray(dense_to_float(cell_sd), dtype=np.float64)
    if labels is not None and names is not None and labels != names:
        if len(labels) != len(names):
            raise ValueError(f"cell_sd has {len(labels)} columns but X has {len(names)}")
        j = next(j for j, (a, b) in enumerate(zip(labels, names, strict=True)) if a != b)
        raise ValueError(
            f"the columns of cell_sd are not those of X: column {j} is {quote(labels[j])} there "
            f"and {quote(names[j])} in X. Bring them into the order of X, e.g. cell_sd[X.columns]"
        )
    if deviations.shape != values.shape:
        raise ValueError(
            f"cell_sd has shape {deviations.shape} but X has shape {values.shape}: it holds one "
            "standard deviation per cell. One per column is numpy.broadcast_to(sd, X.shape)"
        )
    bad = ~(deviations >= 0) & ~np.isnan(deviations) | np.isinf(deviations)
    if not bad.any():
        bad = deviations > LARGEST
    if bad.any():
        row, j = (int(k) for k in np.argwhere(bad)[0])
        count = int(np.count_nonzero(bad))
        more = f" (and {count - 1} more cell{'s' if count > 2 else ''})" if count > 1 else ""
        raise ValueError(
            f"cell_sd must be finite (below {LARGEST:g}) and not negative: "
            f"{float(deviations[row, j])} at row {row}, column {column(names, j)}{more}. A cell "
            "that is worth nothing is NaN in X; a standard deviation that is not known is NaN or 0 "
            "in cell_sd"
        )
    known = deviations > 0
    if isinstance(values, np.ndarray):
        known &= ~np.isnan(values)
    return np.where(known, deviations, 0.0) if known.any() else None
