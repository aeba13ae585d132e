"""Colours of the charts, light and dark, as a configuration of Vega-Lite.

Charts name what a mark is for (a style such as "eg-accent") and never how it looks, so that one
chart can be drawn in either theme. Every colour of a mark, of numbers too, has contrast 3 : 1 on
the page. Categories are those of Okabe and Ito (2008), in an order and
with replacements that keep contrast on white and on black; they also differ in shape.
"""

from __future__ import annotations

from typing import Any, NamedTuple


class Ink(NamedTuple):
    """The colours of a theme."""

    background: str
    text: str
    muted: str
    grid: str
    main: str
    soft: str
    accent: str
    second: str
    band: str
    category: tuple[str, ...]
    ramp: tuple[str, ...]
    diverging: tuple[str, ...]


LIGHT = Ink(
    background="#ffffff",
    text="#1f2328",
    muted="#59636e",
    grid="#e4e7eb",
    main="#0072b2",
    soft="#a9b4bf",
    accent="#c44e00",
    second="#00785a",
    band="#fbe3d3",
    category=("#0072b2", "#d55e00", "#009e73", "#b4588e",
              "#9a7500", "#3a98ce", "#6a4c93", "#5f6b76"),
    ramp=("#d9703c", "#cc4f6d", "#a8338f", "#7320a0", "#42128f", "#150a4d"),
    diverging=("#b03a00", "#e08a55", "#f4d3bd", "#f4f5f6", "#bcd9ea", "#5aa1cd", "#005a8e"),
)  # fmt: skip
DARK = Ink(
    background="#14181d",
    text="#e8ebee",
    muted="#a3adb8",
    grid="#2c333b",
    main="#56b4e9",
    soft="#5d6873",
    accent="#ff9a52",
    second="#3fd0a4",
    band="#43301f",
    category=("#56b4e9", "#f08a3c", "#2cc79b", "#e58fbf",
              "#f0e442", "#9ab8ff", "#c7a5f0", "#b9c2cb"),
    ramp=("#9a55c8", "#cc5aa5", "#ec6f7c", "#f99a5c", "#fcc84e", "#f4f08a"),
    diverging=("#ffab70", "#c9743b", "#6b4127", "#262c33", "#1f4a66", "#3588ba", "#8ccdf5"),
)  # fmt: skip
SHAPES = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down", "stroke", "wedge")
NO_VALUE = "#8a8a8a"  # colour of points whose number is not known, on light and dark
FONT = "Inter, 'Helvetica Neue', Helvetica, Arial, 'Liberation Sans', sans-serif"


def configuration(dark: bool = False) -> dict[str, Any]:
    """The theme as Vega-Lite's `config`."""
    ink = DARK if dark else LIGHT
    return {
        "background": ink.background,
        "font": FONT,
        "padding": 12,
        "view": {"stroke": None, "continuousWidth": 420, "continuousHeight": 280},
        "title": {
            "anchor": "start",
            "frame": "group",
            "color": ink.text,
            "fontSize": 15,
            "fontWeight": 600,
            "offset": 12,
            "subtitleColor": ink.muted,
            "subtitleFontSize": 11.5,
            "subtitlePadding": 5,
            "subtitleLineHeight": 15,
        },
        "axis": axis_of(ink),
        "axisBand": {"grid": False, "ticks": False, "domain": False},
        "header": {"labelColor": ink.text, "titleColor": ink.text, "labelFontSize": 11.5},
        "legend": {**legend_of(ink), "titleLimit": 180},
        "range": {
            "category": list(ink.category),
            "ramp": list(ink.ramp),
            "heatmap": list(ink.ramp),
            "diverging": list(ink.diverging),
            "symbol": list(SHAPES),
        },
        "bar": {"color": ink.main},
        "rect": {"color": ink.main},
        "line": {"color": ink.main, "strokeWidth": 1.8},
        "point": {"color": ink.main, "invalid": "show"},
        "scale": {"invalid": {name: {"value": NO_VALUE} for name in ("color", "fill", "stroke")}},
        "text": {"color": ink.text, "fontSize": 11.5},
        "rule": {"color": ink.muted},
        "style": _styles(ink),
    }


def axis_of(ink: Ink) -> dict[str, Any]:
    """Of charts on their own and in the report."""
    return {
        "labelColor": ink.muted,
        "titleColor": ink.text,
        "gridColor": ink.grid,
        "domainColor": ink.soft,
        "tickColor": ink.soft,
        "labelFontSize": 11.5,
        "titleFontSize": 12,
        "titleFontWeight": "normal",
        "titlePadding": 8,
        "labelLimit": 230,
        "tickSize": 4,
    }


def legend_of(ink: Ink) -> dict[str, Any]:
    """Of charts on their own and in the report."""
    return {
        "labelColor": ink.text,
        "titleColor": ink.muted,
        "labelFontSize": 11.5,
        "titleFontSize": 11.5,
        "titleFontWeight": "normal",
        "labelLimit": 180,
        "symbolSize": 70,
    }


def _styles(ink: Ink) -> dict[str, Any]:
    plain = ("main", "soft", "accent", "second", "band")
    return {f"eg-{name}": {"color": getattr(ink, name)} for name in plain} | {
        "eg-guide": {"color": ink.muted, "strokeDash": [4, 3], "strokeWidth": 1},
        "eg-zero": {"color": ink.soft, "strokeWidth": 1},
        "eg-frame": {"color": ink.muted, "stroke": ink.muted, "strokeWidth": 1},
        "eg-hollow": {"fill": ink.background, "stroke": ink.soft, "strokeWidth": 1.4},
        "eg-cell": {"color": ink.grid, "stroke": ink.background, "strokeWidth": 1},
        "eg-on-strong": {"color": ink.background, "fontWeight": 600},
        "eg-halo": {
            "color": ink.background,
            "stroke": ink.background,
            "strokeWidth": 3.5,
            "strokeJoin": "round",
            "strokeOpacity": 0.85,
        },
        "eg-leader": {"color": ink.muted, "strokeWidth": 0.6, "opacity": 0.8},
        "eg-segment": {"stroke": ink.background, "strokeWidth": 1},
        "eg-label": {"color": ink.text, "fontSize": 11.5},
        "eg-note": {"color": ink.muted, "fontSize": 11},
        "eg-level": {
            "color": ink.text,
            "fill": ink.text,
            "stroke": ink.background,
            "strokeWidth": 1,
        },
        "eg-level-label": {"color": ink.text, "fontSize": 12, "fontWeight": 600},
        "eg-accent-label": {"color": ink.accent, "fontSize": 11.5, "fontWeight": 600},
        "eg-second-label": {"color": ink.second, "fontSize": 11.5},
    }
