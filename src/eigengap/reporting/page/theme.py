"""The colours of the charts as variables of the page: light, dark, and paper."""

from __future__ import annotations

from typing import Any

from eigengap.plots.palette import DARK, FONT, LIGHT, Ink

# Rows of numbers and colours that a scale runs through; it has to be seen on white and on black.
RAMP = ("#3b4cc0", "#2a7ab8", "#22a08f", "#7fbf4d", "#e8c338")
SHAPES = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down")
GLYPHS = ("●", "■", "▲", "◆", "✚", "▼")


def stylesheet() -> str:
    """Variables for both themes, and the classes of the categories."""
    light, dark = (_declared(ink) for ink in (LIGHT, DARK))
    kinds = "".join(f".k{k + 1}{{color:var(--k{k + 1})}}" for k in range(len(LIGHT.category)))
    return (
        f":root{{{light}--card:#fafbfc;--edge:#8a94a0;--link:#005f99}}"
        "@media screen and (prefers-color-scheme:dark){:root:not([data-theme=light]){"
        f"color-scheme:dark;{dark}--card:#1a2027;--edge:#717d8a;--link:#7cc4f0}}}}"
        "@media screen{:root[data-theme=dark]{"
        f"color-scheme:dark;{dark}--card:#1a2027;--edge:#717d8a;--link:#7cc4f0}}}}"
        f"{kinds}"
    )


def kinds() -> list[str]:
    """Colours of the categories, as the charts name them."""
    return [f"var(--k{k + 1})" for k in range(len(LIGHT.category))]


def config() -> dict[str, Any]:
    """Vega-Lite's configuration in the page's variables."""
    text, muted, grid, soft = "var(--text)", "var(--muted)", "var(--grid)", "var(--soft)"
    return {
        "background": None,
        # Descriptions of marks would be expressions with foreign titles in them; the element around
        # a chart says in words what is seen.
        "aria": False,
        "font": FONT,
        "padding": 2,
        "view": {"stroke": None},
        "axis": {
            "labelColor": muted,
            "titleColor": text,
            "gridColor": grid,
            "domainColor": soft,
            "tickColor": soft,
            "labelFontSize": 11.5,
            "titleFontSize": 12,
            "titleFontWeight": "normal",
            "titlePadding": 8,
            "labelLimit": 150,
            "tickSize": 4,
            "labelOverlap": "greedy",
        },
        "axisY": {"titleLimit": 420},
        "axisBand": {"grid": False, "ticks": False, "domain": False},
        "legend": {
            "labelColor": text,
            "titleColor": muted,
            "labelFontSize": 11.5,
            "titleFontSize": 11.5,
            "titleFontWeight": "normal",
            "orient": "top",
            "labelLimit": 180,
            "symbolSize": 70,
        },
        "range": {"category": kinds()},
        "text": {"color": text, "fontSize": 11.5, "font": FONT},
    }


def _declared(ink: Ink) -> str:
    named = {
        "paper": ink.background,
        "text": ink.text,
        "muted": ink.muted,
        "grid": ink.grid,
        "main": ink.main,
        "soft": ink.soft,
        "accent": ink.accent,
        "second": ink.second,
        "band": ink.band,
    }
    named |= {f"k{k + 1}": colour for k, colour in enumerate(ink.category)}
    return "".join(f"--{name}:{colour};" for name, colour in named.items())
