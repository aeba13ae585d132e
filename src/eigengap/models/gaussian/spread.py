"""What is predicted of the missing values of rows: distributions with quantiles and tails.

A value that is observed is its own location, without scale. The surprise of an observed value is
what the distribution given the *other* observed values of its row leaves beyond it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtr, stdtrit

from eigengap.linalg import Array

HALVINGS = 60  # of a bracket: to rounding


@dataclass(frozen=True, eq=False)
class StudentSpread:
    """Student's t about a location; Gaussian where the degrees of freedom are infinite."""

    mean: Array  # (n, d)
    scale: Array  # (n, d)
    degrees: Array | float = inf  # (n, 1)

    @classmethod
    def gaussian(cls, mean: Array, variance: Array) -> Self:
        return cls(mean, np.sqrt(variance))

    def quantile(self, share: float) -> Array:
        return np.asarray(self.mean + stdtrit(self.degrees, share) * self.scale)

    def tails(self, x: Array) -> tuple[Array, Array]:
        with np.errstate(divide="ignore", invalid="ignore"):
            score = (x - self.mean) / self.scale
        score = np.where(x == self.mean, 0.0, score)  # also where there is no scale
        return np.asarray(stdtr(self.degrees, score)), np.asarray(stdtr(self.degrees, -score))


@dataclass(frozen=True, eq=False)
class MixtureSpread:
    """Several distributions, each with its probability in every row."""

    weights: Array  # (K, n, 1)
    parts: tuple[StudentSpread, ...]  # (K,)

    @property
    def mean(self) -> Array:
        return np.asarray(
            sum(w * part.mean for w, part in zip(self.weights, self.parts, strict=True))
        )

    def tails(self, x: Array) -> tuple[Array, Array]:
        of_parts = np.array([part.tails(x) for part in self.parts])  # (K, 2, n, d)
        below, above = np.einsum("knl,ktnd->tnd", self.weights, of_parts)
        return below, above

    def quantile(self, share: float) -> Array:
        """By bisection between the least and the largest quantile of the parts."""
        ends = np.stack([part.quantile(share) for part in self.parts])
        low, high = bisected(
            lambda x: self.tails(x)[0] >= share, ends.min(axis=0), ends.max(axis=0)
        )
        return np.asarray((low + high) / 2.0)


def bisected(
    reached: Callable[[Array], NDArray[np.bool_]], low: Array, high: Array
) -> tuple[Array, Array]:
    """Brackets of where numbers come to have reached what is looked for, halved to rounding."""
    for _ in range(HALVINGS):
        middle = (low + high) / 2.0
        at = reached(middle)
        low, high = np.where(at, low, middle), np.where(at, middle, high)
    return low, high


class Spreads:
    """Base of what predicts missing values: distributions from its `conditional` moments."""

    def spread(self: Any, X: Any, *known: Any) -> Any:
        """The distribution of every value given the observed values of its row: Gaussian."""
        return StudentSpread.gaussian(*self.conditional(X, *known))

    def intervals(self, X: Any, level: float, cell_sd: Array | None = None) -> tuple[Array, Array]:
        """Ends (n, d) of intervals with equal tails; an observed value is both."""
        tail = (1.0 - level) / 2.0
        spread = self.spread(X, *(() if cell_sd is None else (cell_sd,)))
        return spread.quantile(tail), spread.quantile(1.0 - tail)

    def surprises(self, X: Any, cell_sd: Array | None = None) -> tuple[Array, Array]:
        """Two-sided tail probability and expected value (n, d) of every observed value.

        Each is predicted from the other observed values of its row; NaN where one is missing.
        """
        X = np.asarray(X, dtype=np.float64)
        p, expected = np.full(X.shape, np.nan), np.full(X.shape, np.nan)
        for j in range(X.shape[1]):
            at = np.flatnonzero(~np.isnan(X[:, j]))
            if not len(at):
                continue
            others = X[at]
            others[:, j] = np.nan
            known: Any = () if cell_sd is None else (np.where(np.isnan(others), 0.0, cell_sd[at]),)
            spread = self.spread(others, *known)
            below, above = spread.tails(X[at])
            p[at, j] = np.minimum(2.0 * np.minimum(below[:, j], above[:, j]), 1.0)
            expected[at, j] = spread.mean[:, j]
        return p, expected
