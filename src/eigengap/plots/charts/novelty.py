"""Outliers: T² against SPE with their limits, and the columns that make them improbable."""

from __future__ import annotations

from typing import Any

import numpy as np

from eigengap.estimators.shared.display import public_name, require_fitted
from eigengap.plots._altair import alt
from eigengap.plots.drawing import (
    Chart,
    data,
    finish,
    kind,
    quantity,
    tips,
    upper,
    words,
    x_axis,
    y_axis,
)
from eigengap.plots.numbers.names import names_of
from eigengap.plots.numbers.outliers import OutlierNumbers, outlier_numbers
from eigengap.plots.numbers.rows import MOST_ROWS, Table, table_of

WIDTH, HEIGHT = 480, 300
MOST_SHARES = 15  # columns


def novelty(estimator: Any, X: Any, *, most: int = 6, max_rows: int = MOST_ROWS) -> Chart:
    """How improbable rows are, by T² (extreme scores) and SPE (poor fit), and why.

    Parameters
    ----------
    estimator : fitted NoveltyDetector, or PCA, PPCA, FactorAnalysis or BayesianPCA
    X : table of shape (n_samples, n_features)
    most : int, default=6
        How many of the least probable rows to explain.
    max_rows : int, default=5000

    Returns
    -------
    altair chart
        Dashed lines are limits that a share alpha of ordinary new rows exceeds. Incomplete rows
        have limits of their own, so that where there are some the axes show values over limits.
        Flags come from the p-value of D² = T² + SPE, not from the lines. Below, the columns'
        contributions to D² of the least probable rows, in per cent.

    Examples
    --------
    >>> from eigengap import NoveltyDetector
    >>> from eigengap.plots import novelty
    >>> from sklearn.datasets import load_iris
    >>> X = load_iris().data
    >>> chart = novelty(NoveltyDetector().fit(X), X)
    >>> chart.to_dict()["title"]["text"]
    'Novelty of rows by NoveltyDetector'
    """
    require_fitted(estimator)
    table = table_of(X, estimator, most=max_rows)
    found = outlier_numbers(estimator, table.X, most=most)
    over = not table.is_complete
    chart = _plane(found, table, over)
    if len(found.least_probable):
        chart = alt.vconcat(chart, _shares(found, table, names_of(estimator)), spacing=20)
    flagged = int(found.flagged.sum())
    alpha = f"{100 * found.alpha:g} %"
    return finish(
        chart,
        f"Novelty of rows by {public_name(estimator)}",
        f"{flagged:,} of {len(table.at):,} rows are flagged (triangles), by the p-value of both "
        "together, D² = T² + SPE, and not by the two lines: a row may lie beyond one and be "
        "ordinary, or within both and be flagged.",
        f"Dashed: limits of T² and of SPE that {alpha} of ordinary new rows exceed"
        + (", by the cells that each shows." if over else "."),
        upper(table.sampling()),
        width=WIDTH,
    )


def _plane(found: OutlierNumbers, table: Table, over: bool) -> Any:
    t, s, limits = found.T2, found.SPE, (float(found.T2_limit[0]), float(found.SPE_limit[0]))
    if over:
        t = t / np.where(found.T2_limit > 0, found.T2_limit, 1.0)
        s = s / np.where(found.SPE_limit > 0, found.SPE_limit, 1.0)
        limits = (1.0, 1.0)
    suffix = " over its limit" if over else ""
    how = {
        "scale": alt.Scale(type="sqrt", domainMin=0, nice=True),
        "axis": alt.Axis(tickCount=5, grid=False),
    }
    x = x_axis("t", f"T²{suffix}: extreme scores", **how)
    y = y_axis("s", f"SPE{suffix}: poor fit", **how)
    named = set(found.least_probable.tolist())
    points = data(
        t=t,
        s=s,
        row=table.at,
        p=found.p_value,
        state=np.where(found.flagged, "flagged", "ordinary"),
        said=[f"{table.at[i]}" if i in named else "" for i in range(len(t))],
    )
    base = alt.Chart(points).encode(
        x=x,
        y=y,
        tooltip=tips(row="#row", t="#T²" + suffix, s="#SPE" + suffix, p="#p-value", state=""),
    )
    return alt.layer(
        alt.Chart(data(t=[limits[0]])).mark_rule(style="eg-guide").encode(x=x),
        alt.Chart(data(s=[limits[1]])).mark_rule(style="eg-guide").encode(y=y),
        base.transform_filter("datum.state == 'ordinary'").mark_point(
            style="eg-main", filled=True, size=24, opacity=0.5
        ),
        base.transform_filter("datum.state == 'flagged'").mark_point(
            style="eg-accent", filled=True, shape="triangle-up", size=46, opacity=0.85
        ),
        base.transform_filter("datum.said != ''")
        .mark_text(style="eg-label", align="left", dx=6, dy=-5, fontSize=10.5)
        .encode(text=words()),
    ).properties(width=WIDTH, height=HEIGHT)


def _shares(found: OutlierNumbers, table: Table, names: list[str]) -> Any:
    total = found.shares.sum(axis=1, keepdims=True)
    percent = 100.0 * found.shares / np.where(total > 0, total, 1.0)
    size = np.abs(percent).max(axis=0)
    order = np.argsort(-size, kind="stable")[:MOST_SHARES]
    k = len(found.least_probable)
    lines = [f"row {table.at[i]} (p = {found.p_value[i]:.1g})" for i in found.least_probable]
    text = [names[j] for j in order]
    cells = data(
        line=np.repeat(lines, len(order)).tolist(),
        column=text * k,
        share=percent[:, order].ravel(),
        said=[f"{round(v):d}".replace("-", "−") for v in percent[:, order].ravel().tolist()],
    )
    reach = max(float(np.abs(percent).max(initial=1.0)), 1.0)
    scale = alt.Scale(domain=[-reach, 0, reach], range="diverging")
    turned = -90 if any(len(name) > 5 for name in text) else 0
    x = alt.X(**kind("column", None, sort=text, axis=alt.Axis(labelAngle=turned, labelLimit=140)))
    y = alt.Y(**kind("line", None, sort=lines))
    base = alt.Chart(cells).encode(x=x, y=y, tooltip=tips(line="", column="", share="#% of D²"))
    note = "" if len(order) == len(names) else f" ({len(order)} of {len(names)} columns)"
    return alt.layer(
        base.mark_rect().encode(
            color=alt.Color(**quantity("share", "% of D²", scale=scale, legend=None))
        ),
        *(
            base.transform_filter(f"abs(datum.share) {which} {0.6 * reach}")
            .mark_text(style=style, fontSize=10.5)
            .encode(text=words())
            for which, style in (("<", "eg-label"), (">=", "eg-on-strong"))
        ),
    ).properties(
        width=min(40 * len(order), WIDTH),
        height=22 * k,
        title=alt.TitleParams(
            f"Share of D² of the least probable rows, %{note}",
            fontSize=12,
            fontWeight="normal",
            offset=8,
        ),
    )
