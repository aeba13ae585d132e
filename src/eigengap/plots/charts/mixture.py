"""Components of a mixture: rows by their responsibilities, components as ellipses."""

from __future__ import annotations

from typing import Any

import numpy as np

from eigengap.estimators.shared.display import public_name, require_fitted
from eigengap.linalg import Array
from eigengap.plots._altair import alt
from eigengap.plots.arrows import MOST_LABELLED, side_labels
from eigengap.plots.drawing import (
    Chart,
    Frame,
    coloured,
    data,
    equal_frame,
    finish,
    tips,
    upper,
)
from eigengap.plots.numbers.clusters import Clusters, mixture_numbers
from eigengap.plots.numbers.colour import MOST_CATEGORIES, Colour
from eigengap.plots.numbers.names import labels
from eigengap.plots.numbers.rows import MOST_ROWS, Table, table_of
from eigengap.plots.numbers.scores import check_axes
from eigengap.plots.placing import with_room

SURE = 0.9  # responsibility from which a row counts as being of its component


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
        Rows are the paler the less sure their component is; ellipses hold 95 % of a component.

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
    found = mixture_numbers(estimator, table.X, pair)
    best = np.argmax(found.resp, axis=1)
    named = _named(found)
    titles = [f"axis {a + 1} ({100 * s:.0f} %)" for a, s in zip(pair, found.share, strict=True)]
    plain = equal_frame(np.vstack([found.points, found.ellipses.outlines().reshape(-1, 2)]), titles)
    said = np.argsort(-found.weights, kind="stable")[:MOST_LABELLED]
    spots, text = apart(found.ellipses.outlines())[said], [found.names[k] for k in said]
    frame = with_room(plain, spots, text)
    colour = Colour([named[k] for k in best], "component", list(dict.fromkeys(named)))
    chart = alt.layer(
        _ellipses(frame, found, named, colour),
        _rows(frame, found, table, colour),
        *side_labels(frame, spots, text),
    ).properties(width=frame.width, height=frame.height)
    sure = float(np.mean(np.max(found.resp, axis=1) >= SURE))
    return finish(
        chart,
        f"Components of {public_name(estimator)}",
        f"{100 * sure:.0f} % of the rows are of one component with probability {SURE:g} or more; "
        "the others are paler. Ellipses hold 95 % of a component.",
        "Axes show most of what the components explain and how they lie apart (share of that, "
        "noise aside).",
        upper(table.sampling()),
        width=480,
    )


def _named(found: Clusters) -> list[str]:
    """Legend of each component; beyond what colours tell apart they share one."""
    names = [
        f"{name} ({100 * w:.0f} %)" for name, w in zip(found.names, found.weights, strict=True)
    ]
    names = labels(names, 40)
    if len(names) <= MOST_CATEGORIES:
        return names
    large = set(np.argsort(-found.weights, kind="stable")[: MOST_CATEGORIES - 1].tolist())
    return [name if k in large else "others" for k, name in enumerate(names)]


def _ellipses(frame: Frame, found: Clusters, named: list[str], colour: Colour) -> Any:
    outlines = found.ellipses.outlines()
    K, p = outlines.shape[:2]
    lines = data(
        x=outlines[:, :, 0].ravel(),
        y=outlines[:, :, 1].ravel(),
        k=np.repeat(np.arange(K), p),
        order=np.tile(np.arange(p), K),
        colour=np.repeat(named, p).tolist(),
    )
    base = alt.Chart(lines).encode(
        x=frame.encode_x(),
        y=frame.encode_y(),
        detail=alt.Detail(field="k", type="nominal"),
        order=alt.Order(field="order", type="quantitative"),
        color=coloured(colour)["color"],
    )
    return base.mark_line(strokeWidth=1.8, clip=True)


def _rows(frame: Frame, found: Clusters, table: Table, colour: Colour) -> Any:
    sure = np.max(found.resp, axis=1)
    points = data(
        x=found.points[:, 0], y=found.points[:, 1], row=table.at, sure=sure, colour=colour.values
    )
    return (
        alt.Chart(points)
        .mark_point(filled=True, size=34 if len(sure) <= 1000 else 18)
        .encode(
            x=frame.encode_x(),
            y=frame.encode_y(),
            opacity=alt.Opacity(
                field="sure",
                type="quantitative",
                title="probability",
                scale=alt.Scale(
                    domain=[1.0 / max(found.resp.shape[1], 2), 1.0], range=[0.15, 0.85]
                ),
                legend=None,
            ),
            tooltip=tips(row="#row", colour="component", sure="#probability"),
            **coloured(colour),
        )
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
