"""`eigengap report`, and `eigengap demo`, which writes one of the shipped table."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import click

from eigengap.cli import options
from eigengap.cli.errors import WrongUsage, shown
from eigengap.cli.files import check_apart, check_output, check_places, write_whole
from eigengap.registry import entry_of

PATIENCE = 3.0  # seconds within which a launcher that finds no browser has said so
# They show no script, without which a report has no charts.
IN_TERMINALS = {"www-browser", "links", "links2", "elinks", "lynx", "w3m"}
TABLE = "breast_cancer_wisconsin.csv"


@click.command()
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
def report(model: str, data: str, output: str, force: bool, narrator: Any, **given: Any) -> None:
    """Write a report of MODEL and DATA: one HTML file that needs no network.

    \b
    eigengap report model.egap table.csv --color diagnosis --open
    """
    from eigengap.cli.fitting import opened_with_model
    from eigengap.cli.tables.table import position_of

    check_places(narrator, output, force, data, model, bytes_of="a report")
    if output == "-" and given["opens"]:
        raise click.UsageError("a report on standard output does not go with --open")
    if output != "-" and Path(output).suffix.lower() not in (".html", ".htm"):
        raise WrongUsage(f"-o {shown(output)}: a report is HTML; name a file that ends in .html")
    with opened_with_model(model, data, given, narrator) as (estimator, table):
        drawn = estimator.estimator_ if entry_of(estimator).shows else estimator
        if not (hasattr(drawn, "transform") or hasattr(drawn, "embedding_")):
            raise WrongUsage(
                f"{type(estimator).__name__} places rows nowhere, so that there is nothing to "
                "draw. Report another model of the same table: eigengap fit DATA -m ppca"
            )
        if given["color"] is not None:
            position_of(table, given["color"], "--color")
        if table.limited:
            narrator.note("a cell that is known by its limits counts as missing in the report")
        count = write_report(
            estimator, table, output, narrator,
            color=given["color"], title=given["title"], rows=given["rows"],
        )  # fmt: skip
    narrator.wrote(output, count, wrote=output, bytes=count)
    if given["opens"]:
        show_page(output, narrator)


def write_report(
    estimator: Any, table: Any, output: str, narrator: Any, *,
    color: str | None, rows: int = 2000, **how: Any,
) -> int:  # fmt: skip
    """Write the report of a fitted model, and return its size in bytes."""
    from eigengap.cli.progress import waiting
    from eigengap.cli.tables.table import position_of
    from eigengap.reporting import report
    from eigengap.sources import Source

    how = {name: value for name, value in how.items() if value is not None}
    with narrator.hearing(), waiting(narrator, "Drawing"):
        X = as_drawn(table, estimator)
        colored: Any = color
        if color is not None and isinstance(X, Source):  # which has no other columns
            colored = _columns(table, [position_of(table, color, "--color")])[0]

        def write(path: str) -> None:
            report(estimator, X, path, max_rows=rows, first_row=1, color=colored, **how)

        try:
            return write_whole(output, ".html", write)
        except ValueError as error:
            if not str(error).startswith("color"):
                raise
            raise WrongUsage(str(error).replace("color=", "--color ", 1)) from None


def as_drawn(table: Any, estimator: Any) -> Any:
    """The table as the report takes it.

    The path itself where it can be read without knowing more, for then rows are read in blocks and
    other columns are at hand. With --na, --skip-rows or --comment only we know how to read it: then
    as columns in memory.
    Without names on either side, the features alone.
    """
    import numpy as np
    import pyarrow as pa

    from eigengap.cli.tables.outputs import names_of, schema_of, source_for, unique
    from eigengap.cli.tables.pieces import pieces

    names = names_of(estimator)
    if schema_of(estimator) is not None:
        return _with_others(table, names)
    if names is None or table.names is None or len(set(table.names)) < len(table.names):
        return source_for(estimator, table)
    is_plain = len(table.paths) == 1 and not table.na and not table.skipped
    if is_plain and table.feature_names == names:
        return table.paths[0]
    values = np.concatenate([piece.values for piece in pieces(table)])
    others = [j for j in range(table.n_columns) if j not in table.features]
    columns = [pa.array(np.ascontiguousarray(one), from_pandas=True) for one in values.T]
    columns += [pa.array(column) for column in _columns(table, others)]
    return pa.Table.from_arrays(columns, unique([*names, *(table.names[j] for j in others)]))


def _with_others(table: Any, names: Any) -> Any:
    """Columns of every kind as the model takes them, and those that it does not use."""
    import pyarrow as pa

    from eigengap.cli.tables.outputs import unique
    from eigengap.cli.tables.pieces import whole_frame

    frame, _ = whole_frame(table, names)
    if names is None or table.names is None:
        return frame
    others = [j for j in range(table.n_columns) if j not in table.features]
    columns = [*frame.columns, *(pa.array(column) for column in _columns(table, others))]
    return pa.Table.from_arrays(columns, unique([*names, *(table.names[j] for j in others)]))


class _Named(list[Any]):
    """Values of a column that has a name."""

    name: str


def _columns(table: Any, positions: Sequence[int]) -> list[_Named]:
    """Every cell of some columns: numbers of features, and of others where all cells are some."""
    from eigengap.cli.tables.pieces import pieces

    place = {j: k for k, j in enumerate(table.features)}
    found = {j: _Named() for j in positions}
    for piece in pieces(table):
        for j, cells in found.items():
            if j in place:
                cells += piece.values[:, place[j]].tolist()
            else:
                cells += piece.columns.column(j).to_pylist()
    for j, cells in found.items():
        cells.name = table.name(j)
        if any(isinstance(cell, bytes) for cell in cells):
            cells[:] = _of_csv(cells, table.readers[0].dialect.cells)
    return list(found.values())


def _of_csv(cells: list[bytes], how: Any) -> list[Any]:
    """Cells of a CSV column as numbers, or as text where one is text; None where there is none."""
    texts = [cell.decode("latin-1") for cell in cells]
    numbers = [how.number(text) for text in texts]
    if None not in numbers:
        whole = all(number != number or number.is_integer() for number in numbers)
        as_read = int if whole and not any("." in text for text in texts) else float
        return [None if number != number else as_read(number) for number in numbers]
    return [
        None if how.is_missing_text(text) else cell.decode("utf-8", "replace")
        for text, cell in zip(texts, cells, strict=True)
    ]


def show_page(path: str, narrator: Any) -> None:
    """Open a file in a browser; where there is none, note that and leave it to the user."""
    if not _is_open(Path(os.path.expanduser(path)).resolve().as_uri()):
        narrator.note(f"No browser was found; open {shown(path)} yourself")


def _is_open(uri: str) -> bool:
    if sys.platform in ("darwin", "win32", "cygwin"):
        return click.launch(uri) == 0
    import webbrowser

    try:
        browser = webbrowser.get()
    except webbrowser.Error:
        return False
    if os.path.basename(getattr(browser, "name", "")) in IN_TERMINALS:
        return False
    if not isinstance(browser, webbrowser.GenericBrowser):
        return browser.open(uri)
    # Launchers such as xdg-open: Python neither waits for their answer nor keeps them silent.
    command = [browser.name, *(part.replace("%s", uri) for part in browser.args)]
    none = subprocess.DEVNULL
    try:
        launched = subprocess.Popen(
            command, stdin=none, stdout=none, stderr=none, start_new_session=True
        )
        return launched.wait(PATIENCE) == 0
    except subprocess.TimeoutExpired:
        return True  # the browser itself, which runs until it is closed
    except OSError:
        return False


@click.command()
@options.output("breast_cancer_filled.csv", "the imputed table")
@click.option(
    "--report", type=click.Path(), default="report.html", show_default=True, metavar="FILE",
    help="Where to write the report.",
)  # fmt: skip
@click.option("--no-report", is_flag=True, help="Write no report.")
@click.option("--open", "opens", is_flag=True, help="Open the report in a browser.")
@options.forcing
@options.talking
def demo(
    output: str, report: str, no_report: bool, opens: bool, force: bool, narrator: Any
) -> None:
    """Impute the 16 missing values of a shipped table, and write a report.

    The table is Breast Cancer Wisconsin (Original): 699 biopsies, 9 features scored 1 to 10 and a
    diagnosis.
    """
    from eigengap.cli.fitting import fitted, provenance_for
    from eigengap.cli.tables.imputing import write_imputed
    from eigengap.cli.tables.table import Choice, open_table

    check_places(narrator, output, force)
    if not no_report:
        check_output(report, force, "--report FILE")
        check_apart(output, report)
    with resources.as_file(resources.files("eigengap") / "data" / TABLE) as path:
        table = open_table(TABLE, str(path), Choice(ids=("id",)), takes_levels=True)
        model = fitted({"name": "low-rank"}, table, narrator)
        write_imputed(model, table, output, force, narrator, prints_std=True)
        if not no_report:
            record = provenance_for(table, narrator.facts["rows"])
            count = write_report(
                model, table, report, narrator, color="diagnosis", provenance=record
            )
            narrator.wrote(report, count, after=": open it in a browser", report=report)
            if opens:
                show_page(report, narrator)
    narrator.say("Next", "the same on a table of your own: eigengap fit TABLE.csv")
