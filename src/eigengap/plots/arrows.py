"""Arrows from the origin, and labels that neither cover each other nor leave the frame."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eigengap.linalg import Array
from eigengap.plots._altair import alt
from eigengap.plots.drawing import Frame, data, tips, words

MOST_DRAWN, MOST_LABELLED = 300, 30
LETTER, LINE = 6.1, 14.0  # width of a letter and height of a line, in points
GAP = 6.0  # between a tip and its label
ROUNDS = 60
MOST_ADDED = 190.0  # points that labels may add at a side of the frame


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
    """Layers: lines from 0 to the ends (d, 2), heads, and labels of those that are shown."""
    layers = arrow_marks(frame, ends, names, titles, factor)
    labels = side_labels(frame, ends[shown] * factor, [names[j] for j in shown])
    return [*layers, *labels]


def arrow_marks(
    frame: Frame, ends: Array, names: list[str], titles: list[str], factor: float = 1.0
) -> list[Any]:
    """Lines from 0 to the ends (d, 2), and heads.

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
        **frame.encode("zero", "zero"), x2="x", y2="y"
    )
    turned = alt.Scale(domain=[0, 360], range=[0, 360])
    heads = base.mark_point(
        style="eg-accent", shape="triangle", filled=True, size=55, opacity=1.0
    ).encode(angle=alt.Angle(field="angle", type="quantitative", scale=turned), **frame.encode())
    return [lines, heads]


def side_labels(
    frame: Frame, at: Array, names: list[str], styles: Sequence[str] | None = None
) -> list[Any]:
    """Names at positions (k, 2), apart from each other, with a line to those that are far.

    `styles` are those of the names, "eg-label" for all where there are none.
    """
    if not names:
        return []
    of_name = np.array(styles or ["eg-label"] * len(names))
    placed = place(frame, at, names)
    layers: list[Any] = []
    far = np.flatnonzero(placed.far)
    if len(far):
        leads = data(x=at[far, 0], y=at[far, 1], x2=placed.anchor[far, 0], y2=placed.anchor[far, 1])
        layers.append(
            alt.Chart(leads).mark_rule(style="eg-leader").encode(**frame.encode(), x2="x2", y2="y2")
        )
    sides: tuple[tuple[Any, Any], ...] = (("left", placed.right), ("right", ~placed.right))
    for (side, chosen), own in product(sides, dict.fromkeys(of_name.tolist())):
        k = np.flatnonzero(chosen & (of_name == own))
        if len(k):
            some = data(x=placed.anchor[k, 0], y=placed.anchor[k, 1], said=[names[i] for i in k])
            base = alt.Chart(some).encode(**frame.encode(), text=words())
            for style in ("eg-halo", own):  # first in the colour of the page
                layers.append(base.mark_text(style=style, align=side, baseline="middle"))
    return layers


# Where labels stand ----------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Placed:
    """Where labels stand."""

    anchor: Array  # (k, 2) in units of the axes: the end of the text that is next to its tip
    right: NDArray[np.bool_]  # (k,) whether the text goes on to the right of it
    far: NDArray[np.bool_]  # (k,) whether it stands so far off that a line has to lead to it


def with_room(frame: Frame, tips: Array, texts: list[str]) -> Frame:
    """The frame, wide enough for labels outwards of the tips (k, 2)."""
    if not texts:
        return frame
    at, right, wide = _sizes(frame, tips, texts)
    beyond = np.max(np.where(right, at[:, 0] + GAP + wide - frame.width, 0.0), initial=0.0)
    before = np.max(np.where(right, 0.0, wide + GAP - at[:, 0]), initial=0.0)
    return frame.widened(*(float(min(max(v + 4.0, 0.0), MOST_ADDED)) for v in (before, beyond)))


def place(frame: Frame, tips: Array, texts: list[str]) -> Placed:
    """Labels next to the tips of arrows, outwards, pushed apart where they would overlap."""
    at, right, wide = _sizes(frame, tips, texts)
    left = np.where(right, at[:, 0] + GAP, at[:, 0] - GAP - wide)
    middle = at[:, 1].copy()
    for _ in range(3):
        left = np.clip(left, 2.0, np.maximum(frame.width - wide - 2.0, 2.0))
        middle = _apart(left, wide, middle, frame.height)
        left = _off_tips(left, wide, middle, right, at)
    left = np.clip(left, 2.0, np.maximum(frame.width - wide - 2.0, 2.0))
    middle = _apart(left, wide, middle, frame.height)
    ends = np.column_stack([np.where(right, left, left + wide), middle])
    distance = np.hypot(*(ends - at).T)
    return Placed(frame.from_points(ends), right, distance > GAP + 8.0)


def _sizes(frame: Frame, tips: Array, texts: list[str]) -> tuple[Array, NDArray[np.bool_], Array]:
    at = frame.to_points(tips)
    right = at[:, 0] >= frame.to_points(np.zeros((1, 2)))[0, 0]
    return at, right, np.array([LETTER * len(text) for text in texts])


def _apart(left: Array, wide: Array, middle: Array, height: float) -> Array:
    """Heights at which no two boxes overlap, as near to those given as a few rounds bring them."""
    middle = np.clip(middle, LINE / 2, height - LINE / 2)
    for _ in range(ROUNDS):
        moved = False
        order = np.argsort(middle, kind="stable")
        for first, a in enumerate(order):
            for b in order[first + 1 :]:
                need = LINE - (middle[b] - middle[a])
                meets = left[a] < left[b] + wide[b] and left[b] < left[a] + wide[a]
                if need > 0.01 and meets:
                    middle[a] -= need / 2.0
                    middle[b] += need / 2.0
                    moved = True
        middle = np.clip(middle, LINE / 2, height - LINE / 2)
        if not moved:
            break
    return middle


def _off_tips(
    left: Array, wide: Array, middle: Array, right: NDArray[np.bool_], at: Array
) -> Array:
    """Labels moved outwards until they cover no tip of another arrow."""
    left = left.copy()
    for k in range(len(left)):
        level = np.abs(at[:, 1] - middle[k]) < LINE / 2 + 3.0
        level[k] = False
        for _ in range(4):
            inside = level & (at[:, 0] > left[k] - 3.0) & (at[:, 0] < left[k] + wide[k] + 3.0)
            if not inside.any():
                break
            if right[k]:
                left[k] = at[inside, 0].max() + GAP
            else:
                left[k] = at[inside, 0].min() - GAP - wide[k]
    return left
