"""Charts with arrows: the biplot, and the correlation circle of variables and two components."""

from __future__ import annotations

from typing import Any

import numpy as np

from eigengap.estimators.shared.display import public_name, require_fitted
from eigengap.linalg import Array
from eigengap.plots._altair import alt
from eigengap.plots.arrows import arrows, longest, with_room
from eigengap.plots.charts.scores import points
from eigengap.plots.drawing import Chart, Frame, data, equal_frame, finish, origin, upper
from eigengap.plots.numbers.colour import chart_colour
from eigengap.plots.numbers.linear import require_linear
from eigengap.plots.numbers.names import names_of
from eigengap.plots.numbers.rows import MOST_READ, MOST_ROWS, Table, inner, table_of
from eigengap.plots.numbers.scores import check_axes, score_names
from eigengap.plots.numbers.variables import FORMULA, Scaling, biplot_numbers, correlations

WIDTH, SIDE = 460, 400
REACH = 0.85  # how far the longest arrow reaches relative to the farthest point
TICKS = (-1.0, -0.5, 0.0, 0.5, 1.0)


def biplot(
    estimator: Any,
    X: Any,
    *,
    axes: Any = (1, 2),
    color: Any = None,
    scaling: Scaling = "rows",
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
    max_rows : int, default=5000

    Returns
    -------
    altair chart

    Notes
    -----
    The inner product of a point with an arrow is the cell of that row and column, about the mean
    and in units of the fit, as far as the two components show it (Gabriel 1971). Points are scores
    times a number of each axis, which stands in its title where it is not 1. All arrows are drawn
    longer or shorter by one factor, which stands below the title.

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
    found = biplot_numbers(estimator, table, tuple(pair), scaling)
    colour = chart_colour(color, X, table)
    reach = float(np.max(np.abs(found.points), initial=0.0)) or 1.0
    far = float(np.max(np.abs(found.arrows), initial=0.0)) or 1.0
    factor = float(f"{REACH * reach / far:.2g}")  # two digits, so that it can be read
    known = score_names(estimator, q)
    titles = [  # the scores, or so many times these
        known[a] if abs(times - 1.0) < 1e-9 else f"{known[a]} × {times:.3g}"
        for a, times in zip(pair, found.factor, strict=True)
    ]
    corners = np.vstack([found.points, found.arrows * factor * 1.05])
    plain = equal_frame(corners, titles, width=WIDTH, least=340, most=WIDTH)
    frame, layers, note = _arrows(plain, found.arrows, estimator, titles, factor)
    chart = alt.layer(
        *origin(frame), points(frame, found.points, table, colour, titles), *layers
    ).properties(width=frame.width, height=frame.height)
    is_scaled = getattr(inner(estimator), "scale_", None) is not None
    unit = "standardised columns" if is_scaled else "columns about their means"
    return finish(
        chart,
        f"Biplot of {public_name(estimator)}",
        f'Scaling "{scaling}": {FORMULA[scaling]}.',
        f"Cells of {unit} are about point · arrow; arrows are drawn × {factor:g}.",
        note,
        upper(table.sampling()),
        upper(colour.note if colour is not None else ""),
        width=frame.width,
    )


def _arrows(
    plain: Frame, ends: Array, estimator: Any, titles: list[str], factor: float = 1.0
) -> tuple[Frame, list[Any], str]:
    """The frame with room for labels, arrows to the ends (d, 2), and words on those left out."""
    drawn, shown, note = longest(np.sum(ends**2, axis=1))
    every = names_of(estimator, len(ends))
    names = [every[j] for j in drawn]
    frame = with_room(plain, ends[drawn][shown] * factor, [names[k] for k in shown])
    return frame, arrows(frame, ends[drawn], names, shown, titles, factor), note


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
    a short one says nothing about its variable.

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
    pair = _two_axes(axes, r.shape[1], estimator)
    names = score_names(estimator, r.shape[1])
    titles = [names[a] for a in pair]
    reach = (-1.08, 1.08)
    across = (f"correlation with {titles[0]}", f"correlation with {titles[1]}")
    square = Frame(reach, reach, SIDE, SIDE, across, TICKS)
    frame, layers, note = _arrows(square, r[:, pair], estimator, titles)
    angle = np.linspace(0.0, 2.0 * np.pi, 121)
    ring = (
        alt.Chart(data(x=np.cos(angle), y=np.sin(angle), order=np.arange(121)))
        .mark_line(style="eg-frame", strokeWidth=1.2)
        .encode(**frame.encode(), order=alt.Order(field="order", type="quantitative"))
    )
    chart = alt.layer(ring, *origin(frame), *layers)
    return finish(
        chart.properties(width=frame.width, height=frame.height),
        f"Correlation circle of {public_name(estimator)}",
        how_known(table),
        note,
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


def how_known(table: Table | None) -> str:
    """Words on where correlations come from."""
    if table is None:
        return "Correlations by the model's covariance."
    if table.is_complete:
        return f"Correlations of {table.sampling() or f'{table.n:,} rows'}."
    return "Correlations by the model, from incomplete rows."
