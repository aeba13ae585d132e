"""How well an embedding keeps what is near near, and what is far far.

For n points with rows X and coordinates Z, the k nearest neighbours N_X(i) and N_Z(i) of each, and
ranks r_X(i, j), r_Z(i, j) (`neighbour_ranks`), Venna and Kaski (2001) measure

    trustworthiness   1 - c sum_i sum over j in N_Z(i) of max(0, r_X(i, j) - k)
    continuity        1 - c sum_i sum over j in N_X(i) of max(0, r_Z(i, j) - k)

with c = 2 / (n k (2 n - 3 k - 1)), which makes the worst possible embedding 0: neighbours in the
embedding that are none in the data cost trust, neighbours in the data that were torn apart cost
continuity. Continuity is trustworthiness with the two spaces exchanged. Neighbour recall is the
share of the k nearest neighbours in the embedding that are among the k nearest in the data.

Of all distances, residual variance (Tenenbaum, de Silva and Langford 2000) is 1 - R^2 between
those of the data (or geodesic ones) and those of the embedding, and stress (Kruskal 1964) the root
of sum (d - c d')^2 / sum d^2 at the best scale c, for embeddings need not be in units of the data.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import sqrt
from numbers import Integral
from typing import Any, TypeVar

import numpy as np

from eigengap.comparison.distance_moments import DistanceMoments
from eigengap.comparison.neighbour_ranks import nearest, ranks, tree_neighbours
from eigengap.comparison.pairwise import (
    EuclideanPairs,
    Ints,
    Metric,
    Pairs,
    given_pairs,
    pairs_of,
)
from eigengap.compiled.threads import one_blas_thread
from eigengap.linalg import Array
from eigengap.sources import as_source
from eigengap.sources.new_frame import new_frame
from eigengap.threads import in_threads

BLOCK_BYTES = 4 << 20  # of distances that are computed at a time, so that they stay in the cache
AUTO_PAIRS = 10**8  # that sample="auto" looks at
AUTO_ROWS = 1000  # at least

Sample = int | str | None
T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True, eq=False)
class EmbeddingQuality:
    """What an embedding keeps of its data.

    Attributes
    ----------
    n_neighbors : int or tuple of int
    trustworthiness : float, or array, one for each n_neighbors
        1 where all neighbours in the embedding are neighbours in the data, near 0.5 by chance.
    continuity : float or array
        1 where all neighbours in the data are neighbours in the embedding.
    neighbour_recall : float or array
        Share of the nearest neighbours in the embedding that are nearest in the data.
    residual_variance : float
        1 - R^2 of distances; NaN where all are equal.
    stress : float
        Kruskal's stress-1 at the best scale.
    scale : float
        By which distances of the embedding come nearest to those of the data.
    n_points : int
    rows : array (m,), the points that were looked at, against all others
    row_trustworthiness, row_continuity, row_recall : arrays (m,) or (m, number of n_neighbors)
        Of each; the figures above are their means.
    """

    n_neighbors: int | tuple[int, ...]
    trustworthiness: Any
    continuity: Any
    neighbour_recall: Any
    residual_variance: float
    stress: float
    scale: float
    n_points: int
    rows: Ints
    row_trustworthiness: Array
    row_continuity: Array
    row_recall: Array
    compared: str  # the distances that residual variance and stress are of

    @property
    def is_sampled(self) -> bool:
        """Whether only some of the points were looked at."""
        return len(self.rows) < self.n_points

    def to_dict(self) -> dict[str, Any]:
        """The figures by name; lists where there is one for each n_neighbors."""
        ks = np.atleast_1d(self.n_neighbors)
        return {
            "n_neighbors": ks.tolist(),
            "trustworthiness": np.atleast_1d(self.trustworthiness).tolist(),
            "continuity": np.atleast_1d(self.continuity).tolist(),
            "neighbour_recall": np.atleast_1d(self.neighbour_recall).tolist(),
            "residual_variance": [self.residual_variance] * len(ks),
            "stress": [self.stress] * len(ks),
        }

    def to_frame(self) -> Any:
        """One line for each n_neighbors, as a pandas (or polars) frame."""
        return new_frame(self.to_dict())

    @property
    def summary(self) -> str:
        """The figures in words."""
        m = len(self.rows)
        who = f"a sample of {m} of {self.n_points}" if self.is_sampled else f"all {m}"
        lines = [f"Embedding quality over {who} points"]
        columns = self.to_dict()
        for i, k in enumerate(columns["n_neighbors"]):
            error = np.atleast_2d(self.row_trustworthiness.T)[i].std() / sqrt(m)
            more = f" (se {error:.1g})" if self.is_sampled else ""
            lines.append(
                f"  {k:>3} neighbours: trustworthiness {columns['trustworthiness'][i]:.4f}{more}, "
                f"continuity {columns['continuity'][i]:.4f}, "
                f"recall {columns['neighbour_recall'][i]:.3f} "
                f"(chance {k / (self.n_points - 1):.2g})"
            )
        lines.append(
            f"  {self.compared}: residual variance {self.residual_variance:.4g}, "
            f"stress {self.stress:.4g}"
        )
        return "\n".join(lines)

    def __repr__(self) -> str:
        return self.summary


def embedding_quality(
    X: Any,
    Z: Any,
    *,
    n_neighbors: int | Sequence[int] = 10,
    metric: Metric = "euclidean",
    distances: Any = None,
    sample: Sample = "auto",
    random_state: Any = 0,
    n_jobs: int | None = None,
) -> EmbeddingQuality:
    """Measure how well the coordinates Z, of any method, keep what the rows X are to each other.

    Parameters
    ----------
    X : table of shape (n, d)
        Rows, as they were before embedding; or for metric="precomputed" their distances (n, n).
        Gaps are taken by metric="euclidean" only: over the cells that both rows have.
    Z : table of shape (n, q)
        Coordinates of the same points.
    n_neighbors : int or list of int, default=10
        Sizes of neighbourhoods; less than n / 2.
    metric : str or callable, default="euclidean"
        Of X: a name that `scipy.spatial.distance.cdist` knows, or a function of two rows. Z is
        always compared by Euclidean distances.
    distances : array of shape (n, n), or callable, default=None
        Other distances that residual variance and stress are to be measured against: those along
        a graph for Isomap. A callable gets row numbers (m,) and returns distances (m, n).
    sample : int, "auto" or None, default="auto"
        How many points are looked at, each against all others; None for all of them. "auto" takes
        all up to 10 000, and beyond as many as make 1e8 pairs, at least 1000.
    random_state : int, Generator, RandomState or None, default=0
        Of the sample.
    n_jobs : int, default=None
        Threads; -1 for one a core.

    Returns
    -------
    EmbeddingQuality

    Notes
    -----
    Points at equal distance, within rounding, share the best of their ranks, so that copies of a
    row and data on a grid cost nothing: the data themselves have trustworthiness 1.

    It takes n m steps for m points, and memory for a few blocks of 4 MB beside X.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from eigengap import PCA, embedding_quality
    >>> X = load_iris().data
    >>> embedding_quality(X, PCA(2).fit_transform(X))
    Embedding quality over all 150 points
       10 neighbours: trustworthiness 0.9836, continuity 0.9908, recall 0.751 (chance 0.067)
      euclidean distances: residual variance 0.00323, stress 0.04048
    """
    spaces = _Spaces.of(X, Z, metric, distances)
    ks = _sizes(n_neighbors, spaces.n)
    rows = _rows(sample, spaces.n, random_state)
    parts = _over(lambda part: _measure(spaces, part, max(ks)), _cut(rows, spaces.n), n_jobs)
    rank_x = np.concatenate([part.rank_x for part in parts])
    rank_z = np.concatenate([part.rank_z for part in parts])
    trust, kept = _penalised(rank_x, ks, spaces.n), _penalised(rank_z, ks, spaces.n)
    recall = np.column_stack([np.mean(rank_x[:, :k] <= k, axis=1) for k in ks])
    apart = DistanceMoments.merged([part.distances for part in parts])
    one = isinstance(n_neighbors, Integral)

    def shaped(values: Array) -> Any:
        return values[..., 0] if one else values

    def mean(values: Array) -> Any:
        return float(np.mean(values)) if one else np.mean(values, axis=0)

    return EmbeddingQuality(
        n_neighbors=ks[0] if one else tuple(ks),
        trustworthiness=mean(trust),
        continuity=mean(kept),
        neighbour_recall=mean(recall),
        residual_variance=apart.residual_variance,
        stress=apart.stress,
        scale=apart.scale,
        n_points=spaces.n,
        rows=rows,
        row_trustworthiness=shaped(trust),
        row_continuity=shaped(kept),
        row_recall=shaped(recall),
        compared=f"{_name(metric)} distances" if distances is None else "given distances",
    )


def trustworthiness(
    X: Any,
    Z: Any,
    *,
    n_neighbors: int = 5,
    metric: Metric = "euclidean",
    sample: Sample = None,
    random_state: Any = 0,
    n_jobs: int | None = None,
) -> float:
    """Trustworthiness of the embedding Z: whether near points in it are near in the data X.

    Parameters
    ----------
    X : table of shape (n, d), or for metric="precomputed" distances (n, n)
    Z : table of shape (n, q)
    n_neighbors : int, default=5
    metric : str or callable, default="euclidean"
        Of X.
    sample : int, "auto" or None, default=None
        Points looked at; None for all.
    random_state : int, Generator, RandomState or None, default=0
    n_jobs : int, default=None

    Returns
    -------
    float
        As scikit-learn's `trustworthiness` where no two distances tie, without its n x n matrices.

    Examples
    --------
    >>> import numpy as np
    >>> from eigengap import trustworthiness
    >>> X = np.random.default_rng(0).normal(size=(50, 4))
    >>> trustworthiness(X, 2.0 * X + 1.0)
    1.0
    """
    spaces = _Spaces.of(X, Z, metric, None)
    k = _size(n_neighbors, spaces.n)
    rows = _rows(sample, spaces.n, random_state)
    found = _ranks_across(spaces.Z, spaces.X, rows, k, n_jobs)
    return float(np.mean(_penalised(found, [k], spaces.n)))


def continuity(
    X: Any,
    Z: Any,
    *,
    n_neighbors: int = 5,
    metric: Metric = "euclidean",
    sample: Sample = None,
    random_state: Any = 0,
    n_jobs: int | None = None,
) -> float:
    """Continuity of the embedding Z: whether near points in the data X are near in it.

    Parameters
    ----------
    X, Z, n_neighbors, metric, sample, random_state, n_jobs
        As in `trustworthiness`, of which this is the counterpart with X and Z exchanged.

    Returns
    -------
    float

    Examples
    --------
    >>> import numpy as np
    >>> from eigengap import continuity, trustworthiness
    >>> X = np.random.default_rng(0).normal(size=(50, 4))
    >>> continuity(X, X[:, :2]) == trustworthiness(X[:, :2], X)
    True
    """
    spaces = _Spaces.of(X, Z, metric, None)
    k = _size(n_neighbors, spaces.n)
    rows = _rows(sample, spaces.n, random_state)
    found = _ranks_across(spaces.X, spaces.Z, rows, k, n_jobs)
    return float(np.mean(_penalised(found, [k], spaces.n)))


def neighbour_recall(
    X: Any,
    Z: Any,
    *,
    n_neighbors: int = 10,
    metric: Metric = "euclidean",
    sample: Sample = None,
    random_state: Any = 0,
    n_jobs: int | None = None,
) -> float:
    """Share of the nearest neighbours in the embedding Z that are nearest in the data X.

    Parameters
    ----------
    X, Z, n_neighbors, metric, sample, random_state, n_jobs
        As in `trustworthiness`.

    Returns
    -------
    float
        Between n_neighbors / (n - 1), by chance, and 1.

    Examples
    --------
    >>> import numpy as np
    >>> from eigengap import neighbour_recall
    >>> line = np.arange(10.0)[:, None]
    >>> neighbour_recall(line, -line, n_neighbors=2)
    1.0
    """
    spaces = _Spaces.of(X, Z, metric, None)
    k = _size(n_neighbors, spaces.n)
    rows = _rows(sample, spaces.n, random_state)
    return float(np.mean(_ranks_across(spaces.Z, spaces.X, rows, k, n_jobs) <= k))


def residual_variance(
    X: Any,
    Z: Any,
    *,
    metric: Metric = "euclidean",
    sample: Sample = None,
    random_state: Any = 0,
    n_jobs: int | None = None,
) -> float:
    """1 - R^2 between the distances of the rows X and those of the coordinates Z.

    Parameters
    ----------
    X, Z, metric, sample, random_state, n_jobs
        As in `trustworthiness`; for distances along a graph metric="precomputed".

    Returns
    -------
    float
        0 where distances are proportional up to a constant, 1 where unrelated; NaN where all
        distances are equal.

    Examples
    --------
    >>> import numpy as np
    >>> from eigengap import residual_variance
    >>> X = np.random.default_rng(0).normal(size=(50, 2))
    >>> residual_variance(X, 3.0 * X) < 1e-12
    True
    """
    spaces = _Spaces.of(X, Z, metric, None)
    rows = _rows(sample, spaces.n, random_state)

    def of(part: Ints) -> DistanceMoments:
        D, E = spaces.X.block(part)[0], spaces.Z.block(part)[0]
        return DistanceMoments.of(spaces.X.lengths(D), spaces.Z.lengths(E), part)

    return DistanceMoments.merged(_over(of, _cut(rows, spaces.n), n_jobs)).residual_variance


# Two spaces ----------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Spaces:
    """The same n points twice."""

    X: Pairs
    Z: Pairs
    reference: Pairs | None  # whose distances are to be kept, where they are not those of X
    n: int

    @classmethod
    def of(cls, X: Any, Z: Any, metric: Metric, distances: Any) -> _Spaces:
        rows, coordinates = _table(X), _table(Z)
        if len(rows) != len(coordinates):
            raise ValueError(
                f"X has {len(rows)} rows but Z has {len(coordinates)}: give the same points"
            )
        if np.isnan(coordinates).any():
            i, j = map(int, np.argwhere(np.isnan(coordinates))[0])
            raise ValueError(
                f"Z has no coordinate at row {i}, column {j}; leave that point out of both"
            )
        n = len(rows)
        reference = None if distances is None else given_pairs(distances, n)
        return cls(pairs_of(rows, metric), EuclideanPairs.of(coordinates), reference, n)


@dataclass(frozen=True, eq=False)
class _Measured:
    """Some points: ranks of their neighbours, and moments of their distances."""

    rank_x: Ints  # (b, k) in X, of the neighbours in Z
    rank_z: Ints  # (b, k) in Z, of the neighbours in X
    distances: DistanceMoments


def _measure(spaces: _Spaces, rows: Ints, k: int) -> _Measured:
    D, blur = spaces.X.block(rows)
    E, blur_z = spaces.Z.block(rows)
    rank_x, rank_z = ranks(D, blur, nearest(E, k)), ranks(E, blur_z, nearest(D, k))
    if spaces.reference is not None:
        far = spaces.reference.lengths(spaces.reference.block(rows)[0])
    else:
        far = spaces.X.lengths(D)
    return _Measured(rank_x, rank_z, DistanceMoments.of(far, spaces.Z.lengths(E), rows))


def _ranks_across(here: Pairs, there: Pairs, rows: Ints, k: int, n_jobs: int | None) -> Ints:
    """Ranks (m, k) in the one space of the neighbours in the other."""
    found = tree_neighbours(here, rows, k)

    def of(part: slice) -> Ints:
        D, blur = there.block(rows[part])
        near = nearest(here.block(rows[part])[0], k) if found is None else found[part]
        return ranks(D, blur, near)

    return np.concatenate(_over(of, _slices(len(rows), here.n), n_jobs))


def _over(fn: Callable[[T], R], parts: Iterable[T], n_jobs: int | None) -> list[R]:
    """fn of every part; products of so few rows gain nothing from further threads of BLAS."""
    with one_blas_thread():
        return in_threads(fn, parts, n_jobs)


def _penalised(found: Ints, ks: Sequence[int], n: int) -> Array:
    """(m, number of ks) 1 - what each point's too high ranks cost; its mean is the measure."""
    columns = []
    for k in ks:
        cost = np.sum(np.maximum(found[:, :k] - k, 0), axis=1)
        columns.append(1.0 - cost * (2.0 / (k * (2.0 * n - 3.0 * k - 1.0))))
    return np.column_stack(columns)


# Arguments -----------------------------------------------------------------------------------


def _table(X: Any) -> Array:
    values = as_source(X).collect()
    return np.asarray(values if isinstance(values, np.ndarray) else values.toarray(), np.float64)


def _name(metric: Metric) -> str:
    return metric if isinstance(metric, str) else getattr(metric, "__name__", "given")


def _size(n_neighbors: int, n: int) -> int:
    if not isinstance(n_neighbors, Integral):
        raise ValueError(
            f"n_neighbors must be one integer here, got {n_neighbors!r}; embedding_quality takes "
            "several"
        )
    return _sizes(n_neighbors, n)[0]


def _sizes(n_neighbors: int | Sequence[int], n: int) -> list[int]:
    asked: Any = n_neighbors
    given = list(asked) if isinstance(asked, Iterable) else [asked]
    if not given:
        raise ValueError("n_neighbors is empty; give at least one size of a neighbourhood")
    for k in given:
        if not isinstance(k, Integral) or isinstance(k, bool) or int(k) < 1:
            raise ValueError(f"n_neighbors must be a positive integer or a list of them, got {k!r}")
        if 2 * int(k) >= n:
            raise ValueError(
                f"n_neighbors={k} must be less than half of the {n} points, for larger "
                "neighbourhoods have no worst case to compare with"
            )
    return [int(k) for k in given]


def _rows(sample: Sample, n: int, random_state: Any) -> Ints:
    if sample is None:
        m = n
    elif isinstance(sample, str):
        if sample != "auto":
            raise ValueError(f'sample must be a number of points, "auto" or None, got {sample!r}')
        m = min(n, max(AUTO_ROWS, AUTO_PAIRS // n))
    elif isinstance(sample, Integral) and not isinstance(sample, bool) and int(sample) >= 1:
        m = min(int(sample), n)
    else:
        raise ValueError(f'sample must be a positive integer, "auto" or None, got {sample!r}')
    if m == n:
        return np.arange(n)
    return np.sort(_generator(random_state).choice(n, size=m, replace=False))


def _generator(random_state: Any) -> np.random.Generator:
    if isinstance(random_state, np.random.Generator):
        return random_state
    if hasattr(random_state, "randint"):
        return np.random.default_rng(int(random_state.randint(2**31 - 1)))
    return np.random.default_rng(random_state)


def _slices(m: int, n: int) -> list[slice]:
    """m points in pieces whose distances to all n stay in the cache."""
    step = max(1, BLOCK_BYTES // (8 * n))
    return [slice(start, min(start + step, m)) for start in range(0, m, step)]


def _cut(rows: Ints, n: int) -> Iterator[Ints]:
    return (rows[part] for part in _slices(len(rows), n))
