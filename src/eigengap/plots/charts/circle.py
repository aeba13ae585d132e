"""The correlation circle: how variables and two components go together."""

from __future__ import annotations

from typing import Any

import numpy as np

from eigengap.estimators.shared.display import public_name, require_fitted
from eigengap.plots._altair import alt
from eigengap.plots.arrows import arrows, longest
from eigengap.plots.drawing import Chart, Frame, data, finish, origin
from eigengap.plots.numbers.names import names_of
from eigengap.plots.numbers.rows import MOST_READ, Table, table_of
from eigengap.plots.numbers.scores import check_axes, score_names
from eigengap.plots.numbers.variables import correlations
from eigengap.plots.placing import with_room

SIDE = 400
TICKS = (-1.0, -0.5, 0.0, 0.5, 1.0)


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
    pair = two_axes(axes, r.shape[1], estimator)
    found = score_names(estimator, r.shape[1])
    names = names_of(estimator, len(r))
    ends = r[:, pair]
    titles = [found[a] for a in pair]
    drawn, shown, note = longest(np.sum(ends**2, axis=1))
    ends, names = ends[drawn], [names[j] for j in drawn]
    reach = 1.08
    across = (f"correlation with {titles[0]}", f"correlation with {titles[1]}")
    square = Frame((-reach, reach), (-reach, reach), SIDE, SIDE, across, TICKS)
    frame = with_room(square, ends[shown], [names[k] for k in shown])
    angle = np.linspace(0.0, 2.0 * np.pi, 121)
    circle = data(x=np.cos(angle), y=np.sin(angle), order=np.arange(121))
    ring = (
        alt.Chart(circle)
        .mark_line(style="eg-frame", strokeWidth=1.2)
        .encode(
            x=frame.encode_x(),
            y=frame.encode_y(),
            order=alt.Order(field="order", type="quantitative"),
        )
    )
    chart = alt.layer(ring, *origin(frame), *arrows(frame, ends, names, shown, titles)).properties(
        width=frame.width, height=frame.height
    )
    return finish(
        chart,
        f"Correlation circle of {public_name(estimator)}",
        how_known(table),
        note,
        width=SIDE,
    )


def two_axes(axes: Any, q: int, estimator: Any) -> list[int]:
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
        sampled = table.sampling()
        return f"Correlations of {sampled or f'{table.n:,} rows'}."
    return "Correlations by the model, from incomplete rows."
