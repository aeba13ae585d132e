"""`eigengap rank` and `eigengap compare`: how many components, and which model."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from numbers import Integral
from typing import Any

import click

from eigengap.cli import options
from eigengap.cli.errors import WrongUsage
from eigengap.cli.models import estimator
from eigengap.cli.narration import aligned
from eigengap.registry import ESTIMATORS


@click.command()
@options.data
@options.columns
@click.option("--criterion", "criteria", multiple=True, metavar="NAME", help="Ask these alone.")
@click.option("--max-rank", type=click.IntRange(1), help="Most components to consider.")
@click.option(
    "--noise", type=click.Choice(["isotropic", "diagonal"]), default="isotropic",
    show_default=True, help="One noise for all columns (PPCA), or one for each (fa).",
)  # fmt: skip
@click.option("--scale/--no-scale", default=True, show_default=True, help="Standardise columns.")
@options.seed
@options.scheduler
@options.talking
def rank(data: str, narrator: Any, **given: Any) -> None:
    """Say how many components DATA has, by every criterion that applies.

    The table of criteria goes to standard output, all else to standard error.

    \b
    eigengap rank table.csv --ignore id,diagnosis
    """
    import eigengap
    from eigengap.cli.fitting import report_read, source_of
    from eigengap.cli.progress import waiting
    from eigengap.cli.tables.table import opened
    from eigengap.selection.rank.consensus import NAMES

    unknown = [name for name in given["criteria"] if name not in NAMES]
    if unknown:
        raise WrongUsage(f"--criterion {unknown[0]}: the criteria are {', '.join(NAMES)}")
    with (
        opened(data, given) as table,
        narrator.hearing(),
        source_of(table, given["scheduler"]) as source,
    ):
        report_read(table, source, narrator)
        with waiting(narrator, "Asking every criterion"):
            found = eigengap.choose_rank(
                source, criteria=given["criteria"] or None, max_rank=given["max_rank"],
                noise=given["noise"], scale=given["scale"], random_state=given["seed"],
            )  # fmt: skip
    narrator.say("Chose", found.summary, n_components=found.n_components, why=found.summary)
    narrator.facts["criteria"] = dict(found.criteria)
    narrator.facts["not_applied"] = dict(found.not_applied)
    narrator.facts["curves"] = {name: dict(curve) for name, curve in found.curves.items()}
    if not narrator.as_json:
        rows = [(str(q), NAMES[name]) for name, q in found.criteria.items()]
        rows += [("-", f"{NAMES[name]} ({why})") for name, why in found.not_applied.items()]
        for line in aligned(("k", "criterion"), rows):
            click.echo(line)


@click.command()
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
@options.seed
@options.columns
@options.talking
def compare(data: str, names: tuple[str, ...], narrator: Any, **given: Any) -> None:
    """Compare models by rows left out and cells hidden, paired.

    The table goes to standard output, all else to standard error.

    \b
    eigengap compare table.csv --ignore id -m ppca:1 -m ppca:2 -m fa
    """
    import eigengap
    from eigengap.cli.fitting import loaded, report_read
    from eigengap.cli.progress import waiting
    from eigengap.cli.tables.table import opened

    models = _models(names or ("pca", "ppca", "fa", "bayesian-pca"), given)
    for model in models.values():
        model._validate_params()
    with opened(data, given) as table, narrator.hearing():
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
    if not narrator.as_json:
        click.echo(_with_ranks(repr(found), found.names, ranks))
        sys.stdout.flush()


def _rank(model: Any, source: Any) -> int | list[int] | None:
    """How many components: as given, or as chosen by a fit to all rows."""
    import numpy as np

    from eigengap.comparison.fillers import unfitted

    found = model.get_params().get("n_components")
    if not isinstance(found, Integral):
        try:
            found = getattr(unfitted(model).fit(source), "n_components_", None)
        except (ValueError, ArithmeticError, MemoryError):  # reported in the model's note
            return None
    ranks: int | list[int] | None = np.asarray(found).tolist()
    return ranks


def _with_ranks(table: str, names: Sequence[str], ranks: Sequence[Any]) -> str:
    """The table of the comparison with a column k after the models."""
    shown = ["-" if k is None else str(k).strip("[]").replace(" ", "") for k in ranks]
    width, wide = max(map(len, ("model", *names))), max(map(len, shown))
    cells = ["k".rjust(wide), "-" * wide, *(k.rjust(wide) for k in shown)]
    return "\n".join(
        f"{line[:width].ljust(width)}  {cell}{line[width:]}"
        for line, cell in zip(table.splitlines(), cells, strict=True)
    )


def _models(names: tuple[str, ...], given: dict[str, Any]) -> dict[str, Any]:
    can = [entry.command for entry in ESTIMATORS if not entry.target]
    can.remove("novelty")  # the model within it can be compared
    models = {}
    for label in names:
        name, _, k = label.partition(":")
        if name not in can:
            raise WrongUsage(f"-m {label}: a model is one of {', '.join(can)}, e.g. ppca or ppca:2")
        if label in models:
            raise WrongUsage(f"-m {label} is given twice")
        scale = given["scale"] if "scale" in estimator(name).get_params() else None
        models[label] = estimator(
            name, components=k or given["components"], scale=scale, seed=given["seed"]
        )
    return models
