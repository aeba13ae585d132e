"""Which cells are missing: by column, by pattern, and how many rows have each pattern."""

from __future__ import annotations

from math import nan
from typing import Any

import numpy as np

from eigengap.plots._altair import alt
from eigengap.plots.drawing import Chart, data, finish, kind, quantity, tips
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
        gaps are shown; up to 100 000 rows are read for the patterns.

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
    names = table.names
    if names is None:
        names = tuple(
            map(str, getattr(estimator, "feature_names_in_", [f"x{j}" for j in range(d)]))
        )
    shown = _columns(found)
    text = labels([names[j] for j in shown])
    chart = _panels(found, shown, text)
    incomplete = int(np.isnan(table.X).any(axis=1).sum())
    return finish(
        chart,
        "Missing cells",
        *_notes(found, shown, incomplete, table.sampling()),
        width=TILE * len(shown) + 260,
    )


def _columns(found: Missingness) -> list[int]:
    """Positions of the columns to show, in the order of the table."""
    d = len(found.per_column)
    if d <= MOST_COLUMNS:
        return list(range(d))
    most = np.argsort(-found.per_column, kind="stable")[:MOST_COLUMNS]
    return sorted(int(j) for j in most)


def _panels(found: Missingness, shown: list[int], text: list[str]) -> Any:
    lines = [f"p{i}" for i in range(len(found.rows))]
    shade = found.patterns[:, shown].astype(float)
    rows = list(found.rows)
    if found.others:
        lines.append("others")
        shade = np.vstack([shade, found.together[shown]])
        rows.append(found.other_rows)
    wide = TILE * max(len(shown), 1)
    tall = TILE * len(lines)
    across = alt.X(
        **kind(
            "column",
            None,
            sort=text,
            axis=alt.Axis(labelAngle=-90 if len(text) > 3 else 0, labelLimit=150, orient="bottom"),
        )
    )
    up = alt.Y(**kind("line", None, sort=lines, axis=None))
    cells = data(
        column=text * len(lines),
        line=np.repeat(lines, len(text)).tolist(),
        share=shade.ravel(),
        rows=np.repeat(rows, len(text)),
        state=["missing" if v == 1 else "observed" if v == 0 else "in part" for v in shade.ravel()],
    )
    base = alt.Chart(cells).encode(
        x=across, y=up, tooltip=tips(column="", state="", rows="#rows of this pattern")
    )
    tiles = alt.layer(
        base.mark_rect(style="eg-cell"),
        base.transform_filter("datum.share > 0")
        .mark_rect(style="eg-accent")
        .encode(
            opacity=alt.Opacity(
                field="share",
                type="quantitative",
                scale=alt.Scale(domain=[0, 1], range=[0.15, 1]),
                legend=None,
            )
        ),
        base.transform_filter("datum.share == 1")
        .mark_text(style="eg-on-strong", fontSize=10)
        .encode(text=alt.value("×")),
    ).properties(width=wide, height=tall)
    return _around(found, shown, text, lines, rows, tiles, (wide, tall))


def _around(
    found: Missingness,
    shown: list[int],
    text: list[str],
    lines: list[str],
    rows: list[Any],
    tiles: Any,
    size: tuple[int, int],
) -> Any:
    wide, tall = size
    share = 100.0 * found.share[shown]
    above = (
        alt.Chart(data(column=text, share=share, cells=found.per_column[shown]))
        .mark_bar(style="eg-accent", width={"band": 0.7})
        .encode(
            x=alt.X(**kind("column", None, sort=text, axis=None)),
            y=alt.Y(
                **quantity(
                    "share",
                    "missing, %",
                    axis=alt.Axis(tickCount=3),
                    scale=alt.Scale(domain=[0, max(float(share.max(initial=0.0)), 1e-9)], nice=3),
                )
            ),
            tooltip=tips(column="", share="#missing, %", cells="#cells"),
        )
        .properties(width=wide, height=70)
    )
    sizes = [100.0 * count / max(found.read, 1) for count in rows]
    said = [f"{count:,} ({size:.3g} %)" for count, size in zip(rows, sizes, strict=True)]
    if found.others:
        said[-1] += f" in {found.others:,} other patterns"
    counts = data(line=lines, rows=rows, share=sizes, said=said)
    base = alt.Chart(counts).encode(
        y=alt.Y(**kind("line", None, sort=lines, axis=None)),
        x=alt.X(
            **quantity(
                "rows",
                "rows of the pattern",
                axis=alt.Axis(tickCount=2, tickMinStep=1, format="~s"),
                scale=alt.Scale(domain=[0, max([*rows, 1])], nice=False),
            )
        ),
        tooltip=tips(rows="#rows", share="#rows, %"),
    )
    beside = alt.layer(
        base.mark_bar(style="eg-main", height={"band": 0.7}),
        base.mark_text(style="eg-note", align="left", dx=4).encode(
            text=alt.Text(field="said", type="nominal")
        ),
    ).properties(width=BARS, height=tall)  # the words stand beyond the axis, where they need to
    return alt.vconcat(above, alt.hconcat(tiles, beside, spacing=10), spacing=8)


def _notes(found: Missingness, shown: list[int], incomplete: int, sampled: str) -> list[str]:
    d = len(found.per_column)
    cells = found.n * d
    if found.cells == 0:
        return [f"No cell of {found.n:,} rows × {d} columns is missing."]
    where = f"{incomplete:,} of {found.read:,} rows" + (" that were read" if sampled else "")
    notes = [
        f"{found.cells:,} of {cells:,} cells are missing ({_percent(found.cells / cells)}), in "
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


def _percent(share: float) -> str:
    return f"{100 * share:.3g} %"
