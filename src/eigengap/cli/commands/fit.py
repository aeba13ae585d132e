"""`eigengap fit` and `eigengap impute`: a model file, or imputed values, of a table."""

from __future__ import annotations

import shlex
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click

from eigengap.cli import options
from eigengap.cli.errors import WrongUsage
from eigengap.cli.files import check_not_input, check_places
from eigengap.cli.models import NAMES
from eigengap.registry import BY_COMMAND, entry_of


@click.command()
@options.data
@options.model_name
@options.fitting
@options.output("model.egap", "the model")
@click.option("--target", metavar="COL", help="The column that a classifier or regressor predicts.")
@options.columns
@options.forcing
@options.talking
def fit(data: str, output: str, force: bool, narrator: Any, **given: Any) -> None:
    """Fit a model to DATA and write it to a file.

    DATA is CSV, Parquet, npy, npz, HDF5 or Zarr, a glob of them, or - for standard input. Gaps are
    welcome.

    \b
    eigengap fit table.csv --id patient --ignore diagnosis
    eigengap fit table.csv -m fa -k 3 --set rotation=varimax -o fa.egap
    eigengap fit table.csv -m classifier --target diagnosis
    """
    from eigengap.cli.fitting import fitted, provenance_for, save_kept
    from eigengap.cli.tables.table import opened

    check_not_input(output, data, "the model")
    check_places(narrator, output, force, data, None, given["checkpoint"], bytes_of="a model")
    began = time.perf_counter()
    with opened(data, given) as table:
        model = fitted(given, table, narrator)
        provenance = provenance_for(table, narrator.facts["rows"])
    count = save_kept(model, output, provenance)
    seconds = time.perf_counter() - began
    facts = {"wrote": output, "bytes": count, "seconds": seconds}
    narrator.wrote(output, count, "the model to ", **facts)
    if output != "-" and data != "-" and (output + data).isprintable():
        _print_next(model, output, data, table, narrator)


def _print_next(model: Any, output: str, data: str, table: Any, narrator: Any) -> None:
    files = shlex.join([output, data])
    then = {
        "report": f"eigengap report {files} --open",
        "transform": f"eigengap transform {files} -o predicted.csv",
        "score": f"eigengap score {files}",
        "impute": f"eigengap impute {shlex.join([data, '--model', output])} -o imputed.csv",
    }[entry_of(model).next_command]
    # What has to be said of the file again, for no model knows it.
    count = Counter(table.names or ())
    if table.names is not None and any(count[table.names[j]] > 1 for j in table.features):
        then += f" --columns {','.join(map(str, table.features))}"
    if table.skipped.first:
        then += f" --skip-rows {table.skipped.first}"
    if table.skipped.mark:
        then += f" --comment {shlex.quote(table.skipped.mark)}"
    narrator.say("Next", then, next=then)


@click.command()
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
def impute(
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
    from eigengap.cli.tables.imputing import require_imputes, write_imputed

    check_places(narrator, output, force, data, model, given["checkpoint"])
    if given["std"] and given["draws"]:
        raise click.UsageError("--std goes with expected values, and --draws writes none")
    with _opened(data, model, given, narrator) as (estimator, table):
        require_imputes(estimator, type(estimator).__name__, given["draws"])
        write_imputed(
            estimator, table, output, force, narrator,
            std=given["std"], draws=given["draws"], seed=given["seed"],
        )  # fmt: skip


@contextmanager
def _opened(data: str, model: str | None, given: dict[str, Any], narrator: Any) -> Iterator[Any]:
    """A model and the table: the model is that of a file, or fitted to the table."""
    import eigengap
    from eigengap.cli.fitting import fitted, opened_with_model
    from eigengap.cli.tables.imputing import require_imputes
    from eigengap.cli.tables.table import opened

    if model is not None:
        fits = [given[name] for name in ("name", "components", "checkpoint", "scheduler")]
        if any(fits) or given["settings"] or given["scale"] is not None:
            raise WrongUsage("--model is fitted already: leave out -m, -k and what else fits one")
        if given["ignore"]:
            raise WrongUsage("the columns are those of --model: leave out --ignore")
        with opened_with_model(model, data, given, narrator, "--model") as found:
            yield found
        return
    name = given["name"] or "ppca"
    if BY_COMMAND[name].target:
        raise WrongUsage(f"-m {name} predicts a column and imputes no missing values")
    require_imputes(getattr(eigengap, BY_COMMAND[name].name), f"-m {name}")
    with opened(data, given) as table:
        yield fitted({**given, "name": name}, table, narrator), table
