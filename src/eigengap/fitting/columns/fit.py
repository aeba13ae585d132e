"""PPCA and factor analysis of columns of every kind: u = W z + mu + e behind each, by EM on sites.

Noise variances are those of u, whose margins have variance about 1. The scale of the u behind
binary and nominal columns is free: their noise variance is 1 during a fit. PPCA, which has one
noise variance for all u, rescales these u at the end: that changes no probability.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from math import inf
from typing import Any, Self, TypeVar

import numpy as np

from eigengap.fitting.columns.counts import MOST_CELLS, learned_dispersion
from eigengap.fitting.gaussian.bayesian import BayesianFit
from eigengap.fitting.gaussian.noise import GaussianProblem, MStep, Specification
from eigengap.fitting.gaussian.problem import (
    DEFAULT,
    MOST_PASSES,
    EMOptions,
    GaussianFit,
    Packing,
    Run,
    Units,
    n_patterns,
    rows_of_patterns,
    spectrum_of,
)
from eigengap.fitting.gaussian.start import Starts, spectral_start
from eigengap.fitting.mixture.fit import MixtureFit
from eigengap.fitting.optimise.em import Mapped
from eigengap.linalg import Array
from eigengap.models.columns.count import CountColumn
from eigengap.models.columns.model import ColumnModel
from eigengap.models.columns.table import Columns
from eigengap.models.gaussian.information import Noise as LearnedNoise
from eigengap.models.gaussian.information import ObservationPattern
from eigengap.models.gaussian.linear_gaussian import LinearGaussian
from eigengap.models.gaussian.observed_rows import ObservedRows, prepare_rows
from eigengap.models.gaussian.predictive import Predictive
from eigengap.models.gaussian.sites import SETTLED
from eigengap.sources.base import Block, Source
from eigengap.statistics.additive import Additive
from eigengap.statistics.expected.gaussian import Parameters
from eigengap.statistics.expected.sites import FreeScale, KeptRows, expected_of_sites

ROUGH_STEPS, ROUGH = 30, 0.01  # most steps with unsettled sites, and the step that ends them
LOOSEST, FINEST = 1e-4, 1e-8  # to which sites settle, however large or small the tolerance
# Of a column, relative to the variance of its u: 3 % of a standard deviation. Columns that follow
# from others are met as closely; in small tables a smaller one is an overfit, and sites at it
# settle slowly.
LEAST_PSI = 1e-3
FACTOR_ANALYSIS = Specification("diagonal")
LEAST_NOISE = 0.05  # of a start, relative to u: sites settle slowly where there is less


def fit_columns(
    source: Source,
    columns: Columns,
    q: int,
    options: EMOptions = DEFAULT,
    spec: Specification = FACTOR_ANALYSIS,
) -> GaussianFit:
    """Maximum (approximate) likelihood of u = W z + mu + e behind columns of these kinds.

    The model and the likelihood are those of u; `Columns.log_slope` leads to that of the values.
    """
    problem = SiteProblem.of_columns(source, columns, q, spec)
    starts = problem.starts()
    if options.n_init > 1:
        starts = replace(starts, others=(), n_random=options.n_init - 1)
        return problem.finish(problem.best_of(starts, options))
    return problem.finish(problem.run(starts.first, options))


def fit_column_model(
    source: Source,
    columns: Columns,
    q: int,
    options: EMOptions = DEFAULT,
    spec: Specification = FACTOR_ANALYSIS,
) -> tuple[ColumnModel, GaussianFit]:
    """The fitted model of a table, with the uncertainty of its parameters, and its fit.

    The likelihood of the fit, and its trace, are those of the values.
    """
    fit = fit_columns(source, columns, q, options, spec)
    learned = with_dispersions(source, ColumnModel(columns, fit.model))
    if learned is not columns:
        columns, fit = learned, fit_columns(source, learned, q, options, spec)
    fit = of_values(fit, source, columns)
    sites = source.reduce(partial(SitePrecisions.of, model=ColumnModel(columns, fit.model)))
    rows, weight = rows_of_patterns(source, n_patterns(columns.width, q))
    observed = columns.encode(rows).observed > 0
    known = sites.known(fit.model.psi)
    noise: LearnedNoise = spec.noise if spec.noise_variance is None else "given"
    pattern = ObservationPattern(observed, fit.observed_w, noise, known=known, count=weight)
    return ColumnModel(columns, fit.model, Predictive.of(fit.model, pattern)), fit


Fit = TypeVar("Fit", GaussianFit, BayesianFit, MixtureFit)


def of_values(fit: Fit, source: Source, columns: Columns) -> Fit:
    """The fit of u, with what the maps of the columns add to its likelihood."""
    slope = source.reduce(partial(LogSlopes.of, columns=columns)).value
    trace = replace(fit.trace, objective=fit.trace.objective + slope)
    fit = replace(fit, log_likelihood=fit.log_likelihood + slope, trace=trace)
    return replace(fit, elbo=fit.elbo + slope) if isinstance(fit, BayesianFit) else fit


def with_dispersions(source: Source, model: ColumnModel) -> Columns:
    """The columns, those of counts with the dispersions that the model repays; else as they are."""
    kinds = list(model.columns.kinds)
    at = [j for j, kind in enumerate(kinds) if isinstance(kind, CountColumn) and kind.learns]
    if not at:
        return model.columns
    k = min(MOST_CELLS, source.observed().rows)
    rows = source.sample(k, np.random.default_rng(0))
    for j, _, mean, cov in model.given_the_others(rows, at):
        known = ~np.isnan(rows[:, j])
        log_size = model.columns.details(rows, j)[known]
        sizes = log_size[:, 0] if log_size.shape[1] else None
        found = learned_dispersion(rows[known, j], sizes, mean[known, 0], cov[known, 0, 0])
        kinds[j] = replace(kinds[j], dispersion=found)  # type: ignore[call-arg]
    changed = any(kinds[j].shape < inf for j in at)
    return Columns(tuple(kinds)) if changed else model.columns


@dataclass(frozen=True, eq=False)
class SitePrecisions(Additive):
    """Sums over the cells of each u: how much their sites say; of K models (K, D) each."""

    tau: Array  # (D,)
    count: Array  # (D,)

    @classmethod
    def of(cls, block: Block, model: ColumnModel) -> SitePrecisions:
        rows, _, sites = model.posteriors(block.values)
        tau, count = np.zeros(rows.R.shape[1]), np.zeros(rows.R.shape[1])
        weight = np.ones(len(sites.tau)) if block.weight is None else block.weight
        tau[rows.at] = weight @ sites.tau
        count[rows.at] = weight @ (sites.tau != 0)
        return cls(tau, count)

    def known(self, psi: Array) -> Array:
        """(D,) variance that a typical cell has besides psi; 0 where cells give u."""
        mean = self.tau / np.maximum(self.count, 1.0)
        return np.where(mean > 0, np.maximum(1.0 / np.where(mean > 0, mean, 1.0) - psi, 0.0), 0.0)


@dataclass(frozen=True, eq=False)
class LogSlopes(Additive):
    """What the maps of the columns add to the log-likelihood of u."""

    value: float

    @classmethod
    def of(cls, block: Block, columns: Columns) -> LogSlopes:
        slope = columns.log_slope(block.values)
        return cls(float(np.sum(slope if block.weight is None else block.weight @ slope)))


@dataclass(frozen=True, eq=False)
class _LatentCounts(Additive):
    """How often each latent column is observed, and what its cells sum to if they are counts."""

    observed: Array  # (D,)
    counted: Array  # (D,)
    sum_w: float

    @classmethod
    def of(cls, block: Block, columns: Columns) -> _LatentCounts:
        rows = columns.encode(block.values, block.weight)
        w = np.ones(len(rows)) if block.weight is None else block.weight
        counted, evidence = np.zeros(columns.width), rows.evidence
        at = np.flatnonzero(evidence.is_count)
        counted[rows.at[at]] = w @ np.nan_to_num(evidence.first[:, at])
        return cls(w @ rows.observed, counted, float(np.sum(w)))

    def known(self, columns: Columns) -> Array:
        """(D,) variance of u that a typical cell has besides psi; 0 where cells give u.

        A psi far below it changes little: in its logarithm EM would go on for ever.
        """
        found = np.zeros(len(self.observed))
        for kind, own in columns:
            if kind.is_count:
                mean = max(self.counted[own.start], 0.5) / max(self.observed[own.start], 1.0)
                found[own] = 1.0 / mean + 1.0 / kind.shape
            else:
                found[own] = kind.typical_error
        return found


def settled_for(tol: float) -> float:
    """To which sites settle in a fit with this tolerance: steps below it would be theirs."""
    return min(max(tol, FINEST), LOOSEST)


@dataclass(frozen=True, eq=False, kw_only=True)
class SiteProblem(GaussianProblem):
    """Cells that give evidence about u."""

    columns: Columns
    settled: float = SETTLED

    @classmethod
    def of_columns(
        cls, source: Source, columns: Columns, q: int, spec: Specification = FACTOR_ANALYSIS
    ) -> Self:
        if columns.width == 0:
            raise ValueError("every column has a single level, so there is nothing to fit")
        counts = source.reduce(partial(_LatentCounts.of, columns=columns))
        ones = np.ones(columns.width)
        # A question that no cell was asked has the parameters of its prior.
        observed = np.maximum(counts.observed, 1.0)
        units = Units(np.zeros(columns.width), ones, ones, observed, counts.sum_w)
        how = spec.constraints(units)
        how = replace(how, floor=np.maximum(how.floor, LEAST_PSI))
        rows = source.prepared(partial(_encoded, columns=columns))
        packing = Packing(units, how, (q,), least_known=counts.known(columns))
        return cls(source, rows, units, q, how, packing, columns=columns)

    def starts(self) -> Starts:
        """Spectral, on rows with the mean of u given its own cell alone."""
        scores = self.source.prepared(partial(_scored, columns=self.columns, q=self.q))
        # Factors of a covariance need all of its pairs, and questions that few cells are asked are
        # never observed together: principal axes do.
        axes = replace(self.constraints, noise="isotropic")
        return spectral_start(scores, self.q, self.units, axes).map(self._sized)

    def _random_starts(self, given: Starts, seed: int) -> list[Parameters]:
        return [self._sized(start) for start in super()._random_starts(given, seed)]

    def _sized(self, start: Parameters) -> Parameters:
        """A start with u of free scale in units of their noise."""
        return self.free.unscaled(replace(start, psi=np.maximum(start.psi, LEAST_NOISE)))

    def run(self, start: Parameters, options: EMOptions) -> Run[Parameters]:
        """EM, at first with sites that make one step for each of its own (`rough`)."""
        passes = min(options.max_iter, MOST_PASSES)
        most = min(ROUGH_STEPS, options.max_iter // 2)
        near = self.rough(start, most, max(ROUGH, options.tol), passes)
        careful = replace(self, settled=settled_for(options.tol))
        return super(SiteProblem, careful).run(near, options)

    def rough(self, start: Parameters, most: int, tol: float, passes: int) -> Parameters:
        """At most so many steps of plain EM, until they are smaller than `tol`.

        Far from the maximum sites need not settle. What these steps arrive at is as good as others,
        for the likelihood is stationary in the sites; but neither the guard of EM nor a gradient
        may rely on them.
        """
        theta, bounds = self.pack(start), self.bounds(start)
        before = theta
        for _ in range(most):
            at = self.unpack(theta)
            one = partial(expected_of_sites, coefficients=at, passes=passes, settles=False)
            try:
                image = self.pack(self.free.maximise(self.rows.reduce(one), at, self.constraints))
            except np.linalg.LinAlgError:  # careful steps go on from where the model existed
                theta = before
                break
            if not np.all(np.isfinite(image)):
                break
            change = float(np.max(np.abs(image - theta), initial=0.0))
            before, theta = theta, bounds.clip(image)
            if change <= tol:
                break
        return self.unpack(theta)

    def e_step(self, current: Parameters, passes: int) -> Callable[[Any], Any]:
        return partial(expected_of_sites, coefficients=current, passes=passes, settled=self.settled)

    @property
    def m_step(self) -> MStep:  # type: ignore[override]
        return MStep(self.free.maximise, self.free.gradient)

    @property
    def free(self) -> FreeScale:
        return FreeScale(self.columns.free_scale, origin=self.columns.origin)

    def pack(self, parameters: Parameters) -> Array:
        psi = self.free.learned(parameters.psi, self.constraints)
        return super().pack(replace(parameters, psi=psi))

    def unpack(self, theta: Array, like: Parameters | None = None) -> Parameters:
        found = super().unpack(theta)
        return replace(found, psi=np.where(self.columns.free_scale, 1.0, found.psi))

    def apply(self, theta: Array, like: Parameters | None = None, passes: int = 1) -> Mapped:
        mapped = super().apply(theta, like, passes)
        prior = self.free.log_prior(self.unpack(theta))
        return mapped._replace(objective=mapped.objective + prior)

    def finish(self, run: Run[Parameters]) -> GaussianFit:
        # A noise variance that is given is that of the u of fixed scale, which `unpack` knows.
        learned = replace(self, constraints=replace(self.constraints, fixed_noise=None))
        fit = super(SiteProblem, learned).finish(run)
        log_likelihood = fit.log_likelihood - self.free.log_prior(run.parameters)
        model = self.in_common_noise(fit.model)
        return replace(
            fit,
            model=model,
            axes=model.principal_axes()[0],
            spectrum=spectrum_of(model, self.units.sum_w),
            log_likelihood=log_likelihood,
        )

    def in_common_noise(self, model: LinearGaussian) -> LinearGaussian:
        """The same probabilities, with u of free scale in units in which PPCA has one noise."""
        free = self.columns.free_scale
        if self.constraints.noise == "diagonal" or free.all() or not free.any():
            return model
        scale = np.where(free, np.sqrt(model.psi[~free][0]), 1.0)
        return model.rescaled(scale, self.columns.origin * (1.0 - scale)).canonical()

    def is_degenerate(self, theta: Array, like: Parameters) -> bool:
        # Expectation propagation promises no rise.
        return bool(self.columns.has_evidence.any()) or super().is_degenerate(theta, like)


def _encoded(block: Block, columns: Columns) -> KeptRows:
    return KeptRows(columns.encode(block.values, block.weight))


def _scored(block: Block, columns: Columns, q: int) -> ObservedRows:
    """Rows with the mean of u under N(0, 1) and the evidence of each cell alone."""
    rows = columns.encode(block.values, block.weight)
    U = np.where(rows.M > 0, rows.R, np.nan)
    shape = rows.evidence.first.shape
    alone = rows.evidence.tilted(np.zeros(shape), np.ones(shape)).mean
    U[:, rows.at] = np.where(rows.evidence.informative, alone, U[:, rows.at])
    return prepare_rows(U, block.weight, np.zeros(U.shape[1]), None, q)
