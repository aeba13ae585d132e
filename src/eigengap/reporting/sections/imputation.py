"""Imputation: error and coverage for held-out values, and the least certain imputations."""

from __future__ import annotations

import numpy as np

from eigengap.plots.numbers.missing import LEVEL, REACH, HeldOut, held_out
from eigengap.plots.numbers.rows import Look
from eigengap.plots.numbers.subject import Subject
from eigengap.reporting import specs
from eigengap.reporting.sections import imputation_kinds
from eigengap.reporting.specs import Figure, Grid, Section
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
    if subject.coded is not None:
        return imputation_kinds.section(subject, look, names, rows, seed)
    found = held_out(subject, look, seed)
    grids = _least_certain(subject, look, names, rows)
    if isinstance(found, str):
        return Section("imputation", TITLE, words=(found,), grids=grids)
    sample = f"{count(found.rows, 'row')} of the sample"
    how = f"{count(found.n_hidden, 'observed value')} of "
    how += f"{'all rows' if found.rows == look.n_rows else sample} were held out"
    if found.refitted:
        how += " from a new fit with the same number of components, and predicted."
    else:
        how += " and predicted. The model was fitted to them, so that it looks better than it is."
    words = [_on_error(found), how]
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
            "SDs): the columns predict each other poorly."
        )
    return (
        f"Held-out values are predicted with an RMSE of {number(found.overall, 2)} column SDs, "
        f"{percent(found.gain)} less than by the column means ({number(found.mean_overall, 2)})."
    )


def _on_coverage(found: HeldOut) -> str:
    """Coverage, and the result of a binomial test against 95 %."""
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


def _by_column(found: HeldOut, names: tuple[str, ...]) -> Figure:
    asked = np.flatnonzero(np.isfinite(found.error))
    order = asked[np.argsort(found.error[asked], kind="stable")]
    shown, note = specs.both_ends(order, MOST_COLUMNS, "best", "worst")
    data = specs.records(
        column=[names[j] for j in shown], model=found.error[shown], mean=found.mean_error[shown]
    )
    title, of_column = "error, in standard deviations of the column", "mean of the column"
    named = {"calculate": f"datum.imputed === 'model' ? 'model' : '{of_column}'", "as": "by"}
    spec = specs.chart(
        data,
        specs.layer(
            "rule",
            {"color": specs.RULE, "strokeWidth": 2},
            y=specs.BY_COLUMN,
            x=specs.axis("model", title),
            x2={"field": "mean"},
        ),
        specs.dots(
            70,
            {"opacity": 1},
            transform=[{"fold": ["model", "mean"], "as": ["imputed", "error"]}, named],
            y=specs.BY_COLUMN,
            x=specs.axis("error", title),
            color=specs.either("by", "imputed by", "model", of_column),
            tooltip=specs.tips(column="column", model="model|.2f", mean=f"{of_column}|.2f"),
        ),
        height=specs.lines_high(len(shown)),
    )
    better = int(np.sum(found.error[asked] < found.mean_error[asked]))
    best, worst = (f"{names[j]} ({number(float(found.error[j]), 2)})" for j in order[[0, -1]])
    return Figure(
        "imputation-error",
        "Error of held-out values by column",
        f"The model beats the mean in {whole(better)} of {count(len(asked), 'column')}; best in "
        f"{best}, worst in {worst}.",
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
    half = REACH * found.std[shown] / sd
    data = specs.records(
        column=[names[c] for c in j],
        truth=truth,
        imputed=imputed,
        low=imputed - half,
        high=imputed + half,
        inside=np.where(found.covered[shown], "inside", "outside"),
    )
    both = np.concatenate([truth, imputed])
    ends = [{"a": float(both.min())}, {"a": float(both.max())}]
    x = specs.axis("truth", "the truth, in standard deviations from the mean")
    y, low = (specs.axis(field, "imputed, with its 95 % interval") for field in ("imputed", "low"))
    even = {"field": "a", "type": "quantitative"}
    dash = {"color": specs.SOFT, "strokeDash": [4, 3]}
    legend = {"symbolOpacity": 1}
    colour = specs.either("inside", "the truth is", "inside", "outside", legend=legend)
    numbers = {"truth": "truth", "imputed": "imputed", "low": "from", "high": "to"}
    tooltip = specs.tips(
        column="column", **{field: f"{title}|.2f" for field, title in numbers.items()}
    )
    spec = specs.chart(
        data,
        specs.layer("line", dash, data=ends, x=even, y=even),
        specs.layer("rule", {"opacity": 0.35}, x=x, y=low, y2={"field": "high"}, color=colour),
        specs.dots(22, {"opacity": 0.8}, x=x, y=y, color=colour, tooltip=tooltip),
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
    i, j = np.nonzero(missing[touched])
    with silence():
        imputed, std = (
            np.asarray(part, dtype=np.float64)[i, j]
            for part in subject.bare.impute(look.X[touched], return_std=True)
        )
    share = std / np.where(look.sd[j] > 0, look.sd[j], 1.0)
    order = np.argsort(-np.nan_to_num(share), kind="stable")[:MOST_CELLS]
    lines = tuple(
        (
            rows[touched[i[c]]],
            names[j[c]],
            number(float(imputed[c])),
            number(float(std[c]), 2),
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
