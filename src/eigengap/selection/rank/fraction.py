"""Fewest components that explain a share of the variance, where each number needs a fit."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def rank_for_fraction(explained: Callable[[int], float], fraction: float, most: int) -> int:
    """Fewest components that explain `fraction` of the variance.

    Takes the share explained to grow with q: doubling, then bisection.
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
