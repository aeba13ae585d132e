"""Tables with columns of every kind, behind estimators: in the caller's types, in and out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import nan
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from eigengap.estimators.shared.base import require_names
from eigengap.exceptions import DataError, UnknownLevelError
from eigengap.fitting.columns.fit import fit_column_model
from eigengap.fitting.columns.kinds import WORDS, Ignored, Kind, Ordinal, kinds_of
from eigengap.fitting.gaussian.problem import EMOptions
from eigengap.linalg import Array
from eigengap.models.columns.column import LevelColumn
from eigengap.models.columns.continuous import ContinuousColumn
from eigengap.models.columns.model import ColumnModel
from eigengap.models.columns.table import Columns
from eigengap.selection.columns import ColumnRanks, rank_of_columns
from eigengap.sources import (
    ArraySource,
    ColumnType,
    Schema,
    as_weight,
    column,
    count_missing,
    like,
    missing_codes,
    require_unique,
    resolve_columns,
    show,
)


@dataclass(frozen=True, eq=False)
class MixedTable:
    """What a fit knows of the columns of its table, and the model of those that it uses."""

    _public_name: ClassVar[str] = "factor analysis behind columns of several kinds"

    schema: Schema
    kinds: tuple[Kind, ...]  # of every column
    model: ColumnModel  # of the columns that are not ignored
    ranks: ColumnRanks | None = None  # how the number of components was chosen
    n_iter_: int = 1
    converged_: bool = True

    @classmethod
    def fitted(
        cls,
        X: Any,
        asked: str | Mapping[Any, Any],
        n_components: int | str,
        *,
        weight: Any = None,
        missing_values: Any = nan,
        options: EMOptions,
        seed: int = 0,
    ) -> MixedTable:
        schema = Schema.of(X, missing_codes(missing_values))
        require_unique(schema.names)
        require_names(X)
        wanted = _asked(schema, {} if isinstance(asked, str) else asked)
        schema = schema.in_order({j: kind.order_of for j, kind in wanted.items()})
        values = schema.code(X)
        weight = as_weight(weight, len(values))
        if weight is not None:
            values[weight == 0.0] = np.nan  # not even maps and levels are learned from them
        holds = [each.holds for each in schema.columns]
        kinds = kinds_of(values, holds, [len(each.levels) for each in schema.columns], wanted)
        used = _used(kinds)
        if not used:
            raise ValueError("every column is ignored; name a kind for one of them in columns=")
        _require_finite(values, used, schema)
        source = ArraySource(values[:, used], weight=weight).present()
        if source.n_rows < 2:
            source.require_fit(min_rows=2)
        _require_squares(values, used, schema)
        columns = Columns(tuple(_learned(kinds[j], values[:, j], schema, j) for j in used))
        ranks, rows = None, source.collect()
        if isinstance(n_components, str):
            ranks = rank_of_columns(rows, columns, source.weight, seed)
            n_components = ranks.chosen
        if n_components > columns.width:
            raise ValueError(
                f"n_components is {n_components}, but behind the columns there are only "
                f"{columns.width} Gaussian variables: one for each, and K - 1 for K levels without "
                "an order"
            )
        model, fit = fit_column_model(source, columns, n_components, options)
        return cls(schema, kinds, model, ranks, max(fit.n_iter, 1), fit.converged)

    # Questions -----------------------------------------------------------------------------

    def impute(self, X: Any) -> Any:
        """X with its missing values imputed, in X's own types."""
        values = self._coded(X)
        return self._decoded(X, values, self.model.impute(values[:, self.used]))

    def intervals(self, X: Any, level: float) -> tuple[Any, Any]:
        values = self._coded(X)
        ends = self.model.intervals(values[:, self.used], level)
        low, high = (self._decoded(X, values, end) for end in ends)
        return low, high

    def std(self, X: Any) -> Any:
        """Half the width of the central 68 % of each imputed number; NaN for levels.

        What is not imputed, in a column that is ignored, is NaN too.
        """
        values = self._coded(X)
        low, high = self.model.intervals(values[:, self.used], ONE_SD)
        std = np.where(self.schema.missing_cells(X), np.nan, 0.0)
        for k, j in enumerate(self.used):
            if not self.schema.columns[j].levels:
                missing = np.isnan(values[:, j])
                std[missing, j] = (high[missing, k] - low[missing, k]) / 2
        return like(X, std)

    def level_probabilities(self, X: Any) -> dict[Any, Array]:
        values = self._coded(X)[:, self.used]
        found = {}
        for k, j in enumerate(self.used):
            if isinstance(self.model.columns.kinds[k], LevelColumn):
                found[self._key(j)] = self.model.level_probabilities(values, k)
        return found

    def sample_imputations(self, X: Any, m: int, rng: np.random.Generator) -> Iterator[Any]:
        values = self._coded(X)  # at once: what is refused is refused before the first table
        draws = (self.model.sample_imputations(values[:, self.used], rng) for _ in range(m))
        return (self._decoded(X, values, drawn) for drawn in draws)

    @property
    def n_components_(self) -> int:
        return self.model.gaussian.q

    @property
    def used(self) -> list[int]:
        """Columns that the model uses."""
        return _used(self.kinds)

    def described(self) -> dict[Any, str]:
        """The kind of each column, by name or position."""
        return {self._key(j): kind.word for j, kind in enumerate(self.kinds)}

    def ignored(self) -> dict[Any, str]:
        """Why each column that is not used is not."""
        return {
            self._key(j): kind.why or "as asked"
            for j, kind in enumerate(self.kinds)
            if isinstance(kind, Ignored)
        }

    def levels(self) -> dict[Any, tuple[Any, ...]]:
        """The levels of each column that has some, in the order of `level_probabilities`."""
        found = {}
        for k, j in enumerate(self.used):
            fitted = self.model.columns.kinds[k]
            if isinstance(fitted, LevelColumn):
                own = self.schema.columns[j]
                found[self._key(j)] = tuple(own.level(float(x)) for x in fitted.levels)
        return found

    def pattern_of(self, X: Any) -> ArraySource:
        """0 where X has a value, NaN where not: of all columns, those that are ignored too."""
        missing = np.where(self.schema.missing_cells(X), np.nan, 0.0)
        return ArraySource(missing, names=self.schema.names)

    def _key(self, j: int) -> Any:
        names = self.schema.names
        return j if names is None else names[j]

    def _coded(self, X: Any) -> Array:
        """Rows (n, d) as numbers and codes; refuses values that their columns cannot hold."""
        values = self.schema.code(X)
        _require_finite(values, self.used, self.schema)
        for j, fitted in zip(self.used, self.model.columns.kinds, strict=True):
            rows = np.flatnonzero(~np.isnan(values[:, j]))
            x, kind, own = values[rows, j], self.kinds[j], self.schema.columns[j]
            bad = np.flatnonzero(~fitted.holds(x))
            fault = None if len(bad) else kind.fault(x, has_levels=bool(own.levels))
            if not len(bad) and fault is None:
                continue
            at = int(bad[0] if fault is None else fault.at)
            refused = UnknownLevelError if isinstance(fitted, LevelColumn) else DataError
            value = own.level(float(x[at]))
            raise refused(
                f"{show(value)} at row {int(rows[at])}, column {column(self.schema.names, j)}, "
                f"does not fit this {kind.word} column: {_range(fitted, own)}. Make it missing "
                "(NaN), or fit on rows that have it",
                row=int(rows[at]),
                column=j,
                name=own.name,
                value=value if isinstance(value, float) else str(value),
            )
        return values

    def _decoded(self, X: Any, values: Array, answers: Array) -> Any:
        full = values.copy()
        full[:, self.used] = answers
        imputed: NDArray[np.bool_] = np.isnan(values) & ~np.isnan(full)
        return self.schema.decode(X, full, imputed)


LARGEST = 1e150  # of a number: sums of squares stay below 1e308
MOST_SHOWN = 6  # levels that a message shows
ONE_SD = 0.6826894921370859  # probability within one standard deviation of a Gaussian


def _used(kinds: tuple[Kind, ...]) -> list[int]:
    return [j for j, kind in enumerate(kinds) if not isinstance(kind, Ignored)]


def _require_finite(values: Array, used: list[int], schema: Schema) -> None:
    names = schema.names
    only_used = np.full(values.shape, np.nan)
    only_used[:, used] = values[:, used]
    count_missing(only_used, names)


def _require_squares(values: Array, used: list[int], schema: Schema) -> None:
    """Refuse numbers whose squares overflow, by row and column."""
    for j in used:
        large = np.flatnonzero(np.abs(values[:, j]) > LARGEST)
        if len(large):
            row = int(large[0])
            raise DataError(
                f"{values[row, j]:g} at row {row}, column {column(schema.names, j)}, is too large "
                "to be squared; divide the column by a constant",
                row=row,
                column=j,
                name=schema.columns[j].name,
                value=float(values[row, j]),
            )


def _range(fitted: Any, own: ColumnType) -> str:
    """The values that a column had in the fit, in words."""
    if isinstance(fitted, LevelColumn):
        shown = ", ".join(show(own.level(float(x))) for x in fitted.levels[:MOST_SHOWN])
        more = ", ..." if len(fitted.levels) > MOST_SHOWN else ""
        return f"the levels of the fit are {shown}{more}"
    if isinstance(fitted, ContinuousColumn):
        low, high = fitted.margin.family.range
        return f"its values lie between {low:g} and {high:g}"
    return "it holds counts"


def _asked(schema: Schema, asked: Mapping[Any, Any]) -> dict[int, Kind]:
    """Kinds as asked for, by position."""
    found: dict[int, Kind] = {}
    for key, kind in asked.items():
        (j,) = resolve_columns([key], schema.names, len(schema.columns))
        label = column(schema.names, j)
        if isinstance(kind, type) and issubclass(kind, Kind):
            kind = kind.word
        if not (isinstance(kind, Kind) or (isinstance(kind, str) and kind in WORDS)):
            raise ValueError(
                f"the kind of column {label} is {kind!r}; it must be one of "
                f"{', '.join(WORDS)}, or a value of eigengap.columns"
            )
        if j in found:
            raise DataError(f"columns names column {label} more than once", column=j)
        wanted = WORDS[kind]() if isinstance(kind, str) else kind
        if isinstance(wanted, Ordinal) and not wanted.order and schema.columns[j].holds == "levels":
            raise DataError(
                f"column {label} holds text, which has no order of its own. Give the levels from "
                "the lowest on, Ordinal(order=[...]), or make the column an ordered categorical",
                column=j,
                name=schema.columns[j].name,
            )
        found[j] = wanted
    return found


def _learned(kind: Kind, x: Array, schema: Schema, j: int) -> Any:
    observed = x[~np.isnan(x)]
    label = column(schema.names, j)
    if not len(observed):
        raise DataError(
            f"column {label} has no observed value: drop it, or leave it out of the model by "
            'columns={...: "ignored"}',
            column=j,
            name=schema.columns[j].name,
        )
    fault = kind.fault(observed, has_levels=bool(schema.columns[j].levels))
    if fault is not None:
        row = int(np.flatnonzero(~np.isnan(x))[fault.at])
        raise DataError(
            f"column {label} cannot be {kind.word}: it has {fault.what} at row {row}. Give it "
            "another kind in columns=, or make the value missing",
            row=row,
            column=j,
            name=schema.columns[j].name,
        )
    return kind.learned(observed)
