"""The map of a continuous column, from its observed values: family, atoms, knots."""

from __future__ import annotations

from math import inf, log

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import log_ndtr, ndtr, ndtri

from eigengap.linalg import Array
from eigengap.models.columns.continuous import ContinuousColumn
from eigengap.models.columns.maps import Family, Identity, Log, Logit, Margin, YeoJohnson

ATOM = 0.05  # share of the cells from which a bound is an atom, not a value like others
POWERS = (0.0, 2.0)  # of Yeo and Johnson's family, a logarithm at both ends: beyond, x is infinite
# Anderson and Darling's statistic beyond which normal scores are corrected by ranks: its level is
# 1 % (Stephens 1974, mean and variance estimated).
REJECTED = 1.035
FEWEST_RANKS = 100  # values from which a correction by ranks is worth its noise
PER_KNOT, MOST_KNOTS = 20, 40  # values for each knot of the correction, and most knots


def continuous_column(
    values: Array,  # (n,) without NaN
    *,
    family: str = "auto",
    lower: float = -inf,
    upper: float = inf,
) -> ContinuousColumn:
    """The column of these values, which lie within the bounds."""
    n = len(values)
    least, largest = float(np.min(values)), float(np.max(values))
    share_low = np.count_nonzero(values == least) / n
    share_high = np.count_nonzero(values == largest) / n
    has_low = share_low >= ATOM or least == lower
    has_high = share_high >= ATOM or largest == upper
    kept = np.ones(n, dtype=bool)
    if has_low:
        kept &= values > least
    if has_high:
        kept &= values < largest
    inner = values[kept]
    atoms: dict[str, float] = {}
    if has_low and len(inner):
        atoms |= {"least": least, "below": float(ndtri(share_low))}
    if has_high and len(inner):
        atoms |= {"largest": largest, "above": float(ndtri(1.0 - share_high))}
    if least < largest and (not len(inner) or (atoms and np.ptp(inner) == 0.0)):
        return _of_atoms(inner, least, largest, share_low, share_high, atoms)
    if not len(inner) or np.ptp(inner) == 0.0:
        inner, atoms = values, {}
    step = 1.0 if np.all(inner == np.round(inner)) else 0.0
    chosen = _family(inner, family, lower, upper)
    y = chosen.forward(inner)
    if not atoms:
        centre, unit = float(np.mean(y)), float(np.std(y)) or 1.0
        margin = Margin(chosen, centre, unit)
        if family == "rank" or (family == "auto" and _is_rejected((y - centre) / unit)):
            margin = _ranked(margin, y, 0.0, 1.0)
        return ContinuousColumn(margin, step=step)
    # Between atoms u is a piece of a Gaussian: its quantiles are those of the ranks.
    low = share_low if "least" in atoms else 0.0
    high = 1.0 - share_high if "largest" in atoms else 1.0
    margin = _ranked(Margin(chosen, 0.0, 1.0), y, low, high)
    return ContinuousColumn(margin, step=step, **atoms)


def _of_atoms(
    inner: Array, least: float, largest: float, low: float, high: float, atoms: dict[str, float]
) -> ContinuousColumn:
    """Two atoms alone, or one value besides them, which lies amidst their thresholds."""
    if not len(inner):
        cut = float(ndtri(low))
        atoms = {"least": least, "below": cut, "largest": largest, "above": cut}
        return ContinuousColumn(Margin(Identity(), 0.0, 1.0), **atoms)
    low = low if "least" in atoms else 0.0
    high = high if "largest" in atoms else 0.0
    amidst = float(ndtri((low + 1.0 - high) / 2.0))
    return ContinuousColumn(Margin(Identity(), float(inner[0]) - amidst, 1.0), **atoms)


def _family(values: Array, asked: str, lower: float, upper: float) -> Family:
    """The family asked for, or the one of the largest likelihood at a price of ln(n) / 2."""
    least = float(np.min(values))
    positive = Log(lower if lower > -inf else 0.0)
    if asked == "log":
        return positive
    if asked == "logit" or (asked == "auto" and lower > -inf and upper < inf):
        return Logit(lower, upper)
    if asked == "identity" or np.ptp(values) == 0.0:
        return Identity()
    power = _power(values)
    if asked == "yeo-johnson":
        return power
    if lower > -inf:  # nothing may be imputed below
        return positive
    if upper < inf:
        return Logit(least - (upper - least), upper)
    candidates: list[tuple[Family, int]] = [(Identity(), 0), (power, 1)]
    if least > 0.0:
        candidates.append((Log(), 1))
    price = log(len(values)) / 2.0
    return max(candidates, key=lambda c: _log_likelihood(c[0], values) - c[1] * price)[0]


def _power(values: Array) -> YeoJohnson:
    """Yeo and Johnson's family about the median, in units of the quartiles' range."""
    q1, centre, q3 = np.quantile(values, [0.25, 0.5, 0.75])
    unit = float(q3 - q1) / 1.349 or float(np.std(values))
    found = minimize_scalar(
        lambda p: -_log_likelihood(YeoJohnson(p, float(centre), unit), values),
        bounds=POWERS,
        method="bounded",
    )
    return YeoJohnson(float(found.x), float(centre), unit)


def _log_likelihood(family: Family, values: Array) -> float:
    """Of Gaussian y at its own mean and variance, less constants."""
    y = family.forward(values)
    variance = float(np.var(y))
    if not variance > 0.0 or not np.isfinite(variance):
        return -inf
    return float(np.sum(family.log_slope(values))) - 0.5 * len(values) * log(variance)


def _is_rejected(score: Array) -> bool:
    """Whether these standard scores are not Gaussian: Anderson and Darling's test."""
    n = len(score)
    if n < FEWEST_RANKS:
        return False
    z = np.sort(score)
    i = np.arange(1, n + 1)
    statistic = -n - np.mean((2 * i - 1) * (log_ndtr(z) + log_ndtr(-z[::-1])))
    return bool(statistic * (1.0 + 0.75 / n + 2.25 / n**2) > REJECTED)


def _ranked(margin: Margin, y: Array, low: float, high: float) -> Margin:
    """The margin with knots at quantiles of y, whose share lies between low and high."""
    n = len(y)
    m = int(np.clip(n // PER_KNOT, 4, MOST_KNOTS))
    first, last = ndtri(low + (high - low) / (n + 1)), ndtri(high - (high - low) / (n + 1))
    u = np.linspace(first, last, m)
    share = (ndtr(u) - low) / (high - low)
    at = np.quantile(y, np.clip(share, 0.0, 1.0), method="hazen")
    kept = np.concatenate([[True], np.diff(at) > 1e-9 * max(float(np.ptp(y)), 1e-300)])
    if np.count_nonzero(kept) < 2:
        return margin
    at, u = at[kept], u[kept]
    unit = float((at[-1] - at[0]) / (u[-1] - u[0]))
    return Margin(margin.family, 0.0, unit, (at, u))
