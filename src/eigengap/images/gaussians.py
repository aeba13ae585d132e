"""A mixture of Gaussians of incomplete patches: conditioning, and EM.

Each patch has a set o of its own of its d entries observed, in white noise sigma2, which may be 0.
With A = C + sigma2 I and r = x - mu (Ghahramani and Jordan 1994, "Supervised learning from
incomplete data via an EM approach"; in images Yu, Sapiro and Mallat 2012, "Solving inverse problems
with piecewise linear estimators"):

    a = A[o, o]^-1 r_o,   E[x] = mu + C[:, o] a,   cov[x] = C - C[:, o] A[o, o]^-1 C[o, :]

Where more than half of a patch is observed the same comes from its missing set u and L = A^-1:
L[u, u] is the smaller matrix. The M-step needs only sums, sum E[x], sum E[x] E[x]^T and the sum G
of the A[o, o]^-1, each in its place, for sum cov[x] = n C - C G C.

EM begins with one Gaussian for all patches, from the covariance of the smoothly imputed image; then
K of them, from k-means of the patches as the first one imputes them. The covariances are kept
regular by nu patches' worth of the first one's shape (the mode under an inverse-Wishart prior), and
each step goes further than EM would by the share of the entries that are missing: EM is the slower
the more there are, and exact at once where there are none (over-relaxed EM, Salakhutdinov and
Roweis 2003).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from math import log
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from eigengap.compiled.subsets import forms, solutions
from eigengap.fitting.mixture.kmeans import kmeans
from eigengap.images.patches import tamed_coordinates
from eigengap.linalg import Array
from eigengap.runtime.threads import in_order, one_blas_thread
from eigengap.selection.rank.choose import choose_rank

Bools = NDArray[np.bool_]
Ints = NDArray[np.intp]

K = TypeVar("K")
T = TypeVar("T")

FEW = 0.01  # responsibility that counts for nothing
MANY = 500  # patches that repay threads

FIRST_STEPS = 6  # of the one Gaussian
COORDINATES = 16  # leading axes in which k-means finds the first clusters
FLAT = 0.3  # how much of a patch's mean counts in them: structure should, brightness less
FLOOR = 3e-4  # least eigenvalue of a covariance, relative to the mean variance of an entry
LEAST = 1e-8  # the same relative to all patches, for components of patches of one intensity
RANK_FROM = 5000  # patches from which the rank of one PPCA is chosen
LEFT_OUT = 0.005  # share of the variance that it leaves out
SMOOTH = 5.0  # patches' worth of a smooth image that regularise the one Gaussian


@dataclass(frozen=True, eq=False)
class IncompletePatches:
    """Patches of which some entries were observed."""

    values: Array  # (n, d), 0 where missing
    observed: Bools  # (n, d)

    @classmethod
    def of(cls, patches: Array) -> IncompletePatches:
        """From patches with NaN where missing."""
        observed = ~np.isnan(patches)
        return cls(np.where(observed, patches, 0.0), observed)

    def __len__(self) -> int:
        return len(self.values)

    def take(self, at: Ints) -> IncompletePatches:
        return IncompletePatches(self.values[at], self.observed[at])


@dataclass(frozen=True, eq=False)
class Gaussian:
    """One component: ln pi, mu (d,), C (d, d) of the clean patch."""

    log_weight: float
    mu: Array
    C: Array


class Conditional(NamedTuple):
    """Patches given their observed entries, under one component."""

    mean: Array  # (n, d) of the clean patch
    variance: Array  # (n, d) of the clean patch


class Moments(NamedTuple):
    """Weighted sums over patches under one component, measured from its mean."""

    weight: float
    first: Array  # (d,) sum E[x - mu]
    second: Array  # (d, d) sum E[(x - mu)(x - mu)^T]


def deviances(patches: IncompletePatches, gaussians: list[Gaussian], sigma2: float) -> Array:
    """-2 ln pi_k p_k(x_o), but for a constant of the patch: (n, K)."""
    of_one = partial(_deviance, patches, sigma2=sigma2)
    return np.stack(of_each(of_one, gaussians, len(patches)), axis=1)


def of_each(fn: Callable[[K], T], components: list[K], n: int) -> list[T]:
    """fn of every component, side by side where they have patches enough to repay the threads."""
    return list(in_order(fn, iter(components)) if n >= MANY else map(fn, components))


def _deviance(patches: IncompletePatches, one: Gaussian, sigma2: float) -> Array:
    result = np.empty(len(patches))
    for at, r, o, A, L in _halves(patches, one, sigma2):
        if L is None:
            quadratic, log_det = forms(A, r, o)
        else:
            b = product(r, L)
            reduction, log_det = forms(L, b, ~o)
            quadratic = np.einsum("nj,nj->n", r, b) - reduction
            with one_blas_thread():
                log_det += float(np.linalg.slogdet(A)[1])
        result[at] = quadratic + log_det - 2.0 * one.log_weight
    return result


def responsibilities(deviance: Array) -> Array:
    """p(k | x_o): (n, K)."""
    weight = np.exp(-0.5 * (deviance - deviance.min(axis=1, keepdims=True)))
    return np.asarray(weight / weight.sum(axis=1, keepdims=True))


def moments(patches: IncompletePatches, weight: Array, one: Gaussian, sigma2: float) -> Moments:
    """The E-step of one component for patches of weight (n,)."""
    d = len(one.mu)
    first, second, G = np.zeros(d), np.zeros((d, d)), np.zeros((d, d))
    for at, r, o, A, L in _halves(patches, one, sigma2):
        w = weight[at]
        if L is None:
            a, _, inverses = solutions(A, r, o, w)
            G += inverses
        else:
            s, _, inverses = solutions(L, product(r, L), ~o, w)
            a = product(r - s, L)
            G += float(np.sum(w)) * L - product(product(L, inverses), L)
        mean = product(a, one.C)
        first += product(w, mean)
        second += product((mean * w[:, None]).T, mean)
    total = float(np.sum(weight))
    explained = product(product(one.C, G), one.C)
    return Moments(total, first, second + total * one.C - explained)


def conditional(patches: IncompletePatches, one: Gaussian, sigma2: float) -> Conditional:
    """Mean and variance of every entry given the observed ones."""
    a, inside, outside = (np.zeros(patches.values.shape) for _ in range(3))
    for at, r, o, A, L in _halves(patches, one, sigma2):
        if L is None:
            a[at], diagonal, _ = solutions(A, r, o, explained=True)
            inside[at] = np.where(o, diagonal, 0.0)  # diagonal of A[o, o]^-1
            outside[at] = np.where(o, 0.0, np.diag(A) - diagonal)
        else:
            s, diagonal, _ = solutions(L, product(r, L), ~o, explained=True)
            a[at] = np.where(o, product(r - s, L), 0.0)
            inside[at] = np.where(o, np.diag(L) - diagonal, 0.0)
            outside[at] = np.where(o, 0.0, diagonal)
    observed = patches.observed
    variance = np.where(observed, sigma2 - sigma2**2 * inside, outside - sigma2)
    return Conditional(product(a, one.C) + one.mu, np.maximum(variance, 0.0))


def _halves(
    patches: IncompletePatches, one: Gaussian, sigma2: float
) -> Iterator[tuple[Ints, Array, Bools, Array, Array | None]]:
    """Patches of which at most half was observed, and the others.

    Which they are, r (n, d) with 0 where missing, o (n, d), A, and of the others L.
    """
    A = one.C.copy()
    A[np.diag_indices(len(A))] += sigma2
    few = 2 * patches.observed.sum(axis=1) <= patches.observed.shape[1]
    for at, needs_inverse in ((np.flatnonzero(few), False), (np.flatnonzero(~few), True)):
        if len(at) == 0:
            continue
        L, observed = None, patches.observed[at]
        if needs_inverse:
            with one_blas_thread():
                inverse = np.linalg.inv(A)
            L = np.asarray(0.5 * (inverse + inverse.T))
        yield at, np.where(observed, patches.values[at] - one.mu, 0.0), observed, A, L


def product(A: Array, B: Array) -> Array:
    """A B by one thread: the sums of several depend on how many there are."""
    with one_blas_thread():
        return np.asarray(A @ B)


# Learning -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Recipe:
    """How to learn."""

    K: int  # number of components at most
    rank: int | None  # of covariances beyond white residuals (PPCA); None leaves them free
    steps: int  # of EM for the mixture
    sigma2: float  # variance of the noise on observed entries


def fit_gaussians(
    patches: IncompletePatches,
    smooth: Array,  # (n, d) the same patches, smoothly imputed
    channels: int,
    recipe: Recipe,
    rng: np.random.Generator,
) -> list[Gaussian]:
    """Components by falling weight."""
    first = _one(patches, smooth, channels, recipe)
    K = min(recipe.K, len(patches) // (2 * patches.values.shape[1]))
    if K < 2:
        return [first]
    gaussians = _several(patches, first, channels, K, recipe.sigma2, rng)
    for _ in range(recipe.steps):
        gaussians = _stepped(patches, gaussians, first.C, recipe)
    return sorted(gaussians, key=lambda one: -one.log_weight)


def _one(patches: IncompletePatches, imputed: Array, channels: int, recipe: Recipe) -> Gaussian:
    d = imputed.shape[1]
    smooth = smooth_covariance(d, channels)
    centred = imputed - imputed.mean(axis=0)
    C = product(centred.T, centred) / len(imputed)
    size = max(float(np.trace(C)) / d, 1e-12)
    # An imputed image is too smooth: its small eigenvalues would take EM many steps to raise.
    C = C + 0.01 * size * np.eye(d) + SMOOTH / (len(imputed) + SMOOTH) * size * smooth
    one = Gaussian(0.0, imputed.mean(axis=0), C)
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
        labels = kmeans(tamed_coordinates(shape, COORDINATES), np.ones(len(means)), K, rng)
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
    resp = responsibilities(deviances(patches, gaussians, recipe.sigma2))
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
