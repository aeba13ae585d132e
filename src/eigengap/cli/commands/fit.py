"""`eigengap fit`: a table in, a model file out."""

from __future__ import annotations

import shlex
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import click

from eigengap.cli import options


@click.command("fit")
@options.data
@options.model_name
@options.fitting
@options.output("model.egap", "the model")
@click.option("--target", metavar="COL", help="The column that a classifier or regressor predicts.")
@options.columns
@options.forcing
@options.talking
def command(data: str, output: str, force: bool, narrator: Any, **given: Any) -> None:
    """Fit a model to DATA and write it to a file.

    DATA is CSV, Parquet, npy, npz, HDF5 or Zarr, a glob of them, or - for standard input. Gaps are
    welcome.

    \b
    eigengap fit table.csv --id patient --ignore diagnosis
    eigengap fit table.csv -m fa -k 3 --set rotation=varimax -o fa.egap
    eigengap fit table.csv -m classifier --target diagnosis
    """
    from eigengap.cli.files import check_not_input, check_places
    from eigengap.cli.fitting import Wanted, fitted
    from eigengap.cli.kept_models import provenance_for, save_kept
    from eigengap.cli.tables.table import opened

    check_not_input(output, data, "the model")
    check_places(narrator, output, force, data, None, given["checkpoint"], bytes_of="a model")
    began = time.perf_counter()
    with opened(data, given) as table:
        model = fitted(Wanted.of(given), table, narrator)
        provenance = provenance_for(table, narrator.facts["rows"])
    count = save_kept(model, output, provenance)
    seconds = time.perf_counter() - began
    facts = {"wrote": output, "bytes": count, "seconds": seconds}
    narrator.wrote(output, count, "the model to ", **facts)
    if output != "-" and data != "-" and (output + data).isprintable():
        _print_next(model, output, data, table, narrator)


def _print_next(model: Any, output: str, data: str, table: Any, narrator: Any) -> None:
    from eigengap.registry import entry_of

    files = shlex.join([output, data])
    then = {
        "report": f"eigengap report {files} --open",
        "transform": f"eigengap transform {files} -o predicted.csv",
        "score": f"eigengap score {files}",
        "impute": f"eigengap impute {shlex.join([data, '--model', output])} -o imputed.csv",
    }[entry_of(model).next_command]
    then += "".join(f" {option}" for option in _of_this_file(table))
    narrator.say("Next", then, next=then)


def _of_this_file(table: Any) -> Iterator[str]:
    """What has to be said of the file again, for no model knows it."""
    names, count = table.names, Counter(table.names or ())
    if names is not None and any(count[names[j]] > 1 for j in table.features):
        yield f"--columns {','.join(map(str, table.features))}"
    if table.skipped.first:
        yield f"--skip-rows {table.skipped.first}"
    if table.skipped.mark:
        yield f"--comment {shlex.quote(table.skipped.mark)}"
