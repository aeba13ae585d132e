"""Reproducibility: parameters, versions, and where the data came from."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from platform import python_version
from typing import Any

import numpy as np

import eigengap
from eigengap.reporting.numbers.look import Look
from eigengap.reporting.numbers.subject import Subject
from eigengap.reporting.sections.section import Grid, Section
from eigengap.reporting.words import clean, count, whole

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
    subject: Subject, look: Look, X: Any, provenance: Mapping[str, Any], how: Mapping[str, Any]
) -> Section:
    """Parameters, versions, where the data came from."""
    words = [
        "The numbers of this page follow from the fitted model and the table alone; the same two "
        "give the same page.",
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


def _facts(
    subject: Subject, look: Look, X: Any, provenance: Mapping[str, Any], how: Mapping[str, Any]
) -> Grid:
    lines = [("model", call(subject)), ("table", _table(look, X))]
    lines += [(_name(key), _value(value)) for key, value in _flat(provenance)]
    shown = {key for key, _ in _flat(provenance)}
    versions = {
        "eigengap": eigengap.__version__,
        "python": python_version(),
        "numpy": np.__version__,
    }
    if not shown & {"versions.eigengap", "eigengap", "eigengap_version"}:
        listed = ", ".join(f"{name} {version}" for name, version in versions.items())
        lines.append(("versions", listed))
    drawn = f"max_rows={how['max_rows']}, random_state={how['random_state']}"
    lines.append(("report", drawn))
    return Grid("Where it came from", ("what", "value"), tuple(lines), (False, False))


def _table(look: Look, X: Any) -> str:
    size = f"{count(look.n_rows, 'row')} × {count(look.n_columns, 'column')}"
    if isinstance(X, str | PathLike):
        return f"{clean(Path(X).name)}, {size}"
    kind = f"{type(X).__module__.partition('.')[0]} {type(X).__name__}"
    return f"{kind}, {size}"


def _parameters(subject: Subject) -> Grid:
    given = subject.given.get_params(deep=False)
    unusual = set(subject.unusual_parameters())
    lines = tuple(
        (name, clean(repr(value), 120), "" if name in unusual else "default")
        for name, value in given.items()
    )
    return Grid(
        f"Parameters of {type(subject.given).__name__}",
        ("parameter", "value", ""),
        lines,
        (False, False, False),
    )


def _flat(values: Mapping[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    found: list[tuple[str, Any]] = []
    for key, value in values.items():
        if isinstance(value, Mapping):
            found += _flat(value, f"{prefix}{key}.")
        else:
            found.append((f"{prefix}{key}", value))
    return found


def _name(key: str) -> str:
    return NAMES.get(key, clean(key.replace("_", " ")))


def _value(value: Any) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return whole(value)
    if isinstance(value, list | tuple):
        return clean(", ".join(map(str, value)), LONGEST)
    return clean(value, LONGEST)
