"""Distances of some rows of a table to all of them, a block at a time: never an n x n matrix.

Euclidean distances of many columns come from a matrix product, |x|^2 + |y|^2 - 2 x'y of centred
rows, with a bound on what rounding did to them; rows whose neighbours are nearer than that bound
can resolve are computed again from their differences. Other metrics are SciPy's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import nan, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

from eigengap.fitting.graph.distances import nan_euclidean
from eigengap.fitting.graph.pairs import refuse_column_ranges, rounding
from eigengap.linalg import Array
from eigengap.sources import as_source, show

Ints = NDArray[np.intp]
Metric = str | Callable[[Array, Array], float]

FEW_COLUMNS = 16  # up to which differences are as fast as a product
EPS = float(np.finfo(np.float64).eps)
ROUNDING = 64 * EPS  # relative, within which two distances count as equal
ROWS = 256  # of a given matrix that are looked at at a time
ALIASES = {"l1": "cityblock", "manhattan": "cityblock", "l2": "euclidean"}  # scikit-learn's names
RESOLVED = 1e-6  # largest share of the nearest neighbour's squared distance that may be rounding


@dataclass(frozen=True, eq=False)
class Blur:
    """What rounding may have done to the distances of some rows."""

    added: Array  # (b, 1) whatever their size
    rooted: float = 0.0  # times their square root: cells are stored with an error of their own

    def at(self, row: int) -> Blur:
        """Of one of the rows."""
        return Blur(self.added[row : row + 1], self.rooted)

    def below(self, D: Array) -> Array:
        """The largest values (b, k) that are certainly less than D (b, k)."""
        size = np.abs(D)
        return np.asarray(D - (ROUNDING * size + self.rooted * np.sqrt(size) + self.added))


class Pairs:
    """Distances between n points, or their squares."""

    squared = False
    n: int

    def block(self, rows: Ints) -> tuple[Array, Blur]:
        """D (b, n) of some rows to all, inf for a row itself; and how sure it is."""
        raise NotImplementedError

    def lengths(self, D: Array) -> Array:
        """The distances themselves, inf where D is; D is used up."""
        return np.sqrt(np.maximum(D, 0.0, out=D), out=D) if self.squared else D


class EuclideanPairs(Pairs):
    """Squared Euclidean distances of complete rows."""

    squared = True

    def __init__(self, X: Array) -> None:
        refuse_column_ranges(X)
        self.n = len(X)
        self.X = np.ascontiguousarray(X - np.mean(X, axis=0))  # (n, d)
        self.square = np.einsum("ij,ij->i", self.X, self.X)  # (n,) |x|^2
        self.most = float(np.max(self.square))
        # What the offset of the cells takes of their differences, over a row
        largest = np.max(np.abs(X), axis=0)
        unit = float(np.max(largest, initial=0.0)) or 1.0
        self.stored = 2 * EPS * unit * float(np.linalg.norm(largest / unit))

    def blur(self, count: int) -> Blur:
        """How sure the distances of so many rows are that come from differences."""
        return Blur(np.zeros((count, 1)), 2 * self.stored)

    def block(self, rows: Ints) -> tuple[Array, Blur]:
        if self.X.shape[1] <= FEW_COLUMNS:
            D = _without_self(cdist(self.X[rows], self.X, "sqeuclidean"), rows)
            return D, self.blur(len(rows))
        D = (-2.0 * self.X[rows]) @ self.X.T
        D += self.square[rows, None]
        D += self.square
        _without_self(D, rows)
        slack = 8 * EPS * (self.square[rows] + self.most)
        blurred = np.flatnonzero(slack > RESOLVED * np.min(D, axis=1))
        if len(blurred):
            exact = cdist(self.X[rows[blurred]], self.X, "sqeuclidean")
            D[blurred] = _without_self(exact, rows[blurred])
            slack[blurred] = 0.0
        return D, Blur(slack[:, None], 2 * self.stored)


class IncompletePairs(Pairs):
    """Squared Euclidean distances over the cells that both rows have, scaled up (Dixon 1979)."""

    squared = True

    def __init__(self, X: Array) -> None:
        refuse_column_ranges(X)
        self.X, self.n = X, len(X)

    def block(self, rows: Ints) -> tuple[Array, Blur]:
        D = _without_self(nan_euclidean(self.X[rows], self.X) ** 2, rows)
        if np.isnan(D).any():
            i, j = _first(np.isnan(D))
            raise ValueError(
                f"rows {int(rows[i])} and {j} of X have no cell in common, so that nothing is "
                "known of their distance; impute the missing values first (impute, LowRankImputer)"
            )
        return D, Blur(np.zeros((len(rows), 1)))


class MetricPairs(Pairs):
    """Distances by one of SciPy's metrics, or a function of two rows."""

    def __init__(self, X: Array, metric: Metric) -> None:
        self.X, self.n = X, len(X)
        self.metric: Any = metric
        self.params = _estimated(X, metric)  # what the metric learns from all rows

    def block(self, rows: Ints) -> tuple[Array, Blur]:
        try:
            D = np.asarray(cdist(self.X[rows], self.X, self.metric, **self.params))
        except ValueError as error:
            raise ValueError(f"metric={show(self.metric)}: {error}") from None
        D[np.arange(len(rows)), rows] = 0.0
        _refuse_unknown(D, ~np.isfinite(D), rows, f"metric={show(self.metric)} gives")
        return _without_self(D, rows), Blur(np.zeros((len(rows), 1)))


class GivenPairs(Pairs):
    """Precomputed distances: a matrix (n, n), or a function of row numbers."""

    def __init__(self, n: int, given: NDArray[Any] | Callable[[Ints], NDArray[Any]]) -> None:
        self.n, self.given = n, given
        if callable(given):
            return
        if given.shape != (n, n):
            raise ValueError(
                f"distances between {n} points are a square matrix ({n}, {n}), got {given.shape}; "
                "or give a function of row numbers (b,) that returns their distances (b, n) to "
                "all. On landmarks Isomap has its own residual_variance_"
            )
        for start in range(0, n, ROWS):
            rows = np.arange(start, min(start + ROWS, n))
            _refuse_impossible(given[rows], rows)
            _refuse_asymmetric(given[rows], given[:, rows].T, rows)

    def block(self, rows: Ints) -> tuple[Array, Blur]:
        found = self.given(rows) if callable(self.given) else self.given[rows]
        D = np.array(found, dtype=np.float64)
        if D.shape != (len(rows), self.n):
            raise ValueError(
                f"distances of {len(rows)} rows to all {self.n} are needed, got shape {D.shape}"
            )
        unknown = np.isnan(D)
        unknown[np.arange(len(rows)), rows] = False
        _refuse_unknown(D, unknown, rows, "the given distances hold")
        if callable(self.given):
            _refuse_impossible(D, rows)
        return _without_self(D, rows), Blur(np.zeros((len(rows), 1)))


@dataclass(frozen=True, eq=False)
class DistanceMoments:
    """Moments of pairs of distances (d, d'), which merge (Chan, Golub and LeVeque 1983)."""

    count: float
    mean: Array  # (2,)
    scatter: Array  # (2, 2) about the mean

    @classmethod
    def of(cls, far: Array, near: Array, rows: Ints) -> DistanceMoments:
        """far, near (b, n) of the points `rows` (b,) to all; both are used up."""
        count, itself = float(far.size - len(rows)), (np.arange(len(rows)), rows)
        far[itself] = near[itself] = 0.0
        mean = np.array([np.sum(far), np.sum(near)]) / count
        if not np.isfinite(mean[0]):
            raise ValueError(
                "some distances are infinite: points that no path joins have no distance to keep; "
                "measure each component by itself"
            )
        far -= mean[0]
        near -= mean[1]
        far[itself] = near[itself] = 0.0  # a point and itself are no pair
        cross = np.vdot(far, near)
        return cls(
            count, mean, np.array([[np.vdot(far, far), cross], [cross, np.vdot(near, near)]])
        )

    @classmethod
    def merged(cls, parts: Sequence[DistanceMoments]) -> DistanceMoments:
        count = float(sum(part.count for part in parts))
        mean = sum((part.count / count * part.mean for part in parts), np.zeros(2))
        scatter = np.zeros((2, 2))
        for part in parts:
            delta = part.mean - mean
            scatter += part.scatter + part.count * np.outer(delta, delta)
        return cls(count, mean, scatter)

    @property
    def residual_variance(self) -> float:
        """1 - r^2; where either does not vary, 0 if both do not and 1 if the other does."""
        (a, c), (_, b) = self.scatter
        varies = np.array([a, b]) > self.count * (ROUNDING * self.mean) ** 2
        if not np.all(varies):
            return float(np.any(varies))
        return float(max(1.0 - c * c / (a * b), 0.0))

    @property
    def stress(self) -> float:
        """Of 0 where all are 0, of 1 where all distances of the embedding are."""
        (a, c), (_, b) = self._about_zero
        if a <= 0.0 or b <= 0.0:
            return float(a > 0.0)
        return float(sqrt(max(1.0 - c * c / (a * b), 0.0)))

    @property
    def scale(self) -> float:
        (_, c), (_, b) = self._about_zero
        return float(c / b) if b > 0.0 else nan

    @property
    def _about_zero(self) -> Array:
        return self.scatter + self.count * np.outer(self.mean, self.mean)


def table(values: Any, which: str) -> Array:
    """A table (n, d) of numbers, dense and in float64; `which` it is, for messages."""
    try:
        found = as_source(values).collect()
    except ValueError as error:
        raise ValueError(str(error).replace("Input X", f"Input {which}", 1)) from None
    return np.asarray(found if isinstance(found, np.ndarray) else found.toarray(), np.float64)


def coordinates(values: Any, which: str) -> Array:
    """A table of coordinates (n, q): none may be missing or infinite."""
    plain = None if hasattr(values, "toarray") else np.asarray(values)
    if plain is not None and plain.ndim == 2 and plain.dtype.kind == "f" and np.isinf(plain).any():
        i, j = _first(np.isinf(plain))
        raise ValueError(
            f"Input {which} contains infinity: {plain[i, j]} at row {i}, column {j}; leave that "
            "point out of both tables"
        )
    points = table(values, which)
    if np.isnan(points).any():
        i, j = _first(np.isnan(points))
        raise ValueError(
            f"{which} has no coordinate at row {i}, column {j}; leave that point out of both tables"
        )
    return points


def pairs_of(X: Array, metric: Metric) -> Pairs:
    """The distances of a table by a metric; "precomputed" where the table holds them already."""
    if isinstance(metric, str):
        metric = ALIASES.get(metric, metric)
    if metric == "precomputed":
        return GivenPairs(len(X), X)
    missing = np.isnan(X)
    if missing.any():
        if metric not in ("euclidean", "nan_euclidean"):
            i, j = _first(missing)
            raise ValueError(
                f"Input X contains NaN: row {i}, column {j}; metric={show(metric)} does not accept "
                'missing values. Use metric="euclidean", which compares the cells that both rows '
                "have, or impute them first (impute, LowRankImputer)"
            )
        return IncompletePairs(X)
    if metric in ("euclidean", "nan_euclidean"):
        return EuclideanPairs(X)
    return MetricPairs(X, metric)


def _without_self(D: Array, rows: Ints) -> Array:
    D[np.arange(len(rows)), rows] = np.inf
    return D


def _estimated(X: Array, metric: Metric) -> dict[str, Any]:
    """Parameters that a metric takes from all rows."""
    if metric == "seuclidean":
        variance = np.asarray(np.var(X, axis=0, ddof=1))
        if not np.all(variance > 0.0):
            raise ValueError(
                'metric="seuclidean" divides by standard deviations, but column '
                f"{int(np.argmax(~(variance > 0.0)))} of X is constant; leave it out"
            )
        return {"V": variance}
    if metric != "mahalanobis":
        return {}
    covariance = np.atleast_2d(np.cov(X, rowvar=False))
    if np.linalg.matrix_rank(covariance, hermitian=True) < len(covariance):
        raise ValueError(
            'metric="mahalanobis" needs the inverse of the covariance of the columns of X, which '
            "is singular: there are too few rows, or columns depend on each other. Reduce the "
            'columns first (PCA), or give distances of your own as metric="precomputed"'
        )
    return {"VI": np.asarray(np.linalg.inv(covariance))}


def _first(found: NDArray[np.bool_]) -> tuple[int, int]:
    """Row and column of the first True."""
    i, j = np.argwhere(found)[0]
    return int(i), int(j)


def _refuse_unknown(D: Array, bad: NDArray[np.bool_], rows: Ints, who: str) -> None:
    if bad.any():
        i, j = _first(bad)
        value = "NaN" if np.isnan(D[i, j]) else D[i, j]
        raise ValueError(
            f"{who} {value} for rows {int(rows[i])} and {j}: leave out one of the two, or use "
            "another metric"
        )


def _refuse_impossible(D: NDArray[Any], rows: Ints) -> None:
    """Refuse distances (b, n) below 0, and of a point to itself that are not 0."""
    slack = _slack(D)
    low = -slack > D
    if low.any():
        i, j = _first(low)
        raise ValueError(
            f"the given distances are negative: {float(D[i, j]):.6g} at row {int(rows[i])}, column "
            f"{j}. Similarities s have to be made distances first, for instance sqrt(2 - 2 s)"
        )
    own = D[np.arange(len(rows)), rows]
    if np.any(np.abs(own) > slack):
        i = int(np.argmax(np.abs(own) > slack))
        raise ValueError(
            f"the given distance of a point to itself is {float(own[i]):.6g}, not 0, at row "
            f"{int(rows[i])}, column {int(rows[i])}: if these are similarities s, make distances "
            "of them first, for instance sqrt(2 - 2 s)"
        )


def _refuse_asymmetric(D: NDArray[Any], across: NDArray[Any], rows: Ints) -> None:
    """Refuse distances D (b, n) that differ from those of the other direction."""
    with np.errstate(invalid="ignore"):  # inf of points that no path joins
        off = np.abs(D - across) > _slack(D)
    off |= np.isinf(D) != np.isinf(across)
    if off.any():
        i, j = _first(off)
        raise ValueError(
            f"the given distances are not symmetric: {float(D[i, j]):.6g} at row {int(rows[i])}, "
            f"column {j}, but {float(across[i, j]):.6g} at row {j}, column {int(rows[i])}. Take "
            "the mean of both, (D + D.T) / 2"
        )


def _slack(D: NDArray[Any]) -> float:
    """What rounding may have added to the largest of them."""
    return rounding(D.dtype) * float(np.max(np.abs(D), initial=0.0, where=np.isfinite(D)))
