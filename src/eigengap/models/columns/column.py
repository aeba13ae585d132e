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
from typing import ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from eigengap.linalg import Array
from eigengap.models.gaussian.spread import bisected

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
    def n_details(self) -> int:
        """How many numbers a cell needs besides its value: limits, the size of its row."""
        return 0

    @property
    def width(self) -> int:
        return 1

    @property
    def free_scale(self) -> bool:
        """Whether u may be multiplied by any number: what is observed does not depend on it."""
        return False

    @property
    def origin(self) -> Array:
        """(width,) u about which it may be multiplied: the thresholds."""
        return np.zeros(self.width)

    @property
    def typical_error(self) -> float:
        """Variance with which a typical cell gives u; 0 where cells give u."""
        return 0.0

    @property
    def shape(self) -> float:
        """Of a negative binomial count."""
        return inf

    def holds(self, x: Array) -> NDArray[np.bool_]:
        """(c,) whether each value may occur in this column."""
        return np.ones(len(x), dtype=bool)

    @property
    def whole_values(self) -> Array | None:
        """Its values, or the least and the largest; None where they may be fractions."""
        return None

    @abstractmethod
    def encode(self, x: Array, details: Array | None = None) -> Cells:
        """What the values x (c,), and their details (c, n_details), say about u."""

    def given(self, details: Array) -> Self:
        """The column of cells with these details, (c, n_details), for the questions below."""
        return self

    def log_slope(self, x: Array) -> Array:
        """(c,) ln |du / dx| of cells that give u: the density of x is that of u times this."""
        return np.zeros(len(x))

    def value(self, mean: Array, cov: Array) -> Array:
        """(c,) what is imputed: the median, or the most probable level of a nominal column."""
        return self.quantile(0.5, mean, cov)

    @abstractmethod
    def quantile(self, share: float, mean: Array, cov: Array) -> Array:
        """(c,) the value below which x lies with this probability."""

    def mixed_value(self, resp: Array, mean: Array, cov: Array) -> Array:
        """(c,) `value` under a mixture: means (K, c, width), covariances, weights resp (c, K)."""
        return self.mixed_quantile(0.5, resp, mean, cov)

    def mixed_quantile(self, share: float, resp: Array, mean: Array, cov: Array) -> Array:
        """(c,) `quantile` under a mixture: x increases with u, whose quantile is bisected."""
        m, sd = mean[:, :, 0], np.sqrt(cov[:, :, 0, 0])  # (K, c)
        ends = m + ndtri(share) * sd

        def reached(u: Array) -> NDArray[np.bool_]:
            return np.asarray(np.einsum("ck,kc->c", resp, ndtr((u - m) / sd)) >= share)

        _, high = bisected(reached, ends.min(axis=0), ends.max(axis=0))
        return self.value(high[:, None], np.zeros((len(high), 1, 1)))

    @abstractmethod
    def log_score(self, x: Array, mean: Array, cov: Array) -> Array:
        """(c,) ln of the predicted probability of x, or of its density in units of u."""

    @property
    def sides(self) -> int:
        """How many tails there are: 2 where values have an order."""
        return 2

    def tail(self, x: Array, mean: Array, cov: Array) -> Array:
        """(c,) how improbable the value x is.

        Twice the probability of its tail, that of values from x on away from the median, at most 1;
        of levels without an order, and of two, the probability of the level.
        """
        return self._of_tails(*self.tails(x, mean, cov))

    def mixed_tail(self, x: Array, resp: Array, mean: Array, cov: Array) -> Array:
        """(c,) `tail` under a mixture."""
        each = np.array([self.tails(x, *of) for of in zip(mean, cov, strict=True)])  # (K, 2, c)
        below, above = np.einsum("ck,ktc->tc", resp, each)
        return self._of_tails(below, above)

    def _of_tails(self, below: Array, above: Array) -> Array:
        return np.asarray(np.minimum(self.sides * np.minimum(below, above), 1.0))

    @abstractmethod
    def tails(self, x: Array, mean: Array, cov: Array) -> tuple[Array, Array]:
        """(c,) probabilities of a value of at most x, and of at least x."""

    @abstractmethod
    def deviance_moments(self, mean: Array, cov: Array) -> tuple[Array, Array, Array]:
        """Mean, variance and third central moment (c,) of -2 ln p of a cell yet to be observed."""

    @abstractmethod
    def from_u(self, u: Array, rng: np.random.Generator) -> Array:
        """(c,) values of x given u (c, width)."""


@dataclass(frozen=True, eq=False)
class LevelColumn(Column):
    """A column that takes one of K values."""

    levels: Array  # (K,) in their order: codes of levels, or numbers

    def holds(self, x: Array) -> NDArray[np.bool_]:
        return np.isin(x, self.levels)

    @property
    def whole_values(self) -> Array | None:
        return self.levels

    def code(self, x: Array) -> NDArray[np.intp]:
        """(c,) number of the level of each value."""
        at = np.argsort(self.levels)
        return np.asarray(at[np.searchsorted(self.levels, x, sorter=at)])

    @abstractmethod
    def probabilities(self, mean: Array, cov: Array) -> Array:
        """(c, K) of the levels."""

    def mixed_probabilities(self, resp: Array, mean: Array, cov: Array) -> Array:
        """(c, K) under a mixture: averaged by responsibility."""
        each = [self.probabilities(*of) for of in zip(mean, cov, strict=True)]
        return np.asarray(np.einsum("ck,kcl->cl", resp, np.stack(each)))

    def log_score(self, x: Array, mean: Array, cov: Array) -> Array:
        return np.log(np.maximum(self.probability(x, mean, cov), TINY))

    def probability(self, x: Array, mean: Array, cov: Array) -> Array:
        """(c,) of the level x."""
        return self.probabilities(mean, cov)[np.arange(len(x)), self.code(x)]

    @property
    def sides(self) -> int:
        return 2 if len(self.levels) > 2 else 1

    def deviance_moments(self, mean: Array, cov: Array) -> tuple[Array, Array, Array]:
        probability = self.probabilities(mean, cov)
        return central_moments(probability, -2.0 * np.log(np.maximum(probability, 1e-300)))


def missing(rows: int, width: int = 1) -> Array:
    return np.full((rows, width), np.nan)


def central_moments(weight: Array, s: Array) -> tuple[Array, Array, Array]:
    """Mean, variance and third central moment of s (c, K) under weights that sum to 1."""
    mean = np.sum(weight * s, axis=1)
    off = s - mean[:, None]
    return mean, np.sum(weight * off**2, axis=1), np.sum(weight * off**3, axis=1)


def quantile_of_u(share: float | Array, mean: Array, cov: Array) -> Array:
    """(c,) of a single u."""
    return np.asarray(mean[:, 0] + ndtri(share) * np.sqrt(cov[:, 0, 0]))
