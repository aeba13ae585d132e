"""Model files of the command line: what they remember of the table they were fitted to."""

from __future__ import annotations

import json
import os
import shlex
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from eigengap.cli.errors import FileTrouble, WrongUsage, shown
from eigengap.cli.files import DASH
from eigengap.cli.narration import Narrator, listing
from eigengap.cli.tables.table import Choice, Table, table_for

SUFFIX = ".egap"


@dataclass(frozen=True)
class Kept:
    """A fitted model, and how its table was read."""

    estimator: Any
    provenance: dict[str, Any]
    codes: tuple[str, ...] = ()  # for missing cells, that the estimator itself was given

    @property
    def features(self) -> list[str | int]:
        """Names of the columns of the fit, or positions where they had none."""
        names = getattr(self.estimator, "feature_names_in_", None)
        if names is not None:
            return [str(name) for name in names]
        positions = self._texts("positions")
        if len(positions) == self.estimator.n_features_in_:
            return [int(j) for j in positions]
        return list(range(int(self.estimator.n_features_in_)))

    @property
    def na(self) -> tuple[str, ...]:
        """What stood for a missing cell in the fit, as --na takes it."""
        return self._texts("na") or self.codes

    def choice(self, options: Choice) -> Choice:
        """What options say of a new table, and what the fit said where they say nothing."""
        target = self.provenance.get("target")
        return replace(
            options,
            na=options.na or self.na,
            ids=options.ids or self._texts("ids"),
            target=target if isinstance(target, str) else None,
        )

    def _texts(self, name: str) -> tuple[str, ...]:
        """A list that the record, which is flat, holds as JSON."""
        try:
            found = json.loads(str(self.provenance.get(name, "[]")))
        except ValueError:
            return ()
        return tuple(map(str, found)) if isinstance(found, list) else ()

    @property
    def n_columns(self) -> int:
        """How many columns a table without names has to have."""
        found = self.provenance.get("columns")
        return found if isinstance(found, int) else int(self.estimator.n_features_in_)

    def table(self, given: str, path: str, options: Choice) -> Table:
        """A table for the model; `options.columns` are those that it is to take, in its order."""
        return table_for(
            given, path, self.features, self.choice(options), self.n_columns,
            may_lack_ids=not options.ids,
        )  # fmt: skip

    def report_columns(self, table: Table, na: tuple[str, ...], narrator: Narrator) -> None:
        """Say what was taken from the fit for want of options or of names."""
        if not na and self.na:
            narrator.note(
                f"{listing(self.na)} stand{'s' * (len(self.na) == 1)} for a missing cell, as in "
                "the fit; --na says otherwise"
            )
        has_names = hasattr(self.estimator, "feature_names_in_")
        if has_names != (table.names is not None):
            which, other = ("model", "table") if has_names else ("table", "model")
            narrator.note(
                f"the {which} has names of columns and the {other} has none: columns are taken in "
                "the order of the fit"
            )


def require_model(given: str, data: str) -> None:
    """Refuse a model that is not there, or one in the place of the data."""
    if data.endswith(SUFFIX) and not given.endswith(SUFFIX):
        raise WrongUsage(f"the model comes first: {shown(data)} {shown(given)}")
    if given != DASH and not Path(given).exists():
        raise FileTrouble(
            f"{shown(given)} does not exist. Make it with: eigengap fit DATA -o {shown(given)}"
        )


def load_kept(path: str) -> Kept:
    """The model of a file."""
    from eigengap.persistence.model_file import load

    estimator = load(path)
    provenance = getattr(estimator, "provenance_", None)
    facts = dict(provenance) if isinstance(provenance, dict) else {}
    return Kept(estimator, facts, _codes_of(estimator))


def _codes_of(estimator: Any) -> tuple[str, ...]:
    """Its `missing_values`, taken over: cells are read by us, and reach it as NaN."""
    from math import nan

    from eigengap.sources import codes_of

    found: dict[str, None] = {}
    inner: Any = getattr(estimator, "estimator_", None)
    for one in (estimator, inner):
        if hasattr(one, "missing_values"):
            texts, numbers = codes_of(one.missing_values)
            found |= dict.fromkeys([*sorted(texts), *(f"{code:.17g}" for code in numbers)])
            one.missing_values = nan
    return tuple(found)


def provenance_for(table: Table, rows: int) -> dict[str, Any]:
    """What a model file says of where it comes from, and what later commands need to know."""
    from eigengap.persistence.provenance import provenance_of

    path = table.paths[0] if len(table.paths) == 1 else None
    is_file = path is not None and os.path.isfile(path)
    facts = provenance_of(command=command_line(), data=path if is_file else None, rows=rows)
    facts = {**facts, "data": table.given}
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


def command_line() -> str:
    return shlex.join(["eigengap", *sys.argv[1:]])


def save_kept(estimator: Any, path: str, provenance: dict[str, Any]) -> int:
    """Write the model to a file or to standard output, and say how many bytes it has."""
    from eigengap.persistence.model_file import save

    if path != "-":
        return os.stat(save(estimator, os.path.expanduser(path), provenance=provenance)).st_size
    import tempfile

    from eigengap.cli.files import copy_to_stdout

    with tempfile.TemporaryDirectory(prefix="eigengap-") as folder:
        kept = save(estimator, Path(folder, "model.egap"), provenance=provenance)
        copy_to_stdout(str(kept))
        return Path(kept).stat().st_size
