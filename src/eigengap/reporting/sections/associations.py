"""Columns of several kinds against the components: shares, loadings of the Gaussian variables
behind them, and the levels among the scores.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from eigengap.linalg import Array
from eigengap.plots.numbers.associations import Associations, associations
from eigengap.plots.numbers.names import clean, distinct
from eigengap.plots.numbers.rows import Look, Table
from eigengap.plots.numbers.subject import Subject
from eigengap.plots.numbers.variables import Variables
from eigengap.reporting import specs
from eigengap.reporting.sections.variables import (
    MOST_DESCRIBED,
    MOST_LINES,
    SOME,
    STRONG,
    TITLE,
    circle,
    contributions,
    only_axis,
)
from eigengap.reporting.specs import Figure, Grid, Section
from eigengap.reporting.words import count, fixed, listing, percent, whole

MOST_LEVELS = 40  # drawn


def found_in(subject: Subject, look: Look) -> Associations | str:
    """The associations in the rows that are shown; or why there are none."""
    table = Table(look.X, look.at, look.n_rows, look.missing.per_column)
    try:
        return associations(subject.bare, table)
    except (AttributeError, TypeError, ValueError) as error:
        return f"{str(error).rstrip('.')}."


def section(subject: Subject, look: Look, names: tuple[str, ...]) -> Section:
    """The section of a fit to columns of several kinds."""
    found = found_in(subject, look)
    if isinstance(found, str):
        return Section("variables", TITLE, left_out=found)
    q = len(found.components)
    words = [_on_axis(found, k, names) for k in range(min(q, MOST_DESCRIBED))]
    words.append(
        "Shares are squared correlations with the scores of a column of numbers, on the scale on "
        "which it is modelled, and correlation ratios (η²) of one with levels."
    )
    figures, grids = [], [_shares(found, names)]
    behind = _behind(subject, found.components)
    if behind is not None:
        variables, under = behind
        figures.append(circle(variables, under) if q > 1 else only_axis(variables, under))
        grids.append(_loadings(variables, under))
    figures += [
        contributions(found.contributions[:, k], found.components[k], k, names)
        for k in range(min(q, 2))
        if np.isfinite(found.contributions[:, k]).all()
    ]
    in_words = _in_words(subject, names)
    at = [i for i, column in enumerate(found.categories.column) if column in in_words]
    if at:  # numbers on a scale are arrows, and not points
        figures.append(_levels(found, np.array(at)))
    return Section(
        "variables",
        TITLE,
        words=tuple(words),
        figures=tuple(figures),
        grids=tuple(grids),
        verdict=words[0],
    )


def _behind(subject: Subject, axes: tuple[str, ...]) -> tuple[Variables, tuple[str, ...]] | None:
    """Correlations of the Gaussian variables behind the columns, by the loadings of the model."""
    model, coded = getattr(subject.bare, "model_", None), subject.coded
    psi = getattr(getattr(model, "gaussian", None), "psi", None)  # None of a mixture
    loadings = getattr(subject.bare, "loadings_", None)
    if psi is None or loadings is None or coded is None:
        return None
    L = np.asarray(loadings, dtype=np.float64)
    variance = np.sum(L**2, axis=1) + psi
    r: Array = np.clip(L / np.sqrt(variance)[:, None], -1.0, 1.0)
    under = distinct(coded.underlying_names)
    return Variables(r, np.eye(L.shape[1]), None, axes, is_linear=True), under


def _on_axis(found: Associations, k: int, names: tuple[str, ...]) -> str:
    share, axis = found.r2[:, k], found.components[k]
    order = [int(j) for j in np.argsort(-np.nan_to_num(share), kind="stable")]
    strong = [j for j in order[:4] if share[j] >= STRONG**2]
    if not strong:
        j = order[0]
        return (
            f"No column shares more than {percent(STRONG**2)} of its variance with {axis}; the "
            f"nearest is {names[j]} ({percent(float(share[j]))})."
        )
    said = listing([f"{names[j]} ({_how(found, j, k)})" for j in strong])
    return f"{axis} goes with {said}."


def _how(found: Associations, j: int, k: int) -> str:
    """With its sign where there is one."""
    if np.isfinite(found.r[j, k]):
        return f"correlation {fixed(float(found.r[j, k]))}"
    return f"η² {fixed(float(found.r2[j, k]))}"


def _shares(found: Associations, names: tuple[str, ...]) -> Grid:
    order = np.argsort(-np.nansum(found.r2, axis=1), kind="stable")[:MOST_LINES]
    q = min(len(found.components), 5)
    rows = tuple(
        (
            names[j],
            found.kinds[j],
            *(percent(float(v)) for v in found.r2[j, :q]),
            *(f"{fixed(float(v), 1)} %" for v in found.contributions[j, :q]),
        )
        for j in order
    )
    left = len(names) - len(order)
    return Grid(
        "Columns and components: shared variance, and contributions",
        (
            "column",
            "kind",
            *found.components[:q],
            *(f"to {axis}" for axis in found.components[:q]),
        ),
        rows,
        (False, False, *[True] * (2 * q)),
        note=f"{count(left, 'column')} that share less are not listed." if left else "",
    )


def _loadings(found: Variables, under: tuple[str, ...]) -> Grid:
    order = np.argsort(-found.cos2, kind="stable")[:MOST_LINES]
    q = min(found.r.shape[1], 5)
    rows = tuple(
        (under[j], *map(fixed, found.r[j, :q].tolist()), percent(float(found.cos2[j])))
        for j in order
    )
    left = len(under) - len(order)
    note = "Standardised loadings, by the model. A column of levels without an order has a "
    note += "variable for each question, as region=north: is it this level, or one asked for later?"
    if left:
        note += f" {count(left, 'variable')} shown less not listed."
    return Grid(
        "Gaussian variables behind the columns",
        ("variable", *found.axes[:q], "shared"),
        rows,
        (False, *[True] * (q + 1)),
        note=note,
    )


def _in_words(subject: Subject, names: tuple[str, ...]) -> set[str]:
    """Columns whose levels are text or truth values."""
    coded = subject.coded
    assert coded is not None
    columns = zip(names, coded.used, strict=True)
    return {name for name, j in columns if coded.schema.columns[j].levels}


def _levels(found: Associations, which: NDArray[np.intp]) -> Figure:
    """The mean scores of the rows of each of these levels, the most frequent ones."""
    own = found.categories
    at = which[np.argsort(-own.weight[which], kind="stable")[:MOST_LEVELS]]
    at = at[np.isfinite(own.coordinates[at]).all(axis=1)]
    x = own.coordinates[at, 0]
    is_flat = len(found.components) < 2
    axes = found.components[:2]
    labels = own.labels
    data = specs.records(
        column=[own.column[i] for i in at],
        level=[own.level[i] for i in at],
        label=[clean(own.level[i] if is_flat else labels[i], 24) for i in at],
        rows=own.weight[at],
        x=x,
        y=[own.column[i] for i in at] if is_flat else own.coordinates[at, 1],
    )
    tooltip = specs.tips(column="column", level="level", rows="rows", x=f"{axes[0]}|.2f")
    y = specs.BY_COLUMN | {"field": "y"} if is_flat else specs.axis("y", axes[1])
    mean = specs.axis("x", f"mean of {axes[0]}" if is_flat else axes[0])
    spec = specs.chart(
        data,
        specs.dots(60, {"opacity": 0.9, "color": specs.OTHER}, x=mean, y=y, tooltip=tooltip),
        specs.layer(
            "text",
            {"dy": -9, "fontSize": 11},
            x=mean,
            y=y,
            text={"field": "label", "type": "nominal"},
        ),
        height=specs.lines_high(len(set(own.column)), 160) if is_flat else 320,
    )
    far = int(at[np.argmax(np.abs(np.nan_to_num(own.v_test[at, 0])))])
    well = [
        name
        for name, share in zip(found.columns, found.r2[:, 0].tolist(), strict=True)
        if name in {own.column[i] for i in at} and share >= SOME
    ]
    finding = (
        f"Farthest from the mean of {axes[0]}, for its number of rows, is {labels[far]} "
        f"(v-test {fixed(float(own.v_test[far, 0]), 1)})."
    )
    if well:
        finding += f" Levels of {listing(well)} explain {percent(SOME)} of {axes[0]} or more."
    note = "" if len(at) == len(which) else f"{whole(len(at))} of {whole(len(which))} levels."
    return Figure("levels", "Levels among the scores", finding, spec, note)
