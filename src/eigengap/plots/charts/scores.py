"""Scores of rows, with 95 % regions where missing values leave them open; rows of a mixture."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import numpy as np

from eigengap.estimators.shared.display import public_name, require_fitted
from eigengap.linalg import Array
from eigengap.plots._altair import alt
from eigengap.plots.arrows import MOST_LABELLED, side_labels, with_room
from eigengap.plots.drawing import (
    Chart,
    Frame,
    coloured,
    data,
    equal_frame,
    finish,
    framed,
    origin,
    quantity,
    tips,
    upper,
    x_axis,
    y_axis,
)
from eigengap.plots.numbers.colour import MOST_CATEGORIES, Colour, as_date, chart_colour
from eigengap.plots.numbers.names import labels
from eigengap.plots.numbers.rows import MOST_ROWS, Table, count_of, table_of
from eigengap.plots.numbers.scores import (
    ScoreEllipses,
    check_axes,
    mixture_numbers,
    score_ellipses,
    score_names,
    scores_of,
)
from eigengap.plots.numbers.spectrum import eigenvalues

WIDTH = 480
MOST_ELLIPSES = 30  # more hide the rows
SURE = 0.9  # responsibility from which a row counts as being of its component


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
        where the estimator has them, and of how many rows, the most uncertain ones; True draws 30.
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
    name, q = public_name(estimator), T.shape[1]
    if q == 0:
        raise ValueError(f"{name} has no component to draw rows along")
    asked = (1,) if q == 1 and tuple(np.atleast_1d(axes)) == (1, 2) else axes
    positions = check_axes(asked, q, name)
    if len(positions) > 2 or len(set(positions)) < len(positions):
        raise ValueError(f"axes={axes!r}: give one component, or two different ones")
    titles = _titles(estimator, q, positions)
    regions = None
    if ellipses and X is not None:
        most = MOST_ELLIPSES if ellipses is True else int(ellipses)
        regions = score_ellipses(estimator, table, positions, most=most)
    draw = _line if len(positions) == 1 else _plane
    chart = draw(table, T[:, list(positions)], colour, regions, titles)
    notes = _notes(table, regions, colour, alone=len(positions) == 1)
    return finish(chart, f"Scores of {name}", *notes, width=WIDTH)


def _rows(estimator: Any, X: Any, color: Any, most: int) -> tuple[Table, Array, Colour | None]:
    if X is not None:
        if not hasattr(estimator, "transform") and not hasattr(estimator, "estimator_"):
            raise AttributeError(
                f"{public_name(estimator)} has no scores, for it does not transform rows"
            )
        table = table_of(X, estimator, most=most)
        return table, scores_of(estimator, table), chart_colour(color, X, table)
    embedding = getattr(estimator, "embedding_", None)
    if embedding is None:
        raise ValueError(
            f"{public_name(estimator)} does not keep the rows of its fit; give them, or others, "
            "as X"
        )
    d, n = getattr(estimator, "n_features_in_", 0), len(embedding)
    k = min(count_of("max_rows", most), n)
    at = np.sort(np.random.default_rng(0).choice(n, k, replace=False))
    table = Table(np.zeros((k, 0)), at, n, np.zeros(d, dtype=np.intp))
    return table, np.asarray(embedding, dtype=float)[at], chart_colour(color, None, table)


def _titles(estimator: Any, q: int, positions: tuple[int, ...]) -> list[str]:
    names, share = score_names(estimator, q), None
    with suppress(AttributeError, ValueError):
        share = eigenvalues(estimator).share
    if share is None or len(share) < q:
        return [names[a] for a in positions]
    return [f"{names[a]} ({100 * share[a]:.1f} % of the variance)" for a in positions]


def _plane(
    table: Table, T: Array, colour: Colour | None, regions: ScoreEllipses | None, titles: list[str]
) -> Any:
    held, layers = T, list[Any]()
    if regions is not None:
        lines = regions.outlines()  # (e, p, 2)
        # The frame holds all rows, and regions where these do not dwarf them.
        low, high = T.min(axis=0), T.max(axis=0)
        room = 0.5 * np.maximum(high - low, 1e-12)
        held = np.vstack([T, np.clip(lines.reshape(-1, 2), low - room, high + room)])
    frame = equal_frame(held, titles)
    if regions is not None:
        rows: dict[str, Any] = {"row": table.at[regions.at]}
        how: dict[str, Any] = {"style": "eg-main"}
        encoded: dict[str, Any] = {}
        if colour is not None and colour.is_category:
            how, encoded = {}, {"color": coloured(colour)["color"]}
            rows["colour"] = np.array(colour.of_rows)[regions.at]
        opacity = 0.5 if len(lines) <= 40 else 0.3
        layers.append(
            outlines(frame, lines, rows, encoded, strokeWidth=0.9, opacity=opacity, **how)
        )
    return framed(frame, *origin(frame), *layers, points(frame, T, table, colour, titles))


def outlines(frame: Frame, closed: Array, rows: dict[str, Any], encoded: Any, **how: Any) -> Any:
    """Closed lines (e, p, 2); the first of `rows`, values of each, names them."""
    e, p = closed.shape[:2]
    lines = data(
        x=closed[:, :, 0].ravel(),
        y=closed[:, :, 1].ravel(),
        order=np.tile(np.arange(p), e),
        **{name: [value for value in values for _ in range(p)] for name, values in rows.items()},
    )
    return (
        alt.Chart(lines)
        .mark_line(clip=True, **how)
        .encode(
            **frame.encode(),
            detail=alt.Detail(field=next(iter(rows)), type="nominal"),
            order=alt.Order(field="order", type="quantitative"),
            **encoded,
        )
    )


def points(frame: Frame, T: Array, table: Table, colour: Colour | None, titles: list[str]) -> Any:
    """A mark for each row."""
    missing = np.isnan(table.X).sum(axis=1)
    columns: dict[str, Any] = {"x": T[:, 0], "y": T[:, 1], "row": table.at, "missing": missing}
    said = {"row": "#row", "x": "#" + titles[0], "y": "#" + titles[1], "missing": "#cells missing"}
    if colour is not None:
        columns["colour"] = colour.of_rows
        if colour.dates:
            columns["date"] = [None if day is None else as_date(day) for day in colour.values]
            said["date"] = colour.name
        else:
            said["colour"] = colour.name if colour.is_category else "#" + colour.name
    few = len(T) <= 1000
    return (
        alt.Chart(data(**columns))
        .mark_point(filled=True, size=34 if few else 17, opacity=0.8 if few else 0.45)
        .encode(**frame.encode(), tooltip=tips(**said), **coloured(colour))
    )


def _line(
    table: Table, T: Array, colour: Colour | None, regions: ScoreEllipses | None, titles: list[str]
) -> Any:
    """One component: a strip for each category, rows jittered vertically."""
    t = T[:, 0]
    jitter = ((table.at * 0.6180339887498949) % 1.0) - 0.5  # even, and always the same
    strips, group = ["rows"], ["rows"] * len(t)
    if colour is not None and colour.is_category:
        strips, group = list(colour.levels), colour.of_rows
    where = {name: len(strips) - 1 - k for k, name in enumerate(strips)}
    height = np.array([where[g] for g in group]) + 0.7 * jitter
    missing = np.isnan(table.X).sum(axis=1)
    columns = {"x": t, "y": height, "row": table.at, "missing": missing, "group": group}
    if colour is not None:
        columns["colour"] = colour.of_rows
    x = x_axis("x", titles[0], scale=alt.Scale(zero=False), axis=alt.Axis(grid=True))
    ends = alt.Scale(domain=[-0.5, len(strips) - 0.5], nice=False)
    y = y_axis("y", None, scale=ends, axis=None)
    layers: list[Any] = []
    if regions is not None:
        low, high = regions.intervals()
        bars = data(x=low, high=high, y=height[regions.at], row=table.at[regions.at])
        layers.append(
            alt.Chart(bars)
            .mark_rule(style="eg-accent", strokeWidth=1.3, opacity=0.8)
            .encode(x=x, x2="high", y=y, tooltip=tips(row="#row", x="#from", high="#to"))
        )
    tip = tips(row="#row", x="#" + titles[0], missing="#cells missing")
    layers.append(
        alt.Chart(data(**columns))
        .mark_point(filled=True, size=24, opacity=0.7 if len(t) <= 1000 else 0.4)
        .encode(x=x, y=y, tooltip=tip, **coloured(colour))
    )
    return alt.layer(*layers).properties(width=WIDTH, height=max(110, 80 * len(strips)))


def _notes(
    table: Table, regions: ScoreEllipses | None, colour: Colour | None, *, alone: bool
) -> list[str]:
    notes = [upper(table.sampling())]
    if regions is not None:
        incomplete = int(np.isnan(table.X).any(axis=1).sum())
        what, few = "Intervals" if alone else "Ellipses", len(regions.at)
        some = f"the {few} least sure of {incomplete} " if few < incomplete else ""
        probability = f"probability {100 * regions.level:g} %"
        notes.append(f"{what} hold the score with {probability}: {some}incomplete rows.")
    if colour is not None:
        notes.append(upper(colour.note))
    return notes


# Mixtures --------------------------------------------------------------------------------------


def mixture(estimator: Any, X: Any, *, axes: Any = (1, 2), max_rows: int = MOST_ROWS) -> Chart:
    """Rows coloured by the component that is responsible for them, and the components.

    Parameters
    ----------
    estimator : fitted MixturePPCA, or PPCAClassifier, whose classes are the components
    X : table of shape (n_samples, n_features)
    axes : pair of int, default=(1, 2)
        Axes of the plane that shows most of what the components explain and of how far they lie
        apart, counted from 1.
    max_rows : int, default=5000

    Returns
    -------
    altair chart
        Rows are the paler the less sure their component is; ellipses contain 95 % of a component.

    Examples
    --------
    >>> from eigengap import MixturePPCA
    >>> from eigengap.plots import mixture
    >>> from sklearn.datasets import load_iris
    >>> X = load_iris().data
    >>> model = MixturePPCA(2, 1, random_state=0).fit(X)
    >>> mixture(model, X).to_dict()["title"]["text"]
    'Components of MixturePPCA'
    """
    require_fitted(estimator)
    table = table_of(X, estimator, most=max_rows)
    pair = check_axes(axes, table.X.shape[1], public_name(estimator))
    if len(pair) != 2 or pair[0] == pair[1]:
        raise ValueError(f"axes={axes!r}: this chart needs two different axes")
    found = mixture_numbers(estimator, table, pair)
    lines, sure = found.ellipses.outlines(), np.max(found.resp, axis=1)
    titles = [f"axis {a + 1} ({100 * s:.0f} %)" for a, s in zip(pair, found.share, strict=True)]
    plain = equal_frame(np.vstack([found.points, lines.reshape(-1, 2)]), titles)
    largest = np.argsort(-found.weights, kind="stable")
    said = largest[:MOST_LABELLED]
    spots, text = apart(lines)[said], [found.names[k] for k in said]
    frame = with_room(plain, spots, text)
    shares = zip(found.names, found.weights, strict=True)
    legend = labels([f"{name} ({100 * w:.0f} %)" for name, w in shares], 40)
    if len(legend) > MOST_CATEGORIES:  # the small ones share a colour
        for k in largest[MOST_CATEGORIES - 1 :]:
            legend[k] = "others"
    levels = tuple(dict.fromkeys(legend))
    best = tuple(levels.index(legend[k]) for k in np.argmax(found.resp, axis=1))
    colour = Colour("component", levels, best)
    rows = data(
        x=found.points[:, 0], y=found.points[:, 1], row=table.at, sure=sure, colour=colour.of_rows
    )
    ends = alt.Scale(domain=[1.0 / max(found.resp.shape[1], 2), 1.0], range=[0.15, 0.85])
    encoded = {"color": coloured(colour)["color"]}
    chart = framed(
        frame,
        outlines(
            frame, lines, {"k": range(len(lines)), "colour": legend}, encoded, strokeWidth=1.8
        ),
        alt.Chart(rows)
        .mark_point(filled=True, size=34 if len(sure) <= 1000 else 18)
        .encode(
            **frame.encode(),
            opacity=alt.Opacity(**quantity("sure", "probability", scale=ends, legend=None)),
            tooltip=tips(row="#row", colour="component", sure="#probability"),
            **coloured(colour),
        ),
        *side_labels(frame, spots, text),
    )
    return finish(
        chart,
        f"Components of {public_name(estimator)}",
        f"{100 * np.mean(sure >= SURE):.0f} % of the rows are of one component with probability "
        f"{SURE:g} or more; the others are paler. Ellipses contain 95 % of a component.",
        "Axes show most of what the components explain and how they lie apart (share of that, "
        "noise aside).",
        upper(table.sampling()),
        width=480,
    )


def apart(outlines: Array) -> Array:
    """(K, 2) of outlines (K, points, 2): the point of each that is farthest from all others."""
    K = len(outlines)
    if K == 1:
        return np.asarray(outlines[:, np.argmax(outlines[0, :, 0])])
    spots = np.empty((K, 2))
    for k, outline in enumerate(outlines):
        others = np.delete(outlines, k, axis=0).reshape(-1, 2)
        distance = np.min(np.sum((outline[:, None] - others) ** 2, axis=2), axis=1)
        spots[k] = outline[np.argmax(distance)]
    return spots
