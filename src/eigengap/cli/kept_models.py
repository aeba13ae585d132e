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
from eigengap.cli.narration import Narrator
from eigengap.cli.tables import Choice, Table, table_for

SUFFIX = ".egap"


@dataclass(frozen=True)
class Kept:
    """A fitted model, and how its table was read."""

    estimator: Any
    provenance: dict[str, Any]

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

    def choice(self, na: tuple[str, ...], ids: tuple[str, ...]) -> Choice:
        """What options say of a new table, and what the fit said where they say nothing."""
        target = self.provenance.get("target")
        return Choice(
            na=na or self._texts("na"),
            ids=ids or self._texts("ids"),
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

    def table(
        self,
        given: str,
        path: str,
        na: tuple[str, ...],
        ids: tuple[str, ...],
        columns: tuple[str, ...] = (),
    ) -> Table:
        """A table for the model; `columns` are those that it is to take, in its order."""
        choice = replace(self.choice(na, ids), columns=columns)
        return table_for(given, path, self.features, choice, self.n_columns)

    def tell_order(self, table: Table, narrator: Narrator) -> None:
        """Say so where columns could not be found by name."""
        has_names = hasattr(self.estimator, "feature_names_in_")
        if has_names != (table.names is not None):
            which, other = ("model", "table") if has_names else ("table", "model")
            narrator.note(
                f"the {which} has names of columns and the {other} has none: columns are taken in "
                "the order of the fit"
            )


def load_kept(given: str, path: str, data: str | None = None) -> Kept:
    """The model of a file."""
    from eigengap.persistence.model_file import load

    if data is not None and data.endswith(SUFFIX) and not given.endswith(SUFFIX):
        raise WrongUsage(f"the model comes first: {shown(data)} {shown(given)}")
    if not Path(path).exists():
        raise FileTrouble(
            f"{shown(given)} does not exist. Make it with: eigengap fit DATA -o {shown(given)}"
        )
    estimator = load(path)
    provenance = getattr(estimator, "provenance_", None)
    return Kept(estimator, dict(provenance) if isinstance(provenance, dict) else {})


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
        return Path(save(estimator, Path(path).expanduser(), provenance=provenance)).stat().st_size
    import tempfile

    from eigengap.cli.files import copy_to_stdout

    with tempfile.TemporaryDirectory(prefix="eigengap-") as folder:
        kept = save(estimator, Path(folder, "model.egap"), provenance=provenance)
        copy_to_stdout(str(kept))
        return Path(kept).stat().st_size
