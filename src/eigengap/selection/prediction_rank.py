"""How many components predict best: cross-validation over rows.

Criteria for the rank of a table ask how many components describe all of its columns. Where y, or a
class, is to be predicted that is another question. With 15 independent columns in X, BIC keeps one
or two factors of X and y together and leaves R2 at 0.72 where 0.85 is to be had; parallel analysis
of each class keeps 4 and 5 components on WDBC, where 2 classify best, and 6 on many digits, where
16 do. Errors on held-out rows ask the question itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eigengap.linalg import Array
from eigengap.runtime.warnings import silence

FOLDS = 5
PATIENCE = 2  # doublings in a row that may be worse before the search ends
REFINEMENTS = 2  # halvings of the distance to the next number that was tried
AS_GOOD = 0.01  # share of the least error by which another may be larger
SEED = 0

# Steps of the fits that only compare ranks. Beyond the rank that the data have EM creeps along
# ridges for hundreds of steps, on which predictions hardly change.
SEARCH_STEPS = 30

Predict = Callable[[Array, Array | None, Array], Array]  # training table, weights, X -> y
Split = tuple[Array, Array | None, Array, Array | None]  # training, its weights, held out, its


def search(error: Callable[[int], float], most: int) -> dict[int, float]:
    """Errors at 1, 2, 4, ... components, to a few beyond the least, then at numbers beside it."""
    errors: dict[int, float] = {}

    def ask(q: int) -> None:
        if q not in errors:
            with silence():  # what matters is told of the final fit
                errors[q] = error(q)

    q, risen = 1, 0
    while q <= most and risen < PATIENCE:
        ask(q)
        risen = 0 if errors[q] <= min(errors.values()) else risen + 1
        q = min(2 * q, most) if q < most else most + 1
    for _ in range(REFINEMENTS):
        tried, at = sorted(errors), sorted(errors).index(best(errors))
        for beside in (tried[max(at - 1, 0)], tried[min(at + 1, len(tried) - 1)]):
            ask((tried[at] + beside) // 2)
    return dict(sorted(errors.items()))


def best(errors: dict[int, float]) -> int:
    """The fewest components whose error is the least, or as good as that.

    Curves end in plateaus, and components that predict nothing widen the intervals.
    """
    bound = min(errors.values()) * (1.0 + AS_GOOD)
    return min(q for q, error in errors.items() if error <= bound)


def folds_by_content(rows: Any, count: int) -> NDArray[np.intp]:
    """(n,) fold of every row, 0 to count - 1; -1 throughout where there are too few rows.

    Equal rows lie in the same fold, so that a weight of 2 is the row twice, and the order of the
    rows does not matter.
    """
    dense = rows if isinstance(rows, np.ndarray) else rows.toarray()
    dense = np.ascontiguousarray(dense)
    as_bytes = dense.view(np.dtype((np.void, dense.dtype.itemsize * dense.shape[1])))[:, 0]
    distinct, which = np.unique(as_bytes, return_inverse=True)
    count = min(count, len(distinct) // 2)
    if count < 2:
        return np.full(len(dense), -1)
    return (np.random.default_rng(SEED).permutation(len(distinct)) % count)[which]


# Regression --------------------------------------------------------------------------------


def prediction_errors(
    fit_predict: Callable[[int], Predict], joint: Array, targets: int, weight: Array | None
) -> dict[int, float]:
    """Held-out squared error, as a share of y's variance, at each number of components tried.

    joint (n, d) holds the columns of X and then those of y. Empty where y is seen in too few rows.
    """
    splits = list(_splits(joint, targets, weight))
    if not splits:
        return {}
    rows = min(_labelled(training[:, -targets:], w) for training, w, *_ in splits)
    most = max(1, min(joint.shape[1] - 1, int(rows) // 2))
    unit = _variance(joint[:, -targets:], weight)
    return search(lambda q: _squared_error(fit_predict(q), splits, targets, unit), most)


def _splits(joint: Array, targets: int, weight: Array | None) -> Iterator[Split]:
    """Folds over the rows in which some y was seen; the others always train."""
    labelled = np.flatnonzero(~np.isnan(joint[:, -targets:]).all(axis=1))
    fold = np.full(len(joint), -1)
    fold[labelled] = folds_by_content(joint[labelled], FOLDS)
    for k in range(fold.max() + 1):
        out = fold == k
        training, kept = joint[~out], None if weight is None else weight[~out]
        if np.isnan(training).all(axis=0).any():  # a column seen only in these rows: hide y alone
            training, kept = joint.copy(), weight
            training[out, -targets:] = np.nan
        if np.isnan(training).all(axis=0).any():
            continue
        yield training, kept, joint[out], None if weight is None else weight[out]


def _squared_error(predict: Predict, splits: list[Split], targets: int, unit: Array) -> float:
    total = count = 0.0
    for training, kept, out, w in splits:
        X, Y = out[:, :-targets], out[:, -targets:]
        squares = (predict(training, kept, X) - Y) ** 2 / unit
        share: Any = 1.0 if w is None else w[:, None]
        total += float(np.nansum(squares * share))
        count += float(np.sum(~np.isnan(squares) * share))
    return total / count if count else np.inf


def _labelled(Y: Array, weight: Array | None) -> float:
    """Rows in which the target that is seen least was seen."""
    observed = ~np.isnan(Y)
    return float(np.min(observed.sum(axis=0) if weight is None else weight @ observed))


def _variance(Y: Array, weight: Array | None) -> Array:
    """(k,) of what was seen of each target; 1 for a constant one."""
    w = ~np.isnan(Y) * (np.ones(len(Y)) if weight is None else weight)[:, None]
    mean = np.nansum(w * Y, axis=0) / w.sum(axis=0)
    variance = np.nansum(w * (Y - mean) ** 2, axis=0) / w.sum(axis=0)
    return np.where(variance > 0, variance, 1.0)
