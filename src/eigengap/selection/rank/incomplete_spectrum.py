"""The spectrum of a table with missing values.

A fitted PPCA knows q eigenvalues and one noise variance. The others are taken from the observed
residuals: their covariance, pair of columns by pair of columns over the rows that show both, within
the d - q directions that the components leave, scaled to the model's noise variance. It has the
sampling error of a covariance of as many rows as show a pair of columns on average, and this is the
number of rows that criteria of the spectrum are given.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from eigengap.fitting.gaussian.fit import fit_ppca
from eigengap.fitting.gaussian.problem import EMOptions
from eigengap.linalg import Array
from eigengap.models.gaussian.linear_gaussian import LinearGaussian
from eigengap.selection.rank.choice import DoesNotApplyError
from eigengap.sources import Block, Source
from eigengap.spectrum import Spectrum

LOOSE = EMOptions(tol=1e-3, max_iter=200)
WIDEST = 2000  # columns of which all pairs are compared


@dataclass(frozen=True, eq=False)
class PairScatter:
    """Sums over rows of w r_j r_k, and of w where both are observed: (d, d) each."""

    scatter: Array
    pairs: Array

    @classmethod
    def of(cls, block: Block, model: LinearGaussian) -> PairScatter:
        values = np.asarray(block.values, dtype=np.float64)
        observed = ~np.isnan(values)
        expected = model.posterior_mean(values) @ model.W.T + model.mu
        r = np.where(observed, values - expected, 0.0)
        w = np.ones((len(values), 1)) if block.weight is None else block.weight[:, None]
        m = observed.astype(np.float64)
        return cls((r * w).T @ r, (m * w).T @ m)

    def merge(self, other: PairScatter) -> PairScatter:
        return PairScatter(self.scatter + other.scatter, self.pairs + other.pairs)


def incomplete_spectrum(source: Source, q: int) -> Spectrum:
    """Of q fitted components and of what the residuals show beyond them."""
    d = source.n_features
    if d > WIDEST:
        raise DoesNotApplyError(
            f"with missing values and over {WIDEST} columns there is no spectrum"
        )
    model = fit_ppca(source, q, options=LOOSE).model
    of: Callable[[Block], PairScatter] = partial(PairScatter.of, model=model)
    sums = source.reduce(of)
    rows = float(np.mean(sums.pairs))
    axes, lam = model.principal_axes()
    rest = np.linalg.qr(axes, mode="complete")[0][:, q:]  # (d, d - q)
    C = sums.scatter / np.maximum(sums.pairs, 1.0)
    tail = np.linalg.eigvalsh(rest.T @ C @ rest)[::-1]
    sigma2 = float(model.psi[0])
    if float(np.sum(tail)) > 0.0:
        tail = tail * (sigma2 * (d - q) / float(np.sum(tail)))
    total = float(np.sum(lam)) + sigma2 * (d - q)
    every = np.concatenate([lam, np.maximum(tail, 1e-6 * sigma2)])
    known = min(d, int(rows) - 1)  # beyond, a covariance of so few rows has zeros
    return Spectrum(
        lam=np.sort(every)[::-1][: max(known, q)],
        total=total,
        sum_w=rows,
        d=d,
        complete=known >= d,
    )
