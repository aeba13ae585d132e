"""Known standard deviations of cells, beside the table whose cells they are."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from eigengap.linalg import Array
from eigengap.sources.array import dense_to_float, is_sparse, select_columns
from eigengap.sources.base import Rows
from eigengap.sources.frames import frame_to_float, library_of
from eigengap.sources.wording import column, quote

LARGEST = 1e75  # whose fourth power is a number: sums hold squares of variances


def refuse_other_rows(cell_sd: Any, X: Any) -> None:
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
    deviations, labels = _table(cell_sd, columns)
    if labels is not None and names is not None and labels != names:
        _raise_other_names(labels, names)
    if deviations.shape != values.shape:
        raise ValueError(
            f"cell_sd has shape {deviations.shape} but X has shape {values.shape}: it holds one "
            "standard deviation per cell. One per column is numpy.broadcast_to(sd, X.shape)"
        )
    bad = ~(deviations >= 0) & ~np.isnan(deviations) | np.isinf(deviations)
    if bad.any():
        _raise_bad(deviations, bad, names)
    if np.nanmax(deviations, initial=0.0) > LARGEST:
        _raise_bad(deviations, deviations > LARGEST, names)
    known = deviations > 0
    if isinstance(values, np.ndarray):
        known &= ~np.isnan(values)
    return np.where(known, deviations, 0.0) if known.any() else None


def _table(cell_sd: Any, columns: Any) -> tuple[Array, tuple[str, ...] | None]:
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
    return np.asarray(dense_to_float(cell_sd), dtype=np.float64), labels


def _raise_other_names(labels: tuple[str, ...], names: tuple[str, ...]) -> None:
    if len(labels) != len(names):
        raise ValueError(f"cell_sd has {len(labels)} columns but X has {len(names)}")
    j = next(j for j, (a, b) in enumerate(zip(labels, names, strict=True)) if a != b)
    raise ValueError(
        f"the columns of cell_sd are not those of X: column {j} is {quote(labels[j])} there and "
        f"{quote(names[j])} in X. Bring them into the order of X, e.g. cell_sd[X.columns]"
    )


def _raise_bad(deviations: Array, bad: NDArray[np.bool_], names: tuple[str, ...] | None) -> None:
    row, j = (int(k) for k in np.argwhere(bad)[0])
    count = int(np.count_nonzero(bad))
    more = f" (and {count - 1} more cell{'s' if count > 2 else ''})" if count > 1 else ""
    raise ValueError(
        f"cell_sd must be finite (below {LARGEST:g}) and not negative: {float(deviations[row, j])} "
        f"at row {row}, column {column(names, j)}{more}. A cell that is worth nothing is "
        "NaN in X; a standard deviation that is not known is NaN or 0 in cell_sd"
    )
