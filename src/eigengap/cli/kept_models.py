"""Model files of the command line: what they remember of the table they were fitted to."""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
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
    with as_file(model, option) as model_path, as_file(data, "DATA") as path:
        kept = Kept.of(load(model_path))
        options = Choice.of(given)
        choice = replace(
            options, na=options.na or kept.na, ids=options.ids or kept.texts("ids"),
            target=kept.target,
        )  # fmt: skip
        table = table_for(
            data, path, kept.features, choice, kept.n_columns, may_lack_ids=not options.ids
        )
        if not options.na and kept.na:
            narrator.note(
                f"{listing(kept.na)} stand{'s' * (len(kept.na) == 1)} for a missing cell, as in "
                "the fit; --na says otherwise"
            )
        has_names = hasattr(kept.estimator, "feature_names_in_")
        if has_names != (table.names is not None):
            which, other = ("model", "table") if has_names else ("table", "model")
            narrator.note(
                f"the {which} has names of columns and the {other} has none: columns are taken in "
                "the order of the fit"
            )
        yield kept.estimator, table


@dataclass(frozen=True)
class Kept:
    """A fitted model, and how its table was read."""

    estimator: Any
    provenance: dict[str, Any]
    codes: tuple[str, ...]  # for missing cells, that the estimator itself was given

    @classmethod
    def of(cls, estimator: Any) -> Kept:
        """Its `missing_values` are taken over: cells are read by us, and reach it as NaN."""
        codes: dict[str, None] = {}
        inner: Any = getattr(estimator, "estimator_", None)
        for one in (estimator, inner):
            if hasattr(one, "missing_values"):
                texts, numbers = codes_of(one.missing_values)
                codes |= dict.fromkeys([*sorted(texts), *(f"{code:.17g}" for code in numbers)])
                one.missing_values = nan
        return cls(estimator, dict(estimator.provenance_), tuple(codes))

    @property
    def features(self) -> list[str | int]:
        """Names of the columns of the fit, or positions where they had none."""
        names = getattr(self.estimator, "feature_names_in_", None)
        if names is not None:
            return [str(name) for name in names]
        count, positions = int(self.estimator.n_features_in_), self.texts("positions")
        return [int(j) for j in positions] if len(positions) == count else list(range(count))

    @property
    def na(self) -> tuple[str, ...]:
        """What stood for a missing cell in the fit, as --na takes it."""
        return self.texts("na") or self.codes

    @property
    def target(self) -> str | None:
        target = self.provenance.get("target")
        return target if isinstance(target, str) else None

    @property
    def n_columns(self) -> int:
        """How many columns a table without names has to have."""
        found = self.provenance.get("columns")
        return found if isinstance(found, int) else int(self.estimator.n_features_in_)

    def texts(self, name: str) -> tuple[str, ...]:
        """A list that the record, which is flat, holds as JSON."""
        try:
            found = json.loads(str(self.provenance.get(name, "[]")))
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
