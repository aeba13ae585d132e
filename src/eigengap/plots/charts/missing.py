"""Which cells are missing: by column, by pattern, and how many rows have each pattern."""

from __future__ import annotations

from math import nan
from typing import Any

import numpy as np

from eigengap.plots._altair import alt
from eigengap.plots.drawing import Chart, data, finish, kind, tips, words, x_axis, y_axis
from eigengap.plots.numbers.missing import Missingness, missingness_summary
from eigengap.plots.numbers.names import labels
from eigengap.plots.numbers.rows import MOST_READ, table_of

MOST_PATTERNS, MOST_COLUMNS = 20, 50
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
    most = np.argsort(-found.per_column, kind="stable")[:MOST_COLUMNS]
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
