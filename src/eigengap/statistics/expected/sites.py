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

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from eigengap.linalg import Array, packed_diagonal, packed_size
from eigengap.models.gaussian.integrated import integrated, is_integrable
from eigengap.models.gaussian.mixture import responsibilities
from eigengap.models.gaussian.posterior import Coefficients, times_packed
from eigengap.models.gaussian.sites import CellRows, SitePosteriors, SiteRows
from eigengap.statistics.expected.gaussian import (
    Constraints,
    Expected,
    Parameters,
    expand,
    expected_products,
    gradient,
    in_other_units,
    regress,
)
from eigengap.statistics.expected.mixture import MixtureExpected

MIXTURE_RUNS = 8  # of EM that a mixture takes: starts, moves, the last one
TINY = 1e-12  # of a mean squared residual, which rounding may leave negative
LARGEST_STEP = 2.0  # by which the scale of a column may grow or shrink in one M-step


class KeptRows:
    """Rows of a block, and the sites where expectation propagation last left them.

    It starts from there the next time, which saves sweeps and changes nothing else.
    """

    def __init__(self, rows: SiteRows) -> None:
        self.at, self.d = rows.at, rows.R.shape[1]
        self.parts = [_Part.of(rows.take(some)) for some in rows.chunks()]
        w = np.ones(len(rows)) if rows.weight is None else rows.weight
        self.squares = w @ rows.R**2  # (d,) of exact cells

    def weight(self) -> Array:
        """(c,) of the rows."""
        return np.concatenate([part.counts for part in self.parts])


@dataclass(frozen=True, eq=False)
class _Part:
    observed: Array  # (c, d) 1 where a cell is exact or says anything
    weight: Array | None  # (c,)
    sites: list[CellRows]  # the rows with their sites, under each model that there has been

    @classmethod
    def of(cls, rows: SiteRows) -> _Part:
        return cls(rows.observed, rows.weight, [CellRows.of(rows)])

    @property
    def counts(self) -> Array:
        """(c,) how often each row counts."""
        return np.ones(len(self.observed)) if self.weight is None else self.weight

    def cells(self, k: int) -> CellRows:
        """The rows with their sites under model k."""
        while len(self.sites) <= k:
            first, none = self.sites[0], np.zeros_like(self.sites[0].tau)
            self.sites.append(replace(first, tau=none, nu=none.copy()))
        return self.sites[k]


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
    sums = _SiteSums(kept, coefficients)
    passes *= len(kept.parts)  # each part decides alone whether compiling pays
    for part in kept.parts:
        cells = part.cells(0)
        if settles:
            found = cells.settled(coefficients, passes, settled)
            if is_integrable(cells, coefficients):
                found = integrated(cells, coefficients, found, passes)
        else:
            found = cells.stepped(coefficients, passes)
        sums.add(part, cells, found, part.weight)
    return sums.expected(kept.squares)


class _SiteSums:
    """The sums of one block under one model while its parts are read."""

    def __init__(self, kept: KeptRows, coefficients: Coefficients) -> None:
        q, d, self._at = coefficients.q, kept.d, kept.at
        self._W = coefficients.W[kept.at]
        size = packed_size(q + 1)
        self._A, self._B, self._squares = np.zeros((size, d)), np.zeros((q + 1, d)), np.zeros(d)
        self._latent = np.zeros(size)
        self._gains = np.zeros((packed_size(q), len(kept.at)))
        self._log_likelihood = 0.0

    def add(self, part: _Part, cells: CellRows, found: SitePosteriors, w: Array | None) -> None:
        """The rows of one part, counted w (c,) times."""
        ones = np.ones(len(part.observed))
        E = expected_products(found.Z, found.S, w)  # (K~, c)
        z, gain = np.vstack([found.Z, ones]), found.gain
        if w is not None:
            z, gain, ones = z * w, gain * w, w
        self._A += E @ part.observed
        self._B[:, cells.exact] += z @ cells.R
        self._B[:, self._at] += z @ found.mean.T
        self._squares[self._at] += (found.mean**2 + found.variance) @ ones
        self._latent += E @ np.ones(E.shape[1])
        self._gains += found.S @ gain.T
        self._log_likelihood += float(found.log_likelihood @ ones)

    def expected(self, squares: Array) -> Expected:
        """With the weighted sums (d,) of the squares of exact cells."""
        q = len(self._B) - 1
        self._B[:q, self._at] += times_packed(self._gains, self._W.T)
        A, latent = self._A, self._latent
        both = squares + self._squares
        return Expected(A, self._B, both, latent, self._log_likelihood, float(np.sum(A[-1])))


# Mixtures ---------------------------------------------------------------------------------------


@np.errstate(all="ignore")
def expected_of_mixture(
    kept: KeptRows,
    log_weights: Array,
    coefficients: Sequence[Coefficients],
    passes: int = 1,
    *,
    settled: float | None = None,
) -> MixtureExpected:
    """Statistics of one block under a mixture: an E-step.

    Each row has sites of its own under each component, and is weighted by its responsibilities,
    those of the approximate likelihoods of the components.
    """
    K = len(coefficients)
    sums = [_SiteSums(kept, c) for c in coefficients]
    overlap, divergence = np.zeros((K, K)), np.zeros(K)
    squares = np.zeros((K, kept.d))
    log_likelihood = 0.0
    promised = passes * K * MIXTURE_RUNS * len(kept.parts)
    for part in kept.parts:
        found = [part.cells(k).settled(c, promised, settled) for k, c in enumerate(coefficients)]
        log_density = np.stack([one.log_likelihood for one in found])  # (K, c)
        resp, of_rows = responsibilities(log_weights, log_density)
        w = resp if part.weight is None else resp * part.weight
        log_likelihood += float(of_rows @ part.counts)
        overlap += w @ resp.T
        log_resp = np.log(np.maximum(resp, 1e-300))
        divergence += np.einsum("kc,kc->k", w, log_resp - log_density)
        exact = part.cells(0)
        squares[:, exact.exact] += w @ exact.R**2
        for k, (one, under) in enumerate(zip(sums, found, strict=True)):
            one.add(part, part.cells(k), under, w[k])
    components = tuple(one.expected(own) for one, own in zip(sums, squares, strict=True))
    return MixtureExpected(components, overlap, divergence, log_likelihood)


# Columns without a scale ------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class FreeScale:
    """Columns whose scale the data leave open, and the prior of their parameters.

    Their noise variance stays 1. Levels that the latent variables separate would have infinite
    loadings; a prior, w ~ N(0, `loading_sd`^2) and mu ~ N(o, `mean_sd`^2) in units of the noise,
    bounds them, where o is the threshold about which the scale is free. It weighs as much as
    1 / `loading_sd`^2 of a row with z = 1 and a known u.

    A component of a mixture may hold rows of one level of an ordinal column, or of its outer levels
    alone, which leaves mean and noise of that column open too. Columns `also` have the same prior
    of w and mu, in units of u, and one of their noise variance that counts as a row of residual 1.
    """

    at: NDArray[np.bool_]  # (d,)
    also: NDArray[np.bool_] | None = None  # (d,)
    origin: Array | float = 0.0  # (d,) o; 0 for columns whose scale is known
    loading_sd: float = 3.0
    mean_sd: float = 5.0

    @property
    def others(self) -> NDArray[np.bool_]:
        """(d,) columns that have a prior and noise that is learned."""
        return np.zeros(len(self.at), dtype=bool) if self.also is None else self.also & ~self.at

    def precision(self, q: int) -> Array:
        """(q + 1, d) of each (w_j, mu_j)."""
        of_W, of_mean = self.precisions
        return np.vstack([*[of_W] * q, of_mean])

    @property
    def precisions(self) -> tuple[Array, Array]:
        """(d,) of all entries of w_j, and (d,) of mu_j."""
        prior = self.at | self.others
        return prior * self.loading_sd**-2.0, prior * self.mean_sd**-2.0

    def log_prior(self, parameters: Parameters) -> float:
        both = np.column_stack([parameters.W, parameters.delta - self.origin]).T
        psi = parameters.psi[self.others]
        of_both = float(np.sum(self.precision(parameters.q) * both**2))
        return -0.5 * (of_both + float(np.sum(np.log(psi) + 1.0 / psi)))

    def unscaled(self, parameters: Parameters) -> Parameters:
        """The same likelihood with a noise variance of 1 where it stays so."""
        unit = np.where(self.at, 1.0 / np.sqrt(parameters.psi), 1.0)
        return replace(
            parameters,
            W=parameters.W * unit[:, None],
            delta=self.origin + (parameters.delta - self.origin) * unit,
            psi=parameters.psi * unit**2,
        )

    def maximise(self, expected: Expected, current: Parameters, how: Constraints) -> Parameters:
        """One M-step."""
        return self.maximise_together([expected], [current], [how])[0]

    def maximise_together(
        self,
        expected: Sequence[Expected],
        current: Sequence[Parameters],
        how: Sequence[Constraints],
    ) -> list[Parameters]:
        """An M-step of models with the same noise.

        Loadings, mean and noise of a column without a scale are rescaled together, which leaves the
        likelihood as it is: the M-step of the larger model with a free scale, folded back
        (parameter-expanded EM). The prior is one of what it is folded back to. "isotropic" noise is
        that of all columns whose noise is learned.
        """
        # (A + prior psi) w = B. A column without a scale has psi = 1, and its prior is that of w
        # in units of the noise that is found: the same w.
        fits = [
            regress(self._with_prior(e, c), c, h)
            for e, c, h in zip(expected, current, how, strict=True)
        ]
        count = np.sum([e.observed() for e in expected], axis=0)
        left = np.sum([residual for _, _, residual in fits], axis=0)
        own = np.where(count > 0, np.maximum(left / np.where(count > 0, count, 1.0), TINY), 1.0)
        # Sites that have not settled may leave no residual at all: no step goes farther than twice.
        unit = np.clip(np.sqrt(current[0].psi / own), 1.0 / LARGEST_STEP, LARGEST_STEP)
        unit = np.where(self.at, unit, 1.0)
        shrunk = left - sum(
            c.psi * np.sum(self.precision(c.q) * np.column_stack([W, delta]).T ** 2, axis=0)
            for c, (W, delta, _) in zip(current, fits, strict=True)
        )
        psi = np.where(
            self.at, current[0].psi, self._noise(own, shrunk, count, len(expected), how[0])
        )
        updated = []
        for e, h, (W, delta, _) in zip(expected, how, fits, strict=True):
            W, delta = expand(e, W * unit[:, None], delta * unit, h, self.precisions)
            updated.append(Parameters(W=W, delta=delta + self.origin, psi=psi))
        return updated

    def _with_prior(self, expected: Expected, current: Parameters) -> Expected:
        """The statistics about `origin`, with the prior as if it were data."""
        centred = in_other_units(expected, np.ones(len(self.at)), -self.origin)
        A = expected.A.copy()
        A[packed_diagonal(expected.q + 1)] += self.precision(expected.q) * current.psi
        return replace(centred, A=A)

    def _noise(
        self,
        psi: Array,  # (d,) residuals by the number of cells
        shrunk: Array,  # (d,) sums of squared residuals
        count: Array,  # (d,) of cells
        models: int,
        how: Constraints,
    ) -> Array:
        """(d,) noise variances: given, with their prior, pooled where there is one for all."""
        if how.fixed_noise is not None:
            return np.maximum(how.fixed_noise, how.floor)
        if self.others.any():
            more = float(models)  # each brings a row of its own
            with_prior = (np.maximum(shrunk, 0.0) + more) / (count + more)
            psi, count = np.where(self.others, with_prior, psi), count + more * self.others
        if how.noise == "isotropic" and not self.at.all():
            psi = np.full(len(psi), np.average(psi[~self.at], weights=count[~self.at]))
        return np.asarray(np.maximum(psi, how.floor))

    def learned(self, psi: Array, how: Constraints) -> Array:
        """(d,) with the noise variance that all other columns share in place of a free one's."""
        if how.noise == "diagonal" or self.at.all():
            return psi
        return np.where(self.at, psi[~self.at][0], psi)

    def gradient(self, expected: Expected, current: Parameters, how: Constraints) -> Parameters:
        """Derivatives of the objective; none by a noise variance that stays."""
        by = gradient(expected, current, how)
        *of_W, of_mean = self.precision(expected.q)
        of_noise = np.where(self.others, 0.5 * (1.0 / current.psi - 1.0) / current.psi, 0.0)
        return replace(
            by,
            W=by.W - np.stack(of_W, axis=1) * current.W if of_W else by.W,
            delta=by.delta - of_mean * (current.delta - self.origin),
            psi=np.where(self.at, 0.0, by.psi + of_noise),
        )
