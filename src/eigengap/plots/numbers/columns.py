"""X, whatever it is: the columns of the fit, and the others that colour and name the rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eigengap import sources
from eigengap.exceptions import MissingExtraError
from eigengap.plots.numbers.rows import Look, look_at, of_pairs, source_for
from eigengap.plots.numbers.subject import Subject

MOST_BESIDE = 4  # columns of names or text that are listed with a row
MOST_LABELS = 20  # columns beyond those of the fit
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
        if hasattr(X, "shape") or (hasattr(X, "__len__") and not isinstance(X, str)):
            n = int(X.shape[0]) if hasattr(X, "shape") else len(X)
        else:
            source = sources.as_source(X)
            n = source.n_rows if source.n_rows is not None else source.observed().rows
        return of_pairs(n, max_rows, seed)
    source = _source(subject, X)
    if source.n_features != subject.n_features:
        raise ValueError(
            f"X has {source.n_features} columns, and the {subject.kind} was fitted to "
            f"{subject.n_features}. Give the table that it was fitted to, or one like it"
        )
    return look_at(source, max_rows, seed)


def _source(subject: Subject, X: Any) -> sources.Source:
    """The columns of the fit."""
    if subject.coded is not None:
        return source_for(subject.given, X)
    if isinstance(X, sources.Source):
        return X
    names = None if subject.names is None else list(subject.names)
    how: dict[str, Any] = {"missing_values": subject.codes}
    if sources.is_field(X) or sources.is_field_path(X):
        return sources.as_source(X, columns=names, **how)
    in_memory = sources.is_dask(X) or not sources.lies_elsewhere(X)
    has_names = not in_memory or sources.library_of(X) is not None
    if sources.is_dask(X):
        has_names = hasattr(X, "columns")
    if names is None or not has_names:
        return sources.as_source(X, **how)
    if in_memory:
        found = set(_names(X))
        lacks = [sources.quote(name) for name in names if name not in found]
        if lacks:
            listed = ", ".join(lacks[:5]) + (", ..." if len(lacks) > 5 else "")
            columns = "a column" if len(lacks) == 1 else f"{len(lacks)} columns"
            raise ValueError(f"X lacks {columns} that the {subject.kind} was fitted to: {listed}")
        return sources.as_source(X, columns=names, **how)
    try:
        return sources.open_source(X, columns=names, **how)
    except ValueError as error:
        try:  # a file without names
            source = sources.open_source(X, **how)
        except ValueError:
            raise error from None
        if source.names is not None:
            raise
        return source


def _names(X: Any) -> list[str]:
    return [str(name) for name in (X.column_names if hasattr(X, "column_names") else X.columns)]


# Columns that the fit did not use --------------------------------------------------------------


def labels_of(subject: Subject, X: Any, look: Look, asked: str | None = None) -> tuple[Label, ...]:
    """Columns beyond those of the fit, the one asked for among them, and the index of a frame."""
    is_field = sources.is_field(X) or sources.is_field_path(X)
    if isinstance(X, sources.Source) or is_field or subject.is_pairwise:
        return ()
    if sources.is_dask(X):
        if subject.names is None or not hasattr(X, "columns") or look.n_rows > MOST_DASK_ROWS:
            return ()
        kept = set(_others(subject, _names(X), MOST_LABELS, asked))
        others = [name for name in X.columns if str(name) in kept]
        return _of_frame(subject, X[others].compute(), look.at, asked) if others else ()
    if sources.library_of(X) is not None:
        return _of_frame(subject, sources.eager_frame(X), look.at, asked)
    # Of one file each column is read by itself; of a very long one none is.
    if not isinstance(X, str | PathLike) or subject.names is None or look.n_rows > MOST_FILE_ROWS:
        return ()
    names = _all_names(_source(subject, X))
    once = [name for name in names if names.count(name) == 1]
    columns = {
        name: one_column(X, name) for name in _others(subject, once, MOST_FILE_LABELS, asked)
    }
    return tuple(Label(name, tuple(values[i] for i in look.at)) for name, values in columns.items())


def _others(subject: Subject, names: list[str], most: int, asked: str | None) -> list[str]:
    """The first names of columns that are no features, and the one that is asked for."""
    features = set(subject.names or ())
    others = [name for name in names if name not in features]
    kept = others[:most]
    return [*kept, asked] if asked in others and asked not in kept else kept


def _all_names(source: sources.Source) -> list[str]:
    """Names of all columns of a file, not only of those that are read from it."""
    reader = getattr(source, "reader", None)
    if isinstance(reader, sources.CsvReader):
        return list(reader._dialect.names or ())
    if isinstance(reader, sources.ParquetReader):
        file = reader._opened(0)
        try:
            return [str(name) for name in file.schema_arrow.names]
        finally:
            file.close()
    return []


def _of_frame(
    subject: Subject, X: Any, at: NDArray[np.intp], asked: str | None
) -> tuple[Label, ...]:
    index = getattr(X, "index", None)
    found = []
    if not (index is None or callable(index) or type(index).__name__ == "RangeIndex"):
        name = index.name if index.name is not None else "index"
        found.append(Label(str(name), tuple(index[at].tolist())))
    if subject.names is not None:  # else the columns were taken by position
        names = _names(X)
        others = set(_others(subject, names, MOST_LABELS, asked))
        places = [j for j, name in enumerate(names) if name in others]
        found += [Label(names[j], _taken(sources.native_column(X, j), at)) for j in places]
    return tuple(found)


def _taken(column: Any, at: NDArray[np.intp]) -> tuple[Any, ...]:
    if hasattr(column, "iloc"):
        return tuple(column.iloc[at].tolist())
    if hasattr(column, "gather"):  # polars
        return tuple(column.gather(at).to_list())
    return tuple(column.take(at).to_pylist())


# One column by its name ------------------------------------------------------------------------


def one_column(X: Any, name: str) -> list[Any]:
    """The values of the column `name`, text or numbers, of a frame, Dask frame, file or source."""
    if isinstance(X, sources.Source):
        names = X.names or ()
        if name not in names:
            raise _no_such(name, names, "the source")
        j = names.index(name)
        return list(X.map(lambda block: np.asarray(block.values[:, [j]], dtype=float)).ravel())
    if sources.library_of(X) is not None or (sources.is_dask(X) and hasattr(X, "columns")):
        is_arrow = hasattr(X, "column_names")
        columns = list(X.column_names if is_arrow else X.columns)
        if columns.count(name) != 1:
            raise _no_such(name, columns, "X")
        column = X.column(name) if is_arrow else X[name]
        if hasattr(column, "compute"):
            column = column.compute()
        return list(column.to_pylist() if is_arrow else column.to_list())
    if not sources.lies_elsewhere(X) or sources.is_dask(X):
        raise ValueError(
            f"color={sources.quote(name)} is the name of a column, and X has no names; give the "
            "values, one for each row"
        )
    single = isinstance(X, str | Path) and Path(X).is_file()
    kind = sources.format_of(Path(X)).name if single else "others"
    if kind == "csv":
        return _of_csv(str(X), name)
    if kind == "parquet":
        return _of_parquet(str(X), name)
    return list(np.asarray(sources.open_source(X, columns=[name]).collect(), dtype=float).ravel())


def _of_parquet(path: str, name: str) -> list[Any]:
    try:
        from pyarrow import parquet
    except ImportError as error:
        raise MissingExtraError("reading Parquet", "pyarrow", "files") from error
    file = parquet.ParquetFile(sources.arrow_path(path))
    names = file.schema_arrow.names
    if name not in names:
        raise _no_such(name, names, path)
    return list(file.read(columns=[name]).column(0).to_pylist())


def _of_csv(path: str, name: str) -> list[Any]:
    try:
        import pyarrow as pa
        from pyarrow import csv
    except ImportError as error:
        raise MissingExtraError("reading CSV", "pyarrow", "files") from error

    def opened() -> Any:
        return pa.input_stream(sources.arrow_path(path), compression=sources.compression_of(path))

    with opened() as stream:
        head = bytes(stream.read(sources.HEAD_BYTES))
    whole = head if len(head) < sources.HEAD_BYTES else head[: head.rfind(b"\n") + 1]
    dialect = sources.find_dialect(path, whole, frozenset())
    names = dialect.names or ()
    if names.count(name) != 1:
        raise _no_such(name, names, path)
    with opened() as stream:
        stream.read(dialect.start)
        places = [str(j) for j in range(dialect.n_columns)]
        table = csv.read_csv(
            stream,
            read_options=csv.ReadOptions(column_names=places),
            parse_options=csv.ParseOptions(
                delimiter=dialect.separator, newlines_in_values=b'"' in whole
            ),
            convert_options=csv.ConvertOptions(
                include_columns=[str(names.index(name))],
                null_values=["", "NA", "NaN", "nan", "null", "n/a", "N/A"],
                strings_can_be_null=True,
                decimal_point=dialect.cells.decimal,
            ),
        )
    return list(table.column(0).to_pylist())


def _no_such(name: str, names: Sequence[Any], where: str) -> ValueError:
    listed = ", ".join(sources.quote(str(other)) for other in names[:8])
    more = ", ..." if len(names) > 8 else ""
    return ValueError(f"color={sources.quote(name)} is no column of {where}; it has {listed}{more}")
