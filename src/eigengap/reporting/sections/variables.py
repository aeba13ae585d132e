"""Loadings and contributions: correlations, contributions, cos2 of the columns."""

from __future__ import annotations

import numpy as np

from eigengap.linalg import Array
from eigengap.reporting.numbers.look import Look
from eigengap.reporting.numbers.subject import Subject
from eigengap.reporting.numbers.variables import Variables
from eigengap.reporting.sections import profiles
from eigengap.reporting.sections.section import Grid, Section
from eigengap.reporting.sections.variable_figures import circle, contributions, cos2_bars, line
from eigengap.reporting.words import count, fixed, listing, percent, whole

MOST_LINES = 30  # of the table
MOST_DESCRIBED = 3  # components
STRONG = 0.5  # correlation from which a column is named
SOME = 0.3
TITLE = "Loadings and contributions"


def weights(found: Variables | None, look: Look, subject: Subject) -> Array:
    """(d,) by which the columns are ranked where not all can be shown."""
    if found is not None:
        return found.cos2
    if subject.mixture is not None:
        return np.asarray(profiles.profiles(subject, look).std(axis=0))
    return np.ones(look.n_columns)


def section(
    subject: Subject, look: Look, found: Variables | None, names: tuple[str, ...]
) -> Section:
    """The section, by what the estimator is."""
    if subject.mixture is not None:
        return profiles.section(subject, look, names)
    if found is None:
        why = "The model was fitted to pairs of rows; there are no columns to look at."
        return Section("variables", TITLE, left_out=why)
    if not np.any(found.r):
        why = "No column varies along the components, so that there is nothing to report."
        return Section("variables", TITLE, left_out=why)
    q = found.r.shape[1]
    words = [_on_axis(found, k, names) for k in range(min(q, MOST_DESCRIBED))]
    if not found.is_linear:
        words.insert(
            0,
            f"The coordinates of {subject.kind} are no linear functions of the columns; "
            "correlations show which columns vary with them.",
        )
    words.append(_on_poor(found, names))
    figures = [circle(found, names) if q > 1 else line(found, names)]
    if found.contributions is not None:
        figures += [contributions(found, k, names) for k in range(min(q, 2))]
    figures.append(cos2_bars(found, names))
    return Section(
        "variables",
        TITLE,
        words=tuple(word for word in words if word),
        figures=tuple(figures),
        grids=(_table(found, names),),
        verdict=words[0] if found.is_linear else "",
    )


def _on_axis(found: Variables, k: int, names: tuple[str, ...]) -> str:
    r = found.r[:, k]
    order = np.argsort(-np.abs(r), kind="stable")
    strong = [j for j in order if abs(r[j]) >= STRONG][:4]
    axis = found.axes[k]
    if not strong:
        j = int(order[0])
        return (
            f"No column correlates with {axis} by more than {STRONG}; the nearest is {names[j]} "
            f"({fixed(float(r[j]))})."
        )
    clear = np.abs(r) >= SOME
    same = clear.all() and len(r) > 2 and (np.sign(r) == np.sign(r[order[0]])).all()
    if same:
        most = listing([f"{names[j]} ({fixed(float(r[j]))})" for j in strong[:3]])
        return (
            f"Along {axis} all {whole(len(r))} columns rise and fall together, most of all {most}."
        )
    up = [j for j in strong if r[j] > 0]
    down = [j for j in strong if r[j] < 0]
    sides = [
        f"{verb} with {listing([f'{names[j]} ({fixed(float(r[j]))})' for j in side])}"
        for verb, side in (("rises", up), ("falls", down))
        if side
    ]
    return f"{axis} {' and '.join(sides)}."


def _on_poor(found: Variables, names: tuple[str, ...]) -> str:
    poor = [j for j in np.argsort(found.cos2, kind="stable") if found.cos2[j] < SOME]
    if not poor:
        return (
            f"Every column has at least {percent(float(found.cos2.min()))} of its variance shown."
        )
    shown = listing([f"{names[j]} ({percent(float(found.cos2[j]))})" for j in poor[:4]], 4)
    more = "" if len(poor) <= 4 else f", and {whole(len(poor) - 4)} more"
    why = "" if found.contributions is None else " To this model they are mostly noise."
    return f"Hardly shown by these components: {shown}{more}.{why}"


def _table(found: Variables, names: tuple[str, ...]) -> Grid:
    order = np.argsort(-found.cos2, kind="stable")[:MOST_LINES]
    q = min(found.r.shape[1], 5)
    rows = tuple(
        (
            names[j],
            *(fixed(float(found.r[j, k])) for k in range(q)),
            percent(float(found.cos2[j])),
        )
        for j in order
    )
    left = len(names) - len(order)
    return Grid(
        "Correlations of columns and components",
        ("column", *found.axes[:q], "shown"),
        rows,
        (False, *[True] * (q + 1)),
        note=f"{count(left, 'column')} shown less {'is' if left == 1 else 'are'} not listed."
        if left
        else "",
    )
