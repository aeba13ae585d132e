"""A mixture of PPCAs of complete patches in white noise of known variance.

    x = U_k z + u + mu_k + noise,  z ~ N(0, diag(lam_k - sigma2)),  noise ~ N(0, sigma2 I)

with weight pi_k, U_k orthonormal, and u orthogonal to U_k, of variance rest_k - sigma2 each way:
Tipping and Bishop's mixture (1999) with one noise for all, which Houdard, Bouveyron and Delon
(2018, "High-dimensional mixture models for unsupervised image denoising") fit to the noisy patches
themselves. The noise being known, so is the rank of each component: as many eigenvalues as stand
above the edge of the spectrum of pure noise, sigma2 (1 + sqrt(d / n_k))^2 (Marchenko and Pastur
1967), each put back to what it is without the noise of the sample (Baik and Silverstein 2006). What
the axes below the edge have beyond the noise no axis shows, but their mean does: that is u.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log, sqrt
from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from eigengap.fitting.mixture.kmeans import kmeans
from eigengap.images.image import mixture_of
from eigengap.images.patches import in_order, tamed_coordinates
from eigengap.linalg import Array
from eigengap.runtime.threads import one_blas_thread

Patches = NDArray[Any]  # (n, d), float32 or, where the noise is faint, float64

STEPS = 12  # of EM
COORDINATES = 12  # leading axes in which k-means finds the first clusters
PIECE = 2048  # patches whose responsibilities are found at a time
FEW = 1e-3  # responsibility that counts for nothing
LEAST = 0.5  # patches for each of their entries that make a component
MARGIN = 1.02  # above the edge, in variance, that an axis has to stand


@dataclass(frozen=True, eq=False)
class Component:
    """One PPCA of a mixture."""

    log_weight: float
    count: float  # patches that taught it
    mu: Patches  # (d,)
    U: Patches  # (d, q) orthonormal
    lam: Array  # (q,) variances along U, noise included
    rest: float  # variance along all other axes, noise included

    @property
    def q(self) -> int:
        return len(self.lam)


@dataclass(frozen=True, eq=False)
class PatchMixture:
    """Components that share the noise variance sigma2."""

    components: tuple[Component, ...]
    sigma2: float

    @property
    def ranks(self) -> tuple[int, ...]:
        return tuple(one.q for one in self.components)

    def __str__(self) -> str:
        low, high = min(self.ranks), max(self.ranks)
        ranks = f"rank {low}" if low == high else f"ranks {low} to {high}"
        return f"{mixture_of(len(self.components), 'PPCA')}, {ranks},"

    def log_joint(self, X: Patches) -> Patches:
        """ln pi_k p_k(x) up to a constant: (n, K)."""
        axes = np.concatenate([one.U for one in self.components], axis=1)
        means = np.stack([one.mu for one in self.components])
        Z = X @ axes  # of all components at once, (n, sum of ranks)
        squares = np.einsum("ij,ij->i", X, X)[:, None] - 2.0 * (X @ means.T)
        squares += np.einsum("kj,kj->k", means, means)  # |x - mu_k|^2
        joint = np.empty(squares.shape, X.dtype)
        first = 0
        for k, one in enumerate(self.components):
            z = Z[:, first : first + one.q] - one.mu @ one.U
            first += one.q
            saved = (1.0 / one.rest - 1.0 / one.lam).astype(X.dtype)
            log_det = float(np.sum(np.log(one.lam))) + (X.shape[1] - one.q) * log(one.rest)
            constant = one.log_weight - 0.5 * log_det
            joint[:, k] = constant - 0.5 * (squares[:, k] / one.rest - (z * z) @ saved)
        return joint

    def responsibilities(self, X: Patches) -> Patches:
        """(n, K)."""
        log_joint = self.log_joint(X)
        resp = np.exp(log_joint - log_joint.max(axis=1, keepdims=True))
        return np.asarray(resp / resp.sum(axis=1, keepdims=True))

    def posterior(self, X: Patches) -> tuple[Patches, Patches]:
        """Mean and variance of each entry of the clean patch: (n, d), (n, d).

        Under one component the mean is mu + U diag(1 - sigma2 / lam) U^T (x - mu), with what lies
        orthogonal to U shrunk by 1 - sigma2 / rest, and the variance the same for all patches; over
        components by the law of total variance. To what is left of the noise in z comes that in mu
        and the q axes, estimated from n_k noisy patches: an entry is regressed on q coordinates and
        a constant, so (1 + q) sigma2 / n_k.
        """
        resp = self.responsibilities(X)
        resp[resp < FEW] = 0.0
        resp /= resp.sum(axis=1, keepdims=True)
        mean, second = np.zeros_like(X), np.zeros_like(X)
        for k, one in enumerate(self.components):
            at = np.flatnonzero(resp[:, k])
            if len(at) == 0:
                continue
            outside = X.dtype.type(1.0 - self.sigma2 / one.rest)
            gain = (1.0 - self.sigma2 / one.lam).astype(X.dtype) - outside  # Wiener's, beyond that
            centred = X[at] - one.mu
            estimate = (centred @ one.U * gain) @ one.U.T + outside * centred + one.mu
            learned = X.dtype.type((1 + one.q) / one.count)
            variance = X.dtype.type(self.sigma2) * (one.U**2 @ gain + outside + learned)
            r = resp[at, k][:, None]
            mean[at] += r * estimate
            second[at] += r * (variance + estimate**2)
        return mean, np.maximum(second - mean**2, X.dtype.type(1e-4 * self.sigma2))


def fit_mixture(
    X: Patches,
    sigma2: float,
    K: int,
    rank: int | None,  # None: by the edge of the noise
    rng: np.random.Generator,
    steps: int = STEPS,
) -> PatchMixture:
    """Maximum likelihood by EM from k-means; components that lose their patches are dropped."""
    with one_blas_thread():
        resp = _first_clusters(X, K, rng)
    mixture = _maximised(X, resp, sigma2, rank)
    for _ in range(steps if K > 1 else 0):
        pieces = [X[start : start + PIECE] for start in range(0, len(X), PIECE)]
        resp = np.concatenate(list(in_order(mixture.responsibilities, pieces)))
        mixture = _maximised(X, resp, sigma2, rank)
    return mixture


def _first_clusters(X: Patches, K: int, rng: np.random.Generator) -> Patches:
    """Responsibilities (n, K') of k-means in the leading coordinates, the largest tamed."""
    if K == 1:
        return np.ones((len(X), 1), X.dtype)
    Z = tamed_coordinates(X - X.mean(axis=0), COORDINATES)
    # A lamp in the dark is far from all and would take every seed: few patches are no cluster.
    labels = kmeans(Z, np.ones(len(X)), K, rng, LEAST * X.shape[1])
    return np.eye(int(labels.max()) + 1, dtype=X.dtype)[labels]


def _maximised(X: Patches, resp: Patches, sigma2: float, rank: int | None) -> PatchMixture:
    """The M-step."""
    n, d = X.shape
    counts = resp.sum(axis=0, dtype=np.float64)
    least = LEAST * d if resp.shape[1] > 1 else 0.0
    kept = [int(k) for k in np.flatnonzero(counts >= min(least, counts.max()))]

    def of(k: int) -> Component:
        return _component(X, resp[:, k], float(counts[k]), n, sigma2, rank)

    return PatchMixture(tuple(in_order(of, kept)), sigma2)


def _component(
    X: Patches, resp: Patches, count: float, n: int, sigma2: float, rank: int | None
) -> Component:
    at = np.flatnonzero(resp > FEW)
    weight = resp[at][:, None]
    mu = (X[at] * weight).sum(axis=0) / X.dtype.type(count)
    centred = (X[at] - mu) * np.sqrt(weight)
    gamma = len(mu) / count
    edge = max(sigma2 * (1.0 + sqrt(gamma)) ** 2, MARGIN * sigma2)
    S = (centred.T @ centred).astype(np.float64) / count
    lam, U = _leading(S, edge, rank)
    rest = (np.trace(S) - np.sum(lam)) / max(len(S) - len(lam), 1)
    return Component(
        log_weight=log(count / n),
        count=count,
        mu=mu,
        U=np.ascontiguousarray(U, dtype=X.dtype),
        lam=unbiased(lam, sigma2, gamma),
        rest=max(float(rest), sigma2),
    )


def _leading(S: Array, edge: float, rank: int | None) -> tuple[Array, Array]:
    """Eigenvalues of S above the edge, or as many as the rank, descending; and their vectors."""
    d = len(S)
    if rank is None:
        lam, U = scipy.linalg.eigh(S, subset_by_value=(edge, np.inf))
    if rank is not None or len(lam) == 0:
        q = min(rank or 1, d)  # channels that agree have fewer entries
        lam, U = scipy.linalg.eigh(S, subset_by_index=(d - q, d - 1))
    return lam[::-1], U[:, ::-1]


def unbiased(lam: Array, sigma2: float, gamma: float) -> Array:
    """Population variances of spikes whose sample variances are lam, gamma = d / n.

    The sample has l = s (1 + gamma / (s - 1)) for s = spike / sigma2: solved for s.
    """
    l = lam / sigma2
    b = l + 1.0 - gamma
    spike = 0.5 * (b + np.sqrt(np.maximum(b * b - 4.0 * l, 0.0)))
    return np.asarray(sigma2 * np.maximum(spike, 1.001))
