"""The fitted model of a table with columns of every kind, and what it says about rows.

u = W z + mu + e lies behind the columns (`Columns`). Expectation propagation gives each cell of
evidence a Gaussian site, and a site of precision tau and mean m is a value m of u with the
measurement error 1 / tau - psi: rows of any kinds become rows with known errors, to which the
linear-Gaussian model and the uncertainty of its parameters (`Predictive`) apply as they are.
Answers go through the columns' maps: imputed values are levels, or lie in the column's range, and
intervals are as skewed as the column is.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from eigengap.linalg import Array, unpack
from eigengap.models.columns.column import Column, LevelColumn
from eigengap.models.columns.continuous import ContinuousColumn
from eigengap.models.columns.table import Columns
from eigengap.models.gaussian.bayesian import BayesianLinearGaussian
from eigengap.models.gaussian.linear_gaussian import LinearGaussian
from eigengap.models.gaussian.posterior import Coefficients, Posterior
from eigengap.models.gaussian.predictive import Predictive
from eigengap.models.gaussian.sites import (
    LEAST_LEFT,
    SitePosteriors,
    SiteRows,
    Sites,
    site_posteriors,
)

# An average over a Gaussian u: shares at which its quantiles are the nodes, and their weights.
_NODES, _SUM = np.polynomial.hermite_e.hermegauss(20)
SHARES, WEIGHTS = ndtr(_NODES), _SUM / _SUM.sum()
ONE_SD = 0.6826894921370859  # probability within one standard deviation of a Gaussian


class Asked(NamedTuple):
    """Cells of one column, and what is predicted of their u."""

    kind: Column  # that of cells with their limits or sizes
    j: int
    at: NDArray[np.bool_] | NDArray[np.intp]  # rows
    mean: Array  # (c, width), or (K, c, width) of a mixture
    cov: Array  # (c, width, width), or (K, c, width, width)
    resp: Array | None = None  # (c, K) of a mixture

    @property
    def value(self) -> Array:
        if self.resp is None:
            return self.kind.value(self.mean, self.cov)
        return self.kind.mixed_value(self.resp, self.mean, self.cov)

    def quantile(self, share: float) -> Array:
        if self.resp is None:
            return self.kind.quantile(share, self.mean, self.cov)
        return self.kind.mixed_quantile(share, self.resp, self.mean, self.cov)

    def tail(self, x: Array) -> Array:
        if self.resp is None:
            return self.kind.tail(x, self.mean, self.cov)
        return self.kind.mixed_tail(x, self.resp, self.mean, self.cov)

    def probabilities(self) -> Array:
        assert isinstance(self.kind, LevelColumn)
        if self.resp is None:
            return self.kind.probabilities(self.mean, self.cov)
        return self.kind.mixed_probabilities(self.resp, self.mean, self.cov)


class Answers(ABC):
    """What models of columns, and their mixtures, answer alike.

    Values (n, d) are those of the columns: numbers, codes of levels, NaN where missing. They may be
    followed by the details of cells (`Columns`), which answers do not have.
    """

    columns: Columns

    @abstractmethod
    def _missing(self, values: Array) -> Iterator[Asked]:
        """The missing cells of every column that has some.

        A value known by limits only is missing too; its u is predicted from the other cells, and
        the column that is yielded is that of cells with these limits.
        """

    @abstractmethod
    def _observed(self, values: Array) -> Iterator[Asked]:
        """The observed values of every column, as the others of their rows predict them."""

    def impute(self, values: Array) -> Array:
        """(n, d) with missing values at their median, or most probable level."""
        filled = self.columns.values(values)
        for cells in self._missing(values):
            filled[cells.at, cells.j] = cells.value
        return filled

    def conditional(self, values: Array) -> tuple[Array, Array]:
        """`impute`, and the square of half the width of the central 68 % of each missing value.

        That is the variance where the column is Gaussian.
        """
        imputed = self.columns.values(values)
        variance = np.zeros(imputed.shape)
        tail = (1.0 - ONE_SD) / 2.0
        for cells in self._missing(values):
            imputed[cells.at, cells.j] = cells.value
            low, high = cells.quantile(tail), cells.quantile(1.0 - tail)
            variance[cells.at, cells.j] = ((high - low) / 2.0) ** 2
        return imputed, variance

    def intervals(self, values: Array, level: float = 0.95) -> tuple[Array, Array]:
        """Lower and upper ends (n, d) of the intervals of missing values; the value if observed."""
        tail = (1.0 - level) / 2.0
        lower, upper = self.quantiles(values, (tail, 1.0 - tail))
        return lower, upper

    def quantiles(self, values: Array, shares: Sequence[float]) -> list[Array]:
        """Of missing values, below which they lie with each of these probabilities: (n, d) each.

        An observed value is its own.
        """
        found = [self.columns.values(values) for _ in shares]
        for cells in self._missing(values):
            for own, share in zip(found, shares, strict=True):
                own[cells.at, cells.j] = cells.quantile(share)
        return found

    def probabilities(self, values: Array) -> Array:
        """(n, sum of K) of the levels of all columns that have some, side by side.

        An observed level has probability 1.
        """
        found, place = self.columns.observed_levels(values)
        for cells in self._missing(values):
            if isinstance(cells.kind, LevelColumn):
                found[cells.at, place[cells.j]] = cells.probabilities()
        return found

    def level_probabilities(self, values: Array, j: int) -> Array:
        """(n, K) of the levels of column j, a `LevelColumn`: 1 for an observed one."""
        return self.probabilities(values)[:, self.columns.places_of_levels[j]]

    def surprises(self, values: Array) -> tuple[Array, Array]:
        """How improbable each observed value is (`Column.tail`), and what is expected there.

        It is predicted from the other observed values of its row: what `impute` and `intervals`
        would say had it been missing. Both (n, d), NaN where a value is missing.
        """
        p = np.full((len(values), len(self.columns.kinds)), np.nan)
        expected = p.copy()
        for cells in self._observed(values):
            x = values[cells.at, cells.j].astype(np.float64)
            p[cells.at, cells.j], expected[cells.at, cells.j] = cells.tail(x), cells.value
        return p, expected

    conditional_mean = impute  # as densities call it


@dataclass(frozen=True, eq=False)
class ColumnModel(Answers):
    """Columns, and the Gaussian of the u behind them."""

    columns: Columns
    gaussian: LinearGaussian  # of u: D features
    uncertain: Predictive | BayesianLinearGaussian | None = None  # how sure its parameters are

    @property
    def W(self) -> Array:
        return self.gaussian.W

    @property
    def mu(self) -> Array:
        return self.gaussian.mu

    @property
    def psi(self) -> Array:
        return self.gaussian.psi

    @property
    def q(self) -> int:
        return self.gaussian.q

    # Posteriors ----------------------------------------------------------------------------

    def posteriors(self, values: Array) -> tuple[SiteRows, SitePosteriors, Sites]:
        """Of rows (n, d), by expectation propagation."""
        rows = self.columns.encode(values)
        return rows, *site_posteriors(rows, self._coefficients)

    def posterior(self, values: Array) -> Posterior:
        """z of every row."""
        _, found, _ = self.posteriors(values)
        return Posterior(found.Z.T, unpack(found.S.T, self.q), np.arange(len(values)))

    def posterior_mean(self, values: Array) -> Array:
        """E[z | x]: (n, q)."""
        return self.posteriors(values)[1].Z.T

    def log_likelihood(self, values: Array) -> Array:
        """(n,) approximate, of what is observed of each row."""
        _, found, _ = self.posteriors(values)
        return found.log_likelihood + self.columns.log_slope(values)

    def given_the_others(
        self, values: Array, some: Collection[int] | None = None
    ) -> Iterator[tuple[int, slice, Array, Array]]:
        """Of columns, or some: number, place of their u, mean and covariance of t = W z + mu.

        What a cell says about z is taken out of the posterior of its row: a value of u with noise
        psi is a site of precision 1 / psi, other cells have those of expectation propagation. With
        m and A the posterior moments of t and T, nu the sites of the column's u, what the other
        cells say is the cavity N((I - A T)^-1 (m - A nu), (I - A T)^-1 A): (n, w), (n, w, w).
        """
        rows, found, sites = self.posteriors(values)
        tau, nu = rows.M / self.psi, rows.M * rows.R / self.psi
        tau[:, rows.at] += sites.tau
        nu[:, rows.at] += sites.nu
        mean, S = found.Z.T @ self.W.T + self.mu, unpack(found.S.T, self.q)
        for j, (kind, own) in enumerate(self.columns):
            if some is not None and j not in some:
                continue
            W = self.W[own]
            A = W @ S @ W.T
            left = np.eye(kind.width) - A * tau[:, None, own]
            if kind.width == 1:
                left = np.maximum(left, LEAST_LEFT)
            rest = mean[:, own] - np.einsum("nab,nb->na", A, nu[:, own])
            right = np.concatenate([rest[:, :, None], A], axis=2)
            solved = np.linalg.solve(left, right)
            cov = (solved[..., 1:] + np.swapaxes(solved[..., 1:], 1, 2)) / 2.0
            yield j, own, solved[..., 0], cov

    # Missing values ------------------------------------------------------------------------

    def moments(self, values: Array, of: Sequence[int]) -> tuple[Array, Array]:
        """Mean and standard deviation (n, k) of missing values of columns of one u each.

        By Gauss and Hermite's rule over u; an observed value is its own mean.
        """
        places = {j: place for place, j in enumerate(of)}
        mean, std = values[:, list(of)].astype(np.float64), np.zeros((len(values), len(of)))
        for cells in self._missing(values):
            if cells.j in places:
                x = np.stack([cells.quantile(share) for share in SHARES], axis=1)
                at = cells.at, places[cells.j]
                mean[at] = x @ WEIGHTS
                std[at] = np.sqrt((x - (x @ WEIGHTS)[:, None]) ** 2 @ WEIGHTS)
        return mean, std

    def log_scores(self, values: Array, truth: Array) -> Array:
        """(n, d) ln of what is predicted of the true values of missing cells; NaN elsewhere."""
        scores = np.full((len(values), len(self.columns.kinds)), np.nan)
        for _, j, at, mean, cov, _ in self._missing(values):
            known = ~np.isnan(truth[at, j])
            rows = np.flatnonzero(at)[known]
            kind = self.columns.kinds[j].given(self.columns.details(values, j)[rows])
            scores[rows, j] = kind.log_score(truth[rows, j], mean[known], cov[known])
        return scores

    def sample_imputations(self, values: Array, rng: np.random.Generator) -> Array:
        """(n, d) one draw of the missing values given the observed ones."""
        g = self.gaussian
        _, found, _ = self.posteriors(values)
        roots = np.linalg.cholesky(unpack(found.S.T, g.q))  # (n, q, q)
        z = found.Z.T + np.einsum("nij,nj->ni", roots, rng.standard_normal((len(values), g.q)))
        t = z @ g.W.T + g.mu
        u = t + rng.standard_normal(t.shape) * np.sqrt(g.psi)
        filled = self.columns.values(values)
        for j, (kind, own) in enumerate(self.columns):
            at = np.isnan(values[:, j])
            if not at.any():
                continue
            given = kind.given(self.columns.details(values, j)[at])
            if isinstance(given, ContinuousColumn) and given.limits is not None:
                psi = np.full((len(t[at]), 1, 1), g.psi[own.start])
                filled[at, j] = given.quantile(rng.random(len(psi)), t[at, own], psi)
            else:
                filled[at, j] = given.from_u(u[at, own], rng)
        return filled

    def draw(self, rng: np.random.Generator) -> ColumnModel:
        """A model whose parameters are drawn from their distribution around the estimate."""
        if self.uncertain is None:
            return self
        drawn = self.uncertain.draw(rng)
        if isinstance(self.uncertain, Predictive):
            # A free scale has a noise variance by convention, which nothing is learned of.
            psi = np.where(self.columns.free_scale, self.psi, drawn.psi)
            drawn = replace(drawn, psi=psi)
        drawn = self.columns.with_scales(self.gaussian, drawn)
        return replace(self, gaussian=drawn, uncertain=None)

    def _observed(self, values: Array) -> Iterator[Asked]:
        rows, _, sites = self.posteriors(values)
        for j, (column, own) in enumerate(self.columns):
            at = np.flatnonzero(~np.isnan(values[:, j]))
            if len(at):
                mean, cov, _ = self._from_others(rows, sites, at, own)
                kind = column.given(self.columns.details(values, j)[at])
                yield Asked(kind, j, at, mean, cov)

    def _from_others(
        self, rows: SiteRows, sites: Sites, at: NDArray[np.intp], own: slice
    ) -> tuple[Array, Array, Array]:
        """Mean and covariance of the u of a column given the others, and their log-likelihood."""
        others, start = rows.take(at).without(own), sites.take(at).without(rows.at, own)
        columns = len(self.columns.kinds)  # each of which is left out once
        found = site_posteriors(others, self._coefficients, start, passes=columns)
        given = self._given(others, *found)
        return *given.of(own, np.ones(len(at), dtype=bool)), found[0].log_likelihood

    sample_conditional = sample_imputations  # as densities call it

    # Rows ----------------------------------------------------------------------------------

    def denoised(self, values: Array) -> Array:
        """(n, d) values where z is at its posterior mean, observed ones too: see `at`."""
        return self.at(self.posterior_mean(values) @ self.W.T + self.mu, values)

    def at(self, U: Array, values: Array | None = None) -> Array:
        """(n, d) median, or most probable level, where u has the means U (n, D) and its noise.

        Rows of counts have the sizes of `values`; without, 1.
        """
        found = np.empty((len(U), len(self.columns.kinds)))
        for j, (kind, own) in enumerate(self.columns):
            cov = np.broadcast_to(np.diag(self.psi[own]), (len(U), kind.width, kind.width))
            if kind.is_count and values is not None:
                kind = kind.given(self.columns.details(values, j))
            found[:, j] = kind.value(U[:, own], cov)
        return found

    def sample(self, n: int, rng: np.random.Generator) -> Array:
        """n new rows: (n, d)."""
        u = self.gaussian.sample(n, rng)
        return np.column_stack([kind.from_u(u[:, own], rng) for kind, own in self.columns])

    def covariance(self) -> Array:
        """Of u: (D, D)."""
        return self.gaussian.covariance()

    def precision(self) -> Array:
        """Of u: (D, D)."""
        return self.gaussian.precision()

    # ---------------------------------------------------------------------------------------

    @property
    def _coefficients(self) -> Coefficients:
        g = self.gaussian
        return Coefficients(g.W, g.mu, g.psi)

    def _missing(self, values: Array) -> Iterator[Asked]:
        at = np.isnan(values[:, : len(self.columns.kinds)])
        if not at.any():
            return
        given = self._given(*self.posteriors(values))
        for j, (kind, own) in enumerate(self.columns):
            if at[:, j].any():
                details = self.columns.details(values, j)[at[:, j]]
                yield Asked(kind.given(details), j, at[:, j], *given.of(own, at[:, j]))

    def _given(self, rows: SiteRows, found: SitePosteriors, sites: Sites) -> _Predicted:
        """What rows say of the u that they do not show."""
        wider = None
        if self.uncertain is not None:
            X, sd = self._measured(rows, sites)
            any_sd: Any = sd if sd.any() else None
            wider = self.uncertain.conditional(X, any_sd)[1]
        mean = found.Z.T @ self.W.T + self.mu
        own = Sites.none(mean.shape)
        own.tau[:, rows.at], own.nu[:, rows.at] = sites.tau, sites.nu
        return _Predicted(self.gaussian, mean, unpack(found.S.T, self.q), wider, own)

    def _measured(self, rows: SiteRows, sites: Sites) -> tuple[Array, Array]:
        X, sd = np.where(rows.M > 0, rows.R, np.nan), np.zeros(rows.R.shape)
        known = sites.tau > 0
        tau = np.where(known, sites.tau, 1.0)
        X[:, rows.at] = np.where(known, sites.nu / tau, X[:, rows.at])
        error = np.sqrt(np.maximum(1.0 / tau - self.psi[rows.at], 0.0))
        sd[:, rows.at] = np.where(known, error, 0.0)
        return X, sd


class _Predicted(NamedTuple):
    """The u of some rows that are not observed."""

    gaussian: LinearGaussian
    mean: Array  # (n, D)
    S: Array  # (n, q, q) covariances of z
    wider: Array | None  # (n, D) variances of u with the uncertainty of the parameters
    sites: Sites  # (n, D) of cells that are known by limits; 0 of others that are not observed

    def of(self, own: slice, at: NDArray[np.bool_]) -> tuple[Array, Array]:
        """Mean (c, width) and covariance of the u of one column in the rows `at`.

        What limits say of the cell itself is left out.
        """
        W = self.gaussian.W[own]
        mean, cov = self.mean[at, own], W @ self.S[at] @ W.T
        diagonal = np.arange(len(W))
        tau, nu = self.sites.tau[at, own], self.sites.nu[at, own]
        limited = tau.any(axis=1)
        if limited.any():
            v = cov[:, diagonal, diagonal]
            left = np.maximum(1.0 - tau * v, LEAST_LEFT)
            mean, cov = (mean - v * nu) / left, cov / left[:, :, None]
        cov[:, diagonal, diagonal] += self.gaussian.psi[own]
        if self.wider is not None:  # it has no variance of cells that are known by limits
            wider = np.where(tau > 0.0, cov[:, diagonal, diagonal], self.wider[at, own])
            factor = np.sqrt(wider / cov[:, diagonal, diagonal])
            cov = cov * factor[:, :, None] * factor[:, None, :]
        return mean, cov
