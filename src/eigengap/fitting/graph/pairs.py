"""Matrices of all pairs of points, as users give them: square, symmetric, complete.

An error names the cell. Asymmetry of the size of rounding is averaged away.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eigengap.linalg import Array
from eigengap.sources.wording import column
from eigengap.statistics.moments import power_of_ten

ROWS = 256  # compared at a time with as many columns
LARGEST, SMALLEST = 1e150, 1e-140  # distances whose squares stay well within float64


@dataclass(frozen=True, eq=False)
class Labels:
    """How the cells of a matrix are called in messages: by position in what the user gave."""

    names: Sequence[str] | None = None  # of all columns
    at: NDArray[np.intp] | None = None  # which points the matrix holds, None where all
    start: int = 0  # rows before the first

    def row(self, i: int) -> int:
        return self.start + i if self.at is None else int(self.at[i])

    def column(self, j: int) -> str:
        return column(self.names, j if self.at is None else int(self.at[j]))

    def cell(self, i: int, j: int) -> str:
        return f"row {self.row(i)}, column {self.column(j)}"


PLAIN = Labels()


def distance_matrix(X: NDArray[Any], labels: Labels = PLAIN) -> Array:
    """The distances X (n, n) as a symmetric float64 matrix of its own, zero on the diagonal."""
    refuse_missing(X, labels, "distance")
    _require_square(X, "distances between")
    largest = float(np.max(np.abs(X)))
    refuse_range(largest)
    slack = rounding(X.dtype) * largest
    _refuse_negative(X, labels, slack)
    off = np.abs(X.diagonal()) > slack
    if off.any():
        i = int(np.argmax(off))
        raise ValueError(
            f"the distance of point {labels.row(i)} to itself is {float(X[i, i]):.6g} "
            f"({labels.cell(i, i)}), not 0: if these are inner products, use "
            'metric="gram"; similarities s have to be made distances first, for instance '
            "sqrt(2 - 2 s)"
        )
    D = _symmetric(X, labels, slack, "distance")
    np.maximum(D, 0.0, out=D)
    np.fill_diagonal(D, 0.0)
    return D


def gram_matrix(X: NDArray[Any], labels: Labels = PLAIN) -> Array:
    """The inner products X (n, n) as a symmetric float64 matrix of its own."""
    refuse_missing(X, labels, "inner product")
    _require_square(X, "inner products of")
    largest = float(np.max(np.abs(X)))
    if largest > LARGEST**2 or 0.0 < largest < SMALLEST**2:
        out = "large" if largest > 1.0 else "small"
        raise ValueError(
            f"these inner products are too {out} for float64: the largest absolute value is "
            f"{largest:.3g}. Rescale them, for instance X / {power_of_ten(largest)}"
        )
    return _symmetric(X, labels, rounding(X.dtype) * largest, "inner product")


def new_distances(X: NDArray[Any], labels: Labels = PLAIN) -> Array:
    """Distances (m, n) of new points to the fitted ones, in float64."""
    largest = float(np.max(np.abs(X)))
    if largest > LARGEST:
        refuse_range(largest)
    _refuse_negative(X, labels, rounding(X.dtype) * largest)
    return np.maximum(X.astype(np.float64, copy=False), 0.0)


def rounding(dtype: np.dtype[Any]) -> float:
    """Relative difference of two cells that rounding explains."""
    return 1e-5 if dtype == np.float32 else 1e-8


def refuse_range(largest: float, what: str = "these distances") -> None:
    """Refuse distances whose squares overflow, and those whose squares all vanish."""
    _refuse_squares(largest, f"the squares of {what}", "the largest is")


def refuse_column_ranges(X: Array) -> None:
    """Refuse rows (n, d) whose squared distances overflow, or all vanish; NaN is missing.

    The largest difference within a column is found without all pairs: no Euclidean distance is
    larger than the square root of d times that.
    """
    with np.errstate(over="ignore"):
        ranges = np.fmax.reduce(X, axis=0) - np.fmin.reduce(X, axis=0)
    _refuse_squares(
        float(np.fmax.reduce(ranges, initial=0.0)),
        "squared distances between rows",
        "the largest range of a column is",
    )


def refuse_large(X: Array) -> None:
    """Refuse new rows (m, d) whose squared distances from any others overflow; NaN is missing."""
    largest = float(np.max(np.abs(X), initial=0.0, where=~np.isnan(X)))
    if largest > LARGEST:
        _refuse_squares(largest, "squared distances between rows", "the largest absolute value is")


def _refuse_squares(size: float, what: str, found: str) -> None:
    if size == 0.0 or SMALLEST <= size <= LARGEST:
        return
    out = "overflow" if size > LARGEST else "underflow"
    shown = f"{size:.3g}" if np.isfinite(size) else "more than 1.79e+308"
    raise ValueError(
        f"{what} {out}: {found} {shown}. Rescale them, for instance X / {power_of_ten(size)}"
    )


def _require_square(X: NDArray[Any], what: str) -> None:
    n, m = X.shape
    if n != m:
        raise ValueError(
            f"a fit needs the square matrix of all {what} n points, got shape {X.shape}; "
            "rows of data want another metric, and new points go to transform"
        )


def _refuse_negative(X: NDArray[Any], labels: Labels, slack: float) -> None:
    if float(np.min(X)) >= -slack:
        return
    i, j = map(int, np.unravel_index(int(np.argmin(X)), X.shape))
    raise ValueError(
        f"Negative values in data: a distance is {float(X[i, j]):.6g} at {labels.cell(i, j)}. If "
        'these are inner products, use metric="gram"'
    )


def refuse_missing(X: NDArray[Any], labels: Labels, what: str) -> None:
    """Refuse a pair of which nothing is known."""
    bad = np.isnan(X)
    if not bad.any():
        return
    i, j = map(int, np.unravel_index(int(np.argmax(bad)), X.shape))
    more = f" (and {int(bad.sum()) - 1} more)" if bad.sum() > 1 else ""
    raise ValueError(
        f"Input contains NaN: the {what} of the pair at {labels.cell(i, j)} is not "
        f"known{more}, and classical scaling needs all of them. Drop "
        "one of the two points, impute the cell (for a distance the shortest way through a third "
        'point bounds it), or fit the data themselves: metric="euclidean" accepts missing values'
    )


def _symmetric(X: NDArray[Any], labels: Labels, slack: float, what: str) -> Array:
    """The mean of X and its transpose, refused where they differ by more than `slack`."""
    n = len(X)
    out = np.empty((n, n))
    for start in range(0, n, ROWS):
        rows = slice(start, min(start + ROWS, n))
        across = X[:, rows].T
        apart = np.abs(X[rows] - across)
        if float(np.max(apart)) > slack:
            i, j = map(int, np.unravel_index(int(np.argmax(apart)), apart.shape))
            i += start
            half = not np.any(np.tril(X, -1)) or not np.any(np.triu(X, 1))
            way_out = (
                "One triangle is empty: pass X + X.T"
                if half
                else f"If the {what} depends on the direction, take the mean of both, (X + X.T) / 2"
            )
            raise ValueError(
                f"the matrix is not symmetric: {float(X[i, j]):.6g} at {labels.cell(i, j)}, but "
                f"{float(X[j, i]):.6g} at {labels.cell(j, i)}. {way_out}"
            )
        np.add(X[rows], across, out=out[rows], dtype=np.float64)
    out *= 0.5
    return out
