"""The section on filled gaps: error, coverage, and the cells of which least is known."""

from __future__ import annotations

import numpy as np

from eigengap.reporting.numbers.held_out import LEVEL, HeldOut, held_out, reach
from eigengap.reporting.numbers.look import Look
from eigengap.reporting.numbers.subject import Subject
from eigengap.reporting.page import specs
from eigengap.reporting.sections.section import Figure, Grid, Section
from eigengap.reporting.words import count, listing, number, p_is, percent, whole
from eigengap.runtime.warnings import silence

MOST_CELLS = 12  # in the table of the least certain
MOST_COLUMNS = 30
MOST_POINTS = 400
ALPHA = 0.05  # p-value below which coverage is said to differ from 95 %
TITLE = "Filling gaps"


def section(
    subject: Subject, look: Look, names: tuple[str, ...], rows: list[str], seed: int
) -> Section:
    """What hidden cells say of the fills, and the least certain of the real ones."""
    if not subject.fills_missing:
        why = f"{subject.kind} has no model of the cells, so that it fills no gaps."
        return Section("filling", TITLE, left_out=why)
    found = held_out(subject, look, seed)
    grids = _least_certain(subject, look, names, rows)
    if isinstance(found, str):
        return Section("filling", TITLE, words=(found,), grids=grids)
    words = [_on_error(found), _how(found, look)]
    figures = [_by_column(found, names)]
    if found.has_std:
        words.insert(1, _on_coverage(found))
        figures.append(_intervals(found, look, names))
    return Section(
        "filling",
        TITLE,
        words=tuple(words),
        figures=tuple(figures),
        grids=grids,
        verdict=_on_error(found) + (f" {_on_coverage(found)}" if found.has_std else ""),
    )


def _on_error(found: HeldOut) -> str:
    if found.gain < 0.02:
        return (
            "Hidden cells are filled no better than by the mean of their column "
            f"(error {number(found.overall, 2)} against {number(found.mean_overall, 2)} standard "
            "deviations): the columns say little of each other."
        )
    return (
        f"Hidden cells are missed by {number(found.overall, 2)} standard deviations of their "
        f"column, {percent(found.gain)} less than by its mean ({number(found.mean_overall, 2)})."
    )


def _on_coverage(found: HeldOut) -> str:
    """Coverage, and what a binomial test against 95 % says of it."""
    known = f"95 % intervals cover {percent(found.coverage)} of them"
    if not found.refitted:
        return (
            f"{known}; the model was fitted to these cells, so that new ones may be covered less."
        )
    test = f"(binomial test: {p_is(found.coverage_p)})"
    if found.coverage_p >= ALPHA:
        few = f"; {whole(found.n_hidden)} cells are few for such a test"
        return f"{known}, which is compatible with 95 % {test}{few if found.is_few else ''}."
    if found.coverage < LEVEL:
        return f"{known}, fewer than 95 % {test}: standard deviations are too small."
    return f"{known}, more than 95 % {test}: standard deviations are too large."


def _how(found: HeldOut, look: Look) -> str:
    rows = "all rows" if found.rows == look.n_rows else f"{count(found.rows, 'row')} of the sample"
    if found.refitted:
        return (
            f"{count(found.n_hidden, 'seen cell')} of {rows} were hidden from a new fit with the "
            "same number of components, and asked for."
        )
    return (
        f"{count(found.n_hidden, 'seen cell')} of {rows} were hidden and asked for. The model had "
        "seen them when it was fitted, so that it looks better than it is."
    )


def _by_column(found: HeldOut, names: tuple[str, ...]) -> Figure:
    asked = np.flatnonzero(np.isfinite(found.error))
    order = asked[np.argsort(found.error[asked], kind="stable")]
    shown = order
    note = ""
    if len(order) > MOST_COLUMNS:
        half = MOST_COLUMNS // 2
        shown = np.concatenate([order[:half], order[-half:]])
        note = f"The {half} best and the {half} worst of {whole(len(order))} columns."
    data = specs.records(
        column=[names[j] for j in shown],
        model=found.error[shown],
        mean=found.mean_error[shown],
    )
    y = specs.axis("column", "", "nominal", sort=None)
    tooltip = [
        {"field": "column", "title": "column"},
        {"field": "model", "title": "model", "format": ".2f"},
        {"field": "mean", "title": "mean of the column", "format": ".2f"},
    ]
    spec = specs.chart(
        data,
        [
            {
                "mark": {"type": "rule", "color": specs.RULE, "strokeWidth": 2},
                "encoding": {
                    "y": y,
                    "x": specs.axis("model", "error, in standard deviations of the column"),
                    "x2": {"field": "mean"},
                },
            },
            {
                "transform": [
                    {"fold": ["model", "mean"], "as": ["filled", "error"]},
                    {
                        "calculate": "datum.filled === 'model' ? 'model' : 'mean of the column'",
                        "as": "by",
                    },
                ],
                "mark": {"type": "point", "filled": True, "size": 70, "opacity": 1},
                "encoding": {
                    "y": y,
                    "x": specs.axis("error", "error, in standard deviations of the column"),
                    "color": {
                        "field": "by",
                        "type": "nominal",
                        "title": "filled by",
                        "scale": {
                            "domain": ["model", "mean of the column"],
                            "range": [specs.MAIN, specs.OTHER],
                        },
                    },
                    "tooltip": tooltip,
                },
            },
        ],
        height=max(120, 18 * len(shown) + 20),
    )
    better = int(np.sum(found.error[asked] < found.mean_error[asked]))
    best, worst = names[order[0]], names[order[-1]]
    return Figure(
        "filling-error",
        "Error of hidden cells by column",
        f"The model beats the mean in {whole(better)} of {count(len(asked), 'column')}; best in "
        f"{best} ({number(float(found.error[order[0]]), 2)}), worst in {worst} "
        f"({number(float(found.error[order[-1]]), 2)}).",
        spec,
        note,
    )


def _intervals(found: HeldOut, look: Look, names: tuple[str, ...]) -> Figure:
    """Hidden cells in standard units of their columns, each with its interval."""
    k = found.n_hidden
    shown = np.arange(k) if k <= MOST_POINTS else np.linspace(0, k - 1, MOST_POINTS).astype(int)
    j = found.column[shown]
    sd = np.where(look.sd[j] > 0, look.sd[j], 1.0)
    truth = (found.truth[shown] - look.mean[j]) / sd
    filled = (found.filled[shown] - look.mean[j]) / sd
    half = reach() * found.std[shown] / sd
    data = specs.records(
        column=[names[c] for c in j],
        truth=truth,
        filled=filled,
        low=filled - half,
        high=filled + half,
        inside=["inside" if hit else "outside" for hit in found.covered[shown]],
    )
    ends = [float(min(truth.min(), filled.min())), float(max(truth.max(), filled.max()))]
    x = specs.axis("truth", "the truth, in standard deviations from the mean")
    colour = {
        "field": "inside",
        "type": "nominal",
        "title": "the truth is",
        "scale": {"domain": ["inside", "outside"], "range": [specs.MAIN, specs.OTHER]},
        "legend": {"symbolOpacity": 1},
    }
    spec = specs.chart(
        data,
        [
            {
                "data": {"values": [{"a": ends[0]}, {"a": ends[1]}]},
                "mark": {"type": "line", "color": specs.SOFT, "strokeDash": [4, 3]},
                "encoding": {
                    "x": {"field": "a", "type": "quantitative"},
                    "y": {"field": "a", "type": "quantitative"},
                },
            },
            {
                "mark": {"type": "rule", "opacity": 0.35},
                "encoding": {
                    "x": x,
                    "y": specs.axis("low", "filled, with its 95 % interval"),
                    "y2": {"field": "high"},
                    "color": colour,
                },
            },
            {
                "mark": {"type": "point", "filled": True, "size": 22, "opacity": 0.8},
                "encoding": {
                    "x": x,
                    "y": specs.axis("filled", "filled, with its 95 % interval"),
                    "color": colour,
                    "tooltip": [
                        {"field": "column", "title": "column"},
                        {"field": "truth", "title": "truth", "format": ".2f"},
                        {"field": "filled", "title": "filled", "format": ".2f"},
                        {"field": "low", "title": "from", "format": ".2f"},
                        {"field": "high", "title": "to", "format": ".2f"},
                    ],
                },
            },
        ],
        height=320,
    )
    outside = found.n_hidden - int(found.covered.sum())
    test = f" (binomial test: {p_is(found.coverage_p)})" if found.refitted else ""
    return Figure(
        "filling-intervals",
        "Hidden cells and their intervals",
        f"{whole(outside)} of {whole(k)} true values lie outside their interval; "
        f"{whole(round(0.05 * k))} are expected{test}.",
        spec,
        "" if k <= MOST_POINTS else f"{MOST_POINTS} of {whole(k)} hidden cells are drawn.",
    )


def _least_certain(
    subject: Subject, look: Look, names: tuple[str, ...], rows: list[str]
) -> tuple[Grid, ...]:
    missing = np.isnan(look.X)
    touched = np.flatnonzero(missing.any(axis=1))
    if not len(touched):
        return ()
    with silence():
        filled, std = (
            np.asarray(part, dtype=np.float64)
            for part in subject.bare.impute(look.X[touched], return_std=True)
        )
    i, j = np.nonzero(missing[touched])
    unit = np.where(look.sd[j] > 0, look.sd[j], 1.0)
    share = std[i, j] / unit
    order = np.argsort(-np.nan_to_num(share), kind="stable")[:MOST_CELLS]
    lines = tuple(
        (
            rows[touched[i[c]]],
            names[j[c]],
            number(float(filled[i[c], j[c]])),
            number(float(std[i[c], j[c]]), 2),
            percent(float(share[c])),
        )
        for c in order
    )
    note = ""
    if len(i) > MOST_CELLS:
        shown = "" if not look.is_sampled else " in the rows that are shown"
        note = f"{MOST_CELLS} of {count(len(i), 'filled cell')}{shown}."
    if hasattr(subject.bare, "bayesian_"):
        note += " The uncertainty of the loadings is in it."
    columns = listing([names[c] for c in np.unique(j)], 6)
    return (
        Grid(
            f"Least certain of the filled cells ({columns})",
            ("row", "column", "filled with", "standard deviation", "of the column’s own"),
            lines,
            (False, False, True, True, True),
            note=note.strip(),
        ),
    )
