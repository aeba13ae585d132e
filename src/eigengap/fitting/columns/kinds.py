"""Kinds of columns as users name them, chosen from the data where they do not.

A kind is a small value; `learned` makes of it the fitted column (`models.columns`) of what a
`Survey` knows of it. `kinds_of` chooses one for every column of a table, `learn_columns` learns
them all. Weights count as frequencies: a row of weight 2 is a row that occurs twice.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import inf
from numbers import Real
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from eigengap.exceptions import DataError, UnknownLevelError
from eigengap.fitting.columns.censored import censored_column
from eigengap.fitting.columns.learn import CLOSE, continuous_column
from eigengap.fitting.columns.survey import ColumnCells, Survey
from eigengap.linalg import Array
from eigengap.models.columns.column import Column
from eigengap.models.columns.continuous import ContinuousColumn
from eigengap.models.columns.count import LARGEST as LARGEST_COUNT
from eigengap.models.columns.count import CountColumn
from eigengap.models.columns.nominal import NominalColumn
from eigengap.models.columns.ordinal import OrdinalColumn
from eigengap.models.columns.table import Columns
from eigengap.sources.base import Block, Source
from eigengap.sources.wording import column as label_of
from eigengap.statistics.column_facts import MOST_VALUES, ColumnFacts
from eigengap.wording import words

if TYPE_CHECKING:
    from eigengap.sources.levels import ColumnType

FEW_NUMBERS = 10  # different whole numbers up to which a column is ordinal, not continuous
LARGEST = 1e150  # of a number: sums of squares stay below 1e308
REPEATED = 3  # cells for each of the few numbers, on average, that make them levels
MOST_LEVELS = 50  # of a nominal column; more are an identifier or free text
FEWEST_PER_LEVEL = 2.0  # cells, on average, below which levels are names of rows

NO_VALUES = "it holds neither numbers nor levels"
TOTAL = "total"  # as the size of a row of counts
TRANSFORMS = ("auto", "identity", "log", "yeo-johnson", "rank")


class Fault(NamedTuple):
    """Why a column is not of its kind."""

    what: str
    at: int  # number of the observed value


def _require_number(value: Any, name: str) -> None:
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"{name} must be a number, got {value!r}")


def _first(bad: NDArray[np.bool_], what: str) -> Fault | None:
    return Fault(what, int(np.argmax(bad))) if bad.any() else None


@dataclass(frozen=True)
class Kind:
    """What a column is."""

    word: ClassVar[str]
    takes_limits: ClassVar[bool] = False  # whether cells may be known by limits only
    of_numbers: ClassVar[bool] = False  # whether levels are no values of it

    def order_of(self, levels: Sequence[Any]) -> tuple[Any, ...]:
        """The levels of a column of text in the order of their codes."""
        return tuple(levels)

    def of_codes(self) -> Kind:
        """The same kind where values are codes of levels, which are in their order already."""
        return self

    def learned(self, values: Array | ColumnCells, details: Array | None = None) -> Column:
        """The fitted column of the values (n,) and details (n, k) of the cells that have any.

        Without details no value is missing, and `values` may be what is known of them.
        """
        raise NotImplementedError

    def limits(self, values: Array) -> Array | None:
        """(n, 2) limits of cells whose values (n,) stand for them; None if there are none."""
        return None

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
    of_numbers: ClassVar[bool] = True
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

    def learned(self, values: Array | ColumnCells, details: Array | None = None) -> Column:
        cells = _cells(values)
        if details is not None:
            return censored_column(cells.values, details, family=self.transform)
        column = continuous_column(cells, family=self.transform)
        return _not_negative(column, cells) if self.transform in ("auto", "log") else column


def _cells(values: Array | ColumnCells) -> ColumnCells:
    return values if isinstance(values, ColumnCells) else ColumnCells.of(values)


def _levels(cells: ColumnCells) -> tuple[Array, Array]:
    """The different values of a column, and the weight of each."""
    if cells.facts.values is not None and cells.facts.weights is not None:
        return cells.facts.values, cells.facts.weights
    values, at = np.unique(cells.values, return_inverse=True)
    return values, np.bincount(at, cells.frequency).astype(np.float64)


def _not_negative(column: ContinuousColumn, cells: ColumnCells) -> ContinuousColumn:
    """With the floor of its values, `floor_of`.

    Of n values that could as well have come in another order the next one is the first below with
    a probability of at most 1 / (n + 1): intervals lose no more coverage than that.
    """
    floor = float(floor_of(np.asarray(cells.facts.least), np.asarray(column.step == 1.0)))
    return replace(column, floor=floor)


def floor_of(least: Array, is_whole: NDArray[np.bool_]) -> Array:
    """The least imputed value of columns whose least observed ones are these.

    It is 0 if none is negative, 1 if they are whole numbers from 1 on, and else -inf.
    """
    return np.where(least < 0.0, -inf, np.minimum(least, is_whole))


@dataclass(frozen=True)
class Censored(Continuous):
    """Any number, of which some are known by a limit only: below or above what can be measured.

    Cells of text say so themselves, "<0.1" or ">50", each with a limit of its own. Where numbers
    stand for such cells, `below` and `above` are the limits of all of them. A censored value is
    imputed, within its limits, as a missing one is.

    Parameters
    ----------
    transform : "auto", "identity", "log", "yeo-johnson" or "rank", default="auto"
        The map x = f(u), as of `Continuous`, learned from values and limits together.
    below : float, default=-inf
        A number at or below it says only that the value is not above it.
    above : float, default=inf
        A number at or above it says only that the value is not below it.

    Examples
    --------
    >>> from eigengap.columns import Censored
    >>> Censored(below=0.1)
    Censored(transform='auto', below=0.1, above=inf)
    """

    word: ClassVar[str] = "censored"
    takes_limits: ClassVar[bool] = True
    below: float = -inf
    above: float = inf

    def __post_init__(self) -> None:
        super().__post_init__()
        _require_number(self.below, "below")
        _require_number(self.above, "above")
        if not self.below < self.above:
            raise ValueError(f"below must be less than above, got {self.below} and {self.above}")

    @property
    def least(self) -> float:
        """All values are larger, whatever is learned."""
        return 0.0 if self.transform == "log" else -inf

    def limits(self, values: Array) -> Array | None:
        low, high = values <= self.below, values >= self.above
        if not (low.any() or high.any()):
            return None
        found = np.full((len(values), 2), np.nan)
        found[low, 1], found[high, 0] = self.below, self.above
        return found

    def learned(self, values: Array | ColumnCells, details: Array | None = None) -> Column:
        cells = _cells(values)
        none = np.full((len(cells.values), 2), np.nan)
        return super().learned(cells, none if details is None else details)


@dataclass(frozen=True)
class Positive(Kind):
    """Numbers from 0 on; zeros are an atom of their own."""

    word: ClassVar[str] = "positive"
    of_numbers: ClassVar[bool] = True

    def fault(self, values: Array, has_levels: bool) -> Fault | None:
        return super().fault(values, has_levels) or _first(values < 0, "a negative number")

    def learned(self, values: Array | ColumnCells, details: Array | None = None) -> Column:
        cells = _cells(values)
        column = _within(cells, 0.0, inf)
        return _not_negative(column, cells) if isinstance(column, ContinuousColumn) else column


@dataclass(frozen=True)
class Bounded(Kind):
    """Numbers between two bounds, percentages for instance; those at a bound are an atom."""

    word: ClassVar[str] = "bounded"
    of_numbers: ClassVar[bool] = True
    lower: float = 0.0
    upper: float = 1.0

    def __post_init__(self) -> None:
        for name, bound in (("lower", self.lower), ("upper", self.upper)):
            _require_number(bound, name)
            if not abs(bound) <= LARGEST:
                raise ValueError(
                    f"{name} must be a number between {-LARGEST:g} and {LARGEST:g}, got {bound}; "
                    "a column without an upper bound is Positive() or Continuous()"
                )
        if not self.lower < self.upper:
            raise ValueError(f"lower must be less than upper, got {self.lower} and {self.upper}")

    def fault(self, values: Array, has_levels: bool) -> Fault | None:
        outside = (values < self.lower) | (values > self.upper)
        what = f"a number outside {self.lower:g} to {self.upper:g}"
        return super().fault(values, has_levels) or _first(outside, what)

    def learned(self, values: Array | ColumnCells, details: Array | None = None) -> Column:
        return _within(_cells(values), self.lower, self.upper)


def _within(cells: ColumnCells, lower: float, upper: float) -> Column:
    """A column of numbers between bounds; levels where no map can be learned between them.

    Nothing but these levels is imputed then, but other numbers between the bounds may follow.
    """
    inner = cells.values[(cells.values > lower) & (cells.values < upper)]
    if len(inner) and np.ptp(inner) > 0.0:
        return continuous_column(cells, lower=lower, upper=upper)
    return replace(Ordinal().learned(cells), lower=lower, upper=upper)


@dataclass(frozen=True)
class Ordinal(Kind):
    """Levels with an order: a rating, a stage, few whole numbers.

    Parameters
    ----------
    order : sequence of levels, default=()
        From the lowest level to the highest; a level that is not among them is refused. Text needs
        it, unless the column is an ordered categorical; numbers are in their own order otherwise.
    """

    word: ClassVar[str] = "ordinal"
    order: Sequence[Any] = ()

    def __post_init__(self) -> None:
        if isinstance(self.order, str) or not isinstance(self.order, Iterable):
            raise ValueError(f"order must be a sequence of levels, got {self.order!r}")
        object.__setattr__(self, "order", tuple(self.order))
        if not all(isinstance(level, Hashable) for level in self.order):
            raise TypeError(f"levels must be text, numbers or truth values, got {self.order!r}")
        if len(set(self.order)) < len(self.order):
            raise ValueError(f"order has a level more than once: {self.order!r}")

    def order_of(self, levels: Sequence[Any]) -> tuple[Any, ...]:
        return tuple(self.order or levels)

    def of_codes(self) -> Kind:
        return Ordinal()

    @property
    def numbers(self) -> Array:
        """The levels that are numbers, in their order."""
        return np.array([float(level) for level in self.order if isinstance(level, Real)])

    @property
    def is_reordered(self) -> bool:
        """Whether a column of numbers has another order than its own."""
        return bool(np.any(np.diff(self.numbers) < 0.0))

    def fault(self, values: Array, has_levels: bool) -> Fault | None:
        if has_levels or not self.order:
            return None
        bad = np.flatnonzero(~np.isin(values, self.numbers))
        if not len(bad):
            return None
        return Fault(f"{values[bad[0]]:g}, which is not in order={self.order!r},", int(bad[0]))

    def learned(self, values: Array | ColumnCells, details: Array | None = None) -> OrdinalColumn:
        levels, weights = _levels(_cells(values))
        if self.order:
            place = {number: k for k, number in enumerate(self.numbers.tolist())}
            at = np.argsort([place[level] for level in levels.tolist()])
            levels, weights = levels[at], weights[at]
        return OrdinalColumn.of_shares(weights, levels)


@dataclass(frozen=True)
class Binary(Kind):
    """Two levels."""

    word: ClassVar[str] = "binary"

    def fault(self, values: Array, has_levels: bool) -> Fault | None:
        known = np.unique(values)[:2]
        return _first(~np.isin(values, known), "a third level")

    def learned(self, values: Array | ColumnCells, details: Array | None = None) -> Column:
        return Ordinal().learned(values)


@dataclass(frozen=True)
class Nominal(Kind):
    """Levels without an order."""

    word: ClassVar[str] = "nominal"

    def fault(self, values: Array, has_levels: bool) -> Fault | None:
        return None

    def learned(self, values: Array | ColumnCells, details: Array | None = None) -> Column:
        levels, weights = _levels(_cells(values))
        return NominalColumn.of_counts(weights, levels)


@dataclass(frozen=True)
class Count(Kind):
    """Counts of mean size * exp(u): Poisson, or negative binomial (variance m + dispersion m^2).

    The noise of u spreads counts too: a Poisson column is Poisson-log-normal.

    Parameters
    ----------
    dispersion : "auto" or float, default="auto"
        0 is Poisson. "auto" is the dispersion of largest likelihood besides the noise of u, and 0
        where that is not worth a parameter.
    size : "total", column or None, default=None
        The size of each row. "total": its sum over all columns of this size, relative to an average
        row, as for reads of genes or species of a sample; what is modelled is then the composition.
        Else the name or the position of a column of positive numbers, the exposure: hours of
        observation, inhabitants, area. A column that is itself named "total" goes by its position.

    Examples
    --------
    >>> from eigengap.columns import Count
    >>> Count(size="total")
    Count(dispersion='auto', size='total')
    """

    word: ClassVar[str] = "count"
    of_numbers: ClassVar[bool] = True
    dispersion: float | str = "auto"
    size: str | int | None = None

    def __post_init__(self) -> None:
        given: Any = self.dispersion
        is_number = isinstance(given, Real) and not isinstance(given, bool)
        if (isinstance(given, str) and given == "auto") or (is_number and 0.0 <= given < inf):
            return
        wrong = ValueError if is_number or isinstance(given, str) else TypeError
        raise wrong(f'dispersion must be "auto", 0 or a positive number, got {given!r}')

    def fault(self, values: Array, has_levels: bool) -> Fault | None:
        bad = (values < 0) | (values != np.round(values))
        return (
            super().fault(values, has_levels)
            or _first(bad, "a number that is not a count")
            or _first(values > LARGEST_COUNT, "a count beyond 2^53, where float64 skips numbers")
        )

    def learned(self, values: Array | ColumnCells, details: Array | None = None) -> Column:
        learns = isinstance(self.dispersion, str)
        given = 0.0 if isinstance(self.dispersion, str) else self.dispersion
        return CountColumn(given, has_size=details is not None, learns=learns)


@dataclass(frozen=True)
class Ignored(Kind):
    """Left out: an identifier, free text, a date."""

    word: ClassVar[str] = "ignored"
    why: str = ""


WORDS: Mapping[str, type[Kind]] = {
    kind.word: kind
    for kind in (Continuous, Censored, Positive, Bounded, Ordinal, Binary, Nominal, Count, Ignored)
}


def kinds_of(
    survey: Survey,  # of values (n, d), codes of levels
    columns: Sequence[ColumnType],  # of each of the d columns, as a `Schema` has them
    asked: Mapping[int, Kind] | None = None,
) -> tuple[Kind, ...]:
    """The kind of every column: as asked for, else by what it holds."""
    asked = {} if asked is None else asked
    pairs = enumerate(zip(survey.facts, columns, strict=False))
    return tuple(asked.get(j) or _automatic(*pair) for j, pair in pairs)


def _automatic(facts: ColumnFacts, own: ColumnType) -> Kind:
    held, n_levels = own.holds_unasked, len(own.levels)
    if held == "other":
        return Ignored(own.note or NO_VALUES)
    if held == "truth":
        return Binary()
    if held != "numbers":
        if n_levels == 2:
            return Binary()
        if n_levels > MOST_LEVELS or facts.total < FEWEST_PER_LEVEL * n_levels:
            names = f"{n_levels} different values in {facts.n} rows are names, not levels"
            return Ignored(own.note or names)
        return Ordinal() if held == "ordered" else Nominal()
    different = facts.values
    if different is None or not REPEATED * len(different) <= facts.total:
        return Continuous()
    if len(different) == 2:
        return Binary()
    if 2 < len(different) <= FEW_NUMBERS and not facts.fractional:
        return Ordinal()
    return Continuous()


def learn_columns(
    source: Source,
    survey: Survey,
    kinds: Sequence[Kind],
    columns: Sequence[ColumnType],
    detailed: Mapping[int, tuple[Array, Array]] | None = None,
) -> Columns:
    """The fitted columns of a source of coded values; those that are ignored are left out.

    Parameters
    ----------
    source : blocks of coded values (c, d)
    survey : `Survey.of(source)`
    kinds, columns : of each of the d columns, as `kinds_of` and a `Schema` have them
    detailed : values and details of the cells of columns that have some

    Raises
    ------
    DataError
        Where a column has no observed value, or one that its kind cannot hold.
    """
    found = []
    for j, (kind, held) in enumerate(zip(kinds, (own.holds for own in columns), strict=True)):
        if isinstance(kind, Ignored):
            continue
        facts = survey.facts[j]
        cells = None if detailed is None else detailed.get(j)
        if kind.takes_limits and cells is not None and len(cells[0]) and np.isnan(cells[0]).all():
            _require_spread(source, cells[1], j)
        else:
            _require_kind(source, facts, j, kind, has_levels=held != "numbers")
        too_many = facts.values is None and not survey.is_whole
        if too_many and isinstance(kind, Ordinal | Binary | Nominal):
            raise DataError(
                f"column {label_of(source.names, j)} has more than {MOST_VALUES} different values, "
                f"too many for levels of {kind.word} columns. Give it another kind in columns=",
                **_where(source, j),
            )
        if cells is not None:
            found.append(kind.learned(*cells))
        else:
            own = kind if held == "numbers" else kind.of_codes()
            found.append(own.learned(survey.cells(j)))
    return Columns(tuple(found))


def _require_spread(source: Source, limits: Array, j: int) -> None:
    """Refuse limits (n, 2) alone from which no centre and unit follow.

    Where all of them share a number the likelihood is largest at a unit of 0, and where no cell has
    both it may be at an infinite one.
    """
    lower, upper = limits.T
    has_both = np.any(np.isfinite(lower) & np.isfinite(upper))
    if has_both and np.nanmax(lower) > np.nanmin(upper):
        return
    raise DataError(
        f"column {label_of(source.names, j)} has no exact value, and its limits do not "
        "determine the spread of its values: some cells need both limits, and some two of them "
        "intervals that lie apart. Give exact values, or leave the column out by "
        'columns={...: "ignored"}',
        **_where(source, j),
    )


def _where(source: Source, j: int) -> dict[str, Any]:
    return {"column": j, "name": None if source.names is None else source.names[j]}


def _require_kind(source: Source, facts: ColumnFacts, j: int, kind: Kind, has_levels: bool) -> None:
    """Refuse a column without a value, and one with values that its kind cannot hold."""
    label = label_of(source.names, j)
    where = _where(source, j)
    if not facts.n:
        raise DataError(
            f"column {label} has no observed value: drop it, or leave it out of the model by "
            'columns={...: "ignored"}',
            **where,
        )
    if max(-facts.least, facts.largest) > LARGEST:
        first = source.reduce(partial(_FirstFault.of, j=j, kind=_Squarable(), low=facts.low[:0]))
        assert first.fault is not None
        raise DataError(
            f"{first.fault.what} at row {words().number(first.fault.at)}, column {label}, is too "
            "large to be squared; divide the column by a constant",
            row=first.fault.at,
            **where,
            value=float(first.fault.what),
        )
    if isinstance(kind, Bounded):
        distance = min(facts.least - kind.lower, kind.upper - facts.largest)
        if 0.0 < facts.largest - facts.least < CLOSE * distance:
            raise DataError(
                f"column {label} cannot be bounded by {kind.lower:g} and {kind.upper:g}: its "
                f"values, {facts.least:g} to {facts.largest:g}, differ by less than {CLOSE:g} of "
                "their distance from both. Make it Continuous(), or give bounds nearer to them",
                **where,
            )
    # Kinds refuse values beyond a bound, a third one, and values that are not whole.
    typical = [*facts.low, facts.largest]
    if facts.fractional:
        typical.append(float(np.floor(facts.largest)) + 0.5)
    values = np.array(typical) if facts.values is None else facts.values
    is_sure = facts.values is not None or not isinstance(kind, Ordinal)
    if is_sure and kind.fault(values, has_levels) is None:
        return
    first = source.reduce(
        partial(_FirstFault.of, j=j, kind=kind, has_levels=has_levels, low=facts.low)
    )
    if first.fault is None:
        return
    refused = UnknownLevelError if isinstance(kind, Ordinal) else DataError
    raise refused(
        f"column {label} cannot be {kind.word}: it has {first.fault.what} at row "
        f"{words().number(first.fault.at)}. Give it another kind "
        f"{words().either('in columns=', 'by --kinds')}, or make the value missing",
        row=first.fault.at,
        **where,
    )


class _Squarable(Kind):
    """Numbers whose squares can be summed."""

    def fault(self, values: Array, has_levels: bool) -> Fault | None:
        at = np.flatnonzero(np.abs(values) > LARGEST)
        return Fault(f"{values[at[0]]:g}", int(at[0])) if len(at) else None


@dataclass(frozen=True, eq=False)
class _FirstFault:
    """The first value of a column, by its row, that its kind cannot hold."""

    fault: Fault | None

    @classmethod
    def of(
        cls, block: Block, j: int, kind: Kind, low: Array, has_levels: bool = False
    ) -> _FirstFault:
        x = np.asarray(block.values[:, j], dtype=np.float64)
        kept = ~np.isnan(x) if block.weight is None else ~np.isnan(x) & (block.weight > 0)
        rows = np.flatnonzero(kept)
        # The least values come first, for whether a value is a third one depends on the others.
        known = low[:2] if isinstance(kind, Binary) else low[:0]
        fault = kind.fault(np.concatenate([known, x[rows]]), has_levels)
        if fault is None or not len(rows):
            return cls(None)
        row = rows[max(fault.at - len(known), 0)]
        return cls(Fault(fault.what, block.start + int(row)))

    def merge(self, other: _FirstFault) -> _FirstFault:
        found = [each.fault for each in (self, other) if each.fault is not None]
        return _FirstFault(min(found, key=lambda fault: fault.at, default=None))
