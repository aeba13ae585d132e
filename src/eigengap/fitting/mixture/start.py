"""Where EM of a mixture starts: clusters of the posterior means under one model of all rows.

One linear-Gaussian model, fitted loosely, gives every row, complete or not, coordinates z; k-means
on them gives clusters. With zbar_k and V_k the mean and covariance of z in cluster k, the posterior
covariance included, component k starts as

    mu_k = mu + W zbar_k,   W_k W_k^T + Psi_k = W V_k W^T + Psi,

the right-hand side being cut to the rank of the component.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from eigengap.fitting.mixture.kmeans import kmeans
from eigengap.fitting.mixture.problem import MixtureProblem
from eigengap.linalg import Array, sign_rule
from eigengap.statistics.expected.gaussian import Parameters
from eigengap.statistics.expected.mixture import MixtureParameters

# Least strength w^T Psi^-1 w of a column at the start: W = 0 along an axis is a saddle.
LEAST_STRENGTH = 0.1


def single_start(problem: MixtureProblem, q: int) -> MixtureParameters:
    """One component of rank q for all rows."""
    return MixtureParameters(np.zeros(1), (problem.first(q),))


@dataclass(frozen=True, eq=False)
class Scores:
    """Coordinates of all rows under one model of them."""

    single: Parameters  # in canonical form
    Z: Array  # (n, q) posterior means
    w: Array  # (n,) weights of the rows

    @classmethod
    def of(cls, problem: MixtureProblem, single: Parameters) -> Scores:
        single = canonical(single)
        both = problem.scores(single)
        # Sorted, so that what is drawn at random does not depend on the order of the rows.
        both = both[np.lexsort(both[:, -2::-1].T)]
        return cls(single=single, Z=both[:, :-1], w=both[:, -1])


def cluster_start(
    scores: Scores, ranks: Sequence[int], rng: np.random.Generator, *, whiten: bool
) -> MixtureParameters:
    """Components from k-means; fewer than asked for where there are fewer distinct rows.

    Coordinates are compared as they lie in the data, or whitened: which of the two separates the
    clusters better depends on whether they differ along the strong axes.
    """
    Z, w, single = scores.Z, scores.w, scores.single
    length = np.sqrt(np.sum(single.W**2, axis=0))
    K = len(ranks)
    least = min(max(ranks) + 2.0, float(np.sum(w)) / (4 * K))
    labels = kmeans(Z if whiten else Z * length, w, K, rng, least)
    missing = np.eye(Z.shape[1]) - _covariance(Z, w)  # the mean posterior covariance
    log_weights, components = [], []
    for k in range(int(labels.max()) + 1):
        at = labels == k
        V = _covariance(Z[at], w[at]) + missing
        mean = np.average(Z[at], axis=0, weights=w[at])
        lam, U = np.linalg.eigh(V)
        root = U * np.sqrt(np.maximum(lam, 1e-6))
        moved = replace(single, W=single.W @ root, delta=single.delta + single.W @ mean)
        log_weights.append(np.log(np.sum(w[at])))
        components.append(truncated(moved, ranks[k]))
    weights = np.array(log_weights)
    return MixtureParameters(weights - np.logaddexp.reduce(weights), tuple(components))


def canonical(component: Parameters) -> Parameters:
    """The same density with W^T Psi^-1 W diagonal, descending, and signs by the rule."""
    return truncated(component, component.W.shape[1], least=0.0)


def truncated(component: Parameters, q: int, least: float = LEAST_STRENGTH) -> Parameters:
    """The component with its q strongest columns; what the others explained becomes noise.

    Columns that are missing or too weak to grow from are made as strong as `least`.
    """
    root = np.sqrt(component.psi)[:, None]
    U, length, _ = np.linalg.svd(component.W / root, full_matrices=q > component.W.shape[1])
    strength = np.zeros(max(U.shape[1], q))
    strength[: len(length)] = length
    W = root * U[:, :q] * np.maximum(strength[:q], np.sqrt(least))
    W *= sign_rule(W)
    lost = root * U[:, q : len(length)] * length[q:]
    extra = np.sum(lost**2, axis=1)
    psi = component.psi
    is_isotropic = bool(np.all(psi == psi[0]))
    return Parameters(
        W=W, delta=component.delta, psi=psi + (np.mean(extra) if is_isotropic else extra)
    )


def _covariance(Z: Array, w: Array) -> Array:
    centred = Z - np.average(Z, axis=0, weights=w)
    return np.asarray((centred * (w / np.sum(w))[:, None]).T @ centred)
