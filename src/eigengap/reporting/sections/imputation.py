"""Imputation: error and coverage for held-out values, and the least certain imputations."""

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
TITLE = "Imputation"


def section(
    subject: Subject, look: Look, names: tuple[str, ...], rows: list[str], seed: int
) -> Section:
    """How well held-out values are predicted, and the least certain imputations."""
    if not subject.imputes:
        why = f"{subject.kind} has no model of the values, so that it imputes none."
        return Section("imputation", TITLE, left_out=why)
    found = held_out(subject, look, seed)
    grids = _least_certain(subject, look, names, rows)
    if isinstance(found, str):
        return Section("imputation", TITLE, words=(found,), grids=grids)
    words = [_on_error(found), _how(found, look)]
    figures = [_by_column(found, names)]
    if found.has_std:
        words.insert(1, _on_coverage(found))
        figures.append(_intervals(found, look, names))
    return Section(
        "imputation",
        TITLE,
        words=tuple(words),
        figures=tuple(figures),
        grids=grids,
        verdict=_on_error(found) + (f" {_on_coverage(found)}" if found.has_std else ""),
    )


def _on_error(found: HeldOut) -> str:
    if found.gain < 0.02:
        return (
            "Held-out values are predicted no better than by the mean of their column "
            f"(RMSE {number(found.overall, 2)} against {number(found.mean_overall, 2)} column "
            "SDs): the columns say little about each other."
        )
    return (
        f"Held-out values are predicted with an RMSE of {number(found.overall, 2)} column SDs, "
        f"{percent(found.gain)} less than by the column means ({number(found.mean_overall, 2)})."
    )


def _on_coverage(found: HeldOut) -> str:
    """Coverage, and what a binomial test against 95 % says of it."""
    known = f"95 % intervals cover {percent(found.coverage)} of them"
    if not found.refitted:
        return (
            f"{known}; the model was fitted to these values, so that new ones may be covered less."
        )
    test = f"(binomial test: {p_is(found.coverage_p)})"
    if found.coverage_p >= ALPHA:
        few = f"; {whole(found.n_hidden)} values are few for such a test"
        return f"{known}, which is compatible with 95 % {test}{few if found.is_few else ''}."
    if found.coverage < LEVEL:
        return f"{known}, fewer than 95 % {test}: standard deviations are too small."
    return f"{known}, more than 95 % {test}: standard deviations are too large."


def _how(found: HeldOut, look: Look) -> str:
    rows = "all rows" if found.rows == look.n_rows else f"{count(found.rows, 'row')} of the sample"
    if found.refitted:
        return (
            f"{count(found.n_hidden, 'observed value')} of {rows} were held out from a new fit "
            "with the same number of components, and predicted."
        )
    return (
        f"{count(found.n_hidden, 'observed value')} of {rows} were held out and predicted. The "
        "model was fitted to them, so that it looks better than it is."
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
                    {"fold": ["model", "mean"], "as": ["imputed", "error"]},
                    {
                        "calculate": "datum.imputed === 'model' ? 'model' : 'mean of the column'",
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
                        "title": "imputed by",
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
        "imputation-error",
        "Error of held-out values by column",
        f"The model beats the mean in {whole(better)} of {count(len(asked), 'column')}; best in "
        f"{best} ({number(float(found.error[order[0]]), 2)}), worst in {worst} "
        f"({number(float(found.error[order[-1]]), 2)}).",
        spec,
        note,
    )


def _intervals(found: HeldOut, look: Look, names: tuple[str, ...]) -> Figure:
    """Held-out values in standard units of their columns, each with its interval."""
    k = found.n_hidden
    shown = np.arange(k) if k <= MOST_POINTS else np.linspace(0, k - 1, MOST_POINTS).astype(int)
    j = found.column[shown]
    sd = np.where(look.sd[j] > 0, look.sd[j], 1.0)
    truth = (found.truth[shown] - look.mean[j]) / sd
    imputed = (found.imputed[shown] - look.mean[j]) / sd
    half = reach() * found.std[shown] / sd
    data = specs.records(
        column=[names[c] for c in j],
        truth=truth,
        imputed=imputed,
        low=imputed - half,
        high=imputed + half,
        inside=["inside" if hit else "outside" for hit in found.covered[shown]],
    )
    ends = [float(min(truth.min(), imputed.min())), float(max(truth.max(), imputed.max()))]
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
                    "y": specs.axis("low", "imputed, with its 95 % interval"),
                    "y2": {"field": "high"},
                    "color": colour,
                },
            },
            {
                "mark": {"type": "point", "filled": True, "size": 22, "opacity": 0.8},
                "encoding": {
                    "x": x,
                    "y": specs.axis("imputed", "imputed, with its 95 % interval"),
                    "color": colour,
                    "tooltip": [
                        {"field": "column", "title": "column"},
                        {"field": "truth", "title": "truth", "format": ".2f"},
                        {"field": "imputed", "title": "imputed", "format": ".2f"},
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
        "imputation-intervals",
        "Held-out values and their intervals",
        f"{whole(outside)} of {whole(k)} true values lie outside their interval; "
        f"{whole(round(0.05 * k))} are expected{test}.",
        spec,
        "" if k <= MOST_POINTS else f"{MOST_POINTS} of {whole(k)} held-out values are drawn.",
    )


def _least_certain(
    subject: Subject, look: Look, names: tuple[str, ...], rows: list[str]
) -> tuple[Grid, ...]:
    missing = np.isnan(look.X)
    touched = np.flatnonzero(missing.any(axis=1))
    if not len(touched):
        return ()
    with silence():
        imputed, std = (
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
            number(float(imputed[i[c], j[c]])),
            number(float(std[i[c], j[c]]), 2),
            percent(float(share[c])),
        )
        for c in order
    )
    note = ""
    if len(i) > MOST_CELLS:
        shown = "" if not look.is_sampled else " in the rows that are shown"
        note = f"{MOST_CELLS} of {count(len(i), 'imputed value')}{shown}."
    if hasattr(subject.bare, "bayesian_"):
        note += " They include the uncertainty of the loadings."
    columns = listing([names[c] for c in np.unique(j)], 6)
    return (
        Grid(
            f"Least certain imputations ({columns})",
            ("row", "column", "imputed", "standard deviation", "relative to the column’s"),
            lines,
            (False, False, True, True, True),
            note=note.strip(),
        ),
    )
