"""Weighted k-means from k-means++ seeds: where a mixture starts.

Arthur and Vassilvitskii (2007): each further centre is drawn with probability proportional to the
squared distance from the nearest one so far; of a few such draws the one that lowers the total most
is kept. Then Lloyd's (1982) iterations.
"""

from __future__ import annotations

from math import log

import numpy as np
from numpy.typing import NDArray

from eigengap.linalg import Array

MOST_STEPS = 30
MOST_ROUNDS = 10  # of setting outliers aside


def kmeans(
    Y: Array, w: Array, K: int, rng: np.random.Generator, least: float = 0.0
) -> NDArray[np.intp]:
    """Labels (n,) of the points Y (n, r) with weights w (n,): at most K clusters, none empty.

    Points whose cluster weighs less than `least` are outliers rather than a cluster: they are set
    aside while the others are clustered anew, and go to the nearest centre in the end.
    """
    inside = np.ones(len(Y), dtype=bool)
    for _ in range(MOST_ROUNDS):
        centres = _settled(Y[inside], w[inside], _seeds(Y[inside], w[inside], K, rng))
        labels = np.argmin(_squared_distances(Y, centres), axis=1)
        total = np.bincount(labels[inside], weights=w[inside], minlength=len(centres))
        kept = inside & (total >= least)[labels]
        if np.array_equal(kept, inside) or np.sum(w[kept]) < 0.5 * np.sum(w):
            break
        inside = kept
    return np.unique(labels, return_inverse=True)[1].reshape(-1)


def _settled(Y: Array, w: Array, centres: Array) -> Array:
    """Lloyd's iterations from these centres; empty ones are left out."""
    labels = np.full(len(Y), -1)
    for _ in range(MOST_STEPS):
        updated = np.argmin(_squared_distances(Y, centres), axis=1)
        if np.array_equal(updated, labels):
            break
        labels = updated
        member = np.zeros((len(centres), len(Y)))
        member[labels, np.arange(len(Y))] = w
        total = member.sum(axis=1)
        kept = total > 0
        if not kept.all():
            labels = np.full(len(Y), -1)  # they are numbered anew
        centres = (member[kept] @ Y) / total[kept][:, None]
    return centres


def _seeds(Y: Array, w: Array, K: int, rng: np.random.Generator) -> Array:
    """Centres (K, r), fewer where there are fewer distinct points."""
    trials = 2 + int(log(K))
    first = _drawn(w, 1, rng)
    chosen = [int(first[0])]
    nearest = _squared_distances(Y, Y[first])[:, 0]
    while len(chosen) < K and np.any(nearest * w > 0):
        candidates = _drawn(nearest * w, trials, rng)
        distances = np.minimum(nearest[:, None], _squared_distances(Y, Y[candidates]))
        best = int(np.argmin(w @ distances))
        chosen.append(int(candidates[best]))
        nearest = distances[:, best]
        nearest[chosen[-1]] = 0.0
    return Y[chosen]


def _drawn(weight: Array, k: int, rng: np.random.Generator) -> NDArray[np.intp]:
    """k positions with probability proportional to their weight."""
    passed = np.cumsum(weight)
    at = np.searchsorted(passed, rng.random(k) * passed[-1], side="right")
    return np.asarray(np.minimum(at, len(weight) - 1))


def _squared_distances(Y: Array, centres: Array) -> Array:
    """(n, k); 0 where nothing but rounding is left."""
    squares = np.einsum("ij,ij->i", Y, Y)[:, None] + np.einsum("ij,ij->i", centres, centres)
    distances = squares - 2.0 * (Y @ centres.T)
    return np.where(distances > 1e-13 * squares, distances, 0.0)
