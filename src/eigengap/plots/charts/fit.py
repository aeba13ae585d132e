"""How a model was chosen and fitted, and which rows it does not fit.

Criteria for the number of components, each with the curve that it reads; steps of the fit; T²
against SPE with their limits, and the columns that make outliers improbable.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from eigengap.estimators.shared.display import public_name, require_fitted
from eigengap.plots._altair import alt
from eigengap.plots.drawing import (
    Chart,
    data,
    dots,
    finish,
    kind,
    quantity,
    tips,
    upper,
    words,
    x_axis,
    y_axis,
)
from eigengap.plots.numbers.names import label, names_of
from eigengap.plots.numbers.outliers import OutlierNumbers, outlier_numbers
from eigengap.plots.numbers.rows import MOST_ROWS, Table, inner, table_of
from eigengap.plots.numbers.spectrum import Steps, trace_numbers
from eigengap.selection.rank.choice import NAMES, Curve, RankChoice

WIDTH, HEIGHT, ACROSS = 225, 120, 3  # of the criteria
WIDE, HIGH = 290, 220  # of the steps
MOST_STEPS = 2000
PLANE = 480  # width of the outliers
MOST_SHARES = 15  # columns
LEVELS = {"above 1": 1.0, "above level": 0.05}
WORDS = {
    "lower": "lowest is best",
    "higher": "highest is best",
    "above 1": "counts while above 1",
    "above level": "first above 0.05",
    "at most tolerance": "first below the tolerance",
}


def rank_criteria(choice: RankChoice) -> Chart:
    """The curve of every criterion for the number of components, and what it picks.

    Parameters
    ----------
    choice : RankChoice
        From `choose_rank`, or `rank_choice_` of an estimator; an estimator that has one is taken
        too, and so is one whose model has one (NoveltyDetector).

    Returns
    -------
    altair chart

    Examples
    --------
    >>> from eigengap import choose_rank
    >>> from eigengap.plots import rank_criteria
    >>> from sklearn.datasets import load_iris
    >>> choice = choose_rank(load_iris().data, criteria=["eigengap", "bic"])
    >>> len(rank_criteria(choice).to_dict()["concat"])
    2
    """
    found = choice if isinstance(choice, RankChoice) else _made_by(choice)
    panels = [
        _panel(name, found.criteria[name], curve)
        for name, curve in found.curves.items()
        if len(curve) and name in found.criteria
    ]
    without = [_spoken(name) for name in found.criteria if not len(found.curves.get(name, {}))]
    not_applied = [f"{_spoken(name)}: {why}" for name, why in found.not_applied.items()]
    chart = alt.concat(*panels, columns=ACROSS, spacing=22).resolve_scale(x="independent")
    return finish(
        chart,
        "How many components",
        upper(found.summary),
        f"No curve: {', '.join(without)}." if without else "",
        f"Not applied: {'; '.join(not_applied)}." if not_applied else "",
        width=WIDTH * ACROSS,
    )


def _made_by(estimator: Any) -> RankChoice:
    """The choice that an estimator made, or that of the model inside it."""
    model = inner(estimator)
    for holder in (estimator, model):
        found = getattr(holder, "rank_choice_", None)
        if isinstance(found, RankChoice):
            return found
    name, whose = public_name(estimator), public_name(model)
    way_out = "choose_rank(X) compares the criteria for a table"
    asked = getattr(estimator, "n_components", getattr(model, "n_components", None))
    if hasattr(model, "bayesian_"):
        why = f"{whose} switches components off while it is fitted"
    elif asked is None or isinstance(asked, str):
        why = f"the number of components of {whose} was not chosen by these criteria"
    else:
        why = f"it was fitted with n_components={asked!r}"
        way_out = f'Fit with n_components="auto"; or {way_out}'
    raise AttributeError(f"{name} has no choice of rank to draw: {why}. {way_out}")


def _panel(name: str, pick: int, curve: Curve) -> Any:
    q = np.array([point[0] for point in curve.points])
    value = np.array([point[1] for point in curve.points], dtype=float)
    value = np.where(np.isfinite(value), value, np.nan)
    ratio = curve.better == "above 1" and np.nanmin(value) > 0 and np.nanmax(value) > 20
    points = data(q=q, value=value, pick=np.where(q == pick, "picked", ""))
    step = max(1, -(-len(q) // 8))
    ends = alt.Scale(domain=[float(q.min()) - 0.4, float(q.max()) + 0.4], nice=False)
    ticks = alt.Axis(values=[int(v) for v in q[::step]], format="d", grid=False)
    x = x_axis("q", "components", scale=ends, axis=ticks)
    large: Any = {"format": "~s"} if np.nanmax(np.abs(value), initial=0.0) >= 1e4 else {}
    scale = alt.Scale(zero=False, type="log" if ratio else "linear")
    y = y_axis("value", None, scale=scale, axis=alt.Axis(tickCount=4, **large))
    base = alt.Chart(points).encode(x=x, y=y, tooltip=tips(q="#components", value="#value"))
    layers = [
        base.mark_line(style="eg-soft"),
        base.mark_point(style="eg-hollow", size=26, opacity=1.0),
    ]
    level = LEVELS.get(curve.better)
    if level is not None:
        layers.insert(0, alt.Chart(data(value=[level])).mark_rule(style="eg-guide").encode(y=y))
    if pick in set(q.tolist()):
        layers.append(dots(base, "eg-accent", 95, "datum.pick == 'picked'", shape="triangle-up"))
    title = alt.TitleParams(
        text=upper(f"{_spoken(name)}: {pick}").rstrip("."),
        subtitle=[label(curve.label, 50), _says(pick, curve)],
        fontSize=12.5,
        subtitleFontSize=10,
        subtitleLineHeight=13,
        offset=6,
    )
    return alt.layer(*layers).properties(width=WIDTH, height=HEIGHT, title=title)


def _says(pick: int, curve: Curve) -> str:
    """How the curve is read, where the pick is read off it and nothing else."""
    read = {
        "lower": curve.lowest,
        "higher": curve.highest,
        "above 1": lambda: max((q for q, value in curve.points if value > 1.0), default=0),
    }.get(curve.better, lambda: pick)
    return WORDS.get(curve.better, "") if pick == read() else ""


def _spoken(name: str) -> str:
    return label(NAMES.get(name, name.replace("_", " ")).removeprefix("the "), 40)


# Steps -----------------------------------------------------------------------------------------


def trace(estimator: Any) -> Chart:
    """The objective at every step of the fit, and how far it was from its end.

    Parameters
    ----------
    estimator : fitted estimator with `trace_`

    Returns
    -------
    altair chart
        At the right, on a logarithmic axis, what was left to gain, and the size of each step with
        the tolerance at which the fit ends.

    Examples
    --------
    >>> from eigengap import PPCA
    >>> from eigengap.plots import trace
    >>> from sklearn.datasets import load_iris
    >>> X = load_iris().data
    >>> X[::3, 2] = float("nan")
    >>> chart = trace(PPCA(2).fit(X))
    >>> chart.to_dict()["title"]["text"]
    'Fit of PPCA, step by step'
    """
    require_fitted(estimator)
    found = trace_numbers(estimator)
    k = len(found.step)  # drawn are all, or as many evenly, with the first and the last
    kept = np.unique(np.linspace(0, k - 1, min(k, MOST_STEPS)).round().astype(int))
    x = x_axis("step", "step", axis=alt.Axis(format="d", tickMinStep=1, grid=False))
    base = alt.Chart(data(step=found.step[kept], value=found.objective[kept])).encode(
        x=x,
        y=y_axis("value", found.what, scale=alt.Scale(zero=False)),
        tooltip=tips(step="#step", value="#" + found.what),
    )
    layers = [base.mark_line(style="eg-main")]
    if len(kept) <= 60:
        layers.append(dots(base, "eg-main", 22))
    objective = alt.layer(*layers).properties(width=WIDE, height=HIGH)
    chart = alt.hconcat(objective, _left(found, kept, x), spacing=30).resolve_scale(
        color="independent", strokeDash="independent"
    )
    said = {True: "converged", False: "NOT converged", None: "ended"}[found.converged]
    steps = f"{k:,} step{'s' if k != 1 else ''}"
    return finish(
        chart,
        f"Fit of {public_name(estimator)}, step by step",
        f"{steps} in {found.seconds:.2g} s, {said}; {found.what} at the end "
        f"{found.objective[-1]:.6g}.",
        "" if len(kept) == k else f"{len(kept):,} of the steps are drawn.",
        width=2 * WIDE,
    )


def _left(found: Steps, kept: Any, x: alt.X) -> Any:
    order = ["left to the end", "size of the step"]
    value = np.concatenate([found.distance[kept], found.change[kept]])
    good = np.isfinite(value) & (value > 0.0)  # the axis is logarithmic
    step, name = np.tile(found.step[kept], 2), np.repeat(order, len(kept))
    ticks = alt.Axis(format=".0e", tickCount=6)
    y = y_axis("value", "logarithmic axis", scale=alt.Scale(type="log"), axis=ticks)
    colours = {"scale": alt.Scale(domain=order), "legend": alt.Legend(orient="top")}
    dashes = alt.Scale(domain=order, range=[[1, 0], [5, 3]])
    base = alt.Chart(data(step=step[good], value=value[good], name=name[good])).encode(
        x=x,
        y=y,
        color=alt.Color(**kind("name", None, **colours)),
        strokeDash=alt.StrokeDash(**kind("name", None, scale=dashes)),
        tooltip=tips(step="#step", name="", value="#value"),
    )
    layers: list[Any] = [base.mark_line()]
    if found.tol is not None and found.tol > 0:
        limit = data(value=[found.tol], said=[f"tol = {found.tol:g}"])
        layers += [
            alt.Chart(limit).mark_rule(style="eg-guide").encode(y=y),
            alt.Chart(limit)
            .mark_text(style="eg-note", align="left", baseline="bottom", dx=4, dy=-2)
            .encode(x=alt.value(0), y=y, text=words()),
        ]
    return alt.layer(*layers).properties(width=WIDE, height=HIGH)


# Outliers --------------------------------------------------------------------------------------


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
    found = outlier_numbers(estimator, table, most=most)
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
        width=PLANE,
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
        dots(base, "eg-main", 24, "datum.state == 'ordinary'", opacity=0.5),
        dots(base, "eg-accent", 46, "datum.state == 'flagged'", opacity=0.85, shape="triangle-up"),
        base.transform_filter("datum.said != ''")
        .mark_text(style="eg-label", align="left", dx=6, dy=-5, fontSize=10.5)
        .encode(text=words()),
    ).properties(width=PLANE, height=300)


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
    text_of_title = f"Share of D² of the least probable rows, %{note}"
    title = alt.TitleParams(text_of_title, fontSize=12, fontWeight="normal", offset=8)
    colour = alt.Color(**quantity("share", "% of D²", scale=scale, legend=None))
    return alt.layer(
        base.mark_rect().encode(color=colour),
        *(
            base.transform_filter(f"abs(datum.share) {which} {0.6 * reach}")
            .mark_text(style=style, fontSize=10.5)
            .encode(text=words())
            for which, style in (("<", "eg-label"), (">=", "eg-on-strong"))
        ),
    ).properties(width=min(40 * len(order), PLANE), height=22 * k, title=title)
