"""Maximum likelihood of a linear-Gaussian model by EM, from rows with gaps.

PPCA and factor analysis differ only in `Constraints`, kinds of noise in `noise_kinds`. The fit runs
in units in which the columns are of size 1 (factor analysis: each column by its own standard
deviation, for it is covariant under rescaling; PPCA: all columns by one number), measured from the
column means.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from math import inf
from typing import Literal

import numpy as np

from eigengap.fitting.eigen.range import refuse_out_of_range, refuse_tiny_columns
from eigengap.fitting.gaussian.noise import (
    FIRST_NU,
    Frame,
    GaussianNoise,
    KnownNoise,
    NoiseKind,
    StudentNoise,
)
from eigengap.fitting.gaussian.start import Starts, random_start
from eigengap.fitting.optimise.climb import Bounds, Slope, loading_scale
from eigengap.fitting.optimise.em import EMResult, Mapped, em
from eigengap.fitting.optimise.loop import Trace, Watch
from eigengap.linalg import Array
from eigengap.models.gaussian.linear_gaussian import LinearGaussian
from eigengap.sources.base import Source
from eigengap.spectrum import Spectrum
from eigengap.statistics.expected.known_variances import KnownVariances
from eigengap.statistics.expected.log_likelihood import LogLikelihood
from eigengap.statistics.expected.maximise import Constraints, Parameters, log_prior
from eigengap.statistics.expected.student import LARGEST_NU, least_degrees
from eigengap.statistics.moments import ColumnMoments

# Least noise variance beside the smallest variance of a column (PPCA) or the column's own (FA): a
# row's posterior covariance still has nine digits there, which EM needs to stay monotone. Factor
# analysis meets its floor in earnest (Heywood cases); 1e-6 costs less than 1e-6 nats a row. Beside
# the largest variance the noise of PPCA may be smaller, because the precisions are graded, but not
# beyond all bounds.
FLOOR: dict[str, float] = {"isotropic": 1e-6, "diagonal": 1e-6}

LARGEST_RATIO = 1e-13

LOST_IN_SUMS = 1e6  # signal over noise beyond which an E-step has fewer than nine digits

LOOSE = 1e-3  # tolerance at which several starts are compared
LOOSE_STEPS = 100  # most steps of each
TIE = 1e-4  # nats per cell by which loose runs differ that lead to the same optimum
BRIEF_STEPS = 25  # of those from other optima of the covariance
# Factor analysis of a small table has local optima: of 30 x 8 tables with 20 % missing and three
# factors one start fell short in 7 of 40, five in none. Of 18 fits
# that one start left short (docs/numerics.md), 16 were to fewer than 4000 observed values.
CHEAP_STARTS, CHEAP_CELLS = 5, 4000
SNAP_BELOW = 0.01  # a noise variance this small beside its column's may be tried at the floor
SNAP_ABOVE_NU = 30.0  # degrees of freedom beyond which the Gaussian may be tried

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


@dataclass(frozen=True)
class StudentRows:
    """Rows of their own scale, u ~ Gamma(nu / 2, nu / 2)."""

    nu: float | None = None  # None learns it


@dataclass(frozen=True, eq=False)
class GaussianFit:
    """A fitted model and how it was reached."""

    model: LinearGaussian
    axes: Array  # (d, q) orthonormal principal axes of the model
    spectrum: Spectrum
    log_likelihood: float  # of all rows, weighted
    observed_w: Array  # (d,) weighted number of rows in which each feature was seen
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
    student: StudentRows | None = None,
    options: EMOptions = DEFAULT,
) -> GaussianFit:
    """Fit x = W z + mu + e to the seen cells of a source."""
    columns = source.reduce(ColumnMoments.of)
    total = float(np.sum(columns.variance))
    with np.errstate(over="ignore"):  # refused
        about_zero = 0.0 if fit_mean else float(np.sum(columns.mean**2))
    refuse_out_of_range(source, total + about_zero, fit_mean)
    if noise == "diagonal":
        refuse_tiny_columns(source, columns.variance)
    kind = _kind(source, student)
    if total == 0.0 and fit_mean:
        return _constant(source, columns, q, kind, noise_variance or 0.0, student)
    asked = _Asked(noise, noise_variance, fit_mean, loading_precision, student)
    problem = _Problem.of(source, columns, q, asked, kind)
    return problem.finish(problem.run(options))


def _kind(source: Source, student: StudentRows | None) -> NoiseKind:
    if student is None:
        return KnownNoise() if source.has_cell_sd else GaussianNoise()
    if source.has_cell_sd:
        raise ValueError(
            "cell_sd cannot be used with Student noise: a row's scale acts on all of its noise, "
            "and what is known of a cell would not follow it. Use Gaussian noise, or leave cell_sd "
            "out"
        )
    return StudentNoise()


@dataclass(frozen=True)
class _Asked:
    """The model asked for, in the data's units."""

    noise: Noise
    noise_variance: float | None
    fit_mean: bool
    loading_precision: float
    student: StudentRows | None

    def constraints(self, frame: Frame, known: KnownVariances | None) -> Constraints:
        scaled = frame.unit[0] if self.noise == "isotropic" else 1.0
        floor = np.full(len(frame.unit), noise_floor(frame.variance, self.noise))
        if known is not None:
            floor = known.floor(floor, self.noise)
        if known is not None and self.noise_variance is not None:
            floor = np.zeros(len(floor))  # what is known keeps the noise positive
        fixed_noise = None if self.noise_variance is None else self.noise_variance / scaled**2
        return Constraints(
            noise=self.noise,
            floor=floor,
            fixed_noise=fixed_noise,
            fit_mean=self.fit_mean,
            loading_precision=self.loading_precision * scaled**2,
            fixed_nu=None if self.student is None else self.student.nu,
            least_nu=least_degrees(frame.sum_w, len(frame.unit), frame.q),
        )


@dataclass(frozen=True, eq=False)
class _Problem:
    """The fit in its own units: r = (x - shift) / unit."""

    source: Source
    rows: Source  # as the kind of noise has prepared them
    kind: NoiseKind
    frame: Frame
    known: KnownVariances | None  # of the cells of r
    constraints: Constraints

    @classmethod
    def of(
        cls, source: Source, columns: ColumnMoments, q: int, asked: _Asked, kind: NoiseKind
    ) -> _Problem:
        centre, spread = kind.columns(source, columns)
        shift = centre if asked.fit_mean else np.zeros(len(centre))
        variance = spread + (centre - shift) ** 2
        unit = column_units(variance, asked.noise)
        sum_w = source.observed().sum_w
        frame = Frame(
            q=q,
            shift=shift,
            unit=unit,
            variance=variance / unit**2,
            share_observed=columns.sum_w / sum_w,
            sum_w=sum_w,
        )
        known = None
        if source.has_cell_sd:
            known = source.reduce(KnownVariances.of).rescaled(unit)
            if asked.noise_variance == 0.0:
                known.require_everywhere(source.names)
        return cls(
            source=source,
            rows=source.prepared(partial(kind.prepare, frame=frame)),
            kind=kind,
            frame=frame,
            known=known,
            constraints=asked.constraints(frame, known),
        )

    @property
    def q(self) -> int:
        return self.frame.q

    @property
    def cells(self) -> float:
        return float(np.sum(self.frame.share_observed) * self.frame.sum_w)

    def run(self, options: EMOptions) -> EMResult:
        """EM from the spectral start, from the best of several, or from a given point."""
        if options.start is not None:
            return self._from_given(options.start, options)
        given = self.kind.start(self.source, self.rows, self.frame, self.constraints)
        others = given.others if self._is_worth_comparing(options) else ()
        starts = [given.first, *others, *self._random_starts(given, options)]
        if len(starts) == 1:
            return self._em(self.pack(given.first), options)
        # Where a start leads shows long before it has arrived: only the best goes all the way, and
        # the spectral one, so that more starts are never worse.
        few = min(options.max_iter, LOOSE_STEPS)
        loose = replace(options, tol=max(options.tol, LOOSE), max_iter=few)
        brief = replace(loose, max_iter=min(few, BRIEF_STEPS))  # which optimum, is soon seen
        loose_runs = [
            self._em(self.pack(start), brief if others and k <= len(others) else loose)
            for k, start in enumerate(starts)
        ]
        # Of starts that lead to one optimum the first goes on, whatever rounding says of them.
        least = max(run.objective for run in loose_runs) - TIE * self.cells
        best = next(run for run in loose_runs if run.objective >= least)
        end = self._finished(best, options)
        if best is loose_runs[0]:
            return end
        return max(end, self._finished(loose_runs[0], options), key=lambda run: run.objective)

    def _random_starts(self, given: Starts, options: EMOptions) -> list[Parameters]:
        """Further starts: as many as were asked for, and a few where they cost next to nothing.

        Loadings are drawn for the columns in the order of their covariances, so that a table with
        its columns in another order starts from the same points.
        """
        observed = int(np.sum(self.source.observed().per_column))  # whatever the rows weigh
        is_cheap = self.constraints.noise == "diagonal" and observed <= CHEAP_CELLS
        few = max(CHEAP_STARTS if is_cheap else 1, 1 + given.n_random)
        few = few if self._is_worth_comparing(options) else 1
        first = given.first
        rng = np.random.default_rng(options.seed)
        strength = given.strength
        if strength is None:
            strength = np.einsum("jq,jq->j", first.W, first.W)
        order = np.argsort(strength, kind="stable")
        variance, starts = self.frame.variance, []
        for _ in range(max(options.n_init, few) - 1):
            start = random_start(self.q, variance[order], self.constraints, rng)
            W, psi = np.empty_like(start.W), np.empty_like(start.psi)
            W[order], psi[order] = start.W, start.psi
            starts.append(
                Parameters(W, start.delta, np.maximum(psi, self.constraints.floor), first.nu)
            )
        return starts

    @staticmethod
    def _is_worth_comparing(options: EMOptions) -> bool:
        """Whether more starts than were asked for matter: not to a fit that is wanted roughly."""
        return options.tol < LOOSE and options.max_iter >= LOOSE_STEPS

    def _finished(self, loose: EMResult, options: EMOptions) -> EMResult:
        """A loose run continued to the tolerance asked for."""
        if loose.n_iter >= options.max_iter:
            return replace(loose, converged=False)
        rest = replace(options, max_iter=options.max_iter - loose.n_iter)
        return _continued(loose, self._em(loose.theta, rest))

    def _from_given(self, start: LinearGaussian, options: EMOptions) -> EMResult:
        """EM from a given point, which may be a saddle.

        W = 0 and non-principal eigenvectors are stationary but unstable (002 section 3.2): a small
        push that EM does not take back leads on to the maximum.
        """
        unit, shift = self.frame.unit, self.frame.shift
        given = start.rescaled(1.0 / unit, -shift / unit)
        psi = np.maximum(given.psi, self.constraints.floor)
        nu = getattr(start, "nu", FIRST_NU)
        first = Parameters(W=given.W, delta=given.mu, psi=psi, nu=nu)
        result = self._em(self.pack(first), options)
        rng = np.random.default_rng(options.seed)
        loadings = self.q * len(unit)
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
            bounds=self._bounds(),
            boundary_step=self.jump,
            is_degenerate=self.is_degenerate,
            watch=options.watch,
        )

    def is_degenerate(self, theta: Array) -> bool:
        """Whether the noise is at its floor, or so small beside the signal that sums lose it."""
        parameters = self.unpack(theta)
        signal = np.einsum("jq,jq->j", parameters.W, parameters.W)
        at_floor = parameters.psi <= self.constraints.floor * (1 + 1e-3)
        return bool(np.any(at_floor) or np.any(signal > LOST_IN_SUMS * parameters.psi))

    def jump(self, theta: Array, image: Array) -> Array | None:
        """What EM approaches only at a crawl, put there: see `_Layout.at_limits`."""
        return self._layout().at_limits(theta, image, self.constraints.floor)

    def apply(self, theta: Array, passes: int) -> Mapped:
        """The EM map: one pass over the rows."""
        current = self.unpack(theta)
        # Latent axes of falling strength make the precisions graded, and those are factorised
        # with small error however much the columns differ in size.
        noise = current.psi if self.known is None else current.psi + self.known.typical()
        strength = current.W.T @ (current.W / noise[:, None])
        turn = np.linalg.eigh(strength)[1][:, ::-1]
        current = replace(current, W=current.W @ turn)
        step = self.kind.step(self.rows, current, self.constraints, min(passes, 50))
        updated = replace(step.updated, W=step.updated.W @ turn.T)

        def slope() -> Slope:
            by = step.gradient()
            return self._slope(current, replace(by, W=by.W @ turn.T))

        value = step.log_likelihood + log_prior(current, self.constraints)
        return Mapped(self.pack(updated), value, slope)

    def _slope(self, at: Parameters, by: Parameters) -> Slope:
        """The derivatives by the entries of theta, and their scale, from those by parameters."""
        frame, layout, size = self.frame, self._layout(), self._size()
        noise = at.psi if self.known is None else at.psi + self.known.typical()
        gradient, scale = np.zeros(layout.size), np.ones(layout.size)
        gradient[layout.W] = (by.W * size[:, None]).ravel()
        share = frame.share_observed * frame.sum_w / self.cells  # of the cells, in each column
        sd = loading_scale(at.W, noise, share) / size
        scale[layout.W] = np.repeat(sd, self.q)
        scale[layout.delta] = sd
        if self.constraints.fit_mean:
            gradient[layout.delta] = by.delta * size
        if layout.n_psi:
            pooled = self.constraints.noise == "isotropic"
            by_psi = np.array([np.sum(by.psi)]) if pooled else by.psi
            gradient[layout.psi] = by_psi * (at.psi[: layout.n_psi] + layout.known)
            scale[layout.psi] = np.sqrt(2.0 / (1.0 if pooled else share))
        if layout.n_nu:
            gradient[layout.nu] = by.nu * _nu_by_tail(at.nu)
        return Slope(gradient / self.cells, scale)

    def _bounds(self) -> Bounds:
        """The floor of the noise, and the limits of the degrees of freedom."""
        layout = self._layout()
        bounds = Bounds.none(layout.size)
        if layout.n_psi:
            floor = self.constraints.floor[: layout.n_psi]
            bounds.lower[layout.psi] = np.log(floor + layout.known)
        if layout.n_nu:
            bounds.lower[layout.nu] = _tail(LARGEST_NU)
            bounds.upper[layout.nu] = _tail(self.constraints.least_nu)
        return bounds

    def pack(self, parameters: Parameters) -> Array:
        """Parameters as one vector, each coordinate of size about 1."""
        size = self._size()[:, None]
        layout = self._layout()
        theta = np.empty(layout.size)
        theta[layout.W] = (parameters.W / size).ravel()
        theta[layout.delta] = parameters.delta / size[:, 0]
        theta[layout.psi] = np.log(parameters.psi[: layout.n_psi] + layout.known)
        if layout.n_nu:
            theta[layout.nu] = _tail(parameters.nu)
        return theta

    def unpack(self, theta: Array) -> Parameters:
        size, how, layout = self._size(), self.constraints, self._layout()
        d = len(size)
        if how.fixed_noise is None:
            psi = np.exp(np.clip(theta[layout.psi], -700.0, 700.0)) - layout.known
        else:
            psi = np.array([how.fixed_noise])
        nu = how.fixed_nu if how.fixed_nu is not None else inf
        if layout.n_nu:
            nu = _nu_of_tail(float(theta[layout.nu][0]), how.least_nu)
        return Parameters(
            W=theta[layout.W].reshape(d, self.q) * size[:, None],
            delta=theta[layout.delta] * size,
            psi=np.maximum(np.broadcast_to(psi, (d,)), how.floor),
            nu=nu,
        )

    def _layout(self) -> _Layout:
        d, how = len(self.frame.unit), self.constraints
        known = np.zeros(d) if self.known is None else self.known.least
        known = known if how.noise == "diagonal" else np.array([np.min(known)])
        known = known if how.fixed_noise is None else known[:0]
        learns_nu = isinstance(self.kind, StudentNoise) and how.fixed_nu is None
        return _Layout(d, self.q, known, int(learns_nu))

    def _size(self) -> Array:
        """(d,) standard deviation of each column in the fit's units; 1 for constant columns."""
        variance = self.frame.variance
        return np.where(variance > 0, np.sqrt(variance), 1.0)

    def finish(self, run: EMResult) -> GaussianFit:
        parameters, frame = self.unpack(run.theta), self.frame
        floor = self.constraints.floor
        # A lower floor than usual is that of cells whose noise is known: to find no other is a
        # result, not a failure.
        usual = floor >= noise_floor(frame.variance, self.constraints.noise)
        at_floor = np.flatnonzero((parameters.psi <= floor * (1 + 1e-3)) & usual)
        model = LinearGaussian(W=parameters.W, mu=parameters.delta, psi=parameters.psi)
        # A density in units of `unit` is one in the data's units times the Jacobian, cell by cell.
        jacobian = float(np.sum(np.log(frame.unit) * frame.share_observed) * frame.sum_w)
        if self.constraints.fixed_noise is not None:  # below the floor too: W is the limit's
            given = np.full(len(frame.unit), self.constraints.fixed_noise)
            model, at_floor = replace(model, psi=given), at_floor[:0]
        is_below = bool(np.any(model.psi < parameters.psi))
        model = model.rescaled(frame.unit, frame.shift).canonical()
        of_kind = self.kind.model(model, parameters.nu)
        log_likelihood = run.objective - log_prior(parameters, self.constraints) - jacobian
        if is_below:  # than the noise of the steps, so that theirs is another likelihood
            log_likelihood = self.source.reduce(partial(LogLikelihood.of, model=of_kind)).value
        return GaussianFit(
            model=of_kind,
            axes=model.principal_axes()[0],
            spectrum=spectrum_of(model, frame.sum_w),
            log_likelihood=log_likelihood,
            observed_w=frame.share_observed * frame.sum_w,
            sum_w=frame.sum_w,
            converged=run.converged,
            trace=Trace(run.trace.objective - jacobian, run.trace.change, run.trace.seconds),
            at_floor=tuple(int(j) for j in at_floor),
        )


@dataclass(frozen=True, eq=False)
class _Layout:
    """Where each parameter lies in the vector that EM moves.

    Noise variances are there as ln(psi + c), c the least known noise of a cell: that is what an
    M-step moves, and without it psi = 0 would lie at minus infinity.
    """

    d: int
    q: int
    known: Array  # c, for each of the learned noise variances: 0, 1 or d of them
    n_nu: int  # 1 where degrees of freedom are learned

    @property
    def n_psi(self) -> int:
        return len(self.known)

    @property
    def W(self) -> slice:
        return slice(0, self.d * self.q)

    @property
    def delta(self) -> slice:
        return slice(self.d * self.q, self.d * (self.q + 1))

    @property
    def psi(self) -> slice:
        return slice(self.d * (self.q + 1), self.size - self.n_nu)

    @property
    def nu(self) -> slice:
        return slice(self.size - self.n_nu, self.size)

    @property
    def size(self) -> int:
        return self.d * (self.q + 1) + self.n_psi + self.n_nu

    def at_limits(self, theta: Array, image: Array, floor: Array) -> Array | None:
        """The image with what crawls put at its limit; None where nothing does.

        Small, falling noise variances go to their floor (Heywood cases; psi that the known noise
        leaves nothing to do), large, rising degrees of freedom to the Gaussian's.
        """
        target = image.copy()
        if self.n_psi == self.d or self.known.any():
            noise, least = image[self.psi], np.log(floor[: self.n_psi] + self.known)
            small = np.log(np.maximum(SNAP_BELOW, 0.5 * self.known) + self.known)
            crawls = (noise < small) & (noise > least + 1e-3) & (noise < theta[self.psi])
            target[self.psi] = np.where(crawls, least, noise)
        if self.n_nu:
            tail = image[self.nu]
            crawls = (tail < _tail(SNAP_ABOVE_NU)) & (tail < theta[self.nu])
            target[self.nu] = np.where(crawls, _tail(LARGEST_NU), tail)
        return None if np.array_equal(target, image) else target


def _tail(nu: float) -> float:
    """Degrees of freedom as a coordinate: like -ln nu where they are few, 0 for the Gaussian."""
    return float(np.log1p(10.0 / nu))


def _nu_by_tail(nu: float) -> float:
    """The derivative of nu by its coordinate."""
    return -nu * (nu + 10.0) / 10.0


def _nu_of_tail(tail: float, least: float) -> float:
    return float(10.0 / np.expm1(np.clip(tail, _tail(LARGEST_NU), _tail(least))))


def _continued(first: EMResult, second: EMResult) -> EMResult:
    """One run after the other, as one."""
    a, b = first.trace, second.trace
    seconds = np.concatenate([a.seconds, b.seconds + (a.seconds[-1] if len(a) else 0.0)])
    trace = Trace(
        np.concatenate([a.objective, b.objective]), np.concatenate([a.change, b.change]), seconds
    )
    return replace(second, trace=trace)


def _constant(
    source: Source,
    columns: ColumnMoments,
    q: int,
    kind: NoiseKind,
    noise_variance: float,
    student: StudentRows | None,
) -> GaussianFit:
    """All rows are equal in what was observed: no loadings, and no noise but what is given."""
    d, sum_w = len(columns.mean), source.observed().sum_w
    model = LinearGaussian(W=np.zeros((d, q)), mu=columns.mean, psi=np.full(d, noise_variance))
    nu = LARGEST_NU if student is None or student.nu is None else student.nu
    of_kind = kind.model(model, nu)
    return GaussianFit(
        model=of_kind,
        axes=np.eye(d, q),
        spectrum=spectrum_of(replace(model, psi=np.zeros(d)), sum_w),
        log_likelihood=source.reduce(partial(LogLikelihood.of, model=of_kind)).value,
        observed_w=columns.sum_w,
        sum_w=sum_w,
        converged=True,
        trace=Trace(),
        at_floor=() if noise_variance else tuple(range(d)),
    )


def spectrum_of(model: LinearGaussian, sum_w: float) -> Spectrum:
    """The q variances that a model knows along its axes, and its total variance."""
    _, lam = model.principal_axes()
    total = float(np.sum(model.variances()))
    return Spectrum(lam=lam, total=total, sum_w=sum_w, d=model.d, complete=False)


def noise_floor(variance: Array, noise: Noise) -> float:
    """Least noise variance, in the fit's units."""
    positive = variance[variance > 0]
    if noise == "diagonal" or len(positive) == 0:
        return FLOOR[noise]
    smallest, largest = float(np.min(positive)), float(np.max(positive))
    return max(FLOOR[noise] * smallest, LARGEST_RATIO * largest)


def column_units(variance: Array, noise: Noise) -> Array:
    """(d,) scale of each column, that of a constant one the others'; a constant table keeps its."""
    mean = float(np.mean(variance))
    common = np.full(len(variance), np.sqrt(mean) if mean > 0 else 1.0)
    return np.where(variance > 0, np.sqrt(variance), common) if noise == "diagonal" else common
