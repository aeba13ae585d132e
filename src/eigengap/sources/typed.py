"""Imputed tables in the column types of the frame they came from."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from eigengap.sources.checks import EXACT
from eigengap.sources.frames import eager_frame, library_of, like, native_column


def typed_like(X: Any, values: NDArray[Any], imputed: NDArray[np.bool_]) -> Any:
    """Values (n, d) as the type of X, each column in its own type where that can hold them.

    `imputed` (n, d) marks missing values of X; a column without any is X's own. An integer or
    boolean column becomes floating-point where imputed values are not integers.
    """
    if library_of(X) is None:
        return values
    X, frame = eager_frame(X), like(X, values)
    columns = {
        j: column
        for j in range(values.shape[1])
        if (column := _own_type(native_column(X, j), values[:, j], imputed[:, j])) is not None
    }
    return _with_columns(frame, columns)


def whole_columns(X: Any) -> NDArray[np.bool_] | None:
    """(d,) columns of an integer or boolean type; None where X is no frame."""
    return _by_type(X, lambda dtype, nw: dtype.is_integer() or dtype == nw.Boolean)


def boolean_columns(X: Any) -> NDArray[np.bool_] | None:
    """(d,) columns of a boolean type; None where X is no frame."""
    return _by_type(X, lambda dtype, nw: dtype == nw.Boolean)


def _by_type(X: Any, holds: Any) -> NDArray[np.bool_] | None:
    if library_of(X) is None:
        return None
    import narwhals as nw

    X = eager_frame(X)
    d = len(X.column_names if hasattr(X, "column_names") else X.columns)
    columns = [nw.from_native(native_column(X, j), series_only=True) for j in range(d)]
    return np.array([bool(holds(column.dtype, nw)) for column in columns])


def _own_type(native: Any, values: NDArray[Any], imputed: NDArray[np.bool_]) -> Any:
    """The column in its own type, None where floating-point must do."""
    import narwhals as nw

    column = nw.from_native(native, series_only=True)
    dtype = column.dtype
    if not imputed.any():
        return native if dtype.is_numeric() or dtype == nw.Boolean else None
    if not _holds(dtype, values[imputed], nw):
        return None
    cells = values.tolist() if dtype.is_float() else _with_imputed(column, values, imputed)
    if hasattr(native, "iloc"):
        return type(native)(cells, index=native.index, dtype=native.dtype)
    made = nw.new_series(column.name or "", cells, dtype=dtype, backend=column.implementation)
    return made.to_native()


def _with_imputed(column: Any, values: NDArray[Any], imputed: NDArray[np.bool_]) -> list[Any]:
    """Observed values as in the column: float64 does not represent every integer."""
    import narwhals as nw

    kind = bool if column.dtype == nw.Boolean else int
    cells = list(column.to_list())
    for i in np.flatnonzero(imputed):
        cells[i] = kind(values[i])
    return cells


def _holds(dtype: Any, values: NDArray[Any], nw: Any) -> bool:
    if dtype.is_float():
        return True
    if dtype == nw.Boolean:
        return bool(np.all((values == 0) | (values == 1)))
    if not dtype.is_integer():
        return False
    whole = bool(np.all(values == np.round(values)) and np.all(np.abs(values) < EXACT))
    if not whole:
        return False
    bits = int("".join(filter(str.isdigit, str(dtype))) or 64)
    unsigned = str(dtype).startswith("U")
    low = 0.0 if unsigned else -(2.0 ** (bits - 1))
    high = 2.0**bits - 1 if unsigned else 2.0 ** (bits - 1) - 1
    return bool(values.min() >= low and values.max() <= high)


def with_new_columns(frame: Any, names: Any, values: NDArray[Any]) -> Any:
    """A pandas or polars frame with columns (n, k) of 0 and 1 appended."""
    new = {str(name): values[:, k].astype(np.int8) for k, name in enumerate(names)}
    if hasattr(frame, "iloc"):
        return frame.assign(**new)
    import narwhals as nw

    return frame.with_columns(
        [
            nw.new_series(n, v, backend=nw.get_native_namespace(frame)).to_native()
            for n, v in new.items()
        ]
    )


def _with_columns(frame: Any, columns: dict[int, Any]) -> Any:
    if not columns:
        return frame
    if hasattr(frame, "isetitem"):
        for j, column in columns.items():
            frame.isetitem(j, column.array)
        return frame
    if hasattr(frame, "replace_column"):
        for j, column in columns.items():
            frame = frame.replace_column(j, column.rename(frame.columns[j]))
        return frame
    for j, column in columns.items():
        frame = frame.set_column(j, frame.column_names[j], column)
    return frame
