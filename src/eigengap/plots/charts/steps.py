"""How an iterative fit climbed to its end."""

from __future__ import annotations

from typing import Any

import numpy as np

from eigengap.estimators.shared.display import public_name, require_fitted
from eigengap.plots._altair import alt
from eigengap.plots.drawing import Chart, data, finish, kind, tips, words, x_axis, y_axis
from eigengap.plots.numbers.spectrum import Steps, trace_numbers

WIDTH, HEIGHT = 290, 220
MOST_STEPS = 2000


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
    chart = alt.hconcat(_objective(found, kept), _left(found, kept), spacing=30).resolve_scale(
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
        width=2 * WIDTH,
    )


def _steps() -> alt.X:
    return x_axis("step", "step", axis=alt.Axis(format="d", tickMinStep=1, grid=False))


def _objective(found: Steps, kept: Any) -> Any:
    points = data(step=found.step[kept], value=found.objective[kept])
    base = alt.Chart(points).encode(
        x=_steps(),
        y=y_axis("value", found.what, scale=alt.Scale(zero=False)),
        tooltip=tips(step="#step", value="#" + found.what),
    )
    layers = [base.mark_line(style="eg-main")]
    if len(kept) <= 60:
        layers.append(base.mark_point(style="eg-main", filled=True, size=22, opacity=1.0))
    return alt.layer(*layers).properties(width=WIDTH, height=HEIGHT)


def _left(found: Steps, kept: Any) -> Any:
    order = ["left to the end", "size of the step"]
    value = np.concatenate([found.distance[kept], found.change[kept]])
    good = np.isfinite(value) & (value > 0.0)  # the axis is logarithmic
    step, name = np.tile(found.step[kept], 2), np.repeat(order, len(kept))
    ticks = alt.Axis(format=".0e", tickCount=6)
    y = y_axis("value", "logarithmic axis", scale=alt.Scale(type="log"), axis=ticks)
    colours = {"scale": alt.Scale(domain=order), "legend": alt.Legend(orient="top")}
    dashes = alt.Scale(domain=order, range=[[1, 0], [5, 3]])
    base = alt.Chart(data(step=step[good], value=value[good], name=name[good])).encode(
        x=_steps(),
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
    return alt.layer(*layers).properties(width=WIDTH, height=HEIGHT)
