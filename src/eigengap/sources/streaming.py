"""From a table of any size to a file of any size, a block at a time."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cache, partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eigengap.runtime.warnings import CapturedWarning, captured, warn
from eigengap.sources.array import dense_to_float, library_of
from eigengap.sources.base import Block, Source
from eigengap.sources.coded import MixedTable, open_table
from eigengap.sources.conversion import as_source
from eigengap.sources.frames import frame_to_float
from eigengap.sources.levels import Schema
from eigengap.sources.sinks import open_sink
from eigengap.sources.wording import quote

Warned = dict[type[Warning], tuple[CapturedWarning, int]]  # the first of each kind, and its blocks
SD = "_sd"  # what is added to the name of a column for its standard deviation


def stream(
    function: Callable[[Any], Any],
    X: Any,
    to: Any,
    *,
    columns_out: Sequence[str] | None = None,
    force: bool = False,
) -> Path:
    """Write function(X) to a file, block by block: neither X nor the result is ever in memory.

    Parameters
    ----------
    function : callable
        A function of a fitted estimator, or any function from a table to one row for each of its
        rows: `model.transform`, `model.score_samples`,
        `functools.partial(model.impute, return_std=True)`. If it returns a pair, the second is
        written in further columns, named with "_sd".
    X : path, Source or table
        A file, as `open_source` takes it, a source, or a table in memory. A table with column names
        reaches the function as a data frame. A model of columns of every kind (docs/columns.md)
        takes files with text in them, and what it imputes is written as text to CSV or Parquet.
    to : str or path-like
        Where to write, as `open_sink` takes it: .npy, .csv, .csv.gz, .parquet, .zarr, .h5. The file
        has this name only once it is complete.
    columns_out : sequence of str, default=None
        Names of the columns that are written. By default the estimator's own
        (`get_feature_names_out`) for `transform`, the input's for a result of as many columns, the
        name of the function for a result of one number a row, else y0, y1, ...
    force : bool, default=False
        Whether a file of that name may be replaced.

    Returns
    -------
    path : Path
        What was written.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from eigengap import PPCA
    >>> from eigengap.sources.streaming import stream
    >>> folder = tempfile.TemporaryDirectory()
    >>> table, scores = Path(folder.name) / "table.npy", Path(folder.name) / "scores.npy"
    >>> X = np.random.default_rng(0).normal(size=(500, 4)) * [3.0, 2.0, 1.0, 1.0]
    >>> np.save(table, X)
    >>> model = PPCA(2).fit(X)
    >>> stream(model.transform, table, scores).name
    'scores.npy'
    >>> np.allclose(np.load(scores), model.transform(X))
    True
    >>> folder.cleanup()
    """
    _require_function(function, X)
    own = function
    while isinstance(own, partial):
        own = own.func
    _refuse_fitting(own)
    schema = _schema_of(own)
    if schema is not None and not isinstance(X, Source):
        return _stream_frames(function, own, schema, X, to, columns_out, force)
    source = X if isinstance(X, Source) else as_source(X)
    if getattr(source, "weight", None) is not None or source.has_cell_sd:
        raise ValueError(
            "X comes with sample_weight or cell_sd, which no function is given here, and a row of "
            "weight 0 would be missing in the file. Pass it without them"
        )
    warned: Warned = {}
    results = _results(partial(_result, function, source.names), source, warned)
    with open_sink(to, force=force) as sink, closing(results):
        for result in results:
            if sink.n_rows == 0:
                sink.name_columns(_names(own, result, source, columns_out))
            sink.append(result.columns())
    _reissue(warned)
    return sink.path


def _reissue(warned: Warned) -> None:
    for kind, (first, blocks) in warned.items():
        more = f" (the first of {blocks} blocks that say so)" if blocks > 1 else ""
        warn(first.message + more, kind)


def _schema_of(own: Callable[[Any], Any]) -> Schema | None:
    """What the columns of a fit hold, where a method of an estimator knows of more than numbers."""
    owner: Any = getattr(own, "__self__", None)
    for one in (owner, getattr(owner, "estimator_", None)):
        table = getattr(one, "table_", None)
        if table is not None:
            schema: Schema = table.schema
            return schema
    return None


def _stream_frames(
    function: Callable[[Any], Any],
    own: Callable[[Any], Any],
    schema: Schema,
    X: Any,
    to: Any,
    columns_out: Sequence[str] | None,
    force: bool,
) -> Path:
    """`stream` of a method that takes frames as they are, with text in them."""
    table = open_table(X, missing_values=[*schema.missing, *schema.missing_texts])
    warned: Warned = {}
    types: list[Any] | None = None
    with open_sink(to, force=force) as sink:
        for frame in table.frames(schema):
            found = _captured(function, frame, warned)
            parts = found if isinstance(found, tuple) else (found,)
            if library_of(parts[0]) is None:
                result = _result_of(found, len(frame), sink.n_rows)
                if sink.n_rows == 0:
                    sink.name_columns(_names(own, result, table, columns_out))
                sink.append(result.columns())
                continue
            tables = [_to_arrow(part) for part in parts]
            if types is None:
                types = [kind for one in tables for kind in _types_of(one, schema)]
                names = [*tables[0].column_names]
                names += [name + SD for one in tables[1:] for name in one.column_names]
                sink.name_columns(names if columns_out is None else list(columns_out))
            sink.append_table(_joined(tables, sink.names, types))
    _reissue(warned)
    return sink.path


def _to_arrow(frame: Any) -> Any:
    """A frame of any library as a table of pyarrow."""
    import pyarrow as pa

    if hasattr(frame, "iloc"):
        return pa.Table.from_pandas(frame, preserve_index=False)
    return frame.to_arrow() if hasattr(frame, "to_arrow") else frame


def _types_of(table: Any, schema: Schema) -> list[Any]:
    """Types that all blocks of a result can have: numbers in floating point, levels as text."""
    import pyarrow as pa

    of_own = {"numbers": pa.float64(), "truth": pa.bool_()}
    is_like = table.num_columns == len(schema.columns)
    types = []
    for j, kind in enumerate(table.schema.types):
        if pa.types.is_dictionary(kind):
            kind = kind.value_type
        if is_like and not pa.types.is_floating(kind):
            own = schema.columns[j]
            kind = of_own.get(own.holds, kind)
            if own.levels and all(isinstance(level, str) for level in own.levels):
                kind = pa.string()
        types.append(pa.string() if pa.types.is_null(kind) else kind)
    return types


def _joined(tables: Sequence[Any], names: Sequence[str] | None, types: Sequence[Any]) -> Any:
    """Tables side by side, in columns of these types."""
    import pyarrow as pa

    columns = [column for table in tables for column in table.columns]
    cast = [column.cast(kind) for column, kind in zip(columns, types, strict=True)]
    return pa.Table.from_arrays(cast, names=list(names or ()))


def _require_function(function: Any, X: Any) -> None:
    """Refuse arguments in another order, or a model in place of its method."""
    if callable(function) and not callable(X):
        return
    way = "stream(model.transform, X, to) takes a function first, then the table, then the file"
    if callable(X):
        raise TypeError(f"X is a function, {quote(_name(X))}: {way}")
    what = f"function is {type(function).__name__} and cannot be called"
    if hasattr(function, "fit"):
        what += "; name one of its methods"
    raise TypeError(f"{what}: {way}")


def _name(function: Any) -> str:
    return getattr(function, "__name__", type(function).__name__)


def _refuse_fitting(method: Callable[[Any], Any]) -> None:
    """Every block would get a fit of its own."""
    name = getattr(method, "__name__", "")
    if hasattr(method, "__self__") and (name.startswith("fit") or name == "partial_fit"):
        other = name.removeprefix("fit_") if name.startswith("fit_") else "transform"
        raise ValueError(
            f"{name} would fit every block by itself. Fit first, to the whole table: "
            f"model.fit(X), then stream(model.{other}, X, ...)"
        )


@dataclass(frozen=True, eq=False)
class _Result:
    """What the method returns for a block of rows."""

    values: NDArray[Any]  # (c, k)
    sd: NDArray[Any] | None  # (c, k)
    names: tuple[str, ...] | None  # of the frame that it returned
    is_flat: bool  # it returned one number a row

    def columns(self) -> NDArray[Any]:
        return self.values if self.sd is None else np.hstack([self.values, self.sd])


def _result(method: Callable[[Any], Any], names: tuple[str, ...] | None, block: Block) -> _Result:
    """The method, given a block as the kind of table that it was fitted to."""
    return _result_of(method(_table(block.values, names)), block.n_rows, block.start)


def _result_of(found: Any, n: int, start: int) -> _Result:
    """What a method has returned for n rows."""
    first, second = found if isinstance(found, tuple) and len(found) == 2 else (found, None)
    values, own, is_flat = _numbers(first)
    sd = None if second is None else _numbers(second)[0]
    for part in (values,) if sd is None else (values, sd):
        if len(part) != n:
            raise ValueError(
                f"the method returned {len(part)} rows for the {n} rows from {start} on; it must "
                "return one for each"
            )
    return _Result(values, sd, own, is_flat)


def _boxed(method: Callable[[Block], _Result], block: Block) -> NDArray[Any]:
    """The result in an array of one object: arrays are what workers send."""
    box = np.empty(1, dtype=object)
    box[0] = method(block)
    return box


def _results(
    method: Callable[[Block], _Result], source: Source, warned: Warned
) -> Generator[_Result]:
    """The results of all blocks, in order."""
    if hasattr(source, "pieces"):  # where blocks are computed elsewhere
        for boxes in source.pieces(partial(_boxed, method)):
            yield from boxes
        return
    source.passes += 1
    for block in source._blocks():  # type: ignore[attr-defined]
        yield _captured(method, block, warned)


def _captured(method: Callable[[Any], Any], rows: Any, warned: Warned) -> Any:
    """The result for some rows; what it warned of is counted."""
    with captured() as caught:
        result = method(rows)
    for kind, first in {one.category: one for one in reversed(caught)}.items():
        earliest, blocks = warned.get(kind, (first, 0))
        warned[kind] = earliest, blocks + 1
    return result


def _numbers(table: Any) -> tuple[NDArray[Any], tuple[str, ...] | None, bool]:
    """Values (c, k), names if there are any, and whether there was one number a row."""
    if library_of(table) is not None and getattr(table, "ndim", 2) == 2:
        return *frame_to_float(table), False
    values = table.toarray() if hasattr(table, "toarray") else np.asarray(table)
    is_flat = values.ndim == 1
    return dense_to_float(values[:, None] if is_flat else values), None, is_flat


def _names(
    method: Callable[[Any], Any],
    result: _Result,
    source: Source | MixedTable,
    given: Sequence[str] | None,
) -> list[str]:
    k = result.values.shape[1]
    if given is not None and len(given) not in (k, result.columns().shape[1]):
        raise ValueError(f"columns_out has {len(given)} names, and there are {k} columns")
    names = _own_names(method, result, source) if given is None else list(given)
    return names if result.sd is None or len(names) > k else names + [name + SD for name in names]


def _own_names(
    method: Callable[[Any], Any], result: _Result, source: Source | MixedTable
) -> list[str]:
    k = result.values.shape[1]
    if result.names is not None:
        return list(result.names)
    owner: Any = getattr(method, "__self__", None)
    name = getattr(method, "__name__", "y")
    if name == "transform" and hasattr(owner, "get_feature_names_out"):
        found = [str(one) for one in owner.get_feature_names_out()]
        if len(found) == k:
            return found
    if result.is_flat:
        return [name if name.isidentifier() else "y"]
    if source.names is not None and k == len(source.names):
        return list(source.names)
    return [f"y{j}" for j in range(k)]


def _table(values: Any, names: tuple[str, ...] | None) -> Any:
    """A block as a frame, where it has names and a frame library is there; else as it is."""
    library = None if names is None else _frame_library()
    if library is None or names is None:
        return values
    if library == "pandas":
        return import_module(library).DataFrame(values, columns=list(names), copy=False)
    return import_module(library).DataFrame(values, schema=list(names), orient="row")


@cache
def _frame_library() -> str | None:
    """pandas, which wraps a block without copying it, else polars."""
    return next((name for name in ("pandas", "polars") if find_spec(name) is not None), None)
