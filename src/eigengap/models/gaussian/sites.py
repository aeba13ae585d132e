"""Posterior of the latent variables where cells do not give their u, but evidence about it.

The model is u = W z + delta + e, e ~ N(0, diag(psi)). Some cells of a row give their u exactly, of
others there is evidence (`models.gaussian.evidence`): an interval, a count. Expectation propagation
(Minka 2001; Rasmussen and Williams 2006, section 3.6) replaces the evidence of such a cell by a
Gaussian site exp(-tau t^2 / 2 + nu t) in t = w^T z + delta. The posterior of a row is then that of
a row with a known precision for every cell,

    P = I + sum_exact w w^T / psi + sum_sites tau w w^T.

A site is taken out of the posterior of its t, which leaves the cavity N(a, b); the cavity times
the evidence has the tilted moments of u; and the site is set so that the posterior has them too:

    g = (E[u] - a) / (b + psi),   h = (1 - Var[u] / (b + psi)) / (b + psi)
    tau = h / (1 - b h),          nu = (g + a h) / (1 - b h)

Evidence that is log-concave has 0 < h <= 1 / (b + psi), so that tau is positive and below 1 / psi.
With Z_j the mass of the evidence under the cavity, the approximate log-likelihood of a row is

    ln int N(z; 0, I) prod_exact N(u; t, psi) prod_sites exp(-tau t^2 / 2 + nu t) dz
        + sum_sites [ln Z_j - ln int N(t; a, b) exp(-tau t^2 / 2 + nu t) dt],

which is stationary in the sites. Its derivatives by W, delta and psi are therefore those with the
sites held, and are expectations under the tilted distributions (Seeger 2005): the statistics of an
E-step as if u had been observed, E[u], E[u^2] and E[u z] with

    Cov(z, u) = S w Var[u] / ((b + psi) (1 - tau w^T S w)).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eigengap.compiled import factorise
from eigengap.compiled.choice import Kernels
from eigengap.linalg import Array, pack_outer, packed_diagonal, packed_size
from eigengap.models.gaussian.evidence import Evidence, Moments, Rows
from eigengap.models.gaussian.posterior import Coefficients, product, projected_variance
from eigengap.runtime.threads import over_columns

KERNELS = Kernels("sites_numba", compiling=12.0)
GRAIN = 64  # rows below which a second thread does not repay waking it
# Seconds that the kernels save on one cell that is visited once; measured.
SAVED = 1.5e-6

MOST_SWEEPS = 200
# A site that moves its t by less than this, in standard deviations, is settled. The likelihood is
# stationary in the sites, so that it is off by about the square of this.
SETTLED = 1e-5
# Sites of a row that hardly approach their fixed point all at once take shorter steps: those that
# point the same way overshoot together.
SLOW, SHORTER, SHORTEST = 0.5, 0.7, 0.1

CHUNK_ENTRIES = 1 << 17  # of rows x features that are held in the cache


@dataclass(frozen=True, eq=False)
class SiteRows:
    """Rows of which some cells are exact, and of the columns `at` there is evidence."""

    R: Array  # (c, d) exact values, 0 elsewhere
    M: Array  # (c, d) 1 where exact
    at: NDArray[np.intp]  # (m,) columns of the evidence
    evidence: Evidence  # (c, m)
    weight: Array | None = None  # (c,)

    def __len__(self) -> int:
        return len(self.R)

    def take(self, rows: Rows) -> SiteRows:
        weight = None if self.weight is None else self.weight[rows]
        return SiteRows(self.R[rows], self.M[rows], self.at, self.evidence.take(rows), weight)

    def chunks(self) -> Iterator[slice]:
        step = max(128, CHUNK_ENTRIES // max(self.R.shape[1], 1))
        for start in range(0, len(self), step):
            yield slice(start, min(start + step, len(self)))


@dataclass(frozen=True, eq=False)
class Sites:
    """A Gaussian site for each cell of evidence; zero where the cell says nothing."""

    tau: Array  # (c, m) precision
    nu: Array  # (c, m) precision times mean

    @classmethod
    def none(cls, shape: tuple[int, ...]) -> Sites:
        return cls(np.zeros(shape), np.zeros(shape))

    def take(self, rows: Rows) -> Sites:
        return Sites(self.tau[rows], self.nu[rows])


@dataclass(frozen=True, eq=False)
class SitePosteriors:
    """z of some rows, c of them, given their sites, and the tilted moments of the evidential u."""

    Z: Array  # (q, c) means
    S: Array  # (K, c) packed covariances
    log_likelihood: Array  # (c,) approximate
    mean: Array  # (c, m) E[u]; 0 where the cell says nothing
    variance: Array  # (c, m) Var[u]; likewise
    gain: Array  # (c, m) Cov(z, u) = gain S w; likewise
    proposed: Sites  # at which the moments agree
    change: Array  # (c,) farthest that one of these would move its t, in standard deviations

    def put(self, rows: NDArray[np.intp], other: SitePosteriors) -> None:
        """Overwrite some rows."""
        self.Z[:, rows], self.S[:, rows] = other.Z, other.S
        self.proposed.tau[rows], self.proposed.nu[rows] = other.proposed.tau, other.proposed.nu
        for name in ("log_likelihood", "mean", "variance", "gain", "change"):
            getattr(self, name)[rows] = getattr(other, name)


def site_posteriors(
    rows: SiteRows, model: Coefficients, start: Sites | None = None, passes: int = 1
) -> tuple[SitePosteriors, Sites]:
    """Expectation propagation for every row, and the sites where it ended.

    `passes` is how often the caller expects to do this: it decides whether compiling pays.
    """
    fixed = _Fixed.of(rows, model)
    shape = fixed.informative.shape
    sites = Sites.none(shape) if start is None else Sites(start.tau.copy(), start.nu.copy())
    kernels = _kernels(rows.evidence, passes)
    found = fixed.posteriors(sites, kernels)
    if kernels is None:
        _settle_together(fixed, sites, found)
    else:
        _settle_in_turn(fixed, sites, found, kernels)
    return found, sites


def _kernels(evidence: Evidence, passes: int) -> Any:
    """The compiled functions, or None where NumPy does."""
    gain = SAVED * evidence.first.size * passes
    return KERNELS.load() if KERNELS.pay(gain) else None


def _settle_together(fixed: _Fixed, sites: Sites, found: SitePosteriors) -> None:
    """All sites of a row moved at once, by shorter steps where they overshoot."""
    step = np.ones(len(found.change))
    for _ in range(MOST_SWEEPS):
        active = np.flatnonzero(found.change > SETTLED)
        if not len(active):
            return
        before = found.change[active]
        by = step[active, None]
        sites.tau[active] += by * (found.proposed.tau[active] - sites.tau[active])
        sites.nu[active] += by * (found.proposed.nu[active] - sites.nu[active])
        found.put(active, fixed.take(active).posteriors(sites.take(active), None))
        slow = found.change[active] > SLOW * before
        step[active[slow]] = np.maximum(SHORTER * step[active[slow]], SHORTEST)


def _settle_in_turn(fixed: _Fixed, sites: Sites, found: SitePosteriors, kernels: Any) -> None:
    """The sites of a row moved one after another, each from the posterior the last one left."""
    for _ in range(2):  # the second only where rounding in the rank-one updates has added up
        active = np.flatnonzero(found.change > SETTLED)
        if not len(active):
            return
        over_columns(partial(fixed.sweep, sites, active, kernels), len(active), GRAIN)
        found.put(active, fixed.take(active).posteriors(sites.take(active), kernels))


@dataclass(frozen=True, eq=False)
class _Fixed:
    """What does not depend on the sites."""

    model: Coefficients
    at: NDArray[np.intp]  # (m,)
    evidence: Evidence
    informative: NDArray[np.bool_]  # (c, m)
    sums: Array  # (K + q + 1, c) of w~ w~^T / psi over exact cells
    projected: Array  # (q + 1, c) of w~ r / psi
    rest: Array  # (c,) of ln 2 pi psi + r^2 / psi

    @classmethod
    def of(cls, rows: SiteRows, model: Coefficients) -> _Fixed:
        sums = product(model.on_mask, rows.M)
        return cls(
            model=model,
            at=rows.at,
            evidence=rows.evidence,
            informative=rows.evidence.informative,
            sums=np.ascontiguousarray(sums[:-1]),
            projected=product(model.on_values, rows.R),
            rest=sums[-1] + rows.R**2 @ (1.0 / model.psi),
        )

    def take(self, rows: NDArray[np.intp]) -> _Fixed:
        return _Fixed(
            self.model,
            self.at,
            self.evidence.take(rows),
            self.informative[rows],
            self.sums[:, rows],
            self.projected[:, rows],
            self.rest[rows],
        )

    def posteriors(self, sites: Sites, kernels: Any) -> SitePosteriors:
        """Of all rows at these sites, and the sites that they propose."""
        model, at, known, tau, nu = self.model, self.at, self.informative, sites.tau, sites.nu
        W, both = model.W[at], model.augmented[at]
        sums = self.sums + pack_outer(both).T @ tau.T
        projected = self.projected + both.T @ nu.T
        q, K = model.q, packed_size(model.q)
        S, right = sums[:K], projected[:q] - sums[K : K + q]
        S[packed_diagonal(q)] += 1.0  # S is still P, and becomes its inverse
        Z, log_det = factorise(S, right)
        distance = sums[K + q] - 2.0 * projected[q] - np.einsum("qc,qc->c", right, Z)
        mean, variance = Z.T @ W.T + model.delta[at], projected_variance(W, S).T
        left = 1.0 - tau * variance
        b, a = variance / left, (mean - variance * nu) / left  # the cavity of each site
        total = b + model.psi[at]
        log_mass, u, of_u = self._tilted(a, total, kernels)
        g, h = (u - a) / total, (1.0 - of_u / total) / total
        new_tau = np.where(known, h / (1.0 - b * h), 0.0)
        new_nu = np.where(known, (g + a * h) / (1.0 - b * h), 0.0)
        pull = np.abs(new_nu - nu - (new_tau - tau) * mean) * np.sqrt(variance)
        change = np.maximum(pull, np.abs(new_tau - tau) * variance)
        wider = 1.0 + tau * b
        of_site = 0.5 * ((nu * (2.0 * a + b * nu) - tau * a**2) / wider - np.log(wider))
        evidence = np.where(known, log_mass - of_site, 0.0).sum(axis=1)
        return SitePosteriors(
            Z=Z,
            S=S,
            log_likelihood=evidence - 0.5 * (log_det + distance + self.rest),
            mean=np.where(known, u, 0.0),
            variance=np.where(known, of_u, 0.0),
            gain=np.where(known, of_u / (total * left), 0.0),
            proposed=Sites(new_tau, new_nu),
            change=np.max(change, axis=1, initial=0.0),
        )

    def _tilted(self, mean: Array, variance: Array, kernels: Any) -> Moments:
        if kernels is None:
            return self.evidence.tilted(mean, variance)
        found = Moments(*(np.empty(mean.shape) for _ in range(3)))
        given = (*self._cells(), np.ascontiguousarray(mean), np.ascontiguousarray(variance))
        over_columns(
            lambda first, last: _done(kernels.tilt(*given, *found, first, last)), len(mean), GRAIN
        )
        return found

    def sweep(
        self, sites: Sites, active: NDArray[np.intp], kernels: Any, first: int, last: int
    ) -> int:
        both = np.ascontiguousarray(self.model.augmented[self.at])
        exact = np.ascontiguousarray(self.sums), np.ascontiguousarray(self.projected)
        known = (*self._cells(), both, self.model.psi[self.at], *exact, sites.tau, sites.nu)
        return _done(kernels.sweep(*known, active, SETTLED, MOST_SWEEPS, first, last))

    def _cells(self) -> tuple[Any, ...]:
        e = self.evidence
        first, second = np.ascontiguousarray(e.first), np.ascontiguousarray(e.second)
        return e.is_count, first, second, e.shape


def _done(_: None) -> int:
    return -1  # no column is bad
