"""Tables with columns of every kind as codes: learned from the table of a fit, and back.

Models of columns act on coded values (n, d): numbers, codes of levels, NaN where missing. A
`CodedTable` knows the caller's table: what each column holds (`Schema`), of which kind it is, the
fitted columns of those that a model uses, and what new rows may hold. It fits no model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import nan
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eigengap.exceptions import DataError, SentinelWarning, UnknownLevelError
from eigengap.fitting.columns.counts import Sizes
from eigengap.fitting.columns.details import (
    Bounds,
    Details,
    are_given,
    censored_where_limited,
    unknown_where_limited,
    without_limits,
)
from eigengap.fitting.columns.kinds import (
    NO_VALUES,
    TOTAL,
    WORDS,
    Binary,
    Censored,
    Continuous,
    Count,
    Ignored,
    Kind,
    Nominal,
    Ordinal,
    kinds_of,
    learn_columns,
)
from eigengap.fitting.columns.survey import Survey
from eigengap.linalg import Array
from eigengap.models.columns.column import Column, LevelColumn
from eigengap.models.columns.continuous import ContinuousColumn, Limits
from eigengap.models.columns.count import CountColumn
from eigengap.models.columns.nominal import NominalColumn
from eigengap.models.columns.ordinal import OrdinalColumn
from eigengap.models.columns.table import Columns
from eigengap.runtime.warnings import warn
from eigengap.sources import (
    DATES,
    MIXED,
    TIMES,
    TO_MISSING,
    TO_NUMERIC,
    ArraySource,
    Block,
    ColumnType,
    DerivedSource,
    Likeness,
    MixedTable,
    ObservedCells,
    Schema,
    Source,
    column,
    eager_frame,
    in_memory,
    in_memory_table,
    is_number,
    library_of,
    like,
    likeness_of,
    made_floating,
    new_frame,
    open_table,
    quote,
    require_unique,
    resolve_columns,
    show,
    warn_of_codes,
)
from eigengap.wording import words

MOST_SHOWN = 6  # levels that a message shows
MOST_TEXTS = 100  # of a column that are compared with numbers
MARKS = "-\u2010\u2011\u2012\u2013\u2014\u2212?._/ \t\u00a0"  # + and * are results


@dataclass(frozen=True, eq=False)
class CodedTable:
    """What a fit knows of the columns of its table."""

    schema: Schema
    kinds: tuple[Kind, ...]  # of every column
    columns: Columns  # of those that are not ignored
    library: str | None = None  # of the frame, where it was one
    sizes: Mapping[int, Sizes] = field(default_factory=dict)  # of rows, for columns of counts

    @classmethod
    def learned(
        cls, X: Any, asked: str | Mapping[Any, Any], weight: Any = None, missing_values: Any = nan
    ) -> tuple[CodedTable, Source]:
        """From the table of a fit, and its coded rows.

        `asked` is "auto", or names the kinds of some columns.
        """
        X, bounds = without_limits(X)
        table = open_table(X, sample_weight=weight, missing_values=missing_values)
        schema = table.schema()
        require_unique(schema.names)
        asked = {} if isinstance(asked, str) else asked
        _require_clear(X, asked)
        schema, wanted = schema_as_asked(schema, asked)
        _require_values(schema, wanted)
        exposures = _exposures(wanted, schema)
        sizes = set(exposures.values())
        ignored = {j for j, kind in wanted.items() if isinstance(kind, Ignored)}
        schema = schema.ignoring(ignored - sizes)
        rows = table.source(schema, range(len(schema.columns)))
        if bounds is not None:
            values = unknown_where_limited(rows.collect(), bounds)
            rows = ArraySource(values, weight=rows.weight, names=rows.names)
        survey = Survey.of(_of_weight(rows))
        held = schema.columns
        kinds = kinds_of(survey, held, wanted)
        numbers = {j for j, own in enumerate(held) if own.holds == "numbers"}
        kinds = censored_where_limited(kinds, bounds, numbers - wanted.keys())
        kinds = tuple(  # what is only a size is not in the model
            Ignored("it is a size") if j in sizes - wanted.keys() else kind
            for j, kind in enumerate(kinds)
        )
        kinds = _censored(kinds, schema, wanted)
        used = _used(kinds)
        _warn_of_text(X, table, schema, kinds, wanted)
        warn_of_codes(rows, _measured(schema, kinds, wanted))
        if not used:
            raise ValueError("every column is ignored; name a kind for one of them in columns=")
        schema = schema.ignoring(set(range(len(kinds))) - {*used, *sizes})
        details = Details.of(kinds, used, exposures, survey.rows, survey.frequency, schema.names)
        source: Source
        if details.n or bounds is not None:
            source = _detailed(rows, details, bounds, schema)
        else:
            source = table.columns_of(rows, schema, used)
        if survey.n_rows < 2:
            source.present().require_fit(min_rows=2)
        if bounds is not None:
            known = _of_weight(source).collect()
        else:
            known = details.coded(*_parsed(survey.rows, schema))
        learned = learn_columns(rows, survey, kinds, held, details.cells(known))
        return cls(schema, kinds, learned, library_of(X), details.sizes), source

    def with_names(self, names: Sequence[str] | None) -> CodedTable:
        """As learned from rows with these names, or from bare ones."""
        given = [None] * self.n_features if names is None else names
        pairs = zip(self.schema.columns, given, strict=True)
        columns = tuple(replace(own, name=name) for own, name in pairs)
        return replace(self, schema=replace(self.schema, columns=columns))

    # Rows, in and out ----------------------------------------------------------------------

    def source(self, X: Any) -> Source:
        """The coded values of the columns that are used.

        A value that its column cannot hold is refused by row and column.
        """
        X, bounds = without_limits(X)
        table = self._opened(X)
        if not in_memory_table(X):
            self._require_columns(table)
        if self.details.n or bounds is not None:
            rows = table.source(self.schema, range(self.n_features))
            source = _detailed(rows, self.details, bounds, self.schema)
        else:
            source = table.source(self.schema, self.used)
        if not isinstance(source, ArraySource):
            return DerivedSource(source, self._held)
        self._held(Block(source.collect(), None, None, 0))
        return source

    def _require_columns(self, table: MixedTable) -> None:
        """Refuse a table elsewhere whose columns are not those of the fit."""
        if table.n_columns != self.n_features:
            raise ValueError(
                f"{words().X} has {table.n_columns} features, but {self.n_features} features were "
                "passed during fit"
            )
        if None in (self.names, table.names) or table.names == self.names:
            return
        assert self.names is not None
        assert table.names is not None
        j = next(j for j, name in enumerate(table.names) if name != self.names[j])
        raise ValueError(
            "The feature names should match those that were passed during fit: column "
            f"{j} is {quote(table.names[j])} instead of {quote(self.names[j])}"
        )

    def _opened(self, X: Any) -> MixedTable:
        return open_table(X, missing_values=[*self.schema.missing, *self.schema.missing_texts])

    def shown(self, source: Source) -> Source:
        """Coded rows without details, with some value wherever a cell is known by its limits."""
        if not self.details.n:
            return source
        source = in_memory(source)
        rows = source.collect()
        values = rows[:, : len(self.used)].copy()
        for k in range(len(self.used)):
            details = self.details.of_column(rows, k)
            if details is not None and self.kinds[self.used[k]].takes_limits:
                for limit in details.T:
                    values[:, k] = np.where(np.isnan(values[:, k]), limit, values[:, k])
        names = None if source.names is None else source.names[: len(self.used)]
        return ArraySource(values, weight=source.weight, names=names)

    def decode(self, X: Any, values: Array) -> Any:
        """X with these values (n, d) of the columns that are used, in X's own types.

        Cells that hold their value already stay as they are.
        """
        X = self._in_memory(X)
        coded = self.schema.code(X)
        full = coded.copy()
        full[:, self.used] = values
        replaced: NDArray[np.bool_] = ~(np.isnan(full) | (full == coded))
        return self.schema.decode(X, full, replaced)

    def for_draws(self, X: Any) -> Any:
        """X for `decode`, so that the types of all draws are those of one.

        Columns of whole numbers are floating-point where a draw may be no value of their type.
        """
        X = self._in_memory(X)
        if library_of(X) is None:
            return X
        missing = np.count_nonzero(self.schema.missing_cells(X), axis=0)
        columns = zip(self.used, self.columns.kinds, strict=True)
        held = {
            j: fitted.whole_values
            for j, fitted in columns
            if self.schema.columns[j].holds == "numbers"
            and (missing[j] > 0 or self.kinds[j].takes_limits)
        }
        return made_floating(eager_frame(X), held)

    def numbers(self, X: Any, values: Array, others: Array | float = nan) -> Any:
        """Numbers (n, d) of the columns that are used, as a table of X's columns."""
        X, _ = without_limits(X)
        # In float32 where an array X is, so that outputs are.
        is_single = library_of(X) is None and getattr(X, "dtype", None) == np.float32
        full = np.empty((len(values), self.n_features), np.float32 if is_single else np.float64)
        full[:] = others
        full[:, self.used] = values
        return like(X, full)

    def deviations(self, X: Any, std: Array) -> Any:
        """Standard deviations (n, d) as `numbers`: NaN for missing levels, which have none.

        Likewise for what is missing in columns that are ignored; else 0 there.
        """
        missing = self.missing_cells(X)
        std = np.where(missing[:, self.used] & self.has_levels, np.nan, std)
        return self.numbers(X, std, np.where(missing, np.nan, 0.0))

    def missing_cells(self, X: Any) -> NDArray[np.bool_]:
        """(n, d) which cells of a table are missing, in columns that are ignored too."""
        return self.schema.missing_cells(self._in_memory(X))

    def code(self, X: Any) -> Array:
        """Coded values (n, d) of all columns, in memory."""
        return self.schema.code(self._in_memory(X))

    def incomplete(self, X: Any) -> NDArray[np.bool_]:
        """(d,) columns with missing values; of a table elsewhere among those that are used."""
        if in_memory_table(X):
            return np.asarray(self.missing_cells(X).any(axis=0))
        found = np.zeros(self.n_features, dtype=bool)
        found[self.used] = self._opened(X).source(self.schema, self.used).missing_per_column() > 0
        return found

    def _in_memory(self, X: Any) -> Any:
        X, _ = without_limits(X)
        return X if in_memory_table(X) else self._opened(X).whole(self.schema)

    def rows(self, values: Array) -> Any:
        """New rows with these values (n, d) of the columns that are used.

        Of a frame, a frame of them; else an array of all columns: of floats, or of objects where a
        column has levels or is ignored, which is None.
        """
        columns = [self._cells(k, x) for k, x in enumerate(values.T)]
        if self.library is not None and self.names is not None:
            names = [self.names[j] for j in self.used]
            return new_frame(dict(zip(names, columns, strict=True)), self.library)
        d = self.n_features
        if len(self.used) == d and not any(own.levels for own in self.schema.columns):
            return values
        made = np.full((len(values), d), None, dtype=object)
        for j, cells in zip(self.used, columns, strict=True):
            made[:, j] = cells
        return made

    def _cells(self, k: int, x: Array) -> Any:
        own = self.schema.columns[self.used[k]]
        return [own.level(value) for value in x.tolist()] if own.levels else np.ascontiguousarray(x)

    # Columns -------------------------------------------------------------------------------

    @cached_property
    def details(self) -> Details:
        """What cells of the columns that are used need besides values."""
        return Details(tuple(self.used), self.kinds, self.sizes, self.names)

    @property
    def n_features(self) -> int:
        """Of the caller's table."""
        return len(self.kinds)

    @property
    def names(self) -> tuple[str, ...] | None:
        return self.schema.names

    @property
    def used_names(self) -> tuple[str, ...] | None:
        """Of the columns that are not ignored."""
        names = self.names
        return None if names is None else tuple(names[j] for j in self.used)

    @property
    def used(self) -> list[int]:
        """Columns that are not ignored."""
        return _used(self.kinds)

    @property
    def has_levels(self) -> NDArray[np.bool_]:
        """Which of the used columns hold levels, not numbers in their own order."""
        kinds = [self.kinds[j] for j in self.used]
        reordered = [isinstance(kind, Ordinal) and kind.is_reordered for kind in kinds]
        return np.array([bool(self.schema.columns[j].levels) for j in self.used]) | reordered

    @property
    def underlying_names(self) -> tuple[str, ...]:
        """Of each u: its column's, or region=north for the questions of a nominal column."""
        found: list[str] = []
        for j, fitted in zip(self.used, self.columns.kinds, strict=True):
            own, key = self.schema.columns[j], self.key(j)
            name = f"x{key}" if isinstance(key, int) else key
            if isinstance(fitted, NominalColumn):
                asked = fitted.levels[fitted.order[:-1]].tolist()
                found += [f"{name}={_text(own.level(code))}" for code in asked]
            else:
                found += [name] * fitted.width
        return tuple(found)

    def cell(self, k: int, value: float) -> Any:
        """A value of the k-th of the columns that are used, as the caller has it."""
        return self.schema.columns[self.used[k]].level(value)

    def described(self) -> dict[Any, str]:
        """The kind of each column, by name or position."""
        return {self.key(j): kind.word for j, kind in enumerate(self.kinds)}

    def ignored(self) -> dict[Any, str]:
        """Why each column that is not used is not."""
        return {
            self.key(j): kind.why or "as asked"
            for j, kind in enumerate(self.kinds)
            if isinstance(kind, Ignored)
        }

    def levels(self) -> dict[Any, tuple[Any, ...]]:
        """The levels of each column that has some, in the order of `level_probabilities`."""
        found = {}
        for j, fitted in zip(self.used, self.columns.kinds, strict=True):
            if isinstance(fitted, LevelColumn):
                own = self.schema.columns[j]
                found[self.key(j)] = tuple(own.level(float(x)) for x in fitted.levels)
        return found

    def key(self, j: int) -> Any:
        """The name of a column, or its position."""
        names = self.names
        return j if names is None else names[j]

    def _held(self, block: Block) -> Block:
        """The block, if its values are such as their columns can hold."""
        for k, (j, fitted) in enumerate(zip(self.used, self.columns.kinds, strict=True)):
            self._require_held(np.asarray(block.values[:, k], np.float64), block, j, fitted)
            details = self.details.of_column(block.values, k)
            if details is not None and isinstance(fitted, ContinuousColumn):
                self._require_admitted(np.asarray(details, np.float64), block, j, fitted)
        return block

    def _require_admitted(
        self, details: Array, block: Block, j: int, fitted: ContinuousColumn
    ) -> None:
        """Refuse limits that leave no value of a column."""
        limits, own = Limits.of(details), self.schema.columns[j]
        bad = np.flatnonzero(~fitted.admits(limits))
        if not len(bad):
            return
        at, (low, _) = int(bad[0]), fitted.margin.family.range
        is_low = bool(limits.upper[at] <= low)
        limit = float(limits.upper[at] if is_low else limits.lower[at])
        raise DataError(
            f"the {'upper' if is_low else 'lower'} limit {limit:g} at row "
            f"{words().number(block.start + at)}, column {column(self.names, j)}, leaves no value: "
            f"{_range(fitted, own)}. Make the cell missing (NaN), or fit on rows "
            "that have such values",
            row=block.start + at,
            column=j,
            name=own.name,
            value=limit,
        )

    def _require_held(self, x: Array, block: Block, j: int, fitted: Column) -> None:
        """Refuse values of a column that it cannot hold."""
        rows = np.flatnonzero(~np.isnan(x))
        x, kind, own = x[rows], self.kinds[j], self.schema.columns[j]
        bad = np.flatnonzero(~fitted.holds(x))
        fault = None if len(bad) else kind.fault(x, has_levels=bool(own.levels))
        if not len(bad) and fault is None:
            return
        at = int(bad[0] if fault is None else fault.at)
        refused = UnknownLevelError if has_levels_alone(fitted) else DataError
        value, row = own.level(float(x[at])), block.start + int(rows[at])
        way = self._other_kinds(j, fitted, float(x[at]))
        raise refused(
            f"{show(value)} at row {row}, column {column(self.names, j)}, does not fit "
            f"this {kind.word} column: {_range(fitted, own)}. Make it missing (NaN), or fit on "
            f"rows that have it{way}",
            row=row,
            column=j,
            name=own.name,
            value=value if isinstance(value, float) else str(value),
        )

    def _other_kinds(self, j: int, fitted: Column, value: float) -> str:
        """The way out where a column of few numbers was taken for levels."""
        own = self.schema.columns[j]
        if not isinstance(fitted, LevelColumn) or not has_levels_alone(fitted) or own.levels:
            return ""
        key = j if own.name is None or self.names is None else quote(own.name)
        are_counts = bool(CountColumn().holds(np.append(fitted.levels, value)).all())
        kinds = '"count"} or "continuous"' if are_counts else '"continuous"}'
        return f"; where any number may occur, fit with columns={{{key}: {kinds}"


def _censored(
    kinds: Sequence[Kind], schema: Schema, wanted: Mapping[int, Kind]
) -> tuple[Kind, ...]:
    """The kinds, columns with limits in their text as censored ones."""
    found = list(kinds)
    for j in schema.limited:
        kind = kinds[j]
        if j not in wanted:
            found[j] = Censored()
        elif type(kind) is Continuous:
            found[j] = Censored(kind.transform)
        elif not kind.takes_limits:
            raise DataError(
                f"column {column(schema.names, j)} cannot be {kind.word}: it holds limits, text "
                'such as "<0.1". Make it Censored() in columns=, or the limits missing',
                column=j,
                name=schema.columns[j].name,
            )
    return tuple(found)


class _DetailedSource(DerivedSource):
    """Coded rows of a whole table as those of the columns that are used, with their details."""

    def __init__(self, parent: Source, details: Details, schema: Schema) -> None:
        super().__init__(parent, self._coded)
        self._details, self._schema = details, schema
        self.names = details.names
        self.n_features = len(details.used) + details.n

    def _coded(self, block: Block) -> Block:
        rows = np.asarray(block.values, dtype=np.float64)
        parsed = _parsed(rows, self._schema)
        return replace(block, values=self._details.checked(*parsed, block.start, block.weight))

    def _of(self, values: Any) -> Array:
        rows = np.asarray(values, dtype=np.float64)
        return self._details.coded(*_parsed(rows, self._schema))

    def present(self) -> Source:
        parent = self._parent.present()
        return self if parent is self._parent else type(self)(parent, self._details, self._schema)

    def sample(self, k: int, rng: np.random.Generator) -> Array:
        return self._of(self._parent.sample(k, rng))

    def collect(self) -> Array:
        return self._of(self._parent.collect())

    def observed(self) -> ObservedCells:
        return self.reduce(ObservedCells.of)


def _detailed(rows: Source, details: Details, bounds: Bounds | None, schema: Schema) -> Source:
    """Coded rows of a whole table, with details; given limits are those of a table in memory."""
    if not isinstance(rows, ArraySource):
        return _DetailedSource(rows, details, schema)
    values, parsed = _parsed(np.asarray(rows.collect(), dtype=np.float64), schema)
    if bounds is not None and parsed is not None:
        given = are_given(bounds)
        bounds = (np.where(given, bounds[0], parsed[0]), np.where(given, bounds[1], parsed[1]))
    bounds = parsed if bounds is None else bounds
    coded = details.checked(values, bounds, weight=rows.weight)
    return ArraySource(coded.astype(rows.dtype), weight=rows.weight, names=details.names)


def _parsed(rows: Array, schema: Schema) -> tuple[Array, Bounds | None]:
    """Coded rows (c, d), and the limits (c, d) that text in them stands for."""
    d, limited = len(schema.columns), schema.limited
    if not limited:
        return rows, None
    lower, upper = np.full((2, len(rows), d), np.nan)
    lower[:, limited], upper[:, limited] = rows[:, d::2], rows[:, d + 1 :: 2]
    return rows[:, :d], (lower, upper)


def _require_values(schema: Schema, wanted: Mapping[int, Kind]) -> None:
    """Refuse a kind for a column that holds neither numbers nor levels, dates for instance."""
    for j, kind in wanted.items():
        own = schema.columns[j]
        if own.holds != "other" or isinstance(kind, Ignored):
            continue
        way = "Make numbers or text of it"
        if own.note == TIMES:
            way = "Make numbers of it, days since the first for instance, or text for levels"
        raise DataError(
            f"column {column(schema.names, j)} cannot be {kind.word}: {own.note or NO_VALUES}. "
            f'{way}, or leave it out of the model by columns={{...: "ignored"}}',
            column=j,
            name=own.name,
        )


def _warn_of_text(
    X: Any,
    table: MixedTable,
    schema: Schema,
    kinds: Sequence[Kind],
    wanted: Mapping[int, Kind],
) -> None:
    """Warn of text that is probably meant otherwise, where nobody has named the kind of a column.

    Numbers that are written in another way, a few words among numbers, and marks among words.
    """
    for j, own in enumerate(schema.columns):
        if j in wanted or own.holds_unasked not in ("levels", "other") or own.note == TIMES:
            continue
        is_out = isinstance(kinds[j], Ignored)
        if own.note != DATES and (found := _like_a_number(table, schema, j)) is not None:
            text, look = found
            rows, _ = table.rows_with(schema, j, [text])
            way = look.way.partition(";")[0] if in_memory_table(X) else look.way
            kind = _kind_to_name(schema, j, "ignored" if is_out else "nominal")
            warn(
                f"column {column(schema.names, j)} holds text that looks like {look.like} "
                f"({show(text)} at row {words().number(rows[0])}), and is {_taken(is_out)}. To use "
                f"its numbers, {way}; else name the kind of the column, {kind}",
                SentinelWarning,
            )
        elif own.odd:
            _warn_of_codes_in_text(X, table, schema, j, own.odd, is_out)
        elif not is_out and (marks := _marks(own.levels)):
            _warn_of_codes_in_text(X, table, schema, j, marks, is_out)


def _warn_of_codes_in_text(
    X: Any, table: MixedTable, schema: Schema, j: int, texts: Sequence[str], is_out: bool
) -> None:
    rows, found = table.rows_with(schema, j, texts)
    if not rows:
        return
    label, n, odd = column(schema.names, j), len(rows), schema.columns[j].odd
    codes = [show(text) for text in texts[:MOST_SHOWN]]
    way = f"missing_values=[{', '.join(codes)}]"
    if in_memory_table(X):
        library = library_of(X) or ""
        way = TO_NUMERIC.get(library, {}).get(MIXED, "") if odd else TO_MISSING.get(library, "")
        way = way.format(label, codes[0])
    way = words().either(way, words().missing_values(codes))
    cells = f"{n} cell{'s' * (n > 1)} ({show(found[0])} at row {words().number(rows[0])})"
    text, what = "mark", f"a mark in {cells}, taken for a level"
    if odd:
        text, what = "text", f"numbers, but text in {cells}, and is {_taken(is_out)}"
    warn(
        f"column {label} holds {what}. If the {text} "
        f"stands for missing values, make it missing{', ' * bool(way)}{way}; else name the "
        f"kind of the column, {_kind_to_name(schema, j, 'nominal')}",
        SentinelWarning,
    )


def _taken(is_out: bool) -> str:
    return "left out of the model" if is_out else "taken for levels"


def _kind_to_name(schema: Schema, j: int, kind: str) -> str:
    key = j if schema.names is None else column(schema.names, j)
    return words().either(f'columns={{{key}: "{kind}"}}', "--kinds")


def _like_a_number(table: MixedTable, schema: Schema, j: int) -> tuple[str, Likeness] | None:
    """The first text that resembles a number, where most that is no number does."""
    own = schema.columns[j]
    texts = [level for level in own.levels if isinstance(level, str)]
    texts = texts[:: max(1, len(texts) // MOST_TEXTS)] if not own.odd else list(own.odd)
    if not own.levels and not own.odd:
        texts = table.first_texts(schema, j, MOST_TEXTS)
    others = [text for text in texts if not is_number(text)]
    has_numbers = bool(own.odd) or len(others) < len(texts)
    looks = {text: look for text in others if (look := likeness_of(text)) and not look.is_line}
    looks = {text: look for text, look in looks.items() if look.is_sure or has_numbers}
    return next(iter(looks.items())) if 2 * len(looks) > len(others) else None


def _marks(levels: Sequence[Any]) -> tuple[str, ...]:
    """Levels without a letter or digit that people write where nothing is known.

    >>> _marks(["-", "nonsmoker", "smoker"]), _marks(["+", "-"]), _marks(["?", ".", "no", "yes"])
    (('-',), (), ('?', '.'))
    """
    texts = [level for level in levels if isinstance(level, str)]
    marks = tuple(text for text in texts if not text.strip(MARKS))
    others = [text for text in texts if text not in marks]
    are_words = bool(others) and all(any(map(str.isalnum, text)) for text in others)
    return marks if are_words else ()


def _measured(schema: Schema, kinds: Sequence[Kind], wanted: Mapping[int, Kind]) -> frozenset[int]:
    """Columns of numbers that are measurements: 99 may be a level where somebody says so."""
    named = {j for j, kind in wanted.items() if isinstance(kind, Binary | Nominal | Ordinal)}
    return frozenset(
        j
        for j, (own, kind) in enumerate(zip(schema.columns, kinds, strict=True))
        if not (own.levels or isinstance(kind, Ignored) or j in named)
    )


def _exposures(wanted: Mapping[int, Kind], schema: Schema) -> dict[int, int]:
    """Of columns of counts whose rows have a size of their own: the column that holds it."""
    found = {}
    for j, kind in wanted.items():
        if not isinstance(kind, Count) or kind.size is None:
            continue
        if kind.size == TOTAL:
            _require_no_column_total(schema)
            continue
        (at,) = resolve_columns([kind.size], schema.names, len(schema.columns))
        label, name = column(schema.names, at), schema.columns[at].name
        if at == j:
            raise DataError(
                f"column {label} is named as its own size. Name the column that holds the size of "
                'each row, or size="total"',
                column=at,
                name=name,
            )
        if schema.columns[at].holds != "numbers":
            raise DataError(
                f"column {label} holds no numbers, so it is no size", column=at, name=name
            )
        found[j] = at
    return found


def _require_no_column_total(schema: Schema) -> None:
    """Refuse the word for the sum of a row where it may be meant for a column of that name."""
    names = [own.name for own in schema.columns]
    if TOTAL in names:
        at = names.index(TOTAL)
        raise DataError(
            f'size="{TOTAL}" may mean the column {quote(TOTAL)} or the sum of each row. If the '
            f"column holds the sizes, name it by its position, Count(size={at}); if not, rename it",
            column=at,
            name=TOTAL,
        )


def _of_weight(source: Source) -> Source:
    """Without rows of weight 0, which other sources do not have."""
    if not isinstance(source, ArraySource) or source.weight is None or source.weight.all():
        return source
    return source.only(np.flatnonzero(source.weight))


def _used(kinds: tuple[Kind, ...]) -> list[int]:
    return [j for j, kind in enumerate(kinds) if not isinstance(kind, Ignored)]


def _text(level: Any) -> str:
    return f"{level:g}" if isinstance(level, float) else str(level)


def has_levels_alone(fitted: Column) -> bool:
    """Whether no new row may have a value that is none of the levels."""
    is_range = isinstance(fitted, OrdinalColumn) and fitted.is_range
    return isinstance(fitted, LevelColumn) and not is_range


def _range(fitted: Any, own: ColumnType) -> str:
    """The values that a column had in the fit, in words."""
    if isinstance(fitted, OrdinalColumn) and fitted.is_range:
        return f"its values lie between {fitted.lower:g} and {fitted.upper:g}"
    if isinstance(fitted, LevelColumn):
        shown = ", ".join(show(own.level(float(x))) for x in fitted.levels[:MOST_SHOWN])
        more = ", ..." if len(fitted.levels) > MOST_SHOWN else ""
        return f"the levels of the fit are {shown}{more}"
    if isinstance(fitted, ContinuousColumn):
        low, high = fitted.margin.family.range
        return f"its values lie between {low:g} and {high:g}"
    return "it holds counts"


def _require_clear(X: Any, asked: Mapping[Any, Any]) -> None:
    """Integers are positions; where columns have integers for names, one may be both."""
    labels = list(X.columns) if hasattr(X, "iloc") and hasattr(X, "columns") else []
    for key in asked:
        is_name = isinstance(key, int | np.integer) and not isinstance(key, bool) and key in labels
        if is_name and labels[int(key) % len(labels)] != key:
            raise DataError(
                f"columns names {key}, which is the name of one column of X and the position of "
                "another. Name the columns by text, e.g. X.rename(columns=str)",
                column=labels.index(key),
            )


def schema_as_asked(schema: Schema, asked: Mapping[Any, Any]) -> tuple[Schema, dict[int, Kind]]:
    """The schema that kinds which are asked for make of a table's own, and the kinds."""
    wanted = _asked_kinds(schema, asked)
    schema = schema.with_numbers({j for j, kind in wanted.items() if kind.of_numbers})
    return schema.in_order({j: kind.order_of for j, kind in wanted.items()}), wanted


def _asked_kinds(schema: Schema, asked: Mapping[Any, Any]) -> dict[int, Kind]:
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
