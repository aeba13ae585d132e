"""Leaving saddles of the ICA contrast: pairs of components that a rotation of 45 degrees improves.

Tichavsky, Koldovsky and Oja (2006), "Performance analysis of the FastICA algorithm and Cramer-Rao
bounds", section V: where a search ends short of independence, it is mostly because two sources lie
mixed half and half in two components, and rotating these by 45 degrees shows it. All pairs are
tried, on a sample of the rows.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from eigengap.linalg import Array
from eigengap.statistics.nonlinearity import Nonlinearity, gaussian_reference
from eigengap.statistics.score_moments import ScoreBlock

ROWS = 2048  # on which pairs are judged
ERRORS = 3.0  # standard errors by which a rotation must improve
HALF = np.sqrt(0.5)


def rotated_pairs(block: ScoreBlock, R: Array, fun: Nonlinearity) -> Array | None:
    """R with its improvable pairs rotated, or None where there are none.

    A component takes part in one rotation at most, the most promising ones first.
    """
    Y = np.asarray(block.Z @ R.T, dtype=np.float32)
    w = np.ones(len(Y)) if block.weight is None else block.weight
    share = (w / np.sum(w)).astype(np.float32)
    centre = gaussian_reference(fun, 1.0).potential
    candidates = [
        (i, j) for i in range(Y.shape[1] - 1) for j in _promising(Y, i, share, fun, centre)
    ]
    found = [
        (gain, i, j)
        for i, j in candidates
        for gain, error in [_gain(Y[:, [i, j]], w, fun, centre)]
        if gain > ERRORS * error
    ]
    if not found:
        return None
    rotation, free = np.eye(len(R)), np.ones(len(R), dtype=bool)
    for _, i, j in sorted(found, key=lambda pair: (-pair[0], pair[1:])):
        if free[i] and free[j]:
            free[i] = free[j] = False
            rotation[np.ix_([i, j], [i, j])] = HALF * np.array([[1.0, 1.0], [1.0, -1.0]])
    return rotation @ R


def _promising(
    Y: NDArray[np.float32], i: int, share: NDArray[np.float32], fun: Nonlinearity, centre: float
) -> list[int]:
    """Later components whose rotation with i improves the contrast of these rows."""
    one, others = Y[:, i : i + 1], Y[:, i + 1 :]
    rotated = _distance((one + others) * np.float32(HALF), share, fun, centre)
    rotated += _distance((one - others) * np.float32(HALF), share, fun, centre)
    before = _distance(Y[:, i:], share, fun, centre)
    return [i + 1 + int(k) for k in np.flatnonzero(rotated > before[0] + before[1:])]


def _distance(
    Y: NDArray[np.float32], share: NDArray[np.float32], fun: Nonlinearity, centre: float
) -> Array:
    """|E F(y) - E F(nu)| of each column."""
    F = fun.potential(Y)
    assert F is not None
    return np.abs(np.asarray(share @ F, dtype=np.float64) - centre)


def _gain(
    pair: NDArray[np.float32], w: Array, fun: Nonlinearity, centre: float
) -> tuple[float, float]:
    """What rotating a pair (k, 2) gains, and its standard error.

    Over all rows the pair is white. So what the gain has in common with squares and product of
    the pair is no chance of the sample: it is regressed out.
    """
    y = pair.astype(np.float64)
    rotated = y @ (HALF * np.array([[1.0, 1.0], [1.0, -1.0]]))
    terms = np.zeros(len(y))
    for Y, side in ((rotated, 1.0), (y, -1.0)):
        F = fun.potential(Y)
        assert F is not None
        mean = w @ F / np.sum(w)
        terms += side * ((F - centre) @ np.where(mean > centre, 1.0, -1.0))
    squares = np.column_stack([np.ones(len(y)), y**2 - 1.0, y[:, 0] * y[:, 1]])
    root = np.sqrt(w)
    fitted = np.linalg.lstsq(squares * root[:, None], terms * root, rcond=None)[0]
    rest = terms - squares @ fitted
    return float(fitted[0]), float(np.sqrt(w @ rest**2) / np.sum(w))
