"""Continuous columns: x = f(u), f increasing, so that a value gives u and a quantile gives x.

Many cells that share the least (or the largest) value, zero rainfall for instance, are an atom: u
is below the atom's threshold, which is all that such a cell says (Tobin 1958, where the threshold
is known). A censored cell, "< 0.1", says as much about a value of its own: its value is missing,
and its details are the lower and the upper limit, NaN where there is none.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf, pi
from typing import ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr, ndtr, ndtri_exp

from eigengap.linalg import Array
from eigengap.models.columns.column import TINY, Cells, Column, missing, quantile_of_u
from eigengap.models.columns.maps import Margin
from eigengap.models.gaussian.evidence import truncated
from eigengap.models.gaussian.spread import bisected

# The map is infinite at the open end of a range, 0 of a logarithm for instance. Values there, or
# very near, count as so many standard deviations out: one of 1e9 values of a Gaussian is.
FARTHEST = 6.0
FARTHEST_ROOT = 38.0  # standard deviations, beyond which the density is 0


class Limits(NamedTuple):
    """Between which cells lie, (c,) each; infinite where there is no limit."""

    lower: Array
    upper: Array

    @classmethod
    def of(cls, details: Array) -> Limits:
        lower, upper = details.T
        return cls(np.where(np.isnan(lower), -inf, lower), np.where(np.isnan(upper), inf, upper))


@dataclass(frozen=True, eq=False)
class ContinuousColumn(Column):
    """x = margin^-1(u) between the atoms at `least` and `largest`, where there are any."""

    is_exact: ClassVar[bool] = True

    margin: Margin
    least: float = -inf  # value of the lower atom
    below: float = -inf  # u at or below which x is that
    largest: float = inf
    above: float = inf  # u above which x is `largest`
    step: float = 0.0  # values are whole multiples of it; 0 for any
    floor: float = -inf  # nothing is imputed below
    has_limits: bool = False  # whether a cell may be known by limits only
    limits: Limits | None = None  # of the cells that questions are about (`given`)

    @property
    def has_evidence(self) -> bool:  # type: ignore[override]
        return self.has_limits or self.below > -inf or self.above < inf

    @property
    def n_details(self) -> int:
        return 2 if self.has_limits else 0

    @property
    def whole_values(self) -> Array | None:
        if self.step != 1.0:
            return None
        low, high = self._range
        return np.array([max(low, self.least, self.floor), min(high, self.largest)])

    def holds(self, x: Array) -> NDArray[np.bool_]:
        low, high = self.margin.family.range
        inside = (x >= low) & (x <= high)
        return np.asarray(inside | (x <= self.least) | (x >= self.largest))

    def admits(self, limits: Limits) -> NDArray[np.bool_]:
        """(c,) whether any value lies between limits; the ends of the range are none."""
        low, high = self._range
        return np.asarray((limits.upper > low) & (limits.lower < high))

    def encode(self, x: Array, details: Array | None = None) -> Cells:
        exact, first, second = (missing(len(x)) for _ in range(3))
        if self.has_limits and details is not None:
            censored = np.isnan(x) & ~np.isnan(details).all(axis=1)
            limits = self._limits_of_u(Limits.of(details[censored]))
            first[censored, 0], second[censored, 0] = limits
        low, high = x <= self.least, x >= self.largest
        inner = ~(low | high | np.isnan(x))
        exact[inner, 0] = self.margin.forward(self._off_the_ends(x[inner]))
        first[low], second[low] = -inf, self.below
        first[high], second[high] = self.above, inf
        return Cells(exact, first, second)

    def given(self, details: Array) -> Self:
        if not self.has_limits or np.isnan(details).all():
            return self
        return replace(self, limits=Limits.of(details))

    def _limits_of_u(self, limits: Limits) -> Limits:
        """Of u, for limits of x; at or beyond the atoms' values those are the thresholds."""
        with np.errstate(divide="ignore"):
            lower, upper = (self.margin.forward(np.clip(x, *self._range)) for x in limits)
        lower = np.where(limits.lower <= self.least, self.below, lower)
        lower = np.where(limits.lower < self.least, -inf, lower)
        upper = np.where(limits.upper <= self.least, self.below, upper)
        upper = np.where(limits.upper >= self.largest, inf, upper)
        lower = np.where(limits.lower >= self.largest, self.above, lower)
        return Limits(lower, upper)

    @property
    def _range(self) -> tuple[float, float]:
        return self.margin.family.range

    def _off_the_ends(self, x: Array) -> Array:
        """Values at or near an open end are moved to where u is `FARTHEST` from 0."""
        low, high = self._range
        if low > -inf:
            x = np.maximum(x, self.margin.inverse(np.array([-FARTHEST])))
        if high < inf:
            x = np.minimum(x, self.margin.inverse(np.array([FARTHEST])))
        return x

    def log_slope(self, x: Array) -> Array:
        slope = np.zeros(len(x))
        inner = (x > self.least) & (x < self.largest)
        slope[inner] = self.margin.log_slope(self._off_the_ends(x[inner]))
        return slope

    def quantile(self, share: float | Array, mean: Array, cov: Array) -> Array:
        if self.limits is None:
            return self._of_u(quantile_of_u(share, mean, cov))
        sd = np.sqrt(cov[:, 0, 0])
        lower, upper = ((end - mean[:, 0]) / sd for end in self._limits_of_u(self.limits))
        return self._within(self.limits, mean[:, 0] + sd * quantile_between(share, lower, upper))

    def mixed_quantile(self, share: float, resp: Array, mean: Array, cov: Array) -> Array:
        if self.limits is None:
            return super().mixed_quantile(share, resp, mean, cov)
        m, sd = mean[:, :, 0], np.sqrt(cov[:, :, 0, 0])  # (K, c)
        lower, upper = ((end - m) / sd for end in self._limits_of_u(self.limits))
        mass = truncated(lower, upper).log_mass
        ends = m + sd * quantile_between(share, lower, upper)

        def reached(u: Array) -> NDArray[np.bool_]:
            at = np.clip((u - m) / sd, lower, upper)
            with np.errstate(divide="ignore"):  # a component may have all of its mass above
                below = np.exp(truncated(lower, at).log_mass - mass)
            below = np.where(at > lower, below, 0.0)
            return np.asarray(np.einsum("ck,kc->c", resp, below) >= share)

        _, high = bisected(reached, ends.min(axis=0), ends.max(axis=0))
        return self._within(self.limits, high)

    def _within(self, limits: Limits, u: Array) -> Array:
        """(c,) values of u, between limits."""
        x, (lower, upper) = self._of_u(u), limits
        if self.step:  # whole numbers between the limits, where there are any
            low, high = np.ceil(lower / self.step), np.floor(upper / self.step)
            some = low <= high
            lower = np.where(some, low * self.step, lower)
            upper = np.where(some, high * self.step, upper)
        return np.asarray(np.clip(x, lower, upper))

    def log_score(self, x: Array, mean: Array, cov: Array) -> Array:
        exact, first, second = self.encode(x)
        sd = np.sqrt(cov[:, 0, 0])
        below = [ndtr((end[:, 0] - mean[:, 0]) / sd) for end in (first, second)]
        at_atom = np.log(np.maximum(below[1] - below[0], TINY))
        score = -0.5 * ((exact[:, 0] - mean[:, 0]) / sd) ** 2 - np.log(sd * np.sqrt(2.0 * pi))
        return np.where(np.isnan(exact[:, 0]), at_atom, np.maximum(score, np.log(TINY)))

    def tails(self, x: Array, mean: Array, cov: Array) -> tuple[Array, Array]:
        (exact, first, second), sd = self.encode(x), np.sqrt(cov[:, 0, 0])
        known = ~np.isnan(exact[:, 0])
        upper = np.where(known, exact[:, 0], second[:, 0]) - mean[:, 0]
        lower = np.where(known, exact[:, 0], first[:, 0]) - mean[:, 0]
        return ndtr(upper / sd), ndtr(-lower / sd)

    def deviance_moments(self, mean: Array, cov: Array) -> tuple[Array, Array, Array]:
        """s = r^2 + ln(2 pi sd^2) between the atoms, by truncated Gaussian moments up to r^6."""
        sd = np.sqrt(cov[:, 0, 0])
        low, high = ((end - mean[:, 0]) / sd for end in (self.below, self.above))
        moments = _truncated_moments(low, high)  # of r^0, r^2, r^4, r^6
        at_atoms = np.stack([ndtr(low), ndtr(-high)], axis=1)
        s = -2.0 * np.log(np.maximum(at_atoms, 1e-300))
        constant = np.log(2.0 * pi * sd**2)
        expected = np.sum(at_atoms * s, axis=1) + moments[1] + constant * moments[0]
        off, c = s - expected[:, None], constant - expected
        variance = np.sum(at_atoms * off**2, axis=1)
        variance += moments[2] + 2.0 * c * moments[1] + c**2 * moments[0]
        third = np.sum(at_atoms * off**3, axis=1) + moments[3]
        third += 3.0 * c * moments[2] + 3.0 * c**2 * moments[1] + c**3 * moments[0]
        return expected, variance, third

    def from_u(self, u: Array, rng: np.random.Generator) -> Array:
        return self._of_u(u[:, 0])

    def _of_u(self, u: Array) -> Array:
        x, least, largest = self.margin.inverse(u), self.least, self.largest
        if self.step:  # what lies between the atoms' thresholds has a value between theirs
            x = np.round(x / self.step) * self.step
            least = (np.floor(least / self.step) + 1.0) * self.step
            largest = (np.ceil(largest / self.step) - 1.0) * self.step
        x = np.clip(np.maximum(x, self.floor), least, largest)
        return np.where(u <= self.below, self.least, np.where(u > self.above, self.largest, x))


def quantile_between(share: float | Array, lower: Array, upper: Array) -> Array:
    """(c,) of N(0, 1) between two limits, from the upper tail, in which no digits are lost."""
    mirrored = np.abs(lower) > np.abs(upper)
    near, far = np.where(mirrored, -upper, lower), np.where(mirrored, -lower, upper)
    share = np.where(mirrored, 1.0 - share, share)
    above = log_ndtr(-near) + np.log1p(share * np.expm1(log_ndtr(-far) - log_ndtr(-near)))
    x: Array = np.clip(-ndtri_exp(above), near, far)
    return np.where(mirrored, -x, x)


def _truncated_moments(low: Array, high: Array) -> Array:
    """(4, c) integrals of r^0, r^2, r^4 and r^6 times the standard normal density."""
    found = np.empty((4, len(low)))
    found[0] = ndtr(high) - ndtr(low)
    ends = [np.clip(end, -FARTHEST_ROOT, FARTHEST_ROOT) for end in (low, high)]
    at_ends = [np.exp(-0.5 * end**2) / np.sqrt(2.0 * pi) for end in ends]
    for k in (1, 2, 3):
        edge = ends[1] ** (2 * k - 1) * at_ends[1] - ends[0] ** (2 * k - 1) * at_ends[0]
        found[k] = (2 * k - 1) * found[k - 1] - edge
    return np.maximum(found, 0.0)
