"""Distances between rows by the metrics of scikit-learn and SciPy, or by a function of two rows.

Rows are float64 and compared by their differences, so that a common offset costs no digits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import pairwise_distances
from sklearn.metrics.pairwise import PAIRWISE_BOOLEAN_FUNCTIONS
from sklearn.neighbors import VALID_METRICS

from eigengap.fitting.graph.pairs import distance_matrix, refuse_range
from eigengap.linalg import Array
from eigengap.runtime.memory import require_memory
from eigengap.runtime.warnings import warn
from eigengap.sources.base import Source
from eigengap.sources.wording import column, show
from eigengap.statistics.moments import Moments

METRICS = frozenset(VALID_METRICS["brute"]) - {"precomputed", "matching"}  # an alias of hamming
BLOCK_BYTES = 64 << 20  # of a matrix of distances to fitted rows that are computed at a time

Metric = str | Callable[..., float]


@dataclass(frozen=True, eq=False)
class RowDistances:
    """Distances to fitted rows."""

    metric: Metric
    params: dict[str, Any]  # of the metric, including those estimated from the rows
    rows: Any  # (n, d) float64 or bool; CSR where the metric takes it

    @classmethod
    def of(cls, source: Source, metric: Metric, params: dict[str, Any] | None) -> RowDistances:
        given = params or {}
        found = estimated(lambda: source.reduce(Moments.of), source.names, metric, given)
        return cls(metric, given | found, as_rows(source.collect(), metric, own=True))

    def among(self) -> Array:
        """Distances (n, n) of the fitted rows to each other."""
        D = self._between(self.rows, None)
        self._require_finite(D, 0)
        if callable(self.metric):
            return distance_matrix(D)
        refuse_range(float(np.max(D)))
        return D

    def to(self, X: Any, start: int = 0) -> Iterator[Array]:
        """Distances (c, n) of new rows to the fitted ones, some rows at a time."""
        X = as_rows(X, self.metric)
        step = max(1, BLOCK_BYTES // (8 * self.rows.shape[0]))
        for first in range(0, X.shape[0], step):
            D = self._between(X[first : first + step], self.rows)
            self._require_finite(D, start + first)
            yield D

    def _between(self, X: Any, Y: Any) -> Array:
        """Distances of the rows X to the rows Y, or to each other."""
        if self.metric == "nan_euclidean":
            return nan_euclidean(X, X if Y is None else Y)
        return np.asarray(pairwise_distances(X, Y, metric=self.metric, **self.params))

    def _require_finite(self, D: Array, start: int) -> None:
        with np.errstate(over="ignore"):  # the sum of finite distances may not be
            if np.isfinite(np.sum(D)):
                return
        bad = ~np.isfinite(D)
        if not bad.any():
            return
        i, j = map(int, np.unravel_index(int(np.argmax(bad)), D.shape))
        raise ValueError(
            f"metric={_named(self.metric)} gives {D[i, j]} for row {start + i} and fitted row {j}: "
            "it has no value there. Leave out one of the two, or use another metric"
        )


def as_rows(values: Any, metric: Metric, own: bool = False) -> Any:
    """Rows as the metric takes them; `own` makes sure that they are not the caller's array."""
    if not isinstance(values, np.ndarray):
        if metric == "cosine":
            return values.astype(np.float64)
        n, d = values.shape
        way_out = 'metric="cosine" and "euclidean" take sparse rows as they are'
        require_memory(8.0 * n * d, f"a dense copy of {n} sparse rows", way_out)
        values = values.toarray()
    if metric in PAIRWISE_BOOLEAN_FUNCTIONS:
        if np.any((values != 0) & (values != 1)):
            warn(
                f"metric={_named(metric)} compares truth values: every number but 0 counts as true",
                UserWarning,
            )
        return values.astype(bool)
    return values.astype(np.float64, copy=own)


def estimated(
    find: Callable[[], Moments],
    names: tuple[str, ...] | None,
    metric: Metric,
    params: dict[str, Any],
) -> dict[str, Any]:
    """Parameters that a metric takes from the rows, found once so that new rows get the same."""
    standardised = metric == "seuclidean" and "V" not in params
    if not standardised and not (metric == "mahalanobis" and "VI" not in params):
        return {}
    moments = find()
    covariance = moments.scatter / (moments.sum_w - 1.0)
    if standardised:
        variance = covariance.diagonal().copy()
        if not np.all(variance > 0.0):
            raise ValueError(
                'metric="seuclidean" divides by standard deviations, but column '
                f"{column(names, int(np.argmax(variance <= 0.0)))} is constant; drop it, or give "
                'metric_params={"V": ...}'
            )
        return {"V": variance}
    if np.linalg.matrix_rank(covariance, hermitian=True) < len(covariance):
        raise ValueError(
            'metric="mahalanobis" needs the inverse of the covariance of the columns, which is '
            "singular: there are too few rows, or columns depend on each other. Reduce the columns "
            'first (PCA), or give metric_params={"VI": ...}'
        )
    return {"VI": np.linalg.inv(covariance)}


def nan_euclidean(X: Array, Y: Array) -> Array:
    """Euclidean distances over the columns observed in both rows, scaled up to d (Dixon 1979)."""
    d = X.shape[1]
    total, both = np.zeros((len(X), len(Y))), np.zeros((len(X), len(Y)))
    for j in range(d):
        apart = X[:, j, None] - Y[None, :, j]
        observed = ~np.isnan(apart)
        both += observed
        np.multiply(apart, apart, out=apart)
        np.add(total, apart, out=total, where=observed)
    return np.sqrt(total * np.divide(d, both, out=np.full_like(both, np.nan), where=both > 0))


def _named(metric: Metric) -> str:
    return show(metric) if isinstance(metric, str) else getattr(metric, "__name__", repr(metric))


# Functions of two rows ----------------------------------------------------------------------


class NoDistanceError(ValueError):
    """A metric has no value for two rows."""

    def __init__(self, name: str, a: NDArray[Any], b: NDArray[Any]) -> None:
        super().__init__(f"metric={name} gives NaN for two rows")
        self.name, self.a, self.b = name, np.array(a), np.array(b)


@dataclass(frozen=True)
class CheckedMetric:
    """A function of two rows that may not return NaN: a tree would silently lose such rows."""

    metric: Callable[..., float]

    def __call__(self, a: NDArray[Any], b: NDArray[Any], **given: Any) -> float:
        found = self.metric(a, b, **given)
        if np.isnan(found):
            raise NoDistanceError(_named(self.metric), a, b)
        return found


@contextmanager
def naming_rows(fitted: Any, new: Any = None) -> Iterator[None]:
    """Name the rows in the error of a metric that has no value for them."""
    try:
        yield
    except NoDistanceError as error:
        rows = [name for name in (_position(r, fitted, new) for r in (error.a, error.b)) if name]
        if len(rows) == 2:
            which = f"{rows[0]} and {rows[1]}: leave out one of the two, or use another metric"
        else:  # a tree compares rows with the centres of its balls
            which = (
                f"{rows[0] if rows else 'a mean of rows'} and a mean of rows, which a tree of "
                'rows is built by: neighbors_algorithm="brute" compares rows with rows alone'
            )
        raise ValueError(f"metric={error.name} gives NaN for {which}") from None


def _position(row: NDArray[Any], fitted: Any, new: Any) -> str:
    for what, rows in (("row", new), ("row" if new is None else "fitted row", fitted)):
        if isinstance(rows, np.ndarray):
            same = np.flatnonzero((rows == row).all(axis=1))
            if len(same):
                return f"{what} {int(same[0])}"
    return ""
