"""What cells need besides their values: limits of those that are censored, sizes of rows of counts.

Coded rows (c, d) of a whole table become those of the columns that a model uses, followed by their
details (`models.columns.table.Columns`). Rows do not depend on each other, so that blocks of a file
are coded as a table in memory is.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from math import inf
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from eigengap.exceptions import DataError
from eigengap.fitting.columns.counts import Sizes
from eigengap.fitting.columns.kinds import LARGEST, TOTAL, Censored, Continuous, Count, Kind
from eigengap.linalg import Array
from eigengap.sources.wording import column
from eigengap.wording import words

Bounds = tuple[Array, Array]  # lower and upper limits (c, d), NaN where there is none


@dataclass(frozen=True, eq=False)
class Details:
    """Which of the columns that are used have details, and from where."""

    used: tuple[int, ...]
    kinds: tuple[Kind, ...]  # of all columns
    sizes: Mapping[int, Sizes]  # of columns of counts
    labels: tuple[str, ...] | None = None  # names of all columns

    @classmethod
    def of(
        cls,
        kinds: Sequence[Kind],
        used: Sequence[int],
        exposures: Mapping[int, int],
        values: Array,
        frequency: Array | None,
        labels: tuple[str, ...] | None,
    ) -> Details:
        """`exposures` are the columns that hold the sizes of others; values (n, d).

        `frequency` (n,) is how often each row counts.
        """
        sizes = {j: Sizes(np.array([at]), None) for j, at in exposures.items()}
        by_total = [j for j in used if isinstance(kinds[j], Count) and kinds[j].size == TOTAL]  # type: ignore[attr-defined]
        if by_total:
            total = Sizes.total(np.array(by_total), values, frequency)
            sizes |= dict.fromkeys(by_total, total)
        return cls(tuple(used), tuple(kinds), sizes, labels)

    @property
    def n(self) -> int:
        """Numbers that a row has besides its values."""
        return sum(self._width(j) for j in self.used)

    @property
    def exposures(self) -> set[int]:
        """Columns that hold sizes."""
        return {int(own.at[0]) for own in self.sizes.values() if own.mean is None}

    @cached_property
    def _ends(self) -> list[int]:
        """Where the details of each column begin in coded rows, and where the last ones end."""
        return list(accumulate(map(self._width, self.used), initial=len(self.used)))

    def _width(self, j: int) -> int:
        return 2 if self.kinds[j].takes_limits else int(j in self.sizes)

    @property
    def names(self) -> tuple[str, ...] | None:
        """Of the columns of coded rows."""
        if self.labels is None:
            return None
        own = [self.labels[j] for j in self.used]
        for j in self.used:
            extra = ("lower limit", "upper limit") if self._width(j) == 2 else ("ln size",)
            own += [f"{self.labels[j]} ({each})" for each in extra[: self._width(j)]]
        return tuple(own)

    def cells(self, rows: Array) -> dict[int, tuple[Array, Array]]:
        """Of coded rows: values and details of the cells that say anything, by column."""
        found = {}
        for k, j in enumerate(self.used):
            details = self.of_column(rows, k)
            if details is not None:
                known = ~np.isnan(rows[:, k])
                if self.kinds[j].takes_limits:
                    known |= np.any(~np.isnan(details), axis=1)
                found[j] = rows[known, k], details[known]
        return found

    def of_column(self, rows: Array, k: int) -> Array | None:
        """Details (c, width) of the k-th of the columns that are used, in coded rows."""
        start, end = self._ends[k : k + 2]
        return rows[:, start:end] if end > start else None

    def checked(
        self,
        values: Array,
        bounds: Bounds | None = None,
        start: int = 0,
        weight: Array | None = None,
    ) -> Array:
        """`coded` rows, of which `start` is the number of the first, if their details make sense.

        Sizes of rows of weight 0 are not looked at.
        """
        if bounds is not None:
            self._require_limits(bounds, start)
        present = None if weight is None else weight > 0
        for j in self.used:
            if j in self.sizes:
                self._require_sizes(values, j, start, present)
        return self.coded(values, bounds)

    def coded(self, values: Array, bounds: Bounds | None = None) -> Array:
        """(c, d' + n) of rows (c, d)."""
        columns, details = [], []
        for j in self.used:
            x, kind = values[:, j], self.kinds[j]
            if kind.takes_limits:
                x, limits = self._limited(x, kind, None if bounds is None else bounds, j)
                details.append(limits)
            elif j in self.sizes:
                details.append(self.sizes[j].log_size(values)[:, None])
            columns.append(x[:, None])
        return np.concatenate([*columns, *details], axis=1)

    @staticmethod
    def _limited(x: Array, kind: Kind, bounds: Bounds | None, j: int) -> tuple[Array, Array]:
        """Values, NaN where limits are known instead, and limits (c, 2)."""
        own = kind.limits(x)
        limits = np.full((len(x), 2), np.nan) if own is None else own
        if bounds is not None:
            given = np.column_stack([part[:, j] for part in bounds])
            limits = np.where(np.all(np.isnan(given), axis=1, keepdims=True), limits, given)
        is_exact = limits[:, 0] == limits[:, 1]
        x = np.where(is_exact, limits[:, 0], x)
        limits = np.where(is_exact[:, None], np.nan, limits)
        return np.where(np.isnan(limits).all(axis=1), x, np.nan), limits

    def _require_limits(self, bounds: Bounds, start: int) -> None:
        lower, upper = bounds
        given = are_given(bounds)
        for j in np.flatnonzero(given.any(axis=0)).tolist():
            if j not in self.used or not self.kinds[j].takes_limits:
                row = start + int(np.argmax(given[:, j]))
                raise DataError(
                    f"row {row} has a limit in column {column(self.labels, j)}, which is "
                    f"{self.kinds[j].word}. Make it Censored() in the columns= of the fit",
                    row=row,
                    column=j,
                    name=self._name(j),
                )
        least = np.array(
            [kind.least if isinstance(kind, Censored) else -inf for kind in self.kinds]
        )
        large = "is too large to be squared; leave it out (NaN), or divide the column by a constant"
        for bad, end, limits, what in (
            (np.abs(lower) > LARGEST, "lower", lower, large),
            (np.abs(upper) > LARGEST, "upper", upper, large),
            (lower > upper, "lower", lower, "exceeds the upper limit {upper:g}"),
            (
                upper <= least,
                "upper",
                upper,
                "leaves no value: those of the column are larger than {least:g}. Give it another "
                "transform, or make the cell missing",
            ),
        ):
            if bad.any():
                i, j = np.argwhere(bad)[0].tolist()
                raise DataError(
                    f"the {end} limit {limits[i, j]:g} at row {start + i}, column "
                    f"{column(self.labels, j)}, {what.format(upper=upper[i, j], least=least[j])}",
                    row=start + i,
                    column=j,
                    name=self._name(j),
                    value=float(limits[i, j]),
                )

    def _require_sizes(
        self, values: Array, j: int, start: int, present: NDArray[np.bool_] | None
    ) -> None:
        """Refuse sizes that are not positive, and an observed count without any."""
        own = self.sizes[j]
        if own.mean is not None:
            return
        at = int(own.at[0])
        size, count = values[:, at], values[:, j]
        bad = (size <= 0.0) | np.isinf(size) | (np.isnan(size) & ~np.isnan(count))
        rows = np.flatnonzero(bad if present is None else bad & present)
        if not len(rows):
            return
        i, label = int(rows[0]), column(self.labels, at)
        row = words().number(start + i)
        if np.isnan(size[i]):
            what = (
                f"the count at row {row}, column {column(self.labels, j)}, has no size: column "
                f"{label} is missing there. Give its size, or make the count missing (NaN)"
            )
        else:
            what = (
                f"{size[i]:g} at row {row}, column {label}, is no size of the count in column "
                f"{column(self.labels, j)}: sizes are positive numbers. Correct it, or make size "
                "and count missing (NaN)"
            )
        where = {"row": start + i, "column": at, "name": self._name(at)}
        raise DataError(what, **where, value=float(size[i]))  # type: ignore[arg-type]

    def _name(self, j: int) -> str | None:
        return None if self.labels is None else self.labels[j]


@dataclass(frozen=True, eq=False)
class Limited:
    """A table, and limits of some of its cells; what `with_limits` returns."""

    table: Any
    lower: Array
    upper: Array

    ndim: ClassVar[int] = 2

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        raise ValueError(
            'limits go with columns of several kinds: fit with columns="auto", or with the kinds '
            "of some columns"
        )

    def __len__(self) -> int:
        return len(self.table)

    @property
    def shape(self) -> tuple[int, ...]:
        return self.lower.shape


def with_limits(X: Any, lower: Any = None, upper: Any = None) -> Limited:
    """A table of which some cells are known by limits only, for `fit`, `impute` and the like.

    Parameters
    ----------
    X : data frame or array of shape (n_samples, n_features)
    lower, upper : array-like that broadcasts to X's shape, default=None
        The limits, NaN where a cell has none; a lower one of -inf and an upper one of inf are none
        either. A cell with a limit is known by its limits alone,
        whatever X holds there; with two equal ones it is that number. A limit beyond the range of
        its column, a lower one of -5 where values are positive, says nothing; limits that leave no
        value of the column, an upper one of 0 there, are refused.

    Returns
    -------
    Limited
        To pass instead of X wherever columns have kinds (`columns=`).

    Examples
    --------
    >>> import numpy as np
    >>> from eigengap import LowRankImputer
    >>> from eigengap.columns import with_limits
    >>> rng = np.random.default_rng(0)
    >>> X = np.exp(rng.normal(size=(200, 1)) + 0.3 * rng.normal(size=(200, 4)))
    >>> limit = np.where(X < 0.5, 0.5, np.nan)
    >>> table = with_limits(X, upper=limit)
    >>> imputer = LowRankImputer(n_components=1, columns="auto").fit(table)
    >>> bool((imputer.impute(table)[X < 0.5] < 0.5).all())
    True
    """
    shape = np.shape(X)
    if isinstance(X, Limited) or len(shape) != 2:
        raise ValueError("limits go with a data frame or a two-dimensional array in memory")
    return Limited(X, _table(lower, shape, "lower"), _table(upper, shape, "upper"))


def _table(limits: Any, shape: tuple[int, ...], name: str) -> Array:
    if limits is None:
        return np.full(shape, np.nan)
    found = np.asarray(limits, dtype=np.float64)
    none = -inf if name == "lower" else inf
    try:
        return np.array(np.broadcast_to(np.where(found == none, np.nan, found), shape))
    except ValueError:
        raise ValueError(
            f"{name} has shape {found.shape}, which does not fit a table of shape {shape}"
        ) from None


def without_limits(X: Any) -> tuple[Any, Bounds | None]:
    """The table, and its limits where it has some."""
    return (X.table, (X.lower, X.upper)) if isinstance(X, Limited) else (X, None)


def unknown_where_limited(rows: Array, bounds: Bounds) -> Array:
    """Coded rows (n, d), with what their limits say in place of values."""
    values, given = rows.copy(), are_given(bounds)
    exact = np.where(bounds[0] == bounds[1], bounds[0], np.nan)
    values[:, : given.shape[1]][given] = exact[given]
    return values


def censored_where_limited(
    kinds: Sequence[Kind], bounds: Bounds | None, unasked: Collection[int]
) -> tuple[Kind, ...]:
    """The kinds, columns of numbers of which any cell has a limit as censored ones.

    Those that are asked for stay as they are, unless they are continuous; `unasked` are the columns
    of numbers whose kinds are not.
    """
    found = list(kinds)
    limited = [] if bounds is None else np.flatnonzero(are_given(bounds).any(axis=0)).tolist()
    for j in limited:
        kind = kinds[j]
        if type(kind) is Continuous:
            found[j] = Censored(kind.transform)
        elif j in unasked:
            found[j] = Censored()
    return tuple(found)


def are_given(bounds: Bounds) -> NDArray[np.bool_]:
    """(c, d) cells that have a limit."""
    return np.array(~(np.isnan(bounds[0]) & np.isnan(bounds[1])), dtype=bool)
