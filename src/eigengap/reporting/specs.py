"""What a report is made of, as plain values: sections of sentences, tables and charts.

Charts are Vega-Lite, as wide as their place. Colours are names of CSS variables; drawn as SVG, the
same drawing is right in light, in dark and on paper, without being drawn again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eigengap.linalg import Array
from eigengap.reporting.words import whole

Spec = dict[str, Any]

SOFT, RULE = "var(--muted)", "var(--soft)"
MAIN, OTHER = "var(--main)", "var(--accent)"
BY_COLUMN = {"field": "column", "type": "nominal", "title": "", "sort": None}  # a line for each


@dataclass(frozen=True)
class Figure:
    """A chart with its finding in words, for those who do not see it and those who do."""

    id: str
    title: str
    finding: str
    spec: Spec  # Vega-Lite
    note: str = ""
    wide: bool = False


@dataclass(frozen=True)
class Grid:
    """A table of texts."""

    caption: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numeric: tuple[bool, ...] = ()  # columns set flush right
    note: str = ""


@dataclass(frozen=True)
class Fact:
    """A number large enough to be read from across the room."""

    label: str
    value: str
    note: str = ""


@dataclass(frozen=True)
class Section:
    """One part of the page; `left_out` is the reason where it is empty."""

    id: str
    title: str
    words: tuple[str, ...] = ()
    facts: tuple[Fact, ...] = ()
    warnings: tuple[str, ...] = ()  # what a reader must know before believing the rest
    figures: tuple[Figure, ...] = ()
    grids: tuple[Grid, ...] = ()
    beside: tuple[Grid, ...] = ()  # narrow tables among the figures
    left_out: str = ""
    verdict: str = ""  # a sentence for the glance


# Charts ----------------------------------------------------------------------------------------


def chart(data: list[Spec], *layers: Spec, height: int = 260, **more: Any) -> Spec:
    """Layers over one table of records."""
    values = {"data": {"values": data}, "width": "container", "height": height}
    return {**values, "layer": list(layers), **more}


def lines_high(n: int, least: int = 120) -> int:
    """Height of a chart with n lines."""
    return max(least, 18 * n + 20)


def layer(
    mark: str, how: Spec, *, data: list[Spec] | None = None, transform: Any = None, **encoding: Any
) -> Spec:
    """A mark with its encodings, over the table of the chart or one of its own."""
    parts = {"data": data and {"values": data}, "transform": transform}
    spec = {"mark": {"type": mark, **how}, "encoding": encoding}
    return {name: part for name, part in parts.items() if part is not None} | spec


def dots(size: int, how: Spec, **encoding: Any) -> Spec:
    """A filled point for each record."""
    return layer("point", {"filled": True, "size": size, **how}, **encoding)


def axis(field: str, title: str, kind: str = "quantitative", **more: Any) -> Spec:
    """An encoding channel of position."""
    return {"field": field, "type": kind, "title": title, **more}


def tips(**fields: str) -> list[Spec]:
    """What is shown when the pointer rests on a mark: title by field, "title|format" of numbers."""
    found = []
    for field, said in fields.items():
        title, _, form = said.partition("|")
        found.append({"field": field, "title": title, **({"format": form} if form else {})})
    return found


def either(field: str, title: str | None, *names: str, other: str = OTHER, **more: Any) -> Spec:
    """The main colour for the first of two names, another one for the second."""
    scale = {"domain": list(names), "range": [MAIN, other]}
    return {"field": field, "type": "nominal", "title": title, "scale": scale, **more}


def dashed(color: str = SOFT, data: list[Spec] | None = None, **encoding: Any) -> Spec:
    """A dashed rule at one value."""
    dash = [4, 3] if color == SOFT else [5, 4]
    return layer("rule", {"color": color, "strokeDash": dash}, data=data, **encoding)


def bars(
    data: list[Spec],
    title: str,
    form: str,
    *,
    field: str = "value",
    tooltip: list[Spec] | None = None,
    ticks: int = 6,
    domain: list[float] | None = None,
    even: float | None = None,
) -> Spec:
    """A bar for each column, and a dashed line at an even share."""
    count: Spec = {"tickCount": ticks, **({"format": "%"} if form.endswith("%") else {})}
    scale: Spec = {} if domain is None else {"scale": {"domain": domain}}
    layers = [
        layer(
            "bar",
            {"color": MAIN, "cornerRadiusEnd": 2},
            y=BY_COLUMN,
            x=axis(field, title, axis=count, **scale),
            tooltip=tooltip or tips(column="column", value=f"value|{form}"),
        )
    ]
    if even is not None:
        layers.append(dashed(OTHER, [{"even": rounded(even)}], x=axis("even", title)))
    return chart(data, *layers, height=lines_high(len(data), 80))


def both_ends(
    order: NDArray[np.intp], most: int, best: str, worst: str
) -> tuple[NDArray[np.intp], str]:
    """The first and last columns of an order where there are too many, and a note on that."""
    if len(order) <= most:
        return order, ""
    half = most // 2
    note = f"The {half} {best} and the {half} {worst} of {whole(len(order))} columns."
    return np.concatenate([order[:half], order[-half:]]), note


def records(*, digits: int = 5, **columns: Any) -> list[Spec]:
    """Columns of equal length as records, numbers rounded to what a chart shows."""
    cells = [[_plain(value, digits) for value in column] for column in columns.values()]
    return [dict(zip(columns, row, strict=True)) for row in zip(*cells, strict=True)]


def _plain(value: Any, digits: int) -> Any:
    if isinstance(value, np.generic):
        value = value.item()
    return rounded(value, digits) if isinstance(value, float) else value


def column(values: Array | Sequence[float], digits: int = 4) -> list[float | int | None]:
    """Numbers as short JSON."""
    return [rounded(float(value), digits) for value in values]


def rounded(value: float, digits: int = 5) -> float | int | None:
    """To some significant digits; as a whole number where it is one, for that is shorter.

    What is not finite is null.
    """
    if not np.isfinite(value):
        return None
    short = float(f"{value:.{digits}g}")
    return int(short) if short == int(short) and abs(short) < 1e15 else short
