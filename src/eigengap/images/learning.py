"""EM for the Gaussians of patches with gaps.

First one Gaussian for all patches, from the covariance of the smoothly filled image; then K of
them, from k-means of the patches as the first one fills them. The covariances are kept regular by
nu patches' worth of the first one's shape (the mode under an inverse-Wishart prior), and each step
goes further than EM would by the share of the entries that are missing: EM is the slower the more
there are, and exact at once where there are none (over-relaxed EM, Salakhutdinov and Roweis 2003).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import log

import numpy as np

from eigengap.fitting.mixture.kmeans import kmeans
from eigengap.images.gaussians import (
    FEW,
    Gaussian,
    IncompletePatches,
    Moments,
    conditional,
    energies,
    moments,
    of_each,
    product,
    responsibilities,
)
from eigengap.linalg import Array
from eigengap.runtime.threads import one_blas_thread
from eigengap.selection.rank.choose import choose_rank

FIRST_STEPS = 6  # of the one Gaussian
COORDINATES = 16  # leading axes in which k-means finds the first clusters
FLAT = 0.3  # how much of a patch's mean counts in them: structure should, brightness less
FLOOR = 3e-4  # least eigenvalue of a covariance, relative to the mean variance of an entry
LEAST = 1e-8  # the same relative to all patches, for components of patches of one intensity
RANK_FROM = 5000  # patches from which the rank of one PPCA is chosen
LEFT_OUT = 0.005  # share of the variance that it leaves out
SMOOTH = 5.0  # patches' worth of a smooth image that regularise the one Gaussian


@dataclass(frozen=True)
class Recipe:
    """How to learn.

    Attributes
    ----------
    K : number of components at most
    rank : of their covariances beyond white residuals (PPCA); None leaves them free
    steps : of EM for the mixture
    sigma2 : variance of the noise on seen entries
    """

    K: int
    rank: int | None
    steps: int
    sigma2: float


def fit_gaussians(
    patches: IncompletePatches,
    filled: Array,  # (n, d) the same patches, smoothly filled
    channels: int,
    recipe: Recipe,
    rng: np.random.Generator,
) -> list[Gaussian]:
    """Components by falling weight."""
    first = _one(patches, filled, channels, recipe)
    K = min(recipe.K, len(patches) // (2 * patches.values.shape[1]))
    if K < 2:
        return [first]
    gaussians = _several(patches, first, channels, K, recipe.sigma2, rng)
    for _ in range(recipe.steps):
        gaussians = _stepped(patches, gaussians, first.C, recipe)
    return sorted(gaussians, key=lambda one: -one.log_weight)


def _one(patches: IncompletePatches, filled: Array, channels: int, recipe: Recipe) -> Gaussian:
    d = filled.shape[1]
    smooth = smooth_covariance(d, channels)
    centred = filled - filled.mean(axis=0)
    C = product(centred.T, centred) / len(filled)
    size = max(float(np.trace(C)) / d, 1e-12)
    # A filled image is too smooth: its small eigenvalues would take EM many steps to raise.
    C = C + 0.01 * size * np.eye(d) + SMOOTH / (len(filled) + SMOOTH) * size * smooth
    one = Gaussian(0.0, filled.mean(axis=0), C)
    everywhere = np.ones(len(patches))
    rank = recipe.rank
    for step in range(FIRST_STEPS if recipe.K > 1 else FIRST_STEPS + recipe.steps):
        if recipe.K == 1 and rank is None and step == FIRST_STEPS:
            rank = _rank(conditional(patches, one, recipe.sigma2).mean)
        sums = moments(patches, everywhere, one, recipe.sigma2)
        one = _updated(one, sums, smooth, SMOOTH, len(patches), rank, _eta(patches))
    return one


def _rank(expected: Array) -> int:
    """Of one PPCA: the axes that hold nearly all the variance of the patches as expected."""
    if len(expected) < 3:  # of which no spectrum is to be had
        return 1
    with one_blas_thread():
        choice = choose_rank(expected[:RANK_FROM], criteria=["tolerance"], tolerance=LEFT_OUT)
    return max(choice.n_components, 1)


def _several(
    patches: IncompletePatches,
    first: Gaussian,
    channels: int,
    K: int,
    sigma2: float,
    rng: np.random.Generator,
) -> list[Gaussian]:
    """Clusters of the patches as one Gaussian expects them."""
    d = len(first.mu)
    means = conditional(patches, first, sigma2).mean - first.mu
    by_channel = means.reshape(len(means), -1, channels)
    flat = by_channel.mean(axis=1, keepdims=True)
    shape = (by_channel - (1.0 - FLAT) * flat).reshape(means.shape)
    with one_blas_thread():
        lam, U = np.linalg.eigh(shape.T @ shape / len(shape))
        leading = slice(-1, -1 - min(COORDINATES, d), -1)
        tamed = shape @ U[:, leading] / np.maximum(lam[leading], 1e-12) ** 0.25
        labels = kmeans(tamed, np.ones(len(means)), K, rng)
    gaussians = []
    for k in range(int(labels.max()) + 1):
        own = means[labels == k]
        centred = own - own.mean(axis=0)
        S = product(centred.T, centred)
        prior = first.C * (np.trace(S) / max(len(own), 1) / np.trace(first.C))
        C = (S + d * prior) / (len(own) + d) + 0.003 * np.trace(first.C) / d * np.eye(d)
        mu = first.mu + own.mean(axis=0)
        gaussians.append(Gaussian(log(len(own) / len(means)), mu, C))
    return gaussians


def _stepped(
    patches: IncompletePatches, gaussians: list[Gaussian], shape: Array, recipe: Recipe
) -> list[Gaussian]:
    """One step of EM; components with too few patches are dropped."""
    resp = responsibilities(energies(patches, gaussians, recipe.sigma2))
    eta = _eta(patches)
    n, d = patches.values.shape
    resp[(resp <= FEW) & (resp < resp.max(axis=1, keepdims=True))] = 0.0
    alive = np.flatnonzero(resp.sum(axis=0) >= min(d / 6.0, n / 2.0))

    def of_one(k: int) -> Gaussian:
        at = np.flatnonzero(resp[:, k])
        sums = moments(patches.take(at), resp[at, k], gaussians[k], recipe.sigma2)
        return _updated(gaussians[k], sums, shape, d / 2.0, n, recipe.rank, eta)

    updated = of_each(of_one, [int(k) for k in alive], n)
    total = np.logaddexp.reduce([one.log_weight for one in updated])
    return [replace(one, log_weight=one.log_weight - total) for one in updated]


def _updated(
    one: Gaussian, sums: Moments, shape: Array, nu: float, n: int, rank: int | None, eta: float
) -> Gaussian:
    """The M-step, `eta` times as far, with nu patches more of this shape and size."""
    d, shift = len(one.mu), sums.first / sums.weight
    S = sums.second - sums.weight * np.outer(shift, shift)
    size = np.trace(S) / sums.weight
    C = (S + nu * size / np.trace(shape) * shape) / (sums.weight + nu)
    C = one.C + eta * (C - one.C)
    floor = max(FLOOR * size, LEAST * np.trace(shape)) / d
    C = _positive(0.5 * (C + C.T), floor, rank)
    return Gaussian(log(max(sums.weight / n, 1e-12)), one.mu + eta * shift, C)


def _eta(patches: IncompletePatches) -> float:
    return 2.0 - float(np.mean(patches.observed))


def _positive(C: Array, floor: float, rank: int | None) -> Array:
    """C with eigenvalues of at least `floor`; those beyond the rank become their mean (PPCA)."""
    with one_blas_thread():
        lam, U = np.linalg.eigh(C)
    lam = np.maximum(lam, floor)
    if rank is not None and rank < len(lam):
        lam[: len(lam) - rank] = np.mean(lam[: len(lam) - rank])
    return product(U * lam, U.T)


def smooth_covariance(d: int, channels: int) -> Array:
    """(d, d) of an image whose neighbouring pixels and whose channels are alike; variance 1."""
    side = round((d / channels) ** 0.5)
    y, x = np.divmod(np.arange(side * side), side)
    apart = np.hypot(y[:, None] - y, x[:, None] - x)
    colours = 0.1 * np.eye(channels) + 0.9
    return np.kron(np.exp(-apart / 4.0), colours)
