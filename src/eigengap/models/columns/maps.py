"""Monotone maps between the values of a continuous column and its Gaussian u.

A map is a family chosen for the column's range, x -> y, followed by y -> u: the standard score, and
where the column is large enough a correction of that score by the ranks of the data. The family
decides what lies beyond the data: log for positive columns, logit for bounded ones, and Yeo and
Johnson's (2000) powers for skewed columns of either sign, so that nothing is imputed outside the
range and tails decay as the family's do.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from math import inf

import numpy as np
from scipy.interpolate import PchipInterpolator
from scipy.special import expit, logit

from eigengap.linalg import Array

FARTHEST = 1e3  # units from the centre, for tails that would reach infinity


class Family(ABC):
    """x -> y, increasing and smooth on the range of a column."""

    @property
    def range(self) -> tuple[float, float]:
        return -inf, inf

    @abstractmethod
    def forward(self, x: Array) -> Array: ...

    @abstractmethod
    def inverse(self, y: Array) -> Array: ...

    @abstractmethod
    def log_slope(self, x: Array) -> Array:
        """ln dy / dx."""


@dataclass(frozen=True)
class Identity(Family):
    def forward(self, x: Array) -> Array:
        return x

    def inverse(self, y: Array) -> Array:
        return y

    def log_slope(self, x: Array) -> Array:
        return np.zeros(x.shape)


@dataclass(frozen=True)
class Log(Family):
    """x > lower."""

    lower: float = 0.0

    @property
    def range(self) -> tuple[float, float]:
        return self.lower, inf

    def forward(self, x: Array) -> Array:
        return np.log(x - self.lower)

    def inverse(self, y: Array) -> Array:
        return self.lower + np.exp(y)

    def log_slope(self, x: Array) -> Array:
        return -np.log(x - self.lower)


@dataclass(frozen=True)
class Logit(Family):
    """lower < x < upper."""

    lower: float
    upper: float

    @property
    def range(self) -> tuple[float, float]:
        return self.lower, self.upper

    def forward(self, x: Array) -> Array:
        return np.asarray(logit((x - self.lower) / (self.upper - self.lower)))

    def inverse(self, y: Array) -> Array:
        return np.asarray(self.lower + (self.upper - self.lower) * expit(y))

    def log_slope(self, x: Array) -> Array:
        inner = np.log(x - self.lower) + np.log(self.upper - x)
        return np.asarray(np.log(self.upper - self.lower) - inner)


@dataclass(frozen=True)
class YeoJohnson(Family):
    """Powers of 1 + |x - centre| / unit, with an exponent of its own on each side."""

    power: float  # 1 is the identity, 0 the logarithm on the right
    centre: float = 0.0
    unit: float = 1.0

    def forward(self, x: Array) -> Array:
        s = (x - self.centre) / self.unit
        right = _box_cox(np.maximum(s, 0.0), self.power)
        left = -_box_cox(np.maximum(-s, 0.0), 2.0 - self.power)
        return np.where(s >= 0.0, right, left)

    def inverse(self, y: Array) -> Array:
        right = _box_cox_inverse(np.maximum(y, 0.0), self.power)
        left = -_box_cox_inverse(np.maximum(-y, 0.0), 2.0 - self.power)
        return self.centre + self.unit * np.where(y >= 0.0, right, left)

    def log_slope(self, x: Array) -> Array:
        s = (x - self.centre) / self.unit
        exponent = np.where(s >= 0.0, self.power - 1.0, 1.0 - self.power)
        return np.asarray(exponent * np.log1p(np.abs(s)) - np.log(self.unit))


def _box_cox(s: Array, power: float) -> Array:
    """((1 + s)^power - 1) / power, and its limit ln(1 + s)."""
    log = np.log1p(s)
    return log if power == 0.0 else np.expm1(power * log) / power


def _box_cox_inverse(y: Array, power: float) -> Array:
    """Its inverse; where the power is negative y has a bound, at which s ends at FARTHEST."""
    if power == 0.0:
        return np.expm1(y)
    if power > 0.0:
        return np.asarray(np.expm1(np.log1p(power * y) / power))
    end = _box_cox(np.asarray(FARTHEST), power)
    return np.asarray(np.expm1(np.log1p(power * np.minimum(y, end)) / power))


@dataclass(frozen=True, eq=False)
class Margin:
    """x -> y by the family, then y -> u: (y - centre) / unit, corrected between knots.

    The correction passes through the knots (y_k, u_k), monotone and smooth (Fritsch and Carlson
    1980); outside them it continues with the slope 1 / unit of the family.
    """

    family: Family
    centre: float
    unit: float
    knots: tuple[Array, Array] | None = None  # (k,) y and u, both increasing

    def forward(self, x: Array) -> Array:
        y = self.family.forward(x)
        if self.knots is None:
            return (y - self.centre) / self.unit
        at, _ = self.knots
        inside = self._curve((np.clip(y, at[0], at[-1]) - at[0]) / self.unit)
        beyond = np.minimum(y - at[0], 0.0) + np.maximum(y - at[-1], 0.0)
        return np.asarray(inside + beyond / self.unit)

    def inverse(self, u: Array) -> Array:
        if self.knots is None:
            return self.family.inverse(self.centre + self.unit * u)
        at, knots = self.knots
        score = _solved(self._curve, np.clip(u, knots[0], knots[-1]))
        beyond = np.minimum(u - knots[0], 0.0) + np.maximum(u - knots[-1], 0.0)
        return self.family.inverse(at[0] + self.unit * (score + beyond))

    def log_slope(self, x: Array) -> Array:
        slope = self.family.log_slope(x) - np.log(self.unit)
        if self.knots is None:
            return np.asarray(slope)
        at = self.knots[0]
        y = self.family.forward(x)
        inside = (y > at[0]) & (y < at[-1])
        own = self._curve.derivative()((np.clip(y, at[0], at[-1]) - at[0]) / self.unit)
        corrected: Array = np.where(inside, slope + np.log(np.maximum(own, 1e-300)), slope)
        return corrected

    @property
    def _curve(self) -> PchipInterpolator:
        """u of (y - y_0) / unit, between the knots: products of differences of y may overflow."""
        assert self.knots is not None
        at, u = self.knots
        return PchipInterpolator((at - at[0]) / self.unit, u)


def _solved(curve: PchipInterpolator, u: Array) -> Array:
    """Where the increasing curve reaches u, by bisection between the knots that enclose it."""
    at, knots = curve.x, curve(curve.x)
    k = np.clip(np.searchsorted(knots, u) - 1, 0, len(at) - 2)
    low, high = at[k], at[k + 1]
    for _ in range(52):
        middle = (low + high) / 2.0
        below = curve(middle) < u
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return (low + high) / 2.0
