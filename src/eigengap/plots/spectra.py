"""Scree plot: the eigenvalues, their largest gap, and how many components the criteria choose."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from eigengap.estimators._plot import require_fitted
from eigengap.plots._altair import alt
from eigengap.plots.drawing import Chart, data, finish, kind, quantity, tips, upper, words
from eigengap.plots.numbers.eigenvalues import Eigenvalues, eigenvalues
from eigengap.plots.numbers.names import label
from eigengap.plots.numbers.rows import inner
from eigengap.rank.choice import RankChoice
from eigengap.rank.consensus import NAMES

MOST_SHOWN = 40  # eigenvalues
WIDTH = 480


def scree(estimator: Any, *, choice: RankChoice | None = None) -> Chart:
    """Eigenvalues with their largest gap, and the share of the variance that they add up to.

    Parameters
    ----------
    estimator : fitted estimator
        One that knows a spectrum.
    choice : RankChoice, default=None
        What the criteria for the number of components say, drawn below; None takes
        `estimator.rank_choice_` where it is there.

    Returns
    -------
    altair chart

    Notes
    -----
    Filled points are the components that the estimator keeps. The gap is that of the criterion
    "eigengap" of `choose_rank`: the largest ratio of an eigenvalue to the next. Under gaps a model
    of q components knows q + 1 values: q eigenvalues and the mean of all others.

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
    found = eigenvalues(estimator)
    if choice is None:
        choice = getattr(inner(estimator), "rank_choice_", None)
    shown = min(len(found.values), MOST_SHOWN)
    last = shown + (1 if found.rest is not None and shown == len(found.values) else 0)
    picks = {} if choice is None else {n: k for n, k in choice.criteria.items() if k <= MOST_SHOWN}
    last = max([last, *picks.values()])
    axis = _Components(last)
    parts = [_values(found, shown, axis, is_last=found.share is None and not picks)]
    if found.share is not None:
        parts.append(_cumulative(found, shown, axis, is_last=not picks))
    if picks:
        parts.append(_criteria(picks, axis))
    chart = alt.vconcat(*parts, spacing=14) if len(parts) > 1 else parts[0]
    name = type(estimator).__name__
    return finish(chart, f"Scree plot of {name}", *_notes(found, shown, choice), width=WIDTH)


class _Components:
    """The axis that all panels share."""

    def __init__(self, last: int) -> None:
        self.last = last
        step = max(1, -(-last // 20))
        self.ticks = list(range(1, last + 1, step))

    def encode(self, field: str = "k", *, labelled: bool = True) -> alt.X:
        axis = alt.Axis(values=self.ticks, format="d", grid=False, labels=labelled, ticks=labelled)
        title = "component" if labelled else None
        scale = alt.Scale(domain=[0.5, self.last + 0.5], nice=False, zero=False)
        return alt.X(field=field, type="quantitative", title=title, axis=axis, scale=scale)


def _values(found: Eigenvalues, shown: int, axis: _Components, *, is_last: bool) -> Chart:
    k = np.arange(1, shown + 1)
    lam = found.values[:shown]
    kept = np.where(k <= found.kept, "kept", "not kept")
    share = np.full(shown, np.nan) if found.share is None else 100.0 * found.share[:shown]
    points = data(k=k, value=lam, kept=kept, share=share)
    x = axis.encode(labelled=is_last)
    y = alt.Y(**quantity("value", found.what, scale=alt.Scale(zero=True)))
    layers: list[Any] = []
    if found.gap is not None and found.gap.k < axis.last:
        layers += _gap(found, axis, is_last)
    layers.append(alt.Chart(points).mark_line(style="eg-soft").encode(x=x, y=y))
    if found.noise is not None:
        noise = data(value=[found.noise], said=[f"noise variance σ² = {found.noise:.3g}"])
        layers.append(alt.Chart(noise).mark_rule(style="eg-guide").encode(y=y))
        layers.append(
            alt.Chart(noise)
            .mark_text(style="eg-note", align="left", baseline="bottom", dy=-3)
            .encode(x=alt.value(4), y=y, text=words())
        )
    tip = tips(k="#component", value="#" + found.what, share="#share of the variance, %", kept="")
    dots = alt.Chart(points).encode(x=x, y=y, tooltip=tip)
    layers.append(
        dots.transform_filter("datum.kept == 'kept'").mark_point(
            style="eg-main", filled=True, size=75, opacity=1.0
        )
    )
    layers.append(
        dots.transform_filter("datum.kept != 'kept'").mark_point(
            style="eg-hollow", size=60, opacity=1.0
        )
    )
    if found.rest is not None and shown == len(found.values):
        rest = data(k=[shown + 1], value=[found.rest], count=[found.n_rest])
        layers.append(
            alt.Chart(rest)
            .mark_point(style="eg-hollow", shape="diamond", size=90, opacity=1.0)
            .encode(
                x=x, y=y, tooltip=tips(value="#mean of all others", count="#how many these are")
            )
        )
    return alt.layer(*layers).properties(width=WIDTH, height=210)


def _gap(found: Eigenvalues, axis: _Components, is_last: bool) -> list[Any]:
    assert found.gap is not None
    k = found.gap.k
    band = data(k=[k], next=[k + 1], middle=[k + 0.5], said=[f"largest eigengap {found.gap}"])
    x = axis.encode(labelled=is_last)
    wide = WIDTH / axis.last > 200  # so that the text stands within the band
    beyond = not wide and k > 0.55 * axis.last
    side: Literal["left", "center", "right"] = "right" if beyond else "left"
    if wide:
        side = "center"
    at = "middle" if wide else "k" if beyond else "next"
    return [
        alt.Chart(band).mark_rect(style="eg-band").encode(x=x, x2="next"),
        alt.Chart(band)
        .mark_text(
            style="eg-accent-label",
            align=side,
            baseline="top",
            dx={"center": 0, "right": -6, "left": 6}[side],
            dy=4,
        )
        .encode(x=axis.encode(at, labelled=is_last), y=alt.value(0), text=words()),
    ]


def _cumulative(found: Eigenvalues, shown: int, axis: _Components, *, is_last: bool) -> Chart:
    assert found.share is not None
    k = np.arange(1, shown + 1)
    together = 100.0 * np.cumsum(np.maximum(found.share, 0.0))[:shown]
    points = data(k=k, share=together, kept=np.where(k <= found.kept, "kept", "not kept"))
    y = alt.Y(
        **quantity(
            "share",
            "cumulative share, %",
            scale=alt.Scale(domain=[0, 100]),
            axis=alt.Axis(values=[0, 25, 50, 75, 100]),
        )
    )
    x = axis.encode(labelled=is_last)
    base = alt.Chart(points).encode(x=x, y=y, tooltip=tips(k="#component", share="#together, %"))
    at = min(found.kept, shown)
    said = data(k=[at], share=[together[at - 1]], said=[f"{together[at - 1]:.1f} % in {at}"])
    left = at > 0.6 * axis.last
    note = (
        alt.Chart(said)
        .mark_text(
            style="eg-label",
            align="right" if left else "left",
            baseline="top",
            dx=-2 if left else 2,
            dy=9,
        )
        .encode(x=x, y=y, text=words())
    )
    return alt.layer(
        base.mark_line(style="eg-soft"),
        base.transform_filter("datum.kept != 'kept'").mark_point(
            style="eg-hollow", size=50, opacity=1.0
        ),
        base.transform_filter("datum.kept == 'kept'").mark_point(
            style="eg-main", filled=True, size=60, opacity=1.0
        ),
        note,
    ).properties(width=WIDTH, height=110)


def _criteria(picks: dict[str, int], axis: _Components) -> Chart:
    names = [label(NAMES.get(name, name), 40) for name in picks]
    found = list(picks.values())
    points = data(k=[max(k, 0.5) for k in found], name=names, pick=found)
    y = alt.Y(**kind("name", None, sort=names, axis=alt.Axis(grid=True)))
    return (
        alt.Chart(points)
        .mark_point(style="eg-second", shape="triangle-up", filled=True, size=75, opacity=1.0)
        .encode(x=axis.encode(), y=y, tooltip=tips(name="criterion", pick="#chooses"))
        .properties(
            width=WIDTH, height=18 * len(names), title=_small("what each criterion chooses")
        )
    )


def _small(text: str) -> alt.TitleParams:
    return alt.TitleParams(text=text, fontSize=12, fontWeight="normal", offset=4, frame="bounds")


def _notes(found: Eigenvalues, shown: int, choice: RankChoice | None) -> list[str]:
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
