"""Missing values: by column and pattern; imputed with their intervals, and where truth is known."""

from __future__ import annotations

from math import nan
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eigengap.estimators.shared.display import public_name, require_fitted
from eigengap.linalg import Array
from eigengap.plots._altair import alt
from eigengap.plots.drawing import (
    Chart,
    data,
    decades,
    finish,
    kind,
    tips,
    upper,
    words,
    x_axis,
    y_axis,
)
from eigengap.plots.numbers.colour import MOST_CATEGORIES
from eigengap.plots.numbers.missing import (
    LEVELS,
    Calibration,
    Imputations,
    LevelImputations,
    Missingness,
    calibration,
    imputations,
    level_imputations,
    missingness_summary,
)
from eigengap.plots.numbers.names import label, labels, names_of
from eigengap.plots.numbers.rows import MOST_READ, MOST_ROWS, Table, coded_table, table_of
from eigengap.sources import resolve_columns

MOST_CELLS = 120  # of a column
MOST_COLUMNS = 6  # whose imputed values are drawn
MOST_POINTS = 2000
DECADES = 100.0  # ratio of the largest to the least value from which an axis is logarithmic
NOTES: tuple[tuple[int, int, Any, str], ...] = (  # on the coverage: place, alignment, words
    (97, 6, "right", "below the line: intervals too narrow"),
    (3, 97, "left", "above: too wide"),
)
MOST_PATTERNS, MOST_TILES = 20, 50  # patterns of missing values, and columns
TILE = 17
BARS = 110  # points of the longest bar


def missingness(
    X: Any, *, missing_values: Any = nan, columns: Any = None, estimator: Any = None
) -> Chart:
    """The pattern of missing values: which cells of a table are missing together.

    Parameters
    ----------
    X : table of shape (n_samples, n_features)
        Array, frame, file, source or Dask collection.
    missing_values : float or list of float, default=nan
        Values that mark a missing value, besides NaN.
    columns : list, default=None
        Columns to look at; None takes all.
    estimator : fitted estimator, default=None
        Takes its columns and missing_values instead.

    Returns
    -------
    altair chart
        Each line is a pattern, with the number of its rows at the right; above is the share of
        missing cells of each column. The 20 most frequent patterns and the 50 columns with most
        missing values are shown; up to 100 000 rows are read for the patterns.

    Examples
    --------
    >>> import numpy as np
    >>> from eigengap.plots import missingness
    >>> X = np.array([[1.0, np.nan], [2.0, 3.0], [4.0, np.nan]])
    >>> missingness(X).to_dict()["title"]["subtitle"][0]
    '2 of 6 cells are missing (33.3 %), in 1 of 2'
    """
    if estimator is not None:
        table = table_of(X, estimator, most=MOST_READ)
    else:
        how = {} if columns is None else {"columns": columns}
        table = table_of(X, most=MOST_READ, missing_values=missing_values, **how)
    found = missingness_summary(table, MOST_PATTERNS)
    d = len(found.per_column)
    names = table.names or getattr(estimator, "feature_names_in_", [f"x{j}" for j in range(d)])
    most = np.argsort(-found.per_column, kind="stable")[:MOST_TILES]
    shown = sorted(int(j) for j in most)  # in the order of the table
    incomplete = int(np.isnan(table.X).any(axis=1).sum())
    return finish(
        _panels(found, shown, labels([str(names[j]) for j in shown])),
        "Missing cells",
        *_notes(found, shown, incomplete, table.sampling()),
        width=TILE * len(shown) + 260,
    )


def _panels(found: Missingness, shown: list[int], text: list[str]) -> Any:
    lines = [f"p{i}" for i in range(len(found.rows))]
    shade = found.patterns[:, shown].astype(float)
    rows = list(found.rows)
    if found.others:
        lines.append("others")
        shade = np.vstack([shade, found.together[shown]])
        rows.append(found.other_rows)
    wide, tall = TILE * max(len(shown), 1), TILE * len(lines)
    turned = alt.Axis(labelAngle=-90 if len(text) > 3 else 0, labelLimit=150, orient="bottom")
    y = alt.Y(**kind("line", None, sort=lines, axis=None))
    cells = data(
        column=text * len(lines),
        line=np.repeat(lines, len(text)).tolist(),
        share=shade.ravel(),
        rows=np.repeat(rows, len(text)),
        state=["missing" if v == 1 else "observed" if v == 0 else "in part" for v in shade.ravel()],
    )
    base = alt.Chart(cells).encode(
        x=alt.X(**kind("column", None, sort=text, axis=turned)),
        y=y,
        tooltip=tips(column="", state="", rows="#rows of this pattern"),
    )
    opaque = alt.Scale(domain=[0, 1], range=[0.15, 1])
    tiles = alt.layer(
        base.mark_rect(style="eg-cell"),
        base.transform_filter("datum.share > 0")
        .mark_rect(style="eg-accent")
        .encode(opacity=alt.Opacity(field="share", type="quantitative", scale=opaque, legend=None)),
        base.transform_filter("datum.share == 1")
        .mark_text(style="eg-on-strong", fontSize=10)
        .encode(text=alt.value("×")),
    ).properties(width=wide, height=tall)
    share = 100.0 * found.share[shown]
    most = alt.Scale(domain=[0, max(float(share.max(initial=0.0)), 1e-9)], nice=3)
    above = (
        alt.Chart(data(column=text, share=share, cells=found.per_column[shown]))
        .mark_bar(style="eg-accent", width={"band": 0.7})
        .encode(
            x=alt.X(**kind("column", None, sort=text, axis=None)),
            y=y_axis("share", "missing, %", axis=alt.Axis(tickCount=3), scale=most),
            tooltip=tips(column="", share="#missing, %", cells="#cells"),
        )
        .properties(width=wide, height=70)
    )
    sizes = [100.0 * count / max(found.read, 1) for count in rows]
    said = [f"{count:,} ({size:.3g} %)" for count, size in zip(rows, sizes, strict=True)]
    if found.others:
        said[-1] += f" in {found.others:,} other patterns"
    ticks = alt.Axis(tickCount=2, tickMinStep=1, format="~s")
    ends = alt.Scale(domain=[0, max([*rows, 1])], nice=False)
    base = alt.Chart(data(line=lines, rows=rows, share=sizes, said=said)).encode(
        y=y,
        x=x_axis("rows", "rows of the pattern", axis=ticks, scale=ends),
        tooltip=tips(rows="#rows", share="#rows, %"),
    )
    counts = alt.layer(
        base.mark_bar(style="eg-main", height={"band": 0.7}),
        base.mark_text(style="eg-note", align="left", dx=4).encode(text=words()),
    ).properties(width=BARS, height=tall)  # the words stand beyond the axis, where they need to
    return alt.vconcat(above, alt.hconcat(tiles, counts, spacing=10), spacing=8)


def _notes(found: Missingness, shown: list[int], incomplete: int, sampled: str) -> list[str]:
    d = len(found.per_column)
    cells = found.n * d
    if found.cells == 0:
        return [f"No cell of {found.n:,} rows × {d} columns is missing."]
    where = f"{incomplete:,} of {found.read:,} rows" + (" that were read" if sampled else "")
    notes = [
        f"{found.cells:,} of {cells:,} cells are missing ({100 * found.cells / cells:.3g} %), in "
        f"{int(np.sum(found.per_column > 0)):,} of {d:,} columns and {where}."
    ]
    if len(shown) < d:
        notes.append(f"The {len(shown)} columns with most missing values of {d:,} are shown.")
    if found.others:
        notes.append(
            f"The {len(found.rows)} most frequent of {len(found.rows) + found.others:,} patterns."
        )
    if sampled:
        notes.append(f"Patterns of {sampled}; shares by column are of all rows.")
    return notes


# Imputed values --------------------------------------------------------------------------------


def imputation(
    estimator: Any,
    X: Any,
    *,
    column: Any = None,
    truth: Any = None,
    held_out: float | None = None,
    level: float = 0.95,
    max_rows: int = MOST_ROWS,
) -> Chart:
    """Imputed values with their intervals, and the observed values of their columns.

    Parameters
    ----------
    estimator : fitted estimator with `impute`
    X : table of shape (n_samples, n_features)
        NaN marks a missing value.
    column : str or int, default=None
        One column; None takes those with most missing values, up to six.
    truth : table of X's shape, default=None
        With it, or `held_out`, values are drawn against the truth, with the coverage of the
        intervals: a calibration view.
    held_out : float in (0, 1), default=None
        Share of the observed values to hold out and impute. The model was fitted to them, so that
        this is a little optimistic; rows that were not in the fit are not.
    level : float in (0, 1), default=0.95
    max_rows : int, default=5000

    Returns
    -------
    altair chart
        Of columns whose levels are no numbers, the probabilities of the levels.

    Examples
    --------
    >>> from eigengap import PPCA
    >>> from eigengap.plots import imputation
    >>> from sklearn.datasets import load_iris
    >>> X = load_iris().data
    >>> X[::5, 2] = float("nan")
    >>> chart = imputation(PPCA(2).fit(X), X)
    >>> chart.to_dict()["title"]["subtitle"][0]
    '30 imputed values with 95 % intervals, in the order of their values; at the'
    """
    require_fitted(estimator)
    table = table_of(X, estimator, most=max_rows)
    names = names_of(estimator, table.X.shape[1])
    chosen = None
    if column is not None:
        known = getattr(estimator, "feature_names_in_", None)
        given = None if known is None else [str(name) for name in known]
        coded = coded_table(estimator)
        d = len(names) if coded is None else coded.n_features
        chosen = int(resolve_columns([column], given, d)[0])
        if coded is not None:  # `names` and cells are those of the columns that it uses
            if chosen not in coded.used:
                raise ValueError(f"column {column!r} is not in the model, which does not impute it")
            chosen = list(coded.used).index(chosen)
    if truth is not None or held_out is not None:
        return _calibration(estimator, table, names, chosen, truth, held_out, level)
    found = imputations(estimator, table, level)
    if len(found.value) == 0:
        raise ValueError(
            "X has no missing values, so that nothing is imputed; held_out=0.1 holds out observed "
            "values"
        )
    count = np.bincount(found.column, minlength=len(names))
    if chosen is None:
        most = np.argsort(-count, kind="stable")[:MOST_COLUMNS]
        shown = [int(j) for j in most if count[j]]
    elif count[chosen] == 0:
        raise ValueError(
            f"column {names[chosen]} has no missing values among the rows that are shown"
        )
    else:
        shown = [chosen]
    of_levels, has_maps = level_imputations(estimator, table), coded_table(estimator) is not None
    panels = [
        _levels(of_levels[j], table, names[j])
        if j in of_levels
        else _column(found, table.X[:, j], table, j, names[j], has_maps=has_maps)
        for j in shown
    ]
    chart = alt.concat(*panels, columns=2 if len(panels) > 1 else 1, spacing=24)
    if of_levels:
        chart = chart.resolve_scale(color="independent")
    incomplete = int(np.sum(count > 0))
    return finish(
        chart,
        f"Values imputed by {public_name(estimator)}",
        f"{len(found.value):,} imputed values with {100 * level:g} % intervals, in the order of "
        "their values; at the left the observed values of the column."
        + (" Of levels, their probabilities." if any(j in of_levels for j in shown) else ""),
        ""
        if chosen is not None or len(shown) == incomplete
        else f"The {len(shown)} columns with most missing values of {incomplete}.",
        f"Of each column {MOST_CELLS} cells are drawn." if max(count[shown]) > MOST_CELLS else "",
        upper(table.sampling()),
        width=460,
    )


def _column(
    found: Imputations, observed: Array, table: Table, j: int, name: str, *, has_maps: bool
) -> Any:
    """Intervals of one column, and a histogram of the observed values of it at the left.

    The axis is logarithmic where positive values span decades, and the model has maps for that.
    """
    cells = np.flatnonzero(found.column == j)
    cells = cells[np.argsort(found.value[cells], kind="stable")]
    if len(cells) > MOST_CELLS:
        cells = cells[np.linspace(0, len(cells) - 1, MOST_CELLS).round().astype(int)]
    some = found.some(cells)
    known = observed[~np.isnan(observed)]
    low = min(float(known.min(initial=np.inf)), float(some.low.min()))
    high = max(float(known.max(initial=-np.inf)), float(some.high.max()))
    ticks: dict[str, Any] = {"tickCount": 6}
    if has_maps and 0.0 < low * DECADES < high:
        pad = (high / low) ** 0.04
        scale = alt.Scale(type="log", domain=[low / pad, high * pad], nice=False)
        bins, ticks = np.geomspace(low, high, 25), {"values": decades(low, high), "format": "~g"}
    else:
        pad = 0.04 * (high - low) or 1.0
        scale = alt.Scale(domain=[low - pad, high + pad], nice=False, zero=False)
        bins = np.linspace(low, high, 25)
    y = y_axis("value", name, scale=scale, axis=alt.Axis(**ticks))
    k, row = np.arange(1, len(cells) + 1), table.at[some.row]
    bars = data(k=k, value=some.value, low=some.low, high=some.high, row=row)
    bare_x = alt.Axis(labels=False, ticks=False, grid=False, titlePadding=22)
    tip = tips(row="#row", value="#imputed", low="#from", high="#to")
    base = alt.Chart(bars).encode(x=x_axis("k", "imputed value", axis=bare_x), tooltip=tip)
    bare_y = y_axis("low", None, scale=scale, axis=alt.Axis(labels=False, ticks=False, **ticks))
    intervals = alt.layer(
        base.mark_rule(style="eg-main", strokeWidth=1.6, opacity=0.55).encode(y=bare_y, y2="high"),
        base.mark_point(style="eg-main", filled=True, size=26, opacity=1.0).encode(
            y=y_axis("value", None, scale=scale)
        ),
    ).properties(width=210, height=190)
    count, edges = np.histogram(known, bins=bins if high > low else 1)
    histogram = (
        alt.Chart(data(value=edges[:-1], top=edges[1:], count=count))
        .mark_rect(style="eg-soft", opacity=0.7)
        .encode(
            y=y,
            y2="top",
            x=x_axis("count", "observed", axis=alt.Axis(tickCount=2, grid=False)),
            x2=alt.datum(0),
            tooltip=tips(count="#cells", value="#from", top="#to"),
        )
        .properties(width=70, height=190)
    )
    return alt.hconcat(histogram, intervals, spacing=6)


def _levels(found: LevelImputations, table: Table, name: str) -> Any:
    """Probabilities of the levels of each missing cell, and their observed shares at the left."""
    names, P, shares = list(found.levels), found.probabilities, found.observed
    if len(names) > MOST_CATEGORIES:  # the rarest together
        kept = np.sort(np.argsort(-shares, kind="stable")[: MOST_CATEGORIES - 1])
        rest = np.setdiff1d(np.arange(len(names)), kept)
        names = [names[k] for k in kept] + ["others"]
        P = np.column_stack([P[:, kept], P[:, rest].sum(axis=1)])
        shares = np.append(shares[kept], shares[rest].sum())
    names = [label(text) for text in names]
    best = np.argmax(P, axis=1)
    cells = np.lexsort((-P[np.arange(len(P)), best], best))
    if len(cells) > MOST_CELLS:
        cells = cells[np.linspace(0, len(cells) - 1, MOST_CELLS).round().astype(int)]
    # Ordered levels have the colours of a scale.
    colours: dict[str, Any] = {"range": "ramp"} if found.has_order else {}
    colour = alt.Color(
        field="level",
        type="ordinal" if found.has_order else "nominal",
        title=None,
        sort=names,
        scale=alt.Scale(domain=names, **colours),
        legend=alt.Legend(orient="bottom", columns=4),
    )
    bare_x = alt.Axis(labels=False, ticks=False, grid=False, titlePadding=22)
    ends = alt.Scale(domain=[0, 1], nice=False)

    def stacked(P: Array, rows: NDArray[np.intp]) -> Any:
        after = np.minimum(np.cumsum(P, axis=1), 1.0)
        c, K = P.shape
        return data(
            k=np.repeat(np.arange(c), K),
            end=np.repeat(np.arange(1, c + 1), K),
            low=np.column_stack([np.zeros(c), after[:, :-1]]).ravel(),
            high=after.ravel(),
            share=P.ravel(),
            level=names * c,
            row=np.repeat(rows, K),
        )

    def bars(P: Array, rows: NDArray[np.intp], title: str, wide: float, y: Any, **said: str) -> Any:
        x = x_axis("k", title, axis=bare_x, scale=alt.Scale(domain=[0, len(P)], nice=False))
        return (
            alt.Chart(stacked(P, rows))
            .mark_rect(stroke=None)
            .encode(x=x, x2="end", y=y, y2="high", color=colour, tooltip=tips(**said))
            .properties(width=wide, height=190)
        )

    y = y_axis("low", name, scale=ends, axis=alt.Axis(tickCount=5, format="%"))
    bare_y = y_axis("low", None, scale=ends, axis=alt.Axis(labels=False, ticks=False))
    every = (shares / max(shares.sum(), 1.0))[None, :]
    left = bars(every, table.at[:1], "observed", 70, y, level="", share="#share of the observed")
    said = {"row": "#row", "level": "", "share": "#probability"}
    right = bars(P[cells], table.at[found.row[cells]], "missing cells", 210, bare_y, **said)
    return alt.hconcat(left, right, spacing=6)


def _calibration(
    estimator: Any,
    table: Table,
    names: list[str],
    chosen: int | None,
    truth: Any,
    held_out: float | None,
    level: float,
) -> Chart:
    known = None
    if truth is not None:
        known = table_of(truth, estimator, most=max(len(table.at), 1))
        if known.n != table.n:
            raise ValueError(f"truth has {known.n} rows, and X has {table.n}")
    share = 0.1 if held_out is None else held_out
    true = None if known is None else known.X
    found = calibration(estimator, table, truth=true, share=share, level=level)
    if chosen is not None:
        at = np.flatnonzero(found.imputations.column == chosen)
        if len(at) == 0:
            raise ValueError("no value of this column was held out")
        reached = None if found.reached is None else found.reached[at]
        found = Calibration(found.imputations.some(at), found.truth[at], reached)
    chart = alt.hconcat(_against_truth(found, table, names), _coverage(found), spacing=34)
    n = len(found.truth)
    whose = " The model was fitted with these cells, unless these are new rows: that flatters it."
    which = f"column {names[chosen]}" if chosen is not None else "all columns, standardised"
    return finish(
        chart,
        f"How well {public_name(estimator)} predicts held-out values",
        f"{100 * found.coverage:.1f} % of {n:,} held-out values lie in their {100 * level:g} % "
        f"intervals ({which}).{whose if known is None else ''}",
        f"{MOST_POINTS:,} of the cells are drawn." if n > MOST_POINTS else "",
        upper(table.sampling()),
        width=600,
    )


def _against_truth(found: Calibration, table: Table, names: list[str]) -> Any:
    f = found.imputations
    kept = np.arange(len(f.value))
    if len(kept) > MOST_POINTS:
        kept = np.sort(np.random.default_rng(0).choice(kept, MOST_POINTS, replace=False))
    several = len(np.unique(f.column)) > 1
    centre, unit = np.zeros(len(names)), np.ones(len(names))
    if several:  # columns in their own units cannot share an axis
        centre = np.nanmean(table.X, axis=0)
        sd = np.nanstd(table.X, axis=0)
        unit = np.where(sd > 0, sd, 1.0)
    c = f.column[kept]
    truth, value, low, high = (
        (v[kept] - centre[c]) / unit[c] for v in (found.truth, f.value, f.low, f.high)
    )
    states = ["within its interval", "outside"]
    points = data(
        truth=truth,
        value=value,
        low=low,
        high=high,
        row=table.at[f.row[kept]],
        column=[names[j] for j in c],
        where=np.where((low <= truth) & (truth <= high), *states),
    )
    least, most = float(min(truth.min(), value.min())), float(max(truth.max(), value.max()))
    pad = 0.05 * (most - least) or 1.0
    ends = [least - pad, most + pad]
    scale = alt.Scale(domain=ends, nice=False, zero=False)
    what = "value (standard deviations from the mean)" if several else names[int(c[0])]
    x = x_axis("truth", f"true {what}", scale=scale)
    y, low_y = (y_axis(field, f"imputed {what}", scale=scale) for field in ("value", "low"))
    shown = alt.Scale(domain=states)
    legend = alt.Legend(orient="top", symbolOpacity=1.0)
    base = alt.Chart(points)
    return alt.layer(
        alt.Chart(data(truth=ends, value=ends)).mark_line(style="eg-guide").encode(x=x, y=y),
        base.mark_rule(strokeWidth=0.8, opacity=0.22, clip=True, style="eg-main").encode(
            x=x, y=low_y, y2="high"
        ),
        base.mark_point(filled=True, size=26, opacity=0.75).encode(
            x=x,
            y=y,
            color=alt.Color(**kind("where", None, scale=shown, legend=legend)),
            shape=alt.Shape(**kind("where", None, scale=shown)),
            tooltip=tips(
                row="#row", column="", truth="#true", value="#imputed", low="#from", high="#to"
            ),
        ),
    ).properties(width=310, height=310)


def _coverage(found: Calibration) -> Any:
    levels = np.linspace(0.05, 0.99, 48) if found.reached is None else LEVELS
    how = {"scale": alt.Scale(domain=[0, 100]), "axis": alt.Axis(tickCount=5)}
    x = x_axis("level", "level of the interval, %", **how)
    y = y_axis("held", "cells inside, %", **how)
    line = data(level=100 * levels, held=100 * found.coverage_at(levels))
    even = data(level=[0, 100], held=[0, 100])
    base = alt.Chart(line).encode(x=x, y=y, tooltip=tips(level="#level, %", held="#inside, %"))
    notes = [
        alt.Chart(data(level=[level], held=[height], said=[said]))
        .mark_text(style="eg-note", align=align)
        .encode(x=x, y=y, text=words())
        for level, height, align, said in NOTES
    ]
    return alt.layer(
        alt.Chart(even).mark_line(style="eg-guide").encode(x=x, y=y),
        base.mark_line(style="eg-main", strokeWidth=2.2),
        *notes,
    ).properties(width=260, height=310)
