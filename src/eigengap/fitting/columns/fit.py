"""Factor analysis of columns of every kind: u = W z + mu + e behind each, by EM on sites."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Self

import numpy as np

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
)
from eigengap.fitting.gaussian.start import Starts, spectral_start
from eigengap.fitting.optimise.em import Mapped
from eigengap.linalg import Array
from eigengap.models.columns.model import ColumnModel
from eigengap.models.columns.table import Columns
from eigengap.models.gaussian.information import ObservationPattern
from eigengap.models.gaussian.observed_rows import ObservedRows, prepare_rows
from eigengap.models.gaussian.predictive import Predictive
from eigengap.models.gaussian.sites import SETTLED
from eigengap.sources.base import Block, Source
from eigengap.statistics.additive import Additive
from eigengap.statistics.expected.gaussian import Parameters
from eigengap.statistics.expected.sites import FreeScale, KeptRows, expected_of_sites

ROUGH_STEPS, ROUGH = 30, 0.01  # most steps with unsettled sites, and the step that ends them
LOOSEST = 1e-4  # to which sites settle where a fit is wanted with a larger tolerance
# Of a column, relative to the variance of its u: 3 % of a standard deviation. Columns that follow
# from others are met as closely; in small tables a smaller one is an overfit, and sites at it
# settle slowly.
LEAST_PSI = 1e-3
LEAST_NOISE = 0.05  # of a start, relative to u: sites settle slowly where there is less


def fit_columns(
    source: Source, columns: Columns, q: int, options: EMOptions = DEFAULT
) -> GaussianFit:
    """Maximum (approximate) likelihood of factor analysis behind columns of these kinds.

    The model and the likelihood are those of u; `Columns.log_slope` leads to that of the values.
    """
    problem = SiteProblem.of_columns(source, columns, q)
    return problem.finish(problem.run(problem.starts().first, options))


def fit_column_model(
    source: Source, columns: Columns, q: int, options: EMOptions = DEFAULT
) -> tuple[ColumnModel, GaussianFit]:
    """The fitted model of a table, with the uncertainty of its parameters, and its fit."""
    fit = fit_columns(source, columns, q, options)
    sites = source.reduce(partial(_SitePrecisions.of, model=ColumnModel(columns, fit.model)))
    k = min(n_patterns(columns.width, q), source.observed().rows)
    rows = source.sample(k, np.random.default_rng(0))
    observed = columns.encode(rows).observed > 0
    known = sites.known(fit.model.psi)
    pattern = ObservationPattern(observed, fit.observed_w, "diagonal", known=known)
    return ColumnModel(columns, fit.model, Predictive.of(fit.model, pattern)), fit


@dataclass(frozen=True, eq=False)
class _SitePrecisions(Additive):
    """Sums over the cells of each u: how much their sites say."""

    tau: Array  # (D,)
    count: Array  # (D,)

    @classmethod
    def of(cls, block: Block, model: ColumnModel) -> _SitePrecisions:
        rows, _, sites = model.posteriors(block.values)
        tau, count = np.zeros(rows.R.shape[1]), np.zeros(rows.R.shape[1])
        tau[rows.at] = sites.tau.sum(axis=0)
        count[rows.at] = np.count_nonzero(sites.tau, axis=0)
        return cls(tau, count)

    def known(self, psi: Array) -> Array:
        """(D,) variance that a typical cell has besides psi; 0 where cells give u."""
        mean = self.tau / np.maximum(self.count, 1.0)
        return np.where(mean > 0, np.maximum(1.0 / np.where(mean > 0, mean, 1.0) - psi, 0.0), 0.0)


@dataclass(frozen=True, eq=False)
class _LatentCounts(Additive):
    """How often each latent column is observed."""

    observed: Array  # (D,)
    sum_w: float

    @classmethod
    def of(cls, block: Block, columns: Columns) -> _LatentCounts:
        observed = columns.encode(block.values, block.weight).observed
        w = np.ones(len(observed)) if block.weight is None else block.weight
        return cls(w @ observed, float(np.sum(w)))


@dataclass(frozen=True, eq=False, kw_only=True)
class SiteProblem(GaussianProblem):
    """Cells that give evidence about u."""

    columns: Columns
    settled: float = SETTLED

    @classmethod
    def of_columns(cls, source: Source, columns: Columns, q: int) -> Self:
        if columns.width == 0:
            raise ValueError("every column has a single level, so there is nothing to fit")
        counts = source.reduce(partial(_LatentCounts.of, columns=columns))
        ones = np.ones(columns.width)
        # A question that no cell was asked has the parameters of its prior.
        observed = np.maximum(counts.observed, 1.0)
        units = Units(np.zeros(columns.width), ones, ones, observed, counts.sum_w)
        how = Specification("diagonal").constraints(units)
        how = replace(how, floor=np.maximum(how.floor, LEAST_PSI))
        rows = source.prepared(partial(_encoded, columns=columns))
        packing = Packing(units, how, (q,))
        return cls(source, rows, units, q, how, packing, columns=columns)

    def starts(self) -> Starts:
        """Spectral, on rows with the mean of u given its own cell alone."""
        scores = self.source.prepared(partial(_scored, columns=self.columns, q=self.q))
        # Factors of a covariance need all of its pairs, and questions that few cells are asked are
        # never observed together: principal axes do.
        axes = replace(self.constraints, noise="isotropic")
        starts = spectral_start(scores, self.q, self.units, axes)

        def sized(start: Parameters) -> Parameters:
            psi = np.maximum(start.psi, LEAST_NOISE)
            unit = np.where(self.columns.free_scale, 1.0 / np.sqrt(psi), 1.0)
            W = start.W * unit[:, None]
            return replace(start, W=W, delta=start.delta * unit, psi=psi * unit**2)

        return starts.map(sized)

    def run(self, start: Parameters, options: EMOptions) -> Run[Parameters]:
        """EM, at first with sites that make one step for each of its own (`rough`)."""
        passes = min(options.max_iter, MOST_PASSES)
        most = min(ROUGH_STEPS, options.max_iter // 2)
        near = self.rough(start, most, max(ROUGH, options.tol), passes)
        careful = replace(self, settled=min(max(options.tol, SETTLED), LOOSEST))
        return super(SiteProblem, careful).run(near, options)

    def rough(self, start: Parameters, most: int, tol: float, passes: int) -> Parameters:
        """At most so many steps of plain EM, until they are smaller than `tol`.

        Far from the maximum sites need not settle. What these steps arrive at is as good as others,
        for the likelihood is stationary in the sites; but neither the guard of EM nor a gradient
        may rely on them.
        """
        theta, bounds = self.pack(start), self.bounds(start)
        for _ in range(most):
            at = self.unpack(theta)
            one = partial(expected_of_sites, coefficients=at, passes=passes, settles=False)
            try:
                image = self.pack(self.free.maximise(self.rows.reduce(one), at, self.constraints))
            except np.linalg.LinAlgError:  # careful steps go on from here
                break
            if not np.all(np.isfinite(image)):
                break
            change = float(np.max(np.abs(image - theta), initial=0.0))
            theta = bounds.clip(image)
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
        return FreeScale(self.columns.free_scale)

    def apply(self, theta: Array, like: Parameters | None = None, passes: int = 1) -> Mapped:
        mapped = super().apply(theta, like, passes)
        prior = self.free.log_prior(self.unpack(theta))
        return mapped._replace(objective=mapped.objective + prior)

    def finish(self, run: Run[Parameters]) -> GaussianFit:
        fit = super().finish(run)
        log_likelihood = fit.log_likelihood - self.free.log_prior(run.parameters)
        return replace(fit, log_likelihood=log_likelihood)

    def is_degenerate(self, theta: Array, like: Parameters) -> bool:
        return True  # expectation propagation promises no rise


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
