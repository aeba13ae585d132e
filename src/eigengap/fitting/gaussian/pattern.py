"""Which cells a fit saw: what the uncertainty of its parameters is computed from."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from eigengap.fitting.gaussian.problem import GaussianFit
from eigengap.linalg import Array
from eigengap.models.gaussian.information import Noise, ObservationPattern
from eigengap.sources.base import Block, Source
from eigengap.statistics.expected.heteroscedastic import KnownVariances

# Rows whose patterns are kept: as many as make the information cost some 1e7 operations. Their
# average hardly varies (25 rows and all of 200 give the same intervals to three digits).
OPERATIONS = 5e7
FEWEST, MOST = 32, 2000


def pattern_of(
    source: Source, fit: GaussianFit, noise: Noise, fits_mean: bool
) -> ObservationPattern:
    """The patterns of a sample of rows, the same ones at every call."""
    d, q = fit.model.W.shape
    known = source.reduce(KnownVariances.of).typical() if source.has_cell_sd else 0.0
    if not source.has_missing:
        return ObservationPattern(
            np.ones((1, d), dtype=bool), fit.observed_w, noise, fits_mean, known
        )
    k = int(np.clip(OPERATIONS / (d * max(q, 1) ** 2), FEWEST, MOST))
    if source.observed().rows <= k:
        every = source.reduce(_Patterns.of)
        return ObservationPattern(
            every.observed, fit.observed_w, noise, fits_mean, known, every.weight
        )
    rows = source.sample(k, np.random.default_rng(0))  # heavy rows more often
    return ObservationPattern(~np.isnan(rows), fit.observed_w, noise, fits_mean, known)


@dataclass(frozen=True, eq=False)
class _Patterns:
    """Which cells of every row were seen, and how often the row counts."""

    observed: NDArray[np.bool_]  # (n, d)
    weight: Array  # (n,)

    @classmethod
    def of(cls, block: Block) -> _Patterns:
        weight = np.ones(block.n_rows) if block.weight is None else block.weight
        return cls(block.observed, weight)

    def merge(self, other: _Patterns) -> _Patterns:
        return _Patterns(
            np.concatenate([self.observed, other.observed]),
            np.concatenate([self.weight, other.weight]),
        )
