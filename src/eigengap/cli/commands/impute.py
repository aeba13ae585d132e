"""`eigengap impute`: missing values imputed, everything else as it was."""

from __future__ import annotations

from typing import Any

import click

from eigengap.cli import options
from eigengap.cli.models import NAMES


@click.command("impute")
@options.data
@click.option("--model", type=options.FILE, metavar="FILE", help="A model that is fitted already.")
@click.option(
    "-m", "name", type=click.Choice(NAMES), default=None, metavar="MODEL",
    help="The model to fit where --model gives none. [default: ppca]",
)  # fmt: skip
@options.fitting
@options.output("-", "the imputed table")
@click.option("--std", is_flag=True, help="Add a column NAME_sd for each feature.")
@click.option(
    "--draws", type=click.IntRange(1, 10_000), metavar="M",
    help="Draw the gaps M times instead; a first column `draw` numbers the tables.",
)  # fmt: skip
@options.columns
@options.forcing
@options.talking
def command(data: str, model: str | None, output: str, force: bool, **given: Any) -> None:
    """Impute the missing values of DATA.

    Every missing value is replaced by its expectation given the observed values of its row. All
    other cells are unchanged, also in columns that are no features: of CSV their very text, in the
    same order, with the same separator, decimal mark and line ends.

    \b
    eigengap impute table.csv --ignore diagnosis -o imputed.csv
    eigengap impute new.csv --model model.egap --std -o imputed.parquet
    cat table.csv | eigengap impute - -k 3 --na -999 > imputed.csv
    """
    from eigengap.cli.files import as_file, check_output, require_inputs
    from eigengap.cli.narration import Narrator
    from eigengap.cli.tables.imputing import require_imputes, write_imputed
    from eigengap.cli.tables.outputs import form_of

    require_inputs(data, model)
    check_output(output, force)
    if given["checkpoint"] is not None:
        check_output(given["checkpoint"], force=True, option="--checkpoint FILE")
    form_of(output)
    if output == "-" and given["as_json"]:
        raise click.UsageError("--json wants standard output: name a file with -o")
    if given["std"] and given["draws"]:
        raise click.UsageError("--std goes with expected values, and --draws writes none")
    narrator = Narrator(given["quiet"], given["as_json"], given["verbose"])
    with as_file(data, "DATA") as path:
        table, estimator = _model(data, path, model, given, narrator)
        require_imputes(estimator, given["draws"])
        write_imputed(
            estimator, table, output, force, narrator,
            std=given["std"], draws=given["draws"], seed=given["seed"],
        )  # fmt: skip
    narrator.finish()


def _model(
    data: str, path: str, model: str | None, given: dict[str, Any], narrator: Any
) -> tuple[Any, Any]:
    """The table, and a model for it: of a file, or fitted to it."""
    from eigengap.cli.errors import WrongUsage
    from eigengap.cli.files import as_file
    from eigengap.cli.fitting import Wanted, fitted
    from eigengap.cli.kept_models import load_kept
    from eigengap.cli.tables.imputing import require_can_impute
    from eigengap.cli.tables.table import Choice, open_table
    from eigengap.registry import BY_COMMAND

    if model is not None:
        fits = [given[name] for name in ("name", "components", "checkpoint", "scheduler")]
        if any(fits) or given["settings"] or given["scale"] is not None:
            raise WrongUsage("--model is fitted already: leave out -m, -k and what else fits one")
        if given["ignore"]:
            raise WrongUsage("the columns are those of --model: leave out --ignore")
        with as_file(model, "--model") as model_path:
            kept = load_kept(model_path)
        table = kept.table(data, path, Choice.of(given))
        kept.report_columns(table, given["na"], narrator)
        return table, kept.estimator
    name = given["name"] or "ppca"
    if BY_COMMAND[name].target:
        raise WrongUsage(f"-m {name} predicts a column and imputes no missing values")
    wanted = Wanted(
        name, given["components"], given["settings"], given["scale"], given["seed"],
        given["checkpoint"], given["scheduler"],
    )  # fmt: skip
    require_can_impute(name)
    choice = Choice.of(given)
    table = open_table(data, path, choice)
    return table, fitted(wanted, table, narrator)
