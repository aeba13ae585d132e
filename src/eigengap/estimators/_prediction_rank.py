"""How many components predict y best: cross-validation over rows.

BIC asks how many components describe X and y together, and where X has no structure of its own it
keeps too few to predict y: with 15 independent columns of X it left R2 at 0.72 where 0.85 was to be
had. Squared error on held-out y asks the question itself.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eigengap.linalg import Array

FOLDS = 5
PATIENCE = 3  # numbers of components in a row that may be worse before the search ends
SEED = 0

Predict = Callable[[Array, Array | None, Array], Array]  # training table, weights, X -> y


def prediction_errors(
    fit_predict: Callable[[int], Predict], joint: Array, targets: int, weight: Array | None
) -> dict[int, float]:
    """Held-out squared error, as a share of y's variance, at each number of components tried.

    joint (n, d) holds the columns of X and then those of y. Empty where y is seen in too few rows.
    """
    folds = list(_splits(joint, targets, weight))
    most = largest(joint.shape, folds)
    unit = _variance(joint[:, -targets:], weight)
    errors: dict[int, float] = {}
    q, risen = 1, 0
    while folds and q <= most and risen < PATIENCE:
        errors[q] = _error(fit_predict(q), folds, targets, unit)
        risen = 0 if errors[q] <= min(errors.values()) else risen + 1
        q += max(1, q // 4)
    return errors


Split = tuple[Array, Array | None, Array, Array | None]  # training, its weights, held out, its


def largest(shape: tuple[int, ...], folds: list[Split]) -> int:
    """Most components considered: fewer than columns, and two training rows for each."""
    rows = min((len(training) for training, *_ in folds), default=2)
    return max(1, min(shape[1] - 1, rows // 2))


def _splits(joint: Array, targets: int, weight: Array | None) -> Iterator[Split]:
    """Folds over the rows in which some y was seen; the others always train.

    Equal rows lie in the same fold, so that a weight of 2 is the row twice.
    """
    fold = _folds(joint, np.asarray(~np.isnan(joint[:, -targets:]).all(axis=1)))
    for k in range(fold.max() + 1):
        out = fold == k
        training, kept = joint[~out], None if weight is None else weight[~out]
        if np.isnan(training).all(axis=0).any():  # a column seen only in these rows: hide y alone
            training, kept = joint.copy(), weight
            training[out, -targets:] = np.nan
        if np.isnan(training).all(axis=0).any():
            continue
        yield training, kept, joint[out], None if weight is None else weight[out]


def _folds(joint: Array, labelled: NDArray[np.bool_]) -> NDArray[np.intp]:
    """(n,) fold of every row, -1 for rows without y."""
    rows = np.ascontiguousarray(joint[labelled])
    as_bytes = rows.view(np.dtype((np.void, rows.dtype.itemsize * rows.shape[1])))[:, 0]
    distinct, which = np.unique(as_bytes, return_inverse=True)
    fold = np.full(len(joint), -1)
    count = min(FOLDS, len(distinct) // 2)
    if count >= 2:
        dealt = np.random.default_rng(SEED).permutation(len(distinct)) % count
        fold[labelled] = dealt[which]
    return fold


def _error(predict: Predict, folds: list[Split], targets: int, unit: Array) -> float:
    total = count = 0.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what matters is told of the final fit
        for training, kept, out, w in folds:
            X, Y = out[:, :-targets], out[:, -targets:]
            squares = (predict(training, kept, X) - Y) ** 2 / unit
            share: Any = 1.0 if w is None else w[:, None]
            total += float(np.nansum(squares * share))
            count += float(np.sum(~np.isnan(squares) * share))
    return total / count if count else np.inf


def _variance(Y: Array, weight: Array | None) -> Array:
    """(k,) of what was seen of each target; 1 for a constant one."""
    w = ~np.isnan(Y) * (np.ones(len(Y)) if weight is None else weight)[:, None]
    mean = np.nansum(w * Y, axis=0) / w.sum(axis=0)
    variance = np.nansum(w * (Y - mean) ** 2, axis=0) / w.sum(axis=0)
    return np.where(variance > 0, variance, 1.0)
