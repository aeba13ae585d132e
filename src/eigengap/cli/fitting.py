"""Fitting a model to a table, and saying what came of it: what fit, impute and demo share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from eigengap.cli.models import estimator
from eigengap.cli.narration import Narrator, listing, many, signed
from eigengap.cli.progress import showing_steps, waiting
from eigengap.cli.tables.constant import report_constant
from eigengap.cli.tables.table import Table
from eigengap.registry import BY_COMMAND, entry_of

LOADED_SHARE = 0.1  # of the free memory that a table may take to be read once instead of often
GROWS = {None: 2.0, "gzip": 10.0, "bz2": 12.0, "zstd": 10.0}  # bytes of numbers for one of the file
MOST_NAMED = 8  # columns that one message lists
ID_NAMES = {"id", "index", "row", "rowid", "row_id", "sample_id", "patient_id", "unnamed: 0"}


@dataclass(frozen=True)
class Wanted:
    """The model that the options describe."""

    name: str
    components: str | None = None
    settings: tuple[str, ...] = ()
    scale: bool | None = None
    seed: int = 0
    checkpoint: str | None = None
    scheduler: str | None = None

    def unfitted(self, narrator: Narrator) -> Any:
        shows = narrator.verbose or (narrator.shows_progress and self.name != "low-rank")
        return estimator(
            self.name,
            components=self.components,
            scale=self.scale,
            seed=self.seed,
            checkpoint=self.checkpoint,
            settings=self.settings,
            verbose=shows,
        )


def fitted(wanted: Wanted, table: Table, narrator: Narrator) -> Any:
    """Fit, and report what was read, chosen and found."""
    from eigengap.cli.errors import WrongUsage

    if bool(BY_COMMAND[wanted.name].target) != (table.target is not None):
        need = "needs --target COLUMN" if table.target is None else "takes no --target"
        raise WrongUsage(f"-m {wanted.name} {need}")
    model = wanted.unfitted(narrator)
    model._validate_params()  # wrong options are refused before anything is read
    with ExitStack() as stack:
        with narrator.hearing(), waiting(narrator, "Reading"):
            source = stack.enter_context(_opened(table, wanted.scheduler))
            report_read(table, source, narrator, model)
        given = () if table.target is None else (target_of(table, wanted.name),)
        before = narrator.n_notes
        with narrator.hearing(), showing_steps(narrator):
            model.fit(source, *given)
        report_fit(model, source, narrator, narrator.n_notes > before)
    return model


@contextmanager
def _opened(table: Table, scheduler: str | None) -> Iterator[Any]:
    if scheduler is not None:
        from eigengap.cli.tables.cluster import on_cluster

        with on_cluster(scheduler, table) as source:
            yield source
    else:
        yield loaded(table)


def loaded(table: Table) -> Any:
    """The features in memory where they are small beside it, else a source that reads them."""
    from eigengap.runtime.memory import free_memory
    from eigengap.sources import ArraySource, FieldSource

    source = table.source()
    if isinstance(source, FieldSource):
        return source
    known = source.n_rows
    if known is not None:
        size = 8.0 * known * source.n_features
    else:
        packed = table.readers[0]._compression if table.readers else None
        size = GROWS[packed] * (source.reader.bytes_per_pass or 0)
    most = LOADED_SHARE * free_memory()
    if size > most:
        return source
    if 8.0 * source.observed().rows * source.n_features > most:  # it was packed more tightly
        return source
    return ArraySource(source.collect(), names=source.names)


def target_of(table: Table, name: str) -> Any:
    """The column that is to be predicted, for all rows: labels of classes, or numbers."""
    import numpy as np

    from eigengap.cli.tables.pieces import pieces

    assert table.target is not None
    if name == "regressor":
        return table.source([table.target]).collect()[:, 0]
    columns = [piece.columns.column(table.target) for piece in pieces(table)]
    cells = [cell for column in columns for cell in column.to_pylist()]
    labels = [
        cell.decode("utf-8", "replace") if isinstance(cell, bytes) else cell for cell in cells
    ]
    from eigengap.cli.errors import Unfittable
    from eigengap.sources import quote

    for k, label in enumerate(labels):
        if is_no_class(label, table.na):
            raise Unfittable(
                f"column {quote(table.name(table.target))} has no class in row {k + 1}; every row "
                "needs one"
            )
    return np.array(labels)


def is_no_class(label: Any, na: Sequence[str]) -> bool:
    """Whether a label stands for a missing one.

    >>> [is_no_class(label, ["?", "-999"]) for label in (None, " ", "?", -999, float("nan"), "no")]
    [True, True, True, True, True, False]
    """
    if isinstance(label, str):
        return label.strip() in {"", "NA", *na}
    if label is None or label != label:
        return True
    from eigengap.sources import is_number

    return any(is_number(code) and float(code) == label for code in na)


# Telling ------------------------------------------------------------------------------------


def report_read(table: Table, source: Any, narrator: Narrator, model: Any = None) -> None:
    """How large the table is, and where its gaps are."""
    from eigengap.statistics.first_look import look_first

    wants = getattr(model, "_wants_scatter", None)
    look_first(source, scatter=bool(wants is not None and wants(source)))
    missing, rows = source.missing_per_column(), source.observed().rows
    d = source.n_features
    narrator.say(
        "Read",
        f"{many(rows, 'row')} x {many(d, 'numeric column')}; {_missing(missing, rows, table)}",
        data=table.given,
        rows=rows,
        columns=[table.name(j) for j in table.features],
        missing=int(missing.sum()),
        missing_per_column={
            table.name(j): int(missing[k]) for k, j in enumerate(table.features) if missing[k]
        },
    )
    for sentence in table.notes:
        narrator.note(sentence)
    _require_observed(table, missing, rows)
    suspects = [table.name(j) for j in table.features if table.name(j).lower() in ID_NAMES]
    if suspects and table.names is not None:
        narrator.note(
            f"{listing(suspects)} looks like a name of rows, and is taken for a measurement; "
            f"--id {suspects[0]} keeps it out of the model"
        )
    if rows > 1:
        report_constant(table, source, narrator)


def _require_observed(table: Table, n_missing: Any, rows: int) -> None:
    """Refuse columns without a single cell here, where options can be named."""
    from eigengap.cli.errors import Unfittable, shown
    from eigengap.cli.tables.text_columns import as_argument
    from eigengap.sources import quote

    missing = [j for k, j in enumerate(table.features) if rows and n_missing[k] == rows]
    if not missing:
        return
    named = ", ".join(quote(table.name(j)) for j in missing[:MOST_NAMED])
    named += f" and {len(missing) - MOST_NAMED} more" if len(missing) > MOST_NAMED else ""
    raise Unfittable(
        f"{shown(table.given)}: no value is observed in column{'s' if len(missing) > 1 else ''} "
        f"{named}. Leave {'them' if len(missing) > 1 else 'it'} out: "
        f"--ignore {as_argument(table, missing)}"
    )


def _missing(missing: Any, rows: int, table: Table) -> str:
    total = int(missing.sum())
    if total == 0:
        return "no cell is missing"
    message = f"{many(total, 'cell')} missing ({_percent(total, rows * len(missing))})"
    with_missing = [k for k in range(len(missing)) if missing[k]]
    names = [table.name(table.features[k]) for k in with_missing]
    if len(names) <= 3:
        return f"{message}, all in {listing(names)}" if len(names) < len(missing) else message
    worst = max(with_missing, key=lambda k: int(missing[k]))
    return (
        f"{message} in {len(names)} columns, most in "
        f"{listing([table.name(table.features[worst])])} ({_percent(int(missing[worst]), rows)})"
    )


def _percent(part: int, whole: int) -> str:
    """A share as people write it.

    >>> _percent(16, 6291), _percent(60, 60)
    ('0.25 %', '100 %')
    """
    share = 100.0 * part / whole
    return f"{share:.2g} %" if share < 99.5 else f"{share:.0f} %"


def report_fit(model: Any, source: Any, narrator: Narrator, is_warned: bool) -> None:
    """What came of the fit; `is_warned` is whether it had something to say itself."""
    choice = getattr(model, "rank_choice_", None)
    chosen = getattr(model, "choice_", None)
    if choice is not None:
        narrator.say("Chose", choice.summary, why=choice.summary)
    elif chosen is not None:
        narrator.say("Chose", str(chosen.summary), why=str(chosen.summary))
    facts = facts_of(model, source)
    parts = [facts["model"]]
    if facts.get("n_components") is not None and choice is None:
        parts.append(f"k = {facts['n_components']}")
    if facts.get("n_iter") is not None and facts.get("converged") is not None:
        steps = many(facts["n_iter"], "step")
        parts += [steps, "converged" if facts["converged"] else "NOT converged"]
    message = ", ".join(parts)
    height = facts.get("log_likelihood_per_row")
    if height == float("inf"):
        message += "; the likelihood has no bound"
    elif height is not None:
        message += f"; log-likelihood per row {signed(height)}"
    if facts.get("explained_variance_ratio") is not None:
        share = 100.0 * facts["explained_variance_ratio"]
        message += f"; {share:.0f} % of the variance explained"
    narrator.say("Fit", message, **facts)
    if height == float("inf") and not is_warned:
        from eigengap.estimators.shared.linear import ways_to_noise

        ways = ways_to_noise(facts.get("n_components") or 0, source.observed().sum_w)
        narrator.note(
            "no noise is left beside the components, so that no finite likelihood, no p-value and "
            f"no standard deviation means anything: {ways}"
        )


def facts_of(model: Any, source: Any) -> dict[str, Any]:
    """What a fitted estimator says of itself, as far as it does."""
    import numpy as np

    def attribute(name: str) -> Any:
        try:
            return getattr(model, name)
        except AttributeError:
            return None

    facts: dict[str, Any] = {"model": type(model).__name__}
    for name in ("n_components", "n_iter", "converged"):
        value = attribute(f"{name}_")
        if value is not None:
            facts[name] = value.tolist() if hasattr(value, "tolist") else value
    if isinstance(facts.get("n_components"), tuple):
        facts["n_components"] = list(facts["n_components"])
    total = attribute("log_likelihood_")
    if total is not None and np.ndim(total) == 0:
        facts["log_likelihood_per_row"] = float(total) / max(source.observed().sum_w, 1.0)
    ratio = attribute("explained_variance_ratio_")
    if ratio is not None:
        facts["explained_variance_ratio"] = float(np.sum(ratio))
    if entry_of(model).noise == "isotropic":
        facts["noise_sd"] = float(np.sqrt(np.mean(model.noise_variance_)))
    return facts
