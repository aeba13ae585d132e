"""`eigengap report`: one HTML file that shows a model and its data."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from eigengap.cli import options


@click.command("report")
@options.model_file
@options.data
@options.output("report.html", "the report")
@click.option("--open", "opens", is_flag=True, help="Open it in a browser.")
@click.option("--color", metavar="COL", help="The column that points are coloured by at first.")
@click.option("--title", metavar="TEXT", help="What stands at its head.")
@click.option(
    "--rows", type=click.IntRange(1), default=2000, show_default=True,
    help="Most rows that are shown; of more a sample is drawn.",
)  # fmt: skip
@options.taken
@options.cells
@options.forcing
@options.talking
def command(model: str, data: str, output: str, force: bool, **given: Any) -> None:
    """Write a report of MODEL and DATA: one HTML file that needs no network.

    \b
    eigengap report model.egap table.csv --color diagnosis --open
    """
    from eigengap.cli.browser import show_page
    from eigengap.cli.errors import WrongUsage, shown
    from eigengap.cli.files import as_file, check_output, require_inputs, terminal_output
    from eigengap.cli.kept_models import load_kept
    from eigengap.cli.narration import Narrator, size
    from eigengap.cli.tables.table import Choice

    require_inputs(data, model)
    check_output(output, force)
    terminal_output(output, "a report")
    if output == "-" and (given["opens"] or given["as_json"]):
        raise click.UsageError("a report on standard output goes neither with --open nor --json")
    if output != "-" and Path(output).suffix.lower() not in (".html", ".htm"):
        raise WrongUsage(f"-o {shown(output)}: a report is HTML; name a file that ends in .html")
    narrator = Narrator(given["quiet"], given["as_json"], given["verbose"])
    with as_file(model, "MODEL") as model_path, as_file(data, "DATA") as path:
        kept = load_kept(model_path)
        _require_rows_have_places(kept.estimator)
        table = kept.table(data, path, Choice.of(given))
        kept.report_columns(table, given["na"], narrator)
        _require_color(table, given["color"])
        count = write_report(
            kept.estimator, table, output, narrator, color=given["color"], title=given["title"],
            rows=given["rows"],
        )  # fmt: skip
    where = "standard output" if output == "-" else shown(output)
    narrator.say("Wrote", f"{where} ({size(count)})", wrote=output, bytes=count)
    if given["opens"]:
        show_page(output, narrator)
    narrator.finish()


def write_report(estimator: Any, table: Any, output: str, narrator: Any, **how: Any) -> int:
    """Write the report of a fitted model, and say how many bytes it has."""
    import tempfile

    from eigengap.cli.errors import WrongUsage, in_words
    from eigengap.cli.files import copy_to_stdout
    from eigengap.cli.progress import waiting
    from eigengap.cli.tables.table import _position
    from eigengap.reporting import report
    from eigengap.sources import Source

    shown_rows = how.pop("rows", 2000)
    if how.get("title") is None:
        how.pop("title", None)
    with (
        tempfile.TemporaryDirectory(prefix="eigengap-") as folder,
        narrator.hearing(),
        waiting(narrator, "Drawing"),
    ):
        target = (
            os.path.join(folder, "report.html") if output == "-" else os.path.expanduser(output)
        )
        X = as_drawn(table, estimator)
        if how.get("color") is not None and isinstance(X, Source):
            # A source has no other columns.
            how["color"] = _columns(table, [_position(table, how["color"], "--color")])[0]
        try:
            written = Path(report(estimator, X, target, max_rows=shown_rows, first_row=1, **how))
        except ValueError as error:
            if not str(error).startswith("color"):
                raise
            raise WrongUsage(in_words(error).replace("color=", "--color ", 1)) from None
        if output == "-":
            copy_to_stdout(str(written))
        return written.stat().st_size


def as_drawn(table: Any, estimator: Any) -> Any:
    """The table as the report takes it.

    The path itself where it can be read without knowing more, for then rows are read in blocks and
    other columns are at hand. With --na, --skip-rows or --comment only we know how to read it: then
    as columns in memory.
    Without names on either side, the features alone.
    """
    from eigengap.cli.tables.views import names_of, source_for

    names = names_of(estimator)
    if names is None or table.names is None or len(set(table.names)) < len(table.names):
        return source_for(estimator, table)
    if (
        len(table.paths) == 1
        and not table.na
        and not table.skipped
        and table.feature_names == names
    ):
        return table.paths[0]
    import numpy as np
    import pyarrow as pa

    from eigengap.cli.tables.mapped import unique
    from eigengap.cli.tables.pieces import pieces

    values = np.concatenate([piece.values for piece in pieces(table)])
    others = [j for j in range(table.n_columns) if j not in table.features]
    columns = [pa.array(np.ascontiguousarray(one), from_pandas=True) for one in values.T]
    columns += [pa.array(column) for column in _columns(table, others)]
    return pa.Table.from_arrays(columns, unique([*names, *(table.names[j] for j in others)]))


class _Named(list[Any]):
    """Values of a column that has a name."""

    name: str


def _columns(table: Any, positions: Sequence[int]) -> list[_Named]:
    """Every cell of some columns: numbers of features, and of others where all cells are some."""
    from eigengap.cli.tables.pieces import pieces

    place = {j: k for k, j in enumerate(table.features)}
    found = [_Named() for _ in positions]
    for piece in pieces(table):
        for j, cells in zip(positions, found, strict=True):
            if j in place:
                cells += piece.values[:, place[j]].tolist()
            else:
                cells += piece.columns.column(j).to_pylist()
    for j, cells in zip(positions, found, strict=True):
        cells.name = table.name(j)
        if any(isinstance(cell, bytes) for cell in cells):
            cells[:] = _of_csv(cells, table.readers[0].dialect.cells)
    return found


def _of_csv(cells: list[bytes], how: Any) -> list[Any]:
    """Cells of a CSV column as numbers, or as text where one is text; None where there is none."""
    texts = [cell.decode("latin-1") for cell in cells]
    numbers = [how.number(text) for text in texts]
    if None not in numbers:
        return [None if number != number else number for number in numbers]
    return [
        None if how.is_missing(text) else cell.decode("utf-8", "replace")
        for text, cell in zip(texts, cells, strict=True)
    ]


def _require_rows_have_places(estimator: Any) -> None:
    from eigengap.cli.errors import WrongUsage
    from eigengap.registry import entry_of

    kind = type(estimator).__name__
    drawn = estimator.estimator_ if entry_of(estimator).shows else estimator
    if not any(hasattr(drawn, name) for name in ("transform", "embedding_")):
        raise WrongUsage(
            f"{kind} places rows nowhere, so that there is nothing to draw. "
            "Report another model of the same table: eigengap fit DATA -m ppca"
        )


def _require_color(table: Any, color: str | None) -> None:
    from eigengap.cli.errors import WrongUsage
    from eigengap.cli.tables.table import _all_names, _hint
    from eigengap.sources import quote

    if color is not None and color not in _all_names(table):
        raise WrongUsage(f"--color {quote(color)}: there is no such column. {_hint(table, color)}")
