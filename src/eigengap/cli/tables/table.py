"""The table that a command is given: its columns, and which of them are features.

A column is a feature unless it is named by --id, --ignore or --target, or --columns names others,
or it holds what no model can use (`tables.kinds`).
"""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from functools import cached_property
from math import nan
from pathlib import Path
from typing import Any

from eigengap import sources
from eigengap.cli.errors import FileTrouble, Unfittable, WrongUsage, shown
from eigengap.cli.files import as_file
from eigengap.cli.narration import listing, many
from eigengap.cli.tables.faults import faults_of_csv, faults_of_parquet, on_names
from eigengap.cli.tables.kinds import (
    NAMES,
    asked_kinds,
    held,
    require_orders,
    written,
)
from eigengap.fitting.columns.kinds import Ignored, Kind
from eigengap.sources import quote

MOST_ASIDE = 8  # columns that a message lists
LIMITS = "limits"  # among the numbers of a column


@dataclass(frozen=True)
class Choice:
    """The options on columns and cells."""

    columns: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    ids: tuple[str, ...] = ()
    target: str | None = None
    na: tuple[str, ...] = ()
    skipped: sources.SkippedLines = sources.SKIP_NOTHING
    numeric: bool = False
    kinds: tuple[str, ...] = ()
    orders: tuple[str, ...] = ()

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Choice:
        """From the options of a command, as far as it has them."""
        if given["comment"] is not None and not given["comment"].strip():
            raise WrongUsage("--comment is empty: give what comments begin with, e.g. '#'")
        columns, ignore, ids = (given.get(name, ()) for name in ("columns", "ignore", "ids"))
        skipped = sources.SkippedLines.of(given["skip_rows"], given["comment"])
        kinds, orders = given.get("kinds", ()), given.get("orders", ())
        numeric = bool(given.get("numeric", False))
        if numeric and (kinds or orders):
            raise WrongUsage("--numeric takes columns as numbers; leave --kinds and --order out")
        return cls(
            columns, ignore, ids, given.get("target"), given["na"], skipped, numeric, kinds, orders
        )


@dataclass(frozen=True, eq=False)
class Table:
    """A file, or several with the same columns, and the columns that are meant."""

    given: str  # as the user wrote it
    paths: tuple[str, ...]  # what is there, each as `open_source` takes it
    kind: str  # "csv", "parquet", or "numbers" for what holds nothing else
    names: tuple[str, ...] | None  # of all columns
    n_columns: int
    na: tuple[str, ...] = ()
    features: tuple[int, ...] = ()  # positions
    ids: tuple[int, ...] = ()
    target: int | None = None
    notes: tuple[str, ...] = ()  # to be printed when it has been read
    readers: tuple[Any, ...] = field(default=(), repr=False)  # of CSV
    skipped: sources.SkippedLines = sources.SKIP_NOTHING
    levels: tuple[int, ...] = ()  # features of text, whose cells are levels
    limited: tuple[int, ...] = ()  # features of numbers among which are limits, "<0.1"
    unused_limits: tuple[int, ...] = ()  # the same where the model takes no limits
    truths: tuple[int, ...] = ()  # features that are true and false
    aside: Mapping[int, str] = field(default_factory=dict)  # why other columns are no features
    row_numbers: tuple[int, ...] = ()  # those of them that are numbers
    kinds: Mapping[int, Kind] = field(default_factory=dict)  # that options ask for
    # How levels are written in the file, where they have been met.
    written: Mapping[int, Mapping[str, bytes]] = field(default_factory=dict, repr=False)

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        return None if self.names is None else tuple(self.names[j] for j in self.features)

    def name(self, j: int) -> str:
        """Column j, by its position where it has no name."""
        return self.names[j] if self.names is not None and self.names[j] else str(j)

    def source(self, positions: Sequence[int] | None = None) -> Any:
        """The features as `open_source` reads them."""
        columns: list[Any] = list(self.features if positions is None else positions)
        every = columns == list(range(self.n_columns))
        counts = Counter(self.names or ())
        if self.names and all(self.names[j] and counts[self.names[j]] == 1 for j in columns):
            columns = [self.names[j] for j in columns]
        return sources.open_source(
            self.paths[0] if len(self.paths) == 1 else list(self.paths),
            columns=None if every else columns,
            missing_values=self.missing_values,
            skip_rows=self.skipped.first,
            comment=self.skipped.mark,
        )

    @property
    def numbers(self) -> tuple[int, ...]:
        """Positions of the features that are numbers, without limits among them."""
        others = {*self.levels, *self.limited}
        return tuple(j for j in self.features if j not in others)

    @property
    def is_mixed(self) -> bool:
        """Whether the features are more than plain numbers."""
        return bool(self.levels or self.limited or self.kinds)

    @property
    def asked(self) -> dict[Any, Kind]:
        """The kinds that options ask for, as `columns=` of an estimator takes them."""
        place = {j: k for k, j in enumerate(self.features)}
        return {
            place[j] if self.names is None else self.name(j): kind
            for j, kind in self.kinds.items()
            if j in place
        }

    @property
    def missing_values(self) -> list[Any]:
        """The values of --na, as `open_source` takes them; text is looked for in CSV files only."""
        return [nan, *(self.na if self.kind == "csv" else ()), *self.codes]

    @cached_property
    def codes(self) -> tuple[float, ...]:
        """The numbers among the values of --na."""
        return sources.missing_codes([float(code) for code in self.na if sources.is_number(code)])

    @cached_property
    def schema(self) -> Any:
        """Arrow's, of Parquet."""
        from eigengap.cli.tables.pieces import schema_of

        return schema_of(self.paths[0])


@contextmanager
def opened(data: str, given: Mapping[str, Any], takes_levels: bool = False) -> Iterator[Table]:
    """The table that a command is to fit, a file or standard input."""
    choice = Choice.of(given)
    with as_file(data, "DATA") as path:
        yield open_table(data, path, choice, takes_levels)


def open_table(given: str, path: str, choice: Choice, takes_levels: bool = False) -> Table:
    """Look at a table and decide which columns are what.

    Text that recurs is used where the model `takes_levels`, and set aside where not.
    """
    table = _looked_at(given, path, choice)
    asked = asked_kinds(table, choice.kinds, choice.orders)
    if asked and not takes_levels:
        raise WrongUsage(
            "this model takes columns as numbers; leave --kinds and --order out, or take "
            "another: -m low-rank"
        )
    ids = tuple(_positions(table, choice.ids, "--id"))
    ignored = set(_positions(table, choice.ignore, "--ignore"))
    target = None if choice.target is None else position_of(table, choice.target, "--target")
    apart = {*ids, *ignored, target}
    bare: list[int] = []
    if choice.columns:
        features = tuple(_positions(table, choice.columns, "--columns"))
        if not features:
            has = listing(_all_names(table), most=12)
            raise WrongUsage(f"--columns names no column of {shown(given)}, which has {has}")
    else:
        # Columns behind the separators with which every line of every file ends.
        behind = min((reader.dialect.bare for reader in table.readers), key=len, default=())
        bare = [j for j in behind if j not in apart]
        # Columns of Parquet that hold the row labels of a pandas frame.
        index = sources.index_columns(table.schema) if table.kind == "parquet" else ()
        labels = (j for j, name in enumerate(table.names or ()) if name in index)
        left_out = {*apart, *bare, *labels}
        features = tuple(j for j in range(table.n_columns) if j not in left_out)
    clash = next((j for j in features if j in apart), None)
    if clash is not None:
        raise WrongUsage(f"column {quote(table.name(clash))} is both a feature and left out")
    if not features:
        raise WrongUsage(
            f"no column of {shown(given)} is left: all of {listing(_all_names(table))} are named "
            "by --id, --ignore or --target"
        )
    table = _with_kinds(
        replace(table, features=features, ids=ids, target=target),
        asked,
        takes_levels,
        bool(choice.columns),
    )
    _require_numbers(table, can_ignore=True)
    notes = [_left_out(table, bare)] if bare else []
    if why := on_names(table):
        notes.append(f"columns have no names and go by position, the first being 0. {why}")
    if table.limited:
        limited = listing([table.name(j) for j in table.limited])
        notes.append(f"numbers behind < and > in {limited} are read as limits of values")
    truths = _truths(table)
    if truths:
        names = listing([table.name(j) for j in truths])
        notes.append(f"true and false in {names} are read as 1 and 0")
    return replace(table, notes=tuple(notes))


def _with_kinds(table: Table, asked: dict[int, Kind], takes_levels: bool, are_named: bool) -> Table:
    """The table with the features that a model can use, the others set aside."""
    wanted = {j: kind for j, kind in asked.items() if not isinstance(kind, Ignored)}
    ignored = {j: "as asked" for j in asked if j not in wanted}
    candidates = [j for j in table.features if j not in ignored]
    found = held(table, candidates, wanted, are_named, takes_levels)
    require_orders(table, found.texts, wanted)
    aside = {**found.aside, **ignored}
    levels, limited, truths = found.levels, found.limited, found.truths
    if not takes_levels:
        aside |= {j: "text" for j in levels if j not in truths}
        levels, limited = (), ()
    features = tuple(j for j in table.features if j not in aside)
    if not features:
        why = ", ".join(f"{quote(table.name(j))} ({aside[j]})" for j in list(aside)[:MOST_ASIDE])
        raise Unfittable(f"{shown(table.given)}: no column can be used: {why}")
    names = tuple(j for j, why in aside.items() if why == NAMES)
    return replace(
        table,
        features=features,
        ids=table.ids or names,
        levels=tuple(filter({*levels}.__contains__, features)),
        limited=tuple(filter({*limited}.__contains__, features)),
        unused_limits=() if takes_levels else found.limited,
        truths=truths,
        aside=dict(sorted(aside.items())),
        row_numbers=found.row_numbers,
        kinds=wanted,
        written={j: found.texts[j].written for j in {*levels, *truths}},
    )


def table_for(
    given: str,
    path: str,
    features: Sequence[str | int],
    choice: Choice,
    n_columns: int,
    *,
    may_lack_ids: bool = True,
    holds: Sequence[str] | None = None,
) -> Table:
    """A table for a model that is fitted: its features are found by name.

    `holds` says what each of its columns held in the fit, where they were not all numbers: as
    `ColumnType` has it, or LIMITS.

    Where there are no names on either side they go by position, and then the table has to have as
    many columns as that of the fit (`n_columns`), unless --columns selects them. Ids that
    the fit had may be absent from new rows; those that an option names have to be there.
    """
    table = _looked_at(given, path, choice)
    if choice.columns:
        found = _positions(table, choice.columns, "--columns")
        if len(found) != len(features):
            raise WrongUsage(
                f"--columns names {many(len(found), 'column')}, and the model was fitted to "
                f"{len(features)}"
            )
    elif table.names is None or any(isinstance(one, int) for one in features):
        found = [int(one) if isinstance(one, int) else k for k, one in enumerate(features)]
        # New rows for a prediction may come without the column that is predicted, if it was last.
        lacks_target = choice.target == str(n_columns - 1) == str(table.n_columns)
        _require_as_many(table, features, n_columns - lacks_target)
    else:
        found = _of_model(table, [str(one) for one in features])
    named = _positions(table, choice.ids, "--id", absent_ok=may_lack_ids)
    ids = tuple(j for j in named if j not in set(found))
    table = replace(table, features=tuple(found), ids=ids)
    if choice.target is not None:
        there = _positions(table, [choice.target], "--target", absent_ok=True)
        table = replace(table, target=there[0] if there else None)
    if holds is not None and table.kind != "numbers":
        pairs = list(zip(table.features, holds, strict=True))
        levels = tuple(j for j, one in pairs if one not in ("numbers", LIMITS))
        limited = tuple(j for j, one in pairs if one == LIMITS)
        truths = tuple(j for j, one in pairs if one == "truth")
        spelt = written(table, levels)
        table = replace(table, levels=levels, limited=limited, truths=truths, written=spelt)
    elif table.kind != "numbers":
        truths = tuple(_truths(table, alone=True))
        table = replace(table, truths=truths, written=written(table, truths))
    _require_numbers(table, can_ignore=False)
    return table


def _require_as_many(table: Table, features: Sequence[str | int], n_columns: int) -> None:
    if table.n_columns == n_columns:
        return
    whose = "this file" if table.names is None else "the model"
    taken = "" if len(features) == n_columns else f", of which it takes {len(features)}"
    raise FileTrouble(
        f"{shown(table.given)} has {many(table.n_columns, 'column')}, and the model was fitted to "
        f"a table of {n_columns}{taken}; {whose} has no names to find them by"
        f"{_why_nameless(table)}. Say which they are, in the order of the fit: "
        f"--columns {'a,b' if table.names else '0,1'},..."
    )


def _why_nameless(table: Table) -> str:
    why = on_names(table)
    return f". {why}" if why else ""


def _of_model(table: Table, features: Sequence[str]) -> list[int]:
    assert table.names is not None
    places = {name: j for j, name in reversed(list(enumerate(table.names)))}  # the first of each
    missing = [name for name in features if name not in places]
    if missing:
        raise FileTrouble(
            f"{shown(table.given)} lacks {listing([quote(one)[1:-1] for one in missing])}, which "
            f"the model was fitted to; it has {listing(_all_names(table))}"
        )
    counts = Counter(table.names)
    twice = next((name for name in features if counts[name] > 1), None)
    if twice is not None:
        raise FileTrouble(
            f"{shown(table.given)} has {counts[twice]} columns named {quote(twice)}. Rename them, "
            "or give the columns by position, in the order of the fit (the first is 0): "
            f"--columns {','.join(str(places[name]) for name in features)}"
        )
    return [places[name] for name in features]


# Looking ------------------------------------------------------------------------------------


def _looked_at(given: str, path: str, choice: Choice) -> Table:
    if sources.is_field_path(path):
        return _numbers(given, (path,), choice.na)
    addresses = []
    for address in sources.find_files(path):
        is_folder = address.path.is_dir() and sources.format_of(address.path).name == "folder"
        addresses += sources.parquet_parts(address) if is_folder else [address]
    kinds = {sources.format_of(address.path).name for address in addresses}
    paths = tuple(str(a.path) if a.member is None else f"{a.path}::{a.member}" for a in addresses)
    is_whole = not any(a.member for a in addresses)
    if kinds == {"csv"} and is_whole:
        return _csv(given, paths, choice)
    if choice.skipped:
        raise WrongUsage(f"{shown(given)} has no lines: --skip-rows and --comment are for CSV")
    if kinds != {"parquet"} or not is_whole:
        return _numbers(given, paths, choice.na)
    from eigengap.cli.tables.pieces import schema_of

    names = tuple(schema_of(paths[0]).names)
    for other in paths[1:]:
        if tuple(schema_of(other).names) != names:
            raise FileTrouble(f"{shown(other)} has other columns than {shown(paths[0])}")
    return Table(given, paths, "parquet", names, len(names), choice.na)


def _csv(given: str, paths: tuple[str, ...], choice: Choice) -> Table:
    from eigengap.cli.tables.pieces import CsvText

    texts = frozenset(code.strip() for code in choice.na)
    readers = tuple(
        CsvText(Path(path), texts, sources.format_of(Path(path)).compression, choice.skipped)
        for path in paths
    )
    if not any(reader.dialect.head for reader in readers):
        raise FileTrouble(f"{shown(given)}: it has a header and no rows")
    first = readers[0]
    for other in readers[1:]:
        if other.names != first.names or other.n_features != first.n_features:
            raise FileTrouble(
                f"{shown(other.where)} has other columns than {shown(first.where)}; files that "
                "are read as one table have the same columns in the same order"
            )
    return Table(
        given, paths, "csv", first.names, first.n_features, choice.na,
        readers=readers, skipped=choice.skipped,
    )  # fmt: skip


def _numbers(given: str, paths: tuple[str, ...], na: tuple[str, ...]) -> Table:
    source = sources.open_source(paths[0] if len(paths) == 1 else list(paths))
    return Table(given, paths, "numbers", source.names, source.n_features, na)


def _left_out(table: Table, bare: Sequence[int]) -> str:
    dialect = table.readers[0].dialect
    mark = {",": "comma", ";": "semicolon", "\t": "tab", "|": "bar"}[dialect.separator]
    rows = many(len(dialect.head), "row")
    at = f"({', '.join(map(str, bare))}, the first being 0)"
    if len(bare) == 1:
        return (
            f"lines end with a {mark}; the column behind it {at} has no name and is empty in the "
            f"first {rows}, and is left out"
        )
    return (
        f"lines end with {len(bare)} {mark}s; the columns behind them {at} have no names and are "
        f"empty in the first {rows}, and are left out"
    )


def _truths(table: Table, alone: bool = False) -> list[int]:
    """Features that hold true or false: in the first rows of CSV, or by their type in Parquet.

    `alone` leaves out columns that hold numbers too.
    """
    found: list[int] = []
    if table.kind == "csv":
        rows = [row.cells for reader in table.readers for row in reader.dialect.head]
        missing = table.readers[0].dialect.cells.is_missing
        cells = {
            j: {row[j].strip().lower() for row in rows if not missing(row[j])}
            for j in table.numbers
        }
        truths = sources.TRUTH_VALUES.keys()
        found = [j for j in table.numbers if cells[j] & truths]
        found = [j for j in found if not alone or cells[j] <= truths]
    elif table.kind == "parquet":
        found = [j for j in table.numbers if str(table.schema.field(j).type) == "bool"]
    return found


# Choosing -----------------------------------------------------------------------------------


def _positions(
    table: Table, wanted: Sequence[str], option: str, absent_ok: bool = False
) -> list[int]:
    """Columns by name, several of them parted by commas, as a line of CSV has them."""
    found: list[int] = []
    names = table.names or ("",) * table.n_columns
    for text in wanted:
        whole = table.names is not None and text in names
        parts = [text] if whole else next(csv.reader([text], skipinitialspace=True), [])
        for name in parts if whole else filter(None, parts):
            # Among names a position stands for a column without one, such as the row names of R.
            is_place = _is_position(table, name) and not names[int(name)]
            if absent_ok and name not in names and not is_place:
                continue
            j = position_of(table, name, option)
            if j not in found:
                found.append(j)
    return found


def _is_position(table: Table, name: str) -> bool:
    return name.isdecimal() and name.isascii() and int(name) < table.n_columns


def position_of(table: Table, name: str, option: str) -> int:
    at = [j for j, one in enumerate(table.names or ()) if one == name]
    if len(at) == 1:
        return at[0]
    if not at and _is_position(table, name):
        return int(name)
    if at:
        why = (
            f"{len(at)} columns have that name (positions {', '.join(map(str, at))}, the first "
            "column being 0); name them by position"
        )
    elif table.names is None:
        why = (
            f"{shown(table.given)} has no column names; columns go by position, 0 to "
            f"{table.n_columns - 1}{_why_nameless(table)}"
        )
    else:
        close = get_close_matches(name, table.names, n=1)
        has = f"It has {listing(_all_names(table), most=12)}"
        hint = f"Did you mean {quote(close[0])}?" if close else has
        why = f"{shown(table.given)} has no such column. {hint}"
    raise WrongUsage(f"{option} {quote(name)}: {why}")


def _all_names(table: Table) -> list[str]:
    return [table.name(j) for j in range(table.n_columns)]


def _require_numbers(table: Table, *, can_ignore: bool) -> None:
    """Refuse features that hold text, all of them in one message."""
    found: list[str] = []
    if table.kind == "csv":
        read = [*table.numbers, *table.limited, *([] if table.target is None else [table.target])]
        for reader in table.readers:
            reader.decide_mark(read)
        sources.agree_on_decimals(table.readers)
        found = faults_of_csv(table, can_ignore)
    elif table.kind == "parquet":
        found = faults_of_parquet(table, can_ignore)
    if found:
        raise Unfittable(f"{shown(table.given)}: " + "\n       ".join(found))
