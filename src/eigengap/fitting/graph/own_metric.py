"""Metrics that are functions of the user's own: a distance that is no number is told by its rows.

Trees take NaN for "further than all others" and lose rows by it, without a word.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


class NoDistanceError(ValueError):
    """A metric has no value for two rows."""

    def __init__(self, name: str, a: NDArray[Any], b: NDArray[Any]) -> None:
        super().__init__(f"metric={name} gives NaN for two rows")
        self.name, self.a, self.b = name, np.array(a), np.array(b)


@dataclass(frozen=True)
class Numbered:
    """A metric whose values are numbers."""

    metric: Callable[..., float]

    def __call__(self, a: NDArray[Any], b: NDArray[Any], **given: Any) -> float:
        found = self.metric(a, b, **given)
        if np.isnan(found):
            name = getattr(self.metric, "__name__", repr(self.metric))
            raise NoDistanceError(name, a, b)
        return found


@contextmanager
def naming(fitted: Any, new: Any = None) -> Iterator[None]:
    """Tell which rows it was that a metric has no value for."""
    try:
        yield
    except NoDistanceError as error:
        names = [_named(row, fitted, new) for row in (error.a, error.b)]
        known = [name for name in names if name]
        if len(known) == 2:
            told = f"{known[0]} and {known[1]}: leave out one of the two, or use another metric"
        else:  # a tree compares rows with the centres of its balls
            told = (
                f"{known[0] if known else 'a mean of rows'} and a mean of rows, which a tree of "
                'rows is built by: neighbors_algorithm="brute" compares rows with rows alone'
            )
        raise ValueError(f"metric={error.name} gives NaN for {told}") from None


def _named(row: NDArray[Any], fitted: Any, new: Any) -> str:
    for what, rows in (("row", new), ("row" if new is None else "fitted row", fitted)):
        if isinstance(rows, np.ndarray):
            same = np.flatnonzero((rows == row).all(axis=1))
            if len(same):
                return f"{what} {int(same[0])}"
    return ""
