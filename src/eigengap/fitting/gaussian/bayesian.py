"""Bayesian PCA: variational Bayes on the seen cells, and how many components it needs.

The updates of `statistics.expected.variational` are a map that never lowers the evidence bound, so
they run in the same accelerated and guarded loop as maximum likelihood. Components that the data do
not ask for shrink towards nothing under automatic relevance determination, but slowly: once their
loadings are less than their spread they are removed, if the bound is no lower without them. Others
are removed only if the bound rises by 7 nats without them, for mean field overstates the price of a
component: with any rise removed, 30 x 10 tables of four components kept 2.6 on average instead of
3.4, at a held-out density below maximum likelihood's. In tables of 30 x 10 and 50 x 20 the bound
rises by up to 7 nats without a true component, in tables of 5 000 x 10 by 17 to 19 without noise
that looks like one. Where the number of components is left open the fit begins with a few, and with
twice as many as long as all of them are kept.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from eigengap.fitting.eigen.range import refuse_out_of_range, refuse_tiny_columns
from eigengap.fitting.gaussian.noise import Frame, GaussianNoise
from eigengap.fitting.gaussian.problem import (
    DEFAULT,
    EMOptions,
    GaussianFit,
    Noise,
    column_units,
    noise_floor,
    spectrum_of,
)
from eigengap.fitting.gaussian.start import spectral_start
from eigengap.fitting.optimise.em import EMResult, Mapped, em
from eigengap.fitting.optimise.loop import Trace
from eigengap.linalg import Array, sign_rule, unpack
from eigengap.models.gaussian.bayesian import BayesianLinearGaussian, Gammas
from eigengap.models.gaussian.linear_gaussian import LinearGaussian
from eigengap.models.gaussian.observed_rows import ObservedRows
from eigengap.models.gaussian.row_posterior import Coefficients
from eigengap.sources.base import Source
from eigengap.statistics.expected.gaussian import Constraints, Expected, Parameters
from eigengap.statistics.expected.variational import Beliefs, Prior, bound, improved, start
from eigengap.statistics.moments import ColumnMoments

BROAD = Prior(
    loading_shape=1e-3, loading_rate=1e-3, noise_shape=1e-6, noise_rate=1e-6, mean_precision=1e-6
)

FEW = 8  # components that an open fit begins with
LOOSE = 1e-2  # tolerance at which components are first removed
LARGEST_RATIO = 1e-7  # of the least noise variance to the largest variance of a column
LOST_IN_PRODUCTS = 1e3  # signal over noise beyond which an E-step may have fewer than nine digits
HEARD = 0.5  # share of E[w^2] that is the size of the loadings, not their spread: less is silence
DECISIVE = 7.0  # nats by which the bound must rise for a component that is not silent to go
ROUNDS = 3  # of updates after a removal, before the bounds are compared


@dataclass(frozen=True, eq=False)
class BayesianFit(GaussianFit):
    """`model` is the predictive density, `log_likelihood` its own, `trace` that of the bound."""

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
    """Fit at most q components, or as many as the bound asks for.

    The prior speaks of columns of unit variance (on average, or each, by `noise`).
    """
    columns = source.reduce(ColumnMoments.of)
    total = float(np.sum(columns.variance))
    refuse_out_of_range(source, total, fit_mean=True)
    if noise == "diagonal":
        refuse_tiny_columns(source, columns.variance)
    sum_w = source.observed().sum_w
    if total == 0.0:
        return _constant(columns, sum_w, prior)
    varying = int(np.count_nonzero(columns.variance))
    most = max(1, min(varying - 1, int(sum_w) - 1)) if q is None else q
    size = min(most, FEW) if q is None else most
    loose = replace(options, tol=max(options.tol, LOOSE))
    while True:
        problem = _Problem.of(source, columns, sum_w, size, noise, prior)
        found = problem.reduced(problem.start(), loose, DECISIVE, Trace())
        if found.beliefs.q < size or size >= most:
            break
        size = min(2 * size, most)
    if len(found.trace) >= options.max_iter:
        return problem.finish(replace(found, converged=False))
    return problem.finish(problem.reduced(found.beliefs, options, None, found.trace))


@dataclass(frozen=True, eq=False)
class _Found:
    beliefs: Beliefs
    value: float
    converged: bool
    trace: Trace


@dataclass(frozen=True, eq=False)
class _Problem:
    """The fit in its own units: r = (x - shift) / unit."""

    rows: Source  # of SeenRows
    frame: Frame
    constraints: Constraints
    prior: Prior

    @classmethod
    def of(
        cls,
        source: Source,
        columns: ColumnMoments,
        sum_w: float,
        q: int,  # components to begin with
        noise: Noise,
        prior: Prior,
    ) -> _Problem:
        unit = column_units(columns.variance, noise)
        frame = Frame(
            q=q,
            shift=columns.mean,
            unit=unit,
            variance=columns.variance / unit**2,
            share_observed=columns.sum_w / sum_w,
            sum_w=sum_w,
        )
        # Uncertain loadings are summed by products alone, which bear less contrast than residuals.
        largest = float(np.max(frame.variance))
        floor = max(noise_floor(frame.variance, noise), LARGEST_RATIO * largest)
        cells = np.max(columns.sum_w) if noise == "diagonal" else np.sum(columns.sum_w)
        # As much prior evidence as keeps 1 / E[tau] above the floor, where products lose digits.
        rate = max(prior.noise_rate, 0.5 * floor * float(cells))
        return cls(
            rows=source.prepared(partial(GaussianNoise().prepare, frame=frame)),
            frame=frame,
            constraints=Constraints(noise=noise, floor=np.full(len(unit), floor)),
            prior=replace(prior, noise_rate=rate),
        )

    @property
    def observed_w(self) -> Array:
        """(d,) weighted number of rows in which each feature was seen."""
        return self.frame.share_observed * self.frame.sum_w

    @property
    def cells(self) -> float:
        return float(np.sum(self.observed_w))

    # Where it starts -----------------------------------------------------------------------

    def start(self) -> Beliefs:
        """The spectral start, as sure of its loadings as so many rows allow."""
        frame = self.frame
        first = spectral_start(
            self.rows,
            frame.q,
            frame.variance,
            frame.share_observed,
            frame.sum_w,
            self.constraints,
            thorough=False,
        ).first
        mean = np.vstack([first.W.T, first.delta])
        return start(mean, self._noise_of(first), self.observed_w, self.prior)

    def _noise_of(self, first: Parameters) -> Gammas:
        if self.constraints.noise == "diagonal":
            shape = self.prior.noise_shape + 0.5 * self.observed_w
            return Gammas(shape, shape * first.psi)
        shape = np.array([self.prior.noise_shape + 0.5 * self.cells])
        # Noise that starts too small grows slowly where few columns are left to show it.
        weakest = float(np.min(np.sum(first.W**2, axis=0)))
        return Gammas(shape, shape * np.maximum(first.psi[:1], 0.3 * weakest))

    # The loop ------------------------------------------------------------------------------

    def reduced(
        self, beliefs: Beliefs, options: EMOptions, decisive: float | None, trace: Trace
    ) -> _Found:
        """Updates until they rest and no component is switched off, after those of `trace`."""
        while True:
            run = self._em(beliefs, replace(options, max_iter=options.max_iter - len(trace)))
            trace = _joined(trace, run.trace)
            beliefs = self.unpack(run.theta, beliefs)
            smaller = self._with_fewer(beliefs, run.objective, decisive)
            if smaller is None or len(trace) >= options.max_iter:
                return _Found(beliefs, run.objective, run.converged, trace)
            beliefs = smaller

    def _em(self, beliefs: Beliefs, options: EMOptions) -> EMResult:
        return em(
            partial(self.apply, like=beliefs, passes=options.max_iter),
            self.pack(beliefs),
            tol=options.tol,
            max_iter=options.max_iter,
            cells=self.cells,
            is_degenerate=partial(self._is_degenerate, like=beliefs),
            watch=options.watch,
        )

    def _is_degenerate(self, theta: Array, like: Beliefs) -> bool:
        """Whether rounding of the latent means, eps s^2 at a signal to noise of s, may be felt."""
        beliefs = self.unpack(theta, like)
        strength = np.sum(beliefs.mean[:-1] ** 2, axis=0) * beliefs.tau.mean()
        return bool(np.max(strength) > LOST_IN_PRODUCTS)

    def _with_fewer(self, beliefs: Beliefs, value: float, decisive: float | None) -> Beliefs | None:
        """Fewer components at a bound no lower, or None. One is always kept.

        Tried are: without all that are silent; without the weakest, if it is silent; without the
        weakest, if the bound then rises by `decisive`, what the prior of its alpha cost left out.
        """
        beliefs = beliefs.principal()
        strength = np.sum(beliefs.mean[:-1] ** 2, axis=1) / np.diag(beliefs.second_moment())[:-1]
        place = np.argsort(np.argsort(-strength))  # (q,) 0 for the surest
        heard = max(int(np.sum(strength >= HEARD)), 1)
        if heard < beliefs.q:
            goals = dict.fromkeys((heard, beliefs.q - 1), value)
        elif decisive is not None and beliefs.q > 1:
            saved = self._price(beliefs) - self._price(beliefs.only(place < heard - 1))
            goals = {heard - 1: value + decisive + max(saved, 0.0)}
        else:
            return None
        trials = (self._settled(beliefs.only(place < kept), goal) for kept, goal in goals.items())
        return next((trial for trial in trials if trial is not None), None)

    def _price(self, beliefs: Beliefs) -> float:
        """What the prior of alpha costs the bound."""
        prior = self.prior
        return beliefs.relevance(prior).divergence(prior.loading_shape, prior.loading_rate)

    def _settled(self, beliefs: Beliefs, goal: float) -> Beliefs | None:
        """The beliefs after as few plain updates as bring the bound to the goal, or None.

        The climb slows down from round to round, so that it is soon seen to be hopeless.
        """
        before = -np.inf
        for left in range(ROUNDS, -1, -1):
            expected = self._expected(beliefs, passes=1)
            value = bound(expected, beliefs, self.prior)
            if value >= goal:
                return beliefs
            if value + left * (value - before) < goal:
                return None
            before = value
            beliefs = improved(expected, beliefs, self.prior)
        return None

    def apply(self, theta: Array, like: Beliefs, passes: int) -> Mapped:
        """The map: one pass over the rows."""
        current = self.unpack(theta, like)
        expected = self._expected(current, passes)
        value = bound(expected, current, self.prior)
        updated = improved(expected, current, self.prior)
        return Mapped(self.pack(updated), value, moved=self._moved(current, updated))

    def _moved(self, current: Beliefs, updated: Beliefs) -> float:
        """The step in units in which half its square is a gain per row: means by the noise.

        Variances count by their ratio: those of a component that vanishes are all but 0 long
        before the bound rests.
        """
        means = np.abs(updated.mean - current.mean) * np.sqrt(current.tau.mean())
        diagonal = np.cumsum(np.arange(1, current.q + 2)) - 1
        ratio = np.abs(np.log(updated.cov[diagonal] / current.cov[diagonal]))
        return max(float(np.max(means)), float(np.max(ratio) / np.sqrt(self.frame.sum_w)))

    def _expected(self, beliefs: Beliefs, passes: int) -> Expected:
        return self._e_step(beliefs.coefficients(), passes)

    def _e_step(self, coefficients: Coefficients, passes: int) -> Expected:
        of: Callable[[ObservedRows], Expected] = partial(
            Expected.of, coefficients=coefficients, passes=min(passes, 50)
        )
        return self.rows.reduce(of)

    def pack(self, beliefs: Beliefs) -> Array:
        """Beliefs as one vector, each coordinate of size about 1 or less."""
        size = self._size()
        return np.concatenate(
            [
                (beliefs.mean / size).ravel(),
                (beliefs.cov / size**2).ravel(),
                np.log(beliefs.tau.rate),
            ]
        )

    def unpack(self, theta: Array, like: Beliefs) -> Beliefs:
        """The other way; covariances that an extrapolation made indefinite fail to factorise."""
        (q1, d), K = like.mean.shape, len(like.cov)
        size = self._size()
        mean, cov, tau = np.split(theta, np.cumsum([q1 * d, K * d]))
        return Beliefs(
            mean=mean.reshape(q1, d) * size,
            cov=cov.reshape(K, d) * size**2,
            tau=Gammas(like.tau.shape, np.exp(np.clip(tau, -700.0, 700.0))),
        )

    def _size(self) -> Array:
        """(d,) standard deviation of each column in the fit's units; 1 for constant columns."""
        variance = self.frame.variance
        return np.where(variance > 0, np.sqrt(variance), 1.0)

    # What it leaves ------------------------------------------------------------------------

    def finish(self, found: _Found) -> BayesianFit:
        # A density in units of `unit` is one in the data's units times the Jacobian, cell by cell.
        jacobian = float(np.log(self.frame.unit) @ self.observed_w)
        bayesian = self._value(found.beliefs)
        at_floor = bayesian.noise_variance() <= 2.0 * self.constraints.floor
        predictive = bayesian.predictive()
        coefficients = Coefficients(predictive.W, predictive.mu, predictive.psi)
        log_likelihood = self._e_step(coefficients, passes=1).log_likelihood
        bayesian = bayesian.rescaled(self.frame.unit, self.frame.shift)
        means = bayesian.at_means()
        trace = found.trace
        return BayesianFit(
            model=bayesian.predictive(),
            axes=means.principal_axes()[0],
            spectrum=spectrum_of(means, self.frame.sum_w),
            log_likelihood=log_likelihood - jacobian,
            observed_w=self.observed_w,
            sum_w=self.frame.sum_w,
            converged=found.converged,
            trace=Trace(trace.objective - jacobian, trace.change, trace.seconds),
            at_floor=tuple(int(j) for j in np.flatnonzero(at_floor)),
            bayesian=bayesian,
            elbo=found.value - jacobian,
        )

    def _value(self, beliefs: Beliefs) -> BayesianLinearGaussian:
        """The beliefs as a value, with signs by the rule and, of one unit, its relevances."""
        beliefs = beliefs.principal()
        sign = np.append(sign_rule(beliefs.mean[:-1].T), 1.0)
        mean = beliefs.mean.T * sign
        alpha = beliefs.relevance(self.prior)
        if self.constraints.noise == "isotropic":
            alpha = Gammas(alpha.shape, alpha.rate * self.frame.unit[0] ** 2)
        return BayesianLinearGaussian(
            W=mean[:, :-1],
            mu=mean[:, -1],
            cov=unpack(beliefs.cov.T, beliefs.q + 1) * np.outer(sign, sign),
            noise=beliefs.tau,
            relevance=alpha,
        )


def _joined(a: Trace, b: Trace) -> Trace:
    seconds = b.seconds + (a.seconds[-1] if len(a) else 0.0)
    return Trace(
        np.concatenate([a.objective, b.objective]),
        np.concatenate([a.change, b.change]),
        np.concatenate([a.seconds, seconds]),
    )


def _constant(columns: ColumnMoments, sum_w: float, prior: Prior) -> BayesianFit:
    """All rows are equal in what was seen: no loadings, no noise, and no density."""
    d = len(columns.mean)
    bayesian = BayesianLinearGaussian(
        W=np.zeros((d, 1)),
        mu=columns.mean,
        cov=np.zeros((d, 2, 2)),
        noise=Gammas(np.full(1, 0.5 * float(np.sum(columns.sum_w))), np.zeros(1)),
        relevance=Gammas(np.full(1, 0.5 * d), np.full(1, prior.loading_rate)),
    )
    model = LinearGaussian(W=bayesian.W, mu=bayesian.mu, psi=np.zeros(d))
    return BayesianFit(
        model=model,
        axes=np.eye(d, 1),
        spectrum=spectrum_of(model, sum_w),
        log_likelihood=float("inf"),
        observed_w=columns.sum_w,
        sum_w=sum_w,
        converged=True,
        trace=Trace(),
        at_floor=tuple(range(d)),
        bayesian=bayesian,
        elbo=float("inf"),
    )
