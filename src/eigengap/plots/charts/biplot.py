"""The biplot: rows as points, columns as arrows, their inner products the cells of the table."""

from __future__ import annotations

from typing import Any

import numpy as np

from eigengap.estimators.shared.display import public_name, require_fitted
from eigengap.plots._altair import alt
from eigengap.plots.arrows import arrows, longest
from eigengap.plots.charts.circle import two_axes
from eigengap.plots.charts.scores import points
from eigengap.plots.drawing import Chart, equal_frame, finish, origin, upper
from eigengap.plots.numbers.biplot import FORMULA, Scaling, biplot_numbers
from eigengap.plots.numbers.colour import colour_of
from eigengap.plots.numbers.linear import require_linear
from eigengap.plots.numbers.names import names_of
from eigengap.plots.numbers.rows import MOST_ROWS, inner, table_of
from eigengap.plots.numbers.scores import score_names
from eigengap.plots.placing import with_room

WIDTH = 460
FILLS = 0.85  # how far the longest arrow reaches beside the farthest point


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
    view = require_linear(estimator, "biplot")
    q = view.L.shape[1]
    pair = two_axes(axes, q, estimator)
    table = table_of(X, estimator, most=max_rows)
    found = biplot_numbers(estimator, table, tuple(pair), scaling)
    colour = colour_of(color, X, table)
    reach = float(np.max(np.abs(found.points), initial=0.0)) or 1.0
    far = float(np.max(np.abs(found.arrows), initial=0.0)) or 1.0
    factor = _round(FILLS * reach / far)
    corners = np.vstack([found.points, found.arrows * factor * 1.05])
    known = score_names(estimator, q)
    titles = [_title(known[a], times) for a, times in zip(pair, found.factor, strict=True)]
    drawn, shown, note = longest(np.sum(found.arrows**2, axis=1))
    every = names_of(estimator, len(found.arrows))
    names, ends = [every[j] for j in drawn], found.arrows[drawn]
    plain = equal_frame(corners, titles, width=WIDTH, least=340, most=WIDTH)
    frame = with_room(plain, ends[shown] * factor, [names[k] for k in shown])
    chart = alt.layer(
        *origin(frame),
        points(frame, found.points, table, colour, titles),
        *arrows(frame, ends, names, shown, titles, factor),
    ).properties(width=frame.width, height=frame.height)
    unit = (
        "standardised columns"
        if getattr(inner(estimator), "scale_", None) is not None
        else ("columns about their means")
    )
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


def _title(name: str, times: float) -> str:
    """What an axis shows: the scores, or so many times these."""
    return name if abs(times - 1.0) < 1e-9 else f"{name} × {times:.3g}"


def _round(factor: float) -> float:
    """To two digits, so that it can be read."""
    return float(f"{factor:.2g}")
