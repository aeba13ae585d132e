"""Columns of a table, grouped by the rows in which they were seen.

The columns of a Gaussian process latent variable model share one covariance matrix of rows; a
column with gaps has the part of it that belongs to its seen rows. Columns with the same gaps are
therefore worked on together.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from eigengap.linalg import Array


@dataclass(frozen=True, eq=False)
class ObservedColumns:
    """A standardised table (n, d) whose unseen cells are 0.

    Attributes
    ----------
    Y : (n, c) values, and a last column of zeros; where nothing is missing and d > n, a root R
        with R R' = Y Y' in their place, for columns come in only through these products
    groups : (P, n) 1 where the columns of a group were seen
    members : (P, k) columns of Y in each group, filled up by the column of zeros
    counts : (P,) number of columns of the table in each group
    of_column : (d,) the group of each column of the table
    table : (n, d) the values themselves
    """

    Y: Array
    groups: Array
    members: NDArray[np.intp]
    counts: Array
    of_column: NDArray[np.intp]
    table: Array

    @property
    def n_rows(self) -> int:
        return int(self.groups.shape[1])

    @property
    def cells(self) -> float:
        """Number of seen cells."""
        return float(self.counts @ np.sum(self.groups, axis=1))

    @property
    def observed(self) -> NDArray[np.bool_]:
        """(n, d) whether a cell was seen."""
        return self.groups[self.of_column].T > 0.0

    @property
    def is_complete(self) -> bool:
        return bool(self.groups.all())


def observed_columns(table: Array) -> ObservedColumns:
    """Group the columns of a table (n, d) in which NaN marks a gap."""
    n, d = table.shape
    observed = ~np.isnan(table)
    patterns, of_column = np.unique(observed.T, axis=0, return_inverse=True)
    of_column = of_column.reshape(-1)
    counts = np.bincount(of_column)
    values = np.where(observed, table, 0.0)
    rooted = observed.all() and d > n
    Y = _root(values) if rooted else values
    width = Y.shape[1] if rooted else int(counts.max())
    members = np.full((len(patterns), width), Y.shape[1])
    for p in range(len(patterns)):
        own = np.arange(Y.shape[1]) if rooted else np.flatnonzero(of_column == p)
        members[p, : len(own)] = own
    return ObservedColumns(
        np.column_stack([Y, np.zeros(n)]),
        patterns.astype(np.float64),
        members,
        counts.astype(np.float64),
        of_column,
        values,
    )


def _root(Y: Array) -> Array:
    """R (n, n) with R R' = Y Y'."""
    lam, V = np.linalg.eigh(Y @ Y.T)
    return np.asarray(V * np.sqrt(np.maximum(lam, 0.0)))
