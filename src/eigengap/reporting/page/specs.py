"""Vega-Lite as the page wants it: as wide as its place, and in colours that the page decides.

Colours are names of CSS variables. Charts are drawn as SVG, so that the same drawing is right in
light, in dark and on paper, without being drawn again.
"""

from __future__ import annotations

from typing import Any

import numpy as np

Spec = dict[str, Any]

INK, SOFT, RULE = "var(--text)", "var(--muted)", "var(--soft)"
MAIN, OTHER = "var(--main)", "var(--accent)"


def chart(data: list[Spec], layers: list[Spec], height: int = 260, **more: Any) -> Spec:
    """Layers over one table of records."""
    return {
        "data": {"values": data},
        "width": "container",
        "height": height,
        "layer": layers,
        **more,
    }


def axis(field: str, title: str, kind: str = "quantitative", **more: Any) -> Spec:
    """An encoding channel of position."""
    return {"field": field, "type": kind, "title": title, **more}


def records(*, digits: int = 5, **columns: Any) -> list[Spec]:
    """Columns of equal length as records, numbers rounded to what a chart shows."""
    names = list(columns)
    cells = [[plain(value, digits) for value in columns[name]] for name in names]
    return [dict(zip(names, row, strict=True)) for row in zip(*cells, strict=True)]


def plain(value: Any, digits: int = 5) -> Any:
    """A value that JSON knows; what is not finite is null."""
    if isinstance(value, bool | np.bool_):
        return bool(value)
    if isinstance(value, int | np.integer):
        return int(value)
    if isinstance(value, float | np.floating):
        return rounded(float(value), digits)
    return value


def rounded(value: float, digits: int = 5) -> float | int | None:
    """To some significant digits; as a whole number where it is one, for that is shorter."""
    if not np.isfinite(value):
        return None
    short = float(f"{value:.{digits}g}")
    return int(short) if short == int(short) and abs(short) < 1e15 else short
