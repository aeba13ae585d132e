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

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eigengap.compiled import factorise
from eigengap.linalg import Array, pack_outer, packed_diagonal, packed_size
from eigengap.models.gaussian.evidence import KERNELS, Evidence, Rows
from eigengap.models.gaussian.integrated import integrated, is_integrable
from eigengap.models.gaussian.posterior import (
    Coefficients,
    UncertainCoefficients,
    product,
    projected_variance,
)
from eigengap.runtime.threads import over_columns

GRAIN = 256  # rows below which a second thread does not repay waking it
CALLS_OF_COUNTS = 1.5e-2  # seconds that the kernels save on calls of NumPy, however few the counts
MANY_PASSES = 1000  # where the kernels of this module pay, so do those of `factorise`

MOST_SWEEPS = 200
# A site that moves its t by less than this, in standard deviations, is settled. The likelihood is
# stationary in the sites, so that it is off by about the square of this.
SETTLED = 1e-5
# Sites that point the same way overshoot together. A row that hardly approaches its fixed point is
# swept or extrapolated, by shorter steps where these still take it farther away.
SLOW, SHORTER, SHORTEST = 0.5, 0.7, 0.1
FAR, SHORT = 0.3, 0.5  # change from which on that is to be feared, and the step then

MEMORY = 5  # steps of a row from which NumPy extrapolates
RIDGE, TINY = 1e-10, 1e-300  # of their squares: steps of a row may all be alike, or none
EXTRAPOLATED = 1 << 22  # entries of all these that are held at once
WORSE = 3.0  # growth of a change after which the steps before it mean little

LEAST_LEFT = 1e-13  # share of a precision that a site leaves to the others: below it is rounding

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

    @property
    def observed(self) -> Array:
        """(c, d) 1 where a cell is exact or says anything."""
        observed = self.M.copy()
        observed[:, self.at] += self.evidence.informative
        return observed

    def take(self, rows: Rows) -> SiteRows:
        weight = None if self.weight is None else self.weight[rows]
        return SiteRows(self.R[rows], self.M[rows], self.at, self.evidence.take(rows), weight)

    def without(self, some: slice) -> SiteRows:
        """With the cells of some columns missing."""
        R, M, hidden = self.R.copy(), self.M.copy(), _within(self.at, some)
        R[:, some] = M[:, some] = 0.0
        ends = (
            np.where(hidden, np.nan, end) for end in (self.evidence.first, self.evidence.second)
        )
        first, second = ends
        evidence = replace(self.evidence, first=first, second=second)
        return replace(self, R=R, M=M, evidence=evidence)

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

    def without(self, at: NDArray[np.intp], some: slice) -> Sites:
        """Without those of some columns, where `at` (m,) are the columns of all."""
        hidden = _within(at, some)
        return Sites(np.where(hidden, 0.0, self.tau), np.where(hidden, 0.0, self.nu))


def _within(at: NDArray[np.intp], some: slice) -> NDArray[np.bool_]:
    return np.asarray((at >= some.start) & (at < some.stop))


@dataclass(frozen=True, eq=False)
class SitePosteriors:
    """z of some rows, c of them, given their sites, and the tilted moments of u."""

    Z: Array  # (q, c) means
    S: Array  # (K, c) packed covariances
    log_likelihood: Array  # (c,) approximate
    change: Array  # (c,) farthest that a proposed site would move its t, in standard deviations
    mean: Array  # (m, c) E[u]; 0 where the cell says nothing
    variance: Array  # (m, c) Var[u]; likewise
    gain: Array  # (m, c) Cov(z, u) = gain S w; likewise
    tau: Array  # (m, c) of the proposed sites, at which the moments agree
    nu: Array  # (m, c)

    def put(self, rows: NDArray[np.intp], other: SitePosteriors) -> None:
        """Overwrite some rows."""
        for name, own in vars(self).items():
            own[..., rows] = getattr(other, name)


def site_posteriors(
    rows: SiteRows, model: Coefficients, start: Sites | None = None, passes: int = 1
) -> tuple[SitePosteriors, Sites]:
    """Expectation propagation for every row, and the sites where it ended.

    `passes` is how often the caller expects to do this: it decides whether compiling pays.
    """
    cells = CellRows.of(rows, start)
    found = cells.settled(model, passes)
    if is_integrable(cells, model):
        found = replace(
            found, log_likelihood=integrated(cells, model, found, passes).log_likelihood
        )
    return found, Sites(cells.tau.T, cells.nu.T)


@dataclass(eq=False)
class CellRows:
    """Rows with their sites, which move. Arrays (m, c) have the rows innermost, for the kernels."""

    exact: NDArray[np.intp]  # (k,) columns in which any cell is exact
    R: Array  # (c, k)
    M: Array  # (c, k)
    evidence: Evidence
    at: NDArray[np.intp]
    first: Array  # (m, c) of the evidence
    second: Array
    known: NDArray[np.bool_]  # (m, c) cells that say anything
    tau: Array  # (m, c)
    nu: Array

    @classmethod
    def of(cls, rows: SiteRows, start: Sites | None = None) -> CellRows:
        evidence = rows.evidence
        first, second = (
            np.array(evidence.first.T, order="C"),
            np.array(evidence.second.T, order="C"),
        )
        sites = Sites.none(evidence.first.shape) if start is None else start
        exact = np.flatnonzero(rows.M.any(axis=0))
        return cls(
            exact=exact,
            R=rows.R[:, exact],
            M=rows.M[:, exact],
            evidence=evidence,
            at=rows.at,
            first=first,
            second=second,
            known=~np.isnan(first),
            tau=np.array(sites.tau.T, order="C"),
            nu=np.array(sites.nu.T, order="C"),
        )

    @cached_property
    def different(self) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Rows of which no two are alike, and for each row (c,) which of them it is like."""
        said = np.concatenate([self.first, self.second, self.R.T, self.M.T])
        _, rows, of = np.unique(
            np.nan_to_num(said, nan=np.pi), axis=1, return_index=True, return_inverse=True
        )
        return rows, of

    def settled(
        self, model: Coefficients, passes: int = 1, settled: float | None = None
    ) -> SitePosteriors:
        """The posteriors once the sites have settled."""
        lost = ~np.isfinite(self.tau + self.nu).all(axis=0)  # by steps of a model that was none
        if lost.any():
            self.tau[:, lost], self.nu[:, lost] = 0.0, 0.0
        fixed = _Fixed.of(self, model, passes)
        found = fixed.posteriors(self.tau, self.nu)
        found = _settle(fixed, self.tau, self.nu, found, SETTLED if settled is None else settled)
        return fixed.of_sites(found)

    def stepped(self, model: Coefficients, passes: int = 1) -> SitePosteriors:
        """The posteriors at the present sites, which then move to those that are proposed.

        Rows whose sites are far from these are swept first: all at once they would overshoot.
        """
        fixed = _Fixed.of(self, model, passes)
        found = fixed.posteriors(self.tau, self.nu)
        far = np.flatnonzero(found.change > FAR)
        if len(far) and fixed.kernels is not None:
            some = fixed.take(far)
            tau, nu = self.tau[:, far], self.nu[:, far]
            some.sweep(tau, nu, found.Z[:, far], found.S[:, far], SETTLED, 1)
            found.put(far, some.posteriors(tau, nu))
            self.tau[:, far], self.nu[:, far] = tau, nu
        step = np.where(found.change > FAR, SHORT, 1.0)
        if np.all(step == 1.0):
            self.tau, self.nu = found.tau, found.nu
        else:
            self.tau += step * (found.tau - self.tau)
            self.nu += step * (found.nu - self.nu)
        return found


def _settle(
    fixed: _Fixed, tau: Array, nu: Array, found: SitePosteriors, settled: float
) -> SitePosteriors:
    """All sites of a row moved at once, where that soon approaches their fixed point.

    Where it does not and the kernels are at hand, the row is swept: site after site, each from the
    posterior that the last one left. NumPy extrapolates such rows together at the end.
    """
    slow = np.zeros(len(found.change), dtype=bool)
    for _ in range(MOST_SWEEPS):
        active = found.change > settled
        if fixed.kernels is None:
            active &= ~slow
        at = np.flatnonzero(active)
        if not len(at):
            break
        before = found.change
        swept = np.flatnonzero(active & ((before > FAR) | slow))
        if fixed.kernels is None:
            swept = at[:0]
        own = tau[:, swept], nu[:, swept]
        fixed.take(swept).sweep(*own, found.Z[:, swept], found.S[:, swept], settled, MOST_SWEEPS)
        is_most = 2 * len(at) > len(active)
        some: Any = slice(None) if is_most else at
        by = np.where(active, 1.0, 0.0)[some]
        tau[:, some] += by * (found.tau[:, some] - tau[:, some])
        nu[:, some] += by * (found.nu[:, some] - nu[:, some])
        tau[:, swept], nu[:, swept] = own
        if is_most:  # the others stay as they are
            found = fixed.posteriors(tau, nu)
        else:
            before = before.copy()
            found.put(at, fixed.take(at).posteriors(tau[:, at], nu[:, at]))
        slow |= active & (found.change > SLOW * before)
    if fixed.kernels is None:
        _extrapolate(fixed, tau, nu, found, settled)
    return found


def _extrapolate(
    fixed: _Fixed, tau: Array, nu: Array, found: SitePosteriors, settled: float
) -> None:
    """The rows that have not settled, as many at once as memory bears."""
    late = np.flatnonzero(found.change > settled)
    size = max(EXTRAPOLATED // max(4 * MEMORY * len(tau), 1), 1)
    for start in range(0, len(late), size):
        at = late[start : start + size]
        own = tau[:, at], nu[:, at]
        found.put(at, _extrapolated(fixed.take(at), *own, settled))
        tau[:, at], nu[:, at] = own


def _extrapolated(fixed: _Fixed, tau: Array, nu: Array, settled: float) -> SitePosteriors:
    """Sites of rows moved by Anderson's method (1965; Walker and Ni 2011), each row by its own.

    What sites that point the same way overshoot by shows in the last few steps, in units of psi.
    A row that a step has taken farther from its fixed point begins anew, by a shorter one.
    """
    m, c = tau.shape
    unit = np.concatenate([1.0 / fixed.psi, 1.0 / np.sqrt(fixed.psi)])[:, None]
    found = fixed.posteriors(tau, nu)
    steps, falls = np.zeros((2, MEMORY, 2 * m, c))
    step = np.full(c, SHORT)
    last: tuple[Array, Array] | None = None
    for k in range(MOST_SWEEPS):
        active = found.change > settled
        if 2 * np.count_nonzero(active) < c:
            break
        x = np.concatenate([tau, nu]) / unit
        left = np.concatenate([found.tau, found.nu]) / unit - x
        if last is not None:
            steps[k % MEMORY], falls[k % MEMORY] = x - last[0], last[1] - left
        last = x, left
        gram = np.einsum("ipc,jpc->cij", falls, falls)
        size = np.trace(gram, axis1=1, axis2=2)[:, None]
        gram[:, range(MEMORY), range(MEMORY)] += RIDGE * size + TINY
        right = np.einsum("ipc,pc->ci", falls, left)[..., None]
        share = np.nan_to_num(np.linalg.solve(gram, right)[..., 0], posinf=0.0, neginf=0.0)
        rest = left - np.einsum("ci,ipc->pc", share, falls)
        x = (x + np.einsum("ci,ipc->pc", share, steps) + step * rest) * unit
        tau[:, active] = np.maximum(x[:m, active], 0.0)
        nu[:, active] = x[m:, active]
        before = found.change
        found = fixed.posteriors(tau, nu)
        worse = ~(found.change < WORSE * before) & active
        if worse.any():
            steps[:, :, worse] = falls[:, :, worse] = 0.0
            step[worse] = np.maximum(SHORTER * step[worse], SHORTEST)
    if np.count_nonzero(found.change > settled) < c:
        _extrapolate(fixed, tau, nu, found, settled)
    return found


@dataclass(frozen=True, eq=False)
class _Fixed:
    """What does not depend on the sites."""

    model: Coefficients
    both: Array  # (m, q + 1) w~ of the columns of evidence
    psi: Array  # (m,)
    evidence: Evidence
    first: Array  # (m, c)
    second: Array
    known: NDArray[np.bool_]
    sums: Array  # (K + q + 1, c) of w~ w~^T / psi over exact cells
    projected: Array  # (q + 1, c) of w~ r / psi
    rest: Array  # (c,) of ln 2 pi psi + r^2 / psi
    kernels: Any  # the compiled functions, or None where NumPy does

    @classmethod
    def of(cls, cells: CellRows, model: Coefficients, passes: int) -> _Fixed:
        exact, at, evidence = cells.exact, cells.at, cells.evidence
        sums = product(model.on_mask[exact], cells.M)
        if isinstance(model, UncertainCoefficients):
            # exp E[ln p(u | z, w~)] is N(u; E[w~]^T z~, psi) exp(-z~^T cov z~ / 2 psi): Gaussian
            # factors of z, which stay as they are while sites move.
            sums[:-1] += (model.covariances[:, at] / model.psi[at]) @ cells.known
        seconds = evidence.saved_seconds(cells.first.shape[1])
        seconds += CALLS_OF_COUNTS if evidence.is_count.any() else 0.0
        return cls(
            model=model,
            both=np.ascontiguousarray(model.augmented[at]),
            psi=model.psi[at],
            evidence=evidence,
            first=cells.first,
            second=cells.second,
            known=cells.known,
            sums=sums[:-1],
            projected=product(model.on_values[exact], cells.R),
            rest=sums[-1] + cells.R**2 @ (1.0 / model.psi[exact]),
            kernels=KERNELS.load() if KERNELS.pay(seconds * passes) else None,
        )

    def take(self, rows: NDArray[np.intp]) -> _Fixed:
        if len(rows) == self.first.shape[1]:
            return self
        names = ("first", "second", "known", "sums", "projected", "rest")
        some: Any = {name: getattr(self, name)[..., rows] for name in names}
        return replace(self, **some)

    def posteriors(self, tau: Array, nu: Array) -> SitePosteriors:
        """Of all rows at these sites (m, c), and the sites that they propose."""
        model, both = self.model, self.both
        sums = self.sums + pack_outer(both).T @ tau
        projected = self.projected + both.T @ nu
        q, K = model.q, packed_size(model.q)
        S, right = sums[:K], projected[:q] - sums[K : K + q]
        S[packed_diagonal(q)] += 1.0  # S is still P, and becomes its inverse
        Z, log_det = factorise(S, right, passes=1 if self.kernels is None else MANY_PASSES)
        distance = sums[K + q] - 2.0 * projected[q] - np.einsum("qc,qc->c", right, Z)
        W = both[:, :q]
        mean, variance = W @ Z, projected_variance(W, S)
        mean += both[:, q, None]
        of_cells = self._of_cells if self.kernels is None else self._compiled
        evidence, change, *each = of_cells(tau, nu, mean, variance)
        log_likelihood = evidence - 0.5 * (log_det + distance + self.rest)
        return SitePosteriors(Z, S, log_likelihood, change, *each)

    def _of_cells(self, tau: Array, nu: Array, mean: Array, variance: Array) -> tuple[Array, ...]:
        """What the cells say at mean and variance (m, c) of t; `SitePosteriors` has the names."""
        known = self.known
        left = np.maximum(1.0 - tau * variance, LEAST_LEFT)
        b, a = variance / left, (mean - variance * nu) / left  # the cavity of each site
        total = b + self.psi[:, None]
        evidence = replace(self.evidence, first=self.first.T, second=self.second.T)
        log_mass, u, of_u = (x.T for x in evidence.tilted(a.T, total.T))
        g, h = (u - a) / total, (1.0 - of_u / total) / total
        rest = (self.psi[:, None] + b * (of_u / total)) / total  # 1 - b h without cancellation
        new_tau = np.where(known, h / rest, 0.0)
        new_nu = np.where(known, (g + a * h) / rest, 0.0)
        pull = np.abs(new_nu - nu - (new_tau - tau) * mean) * np.sqrt(variance)
        change = np.maximum(pull, np.abs(new_tau - tau) * variance)
        wider = 1.0 + tau * b
        of_site = 0.5 * ((nu * (2.0 * a + b * nu) - tau * a**2) / wider - np.log(wider))
        return (
            np.where(known, log_mass - of_site, 0.0).sum(axis=0),
            np.max(change, axis=0, initial=0.0),
            np.where(known, u, 0.0),
            np.where(known, of_u, 0.0),
            np.where(known, of_u / (total * left), 0.0),
            new_tau,
            new_nu,
        )

    def _compiled(self, tau: Array, nu: Array, mean: Array, variance: Array) -> tuple[Array, ...]:
        c = mean.shape[1]
        gain, new_tau, new_nu = (np.empty(mean.shape) for _ in range(3))
        evidence, change = np.empty(c), np.empty(c)
        each = mean, variance, gain, new_tau, new_nu
        given = (*self._cells(), self.psi, tau, nu, *each, evidence, change)
        self._over_rows(lambda first, last: self.kernels.evaluate(*given, first, last))
        return evidence, change, *each

    def of_sites(self, found: SitePosteriors) -> SitePosteriors:
        """The posteriors with the moments of u that the proposed sites give it.

        Settled sites have the tilted moments. Of others, what E[u] differs by from E[t] + psi times
        the derivative of the log-likelihood is divided by psi in its gradient: near a noise of zero
        nothing of it would be left. These moments differ from that by nothing. The proposed sites
        are exact where t does not vary, for which those at hand need never settle.
        """
        tau, nu = found.tau, found.nu
        psi, W = self.psi[:, None], self.both[:, :-1]
        t, v = W @ found.Z + self.both[:, -1:], projected_variance(W, found.S)
        kept = 1.0 - psi * tau
        mean, variance = t + psi * (nu - tau * t), psi * kept + kept**2 * v
        each = (np.where(self.known, x, 0.0) for x in (mean, variance, kept))
        return replace(found, **dict(zip(("mean", "variance", "gain"), each, strict=True)))

    def sweep(self, tau: Array, nu: Array, Z: Array, S: Array, settled: float, most: int) -> None:
        """The sites (m, c) moved one after another, from their posteriors Z and S."""
        if not tau.size:
            return
        given = (*self._cells(), self.both, self.psi, tau, nu, Z, S, settled, most)
        self._over_rows(lambda first, last: self.kernels.sweep(*given, first, last))

    def _cells(self) -> tuple[Any, ...]:
        return self.evidence.is_count, self.first, self.second, self.evidence.shape

    def _over_rows(self, work: Callable[[int, int], None]) -> None:
        def done(first: int, last: int) -> int:
            work(first, last)
            return -1  # no row is bad

        over_columns(done, self.first.shape[1], GRAIN)
