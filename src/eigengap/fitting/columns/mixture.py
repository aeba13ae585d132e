"""Mixtures of PPCA and of factor analysers of columns of every kind.

Behind a row of component k lies u = W_k z + mu_k + e, e ~ N(0, Psi_k). What a column makes of its u
(maps, thresholds) is the same in all components. The fit is that of `fitting.mixture`; a row has
sites of its own under each component (`statistics.expected.sites`), and its responsibilities are
those of the components' approximate likelihoods.

Columns whose scale the data leave open keep a noise variance of 1 in every component. A component
may hold a single level of an ordinal column, or counts of 0 alone: weak priors of mean, loadings
and noise (`FreeScale`) keep the u of such columns in place. A mixture of one component needs none.

The map of a continuous column must not take the distance between clusters for skewness, which one
that makes all rows Gaussian does. So maps that may be chosen are chosen again, once components are
known: those under which the values of each are most nearly Gaussian (`fitting.columns.classes`).
Counts are Poisson given u unless their dispersion is given: clusters and noise spread them.

Expectation propagation promises no rise of the likelihood. As in `fitting.columns.fit` a fit has
converged where steps and the gradient are small, and climbs along the gradient where they are not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from time import perf_counter
from typing import Self

import numpy as np
from numpy.typing import NDArray

from eigengap.fitting.columns.classes import shared_columns
from eigengap.fitting.columns.fit import (
    LEAST_PSI,
    SitePrecisions,
    SiteProblem,
    of_values,
    settled_for,
)
from eigengap.fitting.gaussian.problem import (
    EMOptions,
    Noise,
    Run,
    n_patterns,
    rows_of_patterns,
)
from eigengap.fitting.mixture.fit import (
    DEFAULT,
    LOOSE,
    Fitting,
    MixtureFit,
    MixtureOptions,
    largest_rank,
)
from eigengap.fitting.mixture.problem import MixtureProblem
from eigengap.fitting.optimise.loop import silenced
from eigengap.linalg import Array
from eigengap.models.columns.continuous import ContinuousColumn
from eigengap.models.columns.mixture import ColumnMixture
from eigengap.models.columns.table import Columns
from eigengap.models.gaussian.information import ObservationPattern
from eigengap.models.gaussian.mixture import responsibilities
from eigengap.models.gaussian.predictive import MixturePredictive
from eigengap.sources.base import Block, Source
from eigengap.statistics.expected.gaussian import Constraints, Expected, Parameters
from eigengap.statistics.expected.mixture import MixtureExpected, MixtureParameters
from eigengap.statistics.expected.sites import FreeScale, KeptRows, expected_of_mixture

MOST_ROWS = 20_000  # by which maps are chosen


def fit_column_mixture(
    source: Source,
    columns: Columns,
    K: int,
    ranks: Sequence[int] | None,
    noise: Noise = "isotropic",
    *,
    shared_noise: bool = False,
    chosen: NDArray[np.bool_] | None = None,
    options: MixtureOptions = DEFAULT,
) -> tuple[ColumnMixture, MixtureFit]:
    """Fit K components of the given ranks (K of them), or of ranks found by ARD (None).

    `chosen` (d,) are columns whose maps may be chosen again, by component.

    "isotropic" noise is that of all u whose scale the data determine, which is 1 for the others.
    The likelihood of the fit, and its trace, are those of the values.
    """
    largest = largest_rank(columns.width, source.observed().sum_w, K, ranks)

    def fitted(columns: Columns, options: MixtureOptions) -> MixtureFit:
        sites = SiteProblem.of_columns(source, columns, largest)
        problem = SiteMixtureProblem.of_sites(sites, K, noise, shared_noise)
        return Fitting(problem, options).fit(K, ranks, largest)

    free = np.zeros(len(columns.kinds), dtype=bool) if chosen is None else chosen
    free = free & [isinstance(k, ContinuousColumn) and not k.has_evidence for k in columns.kinds]
    if K > 1 and free.any():
        quiet = silenced(options.watch)
        rough = replace(options, tol=max(options.tol, LOOSE), split_merge=0, watch=quiet)
        model = fitted(columns, rough).model
        columns = _by_component(source, ColumnMixture(columns, model), free)
    fit = of_values(fitted(columns, options), source, columns)
    plain = ColumnMixture(columns, fit.model)
    patterns = _evidence(source, plain, fit, noise)
    predictive = MixturePredictive.of(fit.model, patterns, fit.component_sum_w)
    return replace(plain, uncertain=predictive), fit


def _by_component(source: Source, model: ColumnMixture, free: NDArray[np.bool_]) -> Columns:
    """The columns, maps of some (d,) chosen by the most probable components of rows."""
    if source.observed().rows <= MOST_ROWS:
        rows, weight = np.asarray(source.collect(), dtype=np.float64), source.weight
    else:  # heavy rows are drawn more often
        rows, weight = source.sample(MOST_ROWS, np.random.default_rng(0)), None
    weight = np.ones(len(rows)) if weight is None else weight
    labels = np.argmax(model.responsibilities(rows), axis=1)
    values = model.columns.values(rows)
    families = shared_columns(model.columns, values, weight, labels, free)
    units = shared_columns(families, values, weight, np.zeros_like(labels), np.zeros_like(free))
    pairs = zip(model.columns.kinds, units.kinds, free, strict=True)  # units of all rows, as ever
    return Columns(tuple(found if is_free else own for own, found, is_free in pairs))


def _evidence(
    source: Source, model: ColumnMixture, fit: MixtureFit, noise: Noise
) -> list[ObservationPattern]:
    """What each component was fitted to: patterns of its own rows, how much their sites say."""
    g = model.gaussian
    precisions = source.reduce(partial(_precisions, model=model))
    known = precisions.known(np.stack([one.psi for one in g.models]))
    rows, weight = rows_of_patterns(source, n_patterns(g.d, max(g.ranks)) * g.K)
    observed = model.columns.encode(rows).observed > 0
    labels = np.argmax(model.responsibilities(rows), axis=1)
    patterns = []
    for k in range(g.K):
        own = labels == k if np.any(labels == k) else np.ones(len(rows), dtype=bool)
        observed_w = np.maximum(fit.component_observed_w[k], 1.0)
        patterns.append(
            ObservationPattern(observed[own], observed_w, noise, known=known[k], count=weight[own])
        )
    return patterns


def _precisions(block: Block, model: ColumnMixture) -> SitePrecisions:
    """Of the sites under each component, by responsibility."""
    g = model.gaussian
    tau, count = np.zeros((g.K, g.d)), np.zeros((g.K, g.d))
    found, resp, _ = model.posteriors(block.values)
    if block.weight is not None:
        resp = resp * block.weight[:, None]
    for k, (rows, _, sites) in enumerate(found):
        tau[k, rows.at] = resp[:, k] @ sites.tau
        count[k, rows.at] = resp[:, k] @ (sites.tau != 0.0)
    return SitePrecisions(tau, count)


@dataclass(frozen=True, eq=False, kw_only=True)
class SiteMixtureProblem(MixtureProblem):
    """Cells that give evidence about u."""

    sites: SiteProblem

    prior: FreeScale

    @classmethod
    def of_sites(cls, sites: SiteProblem, K: int, noise: Noise, shared_noise: bool) -> Self:
        problem = cls(
            rows=sites.rows,
            units=sites.units,
            noise=noise,
            shared_noise=shared_noise,
            floor=np.empty(0),
            began=perf_counter(),
            sites=sites,
            prior=replace(sites.free, also=sites.columns.has_evidence if K > 1 else None),
        )
        return problem._with_floor(sites.units.floor(noise))

    def _with_floor(self, floor: Array) -> Self:
        return replace(self, floor=np.maximum(floor, LEAST_PSI))

    def with_floor_within(self, start: MixtureParameters) -> Self:
        return self._with_floor(super().with_floor_within(start).floor)

    def run(self, start: MixtureParameters, options: EMOptions) -> Run[MixtureParameters]:
        """EM from a start, whose columns without a scale get their noise variance of 1."""
        careful = replace(self, sites=replace(self.sites, settled=settled_for(options.tol)))
        components = tuple(map(self.prior.unscaled, start.components))
        start = replace(start, components=components)
        return super(SiteMixtureProblem, careful).run(start, options)

    # Where EM starts ------------------------------------------------------------------------

    def first(self, q: int) -> Parameters:
        return replace(self.sites, q=q).starts().first

    def scores(self, model: Parameters) -> Array:
        return self.rows.map(partial(_scores, model=model))

    def excess(self, parameters: MixtureParameters) -> Array:
        """As in the base class; the excess is that of -2 ln p over what so many cells have."""
        found = self.rows.map(partial(_with_excess, parameters=parameters))
        misfit, cells, w = found.T[:3]
        usual = float(w @ misfit) / max(float(w @ cells), 1e-300)
        scale = abs(usual) * cells
        excess = np.clip(misfit - usual * cells, 1e-12, scale + 1e-12)
        return np.column_stack([excess, found[:, 2:]])

    # The EM map -----------------------------------------------------------------------------

    def expected(self, parameters: MixtureParameters, passes: int = 1) -> MixtureExpected:
        return self.rows.reduce(
            partial(
                expected_of_mixture,
                log_weights=parameters.log_weights,
                coefficients=parameters.components,
                passes=passes,
                settled=self.sites.settled,
            )
        )

    def m_step(
        self,
        expected: Sequence[Expected],
        current: Sequence[Parameters],
        how: Sequence[Constraints],
    ) -> list[Parameters]:
        return self.prior.maximise_together(expected, current, how)

    def gradient(self, expected: Expected, current: Parameters, how: Constraints) -> Parameters:
        return self.prior.gradient(expected, current, how)

    def log_prior(self, parameters: MixtureParameters) -> float:
        return sum(map(self.prior.log_prior, parameters.components))

    def pack(self, parameters: MixtureParameters) -> Array:
        own = ~self.prior.at
        if self.noise == "diagonal" or not own.any():
            return super().pack(parameters)
        # The one noise variance of theta is that of columns with a scale: of a start, their mean.
        shared = [np.full(len(own), np.mean(c.psi[own])) for c in parameters.components]
        pairs = zip(parameters.components, shared, strict=True)
        components = tuple(replace(c, psi=psi) for c, psi in pairs)
        return super().pack(replace(parameters, components=components))

    def unpack(self, theta: Array, like: MixtureParameters) -> MixtureParameters:
        found = super().unpack(theta, like)
        at = self.prior.at
        components = tuple(replace(c, psi=np.where(at, 1.0, c.psi)) for c in found.components)
        return replace(found, components=components)

    def is_degenerate(self, theta: Array, like: MixtureParameters) -> bool:
        return True  # expectation propagation promises no rise


def _scores(kept: KeptRows, model: Parameters) -> Array:
    """Posterior means and weights (c, q + 1)."""
    parts = [part.cells(0).settled(model).Z.T for part in kept.parts]
    return np.column_stack([np.concatenate(parts), kept.weight()])


def _with_excess(kept: KeptRows, parameters: MixtureParameters) -> Array:
    """-2 ln p, number of u observed, weight, most probable component, imputed row: (c, 4 + D)."""
    components, found = parameters.components, []
    for part in kept.parts:
        cells = part.cells(0)
        under = [part.cells(k).settled(c) for k, c in enumerate(components)]
        log_density = np.stack([one.log_likelihood for one in under])
        nearest = np.argmax(responsibilities(parameters.log_weights, log_density)[0], axis=0)
        each = np.arange(len(nearest))
        U = np.stack([one.Z.T @ c.W.T + c.delta for one, c in zip(under, components, strict=True)])
        for u, one in zip(U, under, strict=True):
            u[:, cells.at] = np.where(cells.known.T, one.mean.T, u[:, cells.at])
            u[:, cells.exact] = np.where(cells.M > 0, cells.R, u[:, cells.exact])
        misfit = -2.0 * log_density[nearest, each]
        own = [misfit, part.observed.sum(axis=1), np.ones(len(misfit)), nearest]
        found.append(np.column_stack([*own, U[nearest, each]]))
    rows = np.concatenate(found)
    rows[:, 2] = kept.weight()
    return rows
