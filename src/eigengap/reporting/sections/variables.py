"""Loadings and contributions: correlations, contributions, cos2; of a mixture its means."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from eigengap.linalg import Array
from eigengap.plots.numbers.names import clean
from eigengap.plots.numbers.rows import Look
from eigengap.plots.numbers.subject import Subject
from eigengap.plots.numbers.variables import Variables
from eigengap.reporting import specs
from eigengap.reporting.specs import Figure, Grid, Section
from eigengap.reporting.words import count, fixed, listing, number, percent, whole

MOST_LINES = 30  # of the table, and columns of a chart
MOST_DESCRIBED = 3  # components
STRONG = 0.5  # correlation from which a column is named
SOME = 0.3
TITLE = "Loadings and contributions"
MOST_ARROWS = 60
MOST_NAMED = 14  # arrows with their name
MOST_BARS = 15
LONGEST = 20  # letters of a name at the circle
UP = 1.1  # reach of the circle's frame
LETTER = 0.055  # width of a letter, and
LINE = 0.095  # height of a line of text at the circle, whose radius is 1


def weights(found: Variables | None, look: Look, subject: Subject) -> Array:
    """(d,) by which the columns are ranked where not all can be shown."""
    if found is not None:
        return found.cos2
    if subject.coded is not None:
        return np.ones(look.n_columns)
    if subject.mixture is not None:
        return np.asarray(_profiles(subject, look).std(axis=0))
    return np.ones(look.n_columns)


def section(
    subject: Subject, look: Look, found: Variables | None, names: tuple[str, ...]
) -> Section:
    """The section, by what the estimator is."""
    if subject.mixture is not None:
        return _of_mixture(_profiles(subject, look), names)
    if found is None:
        why = "The model was fitted to pairs of rows; there are no columns to look at."
        return Section("variables", TITLE, left_out=why)
    if not np.any(found.r):
        why = "No column varies along the components, so that there is nothing to report."
        return Section("variables", TITLE, left_out=why)
    q = found.r.shape[1]
    words = [_on_axis(found, k, names) for k in range(min(q, MOST_DESCRIBED))]
    if not found.is_linear:
        words.insert(
            0,
            f"The coordinates of {subject.kind} are no linear functions of the columns; "
            "correlations show which columns vary with them.",
        )
    words.append(_on_poor(found, names))
    figures = [circle(found, names) if q > 1 else only_axis(found, names)]
    if found.contributions is not None:
        figures += [
            contributions(found.contributions[:, k], found.axes[k], k, names)
            for k in range(min(q, 2))
        ]
    figures.append(_cos2(found.cos2, names))
    return Section(
        "variables",
        TITLE,
        words=tuple(word for word in words if word),
        figures=tuple(figures),
        grids=(_table(found, names),),
        verdict=words[0] if found.is_linear else "",
    )


def _on_axis(found: Variables, k: int, names: tuple[str, ...]) -> str:
    r, axis = found.r[:, k], found.axes[k]
    order = np.argsort(-np.abs(r), kind="stable")
    named = {j: f"{names[j]} ({fixed(float(r[j]))})" for j in order[:4]}
    strong = [j for j in named if abs(r[j]) >= STRONG]
    if not strong:
        return (
            f"No column correlates with {axis} by more than {STRONG}; the nearest is "
            f"{named[order[0]]}."
        )
    same = (np.abs(r) >= SOME).all() and (np.sign(r) == np.sign(r[order[0]])).all()
    if same and len(r) > 2:
        most = listing([named[j] for j in strong[:3]])
        return (
            f"Along {axis} all {whole(len(r))} columns rise and fall together, most of all {most}."
        )
    sides = {
        "rises": [named[j] for j in strong if r[j] > 0],
        "falls": [named[j] for j in strong if r[j] < 0],
    }
    said = [f"{verb} with {listing(side)}" for verb, side in sides.items() if side]
    return f"{axis} {' and '.join(said)}."


def _on_poor(found: Variables, names: tuple[str, ...]) -> str:
    poor = [j for j in np.argsort(found.cos2, kind="stable") if found.cos2[j] < SOME]
    if not poor:
        return (
            f"Every column has at least {percent(float(found.cos2.min()))} of its variance shown."
        )
    shown = listing([f"{names[j]} ({percent(float(found.cos2[j]))})" for j in poor[:4]], 4)
    more = "" if len(poor) <= 4 else f", and {whole(len(poor) - 4)} more"
    why = "" if found.contributions is None else " To this model they are mostly noise."
    return f"Hardly shown by these components: {shown}{more}.{why}"


def _table(found: Variables, names: tuple[str, ...]) -> Grid:
    order = np.argsort(-found.cos2, kind="stable")[:MOST_LINES]
    q = min(found.r.shape[1], 5)
    rows = tuple(
        (names[j], *map(fixed, found.r[j, :q].tolist()), percent(float(found.cos2[j])))
        for j in order
    )
    left = len(names) - len(order)
    note = f"{count(left, 'column')} shown less {'is' if left == 1 else 'are'} not listed."
    return Grid(
        "Correlations of columns and components",
        ("column", *found.axes[:q], "shown"),
        rows,
        (False, *[True] * (q + 1)),
        note=note if left else "",
    )


# Charts ----------------------------------------------------------------------------------------


def circle(found: Variables, names: tuple[str, ...]) -> Figure:
    """Correlations with the first two components, as arrows."""
    r, length = found.r[:, :2], found.shown(2)
    order = np.argsort(-length, kind="stable")[:MOST_ARROWS]
    tips = r[order]
    texts = [clean(names[j], LONGEST) for j in order[:MOST_NAMED]]
    heights = _apart(tips, np.arange(len(order)) < MOST_NAMED)
    data = specs.records(
        column=[names[j] for j in order],
        label=texts + [""] * (len(order) - len(texts)),
        x=tips[:, 0],
        y=tips[:, 1],
        cos2=length[order],
        side=["right" if x < 0 else "left" for x in tips[:, 0]],
        lx=_outside(tips, heights),
        ly=heights,
    )
    across = _room(tips, float(r[:, 0].min()), float(r[:, 0].max()), texts)
    x, y = (
        specs.axis(
            field,
            f"correlation with {axis}",
            axis={"values": [-1, -0.5, 0, 0.5, 1]},
            scale={"domain": ends, "nice": False},
        )
        for field, axis, ends in zip("xy", found.axes, (across, [-UP, UP]), strict=False)
    )
    angle = np.linspace(0, 2 * np.pi, 121)
    ring = specs.records(x=np.cos(angle), y=np.sin(angle), k=range(121))
    xy: dict[str, Any] = {"x": x, "y": y}
    to_origin: dict[str, Any] = {"x2": {"datum": 0}, "y2": {"datum": 0}}
    at_label: dict[str, Any] = {"x": {**x, "field": "lx"}, "y": {**y, "field": "ly"}}
    thin = {"color": specs.RULE, "strokeWidth": 1.5}
    arrow = {"color": specs.MAIN, "strokeWidth": 1.5, "opacity": 0.8}
    tooltip = specs.tips(column="column", x="x axis|.2f", y="y axis|.2f", cos2="cos²|.0%")
    spec = specs.chart(
        data,
        specs.layer("line", thin, data=ring, **xy, order={"field": "k"}),
        specs.layer("rule", arrow, **xy, **to_origin),
        specs.dots(36, {"color": specs.MAIN}, **xy, tooltip=tooltip),
        *(
            specs.layer(
                "text",
                {"align": side, "dx": dx},
                transform=[{"filter": f"datum.side === '{side}' && datum.label !== ''"}],
                **at_label,
                text={"field": "label"},
            )
            for side, dx in (("left", 6), ("right", -6))
        ),
        height=360,
        usermeta={"ratio": 2 * UP / (across[1] - across[0])},
    )
    best, d = int(order[0]), len(r)
    note = "" if d <= MOST_ARROWS else f"The {MOST_ARROWS} of {whole(d)} columns shown best."
    if d > MOST_NAMED:
        note += f" The {MOST_NAMED} of them shown best are named."
    return Figure(
        "circle",
        "Correlation circle",
        f"{names[best]} is shown best, {percent(float(length[best]))} of its variance along "
        f"{found.axes[0]} and {found.axes[1]}. Arrows that point the same way belong to columns "
        "that correlate; short ones are poorly represented here.",
        spec,
        note.strip(),
    )


def _room(tips: Array, low: float, high: float, texts: list[str]) -> list[float]:
    """Ends of the x axis, with room for names of the first arrows; tips lie from low to high."""
    ends = [-UP, UP]
    for x, text in zip(tips[:, 0], texts, strict=False):
        farthest = high if x >= 0 else -low  # a label may have to begin there
        reach = max(abs(float(x)), min(farthest, 1.0)) + LETTER * (len(text) + 1)
        ends = [ends[0], max(ends[1], reach)] if x >= 0 else [min(ends[0], -reach), ends[1]]
    return ends


def _apart(tips: Array, named: NDArray[np.bool_]) -> Array:
    """Heights (k,) of labels at arrows' tips (k, 2), pushed apart on either side of the middle."""
    found = tips[:, 1].copy()
    for side in (tips[:, 0] < 0, tips[:, 0] >= 0):
        at = np.flatnonzero(side & named)
        at = at[np.argsort(found[at], kind="stable")]
        for _ in range(200):
            close = np.flatnonzero(np.diff(found[at]) < LINE - 1e-9)
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


def only_axis(found: Variables, names: tuple[str, ...]) -> Figure:
    """Correlations with the only component, as bars."""
    r, axis = found.r[:, 0], found.axes[0]
    order = np.argsort(-np.abs(r), kind="stable")[:MOST_LINES]
    best = int(order[0])
    domain = [-1.0, 1.0] if r[order].min() < 0 else [0.0, 1.0]
    data = specs.records(column=[names[j] for j in order], value=r[order])
    return Figure(
        "circle",
        f"Correlations with {axis}",
        f"{names[best]} correlates most with {axis}, by {fixed(float(r[best]))}.",
        specs.bars(data, f"correlation with {axis}", ".2f", domain=domain),
        "" if len(r) <= MOST_LINES else f"The {MOST_LINES} strongest of {whole(len(r))} columns.",
    )


def contributions(part: Array, axis: str, k: int, names: tuple[str, ...]) -> Figure:
    """The columns that make up component k, `part` per cent each."""
    order = np.argsort(-part, kind="stable")
    shown, d, even = order[:MOST_BARS], len(part), 100.0 / len(part)
    above = int(np.sum(part > even))
    half = int(np.searchsorted(np.cumsum(part[order]), 50.0)) + 1
    data = specs.records(column=[names[j] for j in shown], value=part[shown] / 100)
    some = "" if d <= MOST_BARS else f" The {MOST_BARS} largest of {whole(d)} columns."
    return Figure(
        f"contributions-{k + 1}",
        f"Contributions to {axis}",
        f"{count(above, 'column')} contribute{'s' if above == 1 else ''} more than an even share "
        f"({number(even, 2)} %); {count(half, 'column')} make{'s' if half == 1 else ''} up half.",
        specs.bars(data, f"share in {axis}", ".1%", even=even / 100),
        f"Dashed: an even share.{some}",
    )


def _cos2(cos2: Array, names: tuple[str, ...]) -> Figure:
    """How much of every column the components show together."""
    order = np.argsort(-cos2, kind="stable")
    shown, note = specs.both_ends(order, MOST_LINES, "shown best", "shown worst")
    well = int(np.sum(cos2 >= 0.5))
    have, their = ("has", "its") if well == 1 else ("have", "their")
    data = specs.records(column=[names[j] for j in shown], value=cos2[shown])
    return Figure(
        "cos2",
        "How well each column is shown (cos²)",
        f"{whole(well)} of {count(len(cos2), 'column')} {have} at least half of {their} variance "
        "shown by the components together.",
        specs.bars(data, "share of the column’s variance", ".0%", domain=[0, 1]),
        note,
    )


# Mixtures --------------------------------------------------------------------------------------


def _profiles(subject: Subject, look: Look) -> Array:
    """(K, d) means of the components, in standard deviations of the columns from their means."""
    assert subject.mixture is not None
    sd = np.where(look.sd > 0, look.sd, 1.0)
    return np.array([(part.mu - look.mean) / sd for part in subject.mixture.models])


def _of_mixture(means: Array, names: tuple[str, ...]) -> Section:
    """In which columns the components differ."""
    ranges = means.max(axis=0) - means.min(axis=0)
    order = np.argsort(-ranges, kind="stable")[:MOST_LINES]
    largest = listing([f"{names[j]} ({fixed(float(ranges[j]), 1)})" for j in order[:4]], 4)
    words = (
        f"The components differ most in {largest}: standard deviations between the farthest means."
    )
    K = len(means)
    data = specs.records(
        column=[names[j] for j in order] * K,
        part=np.repeat([f"component {k + 1}" for k in range(K)], len(order)).tolist(),
        mean=means[:, order].ravel(),
    )
    title = "mean, in standard deviations of the column"
    colours = {"range": [f"var(--k{k + 1})" for k in range(8)]}
    spec = specs.chart(
        data,
        specs.dots(
            70,
            {"opacity": 0.9},
            y=specs.BY_COLUMN,
            x=specs.axis("mean", title, axis={"tickCount": 7}),
            color={"field": "part", "type": "nominal", "title": None, "scale": colours},
            tooltip=specs.tips(column="column", part="of", mean="mean|.2f"),
        ),
        height=specs.lines_high(len(order)),
    )
    note = "" if len(names) <= MOST_LINES else f"The {MOST_LINES} columns that differ most."
    figure = Figure("profiles", "Means of the components", words, spec, note, wide=True)
    title = "How the components differ"
    return Section("variables", title, words=(words,), figures=(figure,), verdict=words)
