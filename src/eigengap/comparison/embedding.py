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

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import sqrt
from numbers import Integral
from typing import Any

import numpy as np

from eigengap.comparison.neighbour_ranks import Kept, across, kept, over, slices
from eigengap.comparison.pairwise import (
    DistanceMoments,
    EuclideanPairs,
    GivenPairs,
    Ints,
    Metric,
    Pairs,
    coordinates,
    pairs_of,
    table,
)
from eigengap.linalg import Array
from eigengap.sources import new_frame

AUTO_PAIRS = 10**8  # that sample="auto" looks at
AUTO_ROWS = 1000  # at least

Sample = int | str | None


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
        1 - R^2 of distances; where those of one side are all equal 1, of both 0.
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
        Missing values are accepted by metric="euclidean" only: over the cells that both rows have.
    Z : table of shape (n, q)
        Coordinates of the same points.
    n_neighbors : int or list of int, default=10
        Sizes of neighbourhoods; less than n / 2.
    metric : str or callable, default="euclidean"
        Of X: a name that `scipy.spatial.distance.cdist` knows, "manhattan", "l1" or "l2", or a
        function of two rows. Z is always compared by Euclidean distances.
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
    row and data on a grid cost nothing: the data themselves have trustworthiness 1. Where the last
    neighbour is one of several at its distance, figures are the mean over all choices: the order
    of the points does not matter.

    It takes n m steps for m points, and memory for a few blocks of 4 MB besides X.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from eigengap import PCA, embedding_quality
    >>> X = load_iris().data
    >>> embedding_quality(X, PCA(2).fit_transform(X))
    Embedding quality over all 150 points
       10 neighbours: trustworthiness 0.9836, continuity 0.9909, recall 0.751 (chance 0.067)
      euclidean distances: residual variance 0.00323, stress 0.04048
    """
    far, near, n = _spaces(X, Z, metric)
    reference = far
    if distances is not None:
        given = distances if callable(distances) else np.asarray(distances)
        reference = GivenPairs(n, given)
    ks = _sizes(n_neighbors, n)
    rows = _sampled(sample, n, random_state)

    def measure(part: slice) -> tuple[Kept, Kept, DistanceMoments]:
        D, E = far.block(rows[part]), near.block(rows[part])
        trust, torn = kept(E, D, ks), kept(D, E, ks)
        apart = D[0] if reference is far else reference.block(rows[part])[0]
        lengths = reference.lengths(apart), near.lengths(E[0])
        return trust, torn, DistanceMoments.of(*lengths, rows[part])

    parts = over(measure, slices(len(rows), n), n_jobs)
    forth = Kept.together([trust for trust, _, _ in parts])
    back = Kept.together([torn for _, torn, _ in parts])
    trust, unbroken = _penalised(forth.cost, ks, n), _penalised(back.cost, ks, n)
    recall = forth.hits / np.asarray(ks)
    apart = DistanceMoments.merged([moments for _, _, moments in parts])
    one = isinstance(n_neighbors, Integral)
    name = metric if isinstance(metric, str) else getattr(metric, "__name__", "given")

    def shaped(values: Array) -> Any:
        return values[..., 0] if one else values

    def mean(values: Array) -> Any:
        return float(np.mean(values)) if one else np.mean(values, axis=0)

    return EmbeddingQuality(
        n_neighbors=ks[0] if one else tuple(ks),
        trustworthiness=mean(trust),
        continuity=mean(unbroken),
        neighbour_recall=mean(recall),
        residual_variance=apart.residual_variance,
        stress=apart.stress,
        scale=apart.scale,
        n_points=n,
        rows=rows,
        row_trustworthiness=shaped(trust),
        row_continuity=shaped(unbroken),
        row_recall=shaped(recall),
        compared=f"{name} distances" if distances is None else "given distances",
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
    far, near, n = _spaces(X, Z, metric)
    k, rows = _one_size(n_neighbors, n), _sampled(sample, n, random_state)
    return float(np.mean(_penalised(across(near, far, rows, k, n_jobs).cost, [k], n)))


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
    far, near, n = _spaces(X, Z, metric)
    k, rows = _one_size(n_neighbors, n), _sampled(sample, n, random_state)
    return float(np.mean(_penalised(across(far, near, rows, k, n_jobs).cost, [k], n)))


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
        As in `trustworthiness`, but n_neighbors may be any number less than n.

    Returns
    -------
    float
        n_neighbors / (n - 1) by chance, at most 1.

    Examples
    --------
    >>> import numpy as np
    >>> from eigengap import neighbour_recall
    >>> line = np.arange(10.0)[:, None]
    >>> neighbour_recall(line, -line, n_neighbors=2)
    1.0
    """
    far, near, n = _spaces(X, Z, metric)
    k, rows = _one_size(n_neighbors, n, largest=n - 1), _sampled(sample, n, random_state)
    return float(np.mean(across(near, far, rows, k, n_jobs).hits)) / k


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
        0 where distances are proportional up to a constant, 1 where unrelated; where the distances
        of one side are all equal 1, of both 0.

    Examples
    --------
    >>> import numpy as np
    >>> from eigengap import residual_variance
    >>> X = np.random.default_rng(0).normal(size=(50, 2))
    >>> residual_variance(X, 3.0 * X) < 1e-12
    True
    """
    far, near, n = _spaces(X, Z, metric)
    rows = _sampled(sample, n, random_state)

    def of(part: slice) -> DistanceMoments:
        D, E = far.block(rows[part])[0], near.block(rows[part])[0]
        return DistanceMoments.of(far.lengths(D), near.lengths(E), rows[part])

    parts = over(of, slices(len(rows), n), n_jobs)
    return DistanceMoments.merged(parts).residual_variance


def _penalised(cost: Array, ks: Sequence[int], n: int) -> Array:
    """(m, number of ks) 1 - what each point's too high ranks cost; its mean is the measure."""
    k = np.asarray(ks, dtype=float)
    return np.asarray(1.0 - cost * (2.0 / (k * (2.0 * n - 3.0 * k - 1.0))))


# What is given -----------------------------------------------------------------------------------


def _spaces(X: Any, Z: Any, metric: Metric) -> tuple[Pairs, EuclideanPairs, int]:
    """The same n points twice: distances of the rows X and of the coordinates Z."""
    rows, points = table(X, "X"), coordinates(Z, "Z")
    if len(rows) != len(points):
        raise ValueError(f"X has {len(rows)} rows but Z has {len(points)}: give the same points")
    return pairs_of(rows, metric), EuclideanPairs(points), len(rows)


def _one_size(n_neighbors: Any, n: int, largest: int | None = None) -> int:
    if not isinstance(n_neighbors, Integral):
        raise ValueError(
            f"n_neighbors must be one integer here, got {n_neighbors!r}; embedding_quality takes "
            "several"
        )
    return _sizes([int(n_neighbors)], n, largest)[0]


def _sizes(n_neighbors: int | Sequence[int], n: int, largest: int | None = None) -> list[int]:
    """Sizes of neighbourhoods, less than half of the n points unless `largest` is given."""
    asked: Any = n_neighbors
    given = list(asked) if isinstance(asked, Iterable) else [asked]
    if not given:
        raise ValueError("n_neighbors is empty; give at least one size of a neighbourhood")
    for k in given:
        if not isinstance(k, Integral) or isinstance(k, bool) or int(k) < 1:
            raise ValueError(f"n_neighbors must be a positive integer or a list of them, got {k!r}")
        if largest is None and int(k) > (n - 1) // 2:
            raise ValueError(
                f"n_neighbors={k} must be less than half of the {n} points, for larger "
                "neighbourhoods have no worst case to compare with; neighbour_recall takes them"
            )
        if largest is not None and int(k) > largest:
            raise ValueError(
                f"n_neighbors={k} must be less than the {n} points: a point is not its own "
                "neighbour"
            )
    return [int(k) for k in given]


def _sampled(sample: Sample, n: int, random_state: Any) -> Ints:
    """The points that are looked at, in order."""
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
