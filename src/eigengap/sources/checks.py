"""What every table in memory must pass: shape, finiteness, weights, chosen columns, codes for NaN.

The phrases about shape are scikit-learn's, because its estimator checks look for them.
"""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from difflib import get_close_matches
from math import isfinite, isnan
from numbers import Real
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from eigengap.exceptions import DataError, InfiniteCellError, RoundedWarning
from eigengap.linalg import Array
from eigengap.runtime.warnings import warn
from eigengap.sources.wording import column, quote, show
from eigengap.wording import words

CHUNK = 1 << 20  # bytes processed together, so that temporaries stay in cache
RESHAPE = (
    "Reshape your data either using array.reshape(-1, 1) if your data has a single feature or "
    "array.reshape(1, -1) if it contains a single sample."
)


EXACT = 2.0**53  # float64 represents every integer below this
LIMIT = 2.0**63  # of int64: more often a code for missing values than a number


def check_two_dimensional(X: NDArray[Any]) -> None:
    if X.ndim == 2:
        return
    if X.ndim > 2:
        raise ValueError(f"Found array with dim {X.ndim}, while dim <= 2 is required.")
    got = "scalar" if X.ndim == 0 else "1D"
    raise ValueError(f"Expected 2D array, got {got} array instead:\narray={X}.\n{RESHAPE}")


def check_not_empty(shape: tuple[int, ...]) -> None:
    for count, what in zip(shape, ("sample", "feature"), strict=True):
        if count == 0:
            python = f"Found array with 0 {what}(s) (shape={tuple(shape)}) while a minimum of 1 is "
            terminal = f"the table has no {'rows' if what == 'sample' else 'columns'}"
            raise DataError(words().either(f"{python}required.", terminal))


def count_missing(X: NDArray[Any], names: Sequence[str] | None, first: int | None = None) -> int:
    """Number of NaN cells in X (n, d), a whole table or its rows from `first` on.

    Infinity is an error. A finite sum proves that every cell is finite, and costs one read; cells
    are inspected one by one only where the sum is not finite.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        total = float(np.add.reduce(X, axis=None))
    if isfinite(total):
        return 0
    missing = infinite = 0
    for chunk in _in_memory_order(X):
        not_finite = chunk.size - int(np.count_nonzero(np.isfinite(chunk)))
        if not_finite:
            infinities = int(np.count_nonzero(np.isinf(chunk)))
            missing += not_finite - infinities
            infinite += infinities
    if infinite:
        _raise_infinite(X, names, infinite, first)
    return missing


def is_long(dtype: Any) -> bool:
    """Whether a NumPy type holds whole numbers that float64 does not."""
    return bool(dtype.kind in "iu" and dtype.itemsize > 4)


def warn_of_rounded(
    values: NDArray[Any], long: Any, names: Sequence[str] | None, first: int = 0
) -> bool:
    """Warn of integers in float64 values (n, d) that may be rounded; whether there were any.

    `long`, a truth value or (d,), says which columns were stored as 64-bit integers.
    """
    if not np.any(long) or values.size == 0:
        return False
    part = np.where(long, values, 0.0) if np.ndim(long) and not np.all(long) else values
    if max(float(np.fmax.reduce(part, axis=None)), -float(np.fmin.reduce(part, axis=None))) < EXACT:
        return False
    with np.errstate(invalid="ignore"):
        size = np.abs(part)
        beyond = np.argwhere((size >= EXACT) & (size != LIMIT))
    if len(beyond) == 0:
        return False
    row, j = (int(k) for k in beyond[0])
    warn_rounded(column(names, j), f"{values[row, j]:.17g}", first + row)
    return True


def warn_rounded(label: str, value: str, row: int | None = None) -> None:
    """Warn of one integer that is rounded."""
    where = "" if row is None else f" (at row {words().number(row)}, {value})"
    warn(
        f"column {label} holds whole numbers beyond 2^53{where or f', e.g. {value}'}: float64 has "
        "not all of them, and the others are rounded. Subtract a constant from the column first, "
        "or leave it out if its numbers are names",
        RoundedWarning,
    )


def check_sparse_finite(X: Any) -> None:
    """Refuse a CSR X (n, d) with infinite or missing values: sparse tables have none."""
    bad = np.flatnonzero(~np.isfinite(X.data))
    if not len(bad):
        return
    infinite = bad[np.isinf(X.data[bad])]
    at = int(infinite[0] if len(infinite) else bad[0])
    row, j = int(np.searchsorted(X.indptr, at, side="right")) - 1, int(X.indices[at])
    if len(infinite):
        raise _infinite(float(X.data[at]), row, j, None, len(infinite))
    raise DataError(
        f"NaN at row {row}, column {j}: sparse input has no missing values; densify it with "
        "X.toarray() to have NaN treated as missing",
        row=row,
        column=j,
    )


def missing_codes(missing_values: Any) -> tuple[float, ...]:
    """The numbers, other than NaN, that stand for a missing cell."""
    given = missing_values if isinstance(missing_values, list | tuple | set) else [missing_values]
    if isinstance(missing_values, np.ndarray):
        given = missing_values.ravel().tolist()
    codes = []
    for code in given:
        if code is None or type(code).__name__ == "NAType":
            continue
        if not isinstance(code, Real) or isinstance(code, bool):
            raise ValueError(
                f"missing_values must be NaN, a number or a list of numbers, got {show(code)}"
            )
        if not isnan(code):
            codes.append(float(code))
    return tuple(codes)


def with_missing_for(X: NDArray[Any], codes: tuple[float, ...]) -> NDArray[Any]:
    """X with cells that equal a code replaced by NaN, on a copy; X itself where none does."""
    with np.errstate(over="ignore"):
        cast = [(code, X.dtype.type(code)) for code in codes]
    # A code beyond the range of float32 becomes infinity there, and equals no cell.
    kept = np.array([low for code, low in cast if np.isinf(low) == np.isinf(code)], dtype=X.dtype)
    out = X
    step = max(1, CHUNK // max(1, X.shape[1] * X.itemsize))
    for start in range(0, X.shape[0], step):
        rows = slice(start, start + step)
        hits = np.isin(X[rows], kept)
        if hits.any():
            out = X.copy(order="K") if out is X else out
            out[rows][hits] = np.nan
    return out


def as_weight(sample_weight: Any, n: int) -> Array | None:
    """Row weights (n,), float64, a copy; None where every row counts once.

    A copy, because fitted models and streams keep weights, and the caller may change the array.
    """
    if sample_weight is None:
        return None
    if isinstance(sample_weight, Real):
        sample_weight = np.full(n, float(sample_weight))
    weight = np.array(np.asarray(sample_weight), dtype=np.float64)
    if weight.ndim != 1:
        raise ValueError(
            f"Sample weights must be 1D array or scalar, got {weight.ndim}D array of shape "
            f"{weight.shape}; expected shape ({n},)"
        )
    if len(weight) != n:
        raise DataError(f"sample_weight has {len(weight)} entries but X has {n} rows")
    with np.errstate(over="ignore", invalid="ignore"):
        total = float(np.sum(weight))
    if not (isfinite(total) and weight.min() >= 0):
        _raise_bad_weight(weight)
    if not weight.any():
        raise DataError("sample_weight is zero in every row: no row is left to learn from")
    return weight


def resolve_columns(columns: Any, names: Sequence[Any] | None, d: int) -> list[int]:
    """Positions of the chosen columns: strings are names, integers are positions."""
    chosen = [columns] if isinstance(columns, str) else list(columns)
    if chosen and all(isinstance(c, bool | np.bool_) for c in chosen):
        if len(chosen) != d:
            raise DataError(
                f"{_columns()} has {len(chosen)} truth values but {words().X} has {d} columns"
            )
        return [int(j) for j in np.flatnonzero(chosen)]
    places: dict[Any, list[int]] = {}
    for j, name in enumerate(names or ()):
        places.setdefault(name, []).append(j)
    found = [_position(c, names, places, d) for c in chosen]
    twice = next((j for j, count in Counter(found).items() if count > 1), None)
    if twice is not None:
        label = names[twice] if names is not None else twice
        raise DataError(f"{_columns()} chooses {show(label)} more than once", value=label)
    return found


def _position(
    choice: Any, names: Sequence[Any] | None, places: dict[Any, list[int]], d: int
) -> int:
    if isinstance(choice, int | np.integer):
        j = operator.index(choice)
        if not -d <= j < d:
            raise DataError(
                f"{_columns()} chooses position {j} but {words().X} has {d} columns", value=j
            )
        return j % d
    if names is None:
        raise DataError(
            f"{_columns()} chooses {show(choice)} but {words().X} has no column names; use integer "
            "positions",
            value=choice,
        )
    matches = places.get(choice, []) if isinstance(choice, Hashable) else []
    if len(matches) > 1:
        raise DataError(
            f"{_columns()} chooses {show(choice)}, which names {len(matches)} columns (positions "
            f"{', '.join(map(str, matches))}); use positions",
            value=choice,
        )
    if not matches:
        _raise_unknown(choice, names)
    return matches[0]


def _raise_unknown(choice: Any, names: Sequence[Any]) -> NoReturn:
    strings = [name for name in names if isinstance(name, str)]
    close = get_close_matches(str(choice), strings, n=3, cutoff=0.6)
    hint = (
        f"did you mean {' or '.join(map(quote, close))}?"
        if close
        else f"the columns are {', '.join(map(show, names[:10]))}{', ...' * (len(names) > 10)}"
    )
    raise DataError(f"{words().X} has no column {show(choice)}; {hint}", value=choice)


def _columns() -> str:
    return words().parameter("columns")


def _in_memory_order(X: NDArray[Any]) -> Iterator[NDArray[Any]]:
    """Pieces of X along its slower axis."""
    slow_first = X if abs(X.strides[0]) >= abs(X.strides[1]) else X.T
    step = max(1, CHUNK // max(1, slow_first.shape[1] * X.itemsize))
    for start in range(0, slow_first.shape[0], step):
        yield slow_first[start : start + step]


def _raise_infinite(
    X: NDArray[Any], names: Sequence[str] | None, count: int, first: int | None
) -> NoReturn:
    step = max(1, CHUNK // max(1, X.shape[1] * X.itemsize))
    for start in range(0, X.shape[0], step):
        cells = np.argwhere(np.isinf(X[start : start + step]))
        if len(cells):
            row, j = start + int(cells[0, 0]), int(cells[0, 1])
            least = "at least " if first is not None else ""  # other rows were not read yet
            raise _infinite(float(X[row, j]), row + (first or 0), j, names, count, least)
    raise AssertionError("counted infinite cells but found none")


def _infinite(
    value: float, row: int, j: int, names: Sequence[str] | None, count: int, least: str = ""
) -> InfiniteCellError:
    more = f" (and {least}{count - 1} more cell{'s' if count > 2 else ''})" if count > 1 else ""
    return InfiniteCellError(
        f"{words().table} contains infinity: {value} at row {words().number(row)}, column "
        f"{column(names, j)}{more}. "
        + words().either(
            "Set such cells to NaN to have them treated as missing", "Leave such cells empty"
        )
        + ", or correct them",
        row=row,
        column=j,
        name=None if names is None else names[j],
        value=value,
    )


def _raise_bad_weight(weight: Array) -> NoReturn:
    bad = np.flatnonzero(~(np.isfinite(weight) & (weight >= 0)))
    if not len(bad):
        raise DataError("the sum of sample_weight is too large for float64; rescale the weights")
    row = int(bad[0])
    more = f" (and {len(bad) - 1} more)" if len(bad) > 1 else ""
    raise DataError(
        f"sample_weight must be finite and not negative: {float(weight[row])} at row {row}{more}",
        row=row,
        value=float(weight[row]),
    )
