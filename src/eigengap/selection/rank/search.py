"""Searches over the number of components where each number needs a costly fit.

Each asks for as few fits as the question allows: the first minimum of a curve, its least value, or
the fewest components that explain a share of the variance.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import numpy as np

T = TypeVar("T")

PATIENCE = 2  # doublings that may be worse in a row before the search turns back
PROBES = 3  # ranks tried between the best and its neighbours
FLAT = 0.02  # relative difference to a neighbour below which nothing lies between

RISES = 3  # values of q that may be worse in a row before `first_minimum` ends


def search_ranks(
    error: Callable[[int], float], most: int, start: int | None = None
) -> dict[int, float]:
    """Errors of the ranks that a search for the least error looks at.

    Doubling from 1 to `most` until the error has risen PATIENCE times in a row; or, where a good
    rank of a similar model is known, doubling or halving from that `start` for as long as it
    helps. Then PROBES ranks between the best and its neighbours, unless the curve is flat there.
    """
    curve: dict[int, float] = {}

    def is_better(q: int) -> bool:
        before = min(curve.values(), default=np.inf)
        if q not in curve:
            curve[q] = error(q)
        return curve[q] <= before

    if start is None:
        _double(is_better, 1, most, PATIENCE)
    else:
        q = min(start, most)
        is_better(q)
        if q == most or not _double(is_better, min(2 * q, most), most, 1):
            while q > 1 and is_better(q := q // 2):
                pass
    for _ in range(PROBES):
        between = _next_probe(curve)
        if between is None:
            break
        is_better(between)
    return dict(sorted(curve.items()))


def _double(is_better: Callable[[int], bool], q: int, most: int, patience: int) -> bool:
    """Upwards from q until it was worse `patience` times in a row; whether it ever was better."""
    helped, risen = False, 0
    while True:
        better = is_better(q)
        helped, risen = helped or better, 0 if better else risen + 1
        if q == most or risen >= patience:
            return helped
        q = min(2 * q, most)


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
