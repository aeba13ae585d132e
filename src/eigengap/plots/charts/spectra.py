"""Eigenvalues: the scree plot, and the spectrum against that of noise alone.

The scree plot has the largest eigengap, and how many components the criteria choose. Noise alone
follows the law of Marchenko and Pastur.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from eigengap.estimators.shared.display import public_name, require_fitted
from eigengap.linalg import Array
from eigengap.plots._altair import alt
from eigengap.plots.drawing import Chart, data, dots, finish, tips, upper, words, x_axis, y_axis
from eigengap.plots.numbers.names import label
from eigengap.plots.numbers.rows import inner
from eigengap.plots.numbers.spectrum import (
    AgainstNoise,
    Eigenvalues,
    Gap,
    against_noise,
    eigenvalues,
)
from eigengap.selection.rank.choice import NAMES, RankChoice

MOST_SHOWN = 40  # eigenvalues
CUMULATIVE = 110  # height of the second panel
WIDTH = 480
LETTER = 5.7  # points that a letter of these words takes, about
HEADROOM = 1.16  # above the largest eigenvalue, for the words on the eigengap
ROOM_BELOW = 45.0  # per cent of the variance at the right, above which words fit below the line
HEIGHT = 240  # of the spectrum
FAR = 4.0  # times the edge of noise, beyond which the axis is logarithmic


def scree(estimator: Any, *, choice: RankChoice | None = None) -> Chart:
    """Eigenvalues with their largest gap, and the share of the variance that they add up to.

    Parameters
    ----------
    estimator : fitted estimator
        One that has a spectrum.
    choice : RankChoice, default=None
        What the criteria for the number of components choose, drawn below; None takes
        `estimator.rank_choice_` where it is there.

    Returns
    -------
    altair chart

    Notes
    -----
    Filled points are the components that the estimator keeps. The gap is that of the criterion
    "eigengap" of `choose_rank`, taken from `choice` where it is there: the largest ratio of an
    eigenvalue to the next. With missing values a model of q components has q + 1 values, q
    eigenvalues and the mean of all others; without a choice the gap is then the largest among
    these q.

    Examples
    --------
    >>> from eigengap import PCA
    >>> from eigengap.plots import scree
    >>> from sklearn.datasets import load_iris
    >>> chart = scree(PCA().fit(load_iris().data))
    >>> chart.to_dict()["title"]["text"]
    'Scree plot of PCA'
    """
    require_fitted(estimator)
    if choice is None:
        choice = getattr(inner(estimator), "rank_choice_", None)
    found = eigenvalues(estimator, choice)
    shown = min(len(found.values), MOST_SHOWN)
    last = shown + (1 if found.rest is not None and shown == len(found.values) else 0)
    picks = {} if choice is None else {n: k for n, k in choice.criteria.items() if k <= MOST_SHOWN}
    last = max([last, *picks.values()])
    x = _components(last, found.share is None and not picks)
    parts = [_values(found, shown, x, last)]
    if found.share is not None:
        parts.append(_cumulative(found, shown, _components(last, not picks)))
    if picks:
        parts.append(_criteria(picks, _components(last)))
    chart = alt.vconcat(*parts, spacing=14) if len(parts) > 1 else parts[0]
    name = public_name(estimator)
    return finish(chart, f"Scree plot of {name}", *_on_scree(found, shown, choice), width=WIDTH)


def _components(last: int, is_last: bool = True) -> alt.X:
    """The axis that all panels share, labelled at the last of them."""
    ticks = list(range(1, last + 1, max(1, -(-last // 20))))
    axis = alt.Axis(values=ticks, format="d", grid=False, labels=is_last, ticks=is_last)
    scale = alt.Scale(domain=[0.5, last + 0.5], nice=False, zero=False)
    return x_axis("k", "component" if is_last else None, axis=axis, scale=scale)


def _values(found: Eigenvalues, shown: int, x: alt.X, last: int) -> Chart:
    k = np.arange(1, shown + 1)
    lam = found.values[:shown]
    kept = np.where(k <= found.kept, "kept", "not kept")
    share = np.full(shown, np.nan) if found.share is None else 100.0 * found.share[:shown]
    points = data(k=k, value=lam, kept=kept, share=share)
    layers: list[Any] = []
    scale = alt.Scale(zero=True)
    if found.gap is not None and found.gap.k < last:
        layers += _gap(found.gap, x, last)
        scale = alt.Scale(zero=True, domainMax=HEADROOM * float(lam.max()), nice=False)
    y = y_axis("value", found.what, scale=scale)
    layers.append(alt.Chart(points).mark_line(style="eg-soft").encode(x=x, y=y))
    if found.noise is not None:
        noise = data(value=[found.noise], said=[f"noise variance σ² = {found.noise:.3g}"])
        layers += [
            alt.Chart(noise).mark_rule(style="eg-guide").encode(y=y),
            alt.Chart(noise)
            .mark_text(style="eg-note", align="right", baseline="bottom", dy=-8)
            .encode(x=alt.value(WIDTH - 4), y=y, text=words()),
        ]
    tip = tips(k="#component", value="#" + found.what, share="#share of the variance, %", kept="")
    layers += _dots(alt.Chart(points).encode(x=x, y=y, tooltip=tip), 75, 60)
    if found.rest is not None and shown == len(found.values):
        rest = data(k=[shown + 1], value=[found.rest], count=[found.n_rest])
        tip = tips(value="#mean of all others", count="#how many these are")
        hollow: Any = {"style": "eg-hollow", "shape": "diamond", "size": 90, "opacity": 1.0}
        layers.append(alt.Chart(rest).mark_point(**hollow).encode(x=x, y=y, tooltip=tip))
    return alt.layer(*layers).properties(width=WIDTH, height=210)


def _dots(base: Any, kept: int, not_kept: int) -> list[Any]:
    """Components that are kept as filled points of this size, the others as hollow ones."""
    hollow = base.transform_filter("datum.kept != 'kept'")
    return [
        dots(base, "eg-main", kept, "datum.kept == 'kept'"),
        hollow.mark_point(style="eg-hollow", size=not_kept, opacity=1.0),
    ]


def _gap(gap: Gap, x: alt.X, last: int) -> list[Any]:
    text = f"largest {'known ' if gap.is_partial else ''}eigengap {gap}"
    band = data(k=[gap.k], next=[gap.k + 1], said=[text])
    label = alt.Chart(band).mark_text(style="eg-accent-label", align="left", baseline="top", dy=4)
    at = alt.value(_beside(gap.k, last, LETTER * len(text)))
    return [
        alt.Chart(band).mark_rect(style="eg-band").encode(x=x, x2="next"),
        label.encode(x=at, y=alt.value(0), text=words()),
    ]


def _beside(k: int, last: int, wide: float) -> float:
    """Where a text starts that stands to the right of the band from k to k + 1, or to its left.

    Where there is no room for either it stands within the frame and on the band.
    """
    unit = WIDTH / last
    left, right = (k - 0.5) * unit, (k + 0.5) * unit
    if right + 6 + wide <= WIDTH:
        return right + 6
    return left - 6 - wide if left - 6 - wide >= 0 else max(min(right, WIDTH) - wide - 6, 4.0)


def _cumulative(found: Eigenvalues, shown: int, x: alt.X) -> Chart:
    assert found.share is not None
    k = np.arange(1, shown + 1)
    together = 100.0 * np.cumsum(np.maximum(found.share, 0.0))[:shown]
    points = data(k=k, share=together, kept=np.where(k <= found.kept, "kept", "not kept"))
    ticks = alt.Axis(values=[0, 25, 50, 75, 100])
    y = y_axis("share", "cumulative share, %", scale=alt.Scale(domain=[0, 100]), axis=ticks)
    base = alt.Chart(points).encode(x=x, y=y, tooltip=tips(k="#component", share="#together, %"))
    at = min(found.kept, shown)
    said = data(said=[f"{together[at - 1]:.1f} % in {at}"])
    # A line that rises leaves a corner free: the lower right one, or the upper left one.
    below = bool(together[max(0, shown - 1 - shown // 3)] > ROOM_BELOW)
    how: Any = {"align": "left", "baseline": "top"}
    x_of_note, y_of_note = 6, 6
    if below:
        how = {"align": "right", "baseline": "bottom"}
        x_of_note, y_of_note = WIDTH - 6, CUMULATIVE - 6
    note = (
        alt.Chart(said)
        .mark_text(style="eg-label", **how)
        .encode(x=alt.value(x_of_note), y=alt.value(y_of_note), text=words())
    )
    filled, hollow = _dots(base, 60, 50)
    return alt.layer(base.mark_line(style="eg-soft"), hollow, filled, note).properties(
        width=WIDTH, height=CUMULATIVE
    )


def _criteria(picks: dict[str, int], x: alt.X) -> Chart:
    names = [label(NAMES.get(name, name), 40) for name in picks]
    found = list(picks.values())
    points = data(k=[max(k, 0.5) for k in found], name=names, pick=found)
    y = alt.Y(field="name", type="nominal", title=None, sort=names, axis=alt.Axis(grid=True))
    title = alt.TitleParams(
        "what each criterion chooses", fontSize=12, fontWeight="normal", offset=4, frame="bounds"
    )
    marks = dots(alt.Chart(points), "eg-second", 75, shape="triangle-up")
    chart = marks.encode(x=x, y=y, tooltip=tips(name="criterion", pick="#chooses"))
    return chart.properties(width=WIDTH, height=18 * len(names), title=title)


def _on_scree(found: Eigenvalues, shown: int, choice: RankChoice | None) -> list[str]:
    kept = f"Filled: the {_count(found.kept, 'component')} kept."
    if found.kept >= len(found.values) and found.rest is None:
        kept = f"All of the {_count(len(found.values), 'known eigenvalue')} are kept."
    if shown < len(found.values):
        kept += f" The first {shown} of {len(found.values)} known eigenvalues are shown."
    rest = ""
    if found.rest is not None:
        rest = (
            f"{len(found.values) + 1} values are known: {_count(len(found.values), 'eigenvalue')}, "
            f"and the mean of the {found.n_rest} others (diamond)."
        )
    unit = "Variances of standardised columns." if found.standardised else ""
    return [kept, rest, unit, upper(choice.summary if choice is not None else "")]


def _count(k: int, what: str) -> str:
    return f"{k} {what}" if k == 1 else f"{k} {what}s"


# Against noise ---------------------------------------------------------------------------------


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
    there by chance follows from the law of Tracy and Widom.

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
    low, high = found.law.edges
    x = (np.geomspace if axis.is_log else np.linspace)(max(low, axis.domain[0]), high, 161)
    density = found.law.density(x) * (x * np.log(10.0) if axis.is_log else 1.0)
    law = alt.Chart(data(x=x, density=density)).mark_line(style="eg-main", strokeWidth=2)
    law = law.encode(x=axis.encode("x"), y=axis.height)
    layers = [*_bars(found, axis), law, *_edge(high, axis), _ticks(found, axis)]
    chart = alt.layer(*layers).properties(width=WIDTH, height=HEIGHT)
    name = public_name(estimator)
    return finish(chart, f"Spectrum of {name} against noise", *_on_noise(found), width=WIDTH)


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
        kind: Any = "log" if self.is_log else "linear"
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


def _edge(high: float, axis: _Axis) -> list[Any]:
    rule = data(x=[high], said=[f"edge of noise {high:.3g}"])
    base = alt.Chart(rule).encode(x=axis.encode("x"))
    low, top = axis.domain
    share = np.log(high / low) / np.log(top / low) if axis.is_log else (high - low) / (top - low)
    side: Any = {"align": "right", "dx": -5} if share > 0.6 else {"align": "left", "dx": 5}
    return [
        base.mark_rule(style="eg-accent", strokeDash=[5, 3], strokeWidth=1.6),
        base.mark_text(style="eg-accent-label", baseline="top", dy=2, **side).encode(
            y=alt.value(0), text=words()
        ),
    ]


def _ticks(found: AgainstNoise, axis: _Axis) -> Any:
    shown = found.values[found.values >= axis.domain[0]][:2000]
    k = np.arange(1, len(shown) + 1)
    where = np.where(shown > found.law.edges[1], "beyond the edge", "within noise")
    points = data(value=shown, k=k, where=where)
    base = alt.Chart(points).encode(
        x=axis.encode("value"), tooltip=tips(k="#component", value="#eigenvalue", where="")
    )
    inside = base.transform_filter("datum.where == 'within noise'")
    beyond = dots(base, "eg-accent", 80, "datum.where != 'within noise'", shape="triangle-down")
    return alt.layer(
        inside.mark_tick(style="eg-main", thickness=1.2, height=9).encode(y=alt.value(HEIGHT - 6)),
        beyond.encode(y=alt.value(HEIGHT - 8)),
    )


def _on_noise(found: AgainstNoise) -> list[str]:
    count, edge = found.exceeding, found.law.edges[1]
    if count == 0:
        first = f"No eigenvalue lies beyond the edge of noise at {edge:.3g}."
    else:
        lie = "eigenvalue lies" if count == 1 else "eigenvalues lie"
        first = f"{count} {lie} beyond the edge of noise at {edge:.3g}."
        some = found.beyond_chance
        sure = {0: "none", count: "all" if count > 1 else "it is"}.get(some, f"the first {some}")
        first += f" Beyond what chance explains (95 %, {found.law.by_chance:.3g}): {sure}."
    law = found.law
    formula = (
        f"Edge σ² (1 + √(d / n))² with n = {law.n:,.0f} (rows less one), d = {law.d:,}, and "
        f"σ² = {law.sigma2:.3g} left by {found.kept} component{'s' if found.kept != 1 else ''}."
    )
    partly = "" if found.complete else f"{len(found.values)} of {law.d} eigenvalues are known."
    return [first, formula, partly]
