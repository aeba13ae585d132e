"""Arrows from the origin with labels at their tips."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from eigengap.linalg import Array
from eigengap.plots._altair import alt
from eigengap.plots.drawing import Frame, data, tips, words
from eigengap.plots.placing import place

MOST_DRAWN, MOST_LABELLED = 300, 30


def longest(size: Array) -> tuple[NDArray[np.intp], NDArray[np.intp], str]:
    """Which arrows are drawn, which of these are labelled, and words where that is not all."""
    order = np.argsort(-size, kind="stable")
    drawn = np.sort(order[:MOST_DRAWN])
    shown = np.flatnonzero(np.isin(drawn, order[:MOST_LABELLED]))
    note = ""
    if len(drawn) < len(size):
        note = f"The {len(drawn)} longest of {len(size):,} arrows are drawn, {len(shown)} labelled."
    elif len(shown) < len(size):
        note = f"The {len(shown)} longest of {len(size):,} arrows are labelled."
    return drawn, shown, note


def arrows(
    frame: Frame,
    ends: Array,
    names: list[str],
    shown: NDArray[np.intp],
    titles: list[str],
    factor: float = 1.0,
) -> list[Any]:
    """Layers: lines from 0 to the ends (d, 2), heads, and labels of those that are shown.

    `ends` are drawn `factor` times as long as they are; tooltips have them as they are.
    """
    at = ends * factor
    angle = np.degrees(np.arctan2(at[:, 0], at[:, 1])) % 360.0  # clockwise from upwards
    drawn = data(
        x=at[:, 0],
        y=at[:, 1],
        zero=np.zeros(len(at)),
        angle=angle,
        name=names,
        first=ends[:, 0],
        second=ends[:, 1],
    )
    base = alt.Chart(drawn).encode(
        tooltip=tips(name="", first="#" + titles[0], second="#" + titles[1])
    )
    lines = base.mark_rule(style="eg-accent", strokeWidth=1.4, opacity=0.9).encode(
        x=frame.encode_x("zero"), y=frame.encode_y("zero"), x2="x", y2="y"
    )
    turned = alt.Scale(domain=[0, 360], range=[0, 360])
    heads = base.mark_point(
        style="eg-accent", shape="triangle", filled=True, size=55, opacity=1.0
    ).encode(
        x=frame.encode_x(),
        y=frame.encode_y(),
        angle=alt.Angle(field="angle", type="quantitative", scale=turned),
    )
    return [lines, heads, *side_labels(frame, at[shown], [names[j] for j in shown])]


def haloed(base: Any, **how: Any) -> list[Any]:
    """Text that can be read on top of points: twice, first in the colour of the page."""
    return [base.mark_text(style="eg-halo", **how), base.mark_text(style="eg-label", **how)]


def side_labels(frame: Frame, at: Array, names: list[str]) -> list[Any]:
    """Names beside positions (k, 2), apart from each other, with a line to those that are far."""
    if not names:
        return []
    placed = place(frame, at, names)
    layers: list[Any] = []
    far = np.flatnonzero(placed.far)
    if len(far):
        leads = data(x=at[far, 0], y=at[far, 1], x2=placed.anchor[far, 0], y2=placed.anchor[far, 1])
        layers.append(
            alt.Chart(leads)
            .mark_rule(style="eg-leader")
            .encode(x=frame.encode_x(), y=frame.encode_y(), x2="x2", y2="y2")
        )
    for side, chosen in (("left", placed.right), ("right", ~placed.right)):
        k = np.flatnonzero(chosen)
        if len(k):
            some = data(x=placed.anchor[k, 0], y=placed.anchor[k, 1], said=[names[i] for i in k])
            base = alt.Chart(some).encode(x=frame.encode_x(), y=frame.encode_y(), text=words())
            layers += haloed(base, align=side, baseline="middle")
    return layers
