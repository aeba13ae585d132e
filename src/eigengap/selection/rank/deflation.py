"""Deflated parallel analysis: weak components in the shadow of strong ones.

Parallel analysis takes all variance for noise, so that strong components hide weaker ones.
Deflation (Dobriban and Owen 2019) takes out q components, gives every column a noise variance of
its own, and compares what is left, (n - q) x (d - q) numbers, with noise of that size, until
nothing is left that exceeds the noise level. In many real tables something always does: small
eigenvalues that are significant and endless. Then the count of plain parallel analysis stands.

What is left is measured as in factor analysis. Complete data: the eigenvalues beyond the q-th of
Psi^-1/2 R Psi^-1/2, with Psi found by iterated principal factors. With missing values: the spectrum
of the observed residuals x - E[W z + mu | x] of a fitted factor analysis, in units of their
standard deviation and 0 where values are missing; where the model is right they are noise in d - q
directions, and smaller in the rest.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Protocol

import numpy as np

from eigengap.fitting.gaussian.fit import fit_factor_analysis
from eigengap.fitting.gaussian.problem import EMOptions
from eigengap.linalg import Array
from eigengap.models.gaussian.linear_gaussian import LinearGaussian
from eigengap.selection.rank.noise_spectrum import noise_shares
from eigengap.sources import Block, Source
from eigengap.statistics.imputed_correlation import ImputedScatter, Standardised

LOOSE = EMOptions(tol=1e-2, max_iter=50)
ROUNDS = 10  # of principal factors
SETTLED = 0.02  # change of ln psi at which they end
LEAST_NOISE = 0.005  # share of a column's variance: below it solutions are improper
AHEAD = 20  # components that may be added at once
LONGEST = 5  # rounds; a table that is components and noise takes two or three


class Remainder(Protocol):
    """Eigenvalues (descending) of the table in units of its noise, q components taken out."""

    def __call__(self, q: int, /) -> Array: ...


def deflated_rank(
    remainder: Remainder, rows: float, d: int, first: int, most: int
) -> tuple[int, dict[int, float]]:
    """Components from `first` on that exceed the noise level, if what is left in the end is noise.

    Where it is not, after a few rounds or at `most` components, no number of components separates
    this table from noise, and `first` is as good as any. Also, for each q at which the remainder
    was looked at, its first share over that of noise.
    """
    q = first
    observed: dict[int, float] = {}
    for _ in range(LONGEST):
        lam = remainder(q)
        total = float(np.sum(lam))
        ahead = min(max(most - q, 1), AHEAD, d - q, int(rows - q), len(lam))
        if ahead < 1 or total <= 1e-9:
            return q, observed
        ratio = lam[:ahead] / total / noise_shares(rows - q, d - q, ahead)
        observed[q] = float(ratio[0])
        below = np.flatnonzero(ratio <= 1.0)
        found = int(below[0]) if len(below) else ahead
        if found == 0:
            return q, observed
        if q >= most:
            break
        q = min(q + found, most)
    return first, observed


def complete_remainder(table: Standardised) -> Remainder:
    """From the correlations R (or, of a wide table, the rows) by iterated principal factors."""

    def remainder(q: int) -> Array:
        psi = np.ones(table.d)
        for _ in range(ROUNDS):
            lam, U = table.eigenpairs(1.0 / np.sqrt(psi), q)
            # W = Psi^1/2 U (Lam - I)^1/2 (Lawley and Maxwell 1971)
            W2 = psi * np.sum(U**2 * np.maximum(lam[:q] - 1.0, 0.0), axis=1)
            updated = np.maximum(1.0 - W2, LEAST_NOISE)
            change = float(np.max(np.abs(np.log(updated / psi))))
            psi = updated
            if change < SETTLED:
                break
        return lam[q:]

    return remainder


def incomplete_remainder(source: Source, sum_w: float) -> Remainder:
    """From the observed residuals of a factor analysis by EM, one fit for each q."""

    def remainder(q: int) -> Array:
        model = fit_factor_analysis(source, q, options=LOOSE).model
        unit = np.sqrt(np.maximum(model.psi, 1e-12 * model.variances()))
        of: Callable[[Block], ImputedScatter] = partial(_residual_scatter, model=model, unit=unit)
        lam = np.linalg.eigvalsh(source.reduce(of).value)[::-1]
        return np.asarray(np.maximum(lam[: max(source.n_features - q, 0)], 0.0)) / sum_w

    return remainder


def _residual_scatter(block: Block, model: LinearGaussian, unit: Array) -> ImputedScatter:
    values = np.asarray(block.values, dtype=np.float64)
    expected = model.posterior_mean(values) @ model.W.T
    weight = None if block.weight is None else np.sqrt(block.weight)[:, None]
    y = np.nan_to_num((values - model.mu - expected) / unit, nan=0.0)
    y = y if weight is None else y * weight
    return ImputedScatter(y.T @ y)
