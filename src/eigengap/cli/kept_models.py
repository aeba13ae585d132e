"""Model files of the command line: what they remember of the table they were fitted to."""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from math import nan
from typing import Any

from eigengap.cli.files import MODEL_SUFFIX, as_file, write_whole
from eigengap.cli.narration import Narrator, listing
from eigengap.cli.tables.table import Choice, Table, table_for
from eigengap.persistence.model_file import load, save
from eigengap.persistence.provenance import provenance_of
from eigengap.sources import codes_of


@contextmanager
def opened(
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
        table = table_for(data, path, features, choice, n_columns, may_lack_ids=not options.ids)
        if not options.na and na:
            narrator.note(
                f"{listing(na)} stand{'s' * (len(na) == 1)} for a missing cell, as in the fit; "
                "--na says otherwise"
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


def provenance_for(table: Table, rows: int) -> dict[str, Any]:
    """What a model file says of where it comes from, and what later commands need to know."""
    path = table.paths[0] if len(table.paths) == 1 and os.path.isfile(table.paths[0]) else None
    command = shlex.join(["eigengap", *sys.argv[1:]])
    facts = {**provenance_of(command=command, data=path, rows=rows), "data": table.given}
    if table.na:
        facts["na"] = json.dumps(table.na)
    if table.ids:
        facts["ids"] = json.dumps([table.name(j) for j in table.ids])
    if table.target is not None:
        facts["target"] = table.name(table.target)
    if table.names is None and len(table.features) < table.n_columns:
        facts["columns"] = table.n_columns
        facts["positions"] = json.dumps(table.features)
    return facts


def save_kept(estimator: Any, path: str, provenance: dict[str, Any]) -> int:
    """Write the model to a file or to standard output, and say how many bytes it has."""
    return write_whole(path, MODEL_SUFFIX, lambda to: save(estimator, to, provenance=provenance))
