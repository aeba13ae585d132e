"""Distances of some rows of a table to all of them, a block at a time: never an n x n matrix.

Euclidean distances of many columns come from a matrix product, |x|^2 + |y|^2 - 2 x'y of centred
rows, with a bound on what rounding did to them; rows whose neighbours are nearer than that bound
can resolve are computed again from their differences. Other metrics are SciPy's.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

from eigengap.fitting.graph.distances import nan_euclidean
from eigengap.fitting.graph.pairs import refuse_spread, rounding
from eigengap.linalg import Array
from eigengap.sources import show

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


class Pairs(Protocol):
    """Distances between n points, in any unit that grows with them."""

    @property
    def n(self) -> int: ...

    def block(self, rows: Ints) -> tuple[Array, Blur]:
        """D (b, n) of some rows to all, inf for a row itself; and how sure it is."""
        ...

    def lengths(self, D: Array) -> Array:
        """The distances themselves, inf where D is; D is used up."""
        ...


@dataclass(frozen=True, eq=False)
class EuclideanPairs:
    """Squared Euclidean distances of complete rows."""

    X: Array  # (n, d), centred
    square: Array  # (n,) |x|^2
    most: float  # the largest of them
    stored: float  # what the offset of the cells takes of their differences, over a row

    @classmethod
    def of(cls, X: Array) -> EuclideanPairs:
        refuse_spread(X)
        centred = X - np.mean(X, axis=0)
        largest = np.max(np.abs(X), axis=0)
        unit = float(np.max(largest, initial=0.0)) or 1.0
        stored = 2 * EPS * unit * float(np.linalg.norm(largest / unit))
        square = np.einsum("ij,ij->i", centred, centred)
        return cls(np.ascontiguousarray(centred), square, float(np.max(square)), stored)

    @property
    def n(self) -> int:
        return len(self.X)

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

    def lengths(self, D: Array) -> Array:
        return np.asarray(np.sqrt(np.maximum(D, 0.0, out=D), out=D))


@dataclass(frozen=True, eq=False)
class IncompletePairs:
    """Squared Euclidean distances over the cells that both rows have, scaled up (Dixon 1979)."""

    X: Array  # (n, d) with NaN

    @property
    def n(self) -> int:
        return len(self.X)

    def block(self, rows: Ints) -> tuple[Array, Blur]:
        D = nan_euclidean(self.X[rows], self.X) ** 2
        unknown = np.isnan(D)
        unknown[np.arange(len(rows)), rows] = False
        if unknown.any():
            i, j = map(int, np.argwhere(unknown)[0])
            raise ValueError(
                f"rows {int(rows[i])} and {j} of X have no cell in common, so that nothing is "
                "known of their distance; impute the missing values first (impute, LowRankImputer)"
            )
        return _without_self(D, rows), Blur(np.zeros((len(rows), 1)))

    def lengths(self, D: Array) -> Array:
        return np.asarray(np.sqrt(D, out=D))


@dataclass(frozen=True, eq=False)
class MetricPairs:
    """Distances by one of SciPy's metrics, or a function of two rows."""

    X: Array  # (n, d)
    metric: Metric
    params: dict[str, Any]  # what the metric learns from all rows

    @classmethod
    def of(cls, X: Array, metric: Metric) -> MetricPairs:
        return cls(X, metric, _estimated(X, metric))

    @property
    def n(self) -> int:
        return len(self.X)

    def block(self, rows: Ints) -> tuple[Array, Blur]:
        try:
            metric: Any = self.metric
            D = cdist(self.X[rows], self.X, metric, **self.params)
        except ValueError as error:
            raise ValueError(f"metric={show(self.metric)}: {error}") from None
        _refuse_unknown(D, rows, f"metric={show(self.metric)} gives", finite=True)
        return _without_self(np.asarray(D), rows), Blur(np.zeros((len(rows), 1)))

    def lengths(self, D: Array) -> Array:
        return D


@dataclass(frozen=True, eq=False)
class GivenPairs:
    """Distances that somebody else computed: a matrix (n, n), or a function of row numbers."""

    n: int
    given: NDArray[Any] | Callable[[Ints], NDArray[Any]]  # rows (b,) -> (b, n)

    def block(self, rows: Ints) -> tuple[Array, Blur]:
        found = self.given(rows) if callable(self.given) else self.given[rows]
        D = np.array(found, dtype=np.float64)
        if D.shape != (len(rows), self.n):
            raise ValueError(
                f"distances of {len(rows)} rows to all {self.n} are needed, got shape {D.shape}"
            )
        _refuse_unknown(D, rows, "the given distances hold")
        if callable(self.given):
            _refuse_impossible(D, rows)
        return _without_self(D, rows), Blur(np.zeros((len(rows), 1)))

    def lengths(self, D: Array) -> Array:
        return D


def pairs_of(X: Array, metric: Metric) -> Pairs:
    """The distances of a table by a metric; "precomputed" where the table holds them already."""
    if isinstance(metric, str):
        metric = ALIASES.get(metric, metric)
    if metric == "precomputed":
        return given_pairs(X, len(X))
    missing = np.isnan(X)
    if missing.any():
        if metric not in ("euclidean", "nan_euclidean"):
            i, j = map(int, np.argwhere(missing)[0])
            raise ValueError(
                f"Input X contains NaN: row {i}, column {j}; metric={show(metric)} does not accept "
                'missing values. Use metric="euclidean", which compares the cells that both rows '
                "have, or impute them first (impute, LowRankImputer)"
            )
        refuse_spread(X)
        return IncompletePairs(X)
    if metric in ("euclidean", "nan_euclidean"):
        return EuclideanPairs.of(X)
    return MetricPairs.of(X, metric)


def given_pairs(D: Any, n: int) -> GivenPairs:
    """Distances as a user gives them, for n points."""
    if callable(D):
        return GivenPairs(n, D)
    matrix = np.asarray(D)
    if matrix.shape != (n, n):
        raise ValueError(
            f"distances between {n} points are a square matrix ({n}, {n}), got {matrix.shape}; or "
            "give a function of row numbers (b,) that returns their distances (b, n) to all. On "
            "landmarks Isomap has its own residual_variance_"
        )
    for start in range(0, n, ROWS):
        rows = np.arange(start, min(start + ROWS, n))
        _refuse_impossible(matrix[rows], rows)
        _refuse_asymmetric(matrix[rows], matrix[:, rows].T, rows)
    return GivenPairs(n, matrix)


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


def _refuse_unknown(D: NDArray[Any], rows: Ints, who: str, finite: bool = False) -> None:
    """Refuse distances that are NaN, or with `finite` infinite, but for a point to itself."""
    bad = ~np.isfinite(D) if finite else np.isnan(D)
    bad[np.arange(len(rows)), rows] = False
    if bad.any():
        i, j = map(int, np.argwhere(bad)[0])
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
        i, j = map(int, np.argwhere(low)[0])
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
        i, j = map(int, np.argwhere(off)[0])
        raise ValueError(
            f"the given distances are not symmetric: {float(D[i, j]):.6g} at row {int(rows[i])}, "
            f"column {j}, but {float(across[i, j]):.6g} at row {j}, column {int(rows[i])}. Take "
            "the mean of both, (D + D.T) / 2"
        )


def _slack(D: NDArray[Any]) -> float:
    """What rounding may have added to the largest of them."""
    return rounding(D.dtype) * float(np.max(np.abs(D), initial=0.0, where=np.isfinite(D)))
