"""Reproducibility: parameters, versions, and where the data came from."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from platform import python_version
from typing import Any

import numpy as np

import eigengap
from eigengap.plots.numbers.names import clean
from eigengap.plots.numbers.rows import Look
from eigengap.plots.numbers.subject import Subject
from eigengap.reporting.specs import Grid, Section
from eigengap.reporting.words import count, whole

LONGEST = 400  # characters of a value
NAMES = {
    "command": "command",
    "data": "data",
    "data_file": "data",
    "data_sha256": "SHA-256 of the data",
    "sha256": "SHA-256 of the data",
    "rows": "rows",
    "created": "fitted",
}


def section(
    subject: Subject, look: Look, X: Any, provenance: Mapping[str, Any], how: str
) -> Section:
    """Parameters, versions, where the data came from, and `how` rows were drawn."""
    words = [
        "The numbers of this page follow from the fitted model and the table alone; the same two "
        "give the same page."
    ]
    if not provenance:
        words.append(
            "The origin of the data is not known. A report made on the command line, or with "
            "provenance=…, names the file and its SHA-256."
        )
    return Section(
        "reproduce",
        "Reproducibility",
        words=tuple(words),
        grids=(_facts(subject, look, X, provenance, how), _parameters(subject)),
    )


def call(subject: Subject) -> str:
    """The estimator as one would write it, long values cut."""
    given = ", ".join(
        f"{name}={clean(repr(value), 80)}" for name, value in subject.unusual_parameters().items()
    )
    return f"{type(subject.given).__name__}({given})"


def _facts(subject: Subject, look: Look, X: Any, provenance: Mapping[str, Any], how: str) -> Grid:
    size = f"{count(look.n_rows, 'row')} × {count(look.n_columns, 'column')}"
    kind = f"{type(X).__module__.partition('.')[0]} {type(X).__name__}"
    if isinstance(X, str | PathLike):
        kind = clean(Path(X).name)
    known = _flat(provenance)
    lines = [("model", call(subject)), ("table", f"{kind}, {size}")]
    for key, value in known.items():
        text = ", ".join(map(str, value)) if isinstance(value, list | tuple) else value
        is_count = isinstance(value, int) and not isinstance(value, bool)
        shown = whole(value) if is_count else clean(text, LONGEST)
        lines.append((NAMES.get(key, clean(key.replace("_", " "))), shown))
    if not known.keys() & {"versions.eigengap", "eigengap", "eigengap_version"}:
        versions = f"eigengap {eigengap.__version__}, python {python_version()}"
        lines.append(("versions", f"{versions}, numpy {np.__version__}"))
    lines.append(("report", how))
    return Grid("Where it came from", ("what", "value"), tuple(lines))


def _parameters(subject: Subject) -> Grid:
    unusual = subject.unusual_parameters()
    lines = tuple(
        (name, clean(repr(value), 120), "" if name in unusual else "default")
        for name, value in subject.given.get_params(deep=False).items()
    )
    return Grid(f"Parameters of {type(subject.given).__name__}", ("parameter", "value", ""), lines)


def _flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in values.items():
        name = f"{prefix}{key}"
        found |= _flat(value, f"{name}.") if isinstance(value, Mapping) else {name: value}
    return found
