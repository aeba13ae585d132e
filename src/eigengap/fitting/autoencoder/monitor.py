"""What rows that a network is not trained on (or, without them, some that it is) say of it.

By NumPy alone. Where training hides cells, some are hidden here too, always the same ones, so that
losses can be compared from pass to pass.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from eigengap.fitting.autoencoder.rows import (
    Monitored,
    StandardBlock,
    hidden_for_good,
    hiding_numbers,
)
from eigengap.linalg import Array
from eigengap.models.network.autoencoder import Network, codes

HIDDEN_SHARE = (0.1, 0.5)  # least and most of the cells that are hidden to measure the noise
PRIOR_ROWS = 2.0  # that the mean over all columns counts for, in addition to the rows of each
LEAST_VARIANCE = 1e-12  # of the largest, that inputs are whitened by


@dataclass(frozen=True, eq=False)
class Monitor:
    """Rows to look at, and the cells of them that the network may see."""

    rows: Monitored
    given: Array  # (m, d) in data units, NaN where missing or hidden
    seed: int

    @classmethod
    def of(cls, rows: Monitored, share: float, seed: int) -> Monitor:
        hidden = hidden_for_good(rows.values, share, seed)
        return cls(rows, np.where(hidden, np.nan, rows.values), seed)

    def loss(self, network: Network) -> float:
        """Mean squared error of the observed values, in standardised units."""
        values = self.rows.values
        with np.errstate(over="ignore", invalid="ignore"):
            apart = (network.reconstruct(self.given) - values) / network.unit
            observed = self.rows.weight[:, None] * ~np.isnan(values)
            total = float(np.sum(np.where(observed > 0.0, observed * apart**2, 0.0)))
        return total / max(float(np.sum(observed)), 1e-300)

    def noise(self, network: Network) -> Array:
        """(d,) standard deviation of cells hidden from the network, in data units.

        Every observed value is hidden once, with as many others as are missing anyway, within
        bounds. With s^2 the mean squared error of a column over m rows, and p its expectation if
        the share of the variance that is missed were the same in all columns, a new cell's error
        has the variance (m s^2 + 2 p) / m: that of its Student distribution where two rows more of
        the size p stand for what is known beforehand. For many rows it is s^2.
        """
        values, weight = self.rows.values, self.rows.weight
        x, observed = network.standardised(values)
        total = np.zeros(network.d)
        for hidden in self._folds():
            again, _ = network.standardised(network.reconstruct(np.where(hidden, np.nan, values)))
            total += weight @ np.where(hidden, again - x, 0.0) ** 2
        count, spread = weight @ observed, weight @ x**2
        missed = float(np.sum(total)) / max(float(np.sum(spread)), 1e-300)
        some = np.maximum(count, 1.0)  # of a column that these rows do not show, 2 p stands alone
        own = np.where(count > 0.0, spread / some, 1.0)
        return np.asarray(np.sqrt((total + PRIOR_ROWS * missed * own) / some) * network.unit)

    def _folds(self) -> Iterator[NDArray[np.bool_]]:
        """Cells (m, d) to hide together; each observed value in one of them."""
        values = self.rows.values
        share = float(np.clip(np.mean(np.isnan(values)), *HIDDEN_SHARE))
        folds = round(1.0 / share)
        numbers = hiding_numbers(values, self.seed + 1)
        for k in range(folds):
            yield ~np.isnan(values) & (np.floor(numbers * folds) == k)


# Moments ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ObservedWeight:
    """Number of the observed values to train on, each counting as often as its row."""

    total: float

    @classmethod
    def of(cls, block: StandardBlock) -> ObservedWeight:
        return cls(float(np.sum(block.weight @ block.observed)))

    def merge(self, other: ObservedWeight) -> ObservedWeight:
        return ObservedWeight(self.total + other.total)


@dataclass(frozen=True, eq=False)
class White:
    """x' = x forth has unit variances and no correlation; W = forth W' has the same outputs."""

    forth: Array  # (d, d)
    back: Array  # its inverse


@dataclass(frozen=True, eq=False)
class InputMoments:
    """Second moments of standardised rows: what makes the valley of a linear network narrow."""

    scatter: Array  # (d, d)

    @classmethod
    def of(cls, block: StandardBlock) -> InputMoments:
        return cls(block.x.T @ (block.x * block.weight[:, None]))

    def merge(self, other: InputMoments) -> InputMoments:
        return InputMoments(self.scatter + other.scatter)

    def white(self) -> White:
        lam, V = np.linalg.eigh(self.scatter)
        lam = lam / max(float(lam[-1]), 1e-300)
        sd = np.sqrt(np.maximum(lam, LEAST_VARIANCE))
        return White(V / sd, sd[:, None] * V.T)


@dataclass(frozen=True, eq=False)
class CodeMoments:
    """Mean and scatter of codes (Chan, Golub and LeVeque 1983)."""

    weight: float
    mean: Array  # (q,)
    scatter: Array  # (q, q)

    @classmethod
    def of(cls, block: StandardBlock, network: Network) -> CodeMoments:
        q, w = network.q, block.weight
        if not np.sum(w) > 0.0:
            return cls(0.0, np.zeros(q), np.zeros((q, q)))
        Z = codes(block.x, block.observed, network.parts, network.architecture)
        mean = w @ Z / np.sum(w)
        return cls(float(np.sum(w)), mean, ((Z - mean) * w[:, None]).T @ (Z - mean))

    def merge(self, other: CodeMoments) -> CodeMoments:
        weight = self.weight + other.weight
        share = other.weight / weight if weight > 0.0 else 0.0
        delta = other.mean - self.mean
        between = self.weight * share * np.outer(delta, delta)
        return CodeMoments(
            weight, self.mean + share * delta, self.scatter + other.scatter + between
        )

    @property
    def covariance(self) -> Array:
        return self.scatter / max(self.weight, 1e-300)
