"""The map of a column of which some values are known by limits only, "< 0.1" for instance.

The family of the map, its centre and its unit maximise the likelihood of a Gaussian y: an exact
value has a density, and limits have the probability between them (Tobin 1958). Where 100 exact
values or more still reject a Gaussian y, the map is corrected through quantiles of the
nonparametric maximum likelihood estimate of the distribution, by the self-consistent iteration of
Turnbull (1976), "The empirical distribution function with arbitrarily grouped, censored and
truncated data"; with right-censored values alone it is Kaplan and Meier's (1958). Between the least
and the largest exact value that estimate is determined; beyond, the map continues as its family
does.
"""

from __future__ import annotations

from functools import cache
from math import inf, log, pi

import numpy as np
from scipy.optimize import minimize
from scipy.special import ndtr, ndtri

from eigengap.fitting.columns.learn import (
    FEWEST_RANKS,
    MOST_KNOTS,
    PER_KNOT,
    QUARTILES,
    best_of,
    candidates,
    is_rejected,
    power_family,
)
from eigengap.linalg import Array
from eigengap.models.columns.continuous import ContinuousColumn, Limits, quantile_between
from eigengap.models.columns.maps import Family, Margin
from eigengap.models.gaussian.evidence import truncated

MOST_STEPS, SETTLED = 2000, 1e-7  # of the self-consistent iteration, and the change that ends it
LEAST_UNIT = 1e-3  # of a map, relative to the first guess: exact values may all be the same


def censored_column(
    values: Array,  # (n,) NaN where known by limits
    details: Array,  # (n, 2) lower and upper limits, NaN where there is none
    *,
    family: str = "auto",
    lower: float = -inf,
    upper: float = inf,
) -> ContinuousColumn:
    """The column of these values and limits, all between the bounds."""
    exact = ~np.isnan(values)
    limits = Limits.of(details[~exact & ~np.isnan(details).all(axis=1)])
    values = values[exact]
    if len(values) + len(limits.lower) == 0:
        raise ValueError("neither a value nor a limit to learn a column from")
    step = 1.0 if len(values) and np.all(values == np.round(values)) else 0.0
    known = np.concatenate([values, *(x[np.isfinite(x)] for x in limits)])
    n = len(values) + len(limits.lower)

    @cache
    def standard(of: Family) -> tuple[Margin, float]:
        return _standard(of, values, limits)

    def log_likelihood(of: Family) -> float:
        return standard(of)[1]

    def power() -> Family:
        spread = float(np.std(known)) or 1.0
        return power_family(np.quantile(known, QUARTILES), spread, log_likelihood)

    chosen = best_of(candidates(known, family, lower, upper, power), log_likelihood, n)
    margin = standard(chosen)[0]
    if family in ("auto", "rank") and len(values) >= FEWEST_RANKS:
        scores = np.concatenate([margin.forward(values), _spread(margin, limits)])
        if family == "rank" or is_rejected(scores):
            margin = _corrected(margin, values, limits)
    is_positive = family in ("auto", "log") and np.min(known) >= 0.0
    return ContinuousColumn(margin, step=step, floor=0.0 if is_positive else -inf, has_limits=True)


def _of_y(family: Family, limits: Limits) -> Limits:
    with np.errstate(divide="ignore"):
        return Limits(*(family.forward(np.clip(x, *family.range)) for x in limits))


def _standard(family: Family, values: Array, limits: Limits) -> tuple[Margin, float]:
    """Centre and unit of the largest likelihood, and its logarithm."""
    y, between = family.forward(values), _of_y(family, limits)
    ends = np.concatenate([y, *(x[np.isfinite(x)] for x in between)])
    guess, scale = float(np.mean(ends)), float(np.std(ends)) or 1.0
    pairs, times = np.unique(np.stack(between), axis=1, return_counts=True)
    slopes = float(np.sum(family.log_slope(values)))

    def minus(p: Array) -> tuple[float, Array]:
        """Less the log-likelihood, and its derivatives, at centre and ln unit in first guesses."""
        centre, unit = guess + scale * p[0], scale * np.exp(p[1])
        r = (y - centre) / unit
        low, high = (pairs - centre) / unit
        mass, mean, variance = truncated(low, high)
        value = slopes - np.sum(r**2) / 2.0 - len(y) * (log(unit) + log(2.0 * pi) / 2.0)
        value += float(times @ mass)
        by_centre = (np.sum(r) + times @ mean) * scale / unit
        by_unit = np.sum(r**2 - 1.0) + times @ (variance + mean**2 - 1.0)
        return -float(value), -np.array([by_centre, by_unit])

    bounds = [(None, None), (log(LEAST_UNIT), -log(LEAST_UNIT))]
    best = minimize(minus, np.zeros(2), jac=True, method="L-BFGS-B", bounds=bounds, tol=1e-12)
    centre, log_unit = best.x
    unit = scale * float(np.exp(log_unit))
    return Margin(family, guess + scale * float(centre), unit), -float(best.fun)


def _spread(margin: Margin, limits: Limits) -> Array:
    """Scores of the censored values: quantiles, evenly spread, of N(0, 1) between their limits."""
    u = _of_y(margin.family, limits)
    u = Limits(*((x - margin.centre) / margin.unit for x in u))
    _, group, size = np.unique(np.stack(u), axis=1, return_inverse=True, return_counts=True)
    order = np.argsort(group, kind="stable")
    place = np.empty(len(group))
    place[order] = np.arange(len(group)) - np.repeat(np.cumsum(size) - size, size)
    return quantile_between((place + 0.5) / size[group], *u)


def _corrected(margin: Margin, values: Array, limits: Limits) -> Margin:
    """The margin with knots at quantiles of the nonparametric estimate."""
    y, between = np.sort(margin.family.forward(values)), _of_y(margin.family, limits)
    at, mass = self_consistent(y, between)
    below = np.cumsum(mass) - mass / 2.0  # Hazen's rule
    first, last = np.searchsorted(at, [y[0], y[-1]])
    at, below = at[first : last + 1], below[first : last + 1]
    m = int(np.clip(len(y) // PER_KNOT, 4, MOST_KNOTS))
    u = np.linspace(ndtri(below[0]), ndtri(below[-1]), m)
    knots = np.interp(ndtr(u), below, at)
    kept = np.concatenate([[True], np.diff(knots) > 1e-9 * max(float(np.ptp(y)), 1e-300)])
    if np.count_nonzero(kept) < 2:
        return margin
    knots, u = knots[kept], u[kept]
    unit = float((knots[-1] - knots[0]) / (u[-1] - u[0]))
    return Margin(margin.family, 0.0, unit, (knots, u))


def self_consistent(values: Array, limits: Limits) -> tuple[Array, Array]:
    """Turnbull's estimate: where (k,) the distribution has mass, ascending, and how much.

    Mass lies at the exact values and, for limits between which there is none, in their midst, or at
    the one that is finite.
    """
    support = np.unique(values)
    lower, upper = limits
    empty = np.searchsorted(support, upper, "right") <= np.searchsorted(support, lower, "right")
    ends = np.stack([lower[empty], upper[empty]])
    finite = np.isfinite(ends)
    midst = np.where(finite, ends, 0.0).sum(axis=0) / np.maximum(finite.sum(axis=0), 1)
    beyond = np.where(finite[0] & ~finite[1], np.abs(midst) * 1e-9 + 1e-300, 0.0)
    support = np.unique(np.concatenate([support, midst + beyond]))
    exact = np.bincount(np.searchsorted(support, values), minlength=len(support))
    pairs, times = np.unique(
        np.stack(
            [np.searchsorted(support, lower, "right"), np.searchsorted(support, upper, "right")]
        ),
        axis=1,
        return_counts=True,
    )
    first, stop = pairs
    n = float(len(values) + len(lower))
    p = np.full(len(support), 1.0 / len(support))
    for _ in range(MOST_STEPS):
        total = np.concatenate([[0.0], np.cumsum(p)])
        share = times / np.maximum(total[stop] - total[first], 1e-300)
        ends_of = np.bincount(first, share, len(support) + 1)
        ends_of -= np.bincount(stop, share, len(support) + 1)
        new = (exact + p * np.cumsum(ends_of)[:-1]) / n
        change, p = float(np.max(np.abs(new - p))), new
        if change < SETTLED / len(p):
            break
    return support, p / p.sum()
