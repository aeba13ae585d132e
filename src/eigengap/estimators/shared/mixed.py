"""Tables with columns of every kind, behind estimators: in the caller's types, in and out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import nan
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eigengap.exceptions import DataError
from eigengap.fitting.columns.fit import fit_column_model
from eigengap.fitting.columns.kinds import WORDS, Ignored, Kind, kinds_of
from eigengap.fitting.gaussian.problem import EMOptions
from eigengap.linalg import Array
from eigengap.models.columns.column import LevelColumn
from eigengap.models.columns.model import ColumnModel
from eigengap.models.columns.table import Columns
from eigengap.selection.columns import ColumnRanks, rank_of_columns
from eigengap.sources import (
    ArraySource,
    Schema,
    as_weight,
    column,
    like,
    missing_codes,
    resolve_columns,
)


@dataclass(frozen=True, eq=False)
class MixedTable:
    """What a fit knows of the columns of its table, and the model of those that it uses."""

    schema: Schema
    kinds: tuple[Kind, ...]  # of every column
    model: ColumnModel  # of the columns that are not ignored
    ranks: ColumnRanks | None = None  # how the number of components was chosen

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
        values = schema.code(X)
        kinds = _kinds(schema, values, {} if isinstance(asked, str) else asked)
        weight = as_weight(weight, len(values))
        used = _used(kinds)
        if not used:
            raise ValueError("every column is ignored; name a kind for one of them in columns=")
        rows = values[:, used]
        columns = Columns(tuple(_learned(kinds[j], values[:, j], schema, j) for j in used))
        ranks = None
        if isinstance(n_components, str):
            ranks = rank_of_columns(rows, columns, weight, seed)
            n_components = ranks.chosen
        source = ArraySource(rows, weight=weight)
        source.require_fit(min_rows=2)
        return cls(schema, kinds, fit_column_model(source, columns, n_components, options), ranks)

    # Questions -----------------------------------------------------------------------------

    def impute(self, X: Any) -> Any:
        """X with its missing values imputed, in X's own types."""
        values = self.schema.code(X)
        return self._decoded(X, values, self.model.impute(values[:, self.used]))

    def intervals(self, X: Any, level: float) -> tuple[Any, Any]:
        values = self.schema.code(X)
        ends = self.model.intervals(values[:, self.used], level)
        low, high = (self._decoded(X, values, end) for end in ends)
        return low, high

    def std(self, X: Any) -> Any:
        """Half the width of the central 68 % of each imputed number; NaN for levels."""
        values = self.schema.code(X)
        low, high = self.model.intervals(values[:, self.used], ONE_SD)
        std = np.zeros(values.shape)
        for k, j in enumerate(self.used):
            has_levels = bool(self.schema.columns[j].levels)
            missing = np.isnan(values[:, j])
            std[missing, j] = np.nan if has_levels else (high[missing, k] - low[missing, k]) / 2
        return like(X, std)

    def level_probabilities(self, X: Any) -> dict[Any, Array]:
        values = self.schema.code(X)[:, self.used]
        found = {}
        for k, j in enumerate(self.used):
            if isinstance(self.model.columns.kinds[k], LevelColumn):
                name = self.schema.columns[j].name
                found[j if name is None else name] = self.model.level_probabilities(values, k)
        return found

    def sample_imputations(self, X: Any, m: int, rng: np.random.Generator) -> Iterator[Any]:
        values = self.schema.code(X)
        for _ in range(m):
            drawn = self.model.sample_imputations(values[:, self.used], rng)
            yield self._decoded(X, values, drawn)

    def log_likelihood(self, X: Any) -> Array:
        return self.model.log_likelihood(self.schema.code(X)[:, self.used])

    @property
    def n_components_(self) -> int:
        return self.model.gaussian.q

    @property
    def used(self) -> list[int]:
        """Columns that the model uses."""
        return _used(self.kinds)

    def described(self) -> dict[Any, str]:
        """The kind of each column, by name or position."""
        names = [c.name if c.name is not None else j for j, c in enumerate(self.schema.columns)]
        return dict(zip(names, [kind.word for kind in self.kinds], strict=True))

    def levels(self) -> dict[Any, tuple[Any, ...]]:
        """The levels of each column that has some, in the order of `level_probabilities`."""
        found = {}
        for k, j in enumerate(self.used):
            own, fitted = self.schema.columns[j], self.model.columns.kinds[k]
            if isinstance(fitted, LevelColumn):
                values = [float(x) for x in fitted.levels]
                name: Any = j if own.name is None else own.name
                found[name] = tuple(own.levels[int(x)] if own.levels else x for x in values)
        return found

    def source_of(self, X: Any) -> ArraySource:
        """The coded table, for what looks at its size and the names of its columns."""
        return ArraySource(self.schema.code(X), names=self.schema.names)

    def _decoded(self, X: Any, values: Array, answers: Array) -> Any:
        full = values.copy()
        full[:, self.used] = answers
        imputed: NDArray[np.bool_] = np.isnan(values) & ~np.isnan(full)
        return self.schema.decode(X, full, imputed)


ONE_SD = 0.6826894921370859  # probability within one standard deviation of a Gaussian


def _used(kinds: tuple[Kind, ...]) -> list[int]:
    return [j for j, kind in enumerate(kinds) if not isinstance(kind, Ignored)]


def _kinds(schema: Schema, values: Array, asked: Mapping[Any, Any]) -> tuple[Kind, ...]:
    """Kinds as asked for by name or position, the others from the data."""
    by_position: dict[int, Kind | str] = {}
    for key, kind in asked.items():
        (j,) = resolve_columns([key], schema.names, len(schema.columns))
        if not (isinstance(kind, Kind) or kind in WORDS):
            raise ValueError(
                f"the kind of column {column(schema.names, j)} is {kind!r}; it must be one of "
                f"{', '.join(WORDS)}, or a value of eigengap.columns"
            )
        by_position[j] = kind
    holds = [each.holds for each in schema.columns]
    levels = [len(each.levels) for each in schema.columns]
    return kinds_of(values, holds, levels, by_position)


def _learned(kind: Kind, x: Array, schema: Schema, j: int) -> Any:
    observed = x[~np.isnan(x)]
    label = column(schema.names, j)
    if not len(observed):
        raise DataError(f"column {label} has no observed value", column=j)
    fault = kind.fault(observed, has_levels=bool(schema.columns[j].levels))
    if fault is not None:
        row = int(np.flatnonzero(~np.isnan(x))[fault.at])
        raise DataError(
            f"column {label} is no {kind.word} column: {fault.what} at row {row}. Give it another "
            f"kind in columns=, or make the value missing",
            row=row,
            column=j,
        )
    return kind.learned(observed)
