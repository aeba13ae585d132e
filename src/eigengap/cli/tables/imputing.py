"""A table with its missing values imputed, piece by piece, along with all observed ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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
SD = "_sd"


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
        for number, piece, values, sd in _imputed(model, table, std or prints_std, draws, seed):
            _require_numbers(piece, values, table)
            if number in (None, 1):
                imputed.add(piece, values, sd)
            write(layout.of(piece, values, sd if std else None, number))
            done(piece.n_rows)
    imputed.report(narrator, draws)
    outputs.report_output(output, imputed.rows * (draws or 1), layout.n_columns, narrator)
    lost = sum(reader.n_lost for reader in table.readers)
    if lost:
        narrator.note(f"{many(lost, 'comment')} between rows cannot stand in {shown(output)}")


def _imputed(
    model: Any, table: Table, std: bool, draws: int | None, seed: int
) -> Iterator[tuple[int | None, Piece, NDArray[Any], NDArray[Any] | None]]:
    """Draw (from 1), piece, values and their standard deviations (c, d), where they are wanted."""
    if draws is None:
        for piece in pieces(table):
            rows = given(model, piece)
            values, sd = model.impute(rows, return_std=True) if std else (model.impute(rows), None)
            yield None, piece, np.asarray(values), None if sd is None else np.asarray(sd)
        return
    if hasattr(model, "predictive_") and not hasattr(model, "estimator_"):
        rng = np.random.default_rng(seed)
        for number in range(1, draws + 1):
            drawn = model.predictive_.draw(rng)  # parameters, once for the whole table
            for piece in pieces(table):
                yield number, piece, np.asarray(drawn.sample_conditional(piece.values, rng)), None
        return
    # Any other: the table as a whole, once for each draw.
    found = model.sample_imputations(outputs.source_for(model, table), draws, random_state=seed)
    for number, whole in enumerate(found, 1):
        for piece in pieces(table):
            yield number, piece, np.asarray(whole)[piece.start :][: piece.n_rows], None


def _require_numbers(piece: Piece, values: NDArray[Any], table: Table) -> None:
    bad = np.argwhere(~np.isfinite(values))
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
        self.kept = list(table.features) if form == NUMBERS else list(range(table.n_columns))
        self.lost = [table.name(j) for j in range(table.n_columns) if j not in set(self.kept)]
        self.place = {j: k for k, j in enumerate(table.features)}
        self.n_columns = len(self.kept) + draw + std * len(table.features)
        self.complete = self._without_missing()

    @property
    def names(self) -> list[str] | None:
        table = self.table
        if table.names is None:
            return None
        names = [table.names[j] for j in self.kept]
        sd = [table.names[j] + SD for j in table.features] if self.std else []
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

    def of(
        self, piece: Piece, values: NDArray[Any], sd: NDArray[Any] | None, number: int | None
    ) -> Any:
        columns = [pa.array(np.full(piece.n_rows, number, dtype=np.int64))] if self.draw else []
        columns += [self._column(piece, j, values) for j in self.kept]
        if sd is not None:
            columns += [pa.array(np.ascontiguousarray(column)) for column in sd.T]
        return pa.Table.from_arrays(columns, [str(k) for k in range(len(columns))])

    def _column(self, piece: Piece, j: int, values: NDArray[Any]) -> Any:
        column, is_text = piece.columns.column(j), self.table.kind == "csv" and self.form == TEXT
        if j not in self.place:
            return column
        k = self.place[j]
        missing = np.isnan(piece.values[:, k])
        if not missing.any() and (is_text or j in self.complete):
            return column
        if is_text:
            text = pa.array(np.ascontiguousarray(values[:, k])).cast(pa.string())
            text = outputs.with_mark(text, self.table.readers[0].dialect.cells.decimal)
            return compute.if_else(pa.array(missing), text.cast(pa.binary()), column)
        imputed = np.where(missing, values[:, k], piece.values[:, k])
        return pa.array(imputed.astype(np.float64, copy=False))


class Imputed:
    """What was imputed so far."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self.counts: NDArray[Any] = np.zeros(len(table.features), dtype=np.int64)
        self.low, self.high, self.empty_rows, self.rows = np.inf, -np.inf, 0, 0
        self.sds: list[float] = []
        self.examples: list[tuple[int, str, float, float | None]] = []

    def add(self, piece: Piece, values: NDArray[Any], sd: NDArray[Any] | None) -> None:
        missing = np.isnan(piece.values)
        self.rows += piece.n_rows
        self.counts += missing.sum(axis=0)
        self.empty_rows += int(missing.all(axis=1).sum())
        if not missing.any():
            return
        imputations = values[missing]
        self.low = min(self.low, float(imputations.min()))
        self.high = max(self.high, float(imputations.max()))
        if sd is not None and len(self.sds) < MOST_SDS:
            self.sds += sd[missing].tolist()
        for i, k in np.argwhere(missing)[: SHOWN - len(self.examples)]:
            name = self.table.name(self.table.features[k])
            own = None if sd is None else float(sd[i, k])
            self.examples.append((piece.start + int(i) + 1, name, float(values[i, k]), own))

    def report(self, narrator: Narrator, draws: int | None) -> None:
        total = int(self.counts.sum())
        facts = {"filled": total, "rows": self.rows, "draws": draws}
        if total == 0:
            narrator.say("Imputed", "nothing: no cell is missing", **facts)
            return
        names = [
            self.table.name(j) for j, n in zip(self.table.features, self.counts, strict=True) if n
        ]
        where = listing(names) if len(names) <= 5 else f"{len(names)} columns"
        message = f"{many(total, 'cell')} in {where}"
        if len(names) == 1:  # several columns may have several units
            message += f": values {figure(self.low)} to {figure(self.high)}"
            if self.sds:
                typical = sd_text(float(np.median(self.sds)))
                message += f", typically ± {typical} (one standard deviation)"
        if self.sds:
            message += "; for example"
        if draws is not None:
            message += f", {many(draws, 'draw')} each"
        narrator.say("Imputed", message, **facts)
        if self.sds:
            rows: Sequence[Sequence[str]] = [
                (str(row), quote(name)[1:-1], with_sd(value, sd or 0.0))
                for row, name, value, sd in self.examples
            ]
            narrator.show_rows(("data row", "column", "value ± sd"), rows)
        if self.empty_rows:
            narrator.note(
                f"{many(self.empty_rows, 'row')} {'shows' if self.empty_rows == 1 else 'show'} no "
                "value at all, and got the means of the columns"
            )
