"""`eigengap transform`: what a fitted model makes of every row, block by block."""

from __future__ import annotations

from typing import Any

import click

from eigengap.cli import options


@click.command("transform")
@options.model_file
@options.data
@options.output("-", "the rows")
@options.ids
@options.taken
@options.cells
@options.forcing
@options.talking
def command(model: str, data: str, output: str, force: bool, **given: Any) -> None:
    """Write the coordinates of every row of DATA under MODEL.

    The columns are those of the fit, found by name; ids stand beside them. Of a classifier the
    class and its probabilities are written, of a regressor the prediction and its standard
    deviation. The suffix of the output is its format: .csv, .csv.gz, .parquet, .npy, .h5, .zarr.

    \b
    eigengap transform model.egap new.csv -o scores.csv
    """
    from eigengap.cli.files import as_file, check_output, require_inputs
    from eigengap.cli.kept_models import load_kept
    from eigengap.cli.narration import Narrator
    from eigengap.cli.tables.mapped import write_rows
    from eigengap.cli.tables.outputs import form_of
    from eigengap.cli.tables.table import Choice
    from eigengap.cli.tables.views import coordinates

    require_inputs(data, model)
    check_output(output, force)
    form_of(output)
    if output == "-" and given["as_json"]:
        raise click.UsageError("--json wants standard output: name a file with -o")
    narrator = Narrator(given["quiet"], given["as_json"], given["verbose"])
    with as_file(model, "MODEL") as model_path, as_file(data, "DATA") as path:
        kept = load_kept(model_path)
        table = kept.table(data, path, Choice.of(given))
        kept.report_columns(table, given["na"], narrator)
        names, of = coordinates(kept.estimator)
        write_rows(table, names, of, output, force, narrator)
    narrator.finish()
