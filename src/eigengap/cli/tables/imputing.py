"""A table with its missing values imputed, piece by piece, along with all observed ones."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import compute

import eigengap
from eigengap.cli.errors import Unfittable, WrongUsage, shown
from eigengap.cli.files import NUMBERS, TEXT, form_of
from eigengap.cli.narration import Narrator, figure, listing, many, sd_text, with_sd
from eigengap.cli.progress import counting_rows
from eigengap.cli.tables import outputs
from eigengap.cli.tables.outputs import given, unique
from eigengap.cli.tables.pieces import Piece, pieces, without_nulls
from eigengap.cli.tables.table import Table
from eigengap.registry import ESTIMATORS
from eigengap.sources import quote

SHOWN = 5  # imputed values that are printed as examples
MOST_SDS = 100_000  # whose median is printed
MOST_OUTSIDE = 4  # columns that a note names
SD, PROBABILITY = "_sd", "_p"


def require_imputes(model: Any, which: str, draws: int | None = None) -> None:
    """Refuse a model, or a class of them, that imputes no missing values."""
    if not hasattr(model, "impute"):
        can = [e.command for e in ESTIMATORS if hasattr(getattr(eigengap, e.name), "impute")]
        raise WrongUsage(f"{which} imputes no missing values; {listing(can, most=20)} do")
    if draws is not None and not hasattr(model, "sample_imputations"):
        raise WrongUsage(f"{which} cannot draw missing values at random; leave --draws out")


def write_imputed(
    model: Any,
    table: Table,
    output: str,
    force: bool,
    narrator: Narrator,
    *,
    std: bool = False,
    prints_std: bool = False,
    draws: int | None = None,
    seed: int = 0,
) -> None:
    """Impute, write, and report; `prints_std` if deviations are printed and not written."""
    layout = Layout(table, form_of(output), std, draws is not None)
    if layout.lost:
        narrator.note(
            f"{shown(output)} holds numbers alone; {listing(layout.lost)} cannot stand there"
        )
    imputed, manner = Imputed(table), None
    if table.kind == "csv" and not output.lower().endswith(".tsv"):  # it comes out as it went in
        reader = table.readers[0]
        separator, mark = reader.dialect.separator, reader.dialect.cells.decimal
        manner = outputs.Manner(separator, mark, reader.line_end, reader.has_mark, reader.above())
    rows = narrator.facts.get("rows")
    with (
        narrator.hearing(),
        outputs.open_output(output, layout.names, force, manner) as write,
        counting_rows(narrator, "Imputing", rows and rows * (draws or 1)) as done,
    ):
        for number, piece, found in _imputed(model, table, std or prints_std, draws, seed):
            _round_truths(piece, found, table)
            _require_numbers(piece, found.values, table)
            if number in (None, 1):
                imputed.add(piece, found)
            write(layout.of(piece, found, number))
            done(piece.n_rows)
    imputed.report(narrator, draws, is_gaussian=outputs.schema_of(model) is None)
    outputs.report_output(output, imputed.rows * (draws or 1), layout.n_columns, narrator)
    lost = sum(reader.n_lost for reader in table.readers)
    if lost:
        narrator.note(f"{many(lost, 'comment')} between rows cannot stand in {shown(output)}")


@dataclass(frozen=True, eq=False)
class Answers:
    """What a model makes of a piece, column by column."""

    values: NDArray[Any]  # (c, d) numbers; NaN in columns of levels
    levels: Mapping[int, Any]  # Arrow arrays of the columns of levels, by their number
    # (c, d) standard deviations; of levels the probability of the one that is imputed
    sd: NDArray[Any] | None = None


def _imputed(
    model: Any, table: Table, std: bool, draws: int | None, seed: int
) -> Iterator[tuple[int | None, Piece, Answers]]:
    """Draw (from 1), piece, and its answers."""
    if draws is None:
        for piece in pieces(table):
            rows = given(model, piece, table)
            found, sd = model.impute(rows, return_std=True) if std else (model.impute(rows), None)
            answers = _answers(found, sd, table, piece)
            if answers.levels and answers.sd is not None:
                _add_probabilities(answers, model, rows, table)
            yield None, piece, answers
        return
    is_numeric = outputs.schema_of(model) is None
    if is_numeric and hasattr(model, "predictive_") and not hasattr(model, "estimator_"):
        rng = np.random.default_rng(seed)
        for number in range(1, draws + 1):
            drawn = model.predictive_.draw(rng)  # parameters, once for the whole table
            for piece in pieces(table):
                values = np.asarray(drawn.sample_conditional(piece.values, rng))
                yield number, piece, Answers(values, {})
        return
    # Any other: the table as a whole, once for each draw.
    tables = model.sample_imputations(outputs.source_for(model, table), draws, random_state=seed)
    for number, whole in enumerate(tables, 1):
        for piece in pieces(table):
            part = slice(piece.start, piece.start + piece.n_rows)
            rows = whole[part] if isinstance(whole, pa.Table) else np.asarray(whole)[part]
            yield number, piece, _answers(rows, None, table, piece)


def _answers(found: Any, sd: Any, table: Table, piece: Piece) -> Answers:
    """An imputed table of any form that a model returns."""
    width = range(len(table.features))
    sd = None if sd is None else _numbers(sd, width)
    if not piece.texts:
        return Answers(_numbers(found, width), {}, sd)
    values = np.full(piece.values.shape, np.nan)
    numeric = [k for k in width if k not in piece.texts]
    values[:, numeric] = _numbers(found, numeric)
    levels = {}
    for k, text in piece.texts.items():
        if isinstance(found, pa.Table):
            column = found.column(k).combine_chunks()
            levels[k] = column if column.type == text.type else column.cast(text.type)
        else:
            levels[k] = pa.array(found[:, k].tolist(), type=text.type)
    return Answers(values, levels, sd)


def _numbers(found: Any, columns: Sequence[int]) -> NDArray[Any]:
    """Some columns of a table as float64."""
    if not isinstance(found, pa.Table):
        values: NDArray[Any] = np.asarray(found)[:, list(columns)]
        return values if values.dtype.kind == "f" else values.astype(np.float64)
    parts = [found.column(k).to_numpy() for k in columns]
    rows = np.empty((found.num_rows, 0))
    return np.column_stack([rows, *parts]).astype(np.float64, copy=False)


def _add_probabilities(answers: Answers, model: Any, rows: Any, table: Table) -> None:
    assert answers.sd is not None
    for key, share in model.level_probabilities(rows).items():
        k = key if table.names is None else list(outputs.names_of(model) or ()).index(key)
        if k in answers.levels:
            answers.sd[:, k] = share.max(axis=1)


def _round_truths(piece: Piece, found: Answers, table: Table) -> None:
    """Make true and false of what a model of numbers imputes among them."""
    at = [k for k, j in enumerate(table.features) if j in table.truths and k not in piece.texts]
    found.values[:, at] = found.values[:, at] >= 0.5


def _require_numbers(piece: Piece, values: NDArray[Any], table: Table) -> None:
    bad = np.argwhere(~np.isfinite(values))
    bad = bad[[k not in piece.texts for k in bad[:, 1]]] if piece.texts else bad
    if len(bad):
        i, k = map(int, bad[0])
        raise Unfittable(
            f"no value could be found for row {piece.start + i + 1}, column "
            f"{quote(table.name(table.features[k]))}: the numbers of that row are too large"
        )


# What is written ----------------------------------------------------------------------------


class Layout:
    """Which columns the output has, and what stands in them."""

    def __init__(self, table: Table, form: str, std: bool, draw: bool) -> None:
        self.table, self.form, self.std, self.draw = table, form, std, draw
        numbers = [j for j in table.features if j not in table.levels]
        self.kept = numbers if form == NUMBERS else list(range(table.n_columns))
        self.lost = [table.name(j) for j in range(table.n_columns) if j not in set(self.kept)]
        self.place = {j: k for k, j in enumerate(table.features)}
        of_sd = table.features if form != NUMBERS else numbers
        self.sure = list(of_sd) if std else []  # whose standard deviations are written
        self.n_columns = len(self.kept) + draw + len(self.sure)
        self.complete = self._without_missing()

    @property
    def names(self) -> list[str] | None:
        table = self.table
        if table.names is None:
            return None
        names = [table.names[j] for j in self.kept]
        levels = set(table.levels)
        sd = [table.names[j] + (PROBABILITY if j in levels else SD) for j in self.sure]
        # Names of the file stay what they are, even twice the same, where the form allows.
        first = ["draw"] if self.draw else []
        if self.form == TEXT:
            added = unique([*names, *first, *sd])[len(names) :]
            return [*added[: len(first)], *names, *added[len(first) :]]
        return unique([*first, *names, *sd])

    def _without_missing(self) -> set[int]:
        """Features of Parquet whose integers can stay integers, for nothing is missing."""
        table = self.table
        if table.kind != "parquet" or table.names is None or table.codes:
            return set()
        names = [table.names[j] for j in table.features]
        complete = set.intersection(*(without_nulls(path, names) for path in table.paths))
        return {j for j in table.features if table.names[j] in complete}

    def of(self, piece: Piece, found: Answers, number: int | None) -> Any:
        columns = [pa.array(np.full(piece.n_rows, number, dtype=np.int64))] if self.draw else []
        columns += [self._column(piece, j, found) for j in self.kept]
        if found.sd is not None:
            sd = (found.sd[:, self.place[j]] for j in self.sure)
            columns += [pa.array(np.ascontiguousarray(column)) for column in sd]
        return pa.Table.from_arrays(columns, [str(k) for k in range(len(columns))])

    def _column(self, piece: Piece, j: int, found: Answers) -> Any:
        column, is_text = piece.columns.column(j), self.table.kind == "csv" and self.form == TEXT
        if j not in self.place:
            return column
        k = self.place[j]
        missing = np.isnan(piece.values[:, k]) | piece.is_limit(k)
        is_whole = j in self.complete and k not in piece.limited
        if not missing.any() and (is_text or is_whole or k in piece.texts):
            return column
        if k in piece.texts:
            return self._levels(column, j, missing, found.levels[k])
        values = found.values[:, k]
        if j in self.table.truths and self.form != NUMBERS:
            return self._levels(column, j, missing, pa.array(values == 1.0))
        if is_text:
            text = pa.array(np.ascontiguousarray(values)).cast(pa.string())
            text = outputs.with_mark(text, self.table.readers[0].dialect.cells.decimal)
            return compute.if_else(pa.array(missing), text.cast(pa.binary()), column)
        imputed = np.where(missing, values, piece.values[:, k])
        return pa.array(imputed.astype(np.float64, copy=False))

    def _levels(self, column: Any, j: int, missing: NDArray[Any], imputed: Any) -> Any:
        """A column of levels: of CSV every cell that was observed is unchanged."""
        if self.table.kind != "csv":
            return imputed
        cells = [
            spelled(self.table, j, level) if gone else b""
            for gone, level in zip(missing.tolist(), imputed.to_pylist(), strict=True)
        ]
        return compute.if_else(pa.array(missing), pa.array(cells, type=pa.binary()), column)


def spelled(table: Table, j: int, level: Any) -> bytes:
    """A level as it is written in the file."""
    known = table.written.get(j, {})
    if not isinstance(level, bool):
        return known.get(level) or str(level).encode()
    text = "true" if level else "false"
    other = known.get("false" if level else "true", text.encode())
    as_other = text.upper() if other.isupper() else text.title() if other.istitle() else text
    return known.get(text) or as_other.encode()


class Imputed:
    """What was imputed so far."""

    def __init__(self, table: Table) -> None:
        self.table = table
        d = len(table.features)
        self.counts: NDArray[Any] = np.zeros(d, dtype=np.int64)
        self.n_limits: NDArray[Any] = np.zeros(d, dtype=np.int64)
        # Least and largest of the values that are observed, and imputed, of each column.
        self.observed: NDArray[Any] = np.tile([[np.inf], [-np.inf]], d)
        self.imputed = self.observed.copy()
        self.empty_rows, self.rows = 0, 0
        self.sds: list[float] = []
        self.examples: list[tuple[str, str, str]] = []

    def add(self, piece: Piece, found: Answers) -> None:
        missing = np.isnan(piece.values)
        self.rows += piece.n_rows
        self.counts += missing.sum(axis=0)
        self.n_limits += [np.count_nonzero(piece.is_limit(k)) for k in range(len(self.counts))]
        self.empty_rows += int(missing.all(axis=1).sum())
        for ends, values in (
            (self.observed, piece.values),
            (self.imputed, np.where(missing, found.values, np.nan)),
        ):
            np.fmin(ends[0], np.fmin.reduce(values, axis=0, initial=np.inf), out=ends[0])
            np.fmax(ends[1], np.fmax.reduce(values, axis=0, initial=-np.inf), out=ends[1])
        if found.sd is None or not missing.any():
            return
        if len(self.sds) < MOST_SDS and not piece.texts:
            self.sds += found.sd[missing].tolist()
        for i, k in np.argwhere(missing)[: SHOWN - len(self.examples)].tolist():
            name, sure = self.table.name(self.table.features[k]), float(found.sd[i, k])
            if k in found.levels:
                level = found.levels[k][i].as_py()
                text = spelled(self.table, self.table.features[k], level).decode("utf-8", "replace")
                value = f"{quote(text)[1:-1]} (probability {sure:.2f})"
            else:
                value = with_sd(float(found.values[i, k]), sure)
            self.examples.append((str(piece.start + i + 1), quote(name)[1:-1], value))

    def report(self, narrator: Narrator, draws: int | None, is_gaussian: bool) -> None:
        total = int(self.counts.sum())
        facts = {"filled": total, "rows": self.rows, "draws": draws}
        if total == 0:
            narrator.say("Imputed", "nothing: no cell is missing", **facts)
            self._report_limits(narrator)
            return
        at = np.flatnonzero(self.counts)
        names = [self.table.name(self.table.features[k]) for k in at]
        where = listing(names) if len(names) <= 5 else f"{len(names)} columns"
        message = f"{many(total, 'cell')} in {where}"
        low, high = self.imputed[:, at[0]].tolist()
        if len(names) == 1 and low <= high:  # several columns may have several units
            ends = [figure(low), figure(high)]
            is_one = ends[0] == ends[1]
            message += f": value {ends[0]}" if is_one else f": values {' to '.join(ends)}"
            if self.sds:
                typical = sd_text(float(np.median(self.sds)))
                message += f", typically ± {typical} (one standard deviation)"
        if self.examples:
            message += "; for example"
        if draws is not None:
            message += f", {many(draws, 'draw')} each"
        narrator.say("Imputed", message, **facts)
        if self.examples:
            narrator.show_rows(("data row", "column", "value ± sd"), self.examples)
        if self.empty_rows:
            narrator.note(
                f"{many(self.empty_rows, 'row')} {'shows' if self.empty_rows == 1 else 'show'} no "
                "value at all, and got the means of the columns"
            )
        self._report_limits(narrator)
        if is_gaussian:
            self._report_outside(narrator)

    def _report_limits(self, narrator: Narrator) -> None:
        """Cells that were limits, and are numbers in what is written."""
        count = int(self.n_limits.sum())
        if count == 0:
            return
        at = np.flatnonzero(self.n_limits)
        names = listing([self.table.name(self.table.features[k]) for k in at])
        how = "is replaced by a number" if count == 1 else "are replaced by numbers"
        narrator.facts["limits"] = count
        narrator.note(
            f"{many(count, 'limit')} in {names} {how} within {'it' if count == 1 else 'them'}, "
            "as the model expects"
        )

    def _report_outside(self, narrator: Narrator) -> None:
        """Values that a Gaussian imputes outside the range of its column."""
        found = []
        for k in np.flatnonzero(self.counts).tolist():
            name = self.table.name(self.table.features[k])
            (least, largest), (low, high) = (
                self.observed[:, k].tolist(),
                self.imputed[:, k].tolist(),
            )
            ends = [f"down to {figure(low)} (least observed {figure(least)})"] * (low < least)
            ends += [f"up to {figure(high)} (largest observed {figure(largest)})"] * (
                high > largest
            )
            if ends:
                found.append(f"{listing([name])} {' and '.join(ends)}")
        if not found:
            return
        narrator.facts["outside"] = len(found)
        named = "; ".join(found[:MOST_OUTSIDE])
        more = f", and in {len(found) - MOST_OUTSIDE} more" if len(found) > MOST_OUTSIDE else ""
        narrator.note(
            f"imputed values lie outside what was observed: {named}{more}. "
            "-m low-rank without --numeric keeps them within the range of each column"
        )
