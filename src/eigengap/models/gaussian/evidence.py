"""What a cell says about its Gaussian u, and the moments of u once that is known.

A value of a continuous column is u itself, up to the column's map. Other cells give evidence: u
lies in an interval (an ordinal level, a censored value), or a count was drawn whose rate is exp(u).
Expectation propagation (`models.gaussian.sites`) needs of each the mass of N(a, s^2) times the
evidence, and mean and variance of the product.

**Intervals.** With Z the mass of N(0, 1) on (l, h] and phi its density,

    mean = (phi(l) - phi(h)) / Z,    variance = 1 + (l phi(l) - h phi(h)) / Z - mean^2

(Johnson, Kotz and Balakrishnan 1994, section 13.10.1). The difference loses its digits where the
interval is narrow and where it lies far in a tail. There the moments are integrals over the
interval, about its near end, by Gauss and Legendre's rule: no term cancels.

**Counts.** y ~ Poisson(size exp(u)), or negative binomial of that mean with variance mean +
mean^2 / shape. Both are log-concave in u, so that the product has one mode, found by Newton's
method; the moments are integrals on both sides of it, by Gauss and Legendre's rule.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import factorial, inf, pi
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, ndtr

from eigengap.compiled.choice import Kernels
from eigengap.linalg import Array

Rows = NDArray[np.intp] | NDArray[np.bool_] | slice

KERNELS = Kernels("sites_numba", compiling=9.0)
# Seconds that the kernels save on one cell, an interval or a count, that is visited once; measured.
SAVED, SAVED_COUNT = 4e-7, 1.5e-6


class Moments(NamedTuple):
    """Of a Gaussian times the evidence of a cell: its mass, and its moments once normalised."""

    log_mass: Array
    mean: Array
    variance: Array


@dataclass(frozen=True, eq=False)
class Evidence:
    """What the cells of some columns, m of them, say about their u; NaN where they are missing.

    An interval is lower < u <= upper. A count y has the mean exp(u + log_size): it is Poisson
    where `shape` is infinite, else negative binomial.
    """

    is_count: NDArray[np.bool_]  # (m,)
    first: Array  # (c, m) lower, or y
    second: Array  # (c, m) upper, or log_size
    shape: Array  # (m,) of the negative binomial

    @classmethod
    def intervals(cls, lower: Array, upper: Array) -> Evidence:
        m = lower.shape[1]
        return cls(np.zeros(m, dtype=bool), lower, upper, np.full(m, inf))

    @property
    def informative(self) -> NDArray[np.bool_]:
        """(c, m) cells that say anything."""
        return ~np.isnan(self.first)

    def saved_seconds(self, rows: int) -> float:
        """What the kernels save on one visit of so many rows."""
        return rows * float(np.where(self.is_count, SAVED_COUNT, SAVED).sum())

    def take(self, rows: Rows) -> Evidence:
        return Evidence(self.is_count, self.first[rows], self.second[rows], self.shape)

    def tilted(self, mean: Array, variance: Array) -> Moments:
        """Of N(mean, variance) times the evidence: (c, m) each; as they are where it is missing."""
        log_mass, u, of_u = np.zeros(mean.shape), mean.copy(), variance.copy()
        known = self.informative
        for counts in np.unique(self.is_count):
            at = known & (self.is_count == counts)
            a, v, first, second = mean[at], variance[at], self.first[at], self.second[at]
            if counts:
                shape = np.broadcast_to(self.shape, mean.shape)[at]
                found = Counts(first, second, shape).tilted(a, v)
            else:
                sd = np.sqrt(v)
                mass, inside, share = truncated((first - a) / sd, (second - a) / sd)
                found = Moments(mass, a + sd * inside, v * share)
            log_mass[at], u[at], of_u[at] = found
        return Moments(log_mass, u, of_u)


# Intervals --------------------------------------------------------------------------------------

# From this bound on, or on an interval this narrow, the closed form has lost three digits.
TAIL, NARROW = 3.0, 1.0
# exp(-74 / 2) is below rounding: farther from the near end there is no mass. 32 nodes integrate
# exp(-37 t) over (0, 1) to rounding, and counts under a Gaussian of variance 10 to 1e-10. On a
# narrow interval outside the tail it is at most exp(-3.5 t), for which 8 do.
NEGLIGIBLE = 74.0


def _on_unit_interval(n: int) -> tuple[Array, Array]:
    nodes, weights = np.polynomial.legendre.leggauss(n)
    return (nodes + 1.0) / 2.0, weights / 2.0


FEW, MANY = _on_unit_interval(8), _on_unit_interval(32)


def truncated(lower: Array, upper: Array) -> Moments:
    """Moments of N(0, 1) on (lower, upper], entry by entry; bounds may be infinite."""
    lower, upper = np.broadcast_arrays(lower, upper)
    mirrored = np.abs(lower) > np.abs(upper)  # then -x lies on the side of the upper tail
    near, far = np.where(mirrored, -upper, lower), np.where(mirrored, -lower, upper)
    tail = near > TAIL
    narrow = ~tail & (far - near < NARROW)
    hard = tail | narrow
    log_mass, mean, variance = _closed_form(np.where(hard, -1.0, near), np.where(hard, 1.0, far))
    for some, rule in ((tail, MANY), (narrow, FEW)):
        if np.any(some):
            log_mass[some], mean[some], variance[some] = _integrals(near[some], far[some], *rule)
    return Moments(log_mass, np.where(mirrored, -mean, mean), variance)


def _closed_form(near: Array, far: Array) -> Moments:
    mass = ndtr(-near) - ndtr(-far)
    at_near, at_far = (np.exp(-0.5 * x**2) / (np.sqrt(2.0 * pi) * mass) for x in (near, far))
    mean = at_near - at_far
    finite_near, finite_far = np.nan_to_num(near, neginf=0.0), np.nan_to_num(far, posinf=0.0)
    variance = 1.0 + finite_near * at_near - finite_far * at_far - mean**2
    return Moments(np.log(mass), mean, variance)


def _integrals(near: Array, far: Array, nodes: Array, weights: Array) -> Moments:
    """With x = near + s the density is proportional to exp(-s (near + s / 2)): (k,) each."""
    outward = np.maximum(near, 0.0)
    reach = NEGLIGIBLE / (np.sqrt(outward**2 + NEGLIGIBLE) + outward)
    width = np.minimum(far - near, reach)
    s = width[:, None] * nodes
    density = np.exp(-s * (near[:, None] + s / 2.0)) * weights
    mass, first, second = (np.einsum("ik,ik->i", density, s**k) for k in range(3))
    offset = first / mass
    log_mass = np.log(mass * width) - 0.5 * near**2 - 0.5 * np.log(2.0 * pi)
    return Moments(log_mass, near + offset, second / mass - offset**2)


# Counts -----------------------------------------------------------------------------------------

MOST_NEWTON = 60  # steps to the mode; each halves its error at worst
LARGEST_STEP = 2.0  # of Newton's method in u: exp(u) must not overflow on the way
LARGEST_LOG = 700.0  # exp of it is finite
# Steps to where the density is negligible, and how near to it they end. Far outside a step halves
# the distance: 8 do for counts of thousands, 30 for counts of 1e12, whose u is known to 1e-6.
MOST_REACH, CLOSE = 40, 1.01
FLAT = 1e6  # variance of u that says nothing beside a count


@dataclass(frozen=True, eq=False)
class Counts:
    """y of mean exp(u + log_size): Poisson where shape is infinite, else negative binomial."""

    y: Array  # (k,)
    log_size: Array  # (k,)
    shape: Array  # (k,)

    def tilted(self, mean: Array, variance: Array) -> Moments:
        at = self._mode(mean, variance)
        slope = self._slopes(at)[0] - (at - mean) / variance  # zero where Newton has converged
        mass, first, second = (np.zeros(len(at)) for _ in range(3))
        nodes, weights = MANY
        for side in (-1.0, 1.0):
            reach = self._reach(at, slope, side, variance)
            s = nodes[:, None] * reach
            fall = np.clip(self._fall(at, s, slope, variance)[0], -LARGEST_LOG, LARGEST_LOG)
            density = weights[:, None] * np.exp(-fall) * np.abs(reach)
            mass += density.sum(axis=0)
            first += np.einsum("ki,ki->i", density, s)
            second += np.einsum("ki,ki,ki->i", density, s, s)
        offset = first / mass
        gaussian = -0.5 * ((at - mean) ** 2 / variance + np.log(2.0 * pi * variance))
        log_mass = self.log_density(at) + gaussian + np.log(mass)
        return Moments(log_mass, at + offset, second / mass - offset**2)

    def alone(self) -> tuple[Array, Array]:
        """Nodes and weights (n, k) of an average over u given a count y > 0 alone, a priori flat.

        A count is y or more with the probability that this u is below its own.
        """
        at, zero = np.log(self.y) - self.log_size, np.zeros(len(self.y))
        flat, (nodes, weights) = np.full(len(at), FLAT), MANY
        u, density = [], []
        for side in (-1.0, 1.0):
            reach = self._reach(at, zero, side, flat)
            s = nodes[:, None] * reach
            fall = np.minimum(self._fall(at, s, zero, flat)[0], LARGEST_LOG)
            u.append(at + s)
            density.append(weights[:, None] * np.exp(-fall) * np.abs(reach))
        weight = np.concatenate(density)
        return np.concatenate(u), weight / weight.sum(axis=0)

    def log_density(self, u: Array) -> Array:
        """ln p(y | u): its largest value, where the mean is y, less what it has fallen by since.

        The terms of ln p itself grow with y, and of 1e15 their difference would have no digit left.
        """
        y, log_mean = self.y, np.minimum(u + self.log_size, LARGEST_LOG)
        some = np.maximum(y, 1.0)
        fall = _fall_of_counts(log_mean - np.log(some), some, some, self.shape)[0]
        r, mean = np.where(np.isinf(self.shape), 1.0, self.shape), np.exp(log_mean)
        of_none = np.where(np.isinf(self.shape), mean, r * np.log1p(mean / r))
        return np.where(y > 0.0, _log_largest(some, self.shape) - fall, -of_none)

    def _slopes(self, u: Array) -> tuple[Array, Array]:
        """First derivative of ln p(y | u) by u, and the second with its sign changed."""
        mean = np.exp(np.minimum(u + self.log_size, LARGEST_LOG))
        weight = 1.0 / (1.0 + mean / self.shape)
        return (self.y - mean) * weight, mean * weight**2 * (1.0 + self.y / self.shape)

    def _fall(self, at: Array, s: Array, slope: Array, variance: Array) -> tuple[Array, Array]:
        """What the log of the joint density has fallen by at s from its mode, and the derivative.

        At the mode the linear terms of evidence and Gaussian cancel, but for `slope`.
        """
        mean = np.exp(np.minimum(at + self.log_size, LARGEST_LOG))
        evidence, by_evidence = _fall_of_counts(s, mean, self.y, self.shape)
        fall, by = s * (0.5 * s / variance - slope), s / variance - slope
        return fall + evidence, by + by_evidence

    def _mode(self, mean: Array, variance: Array) -> Array:
        """Where the product is largest: damped Newton's method, for Poisson from a bound.

        The mode lies between the mean and ln(y / size). Above the latter exp(u) size is at most y
        plus the pull of the Gaussian; below ln(y / size) - 1 that pull is at least 0.6 y.
        """
        x = mean + self.log_size
        with np.errstate(divide="ignore"):
            log_y = np.log(self.y)
        above = np.log(np.maximum(self.y + np.maximum(x, 0.0) / variance, 1.0))
        below = np.minimum(log_y - 1.0, x + 0.6 * variance * self.y)
        start = np.where(x > log_y, np.minimum(x, above), np.maximum(x, below))
        u = np.where(np.isinf(self.shape), start - self.log_size, mean)
        for _ in range(MOST_NEWTON):
            slope, curve = self._slopes(u)
            step = (slope - (u - mean) / variance) / (curve + 1.0 / variance)
            u += np.clip(step, -LARGEST_STEP, LARGEST_STEP)
            if np.max(np.abs(step), initial=0.0) < 1e-10:
                break
        return u

    def _reach(self, at: Array, slope: Array, side: float, variance: Array) -> Array:
        """How far from the mode the density is negligible: Newton's method from outside.

        The evidence only narrows the Gaussian, which bounds it; the fall is convex, so that no step
        goes too far. A Poisson density falls exponentially above its mode, which is a bound too.
        """
        half = NEGLIGIBLE / 2.0
        s = np.sqrt(NEGLIGIBLE * variance)
        if side > 0.0:
            rate = np.exp(np.clip(at + self.log_size, -LARGEST_LOG, LARGEST_LOG))
            s = np.where(np.isinf(self.shape), np.minimum(s, np.log1p(half / rate + s)), s)
        s = side * s
        for _ in range(MOST_REACH):
            fall, by = self._fall(at, s, slope, variance)
            far = fall > CLOSE * half
            if not far.any():
                break
            s = np.where(far, s - (fall - half) / np.where(far, by, 1.0), s)
        return s


SMALL = 0.1  # below it ten terms of a series give exp(s) - 1 - s, whose difference loses digits
SERIES = tuple(1.0 / factorial(k) for k in range(2, 12))
STIRLING = 15.0  # from here on four terms of Stirling's series give ln Gamma to 2e-14


def _fall_of_counts(s: Array, mean: Array, y: Array, shape: Array) -> tuple[Array, Array]:
    """What ln p(y | u) falls by, but for its linear term, at s from a u of this mean; by s."""
    is_poisson = np.isinf(shape)
    if is_poisson.all():
        return mean * _beyond_linear(s), mean * np.expm1(np.minimum(s, LARGEST_LOG))
    r = np.where(is_poisson, 1.0, shape)
    fall, by = _binomial_fall(s, mean, r, y + r)
    if not is_poisson.any():
        return fall, by
    poisson, by_poisson = _fall_of_counts(s, mean, y, np.full_like(shape, inf))
    return np.where(is_poisson, poisson, fall), np.where(is_poisson, by_poisson, by)


def _binomial_fall(s: Array, mean: Array, r: Array, total: Array) -> tuple[Array, Array]:
    """total (ln(p exp(s) + 1 - p) - p s) for p = mean / (mean + r), and its derivative.

    It is the same of 1 - p and -s: the smaller of p and 1 - p keeps its digits.
    """
    above = mean > r
    p, sign = np.where(above, r, mean) / (mean + r), np.where(above, -1.0, 1.0)
    t = sign * s
    grown = np.expm1(np.minimum(t, LARGEST_LOG))
    log = np.log1p(p * grown) + np.maximum(t - LARGEST_LOG, 0.0)
    by = (1.0 - p) * grown / (1.0 + p * grown)
    return total * (log - p * t), sign * total * p * by


def _beyond_linear(s: Array) -> Array:
    """exp(s) - 1 - s."""
    small = np.clip(s, -SMALL, SMALL)
    near = small**2 * np.polynomial.polynomial.polyval(small, SERIES)
    return np.where(np.abs(s) < SMALL, near, np.expm1(np.minimum(s, LARGEST_LOG)) - s)


def _log_largest(y: Array, shape: Array) -> Array:
    """ln p(y) of a count y > 0 whose mean is y."""
    poisson = -_log_gamma_rest(y) - np.log(y)
    r = np.where(np.isinf(shape), 1.0, shape)
    more = _log_gamma_rest(y + r) - _log_gamma_rest(r)
    return np.where(np.isinf(shape), poisson, poisson + more)


def _log_gamma_rest(x: Array) -> Array:
    """ln Gamma(x) - (x ln x - x), without the difference of large numbers."""
    far, near = np.maximum(x, STIRLING), np.minimum(x, STIRLING)
    w = 1.0 / (far * far)
    series = (1.0 / 12.0 - w * (1.0 / 360.0 - w * (1.0 / 1260.0 - w / 1680.0))) / far
    by_series = 0.5 * np.log(2.0 * pi / far) + series
    return np.where(x >= STIRLING, by_series, gammaln(near) - near * np.log(near) + near)
