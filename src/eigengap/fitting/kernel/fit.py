"""Kernel PCA: principal axes in feature space from the matrix of all pairs of rows.

Schoelkopf, Smola and Mueller (1998). With K_ij = k(x_i, x_j) and H = I - 1 s', s the shares of the
rows,

    (H K H') a = lam a,   axis = sum_i a_i (phi(x_i) - mean) / sqrt(lam),   scores = sqrt(lam) a,

and a new row is projected by its kernel with the rows. Row weights w are frequencies:
the matrix is then D H K H' D with D = diag(w)^1/2. Without unit length of the axes, scores are
sqrt(lam) times these.

The matrix is built in place, half of it computed and half mirrored. It is never centred: Lanczos
applies H before and after its product, which takes n q operations instead of three passes over
memory.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from eigengap.exceptions import KernelOverflowError
from eigengap.fitting.eigen.krylov import Product, top_eigenpairs
from eigengap.fitting.eigen.symmetric import Eigenpairs, are_few, leading_eigenpairs
from eigengap.linalg import Array, sign_rule
from eigengap.models.kernels.expected import ExpectedKernel
from eigengap.models.kernels.functions import RBF, Function, Kernel, Laplacian, Precomputed, Rows
from eigengap.models.kernels.functions import dense as rows_dense
from eigengap.models.maps.landmark import LandmarkMap
from eigengap.runtime.memory import require_pairs
from eigengap.runtime.threads import in_threads, one_blas_thread, workers_for

Scaling = Literal["pca", "eigenvalue"]
Wanted = int | float | None  # components, a share of the variance, or all that have any

ROUNDING = 1e-12  # of the largest eigenvalue, below which an eigenvalue is taken for 0
STRIP = 256  # rows of the matrix that are computed at a time
FIRST_GUESS = 16  # components that are tried first where a share of the variance is asked for
SIGNIFICANT = 1e-5  # share of the largest eigenvalue from which a negative one is no rounding
LOWEST_PASSES = 8  # of Lanczos that look for a negative eigenvalue
LANDMARKS = "use landmarks=1000 or so, which needs the kernel with those rows only"


@dataclass(frozen=True)
class Convention:
    """Which of the conventions in use."""

    centred: bool = True  # in feature space
    scaling: Scaling = "pca"  # axes of unit length, or of length sqrt(lam)


PCA_LIKE = Convention()


@dataclass(frozen=True, eq=False)
class KernelFit:
    """Principal axes in feature space."""

    map: LandmarkMap
    lam: Array  # (q,) eigenvalues of the matrix, descending; 0 where nothing but rounding is left
    total: float  # sum of all eigenvalues
    V: Array | None  # (n, q) eigenvectors; None where the rows were not kept
    lowest: float  # the most negative eigenvalue that is known of, or 0
    complete: bool  # whether `lam` holds all that are positive
    passes: int = 1  # products with the matrix; 1 where LAPACK took it as a whole
    scores: Array | None = None  # (n, q) of the rows, where eigenvectors are those of an iteration
    residual: float = 0.0  # variance that the landmarks do not span: lam may be low by that much

    @property
    def rank(self) -> int:
        """Components that have variance."""
        return int(np.count_nonzero(self.lam))

    def truncated(self, q: int) -> KernelFit:
        """The first q components."""
        at = self.map
        directions = None if at.directions is None else at.directions[:, :q]
        return replace(
            self,
            map=replace(at, coefficients=at.coefficients[:, :q], directions=directions),
            lam=self.lam[:q],
            V=None if self.V is None else self.V[:, :q],
            scores=None if self.scores is None else self.scores[:, :q],
            complete=self.complete and q >= self.rank,
        )


def fit_kernel_pca(
    kernel: Kernel,
    X: Rows,
    wanted: Wanted,
    *,
    w: Array | None = None,
    convention: Convention = PCA_LIKE,
    solver: Literal["auto", "dense"] = "auto",
    n_jobs: int | None = None,
) -> KernelFit:
    """Kernel PCA of the rows X (n, d) with weights w (n,), from the matrix of all pairs."""
    n = X.shape[0]
    first = wanted if isinstance(wanted, int) else FIRST_GUESS
    dense = solver == "dense" or wanted is None or not are_few(first, n)
    copies = (2.0 if isinstance(kernel, ExpectedKernel) else 1.0) + (2.0 if dense else 0.2)
    require_pairs(n, "the kernel matrix", LANDMARKS, copies)
    K = pair_matrix(kernel, X, n_jobs)
    share = np.full(n, 1.0 / n) if w is None else w / np.sum(w)
    with np.errstate(over="ignore", invalid="ignore"):
        means = share @ K  # of the columns: what the kernel of a new row is centred by
    if not np.all(np.isfinite(means)):
        raise KernelOverflowError(int(np.argmin(np.isfinite(means))))
    sum_w = float(n) if w is None else float(np.sum(w))
    level = sum_w * abs(float(share @ means))  # the eigenvalue that centring takes away, about
    total = float(np.diag(K) @ share) * sum_w
    if convention.centred:
        total -= sum_w * float(share @ means)
    workers = workers_for(n_jobs)
    system = _System(K, share if convention.centred else None, w, workers)
    pairs, lowest, passes = _solve(system, wanted, total, kernel.is_positive, dense=dense)
    if isinstance(wanted, int):
        _require_axes(pairs.lam)
    lam = cleaned(pairs.lam, level if convention.centred else 0.0, n)
    V = pairs.V
    if w is not None:  # signs by the scores, as where the rows are repeated instead
        V = V * sign_rule(V / np.where(w > 0.0, np.sqrt(w), np.inf)[:, None])
    A = V * _inverse_root(lam)
    if w is not None:
        A *= np.sqrt(w)[:, None]
    if convention.centred:
        A -= share[:, None] * np.sum(A, axis=0)  # the axes are made of phi - mean
    at = landmark_map(X, kernel, A, lam, means, share, convention)
    scores = None
    if w is None and not dense and passes > 1:
        # What the map gives: an eigenvector of an iteration is off by its tolerance.
        scores = system.apply(V) * (
            _inverse_root(lam) if convention.scaling == "pca" else np.sign(lam)
        )
    fit = KernelFit(at, lam, max(total, 0.0), V, lowest, pairs.complete, passes, scores)
    return fit if wanted is not None else fit.truncated(fit.rank)


def landmark_map(
    landmarks: Rows,
    kernel: Kernel,
    A: Array,
    lam: Array,
    means: Array,
    centre: Array,
    how: Convention,
) -> LandmarkMap:
    """The map of axes A (m, q) of unit length, in the convention asked for."""
    if not how.centred:
        means = centre = np.zeros(len(A))
    if how.scaling == "pca":
        return LandmarkMap(landmarks, kernel, means, A, centre, A)
    return LandmarkMap(landmarks, kernel, means, A * np.sqrt(lam), centre, A * _inverse_root(lam))


def cleaned(lam: Array, level: float, n: int) -> Array:
    """Eigenvalues with 0 in place of what rounding leaves of 0, and of negative ones.

    Rounding is that of the matrix before it was centred.
    """
    scale = max(float(np.max(lam, initial=0.0)), level)
    least = max(ROUNDING, n * np.finfo(np.float64).eps) * scale
    return np.where(lam > least, lam, 0.0)


def pair_matrix(kernel: Kernel, X: Rows, n_jobs: int | None = None) -> Array:
    """K_ij = k(x_i, x_j), (n, n): one half computed, strip by strip in threads, one mirrored."""
    n = X.shape[0]
    if isinstance(kernel, Precomputed):
        return np.array(rows_dense(X))
    if isinstance(kernel, ExpectedKernel):  # works by missing pattern, not by strip
        K = kernel.matrix(X, X)
    else:
        K = np.empty((n, n))

        def strip(start: int) -> None:
            rows = slice(start, min(start + STRIP, n))
            kernel.matrix(X[rows], X[: rows.stop], K[rows, : rows.stop])
            K[:start, rows] = K[rows, :start].T

        starts = range(0, n, STRIP)[::-1]  # the long ones first
        if isinstance(kernel, Function) or len(starts) == 1:
            n_jobs = 1
        workers = workers_for(n_jobs)
        with one_blas_thread():
            in_threads(strip, starts, workers)
    if not isinstance(kernel, Function):
        K[np.diag_indices(n)] = kernel.diagonal(X)
    return K


def neighbours(fit: KernelFit) -> float | None:
    """Sum of a row's kernel with all others, on average, of a kernel with k(x, x) = b, over b.

    None for other kernels, and where it was not computed.
    """
    kernel, at = fit.map.kernel, fit.map
    if not isinstance(kernel, RBF | Laplacian) or fit.V is None or at.centre is None:
        return None
    if not np.any(at.centre):
        return None
    return max(float(at.centre @ at.means) * at.m / kernel.b - 1.0, 0.0)


def require_no_missing(K: Rows) -> None:
    """Refuse kernel values that are missing, by cell."""
    missing = np.argwhere(np.isnan(K)) if isinstance(K, np.ndarray) else np.empty((0, 2))
    if len(missing):
        i, j = (int(at) for at in missing[0])
        raise ValueError(
            f"Input X contains NaN: the kernel of rows {i} and {j} is missing (row {i}, column {j})"
            f"{f' and {len(missing) - 1} more' if len(missing) > 1 else ''}. A kernel matrix has "
            "no missing values; compute it from imputed rows"
        )


def require_kernel_matrix(K: Rows, centred: bool = True) -> None:
    """Refuse what is no kernel matrix: not square, with missing values, not symmetric; by cell.

    A number for each row and one for each column may be added where the matrix is centred, which
    takes them away: K_ij - K_ji = u_i - u_j is no asymmetry then.
    """
    require_no_missing(K)
    n = K.shape[0]
    if K.shape[1] != n:
        raise ValueError(
            f"Precomputed matrix must be a square matrix of the kernel of all pairs of rows. Input "
            f"is a {n}x{K.shape[1]} matrix."
        )
    K = K if isinstance(K, np.ndarray) else K.toarray()
    largest = float(np.max(np.abs(K)))
    rounding = 1e-5 if K.dtype == np.float32 else 1e-9
    cell = _asymmetric_cell(K, np.zeros(n), rounding * largest)
    if cell is not None and centred:
        # Medians, so that a single wrong cell is named.
        u = [np.median(K[rows] - K[:, rows].T, axis=1) for rows in _strips(n)]
        cell = _asymmetric_cell(K, np.concatenate(u), rounding * largest)
    if cell is not None:
        i, j = cell
        raise ValueError(
            f"the kernel matrix is not symmetric: {K[i, j]} at row {i}, column {j}, but "
            f"{K[j, i]} at row {j}, column {i}"
        )


def _asymmetric_cell(K: Array, u: Array, slack: float) -> tuple[int, int] | None:
    """The first cell where K_ij - K_ji is not u_i - u_j."""
    for rows in _strips(len(K)):
        differ = (K[rows] - u[rows, None]) - (K[:, rows].T - u)
        apart = np.argwhere(np.abs(differ) > slack)
        if len(apart):
            return rows.start + int(apart[0, 0]), int(apart[0, 1])
    return None


def _strips(n: int) -> list[slice]:
    return [slice(start, min(start + STRIP, n)) for start in range(0, n, STRIP)]


@dataclass(frozen=True, eq=False)
class _System:
    """D H K H' D, of which only K is stored."""

    K: Array  # (n, n)
    share: Array | None  # (n,) None without centring
    w: Array | None  # (n,)
    workers: int = 1

    def apply(self, V: Array) -> Array:
        if self.w is not None:
            V = V * np.sqrt(self.w)[:, None]
        if self.share is None:
            Y = self._product(V)
        else:
            Y = self._product(V - self.share[:, None] * np.sum(V, axis=0))
            Y -= self.share @ Y
        if self.w is not None:
            Y *= np.sqrt(self.w)[:, None]
        return Y

    def _product(self, V: Array) -> Array:
        """K V in threads of our own, so that BLAS may stay at one.

        On the thin matrices of Lanczos a second thread of BLAS waits more than it works, and on a
        busy machine it waits for long.
        """
        n = len(self.K)
        Y = np.empty((n, V.shape[1]))
        step = -(-n // (4 * self.workers)) if self.workers > 1 else n

        def strip(start: int) -> None:
            np.matmul(self.K[start : start + step], V, out=Y[start : start + step])

        in_threads(strip, range(0, n, step), self.workers)
        return Y

    def formed(self) -> Array:
        """The matrix itself, in place of K."""
        G = self.K
        if self.share is not None:  # rows and columns may be off by different numbers
            G -= (G @ self.share)[:, None]
            G -= self.share @ G
        if self.w is not None:
            root = np.sqrt(self.w)
            G *= root
            G *= root[:, None]
        return G


def _solve(
    system: _System, wanted: Wanted, total: float, positive: bool, *, dense: bool
) -> tuple[Eigenpairs, float, int]:
    """Leading eigenpairs, the most negative eigenvalue that is known of or 0, and passes.

    By Lanczos, unless it gives no certificate or too many are needed; then by LAPACK.
    """
    n = len(system.K)
    k, passes = wanted if isinstance(wanted, int) else FIRST_GUESS, 0
    while not dense and are_few(k, n):
        with one_blas_thread():
            top = top_eigenpairs(system.apply, n, k)
            passes += top.passes
            if not top.certified:
                break
            if isinstance(wanted, int) or float(np.sum(top.lam)) >= float(wanted or 1.0) * total:
                q = components_for(top.lam, wanted, total)
                U = top.U[:, :q] * sign_rule(top.U[:, :q])
                lowest = 0.0 if positive else _lowest(system.apply, n)
                return Eigenpairs(top.lam[:q], U, complete=False), lowest, passes
        k *= 2
    pairs = leading_eigenpairs(system.formed(), None)
    lam, least = pairs.lam, min(float(pairs.lam[-1]), 0.0)
    q = n if wanted is None else components_for(lam, wanted, total)
    complete = q >= n or not np.any(lam[q:] > ROUNDING * max(lam[0], 0.0))
    # A positive kernel has no negative eigenvalue but what rounding makes of 0.
    negative = 0.0 if positive or -least <= 1e-10 * max(float(lam[0]), 0.0) else least
    return Eigenpairs(lam[:q].copy(), pairs.V[:, :q].copy(), complete), negative, 1


def _lowest(apply: Product, n: int) -> float:
    """A Ritz value, never below the lowest eigenvalue: where it is negative, one is."""
    low = top_eigenpairs(lambda V: -apply(V), n, 1, max_passes=LOWEST_PASSES)
    value = -float(low.lam[0])
    high = top_eigenpairs(apply, n, 1, max_passes=LOWEST_PASSES)
    return value if value < -1e-10 * abs(float(high.lam[0])) else 0.0


def _require_axes(lam: Array) -> None:
    """Refuse a number of components that reaches negative eigenvalues, to which no axis belongs."""
    largest, lowest = float(np.max(lam)), float(np.min(lam))
    if -lowest <= SIGNIFICANT * max(largest, 0.0):
        return
    positive = int(np.count_nonzero(lam > ROUNDING * np.max(np.abs(lam))))
    raise ValueError(
        f"There are significant negative eigenvalues among the {len(lam)} largest ({lowest:.3g}, "
        f"where the largest is {largest:.3g}): the kernel is not positive"
        + (
            f", and only {positive} axes belong to it. Ask for at most n_components={positive}, or "
            "for None, which takes as many as there are"
            if positive
            else ", and no axis belongs to it. If it is a distance, use ClassicalMDS"
        )
    )


def components_for(lam: Array, wanted: Wanted, total: float) -> int:
    """Components: the number asked for, or those that reach the share of the variance."""
    if isinstance(wanted, int):
        return min(wanted, len(lam))
    if wanted is None or total <= 0.0:
        return len(lam) if wanted is None else 1
    share = np.cumsum(np.maximum(lam, 0.0)) / total
    return min(int(np.searchsorted(share, wanted - 1e-12)) + 1, len(lam))


def _inverse_root(lam: Array) -> Array:
    """1 / sqrt(lam), 0 where lam is."""
    return np.where(lam > 0.0, 1.0 / np.sqrt(np.where(lam > 0.0, lam, 1.0)), 0.0)
