"""X, whatever it is, as the columns of the fit and as the other columns that rows are known by."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eigengap.plots.numbers.one_column import one_column
from eigengap.reporting.numbers.look import Look, look_at, of_pairs
from eigengap.reporting.numbers.subject import Subject
from eigengap.sources import (
    CsvReader,
    ParquetReader,
    Source,
    as_source,
    eager_frame,
    is_dask,
    is_field,
    is_field_path,
    library_of,
    lies_elsewhere,
    native_column,
    open_source,
    quote,
)

MOST_LABELS = 20  # columns beside those of the fit
MOST_FILE_LABELS = 8
MOST_FILE_ROWS = 1_000_000  # beyond which reading a column of text as a whole takes too long
MOST_DASK_ROWS = 5_000_000  # whose labels are brought here to choose a few from


@dataclass(frozen=True, eq=False)
class Label:
    """A column that the fit did not use, of the rows that are shown."""

    name: str
    values: tuple[Any, ...]  # (m,) None where there is none


def read(subject: Subject, X: Any, max_rows: int, seed: int) -> Look:
    """One pass over X."""
    if subject.is_pairwise:
        return of_pairs(_length(X), max_rows, seed)
    source = source_for(subject, X)
    if source.n_features != subject.n_features:
        raise ValueError(
            f"X has {source.n_features} columns, and the {subject.kind} was fitted to "
            f"{subject.n_features}. Give the table that it was fitted to, or one like it"
        )
    return look_at(source, max_rows, seed)


def source_for(subject: Subject, X: Any) -> Source:
    """The columns of the fit."""
    if isinstance(X, Source):
        return X
    names = None if subject.names is None else list(subject.names)
    how: dict[str, Any] = {"missing_values": subject.codes}
    if is_field(X) or is_field_path(X):
        return as_source(X, columns=names, **how)
    if names is None or not _has_names(X):
        return as_source(X, **how)
    if not lies_elsewhere(X) or is_dask(X):
        _require(_names(X), names, subject)
        return as_source(X, columns=names, **how)
    try:
        return open_source(X, columns=names, **how)
    except ValueError as error:
        try:  # a file without names
            source = open_source(X, **how)
        except ValueError:
            raise error from None
        if source.names is not None:
            raise
        return source


def labels_of(subject: Subject, X: Any, look: Look, asked: str | None = None) -> tuple[Label, ...]:
    """Columns beside those of the fit, the one asked for among them, and the index of a frame."""
    if isinstance(X, Source) or is_field(X) or is_field_path(X) or subject.is_pairwise:
        return ()
    if is_dask(X):
        return _of_dask(subject, X, look, asked)
    if library_of(X) is not None:
        return _of_frame(subject, eager_frame(X), look.at, asked)
    if isinstance(X, str | PathLike) and subject.names is not None:
        return _of_file(subject, X, look, asked)
    return ()


def _of_file(subject: Subject, X: Any, look: Look, asked: str | None) -> tuple[Label, ...]:
    """Other columns of one file, each read by itself; of a very long one none."""
    if look.n_rows > MOST_FILE_ROWS:
        return ()
    features = set(subject.names or ())
    names = all_names(source_for(subject, X))
    others = [name for name in names if name not in features and names.count(name) == 1]
    found = []
    for name in _few(others, MOST_FILE_LABELS, asked):
        values = one_column(X, name)
        found.append(Label(name, tuple(values[i] for i in look.at)))
    return tuple(found)


def all_names(source: Source) -> list[str]:
    """Names of all columns of a file, not only of those that are read from it."""
    reader = getattr(source, "reader", None)
    if isinstance(reader, CsvReader):
        return list(reader._dialect.names or ())
    if isinstance(reader, ParquetReader):
        file = reader._opened(0)
        try:
            return [str(name) for name in file.schema_arrow.names]
        finally:
            file.close()
    return []


def _few(names: list[str], most: int, asked: str | None) -> list[str]:
    """The first names, and the one that is asked for."""
    kept = names[:most]
    return [*kept, asked] if asked in names and asked not in kept else kept


def _of_frame(
    subject: Subject, X: Any, at: NDArray[np.intp], asked: str | None
) -> tuple[Label, ...]:
    features = set(subject.names or ())
    names = _names(X)
    if subject.names is None:  # the columns were taken by position
        return _index(X, at)
    others = _few([name for name in names if name not in features], MOST_LABELS, asked)
    places = [j for j, name in enumerate(names) if name in set(others)]
    columns = (Label(names[j], _taken(native_column(X, j), at)) for j in places)
    return (*_index(X, at), *columns)


def _of_dask(subject: Subject, X: Any, look: Look, asked: str | None) -> tuple[Label, ...]:
    if subject.names is None or not hasattr(X, "columns") or look.n_rows > MOST_DASK_ROWS:
        return ()
    features = set(subject.names)
    names = [str(name) for name in X.columns]
    kept = set(_few([name for name in names if name not in features], MOST_LABELS, asked))
    others = [name for name in X.columns if str(name) in kept]
    return _of_frame(subject, X[others].compute(), look.at, asked) if others else ()


def _index(X: Any, at: NDArray[np.intp]) -> tuple[Label, ...]:
    """The index of a pandas frame, where it says more than the position."""
    index = getattr(X, "index", None)
    if index is None or callable(index) or type(index).__name__ == "RangeIndex":
        return ()
    name = index.name if index.name is not None else "index"
    return (Label(str(name), tuple(index[at].tolist())),)


def _taken(column: Any, at: NDArray[np.intp]) -> tuple[Any, ...]:
    if hasattr(column, "iloc"):
        return tuple(column.iloc[at].tolist())
    if hasattr(column, "gather"):  # polars
        return tuple(column.gather(at).to_list())
    return tuple(column.take(at).to_pylist())


def _names(X: Any) -> list[str]:
    labels = X.column_names if hasattr(X, "column_names") else X.columns
    return [str(label) for label in labels]


def _has_names(X: Any) -> bool:
    if is_dask(X):
        return hasattr(X, "columns")
    return lies_elsewhere(X) or library_of(X) is not None


def _require(found: Sequence[str], wanted: Sequence[str], subject: Subject) -> None:
    missing = [name for name in wanted if name not in set(found)]
    if missing:
        listed = ", ".join(map(quote, missing[:5]))
        raise ValueError(
            f"X lacks {'a column' if len(missing) == 1 else f'{len(missing)} columns'} that the "
            f"{subject.kind} was fitted to: {listed}{', ...' if len(missing) > 5 else ''}"
        )


def _length(X: Any) -> int:
    if hasattr(X, "shape"):
        return int(X.shape[0])
    return len(X) if hasattr(X, "__len__") and not isinstance(X, str) else _rows(as_source(X))


def _rows(source: Source) -> int:
    return source.n_rows if source.n_rows is not None else source.observed().rows
