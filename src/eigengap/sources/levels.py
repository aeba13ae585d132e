"""Tables that hold more than numbers: levels as codes 0, 1, ..., and back.

A `Schema` says of each column what it holds (numbers, truth values, levels, ordered levels, text
that is no set of levels, dates) and, where it has levels, which. It is learned from the table of a
fit; other tables are coded by it, and coded values go back into the caller's own types.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from math import nan
from numbers import Integral
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from eigengap.exceptions import UnknownLevelError
from eigengap.linalg import Array
from eigengap.sources.array import F8, dense_to_float, library_of
from eigengap.sources.cells import NULLS, Refused, objects_to_float
from eigengap.sources.checks import check_not_empty, check_two_dimensional, with_missing_for
from eigengap.sources.frames import _column_to_float, _own_type, eager_frame, native_column
from eigengap.sources.wording import column, show
from eigengap.wording import words

Holds = Literal["numbers", "truth", "levels", "ordered", "other"]


@dataclass(frozen=True)
class ColumnType:
    """What a column of a table holds."""

    name: str | None
    holds: Holds
    levels: tuple[Any, ...] = ()  # in the order of their codes

    def level(self, value: float) -> Any:
        """The caller's level of a code; a number is itself."""
        return self.levels[int(value)] if self.levels else value

    def code(self, cells: Sequence[Any], label: str) -> Array:
        """Codes (n,) of cells, NaN where they are null; refuses what was not among the levels."""
        place: dict[Any, float] = {level: float(k) for k, level in enumerate(self.levels)}
        try:
            codes = np.array([place.get(cell, nan) for cell in cells], dtype=F8)
        except TypeError:  # a cell that is not hashable, and no level
            known = [isinstance(cell, Hashable) for cell in cells]
            codes = np.array(
                [place.get(c, nan) if k else nan for c, k in zip(cells, known, strict=True)]
            )
        for i in np.flatnonzero(np.isnan(codes)).tolist():
            cell = cells[i]
            if not _is_null(cell):
                raise UnknownLevelError(
                    f"{show(cell)} at row {words().number(i)}, column {label}, is not one of the "
                    f"{len(self.levels)} levels of the fit ({_some(self.levels)}). Make it missing "
                    "(NaN), or fit on rows that have it",
                    row=i,
                    name=self.name,
                    value=str(cell),
                )
        return codes


@dataclass(frozen=True)
class Schema:
    """The columns of a table."""

    columns: tuple[ColumnType, ...]
    missing: tuple[float, ...] = ()  # numbers that stand for a missing value

    @classmethod
    def of(cls, X: Any, missing: Sequence[float] = ()) -> Schema:
        """Learned from a frame, or a 2-d array of objects."""
        names, read = _columns_of(X)
        learned = (_learned(name, *each) for name, each in zip(names, read, strict=True))
        return cls(tuple(learned), tuple(missing))

    @property
    def names(self) -> tuple[str, ...] | None:
        names = tuple(each.name for each in self.columns if each.name is not None)
        return names if len(names) == len(self.columns) else None

    def in_order(self, orders: Mapping[int, Callable[[Sequence[Any]], tuple[Any, ...]]]) -> Schema:
        """With the levels of some columns in another order."""
        columns = list(self.columns)
        for j, order in orders.items():
            if columns[j].levels:
                columns[j] = replace(columns[j], levels=order(columns[j].levels))
        return replace(self, columns=tuple(columns))

    def missing_cells(self, X: Any) -> NDArray[np.bool_]:
        """(n, d) which cells are missing, in columns of every type."""
        found = np.isnan(self.code(X))
        _, read = _columns_of(X)
        for j, own in enumerate(self.columns):
            if own.holds == "other":
                found[:, j] = [_is_null(cell) for cell in _listed(read[j][1])]
        return found

    def code(self, X: Any) -> Array:
        """Values (n, d) of a table with these columns: numbers, and codes of levels.

        Columns that hold neither are NaN.
        """
        _, read = _columns_of(X)
        if len(read) != len(self.columns):
            raise ValueError(f"expected {len(self.columns)} columns, got {len(read)}")
        coded = []
        for j, (own, (_, cells)) in enumerate(zip(self.columns, read, strict=True)):
            coded.append(self._coded(own, cells, column(self.names, j)))
        values = np.column_stack(coded) if coded else np.empty((0, 0))
        if self.missing:
            numbers = [j for j, own in enumerate(self.columns) if own.holds == "numbers"]
            values[:, numbers] = with_missing_for(values[:, numbers], self.missing)
        return values

    def decode(self, X: Any, values: Array, imputed: NDArray[np.bool_]) -> Any:
        """X with its missing values imputed: levels for codes, in X's own types."""
        if library_of(X) is not None:
            return _frame_like(X, self.columns, values, imputed)
        if all(own.holds == "numbers" for own in self.columns):
            single = isinstance(X, np.ndarray) and X.dtype == np.float32
            return values.astype(np.float32) if single else values
        table = _array(X).astype(object)
        for j, own in enumerate(self.columns):
            cells = _imputed(own, table[:, j].tolist(), values[:, j], imputed[:, j])
            for i in np.flatnonzero(imputed[:, j]):
                table[i, j] = cells[i]
        return table

    @staticmethod
    def _coded(own: ColumnType, cells: Any, label: str) -> Array:
        if own.holds == "other":
            return np.full(len(cells), np.nan)
        if own.holds != "numbers":
            return own.code(_listed(cells), label)
        found = _numbers(cells, label)
        if isinstance(found, Refused):
            raise ValueError(f"column {label} held numbers in the fit, and now holds {found}")
        return np.asarray(found, dtype=F8)


def _columns_of(X: Any) -> tuple[list[str | None], list[tuple[Holds | None, Any]]]:
    """Names, and of each column what its type says that it holds, and its cells."""
    if library_of(X) is None:
        table = _array(X)
        held: Holds | None = None if table.dtype.kind == "O" else "numbers"
        return [None] * table.shape[1], [(held, x) for x in table.T]
    import narwhals as nw

    X = eager_frame(X)
    labels = list(X.column_names if library_of(X) == "pyarrow" else X.columns)
    check_not_empty((len(X), len(labels)))
    read: list[tuple[Holds | None, Any]] = []
    for j in range(len(labels)):
        series = nw.from_native(native_column(X, j), series_only=True)
        read.append((_held(series), series))
    return [label if isinstance(label, str) else None for label in labels], read


def _array(X: Any) -> NDArray[Any]:
    """A table (n, d) that is no frame: of floats, or of objects, masked cells as None."""
    if hasattr(X, "tocsr"):
        raise ValueError("columns of several kinds need a dense table; X.toarray() makes one")
    table = X if isinstance(X, np.ndarray) else np.asarray(X, dtype=object)
    check_two_dimensional(table)
    check_not_empty(table.shape)
    if table.dtype.kind not in "OUS":
        return dense_to_float(table)
    objects = np.array(np.ma.getdata(table), dtype=object)
    objects[np.ma.getmaskarray(table)] = None
    return objects


def _held(series: Any) -> Holds | None:
    """What the type of a column says that it holds; None where only its cells can tell."""
    import narwhals as nw

    if series.dtype == nw.Boolean:
        return "truth"
    if series.dtype.is_numeric():
        return "numbers"
    if series.dtype in (nw.Categorical, nw.Enum):
        return "ordered" if getattr(_native_type(series), "ordered", False) else "levels"
    if series.dtype in (nw.Date, nw.Datetime, nw.Duration, nw.Time):
        return "other"
    return None


def _learned(name: str | None, held: Holds | None, cells: Any) -> ColumnType:
    label = "" if name is None else name
    if held == "numbers" or held == "other":
        return ColumnType(name, held)
    if held is None:
        found = _numbers(cells, label)
        if not (isinstance(found, Refused) or _are_truth(_given(cells))):
            return ColumnType(name, "numbers")
    given = _given(cells)
    try:
        observed = set(given)
    except TypeError:  # lists, dictionaries
        return ColumnType(name, "other")
    if held == "truth" or _are_truth(given):
        return ColumnType(name, "truth", (False, True))
    if held in ("ordered", "levels"):
        order = [level for level in _categories(cells) if level in observed]
        return ColumnType(name, held, tuple(order))
    if any(not isinstance(cell, str | bytes | int | float | np.generic) for cell in observed):
        return ColumnType(name, "other")
    return ColumnType(name, "levels", tuple(sorted(observed, key=lambda x: (str(type(x)), x))))


def _are_truth(cells: Sequence[Any]) -> bool:
    return bool(cells) and set(map(type, cells)) <= {bool, np.bool_}


def _numbers(cells: Any, label: str) -> NDArray[Any] | Refused:
    if isinstance(cells, np.ndarray):
        if cells.dtype.kind in "fiub":
            return np.asarray(cells, dtype=F8)
        return objects_to_float(cells.astype(object), label)
    return _column_to_float(cells, label)


def _listed(cells: Any) -> list[Any]:
    return list(cells.tolist() if isinstance(cells, np.ndarray) else cells.to_list())


def _given(cells: Any) -> list[Any]:
    return [cell for cell in _listed(cells) if type(cell) is str or not _is_null(cell)]


def _native_type(series: Any) -> Any:
    native = series.to_native()
    return native.type if library_of(native) == "pyarrow" else native.dtype


def _categories(series: Any) -> list[Any]:
    """The categories of a categorical column in their order, sorted where they are in none."""
    import narwhals as nw

    native, own = series.to_native(), _native_type(series)
    if library_of(native) == "pyarrow" and own.ordered:
        chunks = native.unify_dictionaries().chunks
        return list(chunks[0].dictionary.to_pylist()) if chunks else []
    # Categoricals of polars, and of Arrow in pandas, have no list of their own.
    has_list = hasattr(native, "iloc") and hasattr(own, "categories")
    if series.dtype == nw.Enum or has_list:
        return list(own.categories)
    return sorted(set(_given(series)))


def _is_null(cell: Any) -> bool:
    if cell is None or type(cell).__name__ in NULLS:
        return True
    return isinstance(cell, float | np.floating) and bool(cell != cell)


def _some(levels: Sequence[Any], most: int = 6) -> str:
    shown = ", ".join(show(level) for level in levels[:most])
    return shown if len(levels) <= most else f"{shown}, ..."


def _imputed(
    own: ColumnType, cells: list[Any], values: Array, imputed: NDArray[np.bool_]
) -> list[Any]:
    """Cells with their imputed values as Python objects; whole ones where all others are."""
    observed = [cell for cell in cells if not _is_null(cell)]
    are_whole = all(isinstance(cell, Integral) for cell in observed)
    are_decimal = all(isinstance(cell, Decimal) for cell in observed)
    for i in np.flatnonzero(imputed):
        value: Any = own.level(float(values[i]))
        if own.holds == "numbers" and are_whole and value.is_integer():
            value = int(value)
        elif own.holds == "numbers" and are_decimal:
            value = Decimal(repr(value))
        cells[i] = value
    return cells


def _frame_like(
    X: Any, columns: Sequence[ColumnType], values: Array, imputed: NDArray[np.bool_]
) -> Any:
    """The frame X with imputed cells, every column by its position and in its own type."""
    X = eager_frame(X)
    library = library_of(X)
    frame = X.clone() if library == "polars" else X.copy() if hasattr(X, "iloc") else X
    for j, own in enumerate(columns):
        if not imputed[:, j].any():
            continue
        made = _column_like(native_column(X, j), own, values[:, j], imputed[:, j])
        if hasattr(X, "iloc"):
            frame.isetitem(j, made)  # a series: pandas would infer another type of an array
        elif library == "pyarrow":
            field = X.schema.field(j).with_type(made.type)
            frame = frame.set_column(j, field, made)
        else:
            frame = frame.replace_column(j, made.rename(X.columns[j]))
    return frame


def _column_like(native: Any, own: ColumnType, values: Array, imputed: NDArray[np.bool_]) -> Any:
    """One column of a frame with its imputed cells, in floating point where its type has none."""
    import narwhals as nw

    series = nw.from_native(native, series_only=True)
    if own.holds == "numbers" and (series.dtype.is_numeric() or series.dtype == nw.Boolean):
        made = _own_type(native, values, imputed)
        if made is not None:
            return made
        if hasattr(native, "iloc"):
            return type(native)(values, index=native.index)
        return nw.new_series("", values, nw.Float64, backend=series.implementation).to_native()
    cells = _imputed(own, list(series.to_list()), values, imputed)
    if hasattr(native, "iloc"):
        return type(native)(cells, index=native.index, dtype=native.dtype)
    if library_of(native) == "pyarrow":
        import pyarrow

        return pyarrow.chunked_array([pyarrow.array(cells, type=native.type)])
    return type(native)("", cells, dtype=native.dtype)
