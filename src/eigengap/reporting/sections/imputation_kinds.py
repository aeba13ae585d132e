"""Imputation of columns of several kinds: numbers by error and coverage, levels by probability."""

from __future__ import annotations

from typing import Any

import numpy as np

from eigengap.linalg import Array
from eigengap.plots.numbers.held_out_kinds import HeldOutKinds, held_out_kinds
from eigengap.plots.numbers.missing import LEVEL
from eigengap.plots.numbers.rows import Look
from eigengap.plots.numbers.subject import Subject
from eigengap.reporting import specs
from eigengap.reporting.specs import Figure, Grid, Section
from eigengap.reporting.words import brief, count, fixed, number, p_is, percent, whole
from eigengap.runtime.warnings import silence

MOST_CELLS = 12  # in the table of the least certain
MOST_COLUMNS = 30
ALPHA = 0.05  # p-value below which coverage or calibration is said to be off
FEW = 119  # values below which a test of coverage sees little
BINS = np.array([0.0, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0 + 1e-9])  # of probabilities
FEWEST_IN_BIN = 5
TITLE = "Imputation"


def section(
    subject: Subject, look: Look, names: tuple[str, ...], rows: list[str], seed: int
) -> Section:
    """How well held-out values are predicted, and the least certain imputations."""
    found = held_out_kinds(subject, look, seed)
    grids = _least_certain(subject, look, names, rows)
    if isinstance(found, str):
        return Section("imputation", TITLE, words=(found,), grids=grids)
    sample = f"{count(found.rows, 'row')} of the sample"
    how = (
        f"{count(found.n_hidden, 'observed value')} of "
        f"{'all rows' if found.rows == look.n_rows else sample} were held out from a new fit with "
        "the same number of components and the same kinds, and predicted."
    )
    words, figures, verdict = [], [], ""
    if len(found.numbers):
        verdict = _on_numbers(found, names)
        words += [verdict, _on_coverage(found)]
        figures += [_errors(found, names), _intervals(found, look, names)]
    if len(found.levels):
        on_levels = _on_levels(found)
        verdict = f"{verdict} {on_levels}".strip()
        words += [on_levels, _on_probabilities(found)]
        figures += [_accuracy(found, names), _calibration(found)]
    return Section(
        "imputation",
        TITLE,
        words=(*words, how),
        figures=tuple(figures),
        grids=grids,
        verdict=verdict,
    )


# In words --------------------------------------------------------------------------------------


def _ratios(found: HeldOutKinds) -> dict[int, float]:
    columns = np.unique(found.numbers.column).tolist()
    ratios = {j: found.numbers.ratio(j) for j in columns}
    return {j: ratio for j, ratio in ratios.items() if np.isfinite(ratio)}


def _on_numbers(found: HeldOutKinds, names: tuple[str, ...]) -> str:
    ratios = _ratios(found)
    if not ratios:
        return "Held-out numbers equal the median of their column."
    mean = float(np.mean(list(ratios.values())))
    best = min(ratios, key=lambda j: ratios[j])
    if mean > 0.98:
        return (
            "Held-out numbers are predicted no better than by the median of their column (mean "
            f"absolute error {number(mean, 2)} times as large): the columns predict each other "
            "poorly."
        )
    return (
        f"Held-out numbers are predicted with {percent(1.0 - mean)} less absolute error than by "
        f"the medians of their columns; best is {names[best]} ({percent(1.0 - ratios[best])})."
    )


def _on_coverage(found: HeldOutKinds) -> str:
    own = found.numbers
    known = (
        f"95 % intervals cover {percent(own.coverage)} of the {whole(len(own))} held-out numbers"
    )
    if not own.n_tested:
        return f"{known}; ends are whole numbers, so that more than 95 % is to be expected."
    of_some = ""
    if own.n_tested < len(own):
        of_some = (
            f", and {percent(own.tested_coverage)} of the {whole(own.n_tested)} in columns without "
            "rounding"
        )
    test = f"(binomial test: {p_is(own.coverage_p)})"
    if own.coverage_p >= ALPHA:
        few = f"; {whole(own.n_tested)} values are few for such a test"
        few = few if own.n_tested < FEW else ""
        return f"{known}{of_some}, which is compatible with 95 % {test}{few}."
    if own.tested_coverage < LEVEL:
        return f"{known}{of_some}, fewer than 95 % {test}: the intervals are too short."
    return f"{known}{of_some}, more than 95 % {test}: the intervals are too long."


def _on_levels(found: HeldOutKinds) -> str:
    own = found.levels
    better = "more" if own.accuracy > own.accuracy_of_mode else "no more"
    than = f"{better} than the most frequent level of the column ({percent(own.accuracy_of_mode)})"
    return (
        f"Of {whole(len(own))} held-out levels {percent(own.accuracy)} are imputed right, {than}."
    )


def _on_probabilities(found: HeldOutKinds) -> str:
    own = found.levels
    score = (
        f"The true level has a mean log probability of {fixed(own.log_score)} nats, against "
        f"{fixed(own.log_score_of_shares)} by the shares of the levels"
    )
    mean = float(np.mean(own.sure))
    test = f"z test: {p_is(own.calibration_p)}"
    said = (
        f"imputed levels have a mean probability of {percent(mean)} and are right in "
        f"{percent(own.accuracy)}"
    )
    if own.calibration_p >= ALPHA:
        return f"{score}; {said} of the cells, which is compatible ({test})."
    side = "small" if own.accuracy > mean else "large"
    return f"{score}; {said} of the cells: probabilities are too {side} ({test})."


# Charts ----------------------------------------------------------------------------------------


def _errors(found: HeldOutKinds, names: tuple[str, ...]) -> Figure:
    ratios = _ratios(found)
    order = np.array(sorted(ratios, key=lambda j: ratios[j]), dtype=np.intp)
    shown, note = specs.both_ends(order, MOST_COLUMNS, "best", "worst")
    data = specs.records(column=[names[j] for j in shown], value=[ratios[int(j)] for j in shown])
    better = sum(ratio < 1.0 for ratio in ratios.values())
    return Figure(
        "imputation-error",
        "Error of held-out numbers by column",
        f"The model beats the median in {whole(better)} of "
        f"{count(len(ratios), 'column')} of numbers.",
        specs.bars(data, "absolute error over that of the median", ".2f", even=1.0),
        f"Dashed: the median of the column. {note}".strip(),
    )


def _intervals(found: HeldOutKinds, look: Look, names: tuple[str, ...]) -> Figure:
    """Where in its column the truth and the interval lie: by ranks, which skewness leaves alone."""
    own = found.numbers
    k = len(own)
    shown = np.arange(k) if k <= 400 else np.linspace(0, k - 1, 400).astype(int)

    def rank(values: Array) -> Array:
        places = [
            np.searchsorted(np.sort(look.X[~np.isnan(look.X[:, j]), j]), v, side="right")
            / max(int(np.sum(~np.isnan(look.X[:, j]))), 1)
            for j, v in zip(own.column[shown], values[shown], strict=True)
        ]
        return np.array(places, dtype=np.float64)

    data = specs.records(
        column=[names[c] for c in own.column[shown]],
        truth=[brief(v) for v in own.truth[shown].tolist()],
        imputed=[brief(v) for v in own.imputed[shown].tolist()],
        low=[brief(v) for v in own.low[shown].tolist()],
        high=[brief(v) for v in own.high[shown].tolist()],
        x=rank(own.truth),
        y=rank(own.imputed),
        a=rank(own.low),
        b=rank(own.high),
        inside=np.where(own.covered[shown], "inside", "outside"),
    )
    x = specs.axis("x", "the truth, as a share of its column below", axis={"format": "%"})
    y = specs.axis("y", "imputed, with its 95 % interval", axis={"format": "%"})
    low = specs.axis("a", "imputed, with its 95 % interval")
    colour = specs.either(
        "inside", "the truth is", "inside", "outside", legend={"symbolOpacity": 1}
    )
    spec = specs.chart(
        data,
        _diagonal(),
        specs.layer("rule", {"opacity": 0.3}, x=x, y=low, y2={"field": "b"}, color=colour),
        specs.dots(
            22,
            {"opacity": 0.8},
            x=x,
            y=y,
            color=colour,
            tooltip=specs.tips(
                column="column", truth="truth", imputed="imputed", low="from", high="to"
            ),
        ),
        height=320,
    )
    outside = k - int(own.covered.sum())
    return Figure(
        "imputation-intervals",
        "Held-out numbers and their intervals",
        f"{whole(outside)} of {whole(k)} true values lie outside their interval.",
        spec,
        "Places are ranks within the column, so that skewed columns can stand beside others.",
    )


def _accuracy(found: HeldOutKinds, names: tuple[str, ...]) -> Figure:
    columns = np.unique(found.levels.column)
    parts = {int(j): found.levels.of(int(j)) for j in columns}
    order = np.array(sorted(parts, key=lambda j: -parts[j].accuracy), dtype=np.intp)
    shown, note = specs.both_ends(order, MOST_COLUMNS, "best", "worst")
    data = specs.records(
        column=[names[j] for j in shown] * 2,
        by=["model"] * len(shown) + ["most frequent level"] * len(shown),
        share=[parts[int(j)].accuracy for j in shown]
        + [parts[int(j)].accuracy_of_mode for j in shown],
        cells=[len(parts[int(j)]) for j in shown] * 2,
    )
    spec = specs.chart(
        data,
        specs.dots(
            70,
            {"opacity": 1},
            y=specs.BY_COLUMN,
            x=specs.axis(
                "share", "share imputed right", axis={"format": "%"}, scale={"domain": [0, 1]}
            ),
            color=specs.either("by", "imputed by", "model", "most frequent level"),
            tooltip=specs.tips(column="column", by="by", share="right|.1%", cells="cells"),
        ),
        height=specs.lines_high(len(shown)),
    )
    better = sum(part.accuracy > part.accuracy_of_mode for part in parts.values())
    return Figure(
        "imputation-levels",
        "Held-out levels by column",
        f"The model is right more often than the most frequent level in {whole(better)} of "
        f"{count(len(parts), 'column')} of levels.",
        spec,
        note,
    )


def _calibration(found: HeldOutKinds) -> Figure:
    own = found.levels
    place = np.digitize(own.sure, BINS) - 1
    data: list[specs.Spec] = []
    outside = 0
    for k in range(len(BINS) - 1):
        at = place == k
        n = int(at.sum())
        if n < FEWEST_IN_BIN:
            continue
        mean, right = float(own.sure[at].mean()), float(own.right[at].mean())
        half = 1.96 * float(np.sqrt(max(mean * (1.0 - mean), 0.0) / n))
        outside += abs(right - mean) > half
        data.append(
            {
                "p": specs.rounded(mean, 3),
                "right": specs.rounded(right, 3),
                "low": specs.rounded(max(mean - half, 0.0), 3),
                "high": specs.rounded(min(mean + half, 1.0), 3),
                "cells": n,
            }
        )
    x = specs.axis(
        "p", "probability of the imputed level", axis={"format": "%"}, scale={"domain": [0, 1]}
    )
    y = specs.axis("right", "share that is right", axis={"format": "%"}, scale={"domain": [0, 1]})
    spec = specs.chart(
        data,
        _diagonal(),
        specs.layer(
            "rule",
            {"color": specs.SOFT, "strokeWidth": 2},
            x=x,
            y=specs.axis("low", "share that is right"),
            y2={"field": "high"},
        ),
        specs.dots(
            70,
            {"color": specs.MAIN},
            x=x,
            y=y,
            tooltip=specs.tips(p="probability|.1%", right="right|.1%", cells="cells"),
        ),
        height=320,
    )
    return Figure(
        "imputation-calibration",
        "Are probabilities right?",
        f"{whole(outside)} of {count(len(data), 'group')} of cells lie beyond what chance gives in "
        "19 of 20.",
        spec,
        "Cells in groups of similar probability; grey: where the share lies with 95 % probability "
        "if the probabilities hold.",
    )


# The least certain -----------------------------------------------------------------------------


def _least_certain(
    subject: Subject, look: Look, names: tuple[str, ...], rows: list[str]
) -> tuple[Grid, ...]:
    coded, missing = subject.coded, np.isnan(look.X)
    touched = np.flatnonzero(missing.any(axis=1))
    if not len(touched) or coded is None:
        return ()
    part = look.X[touched]
    with silence():
        low, high = (
            np.asarray(end, dtype=np.float64) for end in subject.bare.intervals(part, level=LEVEL)
        )
        imputed = np.asarray(subject.bare.impute(part), dtype=np.float64)
        shares = subject.bare.level_probabilities(part)
    named = {coded.key(j): k for k, j in enumerate(coded.used)}
    sure = {named[key]: share.max(axis=1) for key, share in shares.items()}
    cells = list(zip(*(at.tolist() for at in np.nonzero(missing[touched])), strict=True))
    sd = np.where(look.sd > 0, look.sd, 1.0)
    at = [(a, b) for a, b in cells if b not in sure]
    at.sort(key=lambda one: -float((high[one] - low[one]) / sd[one[1]]))
    numbers = [
        (
            a,
            b,
            number(float(imputed[a, b])),
            f"{number(float(low[a, b]))} to {number(float(high[a, b]))}",
        )
        for a, b in at[:MOST_CELLS]
    ]
    in_levels = [(a, b) for a, b in cells if b in sure]
    in_levels.sort(key=lambda one: float(sure[one[1]][one[0]]))
    levels = []
    for a, b in in_levels[:MOST_CELLS]:
        level = coded.cell(b, float(imputed[a, b]))
        text = brief(level) if isinstance(level, float) else str(level)
        levels.append((a, b, text, percent(float(sure[b][a]))))
    return tuple(
        Grid(
            title,
            ("row", "column", "imputed", head),
            tuple((rows[touched[a]], names[b], *said) for a, b, *said in lines),
            (False, False, is_number, True),
            note=f"{len(lines)} of {count(n, f'imputed {what}')}.",
        )
        for lines, n, what, title, head, is_number in (
            (numbers, len(at), "number", "Widest intervals", "95 % interval", True),
            (levels, len(in_levels), "level", "Least certain levels", "largest probability", False),
        )
        if lines
    )


def _diagonal() -> Any:
    """Where both axes are equal, from 0 to 1."""
    even = {"field": "e", "type": "quantitative"}
    mark = {"color": specs.SOFT, "strokeDash": [4, 3]}
    return specs.layer("line", mark, data=[{"e": 0}, {"e": 1}], x=even, y=even)
