"""`eigengap transform` and `eigengap score`: rows under a fitted model, block by block."""

from __future__ import annotations

from typing import Any

import click

from eigengap.cli import options
from eigengap.cli.files import check_places


@click.command()
@options.model_file
@options.data
@options.output("-", "the rows")
@options.ids
@options.taken
@options.cells
@options.forcing
@options.talking
def transform(model: str, data: str, output: str, force: bool, narrator: Any, **given: Any) -> None:
    """Write the coordinates of every row of DATA under MODEL.

    The columns are those of the fit, found by name; ids stand beside them. Of a classifier the
    class and its probabilities are written, of a regressor the prediction and its standard
    deviation. The suffix of the output is its format: .csv, .csv.gz, .parquet, .npy, .h5, .zarr.

    \b
    eigengap transform model.egap new.csv -o scores.csv
    """
    from eigengap.cli.fitting import opened_with_model
    from eigengap.cli.tables.outputs import coordinates, write_rows

    check_places(narrator, output, force, data, model)
    with opened_with_model(model, data, given, narrator) as (estimator, table):
        write_rows(table, *coordinates(estimator), output, force, narrator)


@click.command()
@options.model_file
@options.data
@options.output(None, "a line for every row")
@click.option(
    "--alpha", type=click.FloatRange(0, 1, min_open=True, max_open=True), default=None,
    help="Rows with a smaller p-value are outliers. [default: 0.05, or that of a novelty model]",
)  # fmt: skip
@options.ids
@options.taken
@options.cells
@options.forcing
@options.talking
def score(
    model: str, data: str, output: str | None, force: bool, narrator: Any, **given: Any
) -> None:
    """Say how likely the rows of DATA are under MODEL, and which are odd.

    With -o a line for every row: log_likelihood, and for linear-Gaussian models p_value (of an
    ordinary row with the same gaps being as odd), outlier (0 or 1), T2 and SPE. For an
    autoencoder, which is no density: neg_mean_squared_error. Of classifiers and regressors the
    share of right classes, or R2, where DATA has the target.

    \b
    eigengap score model.egap new.csv
    eigengap score novelty.egap new.csv -o odd.csv
    """
    from eigengap.cli.fitting import opened_with_model
    from eigengap.cli.tables.outputs import write_rows
    from eigengap.cli.tables.scores import Scores

    check_places(narrator, output, force, data, model)
    with opened_with_model(model, data, given, narrator) as (estimator, table):
        scores = Scores(estimator, table, given["alpha"])
        write_rows(table, scores.names, scores.of, output, force, narrator)
        with narrator.hearing():
            scores.report(narrator)
