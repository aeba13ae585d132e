"""Data frames: pandas, polars, pyarrow and whatever else narwhals reads, in and out.

Imputed tables come back in the column types of the frame that they came from.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from eigengap.linalg import Array
from eigengap.sources.array import F4, F8, FRAMES, dense_to_float, library_of
from eigengap.sources.cells import MIXED, WRITTEN, Refused, describe_text, objects_to_float, refusal
from eigengap.sources.checks import EXACT, is_long_type, resolve_columns, warn_of_rounded
from eigengap.sources.files.columns import decimals_to_float
from eigengap.sources.wording import column, show

if TYPE_CHECKING:
    import narwhals as nw

TO_MISSING = {  # how a column {0} loses the text {1}
    "pandas": "X[{0}].mask(X[{0}] == {1})",
    "polars": "polars.when(polars.col({0}) != {1}).then(polars.col({0}))",
}
TO_NUMERIC = {
    "pandas": {
        WRITTEN: "pandas.to_numeric(X[{}])",
        MIXED: 'pandas.to_numeric(X[{}], errors="coerce")',
    },
    "polars": {
        WRITTEN: "X.with_columns(polars.col({}).cast(polars.Float64))",
        MIXED: "X.with_columns(polars.col({}).cast(polars.Float64, strict=False))",
    },
    "pyarrow": {WRITTEN: 'pyarrow.compute.cast(X[{}], "float64")'},
}
WIDE = 2.0**31 - 1  # whole numbers up to which a type has to hold what may be drawn


def labels_of(X: Any) -> list[Any]:
    """What an eager frame calls its columns."""
    return list(X.column_names if hasattr(X, "column_names") else X.columns)


def selected(X: Any, names: Iterable[Any]) -> Any:
    """Some columns of an eager frame."""
    return X.select(list(names)) if library_of(X) == "pyarrow" else X[list(names)]


def frame_to_float(X: Any, columns: Any = None) -> tuple[NDArray[Any], tuple[str, ...] | None]:
    """Values (n, d) of a frame, null as NaN, and its column names.

    float32 where every column is, else float64; without a copy where the library allows. Names are
    None unless all are strings, as in scikit-learn.
    """
    X = eager_frame(X)
    labels = labels_of(X)
    if columns is not None:
        positions = resolve_columns(columns, labels, len(labels))
        if hasattr(X, "iloc"):
            X = X.iloc[:, positions]
        else:
            X = X[:, positions] if hasattr(X, "to_series") else X.select(positions)
        labels = [labels[j] for j in positions]
    names = tuple(map(str, labels)) if all(isinstance(s, str) for s in labels) else None
    values = _homogeneous(X)
    if values is None:
        values = _by_column(X, names, len(labels))
    warn_of_rounded(values, long_columns(X), names)
    return values, names or None


def long_columns(X: Any) -> NDArray[np.bool_]:
    """(d,) which columns of a frame are stored as whole numbers that float64 does not have."""
    types = X.schema.types if library_of(X) == "pyarrow" else X.dtypes
    return np.array([is_long_type(str(t)) for t in types], bool)


def series_to_float(series: Any) -> Array:
    """A frame library's column (n,) as float64, null as NaN."""
    import narwhals as nw

    if not isinstance(nw.from_native(series, pass_through=True, allow_series=True), nw.Series):
        return np.asarray(series, dtype=np.float64)
    found = _column_to_float(nw.from_native(series, series_only=True), "of sample_weight")
    if isinstance(found, Refused):
        raise ValueError(f"sample_weight is not numeric: {found.kind}, e.g. {found.example}")
    return np.asarray(found, dtype=np.float64)


def like(X: Any, values: NDArray[Any], columns: Any = None) -> Any:
    """Values (n, d) as the type of X: a frame for a frame, an ndarray for all else.

    `columns` names them: strings are names, integers are positions in X; default: the columns of X.
    A pandas frame keeps its index.
    """
    library = library_of(X)
    if library is None:
        return values
    X = eager_frame(X)
    if len(X) != len(values):
        raise ValueError(f"values have {len(values)} rows but the frame has {len(X)}")
    labels = _output_labels(X, columns)
    if len(labels) != values.shape[1]:
        raise ValueError(f"{len(labels)} column names for {values.shape[1]} columns of values")
    if hasattr(X, "iloc"):
        # The plain frame class of the library: a subclass may demand more than values.
        plain = (
            base
            for base in type(X).__mro__
            if base.__name__ == "DataFrame" and base.__module__.partition(".")[0] in FRAMES
        )
        return next(plain, type(X))(values, index=X.index, columns=labels)
    contiguous = list(map(np.ascontiguousarray, values.T))
    if library == "pyarrow":
        return type(X).from_arrays(contiguous, labels)
    return type(X)(dict(zip(labels, contiguous, strict=True)))


def eager_frame(X: Any) -> Any:
    """The frame itself, unwrapped; what is not a table in memory is refused."""
    import narwhals as nw

    X = nw.to_native(X, pass_through=True)
    if type(X).__name__ == "RecordBatch":
        import pyarrow

        return pyarrow.Table.from_batches([X])
    if hasattr(X, "iloc") and hasattr(X, "columns"):  # narwhals refuses names that occur twice
        return X
    if library_of(X) == "pyarrow" and hasattr(X, "column_names"):
        return X
    wrapped = nw.from_native(X, pass_through=True, allow_series=True)
    if isinstance(wrapped, nw.DataFrame):
        return X
    if isinstance(wrapped, nw.LazyFrame):
        raise ValueError(f"Input X is lazy ({type(X)}); collect it first, e.g. X.collect()")
    raise ValueError(
        f"Expected a 2-dimensional container but got {type(X)} instead. Pass a DataFrame "
        "containing a single row (i.e. single sample) or a single column (i.e. single feature) "
        "instead."
    )


def native_column(X: Any, j: int) -> Any:
    """Column j by position, for names may occur twice."""
    if hasattr(X, "iloc"):
        return X.iloc[:, j]
    return X.to_series(j) if hasattr(X, "to_series") else X.column(j)


def _homogeneous(X: Any) -> NDArray[Any] | None:
    """The values where one call of the library gives them as they are meant, else None."""
    if hasattr(X, "iloc"):
        dtypes = set(X.dtypes)
        if not dtypes or not all(isinstance(t, np.dtype) and t.kind in "fiub" for t in dtypes):
            return None
        target = F4 if dtypes == {F4} else F8
        return dense_to_float(np.asarray(X.to_numpy(dtype=target)))
    if hasattr(X, "to_series") and {str(t) for t in X.dtypes} in ({"Float64"}, {"Float32"}):
        return np.asarray(X.to_numpy())
    return None


def _by_column(X: Any, names: Sequence[str] | None, d: int) -> NDArray[Any]:
    import narwhals as nw

    found: list[NDArray[Any] | Refused] = []
    for j in range(d):
        native = native_column(X, j)
        if library_of(native) == "pyarrow" and str(native.type).startswith("decimal"):
            found.append(decimals_to_float(native))  # narwhals knows no negative scale
            continue
        found.append(_column_to_float(nw.from_native(native, series_only=True), column(names, j)))
    floats = {j: c for j, c in enumerate(found) if not isinstance(c, Refused)}
    refused = [c for c in found if isinstance(c, Refused)]
    if refused:
        numeric = [column(names, j) for j in floats]
        raise refusal(refused, numeric, TO_NUMERIC.get(library_of(X) or "", {}))
    single = all(c.dtype == F4 for c in floats.values()) and d > 0
    # Column-major: each column is copied in one piece.
    values = np.empty((len(X), d), dtype=F4 if single else F8, order="F")
    for j, c in floats.items():
        values[:, j] = c
    return values


def _column_to_float(s: nw.Series[Any], label: str) -> NDArray[Any] | Refused:
    """One column (n,) as float, null as NaN; or what it holds instead."""
    import narwhals as nw

    if is_extension(s.to_native()):
        return replace(_refused(s, label), kind="extension type")
    if s.dtype == nw.Float32:
        return np.asarray(s.to_numpy(), dtype=F4)
    if s.dtype.is_integer() and (whole := _arrow_integers(s.to_native())) is not None:
        return whole
    if s.dtype == nw.Decimal:  # the casts of the libraries do not all round to the nearest float64
        try:
            return decimals_to_float(s.to_arrow())
        except ImportError:  # polars alone
            return np.array([np.nan if x is None else float(x) for x in s.to_list()], dtype=F8)
    if s.dtype.is_numeric() or s.dtype == nw.Boolean:
        return np.asarray(s.cast(nw.Float64).to_numpy(), dtype=F8)
    if s.dtype == nw.String:
        null = s.is_null().to_numpy()
        texts = [None if is_null else text for text, is_null in zip(s.to_list(), null, strict=True)]
        return describe_text(texts, label) or np.full(len(s), np.nan)
    if s.dtype in (nw.Object, nw.Unknown):
        cells = s.to_numpy()
        if cells.dtype.kind == "c":
            raise ValueError(f"Complex data not supported: column {label}")
        if cells.dtype.kind in "fiub":
            return np.asarray(cells, dtype=F8)
        return objects_to_float(cells.astype(object), label)
    return _refused(s, label)


def _refused(s: nw.Series[Any], label: str) -> Refused:
    observed = np.flatnonzero(~np.asarray(s.is_null().to_numpy(), dtype=bool))
    if not len(observed):
        return Refused(label, kind_of_type(s.dtype), "null", 0)
    row = int(observed[0])
    return Refused(label, kind_of_type(s.dtype), show(s[row : row + 1].to_list()[0]), row)


def is_extension(native: Any) -> bool:
    """Whether the type of a column of Arrow or polars is an added one: of periods, for instance.

    What its storage holds, numbers of days since 1970, is not what the column means.
    """
    return is_extension_type(native.type if library_of(native) == "pyarrow" else native.dtype)


def is_extension_type(own: Any) -> bool:
    """`is_extension` of a column of this type."""
    kind = getattr(own, "pyarrow_dtype", own)
    bases = {base.__name__ for base in type(kind).__mro__}
    return hasattr(kind, "extension_name") or "BaseExtension" in bases


def _arrow_integers(native: Any) -> Array | None:
    """Integers that Arrow holds, null as NaN; its own cast refuses those that float64 rounds."""
    if library_of(native) == "pyarrow":
        return np.asarray(native.cast("float64", safe=False).to_numpy(), dtype=F8)
    if "pyarrow" in str(getattr(native, "dtype", "")):
        return np.asarray(native.to_numpy(dtype=F8, na_value=np.nan))
    return None


def kind_of_type(dtype: Any) -> str:
    """What a column of this type of narwhals holds, for messages."""
    import narwhals as nw

    if dtype in (nw.Categorical, nw.Enum):
        return "categorical"
    if dtype in (nw.Date, nw.Datetime, nw.Duration, nw.Time):
        return "date or time"
    return "bytes" if dtype == nw.Binary else str(dtype)


def _output_labels(X: Any, columns: Any) -> Any:
    labels = X.column_names if hasattr(X, "column_names") else X.columns
    if columns is None:
        return labels
    chosen = [columns] if isinstance(columns, str) else list(columns)
    if all(isinstance(c, int | np.integer) for c in chosen):
        positions = resolve_columns(chosen, list(labels), len(labels))
        return labels[positions] if hasattr(X, "iloc") else [labels[j] for j in positions]
    return chosen


def new_frame(columns: Mapping[str, Any], library: str | None = None) -> Any:
    """The columns, name -> values of equal length, as a frame, of that library if it can be.

    Raises
    ------
    ImportError
        Where neither pandas nor polars is installed.
    """
    if library == "pyarrow":
        return import_module(library).table(dict(columns))
    for each in ("polars", "pandas") if library == "polars" else ("pandas", "polars"):
        if find_spec(each) is not None:
            return import_module(each).DataFrame(dict(columns))
    raise ImportError(
        "a frame needs pandas or polars, and neither is installed: pip install pandas; "
        "the numbers are attributes of this object without it"
    )


def typed_like(X: Any, values: NDArray[Any], imputed: NDArray[np.bool_]) -> Any:
    """Values (n, d) as the type of X, each column in its own type where that can hold them.

    `imputed` (n, d) marks missing values of X; a column without any is X's own. An integer or
    boolean column becomes floating-point where imputed values are not integers.
    """
    if library_of(X) is None:
        return values
    X, frame = eager_frame(X), like(X, values)
    for j in range(values.shape[1]):
        column = _own_type(native_column(X, j), values[:, j], imputed[:, j])
        if column is None:
            continue
        if hasattr(frame, "isetitem"):
            frame.isetitem(j, column.array)
        elif hasattr(frame, "replace_column"):
            frame = frame.replace_column(j, column.rename(frame.columns[j]))
        else:
            frame = frame.set_column(j, frame.column_names[j], column)
    return frame


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
    d = len(labels_of(X))
    columns = [nw.from_native(native_column(X, j), series_only=True) for j in range(d)]
    return np.array([bool(holds(column.dtype, nw)) for column in columns])


def _own_type(native: Any, values: NDArray[Any], imputed: NDArray[np.bool_]) -> Any:
    """The column in its own type, None where floating-point must do."""
    import narwhals as nw

    column = nw.from_native(native, series_only=True)
    dtype = column.dtype
    if not imputed.any():
        return native if dtype.is_numeric() or dtype == nw.Boolean else None
    if not holds_whole(dtype, values[imputed]):
        return None
    if dtype.is_float():
        cells = values.tolist()
    else:  # observed values as in the column: float64 does not represent every integer
        cells = list(column.to_list())
        for i in np.flatnonzero(imputed):
            cells[i] = bool(values[i]) if dtype == nw.Boolean else int(values[i])
    if hasattr(native, "iloc"):
        return type(native)(cells, index=native.index, dtype=native.dtype)
    made = nw.new_series(column.name or "", cells, dtype=dtype, backend=column.implementation)
    return made.to_native()


def made_floating(X: Any, held: Mapping[int, Array | None]) -> Any:
    """The frame X, columns of whole numbers in floating point unless their types hold these.

    `held` are the values to hold by column, None for fractions; beyond the range of 32 bits
    there are few, so that wider types are taken to hold all.
    """
    import narwhals as nw

    for j, values in held.items():
        series = nw.from_native(native_column(X, j), series_only=True)
        if not series.dtype.is_integer():
            continue
        if values is not None and holds_whole(series.dtype, np.clip(values, -WIDE, WIDE)):
            continue
        floats = np.asarray(_column_to_float(series, ""))
        if hasattr(X, "iloc"):
            X = X.copy(deep=False)
            X.isetitem(j, floats)
            continue
        made = nw.new_series("", floats, nw.Float64, backend=series.implementation)
        if library_of(X) == "pyarrow":
            X = X.set_column(j, X.column_names[j], made.to_native())
        else:
            X = X.clone().replace_column(j, made.to_native().rename(X.columns[j]))
    return X


def holds_whole(dtype: Any, values: NDArray[Any]) -> bool:
    """Whether a type of narwhals can hold numbers; whole ones only if all are."""
    import narwhals as nw

    if dtype.is_float():
        return True
    if dtype == nw.Boolean:
        return bool(np.all((values == 0) | (values == 1)))
    if not dtype.is_integer():
        return False
    if not (np.all(values == np.round(values)) and np.all(np.abs(values) < EXACT)):
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

    library = nw.get_native_namespace(frame)
    made = [nw.new_series(name, cells, backend=library) for name, cells in new.items()]
    return frame.with_columns([column.to_native() for column in made])


def made_missing(X: Any, missing: NDArray[np.bool_]) -> Any:
    """X, a frame or an array, with some of its cells (n, d) missing."""
    if library_of(X) is None:
        table = np.array(X)
        if table.dtype.kind not in "fO":
            table = table.astype(np.float64 if table.dtype.kind in "iub" else object)
        table[missing] = np.nan if table.dtype.kind == "f" else None
        return table
    X = eager_frame(X)
    if hasattr(X, "iloc"):
        return X.mask(missing)
    import narwhals as nw

    frame = nw.from_native(X, eager_only=True)
    names = frame.columns
    for name, hidden in zip(names, missing.T, strict=True):
        if hidden.any():
            flag = nw.new_series(f"{name} ", ~hidden, nw.Boolean, backend=frame.implementation)
            flagged = frame.with_columns(flag)
            frame = flagged.with_columns(nw.when(nw.col(f"{name} ")).then(nw.col(name)).alias(name))
            frame = frame.select(names)
    return frame.to_native()
