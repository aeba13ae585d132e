"""Bayesian PCA of columns of every kind: u = W z + mu + e behind each, by variational Bayes.

The posterior of loadings, means and noise is that of `fitting.gaussian.bayesian`, with automatic
relevance determination. The E-step is that of q(Z, U): under expected parameters the rows are
linear-Gaussian again, and what a cell says about its u becomes a site (`models.gaussian.sites`).

Expectation propagation makes the ELBO approximate, so that an update may lower it. The fit
converges where steps and the gradient of the ELBO are small; where an update lowers it or leaves a
gradient, a climb along the gradient takes over (`fitting.optimise.em`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Self

import numpy as np

from eigengap.fitting.columns.fit import SiteProblem, of_values, settled_for, with_dispersions
from eigengap.fitting.gaussian.bayesian import (
    BROAD,
    FEW,
    BayesianFit,
    BayesianProblem,
    fit_components,
    most_components,
)
from eigengap.fitting.gaussian.problem import (
    DEFAULT,
    MOST_PASSES,
    EMOptions,
    Noise,
    Run,
    spectrum_of,
)
from eigengap.fitting.optimise.em import Mapped, Slope
from eigengap.linalg import Array, packed_diagonal, packed_indices, unpack
from eigengap.models.columns.model import ColumnModel
from eigengap.models.columns.table import Columns
from eigengap.models.gaussian.bayesian import Gammas
from eigengap.models.gaussian.posterior import Coefficients
from eigengap.sources.base import Source
from eigengap.statistics.expected.gaussian import Constraints, Expected
from eigengap.statistics.expected.sites import expected_of_sites
from eigengap.statistics.expected.variational import (
    KNOWN,
    Prior,
    VariationalPosterior,
    gradient,
    start,
)


def fit_bayesian_columns(
    source: Source,
    columns: Columns,
    q: int | None,
    *,
    noise: Noise = "isotropic",
    prior: Prior = BROAD,
    options: EMOptions = DEFAULT,
) -> tuple[ColumnModel, BayesianFit]:
    """At most q components, or as many as the ELBO asks for.

    "isotropic" noise is that of all u. `log_likelihood`, `elbo` and `trace` are of the values.
    """

    def fitted(columns: Columns) -> BayesianFit:
        sites = SiteProblem.of_columns(source, columns, FEW if q is None else q)
        sites = replace(sites, settled=settled_for(options.tol))
        problem_of = partial(SiteBayesianProblem.of_sites, sites, noise=noise, prior=prior)
        most = most_components(sites.units, columns.width)
        return fit_components(problem_of, q, most, options)

    fit = fitted(columns)
    learned = with_dispersions(source, ColumnModel(columns, fit.model))
    if learned is not columns:
        columns, fit = learned, fitted(learned)
    fit = of_values(fit, source, columns)
    return ColumnModel(columns, fit.model, fit.bayesian), fit


@dataclass(frozen=True, eq=False, kw_only=True)
class SiteBayesianProblem(BayesianProblem):
    """Cells that give evidence about u."""

    sites: SiteProblem

    @classmethod
    def of_sites(cls, sites: SiteProblem, q: int, *, noise: Noise, prior: Prior) -> Self:
        """q is the number of components to begin with."""
        observed, free = sites.units.observed_w, sites.free.at
        # As in `BayesianProblem.of` a floor by the prior; sites need a higher one, and as much
        # evidence as a row with a residual of 1: cells may leave their scale all but open.
        has_sites = sites.columns.has_evidence
        floor = np.where(has_sites, sites.constraints.floor, sites.units.floor(noise))
        floor[free] = 0.0
        rate = 0.5 * floor * np.where(has_sites, observed, np.max(observed))
        rows = np.where(has_sites & ~free, 0.5, 0.0)
        if noise == "isotropic":
            floor = np.full(len(free), np.max(floor))
            total = 0.5 * floor[0] * float(np.sum(observed[~free]))
            rate, rows = (np.array([each, 0.0]) for each in (total, float(np.sum(rows))))
            if not free.any():
                rate, rows = rate[:1], rows[:1]
        return cls(
            rows=sites.rows,
            units=sites.units,
            constraints=Constraints(noise=noise, floor=floor),
            prior=replace(
                prior,
                noise_shape=prior.noise_shape + rows,
                noise_rate=np.maximum(prior.noise_rate, rate) + rows,
                free=replace(sites.free, also=has_sites) if has_sites.any() else None,
            ),
            sites=replace(sites, q=q),
        )

    def start(self, q: int) -> VariationalPosterior:
        """The spectral start, with posterior variances by the number of rows."""
        first, observed = self.sites.starts().first, self.units.observed_w
        free, psi, tau_of = self.sites.free.at, first.psi, None
        if self.constraints.noise == "isotropic":
            tau_of = free.astype(np.intp) if free.any() else None
            shared = np.mean(psi[~free]) if not free.all() else 1.0
            cells, psi = np.array([float(np.sum(observed[~free])), 0.0]), np.array([shared, 1.0])
            if tau_of is None:
                cells, psi = cells[:1], psi[:1]
            known = np.array([free.all(), True])[: len(cells)]
        else:
            cells, known, psi = observed, free, np.where(free, 1.0, psi)
        shapes = np.where(known, KNOWN, self.prior.noise_shape + 0.5 * cells)
        mean = np.vstack([first.W.T, first.delta])
        return start(mean, Gammas(shapes, shapes * psi), observed, self.prior, tau_of)

    # The map --------------------------------------------------------------------------------

    def apply(self, theta: Array, like: VariationalPosterior, passes: int = 1) -> Mapped:
        # Before the E-step: sites that have gone astray under indefinite covariances stay there.
        np.linalg.cholesky(unpack(self.unpack(theta, like).cov.T, like.q + 1))
        return super().apply(theta, like, passes)

    def expected(self, coefficients: Coefficients, passes: int = MOST_PASSES) -> Expected:
        return self.rows.reduce(
            partial(
                expected_of_sites,
                coefficients=coefficients,
                passes=passes,
                settled=self.sites.settled,
            )
        )

    def slope(self, expected: Expected, current: VariationalPosterior) -> Callable[[], Slope]:
        def found() -> Slope:
            size, cells = self.units.size, self.units.cells
            by_mean, by_cov, by_rate = gradient(expected, current, self.prior)
            precision = np.linalg.inv(unpack(current.cov.T, current.q + 1))  # (d, q + 1, q + 1)
            i, j = packed_indices(current.q + 1)
            diagonal = np.einsum("jaa->aj", precision)
            curved = diagonal[i] * diagonal[j] + precision[:, i, j].T ** 2
            curved[packed_diagonal(current.q + 1)] /= 4.0
            of_rate = np.where(current.tau.shape < KNOWN, current.tau.shape, 1.0)
            information = [diagonal * size**2, curved * size**4, of_rate]
            slopes = [by_mean * size, by_cov * size**2, by_rate]
            return Slope(
                np.concatenate([np.ravel(each) for each in slopes]) / cells,
                np.sqrt(cells / np.concatenate([np.ravel(each) for each in information])),
            )

        return found

    def is_degenerate(self, theta: Array, like: VariationalPosterior) -> bool:
        return True  # expectation propagation promises no rise

    # What it leaves -------------------------------------------------------------------------

    def finish(self, run: Run[VariationalPosterior]) -> BayesianFit:
        """With u of free scale in units in which all u have one noise variance, if that is asked.

        That changes no probability (`SiteProblem.in_common_noise`).
        """
        fit, free = super().finish(run), self.sites.free.at
        if self.constraints.noise == "diagonal" or free.all() or not free.any():
            return fit
        scale = np.where(free, np.sqrt(fit.bayesian.noise_variance()[~free][0]), 1.0)
        bayesian = fit.bayesian.rescaled(scale, self.sites.columns.origin * (1.0 - scale))
        means = bayesian.at_means()
        return replace(
            fit,
            bayesian=bayesian,
            model=bayesian.predictive(),
            axes=means.principal_axes()[0],
            spectrum=spectrum_of(means, self.units.sum_w),
        )
