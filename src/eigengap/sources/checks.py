"""What every table must pass: shape, finiteness, weights, chosen columns, codes for missing values.

The phrases about shape are scikit-learn's, because its estimator checks look for them.

A number that looks like a code for missing values is a warning, and no change: -999 in a twentieth
of a column is more likely "not measured" than a measurement, and as a value it dominates every mean
and variance. A value is suspicious where it is the smallest or largest of its column, repeats, and
is far from all other values: by half of their range for a number that people use as a code, by many
times their range for any other.
"""

from __future__ import annotations

import operator
import re
from collections import Counter
from collections.abc import Collection, Hashable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import partial
from math import isfinite, isnan
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eigengap.exceptions import DataError, InfiniteCellError, RoundedWarning, SentinelWarning
from eigengap.linalg import Array
from eigengap.runtime.warnings import warn
from eigengap.sources.base import Block, Source
from eigengap.sources.wording import column, quote, show
from eigengap.wording import words

CHUNK = 1 << 20  # bytes processed together, so that temporaries stay in cache
RESHAPE = (
    "Reshape your data either using array.reshape(-1, 1) if your data has a single feature or "
    "array.reshape(1, -1) if it contains a single sample."
)
EXACT = 2.0**53  # float64 represents every integer below this
# Integers of 64 bits or more, and decimals without places after the point.
LONG_TYPES = re.compile(r"u?int(64|128)\b|decimal\d*\(\D*\d+, *\D*(0|-\d+)\)", re.I)
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
    slow_first = X if abs(X.strides[0]) >= abs(X.strides[1]) else X.T
    step = max(1, CHUNK // max(1, slow_first.shape[1] * X.itemsize))
    for start in range(0, len(slow_first), step):
        chunk = slow_first[start : start + step]
        not_finite = chunk.size - int(np.count_nonzero(np.isfinite(chunk)))
        if not_finite:
            infinities = int(np.count_nonzero(np.isinf(chunk)))
            missing += not_finite - infinities
            infinite += infinities
    if infinite:
        row, j = divmod(int(np.argmax(np.isinf(X))), X.shape[1])
        least = "at least " if first is not None else ""  # other rows were not read yet
        raise _infinite(float(X[row, j]), row + (first or 0), j, names, infinite, least)
    return missing


def is_long(dtype: Any) -> bool:
    """Whether a NumPy type holds whole numbers that float64 does not."""
    return bool(dtype.kind in "iu" and dtype.itemsize > 4)


def is_long_type(name: str) -> bool:
    """Whether a column type of Arrow, pandas or polars holds whole numbers that float64 does not.

    >>> [is_long_type(t) for t in ("int64", "Int64", "decimal128(20, 0)", "decimal128(20, 2)")]
    [True, True, True, False]
    """
    return LONG_TYPES.match(name) is not None


def warn_of_rounded(
    values: NDArray[Any], long: Any, names: Sequence[str] | None, first: int = 0
) -> bool:
    """Warn of integers in float64 values (n, d) that may be rounded; whether there were any.

    `long`, a truth value or (d,), marks the columns that were stored as such integers.
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
    bad = np.flatnonzero(~(np.isfinite(weight) & (weight >= 0)))
    if len(bad):
        row = int(bad[0])
        more = f" (and {len(bad) - 1} more)" if len(bad) > 1 else ""
        raise DataError(
            f"sample_weight must be finite and not negative: {float(weight[row])} at row {row}"
            f"{more}",
            row=row,
            value=float(weight[row]),
        )
    with np.errstate(over="ignore"):
        if not isfinite(float(np.sum(weight))):
            raise DataError(
                "the sum of sample_weight is too large for float64; rescale the weights"
            )
    if not weight.any():
        raise DataError("sample_weight is zero in every row: no row is left to learn from")
    return weight


def resolve_columns(columns: Any, names: Sequence[Any] | None, d: int) -> list[int]:
    """Positions of the chosen columns: strings are names, integers are positions."""
    chosen = [columns] if isinstance(columns, str) else list(columns)
    given = words().parameter("columns")
    if chosen and all(isinstance(c, bool | np.bool_) for c in chosen):
        if len(chosen) != d:
            raise DataError(
                f"{given} has {len(chosen)} truth values but {words().X} has {d} columns"
            )
        return [int(j) for j in np.flatnonzero(chosen)]
    places: dict[Any, list[int]] = {}
    for j, name in enumerate(names or ()):
        places.setdefault(name, []).append(j)
    found = [_position(c, names, places, d) for c in chosen]
    twice = next((j for j, count in Counter(found).items() if count > 1), None)
    if twice is not None:
        label = names[twice] if names is not None else twice
        raise DataError(f"{given} chooses {show(label)} more than once", value=label)
    return found


def _position(
    choice: Any, names: Sequence[Any] | None, places: dict[Any, list[int]], d: int
) -> int:
    chooses = f"{words().parameter('columns')} chooses"
    if isinstance(choice, int | np.integer):
        j = operator.index(choice)
        if not -d <= j < d:
            raise DataError(f"{chooses} position {j} but {words().X} has {d} columns", value=j)
        return j % d
    if names is None:
        raise DataError(
            f"{chooses} {show(choice)} but {words().X} has no column names; use integer positions",
            value=choice,
        )
    matches = places.get(choice, []) if isinstance(choice, Hashable) else []
    if len(matches) > 1:
        raise DataError(
            f"{chooses} {show(choice)}, which names {len(matches)} columns (positions "
            f"{', '.join(map(str, matches))}); use positions",
            value=choice,
        )
    if matches:
        return matches[0]
    strings = [name for name in names if isinstance(name, str)]
    close = get_close_matches(str(choice), strings, n=3, cutoff=0.6)
    hint = f"the columns are {', '.join(map(show, names[:10]))}{', ...' * (len(names) > 10)}"
    if close:
        hint = f"did you mean {' or '.join(map(quote, close))}?"
    raise DataError(f"{words().X} has no column {show(choice)}; {hint}", value=choice)


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


SAMPLE_ROWS = 1000  # a code in a hundredth of the rows is in them but for one chance in 20 000
SAMPLE_CELLS = 2_000_000  # fewer rows where there are many columns, but not fewer than:
LEAST_ROWS = 200
LEAST_COUNT, LEAST_SHARE = 3, 0.01
APART_AS_CODE, APART_OTHERWISE = 0.5, 10.0  # distance to the nearest other value, in their range
DISTINCT_AS_CODE, DISTINCT_OTHERWISE = 2, 10  # other values at least
MOST_NAMED = 5  # columns in one warning

# What files of many trades write for "missing", besides nines.
CODES = (-32768.0, 32767.0, -65536.0, 65535.0, -(2.0**31), 2.0**31 - 1, 1e20, -1e20, 1e30, -1e30)


def warn_of_codes(source: Source, among: Collection[int] | None = None) -> None:
    """Warn where a column seems to hold a code for missing: a look at a sample of the rows.

    Only a column that is suspicious there is looked at as a whole, in one pass. Nothing is changed.
    `among` are the columns that hold numbers, all by default.
    """
    if source.is_sparse:  # its edges are zeros
        return
    rows = max(min(SAMPLE_ROWS, SAMPLE_CELLS // source.n_features), LEAST_ROWS)
    sample = source.sample(min(rows, source.observed().rows), np.random.default_rng(0))
    suspects = _suspects(sample, source.dtype)
    if among is not None:
        suspects = tuple((j, code) for j, code in suspects if j in among)
    if not suspects:
        return
    edges = source.reduce(partial(_Edges.of, suspects=suspects))
    found = [
        (j, code, f"{count} of {observed} cells, apart from all others ({low:g} to {high:g})")
        for (j, code), count, observed, low, high in zip(
            suspects, edges.count, edges.observed, edges.low, edges.high, strict=True
        )
        if count >= max(LEAST_COUNT, LEAST_SHARE * observed)
        and _apart(code, low, high, DISTINCT_OTHERWISE)  # so many others were in the sample
    ]
    if not found:
        return
    columns = [
        f"column {column(source.names, j)} holds {code:g} in {where}"
        for j, code, where in found[:MOST_NAMED]
    ]
    more = f"; and {len(found) - MOST_NAMED} more columns" if len(found) > MOST_NAMED else ""
    codes = sorted({code for _, code, _ in found})
    digits = 7 if source.dtype == np.float32 else 15
    shown = words().missing_values([f"{code:.{digits}g}" for code in codes])
    it = "it marks" if len(codes) == 1 else "they mark"
    warn(
        f"{'; '.join(columns)}{more}. If {it} missing cells, pass {shown}; nothing was changed",
        SentinelWarning,
    )


def _suspects(X: Array, dtype: np.dtype[Any]) -> tuple[tuple[int, float], ...]:
    """(column, value) of edges of the sample X (k, d) that look like codes.

    A code is a round number, which almost no edge of a column of measurements is.
    """
    low, high = np.fmin.reduce(X, axis=0), np.fmax.reduce(X, axis=0)
    suspects = []
    for edge, at in ((low, 0), (high, -1)):
        with np.errstate(over="ignore"):  # numpy rounds by way of 100 times the number
            is_round = np.round(edge, 2).astype(dtype) == edge.astype(dtype)
        for j in np.flatnonzero(is_round & (edge != 0.0) & (low < high)):
            cells = X[:, j]
            values, counts = np.unique(cells[~np.isnan(cells)], return_counts=True)
            others = np.delete(values, at)
            often = counts[at] >= 2 or len(cells) < 2 / LEAST_SHARE
            if often and _apart(float(values[at]), others[0], others[-1], len(others)):
                suspects.append((int(j), float(values[at])))
    return tuple(suspects)


def is_code(value: float) -> bool:
    """Whether people write this number for "missing": -9, 99, -999, 99.99, 32767, 1e20, ..."""
    digits = f"{abs(value):.2f}".rstrip("0").replace(".", "")
    return value in CODES or (set(digits) == {"9"} and (len(digits) >= 2 or value == -9.0))


def _apart(value: float, low: float, high: float, distinct: int) -> bool:
    """Whether the value lies far enough from all others, which run from low to high."""
    distance = low - value if value < low else value - high
    if is_code(value):
        return distinct >= DISTINCT_AS_CODE and distance >= APART_AS_CODE * (high - low)
    return distinct >= DISTINCT_OTHERWISE and distance >= APART_OTHERWISE * (high - low)


@dataclass(frozen=True, eq=False)
class _Edges:
    """Facts of all rows about the suspected values, one entry for each."""

    count: NDArray[np.intp]  # cells that hold the value
    observed: NDArray[np.intp]  # observed values
    low: Array  # of the other observed values
    high: Array

    @classmethod
    def of(cls, block: Block, suspects: tuple[tuple[int, float], ...]) -> _Edges:
        facts = []
        for j, code in suspects:
            cells = block.values[:, j]
            cells = cells if block.weight is None else cells[block.weight > 0]
            others = cells[~((cells == code) | np.isnan(cells))]
            count = int(np.count_nonzero(cells == code))
            low, high = np.min(others, initial=np.inf), np.max(others, initial=-np.inf)
            facts.append((count, count + len(others), float(low), float(high)))
        return cls(*map(np.array, zip(*facts, strict=True)))

    def merge(self, other: _Edges) -> _Edges:
        return _Edges(
            self.count + other.count,
            self.observed + other.observed,
            np.minimum(self.low, other.low),
            np.maximum(self.high, other.high),
        )
