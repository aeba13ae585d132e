"""Charts of columns against components: circle, contributions, cos2."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from eigengap.linalg import Array
from eigengap.reporting.numbers.variables import Variables
from eigengap.reporting.page import specs
from eigengap.reporting.sections.section import Figure
from eigengap.reporting.words import clean, count, fixed, number, percent, whole

MOST_ARROWS = 60
MOST_NAMED = 14  # arrows with their name
MOST_BARS = 15
MOST_LINES = 30
LONGEST = 20  # letters of a name beside the circle
UP = 1.1  # reach of the circle's frame
LETTER = 0.055  # width of a letter, and
LINE = 0.095  # height of a line of text beside the circle, whose radius is 1


def circle(found: Variables, names: tuple[str, ...]) -> Figure:
    """Correlations with the first two components, as arrows."""
    r = found.r[:, :2]
    length = found.shown(2)
    order = np.argsort(-length, kind="stable")[:MOST_ARROWS]
    named = set(order[:MOST_NAMED])
    angle = np.linspace(0, 2 * np.pi, 121)
    heights = _apart(r[order], np.array([j in named for j in order]))
    data = specs.records(
        column=[names[j] for j in order],
        label=[clean(names[j], LONGEST) if j in named else "" for j in order],
        x=r[order, 0],
        y=r[order, 1],
        cos2=length[order],
        side=["right" if r[j, 0] < 0 else "left" for j in order],
        lx=_outside(r[order], heights),
        ly=heights,
    )
    texts = {int(j): clean(names[j], LONGEST) for j in named}
    across = _room(r, texts)
    ticks = {"values": [-1, -0.5, 0, 0.5, 1]}
    x, y = (
        specs.axis(
            field, f"correlation with {axis}", axis=ticks, scale={"domain": ends, "nice": False}
        )
        for field, axis, ends in zip("xy", found.axes, (across, [-UP, UP]), strict=False)
    )
    tooltip = [
        {"field": "column", "title": "column"},
        {"field": "x", "title": "across", "format": ".2f"},
        {"field": "y", "title": "up", "format": ".2f"},
        {"field": "cos2", "title": "cos²", "format": ".0%"},
    ]
    labels = [
        {
            "transform": [{"filter": f"datum.side === '{side}' && datum.label !== ''"}],
            "mark": {"type": "text", "align": side, "dx": 6 if side == "left" else -6},
            "encoding": {
                "x": {**x, "field": "lx"},
                "y": {**y, "field": "ly"},
                "text": {"field": "label"},
            },
        }
        for side in ("left", "right")
    ]
    spec = specs.chart(
        data,
        [
            {
                "data": {"values": specs.records(x=np.cos(angle), y=np.sin(angle), k=range(121))},
                "mark": {"type": "line", "color": specs.RULE, "strokeWidth": 1.5},
                "encoding": {"x": x, "y": y, "order": {"field": "k"}},
            },
            {
                "mark": {"type": "rule", "color": specs.MAIN, "strokeWidth": 1.5, "opacity": 0.8},
                "encoding": {"x": x, "y": y, "x2": {"datum": 0}, "y2": {"datum": 0}},
            },
            {
                "mark": {"type": "point", "filled": True, "size": 36, "color": specs.MAIN},
                "encoding": {"x": x, "y": y, "tooltip": tooltip},
            },
            *labels,
        ],
        height=360,
        usermeta={"ratio": 2 * UP / (across[1] - across[0])},
    )
    best = int(order[0])
    d = len(r)
    note = "" if d <= MOST_ARROWS else f"The {MOST_ARROWS} of {whole(d)} columns shown best."
    if d > MOST_NAMED:
        note += f" The {MOST_NAMED} of them shown best are named."
    return Figure(
        "circle",
        "Correlation circle",
        f"{names[best]} is shown best, {percent(float(length[best]))} of its variance along "
        f"{found.axes[0]} and {found.axes[1]}. Arrows that point the same way belong to columns "
        "that correlate; short ones say little here.",
        spec,
        note.strip(),
    )


def _room(r: Array, texts: dict[int, str]) -> list[float]:
    """Ends of the axis across, with room for the names of arrows."""
    ends = [-UP, UP]
    for j, text in texts.items():
        side = 1.0 if r[j, 0] >= 0 else -1.0
        farthest = float(np.max(side * r[:, 0]))  # a label may have to begin there
        reach = side * (max(abs(float(r[j, 0])), min(farthest, 1.0)) + LETTER * (len(text) + 1))
        ends = [min(ends[0], reach), max(ends[1], reach)]
    return ends


def _apart(tips: Array, named: NDArray[np.bool_]) -> Array:
    """Heights (k,) of labels at arrows' tips (k, 2), pushed apart on either side of the middle."""
    found = tips[:, 1].copy()
    for side in (tips[:, 0] < 0, tips[:, 0] >= 0):
        at = np.flatnonzero(side & named)
        at = at[np.argsort(found[at], kind="stable")]
        for _ in range(200):
            gap = np.diff(found[at])
            close = np.flatnonzero(gap < LINE - 1e-9)
            if not len(close):
                break
            for c in close:
                push = (LINE - (found[at[c + 1]] - found[at[c]])) / 2
                if push > 0:
                    found[at[c]] -= push
                    found[at[c + 1]] += push
    return np.asarray(found)


def _outside(tips: Array, heights: Array) -> Array:
    """Where (k,) labels at these heights begin, beyond the tips that they would cover."""
    found = tips[:, 0].copy()
    for i, height in enumerate(heights):
        same = (np.sign(tips[:, 0]) == np.sign(tips[i, 0])) & (np.abs(tips[:, 1] - height) < LINE)
        reach = np.abs(tips[same, 0]).max(initial=abs(found[i]))
        found[i] = reach if tips[i, 0] >= 0 else -reach
    return np.asarray(found)


def line(found: Variables, names: tuple[str, ...]) -> Figure:
    """Correlations with the only component, as bars."""
    r = found.r[:, 0]
    order = np.argsort(-np.abs(r), kind="stable")[:MOST_LINES]
    best = int(order[0])
    return Figure(
        "circle",
        f"Correlations with {found.axes[0]}",
        f"{names[best]} correlates most with {found.axes[0]}, by {fixed(float(r[best]))}.",
        _bars(
            specs.records(column=[names[j] for j in order], value=r[order]),
            f"correlation with {found.axes[0]}",
            ".2f",
            domain=[-1, 1] if r[order].min() < 0 else [0, 1],
        ),
        "" if len(r) <= MOST_LINES else f"The {MOST_LINES} strongest of {whole(len(r))} columns.",
    )


def contributions(found: Variables, k: int, names: tuple[str, ...]) -> Figure:
    """The columns that make up component k."""
    assert found.contributions is not None
    part = found.contributions[:, k]
    order = np.argsort(-part, kind="stable")
    shown = order[:MOST_BARS]
    d = len(part)
    even = 100.0 / d
    above = int(np.sum(part > even))
    half = int(np.searchsorted(np.cumsum(part[order]), 50.0)) + 1
    return Figure(
        f"contributions-{k + 1}",
        f"Contributions to {found.axes[k]}",
        f"{count(above, 'column')} contribute{'s' if above == 1 else ''} more than an even share "
        f"({number(even, 2)} %); {count(half, 'column')} make{'s' if half == 1 else ''} up half.",
        _bars(
            specs.records(column=[names[j] for j in shown], value=part[shown] / 100),
            f"share in {found.axes[k]}",
            ".1%",
            even=even / 100,
        ),
        (
            "Dashed: an even share."
            if d <= MOST_BARS
            else f"Dashed: an even share. The {MOST_BARS} largest of {whole(d)} columns."
        ),
    )


def cos2_bars(found: Variables, names: tuple[str, ...]) -> Figure:
    """How much of every column the components show together."""
    cos2 = found.cos2
    order = np.argsort(-cos2, kind="stable")
    shown = order
    note = ""
    if len(order) > MOST_LINES:
        half = MOST_LINES // 2
        shown = np.concatenate([order[:half], order[-half:]])
        note = f"The {half} shown best and the {half} shown worst of {whole(len(order))} columns."
    well = int(np.sum(cos2 >= 0.5))
    return Figure(
        "cos2",
        "How well each column is shown (cos²)",
        f"{whole(well)} of {count(len(cos2), 'column')} {'has' if well == 1 else 'have'} at least "
        "half of "
        f"{'its' if well == 1 else 'their'} variance shown by the components together.",
        _bars(
            specs.records(column=[names[j] for j in shown], value=cos2[shown]),
            "share of the column’s variance",
            ".0%",
            domain=[0, 1],
        ),
        note,
    )


def _bars(
    data: list[specs.Spec],
    title: str,
    form: str,
    *,
    domain: list[float] | None = None,
    even: float | None = None,
) -> specs.Spec:
    axis: specs.Spec = {
        "axis": {"tickCount": 6} if form.endswith("f") else {"format": "%", "tickCount": 6}
    }
    scale: specs.Spec = {} if domain is None else {"scale": {"domain": domain}}
    layers: list[specs.Spec] = [
        {
            "mark": {"type": "bar", "color": specs.MAIN, "cornerRadiusEnd": 2},
            "encoding": {
                "y": specs.axis("column", "", "nominal", sort=None),
                "x": specs.axis("value", title, **axis, **scale),
                "tooltip": [
                    {"field": "column", "title": "column"},
                    {"field": "value", "title": "value", "format": form},
                ],
            },
        }
    ]
    if even is not None:
        layers.append(
            {
                "data": {"values": [{"even": specs.rounded(even)}]},
                "mark": {"type": "rule", "color": specs.OTHER, "strokeDash": [5, 4]},
                "encoding": {"x": specs.axis("even", title)},
            }
        )
    return specs.chart(data, layers, height=max(80, 18 * len(data) + 20))
