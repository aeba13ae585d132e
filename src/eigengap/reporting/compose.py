"""From an estimator and a table to the text of the page: look, ask, put into words, lay out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from eigengap.reporting.numbers.distances import distances_of
from eigengap.reporting.numbers.look import Look
from eigengap.reporting.numbers.pipeline import colour_of, handed_over, is_pipeline, last_of
from eigengap.reporting.numbers.reading import labels_of, read
from eigengap.reporting.numbers.subject import Subject
from eigengap.reporting.numbers.variables import variables_of
from eigengap.reporting.page.page import page
from eigengap.reporting.sections import (
    components,
    glance,
    imputation,
    missing,
    quality,
    reproduce,
    variables,
)
from eigengap.reporting.sections.samples import chosen_colour, row_names, samples
from eigengap.reporting.sections.scores import scores_of
from eigengap.reporting.sections.section import Section
from eigengap.reporting.words import clean, count, distinct
from eigengap.runtime.warnings import captured

LONGEST_TITLE = 120


def compose(
    estimator: Any,
    X: Any,
    *,
    color: Any,
    title: str | None,
    max_rows: int,
    first_row: int = 0,
    provenance: Mapping[str, Any] | None,
    seed: int,
) -> str:
    """The whole page."""
    said = ""
    if is_pipeline(estimator):
        Subject.of(last_of(estimator))  # refuses what cannot be shown before any step runs
        color = colour_of(color, X)
        estimator, X, said = handed_over(estimator, X)
    subject = Subject.of(estimator)
    if said:
        subject = replace(subject, wrapped=f"{said} {subject.wrapped}".strip())
    if provenance is None:
        provenance = getattr(estimator, "provenance_", None) or {}
    with captured() as warned, np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        look = replace(read(subject, X, max_rows, seed), first_row=first_row)
        names = _names(subject, look)
        labels = labels_of(subject, X, look, color if isinstance(color, str) else None)
        given, start = chosen_colour(color, look, labels, names, subject.names)
        scores = scores_of(subject, look)
        distances = distances_of(subject, look)
        found = variables_of(subject, look)
        rows = row_names(look, labels)
        parts = [
            _missing(subject, look, names),
            components.section(subject, look, seed),
            variables.section(subject, look, found, names),
        ]
        weight = variables.weights(found, look, subject)
        shown = samples(look, scores, distances, labels, names, weight, given, start)
        parts += [
            shown.section,
            imputation.section(subject, look, names, rows, seed),
            quality.section(subject, look, distances, rows, names),
        ]
    first = glance.section(subject, look, names, distances, parts, warned)
    how = {"max_rows": max_rows, "random_state": seed}
    last = reproduce.section(subject, look, X, provenance, how)
    created = provenance.get("created", "")
    return page(
        [first, *parts, last],
        shown,
        title=clean(title, LONGEST_TITLE) if title else _title(subject, look),
        subtitle=_subtitle(subject, look),
        created=clean(created) if created else "",
    )


def _names(subject: Subject, look: Look) -> tuple[str, ...]:
    if subject.names is None:
        return tuple(f"x{j}" for j in range(look.n_columns))
    return distinct(subject.names) if look.n_columns else ()


def _missing(subject: Subject, look: Look, names: tuple[str, ...]) -> Section:
    if subject.is_pairwise:
        why = "The model was fitted to pairs of rows, of which none can be missing."
        return Section("missing", missing.TITLE, left_out=why)
    return missing.section(look, names)


def _title(subject: Subject, look: Look) -> str:
    size = count(look.n_rows, "row")
    if look.n_columns:
        size += f" and {count(look.n_columns, 'column')}"
    return f"What {type(subject.given).__name__} found in {size}"


def _subtitle(subject: Subject, look: Look) -> str:
    size = count(look.n_rows, "row")
    if look.n_columns:
        size += f" × {count(look.n_columns, 'column')}"
    return f"{reproduce.call(subject)} on {size}"
