"""Variables and components: biplot, correlation circle, contributions, cos² (of rows as well)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from eigengap.estimators.shared.display import public_name, require_fitted
from eigengap.linalg import Array
from eigengap.plots._altair import alt
from eigengap.plots.arrows import (
    MOST_LABELLED,
    arrow_marks,
    arrows,
    longest,
    side_labels,
    with_room,
)
from eigengap.plots.charts.scores import outlines, points
from eigengap.plots.drawing import (
    Chart,
    Frame,
    coloured,
    data,
    equal_frame,
    finish,
    framed,
    kind,
    origin,
    tips,
    upper,
    words,
    x_axis,
    y_axis,
)
from eigengap.plots.numbers.associations import Region
from eigengap.plots.numbers.colour import Colour, chart_colour
from eigengap.plots.numbers.names import label, names_of
from eigengap.plots.numbers.rows import (
    MOST_READ,
    MOST_ROWS,
    Table,
    coded_table,
    count_of,
    inner,
    table_of,
)
from eigengap.plots.numbers.scores import (
    ScoreEllipses,
    check_axes,
    require_linear,
    score_names,
    scores_of,
)
from eigengap.plots.numbers.variables import (
    FORMULA,
    Levels,
    Scaling,
    biplot_numbers,
    correlations,
    row_contributions,
    row_cos2,
    variable_contributions,
    variable_cos2,
)

WIDTH, SIDE = 460, 400
SMOOTH = 97  # points of an ellipse of a level
REACH = 0.85  # how far the longest arrow reaches relative to the farthest point
TICKS = (-1.0, -0.5, 0.0, 0.5, 1.0)


def biplot(
    estimator: Any,
    X: Any,
    *,
    axes: Any = (1, 2),
    color: Any = None,
    scaling: Scaling = "rows",
    categories: bool | Sequence[str] = True,
    ellipses: Region | None = None,
    max_rows: int = MOST_ROWS,
) -> Chart:
    """Rows and columns of a table in one chart, along two components.

    Parameters
    ----------
    estimator : fitted PCA, PPCA, FactorAnalysis, BayesianPCA or ICA
    X : table of shape (n_samples, n_features)
    axes : pair of int, default=(1, 2)
        Components, counted from 1.
    color : str or array of shape (n_samples,), default=None
        As in `scores`.
    scaling : {"rows", "columns", "symmetric"}, default="rows"
        Which distances are to be true: those between points ("rows"), or lengths and angles of
        arrows as standard deviations and correlations ("columns"); or neither ("symmetric").
    categories : bool or list of column names, default=True
        Of a fit with `columns=`: whose levels are points, at the barycentre of their rows, in place
        of an arrow. True takes the columns of two levels and of levels without an order.
    ellipses : {"rows", "barycentre"}, default=None
        Regions of these levels: where 95 % of their rows lie, or where the mean of a level lies
        with a probability of 95 %. If `color` names one of the columns, its levels alone have them.
    max_rows : int, default=5000

    Returns
    -------
    altair chart

    Notes
    -----
    The inner product of a point with an arrow is the cell of that row and column, about the mean
    and in units of the fit, as far as the two components show it (Gabriel 1971). Points are scores
    times a number of each axis, which stands in its title where it is not 1. All arrows are drawn
    longer or shorter by one factor, which stands below the title. Columns of several kinds have
    arrows for the Gaussian variables behind them.

    Examples
    --------
    >>> from eigengap import PCA
    >>> from eigengap.plots import biplot
    >>> from sklearn.datasets import load_iris
    >>> iris = load_iris(as_frame=True)
    >>> chart = biplot(PCA(2, scale=True).fit(iris.data), iris.data, color=iris.target)
    >>> chart.to_dict()["title"]["subtitle"][0]
    'Scaling "rows": points t, arrows u: distances between points are those between'
    """
    require_fitted(estimator)
    q = require_linear(estimator, "biplot").L.shape[1]
    pair = _two_axes(axes, q, estimator)
    table = table_of(X, estimator, most=max_rows)
    found = biplot_numbers(estimator, table, tuple(pair), scaling, categories)
    colour = chart_colour(color, X, table)
    levels = found.levels
    reach = float(np.max(np.abs(found.points), initial=0.0)) or 1.0
    far = float(np.max(np.abs(found.arrows), initial=0.0)) or 1.0
    factor = float(f"{REACH * reach / far:.2g}")  # two digits, so that it can be read
    known = score_names(estimator, q)
    titles = [  # the scores, or so many times these
        known[a] if abs(times - 1.0) < 1e-9 else f"{known[a]} × {times:.3g}"
        for a, times in zip(pair, found.factor, strict=True)
    ]
    regions: list[tuple[str, Array, str]] = []
    encoded: dict[str, Any] = {}
    corners = [found.points, found.arrows * factor * 1.05]
    if levels is not None and ellipses is not None:
        regions, encoded = _regions(levels, ellipses, color, colour)
        corners += [outline for _, outline, _ in regions]
    plain = equal_frame(np.vstack(corners), titles, width=WIDTH, least=340, most=WIDTH)
    drawn, shown, note = longest(np.sum(found.arrows**2, axis=1))
    ends = found.arrows[drawn]
    names = [found.names[j] for j in drawn]
    at, texts = ends[shown] * factor, [names[k] for k in shown]
    styles = ["eg-label"] * len(texts)
    if levels is not None:
        few = np.sort(np.argsort(-levels.weight, kind="stable")[:MOST_LABELLED])
        at = np.vstack([at, levels.points[few]])
        texts += [label(levels.labels[k]) for k in few]
        styles += ["eg-level-label"] * len(few)
    frame = with_room(plain, at, texts)
    layers = [*origin(frame), points(frame, found.points, table, colour, titles)]
    if regions:
        layers.append(_outlines_of(frame, regions, encoded))
    if len(ends):
        layers += arrow_marks(frame, ends, names, titles, factor)
    if levels is not None:
        layers.append(_barycentres(frame, levels, titles))
    is_coded = coded_table(estimator) is not None
    is_scaled = getattr(inner(estimator), "scale_", None) is not None
    unit = "standardised columns" if is_scaled else "columns about their means"
    unit = "the variables behind columns" if is_coded else unit
    about = f"Cells of {unit} are about point · arrow; arrows are drawn × {factor:g}."
    return finish(
        framed(frame, *layers, *side_labels(frame, at, texts, styles)),
        f"Biplot of {public_name(estimator)}",
        f'Scaling "{scaling}": {FORMULA[scaling]}.',
        about if len(ends) else "",
        "Diamonds are the means of the rows of a level." if levels is not None else "",
        OF_REGIONS[ellipses] if regions and ellipses is not None else "",
        note,
        upper(table.sampling()),
        upper(colour.note if colour is not None else ""),
        width=frame.width,
    )


OF_REGIONS: dict[str, str] = {
    "rows": "Ellipses contain 95 % of the rows of a level if these are Gaussian.",
    "barycentre": "Ellipses are 95 % confidence regions of the mean of a level.",
}


def _regions(
    levels: Levels, of: Region, color: Any, colour: Colour | None
) -> tuple[list[tuple[str, Array, str]], dict[str, Any]]:
    """Label, outline (p, 2) and colour of each ellipse, and how lines are coloured."""
    if of not in OF_REGIONS:
        raise ValueError(f'ellipses must be "rows", "barycentre" or None, got {of!r}')
    cov = levels.cov if of == "rows" else levels.cov_barycentre
    is_coloured = colour is not None and colour.is_category and color in levels.columns
    at = np.array(
        [
            i
            for i, column in enumerate(levels.columns)
            if np.isfinite(cov[i]).all() and (not is_coloured or column == color)
        ],
        dtype=np.intp,
    )
    outlines = ScoreEllipses(at, levels.points[at], cov[at], 0.95).outlines(SMOOTH)
    own = [levels.names[i] if is_coloured else "" for i in at]
    found = [(levels.labels[i], outlines[k], own[k]) for k, i in enumerate(at)]
    if colour is None or not is_coloured or not set(own) <= set(colour.levels):
        return [(name, outline, "") for name, outline, _ in found], {}
    return found, {"color": coloured(colour)["color"]}


def _outlines_of(
    frame: Frame, regions: list[tuple[str, Array, str]], encoded: dict[str, Any]
) -> Any:
    lines = np.stack([outline for _, outline, _ in regions])
    rows = {"level": [name for name, _, _ in regions], "colour": [c for _, _, c in regions]}
    how: dict[str, Any] = {} if encoded else {"style": "eg-frame"}
    return outlines(frame, lines, rows, encoded, strokeWidth=1.6, opacity=0.9, **how)


def _barycentres(frame: Frame, levels: Levels, titles: list[str]) -> Any:
    """A diamond for each level."""
    shown = data(
        x=levels.points[:, 0],
        y=levels.points[:, 1],
        level=[label(text) for text in levels.labels],
        column=[label(text) for text in levels.columns],
        weight=levels.weight,
    )
    said = {"level": "", "column": "column", "weight": "#rows"}
    return (
        alt.Chart(shown)
        .mark_point(style="eg-level", shape="diamond", filled=True, size=90, opacity=1.0)
        .encode(**frame.encode(), tooltip=tips(**said, x="#" + titles[0], y="#" + titles[1]))
    )


def _arrows(
    plain: Frame, ends: Array, every: list[str], titles: list[str]
) -> tuple[Frame, list[Any], str]:
    """The frame with room for labels, arrows to the ends (d, 2), and words on those left out."""
    drawn, shown, note = longest(np.sum(ends**2, axis=1))
    names = [every[j] for j in drawn]
    frame = with_room(plain, ends[drawn][shown], [names[k] for k in shown])
    return frame, arrows(frame, ends[drawn], names, shown, titles), note


def correlation_circle(estimator: Any, X: Any = None, *, axes: Any = (1, 2)) -> Chart:
    """Correlations of the variables with two components, in the unit circle.

    Parameters
    ----------
    estimator : fitted estimator
    X : table of shape (n_samples, n_features), default=None
        Of complete rows the correlations are those of the sample. With missing values, and without
        X, they come from the model. Estimators that are not linear need X.
    axes : pair of int, default=(1, 2)
        Components, counted from 1.

    Returns
    -------
    altair chart

    Notes
    -----
    An arrow that reaches the circle belongs to a variable that the two components show entirely;
    a short one carries no information on its variable.

    Examples
    --------
    >>> from eigengap import PCA
    >>> from eigengap.plots import correlation_circle
    >>> from sklearn.datasets import load_iris
    >>> iris = load_iris(as_frame=True).data
    >>> chart = correlation_circle(PCA(2, scale=True).fit(iris))
    >>> chart.to_dict()["title"]["text"]
    'Correlation circle of PCA'
    """
    require_fitted(estimator)
    table = None if X is None else table_of(X, estimator, most=MOST_READ)
    r = correlations(estimator, table)
    every, left_out = names_of(estimator, len(r)), ""
    if np.isnan(r).any():
        kept = np.flatnonzero(~np.isnan(r).all(axis=1))
        r, every = np.nan_to_num(r[kept]), [every[j] for j in kept]
        left_out = "Columns of levels without an order have no correlation."
    pair = _two_axes(axes, r.shape[1], estimator)
    names = score_names(estimator, r.shape[1])
    titles = [names[a] for a in pair]
    reach = (-1.08, 1.08)
    across = (f"correlation with {titles[0]}", f"correlation with {titles[1]}")
    square = Frame(reach, reach, SIDE, SIDE, across, TICKS)
    frame, layers, note = _arrows(square, r[:, pair], every, titles)
    angle = np.linspace(0.0, 2.0 * np.pi, 121)
    ring = (
        alt.Chart(data(x=np.cos(angle), y=np.sin(angle), order=np.arange(121)))
        .mark_line(style="eg-frame", strokeWidth=1.2)
        .encode(**frame.encode(), order=alt.Order(field="order", type="quantitative"))
    )
    return finish(
        framed(frame, ring, *origin(frame), *layers),
        f"Correlation circle of {public_name(estimator)}",
        how_known(table, is_coded=coded_table(estimator) is not None),
        note,
        left_out,
        width=SIDE,
    )


def _two_axes(axes: Any, q: int, estimator: Any) -> list[int]:
    """Positions of two different components."""
    if q < 2:
        raise ValueError(
            f"{public_name(estimator)} has one component, and this chart needs two: fit more, or "
            "draw contributions or cos2"
        )
    pair = check_axes(axes, q, public_name(estimator))
    if len(pair) != 2 or pair[0] == pair[1]:
        raise ValueError(f"axes={axes!r}: this chart needs two different components")
    return list(pair)


def how_known(table: Table | None, *, is_coded: bool = False) -> str:
    """Words on where correlations come from."""
    if is_coded and table is not None:
        rows = table.sampling() or f"{table.n:,} rows"
        return f"Of {rows}, each column where it is observed."
    if table is None:
        return "Correlations by the model's covariance."
    if table.is_complete:
        return f"Correlations of {table.sampling() or f'{table.n:,} rows'}."
    return "Correlations by the model, from incomplete rows."


# Contributions and cos2 ------------------------------------------------------------------------


def contributions(
    estimator: Any, X: Any = None, *, axes: Any = (1, 2), top: int = 20, of: str = "variables"
) -> Chart:
    """What each variable, or each row, contributes to components, in per cent.

    Parameters
    ----------
    estimator : fitted estimator
    X : table of shape (n_samples, n_features), default=None
        Needed for rows, and of a fit with `columns=`.
    axes : int or several, default=(1, 2)
        Components, counted from 1; those that there are not are left out of the default.
    top : int, default=20
        Most bars: those of the largest contribution to all of the components together.
    of : {"variables", "rows"}, default="variables"

    Returns
    -------
    altair chart

    Notes
    -----
    Contributions to a component sum to 100. The dashed line is where all would be if they were
    equal. Of a fit with `columns=` they are FAMD's: shares in the sum of squared correlations of
    columns of numbers and correlation ratios of columns with levels.

    Examples
    --------
    >>> from eigengap import PCA
    >>> from eigengap.plots import contributions
    >>> from sklearn.datasets import load_iris
    >>> chart = contributions(PCA(2).fit(load_iris(as_frame=True).data))
    >>> chart.to_dict()["title"]["text"]
    'Contributions of the variables to PCA'
    """
    require_fitted(estimator)
    table = _of_rows(estimator, X, of)
    if table is None:
        share, names = variable_contributions(estimator, X), names_of(estimator)
    else:
        share, names = row_contributions(estimator, table), [f"row {i}" for i in table.at]
    positions, titles = _some(axes, share.shape[1], estimator)
    order = np.argsort(-share[:, positions].sum(axis=1), kind="stable")[: count_of("top", top)]
    even = 100.0 / len(share)
    panels = [
        _bars([names[j] for j in order], share[order, a], title, even, first=k == 0)
        for k, (a, title) in enumerate(zip(positions, titles, strict=True))
    ]
    return finish(
        alt.hconcat(*panels, spacing=16),
        f"Contributions of the {of} to {public_name(estimator)}",
        f"Contributions to a component sum to 100 %. Dashed: {even:.3g} %, were all equal.",
        _some_of(len(order), len(share), of),
        "" if table is None else upper(table.sampling()),
        width=150 + 200 * len(panels),
    )


def cos2(
    estimator: Any,
    X: Any = None,
    *,
    axes: Any = (1, 2),
    top: int = 20,
    of: str = "variables",
    max_rows: int = MOST_ROWS,
) -> Chart:
    """How well components represent each variable, or each row: cos2, between 0 and 1.

    Parameters
    ----------
    estimator : fitted estimator
    X : table of shape (n_samples, n_features), default=None
        As in `correlation_circle`; needed for rows.
    axes : int or several, default=(1, 2)
        Components, counted from 1.
    top : int, default=20
        Most bars, the best represented first.
    of : {"variables", "rows"}, default="variables"
        Rows are drawn at their scores, coloured by cos2, with the distribution of cos2.
    max_rows : int, default=5000

    Returns
    -------
    altair chart

    Notes
    -----
    cos2 is the squared cosine of the angle between a variable (or row) and its projection on the
    components: the share of its variance (squared distance from the mean) that they show. Over all
    components of a complete table it sums to 1.

    Examples
    --------
    >>> from eigengap import PCA
    >>> from eigengap.plots import cos2
    >>> from sklearn.datasets import load_iris
    >>> chart = cos2(PCA(2).fit(load_iris(as_frame=True).data))
    >>> chart.to_dict()["title"]["text"]
    'Quality of representation (cos²) of the variables'
    """
    require_fitted(estimator)
    rows = _of_rows(estimator, X, of, max_rows)
    if rows is not None:
        return _cos2_of_rows(estimator, rows, axes)
    table = None if X is None else table_of(X, estimator, most=MOST_READ)
    quality = variable_cos2(estimator, table)
    positions, titles = _some(axes, quality.shape[1], estimator)
    names, plane = names_of(estimator, len(quality)), quality[:, positions].sum(axis=1)
    order = np.argsort(-plane, kind="stable")[: count_of("top", top)]
    is_coded = coded_table(estimator) is not None
    what = "cos², η²" if is_coded else "cos²"
    chart = _stack([names[j] for j in order], quality[order][:, positions], titles, what)
    along = " and ".join(titles)
    return finish(
        chart,
        f"{'Association' if is_coded else 'Quality of representation'} ({what}) of the variables",
        f"Squared correlations and correlation ratios of columns and {along}."
        if is_coded
        else f"Share of each variable's variance along {along}.",
        how_known(table, is_coded=is_coded),
        _some_of(len(order), len(quality), of),
        width=480,
    )


def _bars(names: list[str], share: Array, title: str, even: float, *, first: bool) -> Any:
    y = alt.Y(**kind("name", None, sort=names, axis=alt.Axis(labels=first, labelPadding=6)))
    scale = alt.Scale(domain=[0, max(float(share.max(initial=0.0)) * 1.12, even * 1.25)])
    ticks = alt.Axis(tickCount=5)
    x = x_axis("share", f"contribution to {title}, %", scale=scale, axis=ticks)
    return alt.layer(
        alt.Chart(data(name=names, share=share))
        .mark_bar(style="eg-main", height={"band": 0.72})
        .encode(y=y, x=x, tooltip=tips(name="", share="#contribution, %")),
        alt.Chart(data(share=[even]))
        .mark_rule(style="eg-accent", strokeDash=[5, 3], strokeWidth=1.4)
        .encode(x=x),
    ).properties(width=200, height=max(20 * len(names), 60))


def _stack(names: list[str], quality: Array, titles: list[str], what: str) -> Any:
    k = len(titles)
    before = np.cumsum(quality, axis=1) - quality
    bars = data(
        name=np.repeat(names, k).tolist(),
        low=before.ravel(),
        high=(before + quality).ravel(),
        middle=(before + quality / 2.0).ravel(),
        cos2=quality.ravel(),
        component=titles * len(names),
    )
    y = alt.Y(**kind("name", None, sort=names, axis=alt.Axis(labelPadding=6)))
    top = max(1.0, float((before + quality).max(initial=1.0)))
    x = x_axis("low", what, scale=alt.Scale(domain=[0, top], nice=False))
    base = alt.Chart(bars).encode(y=y)
    scale = alt.Scale(domain=titles)
    legend = alt.Legend(offset=44)  # beyond the sums, which stand at the ends of the bars
    blocks = base.mark_bar(style="eg-segment", height={"band": 0.72}).encode(
        x=x,
        x2="high",
        color=alt.Color(**kind("component", "component", sort=titles, scale=scale, legend=legend)),
        tooltip=tips(name="", component="component", cos2="#" + what),
    )
    totals = quality.sum(axis=1)
    sums = data(name=names, total=totals, said=[f"{v:.2f}" for v in totals])
    ends = (
        alt.Chart(sums)
        .mark_text(style="eg-note", align="left", dx=4)
        .encode(y=y, x=x_axis("total", what), text=words())
    )
    inside = base.transform_filter("datum.cos2 > 0.12").mark_text(style="eg-on-strong", fontSize=10)
    named = inside.encode(x=x_axis("middle", what), text=words("component"), y=y)
    return alt.layer(blocks, named, ends).properties(width=340, height=max(20 * len(names), 60))


def _cos2_of_rows(estimator: Any, table: Table, axes: Any) -> Chart:
    quality = row_cos2(estimator, table)
    positions, titles = _some(axes, quality.shape[1], estimator)
    plane = np.clip(quality[:, positions].sum(axis=1), 0.0, 1.0)
    count, edges = np.histogram(plane, np.linspace(0.0, 1.0, 21))
    bars = data(low=edges[:-1], high=edges[1:], count=count)
    middle = float(np.median(plane))
    x = x_axis("low", "cos² of the rows", scale=alt.Scale(domain=[0, 1]))
    histogram = alt.layer(
        alt.Chart(bars)
        .mark_rect(style="eg-main", opacity=0.85)
        .encode(x=x, x2="high", y=y_axis("count", "rows"), y2=alt.datum(0)),
        alt.Chart(data(low=[middle]))
        .mark_rule(style="eg-accent", strokeDash=[5, 3], strokeWidth=1.6)
        .encode(x=x),
    ).properties(width=300 if len(positions) > 1 else 420, height=300)
    chart: Chart = histogram
    if len(positions) > 1:
        T = scores_of(estimator, table)[:, positions[:2]]
        points = data(x=T[:, 0], y=T[:, 1], colour=plane, row=table.at)
        scatter = (
            alt.Chart(points)
            .mark_point(filled=True, size=32, opacity=0.85)
            .encode(
                x=x_axis("x", titles[0], scale=alt.Scale(zero=False)),
                y=y_axis("y", titles[1], scale=alt.Scale(zero=False)),
                tooltip=tips(row="#row", colour="#cos²"),
                **coloured(Colour("cos²", values=tuple(plane))),
            )
            .properties(width=320, height=300)
        )
        chart = alt.hconcat(scatter, histogram, spacing=28)
    incomplete = "What is not known of an incomplete row counts as not represented."
    return finish(
        chart,
        "Quality of representation (cos²) of the rows",
        f"Share of each row's squared distance from the mean along {' and '.join(titles)}; "
        f"median {middle:.2f} (dashed).",
        "" if table.is_complete else incomplete,
        upper(table.sampling()),
        width=640,
    )


def _of_rows(estimator: Any, X: Any, of: str, most: int = MOST_ROWS) -> Table | None:
    if of not in ("variables", "rows"):
        raise ValueError(f'of must be "variables" or "rows", got {of!r}')
    if of == "variables":
        return None
    if X is None:
        raise ValueError('of="rows" needs the table X whose rows they are')
    return table_of(X, estimator, most=most)


def _some(axes: Any, q: int, estimator: Any) -> tuple[list[int], list[str]]:
    """Positions of the components asked for, and their names."""
    asked = (1,) if q == 1 and tuple(np.atleast_1d(axes)) == (1, 2) else axes
    positions = check_axes(asked, q, public_name(estimator))
    names = score_names(estimator, q)
    return list(positions), [names[a] for a in positions]


def _some_of(shown: int, total: int, of: str) -> str:
    return "" if shown == total else f"The {shown} largest of {total:,} {of}."
