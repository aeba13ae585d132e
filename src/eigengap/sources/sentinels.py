"""Numbers that look like a code for missing values: a warning, and no change.

-999 in a twentieth of a column is more likely "not measured" than a measurement, and as a value it
dominates every mean and variance. A value is suspicious where it is the smallest or largest of its
column, repeats, and is far from all other values: by half of their range for a number that people
use as a code, by many times their range for any other.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eigengap.exceptions import SentinelWarning
from eigengap.linalg import Array
from eigengap.runtime.warnings import warn
from eigengap.sources.base import Block, Source
from eigengap.sources.wording import column
from eigengap.wording import words

SAMPLE_ROWS = 1000  # a code in a hundredth of the rows is in them but for one chance in 20 000
SAMPLE_CELLS = 2_000_000  # fewer rows where there are many columns, but not fewer than:
LEAST_ROWS = 200
LEAST_COUNT, LEAST_SHARE = 3, 0.01
APART_AS_CODE, APART_OTHERWISE = 0.5, 10.0  # distance to the nearest other value, in their range
DISTINCT_AS_CODE, DISTINCT_OTHERWISE = 2, 10  # other values at least
MOST_NAMED = 5  # columns in one warning

# What files of many trades write for "missing", besides nines.
FILLS = (
    -32768.0,
    32767.0,
    -65536.0,
    65535.0,
    -2147483648.0,
    2147483647.0,
    1e20,
    -1e20,
    1e30,
    -1e30,
)


def warn_of_codes(source: Source) -> None:
    """Warn where a column seems to hold a code for missing: a look at a sample of the rows.

    Only a column that is suspicious there is looked at as a whole, in one pass. Nothing is changed.
    """
    if source.is_sparse:  # its edges are zeros
        return
    rows = max(min(SAMPLE_ROWS, SAMPLE_CELLS // source.n_features), LEAST_ROWS)
    sample = source.sample(min(rows, source.observed().rows), np.random.default_rng(0))
    suspects = _suspects(sample, source.dtype)
    if not suspects:
        return
    edges = source.reduce(partial(_Edges.of, suspects=tuple(suspects)))
    found = [
        (j, code, int(edges.count[k]))
        for k, (j, code) in enumerate(suspects)
        if edges.count[k] >= max(LEAST_COUNT, LEAST_SHARE * edges.observed[k])
        and edges.stands_apart(k)
    ]
    if found:
        warn(_message(found, edges, source), SentinelWarning)


def _suspects(X: Array, dtype: np.dtype[Any]) -> list[tuple[int, float]]:
    """(column, value) of edges of the sample X (k, d) that look like codes.

    A code is a round number, which almost no edge of a column of measurements is.
    """
    low, high = np.fmin.reduce(X, axis=0), np.fmax.reduce(X, axis=0)
    suspects = []
    for edge in (low, high):
        with np.errstate(over="ignore"):  # numpy rounds by way of 100 times the number
            is_round = np.round(edge, 2).astype(dtype) == edge.astype(dtype)
        round_ones = np.flatnonzero(is_round & (edge != 0.0) & (low < high))
        for j in round_ones:
            cells = X[:, j]
            values, counts = np.unique(cells[~np.isnan(cells)], return_counts=True)
            at = 0 if edge is low else -1
            others = np.delete(values, at)
            often = counts[at] >= 2 or len(cells) < 2 / LEAST_SHARE
            if often and _apart(float(values[at]), others[0], others[-1], len(others)):
                suspects.append((int(j), float(values[at])))
    return suspects


def is_code(value: float) -> bool:
    """Whether people write this number for "missing": -9, 99, -999, 99.99, 32767, 1e20, ..."""
    if value in FILLS:
        return True
    digits = f"{abs(value):.2f}".rstrip("0").replace(".", "")
    return set(digits) == {"9"} and (len(digits) >= 2 or value == -9.0)


def _apart(value: float, low: float, high: float, distinct: int) -> bool:
    """Whether the value lies far enough from all others, which run from low to high."""
    distance = low - value if value < low else value - high
    if is_code(value):
        return distinct >= DISTINCT_AS_CODE and distance >= APART_AS_CODE * (high - low)
    return distinct >= DISTINCT_OTHERWISE and distance >= APART_OTHERWISE * (high - low)


@dataclass(frozen=True, eq=False)
class _Edges:
    """Facts of all rows about the suspected values, one entry for each."""

    suspects: tuple[tuple[int, float], ...]
    count: NDArray[np.intp]  # cells that hold the value
    observed: NDArray[np.intp]  # observed values
    low: Array  # of the other observed values
    high: Array

    @classmethod
    def of(cls, block: Block, suspects: tuple[tuple[int, float], ...]) -> _Edges:
        count, observed, low, high = [], [], [], []
        for j, code in suspects:
            cells = block.values[:, [j]]
            cells = (cells if isinstance(cells, np.ndarray) else cells.toarray())[:, 0]
            if block.weight is not None:
                cells = cells[block.weight > 0]
            others = cells[~((cells == code) | np.isnan(cells))]
            count.append(int(np.count_nonzero(cells == code)))
            observed.append(count[-1] + len(others))
            low.append(float(np.min(others, initial=np.inf)))
            high.append(float(np.max(others, initial=-np.inf)))
        return cls(suspects, np.array(count), np.array(observed), np.array(low), np.array(high))

    def merge(self, other: _Edges) -> _Edges:
        return _Edges(
            self.suspects,
            self.count + other.count,
            self.observed + other.observed,
            np.minimum(self.low, other.low),
            np.maximum(self.high, other.high),
        )

    def stands_apart(self, k: int) -> bool:
        """In all rows as in the sample, where the other values were counted."""
        _, code = self.suspects[k]
        return _apart(code, float(self.low[k]), float(self.high[k]), DISTINCT_OTHERWISE)


def _message(found: list[tuple[int, float, int]], edges: _Edges, source: Source) -> str:
    columns = []
    for j, code, count in found[:MOST_NAMED]:
        k = edges.suspects.index((j, code))
        columns.append(
            f"column {column(source.names, j)} holds {code:g} in {count} of {edges.observed[k]} "
            f"cells, apart from all others ({edges.low[k]:g} to {edges.high[k]:g})"
        )
    more = f"; and {len(found) - MOST_NAMED} more columns" if len(found) > MOST_NAMED else ""
    codes = sorted({code for _, code, _ in found})
    digits = 7 if source.dtype == np.float32 else 15
    shown = words().missing_values([f"{code:.{digits}g}" for code in codes])
    it = "it marks" if len(codes) == 1 else "they mark"
    return f"{'; '.join(columns)}{more}. If {it} missing cells, pass {shown}; nothing was changed"
