"""Scores of rows, with 95 % regions where gaps leave them open."""

from __future__ import annotations

from typing import Any

import numpy as np

from eigengap.estimators.shared.display import public_name, require_fitted
from eigengap.linalg import Array
from eigengap.plots._altair import alt
from eigengap.plots.drawing import (
    Chart,
    Frame,
    coloured,
    data,
    equal_frame,
    finish,
    origin,
    quantity,
    tips,
    upper,
)
from eigengap.plots.numbers.colour import Colour, colour_of
from eigengap.plots.numbers.counts import count_of
from eigengap.plots.numbers.dates import as_date
from eigengap.plots.numbers.eigenvalues import eigenvalues
from eigengap.plots.numbers.rows import MOST_ROWS, Table, table_of
from eigengap.plots.numbers.scores import (
    ScoreEllipses,
    check_axes,
    score_ellipses,
    score_names,
    scores_of,
)

WIDTH = 480
MOST_ELLIPSES = 30  # more hide the rows


def scores(
    estimator: Any,
    X: Any = None,
    *,
    axes: Any = (1, 2),
    color: Any = None,
    ellipses: bool | int = True,
    max_rows: int = MOST_ROWS,
) -> Chart:
    """Rows at their scores along two components (or one, where there is one).

    Parameters
    ----------
    estimator : fitted estimator with `transform`
    X : table of shape (n_samples, n_features), default=None
        None draws the rows of the fit, of estimators that keep them (`embedding_`).
    axes : pair of int or int, default=(1, 2)
        Components, counted from 1.
    color : str or array of shape (n_samples,), default=None
        A column of X, a feature or not; or labels or numbers.
    ellipses : bool or int, default=True
        Whether to draw regions that hold the score of an incomplete row with probability 95 %,
        where the estimator knows them, and of how many rows, those that are least sure; True draws
        30.
    max_rows : int, default=5000
        Most rows to draw; of more a sample, always the same one.

    Returns
    -------
    altair chart

    Examples
    --------
    >>> from eigengap import PPCA
    >>> from eigengap.plots import scores
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> X[::9, 1] = float("nan")
    >>> chart = scores(PPCA(2).fit(X), X, color=y)
    >>> chart.to_dict()["title"]["text"]
    'Scores of PPCA'
    """
    require_fitted(estimator)
    table, T, colour = _rows(estimator, X, color, max_rows)
    q = T.shape[1]
    if q == 0:
        raise ValueError(f"{public_name(estimator)} has no component to draw rows along")
    name = public_name(estimator)
    asked = (1,) if q == 1 and tuple(np.atleast_1d(axes)) == (1, 2) else axes
    positions = check_axes(asked, q, name)
    if len(positions) > 2 or len(set(positions)) < len(positions):
        raise ValueError(f"axes={axes!r}: give one component, or two different ones")
    titles = _titles(estimator, q, positions)
    regions = None
    if ellipses and X is not None:
        most = MOST_ELLIPSES if ellipses is True else int(ellipses)
        regions = score_ellipses(estimator, table.X, positions, most=most)
    draw = _line if len(positions) == 1 else _plane
    chart = draw(table, T[:, list(positions)], colour, regions, titles)
    return finish(
        chart,
        f"Scores of {name}",
        *_notes(table, regions, colour, alone=len(positions) == 1),
        width=WIDTH,
    )


def _rows(estimator: Any, X: Any, color: Any, most: int) -> tuple[Table, Array, Colour | None]:
    if X is not None:
        if not hasattr(estimator, "transform") and not hasattr(estimator, "estimator_"):
            raise AttributeError(
                f"{public_name(estimator)} has no scores, for it does not transform rows"
            )
        table = table_of(X, estimator, most=most)
        return table, scores_of(estimator, table.X), colour_of(color, X, table)
    embedding = getattr(estimator, "embedding_", None)
    if embedding is None:
        raise ValueError(
            f"{public_name(estimator)} does not keep the rows of its fit; give them, or others, "
            "as X"
        )
    d = estimator.n_features_in_ if hasattr(estimator, "n_features_in_") else 0
    n = len(embedding)
    at = np.sort(
        np.random.default_rng(0).choice(n, min(count_of("max_rows", most), n), replace=False)
    )
    table = Table(np.zeros((len(at), 0)), at, n, np.zeros(d, dtype=np.intp), None)
    return table, np.asarray(embedding, dtype=float)[at], colour_of(color, None, table)


def _titles(estimator: Any, q: int, positions: tuple[int, ...]) -> list[str]:
    names = score_names(estimator, q)
    try:
        share = eigenvalues(estimator).share
    except (AttributeError, ValueError):
        share = None
    if share is None or len(share) < q:
        return [names[a] for a in positions]
    return [f"{names[a]} ({100 * share[a]:.1f} % of the variance)" for a in positions]


def _plane(
    table: Table,
    T: Array,
    colour: Colour | None,
    regions: ScoreEllipses | None,
    titles: list[str],
) -> Any:
    frame = equal_frame(_within(T, regions), titles)
    layers: list[Any] = origin(frame)
    if regions is not None:
        layers.append(_outlines(frame, regions, table, colour))
    layers.append(points(frame, T, table, colour, titles))
    return alt.layer(*layers).properties(width=frame.width, height=frame.height)


def points(
    frame: Frame, T: Array, table: Table, colour: Colour | None, titles: list[str], size: float = 34
) -> Any:
    """A mark for each row."""
    missing = np.isnan(table.X).sum(axis=1)
    columns: dict[str, Any] = {"x": T[:, 0], "y": T[:, 1], "row": table.at, "gaps": missing}
    said = {"row": "#row", "x": "#" + titles[0], "y": "#" + titles[1], "gaps": "#cells missing"}
    if colour is not None:
        columns["colour"] = colour.values
        if colour.are_days:
            columns["date"] = [None if day is None else as_date(day) for day in colour.values]
            said["date"] = colour.title
        else:
            said["colour"] = "#" + colour.title if colour.categories is None else colour.title
    opacity = 0.8 if len(T) <= 1000 else 0.45
    return (
        alt.Chart(data(**columns))
        .mark_point(filled=True, size=size if len(T) <= 1000 else size / 2, opacity=opacity)
        .encode(
            x=frame.encode_x(),
            y=frame.encode_y(),
            tooltip=tips(**said),
            **coloured(colour),
        )
    )


def _outlines(frame: Frame, regions: ScoreEllipses, table: Table, colour: Colour | None) -> Any:
    found = regions.outlines()  # (e, p, 2)
    e, p = found.shape[:2]
    columns: dict[str, Any] = {
        "x": found[:, :, 0].ravel(),
        "y": found[:, :, 1].ravel(),
        "row": np.repeat(table.at[regions.at], p),
        "order": np.tile(np.arange(p), e),
    }
    encoded: dict[str, Any] = {}
    if colour is not None and colour.categories is not None:
        columns["colour"] = [colour.values[i] for i in regions.at for _ in range(p)]
        encoded["color"] = coloured(colour)["color"]
    how: dict[str, Any] = {} if encoded else {"style": "eg-main"}
    return (
        alt.Chart(data(**columns))
        .mark_line(strokeWidth=0.9, opacity=0.5 if e <= 40 else 0.3, clip=True, **how)
        .encode(
            x=frame.encode_x(),
            y=frame.encode_y(),
            detail=alt.Detail(field="row", type="nominal"),
            order=alt.Order(field="order", type="quantitative"),
            **encoded,
        )
    )


def _line(
    table: Table,
    T: Array,
    colour: Colour | None,
    regions: ScoreEllipses | None,
    titles: list[str],
) -> Any:
    """One component: a strip for each category, rows spread up and down so as to be seen."""
    t = T[:, 0]
    spread = ((table.at * 0.6180339887498949) % 1.0) - 0.5  # even, and always the same
    grouped = colour is not None and colour.categories is not None
    strips = list(colour.categories or []) if grouped and colour is not None else ["rows"]
    group = list(colour.values) if grouped and colour is not None else ["rows"] * len(t)
    where = {name: len(strips) - 1 - k for k, name in enumerate(strips)}
    height = np.array([where[g] for g in group]) + 0.7 * spread
    columns: dict[str, Any] = {
        "x": t,
        "y": height,
        "row": table.at,
        "gaps": np.isnan(table.X).sum(axis=1),
        "group": group,
    }
    if colour is not None:
        columns["colour"] = colour.values
    x = alt.X(**quantity("x", titles[0], scale=alt.Scale(zero=False), axis=alt.Axis(grid=True)))
    y = alt.Y(
        **quantity(
            "y",
            None,
            scale=alt.Scale(domain=[-0.5, len(strips) - 0.5], nice=False),
            axis=None,
        )
    )
    layers: list[Any] = []
    if regions is not None:
        low, high = regions.intervals()
        bars = data(x=low, high=high, y=height[regions.at], row=table.at[regions.at])
        layers.append(
            alt.Chart(bars)
            .mark_rule(style="eg-accent", strokeWidth=1.3, opacity=0.8)
            .encode(x=x, x2="high", y=y, tooltip=tips(row="#row", x="#from", high="#to"))
        )
    layers.append(
        alt.Chart(data(**columns))
        .mark_point(filled=True, size=24, opacity=0.7 if len(t) <= 1000 else 0.4)
        .encode(
            x=x,
            y=y,
            tooltip=tips(row="#row", x="#" + titles[0], missing="#cells missing"),
            **coloured(colour),
        )
    )
    return alt.layer(*layers).properties(width=WIDTH, height=max(110, 80 * len(strips)))


def _within(T: Array, regions: ScoreEllipses | None) -> Array:
    """What the frame has to hold: all rows, and regions where these do not dwarf them."""
    if regions is None:
        return T
    low, high = T.min(axis=0), T.max(axis=0)
    size = np.maximum(high - low, 1e-12)
    outlines = regions.outlines().reshape(-1, 2)
    return np.vstack([T, np.clip(outlines, low - 0.5 * size, high + 0.5 * size)])


def _notes(
    table: Table, regions: ScoreEllipses | None, colour: Colour | None, *, alone: bool
) -> list[str]:
    notes = [upper(table.sampling())]
    if regions is not None:
        incomplete = int(np.isnan(table.X).any(axis=1).sum())
        what = "Intervals" if alone else "Ellipses"
        which = "incomplete rows"
        if len(regions.at) < incomplete:
            which = f"the {len(regions.at)} least sure of {incomplete} incomplete rows"
        level = f"{100 * regions.level:g} %"
        notes.append(f"{what} hold the score with probability {level}: {which}.")
    if colour is not None:
        notes.append(upper(colour.note))
    return notes
