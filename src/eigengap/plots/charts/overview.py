"""Every column of a table at a glance: its kind, distribution and missing values."""

from __future__ import annotations

from collections.abc import Mapping
from math import nan
from typing import Any

from eigengap.plots._altair import alt
from eigengap.plots.drawing import Chart, data, decades, finish, kind, tips, x_axis, y_axis
from eigengap.plots.numbers import overview as numbers
from eigengap.plots.numbers.names import label
from eigengap.plots.numbers.rows import count_of

WIDTH, HEIGHT, ACROSS = 170, 90, 3
SHORT = 24  # letters of all levels that stand below bars
COUNTS = alt.Axis(tickCount=3, format="~s")
MOST_COLUMNS = 24


def overview(
    X: Any,
    columns: str | Mapping[Any, Any] = "auto",
    *,
    missing_values: Any = nan,
    top: int = MOST_COLUMNS,
) -> Chart:
    """A small chart of each column: a histogram of numbers, the frequencies of levels.

    Parameters
    ----------
    X : data frame or array of shape (n_samples, n_features), or Overview
        What `eigengap.overview` returned is drawn as it is.
    columns : "auto" or mapping of columns to kinds, default="auto"
        As in `eigengap.overview`.
    missing_values : float or list of float, default=nan
    top : int, default=24
        Most columns: the first ones.

    Returns
    -------
    altair chart
        Columns that are modelled by a logarithm have a logarithmic axis. Columns that are ignored
        have no chart.

    Examples
    --------
    >>> from eigengap.plots import overview
    >>> from sklearn.datasets import load_iris
    >>> chart = overview(load_iris(as_frame=True).frame)
    >>> chart.to_dict()["title"]["subtitle"][0]
    '150 rows, 5 columns, 1 row repeats an earlier one. Bars count cells.'
    """
    found = X if isinstance(X, numbers.Overview) else numbers.overview(X, columns, missing_values)
    drawable = [c for c in found.columns if c.kind != "ignored" and c.observed]
    shown = drawable[: count_of("top", top)]
    if not shown:
        raise ValueError("no column has values that could be drawn: all are ignored, or empty")
    rows = f"{found.rows:,} rows, {len(found.columns):,} columns"
    again = found.duplicate_rows
    if again:
        rows += f", {again:,} row{'s repeat' if again > 1 else ' repeats'} an earlier one"
    ignored = [label(c.name) for c in found.columns if c.kind == "ignored"]
    listed = ", ".join(ignored[:4]) + (f" and {len(ignored) - 4} more" if len(ignored) > 4 else "")
    return finish(
        alt.concat(*map(_panel, shown), columns=min(ACROSS, len(shown)), spacing=22),
        "Columns of the table",
        f"{rows}. Bars count cells.",
        f"Not drawn, for they are ignored: {listed}." if ignored else "",
        f"The first {len(shown)} of {len(drawable)}." if len(shown) < len(drawable) else "",
        width=ACROSS * (WIDTH + 60),
    )


def _panel(column: numbers.ColumnOverview) -> Any:
    said = [column.kind]
    if column.missing:
        said.append(f"{100 * column.share_missing:.2g} % missing")
    said += [c for c in column.cautions if "missing" not in c and "skewed" not in c][:1]
    title = alt.TitleParams(
        text=label(column.name, 26),
        subtitle=[label(", ".join(said), 40)],
        fontSize=12.5,
        offset=6,
        frame="group",
    )
    chart = _levels(column) if column.levels else _histogram(column)
    return chart.properties(width=WIDTH, height=HEIGHT, title=title)


def _levels(column: numbers.ColumnOverview) -> Any:
    """Bars to the right; upright ones of ordered levels whose names are short."""
    levels = [(label(level, 16), cells) for level, cells in column.levels]
    if column.more_levels:
        others = f"{column.more_levels} other{'s' if column.more_levels > 1 else ''}"
        levels.append((others, column.more_cells))
    names = [name for name, _ in levels]
    shown = alt.Chart(data(level=names, cells=[cells for _, cells in levels]))
    tip = tips(level="", cells="#cells")
    if column.kind == "ordinal" and sum(map(len, names)) <= SHORT:
        axis = alt.Axis(labelAngle=0, labelPadding=4)
        bars = shown.mark_bar(style="eg-main", width={"band": 0.8})
        return bars.encode(
            x=alt.X(**kind("level", None, sort=names, axis=axis)),
            y=y_axis("cells", None, axis=COUNTS),
            tooltip=tip,
        )
    y = alt.Y(**kind("level", None, sort=names, axis=alt.Axis(labelPadding=4)))
    bars = shown.mark_bar(style="eg-main", height={"band": 0.75})
    return bars.encode(y=y, x=x_axis("cells", None, axis=COUNTS), tooltip=tip)


def _histogram(column: numbers.ColumnOverview) -> Any:
    assert column.edges is not None
    assert column.counts is not None
    low, high = column.edges[:-1], column.edges[1:]
    ends = [float(column.edges[0]), float(column.edges[-1])]
    is_log = column.scale == "log"
    how: dict[str, Any] = {"type": "log"} if is_log else {}
    scale = alt.Scale(domain=ends, nice=False, zero=False, **how)
    ticks: dict[str, Any] = {"values": decades(*ends)} if is_log else {"tickCount": 4}
    axis = alt.Axis(grid=False, format="~s", labelFlush=True, labelOverlap="greedy", **ticks)
    x = x_axis("low", "logarithmic axis" if is_log else None, scale=scale, axis=axis)
    shown = data(low=low, high=high, cells=column.counts, zero=[0] * len(low))
    return (
        alt.Chart(shown)
        .mark_rect(style="eg-main", opacity=0.9)
        .encode(
            x=x,
            x2="high",
            y=y_axis("cells", None, axis=COUNTS),
            y2="zero",
            tooltip=tips(cells="#cells", low="#from", high="#to"),
        )
    )
