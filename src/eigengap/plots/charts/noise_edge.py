"""The spectrum against that of noise alone: the law of Marchenko and Pastur."""

from __future__ import annotations

from typing import Any

import numpy as np

from eigengap.estimators.shared.display import public_name, require_fitted
from eigengap.linalg import Array
from eigengap.plots._altair import alt
from eigengap.plots.drawing import Chart, data, finish, tips, words, x_axis, y_axis
from eigengap.plots.numbers.spectrum import AgainstNoise, against_noise

WIDTH, HEIGHT = 480, 240
FAR = 4.0  # times the edge, beyond which the axis is logarithmic


def spectrum(estimator: Any) -> Chart:
    """Eigenvalues against the Marchenko-Pastur law of pure noise.

    Parameters
    ----------
    estimator : fitted PCA, PPCA or BayesianPCA
        Its noise variance sets the law.

    Returns
    -------
    altair chart

    Notes
    -----
    Of n rows of d columns of pure noise of variance sigma2 hardly an eigenvalue lies beyond
    sigma2 (1 + sqrt(d / n))^2, the edge. The bars count the known eigenvalues (as a density), every
    tick is one, the line is the density that noise would have. Which of those beyond the edge are
    there by chance the law of Tracy and Widom tells.

    Examples
    --------
    >>> import numpy as np
    >>> from eigengap import PPCA
    >>> from eigengap.plots import spectrum
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 40)) + 3 * rng.normal(size=(200, 1))
    >>> chart = spectrum(PPCA(1).fit(X))
    >>> chart.to_dict()["title"]["subtitle"][0]
    '2 eigenvalues lie beyond the edge of noise at 2.09. Beyond what chance explains'
    """
    require_fitted(estimator)
    found = against_noise(estimator)
    axis = _Axis(found)
    layers = [*_bars(found, axis), _law(found, axis), *_edge(found, axis), _ticks(found, axis)]
    chart = alt.layer(*layers).properties(width=WIDTH, height=HEIGHT)
    name = public_name(estimator)
    return finish(chart, f"Spectrum of {name} against noise", *_notes(found), width=WIDTH)


class _Axis:
    """Eigenvalues across, plain or logarithmic; densities are per unit of the axis."""

    def __init__(self, found: AgainstNoise) -> None:
        low, high = found.law.edges
        positive = found.values[found.values > 1e-9 * high]
        top = max(float(positive[0]) if len(positive) else high, high)
        self.is_log = bool(len(found.values)) and float(found.values[0]) > FAR * high
        self.domain = (0.0, top * 1.08)
        if self.is_log:
            least = max(min(float(positive[-1]), low if low > 0 else high), 1e-4 * high)
            self.domain = (least / 1.35, top * 1.35)
        title = "density per decade" if self.is_log else "density"
        ticks = alt.Axis(grid=True, tickCount=5)
        self.height = y_axis("density", title, scale=alt.Scale(zero=True), axis=ticks)

    def encode(self, field: str) -> alt.X:
        title = "eigenvalue (logarithmic axis)" if self.is_log else "eigenvalue"
        kind = "log" if self.is_log else "linear"
        scale = alt.Scale(type=kind, domain=list(self.domain), nice=False)
        return x_axis(
            field, title, scale=scale, axis=alt.Axis(grid=False, tickCount=6, format="~g")
        )

    def bins(self, edge: float, k: int) -> Array:
        """About k bins of one width, one of which ends at the edge."""
        low, high = (np.log(v) if self.is_log else v for v in self.domain)
        at = np.log(edge) if self.is_log else edge
        step = (high - low) / k
        marks = at + step * np.arange(-np.ceil((at - low) / step), np.ceil((high - at) / step) + 1)
        marks = np.clip(marks, low, high)
        return np.unique(np.exp(marks) if self.is_log else marks)


def _bars(found: AgainstNoise, axis: _Axis) -> list[Any]:
    values = found.values[found.values >= axis.domain[0]]
    if not found.complete or len(values) < 20:
        return []
    edges = axis.bins(found.law.edges[1], int(np.clip(2 * np.sqrt(len(values)), 8, 60)))
    count, _ = np.histogram(values, edges)
    width = np.diff(np.log10(edges) if axis.is_log else edges)
    height = count / (max(found.law.d, 1) * width)
    bars = data(low=edges[:-1], high=edges[1:], density=height, count=count)
    return [
        alt.Chart(bars)
        .mark_rect(style="eg-soft", opacity=0.55)
        .encode(
            x=axis.encode("low"),
            x2="high",
            y=axis.height,
            y2=alt.datum(0),
            tooltip=tips(count="#eigenvalues", low="#from", high="#to"),
        )
    ]


def _law(found: AgainstNoise, axis: _Axis) -> Any:
    low, high = found.law.edges
    x = (np.geomspace if axis.is_log else np.linspace)(max(low, axis.domain[0]), high, 161)
    density = found.law.density(x) * (x * np.log(10.0) if axis.is_log else 1.0)
    line = alt.Chart(data(x=x, density=density)).mark_line(style="eg-main", strokeWidth=2)
    return line.encode(x=axis.encode("x"), y=axis.height)


def _edge(found: AgainstNoise, axis: _Axis) -> list[Any]:
    high = found.law.edges[1]
    rule = data(x=[high], said=[f"edge of noise {high:.3g}"])
    base = alt.Chart(rule).encode(x=axis.encode("x"))
    low, top = axis.domain
    share = np.log(high / low) / np.log(top / low) if axis.is_log else (high - low) / (top - low)
    align, dx = ("right", -5) if share > 0.6 else ("left", 5)
    return [
        base.mark_rule(style="eg-accent", strokeDash=[5, 3], strokeWidth=1.6),
        base.mark_text(style="eg-accent-label", align=align, baseline="top", dx=dx, dy=2).encode(
            y=alt.value(0), text=words()
        ),
    ]


def _ticks(found: AgainstNoise, axis: _Axis) -> Any:
    shown = found.values[found.values >= axis.domain[0]][:2000]
    k = np.arange(1, len(shown) + 1)
    beyond = np.where(shown > found.law.edges[1], "beyond the edge", "within noise")
    points = data(value=shown, k=k, where=beyond)
    base = alt.Chart(points).encode(
        x=axis.encode("value"), tooltip=tips(k="#component", value="#eigenvalue", where="")
    )
    inside = base.transform_filter("datum.where == 'within noise'")
    outside = base.transform_filter("datum.where != 'within noise'")
    return alt.layer(
        inside.mark_tick(style="eg-main", thickness=1.2, height=9).encode(y=alt.value(HEIGHT - 6)),
        outside.mark_point(
            style="eg-accent", shape="triangle-down", filled=True, size=80, opacity=1.0
        ).encode(y=alt.value(HEIGHT - 8)),
    )


def _notes(found: AgainstNoise) -> list[str]:
    count, edge = found.exceeding, found.law.edges[1]
    if count == 0:
        first = f"No eigenvalue lies beyond the edge of noise at {edge:.3g}."
    else:
        lie = "eigenvalue lies" if count == 1 else "eigenvalues lie"
        first = f"{count} {lie} beyond the edge of noise at {edge:.3g}."
        some = found.beyond_chance
        sure = "all" if some == count > 1 else "it is" if some == count else f"the first {some}"
        if some == 0:
            sure = "none"
        first += f" Beyond what chance explains (95 %, {found.law.by_chance:.3g}): {sure}."
    law = found.law
    formula = (
        f"Edge σ² (1 + √(d / n))² with n = {law.n:,.0f} (rows less one), d = {law.d:,}, and "
        f"σ² = {law.sigma2:.3g} left by {found.kept} component{'s' if found.kept != 1 else ''}."
    )
    partly = "" if found.complete else f"{len(found.values)} of {law.d} eigenvalues are known."
    return [first, formula, partly]
