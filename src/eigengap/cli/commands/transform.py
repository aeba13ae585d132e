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
def command(model: str, data: str, output: str, force: bool, narrator: Any, **given: Any) -> None:
    """Write the coordinates of every row of DATA under MODEL.

    The columns are those of the fit, found by name; ids stand beside them. Of a classifier the
    class and its probabilities are written, of a regressor the prediction and its standard
    deviation. The suffix of the output is its format: .csv, .csv.gz, .parquet, .npy, .h5, .zarr.

    \b
    eigengap transform model.egap new.csv -o scores.csv
    """
    from eigengap.cli.files import check_places
    from eigengap.cli.kept_models import opened
    from eigengap.cli.tables.mapped import coordinates, write_rows

    check_places(narrator, output, force, data, model)
    with opened(model, data, given, narrator) as (estimator, table):
        write_rows(table, *coordinates(estimator), output, force, narrator)
