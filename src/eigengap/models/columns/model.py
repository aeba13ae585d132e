"""The fitted model of a table with columns of every kind, and what it says about rows.

u = W z + mu + e lies behind the columns (`Columns`). Expectation propagation gives each cell of
evidence a Gaussian site, and a site of precision tau and mean m is a value m of u with the
measurement error 1 / tau - psi: rows of any kinds become rows with known errors, to which the
linear-Gaussian model and the uncertainty of its parameters (`Predictive`) apply as they are.
Answers go through the columns' maps: imputed values are levels, or lie in the column's range, and
intervals are as skewed as the column is.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eigengap.linalg import Array, unpack
from eigengap.models.columns.column import Column, LevelColumn
from eigengap.models.columns.table import Columns
from eigengap.models.gaussian.linear_gaussian import LinearGaussian
from eigengap.models.gaussian.posterior import Coefficients
from eigengap.models.gaussian.predictive import Predictive
from eigengap.models.gaussian.sites import SitePosteriors, SiteRows, Sites, site_posteriors


@dataclass(frozen=True, eq=False)
class ColumnModel:
    """Columns, and the Gaussian of the u behind them."""

    columns: Columns
    gaussian: LinearGaussian  # of u: D features
    uncertain: Predictive | None = None  # how sure its parameters are

    # Posteriors ----------------------------------------------------------------------------

    def posteriors(self, values: Array) -> tuple[SiteRows, SitePosteriors, Sites]:
        """Of rows (n, d), categories by their codes."""
        rows = self.columns.encode(values)
        found, sites = site_posteriors(rows, self._coefficients)
        return rows, found, sites

    def log_likelihood(self, values: Array) -> Array:
        """(n,) approximate, of what is observed of each row."""
        _, found, _ = self.posteriors(values)
        return found.log_likelihood + self.columns.log_slope(values)

    def as_measured(self, values: Array) -> tuple[Array, Array]:
        """Rows of u (n, D), NaN where missing, and the measurement error of each, 0 if exact."""
        rows, _, sites = self.posteriors(values)
        X, sd = np.where(rows.M > 0, rows.R, np.nan), np.zeros(rows.R.shape)
        known = sites.tau > 0
        tau = np.where(known, sites.tau, 1.0)
        X[:, rows.at] = np.where(known, sites.nu / tau, X[:, rows.at])
        error = np.sqrt(np.maximum(1.0 / tau - self.gaussian.psi[rows.at], 0.0))
        sd[:, rows.at] = np.where(known, error, 0.0)
        return X, sd

    # Missing values ------------------------------------------------------------------------

    def impute(self, values: Array) -> Array:
        """(n, d) with missing values at their median, or most probable level."""
        filled = values.copy()
        for kind, j, at, mean, cov in self._missing(values):
            filled[at, j] = kind.value(mean, cov)
        return filled

    def intervals(self, values: Array, level: float = 0.95) -> tuple[Array, Array]:
        """Lower and upper ends (n, d) of the intervals of missing values; the value if observed."""
        lower, upper = values.copy(), values.copy()
        tail = (1.0 - level) / 2.0
        for kind, j, at, mean, cov in self._missing(values):
            lower[at, j] = kind.quantile(tail, mean, cov)
            upper[at, j] = kind.quantile(1.0 - tail, mean, cov)
        return lower, upper

    def level_probabilities(self, values: Array, j: int) -> Array:
        """(n, K) of the levels of column j, a `LevelColumn`: 1 for an observed one."""
        own = self.columns.kinds[j]
        assert isinstance(own, LevelColumn)
        found = np.zeros((len(values), len(own.levels)))
        observed = np.flatnonzero(~np.isnan(values[:, j]))
        found[observed, own.code(values[observed, j])] = 1.0
        for _, column, at, mean, cov in self._missing(values):
            if column == j:
                found[at] = own.probabilities(mean, cov)
        return found

    def log_scores(self, values: Array, truth: Array) -> Array:
        """(n, d) ln of what is predicted of the true values of missing cells; NaN elsewhere."""
        scores = np.full(values.shape, np.nan)
        for kind, j, at, mean, cov in self._missing(values):
            known = ~np.isnan(truth[at, j])
            rows = np.flatnonzero(at)[known]
            scores[rows, j] = kind.log_score(truth[rows, j], mean[known], cov[known])
        return scores

    def sample_imputations(self, values: Array, rng: np.random.Generator) -> Array:
        """(n, d) one draw of the missing values given the observed ones."""
        X, sd = self.as_measured(values)
        u = self.gaussian.sample_conditional(X, rng, sd if sd.any() else None)
        filled = values.copy()
        for j, (kind, own) in enumerate(self.columns):
            at = np.isnan(values[:, j])
            if at.any():
                filled[at, j] = kind.from_u(u[at, own], rng)
        return filled

    # ---------------------------------------------------------------------------------------

    @property
    def _coefficients(self) -> Coefficients:
        g = self.gaussian
        return Coefficients(g.W, g.mu, g.psi)

    def _missing(
        self, values: Array
    ) -> Iterator[tuple[Column, int, NDArray[np.bool_], Array, Array]]:
        """Of every column with missing values: rows (n,), mean and covariance of its u there."""
        g = self.gaussian
        _, found, _ = self.posteriors(values)
        mean = found.Z.T @ g.W.T + g.mu
        S = unpack(found.S.T, g.q)  # (n, q, q)
        wider = self._wider(values)
        for j, (kind, own) in enumerate(self.columns):
            at = np.isnan(values[:, j])
            if not at.any():
                continue
            W = g.W[own]
            cov = W @ S[at] @ W.T
            diagonal = np.arange(kind.width)
            cov[:, diagonal, diagonal] += g.psi[own]
            if wider is not None:
                factor = np.sqrt(wider[at, own] / cov[:, diagonal, diagonal])
                cov = cov * factor[:, :, None] * factor[:, None, :]
            yield kind, j, at, mean[at, own], cov

    def _wider(self, values: Array) -> Array | None:
        """(n, D) variances of missing u with the uncertainty of the parameters; None if unknown."""
        if self.uncertain is None:
            return None
        X, sd = self.as_measured(values)
        any_sd: Any = sd if sd.any() else None
        return self.uncertain.conditional(X, any_sd)[1]
