"""Isomap: classical scaling of geodesic distances, of all pairs or of landmarks.

Tenenbaum, de Silva and Langford (2000), "A global geometric framework for nonlinear dimensionality
reduction": with D the geodesic distances, H = I - 1 1' / n and

    B = -1/2 H D^2 H = V diag(lam) V',   Z = V_q diag(lam_q)^1/2.

B is never formed for many rows: its products with a block of vectors are taken from D itself, whose
rows are squared while they are in the cache, so that D is the only n x n matrix.

De Silva and Tenenbaum (2003), "Global versus local methods in nonlinear dimensionality reduction":
m landmarks are scaled, and every row is triangulated from its distances to them; then all are
rotated to the principal axes of the whole, about their mean.

The length of the shortest path along the neighbourhood graph stands for the distance along the
surface that the rows lie on (Bernstein et al. 2000 for when it converges to it).

All is done in units of a power of two near the largest distance, which costs no digit: squares of
squares of distances would leave float64 long before the distances do, and what counts as zero is
then a share of them.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from math import frexp, isfinite, sqrt
from typing import Literal

import numpy as np
import scipy.sparse
from numpy.typing import NDArray
from scipy.sparse.csgraph import dijkstra, floyd_warshall

from eigengap.compiled import geodesics as compiled
from eigengap.fitting.eigen.symmetric import SMALL, double_centred, leading_of, scaled_axes
from eigengap.fitting.graph.mds import fit_distances
from eigengap.fitting.graph.pairs import LARGEST, refuse_range
from eigengap.linalg import Array, sign_rule
from eigengap.models.maps.distances import GowerMap, inner_products
from eigengap.models.maps.geodesic import PIECE_BYTES, GeodesicMap
from eigengap.models.maps.graph import Graph
from eigengap.runtime.memory import require_memory, require_pairs
from eigengap.runtime.threads import in_threads, one_blas_thread, workers_for
from eigengap.statistics.moments import power_of_ten

Method = Literal["auto", "D", "FW"]

ANGLE = 1e-9  # of eigenvectors
SQUARED_BYTES = 1 << 20  # of rows that are squared at a time, to stay in the cache
PAIRS = 1 << 21  # of rows whose distances are compared, about so many at most
SAME = 1e-8  # as a share of the largest, up to which two distances are the same
FARTHEST = 1000  # exponent of a unit, whose inverse is then finite too
EPS = float(np.finfo(np.float64).eps)
WAY_OUT = (
    'landmarks=200 keeps the distances to so many rows only, landmarks="auto" chooses their number'
)


@dataclass(frozen=True, eq=False)
class IsomapFit:
    """Coordinates of n rows and the map that adds another."""

    Z: Array  # (n, q) centred, the entry of largest modulus in each column positive
    map: GeodesicMap
    lam: Array  # (q,) of B, of either sign; on landmarks the sums of squares of the coordinates
    dimensions: int  # columns of Z that are not 0 throughout: those of positive eigenvalues
    error: float  # Frobenius norm of B less its fitted part, over its side (of landmarks: theirs)
    landmarks: NDArray[np.int64] | None = None  # (m,) rows, None where all pairs were used
    passes: int = 1  # products with B; 1 where LAPACK took it as a whole


def fit_isomap(
    graph: Graph,
    q: int,
    m: int | None,
    *,
    method: Method = "auto",
    dense: bool = False,
    n_jobs: int | None = None,
    seed: int = 0,
) -> IsomapFit:
    """Isomap of a connected graph, from m landmarks that are spread over it, or from all pairs.

    Lengths that a metric has no value for are refused, and those whose sums or squares overflow.
    """
    largest = float(np.max(graph.lengths, initial=0.0))
    if largest > LARGEST:
        if isfinite(largest):
            refuse_range(largest, "distances to neighbours")
        low, high, lengths = graph.edges
        at = int(np.argmax(~np.isfinite(lengths)))
        raise ValueError(
            f"the distance of rows {int(low[at])} and {int(high[at])} is {lengths[at]}: the metric "
            "has no value there. Leave out one of the two, or use another metric"
        )
    if m is None:
        return fit_pairs(geodesics(graph, method, n_jobs), q, dense, n_jobs)
    chosen = spread_out(graph, m, np.random.default_rng(seed))
    if len(chosen) <= q:
        raise ValueError(
            f"only {len(chosen)} rows differ, too few landmarks for n_components={q}: take "
            "landmarks=None"
        )
    return fit_on_landmarks(paths_to(graph, chosen, n_jobs), chosen, q)


# Geodesic distances -------------------------------------------------------------------------


def require_geodesics(n: int, m: int | None) -> None:
    """Refuse distances of n rows to m landmarks, or to all, that memory does not hold."""
    if m is None:
        require_pairs(n, "a matrix of geodesic distances between all pairs", WAY_OUT, copies=1.1)
    else:
        what = f"the geodesic distances of {n} rows to {m} landmarks"
        require_memory(2 * 8.0 * n * m, what, "take fewer landmarks")


def geodesics(graph: Graph, method: Method = "auto", n_jobs: int | None = None) -> Array:
    """Lengths (n, n) of the shortest paths between all nodes; inf where there is none.

    "FW" is SciPy's Floyd-Warshall algorithm, n^3 steps whatever the graph.
    """
    if method == "FW":
        return np.asarray(floyd_warshall(_csr(graph), directed=True))
    return compiled.all_pairs(graph.indptr, graph.indices, graph.lengths, n_jobs)


def paths_to(graph: Graph, landmarks: NDArray[np.int64], n_jobs: int | None = None) -> Array:
    """Lengths (n, m) of the shortest paths of all nodes to m of them."""
    found = compiled.from_sources(graph.indptr, graph.indices, graph.lengths, landmarks, n_jobs)
    return np.ascontiguousarray(found.T)  # a new row gathers whole rows of its neighbours


def spread_out(graph: Graph, m: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """m nodes far from each other along the graph, ascending; fewer where fewer are apart.

    Drawn by the square of their distance to the nearest that was drawn before, as by k-means++
    (Arthur and Vassilvitskii 2007), but as many at a time as there are already (k-means||, Bahmani
    et al. 2012): each round is a single run of Dijkstra's algorithm.
    """
    lengths = _csr(graph)
    chosen = rng.integers(graph.n, size=1)
    while len(chosen) < m:
        nearest = dijkstra(lengths, directed=True, indices=chosen, min_only=True)
        farthest = float(np.max(nearest))
        if farthest == 0.0:
            break
        weight = (nearest / farthest) ** 2
        apart = int(np.count_nonzero(weight))
        count = min(len(chosen), m - len(chosen), apart)
        drawn = rng.choice(graph.n, count, replace=False, p=weight / np.sum(weight))
        chosen = np.concatenate([chosen, drawn])
    return np.sort(chosen)


def _csr(graph: Graph) -> scipy.sparse.csr_array:
    """As SciPy's graph routines want it: indices of 32 bits."""
    lengths = graph.csr()
    lengths.indices = lengths.indices.astype(np.int32)
    lengths.indptr = lengths.indptr.astype(np.int32)
    return lengths


# Units --------------------------------------------------------------------------------------


def unit_of(paths: Array) -> float:
    """A power of two near the largest of the distances (n, m); 1 where all are 0.

    None is longer than the way through the first landmark, twice the longest distance to it.
    """
    largest = float(np.max(paths[:, 0]))
    if largest == 0.0:
        return 1.0
    return 2.0 ** min(max(frexp(largest)[1], -FARTHEST), FARTHEST)


def _require_finite(square: float, unit: float, n: int) -> None:
    """Refuse distances, the largest with this square in units, n squares of which overflow."""
    largest = sqrt(square) * unit
    if isfinite(n * largest * largest):
        return
    raise ValueError(
        f"geodesic distances, the largest of which is {largest:.3g}, overflow when they are "
        f"squared. Rescale the rows, for instance X / {power_of_ten(largest)}"
    )


# All pairs ----------------------------------------------------------------------------------


def fit_pairs(D: Array, q: int, dense: bool = False, n_jobs: int | None = None) -> IsomapFit:
    """Scaling of the geodesic distances D (n, n), which are kept and not changed."""
    n = len(D)
    unit = unit_of(D)
    squares = _Squares(D, unit, n_jobs)
    found, passes = leading_of(squares.apply, squares.formed, n, None if dense else q, ANGLE)
    lam = found.lam[:q]
    floor = n * EPS * max(0.5 * squares.largest, abs(float(lam[0])))
    Z, A, dimensions = scaled_axes(lam, found.V[:, :q], floor)  # signs are those of V
    model = GeodesicMap(D, GowerMap(A, squares.means), np.zeros(q), Z * unit, unit)
    lam, error = lam * unit * unit, _error(squares.size, lam, n) * unit * unit
    return IsomapFit(model.Z, model, lam, dimensions, error, passes=passes)


def _error(size: float, lam: Array, n: int) -> float:
    return sqrt(max(size - float(np.sum(lam * lam)), 0.0)) / n


class _Squares:
    """The operator B, from D: -1/2 of its squares in units, centred on both sides."""

    def __init__(self, D: Array, unit: float, n_jobs: int | None) -> None:
        self.D, self.unit, self.n_jobs = D, unit, n_jobs
        n = len(D)
        total, fourth = np.empty(n), np.empty(n)
        most = np.empty(n)

        def sums(rows: slice, square: Array) -> None:
            np.sum(square, axis=1, out=total[rows])
            np.max(square, axis=1, out=most[rows])
            np.einsum("ij,ij->i", square, square, out=fourth[rows])

        self._over_rows(sums)
        self.largest = float(np.max(most))  # of d^2
        _require_finite(self.largest, unit, n)
        self.means = total / (-2.0 * n)  # (n,) of -d^2 / 2
        grand = float(np.mean(self.means))
        # |B|^2 = sum g^2 - 2 n sum m_i^2 + n^2 grand^2, about the mean to keep digits
        off = self.means - grand
        variation = 0.25 * float(np.sum(fourth)) - (n * grand) ** 2
        self.size = max(variation - 2.0 * n * float(off @ off), 0.0)

    def apply(self, V: Array) -> Array:
        """B V for a block of vectors V (n, k)."""
        V = V - np.mean(V, axis=0)
        out = np.empty_like(V)

        def product(rows: slice, square: Array) -> None:
            out[rows] = square @ V

        self._over_rows(product)
        out *= -0.5
        out -= np.mean(out, axis=0)
        return out

    def formed(self) -> Array:
        """B itself."""
        require_pairs(len(self.D), "a dense eigensolver", 'eigen_solver="auto" needs less')
        G = self.D / self.unit
        G *= G
        G *= -0.5
        return double_centred(G)[0]

    def _over_rows(self, work: Callable[[slice, Array], None]) -> None:
        n = len(self.D)
        step = max(1, SQUARED_BYTES // (8 * n))

        def piece(start: int) -> None:
            some = self.D[start : start + step] / self.unit
            some *= some
            work(slice(start, start + step), some)

        with one_blas_thread():
            in_threads(piece, range(0, n, step), workers_for(self.n_jobs))


# Landmarks ----------------------------------------------------------------------------------


def fit_on_landmarks(paths: Array, landmarks: NDArray[np.int64], q: int) -> IsomapFit:
    """Scaling of m landmarks, all n rows triangulated by their distances paths (n, m) to them."""
    (n, m), unit = paths.shape, unit_of(paths)
    with one_blas_thread() if m <= SMALL else nullcontext():
        _require_finite((float(np.max(paths)) / unit) ** 2, unit, n)
        between = paths[landmarks] / unit
        between = 0.5 * (between + between.T)  # equal but for rounding
        scaling = fit_distances(between, q)
        gower = scaling.model
        assert isinstance(gower, GowerMap)
        step = max(1, PIECE_BYTES // (8 * m))
        pieces = (paths[start : start + step] / unit for start in range(0, n, step))
        Z = np.concatenate([gower.forward(inner_products(piece)) for piece in pieces])
        Z, rotation, shift, lam = _principal_axes(Z, scaling.dimensions)
        rotated = GowerMap(gower.A @ rotation, gower.means)
        model = GeodesicMap(paths, rotated, shift * unit, Z * unit, unit)
        B = double_centred(inner_products(between))[0]
        error = _error(float(np.sum(B * B)), scaling.spectrum.lam[:q], m) * unit * unit
    return IsomapFit(model.Z, model, lam * unit * unit, scaling.dimensions, error, landmarks)


def _principal_axes(Z: Array, dimensions: int) -> tuple[Array, Array, Array, Array]:
    """Z about its mean and rotated so that its columns are uncorrelated, largest first.

    Axes of eigenvalues that are not positive stay 0. Also the rotation (q, q), what is added after
    it (q,), and the sums of squares of the columns (q,).
    """
    q = Z.shape[1]
    mean = np.mean(Z, axis=0)
    Z = Z - mean
    kept = slice(0, dimensions)
    lam, R = np.linalg.eigh(Z[:, kept].T @ Z[:, kept])
    lam, R = lam[::-1], R[:, ::-1]
    rotation = np.zeros((q, q))
    rotation[kept, kept] = R
    Z = Z @ rotation
    signs = sign_rule(Z)
    Z, rotation = Z * signs, rotation * signs
    return (
        Z,
        rotation,
        -(mean @ rotation),
        np.concatenate([np.maximum(lam, 0.0), np.zeros(q - dimensions)]),
    )


# How good it is -----------------------------------------------------------------------------


def residual_variances(paths: Array, landmarks: NDArray[np.int64] | None, Z: Array) -> Array:
    """(q,) 1 - r^2 of geodesic distances and those of the first 1, 2, ..., q columns of Z (n, q).

    Over all pairs of rows and landmarks where they are few, otherwise over those of some rows,
    always the same. Tenenbaum, de Silva and Langford (2000) look for the elbow of this curve.
    """
    at = np.arange(len(paths)) if landmarks is None else landmarks
    count = max(2, PAIRS // paths.shape[1])
    rows = np.arange(len(paths))
    if len(rows) > count:
        rows = np.sort(np.random.default_rng(0).choice(rows, count, replace=False))
    other = rows[:, None] != at  # (c, m) a row with itself is uninformative
    unit = unit_of(paths)
    delta = paths[rows][other] / unit
    square = np.zeros(len(delta))
    found = np.empty(Z.shape[1])
    for k in range(Z.shape[1]):
        apart = (Z[rows, k, None] - Z[at, k])[other] / unit
        square += apart * apart
        d, fitted = delta - np.mean(delta), np.sqrt(square)
        fitted = fitted - np.mean(fitted)
        size = float(d @ d) * float(fitted @ fitted)
        if size > (len(d) * EPS * float(d @ d + fitted @ fitted)) ** 2:
            found[k] = max(1.0 - float(d @ fitted) ** 2 / size, 0.0)
        else:  # either does not vary
            found[k] = 0.0 if np.allclose(d, fitted, atol=SAME) else 1.0
    return found
