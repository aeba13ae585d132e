"""The bootstrap (Efron 1979): how an estimate varies over tables that could have been observed.

A replicate is the same fit to another table: rows drawn again with replacement, as counts that
enter the fit as row weights so that nothing is copied; or a table drawn from the fitted model with
the missing values of the true one. Every replicate starts afresh: EM from its spectral start takes
7 to 20 steps, and no fewer from the full fit.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eigengap.linalg import Array

LEAST_OBSERVED = 2  # rows in which a replicate must show a column
TRIES = 100  # draws until every column has them


@dataclass(frozen=True, eq=False)
class Accuracy:
    """Standard error and bias of an estimate, from replicates."""

    se: Array
    bias: Array  # mean of the replicates less the estimate

    @classmethod
    def of(cls, estimate: Array, replicates: Iterable[Array], n: float) -> Accuracy:
        """n rows were drawn for each replicate.

        Resampling n rows loses one degree of freedom as the sample variance does, hence
        n / (n - 1).
        """
        drawn: Array = np.stack(list(replicates))  # (B, ...)
        se = np.std(drawn, axis=0, ddof=1) * np.sqrt(n / max(n - 1.0, 1.0))
        return cls(se=np.asarray(se), bias=np.asarray(np.mean(drawn, axis=0) - estimate))


def seed_from(random_state: Any) -> int:
    """A seed from what scikit-learn takes for a random_state, drawn as it draws one."""
    if random_state is None:  # of the generator that np.random.seed sets
        return int(np.random.randint(np.iinfo(np.int32).max))  # noqa: NPY002
    if not isinstance(random_state, np.random.RandomState):
        random_state = np.random.RandomState(random_state)
    return int(random_state.randint(np.iinfo(np.int32).max))


def generators(seed: int, n_boot: int) -> list[np.random.Generator]:
    """One independent stream a replicate, so that their order and threads do not matter."""
    return [np.random.default_rng(s) for s in np.random.SeedSequence(seed).spawn(n_boot)]


def resampled(observed: NDArray[np.bool_], weight: Array, rng: np.random.Generator) -> Array:
    """How often each row was drawn, (n,): as many draws as the weights (frequencies) sum to.

    A draw that shows a column in fewer than two rows is no table to fit and is repeated.
    """
    sum_w = float(np.sum(weight))
    draws = max(round(sum_w), 2)
    for _ in range(TRIES):
        counts = rng.multinomial(draws, weight / sum_w).astype(np.float64)
        if np.all(np.count_nonzero(observed[counts > 0], axis=0) >= LEAST_OBSERVED):
            return np.asarray(counts * (sum_w / draws))
    cells = np.count_nonzero(observed[weight > 0], axis=0)
    column = int(np.argmin(cells))
    raise ValueError(
        f"the rows cannot be resampled: {TRIES} draws in a row showed some column in fewer than "
        f"{LEAST_OBSERVED} rows. Column {column} has {cells[column]} observed value(s); "
        'drop it, or use method="parametric" or "asymptotic"'
    )
