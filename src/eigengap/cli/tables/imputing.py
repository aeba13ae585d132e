"""A table with its missing values imputed, piece by piece, beside all that was not a gap."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eigengap.cli.errors import Unfittable, WrongUsage, shown
from eigengap.cli.narration import Narrator, figure, listing, many, sd_text, with_sd
from eigengap.cli.progress import counting_rows
from eigengap.cli.tables.csv_lines import Manner
from eigengap.cli.tables.mapped import report_output, unique
from eigengap.cli.tables.outputs import NUMBERS, TEXT, form_of, open_output
from eigengap.cli.tables.pieces import Piece, pieces
from eigengap.cli.tables.table import Table
from eigengap.cli.tables.views import given, source_for
from eigengap.registry import BY_COMMAND, ESTIMATORS
from eigengap.sources import quote

SHOWN = 5  # imputed values that are printed as examples
SD = "_sd"

Fill = Callable[[Piece], tuple[NDArray[Any], NDArray[Any] | None]]  # values and deviations (c, d)


def require_can_impute(name: str) -> None:
    """Refuse a model that imputes no missing values before it is fitted."""
    import eigengap

    if not hasattr(getattr(eigengap, BY_COMMAND[name].name), "impute"):
        raise WrongUsage(f"-m {name} imputes no missing values; {_imputing_models()} do")


def require_imputes(model: Any, draws: int | None) -> None:
    kind = type(model).__name__
    if not hasattr(model, "impute"):
        raise WrongUsage(f"{kind} imputes no missing values; {_imputing_models()} do")
    if draws is not None and not hasattr(model, "sample_imputations"):
        raise WrongUsage(f"{kind} cannot draw gaps at random; leave --draws out")


def _imputing_models() -> str:
    import eigengap

    can = [e.command for e in ESTIMATORS if hasattr(getattr(eigengap, e.name), "impute")]
    return listing(can, most=20)


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
) -> Imputed:
    """Impute, write, and report; `prints_std` if deviations are printed and not written."""
    layout = Layout(table, form_of(output), std, draws is not None)
    if layout.lost:
        narrator.note(
            f"{shown(output)} holds numbers alone; {listing(layout.lost)} cannot stand there"
        )
    imputed = Imputed(table)
    rows = narrator.facts.get("rows")
    with (
        narrator.hearing(),
        open_output(output, layout.names, force, _manner(table, output)) as sink,
        counting_rows(narrator, "Imputing", rows and rows * (draws or 1)) as done,
    ):
        for number, piece, values, sd in _imputed(model, table, std or prints_std, draws, seed):
            _require_numbers(piece, values, table)
            imputed.add(piece, values, sd, count=number in (None, 1))
            sink.write(layout.of(piece, values, sd if std else None, number))
            done(piece.n_rows)
        written = sink.n_rows
    imputed.report(narrator, draws)
    report_output(output, written, layout.n_columns, narrator)
    lost = sum(reader.n_lost for reader in table.readers)
    if lost:
        narrator.note(f"{many(lost, 'comment')} between rows cannot stand in {shown(output)}")
    return imputed


def _imputed(
    model: Any, table: Table, std: bool, draws: int | None, seed: int
) -> Iterator[tuple[int | None, Piece, NDArray[Any], NDArray[Any] | None]]:
    if draws is None:
        for piece in pieces(table):
            rows = given(model, piece)
            found = model.impute(rows, return_std=True) if std else (model.impute(rows), None)
            values, sd = found
            yield None, piece, np.asarray(values), None if sd is None else np.asarray(sd)
        return
    for number, fill in enumerate(_drawing(model, table, draws, seed), 1):
        for piece in pieces(table):
            yield number, piece, fill(piece), None


def _drawing(
    model: Any, table: Table, draws: int, seed: int
) -> Iterator[Callable[[Piece], NDArray[Any]]]:
    """For each draw, what imputes a piece: parameters are drawn once for the whole table."""
    if hasattr(model, "predictive_") and not hasattr(model, "estimator_"):
        rng, predictive = np.random.default_rng(seed), model.predictive_
        for _ in range(draws):
            drawn = predictive.draw(rng)
            yield partial(_drawn, drawn, rng)
        return
    # Any other: the table as a whole, once for each draw.
    source = source_for(model, table)
    for whole in model.sample_imputations(source, draws, random_state=seed):
        yield partial(_cut, np.asarray(whole))


def _drawn(model: Any, rng: np.random.Generator, piece: Piece) -> NDArray[Any]:
    return np.asarray(model.sample_conditional(piece.values, rng))


def _cut(whole: NDArray[Any], piece: Piece) -> NDArray[Any]:
    return whole[piece.start : piece.start + piece.n_rows]


def _require_numbers(piece: Piece, values: NDArray[Any], table: Table) -> None:
    bad = np.argwhere(~np.isfinite(values))
    if len(bad):
        i, k = map(int, bad[0])
        raise Unfittable(
            f"no value could be found for row {piece.start + i + 1}, column "
            f"{quote(table.name(table.features[k]))}: the numbers of that row are too large"
        )


def _manner(table: Table, output: str) -> Manner | None:
    """CSV comes out as it went in."""
    if table.kind != "csv" or output.lower().endswith(".tsv"):
        return None
    reader = table.readers[0]
    dialect = reader.dialect
    return Manner(
        dialect.separator, dialect.cells.decimal, reader.line_end, reader.has_mark, reader.above()
    )


# What is written ----------------------------------------------------------------------------


@dataclass(eq=False)
class Layout:
    """Which columns the output has, and what stands in them."""

    table: Table
    form: str
    std: bool
    draw: bool

    def __post_init__(self) -> None:
        table = self.table
        numbers_only = self.form == NUMBERS
        kept = list(table.features) if numbers_only else list(range(table.n_columns))
        self.kept = kept
        apart = set(range(table.n_columns)) - set(kept)
        self.lost = [table.name(j) for j in sorted(apart)]
        self.place = {j: k for k, j in enumerate(table.features)}
        self.n_columns = len(kept) + self.draw + self.std * len(table.features)
        self.whole = self._without_missing()

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
        if table.kind != "parquet" or table.names is None or table.missing_values[1:]:
            return set()
        from eigengap.cli.tables.parquet_rows import without_nulls

        names = [table.names[j] for j in table.features]
        complete = set.intersection(*(without_nulls(path, names) for path in table.paths))
        return {j for j in table.features if table.names[j] in complete}

    def of(
        self, piece: Piece, values: NDArray[Any], sd: NDArray[Any] | None, number: int | None
    ) -> Any:
        import pyarrow as pa

        columns = [pa.array(np.full(piece.n_rows, number, dtype=np.int64))] if self.draw else []
        columns += [self._column(piece, j, values) for j in self.kept]
        if sd is not None:
            columns += [pa.array(np.ascontiguousarray(sd[:, k])) for k in range(sd.shape[1])]
        return pa.Table.from_arrays(columns, [str(k) for k in range(len(columns))])

    def _column(self, piece: Piece, j: int, values: NDArray[Any]) -> Any:
        import pyarrow as pa
        from pyarrow import compute

        if j not in self.place:
            return piece.columns.column(j)
        k = self.place[j]
        column, missing = piece.columns.column(j), np.isnan(piece.values[:, k])
        if self.table.kind == "csv" and self.form == TEXT:
            if not missing.any():
                return column
            imputations = pa.array(np.ascontiguousarray(values[:, k])).cast(pa.string())
            if self.table.readers[0].dialect.cells.decimal != ".":
                imputations = compute.replace_substring(
                    imputations, ".", self.table.readers[0].dialect.cells.decimal
                )
            return compute.if_else(pa.array(missing), imputations.cast(pa.binary()), column)
        if j in self.whole and not missing.any():
            return column
        observed = np.where(missing, values[:, k], piece.values[:, k])
        return pa.array(observed.astype(np.float64, copy=False))


@dataclass(eq=False)
class Imputed:
    """What was imputed so far."""

    table: Table
    examples: list[tuple[int, str, float, float | None]] = field(default_factory=list)

    def __post_init__(self) -> None:
        d = len(self.table.features)
        self.counts: NDArray[Any] = np.zeros(d, dtype=np.int64)
        self.low, self.high, self.empty_rows, self.rows = np.inf, -np.inf, 0, 0
        self.sds: list[float] = []

    def add(
        self, piece: Piece, values: NDArray[Any], sd: NDArray[Any] | None, *, count: bool
    ) -> None:
        if not count:
            return
        missing = np.isnan(piece.values)
        self.rows += piece.n_rows
        self.counts += missing.sum(axis=0)
        self.empty_rows += int(missing.all(axis=1).sum())
        if not missing.any():
            return
        imputations = values[missing]
        self.low = min(self.low, float(imputations.min()))
        self.high = max(self.high, float(imputations.max()))
        if sd is not None and len(self.sds) < 100_000:
            self.sds += sd[missing].tolist()
        for i, k in np.argwhere(missing)[: SHOWN - len(self.examples)]:
            name = self.table.name(self.table.features[k])
            own = None if sd is None else float(sd[i, k])
            self.examples.append((piece.start + int(i) + 1, name, float(values[i, k]), own))

    def report(self, narrator: Narrator, draws: int | None) -> None:
        total = int(self.counts.sum())
        facts = {"filled": total, "rows": self.rows, "draws": draws}
        if total == 0:
            narrator.say("Filled", "nothing: no cell is missing", **facts)
            return
        names = [
            self.table.name(j) for j, n in zip(self.table.features, self.counts, strict=True) if n
        ]
        where = listing(names) if len(names) <= 5 else f"{len(names)} columns"
        message = f"{many(total, 'cell')} in {where}"
        if len(names) == 1:  # several columns may have several units
            message += f": values {figure(self.low)} to {figure(self.high)}"
            if self.sds:
                message += (
                    f", typically ± {sd_text(float(np.median(self.sds)))} (one standard deviation)"
                )
        if self.sds:
            message += "; for example"
        if draws is not None:
            message += f", {many(draws, 'draw')} each"
        narrator.say("Filled", message, **facts)
        if self.sds:
            self._show(narrator)
        if self.empty_rows:
            narrator.note(
                f"{many(self.empty_rows, 'row')} {'shows' if self.empty_rows == 1 else 'show'} no "
                "value at all, and got the means of the columns"
            )

    def _show(self, narrator: Narrator) -> None:
        rows: Sequence[Sequence[str]] = [
            (str(row), quote(name)[1:-1], with_sd(value, sd or 0.0))
            for row, name, value, sd in self.examples
        ]
        narrator.show_rows(("data row", "column", "value ± sd"), rows)
