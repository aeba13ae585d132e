"""A mixture of Gaussians of patches with gaps: conditioning, and EM.

Each patch sees a set o of its own of its d entries, in white noise sigma2, which may be 0. With
A = C + sigma2 I and r = x - mu (Ghahramani and Jordan 1994, "Supervised learning from incomplete
data via an EM approach"; in images Yu, Sapiro and Mallat 2012, "Solving inverse problems with
piecewise linear estimators"):

    a = A[o, o]^-1 r_o,   E[x] = mu + C[:, o] a,   cov[x] = C - C[:, o] A[o, o]^-1 C[o, :]

Where more than half of a patch is seen the same comes from its unseen set u and L = A^-1: L[u, u]
is the smaller matrix. The M-step needs only sums, sum E[x], sum E[x] E[x]^T and the sum G of the
A[o, o]^-1, each in its place, for sum cov[x] = n C - C G C.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from eigengap.compiled.subsets import forms, solutions
from eigengap.linalg import Array
from eigengap.runtime.threads import in_order, one_blas_thread

Bools = NDArray[np.bool_]
Ints = NDArray[np.intp]

K = TypeVar("K")
T = TypeVar("T")

FEW = 0.01  # responsibility that counts for nothing
MANY = 500  # patches


@dataclass(frozen=True, eq=False)
class IncompletePatches:
    """Patches of which some entries were seen."""

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


@dataclass(frozen=True, eq=False)
class Conditional:
    """What the seen entries of some patches say under one component."""

    mean: Array  # (n, d) of the clean patch
    variance: Array  # (n, d) of the clean patch


@dataclass(frozen=True, eq=False)
class Moments:
    """Weighted sums over patches under one component, measured from its mean."""

    weight: float
    first: Array  # (d,) sum E[x - mu]
    second: Array  # (d, d) sum E[(x - mu)(x - mu)^T]


def energies(patches: IncompletePatches, gaussians: list[Gaussian], sigma2: float) -> Array:
    """-2 ln pi_k p_k(x_o), but for a constant of the patch: (n, K)."""
    of_one = partial(_energy, patches, sigma2=sigma2)
    return np.stack(of_each(of_one, gaussians, len(patches)), axis=1)


def of_each(fn: Callable[[K], T], components: list[K], n: int) -> list[T]:
    """fn of every component, side by side where they have patches enough to repay the threads."""
    return list(in_order(fn, iter(components)) if n >= MANY else map(fn, components))


def _energy(patches: IncompletePatches, one: Gaussian, sigma2: float) -> Array:
    result = np.empty(len(patches))
    A = _noisy(one.C, sigma2)
    for at, is_observed in _halves(patches):
        r = _residual(patches, at, one)
        if is_observed:
            quadratic, log_det = forms(A, r, patches.observed[at])
        else:
            L = _inverse(A)
            b = product(r, L)
            reduction, log_det = forms(L, b, ~patches.observed[at])
            quadratic = np.einsum("nj,nj->n", r, b) - reduction
            log_det += _log_det(A)
        result[at] = quadratic + log_det - 2.0 * one.log_weight
    return result


def responsibilities(energy: Array) -> Array:
    """p(k | x_o): (n, K)."""
    weight = np.exp(-0.5 * (energy - energy.min(axis=1, keepdims=True)))
    return np.asarray(weight / weight.sum(axis=1, keepdims=True))


def moments(patches: IncompletePatches, weight: Array, one: Gaussian, sigma2: float) -> Moments:
    """The E-step of one component for patches of weight (n,)."""
    A, d = _noisy(one.C, sigma2), len(one.mu)
    G = np.zeros((d, d))
    first, second = np.zeros(d), np.zeros((d, d))
    for at, is_observed in _halves(patches):
        r, w = _residual(patches, at, one), weight[at]
        if is_observed:
            a, _, inverses = solutions(A, r, patches.observed[at], w)
            G += inverses
        else:
            L = _inverse(A)
            s, _, inverses = solutions(L, product(r, L), ~patches.observed[at], w)
            a = product(r - s, L)
            G += float(np.sum(w)) * L - product(product(L, inverses), L)
        mean = product(a, one.C)
        first += product(w, mean)
        second += product((mean * w[:, None]).T, mean)
    total = float(np.sum(weight))
    explained = product(product(one.C, G), one.C)
    return Moments(total, first, second + total * one.C - explained)


def conditional(patches: IncompletePatches, one: Gaussian, sigma2: float) -> Conditional:
    """Mean and variance of every entry given the seen ones."""
    A = _noisy(one.C, sigma2)
    a, inside, outside = (np.zeros(patches.values.shape) for _ in range(3))
    for at, is_observed in _halves(patches):
        r, o = _residual(patches, at, one), patches.observed[at]
        if is_observed:
            a[at], spread, _ = solutions(A, r, o, explained=True)
            inside[at] = np.where(o, spread, 0.0)  # diagonal of A[o, o]^-1
            outside[at] = np.where(o, 0.0, np.diag(A) - spread)
        else:
            L = _inverse(A)
            s, spread, _ = solutions(L, product(r, L), ~o, explained=True)
            a[at] = np.where(o, product(r - s, L), 0.0)
            inside[at] = np.where(o, np.diag(L) - spread, 0.0)
            outside[at] = np.where(o, 0.0, spread)
    observed = patches.observed
    variance = np.where(observed, sigma2 - sigma2**2 * inside, outside - sigma2)
    return Conditional(product(a, one.C) + one.mu, np.maximum(variance, 0.0))


def _halves(patches: IncompletePatches) -> Iterator[tuple[Ints, bool]]:
    """Patches of which at most half was seen, and the others."""
    few = 2 * patches.observed.sum(axis=1) <= patches.observed.shape[1]
    for at, is_observed in ((np.flatnonzero(few), True), (np.flatnonzero(~few), False)):
        if len(at):
            yield at, is_observed


def _residual(patches: IncompletePatches, at: Ints, one: Gaussian) -> Array:
    return np.where(patches.observed[at], patches.values[at] - one.mu, 0.0)


def _noisy(C: Array, sigma2: float) -> Array:
    A = C.copy()
    A[np.diag_indices(len(A))] += sigma2
    return A


def _inverse(A: Array) -> Array:
    with one_blas_thread():
        inverse = np.linalg.inv(A)
    return np.asarray(0.5 * (inverse + inverse.T))


def _log_det(A: Array) -> float:
    with one_blas_thread():
        return float(np.linalg.slogdet(A)[1])


def product(A: Array, B: Array) -> Array:
    """A B by one thread: the sums of several depend on how many there are."""
    with one_blas_thread():
        return np.asarray(A @ B)
