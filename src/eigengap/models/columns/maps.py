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
from typing import NamedTuple

import numpy as np
from scipy.interpolate import PchipInterpolator
from scipy.special import expit, log_ndtr, logit, ndtri_exp

from eigengap.linalg import Array

FARTHEST = 1e3  # units from the centre, for tails that would reach infinity
LEAST_SHARE = 1e-15  # of a piece of u beside an atom: nearer to its end u has no digits left


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
    1980). Beyond them y continues as a Gaussian of its own family, with the standard deviation
    that the half of the data next to each end has. Beside an atom u is a piece of a Gaussian, in
    which the quantiles of the data lie close together: what continues as a straight line is y
    against the score z of the piece, z = ndtri((ndtr(u) - low) / (high - low)).
    """

    family: Family
    centre: float
    unit: float
    knots: tuple[Array, Array] | None = None  # (k,) y and u, both increasing
    piece: tuple[float, float] = (0.0, 1.0)  # shares of u that the values are between
    tails: tuple[float, float] | None = None  # dy / dz below and above the knots; else the unit

    def forward(self, x: Array) -> Array:
        y = self.family.forward(x)
        if self.knots is None:
            return (y - self.centre) / self.unit
        at, knots = self.knots
        u = self._curve((np.clip(y, at[0], at[-1]) - at[0]) / self.unit)
        for end, tail in zip((0, -1), self._tails, strict=True):
            beyond = y < at[0] if end == 0 else y > at[-1]
            z = tail.score(knots[end]) + (y[beyond] - at[end]) / tail.slope
            u[beyond] = tail.of_score(z)
        return np.asarray(u)

    def inverse(self, u: Array) -> Array:
        if self.knots is None:
            return self.family.inverse(self.centre + self.unit * u)
        at, knots = self.knots
        y = at[0] + self.unit * _solved(self._curve, np.clip(u, knots[0], knots[-1]))
        for end, tail in zip((0, -1), self._tails, strict=True):
            beyond = u < knots[0] if end == 0 else u > knots[-1]
            y[beyond] = at[end] + tail.slope * (tail.score(u[beyond]) - tail.score(knots[end]))
        return self.family.inverse(y)

    def log_slope(self, x: Array) -> Array:
        slope = self.family.log_slope(x)
        if self.knots is None:
            return np.asarray(slope - np.log(self.unit))
        at, knots = self.knots
        y = self.family.forward(x)
        own = self._curve.derivative()((np.clip(y, at[0], at[-1]) - at[0]) / self.unit)
        corrected: Array = np.log(np.maximum(own, 1e-300)) - np.log(self.unit)
        for end, tail in zip((0, -1), self._tails, strict=True):
            beyond = y <= at[0] if end == 0 else y >= at[-1]
            z = tail.score(knots[end]) + (y[beyond] - at[end]) / tail.slope
            corrected[beyond] = tail.log_slope(z)
        return np.asarray(slope + corrected)

    @property
    def _tails(self) -> tuple[_Tail, _Tail]:
        low, high = self.piece
        below, above = self.tails or (self.unit, self.unit)
        mass = high - low
        return _Tail(below, -1.0, low, mass), _Tail(above, 1.0, 1.0 - high, mass)

    @property
    def _curve(self) -> PchipInterpolator:
        """u of (y - y_0) / unit, between the knots: products of differences of y may overflow."""
        assert self.knots is not None
        at, u = self.knots
        return PchipInterpolator((at - at[0]) / self.unit, u)


class _Tail(NamedTuple):
    """Beyond the knots on one side: y is linear in the score z of the piece of u."""

    slope: float  # dy / dz
    sign: float  # -1 of the lower tail
    cut: float  # probability of u beyond the piece, on this side
    mass: float  # of the piece

    @property
    def is_whole(self) -> bool:
        return self.mass == 1.0

    def score(self, u: Array | float) -> Array:
        """z of u; near and beyond the end of the piece, that of the share LEAST_SHARE."""
        if self.is_whole:
            return np.asarray(u)
        log_beyond = log_ndtr(-self.sign * np.asarray(u))
        if self.cut > 0.0:
            left = np.maximum(np.exp(log_beyond) - self.cut, LEAST_SHARE * self.mass)
            log_beyond = np.log(left)
        return np.asarray(-self.sign * ndtri_exp(np.minimum(log_beyond - np.log(self.mass), 0.0)))

    def of_score(self, z: Array) -> Array:
        """u of z."""
        if self.is_whole:
            return z
        log_beyond = log_ndtr(-self.sign * z) + np.log(self.mass)
        if self.cut > 0.0:
            log_beyond = np.logaddexp(log_beyond, np.log(self.cut))
        return np.asarray(-self.sign * ndtri_exp(log_beyond))

    def log_slope(self, z: Array) -> Array:
        """ln du / dy."""
        of_u = np.zeros(z.shape)
        if not self.is_whole:
            of_u = np.log(self.mass) + (self.of_score(z) ** 2 - z**2) / 2.0
        return np.asarray(of_u - np.log(self.slope))


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
