"""Moments of what goes into a network and of its codes: small, and merged over blocks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from eigengap.fitting.autoencoder.rows import StandardBlock
from eigengap.linalg import Array
from eigengap.models.network.autoencoder import Network, codes

LEAST_VARIANCE = 1e-12  # of the largest, that inputs are whitened by


@dataclass(frozen=True)
class ObservedWeight:
    """Number of the seen cells to train on, each counting as often as its row."""

    total: float

    @classmethod
    def of(cls, block: StandardBlock) -> ObservedWeight:
        return cls(float(np.sum(block.weight @ block.observed)))

    def merge(self, other: ObservedWeight) -> ObservedWeight:
        return ObservedWeight(self.total + other.total)


@dataclass(frozen=True, eq=False)
class White:
    """x' = x forth has unit variances and no correlation; W = forth W' has the same outputs."""

    forth: Array  # (d, d)
    back: Array  # its inverse


@dataclass(frozen=True, eq=False)
class InputMoments:
    """Second moments of standardised rows: what makes the valley of a linear network narrow."""

    scatter: Array  # (d, d)

    @classmethod
    def of(cls, block: StandardBlock) -> InputMoments:
        return cls(block.x.T @ (block.x * block.weight[:, None]))

    def merge(self, other: InputMoments) -> InputMoments:
        return InputMoments(self.scatter + other.scatter)

    def white(self) -> White:
        lam, V = np.linalg.eigh(self.scatter)
        lam = lam / max(float(lam[-1]), 1e-300)
        sd = np.sqrt(np.maximum(lam, LEAST_VARIANCE))
        return White(V / sd, sd[:, None] * V.T)


@dataclass(frozen=True, eq=False)
class CodeMoments:
    """Mean and scatter of codes (Chan, Golub and LeVeque 1983)."""

    weight: float
    mean: Array  # (q,)
    scatter: Array  # (q, q)

    @classmethod
    def of(cls, block: StandardBlock, network: Network) -> CodeMoments:
        q, w = network.q, block.weight
        if not np.sum(w) > 0.0:
            return cls(0.0, np.zeros(q), np.zeros((q, q)))
        Z = codes(block.x, block.observed, network.parts, network.architecture)
        mean = w @ Z / np.sum(w)
        return cls(float(np.sum(w)), mean, ((Z - mean) * w[:, None]).T @ (Z - mean))

    def merge(self, other: CodeMoments) -> CodeMoments:
        weight = self.weight + other.weight
        share = other.weight / weight if weight > 0.0 else 0.0
        delta = other.mean - self.mean
        between = self.weight * share * np.outer(delta, delta)
        return CodeMoments(
            weight, self.mean + share * delta, self.scatter + other.scatter + between
        )

    @property
    def covariance(self) -> Array:
        return self.scatter / max(self.weight, 1e-300)
