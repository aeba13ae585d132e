"""EM where cells give evidence about u: the sums of `gaussian`, with tilted moments in place of u.

The expected complete-data log-likelihood of column j needs E[u z~], E[u^2] and E[z~ z~^T] over the
rows in which it is observed. For a cell of evidence these are moments of its tilted distribution
(`models.gaussian.sites`): E[u z] = E[u] E[z] + gain S w. The derivatives of the approximate
log-likelihood are those of this expectation, so that the M-step and the gradient of `gaussian` hold
as they are.

Expectation propagation gives no bound on the likelihood, so that an M-step may lower it; the loop
then continues by the gradient.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from eigengap.linalg import Array, packed_diagonal, packed_size
from eigengap.models.gaussian.posterior import Coefficients, times_packed
from eigengap.models.gaussian.sites import CellRows, SiteRows
from eigengap.statistics.expected.gaussian import (
    Constraints,
    Expected,
    Parameters,
    expected_products,
    gradient,
    maximise,
)


class KeptRows:
    """Rows of a block, and the sites where expectation propagation last left them.

    It starts from there the next time, which saves sweeps and changes nothing else.
    """

    def __init__(self, rows: SiteRows) -> None:
        self.at, self.d = rows.at, rows.R.shape[1]
        self.parts = [_Part.of(rows.take(some)) for some in rows.chunks()]
        w = np.ones(len(rows)) if rows.weight is None else rows.weight
        self.squares = w @ rows.R**2  # (d,) of exact cells


@dataclass(frozen=True, eq=False)
class _Part:
    cells: CellRows
    observed: Array  # (c, d) 1 where a cell is exact or says anything
    weight: Array | None  # (c,)

    @classmethod
    def of(cls, rows: SiteRows) -> _Part:
        return cls(CellRows.of(rows), rows.observed, rows.weight)


@np.errstate(all="ignore")  # where the model does not exist the objective says so: it is not finite
def expected_of_sites(
    kept: KeptRows,
    coefficients: Coefficients,
    passes: int = 1,
    *,
    settled: float | None = None,
    settles: bool = True,
) -> Expected:
    """Statistics of one block under the current parameters: an E-step.

    Sites settle to within `settled`. Where they need not settle they make one step, from where the
    last E-step left them.
    """
    q, d, at = coefficients.q, kept.d, kept.at
    size = packed_size(q + 1)
    A, B, squares = np.zeros((size, d)), np.zeros((q + 1, d)), kept.squares.copy()
    latent, gains = np.zeros(size), np.zeros((packed_size(q), len(at)))
    log_likelihood = 0.0
    for part in kept.parts:
        cells = part.cells
        if settles:
            found = cells.settled(coefficients, passes, settled)
        else:
            found = cells.stepped(coefficients, passes)
        ones = np.ones(len(part.observed))
        w = ones if part.weight is None else part.weight
        E = expected_products(found.Z, found.S, part.weight)  # (K~, c)
        z, gain = np.vstack([found.Z, ones]), found.gain
        if part.weight is not None:
            z, gain = z * w, gain * w
        A += E @ part.observed
        B[:, cells.exact] += z @ cells.R
        B[:, at] += z @ found.mean.T
        squares[at] += (found.mean**2 + found.variance) @ w
        latent += E @ ones
        gains += found.S @ gain.T
        log_likelihood += float(found.log_likelihood @ w)
    B[:q, at] += times_packed(gains, coefficients.W[at].T)
    return Expected(A, B, squares, latent, log_likelihood, cells=float(np.sum(A[-1])))


@dataclass(frozen=True, eq=False)
class FreeScale:
    """Columns whose scale the data leave open, and the prior of their parameters.

    Their noise variance stays 1. Levels that the latent variables separate would have infinite
    loadings; a prior, w ~ N(0, `loading_sd`^2) and mu ~ N(0, `mean_sd`^2) in units of the noise,
    bounds them. It weighs as much as 1 / `loading_sd`^2 of a row with z = 1 and a known u.
    """

    at: NDArray[np.bool_]  # (d,)
    loading_sd: float = 3.0
    mean_sd: float = 5.0

    def precision(self, q: int) -> Array:
        """(q + 1, d) of each (w_j, mu_j)."""
        own = np.array([self.loading_sd] * q + [self.mean_sd])[:, None] ** -2.0
        return np.where(self.at, own, 0.0)

    def log_prior(self, parameters: Parameters) -> float:
        both = np.column_stack([parameters.W, parameters.delta]).T
        return -0.5 * float(np.sum(self.precision(parameters.W.shape[1]) * both**2))

    def maximise(self, expected: Expected, current: Parameters, how: Constraints) -> Parameters:
        """An M-step, in which loadings, mean and noise of such a column are rescaled together.

        That leaves the likelihood as it is: the M-step of the larger model with a free scale,
        folded back (parameter-expanded EM). Near a prior it may lower the objective a little.
        """
        A = expected.A.copy()
        A[packed_diagonal(expected.q + 1)] += self.precision(expected.q) * current.psi
        updated = maximise(replace(expected, A=A), current, how)
        # Sites that have not settled may leave no residual at all: no step goes farther than twice.
        unit = np.clip(np.sqrt(current.psi / updated.psi), 0.5, 2.0)
        unit = np.where(self.at, unit, 1.0)
        return replace(
            updated,
            W=updated.W * unit[:, None],
            delta=updated.delta * unit,
            psi=np.where(self.at, current.psi, updated.psi),
        )

    def gradient(self, expected: Expected, current: Parameters, how: Constraints) -> Parameters:
        """Derivatives of the objective; none by a noise variance that stays."""
        by = gradient(expected, current, how)
        *of_W, of_mean = self.precision(expected.q)
        return replace(
            by,
            W=by.W - np.stack(of_W, axis=1) * current.W if of_W else by.W,
            delta=by.delta - of_mean * current.delta,
            psi=np.where(self.at, 0.0, by.psi),
        )
