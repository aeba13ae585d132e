"""Moves between mixtures that EM cannot make: split, merge, rebirth, exchange of ranks.

Ueda, Nakano, Ghahramani and Hinton (2000), "SMEM algorithm for mixture models": EM is stuck where
one component covers two clusters and two others share one. Two that share their rows are merged,
and the one that fits its rows worst is split; EM from there decides whether it was a gain.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import scipy.optimize

from eigengap.fitting.mixture.start import canonical, truncated
from eigengap.linalg import Array
from eigengap.statistics.expected.gaussian import Parameters
from eigengap.statistics.expected.mixture import MixtureExpected, MixtureParameters

APART = 0.8  # of a standard deviation: where the halves of a split component go


@dataclass(frozen=True)
class Move:
    """Components a and b become one, and c becomes two."""

    a: int
    b: int
    c: int


def candidate_moves(expected: MixtureExpected, most: int) -> Iterator[Move]:
    """Moves, the most promising first: similar pairs with, for each, the worst fitting third."""
    K = len(expected.components)
    similarity, misfit = expected.similarity(), expected.misfit()
    pairs = [(a, b) for a in range(K) for b in range(a + 1, K)]
    pairs.sort(key=lambda pair: -similarity[pair])
    ranked = [
        (p + place, Move(a, b, int(c)))
        for p, (a, b) in enumerate(pairs)
        for place, c in enumerate([c for c in np.argsort(-misfit) if c not in (a, b)])
    ]
    ranked.sort(key=lambda entry: entry[0])
    for _, move in ranked[:most]:
        yield move


def moved(parameters: MixtureParameters, move: Move) -> MixtureParameters:
    """The mixture after a move; a holds the merged component, b and c the halves of c."""
    log_weights = parameters.log_weights.copy()
    components = list(parameters.components)
    a, b, c = move.a, move.b, move.c
    components[a] = _merged(
        components[a], components[b], np.exp(log_weights[[a, b]]), parameters.ranks[a]
    )
    log_weights[a] = np.logaddexp(log_weights[a], log_weights[b])
    first, second = _halves(components[c])
    components[b] = truncated(first, parameters.ranks[b])
    components[c] = truncated(second, parameters.ranks[c])
    log_weights[b] = log_weights[c] = log_weights[c] - np.log(2.0)
    return MixtureParameters(log_weights, tuple(components))


def reborn(parameters: MixtureParameters, k: int, mean: Array, owner: int) -> MixtureParameters:
    """Component k anew at `mean`, shaped like the `owner` of the row found there."""
    log_weights = parameters.log_weights.copy()
    log_weights[k] = log_weights[owner] = log_weights[owner] - np.log(2.0)
    fresh = replace(parameters.components[owner], delta=mean)
    components = list(parameters.components)
    components[k] = truncated(fresh, parameters.ranks[k])
    log_weights -= np.logaddexp.reduce(log_weights)
    return MixtureParameters(log_weights, tuple(components))


def dropped(parameters: MixtureParameters, k: int) -> MixtureParameters:
    """The mixture without component k."""
    log_weights = np.delete(parameters.log_weights, k)
    components = parameters.components[:k] + parameters.components[k + 1 :]
    return MixtureParameters(log_weights - np.logaddexp.reduce(log_weights), components)


def with_ranks(
    parameters: MixtureParameters, ranks: Sequence[int], sum_w: float
) -> MixtureParameters:
    """Components cut to these ranks, each rank given to whom the columns lost to it cost least.

    Leaving out a column of strength s = w^T Psi^-1 w costs about (s - ln(1 + s)) / 2 nats a row.
    """
    components = [canonical(c) for c in parameters.components]
    weights = sum_w * np.exp(parameters.log_weights)
    cost = np.empty((len(components), len(ranks)))
    for k, c in enumerate(components):
        strength = np.sum(c.W**2 / c.psi[:, None], axis=0)
        each = 0.5 * weights[k] * (strength - np.log1p(strength))
        cost[k] = [np.sum(each[q:]) for q in ranks]
    given = scipy.optimize.linear_sum_assignment(cost)[1]
    cut = [truncated(c, ranks[int(place)]) for c, place in zip(components, given, strict=True)]
    return replace(parameters, components=tuple(cut))


def _merged(a: Parameters, b: Parameters, weights: Array, q: int) -> Parameters:
    """One component with the mean and covariance of two, cut to rank q."""
    share = weights / np.sum(weights)
    between = np.sqrt(share[0] * share[1]) * (a.delta - b.delta)
    W = np.column_stack([np.sqrt(share[0]) * a.W, np.sqrt(share[1]) * b.W, between])
    both = Parameters(
        W=W,
        delta=share[0] * a.delta + share[1] * b.delta,
        psi=share[0] * a.psi + share[1] * b.psi,
    )
    return truncated(both, q)


def _halves(component: Parameters) -> tuple[Parameters, Parameters]:
    """Two components that lie APART along the strongest axis and together have its variance."""
    c = canonical(component)
    if c.W.shape[1]:
        step = APART * c.W[:, 0]
        W = np.column_stack([np.sqrt(1.0 - APART**2) * c.W[:, 0], c.W[:, 1:]])
    else:
        widest = np.argmax(c.psi)
        step = np.where(np.arange(len(c.psi)) == widest, APART * np.sqrt(c.psi), 0.0)
        W = c.W
    halved = replace(c, W=W)
    return replace(halved, delta=c.delta + step), replace(halved, delta=c.delta - step)
