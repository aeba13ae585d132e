"""The spectrum beside what noise alone would have: the law of Marchenko and Pastur."""

from __future__ import annotations

from typing import Any

import numpy as np

from eigengap.estimators.shared.display import public_name, require_fitted
from eigengap.linalg import Array
from eigengap.plots._altair import alt
from eigengap.plots.drawing import Chart, data, finish, quantity, tips, words
from eigengap.plots.numbers.marchenko_pastur import AgainstNoise, against_noise

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
    high = found.law.edges[1]
    is_log = bool(len(found.values)) and float(found.values[0]) > FAR * high
    axis = _Axis(found, is_log)
    layers = [*_bars(found, axis), _law(found, axis), *_edge(high, axis), _ticks(found, axis)]
    chart = alt.layer(*layers).properties(width=WIDTH, height=HEIGHT)
    name = public_name(estimator)
    return finish(chart, f"Spectrum of {name} against noise", *_notes(found), width=WIDTH)


class _Axis:
    """Eigenvalues across, plain or logarithmic; densities are per unit of the axis."""

    def __init__(self, found: AgainstNoise, is_log: bool) -> None:
        low, high = found.law.edges
        positive = found.values[found.values > 1e-9 * high]
        top = max(float(positive[0]) if len(positive) else high, high)
        self.is_log = is_log
        if is_log:
            least = max(min(float(positive[-1]), low if low > 0 else high), 1e-4 * high)
            self.domain = (least / 1.35, top * 1.35)
        else:
            self.domain = (0.0, top * 1.08)

    def encode(self, field: str) -> alt.X:
        title = "eigenvalue (logarithmic axis)" if self.is_log else "eigenvalue"
        scale = alt.Scale(
            type="log" if self.is_log else "linear", domain=list(self.domain), nice=False
        )
        axis = alt.Axis(grid=False, tickCount=6, format="~g")
        return alt.X(field=field, type="quantitative", title=title, scale=scale, axis=axis)

    def grid(self, low: float, high: float, k: int) -> Array:
        low = max(low, self.domain[0])
        return np.geomspace(low, high, k) if self.is_log else np.linspace(low, high, k)

    def bins(self, edge: float, k: int) -> Array:
        """About k bins of one width, one of which ends at the edge."""
        low, high = (np.log(v) if self.is_log else v for v in self.domain)
        at = np.log(edge) if self.is_log else edge
        step = (high - low) / k
        marks = at + step * np.arange(-np.ceil((at - low) / step), np.ceil((high - at) / step) + 1)
        marks = np.clip(marks, low, high)
        return np.unique(np.exp(marks) if self.is_log else marks)

    def per_unit(self, x: Array) -> Array:
        """Density per decade where the axis is logarithmic."""
        return x * np.log(10.0) if self.is_log else np.ones(len(x))

    def width(self, edges: Array) -> Array:
        return np.diff(np.log10(edges) if self.is_log else edges)


def _height(title: str | None = None) -> alt.Y:
    axis = alt.Axis(grid=True, tickCount=5)
    return alt.Y(**quantity("density", title, scale=alt.Scale(zero=True), axis=axis))


def _title(axis: _Axis) -> str:
    return "density per decade" if axis.is_log else "density"


def _bars(found: AgainstNoise, axis: _Axis) -> list[Any]:
    values = found.values[found.values >= axis.domain[0]]
    if not found.complete or len(values) < 20:
        return []
    edges = axis.bins(found.law.edges[1], int(np.clip(2 * np.sqrt(len(values)), 8, 60)))
    count, _ = np.histogram(values, edges)
    height = count / (max(found.law.d, 1) * axis.width(edges))
    bars = data(low=edges[:-1], high=edges[1:], density=height, count=count)
    return [
        alt.Chart(bars)
        .mark_rect(style="eg-soft", opacity=0.55)
        .encode(
            x=axis.encode("low"),
            x2="high",
            y=_height(_title(axis)),
            y2=alt.datum(0),
            tooltip=tips(count="#eigenvalues", low="#from", high="#to"),
        )
    ]


def _law(found: AgainstNoise, axis: _Axis) -> Any:
    low, high = found.law.edges
    x = axis.grid(low, high, 161)
    density = found.law.density(x) * axis.per_unit(x)
    line = data(x=x, density=density)
    return (
        alt.Chart(line)
        .mark_line(style="eg-main", strokeWidth=2)
        .encode(x=axis.encode("x"), y=_height(_title(axis)))
    )


def _edge(high: float, axis: _Axis) -> list[Any]:
    rule = data(x=[high], said=[f"edge of noise {high:.3g}"])
    base = alt.Chart(rule).encode(x=axis.encode("x"))
    low, top = axis.domain
    share = np.log(high / low) / np.log(top / low) if axis.is_log else (high - low) / (top - low)
    left = share > 0.6
    return [
        base.mark_rule(style="eg-accent", strokeDash=[5, 3], strokeWidth=1.6),
        base.mark_text(
            style="eg-accent-label",
            align="right" if left else "left",
            baseline="top",
            dx=-5 if left else 5,
            dy=2,
        ).encode(y=alt.value(0), text=words()),
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
