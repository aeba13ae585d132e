"""Bayesian PCA: variational Bayes on the observed cells, and how many components it needs.

The updates of `statistics.expected.variational` are a map that never lowers the evidence lower
bound (ELBO), so they run in the same accelerated and guarded loop as maximum likelihood. Components
that the data do not need shrink towards zero under automatic relevance determination (ARD), but
slowly. Once the loadings of a component are smaller than their posterior standard deviation it is
removed, if the ELBO is no lower without it. Others are removed only if the ELBO rises by 7 nats,
for mean field overstates the price of a component: with any rise removed, 30 x 10 tables of four
components kept 2.6 on average instead of 3.4, at a held-out density below maximum likelihood's. In
tables of 30 x 10 and 50 x 20 the ELBO rises by up to 7 nats without a true component, in tables of
5 000 x 10 by 17 to 19 without noise that looks like one. Where the number of components is left
open the fit begins with a few, and with twice as many as long as all of them are kept.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from math import inf

import numpy as np

from eigengap.fitting.gaussian.problem import (
    DEFAULT,
    EMOptions,
    GaussianFit,
    Noise,
    Problem,
    Run,
    Units,
    column_moments,
    spectrum_of,
)
from eigengap.fitting.gaussian.start import spectral_start
from eigengap.fitting.optimise.em import Mapped, Slope
from eigengap.fitting.optimise.loop import Trace
from eigengap.linalg import Array, sign_rule, unpack
from eigengap.models.gaussian.bayesian import BayesianLinearGaussian, Gammas
from eigengap.models.gaussian.linear_gaussian import LinearGaussian
from eigengap.models.gaussian.posterior import Coefficients
from eigengap.sources.base import Source
from eigengap.statistics.expected.gaussian import Constraints, Expected
from eigengap.statistics.expected.variational import (
    Prior,
    VariationalPosterior,
    elbo,
    start,
    update,
)

BROAD = Prior(
    loading_shape=1e-3, loading_rate=1e-3, noise_shape=1e-6, noise_rate=1e-6, mean_precision=1e-6
)

FEW = 8  # components that an open fit begins with
LOOSE = 1e-2  # tolerance at which components are first removed
LARGEST_RATIO = 1e-7  # of the least noise variance to the largest variance of a column
LOST_IN_PRODUCTS = 1e3  # signal over noise beyond which an E-step may have fewer than nine digits
RELEVANT = 0.5  # share of E[w^2] that is the squared mean; less and a component is irrelevant
DECISIVE = 7.0  # nats by which the ELBO must rise for a relevant component to go
ROUNDS = 3  # of updates after a removal, before the ELBOs are compared


@dataclass(frozen=True, eq=False, kw_only=True)
class BayesianFit(GaussianFit):
    """`model` is the predictive density, `log_likelihood` its own, `trace` that of the ELBO."""

    bayesian: BayesianLinearGaussian
    elbo: float


def fit_bayesian(
    source: Source,
    q: int | None,
    *,
    noise: Noise = "isotropic",
    prior: Prior = BROAD,
    options: EMOptions = DEFAULT,
) -> BayesianFit:
    """Fit at most q components, or as many as the ELBO asks for.

    The prior is for columns of unit variance (on average, or each, by `noise`).
    """
    columns = column_moments(source, noise)
    units = Units.of_columns(source, columns, noise)
    varying = int(np.count_nonzero(columns.variance))
    if varying == 0:
        return _constant(units, prior)
    problem_of = partial(BayesianProblem.of, source, units, noise=noise, prior=prior)
    return fit_components(problem_of, q, most_components(units, varying), options)


def fit_components(
    problem_of: Callable[[int], BayesianProblem], q: int | None, most: int, options: EMOptions
) -> BayesianFit:
    """At most q components, or `most` where q is open; `problem_of` has so many to begin with."""
    most = most if q is None else q
    size = min(most, FEW) if q is None else most
    loose = replace(options, tol=max(options.tol, LOOSE))
    while True:
        problem = problem_of(size)
        found = problem.reduced(problem.start(size), loose, DECISIVE)
        if found.parameters.q < size or size >= most:
            break
        size = min(2 * size, most)
    if len(found.trace) >= options.max_iter:
        return problem.finish(replace(found, converged=False))
    return problem.finish(problem.reduced(found.parameters, options, None, found.trace))


def most_components(units: Units, varying: int) -> int:
    """Of a table with so many columns that vary."""
    return max(1, min(varying - 1, int(units.sum_w) - 1))


@dataclass(frozen=True, eq=False)
class BayesianProblem(Problem[VariationalPosterior]):
    """The fit in its own units."""

    rows: Source  # of ObservedRows
    units: Units
    constraints: Constraints
    prior: Prior

    @classmethod
    def of(
        cls, source: Source, units: Units, q: int, noise: Noise, prior: Prior
    ) -> BayesianProblem:
        """q is the number of components to begin with."""
        # Uncertain loadings are summed by products alone, which bear less contrast than residuals.
        largest = float(np.max(units.variance))
        floor = max(float(np.max(units.floor(noise))), LARGEST_RATIO * largest)
        cells = float(np.max(units.observed_w)) if noise == "diagonal" else units.cells
        # As much prior evidence as keeps 1 / E[tau] above the floor, where products lose digits.
        rate = np.maximum(prior.noise_rate, 0.5 * floor * cells)
        return cls(
            rows=source.prepared(partial(units.prepare, q=q)),
            units=units,
            constraints=Constraints(noise=noise, floor=np.full(units.d, floor)),
            prior=replace(prior, noise_rate=rate),
        )

    def start(self, q: int) -> VariationalPosterior:
        """The spectral start, with posterior variances by the number of rows."""
        units, shape = self.units, self.prior.noise_shape
        first = spectral_start(self.rows, q, units, self.constraints, thorough=False).first
        if self.constraints.noise == "diagonal":
            shapes, psi = shape + 0.5 * units.observed_w, first.psi
        else:
            shapes = np.array([shape + 0.5 * units.cells])
            # Noise that starts too small grows slowly where few columns are left to show it.
            psi = np.maximum(first.psi[:1], 0.3 * float(np.min(np.sum(first.W**2, axis=0))))
        mean = np.vstack([first.W.T, first.delta])
        return start(mean, Gammas(shapes, shapes * psi), units.observed_w, self.prior)

    # The map --------------------------------------------------------------------------------

    def apply(self, theta: Array, like: VariationalPosterior, passes: int = 1) -> Mapped:
        current = self.unpack(theta, like)
        expected = self.expected(current.coefficients(), passes)
        value = elbo(expected, current, self.prior)
        updated = update(expected, current, self.prior)
        slope = self.slope(expected, current)
        return Mapped(self.pack(updated), value, slope, self._moved(current, updated))

    def slope(
        self, expected: Expected, current: VariationalPosterior
    ) -> Callable[[], Slope] | None:
        """The gradient of the ELBO by theta; none is needed where no update lowers it."""
        return None

    def expected(self, coefficients: Coefficients, passes: int = 1) -> Expected:
        return self.rows.reduce(partial(Expected.of, coefficients=coefficients, passes=passes))

    def _moved(self, current: VariationalPosterior, updated: VariationalPosterior) -> float:
        """The step in units in which half its square is a gain per row: means by the noise.

        Variances count by their ratio: those of a component that vanishes are all but 0 long
        before the ELBO rests.
        """
        means = np.abs(updated.mean - current.mean) * np.sqrt(current.precisions())
        diagonal = np.cumsum(np.arange(1, current.q + 2)) - 1
        ratio = np.abs(np.log(updated.cov[diagonal] / current.cov[diagonal]))
        return max(float(np.max(means)), float(np.max(ratio) / np.sqrt(self.units.sum_w)))

    def pack(self, parameters: VariationalPosterior) -> Array:
        size = self.units.size
        mean, cov = parameters.mean / size, parameters.cov / size**2
        return np.concatenate([mean.ravel(), cov.ravel(), np.log(parameters.tau.rate)])

    def unpack(self, theta: Array, like: VariationalPosterior) -> VariationalPosterior:
        """The other way; covariances that an extrapolation made indefinite fail to factorise."""
        size = self.units.size
        mean, cov, tau = np.split(theta, np.cumsum([like.mean.size, like.cov.size]))
        return replace(
            like,
            mean=mean.reshape(like.mean.shape) * size,
            cov=cov.reshape(like.cov.shape) * size**2,
            tau=Gammas(like.tau.shape, np.exp(np.clip(tau, -700.0, 700.0))),
        )

    def is_degenerate(self, theta: Array, like: VariationalPosterior) -> bool:
        """Whether rounding of the latent means, eps s^2 at a signal to noise of s, may matter."""
        at = self.unpack(theta, like)
        strength = np.sum(at.mean[:-1] ** 2, axis=0) * at.precisions()
        return bool(np.max(strength) > LOST_IN_PRODUCTS)

    # Components -----------------------------------------------------------------------------

    def reduced(
        self,
        posterior: VariationalPosterior,
        options: EMOptions,
        decisive: float | None,
        before: Trace | None = None,
    ) -> Run[VariationalPosterior]:
        """Updates until they rest and no component is switched off, after those of `before`.

        A fit that has used up its steps still removes the components that are irrelevant.
        """
        trace = Trace() if before is None else before
        while True:
            left = replace(options, max_iter=options.max_iter - len(trace))
            run = self.run(posterior, left)
            trace = trace.then(run.trace)
            if len(trace) >= options.max_iter:
                return self._without_irrelevant(replace(run, trace=trace))
            smaller = self._with_fewer(run.parameters, run.objective, decisive)
            if smaller is None:
                return replace(run, trace=trace)
            posterior = smaller

    def _without_irrelevant(self, run: Run[VariationalPosterior]) -> Run[VariationalPosterior]:
        while (smaller := self._with_fewer(run.parameters, run.objective, None)) is not None:
            value = elbo(self.expected(smaller.coefficients()), smaller, self.prior)
            run = replace(run, parameters=smaller, objective=value)
        return run

    def _with_fewer(
        self, posterior: VariationalPosterior, elbo: float, decisive: float | None
    ) -> VariationalPosterior | None:
        """Fewer components at an ELBO no lower, or None. One is always kept.

        Tried are: without all that are irrelevant; without the weakest, if it is irrelevant;
        without the weakest, if the ELBO then rises by `decisive`, not counting what the prior of
        its alpha cost.
        """
        posterior = posterior.principal()
        second = np.diag(posterior.second_moment())[:-1]
        strength = np.sum(posterior.mean[:-1] ** 2, axis=1) / second
        place = np.argsort(np.argsort(-strength))  # (q,) 0 for the most certain
        relevant = max(int(np.sum(strength >= RELEVANT)), 1)
        if relevant < posterior.q:
            goals = dict.fromkeys((relevant, posterior.q - 1), elbo)
        elif decisive is not None and posterior.q > 1:
            saved = self._price(posterior) - self._price(posterior.only(place < relevant - 1))
            goals = {relevant - 1: elbo + decisive + max(saved, 0.0)}
        else:
            return None
        trials = (self._settled(posterior.only(place < kept), goal) for kept, goal in goals.items())
        return next((trial for trial in trials if trial is not None), None)

    def _price(self, posterior: VariationalPosterior) -> float:
        """What the prior of alpha costs the ELBO."""
        prior = self.prior
        return posterior.relevance(prior).divergence(prior.loading_shape, prior.loading_rate)

    def _settled(self, posterior: VariationalPosterior, goal: float) -> VariationalPosterior | None:
        """The posterior after as few plain updates as bring the ELBO to the goal, or None.

        The ascent slows down from round to round, so that it is soon clear whether to give up.
        """
        before = -np.inf
        for left in range(ROUNDS, -1, -1):
            expected = self.expected(posterior.coefficients())
            value = elbo(expected, posterior, self.prior)
            if value >= goal:
                return posterior
            if value + left * (value - before) < goal:
                return None
            before = value
            posterior = update(expected, posterior, self.prior)
        return None

    # What it leaves -------------------------------------------------------------------------

    def finish(self, run: Run[VariationalPosterior]) -> BayesianFit:
        units = self.units
        bayesian = self._value(run.parameters)
        at_floor = bayesian.noise_variance() <= 2.0 * self.constraints.floor
        predictive = bayesian.predictive()
        coefficients = Coefficients(predictive.W, predictive.mu, predictive.psi)
        log_likelihood = self.expected(coefficients).log_likelihood
        bayesian = bayesian.rescaled(units.unit, units.shift)
        means = bayesian.at_means()
        return BayesianFit(
            model=bayesian.predictive(),
            axes=means.principal_axes()[0],
            spectrum=spectrum_of(means, units.sum_w),
            log_likelihood=log_likelihood - units.log_jacobian,
            observed_w=units.observed_w,
            sum_w=units.sum_w,
            converged=run.converged,
            trace=units.in_data(run.trace),
            at_floor=tuple(int(j) for j in np.flatnonzero(at_floor)),
            bayesian=bayesian,
            elbo=run.objective - units.log_jacobian,
        )

    def _value(self, posterior: VariationalPosterior) -> BayesianLinearGaussian:
        """The posterior as a model, with signs by the rule and, of one unit, its relevances."""
        posterior = posterior.principal()
        sign = np.append(sign_rule(posterior.mean[:-1].T), 1.0)
        mean = posterior.mean.T * sign
        alpha, noise = posterior.relevance(self.prior), posterior.tau
        if posterior.tau_of is not None:
            noise = Gammas(noise.shape[posterior.tau_of], noise.rate[posterior.tau_of])
        if self.constraints.noise == "isotropic":
            alpha = Gammas(alpha.shape, alpha.rate * self.units.unit[0] ** 2)
        return BayesianLinearGaussian(
            W=mean[:, :-1],
            mu=mean[:, -1],
            cov=unpack(posterior.cov.T, posterior.q + 1) * np.outer(sign, sign),
            noise=noise,
            relevance=alpha,
        )


def _constant(units: Units, prior: Prior) -> BayesianFit:
    """All rows are equal in what was observed: no loadings, no noise, and no density."""
    d, mean = units.d, units.shift
    bayesian = BayesianLinearGaussian(
        W=np.zeros((d, 1)),
        mu=mean,
        cov=np.zeros((d, 2, 2)),
        noise=Gammas(np.full(1, 0.5 * units.cells), np.zeros(1)),
        relevance=Gammas(np.full(1, 0.5 * d), np.full(1, prior.loading_rate)),
    )
    model = LinearGaussian(W=bayesian.W, mu=mean, psi=np.zeros(d))
    return BayesianFit(
        model=model,
        axes=np.eye(d, 1),
        spectrum=spectrum_of(model, units.sum_w),
        log_likelihood=inf,
        observed_w=units.observed_w,
        sum_w=units.sum_w,
        at_floor=tuple(range(d)),
        bayesian=bayesian,
        elbo=inf,
    )
