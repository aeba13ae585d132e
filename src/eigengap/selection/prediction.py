"""How many components predict best: cross-validation over rows.

Criteria for the rank of a table ask how many components describe all of its columns. Where y, or a
class, is to be predicted that is another question. With 15 independent columns in X, BIC keeps one
or two factors of X and y together and leaves R2 at 0.72 where 0.85 is to be had; parallel analysis
of each class keeps 4 and 5 components on WDBC, where 2 classify best, and 6 on many digits, where
16 do. Errors on held-out rows ask the question itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eigengap.linalg import Array
from eigengap.models.gaussian.linear_gaussian import LinearGaussian
from eigengap.runtime.warnings import silence
from eigengap.selection.rank import search_ranks
from eigengap.sources import ArraySource, Rows

FOLDS = 5
AS_GOOD = 0.01  # share of the least error by which another may be larger
SEED = 0
NEARLY_NONE = 1e-10  # share of a column's variance below which its noise counts as none

# EM steps of the fits that only compare ranks. Beyond the rank of the data EM converges slowly, for
# hundreds of steps in which predictions hardly change.
SEARCH_STEPS = 30

Predict = Callable[[Array, Array | None, Array], Array]  # training table, weights, X -> y
Split = tuple[Array, Array | None, Array, Array | None]  # training, its weights, held out, its


def best(errors: dict[int, float]) -> int:
    """The fewest components whose error is the least, or as good as that.

    Curves end in plateaus, and components that predict nothing widen the intervals.
    """
    bound = min(errors.values()) * (1.0 + AS_GOOD)
    return min(q for q, error in errors.items() if error <= bound)


def _search(error: Callable[[int], float], most: int) -> dict[int, float]:
    with silence():  # the final fit gives its warnings
        return search_ranks(error, most)


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


# Classification -----------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class ClassRows:
    """The training rows of one class."""

    name: str  # for messages
    source: ArraySource
    n_columns: int | None = None  # after which there are details of cells; None for all


# ln p(x | k) (m, K) of rows, by densities of q components fitted to the rows of each class
Densities = Callable[[list[ClassRows], int, Rows], Array]


@dataclass(frozen=True, eq=False)
class _Split:
    training: list[ClassRows]
    held_out: Rows  # (m, d) of all classes
    code: NDArray[np.intp]  # (m,) position of the class of each
    weight: Array  # (m,)

    @classmethod
    def of(cls, parts: list[ClassRows], folds: list[NDArray[np.intp]], k: int) -> _Split:
        """Fold k held out of every class that can spare it; another keeps all of its rows."""
        training, out = list(parts), []
        for position, (part, fold) in enumerate(zip(parts, folds, strict=True)):
            kept = part.source.only(np.flatnonzero(fold != k)) if k in fold else None
            if kept is not None and np.all(kept.observed().per_column[: part.n_columns] > 0):
                training[position] = replace(part, source=kept)
                out.append((position, part.source.only(np.flatnonzero(fold == k))))
        return cls(
            training,
            _stacked([source.collect() for _, source in out]),
            np.repeat([position for position, _ in out], [source.n_rows for _, source in out]),
            np.concatenate([frequencies(source) for _, source in out] or [np.empty(0)]),
        )

    def wrong(self, densities: Densities, q: int) -> float:
        """Weight of the held-out rows that are classified wrongly."""
        log_prior = np.log([part.source.observed().sum_w for part in self.training])
        joint = log_prior + densities(self.training, q, self.held_out)
        return float(self.weight @ (joint.argmax(axis=1) != self.code))


def classification_errors(
    parts: list[ClassRows], densities: Densities, most: int | None = None
) -> dict[int, float]:
    """Share of held-out rows that are classified wrongly, by number of components.

    At most `most`, by default one less than there are columns. Empty where the classes have too few
    rows.
    """
    folds = [folds_by_content(part.source.collect(), FOLDS) for part in parts]
    every = [_Split.of(parts, folds, k) for k in range(max(int(f.max()) for f in folds) + 1)]
    splits = [split for split in every if len(split.code)]
    if len(every) < 2 or not splits:
        return {}
    largest = max(int(part.source.observed().sum_w) for part in splits[0].training)
    limit = parts[0].source.n_features - 1 if most is None else most
    most = max(1, min(limit, largest // 2))
    total = sum(float(split.weight.sum()) for split in splits)
    return _search(lambda q: sum(split.wrong(densities, q) for split in splits) / total, most)


def has_density(model: Any) -> bool:
    """Whether a complete row has a density under a model, and not one of almost no width."""
    if not isinstance(model, LinearGaussian):
        return True
    variance = model.variances()
    exact = model.W[model.psi <= NEARLY_NONE * variance] if np.any(variance > 0) else model.W
    return int(np.linalg.matrix_rank(exact)) == len(exact) if len(exact) else True


def frequencies(source: ArraySource) -> Array:
    """(n,) weights of all rows."""
    return np.ones(source.n_rows) if source.weight is None else source.weight


def _stacked(tables: list[Rows]) -> Rows:
    if not tables or isinstance(tables[0], np.ndarray):
        return np.concatenate(tables or [np.empty((0, 0))])
    import scipy.sparse

    return scipy.sparse.vstack(tables, format="csr")


# Regression ---------------------------------------------------------------------------------------


def prediction_errors(
    fit_predict: Callable[[int], Predict], joint: Array, targets: int, weight: Array | None
) -> dict[int, float]:
    """Held-out squared error, as a share of y's variance, at each number of components tried.

    joint (n, d) holds the columns of X and then those of y. Empty where y is observed in too few
    rows.
    """
    splits = list(_splits(joint, targets, weight))
    if not splits:
        return {}
    # Rows in which the target that is observed least was observed
    observed = [(~np.isnan(training[:, -targets:]), w) for training, w, *_ in splits]
    rows = min(np.min(o.sum(axis=0) if w is None else w @ o) for o, w in observed)
    most = max(1, min(joint.shape[1] - 1, int(rows) // 2))
    unit = _variance(joint[:, -targets:], weight)

    def error(q: int) -> float:
        predict = fit_predict(q)
        total = count = 0.0
        for training, kept, out, w in splits:
            X, Y = out[:, :-targets], out[:, -targets:]
            squares = (predict(training, kept, X) - Y) ** 2 / unit
            share: Any = 1.0 if w is None else w[:, None]
            total += float(np.nansum(squares * share))
            count += float(np.sum(~np.isnan(squares) * share))
        return total / count if count else np.inf

    return _search(error, most)


def _splits(joint: Array, targets: int, weight: Array | None) -> Iterator[Split]:
    """Folds over the rows in which some y was observed; the others always train."""
    labelled = np.flatnonzero(~np.isnan(joint[:, -targets:]).all(axis=1))
    fold = np.full(len(joint), -1)
    fold[labelled] = folds_by_content(joint[labelled], FOLDS)
    for k in range(fold.max() + 1):
        out = fold == k
        training, kept = joint[~out], None if weight is None else weight[~out]
        if np.isnan(training).all(axis=0).any():  # a column of these rows alone: hide y only
            training, kept = joint.copy(), weight
            training[out, -targets:] = np.nan
        if np.isnan(training).all(axis=0).any():
            continue
        yield training, kept, joint[out], None if weight is None else weight[out]


def _variance(Y: Array, weight: Array | None) -> Array:
    """(k,) of the observed values of each target; 1 for a constant one."""
    w = ~np.isnan(Y) * (np.ones(len(Y)) if weight is None else weight)[:, None]
    mean = np.nansum(w * Y, axis=0) / w.sum(axis=0)
    variance = np.nansum(w * (Y - mean) ** 2, axis=0) / w.sum(axis=0)
    return np.where(variance > 0, variance, 1.0)
