"""How an iterative fit climbed to its end."""

from __future__ import annotations

from typing import Any

import numpy as np

from eigengap.estimators.shared.display import public_name, require_fitted
from eigengap.plots._altair import alt
from eigengap.plots.drawing import Chart, data, finish, quantity, tips, words
from eigengap.plots.numbers.steps import Steps, trace_numbers

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
        At the right, on a logarithmic axis, what was left to gain, and the size of each step beside
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
    kept = _thinned(len(found.step))
    chart = alt.hconcat(_objective(found, kept), _left(found, kept), spacing=30).resolve_scale(
        color="independent", strokeDash="independent"
    )
    said = {True: "converged", False: "NOT converged", None: "ended"}[found.converged]
    steps = f"{len(found.step):,} step{'s' if len(found.step) != 1 else ''}"
    return finish(
        chart,
        f"Fit of {public_name(estimator)}, step by step",
        f"{steps} in {found.seconds:.2g} s, {said}; {found.what} at the end "
        f"{found.objective[-1]:.6g}.",
        "" if len(kept) == len(found.step) else f"{len(kept):,} of the steps are drawn.",
        width=2 * WIDTH,
    )


def _steps() -> alt.X:
    return alt.X(**quantity("step", "step", axis=alt.Axis(format="d", tickMinStep=1, grid=False)))


def _objective(found: Steps, kept: Any) -> Any:
    points = data(step=found.step[kept], value=found.objective[kept])
    base = alt.Chart(points).encode(
        x=_steps(),
        y=alt.Y(**quantity("value", found.what, scale=alt.Scale(zero=False))),
        tooltip=tips(step="#step", value="#" + found.what),
    )
    layers = [base.mark_line(style="eg-main")]
    if len(kept) <= 60:
        layers.append(base.mark_point(style="eg-main", filled=True, size=22, opacity=1.0))
    return alt.layer(*layers).properties(width=WIDTH, height=HEIGHT)


def _left(found: Steps, kept: Any) -> Any:
    series = {"left to the end": found.distance[kept], "size of the step": found.change[kept]}
    step, value, name = [], [], []
    for label, numbers in series.items():
        good = np.isfinite(numbers) & (numbers > 0.0)
        step += found.step[kept][good].tolist()
        value += numbers[good].tolist()
        name += [label] * int(good.sum())
    order = list(series)
    y = alt.Y(
        **quantity(
            "value",
            "logarithmic axis",
            scale=alt.Scale(type="log"),
            axis=alt.Axis(format=".0e", tickCount=6),
        )
    )
    scale = alt.Scale(domain=order)
    base = alt.Chart(data(step=step, value=value, name=name)).encode(
        x=_steps(),
        y=y,
        color=alt.Color(
            field="name", type="nominal", title=None, scale=scale, legend=alt.Legend(orient="top")
        ),
        strokeDash=alt.StrokeDash(
            field="name",
            type="nominal",
            title=None,
            scale=alt.Scale(domain=order, range=[[1, 0], [5, 3]]),
        ),
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


def _thinned(k: int) -> Any:
    """Positions of the steps to draw: all, or as many, evenly, with the first and the last."""
    return np.unique(np.linspace(0, k - 1, min(k, MOST_STEPS)).round().astype(int))
