"""Commands on tables: `fit`, `impute`, `transform`, `score`, `rank` and `compare`."""

from __future__ import annotations

import shlex
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from numbers import Integral
from typing import Any

import click

from eigengap.cli import options
from eigengap.cli.errors import WrongUsage
from eigengap.cli.files import MODEL_SUFFIX, check_not_input, check_places, write_whole
from eigengap.cli.models import NAMES, estimator
from eigengap.cli.narration import aligned
from eigengap.registry import BY_COMMAND, ESTIMATORS, entry_of


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

    DATA is CSV, Parquet, npy, npz, HDF5 or Zarr, a glob of them, or - for standard input. It may
    have missing values.

    \b
    eigengap fit table.csv --id patient --ignore diagnosis
    eigengap fit table.csv -m fa -k 3 --set rotation=varimax -o fa.egap
    eigengap fit table.csv -m classifier --target diagnosis
    """
    from eigengap.cli.fitting import fitted, provenance_for, takes_levels
    from eigengap.cli.tables.table import opened
    from eigengap.persistence.model_file import save

    check_not_input(output, data, "the model")
    check_places(narrator, output, force, data, None, given["checkpoint"], bytes_of="a model")
    began = time.perf_counter()
    with opened(data, given, takes_levels(given)) as table:
        model = fitted(given, table, narrator)
        provenance = provenance_for(table, narrator.facts["rows"], narrator.facts.get("kinds"))
    count = write_whole(output, MODEL_SUFFIX, lambda to: save(model, to, provenance=provenance))
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
    help="The model to fit where --model gives none. [default: low-rank]",
)  # fmt: skip
@options.fitting
@options.output("-", "the imputed table")
@click.option("--std", is_flag=True, help="Add a column NAME_sd for each feature.")
@click.option(
    "--draws", type=click.IntRange(1, 10_000), metavar="M",
    help="Draw the missing values M times instead; a first column `draw` numbers the tables.",
)  # fmt: skip
@options.columns
@options.forcing
@options.talking
def impute(
    data: str, model: str | None, output: str, force: bool, narrator: Any, **given: Any
) -> None:
    """Impute the missing values of DATA.

    Every missing value is replaced by what the model expects given the observed values of its row:
    a number, or the most probable level. All other cells are unchanged, also in columns that are no
    features: of CSV their very text, in the same order, with the same separator, decimal mark and
    line ends.

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
    from eigengap.cli.fitting import fitted, is_for_pieces, opened_with_model, takes_levels
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
    # A fit that is to be kept in pieces, or made elsewhere, is PPCA's.
    on_the_way = given["checkpoint"] or given["scheduler"]
    asked = given["name"]
    name = asked or ("ppca" if on_the_way else "low-rank")
    given = {**given, "name": name}
    if BY_COMMAND[name].target:
        raise WrongUsage(f"-m {name} predicts a column and imputes no missing values")
    require_imputes(getattr(eigengap, BY_COMMAND[name].name), f"-m {name}")
    with opened(data, given, takes_levels(given)) as table:
        with narrator.hearing():
            is_large = asked is None and name == "low-rank" and is_for_pieces(table)
        if is_large:
            given["name"] = "ppca"
            narrator.note(
                "the table is large for the memory, so that PPCA is fitted, which reads it in "
                "pieces"
            )
        yield fitted(given, table, narrator), table


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

    The columns are those of the fit, found by name; ids are copied. Of a classifier the
    class and its probabilities are written, of a regressor the prediction and its standard
    deviation. The suffix of the output is its format: .csv, .csv.gz, .parquet, .npy, .h5, .zarr.

    \b
    eigengap transform model.egap new.csv -o scores.csv
    """
    from eigengap.cli.fitting import opened_with_model
    from eigengap.cli.tables.outputs import coordinates, write_rows

    check_places(narrator, output, force, data, model)
    with opened_with_model(model, data, given, narrator) as (estimator, table):
        write_rows(table, *coordinates(estimator, table), output, force, narrator)


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
    """Say how likely the rows of DATA are under MODEL, and which are outliers.

    With -o a line for every row: log_likelihood, and for linear-Gaussian models p_value (of an
    ordinary row with the same missing values being as improbable), outlier (0 or 1), T2 and SPE.
    For an autoencoder, which is no density: neg_mean_squared_error. Of classifiers and regressors
    the share of right classes, or R2, where DATA has the target.

    \b
    eigengap score model.egap new.csv
    eigengap score novelty.egap new.csv -o outliers.csv
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
    from eigengap.cli.fitting import columns_read, report_read, source_of
    from eigengap.cli.progress import waiting
    from eigengap.cli.tables.table import opened
    from eigengap.selection.rank.choice import NAMES

    unknown = [name for name in given["criteria"] if name not in NAMES]
    if unknown:
        raise WrongUsage(f"--criterion {unknown[0]}: the criteria are {', '.join(NAMES)}")
    takes_levels = not (given["numeric"] or given["scheduler"])
    with ExitStack() as stack:
        table = stack.enter_context(opened(data, given, takes_levels))
        stack.enter_context(narrator.hearing())
        how: dict[str, Any] = {}
        if table.is_mixed:
            source = columns_read(table, narrator)
            how["columns"] = table.asked or "auto"
        else:
            source = stack.enter_context(source_of(table, given["scheduler"]))
            report_read(table, source, narrator)
        with waiting(narrator, "Asking every criterion"):
            found = eigengap.choose_rank(
                source, criteria=given["criteria"] or None, max_rank=given["max_rank"],
                noise=given["noise"], scale=given["scale"], random_state=given["seed"], **how,
            )  # fmt: skip
    narrator.say("Chose", found.summary, n_components=found.n_components, why=found.summary)
    narrator.facts["criteria"] = dict(found.criteria)
    narrator.facts["not_applied"] = dict(found.not_applied)
    narrator.facts["curves"] = {name: dict(curve) for name, curve in found.curves.items()}
    if not narrator.as_json:
        rows = [(str(q), NAMES[name]) for name, q in found.criteria.items()]
        by_reason: dict[str, list[str]] = {}
        for name, why in found.not_applied.items():
            by_reason.setdefault(why, []).append(NAMES[name])
        rows += [("-", f"{', '.join(names)} ({why})") for why, names in by_reason.items()]
        for line in aligned(("k", "criterion"), rows):
            click.echo(line)
        if "columns" in how:
            for curve in found.curves.values():
                tried = [(str(q), f"{value:.3f}") for q, value in curve.items()]
                click.echo()
                for line in aligned(("k", curve.label), tried):
                    click.echo(line)


@click.command()
@options.data
@click.option(
    "-m", "--model", "names", multiple=True, metavar="MODEL[:K]",
    help="A model, with a number of components if wanted: -m ppca:2 -m fa. "
    "[default: pca, ppca, fa, bayesian-pca; without pca where columns hold levels]",
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

    Where one of the models takes numbers only, all are compared on the columns of numbers.

    The table goes to standard output, all else to standard error.

    \b
    eigengap compare table.csv --ignore id -m ppca:1 -m ppca:2 -m fa
    """
    import eigengap
    from eigengap.cli.fitting import columns_read, loaded, report_read
    from eigengap.cli.models import takes_columns
    from eigengap.cli.progress import waiting
    from eigengap.cli.tables.table import opened

    models = _models(names or COMPARED, given)
    for model in models.values():
        model._validate_params()
    # Models are compared on the same columns: on those of numbers, where one takes no others.
    takes_levels = not given["numeric"] and all(
        takes_columns(label.partition(":")[0]) for label in names or COMPARED_KINDS
    )
    with opened(data, given, takes_levels) as table, narrator.hearing():
        source: Any
        if table.is_mixed:
            models = _models(names or COMPARED_KINDS, given)
            for model in models.values():
                model.set_params(columns=table.asked or "auto")
            source = columns_read(table, narrator)
        else:
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


COMPARED = ("pca", "ppca", "fa", "bayesian-pca")
COMPARED_KINDS = COMPARED[1:]  # of a table with levels


def _rank(model: Any, source: Any) -> int | list[int] | None:
    """How many components: as given, or as chosen by a fit to all rows."""
    import numpy as np

    from eigengap.comparison.compare import unfitted

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
