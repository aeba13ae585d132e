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

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from numbers import Integral
from typing import Any

import numpy as np

from eigengap.comparison.embedding_arguments import (
    Sample,
    below_all,
    below_half,
    one_size,
    pieces,
    sampled,
    sizes,
)
from eigengap.comparison.embedding_spaces import DistanceMoments, Spaces, across, measure, over
from eigengap.comparison.neighbour_ranks import Kept
from eigengap.comparison.pairwise import Ints, Metric
from eigengap.linalg import Array
from eigengap.sources import new_frame


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
    spaces = Spaces.of(X, Z, metric, distances)
    ks = sizes(n_neighbors, *below_half(spaces.n))
    rows = sampled(sample, spaces.n, random_state)
    parts = over(lambda part: measure(spaces, part, ks), pieces(rows, spaces.n), n_jobs)
    forth = Kept.together([part.trust for part in parts])
    back = Kept.together([part.continuity for part in parts])
    trust, unbroken = _penalised(forth.cost, ks, spaces.n), _penalised(back.cost, ks, spaces.n)
    recall = forth.hits / np.asarray(ks)
    apart = DistanceMoments.merged([part.distances for part in parts])
    one = isinstance(n_neighbors, Integral)

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
        n_points=spaces.n,
        rows=rows,
        row_trustworthiness=shaped(trust),
        row_continuity=shaped(unbroken),
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
    spaces = Spaces.of(X, Z, metric, None)
    k = one_size(n_neighbors, *below_half(spaces.n))
    rows = sampled(sample, spaces.n, random_state)
    found = across(spaces.Z, spaces.X, rows, k, n_jobs)
    return float(np.mean(_penalised(found.cost, [k], spaces.n)))


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
    spaces = Spaces.of(X, Z, metric, None)
    k = one_size(n_neighbors, *below_half(spaces.n))
    rows = sampled(sample, spaces.n, random_state)
    found = across(spaces.X, spaces.Z, rows, k, n_jobs)
    return float(np.mean(_penalised(found.cost, [k], spaces.n)))


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
    spaces = Spaces.of(X, Z, metric, None)
    k = one_size(n_neighbors, *below_all(spaces.n))
    rows = sampled(sample, spaces.n, random_state)
    return float(np.mean(across(spaces.Z, spaces.X, rows, k, n_jobs).hits)) / k


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
    spaces = Spaces.of(X, Z, metric, None)
    rows = sampled(sample, spaces.n, random_state)

    def of(part: Ints) -> DistanceMoments:
        D, E = spaces.X.block(part)[0], spaces.Z.block(part)[0]
        return DistanceMoments.of(spaces.X.lengths(D), spaces.Z.lengths(E), part)

    return DistanceMoments.merged(over(of, pieces(rows, spaces.n), n_jobs)).residual_variance


def _penalised(cost: Array, ks: Sequence[int], n: int) -> Array:
    """(m, number of ks) 1 - what each point's too high ranks cost; its mean is the measure."""
    k = np.asarray(ks, dtype=float)
    return np.asarray(1.0 - cost * (2.0 / (k * (2.0 * n - 3.0 * k - 1.0))))


def _name(metric: Metric) -> str:
    return metric if isinstance(metric, str) else getattr(metric, "__name__", "given")
