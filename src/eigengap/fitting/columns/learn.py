"""The map of a continuous column, from its observed values: family, atoms, knots."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf, log, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from scipy.special import log_ndtr, ndtr, ndtri

from eigengap.fitting.columns.survey import ColumnCells
from eigengap.linalg import Array
from eigengap.models.columns.continuous import ContinuousColumn
from eigengap.models.columns.maps import Family, Identity, Log, Logit, Margin, YeoJohnson

ROUNDING = 1e-12  # of a share of weights
BETWEEN = 1e-6  # of a row: two numbers of rows that differ by less are the same
ENDS = (("least", "below"), ("largest", "above"))  # of an atom: its value, its threshold
ATOM = 0.05  # share of the cells from which a bound is an atom, not a value like others
FEWEST_IN_ATOM = 3.0  # cells; of 20 or fewer any one makes up a share as large
POWERS = (0.0, 2.0)  # of Yeo and Johnson's family, a logarithm at both ends: beyond, x is infinite
# Anderson and Darling's statistic beyond which normal scores are corrected by ranks: its level is
# 1 % (Stephens 1974, mean and variance estimated).
REJECTED = 1.035
CLOSE = 1e-9  # spread of values relative to their distance from the end of a range
FEWEST_RANKS = 100  # values from which a correction by ranks is worth its noise
# Values that choose the family and its power, which is then known to 0.02 or so. Quantiles are
# those of all values.
FAMILY_CELLS = 20_000
QUARTILES = np.array([0.25, 0.5, 0.75])
PER_KNOT, MOST_KNOTS = 20, 40  # values for each knot of the correction, and most knots


def continuous_column(
    cells: ColumnCells,  # values that lie within the bounds
    *,
    family: str = "auto",
    lower: float = -inf,
    upper: float = inf,
) -> ContinuousColumn:
    """The column of these values: atoms by the facts of all of them, the map by those at hand."""
    facts = cells.facts
    least, largest = facts.least, facts.largest
    share_low, share_high = facts.share_at_least, facts.share_at_largest
    has_low = _is_atom(facts.at_least, facts.total) or least == lower
    has_high = _is_atom(facts.at_largest, facts.total) or largest == upper
    # Beside an atom the cells of the other bound are compared with those that are left.
    has_high = has_high or (has_low and _is_atom(facts.at_largest, facts.total - facts.at_least))
    has_low = has_low or (has_high and _is_atom(facts.at_least, facts.total - facts.at_largest))
    kept = np.ones(len(cells.values), dtype=bool)
    fractional = facts.fractional
    if has_low:
        kept &= cells.values > least
        fractional -= facts.fractional_at_least
    if has_high:
        kept &= cells.values < largest
        fractional -= facts.fractional_at_largest if largest > least or not has_low else 0
    inner = Weighted.of(cells, kept)
    atoms: dict[str, Any] = {}
    if has_low and len(inner.x):
        atoms |= {"least": least, "below": float(ndtri(share_low))}
    if has_high and len(inner.x):
        atoms |= {"largest": largest, "above": float(ndtri(1.0 - share_high))}
    step = 0.0 if fractional else 1.0
    if least < largest and (not len(inner.x) or (atoms and np.ptp(inner.x) == 0.0)):
        return _of_atoms(inner.x, least, largest, share_low, share_high, atoms, step)
    if not len(inner.x) or np.ptp(inner.x) == 0.0:
        inner, atoms = Weighted.of(cells), {}
        step = 0.0 if facts.fractional else 1.0
    chosen = _family(inner, family, lower, upper)
    y = Weighted(chosen.forward(inner.x), inner.f)
    if not atoms:
        centre, unit = y.mean, y.sd or 1.0
        margin = Margin(chosen, centre, unit)
        score = (y.x - centre) / unit
        if family == "rank" or (family == "auto" and is_rejected(score, y.f)):
            margin = _ranked(margin, y, 0.0, 1.0)
        return ContinuousColumn(margin, step=step)
    # Between atoms u is a piece of a Gaussian: its quantiles are those of the ranks.
    low = share_low if "least" in atoms else 0.0
    high = 1.0 - share_high if "largest" in atoms else 1.0
    margin = _ranked(Margin(chosen, 0.0, 1.0), y, low, high)
    return ContinuousColumn(margin, step=step, **atoms)


def _is_atom(at_bound: float, total: float) -> bool:
    return at_bound >= max(ATOM * total, FEWEST_IN_ATOM) - ROUNDING * total


@dataclass(frozen=True, eq=False)
class Weighted:
    """Values (n,), and how often each of them counts: as if it were repeated."""

    x: Array
    f: Array | None = None

    @classmethod
    def of(cls, cells: ColumnCells, kept: NDArray[np.bool_] | None = None) -> Weighted:
        if kept is None or kept.all():
            return cls(cells.values, cells.frequency)
        return cls(cells.values[kept], None if cells.frequency is None else cells.frequency[kept])

    def few(self) -> Weighted:
        """FAMILY_CELLS of them at most: every so manieth."""
        if len(self.x) <= FAMILY_CELLS:
            return self
        at = np.linspace(0, len(self.x) - 1, FAMILY_CELLS).astype(np.intp)
        return Weighted(self.x[at], None if self.f is None else self.f[at])

    @property
    def n(self) -> float:
        return float(len(self.x)) if self.f is None else float(np.sum(self.f))

    @property
    def mean(self) -> float:
        return float(np.average(self.x, weights=self.f))

    @property
    def sd(self) -> float:
        """In units of the farthest value, whose square may underflow or overflow."""
        off = self.x - self.mean
        unit = float(np.max(np.abs(off)))
        if unit == 0.0 or not np.isfinite(unit):
            return unit
        return unit * sqrt(float(np.average((off / unit) ** 2, weights=self.f)))

    def sum_of(self, values: Array) -> float:
        """The sum of one number for each value."""
        return float(np.sum(values if self.f is None else self.f * values))

    def quantiles(self, shares: Array) -> Array:
        """As `numpy.quantile` finds them of repeated values."""
        if self.f is None:
            return np.quantile(self.x, shares)
        order = np.argsort(self.x, kind="stable")
        x, ends = self.x[order], np.cumsum(self.f[order])
        n = float(ends[-1])
        place = np.clip((n - 1.0) * shares, 0.0, max(n - 1.0, 0.0))
        first = np.floor(place + BETWEEN)  # a number that was meant to be whole, is

        def at(number: Array) -> Array:  # the values of these numbers, from 0 on
            found = np.searchsorted(ends, number + BETWEEN, side="right")
            return x[np.minimum(found, len(x) - 1)]

        low = at(first)
        return low + np.maximum(place - first, 0.0) * (at(first + 1.0) - low)

    def midst(self) -> tuple[Array, Array]:
        """The different values, and the share of those below with half of its own: Hazen's rule.

        Values that occur once have the places of `numpy.quantile`'s method "hazen"; one that
        occurs often has the place of the middle one of its cells.
        """
        if self.f is None:
            x, times = np.unique(self.x, return_counts=True)
        else:
            x, at = np.unique(self.x, return_inverse=True)
            times = np.bincount(at, self.f)
        ends = np.cumsum(times)
        return x, (ends - times / 2.0) / ends[-1]


def _of_atoms(
    inner: Array,
    least: float,
    largest: float,
    low: float,
    high: float,
    atoms: dict[str, Any],
    step: float,
) -> ContinuousColumn:
    """Two atoms alone, or one value besides them, which lies amidst their thresholds.

    The unit is such that the map meets the value of the nearer atom at its threshold.
    """
    if not len(inner):
        cut = float(ndtri(low))
        atoms = {"least": least, "below": cut, "largest": largest, "above": cut}
        return ContinuousColumn(Margin(Identity(), 0.0, 1.0), **atoms)
    low = low if "least" in atoms else 0.0
    high = high if "largest" in atoms else 0.0
    amidst, x = float(ndtri((low + 1.0 - high) / 2.0)), float(inner[0])
    units = [abs(x - atoms[key]) / abs(amidst - atoms[at]) for key, at in ENDS if key in atoms]
    unit = min(units)
    return ContinuousColumn(Margin(Identity(), x - unit * amidst, unit), step=step, **atoms)


def _family(values: Weighted, asked: str, lower: float, upper: float) -> Family:
    """The family asked for, or the one of the largest likelihood at a price of ln(n) / 2."""
    least = float(np.min(values.x))
    values = values.few()

    def log_likelihood(family: Family) -> float:
        return _log_likelihood(family, values)

    def power() -> YeoJohnson:
        return power_family(values.quantiles(QUARTILES), values.sd, log_likelihood)

    return best_of(
        candidates(values.x, asked, lower, upper, power, least), log_likelihood, values.n
    )


def best_of(
    found: list[tuple[Family, int]], log_likelihood: Callable[[Family], float], n: float
) -> Family:
    """The family of the largest likelihood, at a price of ln(n) / 2 for a parameter."""
    if len(found) == 1:
        return found[0][0]
    return max(found, key=lambda c: log_likelihood(c[0]) - c[1] * log(n) / 2.0)[0]


def candidates(
    values: Array,
    asked: str,
    lower: float,
    upper: float,
    power: Callable[[], Family],
    least: float | None = None,  # of more than these values
) -> list[tuple[Family, int]]:
    """Families that come into question, and how many parameters each has of its own."""
    least = float(np.min(values)) if least is None else least
    positive: Family = Log(lower if lower > -inf else 0.0)
    if 0.0 < np.ptp(values) < CLOSE * (least - positive.range[0]):
        positive = Identity()  # a logarithm is a straight line there, and would lose digits
    if asked == "log":
        return [(positive, 1)]
    if asked == "logit" or (asked == "auto" and lower > -inf and upper < inf):
        return [(Logit(lower, upper), 0)]
    if asked == "identity" or np.ptp(values) == 0.0:
        return [(Identity(), 0)]
    if asked == "yeo-johnson":
        return [(power(), 1)]
    if lower > -inf:  # nothing may be imputed below
        return [(positive, 1)]
    if upper < inf:
        return [(Logit(least - (upper - least), upper), 0)]
    found: list[tuple[Family, int]] = [(Identity(), 0), (power(), 1)]
    return [*found, (Log(), 1)] if least > 0.0 else found


def power_family(
    quartiles: Array, spread: float, log_likelihood: Callable[[Family], float]
) -> YeoJohnson:
    """Yeo and Johnson's family of the largest likelihood.

    It is about the median, in units of the quartiles' range, or of the spread where that is 0.
    """
    q1, centre, q3 = quartiles.tolist()
    unit = (q3 - q1) / 1.349 or spread
    found = minimize_scalar(
        lambda p: -log_likelihood(YeoJohnson(p, centre, unit)), bounds=POWERS, method="bounded"
    )
    return YeoJohnson(float(found.x), centre, unit)


def _log_likelihood(family: Family, values: Weighted) -> float:
    """Of Gaussian y at its own mean and standard deviation, less constants."""
    sd = Weighted(family.forward(values.x), values.f).sd
    if not sd > 0.0 or not np.isfinite(sd):
        return -inf
    return values.sum_of(family.log_slope(values.x)) - values.n * log(sd)


def is_rejected(score: Array, frequency: Array | None = None) -> bool:
    """Whether these standard scores are not Gaussian: Anderson and Darling's test."""
    n = Weighted(score, frequency).n
    if n < FEWEST_RANKS:
        return False
    if frequency is None:
        z, f = np.sort(score), np.ones(len(score))
    else:
        order = np.argsort(score, kind="stable")
        z, f = score[order], frequency[order]
    before = np.cumsum(f) - f  # values before each: it has the places from there on
    # Sums of 2 i - 1 over its places i, counted from the least and from the largest value.
    up, down = f * (2.0 * before + f), f * (2.0 * (n - before) - f)
    statistic = -n - (np.sum(up * log_ndtr(z)) + np.sum(down * log_ndtr(-z))) / n
    return bool(statistic * (1.0 + 0.75 / n + 2.25 / n**2) > REJECTED)


def _ranked(margin: Margin, y: Weighted, low: float, high: float) -> Margin:
    """The margin with knots at quantiles of y, whose share lies between low and high.

    A value that occurs often stands for all u of its share and has the u in their midst: the least
    of them would move whatever is drawn or imputed upwards. Each tail has the slope of its own half
    of the data, from the median to the end: that of both may come from the other side.
    """
    n = y.n
    m = int(np.clip(n // PER_KNOT, 4, MOST_KNOTS))
    values, below = y.midst()
    ends = max(below[0], 1.0 / (n + 1)), min(below[-1], n / (n + 1))
    z = np.linspace(ndtri(ends[0]), ndtri(ends[1]), m)
    share = ndtr(z)
    at, u = np.interp(share, below, values), ndtri(low + (high - low) * share)
    kept = np.concatenate([[True], np.diff(at) > 1e-9 * max(float(np.ptp(y.x)), 1e-300)])
    if np.count_nonzero(kept) < 2:
        return margin
    at, u, z = at[kept], u[kept], z[kept]
    unit = float((at[-1] - at[0]) / (u[-1] - u[0]))
    off = at[[0, -1]] - np.interp(0.5, below, values)
    both = np.ptp(at) / np.ptp(z)
    slopes = [float(o / e if o * e > 0.0 else both) for o, e in zip(off, z[[0, -1]], strict=True)]
    return Margin(margin.family, 0.0, unit, (at, u), (low, high), (slopes[0], slopes[1]))
