"""What all charts share: data in place, titles for what is shown, equal units on both axes."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from eigengap.linalg import Array
from eigengap.plots._altair import alt
from eigengap.plots.numbers.colour import Colour
from eigengap.plots.theme import theme

Chart = Any  # an Altair chart: single, layered or concatenated
LETTER = 5.9  # points that a letter of a subtitle takes, about


class Rows(alt.InlineData):
    """Data in place, which Altair does not hold against its schema row by row: that takes long."""

    _class_is_valid_at_instantiation = False


def data(**columns: Iterable[Any]) -> Rows:
    """Columns as the data of a chart: plain values under neutral names, NaN as null."""
    names = list(columns)
    rows = zip(*(_plain(column) for column in columns.values()), strict=True)
    # A tuple: Altair copies lists, deeply, for every layer and property.
    return Rows(values=tuple(dict(zip(names, row, strict=True)) for row in rows))


def quantity(field: str, title: str | None = None, **how: Any) -> dict[str, Any]:
    """An encoding of numbers."""
    return {"field": field, "type": "quantitative", "title": title, **how}


def kind(field: str, title: str | None = None, **how: Any) -> dict[str, Any]:
    """An encoding of names."""
    return {"field": field, "type": "nominal", "title": title, **how}


def x_axis(field: str, title: str | None = None, **how: Any) -> alt.X:
    return alt.X(**quantity(field, title, **how))


def y_axis(field: str, title: str | None = None, **how: Any) -> alt.Y:
    return alt.Y(**quantity(field, title, **how))


def tips(**fields: str) -> list[alt.Tooltip]:
    """What is shown when the pointer rests on a mark: title by field; "#..." is a number."""
    return [
        alt.Tooltip(**quantity(field, title[1:], format=".4~g"))
        if title.startswith("#")
        else alt.Tooltip(**kind(field, title))
        for field, title in fields.items()
    ]


def finish(chart: Chart, title: str, *notes: str, width: float = 480) -> Chart:
    """The chart with its title, what has to be said below it, and the light theme."""
    wide = max(int(width / LETTER), 40)
    lines = [line for note in notes if note for line in textwrap.wrap(note, wide)]
    below: Any = {"subtitle": lines} if lines else {}
    return theme(chart.properties(title=alt.TitleParams(text=title, **below)))


@dataclass(frozen=True)
class Frame:
    """A drawing area and the numbers at its sides."""

    x: tuple[float, float]
    y: tuple[float, float]
    width: float
    height: float
    titles: tuple[str, str] = ("", "")  # of its axes
    ticks: tuple[float, ...] | None = None  # None leaves them to Vega

    @property
    def unit(self) -> Array:
        """(2,) points for each unit of x, and of y, which are counted down."""
        low, high = np.array([self.x, self.y[::-1]]).T
        return np.asarray([self.width, self.height] / (high - low))

    def to_points(self, xy: Array) -> Array:
        """Positions (k, 2) on the page, down from the upper left corner."""
        return np.asarray((xy - [self.x[0], self.y[1]]) * self.unit)

    def from_points(self, at: Array) -> Array:
        return np.asarray(at / self.unit + [self.x[0], self.y[1]])

    def widened(self, left: float, right: float) -> Frame:
        """With so many points more at its sides, the unit as it was."""
        unit = float(self.unit[0])
        low, high = self.x[0] - left / unit, self.x[1] + right / unit
        return replace(self, x=(low, high), width=self.width + left + right)

    def encode(self, x: str | None = "x", y: str | None = "y") -> dict[str, Any]:
        """Fields along the axes of the frame, without one that is None."""
        ticks = {"tickCount": 6} if self.ticks is None else {"values": list(self.ticks)}
        sides = (("x", x_axis, x, self.x), ("y", y_axis, y, self.y))
        return {
            name: axis(
                field,
                title,
                scale=alt.Scale(domain=list(ends), nice=False, zero=False),
                axis=alt.Axis(grid=False, **ticks),
            )
            for (name, axis, field, ends), title in zip(sides, self.titles, strict=True)
            if field is not None
        }


def decades(low: float, high: float) -> list[float]:
    """Powers of ten within a range, few; between them where there are less than two."""
    first, last = int(np.ceil(np.log10(low))), int(np.floor(np.log10(high)))
    powers = range(first, last + 1, 1 + (last - first) // 4)
    if len(powers) >= 2:
        return [10.0**k for k in powers]
    fine = [m * 10.0**k for k in range(first - 1, last + 1) for m in (1, 2, 5)]
    return [value for value in fine if low <= value <= high] or [low, high]


def dots(base: Any, style: str, size: int, where: str = "", **how: Any) -> Any:
    """Filled points of those rows for which an expression holds."""
    some = base.transform_filter(where) if where else base
    return some.mark_point(**{"style": style, "filled": True, "size": size, "opacity": 1.0, **how})


def framed(frame: Frame, *layers: Any) -> Any:
    """Layers in a frame."""
    return alt.layer(*layers).properties(width=frame.width, height=frame.height)


def equal_frame(
    points: Array,
    titles: Sequence[str],
    *,
    width: float = 480,
    least: float = 240,
    most: float = 480,
    pad: float = 0.06,
) -> Frame:
    """A frame around points (k, 2) in which a unit is as long across as it is up."""
    finite = points[np.isfinite(points).all(axis=1)]
    low, high = (
        (finite.min(axis=0), finite.max(axis=0)) if len(finite) else (-np.ones(2), np.ones(2))
    )
    size = np.maximum(high - low, 1e-12 * max(float(np.max(np.abs(finite), initial=1.0)), 1e-300))
    size = np.where(size < 1e-9 * size.max(), size.max(), size)
    centre = (low + high) / 2.0
    size = size * (1.0 + 2.0 * pad)
    height = float(np.clip(size[1] / size[0] * width, least, most))
    unit = min(width / size[0], height / size[1])  # points for each unit
    reach = np.array([width, height]) / unit / 2.0
    return Frame(
        (float(centre[0] - reach[0]), float(centre[0] + reach[0])),
        (float(centre[1] - reach[1]), float(centre[1] + reach[1])),
        width,
        height,
        (titles[0], titles[1]),
    )


def origin(frame: Frame) -> list[Any]:
    """Thin lines through 0, where it is within the frame."""
    zero = alt.Chart(data(zero=[0.0])).mark_rule(style="eg-zero")
    layers = []
    if frame.x[0] < 0 < frame.x[1]:
        layers.append(zero.encode(**frame.encode("zero", None)))
    if frame.y[0] < 0 < frame.y[1]:
        layers.append(zero.encode(**frame.encode(None, "zero")))
    return layers


def words(field: str = "said") -> alt.Text:
    """An encoding of text."""
    return alt.Text(field=field, type="nominal")


def upper(text: str) -> str:
    """A sentence: its first letter large, a full stop at its end; nothing of nothing.

    >>> upper("5 of 9 rows"), upper("k = 3: noise")
    ('5 of 9 rows.', 'k = 3: noise.')
    """
    if not text:
        return ""
    shown = text if text[:3] == "k =" else text[:1].upper() + text[1:]
    return shown.rstrip(".") + "."


def coloured(colour: Colour | None) -> Mapping[str, Any]:
    """Encodings of the field `colour`: categories differ in colour and shape."""
    if colour is None:
        return {}
    title = colour.name or None
    if colour.is_category:
        how = {
            "scale": alt.Scale(domain=list(colour.levels)),
            "legend": alt.Legend(symbolOpacity=1.0),
        }
        channels = {"color": alt.Color, "shape": alt.Shape}
        return {name: channel(**kind("colour", title, **how)) for name, channel in channels.items()}
    dates: dict[str, Any] = {}
    if colour.dates:  # the first, the last and the one between
        observed = [day for day in colour.values if day is not None]
        low, high = min(observed, default=0.0), max(observed, default=0.0)
        form = "%Y-%m-%d" if high - low > 3 else "%m-%d %H:%M"
        dates = {
            "labelExpr": f"utcFormat(datum.value * 86400000, '{form}')",
            "values": [low, (low + high) / 2, high],
        }
    legend = alt.Legend(gradientLength=140, **dates)
    scale = alt.Scale(range="ramp")
    return {"color": alt.Color(**quantity("colour", title, scale=scale, legend=legend))}


def _plain(column: Iterable[Any]) -> Sequence[Any]:
    if isinstance(column, np.ndarray):
        if column.dtype.kind == "f":
            return [None if v != v else v for v in column.tolist()]
        return column.tolist()
    return [v.item() if isinstance(v, np.generic) else v for v in column]
