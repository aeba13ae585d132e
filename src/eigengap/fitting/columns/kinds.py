"""Kinds of columns as users name them, chosen from the data where they do not.

A kind is a small value; `learned` makes of it the fitted column (`models.columns`) of the values
that were observed. `kinds_of` chooses one for every column of a table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from eigengap.fitting.columns.learn import continuous_column
from eigengap.linalg import Array
from eigengap.models.columns.column import Column
from eigengap.models.columns.continuous import ContinuousColumn
from eigengap.models.columns.count import CountColumn
from eigengap.models.columns.nominal import NominalColumn
from eigengap.models.columns.ordinal import OrdinalColumn

Holds = Literal["numbers", "truth", "levels", "ordered", "other"]

FEW_NUMBERS = 10  # different whole numbers up to which a column is ordinal, not continuous
REPEATED = 3  # cells for each of the few numbers, on average, that make them levels
MOST_LEVELS = 50  # of a nominal column; more are an identifier or free text
FEWEST_PER_LEVEL = 2.0  # cells, on average, below which levels are names of rows


TRANSFORMS = ("auto", "identity", "log", "yeo-johnson", "rank")


class Fault(NamedTuple):
    """Why a column is not of its kind."""

    what: str
    at: int  # number of the observed value


def _first(bad: NDArray[np.bool_], what: str) -> Fault | None:
    return Fault(what, int(np.argmax(bad))) if bad.any() else None


@dataclass(frozen=True)
class Kind:
    """What a column is."""

    word: ClassVar[str]

    def order_of(self, levels: Sequence[Any]) -> tuple[Any, ...]:
        """The levels of a column of text in the order of their codes."""
        return tuple(levels)

    def learned(self, values: Array) -> Column:
        """The fitted column of the observed values (n,)."""
        raise NotImplementedError

    def fault(self, values: Array, has_levels: bool) -> Fault | None:
        """The first of the observed values that a column of this kind cannot hold."""
        return _first(np.full(len(values), has_levels), "text")


@dataclass(frozen=True)
class Continuous(Kind):
    """Any number, x = f(u) with f increasing.

    Parameters
    ----------
    transform : "auto", "identity", "log", "yeo-johnson" or "rank", default="auto"
        The map: "auto" is whichever of the next three the likelihood favours, corrected by ranks
        where a test rejects that u is Gaussian; "rank" is always corrected. Under "auto" nothing
        below 0 is imputed where nothing observed is.
    """

    word: ClassVar[str] = "continuous"
    transform: str = "auto"

    def __post_init__(self) -> None:
        if self.transform not in TRANSFORMS:
            raise ValueError(
                f"transform must be one of {', '.join(TRANSFORMS)}, got {self.transform!r}; a "
                "column between two bounds is Bounded(lower, upper)"
            )

    def fault(self, values: Array, has_levels: bool) -> Fault | None:
        bad = (values <= 0) & (self.transform == "log")
        return super().fault(values, has_levels) or _first(bad, "a number that is not positive")

    def learned(self, values: Array) -> Column:
        column = continuous_column(values, family=self.transform)
        return _not_negative(column, values) if self.transform in ("auto", "log") else column


def _not_negative(column: ContinuousColumn, values: Array) -> ContinuousColumn:
    """Nothing is imputed below 0, or 0 among whole numbers from 1 on, if nothing observed is.

    Of n values that could as well have come in another order the next one is the first below with
    a probability of at most 1 / (n + 1): intervals lose no more coverage than that.
    """
    least = float(np.min(values))
    return column if least < 0.0 else replace(column, floor=min(least, column.step))


@dataclass(frozen=True)
class Positive(Kind):
    """Numbers from 0 on; zeros are an atom of their own."""

    word: ClassVar[str] = "positive"

    def fault(self, values: Array, has_levels: bool) -> Fault | None:
        return super().fault(values, has_levels) or _first(values < 0, "a negative number")

    def learned(self, values: Array) -> Column:
        column = _within(values, 0.0, inf)
        return _not_negative(column, values) if isinstance(column, ContinuousColumn) else column


@dataclass(frozen=True)
class Bounded(Kind):
    """Numbers between two bounds, percentages for instance; those at a bound are an atom."""

    word: ClassVar[str] = "bounded"
    lower: float = 0.0
    upper: float = 1.0

    def __post_init__(self) -> None:
        if not self.lower < self.upper:
            raise ValueError(f"lower must be less than upper, got {self.lower} and {self.upper}")

    def fault(self, values: Array, has_levels: bool) -> Fault | None:
        outside = (values < self.lower) | (values > self.upper)
        what = f"a number outside {self.lower:g} to {self.upper:g}"
        return super().fault(values, has_levels) or _first(outside, what)

    def learned(self, values: Array) -> Column:
        return _within(values, self.lower, self.upper)


def _within(values: Array, lower: float, upper: float) -> Column:
    """A column of numbers between bounds; levels where no map can be learned between them."""
    inner = values[(values > lower) & (values < upper)]
    if len(inner) and np.ptp(inner) > 0.0:
        return continuous_column(values, lower=lower, upper=upper)
    return Ordinal().learned(values)


@dataclass(frozen=True)
class Ordinal(Kind):
    """Levels with an order: a rating, a stage, few whole numbers.

    Parameters
    ----------
    order : sequence of levels, default=()
        From the lowest level to the highest. Text needs it, unless the column is an ordered
        categorical; numbers are in their own order.
    """

    word: ClassVar[str] = "ordinal"
    order: Sequence[Any] = ()

    def __post_init__(self) -> None:
        if isinstance(self.order, str):
            raise ValueError(f"order must be a sequence of levels, got {self.order!r}")
        object.__setattr__(self, "order", tuple(self.order))
        if len(set(self.order)) < len(self.order):
            raise ValueError(f"order has a level more than once: {self.order!r}")

    def order_of(self, levels: Sequence[Any]) -> tuple[Any, ...]:
        return tuple(self.order or levels)

    def fault(self, values: Array, has_levels: bool) -> Fault | None:
        return None

    def learned(self, values: Array) -> Column:
        levels, counts = np.unique(values, return_counts=True)
        return OrdinalColumn.of_shares(counts.astype(np.float64), levels)


@dataclass(frozen=True)
class Binary(Kind):
    """Two levels."""

    word: ClassVar[str] = "binary"

    def fault(self, values: Array, has_levels: bool) -> Fault | None:
        known = np.unique(values)[:2]
        return _first(~np.isin(values, known), "a third level")

    def learned(self, values: Array) -> Column:
        return Ordinal().learned(values)


@dataclass(frozen=True)
class Nominal(Kind):
    """Levels without an order."""

    word: ClassVar[str] = "nominal"

    def fault(self, values: Array, has_levels: bool) -> Fault | None:
        return None

    def learned(self, values: Array) -> Column:
        levels, counts = np.unique(values, return_counts=True)
        return NominalColumn.of_counts(counts.astype(np.float64), levels)


@dataclass(frozen=True)
class Count(Kind):
    """Counts: Poisson, or negative binomial of a given dispersion (variance m + dispersion m^2)."""

    word: ClassVar[str] = "count"
    dispersion: float = 0.0

    def __post_init__(self) -> None:
        if not 0.0 <= self.dispersion < inf:
            raise ValueError(f"dispersion must be 0 or a positive number, got {self.dispersion}")

    def fault(self, values: Array, has_levels: bool) -> Fault | None:
        bad = (values < 0) | (values != np.round(values))
        return super().fault(values, has_levels) or _first(bad, "a number that is not a count")

    def learned(self, values: Array) -> Column:
        return CountColumn(self.dispersion)


@dataclass(frozen=True)
class Ignored(Kind):
    """Left out: an identifier, free text, a date."""

    word: ClassVar[str] = "ignored"
    why: str = ""


WORDS: Mapping[str, type[Kind]] = {
    kind.word: kind
    for kind in (Continuous, Positive, Bounded, Ordinal, Binary, Nominal, Count, Ignored)
}


def kinds_of(
    values: Array,  # (n, d), codes of levels
    holds: Sequence[Holds],
    n_levels: Sequence[int],
    asked: Mapping[int, Kind | str] | None = None,
) -> tuple[Kind, ...]:
    """The kind of every column: as asked for, else by what it holds."""
    asked = {} if asked is None else asked
    found = []
    for j, (held, levels) in enumerate(zip(holds, n_levels, strict=True)):
        wanted: Any = asked.get(j)
        if isinstance(wanted, str):
            wanted = WORDS[wanted]()
        x = values[:, j]
        found.append(_automatic(x[~np.isnan(x)], held, levels) if wanted is None else wanted)
    return tuple(found)


def _automatic(x: Array, held: Holds, n_levels: int) -> Kind:
    if held == "other":
        return Ignored("it holds neither numbers nor levels")
    if held == "truth":
        return Binary()
    if held != "numbers":
        if n_levels == 2:
            return Binary()
        if n_levels > MOST_LEVELS or len(x) < FEWEST_PER_LEVEL * n_levels:
            return Ignored(f"{n_levels} different values in {len(x)} rows are names, not levels")
        return Ordinal() if held == "ordered" else Nominal()
    different = np.unique(x[: 50 * FEW_NUMBERS])
    if len(different) <= FEW_NUMBERS:
        different = np.unique(x)
    is_few = len(different) <= FEW_NUMBERS and len(x) >= REPEATED * len(different)
    if is_few and len(different) == 2:
        return Binary()
    if is_few and len(different) > 2 and np.all(different == np.round(different)):
        return Ordinal()
    return Continuous()
