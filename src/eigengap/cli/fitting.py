"""Models of the command line: fitted to a table, kept in a file, and opened with another table."""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from importlib import import_module
from math import nan
from numbers import Integral
from typing import Any

import numpy as np

from eigengap.cli.errors import FileTrouble, Unfittable, WrongUsage, shown
from eigengap.cli.files import as_file
from eigengap.cli.models import estimator, takes_columns
from eigengap.cli.narration import Narrator, listing, many, named, signed
from eigengap.cli.progress import showing_steps, waiting
from eigengap.cli.tables.faults import as_argument, has_numbers, report_constant, report_skewed
from eigengap.cli.tables.kinds import counted, looks_like_id, reasons
from eigengap.cli.tables.outputs import schema_of
from eigengap.cli.tables.pieces import whole_frame
from eigengap.cli.tables.table import LIMITS, Choice, Table, table_for
from eigengap.exceptions import MissingExtraError, UnreadableError
from eigengap.persistence.model_file import load
from eigengap.persistence.provenance import provenance_of
from eigengap.registry import BY_COMMAND, entry_of
from eigengap.runtime import memory
from eigengap.sources import (
    MISSING_TEXTS,
    NULL_WORDS,
    ArraySource,
    FieldSource,
    as_source,
    codes_of,
    is_number,
    quote,
)
from eigengap.statistics.first_look import look_first

MODEL_OPTIONS = ("components", "settings", "scale", "seed", "checkpoint")
PATIENCE = "20s"  # for a Dask scheduler to answer
LOADED_SHARE = 0.1  # of the free memory that a table may take to be read once instead of often
GROWS = {None: 2.0, "gzip": 10.0, "bz2": 12.0, "zstd": 10.0}  # bytes of numbers for one of the file
MOST_NAMED = 8  # columns that one message lists
NUMERIC = "numeric"
NUMERIC_SETTINGS = {"estimator", "integers", "bounds", "add_indicator", "columns"}


def fitted(wanted: Mapping[str, Any], table: Table, narrator: Narrator) -> Any:
    """Fit what options describe, and report what was read, chosen and found."""
    name = wanted["name"]
    if bool(BY_COMMAND[name].target) != (table.target is not None):
        need = "needs --target COLUMN" if table.target is None else "takes no --target"
        raise WrongUsage(f"-m {name} {need}")
    how = {option: wanted[option] for option in MODEL_OPTIONS if option in wanted}
    shows = narrator.verbose or (narrator.shows_progress and name != "low-rank")
    model = estimator(name, verbose=shows, columns=columns_for(wanted, table), **how)
    model._validate_params()  # wrong options are refused before anything is read
    if model.get_params(deep=False).get("columns", NUMERIC) != NUMERIC:
        _fit_columns(model, table, name, narrator)
        return model
    with ExitStack() as stack:
        with narrator.hearing(), waiting(narrator, "Reading"):
            source = stack.enter_context(source_of(table, wanted.get("scheduler")))
            report_read(table, source, narrator, model)
            report_skewed(table, source, narrator, takes_columns(name))
        given = () if table.target is None else (_target(table, name),)
        before = narrator.n_notes
        with narrator.hearing(), showing_steps(narrator):
            model.fit(source, *given)
        _report_fit(model, source, narrator, narrator.n_notes > before)
    return model


def takes_levels(wanted: Mapping[str, Any]) -> bool:
    """Whether the model that options describe takes columns of every kind."""
    name = wanted["name"]
    if wanted.get("numeric") or wanted.get("checkpoint") or wanted.get("scheduler"):
        return False
    settings = {one.partition("=")[0].strip() for one in wanted.get("settings", ())}
    return takes_columns(name) and not settings & NUMERIC_SETTINGS


def columns_for(wanted: Mapping[str, Any], table: Table) -> Any:
    """`columns` of the estimator: kinds are found where the table has levels, or it imputes.

    A table of numbers alone stays one of numbers, unless a kind is named.
    """
    if not takes_levels(wanted):
        return None
    if table.is_mixed or wanted["name"] == "low-rank":
        return table.asked or "auto"
    return None


def _fit_columns(model: Any, table: Table, name: str, narrator: Narrator) -> None:
    """Fit a model of columns of every kind to the table in memory."""
    with narrator.hearing(), waiting(narrator, "Reading"):
        X, values = whole_frame(table, table.feature_names)
        source = ArraySource(values, names=table.feature_names)
        report_read(table, source, narrator, with_kinds=True)
    before = narrator.n_notes
    with narrator.hearing(), showing_steps(narrator), waiting(narrator, "Fitting"):
        model.fit(X, *(() if table.target is None else (_target(table, name),)))
    _report_columns(model, table, narrator)
    _report_fit(model, source, narrator, narrator.n_notes > before)


def columns_read(table: Table, narrator: Narrator) -> Any:
    """The table as a model of columns of every kind takes it, reported."""
    X, values = whole_frame(table, table.feature_names)
    report_read(table, ArraySource(values, names=table.feature_names), narrator)
    return X


def _report_columns(model: Any, table: Table, narrator: Narrator) -> None:
    """The kinds that were found, in few words; --json has them by name."""
    kinds = {str(name): kind for name, kind in getattr(model, "kinds_", {}).items()}
    if not kinds:
        return
    narrator.say("Columns", f"{counted(list(kinds.values()))}{_set_aside(table)}", kinds=kinds)


def _set_aside(table: Table) -> str:
    return f"; set aside: {reasons(table, MOST_NAMED)}" if table.aside else ""


@contextmanager
def source_of(table: Table, scheduler: str | None) -> Iterator[Any]:
    """The features of the table, or their rows on the workers of a Dask cluster."""
    if scheduler is None:
        yield loaded(table)
        return
    try:
        # By name: only `sources.dask` may know Dask, and it starts no clients.
        distributed = import_module("distributed")
        frames = import_module("dask.dataframe")
    except ImportError as error:
        raise MissingExtraError("--scheduler", "dask", "dask") from error
    try:
        client = distributed.Client(scheduler, timeout=PATIENCE)
    except (OSError, ValueError) as error:
        raise FileTrouble(f"no Dask scheduler answers at {scheduler}: {error}") from error
    with client:
        yield _on_cluster(table, frames)


def _on_cluster(table: Table, frames: Any) -> Any:
    """The table as workers read it, which see the files under the same names."""
    if table.names is None or table.kind not in ("csv", "parquet"):
        raise WrongUsage("--scheduler reads CSV and Parquet files with column names")
    if table.skipped:
        raise WrongUsage("--scheduler reads CSV without --skip-rows and --comment")
    names = [table.names[j] for j in table.features]
    paths = [os.path.abspath(path) for path in table.paths]  # workers stand in other folders
    if table.kind == "parquet":
        frame = frames.read_parquet(paths, columns=names)
    else:
        reader = table.readers[0]
        packed = reader._compression
        frame = frames.read_csv(
            paths, usecols=names, sep=reader.dialect.separator,
            decimal=reader.dialect.cells.decimal, na_values=list(table.na),
            dtype=dict.fromkeys(names, "float64"), compression=packed,
            **({} if packed is None else {"blocksize": None}),
        )  # fmt: skip
    return as_source(frame[names], missing_values=[float("nan"), *table.codes])


def loaded(table: Table) -> Any:
    """The features in memory where they are small relative to it, else a source that reads them."""
    source = table.source()
    if isinstance(source, FieldSource) or not is_small(table, source):
        return source
    return ArraySource(source.collect(), names=source.names)


def is_for_pieces(table: Table) -> bool:
    """Whether a table of numbers is too large to be held in memory as a whole."""
    if table.is_mixed:
        return False
    source = table.source()
    return not isinstance(source, FieldSource) and not is_small(table, source)


def is_small(table: Table, source: Any) -> bool:
    """Whether the features take little of the free memory."""
    if source.n_rows is not None:
        size = 8.0 * source.n_rows * source.n_features
    else:
        packed = table.readers[0]._compression if table.readers else None
        size = GROWS[packed] * (source.reader.bytes_per_pass or 0)
    most = LOADED_SHARE * memory.free_memory()
    # The second question is for files that were packed more tightly.
    return bool(size <= most and 8.0 * source.observed().rows * source.n_features <= most)


def _target(table: Table, name: str) -> Any:
    """The column that is to be predicted, for all rows: labels of classes, or numbers."""
    from eigengap.cli.tables.pieces import pieces

    assert table.target is not None
    if name == "regressor":
        try:
            return table.source([table.target]).collect()[:, 0]
        except UnreadableError as error:
            if not error.in_cells or has_numbers(table, table.target):
                raise
            raise Unfittable(
                f"{error}. A regressor predicts numbers; to predict classes take -m classifier"
            ) from None
    columns = [piece.columns.column(table.target) for piece in pieces(table)]
    labels = [as_text(cell) for column in columns for cell in column.to_pylist()]
    without = [k for k, label in enumerate(labels) if is_no_class(label, table.na)]
    if without:
        rows = many(len(without), "row")
        raise Unfittable(
            f"column {quote(table.name(table.target))} has no class in {rows}, the first is row "
            f"{without[0] + 1}; every row needs one. Remove these rows, or give them a class"
        )
    return np.array(labels)


def as_text(cell: Any) -> Any:
    """Bytes of a CSV cell as text; anything else as it is."""
    return cell.decode("utf-8", "replace") if isinstance(cell, bytes) else cell


def is_no_class(label: Any, na: Sequence[str]) -> bool:
    """Whether a label stands for a missing one.

    >>> [is_no_class(label, ["?", "-999"]) for label in (None, " ", "n/a", "?", -999, "None")]
    [True, True, True, True, True, False]
    """
    if isinstance(label, str):
        return label.strip() in MISSING_TEXTS - NULL_WORDS or label.strip() in na
    if label is None or label != label:
        return True
    return any(is_number(code) and float(code) == label for code in na)


# What is reported -----------------------------------------------------------------------------


def report_read(
    table: Table, source: Any, narrator: Narrator, model: Any = None, with_kinds: bool = False
) -> None:
    """How large the table is, and where values are missing; kinds may follow after the fit."""
    wants = getattr(model, "_wants_scatter", None)
    look_first(source, scatter=bool(wants is not None and wants(source)))
    missing, rows = source.missing_per_column(), source.observed().rows
    what = "column" if table.levels or table.limited else "numeric column"
    shape = f"{many(rows, 'row')} x {many(source.n_features, what)}"
    narrator.say(
        "Read",
        f"{shape}; {_missing(missing, rows, table)}",
        data=table.given,
        rows=rows,
        columns=[table.name(j) for j in table.features],
        missing=int(missing.sum()),
        missing_per_column={
            table.name(j): int(missing[k]) for k, j in enumerate(table.features) if missing[k]
        },
    )
    if table.aside:
        narrator.facts["set_aside"] = {table.name(j): why for j, why in table.aside.items()}
        if not with_kinds:
            some = f"{len(table.levels)} of levels, " if table.levels else ""
            n_numbers = len(table.features) - len(table.levels)
            narrator.say("Columns", f"{some}{n_numbers} numeric{_set_aside(table)}")
    if of_rows := [table.name(j) for j in table.row_numbers]:
        narrator.note(
            f"{listing(of_rows)} {'are' if len(of_rows) > 1 else 'is'} taken for names of rows, "
            "not for measurements; --columns takes every column that it lists"
        )
    for sentence in table.notes:
        narrator.note(sentence)
    _require_observed(table, missing, rows)
    suspects = [table.name(j) for j in table.numbers if looks_like_id(table.name(j))]
    if suspects and table.names is not None:
        narrator.note(
            f"{listing(suspects)} looks like a name of rows, and is taken for a measurement; "
            f"--id {suspects[0]} keeps it out of the model"
        )
    if rows > 1:
        report_constant(table, source, narrator)


def _require_observed(table: Table, n_missing: Any, rows: int) -> None:
    """Refuse columns without a single cell here, where options can be named."""
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


def _report_fit(model: Any, source: Any, narrator: Narrator, is_warned: bool) -> None:
    """What came of the fit; `is_warned` is whether it gave a warning."""
    rank = getattr(model, "rank_choice_", None)
    choice = rank if rank is not None else getattr(model, "choice_", None)
    if choice is not None:
        narrator.say("Chose", str(choice.summary), why=str(choice.summary))
    facts = _facts_of(model, source)
    parts = [facts["model"]]
    if "n_components" in facts and rank is None:
        parts.append(f"k = {facts['n_components']}{_of_most(model)}")
    if "n_iter" in facts and "converged" in facts:
        steps = many(facts["n_iter"], "step")
        parts += [steps, "converged" if facts["converged"] else "NOT converged"]
    message = ", ".join(parts)
    height = facts.get("log_likelihood_per_row")
    if height == float("inf"):
        message += "; the likelihood has no bound"
    elif height is not None:
        message += f"; log-likelihood per row {signed(height)}"
    if "explained_variance_ratio" in facts:
        share = 100.0 * facts["explained_variance_ratio"]
        behind = " behind the columns" if schema_of(model) is not None else ""
        message += f"; {share:.0f} % of the variance{behind} explained"
    narrator.say("Fit", message, **facts)
    if height == float("inf") and not is_warned:
        from eigengap.estimators.shared.linear import ways_to_noise

        ways = ways_to_noise(facts.get("n_components") or 0, source.observed().sum_w)
        narrator.note(
            "no noise is left besides the components, so that likelihoods, p-values and standard "
            f"deviations are meaningless: {ways}"
        )


def _of_most(model: Any) -> str:
    """Of how many components a model has kept some, where it was to find how many."""
    inner = getattr(model, "estimator_", model)
    asked, kept = getattr(inner, "n_components", None), getattr(inner, "n_components_", None)
    if not (isinstance(asked, Integral) and isinstance(kept, Integral)) or kept == asked:
        return ""
    return f" of at most {asked}"


def _facts_of(model: Any, source: Any) -> dict[str, Any]:
    """What a fitted estimator reports of itself."""
    facts: dict[str, Any] = {"model": type(model).__name__}
    for name in ("n_components", "n_iter", "converged"):
        value = getattr(model, f"{name}_", None)
        if value is not None:
            facts[name] = np.asarray(value).tolist()
    total = getattr(model, "log_likelihood_", None)
    if total is not None and np.ndim(total) == 0:
        facts["log_likelihood_per_row"] = float(total) / max(source.observed().sum_w, 1.0)
    ratio = getattr(model, "explained_variance_ratio_", None)
    if ratio is not None:
        facts["explained_variance_ratio"] = float(np.sum(ratio))
    if entry_of(model).noise == "isotropic":
        facts["noise_sd"] = float(np.sqrt(np.mean(model.noise_variance_)))
    return facts


# Model files -------------------------------------------------------------------------------


@contextmanager
def opened_with_model(
    model: str, data: str, given: Mapping[str, Any], narrator: Narrator, option: str = "MODEL"
) -> Iterator[tuple[Any, Table]]:
    """A fitted model, and a table for it: files, or standard input.

    `given` has the options of the table, whose `columns` are those that the model is to take, in
    its order. What they leave out is as it was in the fit, and so are columns without names.
    """
    options = Choice.of(given)
    with as_file(model, option) as model_path, as_file(data, "DATA") as path:
        estimator = load(model_path)
        record = estimator.provenance_
        count = int(estimator.n_features_in_)
        names = getattr(estimator, "feature_names_in_", None)
        features: list[str | int] = list(range(count) if names is None else map(str, names))
        positions = _texts(record, "positions")
        if names is None and len(positions) == count:
            features = [int(j) for j in positions]
        codes = _codes_of(estimator)
        na = _texts(record, "na") or codes  # what stood for a missing cell in the fit
        choice = replace(
            options, na=options.na or na, ids=options.ids or _texts(record, "ids"),
            target=record["target"] if isinstance(record.get("target"), str) else None,
        )  # fmt: skip
        # How many columns a table without names has to have.
        n_columns = record["columns"] if isinstance(record.get("columns"), int) else count
        schema = schema_of(estimator)
        holds = schema and [LIMITS if one.has_limits else one.holds for one in schema.columns]
        table = table_for(
            data, path, features, choice, n_columns, may_lack_ids=not options.ids, holds=holds
        )
        if not options.na and na:
            narrator.note(
                f"{listing(na)} stand{'s' * (len(na) == 1)} for a missing cell, as in the fit; "
                "--na overrides it"
            )
        if (names is None) != (table.names is None):
            which, other = ("table", "model") if names is None else ("model", "table")
            narrator.note(
                f"the {which} has names of columns and the {other} has none: columns are taken in "
                "the order of the fit"
            )
        yield estimator, table


def _codes_of(estimator: Any) -> tuple[str, ...]:
    """Its `missing_values`, taken over: cells are read by us, and reach it as NaN."""
    codes: dict[str, None] = {}
    inner: Any = getattr(estimator, "estimator_", None)
    for one in (estimator, inner):
        if hasattr(one, "missing_values"):
            texts, numbers = codes_of(one.missing_values)
            codes |= dict.fromkeys([*sorted(texts), *(f"{code:.17g}" for code in numbers)])
            one.missing_values = nan
    return tuple(codes)


def _texts(record: Mapping[str, Any], name: str) -> tuple[str, ...]:
    """A list that the record of a model file, which is flat, holds as JSON."""
    try:
        found = json.loads(str(record.get(name, "[]")))
    except ValueError:
        return ()
    return tuple(map(str, found)) if isinstance(found, list) else ()


def provenance_for(
    table: Table, rows: int, kinds: Mapping[Any, str] | None = None
) -> dict[str, Any]:
    """The provenance of a model file, and what later commands need to know."""
    path = table.paths[0] if len(table.paths) == 1 and os.path.isfile(table.paths[0]) else None
    command = shlex.join(["eigengap", *sys.argv[1:]])
    facts = {**provenance_of(command=command, data=path, rows=rows), "data": table.given}
    if table.na:
        facts["na"] = json.dumps(table.na)
    if table.ids:
        facts["ids"] = json.dumps([table.name(j) for j in table.ids])
    if table.target is not None:
        facts["target"] = table.name(table.target)
    if table.aside:
        facts["set_aside"] = reasons(table)
    if kinds:
        facts["kinds"] = ", ".join(f"{named(str(column))} {kind}" for column, kind in kinds.items())
    if table.names is None and len(table.features) < table.n_columns:
        facts["columns"] = table.n_columns
        facts["positions"] = json.dumps(table.features)
    return facts
