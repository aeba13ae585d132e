"""Scree plot: the eigenvalues, their largest gap, and how many components the criteria choose."""

from __future__ import annotations

from typing import Any

import numpy as np

from eigengap.estimators.shared.display import public_name, require_fitted
from eigengap.plots._altair import alt
from eigengap.plots.drawing import Chart, data, finish, kind, tips, upper, words, x_axis, y_axis
from eigengap.plots.numbers.names import label
from eigengap.plots.numbers.rows import inner
from eigengap.plots.numbers.spectrum import Eigenvalues, Gap, eigenvalues
from eigengap.selection.rank.choice import RankChoice
from eigengap.selection.rank.consensus import NAMES

MOST_SHOWN = 40  # eigenvalues
CUMULATIVE = 110  # height of the second panel
WIDTH = 480
LETTER = 5.7  # points that a letter of these words takes, about
HEADROOM = 1.16  # above the largest eigenvalue, for the words on the gap
ROOM_BELOW = 45.0  # per cent of the variance at the right, above which words fit below the line


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
    "eigengap" of `choose_rank`, taken from `choice` where it is there: the largest ratio of an
    eigenvalue to the next. With missing values a model of q components knows q + 1 values, q
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
    return finish(chart, f"Scree plot of {name}", *_notes(found, shown, choice), width=WIDTH)


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
        layers.append(
            alt.Chart(rest)
            .mark_point(style="eg-hollow", shape="diamond", size=90, opacity=1.0)
            .encode(
                x=x, y=y, tooltip=tips(value="#mean of all others", count="#how many these are")
            )
        )
    return alt.layer(*layers).properties(width=WIDTH, height=210)


def _dots(base: Any, kept: int, not_kept: int) -> list[Any]:
    """Components that are kept as filled points of this size, the others as hollow ones."""
    return [
        base.transform_filter("datum.kept == 'kept'").mark_point(
            style="eg-main", filled=True, size=kept, opacity=1.0
        ),
        base.transform_filter("datum.kept != 'kept'").mark_point(
            style="eg-hollow", size=not_kept, opacity=1.0
        ),
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
    align, baseline = ("right", "bottom") if below else ("left", "top")
    corner = (WIDTH - 6, CUMULATIVE - 6) if below else (6, 6)
    note = (
        alt.Chart(said)
        .mark_text(style="eg-label", align=align, baseline=baseline)
        .encode(x=alt.value(corner[0]), y=alt.value(corner[1]), text=words())
    )
    filled, hollow = _dots(base, 60, 50)
    return alt.layer(base.mark_line(style="eg-soft"), hollow, filled, note).properties(
        width=WIDTH, height=CUMULATIVE
    )


def _criteria(picks: dict[str, int], x: alt.X) -> Chart:
    names = [label(NAMES.get(name, name), 40) for name in picks]
    found = list(picks.values())
    points = data(k=[max(k, 0.5) for k in found], name=names, pick=found)
    y = alt.Y(**kind("name", None, sort=names, axis=alt.Axis(grid=True)))
    small = {"fontSize": 12, "fontWeight": "normal", "offset": 4, "frame": "bounds"}
    title = alt.TitleParams("what each criterion chooses", **small)
    return (
        alt.Chart(points)
        .mark_point(style="eg-second", shape="triangle-up", filled=True, size=75, opacity=1.0)
        .encode(x=x, y=y, tooltip=tips(name="criterion", pick="#chooses"))
        .properties(width=WIDTH, height=18 * len(names), title=title)
    )


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
