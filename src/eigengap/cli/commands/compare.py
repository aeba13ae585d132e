"""`eigengap compare`: models side by side on what they have not seen."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import click

from eigengap.cli import options
from eigengap.registry import ESTIMATORS


@click.command("compare")
@options.data
@click.option(
    "-m", "--model", "names", multiple=True, metavar="MODEL[:K]",
    help="A model, with a number of components if wanted: -m ppca:2 -m fa. "
    "[default: pca, ppca, fa, bayesian-pca]",
)  # fmt: skip
@options.components
@click.option("--scale/--no-scale", default=None, help="Standardise columns, where a model can.")
@click.option("--folds", type=click.IntRange(2), default=5, show_default=True, help="Of the rows.")
@click.option(
    "--holdout", type=click.FloatRange(0, 1, max_open=True), default=0.1, show_default=True,
    help="Share of the cells of test rows that are held out and have to be imputed.",
)  # fmt: skip
@click.option("--seed", type=click.IntRange(0, 2**32 - 1), default=0, help="Random seed.")
@options.columns
@options.talking
def command(data: str, names: tuple[str, ...], **given: Any) -> None:
    """Compare models by rows left out and cells hidden, paired.

    The table goes to standard output, all else to standard error.

    \b
    eigengap compare table.csv --ignore id -m ppca:1 -m ppca:2 -m fa
    """
    import eigengap
    from eigengap.cli.files import as_file
    from eigengap.cli.fitting import loaded, report_read
    from eigengap.cli.narration import Narrator
    from eigengap.cli.progress import waiting
    from eigengap.cli.tables.table import Choice, open_table

    narrator = Narrator(given["quiet"], given["as_json"], given["verbose"])
    models = _models(names or ("pca", "ppca", "fa", "bayesian-pca"), given)
    for model in models.values():
        model._validate_params()
    choice = Choice.of(given)
    with as_file(data, "DATA") as path, narrator.hearing():
        table = open_table(data, path, choice)
        source = loaded(table)
        report_read(table, source, narrator)
        with waiting(narrator, f"Comparing {len(models)} models"):
            found = eigengap.compare(
                models, source, cv=given["folds"], holdout=given["holdout"],
                random_state=given["seed"],
            )  # fmt: skip
            ranks = [_rank(model, source) for model in models.values()]
    narrator.say("Found", found.summary, best=found.best, summary=found.summary)
    columns = found._columns()
    narrator.facts["models"] = [
        {name: column[k] for name, column in columns.items()} | {"n_components": ranks[k]}
        for k in range(len(found.names))
    ]
    if not given["as_json"]:
        click.echo(_with_ranks(repr(found), found.names, ranks))
        sys.stdout.flush()
    narrator.finish()


def _rank(model: Any, source: Any) -> int | list[int] | None:
    """How many components: as given, or as chosen by a fit to all rows."""
    from numbers import Integral

    from eigengap.comparison.compare import unfitted

    given = model.get_params().get("n_components")
    if isinstance(given, Integral):
        return int(given)
    try:
        found = getattr(unfitted(model).fit(source), "n_components_", None)
    except (ValueError, ArithmeticError, MemoryError):  # reported in the model's note
        return None
    if found is None or isinstance(found, Integral):
        return None if found is None else int(found)
    return [int(one) for one in found]


def _with_ranks(table: str, names: Sequence[str], ranks: Sequence[Any]) -> str:
    """The table of the comparison with a column k after the models."""
    shown = [
        "-" if k is None else ",".join(map(str, k if isinstance(k, list) else [k])) for k in ranks
    ]
    width, wide = max(map(len, ("model", *names))), max(map(len, shown))
    cells = ["k".rjust(wide), "-" * wide, *(k.rjust(wide) for k in shown)]
    lines = table.splitlines()
    return "\n".join(
        f"{line[:width].ljust(width)}  {cell}{line[width:]}"
        for line, cell in zip(lines, cells, strict=True)
    )


def _models(names: tuple[str, ...], given: dict[str, Any]) -> dict[str, Any]:
    from eigengap.cli.errors import WrongUsage
    from eigengap.cli.models import estimator

    models = {}
    for label in names:
        name, _, k = label.partition(":")
        can = [entry.command for entry in ESTIMATORS if not entry.target]
        can.remove("novelty")  # the model within it can be compared
        if name not in can:
            raise WrongUsage(f"-m {label}: a model is one of {', '.join(can)}, e.g. ppca or ppca:2")
        if label in models:
            raise WrongUsage(f"-m {label} is given twice")
        scale = given["scale"]
        probe = estimator(name)
        models[label] = estimator(
            name,
            components=k or given["components"],
            scale=scale if "scale" in probe.get_params() else None,
            seed=given["seed"],
        )
    return models
