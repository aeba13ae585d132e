"""How many components there can be, and searches where each number needs a costly fit.

Each asks for as few fits as the question allows: the first minimum of a curve, its least value, or
the fewest components that explain a share of the variance.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

PATIENCE = 2  # doublings that may be worse in a row before the search turns back
PROBES = 3  # ranks tried between the best and its neighbours
FLAT = 0.02  # relative difference to a neighbour below which nothing lies between

RISES = 3  # values of q that may be worse in a row before `first_minimum` ends


def largest_rank(d: int, rows_observed: float) -> int:
    """Most components considered: q < d, and two rows for each.

    Beyond half of the rows the likelihood of a d x d covariance degenerates.
    """
    return max(min(d - 1, int(rows_observed) // 2), 1)


def most_factors(d: int) -> int:
    """Most factors that d columns identify (Ledermann 1937): (d - q)^2 >= d + q."""
    return max(int((2 * d + 1 - (8 * d + 1) ** 0.5) / 2), 1)


def search_ranks(
    error: Callable[[int], float], most: int, start: int | None = None
) -> dict[int, float]:
    """Errors of the ranks that a search for the least error looks at.

    Doubling from 1 to `most` until the error has risen PATIENCE times in a row; or, where a good
    rank of a similar model is known, doubling or halving from that `start` for as long as it
    helps. Then PROBES ranks between the best and its neighbours, unless the curve is flat there.
    """
    q, patience = (1, PATIENCE) if start is None else (min(start, most), 1)
    first, risen = q, 0
    curve = {first: error(first)}
    while q < most and risen < patience:
        least, q = min(curve.values()), min(2 * q, most)
        curve[q] = error(q)
        risen = 0 if curve[q] <= least else risen + 1
    if start is not None and len(curve) - risen == 1:  # doubling did not help
        q, risen = first, 0
        while q > 1 and not risen:
            least, q = min(curve.values()), q // 2
            curve[q] = error(q)
            risen = int(curve[q] > least)
    for _ in range(PROBES):
        between = _next_probe(curve)
        if between is None:
            break
        curve[between] = error(between)
    return dict(sorted(curve.items()))


def _next_probe(curve: dict[int, float]) -> int | None:
    """The middle of the wider interval next to the best rank; None where all is near enough."""
    best = min(curve, key=lambda q: (curve[q], q))
    below = max((q for q in curve if q < best), default=best)
    above = min((q for q in curve if q > best), default=best)
    # A side is worth a look where ranks were passed over and the error changes across them.
    sides = [
        (high / low, (low + high) // 2)  # ranks differ by ratios
        for low, high, other in ((below, best, below), (best, above, above))
        if high - low > 1 and curve[other] > curve[best] * (1.0 + FLAT)
    ]
    return max(sides)[1] if sides else None


def first_minimum(value: Callable[[int], float], least: int, most: int) -> dict[int, float]:
    """Values of a function from `least` upwards, as far as it takes to find its first minimum.

    Steps grow with q; the q that a step passed over next to the minimum are tried at the end.
    """
    found: dict[int, float] = {}

    def at(q: int) -> float:
        if q not in found:
            found[q] = value(q)
        return found[q]

    q = best = least
    risen = 0
    while q <= most and risen < RISES:
        if q == least or at(q) < at(best):
            best, risen = q, 0
        else:
            risen += 1
        at(q)
        q += max(1, q // 8)
    step = max(1, best // 8)
    for other in range(max(best - step + 1, least), min(best + step, most + 1)):
        at(other)
    return found


def rank_for_fraction(explained: Callable[[int], float], fraction: float, most: int) -> int:
    """Fewest components that explain `fraction` of the variance, by doubling and bisection.

    The share that is explained is taken to grow with q.
    """
    low, high = 0, 1  # explained(low) < fraction
    while high < most and explained(high) < fraction:
        low, high = high, min(2 * high, most)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if explained(middle) >= fraction else (middle, high)
    return high


def reaching(
    fit: Callable[[int], T], explained: Callable[[T], float], q: int, fraction: float, most: int
) -> T:
    """The fit of q components, or of more where they do not explain `fraction`, up to `most`."""
    found = fit(q)
    while explained(found) < fraction and q < most:
        q += 1
        found = fit(q)
    return found
