"""Which cells are missing together: patterns of missing values and how many rows have each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eigengap.linalg import Array
from eigengap.plots.numbers.rows import MOST_READ, table_of


@dataclass(frozen=True, eq=False)
class Missingness:
    """Gaps of a table by column and by pattern, the most frequent patterns first."""

    n: int  # rows in all
    per_column: NDArray[np.intp]  # (d,) missing values, of all rows
    patterns: NDArray[np.bool_]  # (p, d) True where missing
    rows: NDArray[np.intp]  # (p,) rows of each pattern, among those that were read
    read: int  # rows that were read
    together: Array  # (d,) share of missing values in the rows of all patterns that are not listed
    others: int  # patterns that are not listed
    other_rows: int  # their rows

    @property
    def share(self) -> Array:
        """(d,) of the cells of each column that are unseen."""
        return self.per_column / max(self.n, 1)

    @property
    def cells(self) -> int:
        """Unseen cells in all."""
        return int(np.sum(self.per_column))

    @property
    def complete_rows(self) -> int:
        """Rows without a missing value, among those that were read and listed."""
        return int(np.sum(self.rows[~self.patterns.any(axis=1)]))


def missingness_summary(X: Any, most: int = 20) -> Missingness:
    """Count the patterns of missing values in a table; no more than `most` of them are listed."""
    table = table_of(X, most=MOST_READ)
    missing = np.isnan(table.X)
    packed = np.packbits(missing, axis=1)
    _, first, which = np.unique(packed, axis=0, return_index=True, return_inverse=True)
    count = np.bincount(which.ravel(), minlength=len(first))
    order = np.argsort(-count, kind="stable")
    listed, left = order[:most], order[most:]
    among = np.isin(which.ravel(), left)
    return Missingness(
        n=table.n,
        per_column=table.missing,
        patterns=missing[first[listed]],
        rows=count[listed],
        read=len(missing),
        together=missing[among].mean(axis=0) if among.any() else np.zeros(missing.shape[1]),
        others=len(left),
        other_rows=int(np.sum(count[left])),
    )
