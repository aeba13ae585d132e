"""From an estimator and a table to the text of the page: look, ask, put into words, lay out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from eigengap.plots.numbers.columns import labels_of, read
from eigengap.plots.numbers.names import clean, distinct
from eigengap.plots.numbers.outliers import distances_of
from eigengap.plots.numbers.scores import report_scores
from eigengap.plots.numbers.subject import Subject, handed_over, is_pipeline, last_of
from eigengap.plots.numbers.variables import variables_of
from eigengap.reporting.page import page
from eigengap.reporting.sections import (
    associations,
    columns,
    components,
    glance,
    imputation,
    missing,
    quality,
    reproduce,
    variables,
)
from eigengap.reporting.sections.samples import (
    chosen_colour,
    level_labels,
    numeric_features,
    row_names,
    samples,
)
from eigengap.reporting.specs import Section
from eigengap.reporting.words import count
from eigengap.runtime.warnings import captured
from eigengap.sources import library_of

LONGEST_TITLE = 120


def compose(
    estimator: Any,
    X: Any,
    color: Any,
    title: str | None,
    max_rows: int,
    first_row: int,
    seed: int,
    provenance: Mapping[str, Any] | None,
) -> str:
    """The whole page."""
    said = ""
    if is_pipeline(estimator):
        Subject.of(last_of(estimator))  # refuses what cannot be shown before any step runs
        if isinstance(color, str) and library_of(X) is not None and color in list(X.columns):
            color = np.asarray(X[color])  # of the first table; the last may not have it
        estimator, X, said = handed_over(estimator, X)
    subject = Subject.of(estimator)
    if said:
        subject = replace(subject, wrapped=f"{said} {subject.wrapped}".strip())
    if provenance is None:
        provenance = getattr(estimator, "provenance_", None) or {}
    with captured() as warned, np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        look = replace(read(subject, X, max_rows, seed), first_row=first_row)
        names = tuple(f"x{j}" for j in range(look.n_columns))
        if subject.names is not None:
            names = distinct(subject.names) if look.n_columns else ()
        labels = labels_of(subject, X, look, color if isinstance(color, str) else None)
        labels = (*level_labels(subject, look, names), *labels)
        # What has a mean: the others are colours.
        numbers = numeric_features(subject, look)
        plain = tuple(names[j] for j in numbers)
        own = None if subject.names is None else tuple(subject.names[j] for j in numbers)
        given, start = chosen_colour(color, look, labels, plain, own)
        scores = report_scores(subject, look)
        distances = distances_of(subject, look)
        found = None if subject.coded is not None else variables_of(subject, look)
        rows = row_names(look, labels)
        weight = variables.weights(found, look, subject)
        shown = samples(look, scores, distances, labels, names, weight, given, start, numbers)
        why = "The model was fitted to pairs of rows, of which none can be missing."
        parts = [
            columns.section(subject, look, names),
            Section("missing", missing.TITLE, left_out=why)
            if subject.is_pairwise
            else missing.section(look, names, numbers),
            components.section(subject, look, seed),
            associations.section(subject, look, names)
            if subject.coded is not None
            else variables.section(subject, look, found, names),
            shown.section,
            imputation.section(subject, look, names, rows, seed),
            quality.section(subject, look, distances, rows, names),
        ]
    first = glance.section(subject, look, names, distances, parts, warned)
    how = f"max_rows={max_rows}, random_state={seed}"
    last = reproduce.section(subject, look, X, provenance, how)
    created = provenance.get("created", "")
    sizes = [count(look.n_rows, "row")]
    sizes += [count(look.n_columns, "column")] if look.n_columns else []
    found_in = f"What {type(subject.given).__name__} found in {' and '.join(sizes)}"
    return page(
        [first, *parts, last],
        shown,
        title=clean(title, LONGEST_TITLE) if title else found_in,
        subtitle=f"{reproduce.call(subject)} on {' × '.join(sizes)}",
        created=clean(created) if created else "",
    )
