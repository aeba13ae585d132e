"""`eigengap impute`: missing values imputed, everything else as it was."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
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
def command(
    data: str, model: str | None, output: str, force: bool, narrator: Any, **given: Any
) -> None:
    """Impute the missing values of DATA.

    Every missing value is replaced by its expectation given the observed values of its row. All
    other cells are unchanged, also in columns that are no features: of CSV their very text, in the
    same order, with the same separator, decimal mark and line ends.

    \b
    eigengap impute table.csv --ignore diagnosis -o imputed.csv
    eigengap impute new.csv --model model.egap --std -o imputed.parquet
    cat table.csv | eigengap impute - -k 3 --na -999 > imputed.csv
    """
    from eigengap.cli.files import check_places
    from eigengap.cli.tables.imputing import require_imputes, write_imputed

    check_places(narrator, output, force, data, model, given["checkpoint"])
    if given["std"] and given["draws"]:
        raise click.UsageError("--std goes with expected values, and --draws writes none")
    with _opened(data, model, given, narrator) as (estimator, table):
        require_imputes(estimator, given["draws"])
        write_imputed(
            estimator, table, output, force, narrator,
            std=given["std"], draws=given["draws"], seed=given["seed"],
        )  # fmt: skip


@contextmanager
def _opened(data: str, model: str | None, given: dict[str, Any], narrator: Any) -> Iterator[Any]:
    """A model and the table: the model is that of a file, or fitted to the table."""
    from eigengap.cli import kept_models
    from eigengap.cli.errors import WrongUsage
    from eigengap.cli.fitting import Wanted, fitted
    from eigengap.cli.tables.imputing import require_can_impute
    from eigengap.cli.tables.table import opened
    from eigengap.registry import BY_COMMAND

    if model is not None:
        fits = [given[name] for name in ("name", "components", "checkpoint", "scheduler")]
        if any(fits) or given["settings"] or given["scale"] is not None:
            raise WrongUsage("--model is fitted already: leave out -m, -k and what else fits one")
        if given["ignore"]:
            raise WrongUsage("the columns are those of --model: leave out --ignore")
        with kept_models.opened(model, data, given, narrator, "--model") as found:
            yield found
        return
    wanted = Wanted.of(given)
    if BY_COMMAND[wanted.name].target:
        raise WrongUsage(f"-m {wanted.name} predicts a column and imputes no missing values")
    require_can_impute(wanted.name)
    with opened(data, given) as table:
        yield fitted(wanted, table, narrator), table
