"""`eigengap report`: one HTML file that shows a model and its data."""

from __future__ import annotations

import os
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
@options.missing
@options.forcing
@options.talking
def command(model: str, data: str, output: str, force: bool, **given: Any) -> None:
    """Write a report of MODEL and DATA: one HTML file that needs no network.

    \b
    eigengap report model.egap table.csv --color diagnosis --open
    """
    from eigengap.cli.errors import WrongUsage, shown
    from eigengap.cli.files import as_file, check_output, require_one_stdin, terminal_output
    from eigengap.cli.kept_models import load_kept
    from eigengap.cli.narration import Narrator, size

    require_one_stdin(model, data)
    check_output(output, force)
    terminal_output(output, "a report")
    if output == "-" and (given["opens"] or given["as_json"]):
        raise click.UsageError("a report on standard output goes neither with --open nor --json")
    if output != "-" and Path(output).suffix.lower() not in (".html", ".htm"):
        raise WrongUsage(f"-o {shown(output)}: a report is HTML; name a file that ends in .html")
    narrator = Narrator(given["quiet"], given["as_json"], given["verbose"])
    with as_file(model, "MODEL") as model_path, as_file(data, "DATA") as path:
        kept = load_kept(model, model_path, data)
        table = kept.table(data, path, given["na"], ())
        _require_color(table, given["color"])
        count = write_report(
            kept.estimator, table, output, narrator, color=given["color"], title=given["title"],
            rows=given["rows"],
        )  # fmt: skip
    where = "standard output" if output == "-" else shown(output)
    narrator.say("Wrote", f"{where} ({size(count)})", wrote=output, bytes=count)
    if given["opens"]:
        click.launch(Path(output).expanduser().resolve().as_uri())
    narrator.finish()


def write_report(estimator: Any, table: Any, output: str, narrator: Any, **how: Any) -> int:
    """Write the report of a fitted model, and say how many bytes it has."""
    import tempfile

    from eigengap.cli.files import copy_to_stdout
    from eigengap.cli.progress import waiting
    from eigengap.reporting import report

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
        written = Path(report(estimator, X, target, max_rows=shown_rows, **how))
        if output == "-":
            copy_to_stdout(str(written))
        return written.stat().st_size


def as_drawn(table: Any, estimator: Any) -> Any:
    """The table as the report takes it.

    The path itself where it can be read without knowing more, for then rows are read in blocks and
    other columns are at hand. With --na only we know what is missing: then as columns in memory.
    """
    if len(table.paths) == 1 and not table.na and hasattr(estimator, "feature_names_in_"):
        return table.paths[0]
    if table.names is None or len(set(table.names)) < len(table.names):
        return table.source()
    import numpy as np
    import pyarrow as pa

    from eigengap.cli.pieces import pieces

    place = {j: k for k, j in enumerate(table.features)}
    parts = []
    for piece in pieces(table):
        columns = [
            pa.array(np.ascontiguousarray(piece.values[:, place[j]]), from_pandas=True)
            if j in place
            else _text(piece.columns.column(j))
            for j in range(table.n_columns)
        ]
        parts.append(pa.Table.from_arrays(columns, names=list(table.names)))
    return pa.concat_tables(parts)


def _text(column: Any) -> Any:
    import pyarrow as pa

    if not pa.types.is_binary(column.type):
        return column
    cells = [cell.decode("utf-8", "replace") for cell in column.to_pylist()]
    return pa.chunked_array([pa.array(cells, pa.string())])


def _require_color(table: Any, color: str | None) -> None:
    from eigengap.cli.errors import WrongUsage
    from eigengap.cli.tables import _all_names, _hint
    from eigengap.sources.wording import quote

    if color is not None and color not in _all_names(table):
        raise WrongUsage(f"--color {quote(color)}: there is no such column. {_hint(table, color)}")
