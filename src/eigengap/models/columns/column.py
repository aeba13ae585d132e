"""A column of any kind, as a function of Gaussian columns u that lie behind it.

u = W z + mu + e is the linear-Gaussian model of the whole table; a column says how its values come
from its own `width` columns of u. A kind of column is one file with one class: what a cell says
about u (`encode`), and what a Gaussian u says about a cell (`value`, `interval`, `probabilities`,
`draw`). Everything else, missing values, EM, files, needs no more than that.

Rows of categories hold codes 0, 1, ...; NaN is a missing value everywhere.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from math import inf
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from eigengap.linalg import Array

TINY = 1e-12  # probability that a prediction is charged for at most


class Cells(NamedTuple):
    """What the cells of a column say about its u: (c, width) each, NaN where nothing."""

    exact: Array  # u itself
    first: Array  # lower bound, or count
    second: Array  # upper bound, or ln of the row's size


@dataclass(frozen=True, eq=False)
class Column(ABC):
    """A fitted column. Means and covariances of u are (c, width) and (c, width, width)."""

    is_exact: ClassVar[bool] = False  # whether an observed value gives u
    has_evidence: ClassVar[bool] = True  # whether it may give less
    is_count: ClassVar[bool] = False

    @property
    def width(self) -> int:
        return 1

    @property
    def free_scale(self) -> bool:
        """Whether u may be multiplied by any number: what is observed does not depend on it."""
        return False

    @property
    def shape(self) -> float:
        """Of a negative binomial count."""
        return inf

    def holds(self, x: Array) -> NDArray[np.bool_]:
        """(c,) whether each value may occur in this column."""
        return np.ones(len(x), dtype=bool)

    @abstractmethod
    def encode(self, x: Array) -> Cells:
        """What the values x (c,) say about u."""

    def log_slope(self, x: Array) -> Array:
        """(c,) ln |du / dx| of cells that give u: the density of x is that of u times this."""
        return np.zeros(len(x))

    @abstractmethod
    def value(self, mean: Array, cov: Array) -> Array:
        """(c,) what is imputed: the median, or the most probable level of a nominal column."""

    @abstractmethod
    def quantile(self, share: float, mean: Array, cov: Array) -> Array:
        """(c,) the value below which x lies with this probability."""

    @abstractmethod
    def log_score(self, x: Array, mean: Array, cov: Array) -> Array:
        """(c,) ln of the predicted probability of x, or of its density in units of u."""

    @abstractmethod
    def from_u(self, u: Array, rng: np.random.Generator) -> Array:
        """(c,) values of x given u (c, width)."""


@dataclass(frozen=True, eq=False)
class LevelColumn(Column):
    """A column that takes one of K values."""

    levels: Array  # (K,) ascending: codes of levels, or numbers

    def holds(self, x: Array) -> NDArray[np.bool_]:
        return np.isin(x, self.levels)

    def code(self, x: Array) -> NDArray[np.intp]:
        """(c,) number of the level of each value."""
        return np.searchsorted(self.levels, x)

    @abstractmethod
    def probabilities(self, mean: Array, cov: Array) -> Array:
        """(c, K) of the levels."""

    def log_score(self, x: Array, mean: Array, cov: Array) -> Array:
        of_level = self.probabilities(mean, cov)[np.arange(len(x)), self.code(x)]
        return np.log(np.maximum(of_level, TINY))


def missing(rows: int, width: int = 1) -> Array:
    return np.full((rows, width), np.nan)


def quantile_of_u(share: float, mean: Array, cov: Array) -> Array:
    """(c,) of a single u."""
    return np.asarray(mean[:, 0] + ndtri(share) * np.sqrt(cov[:, 0, 0]))
