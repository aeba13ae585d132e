"""Maximum likelihood of a linear-Gaussian model by EM, from rows with gaps.

PPCA and factor analysis differ only in `Constraints`. The fit runs in units in which the columns
are of size 1 (factor analysis: each column by its own standard deviation, for it is covariant
under rescaling; PPCA: all columns by one number), measured from the column means.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

import numpy as np

from eigengap.fitting.em import EMResult, em
from eigengap.fitting.loop import Trace, Watch
from eigengap.fitting.range import refuse_out_of_range, refuse_tiny_columns
from eigengap.fitting.spectral_start import random_start, spectral_start
from eigengap.linalg import Array
from eigengap.models.linear_gaussian import LinearGaussian
from eigengap.models.row_posterior import Coefficients
from eigengap.models.seen_rows import SeenRows, prepare_rows
from eigengap.sources.base import Block, Source
from eigengap.spectrum import Spectrum
from eigengap.statistics.expected import Expected
from eigengap.statistics.maximise import Constraints, Parameters, log_prior, maximise
from eigengap.statistics.moments import ColumnMoments

# Least noise variance beside the smallest variance of a column (PPCA) or the column's own (FA): a
# row's posterior covariance still has nine digits there, which EM needs to stay monotone. Factor
# analysis meets its floor in earnest (Heywood cases); 1e-6 costs less than 1e-6 nats a row. Beside
# the largest variance the noise of PPCA may be smaller, because the precisions are graded, but not
# beyond all bounds.
FLOOR: dict[str, float] = {"isotropic": 1e-6, "diagonal": 1e-6}

LARGEST_RATIO = 1e-13

LOOSE = 1e-3  # tolerance at which several starts are compared
SNAP_BELOW = 0.01  # a noise variance this small beside its column's may be tried at the floor

Noise = Literal["isotropic", "diagonal"]


@dataclass(frozen=True)
class EMOptions:
    """How to fit, apart from the model: see `eigengap.PPCA` for the meaning of each."""

    tol: float = 1e-6
    max_iter: int = 1000
    n_init: int = 1
    seed: int = 0
    watch: Watch | None = None
    start: LinearGaussian | None = None


DEFAULT = EMOptions()


@dataclass(frozen=True, eq=False)
class GaussianFit:
    """A fitted model and how it was reached."""

    model: LinearGaussian
    axes: Array  # (d, q) orthonormal principal axes of the model
    spectrum: Spectrum
    log_likelihood: float  # of all rows, weighted
    seen_w: Array  # (d,) weighted number of rows in which each feature was seen
    sum_w: float
    converged: bool
    trace: Trace
    at_floor: tuple[int, ...]  # features whose noise variance fell to the floor

    @property
    def n_iter(self) -> int:
        return len(self.trace)


def fit_by_em(
    source: Source,
    q: int,
    noise: Noise,
    *,
    noise_variance: float | None = None,
    fit_mean: bool = True,
    loading_precision: float = 0.0,
    options: EMOptions = DEFAULT,
) -> GaussianFit:
    """Fit x = W z + mu + e to the seen cells of a source."""
    columns = source.reduce(ColumnMoments.of)
    total = float(np.sum(columns.variance))
    refuse_out_of_range(source, total, fit_mean)
    if noise == "diagonal":
        refuse_tiny_columns(source, columns.variance)
    if total == 0.0 and fit_mean:
        return _constant(columns, q, source.seen().sum_w)
    problem = _Problem.of(source, columns, q, noise, noise_variance, fit_mean, loading_precision)
    return problem.finish(problem.run(options))


@dataclass(frozen=True, eq=False)
class _Problem:
    """The fit in its own units: r = (x - shift) / unit."""

    rows: Source  # of SeenRows
    q: int
    shift: Array  # (d,)
    unit: Array  # (d,)
    variance: Array  # (d,) of r
    share_seen: Array  # (d,)
    sum_w: float
    cells: float
    constraints: Constraints

    @classmethod
    def of(
        cls,
        source: Source,
        columns: ColumnMoments,
        q: int,
        noise: Noise,
        noise_variance: float | None,
        fit_mean: bool,
        loading_precision: float,
    ) -> _Problem:
        shift = columns.mean if fit_mean else np.zeros(len(columns.mean))
        variance = columns.variance + (columns.mean - shift) ** 2
        unit = _units(variance, noise)
        sum_w = source.seen().sum_w
        prepare = partial(_prepare, shift=shift, unit=unit, q=q)
        scaled = unit[0] if noise == "isotropic" else 1.0
        return cls(
            rows=source.prepared(prepare),
            q=q,
            shift=shift,
            unit=unit,
            variance=variance / unit**2,
            share_seen=columns.sum_w / sum_w,
            sum_w=sum_w,
            cells=float(np.sum(columns.sum_w)),
            constraints=Constraints(
                noise=noise,
                floor=np.full(len(unit), _floor(variance / unit**2, noise)),
                fixed_noise=None if noise_variance is None else noise_variance / scaled**2,
                fit_mean=fit_mean,
                loading_precision=loading_precision * scaled**2,
            ),
        )

    def run(self, options: EMOptions) -> EMResult:
        """EM from the spectral start, from the best of several, or from a given point."""
        if options.start is not None:
            return self._from_given(options.start, options)
        first = spectral_start(
            self.rows, self.q, self.variance, self.share_seen, self.sum_w, self.constraints
        )
        if options.n_init == 1:
            return self._em(self.pack(first), options)
        rng = np.random.default_rng(options.seed)
        starts = [first] + [
            random_start(self.q, self.variance, self.constraints, rng)
            for _ in range(options.n_init - 1)
        ]
        # Where a start leads shows long before it has arrived: only the best goes all the way, and
        # the spectral one, so that more starts are never worse.
        loose = replace(options, tol=max(options.tol, LOOSE))
        loose_runs = [self._em(self.pack(start), loose) for start in starts]
        best = max(loose_runs, key=lambda run: run.objective)
        end = self._finished(best, options)
        if best is loose_runs[0]:
            return end
        return max(end, self._finished(loose_runs[0], options), key=lambda run: run.objective)

    def _finished(self, loose: EMResult, options: EMOptions) -> EMResult:
        """A loose run continued to the tolerance asked for."""
        rest = replace(options, max_iter=max(options.max_iter - loose.n_iter, 1))
        return _continued(loose, self._em(loose.theta, rest))

    def _from_given(self, start: LinearGaussian, options: EMOptions) -> EMResult:
        """EM from a given point, which may be a saddle.

        W = 0 and non-principal eigenvectors are stationary but unstable (002 section 3.2): a small
        push that EM does not take back leads on to the maximum.
        """
        given = start.rescaled(1.0 / self.unit, -self.shift / self.unit)
        psi = np.maximum(given.psi, self.constraints.floor)
        result = self._em(self.pack(Parameters(W=given.W, delta=given.mu, psi=psi)), options)
        rng = np.random.default_rng(options.seed)
        loadings = self.q * len(self.unit)
        while True:
            theta = result.theta.copy()
            theta[:loadings] += 1e-2 * rng.standard_normal(loadings)
            pushed = self._em(theta, options)
            if pushed.objective <= result.objective + 1e-7 * self.cells:
                return result
            result = _continued(result, pushed)

    def _em(self, theta: Array, options: EMOptions) -> EMResult:
        return em(
            partial(self.apply, passes=options.max_iter),
            theta,
            tol=options.tol,
            max_iter=options.max_iter,
            cells=self.cells,
            jump=self.jump if self.constraints.noise == "diagonal" else None,
            watch=options.watch,
        )

    def jump(self, theta: Array, image: Array) -> Array | None:
        """Small, falling noise variances put at the floor: EM crawls there (Heywood cases)."""
        d = len(self.unit)
        noise, floor = image[-d:], np.log(self.constraints.floor)
        crawling = (noise < np.log(SNAP_BELOW)) & (noise > floor + 1e-3) & (noise < theta[-d:])
        if not crawling.any():
            return None
        return np.concatenate([image[:-d], np.where(crawling, floor, noise)])

    def apply(self, theta: Array, passes: int) -> tuple[Array, float]:
        """The EM map: one pass over the rows."""
        current = self.unpack(theta)
        # Latent axes of falling strength make the precisions graded, and those are factorised
        # with small error however much the columns differ in size.
        strength = current.W.T @ (current.W / current.psi[:, None])
        turn = np.linalg.eigh(strength)[1][:, ::-1]
        current = replace(current, W=current.W @ turn)
        coefficients = Coefficients.of(current.W, current.delta, current.psi)
        of: Callable[[SeenRows], Expected] = partial(
            Expected.of, coefficients=coefficients, passes=min(passes, 50)
        )
        expected = self.rows.reduce(of)
        following = maximise(expected, current, self.constraints)
        following = replace(following, W=following.W @ turn.T)
        objective = expected.log_likelihood + log_prior(current, self.constraints)
        return self.pack(following), objective

    def pack(self, parameters: Parameters) -> Array:
        """Parameters as one vector, each coordinate of size about 1."""
        size = self._size()[:, None]
        psi = parameters.psi if self.constraints.noise == "diagonal" else parameters.psi[:1]
        return np.concatenate(
            [(parameters.W / size).ravel(), parameters.delta / size[:, 0], np.log(psi)]
        )

    def unpack(self, theta: Array) -> Parameters:
        d, q = len(self.unit), self.q
        size = self._size()
        psi = np.exp(np.clip(theta[d * q + d :], -700.0, 700.0))
        return Parameters(
            W=theta[: d * q].reshape(d, q) * size[:, None],
            delta=theta[d * q : d * q + d] * size,
            psi=np.maximum(np.broadcast_to(psi, (d,)), self.constraints.floor),
        )

    def _size(self) -> Array:
        """(d,) standard deviation of each column in the fit's units; 1 for constant columns."""
        return np.where(self.variance > 0, np.sqrt(self.variance), 1.0)

    def finish(self, run: EMResult) -> GaussianFit:
        parameters = self.unpack(run.theta)
        at_floor = np.flatnonzero(parameters.psi <= self.constraints.floor * (1 + 1e-3))
        model = LinearGaussian(W=parameters.W, mu=parameters.delta, psi=parameters.psi)
        # A density in units of `unit` is one in the data's units times the Jacobian, cell by cell.
        jacobian = float(np.sum(np.log(self.unit) * self.share_seen) * self.sum_w)
        if self.constraints.fixed_noise is not None:  # below the floor too: W is the limit's
            given = np.full(len(self.unit), self.constraints.fixed_noise)
            model, at_floor = replace(model, psi=given), at_floor[:0]
        model = model.rescaled(self.unit, self.shift).canonical()
        return GaussianFit(
            model=model,
            axes=model.principal_axes()[0],
            spectrum=spectrum_of(model, self.sum_w),
            log_likelihood=run.objective - log_prior(parameters, self.constraints) - jacobian,
            seen_w=self.share_seen * self.sum_w,
            sum_w=self.sum_w,
            converged=run.converged,
            trace=Trace(run.trace.objective - jacobian, run.trace.change, run.trace.seconds),
            at_floor=tuple(int(j) for j in at_floor),
        )


def _continued(first: EMResult, second: EMResult) -> EMResult:
    """One run after the other, as one."""
    a, b = first.trace, second.trace
    seconds = np.concatenate([a.seconds, b.seconds + (a.seconds[-1] if len(a) else 0.0)])
    trace = Trace(
        np.concatenate([a.objective, b.objective]), np.concatenate([a.change, b.change]), seconds
    )
    return replace(second, trace=trace)


def _constant(columns: ColumnMoments, q: int, sum_w: float) -> GaussianFit:
    """All rows are equal in what was seen: no loadings, no noise, and no density."""
    d = len(columns.mean)
    model = LinearGaussian(W=np.zeros((d, q)), mu=columns.mean, psi=np.zeros(d))
    return GaussianFit(
        model=model,
        axes=np.eye(d, q),
        spectrum=spectrum_of(model, sum_w),
        log_likelihood=float("inf"),
        seen_w=columns.sum_w,
        sum_w=sum_w,
        converged=True,
        trace=Trace(),
        at_floor=tuple(range(d)),
    )


def spectrum_of(model: LinearGaussian, sum_w: float) -> Spectrum:
    """The q variances that a model knows along its axes, and its total variance."""
    _, lam = model.principal_axes()
    total = float(np.sum(model.variances()))
    return Spectrum(lam=lam, total=total, sum_w=sum_w, d=model.d, complete=False)


def _floor(variance: Array, noise: Noise) -> float:
    """Least noise variance, in the fit's units."""
    positive = variance[variance > 0]
    if noise == "diagonal" or len(positive) == 0:
        return FLOOR[noise]
    smallest, largest = float(np.min(positive)), float(np.max(positive))
    return max(FLOOR[noise] * smallest, LARGEST_RATIO * largest)


def _units(variance: Array, noise: Noise) -> Array:
    """(d,) scale of each column; a constant table or column keeps its own units."""
    if noise == "diagonal":
        return np.where(variance > 0, np.sqrt(variance), 1.0)
    mean = float(np.mean(variance))
    return np.full(len(variance), np.sqrt(mean) if mean > 0 else 1.0)


def _prepare(block: Block, shift: Array, unit: Array, q: int) -> SeenRows:
    # A sparse table is complete, and centring fills it: EM has no use for its zeros.
    values = block.values if isinstance(block.values, np.ndarray) else block.values.toarray()
    return prepare_rows(values, block.weight, shift, unit, q)
