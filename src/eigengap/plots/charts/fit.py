"""How a model was chosen and fitted: criteria for the number of components, steps of the fit."""

from __future__ import annotations

from typing import Any

import numpy as np

from eigengap.estimators.shared.display import public_name, require_fitted
from eigengap.plots._altair import alt
from eigengap.plots.drawing import Chart, data, finish, kind, tips, upper, words, x_axis, y_axis
from eigengap.plots.numbers.names import label
from eigengap.plots.numbers.rows import inner
from eigengap.plots.numbers.spectrum import Steps, trace_numbers
from eigengap.selection.rank.choice import NAMES, Curve, RankChoice

WIDTH, HEIGHT, ACROSS = 225, 120, 3  # of the criteria
WIDE, HIGH = 290, 220  # of the steps
MOST_STEPS = 2000
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
    x = x_axis(
        "q",
        "components",
        scale=alt.Scale(domain=[float(q.min()) - 0.4, float(q.max()) + 0.4], nice=False),
        axis=alt.Axis(values=[int(v) for v in q[::step]], format="d", grid=False),
    )
    large: Any = {"format": "~s"} if np.nanmax(np.abs(value), initial=0.0) >= 1e4 else {}
    y = y_axis(
        "value",
        None,
        scale=alt.Scale(zero=False, type="log" if ratio else "linear"),
        axis=alt.Axis(tickCount=4, **large),
    )
    base = alt.Chart(points).encode(x=x, y=y, tooltip=tips(q="#components", value="#value"))
    layers = [
        base.mark_line(style="eg-soft"),
        base.mark_point(style="eg-hollow", size=26, opacity=1.0),
    ]
    level = LEVELS.get(curve.better)
    if level is not None:
        layers.insert(0, alt.Chart(data(value=[level])).mark_rule(style="eg-guide").encode(y=y))
    if pick in set(q.tolist()):
        layers.append(
            base.transform_filter("datum.pick == 'picked'").mark_point(
                style="eg-accent", shape="triangle-up", filled=True, size=95, opacity=1.0
            )
        )
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
        layers.append(base.mark_point(style="eg-main", filled=True, size=22, opacity=1.0))
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
        layers.append(alt.Chart(limit).mark_rule(style="eg-guide").encode(y=y))
        layers.append(
            alt.Chart(limit)
            .mark_text(style="eg-note", align="left", baseline="bottom", dx=4, dy=-2)
            .encode(x=alt.value(0), y=y, text=words())
        )
    return alt.layer(*layers).properties(width=WIDE, height=HIGH)
