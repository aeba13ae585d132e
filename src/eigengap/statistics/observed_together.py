"""Which columns are observed together: what a table can say of their covariances at all.

Two columns that no row shows together leave no trace of their covariance. Columns linked by a
chain of such pairs are one component of the graph of pairs; between components the likelihood does
not depend on the covariance, however large the table.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from eigengap.linalg import Array
from eigengap.models.gaussian.observed_rows import ObservedRows
from eigengap.sources.base import Block
from eigengap.statistics.additive import Additive

Labels = NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class PairCounts(Additive):
    """(d, d) weighted numbers of rows in which two columns are both observed."""

    value: Array

    @classmethod
    def of(cls, rows: ObservedRows) -> PairCounts:
        times = _times(rows)
        if isinstance(rows.M, np.ndarray):
            M = rows.M  # without weights an integer up to the rows of a block: exact in float32
            among = M.T @ (M if np.all(times == 1.0) else M * times[:, None])
        else:
            among = (rows.M.T @ rows.M.multiply(times[:, None]).tocsr()).toarray()
        everywhere, at = rows.complete_columns(), rows.incomplete
        value = np.full((rows.d, rows.d), float(np.sum(times)))
        value[at] = rows.observed[at, None]
        value[:, at] = rows.observed[at]
        value[np.ix_(~everywhere, ~everywhere)] = among
        return cls(value)


@dataclass(frozen=True, eq=False)
class ZeroFilledProduct(Additive):
    """(sum_i w_i r_i r_i^T) V for V (d, k), missing values at zero: where an EM fit starts.

    With values missing at random, a product r_j r_k of centred values is observed with probability
    p_j p_k (p_j on the diagonal), so this scatter over that probability estimates the covariance
    (Lounici 2014). Its leading eigenvectors are close enough for EM to finish in tens of steps. No
    d x d matrix is formed unless V is the identity.
    """

    value: Array  # (d, k)

    @classmethod
    def of(cls, rows: ObservedRows, V: Array) -> ZeroFilledProduct:
        projected = rows.R @ V  # (c, k)
        if rows.weight is not None:
            projected = projected * rows.weight[:, None]
        return cls(np.asarray(rows.R.T @ projected))

    @classmethod
    def scatter(cls, rows: ObservedRows) -> ZeroFilledProduct:
        R = rows.R
        left = R if rows.weight is None else R * rows.weight[:, None]
        product = left.T @ R
        return cls(np.asarray(product if isinstance(product, np.ndarray) else product.toarray()))


@dataclass(frozen=True, eq=False)
class Linked:
    """Components of the graph of pairs, without a d x d matrix."""

    labels: Labels  # (d,) the first column of each column's component

    @classmethod
    def of(cls, rows: ObservedRows) -> Linked:
        labels = np.arange(rows.d)
        if len(rows.incomplete) < rows.d:  # a column that every row of the block has
            observed = np.flatnonzero(rows.observed > 0)
            labels[observed] = observed[:1]
            return cls(labels)
        return cls(_linked_by(rows.M))

    @classmethod
    def of_block(cls, block: Block) -> Linked:
        if not isinstance(block.values, np.ndarray):  # sparse rows are complete
            return cls(np.zeros(block.values.shape[1], dtype=np.intp))
        return cls(_linked_by(block.observed.astype(np.float32)))

    def merge(self, other: Linked) -> Linked:
        at = np.tile(np.arange(len(self.labels)), 2)
        return Linked(_components(at, np.concatenate([self.labels, other.labels])))


def _linked_by(M: Any) -> Labels:
    """(d,) labels of columns linked by the rows of a mask (n, d), dense or sparse.

    The component of a column is found by going to the rows that have it and back.
    """
    d = M.shape[1]
    labels, left = np.arange(d), np.asarray(M.sum(axis=0)).reshape(-1) > 0
    while np.any(left):
        first = int(np.argmax(left))
        found = np.arange(d) == first
        while True:
            reached = M @ found.astype(M.dtype) > 0
            more = M.T @ reached.astype(M.dtype) > 0
            if np.array_equal(more, found):
                break
            found = more
        labels[found] = first
        left &= ~found
    return labels


def linked(pairs: NDArray[np.bool_]) -> Labels:
    """(d,) labels of the components of a graph of pairs (d, d)."""
    a, b = np.nonzero(pairs | np.eye(len(pairs), dtype=bool))
    return _components(a, b)


def _components(a: Labels, b: Labels) -> Labels:
    """(d,) the first column of each one's component, where column a[i] is linked to column b[i].

    Each column occurs in a.
    """
    d = int(np.max(a)) + 1
    graph = scipy.sparse.coo_array((np.ones(len(a)), (a, b)), shape=(d, d))
    component = scipy.sparse.csgraph.connected_components(graph, directed=False)[1]
    _, first, which = np.unique(component, return_index=True, return_inverse=True)
    return np.asarray(first[which], dtype=np.intp)


def _times(rows: ObservedRows) -> Array:
    """(u,) weight of each row of the mask: a shared pattern stands for several rows."""
    weight = np.ones(len(rows.order)) if rows.weight is None else rows.weight
    shared = [np.sum(weight[a:b]) for a, b in zip(rows.bounds[:-1], rows.bounds[1:], strict=True)]
    return np.concatenate([weight[: rows.n_unique], np.array(shared)])
