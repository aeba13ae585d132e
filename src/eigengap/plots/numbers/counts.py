"""Whole numbers that a caller gives: how many rows, which one is the first."""

from __future__ import annotations

from numbers import Integral
from typing import Any


def count_of(name: str, value: Any, least: int = 1) -> int:
    """The number itself; True, which Python counts as 1, and 2.5 are none."""
    if not isinstance(value, Integral) or isinstance(value, bool) or value < least:
        raise ValueError(f"{name} must be a whole number of at least {least}, got {value!r}")
    return int(value)
