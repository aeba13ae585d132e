"""Rows drawn at random, the same ones however the table is cut, whatever its length.

Row i has the key -ln(u_i) / w_i with u_i a hash of (seed, i): the k rows of least key are a sample
without replacement in which heavy rows come first more often (Efraimidis and Spirakis 2006). What
must be kept of a part of the table is its k least keys, so that drawing is a statistic like any
other: one pass, mergeable, and a smaller sample is the beginning of a larger one.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, sqrt

import numpy as np
from numpy.typing import NDArray

from eigengap.linalg import Array
from eigengap.runtime.hashing import row_hashes
from eigengap.sources.base import Block, Rows

CHUNK = 1 << 14  # rows hashed together, so that temporaries stay in cache


@dataclass(frozen=True, eq=False)
class Drawn:
    """The rows of least key, in the order of their keys."""

    k: int  # most rows that are kept
    keys: Array  # (m,) m <= k, ascending
    rows: Array  # (m, d)

    def merge(self, other: Drawn) -> Drawn:
        keys = np.concatenate([self.keys, other.keys])
        first = np.argsort(keys, kind="stable")[: self.k]
        mine, theirs = (
            np.flatnonzero(first < len(self.keys)),
            np.flatnonzero(first >= len(self.keys)),
        )
        rows = np.empty((len(first), self.rows.shape[1]))  # joining all of both first costs thrice
        rows[mine] = self.rows[first[mine]]
        rows[theirs] = other.rows[first[theirs] - len(self.keys)]
        return Drawn(self.k, keys[first], rows)


@dataclass(frozen=True)
class Draw:
    """k rows under a seed: as a statistic of blocks.

    `below` may rule out rows whose key is too large to be drawn, so that few are copied; whoever
    sets it must look whether k rows were found.
    """

    k: int
    seed: int
    below: float = inf

    @classmethod
    def among(cls, n_rows: int | None, k: int, seed: int) -> Draw:
        """k of n_rows rows, all of weight 1.

        The number of keys below the bound is binomial, and less than k with a probability of
        exp(-60) or so (Chernoff).
        """
        expected = k + 12.0 * sqrt(k) + 80.0
        bounded = n_rows is not None and expected < n_rows
        return cls(k, seed, expected / n_rows) if bounded and n_rows else cls(k, seed)

    def __call__(self, block: Block) -> Drawn:
        at, keys = least_keys(
            self.k, self.seed, block.start, block.n_rows, block.weight, self.below
        )
        return Drawn(self.k, keys, dense_rows(block.values, at))


def least_keys(
    k: int, seed: int, start: int, n: int, weight: Array | None, below: float = inf
) -> tuple[NDArray[np.intp], Array]:
    """Which of the rows start .. start + n - 1 have the k least keys, and these, ascending.

    A row of weight 0 is never drawn; without weights, nor is one whose key is not `below`.
    """
    if weight is not None:
        return _least(_keys(seed, start, n, weight), k)
    at, keys = np.empty(0, dtype=np.intp), np.empty(0)
    for first in range(0, n, CHUNK):
        some = _keys(seed, start + first, min(CHUNK, n - first), None)
        most = keys[-1] if len(keys) == k else below  # what can come in is less than that
        if most < inf:
            inside = np.flatnonzero(some < most)
            at, some = np.concatenate([at, inside + first]), np.concatenate([keys, some[inside]])
        else:
            at = np.concatenate([at, np.arange(first, first + len(some))])
            some = np.concatenate([keys, some])
        kept, keys = _least(some, k)
        at = at[kept]
    return at, keys


def dense_rows(values: Rows, at: NDArray[np.intp]) -> Array:
    """Some rows as float64 (m, d)."""
    some = values[at]
    dense = some if isinstance(some, np.ndarray) else some.toarray()
    return np.asarray(dense, dtype=np.float64)


def seed_of(rng: np.random.Generator) -> int:
    """The seed of the next sample that a generator is to decide."""
    return int(rng.integers(2**63))


def _keys(seed: int, start: int, n: int, weight: Array | None) -> Array:
    # In (0, 1): 53 bits and a half, so that no logarithm is infinite.
    u = ((row_hashes(start, n, seed) >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53
    if weight is None:
        return u  # the order of u is that of any monotone function of it, reversed or not
    with np.errstate(divide="ignore", over="ignore"):
        keys = -np.log1p(-u) / weight
    # A row whose weight is almost 0 comes last; one of weight 0 never.
    return np.where(weight > 0, np.minimum(keys, np.finfo(np.float64).max), inf)


def _least(keys: Array, k: int) -> tuple[NDArray[np.intp], Array]:
    if 0 < k < len(keys):
        kept = np.argpartition(keys, k - 1)[:k]
        kept = kept[np.argsort(keys[kept], kind="stable")]
    else:
        kept = np.argsort(keys, kind="stable")[:k]
    kept = kept[np.isfinite(keys[kept])]
    return kept, keys[kept]
