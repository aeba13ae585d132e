"""One column of a table, whatever it holds: text, numbers, categories."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from eigengap.exceptions import MissingExtraError
from eigengap.sources import (
    Source,
    arrow_path,
    compression_of,
    is_dask,
    library_of,
    lies_elsewhere,
    quote,
)

HEAD = 1 << 18  # bytes that tell how a CSV file is written


def one_column(X: Any, name: str) -> list[Any]:
    """The values of the column `name` of a frame, a Dask frame, a file or a source."""
    if isinstance(X, Source):
        return _of_source(X, name)
    if library_of(X) is not None or (is_dask(X) and hasattr(X, "columns")):
        return _of_frame(X, name)
    if lies_elsewhere(X) and not is_dask(X):
        return _of_file(X, name)
    raise ValueError(
        f"color={quote(name)} is the name of a column, and X has no names; give the values, one "
        "for each row"
    )


def _of_frame(X: Any, name: str) -> list[Any]:
    columns = list(X.column_names if hasattr(X, "column_names") else X.columns)
    if columns.count(name) != 1:
        raise _no_such(name, columns, "X")
    if hasattr(X, "column_names"):  # pyarrow
        return list(X.column(name).to_pylist())
    column = X[name]
    if hasattr(column, "compute"):
        column = column.compute()
    return list(column.to_list())


def _of_source(X: Source, name: str) -> list[Any]:
    names = X.names or ()
    if name not in names:
        raise _no_such(name, names, "the source")
    j = names.index(name)
    return list(X.map(lambda block: np.asarray(block.values[:, [j]], dtype=float)).ravel())


def _of_file(path: Any, name: str) -> list[Any]:
    from eigengap.sources import format_of

    single = isinstance(path, str | Path) and Path(path).is_file()
    kind = format_of(Path(path)).name if single else "others"
    if kind == "csv":
        return _of_csv(str(path), name)
    if kind == "parquet":
        return _of_parquet(str(path), name)
    from eigengap.sources import open_source

    return list(np.asarray(open_source(path, columns=[name]).collect(), dtype=float).ravel())


def _of_parquet(path: str, name: str) -> list[Any]:
    try:
        from pyarrow import parquet
    except ImportError as error:
        raise MissingExtraError("reading Parquet", "pyarrow", "files") from error
    file = parquet.ParquetFile(arrow_path(path))
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
    from eigengap.sources import find_dialect

    with pa.input_stream(arrow_path(path), compression=compression_of(path)) as stream:
        head = bytes(stream.read(HEAD))
    whole = head if len(head) < HEAD else head[: head.rfind(b"\n") + 1]
    dialect = find_dialect(path, whole, frozenset())
    names = dialect.names or ()
    if names.count(name) != 1:
        raise _no_such(name, names, path)
    kept = str(names.index(name))
    with pa.input_stream(arrow_path(path), compression=compression_of(path)) as stream:
        stream.read(dialect.start)
        table = csv.read_csv(
            stream,
            read_options=csv.ReadOptions(
                column_names=[str(j) for j in range(dialect.n_columns)],
            ),
            parse_options=csv.ParseOptions(
                delimiter=dialect.separator, newlines_in_values=b'"' in whole
            ),
            convert_options=csv.ConvertOptions(
                include_columns=[kept],
                null_values=["", "NA", "NaN", "nan", "null", "n/a", "N/A"],
                strings_can_be_null=True,
                decimal_point=dialect.cells.decimal,
            ),
        )
    return list(table.column(0).to_pylist())


def _no_such(name: str, names: Any, where: str) -> ValueError:
    listed = ", ".join(quote(str(other)) for other in list(names)[:8])
    more = ", ..." if len(list(names)) > 8 else ""
    return ValueError(f"color={quote(name)} is no column of {where}; it has {listed}{more}")
