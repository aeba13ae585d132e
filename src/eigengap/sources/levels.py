"""Tables that hold more than numbers: levels as codes 0, 1, ..., and back.

A `Schema` says of each column what it holds (numbers, truth values, levels, ordered levels, text
that is no set of levels, dates) and, where it has levels, which. It is learned from the table of a
fit; other tables are coded by it, and coded values go back into the caller's own types.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from eigengap.exceptions import UnknownLevelError
from eigengap.linalg import Array
from eigengap.sources.array import F8, library_of
from eigengap.sources.cells import NULLS, Refused, objects_to_float
from eigengap.sources.checks import with_missing_for
from eigengap.sources.frames import _column_to_float, eager_frame, native_column, typed_like
from eigengap.sources.wording import column, show
from eigengap.wording import words

Holds = Literal["numbers", "truth", "levels", "ordered", "other"]


@dataclass(frozen=True)
class ColumnType:
    """What a column of a table holds."""

    name: str | None
    holds: Holds
    levels: tuple[Any, ...] = ()  # in the order of their codes

    def code(self, cells: Sequence[Any], label: str) -> Array:
        """Codes (n,) of cells, NaN where they are null; refuses what was not among the levels."""
        place: dict[Any, float] = {level: float(k) for k, level in enumerate(self.levels)}
        codes = np.full(len(cells), np.nan)
        for i, cell in enumerate(cells):
            if _is_null(cell):
                continue
            try:
                codes[i] = place[cell]
            except (KeyError, TypeError):
                raise UnknownLevelError(
                    f"{show(cell)} at row {words().number(i)}, column {label}, is not one of the "
                    f"{len(self.levels)} levels of the fit ({_some(self.levels)}). Make it missing "
                    "(NaN), or fit on rows that have it",
                    row=i,
                    name=self.name,
                    value=str(cell),
                ) from None
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
        if library_of(X) is None:
            table = np.array(X, dtype=object)
            for j, own in enumerate(self.columns):
                for i in np.flatnonzero(imputed[:, j]):
                    table[i, j] = own.levels[int(values[i, j])] if own.levels else values[i, j]
            return table
        return _frame_like(X, self.columns, values, imputed)

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
        table = np.asarray(X, dtype=object) if not isinstance(X, np.ndarray) else X
        if table.ndim != 2:
            raise ValueError(f"expected a table of two dimensions, got {table.ndim}")
        is_object = table.dtype.kind in "OUS"
        return [None] * table.shape[1], [(None if is_object else "numbers", x) for x in table.T]
    import narwhals as nw

    X = eager_frame(X)
    labels = list(X.column_names if library_of(X) == "pyarrow" else X.columns)
    read: list[tuple[Holds | None, Any]] = []
    for j in range(len(labels)):
        series = nw.from_native(native_column(X, j), series_only=True)
        read.append((_held(series), series))
    return [label if isinstance(label, str) else None for label in labels], read


def _held(series: Any) -> Holds | None:
    """What the type of a column says that it holds; None where only its cells can tell."""
    import narwhals as nw

    if series.dtype == nw.Boolean:
        return "truth"
    if series.dtype.is_numeric():
        return "numbers"
    if series.dtype in (nw.Categorical, nw.Enum):
        is_ordered = getattr(getattr(series.to_native(), "dtype", None), "ordered", False)
        return "ordered" if is_ordered else "levels"
    if series.dtype in (nw.Date, nw.Datetime, nw.Duration, nw.Time):
        return "other"
    return None


def _learned(name: str | None, held: Holds | None, cells: Any) -> ColumnType:
    label = "" if name is None else name
    if held == "numbers" or held == "other":
        return ColumnType(name, held)
    if held is None:
        found = _numbers(cells, label)
        if not isinstance(found, Refused):
            return ColumnType(name, "numbers")
    given = [cell for cell in _listed(cells) if not _is_null(cell)]
    observed = set(given)
    if held == "truth" or observed <= {True, False}:
        return ColumnType(name, "truth", (False, True))
    if held in ("ordered", "levels"):
        order = [level for level in _categories(cells) if level in observed]
        return ColumnType(name, held, tuple(order))
    if any(not isinstance(cell, str | bytes | int | float | np.generic) for cell in observed):
        return ColumnType(name, "other")
    return ColumnType(name, "levels", tuple(sorted(observed, key=lambda x: (str(type(x)), x))))


def _numbers(cells: Any, label: str) -> NDArray[Any] | Refused:
    if isinstance(cells, np.ndarray):
        if cells.dtype.kind in "fiub":
            return np.asarray(cells, dtype=F8)
        return objects_to_float(cells.astype(object), label)
    return _column_to_float(cells, label)


def _listed(cells: Any) -> list[Any]:
    return list(cells.tolist() if isinstance(cells, np.ndarray) else cells.to_list())


def _categories(series: Any) -> list[Any]:
    """The categories of a categorical column in their order; those of polars are in none."""
    own = getattr(getattr(series.to_native(), "dtype", None), "categories", None)
    if own is None:
        own = getattr(series.dtype, "categories", None)
    return sorted(set(series.drop_nulls().to_list())) if own is None else list(own)


def _is_null(cell: Any) -> bool:
    return cell is None or type(cell).__name__ in NULLS or cell != cell


def _some(levels: Sequence[Any], most: int = 6) -> str:
    shown = ", ".join(show(level) for level in levels[:most])
    return shown if len(levels) <= most else f"{shown}, ..."


def _frame_like(
    X: Any, columns: Sequence[ColumnType], values: Array, imputed: NDArray[np.bool_]
) -> Any:
    """The frame X with imputed cells: numeric columns by `typed_like`, levels in their own type."""
    import narwhals as nw

    X = eager_frame(X)
    frame = nw.from_native(X, eager_only=True)
    for j, own in enumerate(columns):
        at = np.flatnonzero(imputed[:, j])
        if own.holds == "other" or not len(at):
            continue
        name = frame.columns[j]
        if own.holds == "numbers":
            typed = typed_like(X, np.nan_to_num(values), imputed)
            series = nw.from_native(native_column(typed, j), series_only=True)
        else:
            cells = frame[name].to_list()
            for i in at:
                cells[i] = own.levels[int(values[i, j])]
            native = native_column(X, j)
            if hasattr(native, "iloc"):
                made = type(native)(cells, index=native.index, dtype=native.dtype, name=name)
                series = nw.from_native(made, series_only=True)
            else:
                dtype, backend = frame[name].dtype, frame.implementation
                series = nw.new_series(name, cells, dtype=dtype, backend=backend)
        frame = frame.with_columns(series.alias(name))
    return nw.to_native(frame)
